/*
 * lanes.h - the batches of a rank, read ahead by its threads.
 *
 * A lane is a thread that reads every nth batch. Batch b uses slot b % prefetch: it is read once
 * the batch that had the slot was taken. What goes from thread to thread carries its time, so that
 * a virtual clock gives the same result however the threads are scheduled.
 */
#ifndef STK_BENCH_LANES_H
#define STK_BENCH_LANES_H

#include "bench/clock.h"
#include "bench/data.h"
#include "bench/plan.h"
#include "bench/tally.h"

struct stk_lanes;
struct stk_loaded; /* bench/loaded.h */

struct stk_lanes_config {
    const struct stk_bench_plan *plan; /* borrowed; the epoch may change only before open */
    const struct stk_bench_data *data; /* borrowed */
    const struct stk_bench_model *model;
    uint64_t batches;  /* in all */
    double start_s;    /* the time of all lanes at the start */
    double patience_s; /* a batch that takes longer hangs */
    bool idle;         /* reads nothing: for calibration */
    /* No step takes time: the accelerator takes each batch when it and those before it are
     * complete. The lanes run on by this rule without waiting for the taker, which is woken for
     * many batches at a time. Not with idle or loaded. */
    bool instant;
    /* Seconds that it took to start the threads, in all; may be NULL. */
    double *started_s;
    struct stk_loaded *loaded; /* the batches come from it; NULL: the lanes read. Borrowed */
};

/* Whether the training loop starts the threads, or lets them read epoch by epoch. */
bool stk_lanes_are_gated(const struct stk_workload *w);
/* Whether they then wait until that batch is asked for. */
bool stk_lanes_are_asked(const struct stk_bench_plan *plan, uint64_t batch);
/* Starts the threads. With reader.threads 0, one reads a batch when it is taken. Caller closes with
 * stk_lanes_close(). */
int stk_lanes_open(const struct stk_lanes_config *c, struct stk_lanes **out, struct stk_err *err);
/* Takes batch number `batch`, in order. now_s: the accelerator is free since then. *ready_s: the
 * time at which the batch was complete. */
int stk_lanes_take(struct stk_lanes *l, uint64_t batch, double now_s, double *ready_s,
                   struct stk_err *err);
/* Batches that were read and not taken yet, and the most there can be. */
void stk_lanes_queue(struct stk_lanes *l, uint64_t *ready, uint64_t *slots);
/* Stops the threads and adds their tallies to *tally. A thread whose read hangs is left behind. */
void stk_lanes_close(struct stk_lanes *l, struct stk_io_tally *tally);

#endif
