/* random.h - random numbers, and permutations. splitmix64: a seed gives the same numbers everywhere,
 * and the state is one integer. */
#ifndef STK_BASE_RANDOM_H
#define STK_BASE_RANDOM_H

#include <stdint.h>

#define STK_GOLDEN64 0x9e3779b97f4a7c15ull /* 2^64 / golden ratio: steps that never bunch up */
#define STK_MIX_A    0xbf58476d1ce4e5b9ull /* the odd factors of splitmix64 */
#define STK_MIX_B    0x94d049bb133111ebull

/* splitmix64's finaliser: a bijection of 64 bits without visible structure, for making keys. */
static inline uint64_t stk_mix64(uint64_t x)
{
    x = (x ^ x >> 30) * STK_MIX_A;
    x = (x ^ x >> 27) * STK_MIX_B;
    return x ^ x >> 31;
}

static inline uint64_t stk_random_next(uint64_t *state)
{
    return stk_mix64(*state += STK_GOLDEN64);
}

static inline double stk_random_unit(uint64_t *state) /* 0 <= x < 1 */
{
    return (double)(stk_random_next(state) >> 11) * 0x1p-53;
}

/* ---- permutations ---------------------------------------------------------------------------- */

/* A keyed permutation of 0..n-1, evaluated element by element: no list that grows with n. */

struct stk_perm {
    uint64_t n, key;
    uint64_t rows; /* elements are taken as (row, column), 2^column_bits columns */
    unsigned column_bits, rounds;
    uint64_t list;     /* rounds = 0: the permutation itself, 4 bits per element */
    uint8_t table[32]; /* the same for 17 to 32 elements, which would take the most rounds */
};

void stk_perm_init(struct stk_perm *p, uint64_t n, uint64_t seed);
/* The same permutation, set up cheaply to evaluate one element. */
void stk_perm_init_once(struct stk_perm *p, uint64_t n, uint64_t seed);
/* Twice as fast but less random: more pairs than by chance keep their distance. For one step of an
 * order with several. */
void stk_perm_init_rough(struct stk_perm *p, uint64_t n, uint64_t seed);
/* Where element i (< n) goes. A bijection for every seed. */
uint64_t stk_perm_at(const struct stk_perm *p, uint64_t i);

#endif
