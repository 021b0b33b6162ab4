/* test_perm.c - the keyed permutation: every sample once, whatever the number and the seed, and the
 * same order in every version (a shuffled dataset must be packed the same way again). */
#include "check.h"
#include "data/perm.h"

#include <stdlib.h>

static void is_bijection(uint64_t n, uint64_t seed)
{
    struct stk_perm p;
    uint8_t *seen = calloc(n, 1);
    uint64_t twice = 0, outside = 0, lost = 0;
    stk_perm_init(&p, n, seed);
    for (uint64_t i = 0; seen && i < n; i++) {
        uint64_t v = stk_perm_at(&p, i);
        outside += v >= n;
        if (v < n)
            twice += seen[v]++;
        lost += v < n && stk_perm_inverse(&p, v) != i;
    }
    CHECK_INT(outside, 0);
    CHECK_INT(twice, 0);
    CHECK_INT(lost, 0);
    free(seen);
}

static uint64_t fixed_points(uint64_t n, uint64_t seed, uint64_t *moved)
{
    struct stk_perm p;
    uint64_t same = 0;
    stk_perm_init(&p, n, seed);
    *moved = 0;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t v = stk_perm_at(&p, i);
        same += v == i;
        *moved += v > i ? v - i : i - v;
    }
    return same;
}

static void mixes(void)
{
    const uint64_t n = 10000;
    for (uint64_t seed = 0; seed < 5; seed++) {
        uint64_t moved, same = fixed_points(n, seed, &moved);
        CHECK(same < 20);                                  /* a random one has about 1 */
        CHECK(moved / n > n / 4 && moved / n < 2 * n / 5); /* ... and moves by n/3 on average */
    }
}

static void seeds_differ(void)
{
    struct stk_perm a, b;
    uint64_t same = 0;
    stk_perm_init(&a, 1000, 1);
    stk_perm_init(&b, 1000, 2);
    for (uint64_t i = 0; i < 1000; i++)
        same += stk_perm_at(&a, i) == stk_perm_at(&b, i);
    CHECK(same < 15);
}

/* Small numbers are where a permutation of few rounds shows: blocks of large samples. */
static void keeps_few_neighbours(uint64_t n)
{
    const uint64_t seeds = 2000;
    uint64_t kept = 0;
    for (uint64_t seed = 0; seed < seeds; seed++) {
        struct stk_perm p;
        stk_perm_init(&p, n, seed);
        uint64_t a = stk_perm_at(&p, 0), b;
        for (uint64_t i = 1; i < n; i++, a = b) {
            b = stk_perm_at(&p, i);
            kept += a + 1 == b || b + 1 == a;
        }
    }
    /* In a random order each of the n - 1 pairs has a chance of 2/n. */
    double expected = (double)seeds * 2 * (double)(n - 1) / (double)n;
    CHECK((double)kept > 0.9 * expected && (double)kept < 1.1 * expected);
}

static void stays_the_same(void)
{
    static const uint64_t small[] = {1, 8, 4, 7, 5, 9, 2, 6, 0, 3};
    struct stk_perm p;
    stk_perm_init(&p, 10, 7);
    for (uint64_t i = 0; i < 10; i++)
        CHECK_INT(stk_perm_at(&p, i), small[i]);
    stk_perm_init(&p, 1ull << 40, 7);
    CHECK_INT(stk_perm_at(&p, 0), 622065221355);
    CHECK_INT(stk_perm_at(&p, (1ull << 40) - 1), 629773418808);
}

static void bijections(void)
{
    static const uint64_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 100, 255, 256, 257, 65537};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (uint64_t seed = 0; seed < 20; seed += 1 + seed / 4)
            is_bijection(sizes[i], seed * 0x9e3779b97f4a7c15u);
}

static void largest(void)
{
    struct stk_perm p;
    stk_perm_init(&p, UINT64_MAX, 3);
    uint64_t v = stk_perm_at(&p, UINT64_MAX - 1);
    CHECK(v < UINT64_MAX);
    CHECK(stk_perm_inverse(&p, v) == UINT64_MAX - 1);
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    CHECK_RUN(bijections);
    CHECK_RUN(largest);
    CHECK_FOR("20", keeps_few_neighbours, 20);
    CHECK_FOR("64", keeps_few_neighbours, 64);
    CHECK_FOR("640", keeps_few_neighbours, 640);
    CHECK_RUN(mixes);
    CHECK_RUN(seeds_differ);
    CHECK_RUN(stays_the_same);
    return CHECK_DONE();
}
