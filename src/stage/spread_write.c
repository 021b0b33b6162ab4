/*
 * spread_write.c - puts what came in crates into the tier of this node. A disk that fails stops the
 * writing here, and nothing else.
 */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/hash.h"
#include "base/pool.h"
#include "stage/spread_ring.h"

/* ---- errors that do not stop the ring ---- */

static void break_disk(struct ring *g, int rc, const struct stk_err *err)
{
    pthread_mutex_lock(&g->lock);
    if (!g->r->disk_rc) {
        g->r->disk_rc = rc;
        g->r->disk_err = *err;
    }
    pthread_mutex_unlock(&g->lock);
    atomic_store(&g->disk_broken, true);
}

/* ---- writing ---- */

static int finish_file(struct ring *g, uint64_t file, const uint64_t *hash)
{
    struct stk_err err = {0};
    int rc = stk_tier_finish_file(g->r->set, file, hash, &err);
    if (rc)
        break_disk(g, rc, &err);
    return rc;
}

/* Brings a file and its hash together; the first of the two waits here. True: both are there. */
static bool meets(struct ring *g, uint64_t file, bool complete, uint64_t *hash)
{
    bool both = false;
    size_t i = 0;
    pthread_mutex_lock(&g->pending_lock);
    while (i < g->npending && g->pending[i].file != file)
        i++;
    if (i < g->npending) {
        both = g->pending[i].complete != complete;
        *hash = complete ? g->pending[i].hash : *hash;
        if (both)
            g->pending[i] = g->pending[--g->npending];
    } else if (stk_array_room(&g->pending, &g->pending_room, g->npending + 1, sizeof *g->pending,
                              NULL) == 0) {
        g->pending[g->npending++] =
            (struct pending){.file = file, .hash = *hash, .complete = complete};
    }
    pthread_mutex_unlock(&g->pending_lock);
    return both;
}

static void store(struct ring *g, const struct entry *e, const uint8_t *p, bool check)
{
    struct stk_tier_set *set = g->r->set;
    struct stk_err err = {0};
    uint64_t hash = 0;
    if (check && stk_tier_hash(p, e->len) != e->hash) {
        stk_err_set(&err, STK_E_CORRUPT, g->r->src->file[e->file].name,
                    (int64_t)(e->parcel * STK_TIER_PARCEL), "it came damaged over the network");
        break_disk(g, STK_E_CORRUPT, &err);
        return;
    }
    int rc = stk_tier_put(set, e->file, e->parcel, p, e->len, e->hash, &err);
    if (rc == 2 || rc < 0) {
        break_disk(g, rc == 2 ? STK_E_SYS : rc, &err);
        return;
    }
    atomic_fetch_add(&g->r->counts->written, e->len);
    atomic_fetch_add(&g->r->counts->there, e->len);
    if (rc == 1 && (!g->r->src->file[e->file].hashed))
        (void)finish_file(g, e->file, NULL);
    else if (rc == 1 && meets(g, e->file, true, &hash))
        (void)finish_file(g, e->file, &hash);
}

/* This node wants the parcel. */
static bool is_wanted(const struct ring *g, const struct entry *e)
{
    const struct spread_work *w = g->r->work;
    size_t words = stk_bits_words(w->map->parcels);
    return !w->wanted || stk_bit(w->wanted + w->node * words, w->map->base[e->file] + e->parcel);
}

static bool is_small(const struct ring *g, const struct entry *e)
{
    return e->kind == KIND_PARCEL && g->r->src->file[e->file].size <= STK_TIER_PARCEL;
}

/* Small files that follow one another are claimed with one lock. Returns how many were stored. */
static uint32_t store_run(struct ring *g, const struct entry *e, uint32_t n, const uint8_t *p,
                          bool check)
{
    enum { MOST = 64 };
    uint8_t got[MOST];
    uint32_t run = 1;
    while (run < n && run < MOST && is_small(g, &e[run]) && e[run].file == e[0].file + run)
        run++;
    stk_tier_claim_files(g->r->set, e[0].file, run, got);
    for (uint32_t i = 0; i < run; p += e[i++].len)
        if (got[i] == STK_TIER_OURS && !atomic_load(&g->disk_broken) && is_wanted(g, &e[i]))
            store(g, &e[i], p, check);
    stk_tier_drop_files(g->r->set, e[0].file, run, got);
    return run;
}

