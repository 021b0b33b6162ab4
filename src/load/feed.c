/*
 * feed.c - a thread that walks the plan ahead of the caller: slots become stretches, ranges become
 * reads of the engine, finished stretches become work. It waits while the memory or the batches are
 * used up, until some are released.
 */
#include "load/priv.h"

#include <stdlib.h>

#define REAP     64
#define LIKELY_BATCHES 8u /* of an epoch that will probably come */
#define PREFETCH 256 /* samples whose blocks of the index are prefetched */
#define STRETCH_SAMPLES                                                                            \
    4096 /* tiny ones are not planned by the ten thousand before any is read                       \
          */

void stk_feed_wake(struct stk_loader *ld)
{
    if (!ld->hungry)
        return;
    ld->hungry = false;
    stk_io_wake(ld->io);
}

static void set_fatal(struct stk_loader *ld, int code, const struct stk_err *why)
{
    pthread_mutex_lock(&ld->lock);
    if (!ld->fatal) {
        ld->fatal = code;
        ld->fatal_why = *why;
    }
    pthread_cond_signal(&ld->ready_cond);
    pthread_mutex_unlock(&ld->lock);
}

/* True if the caller waits for a batch that is not being read (`next`: the batch to be read next;
 * NULL: none), and nothing in progress would free memory: the caller's batches fill the budget,
 * which must be exceeded. With the lock held. */
static bool starved(const struct stk_loader *ld, const struct batch *next)
{
    return ld->waiting && ld->out_first == next && !ld->active;
}

int stk_loader_plan(struct stk_loader *ld, uint64_t epoch, const struct stk_leg *leg, size_t nlegs,
                    struct stk_err *err)
{
    struct stk_order o;
    unsigned i = epoch % 2;
    if (ld->planned[i] && ld->plan[i].order.epoch == epoch)
        return 0;
    stk_order_init(&o, ld->order.n, ld->order.shuffle, ld->order.seed, epoch, ld->order.block,
                   ld->order.window);
    if (ld->planned[i])
        stk_plan_release(&ld->plan[i]);
    int rc = stk_plan_init(&ld->plan[i], &o, leg, nlegs, ld->o.rank, ld->o.world, ld->o.batch,
                           ld->o.last, err);
    ld->planned[i] = rc == 0;
    return rc;
}

/* ---- slots ---- */

/* Whether an epoch is read before the caller asks for it: one that is known to come. If nobody said
 * how many there are, only the beginning of a likely one: training (who shuffles, trains) makes
 * several, and who began a second epoch will begin a third. */
static bool comes(const struct stk_loader *ld, uint64_t epoch)
{
    uint64_t number = epoch - ld->first_epoch;
    bool likely = ld->order.shuffle != STK_SHUFFLE_NONE || number > 1;
    return ld->o.epochs ? number < ld->o.epochs : likely;
}

static bool read_enough(const struct stk_loader *ld)
{
    return !ld->o.epochs && ld->feed_epoch > ld->take_epoch &&
           ld->feed_slot >= LIKELY_BATCHES * ld->o.batch;
}

/* Starts the next epoch if that is allowed. False: nothing to feed now. With the lock held. */
static bool next_epoch(struct stk_loader *ld, struct stk_err *err, int *rc)
{
    uint64_t next = ld->feed_epoch + 1;
    if (next > ld->take_epoch + comes(ld, next))
        return false;
    *rc = stk_loader_plan(ld, next, NULL, 0, err);
    if (*rc < 0)
        return false;
    ld->feed_epoch = next;
    ld->feed_slot = 0;
    return true;
}

/* False: no slot can be fed now. *over: a batch is needed even beyond the budget. */
static bool find_slot(struct stk_loader *ld, bool *over, struct stk_err *err, int *rc)
{
    bool found = true;
    pthread_mutex_lock(&ld->lock);
    while (found && ld->feed_slot == ld->plan[ld->feed_epoch % 2].slots)
        found = next_epoch(ld, err, rc);
    found = found && !read_enough(ld);
    *over = starved(ld, NULL);
    pthread_mutex_unlock(&ld->lock);
    return found;
}

