/* fill.h - the content of generated samples: random, and the same for the same place and seed. */
#ifndef STK_BENCH_FILL_H
#define STK_BENCH_FILL_H

#include <stddef.h>

#include "bench/plan.h"

void stk_bench_fill(uint8_t *p, size_t n, uint64_t seed, struct stk_bench_place at);
/* The same for a sample of w: if its files are compressed, bytes that can be. */
void stk_bench_fill_sample(uint8_t *p, size_t n, const struct stk_workload *w,
                           struct stk_bench_place at);
/* Letters and digits. */
void stk_bench_fill_text(uint8_t *p, size_t n, uint64_t seed, struct stk_bench_place at);

#endif
