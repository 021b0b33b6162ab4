/* test_perm.c - the keyed permutation: every sample once, whatever the number and the seed, and the
 * same order in every version (a shuffled dataset must be packed the same way again). */
#include "check.h"
#include "base/random.h"

#include <stdlib.h>

static void is_bijection(uint64_t n, uint64_t seed)
{
    struct stk_perm p;
    uint8_t *seen = calloc(n, 1);
    uint64_t twice = 0, outside = 0;
    stk_perm_init(&p, n, seed);
    for (uint64_t i = 0; seen && i < n; i++) {
        uint64_t v = stk_perm_at(&p, i);
        outside += v >= n;
        if (v < n)
            twice += seen[v]++;
    }
    CHECK_INT(outside, 0);
    CHECK_INT(twice, 0);
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

/* Which of the n! permutations this is. */
static uint64_t rank_of(const struct stk_perm *p)
{
    uint64_t rank = 0, used = 0;
    for (uint64_t i = 0; i < p->n; i++) {
        uint64_t v = stk_perm_at(p, i);
        rank = rank * (p->n - i) + v - (uint64_t)__builtin_popcountll(used & ((1ull << v) - 1));
        used |= 1ull << v;
    }
    return rank;
}

/* All permutations of a few elements, as often as each other. Chi-square of f - 1 degrees of
 * freedom has a mean of f - 1 and a deviation of sqrt(2 (f - 1)): 6 of them are allowed. */
static void all_permutations(uint64_t n)
{
    const uint64_t each = 1000;
    uint64_t f = 1, count[720] = {0};
    for (uint64_t i = 2; i <= n; i++)
        f *= i;
    for (uint64_t seed = 0; seed < each * f; seed++) {
        struct stk_perm p;
        stk_perm_init(&p, n, seed);
        count[rank_of(&p)]++;
    }
    double square = 0, freedom = (double)f - 1;
    for (uint64_t i = 0; i < f; i++) {
        double d = (double)count[i] - (double)each;
        square += d * d / (double)each;
    }
    CHECK((square - freedom) * (square - freedom) < 36 * 2 * freedom);
}

static int is_odd(const struct stk_perm *p)
{
    uint8_t seen[4096] = {0};
    int odd = 0;
    for (uint64_t i = 0; i < p->n; i++)
        for (uint64_t j = i, k = 0; !seen[j]; j = stk_perm_at(p, j), odd ^= k++ > 0)
            seen[j] = 1;
    return odd;
}

static void half_are_odd(uint64_t n)
{
    const int seeds = 2000;
    int odd = 0;
    for (int seed = 0; seed < seeds; seed++) {
        struct stk_perm p;
        stk_perm_init(&p, n, (uint64_t)seed);
        odd += is_odd(&p);
    }
    CHECK(odd > seeds / 2 - 150 && odd < seeds / 2 + 150); /* 6.7 deviations */
}

/* Pairs as far apart after as before, for distances that are a column's height, a row's length, or
 * nothing special. Each of the n - d pairs has a chance of about 2 / n. */
static void keeps_few_distances(uint64_t n)
{
    static const uint64_t distances[] = {1, 2, 8, 16, 64, 100, 512, 1024, 2048, 3072, 65536};
    const uint64_t seeds = n < 100000 ? 2000000 / n : check_repeats(8, 24);
    uint32_t *v = malloc(n * sizeof *v);
    double kept[11] = {0};
    for (uint64_t seed = 0; v && seed < seeds; seed++) {
        struct stk_perm p;
        stk_perm_init(&p, n, seed);
        for (uint64_t i = 0; i < n; i++)
            v[i] = (uint32_t)stk_perm_at(&p, i);
        for (size_t k = 0; k < 11; k++)
            for (uint64_t i = 0, d = distances[k]; i + d < n; i++)
                kept[k] += v[i + d] == v[i] + d || v[i] == v[i + d] + d;
    }
    for (size_t k = 0; v && k < 11 && 2 * distances[k] < n; k++) {
        double rest = (double)(n - distances[k]), all = (double)n;
        double expected = (double)seeds * 2 * rest * rest / (all * (all - 1));
        if ((kept[k] - expected) * (kept[k] - expected) >= 30 * expected)
            check_fail(__FILE__, __LINE__, "distances are kept");
    }
    free(v);
}

static void stays_the_same(void)
{
    static const uint64_t small[] = {9, 5, 7, 1, 2, 6, 4, 0, 8, 3};
    struct stk_perm p;
    stk_perm_init(&p, 10, 7);
    for (uint64_t i = 0; i < 10; i++)
        CHECK_INT(stk_perm_at(&p, i), small[i]);
    stk_perm_init(&p, 1ull << 40, 7);
    CHECK_INT(stk_perm_at(&p, 0), 1055930600272);
    CHECK_INT(stk_perm_at(&p, (1ull << 40) - 1), 1051695927089);
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
}

/* A list that is made to be asked often is the permutation that is asked once. */
static void lists_are_the_same(void)
{
    for (uint64_t n = 1; n < 40; n++)
        for (uint64_t seed = 0; seed < 5; seed++) {
            struct stk_perm often, once;
            stk_perm_init(&often, n, seed);
            stk_perm_init_once(&once, n, seed);
            for (uint64_t i = 0; i < n; i++)
                CHECK_INT(stk_perm_at(&often, i), stk_perm_at(&once, i));
        }
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    CHECK_RUN(bijections);
    CHECK_RUN(largest);
    CHECK_FOR("20", keeps_few_neighbours, 20);
    CHECK_FOR("64", keeps_few_neighbours, 64);
    CHECK_FOR("640", keeps_few_neighbours, 640);
    CHECK_FOR("2", all_permutations, 2);
    CHECK_FOR("5", all_permutations, 5);
    CHECK_FOR("6", all_permutations, 6);
    CHECK_FOR("5", half_are_odd, 5);
    CHECK_FOR("17", half_are_odd, 17);
    CHECK_FOR("100", half_are_odd, 100);
    CHECK_FOR("257", half_are_odd, 257);
    CHECK_FOR("100", keeps_few_distances, 100);
    CHECK_FOR("1000", keeps_few_distances, 1000);
    CHECK_FOR("5000", keeps_few_distances, 5000);
    CHECK_FOR("1000000", keeps_few_distances, 1000000);
    CHECK_RUN(mixes);
    CHECK_RUN(seeds_differ);
    CHECK_RUN(stays_the_same);
    CHECK_RUN(lists_are_the_same);
    return CHECK_DONE();
}
