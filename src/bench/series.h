/*
 * series.h - several runs of one workload: a sweep over values of keys, and the search for the most
 * accelerators that the storage can feed.
 */
#ifndef STK_BENCH_SERIES_H
#define STK_BENCH_SERIES_H

#include "bench/bench.h"

#define STK_SERIES_MAX 256u /* runs */

/* What is kept of a run. */
struct stk_series_point {
    char label[160]; /* "reader.threads=4 reader.prefetch=2" */
    uint32_t ranks;
    double utilisation, mlperf, samples_per_s, io_share, io_share_steps, step_s, step_p99_s;
    uint64_t bytes;
    bool io_bound; /* the accelerators waited for data in more than 5 % of the time */
};

struct stk_series {
    struct stk_series_point *point;
    size_t n;
    /* Of a search. */
    double au;             /* the least utilisation asked for; 0: this is a sweep */
    uint32_t most;         /* the most ranks that reach it; 0: not even one does */
    uint32_t limit;        /* ranks that were allowed */
    /* The fewest ranks that cannot be judged, because the data has too few steps for each of them: the
     * steps, and how many it takes; 0: none. */
    uint32_t unjudged;
    uint64_t steps, steps_needed;
    bool machine_ends;     /* the machine cannot keep the pace of more ranks, even without I/O */
    const char *neighbour; /* name of the workload beside the second run; NULL: none. Borrowed */
    int64_t lost;          /* a rank that was lost; -1: none */
    char why_lost[200];
};

/* sweeps: "key=a,b,c", NULL-terminated; every combination is run, the last key fastest. w is c->w,
 * which is changed and ends with the last values. Keys of the dataset are refused: they would need
 * other data. Caller frees with stk_series_release(), also on error. */
int stk_series_sweep(struct stk_bench_config *c, struct stk_workload *w, const char *const *sweeps,
                     struct stk_series *out, struct stk_err *err);
/* Doubles the ranks up to limit until the utilisation, as MLPerf counts it, is below au, then
 * halves the interval. Each number of ranks has enough steps that the first, which does not count, and
 * those that are read ahead before it do not decide: more epochs if they read the storage again;
 * otherwise it is not judged. */
int stk_series_find_max(struct stk_bench_config *c, struct stk_workload *w, double au,
                        uint32_t limit, struct stk_series *out, struct stk_err *err);
/* Runs the workload alone, then again while the workload of `other` runs beside it, over and over,
 * with `ranks` ranks. */
int stk_series_neighbour(struct stk_bench_config *c, struct stk_workload *w,
                         struct stk_bench_config *other, uint32_t ranks, struct stk_series *out,
                         struct stk_err *err);
void stk_series_release(struct stk_series *s);
/* Where a sweep turns from waiting for data to computing, or what a neighbour costs, as a
 * sentence. */
void stk_series_verdict(const struct stk_series *s, struct stk_buf *out);

#endif
