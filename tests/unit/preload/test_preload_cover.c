/* test_preload_cover.c - which bytes of a file were read, as the preload library keeps it: were it
 * wrong, a file read twice would pass for one read once, and nobody would cache it. Held against a
 * map of every byte. */
#include "preload/count.h"
#include "check.h"

#include <stdlib.h>

enum { BYTES = 96 };

static uint64_t state = 7;
static uint64_t draw(uint64_t below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % below;
}

/* Stretches of the map, as pairs; their number. */
static uint32_t stretches(const char *map, uint64_t (*out)[2])
{
    uint32_t n = 0;
    for (uint64_t i = 0; i < BYTES; i++) {
        if (!map[i])
            continue;
        out[n][0] = i;
        while (i < BYTES && map[i])
            i++;
        out[n++][1] = i;
    }
    return n;
}

static void same(const struct stk_cover *c, const char *map)
{
    uint64_t want[BYTES][2];
    uint32_t n = stretches(map, want);
    CHECK_INT(c->nspans, n);
    for (uint32_t i = 0; i < n && i < c->nspans; i++) {
        CHECK_INT(c->span[i].from, want[i][0]);
        CHECK_INT(c->span[i].to, want[i][1]);
    }
}

/* Any order of reads, until there are more stretches than it keeps. */
static void as_a_map_of_bytes(void)
{
    int overflows = 0, whole = 0;
    for (int round = 0; round < 20000; round++) {
        struct stk_cover c = {0};
        char map[BYTES] = {0};
        uint64_t longest = 1 + draw(24);
        for (int i = 0; i < 40; i++) {
            uint64_t from = draw(BYTES - 1), to = from + 1 + draw(longest);
            to = to < BYTES ? to : BYTES;
            uint64_t now[BYTES][2];
            memset(map + from, 1, to - from);
            stk_cover_span(&c, from, to);
            if (c.overflow) {
                CHECK(stretches(map, now) > STK_COVER_SPANS); /* it gave up for a reason */
                overflows++;
                break;
            }
            same(&c, map);
        }
        whole += !c.overflow;
    }
    CHECK(overflows > 100 && whole > 100);
}

static void ends_of_the_range(void)
{
    struct stk_cover c = {0};
    stk_cover_span(&c, UINT64_MAX - 10, UINT64_MAX);
    stk_cover_span(&c, 0, 1);
    stk_cover_span(&c, 0, UINT64_MAX);
    CHECK_INT(c.nspans, 1);
    CHECK(c.span[0].from == 0 && c.span[0].to == UINT64_MAX && !c.overflow);
}

/* Eight sequential readers stay exact, however they alternate. */
static void readers_side_by_side(void)
{
    struct stk_cover c = {0};
    for (uint64_t i = 0; i < 1000; i++)
        for (uint64_t reader = 0; reader < STK_COVER_SPANS; reader++)
            stk_cover_span(&c, reader * 4096000 + i * 4096, reader * 4096000 + (i + 1) * 4096 - 1);
    CHECK(c.overflow); /* a byte apart: these are not one stretch */
    c = (struct stk_cover){0};
    for (uint64_t i = 0; i < 1000; i++)
        for (uint64_t reader = 0; reader < STK_COVER_SPANS; reader++)
            stk_cover_span(&c, reader * 4096000 + i * 4096, reader * 4096000 + (i + 1) * 4096);
    CHECK(!c.overflow);
    CHECK_INT(c.nspans, 1); /* the last reads closed the gaps */
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    CHECK_RUN(as_a_map_of_bytes);
    CHECK_RUN(ends_of_the_range);
    CHECK_RUN(readers_side_by_side);
    return CHECK_DONE();
}
