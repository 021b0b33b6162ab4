/*
 * work.c - threads that turn bytes into values: check records, undo filters, decode records and
 * images, and put each value into its slot.
 */
#include "load/priv.h"
#include "base/pool.h"

#include <stdlib.h>

#define PREFETCH   2048       /* bytes */
#define TRIM_LEAST (1u << 20) /* a buffer up to this size is always kept */

int stk_worker_init(struct worker *w, struct stk_loader *ld, struct stk_err *err)
{
    *w = (struct worker){.ld = ld, .whole.own_pages = true, .scratch.own_pages = true};
    stk_sample_init(&w->sample);
    return ld->image.channels ? stk_image_new(&w->image, err) : 0;
}

void stk_worker_release(struct worker *w)
{
    stk_sample_release(&w->sample);
    stk_image_free(w->image);
    stk_buf_release(&w->scratch);
    stk_buf_release(&w->whole);
}

/* ---- bytes of slices ---- */

static int decode(struct worker *w, uint64_t extent, const struct stk_extent *e, const uint8_t *p,
                  struct stk_buf *out, struct stk_err *err)
{
    int rc = stk_fetch_decode(w->ld->ds, extent, e, p, out, &w->scratch, err);
    if (rc == 0)
        atomic_fetch_add_explicit(&w->ld->decoded_bytes, out->len, memory_order_relaxed);
    return rc;
}

static int want_error(const struct stk_fetch *f, const struct stk_want *w, struct stk_err *err)
{
    if (err && w->why < f->nerrs)
        *err = f->errs[w->why];
    return w->failed;
}

/* A record with its own filter: decodes it at once. */
static int whole_slice(struct worker *w, uint32_t i, const uint8_t **p, uint64_t *len,
                       struct stk_err *err)
{
    const struct stk_fetch *f = &w->stretch->fetch;
    const struct stk_slice *s = stk_fetch_slice(f, i);
    struct stk_extent e;
    int rc = stk_fetch_stored(f, i, w->ld->o.no_check, p, len, err);
    if (rc == 0)
        rc = stk_index_extent(&f->ds->index, s->extent, &e, err);
    if (rc == 0)
        rc = decode(w, s->extent, &e, *p, &w->whole, err);
    return rc < 0 ? rc : stk_fetch_cut(f->ds, s, &e, &w->whole, p, len, err);
}

static int shared_slice(struct worker *w, uint32_t i, const uint8_t **p, uint64_t *len,
                        struct stk_err *err)
{
    const struct stk_fetch *f = &w->stretch->fetch;
    const struct stk_slice *s = stk_fetch_slice(f, i);
    const struct use *u = stk_use_find(w->stretch, s->extent);
    const struct shared *x = u ? u->x : NULL;
    struct stk_extent e;
    if (!x || x->code) {
        if (x && x->why && err)
            *err = *x->why;
        return x && x->code ? x->code : STK_E_CORRUPT;
    }
    int rc = stk_index_extent(&f->ds->index, s->extent, &e, err);
    if (rc < 0)
        return rc;
    return x->cut ? stk_cut_slice(x, s, stk_fetch_want(f, i), f->ds, &e, p, len, err)
                  : stk_fetch_cut(f->ds, s, &e, &x->data, p, len, err);
}

/* A stk_slice_fn; user: the worker. */
static int slice_bytes(void *user, uint32_t i, const uint8_t **p, uint64_t *len, bool *fleeting,
                       struct stk_err *err)
{
    struct worker *w = user;
    const struct stk_fetch *f = &w->stretch->fetch;
    const struct stk_want *want = stk_fetch_want(f, i);
    const struct stk_slice *s = stk_fetch_slice(f, i);
    *fleeting = false;
    *p = (const uint8_t *)"";
    *len = 0;
    if (s->length == 0)
        return 0;
    if (want->failed)
        return want_error(f, want, err);
    if (!want->chain)
        return stk_fetch_stored(f, i, w->ld->o.no_check, p, len, err);
    *fleeting = s->length == UINT64_MAX;
    return *fleeting ? whole_slice(w, i, p, len, err) : shared_slice(w, i, p, len, err);
}

/* ---- samples ---- */

