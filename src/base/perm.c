/*
 * perm.c - a Feistel network over rows x columns, walked until it lands below n (Black & Rogaway's
 * cycle walking). Columns are a power of two near sqrt(n), rows just enough, so that the table is
 * hardly larger than n: the walk rarely takes a second step. Up to 16 elements are simply shuffled;
 * for up to 32, which need the most rounds, all walks are precomputed.
 */

#include "base/random.h"

#define ROUNDS_FEW   4
#define ROUNDS_LARGE 6  /* n from 4096 */
#define ROUNDS_SMALL 10 /* n below 256 */
#define LISTED       16 /* elements whose list fits 64 bits; n! fits too, with 20 bits to spare */

/*
 * Two elements in one column keep their distance through two rounds with probability 1/columns,
 * about n^-1/2, so through all rounds with n^-(rounds/4); a random permutation keeps it with 1/n.
 * The number of rounds makes the first small compared with the second.
 */
static unsigned rounds_for(uint64_t n)
{
    return n <= 32 ? 14 : n < 256 ? ROUNDS_SMALL : n < 4096 ? 8 : ROUNDS_LARGE;
}

/* Fisher and Yates, with all draws from one number: each takes the leading digits and leaves the
 * rest. */
static uint64_t shuffled_list(uint64_t n, uint64_t digits)
{
    uint64_t list = 0xfedcba9876543210u;
    for (uint64_t k = n; k > 1; k--) {
        unsigned __int128 drawn = (unsigned __int128)digits * k;
        unsigned a = 4 * (unsigned)(k - 1), b = 4 * (unsigned)(drawn >> 64);
        uint64_t differ = (list >> a ^ list >> b) & 15;
        list ^= differ << a | differ << b;
        digits = (uint64_t)drawn;
    }
    return list;
}

void stk_perm_init_once(struct stk_perm *p, uint64_t n, uint64_t seed)
{
    unsigned bits = n > 1 ? 64 - (unsigned)__builtin_clzll(n - 1) : 0;
    p->n = n; /* skips the table, which is cheaper */
    p->key = stk_mix64(seed + STK_GOLDEN64);
    p->rounds = 0;
    if (n <= LISTED) {
        p->list = shuffled_list(n, p->key);
        return;
    }
    p->column_bits = bits / 2;
    p->rounds = rounds_for(n);
    p->rows = ((n - 1) >> p->column_bits) + 1;
}

void stk_perm_init(struct stk_perm *p, uint64_t n, uint64_t seed)
{
    stk_perm_init_once(p, n, seed);
    if (!p->rounds || n > sizeof p->table)
        return;
    for (uint64_t i = 0; i < n; i++)
        p->table[i] = (uint8_t)stk_perm_at(p, i);
    p->rounds = 0;
}

void stk_perm_init_rough(struct stk_perm *p, uint64_t n, uint64_t seed)
{
    stk_perm_init_once(p, n, seed);
    if (p->rounds)
        p->rounds = ROUNDS_FEW;
}

/* Rounds use the same hash at inputs far apart. Its high bits depend on all of x. */
static inline uint64_t hash(const struct stk_perm *p, uint64_t x, uint64_t round)
{
    x = (x + p->key + round * STK_GOLDEN64) * STK_MIX_A;
    return (x ^ x >> 32) * STK_MIX_B;
}

static inline uint64_t row_shift(const struct stk_perm *p, uint64_t column, uint64_t round)
{
    return (hash(p, column, round) >> 32) * p->rows >> 32; /* rows <= 2^32 */
}

static inline uint64_t column_flip(const struct stk_perm *p, uint64_t row, uint64_t round)
{
    return hash(p, row, round) >> (64 - p->column_bits);
}

/* Rounds swap whole rows or columns and so are nearly always even permutations. A coin decides
 * whether elements 0 and 1 are swapped first: half of all permutations are odd. */
static inline uint64_t toss(const struct stk_perm *p, uint64_t i)
{
    return i < 2 ? i ^ p->key >> 63 : i;
}

/* `rounds` is a constant where this is inlined: the loop goes away. */
static inline __attribute__((always_inline)) uint64_t walk(const struct stk_perm *p, uint64_t v,
                                                           unsigned rounds)
{
    uint64_t row = v >> p->column_bits, column = v & ((1ull << p->column_bits) - 1);
    for (unsigned round = 0; round < rounds; round += 2) {
        row += row_shift(p, column, round);
        row = row < p->rows ? row : row - p->rows;
        column ^= column_flip(p, row, round + 1);
    }
    return row << p->column_bits | column;
}

static inline uint64_t forwards(const struct stk_perm *p, uint64_t v)
{
    switch (p->rounds) {
    case ROUNDS_FEW:
        return walk(p, v, ROUNDS_FEW);
    case ROUNDS_SMALL:
        return walk(p, v, ROUNDS_SMALL);
    case ROUNDS_LARGE:
        return walk(p, v, ROUNDS_LARGE);
    default:
        return walk(p, v, p->rounds);
    }
}

uint64_t stk_perm_at(const struct stk_perm *p, uint64_t i)
{
    if (!p->rounds)
        return p->n <= LISTED ? p->list >> 4 * i & 15 : p->table[i];
    i = toss(p, i);
    do
        i = forwards(p, i);
    while (i >= p->n);
    return i;
}
