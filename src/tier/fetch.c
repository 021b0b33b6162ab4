/*
 * fetch.c - filling while reading: a range that no copy has is read from the source in whole
 * parcels, each once per node, put into the tier, and given to the reader. Whatever goes wrong with
 * the tier, the reader gets its bytes.
 */
#include "tier/use.h"

#include "base/file.h"
#include "base/hash.h"
#include "base/pool.h"
#include "base/thread.h"

#include <stdio.h>
#include <stdlib.h>

#define BUFFERS 8  /* of a parcel each, in use at once */
#define WAIT_S  10 /* for a parcel that another process is fetching */
#define TICK_S  0.02

/* The part of a parcel that the reader wants, and its place. */
struct part {
    uint64_t number, file, parcel; /* in the dataset; in the set */
    uint64_t off;                  /* in the file */
    size_t len;
    uint8_t *to;
};

static struct stk_tier_set *set_of(const struct stk_tier_overlay *o)
{
    return o->level[o->fills - 1].set;
}

/* ---- waiting ---- */

static void signal_change(struct stk_tier_overlay *o)
{
    pthread_mutex_lock(&o->lock);
    pthread_cond_broadcast(&o->changed);
    pthread_mutex_unlock(&o->lock);
}

/* With the lock held. Other processes do not signal. */
static void wait_a_tick(struct stk_tier_overlay *o)
{
    (void)stk_cond_wait(&o->changed, &o->lock, stk_now() + TICK_S);
}

static uint8_t *take_buffer(struct stk_tier_overlay *o, size_t n)
{
    pthread_mutex_lock(&o->lock);
    while (o->buffers >= BUFFERS)
        pthread_cond_wait(&o->changed, &o->lock);
    o->buffers++;
    pthread_mutex_unlock(&o->lock);
    return malloc(n ? n : 1);
}

static void give_buffer(struct stk_tier_overlay *o, uint8_t *p)
{
    free(p);
    pthread_mutex_lock(&o->lock);
    o->buffers--;
    pthread_cond_broadcast(&o->changed);
    pthread_mutex_unlock(&o->lock);
}

/* Nothing more is filled; reading goes on. */
static void end_filling(struct stk_tier_overlay *o, const struct stk_err *why)
{
    pthread_mutex_lock(&o->lock);
    if (!atomic_load(&o->base.full))
        snprintf(o->why, sizeof o->why, "%.199s", why->what);
    atomic_store(&o->base.full, true);
    pthread_mutex_unlock(&o->lock);
}

/* ---- one parcel ---- */

static int read_some(struct stk_tier_overlay *o, uint64_t number, void *p, size_t n, uint64_t off)
{
    struct stk_file *f = NULL;
    size_t got = 0;
    int rc = stk_handles_get(&o->handles, (uint32_t)number, &f, NULL);
    if (rc < 0)
        return rc;
    rc = stk_pread_full(f->fd, p, n, off, &got, NULL, NULL);
    bool changed = !f->growing && stk_file_changed(&o->files, number, f->fd, &f->stamp);
    stk_handles_put(&o->handles, f);
    return rc < 0 || got < n || changed ? STK_E_STALE : 0;
}

static int put(struct stk_tier_overlay *o, const struct part *w, const uint8_t *p, size_t n,
               struct stk_err *why)
{
    struct stk_tier_set *s = set_of(o);
    int rc = stk_tier_put(s, w->file, w->parcel, p, n, stk_tier_hash(p, n), why);
    if (rc == 0 || rc == 1) {
        pthread_mutex_lock(&o->lock);
        o->filled_bytes += n;
        pthread_mutex_unlock(&o->lock);
    }
    return rc == 1 ? stk_tier_finish_file(s, w->file, NULL, why) : rc;
}

/* A parcel that is ours to fetch. */
static int fetch_parcel(struct stk_tier_overlay *o, const struct part *w)
{
    struct stk_err why = {0};
    uint64_t at = w->parcel * STK_TIER_PARCEL;
    size_t n = stk_tier_parcel_len(set_of(o)->src.file[w->file].size, w->parcel);
    uint8_t *p = take_buffer(o, n);
    int rc = p ? read_some(o, w->number, p, n, at) : STK_E_NOMEM;
    if (rc == 0) {
        memcpy(w->to, p + (w->off - at), w->len);
        if (put(o, w, p, n, &why) != 0)
            end_filling(o, &why);
    }
    give_buffer(o, p);
    return rc;
}

static int read_copy(struct stk_tier_overlay *o, const struct part *w)
{
    return read_some(o, w->number + o->fills * o->files.count, w->to, w->len, w->off);
}

static int get_part(struct stk_tier_overlay *o, const struct part *w)
{
    struct stk_tier_set *s = set_of(o);
    double begin_s = stk_now();
    for (;;) {
        enum stk_tier_claim got = stk_tier_claim(s, w->file, w->parcel);
        if (got == STK_TIER_THERE)
            return read_copy(o, w);
        if (got == STK_TIER_OURS) {
            int rc = fetch_parcel(o, w);
            stk_tier_drop(s, w->file, w->parcel);
            signal_change(o);
            return rc;
        }
        if (atomic_load(&o->base.full) || stk_now() - begin_s > WAIT_S)
            return STK_E_STOPPED;
        pthread_mutex_lock(&o->lock);
        wait_a_tick(o);
        pthread_mutex_unlock(&o->lock);
    }
}

static int fetch(const struct stk_files_overlay *base, uint64_t number, uint64_t off, size_t len,
                 void *p)
{
    struct stk_tier_overlay *o = (struct stk_tier_overlay *)(uintptr_t)base;
    const struct level *l = &o->level[o->fills - 1];
    uint32_t file = atomic_load_explicit(&l->file_of[number], memory_order_relaxed);
    int rc = file == NO_FILE || atomic_load(&o->base.full) ? STK_E_STOPPED : 0;
    uint64_t size = rc == 0 ? l->set->src.file[file].size : 0;
    if (rc == 0 && (off > size || len > size - off))
        return STK_E_CORRUPT;
    for (size_t done = 0, n; rc == 0 && done < len; done += n) {
        uint64_t at = off + done, left = STK_TIER_PARCEL - at % STK_TIER_PARCEL;
        n = len - done < left ? len - done : (size_t)left;
        struct part w = {.number = number,
                         .file = file,
                         .parcel = at / STK_TIER_PARCEL,
                         .off = at,
                         .len = n,
                         .to = (uint8_t *)p + done};
        rc = get_part(o, &w);
    }
    return rc;
}

/* ---- beginning and end ---- */

int stk_tier_begin_fetching(struct stk_tier_overlay *o, struct stk_err *err)
{
    int rc = stk_handles_init(&o->handles, &o->files, STK_FILE_PLAIN, stk_handles_limit(), err);
    if (rc == 0)
        o->base.fetch = fetch;
    return rc;
}

void stk_tier_end_fetching(struct stk_tier_overlay *o)
{
    if (!o->base.fetch)
        return;
    stk_handles_release(&o->handles);
    stk_tier_complete(o);
}

void stk_tier_overlay_filled(struct stk_tier_overlay *o, struct stk_tier_filled *out)
{
    pthread_mutex_lock(&o->lock);
    out->bytes = o->filled_bytes;
    memcpy(out->why, o->why, sizeof out->why);
    pthread_mutex_unlock(&o->lock);
}
