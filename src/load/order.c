/*
 * order.c - computes the sample at a position of an epoch from arithmetic and keyed permutations
 * alone (plan.h describes blocks and windows). It runs for every sample: no loops, no divisions.
 */
#include "load/plan.h"

#include "base/random.h"

static struct stk_div divisor(uint64_t d)
{
    return (struct stk_div){.d = d, .reciprocal = UINT64_MAX / d};
}

/* The reciprocal is rounded down, so the product is at most one less than the quotient. */
static uint64_t divide(uint64_t x, const struct stk_div *by)
{
    uint64_t q = (uint64_t)((unsigned __int128)x * by->reciprocal >> 64);
    return q + (x - q * by->d >= by->d);
}

static uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* The turn of stratum k: a number below m from the key and k. */
static uint64_t turn_of(const struct stk_order *o, uint64_t k, uint64_t m)
{
    uint64_t h = stk_mix64(o->key + STK_MIX_B * (k + 1));
    return (uint64_t)((unsigned __int128)h * m >> 64);
}

/* One of the three permutations of a sample. With blocks of one sample it may be the only large
 * one, and must be good. */
static void init_step(const struct stk_order *o, struct stk_perm *p, uint64_t n, uint64_t seed)
{
    if (o->block > 1)
        stk_perm_init_rough(p, n, seed);
    else
        stk_perm_init_once(p, n, seed);
}

static void init_blocks(struct stk_order *o, uint64_t block, uint64_t window)
{
    o->block = min_u64(block ? block : 1, o->n);
    o->nblocks = (o->n - 1) / o->block + 1;
    o->window = min_u64(window ? window : 1, o->nblocks);
    o->rotate = stk_mix64(o->key + 3) % o->n;
    o->nwindows = (o->nblocks - 1) / o->window + 1;
    uint64_t strata = o->nblocks / o->nwindows;
    o->big_windows = o->nblocks % o->nwindows;
    o->short_at = strata - (o->big_windows == 0);
    o->deficit = o->nblocks * o->block - o->n;
    o->cut = (o->short_at + 1) * o->block - o->deficit;
    o->by_block = divisor(o->block);
    o->by_big = divisor(strata + 1);
    o->by_small = divisor(strata);
    init_step(o, &o->perm, o->nwindows, stk_mix64(o->key + 2));
    o->last_turn = o->nwindows - 1 - stk_perm_at(&o->perm, 0);
}

void stk_order_init(struct stk_order *o, uint64_t n, int shuffle, uint64_t seed, uint64_t epoch,
                    uint64_t block, uint64_t window)
{
    *o = (struct stk_order){.n = n, .shuffle = shuffle, .seed = seed, .epoch = epoch};
    o->key = stk_mix64(stk_mix64(seed + STK_GOLDEN64) + epoch);
    if (shuffle == STK_SHUFFLE_BLOCK && n)
        init_blocks(o, block, window);
    else
        stk_perm_init(&o->perm, n, stk_mix64(o->key + 1));
}

/* The permuted block at position p; *inside: the offset in it. */
static uint64_t place_of(const struct stk_order *o, uint64_t p, uint64_t *inside)
{
    uint64_t whole = p < o->cut ? p : p + o->deficit, place = divide(whole, &o->by_block);
    *inside = whole - place * o->block;
    return place;
}

/* The first position of permuted block number `place`; nblocks: the end. */
static uint64_t place_start(const struct stk_order *o, uint64_t place)
{
    return place * o->block - (place > o->short_at ? o->deficit : 0);
}

struct window {
    uint64_t number;
    uint64_t first, end;          /* positions */
    const struct stk_div *blocks; /* one of each stratum */
};

/* The window of position p. */
static struct window window_of(const struct stk_order *o, uint64_t p)
{
    uint64_t inside, place = place_of(o, p, &inside), in_big = o->big_windows * o->by_big.d;
    bool big = place < in_big;
    struct window w = {.blocks = big ? &o->by_big : &o->by_small};
    uint64_t before = big ? 0 : in_big, k = divide(place - before, w.blocks);
    uint64_t from = before + k * w.blocks->d;
    w.number = big ? k : o->big_windows + k;
    w.first = place_start(o, from);
    w.end = place_start(o, from + w.blocks->d);
    return w;
}

/* The block of window w in stratum k. In the last stratum, window 0 has the last block, so that the
 * place of the short block is known. */
static uint64_t block_of(const struct stk_order *o, uint64_t w, uint64_t k)
{
    uint64_t strata = o->by_small.d, size = o->nwindows, at;
    if (k == strata) { /* fewer blocks than windows: the big windows have them */
        size = o->big_windows;
        at = w + size - 1;
    } else {
        bool last = k + 1 == strata && o->big_windows == 0;
        at = stk_perm_at(&o->perm, w) + (last ? o->last_turn : turn_of(o, k, size));
    }
    return k * o->nwindows + (at < size ? at : at - size);
}

static uint64_t permuted(const struct stk_order *o, uint64_t n, uint64_t i, uint64_t key)
{
    struct stk_perm perm;
    init_step(o, &perm, n, key);
    return stk_perm_at(&perm, i);
}

/* The samples of a window come in rounds, one of each block per round, until the short block (the
 * last of window 0) is used up. */
static uint64_t block_at(const struct stk_order *o, uint64_t p)
{
    struct window w = window_of(o, p);
    uint64_t key = o->key + 0xd1342543de82ef95u * (w.number + 1), at = p - w.first;
    uint64_t blocks = w.blocks->d, size = o->block, full = size - (w.number ? 0 : o->deficit);
    uint64_t round = divide(at, w.blocks), turn = at - round * blocks;
    if (round >= full) {
        at -= full * blocks--;
        round = full + at / blocks;
        turn = at % blocks;
    }
    uint64_t k = permuted(o, blocks, turn, key ^ STK_GOLDEN64 * (round + 1));
    if (k == o->short_at && w.number == 0)
        size = full;
    uint64_t inside = permuted(o, size, round, key + STK_MIX_A * (k + 1));
    uint64_t sample = block_of(o, w.number, k) * o->block + inside + o->rotate;
    return sample < o->n ? sample : sample - o->n;
}

uint64_t stk_order_at(const struct stk_order *o, uint64_t p)
{
    switch (o->shuffle) {
    case STK_SHUFFLE_BLOCK:
        return block_at(o, p);
    case STK_SHUFFLE_GLOBAL:
        return stk_perm_at(&o->perm, p);
    default:
        return p;
    }
}

void stk_order_window(const struct stk_order *o, uint64_t p, uint64_t *first, uint64_t *end)
{
    *first = 0;
    *end = o->n;
    if (o->shuffle == STK_SHUFFLE_BLOCK && o->n) {
        struct window w = window_of(o, p);
        *first = w.first;
        *end = w.end;
    }
}

const char *const stk_shuffle_names[] = {[STK_SHUFFLE_BLOCK] = "block",
                                         [STK_SHUFFLE_GLOBAL] = "global",
                                         [STK_SHUFFLE_NONE] = "none",
                                         NULL};

const char *stk_shuffle_name(int shuffle)
{
    return shuffle >= 0 && shuffle <= STK_SHUFFLE_NONE ? stk_shuffle_names[shuffle] : "";
}
