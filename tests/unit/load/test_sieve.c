/* test_sieve.c - the ring of a sieve: places that are lent at the same time never overlap, and none
 * leaves the ring. Bytes of another read would be in a batch, and nothing would tell. */
#include "check.h"
#include "base/random.h"
#include "load/priv.h"

#include <string.h>

#define RING  (32 * (size_t)STK_IO_ALIGN)
#define READS 64

struct ring {
    struct stk_loader ld;
    struct stk_region region;
    struct bundle bundle[READS];
    bool out[READS];
};

static void ring_init(struct ring *r)
{
    static _Alignas(STK_IO_ALIGN) uint8_t memory[RING];
    memset(r, 0, sizeof *r);
    r->region = (struct stk_region){.p = memory, .size = RING, .segment = -1};
    r->ld.sieve = (struct sieve){.region = &r->region, .size = RING};
}

/* The largest read that takes `pages` of the ring. */
static size_t length_of(size_t pages)
{
    size_t len = pages * STK_IO_ALIGN;
    while (stk_io_room(len) > pages * STK_IO_ALIGN)
        len--;
    return len;
}

static bool lend(struct ring *r, size_t k, size_t pages)
{
    r->bundle[k] = (struct bundle){.sifted = true, .req = {.len = length_of(pages)}};
    r->out[k] = stk_sieve_lend(&r->ld, &r->bundle[k]);
    return r->out[k];
}

static void give_back(struct ring *r, size_t k)
{
    stk_sieve_return(&r->ld, &r->bundle[k]);
    r->out[k] = false;
}

static size_t place(const struct ring *r, size_t k)
{
    return (size_t)((const uint8_t *)r->bundle[k].req.buf - r->region.p);
}

static bool apart(const struct ring *r, size_t a, size_t b)
{
    size_t size_a = stk_io_room(r->bundle[a].req.len), size_b = stk_io_room(r->bundle[b].req.len);
    return place(r, a) + size_a <= place(r, b) || place(r, b) + size_b <= place(r, a);
}

static void check_places(const struct ring *r)
{
    for (size_t a = 0; a < READS; a++) {
        if (!r->out[a])
            continue;
        CHECK(place(r, a) + stk_io_room(r->bundle[a].req.len) <= RING);
        for (size_t b = 0; b < a; b++)
            CHECK(!r->out[b] || apart(r, a, b));
    }
}

/* A place that ends where the ring does is followed by the ring's beginning. */
static void just_full(void)
{
    static struct ring r;
    ring_init(&r);
    for (size_t k = 0; k < 4; k++)
        CHECK(lend(&r, k, 8));
    CHECK(!lend(&r, 4, 8));
    give_back(&r, 0);
    CHECK(lend(&r, 4, 8));
    CHECK_INT(place(&r, 4), 0);
    check_places(&r);
}

/* Reads of any size end in any order. */
static void any_order(void)
{
    static struct ring r;
    uint64_t random = 1;
    ring_init(&r);
    for (size_t i = 0; i < 20000; i++) {
        random = stk_mix64(random + i);
        size_t k = random % READS, pages = 4 + (random >> 32) % 12;
        if (r.out[k])
            give_back(&r, k);
        else
            (void)lend(&r, k, pages);
        check_places(&r);
    }
    for (size_t k = 0; k < READS; k++)
        if (r.out[k])
            give_back(&r, k);
    CHECK_INT(r.ld.sieve.used, 0);
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    CHECK_RUN(just_full);
    CHECK_RUN(any_order);
    return CHECK_DONE();
}
