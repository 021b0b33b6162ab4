/*
 * raw.c - object headers (for the layout message) and global heap collections, by hand.
 *
 * Follows "HDF5 File Format Specification" versions 2 and 3. Chunk indexes are in format/hdf5/chunks.c.
 */
#include "format/hdf5/raw.h"

#include <stdlib.h>

#include "base/buf.h"

/* ---- object headers ---- */

#define MSG_LAYOUT       8
#define MSG_CONTINUATION 16
#define MAX_BLOCKS       4096  /* of one object header; libhdf5 makes a handful */
#define MAX_MESSAGES     65536 /* a header counts them in 16 bits */

struct block {
    uint64_t at, end; /* messages are in [at, end) */
};

struct header_walk {
    const struct stk_h5_file *f;
    unsigned version;
    bool creation_order; /* version 2: messages include it */
    struct block *block; /* blocks to walk; grows with each continuation */
    size_t nblocks, next;
    unsigned nmessages;
};

static int add_block(struct header_walk *w, uint64_t at, uint64_t end, struct stk_err *err)
{
    if (w->nblocks >= MAX_BLOCKS || end < at)
        return stk_h5_damaged(w->f, at, "object header", err);
    if (STK_ARRAY_MORE(w->block, w->nblocks, err))
        return STK_E_NOMEM;
    w->block[w->nblocks++] = (struct block){at, end};
    return 0;
}

static int begin_version1(struct header_walk *w, uint64_t at, struct stk_err *err)
{
    const uint8_t *p;
    int rc = stk_h5_peek(w->f, at, 16, "object header", &p, err);
    if (rc < 0)
        return rc;
    w->version = 1;
    return add_block(w, at + 16, at + 16 + stk_le32(p + 8), err);
}

static int begin_version2(struct header_walk *w, uint64_t at, struct stk_err *err)
{
    const uint8_t *p;
    int rc = stk_h5_peek(w->f, at, 6, "object header", &p, err);
    if (rc < 0)
        return rc;
    unsigned flags = p[5], width = 1u << (flags & 3);
    w->version = 2;
    w->creation_order = flags & 4;
    uint64_t head = 6u + (flags & 0x20 ? 16u : 0u) + (flags & 0x10 ? 4u : 0u);
    if ((rc = stk_h5_peek(w->f, at + head, width, "object header", &p, err)) < 0)
        return rc;
    uint64_t size = stk_h5_uint(p, width), end;
    if (__builtin_add_overflow(at + head + width, size, &end))
        return stk_h5_damaged(w->f, at, "object header", err);
    return add_block(w, at + head + width, end, err);
}

static int follow_continuation(struct header_walk *w, uint64_t at, struct stk_err *err)
{
    const uint8_t *p;
    unsigned need = w->f->addr_size + w->f->len_size;
    int rc = stk_h5_peek(w->f, at, need, "object header", &p, err);
    if (rc < 0)
        return rc;
    uint64_t where = stk_h5_addr(w->f, p), size = stk_h5_uint(p + w->f->addr_size, w->f->len_size);
    uint64_t frame = w->version == 2 ? 8 : 0, end; /* "OCHK" and the checksum */
    if (size < frame || __builtin_add_overflow(where, size, &end))
        return stk_h5_damaged(w->f, at, "object header", err);
    return add_block(w, where + frame / 2, end - frame / 2, err);
}

/* Steps to the next message. 1: *type, *at and *size are set, 0: there are no more. */
static int next_message(struct header_walk *w, unsigned *type, uint64_t *at, uint64_t *size,
                        struct stk_err *err)
{
    unsigned head = w->version == 1 ? 8 : w->creation_order ? 6 : 4;
    while (w->next < w->nblocks && w->block[w->next].end - w->block[w->next].at < head)
        w->next++;
    if (w->next == w->nblocks)
        return 0;
    struct block *b = &w->block[w->next];
    const uint8_t *p;
    int rc = stk_h5_peek(w->f, b->at, head, "object header", &p, err);
    if (rc < 0)
        return rc;
    *type = w->version == 1 ? stk_le16(p) : p[0];
    *size = stk_le16(p + (w->version == 1 ? 2 : 1));
    *at = b->at + head;
    if (*size > b->end - *at || ++w->nmessages > MAX_MESSAGES)
        return stk_h5_damaged(w->f, b->at, "object header", err);
    b->at = *at + *size;
    return 1;
}

/* ---- the layout message ---- */

/* A cursor over a message's bytes: past the end it returns zeros and sets `over`. */
struct cursor {
    const struct stk_h5_file *f;
    const uint8_t *p;
    size_t left;
    bool over;
};

static const uint8_t *take(struct cursor *c, size_t n)
{
    static const uint8_t zeros[8];
    if (c->left < n) {
        c->over = true;
        c->left = 0;
        return zeros;
    }
    const uint8_t *p = c->p;
    c->p += n;
    c->left -= n;
    return p;
}

