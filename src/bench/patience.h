/* patience.h - how long a rank waits for storage, and the thread that storage may hold for ever. */
#ifndef STK_BENCH_PATIENCE_H
#define STK_BENCH_PATIENCE_H

#include "base/thread.h"
#include "sched/comm.h"

#define STK_PATIENCE_S 300.0 /* unless told */

struct stk_bench_patience {
    struct stk_comm *comm; /* may be NULL; borrowed, as dir is, which is for messages */
    const char *dir;
    double seconds; /* without progress; 0: STK_PATIENCE_S */
    struct stk_thread *thread;
    bool stuck; /* it did not return: nothing that it uses may be freed, and no call be made */
};

int stk_bench_patience_open(struct stk_bench_patience *p, struct stk_err *err);
/* Runs fn(user) in the thread and waits. STK_E_STOPPED and p->stuck: there was no progress for so
 * long, or a rank was lost. drop: see stk_thread_begin(). */
int stk_bench_within(struct stk_bench_patience *p, stk_thread_fn *fn, void (*drop)(void *user),
                     void *user, struct stk_err *err);
/* From fn: something has come back. Negative: nobody waits any more. */
int stk_bench_beat(struct stk_bench_patience *p);
void stk_bench_patience_close(struct stk_bench_patience *p);

#endif
