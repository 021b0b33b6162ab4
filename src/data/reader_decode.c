/*
 * reader_decode.c - from stored bytes to data: frames checked, filters undone, decoded extents kept
 * for the samples that share them.
 */
#include "data/reader_priv.h"
#include "format/lister.h"

#include <stdlib.h>

/* Kept extents are found by their number: neighbours are in different chains. */
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

/* An empty place, or the one used longest ago; over the budget the oldest of those in use go. */
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
        if (empty && (r->decoded_bytes <= DECODED_MAX || !oldest)) {
            r->decoded_bytes -= empty->data.cap;
            unlink_decoded(r, empty);
            return empty;
        }
        oldest->used = 0;
        if (r->decoded_bytes <= DECODED_MAX)
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

static int decode_point(struct stk_reader *r, uint64_t extent, const uint8_t *p, size_t n,
                        struct stk_buf *out, const char *path, uint64_t off, struct stk_err *err)
{
    const uint8_t *window;
    const struct stk_index_point *pt = stk_index_point(&r->ds->index, extent, &window);
    stk_buf_reset(out);
    if (!pt || pt->decoded_len > (1u << 30))
        return stk_err_set(err, STK_E_CORRUPT, r->ds->index_path, -1,
                           "damaged index: a compressed extent without access point");
    /* Deflate cannot expand more than 1032 times: an index that says so lies. */
    if (pt->decoded_len / 1032 > n + 64)
        return stk_err_set(err, STK_E_CORRUPT, r->ds->index_path, -1,
                           "damaged index: an access point promises too much");
    if (!stk_buf_extend(out, (size_t)pt->decoded_len + 1))
        return stk_err_nomem(err, pt->decoded_len);
    out->len = (size_t)pt->decoded_len;
    return stk_point_decode(p, n, pt->bits, window, pt->window_len, out->data, out->len, path, off,
                            err);
}

static int decode_extent(struct stk_reader *r, uint64_t extent, const struct stk_extent *e,
                         const uint8_t *p, struct decoded **out, struct stk_err *err)
{
    const struct stk_chain *c =
        (const struct stk_chain *)r->ds->index.table[STK_T_CHAINS] + (e->chain - 1);
    struct decoded *d = free_decoded(r);
    char *path = stk_reader_file_path(r->ds, e->file);
    int rc;
    if (c->nsteps > STK_CHAIN_MAX)
        rc = stk_err_set(err, STK_E_CORRUPT, r->ds->index_path, -1, "damaged index: bad filters");
    else if (c->nsteps && c->step[0].id == STK_FILTER_RESUME)
        rc = decode_point(r, extent, p, (size_t)e->length, &d->data, path, e->offset, err);
    else
        rc =
            stk_filter_decode(c, p, (size_t)e->length, &d->data, &r->scratch, path, e->offset, err);
    free(path);
    r->decoded_bytes += d->data.cap;
    if (rc < 0)
        return rc;
    d->extent = extent;
    d->used = ++r->clock;
    link_decoded(r, d);
    *out = d;
    return 0;
}

/* The bytes of a filtered slice: from the kept ones, else decoded now. */
static int decoded_slice(struct stk_reader *r, const struct stk_slice *s, const struct want *w,
                         const struct stk_extent *e, const uint8_t **p, uint64_t *len,
                         struct stk_err *err)
{
    struct decoded *d = stk_reader_decoded(r, s->extent);
    const uint8_t *stored = r->bytes.data + w->at;
    if (!d && !w->len) { /* it was kept when the batch was planned and has been dropped since */
        struct stk_buf keep = r->bytes;
        r->bytes = r->stored;
        stk_buf_reset(&r->bytes);
        int rc = stk_buf_room(&r->bytes, (size_t)e->length + 1)
                     ? stk_reader_range(r, e->file, e->offset, e->length, 0, err)
                     : stk_err_nomem(err, e->length);
        r->stored = r->bytes;
        r->bytes = keep;
        if (rc < 0)
            return rc;
        stored = r->stored.data;
    } else if (s->length == UINT64_MAX && r->ds->format->check) {
        stored += r->ds->format->head;
    }
    int rc = d ? 0 : decode_extent(r, s->extent, e, stored, &d, err);
    if (rc < 0)
        return rc;
    d->used = ++r->clock;
    *len = s->length == UINT64_MAX ? d->data.len : s->length;
    if (s->offset > d->data.len || *len > d->data.len - s->offset) {
        char *path = stk_reader_file_path(r->ds, e->file);
        rc = stk_err_set(err, STK_E_CORRUPT, path, (int64_t)e->offset,
                         "decoded to %zu bytes, fewer than the samples in it need", d->data.len);
        free(path);
        return rc;
    }
    *p = *len ? d->data.data + s->offset : (const uint8_t *)""; /* nothing may have no buffer */
    return 0;
}

static int check_frame(struct stk_reader *r, const struct stk_extent *e, const struct want *w,
                       struct stk_err *err)
{
    /* The path costs an allocation: first without, and only for a failure with it. */
    const uint8_t *frame = r->bytes.data + w->at;
    int rc = r->ds->format->check(frame, e->length, NULL, w->off, NULL);
    if (rc == 0)
        return 0;
    char *path = stk_reader_file_path(r->ds, e->file);
    rc = r->ds->format->check(frame, e->length, path, w->off, err);
    free(path);
    return rc;
}

/* The bytes of slice i. Borrowed: until the next batch, for filtered ones until the next slice. */
int stk_reader_slice(struct stk_reader *r, uint32_t i, const uint8_t **p, uint64_t *len,
                     bool *filtered, struct stk_err *err)
{
    const struct stk_slice *s = (const struct stk_slice *)(const void *)r->slices.data + i;
    const struct want *w = (const struct want *)(const void *)r->wants.data + i;
    struct stk_extent e;
    *filtered = false;
    *p = (const uint8_t *)"";
    *len = 0;
    if (s->length == 0)
        return 0;
    if (w->failed) {
        if (err && w->at < r->nerrs)
            *err = r->errs[w->at];
        return w->failed;
    }
    int rc = stk_index_extent(&r->ds->index, s->extent, &e, err);
    bool framed = s->length == UINT64_MAX && r->ds->format->check;
    if (rc == 0 && framed)
        rc = check_frame(r, &e, w, err);
    if (rc < 0)
        return rc;
    *filtered = e.chain != 0;
    if (e.chain)
        return decoded_slice(r, s, w, &e, p, len, err);
    *p = r->bytes.data + w->at + (framed ? r->ds->format->head : 0);
    *len = s->length == UINT64_MAX ? e.length : s->length;
    return 0;
}
