/*
 * members.h - which files a group record stands for: a HyperLogLog sketch over the hashes of their
 * paths. The hash is the same everywhere: sketches, and covers, of several processes are merged,
 * and files that were recorded by name can be added later. Depends on nothing; no allocation.
 */
#ifndef STK_PROFLOG_MEMBERS_H
#define STK_PROFLOG_MEMBERS_H

#include <stddef.h>
#include <stdint.h>

#include "base/random.h"

#define STK_MEMBERS 64u /* registers: 13 % */

/* FNV-1a, mixed; never 0. */
static inline uint64_t stk_path_hash(const char *path, size_t n)
{
    uint64_t h = 0xcbf29ce484222325ull;
    for (size_t i = 0; i < n; i++)
        h = (h ^ (unsigned char)path[i]) * 0x100000001b3ull;
    h = stk_mix64(h);
    return h ? h : 1;
}

static inline void stk_members_add(uint8_t *reg, uint64_t path_hash)
{
    uint64_t hash = stk_mix64(path_hash);
    uint8_t rank = (uint8_t)(__builtin_clzll((hash >> 6) | 1) - 5);
    uint8_t *mine = &reg[hash % STK_MEMBERS];
    if (*mine < rank)
        *mine = rank;
}

#endif
