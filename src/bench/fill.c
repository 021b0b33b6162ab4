/* fill.c - see fill.h. */
#include "bench/fill.h"

#include <string.h>

static uint64_t start_of(uint64_t seed, struct stk_bench_place at)
{
    return stk_mix64(seed ^ stk_mix64(at.file * STK_GOLDEN64 + at.index));
}

void stk_bench_fill(uint8_t *p, size_t n, uint64_t seed, struct stk_bench_place at)
{
    uint64_t state = start_of(seed, at), v;
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        v = stk_random_next(&state);
        memcpy(p + i, &v, 8);
    }
    v = stk_random_next(&state);
    memcpy(p + i, &v, n - i);
}

void stk_bench_fill_sample(uint8_t *p, size_t n, const struct stk_workload *w,
                           struct stk_bench_place at)
{
    stk_bench_fill(p, n, w->dataset.seed, at);
    for (size_t i = 0; w->dataset.compression != STK_COMPRESSION_NONE && i < n; i++)
        p[i] &= 15; /* half of the bits */
}

void stk_bench_fill_text(uint8_t *p, size_t n, uint64_t seed, struct stk_bench_place at)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz012345";
    stk_bench_fill(p, n, seed, at);
    for (size_t i = 0; i < n; i++)
        p[i] = (uint8_t)letters[p[i] & 31];
}
