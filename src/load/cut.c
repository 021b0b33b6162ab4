/*
 * cut.c - for a stretch whose filtered extents do not fit into the memory, decoded or stored.
 *
 * The stored bytes pass through the ring of load/sieve.c: when a bundle has arrived, threads decode
 * its extents, and only then the feeder takes the memory of the bundle back. If the decoded extents
 * do not fit either, they are cut: a thread decodes an extent into its own buffer, copies the
 * slices that samples of the stretch need, and the buffer is free for the next extent. A slice that
 * is a whole value of an array goes to its slot in the batch at once.
 *
 * The feeder plans, and sets where each slice goes; `lock` guards the queue of extents and the list
 * of bundles that are decoded. A bundle is touched by its threads until it is in that list, then
 * only by the feeder.
 */
#include "load/priv.h"

#include <stdlib.h>

#define SLICE_ALIGN 16 /* a slice may be an array in the caller's hands */

static size_t align_up(size_t n)
{
    return (n + SLICE_ALIGN - 1) / SLICE_ALIGN * SLICE_ALIGN;
}

bool stk_cut_pays(const struct stretch *s)
{
    const struct stk_loader *ld = s->ld;
    /* In order, every extent is decoded once, and the next stretch needs the last ones. */
    if (ld->order.shuffle == STK_SHUFFLE_NONE || s->nuses <= FEW_EXTENTS ||
        s->decoded <= ld->decoded_most)
        return false;
    return s->asked <= (ld->cuts ? s->used : s->used / 4 * 3);
}

bool stk_stream_pays(const struct stretch *s)
{
    const struct stk_loader *ld = s->ld;
    return s->cuts || (s->nown && !stk_io_maps(ld->io) && s->need + s->decoded > ld->decoded_most);
}

bool stk_stream_has(const struct stretch *s, size_t place)
{
    const uint32_t *order = (const void *)s->fetch.order.data;
    return s->streams && stk_fetch_shares(&s->fetch, order[place]);
}

/* ---- the plan ---- */

static int by_extent(const void *a, const void *b, void *user)
{
    const struct stk_slice *sl = user;
    uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    if (sl[i].extent != sl[j].extent)
        return sl[i].extent < sl[j].extent ? -1 : 1;
    return (i > j) - (i < j);
}

void stk_cut_group(struct stk_fetch *f)
{
    uint32_t *order = (void *)f->order.data;
    size_t n = stk_fetch_nwants(f);
    for (size_t i = 0, j; i < n; i = j) {
        const struct stk_want *w = stk_fetch_at(f, i);
        bool same = true;
        for (j = i + 1; j < n; j++) {
            const struct stk_want *next = stk_fetch_at(f, j);
            if (next->file != w->file || next->off != w->off)
                break;
            same = same &&
                   stk_fetch_slice(f, order[j])->extent == stk_fetch_slice(f, order[i])->extent;
        }
        if (!same)
            qsort_r(order + i, j - i, sizeof *order, by_extent, f->slices.data);
    }
}

/* The extents that no read brings: their samples are refused. */
static void fail_unread(struct stretch *s)
{
    for (size_t i = 0; i < s->nuses; i++) {
        struct use *u = &s->use[i];
        if (u->want == NO_WANT || u->end)
            continue;
        const struct stk_want *w = stk_fetch_want(&s->fetch, u->want);
        struct stk_err none = {.code = STK_E_CORRUPT, .offset = -1};
        bool known = w->failed && w->why < s->fetch.nerrs;
        stk_shared_fail(u->x, w->failed ? w->failed : STK_E_CORRUPT,
                        known ? &s->fetch.errs[w->why] : &none);
        u->x->done = true;
    }
}

/* Assigns each extent to the bundle that reads it, and the items in that order. */
static void assign_runs(struct stretch *s)
{
    const uint32_t *order = (const void *)s->fetch.order.data;
    struct item *it = (void *)s->items.data;
    for (size_t k = 0; k < s->nbundles; k++) {
        struct bundle *r = &s->bundle[k];
        r->item = it;
        for (size_t at = r->first; at < r->end; at++) {
            struct use *u = stk_stream_has(s, at)
                                ? stk_use_find(s, stk_fetch_slice(&s->fetch, order[at])->extent)
                                : NULL;
            if (!u || u->want == NO_WANT)
                continue;
            if (!u->end) {
                u->first = (uint32_t)at;
                u->want = order[at];
                *it++ = (struct item){.stretch = s, .first = (uint32_t)(u - s->use), .bundle = r};
            }
            u->end = (uint32_t)at + 1;
        }
        r->nitems = (uint32_t)(it - r->item);
    }
}

/* Sets where the slices of a sample go, if that is known: in its slot of the batch. */
static size_t place_sample(struct stretch *s, const struct item *it, size_t k)
{
    const struct stk_fetch *f = &s->fetch;
    uint32_t first = stk_fetch_first(f, k), end = stk_fetch_first(f, k + 1);
    size_t room = 0;
    for (uint32_t i = first; i < end; i++) {
        const struct stk_slice *sl = stk_fetch_slice(f, i);
        bool part =
            (i > first && sl[-1].field == sl->field) || (i + 1 < end && sl[1].field == sl->field);
        if (!stk_fetch_shares(f, i))
            continue;
        struct stk_want *w = stk_fetch_want(f, i);
        w->p = part ? NULL
                    : stk_column_place(it->batch, it->slot + (uint32_t)(k - it->first), sl->field,
                                       sl->length);
        room += w->p ? 0 : align_up((size_t)sl->length);
    }
    return room;
}

