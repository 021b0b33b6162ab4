/* test_histogram.c - percentiles of batch times: a wrong p99 would hide the stalls it is there to
 * show. Checked against sorted values. */
#include "base/stats.h"
#include "check.h"

#include <stdlib.h>

static int by_value(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static uint64_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 11;
}

/* Holds percentiles against the sorted values: never below, above by 1 in 32 at most. */
static void agrees_with_sorting(uint64_t *v, size_t n)
{
    static const double wanted[] = {0, 0.01, 0.25, 0.5, 0.9, 0.99, 0.999, 1};
    struct stk_histogram *h = calloc(1, sizeof *h);
    for (size_t i = 0; i < n; i++)
        stk_histogram_add(h, v[i]);
    qsort(v, n, sizeof *v, by_value);
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        double rank = wanted[i] * (double)n;
        size_t at = (size_t)rank;
        at = (double)at < rank ? at + 1 : at;
        uint64_t want = v[at ? at - 1 : 0], got = stk_histogram_percentile(h, wanted[i]);
        CHECK(got >= want && got - want <= want / 32);
    }
    CHECK(h->min == v[0] && h->max == v[n - 1] && h->count == n);
    CHECK(stk_histogram_percentile(h, 1) == v[n - 1]);
    free(h);
}

static void any_spread(void)
{
    enum { N = 20000 };
    uint64_t *v = malloc(N * sizeof *v), state = 1;
    for (unsigned bits = 1; bits <= 53; bits += 4) {
        for (size_t i = 0; i < N; i++)
            v[i] = next_random(&state) & (((uint64_t)1 << bits) - 1);
        agrees_with_sorting(v, N);
    }
    for (size_t i = 0; i < N; i++) /* every size: from nanoseconds to hours */
        v[i] = next_random(&state) >> next_random(&state) % 53;
    agrees_with_sorting(v, N);
    free(v);
}

static void edges(void)
{
    struct stk_histogram *h = calloc(1, sizeof *h);
    CHECK(stk_histogram_percentile(h, 0.5) == 0 && stk_histogram_mean(h) == 0);
    stk_histogram_add(h, UINT64_MAX);
    CHECK(stk_histogram_percentile(h, 0.5) == UINT64_MAX);
    stk_histogram_add(h, 0);
    CHECK(stk_histogram_percentile(h, 0.5) == 0 && stk_histogram_percentile(h, 0.51) == UINT64_MAX);
    CHECK(stk_histogram_percentile(h, -1) == 0 && stk_histogram_percentile(h, 2) == UINT64_MAX);
    CHECK(h->min == 0 && h->max == UINT64_MAX);
    for (unsigned i = 0; i < 64; i++) { /* small values are exact */
        *h = (struct stk_histogram){0};
        stk_histogram_add(h, i);
        stk_histogram_add(h, 1000);
        CHECK_INT(stk_histogram_percentile(h, 0.5), i);
    }
    *h = (struct stk_histogram){0};
    stk_histogram_add(h, 10);
    stk_histogram_add(h, 30);
    CHECK(stk_histogram_mean(h) == 20);
    free(h);
}

/* Every value is in exactly one octave: the plot of a benchmark shows all requests. */
static void octaves(void)
{
    struct stk_histogram *h = calloc(1, sizeof *h);
    uint64_t all = 0;
    stk_histogram_add(h, 0);
    for (unsigned p = 0; p < 64; p++) {
        stk_histogram_add(h, (uint64_t)1 << p);
        stk_histogram_add(h, ((uint64_t)1 << p) | (((uint64_t)1 << p) - 1));
    }
    for (unsigned p = 0; p < 70; p++) {
        uint64_t n = stk_histogram_octave(h, p);
        CHECK_INT(n, p > 63 ? 0 : p == 0 ? 3 : 2);
        all += n;
    }
    CHECK(all == h->count);
    free(h);
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    CHECK_RUN(any_spread);
    CHECK_RUN(edges);
    CHECK_RUN(octaves);
    return CHECK_DONE();
}
