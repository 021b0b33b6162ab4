/* sizes.c - the sizes of requests: the most frequent ones exactly, the others by the middle of their
 * bin, so that they make up the bytes. */
#include <math.h>
#include <stdlib.h>

#include "replay/priv.h"

static double low(size_t bin)
{
    return bin ? (double)stk_size_edge[bin - 1] + 1 : 1;
}

static double high(size_t bin)
{
    return bin < STK_SIZE_BINS - 1 ? (double)stk_size_edge[bin] : (double)STK_REQUEST_MAX;
}

static size_t bin_of(uint64_t bytes)
{
    size_t b = 0;
    while (b < STK_SIZE_BINS - 1 && bytes > stk_size_edge[b])
        b++;
    return b;
}

static double middle(size_t bin, double scale)
{
    return fmin(fmax(sqrt(low(bin) * high(bin)) * scale, low(bin)), high(bin));
}

static int by_bytes(const void *x, const void *y)
{
    const struct stk_bench_sizes *a = x, *b = y;
    return a->bytes < b->bytes ? -1 : a->bytes > b->bytes;
}

static size_t merge(struct stk_bench_sizes *s, size_t n)
{
    size_t to = 0;
    qsort(s, n, sizeof *s, by_bytes);
    for (size_t i = 1; i < n; i++) {
        if (s[i].bytes == s[to].bytes)
            s[to].count += s[i].count;
        else
            s[++to] = s[i];
    }
    return n ? to + 1 : 0;
}

static double sum_of(const uint64_t left[STK_SIZE_BINS], double scale)
{
    double sum = 0;
    for (size_t b = 0; b < STK_SIZE_BINS; b++)
        sum += middle(b, scale) * (double)left[b];
    return sum;
}

/* The scale of the middles at which the requests that are left make up the rest of the bytes. They
 * do at some: the bins are those of these bytes. */
static double fit(const uint64_t left[STK_SIZE_BINS], double rest)
{
    double least = 1e-6, most = 1e6;
    for (int i = 0; i < 60; i++) {
        double scale = sqrt(least * most);
        if (sum_of(left, scale) < rest)
            least = scale;
        else
            most = scale;
    }
    return least;
}

size_t stk_rp_sizes(const struct rp_group *g, struct stk_bench_sizes out[STK_GROUP_SIZES])
{
    uint64_t left[STK_SIZE_BINS];
    double rest = (double)g->n.c[STK_C_READ_BYTES];
    size_t n = 0;
    for (size_t b = 0; b < STK_SIZE_BINS; b++)
        left[b] = g->n.read_size[b];
    for (size_t i = 0; i < STK_COMMON; i++) {
        const struct stk_common_value *v = &g->n.size[i];
        uint64_t *of = &left[bin_of(v->value)], k = v->count < *of ? v->count : *of;
        if (!k || !v->value || v->value > STK_REQUEST_MAX)
            continue;
        out[n++] = (struct stk_bench_sizes){v->value, k};
        *of -= k;
        rest -= (double)v->value * (double)k;
    }
    double scale = fit(left, rest);
    for (size_t b = 0; b < STK_SIZE_BINS; b++)
        if (left[b])
            out[n++] = (struct stk_bench_sizes){(uint64_t)(middle(b, scale) + 0.5), left[b]};
    return merge(out, n);
}
