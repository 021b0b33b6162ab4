/*
 * loader_stretch.c - stretches: taken, given back, and, once their samples are known, the few large
 * reads that bring all of it.
 */
#include "data/loader_priv.h"
#include "base/array.h"

#include <stdlib.h>

#define CHUNK_MOST (256u << 20) /* a limit on decoding above this says nothing of a usual size */

void stk_stretch_free(struct stretch *s)
{
    stk_fetch_release(&s->fetch);
    for (size_t i = 0; i < s->cap_shared; i++) {
        stk_buf_release(&s->shared[i].data);
        free(s->shared[i].why);
    }
    free(s->shared);
    free(s->run);
    stk_buf_release(&s->items);
    free(s);
}

/* ---- memory ---- */

static size_t decoded_bytes(const struct stretch *s)
{
    size_t n = 0;
    for (size_t i = 0; i < s->cap_shared; i++)
        n += s->shared[i].data.cap;
    return n;
}

static size_t plan_bytes(const struct stretch *s)
{
    const struct stk_fetch *f = &s->fetch;
    return f->ids.cap + f->first.cap + f->slices.cap + f->wants.cap + f->order.cap + f->places.cap +
           s->items.cap + s->cap_runs * sizeof *s->run;
}

size_t stk_stretch_size(const struct stretch *s)
{
    size_t kept = decoded_bytes(s);
    return plan_bytes(s) + (kept > s->decoded ? kept : s->decoded);
}

static void give_up_decoded(struct stretch *s)
{
    for (size_t i = 0; i < s->cap_shared; i++)
        stk_buf_release(&s->shared[i].data);
}

/* Of tiny samples the plan takes more than their bytes. */
static void give_up_plan(struct stretch *s)
{
    stk_fetch_release(&s->fetch);
    stk_buf_release(&s->items);
    free(s->run);
    s->run = NULL;
    s->nruns = s->cap_runs = 0;
}

void stk_stretch_settle(struct stretch *s)
{
    size_t now = plan_bytes(s) + decoded_bytes(s);
    if (now < s->charged)
        stk_regions_uncharge(&s->ld->regions, s->charged - now);
    else
        (void)stk_regions_charge(&s->ld->regions, now - s->charged, true);
    s->charged = now;
}

bool stk_stretches_give_up(struct stk_loader *ld)
{
    size_t had = 0;
    pthread_mutex_lock(&ld->lock);
    for (struct stretch *s = ld->free_stretches; s; s = s->next) {
        had += s->charged;
        give_up_decoded(s);
        give_up_plan(s);
        stk_stretch_settle(s);
    }
    pthread_mutex_unlock(&ld->lock);
    return had > 0;
}

/* Takes over the buffers of an idle one, for extents that have none yet: pages that are there cost
 * less than new ones. */
static void adopt(struct stretch *s, struct stretch *idle)
{
    size_t i = 0;
    for (size_t k = 0; k < idle->cap_shared; k++) {
        struct stk_buf *from = &idle->shared[k].data;
        while (i < s->nshared && s->shared[i].data.cap)
            i++;
        if (i == s->nshared)
            return;
        if (!from->cap)
            continue;
        size_t moved = from->cap < idle->charged ? from->cap : idle->charged;
        s->shared[i].data = *from;
        *from = (struct stk_buf){.own_pages = true};
        idle->charged -= moved;
        s->charged += moved;
    }
}

static void adopt_idle(struct stretch *s)
{
    pthread_mutex_lock(&s->ld->lock);
    for (struct stretch *idle = s->ld->free_stretches; idle; idle = idle->next)
        adopt(s, idle);
    pthread_mutex_unlock(&s->ld->lock);
}

bool stk_stretch_charge(struct stretch *s, size_t bytes, bool over)
{
    struct stk_regions *r = &s->ld->regions;
    if (s->nshared && bytes > s->charged)
        adopt_idle(s);
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
    stk_stretch_settle(s);
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
    for (size_t i = 0; i < s->nshared; i++) {
        free(s->shared[i].why);
        s->shared[i].why = NULL;
    }
    s->nruns = s->submitted = s->completed = s->nshared = 0;
    s->need = s->decoded = s->asked = 0;
    s->copies = s->sifted = false;
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
    const struct shared *x = a, *y = b;
    return (x->extent > y->extent) - (x->extent < y->extent);
}

size_t stk_stretch_decoded(const struct stk_loader *ld, const struct stk_slice *sl,
                           const struct stk_want *w)
{
    const struct stk_index *idx = &ld->ds->index;
    const struct stk_chain *c = (const struct stk_chain *)idx->table[STK_T_CHAINS] + (w->chain - 1);
    const uint8_t *window;
    if (c->nsteps && c->step[0].id == STK_FILTER_RESUME) {
        const struct stk_index_point *p = stk_index_point(idx, sl->extent, &window);
        return p ? (size_t)p->decoded_len : 0;
    }
    if (c->max_decoded && c->max_decoded <= CHUNK_MOST)
        return (size_t)c->max_decoded; /* chunks and blocks of one size */
    return (size_t)((double)w->len * ld->grows);
}

