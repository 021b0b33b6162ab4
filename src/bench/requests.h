/*
 * requests.h - the requests that each reader of a collective read makes for a step. They follow
 * from the workload alone, so that every reader knows those of all others: a collective call needs
 * all of them, and each the same number of times.
 */
#ifndef STK_BENCH_REQUESTS_H
#define STK_BENCH_REQUESTS_H

#include "bench/reader.h"

struct stk_request {
    uint64_t file, off, bytes;
};

/* The requests of one reader for one step, and where it is in the data. All zero, but file. */
struct stk_requests {
    struct stk_request *item;
    size_t n, room;
    uint64_t samples, asked_bytes; /* of the step */
    uint64_t file, index, off;     /* streams: where sample `index` of the file begins */
};
#define STK_REQUESTS_INIT ((struct stk_requests){.file = UINT64_MAX})

/* Reader number `reader` of so many makes these for a step. dirfd: the data folder. */
int stk_requests_make(struct stk_requests *q, const struct stk_bench_plan *p, uint64_t reader,
                      uint64_t readers, uint64_t step, int dirfd, struct stk_err *err);
void stk_requests_release(struct stk_requests *q);

#endif
