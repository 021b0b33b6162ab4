/*
 * copy.c - copies the parts of a source. Small files are read by threads with four system calls
 * each. Large ones: one thread keeps many reads in flight through an engine, a few others hash the
 * parcels that arrived, give them to the sink, and finish their files. Also the limit of the rate,
 * and progress.
 *
 * Reads end in any order. If the hash of a whole file is to be compared, a parcel that came early
 * keeps its buffer until its turn: the thread that has the next one hashes all that follow. Reads
 * are submitted in order, so the parcel that all wait for is always in flight.
 */
#include "stage/copy.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "base/hash.h"
#include "base/pool.h"
#include "host/cpus.h"
#include "host/cgroup.h"
#include "io/io.h"

struct stk_copying {
    const struct stk_source *src;
    const struct stk_part *part;
    const struct stk_copy_options *o;
    struct stk_copy_sink *sink;
    unsigned threads;
    _Atomic uint64_t bytes, files, skipped;
    _Atomic bool stop; /* after the first error */
    pthread_mutex_t rate_lock;
    double rate_free_s; /* when the bytes taken so far have passed at the allowed rate */
    double yields_s;    /* since when others go first; 0: they do not. With rate_lock */
};

#define LANES_MOST 16u /* at most */

/* A part being copied. */
struct flow {
    const struct stk_part *part;
    uint64_t left; /* parcels that are in flight or not submitted yet */
    uint64_t next; /* the parcel whose turn it is to be hashed */
    bool in_order; /* hash the whole file */
    bool passing;  /* a thread is taking parcels from `early` */
    bool whole;    /* the sink has all of the file */
    struct stk_hash hash;
    struct cargo *early; /* parcels that came before their turn, sorted */
};

/* Writers of one file wait for each other: parcels of several parts are read in turn. */
struct lane {
    struct flow *flow; /* NULL: none */
    uint64_t parcel;   /* of it to submit next */
};

/* A buffer and what it holds. */
struct cargo {
    struct stk_io_req req;
    struct flow *flow;
    uint64_t parcel;
    uint8_t *buf;
    uint64_t hash; /* stk_tier_hash() of the first `hashed` bytes */
    size_t hashed;
    double begun_s; /* when it was submitted */
    struct cargo *link;
};

/* Reads of a source that others read as well: what they ask for waits behind what is in flight, so
 * that is as little as keeps the source busy. */
struct gentle {
    bool on;
    double most;             /* reads in flight */
    double least_s, usual_s; /* that a read took: at least, on average; 0: none has ended */
};

struct large {
    struct stk_copying *c;
    struct stk_io *io;
    uint8_t *memory;
    size_t memory_size;
    struct cargo *cargo;
    size_t ncargos;
    const size_t *number; /* of the parts */
    struct flow *flow;    /* of each part */
    size_t n, at;         /* the next part that no lane has begun */
    struct lane lane[LANES_MOST];
    unsigned nlanes, busy,
        turn; /* busy: lanes that have a part; turn: the lane that submits next */
    size_t flying;
    struct gentle gentle;
    double not_before_s; /* the rate allows no read until then */
    pthread_mutex_t lock;
    pthread_cond_t ready_cond;
    struct cargo *free, *ready, **ready_last;
    bool over; /* the writers end when nothing is ready */
    int rc;    /* the first error */
    struct stk_err err;
};

static bool is_stopping(const struct large *l)
{
    return atomic_load(&l->c->stop);
}

#define SMALL_MAX   (1u << 20) /* files up to this size are read whole, without an engine */
#define BATCH_FILES 64         /* small files that a thread claims together, at most */
#define BATCHES     4     /* per thread, at least: threads that wait for a source all have work */
#define FAR_THREADS 128u  /* on a source that answers late; they mostly wait */
#define PAUSE_S     0.05  /* between two looks at a request to stop */
#define YIELD_S     0.002 /* between two looks at whether others still go first */
#define YIELD_MOST  1.0   /* s: a reader that takes longer has other troubles than us */

/* ---- progress and rate ---- */

/* Counts bytes and files that were put, and asks whether to go on. */
static int tell(struct stk_copying *c, uint64_t bytes, uint64_t files, struct stk_err *err)
{
    uint64_t b = atomic_fetch_add(&c->bytes, bytes) + bytes;
    uint64_t f = atomic_fetch_add(&c->files, files) + files;
    if (!c->o->progress || !c->o->progress(c->o->user, b, f))
        return 0;
    return stk_err_set(err, STK_E_STOPPED, NULL, -1, "stopped");
}