/* One more; its buffers may have been used before. */
static struct shared *add_shared(struct stretch *s, struct stk_err *err)
{
    size_t had = s->cap_shared;
    if (STK_ARRAY_ROOM(s->shared, s->cap_shared, s->nshared + 1, err))
        return NULL;
    for (size_t i = had; i < s->cap_shared; i++)
        s->shared[i] = (struct shared){.data.own_pages = true};
    return &s->shared[s->nshared++];
}

/* Filtered extents that are cut into samples: each is decoded once for all of them. */
static int find_shared_extents(struct stretch *s, struct stk_err *err)
{
    const struct stk_fetch *f = &s->fetch;
    uint32_t n = (uint32_t)(f->wants.len / sizeof(struct stk_want));
    uint64_t last = UINT64_MAX;
    for (uint32_t i = 0; i < n; i++) {
        const struct stk_slice *sl = stk_fetch_slice(f, i);
        if (!stk_fetch_want(f, i)->chain || sl->length == UINT64_MAX || sl->length == 0 ||
            sl->extent == last)
            continue;
        last = sl->extent;
        struct shared *x = add_shared(s, err);
        if (!x)
            return STK_E_NOMEM;
        x->extent = last;
        x->want = i;
        x->code = 0;
    }
    if (s->nshared < 2)
        return 0;
    qsort(s->shared, s->nshared, sizeof *s->shared, by_extent);
    size_t kept = 1;
    for (size_t i = 1; i < s->nshared; i++) {
        if (s->shared[i].extent == s->shared[kept - 1].extent)
            continue;
        struct shared swap = s->shared[kept]; /* buffers change places, none is lost */
        s->shared[kept++] = s->shared[i];
        s->shared[i] = swap;
    }
    s->nshared = kept;
    return 0;
}

/* The shared extents come first in the queue. */
static int prepend_shared(struct stretch *s, struct stk_err *err)
{
    if (!s->nshared)
        return 0;
    size_t size = s->nshared * sizeof(struct item), had = s->items.len;
    if (!stk_buf_extend(&s->items, size))
        return stk_err_nomem(err, size);
    memmove(s->items.data + size, s->items.data, had);
    struct item *it = (void *)s->items.data;
    for (size_t i = 0; i < s->nshared; i++)
        it[i] = (struct item){.stretch = s, .first = (uint32_t)i, .end = (uint32_t)i + 1};
    atomic_store(&s->shared_left, (uint32_t)s->nshared);
    return 0;
}

static int add_run(struct stretch *s, size_t i, size_t j, uint64_t from, uint64_t to,
                   struct stk_err *err)
{
    if (STK_ARRAY_ROOM(s->run, s->cap_runs, s->nruns + 1, err))
        return STK_E_NOMEM;
    struct run *r = &s->run[s->nruns++];
    *r = (struct run){.first = i, .end = j, .from = from, .room = stk_io_room((size_t)(to - from))};
    r->req = (struct stk_io_req){.file = stk_fetch_at(&s->fetch, i)->file,
                                 .off = from,
                                 .len = (size_t)(to - from),
                                 .segment = -1,
                                 .user = s};
    return 0;
}

/* Runs of `max` bytes at most. */
static int find_runs(struct stretch *s, uint64_t max, struct stk_err *err)
{
    uint64_t from, to;
    int rc = 0;
    s->need = s->nruns = 0;
    for (size_t i = 0, j; rc == 0 && i < stk_fetch_nwants(&s->fetch); i = j) {
        j = stk_fetch_run(&s->fetch, i, max, &from, &to);
        rc = add_run(s, i, j, from, to, err);
        s->need += stk_io_room((size_t)(to - from));
    }
    return rc;
}

int stk_stretch_plan(struct stretch *s, struct stk_err *err)
{
    int rc = find_shared_extents(s, err);
    if (rc == 0)
        rc = prepend_shared(s, err);
    if (rc == 0)
        rc = stk_fetch_sort(&s->fetch, err);
    s->copies = s->decoded > 2 * s->asked;
    if (rc == 0)
        rc = find_runs(s, s->ld->o.read_bytes - 2 * STK_IO_ALIGN, err);
    if (rc < 0 || !stk_sieve_pays(s))
        return rc;
    rc = find_runs(s, stk_sieve_most(s->ld), err);
    if (rc == 0)
        stk_sieve_plan(s);
    return rc;
}
