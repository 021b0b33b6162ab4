/*
 * feed.h - where the batches of a rank come from: the application's way of reading (lanes.h,
 * collective.h), stoker's loader, memory, or nowhere.
 */
#ifndef STK_BENCH_FEED_H
#define STK_BENCH_FEED_H

#include "bench/collective.h"
#include "bench/loaded.h"
#include "bench/rank.h"

struct stk_feed {
    const struct stk_bench_config *c;
    struct stk_bench_plan plan;
    struct stk_bench_patience *patience; /* borrowed */
    struct stk_lanes *lanes;             /* NULL: no reads in steps */
    struct stk_collective *collective;   /* instead, or NULL */
    struct stk_loaded *loaded;           /* instead, with --reader stoker */
    double start_s;
};

/* The requests before the first step, if any; their times go to r. Caller closes with
 * stk_feed_close(), also on error. */
int stk_feed_open(struct stk_feed *f, const struct stk_bench_config *c,
                  const struct stk_bench_plan *plan, struct stk_bench_patience *patience,
                  struct stk_bench_clock *clock, struct stk_bench_rank *r, struct stk_err *err);
/* Begins to read ahead. started_s: see struct stk_lanes_config. */
int stk_feed_start(struct stk_feed *f, uint64_t batches, double start_s, double *started_s,
                   struct stk_err *err);
/* See stk_lanes_take(). */
int stk_feed_take(struct stk_feed *f, uint64_t batch, double now_s, double *ready_s,
                  struct stk_err *err);
/* Batches that wait to be taken, and the most there can be; 0, 0: unknown. */
void stk_feed_queue(const struct stk_feed *f, uint64_t *ready, uint64_t *slots);
void stk_feed_close(struct stk_feed *f, struct stk_bench_rank *r);

#endif
