/*
 * loaded.h - batches of stoker's own loader, for --reader stoker. It reads by the real clock, and
 * says how many requests it made, but not their sizes, order and times.
 */
#ifndef STK_BENCH_LOADED_H
#define STK_BENCH_LOADED_H

#include "bench/rank.h"

struct stk_loaded;

/* Opens the dataset of c->w, for training or evaluation, and the loader. All ranks call it: the
 * first builds the index, the others use it. Caller closes with stk_loaded_close(), also on
 * error. */
int stk_loaded_open(const struct stk_bench_config *c, const struct stk_bench_plan *plan,
                    struct stk_bench_patience *patience, struct stk_loaded **out, struct stk_err *err);
/* Reads all that the rank needs, once (reader.load: start); batches are there at once then. */
int stk_loaded_all(struct stk_loaded *l, struct stk_err *err);
/* Takes a batch; after an epoch, the first of the next. One thread at a time. */
int stk_loaded_next(struct stk_loaded *l, struct stk_err *err);
/* See stk_lanes_take(). */
int stk_loaded_take(struct stk_loaded *l, double now_s, double *ready_s, struct stk_err *err);
/* NULL is fine. What hangs is left behind. */
void stk_loaded_close(struct stk_loaded *l, struct stk_tally *tally);

#endif
