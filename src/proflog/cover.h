/*
 * cover.h - which bytes of a file were read, in a few hundred bytes: exact for a few spans, an
 * estimate beyond that. Covers can be merged, which gives the bytes that all processes together
 * read (once, again, or in common). Depends on nothing; no allocation.
 *
 * Exact: up to STK_COVER_SPANS disjoint spans. Beyond that, `overflow` is set and the number of
 * distinct requests (by file and start) is estimated by a HyperLogLog sketch (6.5 % standard
 * error), which is kept from the start; distinct bytes are then that number times the mean request,
 * at most the bytes read and the size of the file.
 */
#ifndef STK_PROFLOG_COVER_H
#define STK_PROFLOG_COVER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/random.h"

#define STK_COVER_SPANS     8
#define STK_COVER_REGISTERS 256

struct stk_cover {
    uint32_t nspans, overflow;
    struct {
        uint64_t from, to;
    } span[STK_COVER_SPANS]; /* sorted, disjoint, not touching */
    uint8_t reg[STK_COVER_REGISTERS];
};

/* Adds a distinct thing, by its hash. */
static inline void stk_cover_sketch(struct stk_cover *c, uint64_t hash)
{
    uint32_t r = (uint32_t)(hash & (STK_COVER_REGISTERS - 1));
    uint8_t rank = (uint8_t)(__builtin_clzll((hash >> 8) | 1) - 7);
    if (c->reg[r] < rank)
        c->reg[r] = rank;
}

#endif
