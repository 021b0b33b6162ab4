/*
 * tally.h - what a thread asked of storage: requests, bytes, sizes, order and times. Tallies of
 * threads and ranks can be merged. No pointers: a rank sends its tally to another as it is.
 */
#ifndef STK_BENCH_TALLY_H
#define STK_BENCH_TALLY_H

#include "base/histogram.h"

#define STK_TALLY_SIZES  16 /* distinct request sizes that are counted one by one */
#define STK_TALLY_COUNTS 10 /* bins of sizes */

struct stk_io_tally_size {
    uint64_t bytes, count;
};

struct stk_io_tally {              /* all zero: empty */
    uint64_t samples, asked_bytes; /* samples, and the bytes that they have */
    uint64_t opens, requests, bytes;
    uint64_t stats, seeks;
    uint64_t first;       /* requests that were the first after their file was opened */
    uint64_t sequential;  /* of the others: beyond the end of the one before... */
    uint64_t consecutive; /* ...and of those: right at its end */
    uint64_t bin[STK_TALLY_COUNTS];
    struct stk_io_tally_size size[STK_TALLY_SIZES]; /* count 0: free */
    uint64_t other_sizes;                        /* requests of sizes beyond those */
    double request_s, open_s;                    /* open_s: all but requests */
    struct stk_histogram latency;                /* ns per request */
    struct stk_histogram rate;                   /* bytes per second of a request */
};

/* The upper limits of the bins, in bytes; the last has none. As in Darshan. */
extern const uint64_t stk_io_tally_limit[STK_TALLY_COUNTS];
extern const char *const stk_io_tally_bin_name[STK_TALLY_COUNTS];

void stk_io_tally_request(struct stk_io_tally *t, uint64_t bytes, double seconds);
void stk_io_tally_merge(struct stk_io_tally *into, const struct stk_io_tally *from);
/* The most frequent size; {0, 0}: no request. */
struct stk_io_tally_size stk_io_tally_common(const struct stk_io_tally *t);

#endif