static uint64_t take_uint(struct cursor *c, unsigned width)
{
    return stk_h5_uint(take(c, width), width);
}

static uint64_t take_addr(struct cursor *c)
{
    return stk_h5_addr(c->f, take(c, c->f->addr_size));
}

static void take_dims(struct cursor *c, struct stk_h5_layout *out, unsigned width)
{
    if (out->ndims > STK_H5_MAX_RANK + 1 || width < 1 || width > 8) {
        c->over = true;
        return;
    }
    for (unsigned i = 0; i < out->ndims; i++)
        out->dim[i] = take_uint(c, width);
}

/* Versions 1 and 2, of libraries before 1.6.3. `message` is where c->p began. */
static void layout_old(struct cursor *c, uint64_t at, const uint8_t *message,
                       struct stk_h5_layout *out)
{
    out->ndims = (unsigned)take_uint(c, 1);
    out->class = (enum stk_h5_class)take_uint(c, 1);
    (void)take(c, 5);
    if (out->class != STK_H5_COMPACT)
        out->addr = take_addr(c);
    take_dims(c, out, 4);
    if (out->class == STK_H5_COMPACT) {
        out->size = take_uint(c, 4);
        out->addr = at + (uint64_t)(c->p - message);
        (void)take(c, (size_t)out->size);
    }
}

static void layout_chunked4(struct cursor *c, struct stk_h5_layout *out)
{
    unsigned flags = (unsigned)take_uint(c, 1);
    out->ndims = (unsigned)take_uint(c, 1);
    take_dims(c, out, (unsigned)take_uint(c, 1));
    out->index = (unsigned)take_uint(c, 1);
    out->filtered_single = out->index == STK_H5_INDEX_SINGLE && (flags & 2);
    if (out->filtered_single) {
        out->single_size = take_uint(c, c->f->len_size);
        out->single_mask = (uint32_t)take_uint(c, 4);
    }
    static const uint8_t parameters[] = {
        [STK_H5_INDEX_FIXED] = 1, [STK_H5_INDEX_EXTENSIBLE] = 5, [STK_H5_INDEX_BTREE2] = 6};
    if (out->index < STK_H5_INDEX_SINGLE || out->index > STK_H5_INDEX_BTREE2)
        c->over = true;
    else
        (void)take(c, parameters[out->index]); /* the index repeats them */
    out->addr = take_addr(c);
}

static void layout_new(struct cursor *c, unsigned version, uint64_t at, const uint8_t *message,
                       struct stk_h5_layout *out)
{
    out->class = (enum stk_h5_class)take_uint(c, 1);
    if (out->class == STK_H5_COMPACT) {
        out->size = take_uint(c, 2);
        out->addr = at + (uint64_t)(c->p - message);
        (void)take(c, (size_t)out->size);
    } else if (out->class == STK_H5_CONTIGUOUS) {
        out->addr = take_addr(c);
        out->size = take_uint(c, c->f->len_size);
    } else if (out->class == STK_H5_CHUNKED && version == 3) {
        out->ndims = (unsigned)take_uint(c, 1);
        out->addr = take_addr(c);
        take_dims(c, out, 4);
    } else if (out->class == STK_H5_CHUNKED) {
        layout_chunked4(c, out);
    } else if (out->class != STK_H5_VIRTUAL) {
        c->over = true;
    }
}

static int parse_layout(const struct stk_h5_file *f, uint64_t at, size_t size,
                        struct stk_h5_layout *out, struct stk_err *err)
{
    const uint8_t *p;
    int rc = stk_h5_peek(f, at, size, "layout message", &p, err);
    if (rc < 0)
        return rc;
    struct cursor c = {.f = f, .p = p, .left = size};
    *out = (struct stk_h5_layout){.addr = STK_H5_NOWHERE};
    unsigned version = (unsigned)take_uint(&c, 1);
    if (version == 1 || version == 2)
        layout_old(&c, at, p, out);
    else if (version == 3 || version == 4)
        layout_new(&c, version, at, p, out);
    else
        return stk_err_set(err, STK_E_UNSUPPORTED, stk_src_path(f->src), (int64_t)at,
                           "a data layout message of version %u", version);
    return c.over ? stk_h5_damaged(f, at, "layout message", err) : 0;
}

static int find_layout(struct header_walk *w, uint64_t at, struct stk_h5_layout *out,
                       struct stk_err *err)
{
    const uint8_t *p;
    int rc = stk_h5_peek(w->f, at, 5, "object header", &p, err);
    if (rc == 0 && memcmp(p, "OHDR\2", 5) == 0)
        rc = begin_version2(w, at, err);
    else if (rc == 0 && p[0] == 1)
        rc = begin_version1(w, at, err);
    else if (rc == 0)
        rc = stk_h5_damaged(w->f, at, "object header", err);
    unsigned type = 0;
    uint64_t message = 0, size = 0;
    while (rc == 0 && (rc = next_message(w, &type, &message, &size, err)) == 1) {
        rc = 0;
        if (type == MSG_LAYOUT)
            return parse_layout(w->f, message, (size_t)size, out, err);
        if (type == MSG_CONTINUATION)
            rc = follow_continuation(w, message, err);
        if (rc == 0 && w->next == w->nblocks)
            break;
    }
    return rc < 0 ? rc : stk_h5_damaged(w->f, at, "object header without a layout message", err);
}