static void store_one(struct ring *g, const struct entry *e, const uint8_t *p, bool check)
{
    uint64_t hash = e->hash;
    if (e->kind == KIND_FINISH && g->r->src->file[e->file].hashed &&
        meets(g, e->file, false, &hash))
        (void)finish_file(g, e->file, &hash);
    if (e->kind != KIND_PARCEL || !is_wanted(g, e) ||
        stk_tier_claim(g->r->set, e->file, e->parcel) != STK_TIER_OURS)
        return;
    store(g, e, p, check);
    stk_tier_drop(g->r->set, e->file, e->parcel);
}

static void write_crate(struct ring *g, struct crate *c)
{
    const struct head *h = stk_crate_head(c);
    const uint8_t *p = c->p + sizeof *h;
    uint32_t entries = h->entries;
    bool own = c->own;
    struct entry *e = malloc(entries * sizeof *e + 1); /* those in the crate are not aligned */
    if (!e) {
        struct stk_err err = {0};
        break_disk(g, stk_err_nomem(&err, ENTRIES_MAX * sizeof *e), &err);
        return;
    }
    memcpy(e, p + h->bytes, entries * sizeof *e);
    for (uint32_t i = 0; i < entries && !atomic_load(&g->disk_broken);) {
        uint32_t n = 1;
        if (is_small(g, &e[i]))
            n = store_run(g, &e[i], entries - i, p, !own);
        else
            store_one(g, &e[i], p, !own);
        while (n--)
            p += e[i++].len;
    }
    free(e);
}

/* With the lock held. False: the crate was taken away meanwhile. */
static bool take_crate(struct writer *w)
{
    struct ring *g = w->ring;
    struct crate *c = g->to_write;
    g->to_write = c->write_link;
    if (!g->to_write)
        g->to_write_end = &g->to_write;
    g->busy_writers++;
    w->crate = c;
    w->since_s = stk_now();
    pthread_mutex_unlock(&g->lock);
    write_crate(g, c);
    pthread_mutex_lock(&g->lock);
    if (!w->crate)
        return false;
    w->crate = NULL;
    g->busy_writers--;
    c->writing = false;
    stk_ring_release(g, c);
    return true;
}

void *stk_ring_write(void *arg)
{
    struct writer *w = arg;
    struct ring *g = w->ring;
    bool mine = true;
    pthread_mutex_lock(&g->lock);
    while (mine) {
        while (!g->to_write && !g->no_more && !g->abort)
            pthread_cond_wait(&g->write_cond, &g->lock);
        if (g->abort || !g->to_write)
            break;
        mine = take_crate(w);
    }
    pthread_mutex_unlock(&g->lock);
    return NULL;
}

/* ---- a disk that hangs ---- */

/* With the lock held. */
static bool hangs(const struct ring *g)
{
    double now = stk_now();
    bool late = false;
    for (unsigned i = 0; i < g->writers; i++)
        late |= g->writer[i].crate && now - g->writer[i].since_s > g->r->disk_s;
    return late;
}

/* The writer may still read the memory of its crate, which therefore gets another. Not while a
 * message uses it: later, then. With the lock held. */
static void take_back(struct ring *g, struct writer *w)
{
    struct crate *c = w->crate;
    uint8_t *p = c->sending || c->acking || c->abroad ? NULL : malloc(CRATE_MAX);
    if (!p)
        return;
    c->p = p;
    c->writing = false;
    w->crate = NULL;
    g->busy_writers--;
    g->r->stuck = true;
    stk_ring_release(g, c);
}

/* Nobody will write them. With the lock held. */
static void drop_queue(struct ring *g)
{
    while (g->to_write) {
        struct crate *c = g->to_write;
        g->to_write = c->write_link;
        c->writing = false;
        stk_ring_release(g, c);
    }
    g->to_write_end = &g->to_write;
}

void stk_ring_look_after_disk(struct ring *g)
{
    struct stk_err err = {0};
    pthread_mutex_lock(&g->lock);
    bool late = hangs(g);
    pthread_mutex_unlock(&g->lock);
    if (!late)
        return;
    break_disk(g,
               stk_err_set(&err, STK_E_STOPPED, NULL, -1,
                           "the disk has not completed a write for %.0f s", g->r->disk_s),
               &err);
    pthread_mutex_lock(&g->lock);
    drop_queue(g);
    for (unsigned i = 0; i < g->writers; i++)
        if (g->writer[i].crate && stk_now() - g->writer[i].since_s > g->r->disk_s)
            take_back(g, &g->writer[i]);
    pthread_mutex_unlock(&g->lock);
}

void stk_ring_finish(struct ring *g)
{
    for (size_t i = 0; i < g->npending && !atomic_load(&g->disk_broken); i++)
        if (g->pending[i].complete)
            (void)finish_file(g, g->pending[i].file, NULL);
}