/* The batch of the next slot; NULL: none is available now. */
static struct batch *batch_of_slot(struct stk_loader *ld, struct stk_err *err, int *rc)
{
    bool over, nomem;
    if (ld->feed_batch)
        return ld->feed_batch;
    if (!find_slot(ld, &over, err, rc))
        return NULL;
    struct batch *b = stk_batch_take(ld, over, &nomem);
    if (!b) {
        *rc = nomem ? stk_err_nomem(err, ld->o.batch) : 0;
        return NULL;
    }
    const struct stk_plan *p = &ld->plan[ld->feed_epoch % 2];
    b->pub.epoch = ld->feed_epoch;
    b->pub.step = ld->feed_slot / ld->o.batch;
    b->first_slot = ld->feed_slot;
    b->size = (uint32_t)stk_plan_batch_size(p, b->pub.step);
    b->unfilled = b->size;
    atomic_store_explicit(&b->todo, b->size, memory_order_relaxed);
    pthread_mutex_lock(&ld->lock);
    *ld->out_last = b;
    ld->out_last = &b->next;
    pthread_mutex_unlock(&ld->lock);
    ld->feed_batch = b;
    return b;
}

/* Stored bytes of the sample added last, and the most memory that reading it takes after the
 * samples before it. */
static size_t measure_sample(const struct stretch *s, uint64_t *bytes)
{
    const struct stk_fetch *f = &s->fetch;
    bool block = s->ld->order.shuffle == STK_SHUFFLE_BLOCK || stk_io_maps(s->ld->io);
    size_t n = stk_fetch_count(f), room = 0;
    *bytes = 0;
    for (uint32_t i = stk_fetch_first(f, n - 1); i < stk_fetch_first(f, n); i++) {
        const struct stk_want *w = stk_fetch_want(f, i), *last = i ? w - 1 : NULL;
        uint64_t length = stk_fetch_slice(f, i)->length;
        *bytes += w->chain && length != UINT64_MAX ? length : w->len;
        bool near = last && last->file == w->file && w->off >= last->off &&
                    w->off <= last->off + last->len + STK_IO_ALIGN;
        if (w->chain && length != UINT64_MAX)
            room += (size_t)length; /* its share: other samples pay for the rest */
        else if (near || block)
            room += (size_t)w->len; /* one read brings both */
        else
            room += stk_io_room((size_t)w->len);
    }
    return room;
}

/* Adds the decoded size of the filtered extents of the sample added last, unless the stretch has
 * them already. Two extents with the same place in `met` count twice, which does no harm. */
static void measure_decoded(struct stk_loader *ld, struct stretch *s)
{
    const struct stk_fetch *f = &s->fetch;
    size_t n = stk_fetch_count(f);
    for (uint32_t i = stk_fetch_first(f, n - 1); i < stk_fetch_first(f, n); i++) {
        const struct stk_slice *sl = stk_fetch_slice(f, i);
        const struct stk_want *w = stk_fetch_want(f, i);
        size_t at = sl->extent % (sizeof ld->met / sizeof *ld->met);
        if (!w->chain || sl->length == UINT64_MAX || !sl->length)
            continue;
        s->asked += (size_t)sl->length;
        if (ld->met[at].stretch == ld->nbuilt + 1 && ld->met[at].extent == sl->extent)
            continue;
        ld->met[at].stretch = ld->nbuilt + 1;
        ld->met[at].extent = sl->extent;
        const struct shared *kept = stk_kept_find(ld, sl->extent);
        size_t size = kept ? kept->about : stk_stretch_decoded(ld, sl->extent, w->chain, w->len);
        s->used += size;
        s->decoded += kept ? 0 : size;
    }
}

static bool is_kept(void *user, uint64_t extent)
{
    return stk_kept_find(user, extent) != NULL;
}

static int add_item(struct stretch *s, struct batch *b, uint32_t slot, struct stk_err *err)
{
    uint32_t k = (uint32_t)stk_fetch_count(&s->fetch) - 1;
    size_t n = s->items.len / sizeof(struct item);
    struct item *last = n ? (struct item *)(void *)s->items.data + (n - 1) : NULL;
    if (last && last->batch == b && last->end - last->first < s->ld->item_samples) {
        last->end++;
        return 0;
    }
    struct item it = {.stretch = s, .batch = b, .first = k, .end = k + 1, .slot = slot};
    stk_buf_put(&s->items, &it, sizeof it);
    return stk_buf_check(&s->items, err);
}

