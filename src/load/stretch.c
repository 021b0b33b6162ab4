/*
 * stretch.c - stretches: taken, released, and planned: the few large reads for their samples.
 */
#include "load/priv.h"
#include "base/buf.h"

#include <stdlib.h>

#define CHUNK_MOST (256u << 20) /* a decoding limit above this says nothing of the usual size */

/* ---- memory ---- */

size_t stk_stretch_size(const struct stretch *s)
{
    const struct stk_fetch *f = &s->fetch;
    return f->ids.cap + f->first.cap + f->slices.cap + f->wants.cap + f->order.cap + f->places.cap +
           s->items.cap + s->cap_bundles * sizeof *s->bundle + s->cap_uses * sizeof *s->use;
}

/* Shared extents belong to others or to no one now; decoded bytes are charged separately. */
static void drop_uses(struct stretch *s)
{
    if (!s->nuses)
        return;
    pthread_mutex_lock(&s->ld->lock);
    for (size_t i = 0; i < s->nuses; i++) {
        if (s->use[i].want != NO_WANT)
            stk_shared_charge(s->ld, s->use[i].x);
        stk_shared_drop(s->ld, s->use[i].x);
    }
    s->nuses = 0;
    pthread_mutex_unlock(&s->ld->lock);
}

void stk_stretch_free(struct stretch *s)
{
    drop_uses(s);
    stk_fetch_release(&s->fetch);
    free(s->use);
    free(s->bundle);
    stk_buf_release(&s->items);
    free(s);
}

/* For tiny samples the plan is larger than their bytes. */
static void give_up_plan(struct stretch *s)
{
    stk_fetch_release(&s->fetch);
    stk_buf_release(&s->items);
    free(s->bundle);
    s->bundle = NULL;
    s->nbundles = s->cap_bundles = 0;
}

void stk_stretch_settle(struct stretch *s)
{
    size_t now = stk_stretch_size(s);
    if (now < s->charged)
        stk_regions_uncharge(&s->ld->regions, s->charged - now);
    else
        (void)stk_regions_charge(&s->ld->regions, now - s->charged, true);
    s->charged = now;
}

bool stk_stretches_give_up(struct stk_loader *ld)
{
    pthread_mutex_lock(&ld->lock);
    bool gave = stk_shared_give_up(ld);
    for (struct stretch *s = ld->free_stretches; s; s = s->next) {
        size_t had = s->charged;
        give_up_plan(s);
        stk_stretch_settle(s);
        gave = gave || s->charged < had;
    }
    pthread_mutex_unlock(&ld->lock);
    return gave;
}

bool stk_stretch_charge(struct stretch *s, size_t bytes, bool over)
{
    struct stk_regions *r = &s->ld->regions;
    size_t more = bytes > s->charged ? bytes - s->charged : 0;
    bool fits = stk_regions_charge(r, more, false);
    if (!fits) {
        (void)stk_stretches_give_up(s->ld);
        fits = stk_regions_charge(r, more, over);
    }
    s->charged += fits ? more : 0;
    return fits;
}

void stk_stretch_drop(struct stretch *s)
{
    struct stk_loader *ld = s->ld;
    if (atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1)
        return;
    if (s->region)
        stk_region_give(&ld->regions, s->region);
    s->region = NULL;
    stk_stretch_settle(s); /* decoded bytes are charged separately from here on */
    drop_uses(s);
    pthread_mutex_lock(&ld->lock);
    s->next = ld->free_stretches;
    ld->free_stretches = s;
    stk_feed_wake(ld);
    pthread_mutex_unlock(&ld->lock);
}

void stk_stretch_reset(struct stretch *s)
{
    stk_fetch_reset(&s->fetch);
    stk_buf_reset(&s->items);
    drop_uses(s);
    s->nbundles = s->submitted = s->completed = s->nown = 0;
    s->need = s->decoded = s->used = s->asked = 0;
    s->copies = s->sifted = s->cuts = s->streams = false;
    s->slices = 0;
    s->next = NULL;
}

struct stretch *stk_stretch_take(struct stk_loader *ld)
{
    pthread_mutex_lock(&ld->lock);
    struct stretch *s = ld->free_stretches;
    if (s) {
        ld->free_stretches = s->next;
    } else if ((s = calloc(1, sizeof *s))) {
        s->ld = ld;
        s->all_next = ld->all_stretches;
        ld->all_stretches = s;
        stk_fetch_init(&s->fetch, ld->ds);
    }
    pthread_mutex_unlock(&ld->lock);
    if (s)
        stk_stretch_reset(s);
    return s;
}

/* ---- what a stretch reads ---- */

static int by_extent(const void *a, const void *b)
{
    const struct use *x = a, *y = b;
    return (x->extent > y->extent) - (x->extent < y->extent);
}

