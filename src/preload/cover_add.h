/*
 * cover_add.h - marks a range of a file as read (see cover.h). Inline: it runs with every read of a
 * profiled program. Depends on nothing; no allocation.
 */
#ifndef STK_PRELOAD_COVER_ADD_H
#define STK_PRELOAD_COVER_ADD_H

#include "proflog/cover.h"

/* Joins the spans that [from, to) meets or touches with it; `i` is the first that ends at or after
 * `from`. */
static inline void stk_cover_span_slow(struct stk_cover *c, uint32_t i, uint64_t from, uint64_t to)
{
    uint32_t n = c->nspans, past = i;
    if (n > STK_COVER_SPANS)
        return; /* impossible; the compiler does not know */
    while (past < n && c->span[past].from <= to) {
        if (c->span[past].from < from)
            from = c->span[past].from;
        if (c->span[past].to > to)
            to = c->span[past].to;
        past++;
    }
    if (past == i) { /* touches none: adds one */
        if (n == STK_COVER_SPANS) {
            c->overflow = 1;
            return;
        }
        for (uint32_t k = n; k > i; k--)
            c->span[k] = c->span[k - 1];
        c->nspans = n + 1;
    } else {
        for (uint32_t k = past; k < n; k++)
            c->span[i + 1 + k - past] = c->span[k];
        c->nspans = n - (past - i) + 1;
    }
    c->span[i].from = from;
    c->span[i].to = to;
}

/* [from, to) was read, from < to. Exact until more than STK_COVER_SPANS spans lie apart: then sets
 * `overflow`, and the spans are meaningless: false. */
static inline bool stk_cover_span(struct stk_cover *c, uint64_t from, uint64_t to)
{
    if (c->overflow)
        return false;
    uint32_t i = 0;
    while (i < c->nspans && c->span[i].to < from)
        i++;
    if (i < c->nspans && c->span[i].from <= from) {
        if (to <= c->span[i].to)
            return true;
        if (i + 1 == c->nspans || to < c->span[i + 1].from) {
            c->span[i].to = to;
            return true;
        }
    }
    stk_cover_span_slow(c, i, from, to);
    return !c->overflow;
}

#endif