/* The first bytes pass at once; each reader then waits for its turn in the stream of bytes. */
static double delay_of(struct stk_copying *c, uint64_t n)
{
    if (!c->o->max_rate)
        return 0;
    double now = stk_now();
    pthread_mutex_lock(&c->rate_lock);
    double at = c->rate_free_s > now ? c->rate_free_s : now;
    c->rate_free_s = at + (double)n / (double)c->o->max_rate;
    pthread_mutex_unlock(&c->rate_lock);
    return at - now;
}

static int pause_for(struct stk_copying *c, double seconds, struct stk_err *err)
{
    int rc = 0;
    for (double until = stk_now() + seconds, left; rc == 0 && (left = until - stk_now()) > 0;) {
        double s = left < PAUSE_S ? left : PAUSE_S;
        nanosleep(&(struct timespec){.tv_nsec = (long)(s * 1e9)}, NULL);
        rc = tell(c, 0, 0, err);
    }
    return rc;
}

static bool must_yield(struct stk_copying *c)
{
    const struct stk_copy_options *o = c->o;
    bool asked = o->gentle && o->others_first && o->others_first(o->user);
    double now = asked ? stk_now() : 0;
    pthread_mutex_lock(&c->rate_lock);
    c->yields_s = !asked ? 0 : c->yields_s > 0 ? c->yields_s : now;
    bool yields = asked && now - c->yields_s < YIELD_MOST;
    pthread_mutex_unlock(&c->rate_lock);
    return yields;
}

static int let_others_first(struct stk_copying *c, struct stk_err *err)
{
    int rc = 0;
    while (rc == 0 && must_yield(c))
        rc = pause_for(c, YIELD_S, err);
    return rc;
}

/* The code of a read that failed: STK_E_STALE if the file that was listed is gone, or leads
 * elsewhere now; else rc. */
static int judge(int rc, struct stk_err *err)
{
    bool gone = rc == STK_E_SYS && (err->sys_errno == ENOENT || err->sys_errno == ENOTDIR);
    bool elsewhere = rc == STK_E_UNSUPPORTED;
    return gone || elsewhere ? (err->code = STK_E_STALE) : rc;
}

static uint64_t hash_of(const struct stk_copying *c, const void *p, size_t n)
{
    return c->o->no_hash ? 0 : stk_tier_hash(p, n);
}

/* ---- small files ---- */

struct small {
    struct stk_copying *c;
    const size_t *number; /* of the parts */
    size_t n;
    size_t batch;  /* files that a thread claims together */
    uint8_t **buf; /* one per thread */
};

static int copy_file(struct small *s, uint64_t file, uint8_t *buf, struct stk_err *err)
{
    struct stk_copying *c = s->c;
    size_t size = (size_t)c->src->file[file].size;
    int rc = pause_for(c, delay_of(c, size), err);
    rc = rc ? rc : let_others_first(c, err);
    if (rc == 0)
        rc = judge(stk_file_read_whole(&c->src->files, file, buf, size, err), err);
    if (rc == 0)
        rc = c->sink->put(c->sink, file, 0, buf, size, hash_of(c, buf, size), err);
    return rc < 0 ? rc : 0;
}

/* Copies n files that follow one another, claimed together. */
static int copy_run(struct small *s, uint64_t first, uint64_t n, uint8_t *buf, struct stk_err *err)
{
    struct stk_copying *c = s->c;
    uint8_t got[BATCH_FILES] = {STK_TIER_OURS};
    uint64_t bytes = 0, files = 0;
    int rc = 0;
    if (c->sink->claim_files)
        c->sink->claim_files(c->sink, first, n, got);
    for (uint64_t i = 0; rc == 0 && i < n; i++) {
        if (got[i] != STK_TIER_OURS)
            continue;
        rc = copy_file(s, first + i, buf, err);
        files += rc == 0;
        bytes += rc == 0 ? c->src->file[first + i].size : 0;
    }
    if (c->sink->drop_files)
        c->sink->drop_files(c->sink, first, n, got);
    atomic_fetch_add(&c->skipped, rc ? 0 : n - files);
    return rc ? rc : tell(c, bytes, files, err);
}

/* Threads that create files in one folder wait for each other: at any moment they are at batches
 * far apart, which mostly are of different folders. A permutation. */