/* Joins the bytes of a field made of several slices, in the batch's memory. */
static int join_slices(struct worker *w, struct batch *b, uint32_t i, uint32_t j, const uint8_t **p,
                       uint64_t *len, struct stk_err *err)
{
    bool fleeting;
    stk_buf_reset(&w->sample.bytes);
    for (uint32_t k = i; k < j; k++) {
        int rc = slice_bytes(w, k, p, len, &fleeting, err);
        if (rc < 0)
            return rc;
        stk_buf_put(&w->sample.bytes, *p, (size_t)*len);
    }
    int rc = stk_buf_check(&w->sample.bytes, err);
    if (rc < 0)
        return rc;
    *len = w->sample.bytes.len;
    pthread_mutex_lock(&b->lock);
    *p = stk_arena_dup(&b->arena, w->sample.bytes.data, w->sample.bytes.len);
    pthread_mutex_unlock(&b->lock);
    return *p ? 0 : stk_err_nomem(err, *len);
}

/* A sample without codecs: its slices are its values. */
static int put_slices(struct worker *w, struct batch *b, uint32_t slot, size_t k,
                      struct stk_err *err)
{
    const struct stk_loader *ld = w->ld;
    const struct stk_fetch *f = &w->stretch->fetch;
    uint32_t end = stk_fetch_first(f, k + 1);
    int rc = 0;
    for (uint32_t i = stk_fetch_first(f, k), j; rc == 0 && i < end; i = j) {
        uint32_t field = stk_fetch_slice(f, i)->field;
        const uint8_t *p;
        uint64_t len;
        bool fleeting = false;
        for (j = i + 1; j < end && stk_fetch_slice(f, j)->field == field;)
            j++;
        int32_t c = ld->column_of[field];
        if (c < 0)
            continue;
        rc = j - i == 1 ? slice_bytes(w, i, &p, &len, &fleeting, err)
                        : join_slices(w, b, i, j, &p, &len, err);
        if (rc < 0)
            return rc;
        const struct column *col = &ld->column[c];
        struct stk_value v = {.kind = col->image ? (uint8_t)STK_BYTES : col->kind,
                              .dtype = col->dtype,
                              .ndim = col->ndim,
                              .data = p,
                              .size = (size_t)len};
        if (v.kind == STK_ARRAY && len != col->size)
            return stk_err_set(err, STK_E_CORRUPT, NULL, -1,
                               "field '%s' has %llu bytes, its shape needs another number",
                               col->name, (unsigned long long)len);
        if (v.ndim)
            memcpy(v.dim, col->dim, v.ndim * sizeof *v.dim);
        rc = stk_column_put(w, b, slot, (size_t)c, &v, !fleeting && !w->copies, err);
    }
    return rc;
}

/* Bytes in the sample's own slices last as long as the stretch; the output of a codec does not. */
static bool in_slices(const struct worker *w, const void *p, size_t n, size_t k)
{
    const struct stk_fetch *f = &w->stretch->fetch;
    uintptr_t at = (uintptr_t)p;
    if (w->copies)
        return false;
    for (uint32_t i = stk_fetch_first(f, k); i < stk_fetch_first(f, k + 1); i++) {
        const struct stk_want *want = stk_fetch_want(f, i);
        uintptr_t from = (uintptr_t)want->p;
        size_t len = want->len;
        if (want->chain) {
            const struct stk_slice *sl = stk_fetch_slice(f, i);
            const struct use *u = stk_use_find(w->stretch, sl->extent);
            bool cut = u && u->x->cut;
            from = cut ? from : u ? (uintptr_t)u->x->data.data : 0;
            len = cut ? sl->length : u ? u->x->data.len : 0;
        }
        if (from && at >= from && at - from <= len && n <= len - (at - from))
            return true;
    }
    return false;
}

/* True if checksums of records or filters that are compared anyway cover all bytes of sample k;
 * *bytes: those they cover. */
static bool checks_itself(const struct stk_loader *ld, const struct stk_fetch *f, size_t k,
                          uint64_t *bytes)
{
    uint32_t i = stk_fetch_first(f, k), end = stk_fetch_first(f, k + 1);
    bool all = i < end, sums = f->ds->format->caps & STK_CAN_SUM;
    *bytes = 0;
    for (; i < end; i++) {
        const struct stk_want *want = stk_fetch_want(f, i);
        uint64_t length = stk_fetch_slice(f, i)->length;
        bool covered = (want->framed && sums) || length == 0 || ld->summed_chain[want->chain];
        *bytes += !covered ? 0 : length == UINT64_MAX ? want->len : length;
        all &= covered;
    }
    return all;
}

/* Compares the index's checksum of sample k, if there is one. */
static int check_sample(struct worker *w, size_t k, struct stk_err *err)
{
    const struct stk_fetch *f = &w->stretch->fetch;
    uint64_t bytes = 0;
    if (w->ld->o.no_check)
        return 0;
    int rc = w->ld->checks ? stk_assemble_check(f, k, slice_bytes, w, &bytes, err)
                           : checks_itself(w->ld, f, k, &bytes);
    w->checked += rc > 0;
    w->checked_bytes += rc < 0 ? 0 : bytes;
    return rc < 0 ? rc : 0;
}

