/*
 * histogram.h - the distribution of times or sizes: counts in buckets that grow with the value.
 *
 * Takes sixteen kilobytes. Percentiles are accurate to 1 in 32 (exact below 64); mean, smallest and
 * largest are exact. One thread at a time.
 */
#ifndef STK_BASE_HISTOGRAM_H
#define STK_BASE_HISTOGRAM_H

#include <stdint.h>

#define STK_HISTOGRAM_SUB     32u /* buckets per power of two */
#define STK_HISTOGRAM_BUCKETS (60u * STK_HISTOGRAM_SUB)

struct stk_histogram { /* all zero: empty */
    uint64_t count, min, max;
    double sum;
    uint64_t bucket[STK_HISTOGRAM_BUCKETS];
};

void stk_histogram_add(struct stk_histogram *h, uint64_t value);
void stk_histogram_merge(struct stk_histogram *into, const struct stk_histogram *from);
/* The value below or at which `fraction` (0 to 1) of all values lie; 0 when empty. Never below the
 * true percentile, and at most 1 in 32 above it. */
uint64_t stk_histogram_percentile(const struct stk_histogram *h, double fraction);
double stk_histogram_mean(const struct stk_histogram *h); /* 0 when empty */
/* How many values have `power` as their binary logarithm, rounded down; 0 counts as 1. */
uint64_t stk_histogram_octave(const struct stk_histogram *h, unsigned power);

#endif
