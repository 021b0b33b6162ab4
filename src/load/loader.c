/*
 * loader.c - an open loader: gives batches, its state and its counters, and is closed.
 */
#include "load/priv.h"
#include "base/api.h"
#include "base/mark.h"
#include "base/pool.h"
#include "base/thread.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define CLOSE_WAIT_S 1 /* for threads that may be stuck */

/* ---- closing ---- */

/* Frees the batches that were not taken, and drops their stretches. */
static void free_queues(struct stk_loader *ld)
{
    struct batch *b;
    while ((b = ld->out_first)) {
        ld->out_first = b->next;
        for (size_t i = 0; i < b->nheld; i++)
            stk_stretch_drop(b->held[i]);
        stk_batch_free(b);
    }
    while ((b = ld->free_batches)) {
        ld->free_batches = b->next;
        stk_batch_free(b);
    }
}

static void destroy(struct stk_loader *ld)
{
    free_queues(ld);
    for (struct stretch *s = ld->all_stretches, *next; s; s = next) {
        next = s->all_next;
        if (s->region)
            stk_region_give(&ld->regions, s->region);
        stk_stretch_free(s);
    }
    stk_kept_release(ld);
    if (ld->sieve.region)
        stk_region_give(&ld->regions, ld->sieve.region);
    if (ld->io) {
        stk_regions_release(&ld->regions);
        stk_io_close(ld->io);
    }
    stk_tier_overlay_close(ld->tier);
    stk_buf_release(&ld->tier_notes);
    stk_buf_release(&ld->tier_text);
    for (uint32_t i = 0; i < ld->nworkers; i++)
        stk_worker_release(&ld->worker[i]);
    free(ld->worker);
    stk_worker_release(&ld->mender);
    stk_reader_free(ld->reader);
    stk_sample_release(&ld->sample);
    stk_buf_release(&ld->mended_bytes);
    stk_columns_release(ld);
    for (int i = 0; i < 2; i++)
        if (ld->planned[i])
            stk_plan_release(&ld->plan[i]);
    for (size_t i = 0; i < ld->nproblems; i++)
        free(ld->problem[i]);
    free(ld->problem);
    free(ld->late);
    free(ld->image_field);
    pthread_mutex_destroy(&ld->lock);
    pthread_cond_destroy(&ld->work_cond);
    pthread_cond_destroy(&ld->ready_cond);
    stk_dataset_drop(ld->ds);
    free(ld);
}

void stk_loader_unref(struct stk_loader *ld)
{
    if (atomic_fetch_sub_explicit(&ld->refs, 1, memory_order_acq_rel) == 1)
        destroy(ld);
}

/* Waits for a thread, at most `until`. True: it has ended. */
static bool join(pthread_t t, const struct timespec *until)
{
    return (until ? pthread_timedjoin_np(t, NULL, until) : pthread_join(t, NULL)) == 0;
}

static bool join_all(struct stk_loader *ld, const struct timespec *until)
{
    bool all = true;
    if (ld->feeder_started)
        ld->feeder_started = !join(ld->feeder, until);
    all = !ld->feeder_started;
    for (uint32_t i = 0; i < ld->nworkers; i++) {
        struct worker *w = &ld->worker[i];
        if (w->started)
            w->started = !join(w->thread, until);
        all = all && !w->started;
    }
    return all;
}

/* Waits in a thread of its own. Not of base/thread.h, which leaves one thread behind: this waits for
 * all of the loader's, in a library that a program may close many of. */
static void *bury(void *loader)
{
    struct stk_loader *ld = loader;
    (void)join_all(ld, NULL);
    stk_loader_unref(ld);
    return NULL;
}

/* A thread stuck in the kernel (a file server that does not answer) must not delay closing: it ends
 * when it can, and then frees the rest. */
static void leave_behind(struct stk_loader *ld)
{
    pthread_t t;
    ld->o.free = NULL; /* the program may have freed that memory by then */
    if (stk_thread_start(&t, bury, ld) == 0)
        pthread_detach(t);
}

void stk_loader_close(struct stk_loader *ld)
{
    struct timespec until;
    if (!stk_live_end(ld) || ld->pid != getpid()) /* a forked child can only forget it */
        return;
    pthread_mutex_lock(&ld->lock);
    ld->stop = true;
    pthread_cond_broadcast(&ld->work_cond);
    pthread_mutex_unlock(&ld->lock);
    if (ld->feeder_started)
        stk_io_wake(ld->io);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += CLOSE_WAIT_S;
    if (join_all(ld, &until))
        stk_loader_unref(ld);
    else
        leave_behind(ld);
}

/* ---- who may ask ---- */

/* A forked child lacks the threads, and locks that they held stay locked: it touches nothing of the
 * loader. */
static bool is_ours(const struct stk_loader *ld)
{
    return ld && ld->pid == getpid();
}

