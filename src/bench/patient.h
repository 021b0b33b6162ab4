/*
 * patient.h - work that storage may hang, done by a thread of its own: the caller waits as long as
 * there is progress, and leaves the thread behind otherwise.
 */
#ifndef STK_BENCH_PATIENT_H
#define STK_BENCH_PATIENT_H

#include <stdbool.h>

#include "base/err.h"
#include "sched/comm.h"

#define STK_PATIENCE_S 300.0 /* unless told */

struct stk_patient;

typedef int stk_patient_fn(void *arg, struct stk_err *err);

/* patience_s: 0 for the default. comm (may be NULL) and dir, for messages, are borrowed. Caller
 * closes with stk_patient_close(). */
int stk_patient_open(struct stk_comm *comm, const char *dir, double patience_s,
                     struct stk_patient **out, struct stk_err *err);
/* Runs fn(arg) in the thread and waits. STK_E_STOPPED if there was no progress for so long, or if a
 * rank was lost: fn may still run then, so arg and what it points to stay in place
 * (stk_patient_is_stuck()), and no other call is possible. */
int stk_patient_call(struct stk_patient *p, stk_patient_fn *fn, void *arg, struct stk_err *err);
/* From fn: something has come back. */
void stk_patient_beat(struct stk_patient *p);
bool stk_patient_is_stuck(const struct stk_patient *p);
/* Keeps memory that a thread which hangs may still use: it is never freed, but no leak either. */
void stk_patient_forsake(void *p);
/* Leaves a thread that is stuck behind. NULL is fine. */
void stk_patient_close(struct stk_patient *p);

#endif
