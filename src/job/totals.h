/*
 * totals.h - many jobs: which are meant, their order, what each cost, and what all of them used and
 * left idle.
 */
#ifndef STK_JOB_TOTALS_H
#define STK_JOB_TOTALS_H

#include "job/job.h"
#include "scaling/scaling.h"

/* ---- which jobs (job/select.c) -------------------------------------------------------------- */

struct stk_job_filter {
    unsigned states;        /* 1 << enum stk_slurm_state; 0: any */
    const char *name;       /* a pattern as of a shell; NULL: any */
    const char *partitions; /* separated by commas; NULL: any */
    int64_t until;          /* started (or, if it waits, submitted) until then; 0: any time */
};
bool stk_job_wanted(const struct stk_job_filter *f, const struct stk_slurm_job *job);
/* "failed,out-of-memory"; false: a word of it is no state. */
bool stk_job_states(const char *list, unsigned *mask);
const char *const *stk_job_state_names(void); /* its words, NULL-terminated */

/* The largest first; ids in ascending order. */
enum stk_job_order {
    STK_JOB_UNSORTED, /* as Slurm lists them */
    STK_JOB_BY_ID,
    STK_JOB_BY_TIME,
    STK_JOB_BY_CPU,
    STK_JOB_BY_MEMORY,
    STK_JOB_BY_IDLE,
    STK_JOB_BY_SU,
    STK_JOB_BY_WAIT,
    STK_JOB_BY_END,
};
#define STK_JOB_ORDERS "job, time, cpu, memory, idle, su, waited, ended"
bool stk_job_order(const char *text, enum stk_job_order *order); /* false: none of them */
const char *const *stk_job_order_names(void);                    /* NULL-terminated */

/* What jobs are judged by. */
struct stk_job_scale {
    int64_t now;
    double advise_s;
    struct stk_su_rates su;
};
int stk_job_sort(struct stk_slurm_jobs *jobs, enum stk_job_order order,
                 const struct stk_job_scale *scale, struct stk_err *err);

/* ---- what they cost (job/totals.c) ---------------------------------------------------------- */

/* Hours of CPUs or GPUs; -1: unknown. */
struct stk_job_cost {
    double core_h; /* allocated */
    double used_h; /* CPU time, possibly a lower bound */
    double idle_h; /* allocated and not used; unknown if used_h is a lower bound */
    double gpu_h;  /* allocated */
    double su;     /* NaN: unknown */
};
void stk_job_cost(const struct stk_job_view *v, const struct stk_su_rates *su,
                  struct stk_job_cost *c);

#define STK_JOB_NAMED 100 /* jobs without success that are listed */
struct stk_job_totals {
    size_t jobs, by_state[STK_SLURM_STATES];
    double core_h, gpu_h;
    double used_h, idle_h; /* of jobs whose CPU time is known */
    double unknown_h;      /* core-hours of jobs whose CPU time is unknown or a lower bound */
    double lost_h;         /* core-hours of jobs that ended without success */
    double su;             /* of jobs whose allocation is known */
    size_t without_su;     /* jobs that ran and are not in su */
    size_t lost;           /* jobs that ended without success … */
    const struct stk_slurm_job *lost_job[STK_JOB_NAMED]; /* … the first of them, borrowed */
};
void stk_job_total(const struct stk_slurm_jobs *jobs, const struct stk_job_scale *scale,
                   struct stk_job_totals *t);

#endif