static uint64_t far_apart(const struct small *s, uint64_t item)
{
    uint64_t n = (s->n + s->batch - 1) / s->batch, ways = s->c->threads, long_ways = n % ways;
    uint64_t way = item % ways, step = item / ways;
    return way * (n / ways) + (way < long_ways ? way : long_ways) + step;
}

static int copy_batch(void *user, uint64_t item, unsigned thread, struct stk_err *err)
{
    struct small *s = user;
    item = s->c->o->any_order ? far_apart(s, item) : item;
    size_t i = item * s->batch, end = i + s->batch < s->n ? i + s->batch : s->n;
    if (!s->buf[thread] && !(s->buf[thread] = malloc(SMALL_MAX)))
        return stk_err_nomem(err, SMALL_MAX);
    int rc = 0;
    while (rc == 0 && i < end) {
        uint64_t first = s->c->part[s->number[i]].file, n = 1;
        while (i + n < end && s->c->part[s->number[i + n]].file == first + n)
            n++;
        rc = copy_run(s, first, n, s->buf[thread], err);
        i += n;
    }
    return rc;
}

static size_t choose_batch(size_t files, unsigned threads)
{
    size_t n = files / ((size_t)threads * BATCHES);
    return n < 1 ? 1 : n < BATCH_FILES ? n : BATCH_FILES;
}

static int copy_small(struct stk_copying *c, const size_t *number, size_t n, struct stk_err *err)
{
    struct small s = {.c = c, .number = number, .n = n, .batch = choose_batch(n, c->threads)};
    s.buf = calloc(c->threads, sizeof *s.buf);
    if (!s.buf)
        return stk_err_nomem(err, c->threads * sizeof *s.buf);
    uint64_t items = (n + s.batch - 1) / s.batch;
    int rc = stk_pool_run(c->threads, items, copy_batch, &s, err);
    for (unsigned i = 0; i < c->threads; i++)
        free(s.buf[i]);
    free(s.buf);
    return rc;
}

/* ---- large files: what becomes of parcels that were read ---- */

/* Keeps the first error, and ends the copy. */
static void fail(struct large *l, int rc, const struct stk_err *err)
{
    pthread_mutex_lock(&l->lock);
    if (l->rc == 0) {
        l->rc = rc;
        l->err = *err;
    }
    pthread_mutex_unlock(&l->lock);
    atomic_store(&l->c->stop, true);
}

static void give_back(struct large *l, struct cargo *x)
{
    pthread_mutex_lock(&l->lock);
    x->flow = NULL;
    x->link = l->free;
    l->free = x;
    pthread_mutex_unlock(&l->lock);
    stk_io_wake(l->io);
}

/* ---- the hash of a whole file ---- */

static void insert_early(struct flow *f, struct cargo *x)
{
    struct cargo **at = &f->early;
    while (*at && (*at)->parcel < x->parcel)
        at = &(*at)->link;
    x->link = *at;
    *at = x;
}

/* The parcel whose turn it is; any, if the whole file is not hashed. *hash: hash it. */
static struct cargo *take_early(struct large *l, struct flow *f, bool *hash)
{
    pthread_mutex_lock(&l->lock);
    struct cargo *x = f->early;
    x = x && (x->parcel == f->next || !f->in_order) ? x : NULL;
    if (x)
        f->early = x->link;
    else
        f->passing = false;
    f->next += x != NULL;
    *hash = f->in_order;
    pthread_mutex_unlock(&l->lock);
    return x;
}

/* Hashes the parcels whose turn has come, and gives their buffers back. x: one that arrived, or
 * NULL. Returns how many are over. */
static uint64_t pass(struct large *l, struct flow *f, struct cargo *x)
{
    uint64_t over = 0;
    bool hash;
    pthread_mutex_lock(&l->lock);
    if (x)
        insert_early(f, x);
    bool mine = !f->passing;
    f->passing = true;
    pthread_mutex_unlock(&l->lock);
    for (struct cargo *y; mine && (y = take_early(l, f, &hash)); over++) {
        if (hash)
            stk_hash_update(&f->hash, y->req.data, y->req.len);
        give_back(l, y);
    }
    return over;
}

static void forget_hash(struct large *l, struct flow *f)
{
    pthread_mutex_lock(&l->lock);
    f->in_order = false;
    pthread_mutex_unlock(&l->lock);
}

/* ---- threads that write ---- */