int stk_h5_find_layout(const struct stk_h5_file *f, uint64_t header, struct stk_h5_layout *out,
                       struct stk_err *err)
{
    struct header_walk w = {.f = f};
    uint64_t at;
    if (__builtin_add_overflow(header, f->base, &at))
        return stk_h5_damaged(f, header, "object header", err);
    int rc = find_layout(&w, at, out, err);
    free(w.block);
    return rc;
}

/* ---- global heap ---- */

struct stk_h5_collection {
    uint64_t addr;
    size_t nobjects; /* highest index + 1 */
    struct {
        uint64_t offset, size; /* offset 0: no such object */
    } * object;
};

#define HEAP_CACHED 8

void stk_h5_heap_release(struct stk_h5_heap *h)
{
    for (size_t i = 0; i < h->ncached; i++)
        free(h->cached[i].object);
    free(h->cached);
    h->cached = NULL;
    h->ncached = 0;
}

static int add_object(struct stk_h5_collection *c, unsigned index, uint64_t offset, uint64_t size,
                      struct stk_err *err)
{
    if (index >= c->nobjects) {
        size_t before = c->nobjects;
        if (STK_ARRAY_ROOM(c->object, c->nobjects, (size_t)index + 1, err))
            return STK_E_NOMEM;
        memset(c->object + before, 0, (c->nobjects - before) * sizeof *c->object);
    }
    c->object[index].offset = offset;
    c->object[index].size = size;
    return 0;
}

static int read_collection(const struct stk_h5_file *f, struct stk_h5_collection *c,
                           struct stk_err *err)
{
    const uint8_t *p;
    unsigned head = 8 + f->len_size;
    int rc = stk_h5_peek(f, c->addr, head, "heap collection", &p, err);
    if (rc < 0)
        return rc;
    uint64_t size = stk_h5_uint(p + 8, f->len_size), end;
    if (memcmp(p, "GCOL\1", 5) != 0 || __builtin_add_overflow(c->addr, size, &end) ||
        end > stk_src_size(f->src))
        return stk_h5_damaged(f, c->addr, "heap collection", err);
    for (uint64_t at = c->addr + head; at < end && end - at >= head;) {
        if ((rc = stk_h5_peek(f, at, head, "heap object", &p, err)) < 0)
            return rc;
        unsigned index = stk_le16(p);
        uint64_t bytes = stk_h5_uint(p + 8, f->len_size);
        if (!index) /* the free space, always last */
            return 0;
        if (bytes > end - at - head)
            return stk_h5_damaged(f, at, "heap object", err);
        if ((rc = add_object(c, index, at + head, bytes, err)) < 0)
            return rc;
        at += head + ((bytes + 7) & ~7ull);
    }
    return 0;
}

/* Fetches the collection at addr and moves it to the front of the cache. */
static int fetch_collection(struct stk_h5_heap *h, uint64_t addr, struct stk_err *err)
{
    if (!h->cached && !(h->cached = calloc(HEAP_CACHED, sizeof *h->cached)))
        return stk_err_nomem(err, HEAP_CACHED * sizeof *h->cached);
    struct stk_h5_collection hit = {.addr = addr};
    size_t i = 0;
    while (i < h->ncached && h->cached[i].addr != addr)
        i++;
    if (i < h->ncached) {
        hit = h->cached[i];
    } else {
        int rc = read_collection(h->file, &hit, err);
        if (rc < 0) {
            free(hit.object);
            return rc;
        }
        if (h->ncached < HEAP_CACHED)
            h->ncached++;
        else
            free(h->cached[HEAP_CACHED - 1].object);
        i = h->ncached - 1;
    }
    memmove(h->cached + 1, h->cached, i * sizeof *h->cached);
    h->cached[0] = hit;
    return 0;
}

int stk_h5_heap_find(struct stk_h5_heap *h, uint64_t addr, uint32_t index, uint64_t *offset,
                     uint64_t *size, struct stk_err *err)
{
    if (!h->ncached || h->cached[0].addr != addr) {
        int rc = fetch_collection(h, addr, err);
        if (rc < 0)
            return rc;
    }
    const struct stk_h5_collection *c = &h->cached[0];
    if (index >= c->nobjects || !c->object[index].offset)
        return stk_err_set(err, STK_E_CORRUPT, stk_src_path(h->file->src), (int64_t)addr,
                           "the heap collection has no object %u", index);
    *offset = c->object[index].offset;
    *size = c->object[index].size;
    return 0;
}