static int refuse(const struct stk_loader *ld, struct stk_err *err)
{
    if (!ld)
        return stk_err_set(err, STK_E_USAGE, NULL, -1, "there is no loader (NULL)");
    return stk_err_set(err, STK_E_USAGE, ld->ds->path, -1,
                       "the loader was opened before fork(): open one in each process");
}

/* ---- batches ---- */

/* The result of the next call: 1 a batch, 0 the end of the epoch, negative an error; -100: not
 * ready. With the lock held. */
#define NOT_YET (-100)
static int look(struct stk_loader *ld)
{
    const struct batch *b = ld->out_first;
    if (ld->take_step == ld->plan[ld->take_epoch % 2].steps && !ld->epoch_over)
        return 0;
    if (b && atomic_load_explicit(&b->todo, memory_order_acquire) == 0)
        return 1;
    return ld->fatal ? ld->fatal : NOT_YET;
}

/* Begins the next epoch after the end of one. With the lock held. */
static int begin_epoch(struct stk_loader *ld, struct stk_err *err)
{
    if (!ld->epoch_over)
        return 0;
    int rc = stk_loader_plan(ld, ld->take_epoch + 1, NULL, 0, err);
    if (rc < 0)
        return rc;
    ld->take_epoch++;
    ld->take_step = ld->take_slots = ld->refills = 0;
    ld->epoch_over = false;
    stk_feed_wake(ld);
    return 0;
}

/* False: not until then. */
static bool wait_ready(struct stk_loader *ld, double until_s)
{
    ld->waiting = true;
    stk_feed_wake(ld); /* the budget may be exceeded now */
    bool in_time = stk_cond_wait(&ld->ready_cond, &ld->lock, until_s);
    ld->waiting = false;
    return in_time;
}

static void count_stall(struct stk_loader *ld, double begin_s)
{
    ld->stats.stall_ns += (uint64_t)((stk_now() - begin_s) * 1e9);
    stk_mark_wait((uint64_t)(begin_s * 1e9));
}

int stk_loader_wait(struct stk_loader *ld, int timeout_ms)
{
    double begin = stk_now();
    if (!is_ours(ld))
        return 1;
    pthread_mutex_lock(&ld->lock);
    bool ready = begin_epoch(ld, NULL) < 0 || look(ld) != NOT_YET, in_time = true;
    while (!ready && in_time) {
        in_time = wait_ready(ld, begin + timeout_ms * 1e-3);
        ready = look(ld) != NOT_YET;
    }
    pthread_mutex_unlock(&ld->lock);
    count_stall(ld, begin);
    return ready;
}

/* Takes the next batch off the queue; NULL: none, see *rc. */
static struct batch *take_batch(struct stk_loader *ld, int *rc, struct stk_err *err)
{
    struct batch *b = NULL;
    pthread_mutex_lock(&ld->lock);
    *rc = begin_epoch(ld, err);
    int what = *rc < 0 ? *rc : look(ld);
    if (what == NOT_YET) {
        double begin = stk_now();
        while ((what = look(ld)) == NOT_YET)
            (void)wait_ready(ld, INFINITY);
        count_stall(ld, begin);
    }
    if (what == 1) {
        b = ld->out_first;
        ld->out_first = b->next;
        if (!b->next)
            ld->out_last = &ld->out_first;
    } else if (what == 0) {
        ld->epoch_over = true;
    } else if (*rc == 0) {
        *rc = ld->fatal;
        if (err)
            *err = ld->fatal_why;
    }
    pthread_mutex_unlock(&ld->lock);
    return b;
}

static void count_batch(struct stk_loader *ld, const struct batch *b)
{
    struct stk_loader_stats *st = &ld->stats;
    st->batches++;
    st->samples += b->size;
    st->bytes_asked += b->bytes;
    st->checked += atomic_load_explicit(&b->checked, memory_order_relaxed);
    st->checked_bytes += atomic_load_explicit(&b->checked_bytes, memory_order_relaxed);
    for (uint32_t k = 0; k < b->size; k++)
        st->repeats += b->flags[k] & STK_REPEAT;
    ld->take_step++;
    ld->take_slots += b->size;
}

int stk_loader_next(struct stk_loader *ld, struct stk_batch **out, struct stk_err *err)
{
    int rc;
    if (!is_ours(ld))
        return refuse(ld, err);
    if (!out)
        return stk_err_set(err, STK_E_USAGE, NULL, -1, "there is no place for the batch (NULL)");
    struct batch *b = take_batch(ld, &rc, err);
    if (!b)
        return rc < 0 ? rc : stk_watch(ld, NULL, err);
    struct stk_err why = {0};
    rc = stk_watch(ld, b, &why);
    if (rc == 0)
        rc = stk_mend(ld, b, &why);
    if (rc == 0)
        rc = stk_batch_finish(b, &why);
    if (rc == 0 && !stk_live_add(&b->pub))
        rc = stk_err_nomem(&why, sizeof b);
    atomic_fetch_add(&ld->refs, 1);
    if (rc < 0) {
        pthread_mutex_lock(&ld->lock);
        ld->fatal = rc;
        ld->fatal_why = why;
        pthread_mutex_unlock(&ld->lock);
        if (err)
            *err = why;
        stk_batch_give_back(b);
        return rc;
    }
    pthread_mutex_lock(&ld->lock);
    stk_watch_given(ld, b);
    pthread_mutex_unlock(&ld->lock);
    count_batch(ld, b);
    *out = &b->pub;
    return 1;
}

