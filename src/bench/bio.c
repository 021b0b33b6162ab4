/*
 * bio.c - the I/O of one thread of a benchmark: its requests, their tally, its clock, and how long
 * it waits for storage that does not answer.
 */
#include "bench/bio.h"
#include "bench/workload.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "base/own.h"
#include "base/pool.h"
#include "host/tree.h"

#define LINE  64u /* bytes */
#define LINES 256 /* between two looks at the clock */

double stk_bench_now(const struct stk_bench_clock *c)
{
    return c->model->is_virtual ? c->now_s : stk_now();
}

void stk_bench_after(struct stk_bench_clock *c, double at_s)
{
    if (c->model->is_virtual && at_s > c->now_s)
        c->now_s = at_s;
}

void stk_bench_until(struct stk_bench_clock *c, double at_s)
{
    if (c->model->is_virtual) {
        stk_bench_after(c, at_s);
        return;
    }
    double whole = floor(at_s);
    if (at_s <= stk_now()) /* no system call */
        return;
    struct timespec t = {.tv_sec = (time_t)whole, .tv_nsec = (long)((at_s - whole) * 1e9)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR) {
    }
}

/* Changes one byte per cache line of some lines from *at on. */
static void touch(volatile uint8_t *work, size_t size, size_t *at)
{
    for (int i = 0; i < LINES; i++, *at = (*at + LINE) % size)
        work[*at]++;
}

/* Looks at the clock that needs no system call, and at the CPU clock only when the time may have
 * passed: a thread that decodes makes no system calls, at which the kernel would let others run. */
void stk_bench_burn(struct stk_bench_clock *c, double cpu_s, uint8_t *work, size_t size)
{
    if (c->model->is_virtual) {
        c->now_s += cpu_s;
        return;
    }
    size_t at = 0;
    double end = stk_thread_cpu_s() + cpu_s;
    for (double left = cpu_s; left > 0; left = end - stk_thread_cpu_s())
        for (double until = stk_now() + left; stk_now() < until;)
            touch(work, size, &at);
}

void stk_bench_spend(struct stk_bench_clock *c, uint64_t bytes)
{
    const struct stk_bench_model *m = c->model;
    while (m->hangs)
        pause();
    if (m->is_virtual)
        c->now_s += m->storage.latency_s + (m->rate_Bps > 0 ? (double)bytes / m->rate_Bps : 0);
}

#define K 1024ull

const uint64_t stk_io_tally_limit[STK_TALLY_COUNTS] = {
    100, K, 10 * K, 100 * K, K *K, 4 * K *K, 10 * K *K, 100 * K *K, K *K *K, UINT64_MAX};
const char *const stk_io_tally_bin_name[STK_TALLY_COUNTS] = {
    "to 100 B", "to 1 KiB",  "to 10 KiB",  "to 100 KiB", "to 1 MiB",
    "to 4 MiB", "to 10 MiB", "to 100 MiB", "to 1 GiB",   "above 1 GiB"};

static void count_size(struct stk_io_tally *t, uint64_t bytes, uint64_t n)
{
    for (int i = 0; i < STK_TALLY_SIZES; i++) {
        struct stk_io_tally_size *s = &t->size[i];
        if (s->count && s->bytes != bytes)
            continue;
        s->bytes = bytes;
        s->count += n;
        return;
    }
    t->other_sizes += n;
}

static void io_tally_request(struct stk_io_tally *t, uint64_t bytes, double seconds)
{
    int b = 0;
    while (bytes > stk_io_tally_limit[b])
        b++;
    t->bin[b]++;
    t->requests++;
    t->bytes += bytes;
    t->request_s += seconds;
    count_size(t, bytes, 1);
    stk_histogram_add(&t->latency, seconds > 0 ? (uint64_t)(seconds * 1e9) : 0);
    if (seconds > 0)
        stk_histogram_add(&t->rate, (uint64_t)((double)bytes / seconds));
}

