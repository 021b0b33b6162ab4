/* random.h - splitmix64: a seed gives the same numbers everywhere, and the state is one integer. */
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

#endif