/* ---- steps, state, counters ---- */

uint64_t stk_loader_steps(const struct stk_loader *ld)
{
    return ld ? ld->plan[ld->take_epoch % 2].steps : 0;
}

int stk_loader_state(const struct stk_loader *ld, char **out, struct stk_err *err)
{
    if (!ld) /* a forked child may ask: takes no lock, needs no thread */
        return refuse(ld, err);
    if (!out)
        return stk_err_set(err, STK_E_USAGE, NULL, -1, "there is no place for the state (NULL)");
    const struct stk_plan *p = &ld->plan[ld->take_epoch % 2];
    struct stk_plan fresh = {0};
    struct stk_state st;
    struct stk_buf b = STK_BUF_INIT;
    uint64_t slots = ld->take_slots, refills = ld->refills;
    int rc = 0;
    if (ld->epoch_over) { /* no sample of the next epoch was given out */
        struct stk_order o;
        stk_order_init(&o, ld->order.n, ld->order.shuffle, ld->order.seed, ld->take_epoch + 1,
                       ld->order.block, ld->order.window);
        rc = stk_plan_init(&fresh, &o, NULL, 0, ld->o.rank, ld->o.world, ld->o.batch, ld->o.last,
                           err);
        p = &fresh;
        slots = refills = 0;
    }
    if (rc < 0)
        return rc;
    rc = stk_plan_state(p, slots, refills, stk_dataset_identity(ld->ds), &st, err);
    if (rc == 0) {
        rc = stk_state_write(&st, &b, err);
        stk_state_release(&st);
    }
    if (ld->epoch_over)
        stk_plan_release(&fresh);
    if (rc == 0) {
        *out = strdup(stk_buf_cstr(&b));
        rc = *out ? 0 : stk_err_nomem(err, b.len);
    }
    stk_buf_release(&b);
    return rc;
}

static void fill_tier_stats(struct stk_loader *ld, const struct stk_io_stats *io,
                            struct stk_loader_stats *out)
{
    out->source_bytes = io->level_bytes[0];
    for (unsigned i = 1; ld->tier && i <= STK_FILES_LEVELS; i++)
        *(stk_tier_overlay_in_memory(ld->tier, i) ? &out->tier_memory_bytes
                                                  : &out->tier_disk_bytes) += io->level_bytes[i];
    if (ld->tier)
        stk_tier_overlay_filled(ld->tier, &ld->tier_filled);
    out->tier_filled_bytes = ld->tier_filled.bytes;
    out->tier_refused = io->refused;
    out->tier = stk_buf_cstr(&ld->tier_text);
    out->tier_ended = ld->tier_filled.why;
}

static void fill_stats(struct stk_loader *ld, struct stk_loader_stats *out)
{
    struct stk_io_stats io;
    stk_io_stats(ld->io, &io);
    *out = ld->stats;
    fill_tier_stats(ld, &io, out);
    out->reads = io.reads;
    out->bytes_read = io.bytes_read;
    out->opens = io.opens;
    out->depth = io.busy_s > 0 ? io.depth_integral_s / io.busy_s : 0;
    out->decode_ns = atomic_load_explicit(&ld->decode_ns, memory_order_relaxed);
    out->decoded_bytes = atomic_load_explicit(&ld->decoded_bytes, memory_order_relaxed);
    out->memory_bytes = ld->o.memory_bytes;
    out->memory_peak_bytes = stk_regions_peak(&ld->regions) + ld->o.memory_bytes - ld->budget;
    out->threads = ld->nworkers;
    out->left_out = stk_notes_missing(&ld->ds->notes);
    out->io = stk_io_name(ld->io);
    out->io_detail = stk_io_detail(ld->io);
    out->io_reason = stk_io_reason(ld->io);
}

void stk_loader_stats_sized(struct stk_loader *ld, struct stk_loader_stats *out, size_t out_size)
{
    struct stk_loader_stats now = {0};
    if (is_ours(ld))
        fill_stats(ld, &now);
    stk_sized_out(out, out_size, &now, sizeof now);
}

const char *stk_loader_problem(struct stk_loader *ld, size_t i)
{
    return is_ours(ld) && i < ld->nproblems ? ld->problem[i] : NULL;
}

const char *stk_loader_warning(const struct stk_loader *ld, size_t i)
{
    if (!ld || i > 1)
        return NULL;
    if (*ld->warning && i-- == 0)
        return ld->warning;
    return i == 0 && ld->tier_notes.len ? (const char *)ld->tier_notes.data : NULL;
}
