/* test_preload_count.c - the most common request sizes and strides, and size bins, as the preload
 * library counts them: were they wrong, a job of 4 KiB reads would be advised for the few large
 * ones it began with. Common values are held against exact counts. */
#include "preload/common.c"
#include "check.h"

#include <stdlib.h>

static char memory[1 << 16];
static size_t given;

/* What the library takes from a thread's arena. */
void *stk_pl_thread_memory(struct stk_pl_thread *t, size_t bytes)
{
    (void)t;
    given += bytes;
    return given <= sizeof memory ? memory + given - bytes : NULL;
}

static uint64_t state = 3;
static uint64_t draw(uint64_t below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % below;
}

static uint64_t count_of(const struct stk_common_value *top, uint64_t value)
{
    for (int i = 0; i < STK_COMMON; i++)
        if (top[i].count && top[i].value == value)
            return top[i].count;
    return 0;
}

static void common(struct stk_common_value *top, struct stk_pl_contenders **more, uint64_t value)
{
    if (!stk_pl_common(top, value))
        stk_pl_contend(NULL, top, more, value);
}

/* Four values or less, 0 among them: exact. */
static void few_are_exact(void)
{
    struct stk_common_value top[STK_COMMON] = {{0, 0}};
    struct stk_pl_contenders *more = NULL;
    uint64_t want[4] = {0};
    static const uint64_t value[4] = {4096, 0, UINT64_MAX, 7};
    for (int i = 0; i < 10000; i++) {
        uint64_t k = draw(4);
        want[k]++;
        common(top, &more, value[k]);
    }
    for (int k = 0; k < 4; k++)
        CHECK_INT(count_of(top, value[k]), want[k]);
    CHECK(!more);
}

/* A header of odd sizes first, then the sizes that matter among others that come once each. */
static void late_ones_get_in(void)
{
    struct stk_common_value top[STK_COMMON] = {{0, 0}};
    struct stk_pl_contenders *more = NULL;
    uint64_t large = 0, small = 0;
    for (uint64_t i = 0; i < 200; i++)
        common(top, &more, 1000000 + i);
    for (uint64_t i = 0; i < 100000; i++) {
        uint64_t k = draw(10);
        large += k < 5;
        small += k >= 5 && k < 7;
        common(top, &more, k < 5 ? 4096 : k < 7 ? 512 : 2000000 + i);
    }
    CHECK(count_of(top, 4096) <= large && count_of(top, 4096) > large - large / 50);
    CHECK(count_of(top, 512) <= small && count_of(top, 512) > small - small / 50);
}

/* Random reads: no stride may look common. */
static void nothing_common(void)
{
    struct stk_common_value top[STK_COMMON] = {{0, 0}};
    struct stk_pl_contenders *more = NULL;
    for (uint64_t i = 0; i < 100000; i++)
        common(top, &more, draw(UINT64_MAX >> 33));
    for (int i = 0; i < STK_COMMON; i++)
        CHECK(top[i].count < 10);
}

static unsigned slow_bin(uint64_t n)
{
    unsigned bin = 0;
    while (bin < STK_SIZE_BINS - 1 && n > stk_size_edge[bin])
        bin++;
    return bin;
}

static void bins(void)
{
    for (unsigned bit = 0; bit < 63; bit++)
        for (int64_t d = -2; d <= 2; d++)
            if ((int64_t)(1ull << bit) + d > 0)
                CHECK_INT(stk_size_bin((1ull << bit) + (uint64_t)d),
                          slow_bin((1ull << bit) + (uint64_t)d));
    for (unsigned b = 0; b < STK_SIZE_BINS - 1; b++)
        for (int64_t d = -1; d <= 1; d++)
            CHECK_INT(stk_size_bin(stk_size_edge[b] + (uint64_t)d),
                      slow_bin(stk_size_edge[b] + (uint64_t)d));
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    CHECK_RUN(few_are_exact);
    CHECK_RUN(late_ones_get_in);
    CHECK_RUN(nothing_common);
    CHECK_RUN(bins);
    return CHECK_DONE();
}
