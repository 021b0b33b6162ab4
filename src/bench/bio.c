/* bio.c - see bio.h. */
#include "bench/bio.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/own.h"
#include "bench/workload.h"

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
    stk_io_tally_request(b->tally, n, seconds);
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