void stk_io_tally_merge(struct stk_io_tally *into, const struct stk_io_tally *from)
{
    into->samples += from->samples;
    into->asked_bytes += from->asked_bytes;
    into->opens += from->opens;
    into->stats += from->stats;
    into->seeks += from->seeks;
    into->requests += from->requests;
    into->bytes += from->bytes;
    into->first += from->first;
    into->sequential += from->sequential;
    into->consecutive += from->consecutive;
    into->other_sizes += from->other_sizes;
    into->request_s += from->request_s;
    into->open_s += from->open_s;
    for (int i = 0; i < STK_TALLY_COUNTS; i++)
        into->bin[i] += from->bin[i];
    for (int i = 0; i < STK_TALLY_SIZES; i++)
        if (from->size[i].count)
            count_size(into, from->size[i].bytes, from->size[i].count);
    stk_histogram_merge(&into->latency, &from->latency);
    stk_histogram_merge(&into->rate, &from->rate);
}

struct stk_io_tally_size stk_io_tally_common(const struct stk_io_tally *t)
{
    struct stk_io_tally_size most = {0, 0};
    for (int i = 0; i < STK_TALLY_SIZES; i++)
        if (t->size[i].count > most.count)
            most = t->size[i];
    return most;
}

static int failed(const struct stk_bio *b, const struct stk_bio_file *f, const char *what,
                  struct stk_err *err)
{
    char path[4400];
    int saved = errno;
    if (*f->name == '/')
        snprintf(path, sizeof path, "%s", f->name);
    else
        snprintf(path, sizeof path, "%s/%s", b->dir, f->name);
    errno = saved;
    return stk_err_sys(err, path, "%s", what);
}

static int open_direct(const struct stk_bio *b, struct stk_bio_file *f, struct stk_err *err)
{
    if (b->cache != STK_CACHE_DIRECT)
        return 0;
    int flags = fcntl(f->fd, F_GETFL);
    if (flags >= 0 && fcntl(f->fd, F_SETFL, flags | O_DIRECT) == 0)
        return 0;
    char path[4400];
    snprintf(path, sizeof path, "%s/%s", b->dir, f->name);
    return stk_err_set(err, STK_E_UNSUPPORTED, path, -1,
                       "this file system has no direct reads; use reader.cache: drop");
}

int stk_bio_open(struct stk_bio *b, const char *name, struct stk_bio_file *f, struct stk_err *err)
{
    struct stat st;
    *f = (struct stk_bio_file){.fd = -1, .fresh = true};
    snprintf(f->name, sizeof f->name, "%s", name);
    char path[4400];
    snprintf(path, sizeof path, "%s/%s", b->dir, name);
    double t = stk_bench_now(b->clock);
    int rc = stk_read_open(b->dirfd, name, 0, &f->fd, &st, path, err);
    if (rc < 0)
        return rc;
    f->size = (uint64_t)st.st_size;
    rc = open_direct(b, f, err);
    stk_bench_spend(b->clock, 0);
    b->tally->opens++;
    b->tally->open_s += stk_bench_now(b->clock) - t;
    if (rc < 0)
        stk_bio_close(b, f);
    return rc;
}

