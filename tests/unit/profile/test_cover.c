/* test_cover.c - which bytes were read by anybody: merged stretches against a bitmap, and how far
 * the sketch is off. Wrong here, and re-reading or overlap of ranks is seen where there is none. */
#include "check.h"
#include "profile/priv.h"

#include <math.h>
#include <stdlib.h>

#define FILE_BYTES 4096

static uint64_t state = 7;
static uint64_t rnd(uint64_t below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return stk_mix64(state) % below;
}

/* A cover of a few stretches, and the same in a bitmap. */
static struct stk_cover some(uint8_t *map, uint32_t spans)
{
    struct stk_cover c = {0};
    for (uint32_t i = 0; i < spans; i++) {
        uint64_t from = rnd(FILE_BYTES - 64), n = 1 + rnd(64);
        struct stk_cover one = {.nspans = 1, .span = {{from, from + n}}};
        stk_cover_add(&c, &one);
        memset(map + from, 1, n);
    }
    return c;
}

static uint64_t set_bytes(const uint8_t *map)
{
    uint64_t n = 0;
    for (size_t i = 0; i < FILE_BYTES; i++)
        n += map[i];
    return n;
}

static void merge_is_union(void)
{
    unsigned exact_ones = 0;
    for (int round = 0; round < 2000; round++) {
        uint8_t map[FILE_BYTES] = {0};
        struct stk_cover a = some(map, 1 + (uint32_t)rnd(6)), b = some(map, 1 + (uint32_t)rnd(6));
        bool exact;
        stk_cover_add(&a, &b);
        uint64_t bytes = stk_cover_bytes(&a, 0, 0, 0, &exact);
        if (exact)
            CHECK_INT(bytes, set_bytes(map));
        else
            CHECK(bytes <= set_bytes(map));
        exact_ones += exact;
        for (uint32_t i = 1; i < a.nspans; i++)
            CHECK(a.span[i - 1].to < a.span[i].from);
    }
    CHECK(exact_ones > 500 && exact_ones < 2000);
}

static void touching_become_one(void)
{
    struct stk_cover a = {.nspans = 1, .span = {{0, 100}}}, b = {.nspans = 1, .span = {{100, 200}}};
    stk_cover_add(&a, &b);
    CHECK_INT(a.nspans, 1);
    CHECK_INT(a.span[0].to, 200);
    CHECK(!a.overflow);
}

static double estimate(uint64_t n, uint64_t seed)
{
    struct stk_cover c = {0};
    for (uint64_t i = 0; i < n; i++)
        stk_cover_sketch(&c, stk_mix64(seed * 1000000007 + i));
    return stk_cover_requests(&c);
}

/* 256 registers: 6.5 % standard error, at every size; the mean is right within what 100 tries tell.
 */
static void sketch_error(void)
{
    static const uint64_t sizes[] = {1, 10, 100, 500, 700, 1000, 2000, 10000, 200000};
    CHECK(estimate(0, 1) == 0);
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        double n = (double)sizes[s], sum = 0, squares = 0;
        int tries = sizes[s] > 100000 ? 20 : 100;
        for (int i = 0; i < tries; i++) {
            double off = estimate(sizes[s], (uint64_t)i + 3) / n - 1;
            sum += off;
            squares += off * off;
        }
        CHECK(fabs(sum / tries) < 3 * 0.065 / sqrt(tries) + 0.005);
        CHECK(sqrt(squares / tries) < 0.085);
    }
}

static void bounds(void)
{
    struct stk_cover c = {.overflow = 1};
    bool exact;
    for (uint64_t i = 0; i < 10000; i++)
        stk_cover_sketch(&c, stk_mix64(i));
    /* Each of 10,000 requests of 100 bytes twice. */
    uint64_t bytes = stk_cover_bytes(&c, 20000, 2000000, 0, &exact);
    CHECK(!exact && bytes > 800000 && bytes < 1200000);
    CHECK_INT(stk_cover_bytes(&c, 20000, 2000000, 5000, &exact), 5000); /* the file has no more */
    CHECK(stk_cover_bytes(&c, 9000, 900000, 0, &exact) <= 900000);      /* nobody read more */
    c.nspans = 1;
    c.span[0].from = 0, c.span[0].to = 1900000; /* and this is sure */
    CHECK_INT(stk_cover_bytes(&c, 20000, 2000000, 0, &exact), 1900000);
}

/* A damaged log may hold any bytes. */
static void nonsense(void)
{
    bool exact;
    for (int round = 0; round < 2000; round++) {
        struct stk_cover a, b;
        uint8_t *p = (uint8_t *)&a, *q = (uint8_t *)&b;
        for (size_t i = 0; i < sizeof a; i++)
            p[i] = (uint8_t)rnd(256), q[i] = (uint8_t)rnd(256);
        stk_cover_add(&a, &b);
        CHECK(a.nspans <= STK_COVER_SPANS);
        (void)stk_cover_bytes(&a, rnd(1000), UINT64_MAX, rnd(5), &exact);
    }
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    CHECK_RUN(merge_is_union);
    CHECK_RUN(touching_become_one);
    CHECK_RUN(sketch_error);
    CHECK_RUN(bounds);
    CHECK_RUN(nonsense);
    return CHECK_DONE();
}