/* Adds the next slot of the plan. 1: done; 0: nothing can be added now. */
static int add_slot(struct stk_loader *ld, struct stretch *s, struct stk_err *err)
{
    int rc = 0;
    struct batch *b = batch_of_slot(ld, err, &rc);
    if (!b)
        return rc;
    const struct stk_plan *p = &ld->plan[ld->feed_epoch % 2];
    uint32_t slot = (uint32_t)(ld->feed_slot - b->first_slot);
    bool repeat;
    uint64_t id = stk_plan_sample(p, ld->feed_slot, &repeat), bytes;
    b->id[slot] = id;
    b->flags[slot] = repeat ? STK_REPEAT : 0;
    rc = stk_fetch_add(&s->fetch, id, is_kept, ld, err);
    if (rc == 0)
        rc = add_item(s, b, slot, err);
    if (rc < 0)
        return rc;
    s->need += measure_sample(s, &bytes);
    measure_decoded(ld, s);
    b->bytes += bytes;
    ld->feed_slot++;
    if (slot + 1 == b->size)
        ld->feed_batch = NULL;
    return 1;
}

/* The number of slots a stretch may get from here: up to the end of the window, whose samples are
 * read together. The first stretch has only the first batch, for which the caller waits, and the
 * second is small, too, so that planning it is quick. */
static uint64_t most_slots(const struct stk_loader *ld)
{
    const struct stk_plan *p = &ld->plan[ld->feed_epoch % 2];
    uint64_t first, end, k = p->first + p->given + ld->feed_slot;
    if (ld->nbuilt < 2)
        return ld->o.batch * (ld->nbuilt ? 4u : 1u);
    if (ld->order.shuffle != STK_SHUFFLE_BLOCK || k >= p->left)
        return ld->cuts ? UINT64_MAX : STRETCH_SAMPLES;
    uint64_t at = stk_plan_position(p, k);
    stk_order_window(&p->order, at, &first, &end);
    return end - at;
}

/* Loads the index blocks of the next samples all at once instead of one after the other at their
 * first use. Costs nothing if they are loaded. */
static void prefetch_index(struct stk_loader *ld)
{
    const struct stk_plan *p = &ld->plan[ld->feed_epoch % 2];
    uint64_t end = ld->feed_slot + PREFETCH < p->slots ? ld->feed_slot + PREFETCH : p->slots;
    bool repeat, cold = false;
    if (ld->order.shuffle == STK_SHUFFLE_NONE || ld->index_warm)
        return;
    for (uint64_t s = ld->feed_slot; s < end; s++) {
        uint64_t number = stk_dataset_at(ld->ds, stk_plan_sample(p, s, &repeat));
        cold = stk_index_prefetch(&ld->ds->index, number) || cold;
    }
    ld->index_warm = !cold && ld->nbuilt > 64;
}

/* Adds slots until the stretch has a good size. 1: it has; 0: nothing can be added now. */
static int grow(struct stk_loader *ld, struct stretch *s, struct stk_err *err)
{
    for (;;) {
        int rc = add_slot(ld, s, err);
        if (rc <= 0)
            return rc;
        uint64_t n = stk_fetch_count(&s->fetch);
        if (n == 1) {
            ld->feed_slot--; /* the window of the slot just added */
            ld->grows_to = most_slots(ld);
            ld->feed_slot++;
            ld->grows_in = ld->feed_epoch;
        }
        if (n >= ld->grows_to || s->need + n * SAMPLE_PLAN_BYTES >= ld->stretch_bytes ||
            ld->grows_in != ld->feed_epoch)
            return 1;
    }
}

/* A stretch that decodes far more than it needs, for want of memory, does so for as many samples
 * as possible: it waits for batches to be released, unless the caller waits for its first one. */
static bool waits_for_more(struct stk_loader *ld, const struct stretch *s)
{
    const struct item *item = (const void *)s->items.data;
    if (s->decoded <= ld->decoded_most || ld->feed_slot == ld->plan[ld->feed_epoch % 2].slots)
        return false;
    pthread_mutex_lock(&ld->lock);
    bool waits = !starved(ld, item->batch);
    pthread_mutex_unlock(&ld->lock);
    return waits;
}

static struct stretch *begin_stretch(struct stk_loader *ld)
{
    struct stretch *s = stk_stretch_take(ld);
    if (!s)
        return NULL;
    stk_index_trim(&ld->ds->index, ld->index_bytes);
    prefetch_index(ld);
    return s;
}