int stk_bio_open_found(struct stk_bio *b, const char *name, struct stk_bio_file *f,
                       struct stk_err *err)
{
    struct stat st;
    *f = (struct stk_bio_file){.fresh = true};
    snprintf(f->name, sizeof f->name, "%s", name);
    double t = stk_bench_now(b->clock);
    f->fd = openat(b->dirfd, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (f->fd < 0 || fstat(f->fd, &st) < 0)
        return failed(b, f, "open", err);
    f->size = (uint64_t)st.st_size;
    stk_bench_spend(b->clock, 0);
    b->tally->opens++;
    b->tally->open_s += stk_bench_now(b->clock) - t;
    return 0;
}

int stk_bio_stat(struct stk_bio *b, const char *name, struct stk_err *err)
{
    struct stat st;
    double t = stk_bench_now(b->clock);
    int rc = fstatat(b->dirfd, name, &st, 0);
    stk_bench_spend(b->clock, 0);
    b->tally->stats++;
    b->tally->open_s += stk_bench_now(b->clock) - t;
    return rc < 0 ? stk_err_sys(err, name, "stat") : 0;
}

void stk_bio_seek(struct stk_bio *b, struct stk_bio_file *f, uint64_t off)
{
    double t = stk_bench_now(b->clock);
    (void)lseek(f->fd, (off_t)off, SEEK_SET);
    b->tally->seeks++;
    b->tally->open_s += stk_bench_now(b->clock) - t;
}

void stk_bio_count(struct stk_bio *b, struct stk_bio_file *f, uint64_t off, uint64_t n,
                   double seconds)
{
    if (f->fresh)
        b->tally->first++;
    else if (off >= f->end)
        b->tally->sequential++;
    if (!f->fresh && off == f->end)
        b->tally->consecutive++;
    f->fresh = false;
    f->end = off + n;
    io_tally_request(b->tally, n, seconds);
}

#define PARTS 64u /* of a request, at most */

static ssize_t read_once(int fd, void *p, size_t room, size_t n, uint64_t off)
{
    struct iovec part[PARTS];
    int parts = 0;
    if (n <= room)
        return pread(fd, p, n, (off_t)off);
    for (size_t left = n; left && parts < (int)PARTS; left -= part[parts++].iov_len)
        part[parts] = (struct iovec){p, left < room ? left : room};
    return preadv(fd, part, parts, (off_t)off);
}

int stk_bio_read(struct stk_bio *b, struct stk_bio_file *f, void *p, size_t n, uint64_t off,
                 size_t *got, struct stk_err *err)
{
    return stk_bio_read_over(b, f, p, n, n, off, got, err);
}

int stk_bio_read_over(struct stk_bio *b, struct stk_bio_file *f, void *p, size_t room, size_t n,
                      uint64_t off, size_t *got, struct stk_err *err)
{
    double t = stk_bench_now(b->clock);
    ssize_t k;
    do
        k = read_once(f->fd, p, room, n, off);
    while (k < 0 && errno == EINTR);
    if (k < 0)
        return failed(b, f, "read", err);
    *got = (size_t)k;
    stk_bench_spend(b->clock, *got);
    if (b->cache == STK_CACHE_DROP && k > 0)
        (void)posix_fadvise(f->fd, (off_t)off, (off_t)k, POSIX_FADV_DONTNEED);
    double took = stk_bench_now(b->clock) - t;
    if (k > 0)
        stk_bio_count(b, f, off, *got, took);
    else
        b->tally->request_s += took; /* the end of the file: no request, but its time */
    return 0;
}

void stk_bio_close(struct stk_bio *b, struct stk_bio_file *f)
{
    if (f->fd < 0)
        return;
    double t = stk_bench_now(b->clock);
    close(f->fd);
    f->fd = -1;
    b->tally->open_s += stk_bench_now(b->clock) - t;
}

int stk_bench_patience_open(struct stk_bench_patience *p, struct stk_err *err)
{
    p->seconds = p->seconds > 0 ? p->seconds : STK_PATIENCE_S;
    return stk_thread_open(&p->thread, err);
}

static int is_rank_lost(void *comm)
{
    return comm && stk_comm_lost(comm, NULL, 0) >= 0;
}

int stk_bench_within(struct stk_bench_patience *p, stk_thread_fn *fn, void (*drop)(void *user),
                     void *user, struct stk_err *err)
{
    const struct stk_limit limit = {p->seconds, is_rank_lost, p->comm};
    char why_lost[200] = "";
    int rc = 0, why = stk_thread_call(p->thread, fn, drop, user, &limit, &rc, err);
    p->stuck = why != 0;
    if (why == ECANCELED) {
        int64_t rank = stk_comm_lost(p->comm, why_lost, sizeof why_lost);
        return stk_err_set(err, STK_E_STOPPED, NULL, -1, "rank %lld is lost: %s", (long long)rank,
                           why_lost);
    }
    if (why)
        return stk_err_set(err, STK_E_STOPPED, p->dir, -1,
                           "no request has returned for %.0f s: the storage hangs (--patience)",
                           p->seconds);
    return rc;
}

int stk_bench_beat(struct stk_bench_patience *p)
{
    return stk_thread_beat(p->thread) ? 0 : STK_E_STOPPED;
}

void stk_bench_patience_close(struct stk_bench_patience *p)
{
    (void)stk_thread_close(p->thread, 0);
}