static void count_checked(struct worker *w, struct batch *b)
{
    if (!w->checked && !w->checked_bytes)
        return;
    atomic_fetch_add_explicit(&b->checked, w->checked, memory_order_relaxed);
    atomic_fetch_add_explicit(&b->checked_bytes, w->checked_bytes, memory_order_relaxed);
    w->checked = w->checked_bytes = 0;
}

static int put_sample(struct worker *w, struct batch *b, uint32_t slot, size_t k,
                      struct stk_err *err)
{
    struct stk_loader *ld = w->ld;
    const struct stk_fetch *f = &w->stretch->fetch;
    int rc = check_sample(w, k, err);
    if (rc < 0)
        return rc;
    if (ld->simple) {
        rc = put_slices(w, b, slot, k, err);
    } else {
        rc = stk_assemble(f, k, slice_bytes, w, &w->sample, err);
        if (rc == 0)
            rc = stk_columns_put(w, b, slot, &w->sample, in_slices, k, err);
    }
    if (rc == 0)
        rc = stk_columns_put_key(w, b, slot, stk_fetch_id(f, k), err);
    return rc;
}

/* Checks that all mapped bytes could be read. */
static int check_intact(struct worker *w, size_t k, struct stk_err *err)
{
    const struct stk_fetch *f = &w->stretch->fetch;
    for (uint32_t i = stk_fetch_first(f, k); i < stk_fetch_first(f, k + 1); i++) {
        const struct stk_want *want = stk_fetch_want(f, i);
        if (!want->len || stk_io_intact(w->ld->io, want->file, want->off, want->len))
            continue;
        char *path = stk_files_path(&f->ds->files, want->file);
        int rc = stk_err_set(err, STK_E_STALE, path, (int64_t)want->off,
                             "the file became shorter or changed while it was read");
        free(path);
        return rc;
    }
    return 0;
}

/* ---- work ---- */

void stk_work_push(struct stk_loader *ld, struct item *first, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        first[i].next = NULL;
        *ld->work_last = &first[i];
        ld->work_last = &first[i].next;
    }
    if (n > 1 && ld->idle > 1)
        pthread_cond_broadcast(&ld->work_cond);
    else if (ld->idle)
        pthread_cond_signal(&ld->work_cond);
}

/* Shuffled samples are far apart: prefetches the next one's bytes while this one is processed. In a
 * large sample, the CPU prefetches by itself. */
static void prefetch_sample(const struct stretch *s, uint32_t k)
{
    uint32_t first = stk_fetch_first(&s->fetch, k);
    if (first == stk_fetch_first(&s->fetch, k + 1))
        return; /* nothing is stored for it */
    const struct stk_want *want = stk_fetch_want(&s->fetch, first);
    size_t n = want->len < PREFETCH ? (size_t)want->len : PREFETCH;
    for (size_t i = 0; want->p && i < n; i += 64)
        __builtin_prefetch(want->p + i);
    const struct stk_loader *ld = s->ld;
    if (ld->checks)
        __builtin_prefetch((const uint32_t *)ld->ds->index.table[STK_T_CHECKS] +
                           stk_fetch_id(&s->fetch, k));
}

/* One stretch less that may free memory by itself. */
static void stretch_done(struct stk_loader *ld)
{
    pthread_mutex_lock(&ld->lock);
    ld->active--;
    stk_feed_wake(ld);
    pthread_mutex_unlock(&ld->lock);
}

/* All samples of a batch are there. */
static void batch_done(struct stk_loader *ld)
{
    pthread_mutex_lock(&ld->lock);
    bool first = ld->tier && !ld->started;
    ld->started = true;
    if (ld->waiting)
        pthread_cond_signal(&ld->ready_cond);
    pthread_mutex_unlock(&ld->lock);
    if (first)
        stk_tier_overlay_started(ld->tier);
}

