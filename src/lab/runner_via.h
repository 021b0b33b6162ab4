/*
 * runner_via.h - where points run: a table of executors. Which point is next, what may still be
 * spent and what is kept is the same for all of them (runner_drive.c); an executor only runs a
 * point, now or later, and says with which result.
 */
#ifndef STK_LAB_RUNNER_VIA_H
#define STK_LAB_RUNNER_VIA_H

#include "lab/runner_point.h"

enum stk_via_can {
    STK_VIA_QUEUES = 1u << 0, /* start() puts a run into a queue; its end is collected later */
    /* CPUs and GPUs are this machine's, and ours to choose from; a run is a process group of its
     * own, which we may end. Otherwise a scheduler does both. */
    STK_VIA_CHOOSES = 1u << 1,
};

struct stk_runner;
struct stk_executor {
    const char *name;          /* of --via, and in plan.json */
    unsigned can;              /* enum stk_via_can */
    const char *launcher;      /* what starts ranks there; NULL: an mpirun is looked for */
    const char *cpus_variable; /* tells the launcher the CPUs of a rank; NULL: it need not know */
    uint64_t runs_max, warmup; /* where nobody said */
    /* Whether it has what is asked for. Nothing has been made yet. NULL: start() will tell. */
    int (*check)(const struct stk_runner_plan *p, const struct stk_points *points,
                 struct stk_err *err);
    /* Whether the programs are there that it needs. */
    int (*find)(const struct stk_runner *r, struct stk_err *err);
    /* Reads what an earlier call has left in a queue. NULL: nothing ever is. */
    int (*open)(struct stk_runner *r, struct stk_err *err);
    /* Before the first start(); after the last, and also after an error. */
    int (*begin)(struct stk_runner *r, struct stk_err *err);
    void (*end)(struct stk_runner *r);
    /* The next run of a point: kept when it has ended, or counted as waiting. */
    int (*start)(struct stk_runner *r, struct stk_tally *t, struct stk_err *err);
    /* With a queue: waits until it is worth a look, and keeps what has ended. *changed: some has.
     */
    int (*collect)(struct stk_runner *r, bool *changed, struct stk_err *err);
    /* Takes back what has not begun. */
    int (*cancel)(struct stk_runner *r, struct stk_err *err);
    /* Gives back what open() has made, also when that failed. NULL: it makes nothing. */
    void (*close)(struct stk_runner *r);
};

extern const struct stk_executor stk_executor_local; /* runner_local.c */
extern const struct stk_executor stk_executor_slurm; /* runner_jobs.c */

extern const char *const stk_executor_names[]; /* NULL-terminated; the first is the usual one */
/* NULL: there is none of that name. */
const struct stk_executor *stk_executor_find(const char *name);

#endif
