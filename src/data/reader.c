/*
 * reader.c - samples from extents. Wanted ranges of a batch are sorted by place and read together
 * where they are near; a range that fails is the problem of its own samples only.
 */
#include "data/reader.h"
#include "base/file.h"
#include "format/lister.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define MERGE_GAP   (32u << 10) /* bytes worth reading over to save a request */
#define MERGE_MAX   (8u << 20)
#define OPEN_FILES  16          /* descriptors kept by a reader */
#define SAMPLE_MAX  (2ull << 30) /* stored bytes of a sample; what protobuf can hold, too */
#define DECODED_MAX (256u << 20) /* decoded extents kept, in bytes (but always the last one) */
#define NDECODED    1024 /* a value may be cut into that many extents and be read without thrashing */

/* A stored range some slice of the batch needs. */
struct want {
    uint32_t file;
    uint32_t slice;    /* index into slices */
    uint64_t off, len; /* in the file, frame included */
    size_t at;         /* in the batch buffer, once read */
    int failed;        /* code, 0: read */
};

struct open_file {
    int fd;
    uint64_t file;
    uint64_t used; /* clock of the last use */
};

struct decoded {
    uint64_t extent;
    struct stk_buf data;
    uint64_t used; /* 0: empty */
};

struct stk_reader {
    struct stk_dataset *ds;
    struct stk_buf slices; /* struct stk_slice of all samples */
    struct stk_buf first;  /* u32: where each sample's slices begin, and the end */
    struct stk_buf ids;    /* u64 */
    struct stk_buf wants;  /* struct want, by slice once read */
    struct stk_buf order;  /* u32: wants by place */
    struct stk_buf bytes;  /* what was read */
    struct open_file open[OPEN_FILES];
    struct decoded decoded[NDECODED];
    size_t decoded_bytes;
    unsigned decoded_hint; /* the one found last: the next is mostly it, or behind it */
    struct stk_buf scratch, stored;
    struct stk_err *errs; /* of failed wants, in the order they failed */
    size_t nerrs;
    uint64_t clock;
    struct stk_reader_stats stats;
    struct stk_reader *next; /* among the dataset's idle ones */
};

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

static char *file_path(const struct stk_dataset *ds, uint64_t file)
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
            path = file_path(ds, e.file);
            *offset = (int64_t)(e.offset - (s->length == UINT64_MAX && !e.chain ? ds->format->head
                                                                               : 0));
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
    char *path = file_path(r->ds, file);
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
        char *path = file_path(r->ds, file);
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

static struct decoded *find_decoded(struct stk_reader *r, uint64_t extent)
{
    for (unsigned i = 0; i < NDECODED; i++) {
        unsigned k = (r->decoded_hint + i) % NDECODED;
        if (r->decoded[k].used && r->decoded[k].extent == extent) {
            r->decoded_hint = k;
            return &r->decoded[k];
        }
    }
    return NULL;
}

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
    if (e.chain && s->length != UINT64_MAX && find_decoded(r, s->extent))
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
    for (uint32_t i = first[k]; i < first[k + 1]; i++)
        if (__builtin_add_overflow(total, w[i].len, &total))
            total = UINT64_MAX;
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

