/*
 * job.h - a run of a workload as data: what runs, which is saved for the jobs of a scheduler, and
 * the figures that come of it, which come back from the process that it runs in.
 */
#ifndef STK_BENCH_JOB_H
#define STK_BENCH_JOB_H

#include "base/json_fields.h"
#include "bench/workload.h"

struct stk_bench_config;

struct stk_bench_job {
    const struct stk_workload *w; /* settled */
    const char *const *set;       /* keys of it that this run changes; NULL-terminated, or NULL */
    const char *data;             /* folder of its dataset; NULL: the workload says where that is */
    const char *storage;          /* as --virtual-storage has it; NULL: the real one */
    bool stoker;                  /* stoker's loader reads */
    uint64_t cpus;                /* that all ranks together may use; 0: all */
};
/* All of it but the workload. */
extern const struct stk_jfield stk_bench_job_fields[];

/* Means and sums over the measured steps. NaN: unknown. */
struct stk_bench_figures {
    double epoch_s, wall_s, steps;
    double elapsed_s; /* of all of it, also what is not measured; virtual on modelled storage */
    double wait_s, load_s, save_s, compute_s; /* wait_s: of the rank that waited longest */
    double open_s, request_s, request_bytes;  /* means of its calls */
    double memory_bytes;                      /* of the largest rank */
    uint64_t cpus;                            /* that it could use */
};
extern const struct stk_jfield stk_bench_figures_fields[];

/* What precedes a run on data that is open: how it reads, and what is dropped from the page
 * cache. c has the workload, which may change, and the data. */
int stk_bench_configure(struct stk_bench_config *c, struct stk_workload *w, bool stoker,
                        const char *storage, struct stk_err *err);
/* Runs it in this process, which keeps to the CPUs of the job from then on. stop: non-zero ends it
 * with STK_E_STOPPED; NULL: never. */
int stk_bench_job_run(const struct stk_bench_job *job, int (*stop)(void),
                      struct stk_bench_figures *out, struct stk_err *err);
/* For a child process: the same, until a SIGTERM. The figures go to its standard output as a
 * line of JSON; what went wrong, to its standard error. Returns its exit status. */
int stk_bench_job_child(const struct stk_bench_job *job);

#endif
