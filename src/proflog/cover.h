/*
 * cover.h - which bytes of a file were read, in about a kilobyte: exact for a few spans, an
 * estimate beyond that. Covers can be merged, which gives the bytes that all processes together
 * read (once, again, or in common). Depends on nothing; no allocation.
 *
 * Exact: up to STK_COVER_SPANS disjoint spans. Beyond that, `overflow` is set, and a sample of the
 * file counts, which is kept from the start: the bytes read in some of its lines (32 bytes, one bit
 * per byte). At level n, one line of every 2^n neighbours is in the sample, chosen by a hash; when
 * the table is full, the level rises, and the sample of the higher level is part of the one before.
 * Every byte is in the sample with the same probability, so the estimate (bits times 2^level) has
 * no bias, whatever the sizes of requests. All processes choose the same lines of a file.
 */
#ifndef STK_PROFLOG_COVER_H
#define STK_PROFLOG_COVER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/random.h"

#define STK_COVER_SPANS 8
#define STK_COVER_LINE  32u
#define STK_COVER_SLOTS 128u
#define STK_COVER_LINES 112u /* in the table, at most */
#define STK_COVER_TOP   58u  /* the highest level: 2^63 bytes are two lines */

struct stk_cover {
    uint32_t nspans, overflow;
    uint32_t level, nlines;
    struct {
        uint64_t from, to;
    } span[STK_COVER_SPANS]; /* sorted, disjoint, not touching */
    struct stk_cover_line {
        uint32_t key;  /* a hash of file and line; the lowest 6 bits: the last level that has it */
        uint32_t bits; /* the bytes that were read; 0: free */
    } line[STK_COVER_SLOTS];
};

/* Of two neighbours at `level` - 1, the one that is in the sample of `level`: 0 or 1. */
static inline uint64_t stk_cover_choice(uint64_t hash, uint32_t level, uint64_t pair)
{
    return stk_mix64(hash + pair * STK_GOLDEN64 + level) >> 63;
}

/* Puts a line into the table, which has room. */
static inline void stk_cover_put(struct stk_cover *c, uint32_t key, uint32_t bits)
{
    uint32_t i = key >> 6;
    struct stk_cover_line *at = &c->line[i % STK_COVER_SLOTS];
    while (at->bits && at->key != key)
        at = &c->line[++i % STK_COVER_SLOTS];
    c->nlines += !at->bits;
    at->key = key;
    at->bits |= bits;
}

/* Drops the lines that the next level does not have. */
static inline void stk_cover_rise(struct stk_cover *c)
{
    struct stk_cover_line old[STK_COVER_SLOTS];
    __builtin_memcpy(old, c->line, sizeof old);
    __builtin_memset(c->line, 0, sizeof c->line);
    c->level++;
    c->nlines = 0;
    for (uint32_t i = 0; i < STK_COVER_SLOTS; i++)
        if (old[i].bits && (old[i].key & 63) >= c->level)
            stk_cover_put(c, old[i].key, old[i].bits);
}

/* Adds bytes of a line that belongs to the sample of this level. */
static inline void stk_cover_add_line(struct stk_cover *c, uint32_t key, uint32_t bits)
{
    stk_cover_put(c, key, bits);
    while (c->nlines > STK_COVER_LINES) /* ends: no line has a level above 63 */
        stk_cover_rise(c);
}

/* The line of group `group` (2^level neighbours) that is in the sample, if it is one of first to
 * last; otherwise UINT64_MAX. */
static inline uint64_t stk_cover_chosen(uint64_t hash, uint32_t level, uint64_t group,
                                        uint64_t first, uint64_t last)
{
    uint64_t at = group;
    for (uint32_t l = level; l > 0; l--) {
        at = 2 * at + stk_cover_choice(hash, l, at);
        if (((at + 1) << (l - 1)) <= first || at << (l - 1) > last)
            return UINT64_MAX;
    }
    return at;
}

/* The key of a line that is in the sample of `level`. */
static inline uint32_t stk_cover_key(uint64_t hash, uint32_t level, uint64_t line)
{
    while (level < STK_COVER_TOP &&
           stk_cover_choice(hash, level + 1, line >> (level + 1)) == (line >> level & 1))
        level++;
    return (uint32_t)(stk_mix64(hash ^ line * STK_GOLDEN64) >> 38) << 6 | level;
}

/* The bytes of [from, to) in a line that it touches. */
static inline uint32_t stk_cover_bits(uint64_t line, uint64_t from, uint64_t to)
{
    uint64_t at = line * STK_COVER_LINE;
    uint32_t skip = from > at ? (uint32_t)(from - at) : 0;
    uint32_t rest = to - at < STK_COVER_LINE ? STK_COVER_LINE - (uint32_t)(to - at) : 0;
    return (UINT32_MAX << skip) & (UINT32_MAX >> rest);
}

/* [from, to) of the file with this hash was read, from < to. */
static inline void stk_cover_sample(struct stk_cover *c, uint64_t hash, uint64_t from, uint64_t to)
{
    uint64_t first = from / STK_COVER_LINE, last = (to - 1) / STK_COVER_LINE;
    while ((last >> c->level) - (first >> c->level) > STK_COVER_LINES)
        stk_cover_rise(c); /* its own lines would not fit */
    for (uint64_t at = first; at <= last;) {
        uint64_t group = at >> c->level, next = (group + 1) << c->level;
        uint64_t line = stk_cover_chosen(hash, c->level, group, first, last);
        if (line != UINT64_MAX)
            stk_cover_add_line(c, stk_cover_key(hash, c->level, line),
                               stk_cover_bits(line, from, to));
        at = next;
    }
}

#endif
