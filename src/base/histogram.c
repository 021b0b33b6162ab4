/*
 * histogram.c - log-scaled buckets: the leading bits of a value select its bucket, so adding takes
 * a shift and an increment.
 */
#include "base/histogram.h"

#include <math.h>

#define SUB_BITS 5u /* log2(STK_HISTOGRAM_SUB) */

/* Each value below 2 * SUB has its own bucket; above, there are SUB buckets per power of two. */
static unsigned bucket_of(uint64_t v)
{
    if (v < 2 * STK_HISTOGRAM_SUB)
        return (unsigned)v;
    unsigned top = 63u - (unsigned)__builtin_clzll(v), shift = top - SUB_BITS;
    return shift * STK_HISTOGRAM_SUB + (unsigned)(v >> shift);
}

/* The largest value of a bucket. */
static uint64_t last_of(unsigned b)
{
    if (b < 2 * STK_HISTOGRAM_SUB)
        return b;
    unsigned shift = b / STK_HISTOGRAM_SUB - 1;
    uint64_t lead = b % STK_HISTOGRAM_SUB + STK_HISTOGRAM_SUB;
    return (lead << shift) + (((uint64_t)1 << shift) - 1);
}

void stk_histogram_add(struct stk_histogram *h, uint64_t value)
{
    h->bucket[bucket_of(value)]++;
    h->min = h->count && h->min < value ? h->min : value;
    h->max = h->max > value ? h->max : value;
    h->sum += (double)value;
    h->count++;
}

void stk_histogram_merge(struct stk_histogram *into, const struct stk_histogram *from)
{
    if (!from->count)
        return;
    into->min = into->count && into->min < from->min ? into->min : from->min;
    into->max = into->max > from->max ? into->max : from->max;
    into->sum += from->sum;
    into->count += from->count;
    for (unsigned b = 0; b < STK_HISTOGRAM_BUCKETS; b++)
        into->bucket[b] += from->bucket[b];
}

uint64_t stk_histogram_percentile(const struct stk_histogram *h, double fraction)
{
    if (!h->count)
        return 0;
    double f = fraction > 0 ? fraction < 1 ? fraction : 1 : 0;
    uint64_t wanted = (uint64_t)ceil(f * (double)h->count), seen = 0;
    for (unsigned b = 0; b < STK_HISTOGRAM_BUCKETS; b++) {
        seen += h->bucket[b];
        if (seen && seen >= wanted)
            return last_of(b) < h->max ? last_of(b) : h->max;
    }
    return h->max;
}

double stk_histogram_mean(const struct stk_histogram *h)
{
    return h->count ? h->sum / (double)h->count : 0;
}

uint64_t stk_histogram_octave(const struct stk_histogram *h, unsigned power)
{
    uint64_t n = 0;
    if (power > 63)
        return 0;
    unsigned from = power ? bucket_of((uint64_t)1 << power) : 0;
    unsigned to = power < 63 ? bucket_of((uint64_t)2 << power) : STK_HISTOGRAM_BUCKETS;
    for (unsigned b = from; b < to && b < STK_HISTOGRAM_BUCKETS; b++)
        n += h->bucket[b];
    return n;
}