static int finish(struct large *l, struct flow *f, struct stk_err *err)
{
    struct stk_copying *c = l->c;
    const struct stk_tier_file *file = &c->src->file[f->part->file];
    /* If nothing is to be hashed, nor shall the tier do so. */
    bool known = f->in_order || (c->o->no_hash && file->hashed);
    uint64_t hash = f->in_order ? stk_hash_final(&f->hash) : file->hash;
    if (!f->whole)
        return 0;
    int rc =
        c->sink->finish ? c->sink->finish(c->sink, f->part->file, known ? &hash : NULL, err) : 0;
    return rc ? rc : tell(c, 0, 1, err);
}

/* Counts parcels of a part that are over; the last one finishes the part. */
static void settle(struct large *l, struct flow *f, uint64_t n)
{
    struct stk_err err = {0};
    pthread_mutex_lock(&l->lock);
    f->left -= n;
    bool last = n && f->left == 0;
    pthread_mutex_unlock(&l->lock);
    if (!last)
        return;
    int rc = is_stopping(l) ? 0 : finish(l, f, &err);
    if (rc < 0)
        fail(l, rc, &err);
}

/* Why a read gave nothing usable; 0: it did. */
static int check_read(struct large *l, struct cargo *x, struct stk_err *err)
{
    struct stk_io_req *req = &x->req;
    if (req->code < 0 && req->why)
        *err = *req->why;
    else if (req->code < 0)
        stk_err_set(err, req->code, NULL, -1, "cannot be read");
    else if (req->changed)
        stk_err_set(err, STK_E_STALE, NULL, -1, "the file changed while it was copied; run again");
    int rc = req->code < 0 ? judge(req->code, err) : req->changed ? STK_E_STALE : 0;
    if (rc)
        stk_files_blame(&l->c->src->files, req->file, err);
    free(req->why);
    req->why = NULL;
    return rc;
}

/* Hashes up to byte n. */
static void hash_to(struct cargo *x, size_t n)
{
    x->hash = stk_tier_hash_more(x->hash, x->req.data + x->hashed, n - x->hashed);
    x->hashed = n;
}

/* The first n bytes of a request have arrived, and are in the cache of this core. */
static void arrived(struct stk_io_req *req, size_t n)
{
    struct cargo *x = req->user;
    if (n == 0)
        x->hash = x->hashed = 0;
    hash_to(x, n);
}

static int put(struct large *l, struct cargo *x, struct stk_err *err)
{
    struct stk_copying *c = l->c;
    if (!c->o->no_hash)
        hash_to(x, x->req.len);
    int rc = c->sink->put(c->sink, x->req.file, x->parcel, x->req.data, x->req.len, x->hash, err);
    if (rc == 1) {
        pthread_mutex_lock(&l->lock);
        x->flow->whole = true;
        pthread_mutex_unlock(&l->lock);
    }
    return rc < 0 ? rc : tell(c, x->req.len, 0, err);
}

/* One that arrived, good or bad. */
static void take_cargo(struct large *l, struct cargo *x)
{
    struct stk_copying *c = l->c;
    struct flow *f = x->flow;
    struct stk_err err = {0};
    int rc = check_read(l, x, &err);
    if (rc == 0 && !is_stopping(l))
        rc = put(l, x, &err);
    if (c->sink->drop)
        c->sink->drop(c->sink, x->req.file, x->parcel);
    if (rc < 0) {
        forget_hash(l, f);
        fail(l, rc, &err);
    }
    settle(l, f, pass(l, f, x));
}

static struct cargo *wait_ready(struct large *l)
{
    pthread_mutex_lock(&l->lock);
    while (!l->ready && !l->over)
        pthread_cond_wait(&l->ready_cond, &l->lock);
    struct cargo *x = l->ready;
    if (x && !(l->ready = x->link))
        l->ready_last = &l->ready;
    pthread_mutex_unlock(&l->lock);
    return x;
}

static void *run_writer(void *user)
{
    struct large *l = user;
    for (struct cargo *x; (x = wait_ready(l));)
        take_cargo(l, x);
    return NULL;
}

#define MEMORY_MOST  (256ull << 20)
#define MEMORY_LEAST (32ull << 20)
#define WRITERS_MOST 16u
#define LOCAL_READS  16u   /* in flight: on a local disk, more of them only wait */
#define GENTLE_S     0.025 /* others may wait so long behind our reads... */
#define GENTLE_TIMES 2.0   /* ...or so many times what a read takes if nothing else is read */
#define GENTLE_LEAST 1.0   /* reads in flight */
#define GENTLE_STEP  0.25  /* change of their number per read that ended */

/* ---- reading large files ---- */

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
    settle(l, f, 1);
}

