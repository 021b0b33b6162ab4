/*
 * index_drop.h - an index that may have only so much memory: pages of its large tables that were
 * brought in longest ago are dropped, and read again when they are looked at. What a page has to be
 * is remembered (its checksum) from when its block was checked.
 *
 * Pages are dropped while nobody looks: whoever reads an entry of such a table holds the index for
 * the few instructions that takes, and keeps no pointer into it. Tables whose entries are borrowed
 * (names, keys, files) stay, and so does all of a small index, which has no struct stk_drop.
 */
#ifndef STK_DATA_INDEX_DROP_H
#define STK_DATA_INDEX_DROP_H

#include "data/index.h"

/* For an index that is open, where it is large. Caller frees with stk_drop_free(). */
int stk_drop_new(struct stk_index *idx, struct stk_err *err);
void stk_drop_free(struct stk_drop *d);

/* The four of an index with a struct stk_drop. */
void stk_drop_hold_large(const struct stk_index *idx);
void stk_drop_let_go_large(const struct stk_index *idx);
void stk_drop_brought_large(const struct stk_index *idx, uint64_t b, const uint8_t *bytes);
int stk_drop_look_large(const struct stk_index *idx, uint64_t at, uint64_t n, struct stk_err *err);

/* Around looking at an entry; not one inside the other. */
static inline void stk_drop_hold(const struct stk_index *idx)
{
    if (idx->drop)
        stk_drop_hold_large(idx);
}
static inline void stk_drop_let_go(const struct stk_index *idx)
{
    if (idx->drop)
        stk_drop_let_go_large(idx);
}
/* Block b, which was checked, is about to be there for everybody. */
static inline void stk_drop_brought(const struct stk_index *idx, uint64_t b, const uint8_t *bytes)
{
    if (idx->drop)
        stk_drop_brought_large(idx, b, bytes);
}
/* Sees to it that n bytes from `at` on, counted from the first block, are there. Their blocks were.
 */
static inline int stk_drop_look(const struct stk_index *idx, uint64_t at, uint64_t n,
                                struct stk_err *err)
{
    return idx->drop ? stk_drop_look_large(idx, at, n, err) : 0;
}

#endif