static void do_samples(struct worker *w, struct item *it)
{
    struct batch *b = it->batch;
    struct stk_loader *ld = w->ld;
    bool maps = stk_io_maps(ld->io), shuffled = ld->order.shuffle != STK_SHUFFLE_NONE;
    /* If no column has views, the batch does not hold the stretch: a value of another kind than its
     * column, which points into the stretch, must be copied. */
    w->copies = it->stretch->copies || !ld->views;
    for (uint32_t k = it->first; k < it->end; k++) {
        struct stk_err why = {.offset = -1};
        uint32_t slot = it->slot + (k - it->first);
        if (shuffled && k + 1 < it->end)
            prefetch_sample(it->stretch, k + 1);
        if (maps)
            stk_watch_sample(b, &it->stretch->fetch, k);
        int rc = put_sample(w, b, slot, k, &why);
        if (maps && check_intact(w, k, &why) < 0)
            rc = STK_E_STALE;
        if (rc < 0) {
            stk_assemble_locate(ld->ds, stk_fetch_id(&w->stretch->fetch, k), rc, &why);
            stk_batch_failed(b, slot, rc, &why);
        }
    }
    count_checked(w, b);
    uint32_t n = it->end - it->first;
    bool last = atomic_fetch_sub_explicit(&it->stretch->left, 1, memory_order_acq_rel) == 1;
    /* From here on the item may be freed: its stretch is held by the batch or dropped. */
    if (w->copies)
        stk_stretch_drop(it->stretch);
    else if (stk_batch_hold(b, it->stretch) < 0)
        stk_batch_failed(b, it->slot, STK_E_NOMEM, &(struct stk_err){.code = STK_E_NOMEM});
    if (last)
        stretch_done(ld);
    stk_batch_grown(b, n);
    if (atomic_fetch_sub_explicit(&b->todo, n, memory_order_acq_rel) == n)
        batch_done(ld);
}

/* A huge record must not leave a buffer of its size in every thread. */
static void trim(struct worker *w)
{
    size_t most = (size_t)w->ld->o.memory_bytes / (16 * (size_t)w->ld->o.threads);
    struct stk_buf *bufs[] = {&w->whole, &w->scratch, &w->sample.bytes};
    for (size_t i = 0; i < sizeof bufs / sizeof *bufs; i++)
        if (bufs[i]->cap > most && bufs[i]->cap > TRIM_LEAST)
            stk_buf_release(bufs[i]);
}

static void decode_shared(struct worker *w, const struct use *u)
{
    const struct stk_fetch *f = &u->stretch->fetch;
    const struct stk_want *want = stk_fetch_want(f, u->want);
    struct shared *x = u->x;
    struct stk_err why = {.offset = -1};
    struct stk_extent e;
    if (x->code) /* it could not be read */
        return;
    int rc = want->failed ? want_error(f, want, &why)
                          : stk_index_extent(&w->ld->ds->index, x->extent, &e, &why);
    if (rc == 0)
        rc = decode(w, x->extent, &e, u->stored ? u->stored : want->p,
                    x->cut ? &w->whole : &x->data, &why);
    if (rc < 0)
        stk_shared_fail(x, rc, &why);
    else if (x->cut)
        stk_cut(u, &e, &w->whole);
}

static void do_shared(struct worker *w, struct item *it)
{
    const struct use *u = &it->stretch->use[it->first];
    decode_shared(w, u);
    trim(w); /* its memory may go to another thread now */
    pthread_mutex_lock(&w->ld->lock);
    stk_shared_done(w->ld, u->x);
    if (it->bundle)
        stk_stream_decoded(w->ld, it);
    pthread_mutex_unlock(&w->ld->lock);
}

int stk_work_now(struct worker *w, struct stretch *s, struct batch *b, uint32_t slot,
                 struct stk_err *err)
{
    w->stretch = s;
    w->copies = true;
    for (size_t i = 0; i < s->nuses; i++)
        decode_shared(w, &s->use[i]);
    int rc = put_sample(w, b, slot, 0, err);
    count_checked(w, b);
    if (rc < 0)
        stk_assemble_locate(w->ld->ds, stk_fetch_id(&s->fetch, 0), rc, err);
    return rc;
}

void *stk_work_main(void *worker)
{
    struct worker *w = worker;
    struct stk_loader *ld = w->ld;
    pthread_mutex_lock(&ld->lock);
    while (!ld->stop) {
        struct item *it = ld->work_first;
        if (!it) {
            ld->idle++;
            pthread_cond_wait(&ld->work_cond, &ld->lock);
            ld->idle--;
            continue;
        }
        ld->work_first = it->next;
        if (!it->next)
            ld->work_last = &ld->work_first;
        pthread_mutex_unlock(&ld->lock);
        double begin = stk_now();
        w->stretch = it->stretch;
        if (it->batch)
            do_samples(w, it);
        else
            do_shared(w, it);
        trim(w);
        atomic_fetch_add_explicit(&ld->decode_ns, (uint64_t)((stk_now() - begin) * 1e9),
                                  memory_order_relaxed);
        pthread_mutex_lock(&ld->lock);
    }
    pthread_mutex_unlock(&ld->lock);
    return NULL;
}