static void skip_parcel(struct large *l, struct lane *lane)
{
    atomic_fetch_add(&l->c->skipped, 1);
    lane->parcel++;
    forget_hash(l, lane->flow);
    settle(l, lane->flow, 1 + pass(l, lane->flow, NULL));
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
                                 .arrived = l->c->o->no_hash ? NULL : arrived};
    double delay = delay_of(l->c, x->req.len);
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
        give_back(l, x);
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
    int rc = left > 0 ? pause_for(l->c, left, err) : 0;
    rc = rc ? rc : let_others_first(l->c, err);
    if (rc < 0)
        fail(l, rc, err);
    return true;
}

static void read_all(struct large *l)
{
    struct stk_io_req *done[16];
    struct stk_err err = {0};
    while (!is_stopping(l) && (!is_submitted(l) || l->flying)) {
        bool more = true;
        while (more && !is_stopping(l) && may_submit(l))
            more = hold_back(l, &err) && submit_one(l);
        if (is_submitted(l) && !l->flying)
            break;
        pass_on(l, done, stk_io_reap(l->io, done, 16, true));
        int rc = tell(l->c, 0, 0, &err);
        if (rc < 0)
            fail(l, rc, &err);
    }
    stk_io_stop(l->io);
}

/* ---- all large files ---- */

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
    while (started < n && pthread_create(&thread[started], NULL, run_writer, l) == 0)
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

static int copy_large(struct stk_copying *c, const size_t *number, size_t n,
                      struct stk_copy_result *r, struct stk_err *err)
{
    struct large l = {.c = c,
                      .number = number,
                      .n = n,
                      .nlanes = 1,
                      .gentle = {.on = c->o->gentle, .most = GENTLE_LEAST}};
    if (c->o->any_order)
        l.nlanes = c->threads < LANES_MOST ? c->threads : LANES_MOST;
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

/* ---- the whole ---- */

/* On a file system of another node, threads mostly wait; but if others read it too, they would wait
 * behind all of ours. */
static unsigned choose_threads(const struct stk_source *src, const struct stk_copy_options *o)
{
    unsigned cpus = stk_cpus();
    if (o->threads)
        return o->threads;
    if (stk_files_are_local(&src->files))
        return 2 * cpus < 32 ? 2 * cpus : 32;
    return o->gentle ? FAR_THREADS / 4 : FAR_THREADS;
}

/* Small parts to the front of number[], large ones behind them, each in order. */
static size_t divide(const struct stk_source *src, const struct stk_part *part, size_t n,
                     size_t *number)
{
    size_t small = 0, large = 0;
    for (size_t i = 0; i < n; i++)
        small += src->file[part[i].file].size <= SMALL_MAX;
    for (size_t i = 0, k = 0; i < n; i++)
        if (src->file[part[i].file].size <= SMALL_MAX)
            number[k++] = i;
        else
            number[small + large++] = i;
    return small;
}

int stk_copy(const struct stk_source *src, const struct stk_part *part, size_t nparts,
             const struct stk_copy_options *o, struct stk_copy_sink *sink,
             struct stk_copy_result *r, struct stk_err *err)
{
    static const struct stk_copy_options none;
    o = o ? o : &none;
    struct stk_copying c = {.src = src, .part = part, .o = o, .sink = sink};
    *r = (struct stk_copy_result){0};
    size_t *number = calloc(nparts ? nparts : 1, sizeof *number);
    if (!number)
        return stk_err_nomem(err, nparts * sizeof *number);
    pthread_mutex_init(&c.rate_lock, NULL);
    c.threads = choose_threads(src, o);
    size_t small = divide(src, part, nparts, number);
    int rc = copy_small(&c, number, small, err);
    if (rc == 0 && small < nparts)
        rc = copy_large(&c, number + small, nparts - small, r, err);
    r->bytes = atomic_load(&c.bytes);
    r->files = atomic_load(&c.files);
    r->skipped = atomic_load(&c.skipped);
    pthread_mutex_destroy(&c.rate_lock);
    free(number);
    return rc;
}

int stk_copy_all(const struct stk_source *src, struct stk_part **out, size_t *n,
                 struct stk_err *err)
{
    *n = (size_t)src->count;
    *out = calloc(*n ? *n : 1, sizeof **out);
    if (!*out)
        return stk_err_nomem(err, *n * sizeof **out);
    for (uint64_t i = 0; i < src->count; i++)
        (*out)[i] = (struct stk_part){.file = i, .count = stk_tier_parcels(src->file[i].size)};
    return 0;
}