static const struct stk_chain *chain_of(const struct stk_loader *ld, uint8_t chain)
{
    return (const struct stk_chain *)ld->ds->index.table[STK_T_CHAINS] + (chain - 1);
}

size_t stk_stretch_decoded(const struct stk_loader *ld, uint64_t extent, uint8_t chain,
                           uint64_t stored)
{
    const struct stk_index *idx = &ld->ds->index;
    const struct stk_chain *c = chain_of(ld, chain);
    const uint8_t *window;
    if (c->nsteps && c->step[0].id == STK_FILTER_RESUME) {
        const struct stk_index_point *p = stk_index_point(idx, extent, &window);
        return p ? (size_t)p->decoded_len : 0;
    }
    if (c->max_decoded && c->max_decoded <= CHUNK_MOST)
        return (size_t)c->max_decoded; /* chunks and blocks of one size */
    return (size_t)((double)stored * ld->grows);
}

size_t stk_stretch_takes(const struct stk_loader *ld, uint8_t chain, size_t decoded)
{
    return chain_of(ld, chain)->nsteps > 1 ? 2 * decoded : decoded;
}

struct use *stk_use_find(const struct stretch *s, uint64_t extent)
{
    size_t lo = 0, hi = s->nuses;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (s->use[mid].extent < extent)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < s->nuses && s->use[lo].extent == extent ? &s->use[lo] : NULL;
}

/* Lists the filtered extents that are cut into samples, each once. */
static int find_uses(struct stretch *s, struct stk_err *err)
{
    const struct stk_fetch *f = &s->fetch;
    uint32_t n = (uint32_t)(f->wants.len / sizeof(struct stk_want));
    size_t found = 0, kept = 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct stk_slice *sl = stk_fetch_slice(f, i);
        if (!stk_fetch_want(f, i)->chain || sl->length == UINT64_MAX || sl->length == 0 ||
            (found && sl->extent == s->use[found - 1].extent))
            continue;
        if (STK_ARRAY_ROOM(s->use, s->cap_uses, found + 1, err))
            return STK_E_NOMEM;
        s->use[found++] = (struct use){.extent = sl->extent, .stretch = s, .want = i};
    }
    if (found > 1)
        qsort(s->use, found, sizeof *s->use, by_extent);
    for (size_t i = 0; i < found; i++)
        if (!kept || s->use[i].extent != s->use[kept - 1].extent)
            s->use[kept++] = s->use[i];
    s->nuses = kept;
    return 0;
}

/* An extent that another stretch has already belongs to that one; else this stretch decodes it. */
static int share_use(struct stretch *s, struct use *u, bool share, struct stk_err *err)
{
    struct stk_loader *ld = s->ld;
    struct shared *x = share ? stk_kept_find(ld, u->extent) : NULL;
    if (x) {
        pthread_mutex_lock(&ld->lock);
        x->users++;
        pthread_mutex_unlock(&ld->lock);
        u->want = NO_WANT;
    } else {
        x = stk_shared_new(ld, u->extent);
        if (!x)
            return stk_err_nomem(err, sizeof *x);
        const struct stk_want *w = stk_fetch_want(&s->fetch, u->want);
        x->about = stk_stretch_decoded(ld, u->extent, w->chain, w->len);
        x->takes = stk_stretch_takes(ld, w->chain, x->about);
        x->cut = s->cuts;
        s->nown++;
    }
    u->x = x;
    if (x->cut)
        stk_buf_release(&x->data); /* of the extent before it */
    else if (share)
        stk_kept_add(ld, x);
    return 0;
}

static int share_uses(struct stretch *s, bool share, struct stk_err *err)
{
    for (size_t i = 0; i < s->nuses; i++)
        if (share_use(s, &s->use[i], share, err) < 0) {
            s->nuses = i;
            return STK_E_NOMEM;
        }
    return 0;
}

/* The next samples most likely need the extents of the last one. */
static void keep_last(struct stretch *s)
{
    struct stk_loader *ld = s->ld;
    const struct stk_fetch *f = &s->fetch;
    size_t n = stk_fetch_count(f);
    ld->kept.last = 0;
    for (uint32_t i = stk_fetch_first(f, n - 1); i < stk_fetch_first(f, n); i++) {
        const struct stk_slice *sl = stk_fetch_slice(f, i);
        struct shared *x = stk_fetch_want(f, i)->chain && sl->length != UINT64_MAX && sl->length
                               ? stk_kept_find(ld, sl->extent)
                               : NULL;
        if (x)
            stk_kept_add(ld, x);
        ld->kept.last += x != NULL; /* an extent that occurs twice displaces another: no harm */
    }
    stk_kept_trim(ld, ld->cuts ? 0 : ld->o.memory_bytes / STK_KEPT_SHARE);
}

