/*
 * bench.h - a benchmark from start to end: ranks, calibration, run, and the results of all ranks.
 */
#ifndef STK_BENCH_BENCH_H
#define STK_BENCH_BENCH_H

#include "bench/rank.h"

/* A machine that keeps less of the pace without I/O is the limit itself. */
#define STK_BENCH_PACE 0.99

/* The same run with I/O off: how well this machine keeps the pace of the steps. */
struct stk_bench_calibration {
    bool done;
    uint64_t steps;
    double utilisation; /* by the machine's clock, of the slowest rank */
    double step_s;      /* mean computing time of a step */
};

struct stk_fs;

struct stk_bench_result {
    const struct stk_workload *w; /* borrowed */
    char kind[32];                /* of the communicator: "alone", "forked", "openmpi", ... */
    bool is_virtual, stoker;
    bool mpiio; /* collective reads went through MPI-IO */
    struct stk_bench_rank *rank; /* by number; NULL: this is not rank 0 */
    uint32_t ranks;
    int64_t lost; /* a rank that died or hung; -1: none */
    char why_lost[200];
    struct stk_bench_calibration calibration;
    /* Of all ranks. */
    struct stk_io_tally io;
    struct stk_histogram step;
    double step_stdev_s;
    struct stk_course course;
    double utilisation, utilisation_least, mlperf; /* mean, least, mean */
    uint32_t slowest;                              /* the rank that waited longest for data */
    double wait_median_s;                          /* of the ranks */
    double wall_s, samples_per_s;                  /* of the measured steps */
    double epoch_s; /* seconds until every sample was read once, with what precedes the first step
                       spread over the epochs; from the measured steps. NaN: unknown */
    double io_share; /* of the run: waiting for data, loading before the first step, checkpoints; mean */
    double io_share_steps; /* of the measured steps: waiting for data and checkpoints; mean */
    int64_t device_bytes;    /* -1: not known */
    const struct stk_fs *fs; /* of the data; NULL: there is none */
    uint64_t memory_bytes;   /* of the largest rank */
    uint64_t checkpoints, checkpoint_bytes;
    double checkpoint_s, checkpoint_max_s;
    double restore_s;
    uint64_t restores, restore_bytes;
};

/* Runs the workload. Without c->comm it forks `ranks` - 1 processes, and only the caller's returns;
 * with c->comm (all of its ranks call this) the result is on rank 0, and the others have none. A
 * rank that is lost is part of the result, not an error. Caller frees with stk_bench_release(),
 * also on error. */
int stk_bench_run(struct stk_bench_config *c, uint32_t ranks, bool calibrate,
                  struct stk_bench_result *out, struct stk_err *err);
void stk_bench_release(struct stk_bench_result *r);
/* True for a rank that waited for data twice as long as the median of the ranks, and for more than
 * 5 % of its time. */
bool stk_bench_straggles(const struct stk_bench_result *r, uint32_t rank);
/* Where the data came from, as far as it can be known. */
enum stk_bench_source {
    STK_BENCH_FROM_NOWHERE,     /* nothing was read, or the storage is modelled */
    STK_BENCH_FROM_STORAGE,     /* most of it, by the kernel's count */
    STK_BENCH_FROM_MEMORY,      /* the most came from the page cache, or the files are in memory */
    STK_BENCH_NOT_COUNTED,      /* not known: the kernel does not count reads of this file system, */
    STK_BENCH_NOT_COUNTED_SLOW, /* … and requests took longer than memory takes */
    STK_BENCH_NOT_COUNTED_FAST, /* … and requests were as fast as memory */
};
enum stk_bench_source stk_bench_source(const struct stk_bench_result *r);
/* Bytes of the samples that steps use, per second; 0: steps read nothing. */
double stk_bench_bytes_per_s(const struct stk_bench_result *r);
/* From the ranks to the numbers of all; stk_bench_run() calls it. */
void stk_bench_sum(struct stk_bench_result *r);

#endif
