/*
 * reader.c - samples from extents. Wanted ranges of a batch are sorted by place and read together
 * where they are near; a range that fails is the problem of its own samples only.
 */
#include "data/reader_priv.h"
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define MERGE_MAX (8u << 20)
#define BATCH_MAX (32u << 20) /* stored bytes brought in at once, where that can be chosen */

int stk_reader_new(struct stk_dataset *ds, struct stk_reader **out, struct stk_err *err)
{
    struct stk_reader *r = calloc(1, sizeof *r);
    if (!r)
        return stk_err_nomem(err, sizeof *r);
    r->ds = ds;
    stk_fetch_init(&r->fetch, ds);
    for (int i = 0; i < OPEN_FILES; i++)
        r->open[i].fd = -1;
    *out = r;
    return 0;
}

void stk_reader_free(struct stk_reader *r)
{
    if (!r)
        return;
    for (int i = 0; i < OPEN_FILES; i++)
        if (r->open[i].fd >= 0)
            close(r->open[i].fd);
    for (int i = 0; i < NDECODED; i++)
        stk_buf_release(&r->decoded[i].data);
    stk_fetch_release(&r->fetch);
    stk_buf_release(&r->bytes);
    stk_buf_release(&r->scratch);
    stk_buf_release(&r->stored);
    free(r);
}

void stk_reader_free_all(struct stk_reader *first)
{
    while (first) {
        struct stk_reader *next = first->next;
        stk_reader_free(first);
        first = next;
    }
}

const struct stk_reader_stats *stk_reader_stats(const struct stk_reader *r)
{
    return &r->stats;
}

/* ---- files ---- */

char *stk_reader_place(const struct stk_dataset *ds, uint64_t i, int64_t *offset)
{
    struct stk_buf b = STK_BUF_INIT;
    struct stk_extent e;
    char *path = NULL;
    *offset = -1;
    if (stk_index_slices(&ds->index, i, &b, NULL) == 0 && b.len) {
        const struct stk_slice *s = (const void *)b.data;
        if (stk_index_extent(&ds->index, s->extent, &e, NULL) == 0) {
            path = stk_fetch_path(ds, e.file);
            *offset =
                (int64_t)(e.offset - (s->length == UINT64_MAX && !e.chain ? ds->format->head : 0));
            *offset += e.chain ? 0 : (int64_t)s->offset;
        }
    }
    stk_buf_release(&b);
    return path;
}

/* An error that names the file, for want w. */
static int file_error(const struct stk_reader *r, uint32_t file, int64_t off, struct stk_err *err,
                      const char *what)
{
    char *path = stk_fetch_path(r->ds, file);
    int rc = stk_err_set(err, STK_E_STALE, path, off, "%s", what);
    free(path);
    return rc;
}

static int check_unchanged(const struct stk_reader *r, int fd, const struct stk_index_file *f,
                           uint32_t file, struct stk_err *err)
{
    struct stat sb;
    if (fstat(fd, &sb) < 0)
        return stk_err_sys(err, NULL, "stat");
    int64_t mtime = (int64_t)sb.st_mtim.tv_sec * 1000000000 + sb.st_mtim.tv_nsec;
    if (!S_ISREG(sb.st_mode))
        return file_error(r, file, -1, err, "not a regular file");
    if ((uint64_t)sb.st_size != f->size || (f->mtime_ns && mtime != f->mtime_ns))
        return file_error(r, file, -1, err, "the file changed since it was indexed; run again");
    return 0;
}

