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

#define MERGE_GAP  (32u << 10) /* bytes worth reading over to save a request */
#define MERGE_MAX  (8u << 20)
#define BATCH_MAX  (32u << 20)  /* stored bytes brought in at once, where that can be chosen */
#define SAMPLE_MAX (2ull << 30) /* stored bytes of a sample; what protobuf can hold, too */

int stk_reader_new(struct stk_dataset *ds, struct stk_reader **out, struct stk_err *err)
{
    struct stk_reader *r = calloc(1, sizeof *r);
    if (!r)
        return stk_err_nomem(err, sizeof *r);
    r->ds = ds;
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
    struct stk_buf *bufs[] = {&r->slices, &r->first, &r->ids,     &r->wants,
                              &r->order,  &r->bytes, &r->scratch, &r->stored};
    for (size_t i = 0; i < sizeof bufs / sizeof *bufs; i++)
        stk_buf_release(bufs[i]);
    free(r->errs);
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

char *stk_reader_file_path(const struct stk_dataset *ds, uint64_t file)
{
    const struct stk_index_file *f;
    const char *name;
    if (stk_index_file(&ds->index, file, &f, &name, NULL) < 0)
        return NULL;
    char *copy = strndup(name, f->name_len);
    char *path = copy ? stk_path_join(ds->root, copy) : NULL;
    free(copy);
    return path;
}

char *stk_reader_place(const struct stk_dataset *ds, uint64_t i, int64_t *offset)
{
    struct stk_buf b = STK_BUF_INIT;
    struct stk_extent e;
    char *path = NULL;
    *offset = -1;
    if (stk_index_slices(&ds->index, i, &b, NULL) == 0 && b.len) {
        const struct stk_slice *s = (const void *)b.data;
        if (stk_index_extent(&ds->index, s->extent, &e, NULL) == 0) {
            path = stk_reader_file_path(ds, e.file);
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
    char *path = stk_reader_file_path(r->ds, file);
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
        char *path = stk_reader_file_path(r->ds, file);
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

/* ---- what a batch needs ---- */

/* The stored range slice i needs: of a plain extent just the slice (and the record's frame), of a
 * filtered one all of it. */
static int want_of(struct stk_reader *r, uint32_t i, struct want *w, struct stk_err *err)
{
    const struct stk_slice *s = (const struct stk_slice *)(const void *)r->slices.data + i;
    struct stk_extent e;
    *w = (struct want){.slice = i};
    if (s->length == 0)
        return 0; /* an empty value has no place */
    int rc = stk_index_extent(&r->ds->index, s->extent, &e, err);
    if (rc < 0)
        return rc;
    w->file = e.file;
    if (e.chain && s->length != UINT64_MAX && stk_reader_decoded(r, s->extent))
        return 0;
    uint64_t head = 0, tail = 0;
    bool whole = s->length == UINT64_MAX;
    if (whole && r->ds->format->check) {
        head = r->ds->format->head;
        tail = r->ds->format->tail;
    }
    if (e.chain || whole) {
        w->off = e.offset - head;
        w->len = e.length + head + tail;
    } else {
        w->off = e.offset + s->offset;
        w->len = s->length;
        if (s->offset > e.length || s->length > e.length - s->offset)
            return stk_err_set(err, STK_E_CORRUPT, r->ds->index_path, -1,
                               "damaged index: a slice runs past its extent");
    }
    const struct stk_index_file *f;
    const char *name;
    rc = stk_index_file(&r->ds->index, e.file, &f, &name, err);
    if (rc == 0 && (head > e.offset || w->off > f->size || w->len > f->size - w->off))
        rc = stk_err_set(err, STK_E_CORRUPT, r->ds->index_path, -1,
                         "damaged index: a record runs past its file");
    return rc;
}

static int by_place(const void *a, const void *b, void *user)
{
    const struct want *w = user;
    const struct want *x = &w[*(const uint32_t *)a], *y = &w[*(const uint32_t *)b];
    if (x->file != y->file)
        return x->file < y->file ? -1 : 1;
    if (x->off != y->off)
        return x->off < y->off ? -1 : 1;
    return (x->slice > y->slice) - (x->slice < y->slice);
}

static void fail_want(struct stk_reader *r, struct want *w, int code, const struct stk_err *why)
{
    w->failed = code;
    struct stk_err *grown = realloc(r->errs, (r->nerrs + 1) * sizeof *grown);
    if (!grown)
        return; /* the code alone must do */
    r->errs = grown;
    w->at = r->nerrs;
    r->errs[r->nerrs++] = *why;
}

/* A length in a file is not a reason to take that much memory: a sparse file has room for any. */
static void refuse_huge(struct stk_reader *r, size_t k)
{
    const uint32_t *first = (const void *)r->first.data;
    struct want *w = (void *)r->wants.data;
    uint64_t total = 0;
    for (uint32_t i = first[k]; i < first[k + 1]; i++) {
        bool again = i > first[k] && w[i].file == w[i - 1].file && w[i].off == w[i - 1].off;
        if (!again && __builtin_add_overflow(total, w[i].len, &total))
            total = UINT64_MAX;
    }
    if (total <= SAMPLE_MAX)
        return;
    int64_t off;
    char *path = stk_reader_place(r->ds, ((const uint64_t *)(const void *)r->ids.data)[k], &off);
    struct stk_err why = {0};
    stk_err_set(&why, STK_E_UNSUPPORTED, path, off,
                "a sample of %llu bytes; samples of more than 2 GiB are not taken into memory",
                (unsigned long long)total);
    fail_want(r, &w[first[k]], STK_E_UNSUPPORTED, &why);
    for (uint32_t i = first[k]; i < first[k + 1]; i++) {
        w[i].len = 0;
        w[i].failed = STK_E_UNSUPPORTED;
        w[i].at = w[first[k]].at;
    }
    free(path);
}

static int plan_batch(struct stk_reader *r, const uint64_t *ids, size_t n, struct stk_err *err)
{
    stk_buf_reset(&r->slices);
    stk_buf_reset(&r->first);
    stk_buf_reset(&r->ids);
    stk_buf_reset(&r->wants);
    stk_buf_reset(&r->order);
    stk_buf_reset(&r->bytes);
    r->nerrs = 0;
    stk_buf_put(&r->ids, ids, n * sizeof *ids);
    for (size_t i = 0; i <= n; i++) {
        uint32_t at = (uint32_t)(r->slices.len / sizeof(struct stk_slice));
        stk_buf_put(&r->first, &at, sizeof at);
        int rc = i < n ? stk_index_slices(&r->ds->index, ids[i], &r->slices, err) : 0;
        if (rc < 0)
            return rc;
    }
    uint32_t count = (uint32_t)(r->slices.len / sizeof(struct stk_slice));
    bool sorted = true;
    struct want last = {0};
    for (uint32_t i = 0; i < count; i++) {
        struct want w;
        int rc = want_of(r, i, &w, err);
        if (rc < 0)
            return rc;
        stk_buf_put(&r->wants, &w, sizeof w);
        stk_buf_put(&r->order, &i, sizeof i);
        sorted = sorted && (w.file > last.file || (w.file == last.file && w.off >= last.off));
        last = w;
    }
    if (r->wants.fail || r->order.fail || r->first.fail || r->ids.fail)
        return stk_err_nomem(err, count * sizeof last);
    for (size_t k = 0; k < n; k++)
        refuse_huge(r, k);
    if (!sorted)
        qsort_r(r->order.data, count, sizeof(uint32_t), by_place, r->wants.data);
    return 0;
}

/* ---- reading ---- */

int stk_reader_range(struct stk_reader *r, uint32_t file, uint64_t off, uint64_t len, size_t at,
                     struct stk_err *err)
{
    int fd = get_fd(r, file, err);
    if (fd < 0)
        return fd;
    size_t got;
    int rc = stk_pread_full(fd, r->bytes.data + at, (size_t)len, off, &got, NULL, err);
    r->stats.reads++;
    r->stats.bytes_read += rc == 0 ? got : 0;
    if (rc < 0) {
        char *path = stk_reader_file_path(r->ds, file);
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

static size_t buffer_take(struct stk_reader *r, uint64_t n)
{
    size_t at = r->bytes.len;
    r->bytes.len += (size_t)n;
    return at;
}

/* Reads wants [i, j) of the order in one request; when that fails, each by itself. */
static int read_run(struct stk_reader *r, size_t i, size_t j, uint64_t from, uint64_t to)
{
    struct want *w = (void *)r->wants.data;
    const uint32_t *order = (const void *)r->order.data;
    struct stk_err why = {0};
    uint32_t file = w[order[i]].file;
    size_t at = buffer_take(r, to - from);
    int rc = stk_reader_range(r, file, from, to - from, at, &why);
    for (size_t k = i; k < j; k++) {
        struct want *x = &w[order[k]];
        if (!x->len)
            continue;
        x->at = at + (size_t)(x->off - from);
        if (rc == 0)
            continue;
        struct stk_err own = why;
        int one = j - i == 1 ? rc : stk_reader_range(r, x->file, x->off, x->len, x->at, &own);
        if (one < 0)
            fail_want(r, x, one, &own);
    }
    return 0;
}

/* The largest run of neighbours from i on that one request should bring. Returns its end. */
static size_t next_run(const struct stk_reader *r, size_t i, size_t n, uint64_t *from, uint64_t *to)
{
    const struct want *w = (const void *)r->wants.data;
    const uint32_t *order = (const void *)r->order.data;
    const struct want *first = &w[order[i]];
    *from = first->off;
    *to = first->off + first->len;
    size_t j = i + 1;
    for (; j < n; j++) {
        const struct want *x = &w[order[j]];
        if (!x->len)
            continue;
        uint64_t end = x->off + x->len;
        if (x->file != first->file || (x->off > *to && x->off - *to > MERGE_GAP) ||
            (end > *to && end - *from > MERGE_MAX && x->off >= *to))
            break;
        *to = end > *to ? end : *to;
    }
    return j;
}

/* Bytes the planned reads take. */
static int batch_bytes(const struct stk_reader *r, uint64_t *total, struct stk_err *err)
{
    const struct want *w = (const void *)r->wants.data;
    const uint32_t *order = (const void *)r->order.data;
    size_t count = r->order.len / sizeof *order;
    uint64_t from, to;
    *total = 0;
    for (size_t i = 0; i < count;) {
        if (!w[order[i]].len) {
            i++;
            continue;
        }
        i = next_run(r, i, count, &from, &to);
        if (__builtin_add_overflow(*total, to - from, total) || *total > SIZE_MAX / 2)
            return stk_err_nomem(err, *total);
    }
    return 0;
}

/* Samples from all over a compressed file would bring in all of it at once: of extents they share
 * with others, each is read when its turn comes. */
static void postpone_shared(struct stk_reader *r)
{
    const struct stk_slice *s = (const void *)r->slices.data;
    struct want *w = (void *)r->wants.data;
    struct stk_extent e;
    for (size_t i = 0; i < r->wants.len / sizeof *w; i++)
        if (w[i].len && s[i].length != UINT64_MAX &&
            stk_index_extent(&r->ds->index, s[i].extent, &e, NULL) == 0 && e.chain)
            w[i].len = 0;
}

int stk_reader_batch(struct stk_reader *r, const uint64_t *ids, size_t n, struct stk_err *err)
{
    /* Who reads in batches goes through the data: what the last one did not need, none will. */
    if (n > 1)
        stk_reader_forget(r, r->batch_clock);
    r->batch_clock = r->clock;
    int rc = plan_batch(r, ids, n, err);
    if (rc < 0)
        return rc;
    /* Twice over the same runs: once to know how much memory, once to read. */
    uint64_t total, from, to;
    rc = batch_bytes(r, &total, err);
    if (rc == 0 && total > BATCH_MAX) {
        postpone_shared(r);
        rc = batch_bytes(r, &total, err);
    }
    if (rc < 0 || !stk_buf_room(&r->bytes, (size_t)total + 1))
        return rc < 0 ? rc : stk_err_nomem(err, total);
    const struct want *w = (const void *)r->wants.data;
    const uint32_t *order = (const void *)r->order.data;
    size_t count = r->order.len / sizeof *order;
    for (size_t i = 0; i < count;) {
        if (!w[order[i]].len) {
            i++;
            continue;
        }
        size_t j = next_run(r, i, count, &from, &to);
        read_run(r, i, j, from, to);
        i = j;
    }
    return 0;
}
