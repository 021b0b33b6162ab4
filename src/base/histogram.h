/*
 * histogram.h - how times or sizes are spread: counts in buckets that grow with the value.
 *
 * Sixteen kilobytes whatever is counted; percentiles are right to 1 in 32 (values below 64
 * exactly), mean, smallest and largest exactly. One thread at a time.
 */
#ifndef STK_BASE_HISTOGRAM_H
#define STK_BASE_HISTOGRAM_H

#include <stdint.h>

#define STK_HISTOGRAM_SUB     32u /* buckets a power of two */
#define STK_HISTOGRAM_BUCKETS (60u * STK_HISTOGRAM_SUB)

struct stk_histogram { /* all zero: empty */
    uint64_t count, min, max;
    double sum;
    uint64_t bucket[STK_HISTOGRAM_BUCKETS];
};

void stk_histogram_add(struct stk_histogram *h, uint64_t value);
/* The smallest value that at least `fraction` (0 to 1) of all are not above; 0 when empty. Never
 * below the true one, and above it by 1 in 32 at most. */
uint64_t stk_histogram_percentile(const struct stk_histogram *h, double fraction);
double stk_histogram_mean(const struct stk_histogram *h); /* 0 when empty */

#endif