/* Builds a stretch of a good size. NULL: nothing can be fed now (*rc: an error). */
static struct stretch *build(struct stk_loader *ld, struct stk_err *err, int *rc)
{
    struct stretch *s = ld->growing ? ld->growing : begin_stretch(ld);
    ld->growing = NULL;
    if (!s) {
        *rc = stk_err_nomem(err, sizeof *s);
        return NULL;
    }
    *rc = grow(ld, s, err);
    bool any = stk_fetch_count(&s->fetch) > 0;
    if (*rc == 0 && any && waits_for_more(ld, s)) {
        ld->growing = s;
        return NULL;
    }
    ld->nbuilt += any;
    if (*rc >= 0 && any)
        *rc = stk_stretch_plan(s, true, err);
    stk_stretch_settle(s); /* for tiny samples, the plan is larger than the data */
    if (*rc >= 0 && any)
        return s;
    pthread_mutex_lock(&ld->lock);
    s->next = ld->free_stretches;
    ld->free_stretches = s;
    pthread_mutex_unlock(&ld->lock);
    return NULL;
}

/* ---- reading ---- */

/* Memory for the reads of a stretch. 1: taken; 0: none available now. */
static int give_region(struct stk_loader *ld, struct stretch *s, bool over, struct stk_err *err)
{
    bool nomem;
    int rc = s->sifted ? stk_sieve_open(s, err) : 1;
    if (rc <= 0 || !s->need)
        return rc;
    s->region = stk_region_take(&ld->regions, s->need, false, &nomem);
    if (!s->region && !nomem && (stk_stretches_give_up(ld) || over))
        s->region = stk_region_take(&ld->regions, s->need, over, &nomem);
    if (!s->region)
        return nomem ? stk_err_nomem(err, s->need) : 0;
    uint8_t *at = s->region->p;
    for (size_t i = 0; i < s->nbundles; i++) {
        s->bundle[i].req.buf = s->bundle[i].at = at;
        s->bundle[i].req.segment = s->region->segment;
        at += s->bundle[i].room;
    }
    stk_cut_place(s, at);
    return 1;
}

/* Memory for a stretch and for its decoded bytes. */
static int give_memory(struct stk_loader *ld, struct stretch *s, struct stk_err *err)
{
    const struct item *item = (const void *)s->items.data;
    pthread_mutex_lock(&ld->lock);
    bool over = starved(ld, item[s->nown].batch);
    pthread_mutex_unlock(&ld->lock);
    size_t want = stk_stretch_size(s) + s->decoded;
    stk_cut_reserve(s);
    if (!stk_stretch_charge(s, want, false)) {
        stk_kept_trim(ld, 0);
        if (!stk_stretch_charge(s, want, over))
            return 0;
    }
    int rc = give_region(ld, s, over, err);
    if (rc <= 0) {
        stk_stretch_settle(s);
        return rc;
    }
    pthread_mutex_lock(&ld->lock);
    ld->active++;
    pthread_mutex_unlock(&ld->lock);
    return 1;
}

/* All bytes have arrived: queues the work for the threads. */
static void dispatch(struct stk_loader *ld, struct stretch *s)
{
    struct item *items = (void *)s->items.data;
    size_t n = s->items.len / sizeof *items;
    /* One reference per item of samples; it passes to the batch, or ends with the item. */
    atomic_store(&s->refs, (uint32_t)(n - s->nown));
    atomic_store(&s->left, (uint32_t)(n - s->nown));
    pthread_mutex_lock(&ld->lock);
    if (!s->streams)
        stk_work_push(ld, items, s->nown);
    if (--s->unready == 0)
        stk_stretch_ready(ld, s);
    pthread_mutex_unlock(&ld->lock);
}

/* The bytes of a bundle have arrived. */
static void place_wants(struct stretch *s, const struct bundle *r)
{
    if (r->sifted) {
        stk_sieve_keep(s, r);
        return;
    }
    for (size_t i = r->first; i < r->end; i++) {
        struct stk_want *w = stk_fetch_at(&s->fetch, i);
        if (!stk_stream_has(s, i))
            w->p = r->req.data + (w->off - r->from);
    }
}

/* A bundle is done with: nothing needs the memory it was read to, unless that belongs to the
 * stretch. */
