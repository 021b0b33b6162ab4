/*
 * collective.h - some ranks read together, and each broadcasts what it read to the others of its
 * group: how programs with MPI-IO read a file.
 */
#ifndef STK_BENCH_COLLECTIVE_H
#define STK_BENCH_COLLECTIVE_H

#include "bench/rank.h"

struct stk_collective;

/* Groups of neighbouring ranks, one reader each (access.readers). start_s: the time at which all
 * ranks began, by the clock of this one. The helper thread reads. Caller closes with
 * stk_collective_close(). */
int stk_collective_open(const struct stk_bench_config *c, const struct stk_bench_plan *plan,
                        double start_s, struct stk_bench_patience *patience, struct stk_collective **out,
                        struct stk_err *err);
/* The batches of the whole group: read by the first, received by the others. See
 * stk_lanes_take(). */
int stk_collective_take(struct stk_collective *s, uint64_t batch, double now_s, double *ready_s,
                        struct stk_err *err);
void stk_collective_close(struct stk_collective *s, struct stk_io_tally *tally);

#endif
