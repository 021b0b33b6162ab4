/*
 * together.h - the files of a collective read: each request of a step is one call that all readers
 * make, MPI-IO's MPI_File_read_at_all() if there is MPI, else each reader reads its own.
 */
#ifndef STK_BENCH_TOGETHER_H
#define STK_BENCH_TOGETHER_H

#include "bench/rank.h"

struct stk_together;

/* readers: the ranks that read, this one among them. Their requests move the clock and go to the
 * tally. All are borrowed. Caller closes with stk_together_close(). */
int stk_together_open(const struct stk_bench_config *c, const struct stk_bench_plan *plan,
                      struct stk_comm *readers, struct stk_bench_clock *clock,
                      struct stk_io_tally *tally, struct stk_together **out, struct stk_err *err);
/* Reads what this reader's group needs for a batch; *bytes: how much of it are samples. patience is
 * told of every request. */
int stk_together_read(struct stk_together *t, uint64_t batch, struct stk_bench_patience *patience,
                      uint64_t *bytes, struct stk_err *err);
/* NULL is fine. */
void stk_together_close(struct stk_together *t);

#endif
