/*
 * perm.c - a Feistel network over rows x columns, walked until it lands below n (Black & Rogaway's
 * cycle walking). Columns are a power of two near sqrt(n), rows just enough, so that the table is
 * hardly larger than n: the walk almost never takes a second step.
 */
#include "data/perm.h"

#include "base/random.h"

/* Four rounds look random only where halves are not tiny: below this number, counted over many
 * seeds, too many neighbours stay neighbours (40 % at 640). Two more rounds mend that. */
#define SMALL 4096

void stk_perm_init(struct stk_perm *p, uint64_t n, uint64_t seed)
{
    unsigned bits = n > 1 ? 64 - (unsigned)__builtin_clzll(n - 1) : 0;
    p->n = n;
    p->column_bits = bits / 2;
    p->rounds = n < SMALL ? 6 : 4;
    p->rows = n ? ((n - 1) >> p->column_bits) + 1 : 0;
    p->key = stk_mix64(seed + STK_GOLDEN64);
}

/* Rounds look at the same hash in places far apart. Its high bits are the good ones: all of x is in
 * them. */
static inline uint64_t hash(const struct stk_perm *p, uint64_t x, uint64_t round)
{
    x = (x + p->key + round * STK_GOLDEN64) * 0xbf58476d1ce4e5b9ull;
    return (x ^ x >> 32) * 0x94d049bb133111ebull;
}

static inline uint64_t row_shift(const struct stk_perm *p, uint64_t column, uint64_t round)
{
    return (uint64_t)((unsigned __int128)hash(p, column, round) * p->rows >> 64);
}

static inline uint64_t column_flip(const struct stk_perm *p, uint64_t row, uint64_t round)
{
    return hash(p, row, round) >> 1 >> (63 - p->column_bits);
}

static inline uint64_t forwards(const struct stk_perm *p, uint64_t v)
{
    uint64_t row = v >> p->column_bits, column = v & ((1ull << p->column_bits) - 1);
    for (uint64_t round = 0; round < p->rounds; round += 2) {
        row += row_shift(p, column, round);
        row = row < p->rows ? row : row - p->rows;
        column ^= column_flip(p, row, round + 1);
    }
    return row << p->column_bits | column;
}

static inline uint64_t backwards(const struct stk_perm *p, uint64_t v)
{
    uint64_t row = v >> p->column_bits, column = v & ((1ull << p->column_bits) - 1);
    for (uint64_t round = p->rounds; round > 0; round -= 2) {
        column ^= column_flip(p, row, round - 1);
        row += p->rows - row_shift(p, column, round - 2);
        row = row < p->rows ? row : row - p->rows;
    }
    return row << p->column_bits | column;
}

uint64_t stk_perm_at(const struct stk_perm *p, uint64_t i)
{
    do
        i = forwards(p, i);
    while (i >= p->n);
    return i;
}

uint64_t stk_perm_inverse(const struct stk_perm *p, uint64_t v)
{
    do
        v = backwards(p, v);
    while (v >= p->n);
    return v;
}
