/* checkpoint.h - writes the files of a checkpoint as the workload says, reads them back, and
 * removes them. */
#ifndef STK_BENCH_CHECKPOINT_H
#define STK_BENCH_CHECKPOINT_H

#include "bench/rank.h"

/* Replaces the files of the last one; the helper thread writes. *bytes: added up. */
int stk_bench_checkpoint(const struct stk_bench_config *c, struct stk_bench_patience *patience,
                         struct stk_bench_clock *clock, uint64_t *bytes, struct stk_err *err);
/* Reads them back, past the page cache as far as the workload wants that and the kernel lets us. */
int stk_bench_restore(const struct stk_bench_config *c, struct stk_bench_patience *patience,
                      struct stk_bench_clock *clock, uint64_t *bytes, struct stk_err *err);
/* Removes the files of that many ranks, and their folder if it is then empty. */
void stk_bench_checkpoint_clean(const struct stk_bench_config *c, uint32_t ranks);
/* Removes what killed runs left, of however many ranks, and the folder in dirfd that it is in.
 * of_user: dirfd is the user's checkpoint.dir, not the data folder. left: other files there. */
int stk_bench_checkpoint_sweep(int dirfd, bool of_user, struct stk_left *left, const char *dir,
                               struct stk_err *err);

#endif
