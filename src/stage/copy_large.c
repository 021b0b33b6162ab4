/*
 * copy_large.c - copies large files: one thread keeps many reads in flight through an engine, a few
 * others hash the parcels that arrived and give them to the sink (copy_write.c).
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/pool.h"
#include "host/cpus.h"
#include "host/memory.h"
#include "stage/copy_large.h"

#define MEMORY_MOST  (256ull << 20)
#define MEMORY_LEAST (32ull << 20)
#define WRITERS_MOST 16u
#define LOCAL_READS  16u   /* in flight: on a local disk, more of them only wait */
#define GENTLE_S     0.025 /* others may wait so long behind our reads... */
#define GENTLE_TIMES 2.0   /* ...or so many times what a read takes if nothing else is read */
#define GENTLE_LEAST 1.0   /* reads in flight */
#define GENTLE_STEP  0.25  /* change of their number per read that ended */
/* ---- the reader ---- */

static struct cargo *take_free(struct large *l)
{
    pthread_mutex_lock(&l->lock);
    struct cargo *x = l->free;
    if (x)
        l->free = x->link;
    pthread_mutex_unlock(&l->lock);
    return x;
}

/* It has one more than its parcels until all of them are submitted: it cannot end before. */
static void begin_flow(struct large *l, struct lane *lane)
{
    struct flow *f = &l->flow[l->at];
    const struct stk_part *p = &l->c->part[l->number[l->at++]];
    const struct stk_tier_file *file = &l->c->src->file[p->file];
    bool all = p->first == 0 && p->count == stk_tier_parcels(file->size);
    f->part = p;
    f->left = p->count + 1;
    f->in_order = file->hashed && all && p->count > 1 && !l->c->o->no_hash;
    f->next = p->first;
    stk_hash_init(&f->hash);
    *lane = (struct lane){.flow = f, .parcel = p->first};
    l->busy++;
}

static void end_flow(struct large *l, struct lane *lane)
{
    struct flow *f = lane->flow;
    lane->flow = NULL;
    l->busy--;
    stk_large_settle(l, f, 1);
}

static void skip_parcel(struct large *l, struct lane *lane)
{
    atomic_fetch_add(&l->c->skipped, 1);
    lane->parcel++;
    stk_large_forget_hash(l, lane->flow);
    stk_large_settle(l, lane->flow, 1 + stk_large_pass(l, lane->flow, NULL));
}

static void submit(struct large *l, struct lane *lane, struct cargo *x)
{
    uint64_t file = lane->flow->part->file, size = l->c->src->file[file].size;
    x->flow = lane->flow;
    x->parcel = lane->parcel++;
    x->hash = x->hashed = 0;
    x->req = (struct stk_io_req){.file = (uint32_t)file,
                                 .off = x->parcel * STK_TIER_PARCEL,
                                 .len = stk_tier_parcel_len(size, x->parcel),
                                 .buf = x->buf,
                                 .segment = -1,
                                 .user = x,
                                 .arrived = l->c->o->no_hash ? NULL : stk_large_arrived};
    double delay = stk_copying_delay(l->c, x->req.len);
    l->not_before_s = delay > 0 ? stk_now() + delay : 0;
    l->flying++;
    x->begun_s = stk_now();
    stk_io_submit(l->io, &x->req);
}

static enum stk_tier_claim claim(struct large *l, const struct lane *lane)
{
    struct stk_copy_sink *sink = l->c->sink;
    return sink->claim ? sink->claim(sink, lane->flow->part->file, lane->parcel) : STK_TIER_OURS;
}

/* The lane whose turn it is, with a part. NULL: all parts are submitted. */
static struct lane *next_lane(struct large *l)
{
    for (unsigned i = 0; i < l->nlanes; i++) {
        struct lane *lane = &l->lane[l->turn++ % l->nlanes];
        if (!lane->flow && l->at < l->n)
            begin_flow(l, lane);
        if (lane->flow)
            return lane;
    }
    return NULL;
}

