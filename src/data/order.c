/*
 * order.c - position in an epoch -> sample, by arithmetic and keyed permutations alone (plan.h says
 * how blocks and windows are made). On the path of every sample: no loop over anything, no
 * division.
 */
#include "data/plan.h"

#include "base/random.h"

static struct stk_div divisor(uint64_t d)
{
    return (struct stk_div){.d = d, .reciprocal = UINT64_MAX / d};
}

/* The reciprocal is rounded down, so the product falls short of the quotient by one at most. */
static uint64_t divide(uint64_t x, const struct stk_div *by)
{
    uint64_t q = (uint64_t)((unsigned __int128)x * by->reciprocal >> 64);
    return q + (x - q * by->d >= by->d);
}

static uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static void init_blocks(struct stk_order *o, uint64_t block, uint64_t window)
{
    o->block = min_u64(block ? block : 1, o->n);
    o->nblocks = (o->n - 1) / o->block + 1;
    o->window = min_u64(window ? window : 1, o->nblocks);
    stk_perm_init(&o->perm, o->nblocks, stk_mix64(o->key + 2));
    o->rotate = stk_mix64(o->key + 3) % o->n;
    o->short_at = stk_perm_inverse(&o->perm, o->nblocks - 1);
    o->deficit = o->nblocks * o->block - o->n;
    o->cut = (o->short_at + 1) * o->block - o->deficit;
    uint64_t nwindows = (o->nblocks - 1) / o->window + 1, small = o->nblocks / nwindows;
    o->big_windows = o->nblocks % nwindows;
    o->by_block = divisor(o->block);
    o->by_big = divisor(small + 1);
    o->by_small = divisor(small);
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

/* Which of the permuted blocks position p lies in, *inside it that far. */
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

/* The window p lies in: its number and its positions [*first, *end). */
static uint64_t window_of(const struct stk_order *o, uint64_t p, uint64_t *first, uint64_t *end)
{
    uint64_t inside, place = place_of(o, p, &inside), in_big = o->big_windows * o->by_big.d;
    uint64_t number, from, blocks;
    if (place < in_big) {
        number = divide(place, &o->by_big);
        blocks = o->by_big.d;
        from = number * blocks;
    } else {
        uint64_t small = divide(place - in_big, &o->by_small);
        number = o->big_windows + small;
        blocks = o->by_small.d;
        from = in_big + small * blocks;
    }
    *first = place_start(o, from);
    *end = place_start(o, from + blocks);
    return number;
}

static uint64_t block_at(const struct stk_order *o, uint64_t p)
{
    uint64_t first, end, inside, number = window_of(o, p, &first, &end);
    struct stk_perm mixed;
    stk_perm_init(&mixed, end - first, o->key + 0xd1342543de82ef95u * (number + 1));
    uint64_t place = place_of(o, first + stk_perm_at(&mixed, p - first), &inside);
    uint64_t sample = stk_perm_at(&o->perm, place) * o->block + inside + o->rotate;
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
    if (o->shuffle == STK_SHUFFLE_BLOCK && o->n)
        window_of(o, p, first, end);
}

const char *const stk_shuffle_names[] = {[STK_SHUFFLE_BLOCK] = "block",
                                         [STK_SHUFFLE_GLOBAL] = "global",
                                         [STK_SHUFFLE_NONE] = "none",
                                         NULL};

const char *stk_shuffle_name(int shuffle)
{
    return shuffle >= 0 && shuffle <= STK_SHUFFLE_NONE ? stk_shuffle_names[shuffle] : "";
}