static int open_file(struct stk_reader *r, uint32_t file, struct stk_err *err)
{
    const struct stk_index_file *f;
    const char *name;
    char buf[PATH_MAX];
    int rc = stk_index_file(&r->ds->index, file, &f, &name, err);
    if (rc < 0)
        return rc;
    if (f->name_len >= sizeof buf)
        return stk_err_set(err, STK_E_CORRUPT, NULL, -1, "a file's name is too long");
    memcpy(buf, name, f->name_len);
    buf[f->name_len] = '\0';
    int fd = openat(r->ds->rootfd, buf, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    r->stats.opens++;
    if (fd < 0) {
        int saved = errno;
        char *path = stk_fetch_path(r->ds, file);
        errno = saved;
        rc = stk_err_sys(err, path, "open");
        free(path);
        return rc;
    }
    rc = check_unchanged(r, fd, f, file, err);
    if (rc < 0)
        close(fd);
    return rc < 0 ? rc : fd;
}

/* A descriptor for the file, kept for the next time. Borrowed. */
static int get_fd(struct stk_reader *r, uint32_t file, struct stk_err *err)
{
    struct open_file *oldest = &r->open[0];
    r->clock++;
    for (int i = 0; i < OPEN_FILES; i++) {
        if (r->open[i].fd >= 0 && r->open[i].file == file) {
            r->open[i].used = r->clock;
            return r->open[i].fd;
        }
        if (r->open[i].used < oldest->used)
            oldest = &r->open[i];
    }
    int fd = open_file(r, file, err);
    if (fd < 0)
        return fd;
    if (oldest->fd >= 0)
        close(oldest->fd);
    *oldest = (struct open_file){.fd = fd, .file = file, .used = r->clock};
    return fd;
}

/* ---- reading ---- */

int stk_reader_range(struct stk_reader *r, uint32_t file, uint64_t off, uint64_t len, uint8_t *to,
                     struct stk_err *err)
{
    int fd = get_fd(r, file, err);
    if (fd < 0)
        return fd;
    size_t got;
    int rc = stk_pread_full(fd, to, (size_t)len, off, &got, NULL, err);
    r->stats.reads++;
    r->stats.bytes_read += rc == 0 ? got : 0;
    if (rc < 0) {
        char *path = stk_fetch_path(r->ds, file);
        struct stk_err io = err ? *err : (struct stk_err){0};
        rc = stk_err_set(err, STK_E_SYS, path, io.offset, "%s", io.what);
        if (err)
            err->sys_errno = io.sys_errno;
        free(path);
    } else if (got < len) {
        rc = file_error(r, file, (int64_t)(off + got), err, "the file became shorter");
    }
    return rc;
}

/* Reads wants [i, j) of the order in one request; when that fails, each by itself. */
static void read_run(struct stk_reader *r, size_t i, size_t j, uint64_t from, uint64_t to)
{
    struct stk_err why = {0};
    uint8_t *at = stk_buf_extend(&r->bytes, (size_t)(to - from));
    int rc = stk_reader_range(r, stk_fetch_at(&r->fetch, i)->file, from, to - from, at, &why);
    for (size_t k = i; k < j; k++) {
        struct stk_want *w = stk_fetch_at(&r->fetch, k);
        uint8_t *p = at + (w->off - from);
        w->p = p;
        if (rc == 0)
            continue;
        struct stk_err own = why;
        int one = j - i == 1 ? rc : stk_reader_range(r, w->file, w->off, w->len, p, &own);
        if (one < 0)
            stk_fetch_fail(&r->fetch, w, one, &own);
    }
}

/* Bytes the planned reads take. */
static int batch_bytes(const struct stk_reader *r, uint64_t *total, struct stk_err *err)
{
    uint64_t from, to;
    *total = 0;
    for (size_t i = 0; i < stk_fetch_nwants(&r->fetch);) {
        i = stk_fetch_run(&r->fetch, i, MERGE_MAX, &from, &to);
        if (__builtin_add_overflow(*total, to - from, total) || *total > SIZE_MAX / 2)
            return stk_err_nomem(err, *total);
    }
    return 0;
}

/* Samples from all over a compressed file would bring in all of it at once: of extents they share
 * with others, each is read when its turn comes. */
static int postpone_shared(struct stk_reader *r, struct stk_err *err)
{
    struct stk_fetch *f = &r->fetch;
    for (size_t i = 0; i < f->wants.len / sizeof(struct stk_want); i++) {
        struct stk_want *w = stk_fetch_want(f, i);
        if (w->chain && stk_fetch_slice(f, i)->length != UINT64_MAX)
            w->len = 0;
    }
    return stk_fetch_sort(f, err);
}

static bool is_decoded(void *user, uint64_t extent)
{
    return stk_reader_decoded(user, extent) != NULL;
}

int stk_reader_batch(struct stk_reader *r, const uint64_t *ids, size_t n, struct stk_err *err)
{
    /* Who reads in batches goes through the data: what the last one did not need, none will. */
    if (n > 1)
        stk_reader_forget(r, r->batch_clock);
    r->batch_clock = r->clock;
    stk_fetch_reset(&r->fetch);
    stk_buf_reset(&r->bytes);
    int rc = 0;
    for (size_t k = 0; rc == 0 && k < n; k++)
        rc = stk_fetch_add(&r->fetch, ids[k], is_decoded, r, err);
    if (rc == 0)
        rc = stk_fetch_sort(&r->fetch, err);
    /* Twice over the same runs: once to know how much memory, once to read. */
    uint64_t total = 0, from, to;
    if (rc == 0)
        rc = batch_bytes(r, &total, err);
    if (rc == 0 && total > BATCH_MAX) {
        rc = postpone_shared(r, err);
        if (rc == 0)
            rc = batch_bytes(r, &total, err);
    }
    if (rc < 0 || !stk_buf_room(&r->bytes, (size_t)total + 1))
        return rc < 0 ? rc : stk_err_nomem(err, total);
    for (size_t i = 0, j; i < stk_fetch_nwants(&r->fetch); i = j) {
        j = stk_fetch_run(&r->fetch, i, MERGE_MAX, &from, &to);
        read_run(r, i, j, from, to);
    }
    return 0;
}

int stk_reader_get(struct stk_reader *r, size_t k, struct stk_sample *s, struct stk_err *err)
{
    return stk_assemble(&r->fetch, k, stk_reader_slice, r, s, err);
}
