/*
 * loaded.h - batches of stoker's own loader, for --reader stoker. It says how many requests it made,
 * but not their sizes, order and times. With a virtual clock it reads one epoch before anything
 * counts, and the model of storage says how long its requests take.
 */
#ifndef STK_BENCH_LOADED_H
#define STK_BENCH_LOADED_H

#include "bench/rank.h"

struct stk_loaded;

/* Opens the dataset of c->w, for training or evaluation, and the loader. All ranks call it: the
 * first builds the index, the others use it. Caller closes with stk_loaded_close(), also on
 * error. */
int stk_loaded_open(const struct stk_bench_config *c, const struct stk_bench_plan *plan,
                    struct stk_bench_patience *patience, struct stk_loaded **out,
                    struct stk_err *err);
/* Reads all that the rank needs, once (reader.load: start); batches are there at once then. */
int stk_loaded_all(struct stk_loaded *l, struct stk_err *err);
/* Virtual, instead: reads an epoch and counts its requests. *took_s: until the first step. */
int stk_loaded_count(struct stk_loaded *l, double *took_s, struct stk_err *err);
/* When the first step begins. */
void stk_loaded_begin(struct stk_loaded *l, double start_s);
/* Takes a batch; after an epoch, the first of the next. One thread at a time. */
int stk_loaded_next(struct stk_loaded *l, struct stk_err *err);
/* Virtual: when it has the batch of a step. */
double stk_loaded_ready_s(const struct stk_loaded *l, uint64_t step);
/* See stk_lanes_take(). */
int stk_loaded_take(struct stk_loaded *l, uint64_t step, double now_s, double *ready_s,
                    struct stk_err *err);
/* NULL is fine. What hangs is left behind. */
void stk_loaded_close(struct stk_loaded *l, struct stk_io_tally *tally);

#endif