/* Samples wait until their extents are decoded and their own bytes are read. */
static void wait_for_uses(struct stretch *s)
{
    pthread_mutex_lock(&s->ld->lock);
    s->unready = 1;
    for (size_t i = 0; i < s->nuses; i++) {
        struct use *u = &s->use[i];
        if (u->x->done || (s->streams && u->want != NO_WANT))
            continue;
        u->next = u->x->waiting;
        u->x->waiting = u;
        s->unready++;
    }
    pthread_mutex_unlock(&s->ld->lock);
}

/* Puts the extents that it decodes first in the queue. */
static int prepend_own(struct stretch *s, struct stk_err *err)
{
    if (!s->nown)
        return 0;
    size_t size = s->nown * sizeof(struct item), had = s->items.len;
    if (!stk_buf_extend(&s->items, size))
        return stk_err_nomem(err, size);
    memmove(s->items.data + size, s->items.data, had);
    struct item *it = (void *)s->items.data;
    for (uint32_t i = 0; i < s->nuses; i++)
        if (s->use[i].want != NO_WANT)
            *it++ = (struct item){.stretch = s, .first = i, .end = i + 1};
    return 0;
}

void stk_stretch_ready(struct stk_loader *ld, struct stretch *s)
{
    struct item *items = (void *)s->items.data;
    stk_work_push(ld, items + s->nown, s->items.len / sizeof *items - s->nown);
}

/* The first n bytes of a bundle have arrived. */
static void sum_arrived(struct stk_io_req *req, size_t n)
{
    struct stretch *s = req->user;
    struct bundle *r = (struct bundle *)(void *)((char *)req - offsetof(struct bundle, req));
    if (n == 0)
        stk_fetch_sum_again(&s->fetch, &r->sums, r->first, r->end);
    else
        stk_fetch_sum(&s->fetch, &r->sums, r->first, r->end, req->data, r->from, r->from + n);
}

static int add_bundle(struct stretch *s, size_t i, size_t j, uint64_t from, uint64_t to,
                      struct stk_err *err)
{
    if (STK_ARRAY_ROOM(s->bundle, s->cap_bundles, s->nbundles + 1, err))
        return STK_E_NOMEM;
    struct bundle *r = &s->bundle[s->nbundles++];
    *r = (struct bundle){.first = i,
                         .end = j,
                         .from = from,
                         .room = stk_io_room((size_t)(to - from)),
                         .sums = {.place = i}};
    r->req = (struct stk_io_req){.file = stk_fetch_at(&s->fetch, i)->file,
                                 .off = from,
                                 .len = (size_t)(to - from),
                                 .segment = -1,
                                 .user = s,
                                 .arrived = s->ld->sums ? sum_arrived : NULL};
    return 0;
}

/* Makes bundles of at most `max` bytes. */
static int find_runs(struct stretch *s, uint64_t max, struct stk_err *err)
{
    uint64_t from, to;
    int rc = 0;
    s->need = s->nbundles = 0;
    for (size_t i = 0, j; rc == 0 && i < stk_fetch_nwants(&s->fetch); i = j) {
        j = stk_fetch_bundle(&s->fetch, i, max, &from, &to);
        rc = add_bundle(s, i, j, from, to, err);
        s->need += stk_io_room((size_t)(to - from));
    }
    return rc;
}

/* Mapped files need no memory to be read. */
static void forget_rooms(struct stretch *s)
{
    s->need = 0;
    for (size_t i = 0; i < s->nbundles; i++)
        s->bundle[i].room = 0;
}

static int plan_runs(struct stretch *s, bool share, struct stk_err *err)
{
    bool maps = stk_io_maps(s->ld->io);
    int rc = find_runs(s, s->ld->o.read_bytes - 2 * STK_IO_ALIGN, err);
    s->streams = rc == 0 && share && stk_stream_pays(s);
    if (rc == 0 && !maps && (s->streams || stk_sieve_pays(s))) {
        rc = find_runs(s, stk_sieve_most(s->ld), err);
        if (rc == 0)
            stk_sieve_plan(s);
    }
    if (maps)
        forget_rooms(s);
    if (rc == 0 && s->streams)
        stk_stream_plan(s);
    return rc;
}

int stk_stretch_plan(struct stretch *s, bool share, struct stk_err *err)
{
    int rc = find_uses(s, err);
    s->cuts = rc == 0 && share && stk_cut_pays(s);
    s->decoded = s->cuts ? 0 : s->decoded;
    if (rc == 0)
        rc = share_uses(s, share, err);
    if (rc == 0)
        rc = prepend_own(s, err);
    if (rc == 0)
        rc = stk_fetch_sort(&s->fetch, err);
    if (rc == 0 && share && s->nuses)
        stk_cut_group(&s->fetch);
    s->copies = !s->cuts && s->used > 2 * s->asked;
    if (rc == 0)
        rc = plan_runs(s, share, err);
    if (rc == 0 && share && s->nuses)
        keep_last(s);
    if (rc == 0)
        wait_for_uses(s);
    return rc;
}
