/*
 * via.h - where points run: a table of executors. The order of points, the budget and the
 * journal are the same for all of them (study/drive.c); an executor only runs a point, now or
 * later, and reports the result.
 */
#ifndef STK_STUDY_VIA_H
#define STK_STUDY_VIA_H

#include "study/point.h"

enum stk_via_can {
    STK_VIA_QUEUES = 1u << 0, /* start() queues a run; its end is collected later */
    /* CPUs and GPUs belong to this machine, and we choose; a run is a process group of its own,
     * which we may end. Otherwise a scheduler does both. */
    STK_VIA_CHOOSES = 1u << 1,
};

struct stk_runner;
struct stk_executor {
    const char *name;          /* of --via, and in plan.json */
    unsigned can;              /* enum stk_via_can */
    const char *launcher;      /* what starts ranks there; NULL: an mpirun is searched for */
    const char *cpus_variable; /* tells the launcher the CPUs per rank; NULL: not needed */
    uint64_t runs_max, warmup; /* defaults */
    /* Whether it has the requested resources. Nothing exists yet. NULL: start() will tell. */
    int (*check)(const struct stk_runner_plan *p, const struct stk_points *points,
                 struct stk_err *err);
    /* Whether the programs it needs exist. */
    int (*find)(const struct stk_runner *r, struct stk_err *err);
    /* Reads what an earlier call left in a queue. NULL: there is no queue. */
    int (*open)(struct stk_runner *r, struct stk_err *err);
    /* Before the first start(); after the last, also after an error. */
    int (*begin)(struct stk_runner *r, struct stk_err *err);
    void (*end)(struct stk_runner *r);
    /* The next run of a point: kept when it has ended, or counted as waiting. */
    int (*start)(struct stk_runner *r, struct stk_tally *t, struct stk_err *err);
    /* With a queue: waits until it is worth a look, and keeps what has ended. *changed: there was
     * some. */
    int (*collect)(struct stk_runner *r, bool *changed, struct stk_err *err);
    /* Cancels what has not started; all: also what is running. Keeps a run of each that says why.
     */
    int (*cancel)(struct stk_runner *r, bool all, const char *why, struct stk_err *err);
    /* Releases what open() made, also after an error. NULL: nothing to release. */
    void (*close)(struct stk_runner *r);
};

extern const struct stk_executor stk_executor_local; /* study/local.c */
extern const struct stk_executor stk_executor_slurm; /* study/jobs.c */

extern const char *const stk_executor_names[]; /* NULL-terminated; the first is the default */
/* NULL: no executor of that name. */
const struct stk_executor *stk_executor_find(const char *name);

#endif
