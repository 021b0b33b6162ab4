/*
 * copy.c - copies the parts of a source: small files here, by threads that read each with four
 * system calls; large ones in copy_large.c. Also the limit of the rate, and progress.
 */
#include "stage/copy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/hash.h"
#include "base/pool.h"
#include "host/cpus.h"
#include "stage/priv.h"

#define SMALL_MAX   (1u << 20) /* files up to this size are read whole, without an engine */
#define BATCH_FILES 64         /* small files that a thread claims together, at most */
#define BATCHES     4          /* per thread, at least: threads that wait for a source all have work */
#define FAR_THREADS 128u       /* on a source that answers late; they mostly wait */
#define PAUSE_S     0.05       /* between two looks at a request to stop */
#define YIELD_S     0.002      /* between two looks at whether others still go first */
#define YIELD_MOST  1.0        /* s: a reader that takes longer has other troubles than us */

/* ---- progress and rate ---- */

int stk_copying_tell(struct stk_copying *c, uint64_t bytes, uint64_t files, struct stk_err *err)
{
    uint64_t b = atomic_fetch_add(&c->bytes, bytes) + bytes;
    uint64_t f = atomic_fetch_add(&c->files, files) + files;
    if (!c->o->progress || !c->o->progress(c->o->user, b, f))
        return 0;
    return stk_err_set(err, STK_E_STOPPED, NULL, -1, "stopped");
}

/* The first bytes pass at once; each reader then waits for its turn in the stream of bytes. */
double stk_copying_delay(struct stk_copying *c, uint64_t n)
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

int stk_copying_pause(struct stk_copying *c, double seconds, struct stk_err *err)
{
    int rc = 0;
    for (double until = stk_now() + seconds, left; rc == 0 && (left = until - stk_now()) > 0;) {
        double s = left < PAUSE_S ? left : PAUSE_S;
        nanosleep(&(struct timespec){.tv_nsec = (long)(s * 1e9)}, NULL);
        rc = stk_copying_tell(c, 0, 0, err);
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

int stk_copying_yield(struct stk_copying *c, struct stk_err *err)
{
    int rc = 0;
    while (rc == 0 && must_yield(c))
        rc = stk_copying_pause(c, YIELD_S, err);
    return rc;
}

int stk_copying_judge(int rc, struct stk_err *err)
{
    bool gone = rc == STK_E_SYS && (err->sys_errno == ENOENT || err->sys_errno == ENOTDIR);
    bool elsewhere = rc == STK_E_UNSUPPORTED;
    return gone || elsewhere ? (err->code = STK_E_STALE) : rc;
}

uint64_t stk_copying_hash(const struct stk_copying *c, const void *p, size_t n)
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
    int rc = stk_copying_pause(c, stk_copying_delay(c, size), err);
    rc = rc ? rc : stk_copying_yield(c, err);
    if (rc == 0)
        rc = stk_copying_judge(stk_file_read_whole(&c->src->files, file, buf, size, err), err);
    if (rc == 0)
        rc = c->sink->put(c->sink, file, 0, buf, size, stk_copying_hash(c, buf, size), err);
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
    return rc ? rc : stk_copying_tell(c, bytes, files, err);
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
        rc = stk_copy_large(&c, number + small, nparts - small, r, err);
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
