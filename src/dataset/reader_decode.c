/*
 * reader_decode.c - the bytes of a slice, with filters undone; keeps decoded extents for the
 * samples that share them.
 */
#include "dataset/reader_priv.h"

#include <stdlib.h>

/* Kept extents are looked up by number: neighbours are in different chains. */
static uint16_t *chain_of(struct stk_reader *r, uint64_t extent)
{
    return &r->decoded_chain[extent % NDECODED];
}

struct decoded *stk_reader_decoded(struct stk_reader *r, uint64_t extent)
{
    for (unsigned i = *chain_of(r, extent); i; i = r->decoded[i - 1].next)
        if (r->decoded[i - 1].used && r->decoded[i - 1].extent == extent)
            return &r->decoded[i - 1];
    return NULL;
}

static void link_decoded(struct stk_reader *r, struct decoded *d)
{
    uint16_t *chain = chain_of(r, d->extent);
    d->next = *chain;
    *chain = (uint16_t)(d - r->decoded + 1);
    d->linked = true;
}

static void unlink_decoded(struct stk_reader *r, struct decoded *d)
{
    uint16_t *at = chain_of(r, d->extent), number = (uint16_t)(d - r->decoded + 1);
    while (d->linked && *at != number)
        at = &r->decoded[*at - 1].next;
    if (d->linked)
        *at = d->next;
    d->linked = false;
}

/* True if the kept extents exceed their limit; d is the least recently used of them. */
static bool is_over(const struct stk_reader *r, const struct decoded *d)
{
    bool recent = d && d->used > r->last_sample_clock;
    return r->decoded_bytes > (recent ? SAMPLE_MOST : DECODED_MAX);
}

/* An empty entry, or the least recently used one; over the budget, drops the oldest ones. */
static struct decoded *free_decoded(struct stk_reader *r)
{
    for (;;) {
        struct decoded *empty = NULL, *oldest = NULL;
        for (int i = 0; i < NDECODED; i++) {
            struct decoded *d = &r->decoded[i];
            if (!d->used)
                empty = empty ? empty : d;
            else if (!oldest || d->used < oldest->used)
                oldest = d;
        }
        bool over = is_over(r, oldest);
        if (empty && (!over || !oldest)) {
            r->decoded_bytes -= empty->data.cap;
            unlink_decoded(r, empty);
            return empty;
        }
        oldest->used = 0;
        if (!over)
            continue;
        r->decoded_bytes -= oldest->data.cap;
        stk_buf_release(&oldest->data);
    }
}

void stk_reader_forget(struct stk_reader *r, uint64_t since)
{
    for (int i = 0; i < NDECODED; i++)
        if (r->decoded[i].used <= since)
            r->decoded[i].used = 0;
}

static int decode_extent(struct stk_reader *r, uint64_t extent, const struct stk_extent *e,
                         const uint8_t *p, struct decoded **out, struct stk_err *err)
{
    struct decoded *d = free_decoded(r);
    int rc = stk_fetch_decode(r->ds, extent, e, p, &d->data, &r->scratch, err);
    r->decoded_bytes += d->data.cap;
    if (rc < 0)
        return rc;
    r->decoded_total += d->data.len;
    d->extent = extent;
    d->used = ++r->clock;
    link_decoded(r, d);
    *out = d;
    return 0;
}

/* Reads the stored bytes of an extent that was kept when the batch was planned, or postponed. */
static int read_now(struct stk_reader *r, const struct stk_extent *e, const uint8_t **p,
                    struct stk_err *err)
{
    stk_buf_reset(&r->stored);
    if (!stk_buf_room(&r->stored, (size_t)e->length + 1))
        return stk_err_nomem(err, e->length);
    *p = r->stored.data;
    return stk_reader_range(r, e->file, e->offset, e->length, r->stored.data, err);
}

/* The bytes of a filtered slice: from a kept extent, else decoded now. */
static int decoded_slice(struct stk_reader *r, uint32_t i, const uint8_t **p, uint64_t *len,
                         struct stk_err *err)
{
    const struct stk_slice *s = stk_fetch_slice(&r->fetch, i);
    struct stk_extent e;
    const uint8_t *stored;
    uint64_t n;
    int rc = stk_index_extent(&r->ds->index, s->extent, &e, err);
    struct decoded *d = stk_reader_decoded(r, s->extent);
    if (rc == 0 && stk_fetch_want(&r->fetch, i)->len)
        rc = stk_fetch_stored(&r->fetch, i, false, &stored, &n, err);
    else if (rc == 0 && !d)
        rc = read_now(r, &e, &stored, err);
    if (rc == 0 && !d)
        rc = decode_extent(r, s->extent, &e, stored, &d, err);
    if (rc < 0)
        return rc;
    d->used = ++r->clock;
    return stk_fetch_cut(r->ds, s, &e, &d->data, p, len, err);
}

int stk_reader_slice(void *user, uint32_t i, const uint8_t **p, uint64_t *len, bool *fleeting,
                     struct stk_err *err)
{
    struct stk_reader *r = user;
    const struct stk_want *w = stk_fetch_want(&r->fetch, i);
    *fleeting = w->chain != 0;
    *p = (const uint8_t *)"";
    *len = 0;
    if (stk_fetch_slice(&r->fetch, i)->length == 0)
        return 0;
    if (w->failed) {
        if (err && w->why < r->fetch.nerrs)
            *err = r->fetch.errs[w->why];
        return w->failed;
    }
    return w->chain ? decoded_slice(r, i, p, len, err)
                    : stk_fetch_stored(&r->fetch, i, false, p, len, err);
}
