/* test_cover.c - which bytes were read by anybody: merged stretches against a bitmap, and how far
 * the sample is off. Wrong here, and re-reading or overlap of ranks is seen where there is none. */
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
        uint64_t bytes = stk_cover_bytes(&a, 0, 0, &exact);
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

/* ---- the sample ---- */

#define MIB (1ull << 20)

/* A file that is read, with a map of every byte; and how often the estimate may miss by how much.
 */
struct reading {
    struct stk_cover c;
    uint8_t *map;
    uint64_t size, hash, read_bytes;
};

static void reads(struct reading *r, uint64_t from, uint64_t n)
{
    n = from + n > r->size ? r->size - from : n;
    stk_cover_sample(&r->c, r->hash, from, from + n);
    memset(r->map + from, 1, n);
    r->read_bytes += n;
}

/* HDF5: rows in random order, and its own tables again and again. */
static void rows(struct reading *r)
{
    for (int i = 0; i < 6000; i++) {
        reads(r, 65536 + rnd(500) * 2000, 2000);
        reads(r, rnd(8) * 512, 8 + rnd(500));
    }
}

/* SQLite: pages, and the header before each. */
static void pages(struct reading *r)
{
    for (int i = 0; i < 4000; i++) {
        reads(r, 24, 16);
        reads(r, rnd(r->size / 4096) * 4096, 4096);
    }
}

static void big_and_tiny(struct reading *r)
{
    for (uint64_t i = 0; i < 100; i++) {
        reads(r, i * 81920, 65536);
        for (int k = 0; k < 20; k++)
            reads(r, 0, 8);
    }
}

/* Few places very often, many once. */
static void zipf(struct reading *r)
{
    for (int i = 0; i < 20000; i++)
        reads(r, (uint64_t)(pow((double)rnd(1000000) / 1e6, 4) * (double)(r->size / 5000)) * 5000,
              700);
}

static void strided(struct reading *r)
{
    for (uint64_t at = 0; at + 8 < r->size; at += 4096)
        reads(r, at, 8);
}

static void any_size(struct reading *r)
{
    for (int i = 0; i < 5000; i++)
        reads(r, rnd(r->size), 1 + (uint64_t)exp2((double)rnd(14000) / 1000));
}

static void shuffled_epoch(struct reading *r)
{
    for (uint64_t i = 0, n = r->size / 3000; i < n; i++)
        reads(r, i * 7919 % n * 3000, 3000);
}

static void quarter(struct reading *r)
{
    for (int i = 0; i < 3000; i++)
        reads(r, rnd(r->size / 4096 / 4) * 4 * 4096, 4096);
}

/* The estimate divided by the truth, minus 1. */
static double off_by(void (*pattern)(struct reading *), uint64_t hash)
{
    static _Alignas(8) uint8_t map[8 * MIB];
    struct reading r = {.map = map, .size = sizeof map, .hash = stk_mix64(hash)};
    memset(map, 0, sizeof map);
    pattern(&r);
    r.c.overflow = 1;
    uint64_t truth = 0;
    for (size_t i = 0; i < sizeof map; i += 8)
        truth += *(const uint64_t *)(map + i) * 0x0101010101010101u >> 56; /* eight bytes */
    bool exact;
    return (double)stk_cover_bytes(&r.c, r.read_bytes, r.size, &exact) / (double)truth - 1;
}

/* What docs/profile.md says: 12 % standard error, whatever the sizes of requests; 3 % for a file
 * that is read whole. */
static void any_mix_of_sizes(void)
{
    static const struct {
        const char *name;
        void (*pattern)(struct reading *);
        double error;
    } mix[] = {{"rows", rows},
               {"pages", pages},
               {"big and tiny", big_and_tiny},
               {"zipf", zipf},
               {"strided", strided},
               {"any size", any_size},
               {"quarter", quarter},
               {"epoch", shuffled_epoch, 0.03}};
    for (size_t i = 0; i < sizeof mix / sizeof *mix; i++) {
        double squares = 0, sum = 0;
        const int tries = 12;
        for (int k = 0; k < tries; k++) {
            double off = off_by(mix[i].pattern, (uint64_t)k + 1);
            squares += off * off;
            sum += off;
        }
        if (getenv("SHOW"))
            printf("%-14s error %.3f bias %+.3f\n", mix[i].name, sqrt(squares / tries),
                   sum / tries);
        CHECK(sqrt(squares / tries) < (mix[i].error > 0 ? mix[i].error : 0.13));
        CHECK(fabs(sum / tries) < 0.08);
    }
}