/* Submits one parcel, or skips one. False: no buffer, or all is submitted. */
static bool submit_one(struct large *l)
{
    struct cargo *x = take_free(l);
    struct lane *lane = x ? next_lane(l) : NULL;
    const struct stk_part *p = lane ? lane->flow->part : NULL;
    if (lane && lane->parcel < p->first + p->count && claim(l, lane) == STK_TIER_OURS) {
        submit(l, lane, x);
        return true;
    }
    if (x)
        stk_large_give_back(l, x);
    if (lane && lane->parcel < p->first + p->count)
        skip_parcel(l, lane);
    else if (lane)
        end_flow(l, lane);
    return lane != NULL;
}

static bool is_submitted(const struct large *l)
{
    return l->at == l->n && !l->busy;
}

/* A read took that long; flying: reads in flight until it ended. */
static void learn(struct gentle *g, double took_s, size_t flying)
{
    g->least_s = g->least_s > 0 && g->least_s < took_s ? g->least_s : took_s;
    g->usual_s += (took_s - g->usual_s) / (g->usual_s > 0 ? 8 : 1);
    double goal_s = GENTLE_TIMES * g->least_s > GENTLE_S ? GENTLE_TIMES * g->least_s : GENTLE_S;
    g->most += g->usual_s < goal_s ? GENTLE_STEP : -GENTLE_STEP;
    /* If something else limits them, that they are fast says nothing about more of them. */
    g->most = g->most > (double)flying + 1 ? (double)flying + 1 : g->most;
    g->most = g->most < GENTLE_LEAST ? GENTLE_LEAST : g->most;
}

static bool may_submit(const struct large *l)
{
    return stk_io_free_slots(l->io) && (!l->gentle.on || (double)l->flying + 1 <= l->gentle.most);
}

static void learn_all(struct large *l, struct stk_io_req **done, size_t n)
{
    double now = l->gentle.on && n ? stk_now() : 0;
    for (size_t i = 0; now > 0 && i < n; i++) {
        const struct cargo *x = done[i]->user;
        learn(&l->gentle, now - x->begun_s, l->flying);
    }
}

static void pass_on(struct large *l, struct stk_io_req **done, size_t n)
{
    learn_all(l, done, n);
    pthread_mutex_lock(&l->lock);
    for (size_t i = 0; i < n; i++) {
        struct cargo *x = done[i]->user;
        x->link = NULL;
        *l->ready_last = x;
        l->ready_last = &x->link;
    }
    pthread_cond_broadcast(&l->ready_cond);
    pthread_mutex_unlock(&l->lock);
    l->flying -= n;
}

/* Sleeps until the rate, and readers that go first, allow the next read. False: not yet; reads that
 * end meanwhile are passed on first. */
static bool hold_back(struct large *l, struct stk_err *err)
{
    double left = l->not_before_s - stk_now();
    if (left > 0 && l->flying)
        return false;
    int rc = left > 0 ? stk_copying_pause(l->c, left, err) : 0;
    rc = rc ? rc : stk_copying_yield(l->c, err);
    if (rc < 0)
        stk_large_fail(l, rc, err);
    return true;
}

static void read_all(struct large *l)
{
    struct stk_io_req *done[16];
    struct stk_err err = {0};
    while (!stk_large_stopping(l) && (!is_submitted(l) || l->flying)) {
        bool more = true;
        while (more && !stk_large_stopping(l) && may_submit(l))
            more = hold_back(l, &err) && submit_one(l);
        if (is_submitted(l) && !l->flying)
            break;
        pass_on(l, done, stk_io_reap(l->io, done, 16, true));
        int rc = stk_copying_tell(l->c, 0, 0, &err);
        if (rc < 0)
            stk_large_fail(l, rc, &err);
    }
    stk_io_stop(l->io);
}

/* ---- the whole ---- */

/* Claims of reads that were cut short. */
static void drop_rest(struct large *l)
{
    struct stk_copy_sink *sink = l->c->sink;
    for (size_t i = 0; i < l->ncargos; i++) {
        struct cargo *x = &l->cargo[i];
        if (x->flow && sink->drop)
            sink->drop(sink, x->req.file, x->parcel);
    }
}

static unsigned count_writers(const struct stk_copying *c)
{
    return c->threads < WRITERS_MOST ? c->threads : WRITERS_MOST;
}

