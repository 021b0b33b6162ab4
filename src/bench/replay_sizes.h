/*
 * replay_sizes.h - the sizes of a replay's requests: those that the profile has, in their numbers.
 */
#ifndef STK_BENCH_REPLAY_SIZES_H
#define STK_BENCH_REPLAY_SIZES_H

#include "bench/workload.h"

/* The sizes of the requests of one sample. */
struct stk_replay_sizes {
    const struct stk_bench_group *g;
    uint64_t n, bytes, sum;
    uint64_t first; /* number of the first among all requests of the group */
    double shift, scale;
    bool on; /* requests of a file that stays open */
};

/* Sample k makes the kth part of `total` calls of `per` samples: the parts add up exactly. */
uint64_t stk_replay_part(uint64_t total, uint64_t per, uint64_t k);

/* n requests that make up the bytes of a visit: one of each nth part of the distribution, small
 * ones first. k: number of the sample. */
struct stk_replay_sizes stk_replay_sizes(const struct stk_bench_group *g, uint64_t n,
                                         uint64_t bytes, uint64_t k);
/* n requests to a file that stays open: those of all samples together have the distribution. */
struct stk_replay_sizes stk_replay_sizes_on(const struct stk_bench_group *g, uint64_t n,
                                            uint64_t k);
uint64_t stk_replay_size_at(const struct stk_replay_sizes *s, uint64_t i);

#endif