/* Two readers' samples together are the sample of both: what both read counts once. */
static void merged_samples(void)
{
    struct stk_cover a = {0}, b = {0}, all = {0};
    for (uint64_t i = 0; i < 20000; i++) {
        uint64_t from = rnd(1 << 30), n = 1 + rnd(9000);
        stk_cover_sample(i % 3 ? &a : &b, 77, from, from + n);
        stk_cover_sample(&all, 77, from, from + n);
        if (i % 5 == 0)
            stk_cover_sample(i % 3 ? &b : &a, 77, from, from + n);
    }
    struct stk_cover sum = {0};
    stk_cover_add(&sum, &a);
    stk_cover_add(&sum, &b);
    sum.overflow = all.overflow = 1;
    bool exact;
    uint64_t together = stk_cover_bytes(&all, UINT64_MAX, 0, &exact);
    CHECK(together > 0);
    CHECK_INT(stk_cover_bytes(&sum, UINT64_MAX, 0, &exact), together);
    CHECK(stk_cover_bytes(&a, UINT64_MAX, 0, &exact) == 0); /* no spans, and not overflowed */
}

/* One read of the largest file there can be costs as little as any other. */
static void largest(void)
{
    struct stk_cover c = {0};
    bool exact;
    stk_cover_sample(&c, 5, 0, INT64_MAX);
    stk_cover_sample(&c, 5, INT64_MAX - 1, INT64_MAX);
    c.overflow = 1;
    double bytes = (double)stk_cover_bytes(&c, UINT64_MAX, 0, &exact);
    CHECK(fabs(bytes / (double)INT64_MAX - 1) < 0.03);
    CHECK(c.level <= STK_COVER_TOP);
}

static void bounds(void)
{
    struct stk_cover c = {.overflow = 1};
    bool exact;
    for (uint64_t i = 0; i < 10000; i++)
        stk_cover_sample(&c, 3, i * 4096, i * 4096 + 100);
    CHECK_INT(stk_cover_bytes(&c, 2000000, 5000, &exact), 5000); /* the file has no more */
    CHECK(!exact);
    CHECK_INT(stk_cover_bytes(&c, 900, 0, &exact), 900); /* nobody read more */
    c.nspans = 1;
    c.span[0].from = 0, c.span[0].to = 9900000; /* and this is sure */
    CHECK_INT(stk_cover_bytes(&c, 9900000, 0, &exact), 9900000);
}

/* A damaged log may hold any bytes. */
static void nonsense(void)
{
    bool exact;
    for (int round = 0; round < 2000; round++) {
        struct stk_cover sum = {0}, hostile;
        uint8_t *p = (uint8_t *)&hostile;
        for (int k = 0; k < 3; k++) {
            for (size_t i = 0; i < sizeof hostile; i++)
                p[i] = (uint8_t)(round % 2 ? rnd(256) : 255);
            hostile.level = round % 3 ? (uint32_t)rnd(70) : hostile.level;
            stk_cover_add(&sum, &hostile);
        }
        CHECK(sum.nspans <= STK_COVER_SPANS && sum.nlines <= STK_COVER_LINES);
        (void)stk_cover_bytes(&sum, UINT64_MAX, rnd(5), &exact);
    }
}

/* ---- how many files a group has ---- */

static double estimate(uint64_t n, uint64_t seed)
{
    uint8_t reg[256] = {0};
    for (uint64_t i = 0; i < n; i++) {
        uint64_t hash = stk_mix64(seed * 1000000007 + i);
        uint8_t rank = (uint8_t)(__builtin_clzll((hash >> 8) | 1) - 7);
        if (reg[hash & 255] < rank)
            reg[hash & 255] = rank;
    }
    return stk_sketch_count(reg, sizeof reg);
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

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    CHECK_RUN(merge_is_union);
    CHECK_RUN(touching_become_one);
    CHECK_RUN(any_mix_of_sizes);
    CHECK_RUN(merged_samples);
    CHECK_RUN(largest);
    CHECK_RUN(sketch_error);
    CHECK_RUN(bounds);
    CHECK_RUN(nonsense);
    return CHECK_DONE();
}