void stk_stream_plan(struct stretch *s)
{
    const struct item *it = (const void *)s->items.data;
    size_t n = s->items.len / sizeof *it;
    assign_runs(s);
    fail_unread(s);
    if (!s->cuts)
        return;
    s->slices = 0;
    for (size_t i = s->nown; i < n; i++)
        for (uint32_t k = it[i].first; k < it[i].end; k++)
            s->slices += place_sample(s, &it[i], k);
    s->need += s->slices;
}

void stk_cut_place(struct stretch *s, uint8_t *at)
{
    size_t n = s->fetch.wants.len / sizeof(struct stk_want);
    for (size_t i = 0; s->cuts && i < n; i++) {
        struct stk_want *w = stk_fetch_want(&s->fetch, i);
        if (w->p || !stk_fetch_shares(&s->fetch, i))
            continue;
        w->p = at;
        at += align_up((size_t)stk_fetch_slice(&s->fetch, i)->length);
    }
}

void stk_cut_reserve(struct stretch *s)
{
    struct stk_loader *ld = s->ld;
    size_t largest = 0, room;
    if (!s->cuts)
        return;
    for (size_t i = 0; i < s->nuses; i++)
        if (s->use[i].x->cut && s->use[i].x->takes > largest)
            largest = s->use[i].x->takes;
    room = largest * ld->o.threads;
    if (room > ld->decoding.most)
        room = ld->decoding.most;
    room = room > largest ? room : largest;
    pthread_mutex_lock(&ld->lock);
    size_t more = room > ld->decoding.room ? room - ld->decoding.room : 0;
    ld->decoding.room += more;
    pthread_mutex_unlock(&ld->lock);
    (void)stk_regions_charge(&ld->regions, more, true);
}

/* ---- decoding ---- */

/* Gives extents to the threads, as many as have room to be decoded at once. */
static void start_some(struct stk_loader *ld)
{
    struct decoding *d = &ld->decoding;
    while (d->first) {
        struct item *it = d->first;
        const struct shared *x = it->stretch->use[it->first].x;
        size_t takes = x->cut ? x->takes : 0;
        if (d->bytes && d->bytes + takes > d->room)
            return;
        d->bytes += takes;
        d->first = it->next;
        stk_work_push(ld, it, 1);
    }
}

/* The bytes of a bundle have arrived, or failed to: the error is that of its extents. */
void stk_stream_decode(struct stk_loader *ld, struct bundle *r, int code, const struct stk_err *why)
{
    struct decoding *d = &ld->decoding;
    for (uint32_t i = 0; i < r->nitems; i++) {
        struct stretch *s = r->item[i].stretch;
        struct use *u = &s->use[r->item[i].first];
        if (code)
            stk_shared_fail(u->x, code, why);
        else
            u->stored = r->req.data + (stk_fetch_want(&s->fetch, u->want)->off - r->from);
    }
    r->left = r->nitems;
    pthread_mutex_lock(&ld->lock);
    for (uint32_t i = 0; i < r->nitems; i++) {
        struct item *it = &r->item[i];
        it->next = NULL;
        *(d->first ? &d->last->next : &d->first) = it;
        d->last = it;
    }
    start_some(ld);
    pthread_mutex_unlock(&ld->lock);
}

void stk_stream_decoded(struct stk_loader *ld, const struct item *it)
{
    struct decoding *d = &ld->decoding;
    struct bundle *r = it->bundle;
    const struct shared *x = it->stretch->use[it->first].x;
    d->bytes -= x->cut ? x->takes : 0;
    start_some(ld);
    if (--r->left)
        return;
    r->next = d->back;
    d->back = r;
    stk_feed_wake(ld);
}

struct bundle *stk_stream_back(struct stk_loader *ld)
{
    pthread_mutex_lock(&ld->lock);
    struct bundle *r = ld->decoding.back;
    ld->decoding.back = NULL;
    pthread_mutex_unlock(&ld->lock);
    return r;
}

/* An extent is decoded: keeps the slices that the stretch needs. One that lies beyond its end is
 * reported when its sample is. */
void stk_cut(const struct use *u, const struct stk_extent *e, const struct stk_buf *decoded)
{
    const struct stk_fetch *f = &u->stretch->fetch;
    const uint32_t *order = (const void *)f->order.data;
    u->x->was = decoded->len;
    for (uint32_t at = u->first; at < u->end; at++) {
        const struct stk_slice *sl = stk_fetch_slice(f, order[at]);
        struct stk_want *w = stk_fetch_want(f, order[at]);
        const uint8_t *from;
        uint64_t len;
        if (!stk_fetch_shares(f, order[at])) /* needs the stored bytes */
            continue;
        if (stk_fetch_cut(f->ds, sl, e, decoded, &from, &len, NULL) == 0)
            memcpy((uint8_t *)(uintptr_t)w->p, from, (size_t)len);
        else
            w->p = NULL;
    }
}

int stk_cut_slice(const struct shared *x, const struct stk_slice *sl, const struct stk_want *w,
                  const struct stk_dataset *ds, const struct stk_extent *e, const uint8_t **p,
                  uint64_t *len, struct stk_err *err)
{
    const struct stk_buf gone = {.len = x->was};
    if (!w->p) /* cannot be cut: says why */
        return stk_fetch_cut(ds, sl, e, &gone, p, len, err);
    *p = w->p;
    *len = sl->length;
    return 0;
}
