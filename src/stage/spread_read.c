/*
 * spread_read.c - a leader's part of the source: threads of the copier fill crates with what they
 * read.
 */
#include <stdlib.h>
#include <string.h>

#include "base/pool.h"
#include "stage/spread_ring.h"

/* ---- filling crates: called by threads of the copier ---- */

static struct crate *take_own(struct ring *g)
{
    pthread_mutex_lock(&g->lock);
    while (!g->free_own && !g->abort)
        pthread_cond_wait(&g->free_cond, &g->lock);
    struct crate *c = g->abort ? NULL : g->free_own;
    if (c)
        g->free_own = c->link;
    pthread_mutex_unlock(&g->lock);
    if (c)
        *stk_crate_head(c) =
            (struct head){.magic = RING_MAGIC, .origin = g->me, .slot = (uint64_t)(c - g->own)};
    return c;
}

static void close_crate(struct ring *g, struct crate *c)
{
    struct head *h = stk_crate_head(c);
    size_t entries = h->entries * sizeof(struct entry);
    memcpy(c->p + sizeof *h + h->bytes, c->entry, entries);
    c->size = sizeof *h + h->bytes + entries;
    pthread_mutex_lock(&g->lock);
    stk_crate_push(&g->ready_end, c);
    pthread_mutex_unlock(&g->lock);
}

static int pack(struct ring *g, const struct entry *e, const void *p, uint32_t hops,
                struct stk_err *err)
{
    unsigned k = (unsigned)((uintptr_t)pthread_self() >> 12) % OPEN_CRATES;
    int rc = 0;
    pthread_mutex_lock(&g->open[k].lock);
    struct crate *c = g->open[k].crate;
    if (c && (stk_crate_head(c)->bytes + e->len > DATA_MAX ||
              stk_crate_head(c)->entries == ENTRIES_MAX)) {
        close_crate(g, c);
        c = NULL;
    }
    c = c ? c : take_own(g);
    if (c) {
        struct head *h = stk_crate_head(c);
        if (e->len)
            memcpy(c->p + sizeof *h + h->bytes, p, e->len);
        c->entry[h->entries++] = *e;
        h->bytes += e->len;
        h->hops = h->hops > hops ? h->hops : hops;
        /* A full parcel leaves at once: the last ones do not wait for the end. */
        if (h->bytes == DATA_MAX) {
            close_crate(g, c);
            c = NULL;
        }
    } else {
        rc = stk_err_set(err, STK_E_STOPPED, NULL, -1, "stopped");
    }
    g->open[k].crate = c;
    pthread_mutex_unlock(&g->open[k].lock);
    return rc;
}

static struct ring *ring_of(struct stk_copy_sink *me);

static int sink_put(struct stk_copy_sink *me, uint64_t file, uint64_t parcel, const void *p,
                    size_t n, uint64_t hash, struct stk_err *err)
{
    struct ring *g = ring_of(me);
    const struct spread_work *w = g->r->work;
    struct entry e = {
        .file = file, .parcel = parcel, .hash = hash, .len = (uint32_t)n, .kind = KIND_PARCEL};
    uint32_t hops = stk_spread_hops(w, w->map->base[file] + parcel);
    int rc = pack(g, &e, p, hops, err);
    if (rc)
        return rc;
    atomic_fetch_add(&g->r->counts->read, n);
    pthread_mutex_lock(&g->lock);
    bool whole = --g->left[file - g->first_file] == 0;
    pthread_mutex_unlock(&g->lock);
    return whole;
}

/* The hash of the whole file travels behind its parcels: the others need not read them again. */
static int sink_finish(struct stk_copy_sink *me, uint64_t file, const uint64_t *hash,
                       struct stk_err *err)
{
    struct ring *g = ring_of(me);
    const struct spread_map *m = g->r->work->map;
    uint32_t hops = 0;
    if (!hash)
        return 0;
    for (uint64_t k = m->base[file]; k < m->base[file + 1]; k++) {
        uint32_t h = stk_spread_hops(g->r->work, k);
        hops = h > hops ? h : hops;
    }
    return pack(g, &(struct entry){.file = file, .hash = *hash, .kind = KIND_FINISH}, NULL, hops,
                err);
}

struct ring_sink {
    struct stk_copy_sink sink; /* first */
    struct ring *ring;
};

static struct ring *ring_of(struct stk_copy_sink *me)
{
    return ((struct ring_sink *)(void *)me)->ring;
}

/* ---- the copier's thread ---- */

static int count_left(struct ring *g, const struct stk_part *part, size_t n, struct stk_err *err)
{
    uint64_t first = n ? part[0].file : 0, end = first;
    for (size_t i = 0; i < n; i++) {
        first = part[i].file < first ? part[i].file : first;
        end = part[i].file >= end ? part[i].file + 1 : end;
    }
    g->first_file = first;
    g->left = calloc((size_t)(end - first) + 1, sizeof *g->left);
    if (!g->left)
        return stk_err_nomem(err, (end - first) * sizeof *g->left);
    for (size_t i = 0; i < n; i++)
        g->left[part[i].file - first] += (uint32_t)part[i].count;
    return 0;
}

static int still_wanted(void *user, uint64_t bytes, uint64_t files)
{
    struct ring *g = user;
    (void)bytes, (void)files;
    pthread_mutex_lock(&g->lock);
    bool stop = g->abort;
    pthread_mutex_unlock(&g->lock);
    return stop;
}

static int read_part(struct ring *g, struct stk_err *err)
{
    struct ring_sink sink = {.sink = {.put = sink_put, .finish = sink_finish}, .ring = g};
    struct stk_copy_options o = g->r->copy;
    struct stk_copy_result result;
    struct stk_part *part = NULL;
    size_t n = 0;
    o.progress = still_wanted;
    o.user = g;
    int rc = stk_spread_parts(g->r->work, &part, &n, err);
    rc = rc ? rc : count_left(g, part, n, err);
    rc = rc || !n ? rc : stk_copy(g->r->src, part, n, &o, &sink.sink, &result, err);
    free(part);
    return rc;
}

/* The last crate of a leader goes to all; the others learn that it could not read its part. */
static void send_last(struct ring *g)
{
    struct entry e = {.kind = KIND_LAST, .hash = (uint64_t)(g->r->read_rc != 0)};
    for (unsigned i = 0; i < OPEN_CRATES; i++)
        if (g->open[i].crate) {
            close_crate(g, g->open[i].crate);
            g->open[i].crate = NULL;
        }
    struct crate *c = take_own(g);
    if (!c)
        return;
    struct head *h = stk_crate_head(c);
    c->entry[h->entries++] = e;
    h->hops = g->nodes - 1;
    close_crate(g, c);
}

void *stk_ring_read(void *arg)
{
    struct ring *g = arg;
    struct stk_err err = {0};
    double start = stk_now();
    int rc = g->r->work->readers[g->me] ? read_part(g, &err) : 0;
    g->r->read_s = stk_now() - start;
    g->r->read_rc = rc;
    g->r->read_err = err;
    send_last(g);
    pthread_mutex_lock(&g->lock);
    g->copied = true;
    pthread_mutex_unlock(&g->lock);
    return NULL;
}