/* A storage system far away is fast with many reads in flight. */
static uint64_t choose_memory(const struct stk_copying *c, size_t room)
{
    uint64_t free_bytes = stk_memory_free() / 8, most = MEMORY_MOST;
    if (c->o->memory_bytes)
        return c->o->memory_bytes;
    if (stk_files_are_local(&c->src->files))
        most = (LOCAL_READS + count_writers(c)) * (uint64_t)room;
    most = most < free_bytes ? most : free_bytes;
    return most < MEMORY_LEAST ? MEMORY_LEAST : most;
}

static int make_buffers(struct large *l, struct stk_err *err)
{
    size_t room = stk_io_room(STK_TIER_PARCEL);
    uint64_t n = choose_memory(l->c, room) / room;
    l->ncargos = n > 2 ? (size_t)n : 2;
    l->cargo = calloc(l->ncargos, sizeof *l->cargo);
    l->flow = calloc(l->n, sizeof *l->flow);
    l->memory_size = l->ncargos * room;
    void *p =
        mmap(NULL, l->memory_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    l->memory = p == MAP_FAILED ? NULL : p;
    if (!l->cargo || !l->flow || !l->memory)
        return stk_err_nomem(err, l->memory_size);
    (void)madvise(p, l->memory_size, MADV_HUGEPAGE); /* fewer faults, larger requests to the disk */
    for (size_t i = l->ncargos; i-- > 0;) {
        l->cargo[i].buf = l->memory + i * room;
        l->cargo[i].link = l->free;
        l->free = &l->cargo[i];
    }
    return 0;
}

/* Its signals are the program's. */
static unsigned start_writers(struct large *l, pthread_t *thread, unsigned n)
{
    sigset_t all, old;
    unsigned started = 0;
    sigfillset(&all);
    sigdelset(&all, SIGBUS);
    sigdelset(&all, SIGSEGV);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    while (started < n && pthread_create(&thread[started], NULL, stk_large_write, l) == 0)
        started++;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return started;
}

static void join_writers(struct large *l, pthread_t *thread, unsigned n)
{
    pthread_mutex_lock(&l->lock);
    l->over = true;
    pthread_cond_broadcast(&l->ready_cond);
    pthread_mutex_unlock(&l->lock);
    for (unsigned i = 0; i < n; i++)
        pthread_join(thread[i], NULL);
}

static int copy_with(struct large *l, struct stk_err *err)
{
    pthread_t thread[WRITERS_MOST];
    unsigned n = start_writers(l, thread, count_writers(l->c));
    if (!n) {
        errno = EAGAIN;
        return stk_err_sys(err, NULL, "cannot start a thread");
    }
    read_all(l);
    join_writers(l, thread, n);
    if (l->rc && err)
        *err = l->err;
    return l->rc;
}

int stk_copy_large(struct stk_copying *c, const size_t *number, size_t n, struct stk_copy_result *r,
                   struct stk_err *err)
{
    struct large l = {.c = c,
                      .number = number,
                      .n = n,
                      .nlanes = 1,
                      .gentle = {.on = c->o->gentle, .most = GENTLE_LEAST}};
    if (c->o->any_order)
        l.nlanes = c->threads < STK_COPY_LANES ? c->threads : STK_COPY_LANES;
    l.ready_last = &l.ready;
    pthread_mutex_init(&l.lock, NULL);
    pthread_cond_init(&l.ready_cond, NULL);
    struct stk_io_config cfg = {.kind = STK_IO_AUTO,
                                .depth = c->o->depth,
                                .bytes = MEMORY_MOST / 2,
                                .cache_room = 0, /* of no use: the source is read once */
                                .watch = true};
    struct stk_io_choice choice;
    stk_io_probe(&c->src->files, &cfg, &choice);
    /* Mapped bytes may change between hashing and writing them. */
    cfg.kind = choice.kind == STK_IO_MMAP ? STK_IO_THREADS : choice.kind;
    int rc = make_buffers(&l, err);
    rc = rc ? rc : stk_io_open(&c->src->files, &cfg, &l.io, err);
    if (rc == 0)
        snprintf(r->engine, sizeof r->engine, "%s", stk_io_detail(l.io));
    rc = rc ? rc : copy_with(&l, err);
    if (l.io) {
        drop_rest(&l);
        stk_io_close(l.io);
    }
    if (l.memory)
        munmap(l.memory, l.memory_size);
    free(l.cargo);
    free(l.flow);
    pthread_mutex_destroy(&l.lock);
    pthread_cond_destroy(&l.ready_cond);
    return rc;
}