static void end_bundle(struct stk_loader *ld, struct bundle *r)
{
    struct stretch *s = r->req.user;
    stk_sieve_return(ld, r);
    if (++s->completed == s->nbundles)
        dispatch(ld, s);
}

static void end_decoded(struct stk_loader *ld)
{
    for (struct bundle *r = stk_stream_back(ld), *next; r; r = next) {
        next = r->next; /* the bundle may be gone with its stretch */
        end_bundle(ld, r);
    }
}

static void complete(struct stk_loader *ld, struct stk_io_req *req)
{
    struct stretch *s = req->user;
    struct bundle *r = (struct bundle *)(void *)((char *)req - offsetof(struct bundle, req));
    struct stk_err none = {.code = req->code, .offset = -1}, changed = {0};
    const struct stk_err *why = req->code == 0 ? &changed : req->why ? req->why : &none;
    int code = req->code ? req->code : req->changed ? STK_E_STALE : 0;
    if (req->changed) {
        stk_err_set(&changed, STK_E_STALE, NULL, (int64_t)req->off,
                    "the file changed while it was read");
        stk_files_blame(&ld->ds->files, req->file, &changed);
    }
    if (req->code == 0)
        place_wants(s, r);
    for (size_t i = r->first; code && i < r->end; i++) {
        struct stk_want *w = stk_fetch_at(&s->fetch, i);
        /* If only the file changed, the checksum of a record would reveal it. */
        if (!stk_stream_has(s, i) && (req->code < 0 || !w->framed))
            stk_fetch_fail(&s->fetch, w, code, why);
    }
    if (r->nitems)
        stk_stream_decode(ld, r, code, why);
    free(req->why);
    req->why = NULL;
    if (!r->nitems)
        end_bundle(ld, r);
}

static void queue_reads(struct stk_loader *ld, struct stretch *s)
{
    if (!s->nbundles) {
        dispatch(ld, s);
        return;
    }
    s->next = NULL;
    *ld->submit_last = s;
    ld->submit_last = &s->next;
}

static void submit_some(struct stk_loader *ld)
{
    while (ld->submit_first && stk_io_free_slots(ld->io)) {
        struct stretch *s = ld->submit_first;
        if (!stk_sieve_lend(ld, &s->bundle[s->submitted]))
            return; /* until another read is done */
        stk_io_submit(ld->io, &s->bundle[s->submitted++].req);
        if (s->submitted < s->nbundles)
            continue;
        ld->submit_first = s->next;
        if (!s->next)
            ld->submit_last = &ld->submit_first;
    }
}

/* Builds a stretch and submits its reads. 1: done; 0: the engine is busy, or memory or batches are
 * used up. One stretch is built ahead, but gets memory only when its first read can start. */
static int build_one(struct stk_loader *ld, struct stk_err *err)
{
    int rc = 0;
    submit_some(ld);
    if (!ld->built)
        ld->built = build(ld, err, &rc);
    if (!ld->built || ld->submit_first || !stk_io_free_slots(ld->io))
        return rc < 0 ? rc : 0;
    rc = give_memory(ld, ld->built, err);
    if (rc > 0) {
        queue_reads(ld, ld->built);
        ld->built = NULL;
        submit_some(ld);
    }
    return rc;
}

static bool stopping(struct stk_loader *ld, bool hungry)
{
    pthread_mutex_lock(&ld->lock);
    bool stop = ld->stop;
    ld->hungry = hungry;
    pthread_mutex_unlock(&ld->lock);
    return stop;
}

void *stk_feed_main(void *loader)
{
    struct stk_loader *ld = loader;
    struct stk_io_req *done[REAP];
    struct stk_err why = {0};
    int rc = 0;
    /* Sets `hungry` before looking for memory and batches, so that no release is missed. */
    while (!stopping(ld, true)) {
        end_decoded(ld);
        if (rc >= 0)
            rc = build_one(ld, &why);
        if (rc < 0 && rc != STK_E_STOPPED) {
            set_fatal(ld, rc, &why);
            rc = STK_E_STOPPED;
        }
        /* Finished reads come before more planning: the caller may wait for them. */
        size_t n = stk_io_reap(ld->io, done, REAP, rc <= 0);
        for (size_t i = 0; i < n; i++)
            complete(ld, done[i]);
    }
    stk_io_stop(ld->io);
    return NULL;
}
