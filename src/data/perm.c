/*
 * perm.c - a balanced Feistel network over the next even power of two, walked until it lands below
 * n (Black & Rogaway's cycle walking): at most 4 steps on average.
 */
#include "data/perm.h"

static uint64_t mix(uint64_t x) /* splitmix64's finaliser */
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return x ^ x >> 31;
}

void stk_perm_init(struct stk_perm *p, uint64_t n, uint64_t seed)
{
    p->n = n;
    p->half_bits = 1;
    while (p->half_bits < 32 && (1ull << (2 * p->half_bits)) < n)
        p->half_bits++;
    for (uint64_t i = 0; i < 4; i++)
        p->key[i] = mix(seed + 0x9e3779b97f4a7c15u * (i + 1));
}

static uint64_t feistel(const struct stk_perm *p, uint64_t v)
{
    uint64_t mask = (1ull << p->half_bits) - 1, left = v >> p->half_bits, right = v & mask;
    for (int i = 0; i < 4; i++) {
        uint64_t next = left ^ (mix(right + p->key[i]) & mask);
        left = right;
        right = next;
    }
    return left << p->half_bits | right;
}

uint64_t stk_perm_at(const struct stk_perm *p, uint64_t i)
{
    do
        i = feistel(p, i);
    while (i >= p->n);
    return i;
}