static int read_range(struct stk_reader *r, uint32_t file, uint64_t off, uint64_t len, size_t at,
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
        char *path = file_path(r->ds, file);
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
    int rc = read_range(r, file, from, to - from, at, &why);
    for (size_t k = i; k < j; k++) {
        struct want *x = &w[order[k]];
        if (!x->len)
            continue;
        x->at = at + (size_t)(x->off - from);
        if (rc == 0)
            continue;
        struct stk_err own = why;
        int one = j - i == 1 ? rc : read_range(r, x->file, x->off, x->len, x->at, &own);
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

int stk_reader_batch(struct stk_reader *r, const uint64_t *ids, size_t n, struct stk_err *err)
{
    int rc = plan_batch(r, ids, n, err);
    if (rc < 0)
        return rc;
    const struct want *w = (const void *)r->wants.data;
    const uint32_t *order = (const void *)r->order.data;
    size_t count = r->order.len / sizeof *order;
    /* Twice over the same runs: once to know how much memory, once to read. */
    uint64_t total = 0, from, to;
    for (size_t i = 0; i < count;) {
        if (!w[order[i]].len) {
            i++;
            continue;
        }
        i = next_run(r, i, count, &from, &to);
        if (__builtin_add_overflow(total, to - from, &total) || total > SIZE_MAX / 2)
            return stk_err_nomem(err, total);
    }
    if (!stk_buf_room(&r->bytes, (size_t)total + 1))
        return stk_err_nomem(err, total);
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

/* ---- decoding ---- */

/* An empty place, or the one used longest ago; over the budget the oldest of those in use go. */
static struct decoded *free_decoded(struct stk_reader *r)
{
    for (;;) {
        struct decoded *empty = NULL, *oldest = NULL;
        for (int i = 0; i < NDECODED; i++) {
            struct decoded *d = &r->decoded[i];
            if (!d->used)
                empty = empty ? empty : d;
            else if (!oldest || d->used < oldest->used)
                oldest = d;
        }
        if (empty && (r->decoded_bytes <= DECODED_MAX || !oldest)) {
            r->decoded_bytes -= empty->data.cap;
            return empty;
        }
        oldest->used = 0;
        if (r->decoded_bytes <= DECODED_MAX)
            continue;
        r->decoded_bytes -= oldest->data.cap;
        stk_buf_release(&oldest->data);
    }
}

static int decode_point(struct stk_reader *r, uint64_t extent, const uint8_t *p, size_t n,
                        struct stk_buf *out, const char *path, uint64_t off, struct stk_err *err)
{
    const uint8_t *window;
    const struct stk_index_point *pt = stk_index_point(&r->ds->index, extent, &window);
    stk_buf_reset(out);
    if (!pt || pt->decoded_len > (1u << 30))
        return stk_err_set(err, STK_E_CORRUPT, r->ds->index_path, -1,
                           "damaged index: a compressed extent without access point");
    /* Deflate cannot expand more than 1032 times: an index that says so lies. */
    if (pt->decoded_len / 1032 > n + 64)
        return stk_err_set(err, STK_E_CORRUPT, r->ds->index_path, -1,
                           "damaged index: an access point promises too much");
    if (!stk_buf_extend(out, (size_t)pt->decoded_len + 1))
        return stk_err_nomem(err, pt->decoded_len);
    out->len = (size_t)pt->decoded_len;
    return stk_point_decode(p, n, pt->bits, window, pt->window_len, out->data, out->len, path, off,
                            err);
}

static int decode_extent(struct stk_reader *r, uint64_t extent, const struct stk_extent *e,
                         const uint8_t *p, struct decoded **out, struct stk_err *err)
{
    const struct stk_chain *c = (const struct stk_chain *)r->ds->index.table[STK_T_CHAINS] +
                                (e->chain - 1);
    struct decoded *d = free_decoded(r);
    char *path = file_path(r->ds, e->file);
    int rc;
    if (c->nsteps > STK_CHAIN_MAX)
        rc = stk_err_set(err, STK_E_CORRUPT, r->ds->index_path, -1, "damaged index: bad filters");
    else if (c->nsteps && c->step[0].id == STK_FILTER_RESUME)
        rc = decode_point(r, extent, p, (size_t)e->length, &d->data, path, e->offset, err);
    else
        rc = stk_filter_decode(c, p, (size_t)e->length, &d->data, &r->scratch, path, e->offset,
                               err);
    free(path);
    r->decoded_bytes += d->data.cap;
    if (rc < 0)
        return rc;
    d->extent = extent;
    d->used = ++r->clock;
    *out = d;
    return 0;
}

/* The bytes of a filtered slice: from the kept ones, else decoded now. */
static int decoded_slice(struct stk_reader *r, const struct stk_slice *s, const struct want *w,
                         const struct stk_extent *e, const uint8_t **p, uint64_t *len,
                         struct stk_err *err)
{
    struct decoded *d = find_decoded(r, s->extent);
    const uint8_t *stored = r->bytes.data + w->at;
    if (!d && !w->len) { /* it was kept when the batch was planned and has been dropped since */
        struct stk_buf keep = r->bytes;
        r->bytes = r->stored;
        stk_buf_reset(&r->bytes);
        int rc = stk_buf_room(&r->bytes, (size_t)e->length + 1)
                     ? read_range(r, e->file, e->offset, e->length, 0, err)
                     : stk_err_nomem(err, e->length);
        r->stored = r->bytes;
        r->bytes = keep;
        if (rc < 0)
            return rc;
        stored = r->stored.data;
    } else if (s->length == UINT64_MAX && r->ds->format->check) {
        stored += r->ds->format->head;
    }
    int rc = d ? 0 : decode_extent(r, s->extent, e, stored, &d, err);
    if (rc < 0)
        return rc;
    d->used = ++r->clock;
    *len = s->length == UINT64_MAX ? d->data.len : s->length;
    if (s->offset > d->data.len || *len > d->data.len - s->offset) {
        char *path = file_path(r->ds, e->file);
        rc = stk_err_set(err, STK_E_CORRUPT, path, (int64_t)e->offset,
                         "decoded to %zu bytes, fewer than the samples in it need", d->data.len);
        free(path);
        return rc;
    }
    *p = d->data.data + s->offset;
    return 0;
}

static int check_frame(struct stk_reader *r, const struct stk_extent *e, const struct want *w,
                       struct stk_err *err)
{
    /* The path costs an allocation: first without, and only for a failure with it. */
    const uint8_t *frame = r->bytes.data + w->at;
    int rc = r->ds->format->check(frame, e->length, NULL, w->off, NULL);
    if (rc == 0)
        return 0;
    char *path = file_path(r->ds, e->file);
    rc = r->ds->format->check(frame, e->length, path, w->off, err);
    free(path);
    return rc;
}

/* The bytes of slice i. Borrowed: until the next batch, for filtered ones until the next slice. */
static int slice_bytes(struct stk_reader *r, uint32_t i, const uint8_t **p, uint64_t *len,
                       bool *filtered, struct stk_err *err)
{
    const struct stk_slice *s = (const struct stk_slice *)(const void *)r->slices.data + i;
    const struct want *w = (const struct want *)(const void *)r->wants.data + i;
    struct stk_extent e;
    *filtered = false;
    *p = (const uint8_t *)"";
    *len = 0;
    if (s->length == 0)
        return 0;
    if (w->failed) {
        if (err && w->at < r->nerrs)
            *err = r->errs[w->at];
        return w->failed;
    }
    int rc = stk_index_extent(&r->ds->index, s->extent, &e, err);
    bool framed = s->length == UINT64_MAX && r->ds->format->check;
    if (rc == 0 && framed)
        rc = check_frame(r, &e, w, err);
    if (rc < 0)
        return rc;
    *filtered = e.chain != 0;
    if (e.chain)
        return decoded_slice(r, s, w, &e, p, len, err);
    *p = r->bytes.data + w->at + (framed ? r->ds->format->head : 0);
    *len = s->length == UINT64_MAX ? e.length : s->length;
    return 0;
}

/* ---- samples ---- */

/* Room for every byte that must be copied together, so that it never moves. */
static int reserve(struct stk_reader *r, uint32_t first, uint32_t end, struct stk_sample *s,
                   struct stk_err *err)
{
    const struct stk_slice *sl = (const void *)r->slices.data;
    uint64_t total = 0;
    for (uint32_t i = first; i < end; i++)
        if (sl[i].length != UINT64_MAX && __builtin_add_overflow(total, sl[i].length, &total))
            return stk_err_nomem(err, total);
    if (end - first > 1 && !stk_buf_room(&s->bytes, (size_t)total + 1))
        return stk_err_nomem(err, total);
    return 0;
}

/* The value of slices [i, j), all of one field: where it lies when it is one plain slice, else
 * copied together. */
static int field_bytes(struct stk_reader *r, uint32_t i, uint32_t j, struct stk_sample *s,
                       const uint8_t **p, uint64_t *len, struct stk_err *err)
{
    bool filtered;
    uint64_t n;
    int rc = slice_bytes(r, i, p, len, &filtered, err);
    if (rc < 0 || (j - i == 1 && !filtered))
        return rc;
    size_t at = s->bytes.len;
    if (j - i == 1 && !stk_buf_room(&s->bytes, (size_t)*len + 1))
        return stk_err_nomem(err, *len);
    stk_buf_put(&s->bytes, *p, (size_t)*len);
    for (uint32_t k = i + 1; rc == 0 && k < j; k++) {
        rc = slice_bytes(r, k, p, &n, &filtered, err);
        if (rc == 0)
            stk_buf_put(&s->bytes, *p, (size_t)n);
    }
    if (rc == 0)
        rc = stk_buf_check(&s->bytes, err);
    *p = s->bytes.data + at;
    *len = s->bytes.len - at;
    return rc;
}

static int plain_value(const struct stk_index_field *f, const char *name, const uint8_t *p,
                       uint64_t len, struct stk_sample *s, struct stk_err *err)
{
    struct stk_value v = {.kind = f->kind,
                          .dtype = f->dtype,
                          .ndim = f->ndim,
                          .data = p,
                          .size = (size_t)len};
    memcpy(v.dim, f->dim, sizeof v.dim);
    uint64_t want;
    if (f->kind == STK_ARRAY &&
        (__builtin_mul_overflow(stk_value_count(&v), stk_dtype_size(f->dtype), &want) ||
         want != len))
        return stk_err_set(err, STK_E_CORRUPT, NULL, -1,
                           "field '%.*s' has %llu bytes, its shape needs another number",
                           (int)f->name_len, name, (unsigned long long)len);
    if (f->kind == STK_TEXT && !stk_is_text(p, (size_t)len))
        v.kind = STK_BYTES;
    return stk_sample_add(s, name, f->name_len, &v) ? 0 : stk_err_nomem(err, sizeof v);
}

static int arranged_value(const struct stk_codec *c, const struct stk_index_field *f,
                          const char *name, const uint8_t *p, uint64_t len, struct stk_sample *s,
                          struct stk_err *err)
{
    struct stk_field_spec spec = {.name = name,
                                  .name_len = f->name_len,
                                  .kind = f->kind,
                                  .dtype = f->dtype,
                                  .ndim = f->ndim,
                                  .codec = f->codec};
    memcpy(spec.dim, f->dim, sizeof spec.dim);
    const uint8_t *out = NULL;
    size_t out_len = 0;
    int rc = c->arrange(&spec, p, (size_t)len, s, &out, &out_len, err);
    return rc < 0 ? rc : plain_value(f, name, out, out_len, s, err);
}

/* Codecs of single values call theirs "data"; it gets the field's own name. */
static void rename_single(struct stk_sample *s, size_t before, const char *name, size_t len)
{
    bool record = (len == 6 && memcmp(name, "record", 6) == 0) ||
                  (len == 3 && memcmp(name, "row", 3) == 0);
    if (s->nfields != before + 1 || record)
        return;
    struct stk_field *f = &s->field[before];
    if (f->name_len != 4 || memcmp(f->name, "data", 4) != 0)
        return;
    f->name = name;
    f->name_len = len;
}

static int add_field(struct stk_reader *r, uint32_t number, const uint8_t *p, uint64_t len,
                     bool only, struct stk_sample *s, struct stk_err *err)
{
    const char *name;
    const struct stk_index *idx = &r->ds->index;
    const struct stk_index_field *f = stk_index_field(idx, number, &name);
    if (!f)
        return stk_err_set(err, STK_E_CORRUPT, r->ds->index_path, -1,
                           "damaged index: a field that is not there");
    const struct stk_codec *c = r->ds->codec[number];
    if (!c)
        return plain_value(f, name, p, len, s, err);
    if (c->arrange)
        return arranged_value(c, f, name, p, len, s, err);
    size_t before = s->nfields;
    int rc = c->explode(idx->table[STK_T_CONTEXT], stk_index_count(idx, STK_T_CONTEXT), p,
                        (size_t)len, s, err);
    if (rc == 0)
        rename_single(s, before, name, f->name_len);
    if (rc == 0 && only) {
        s->record = p;
        s->record_len = (size_t)len;
        s->record_codec = c;
    }
    return rc;
}

static int get_sample(struct stk_reader *r, size_t k, struct stk_sample *s, struct stk_err *err)
{
    const uint32_t *first = (const void *)r->first.data;
    const uint64_t *ids = (const void *)r->ids.data;
    const struct stk_slice *sl = (const void *)r->slices.data;
    stk_sample_reset(s);
    int rc = stk_index_key(&r->ds->index, ids[k], &s->key, &s->key_len, err);
    if (rc == 0)
        rc = reserve(r, first[k], first[k + 1], s, err);
    for (uint32_t i = first[k], j; rc == 0 && i < first[k + 1]; i = j) {
        const uint8_t *p;
        uint64_t len;
        for (j = i + 1; j < first[k + 1] && sl[j].field == sl[i].field;)
            j++;
        rc = field_bytes(r, i, j, s, &p, &len, err);
        if (rc == 0)
            rc = add_field(r, sl[i].field, p, len, i == first[k] && j == first[k + 1], s, err);
    }
    return rc;
}

int stk_reader_get(struct stk_reader *r, size_t k, struct stk_sample *s, struct stk_err *err)
{
    int rc = get_sample(r, k, s, err);
    if (rc < 0 && err && !err->path[0] && rc != STK_E_NOMEM) {
        /* Codecs do not know where the record stands. */
        const uint64_t *ids = (const void *)r->ids.data;
        int64_t off;
        char *path = stk_reader_place(r->ds, ids[k], &off);
        struct stk_err why = *err;
        stk_err_set(err, why.code, path, off, "%s", why.what);
        free(path);
    }
    return rc;
}

/* ---- one sample, from any thread ---- */

static int take_idle(struct stk_dataset *ds, struct stk_reader **r, struct stk_err *err)
{
    pthread_mutex_lock(&ds->lock);
    *r = ds->idle;
    if (*r)
        ds->idle = (*r)->next;
    pthread_mutex_unlock(&ds->lock);
    return *r ? 0 : stk_reader_new(ds, r, err);
}

int stk_dataset_read(struct stk_dataset *ds, uint64_t i, struct stk_sample *s, struct stk_err *err)
{
    struct stk_reader *r;
    int rc = take_idle(ds, &r, err);
    if (rc < 0)
        return rc;
    rc = stk_reader_batch(r, &i, 1, err);
    if (rc == 0)
        rc = stk_reader_get(r, 0, s, err);
    /* The sample keeps the buffer its values point into; the reader goes on with the old one. */
    struct stk_buf mine = r->bytes;
    r->bytes = s->hold;
    s->hold = mine;
    pthread_mutex_lock(&ds->lock);
    r->next = ds->idle;
    ds->idle = r;
    pthread_mutex_unlock(&ds->lock);
    return rc;
}
