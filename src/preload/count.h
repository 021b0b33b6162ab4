/*
 * count.h - what a call adds to a record, inline: this runs with every read of a profiled program,
 * which may cost 100 ns in all.
 */
#ifndef STK_PRELOAD_COUNT_H
#define STK_PRELOAD_COUNT_H

#include "preload/priv.h"
#include "proflog/cover.h"

/* ---- ranges that were read ------------------------------------------------------------------- */

/* Marks a range of a file as read (see cover.h). Inline: it runs with every read of a profiled
 * program. Depends on nothing; no allocation. */

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

/* The end time of a call; our own code begins. */
static inline bool stk_pl_ended(const struct stk_pl_call *call, uint64_t *end)
{
    uint64_t now = stk_pl_now(call->thread);
    *end = LIKELY(now >= call->start_ns) ? now : call->start_ns;
    return stk_pl_enter_call(call);
}

static inline unsigned stk_log2(uint64_t n)
{
    return 63u - (unsigned)__builtin_clzll(n | 1);
}

/* Bin of a request size: by its highest bit; at most one edge lies between two powers of two. */
static inline unsigned stk_size_bin(uint64_t n)
{
    static const uint8_t first[64] = {
        [0 ... 6] = 0,   [7 ... 10] = 1,  [11 ... 13] = 2, [14 ... 16] = 3, [17 ... 20] = 4,
        [21 ... 22] = 5, [23 ... 23] = 6, [24 ... 26] = 7, [27 ... 30] = 8, [31 ... 63] = 9};
    unsigned bin = first[stk_log2(n)];
    return bin < STK_SIZE_BINS - 1 && n > stk_size_edge[bin] ? bin + 1 : bin;
}

/* A value that is none of the four: it contends for a place (common.c). */
void stk_pl_contend(struct stk_pl_thread *t, struct stk_common_value *top,
                    struct stk_pl_contenders **more, uint64_t value);

/* Exact with up to four values, which then have the four places. false: it is none of them. */
static inline bool stk_pl_common(struct stk_common_value *top, uint64_t value)
{
    for (unsigned i = 0; i < STK_COMMON; i++) {
        if (top[i].value == value) { /* also a free place, with value 0 */
            top[i].count++;
            return true;
        }
    }
    return false;
}

static inline void stk_count_min(uint64_t *c, uint64_t v)
{
    if (v < *c)
        *c = v;
}
static inline void stk_count_max(uint64_t *c, uint64_t v)
{
    if (v > *c)
        *c = v;
}

static inline void stk_count_seen(struct stk_counts *n, uint64_t start, uint64_t end)
{
    if (UNLIKELY(start < n->c[STK_C_FIRST_NS]))
        n->c[STK_C_FIRST_NS] = start;
    stk_count_max(&n->c[STK_C_LAST_NS], end);
}

static inline void stk_pl_line(struct stk_pl_thread *t, enum stk_pl_what what, uint64_t start,
                               uint64_t end, uint64_t bytes)
{
    struct stk_log_bin *bin = t->bin;
    if (UNLIKELY(start < t->bin_from || end >= t->bin_to)) {
        stk_pl_line_slow(t, what, start, end, bytes);
    } else if (what == STK_PL_READ) {
        bin->read_ns += end - start;
        bin->read_bytes += bytes;
        bin->reads += bytes != 0;
    } else if (what == STK_PL_WRITE) {
        bin->write_ns += end - start;
        bin->write_bytes += bytes;
    } else {
        bin->meta_ns += end - start;
        bin->meta_calls++;
    }
}

/* HDF5 and MPI-IO lie above calls that are on the time line themselves. */
static inline bool stk_pl_on_line(enum stk_api api)
{
    return api <= STK_API_ASYNC;
}

static inline void stk_pl_trace(struct stk_pl_thread *t, uint32_t name, uint8_t api,
                                enum stk_log_op op, uint64_t start, uint64_t end, uint64_t offset,
                                uint64_t bytes)
{
    struct stk_log_block *b = t->trace;
    const uint32_t room = STK_LOG_BLOCK - (uint32_t)sizeof *b;
    if (UNLIKELY(!b || b->used + sizeof(struct stk_log_event) > room)) {
        if (!stk_pl_trace_room(t))
            return;
        b = t->trace;
    }
    struct stk_log_event *e = (struct stk_log_event *)((char *)(b + 1) + b->used);
    uint64_t length = end - start;
    e->start_ns = start;
    e->offset = offset;
    e->length_ns = length > UINT32_MAX ? UINT32_MAX : (uint32_t)length;
    e->bytes = bytes > UINT32_MAX ? UINT32_MAX : (uint32_t)bytes;
    e->name = name;
    e->op = (uint8_t)op;
    e->api = api;
    e->slot = (uint16_t)t->slot;
    __atomic_store_n(&b->used, b->used + (uint32_t)sizeof *e, __ATOMIC_RELEASE);
}

/* Adds a path to the files of the group. */
static inline void stk_pl_group_seen(struct stk_pl_rec *r, uint64_t path_hash)
{
    stk_members_add(r->log->files, path_hash);
}

#endif
