/*
 * kinds.c - the kinds of datasets that a benchmark generates and reads: one row each. The bytes of
 * a file depend on the workload and the number of the file only.
 */
#include "bench/reader.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "format/format.h"
#include "format/sample.h"

static uint64_t start_of(uint64_t seed, struct stk_bench_place at)
{
    return stk_mix64(seed ^ stk_mix64(at.file * STK_GOLDEN64 + at.index));
}

void stk_bench_fill(uint8_t *p, size_t n, uint64_t seed, struct stk_bench_place at)
{
    uint64_t state = start_of(seed, at), v;
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        v = stk_random_next(&state);
        memcpy(p + i, &v, 8);
    }
    v = stk_random_next(&state);
    memcpy(p + i, &v, n - i);
}

void stk_bench_fill_sample(uint8_t *p, size_t n, const struct stk_workload *w,
                           struct stk_bench_place at)
{
    stk_bench_fill(p, n, w->dataset.seed, at);
    for (size_t i = 0; w->dataset.compression != STK_COMPRESSION_NONE && i < n; i++)
        p[i] &= 15; /* half of the bits */
}

void stk_bench_fill_text(uint8_t *p, size_t n, uint64_t seed, struct stk_bench_place at)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz012345";
    stk_bench_fill(p, n, seed, at);
    for (size_t i = 0; i < n; i++)
        p[i] = (uint8_t)letters[p[i] & 31];
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct stk_spare *free_ones;

/* One for the caller alone, until spare_put(). NULL: no memory. */
static struct stk_spare *spare_get(void)
{
    pthread_mutex_lock(&lock);
    struct stk_spare *s = free_ones;
    if (s)
        free_ones = s->next;
    pthread_mutex_unlock(&lock);
    if (!s)
        return calloc(1, sizeof *s);
    stk_buf_reset(&s->data);
    stk_buf_reset(&s->bytes);
    return s;
}

/* NULL: does nothing. */
static void spare_put(struct stk_spare *s)
{
    if (!s)
        return;
    pthread_mutex_lock(&lock);
    s->next = free_ones;
    free_ones = s;
    pthread_mutex_unlock(&lock);
}

void stk_spare_free(void)
{
    pthread_mutex_lock(&lock);
    struct stk_spare *s = free_ones, *next;
    free_ones = NULL;
    pthread_mutex_unlock(&lock);
    for (; s; s = next) {
        next = s->next;
        stk_buf_release(&s->data);
        stk_buf_release(&s->bytes);
        free(s);
    }
}

#define WRITE_BYTES (1u << 20)

/* ---- a file being written ------------------------------------------------------------------- */

struct output {
    struct stk_out out; /* first: what a format sees */
    int fd;
    uint64_t written;
    struct stk_buf buf;
};

static int flush(struct output *o, struct stk_err *err)
{
    int rc = stk_buf_check(&o->buf, err);
    rc = rc ? rc : stk_write_full(o->fd, o->buf.data, o->buf.len, o->out.path, err);
    o->written += o->buf.len;
    stk_buf_reset(&o->buf);
    return rc;
}

static int out_write(struct stk_out *out, const void *p, size_t n, struct stk_err *err)
{
    struct output *o = (struct output *)out;
    if (n >= WRITE_BYTES) { /* a copy of it would cost as much as writing it */
        int rc = flush(o, err);
        o->written += n;
        return rc ? rc : stk_write_full(o->fd, p, n, o->out.path, err);
    }
    stk_buf_put(&o->buf, p, n);
    return o->buf.fail || o->buf.len >= WRITE_BYTES ? flush(o, err) : 0;
}

static uint64_t out_tell(const struct stk_out *out)
{
    const struct output *o = (const struct output *)out;
    return o->written + o->buf.len;
}

static int out_patch(struct stk_out *out, uint64_t off, const void *p, size_t n,
                     struct stk_err *err)
{
    struct output *o = (struct output *)out;
    int rc = flush(o, err);
    return rc ? rc : stk_pwrite_full(o->fd, p, n, off, out->path, err);
}

static int out_sidecar(struct stk_out *out, const void *p, size_t n, struct stk_err *err)
{
    (void)out, (void)p, (void)n, (void)err;
    return 0; /* no kind here has one */
}

static const struct stk_out_ops ops = {
    .write = out_write, .tell = out_tell, .patch = out_patch, .sidecar = out_sidecar};

static int output_open(struct output *o, int dirfd, const char *name, const char *path,
                       struct stk_err *err)
{
    *o = (struct output){.out = {.ops = &ops, .dirfd = dirfd, .name = name, .path = path}};
    o->fd = stk_create_at(dirfd, name, STK_SHARED);
    return o->fd < 0 ? stk_err_sys(err, path, "create") : 0;
}

static int output_close(struct output *o, int rc, struct stk_err *err)
{
    rc = rc ? rc : flush(o, err);
    if (o->fd >= 0 && close(o->fd) < 0 && rc == 0)
        rc = stk_err_sys(err, o->out.path, "close");
    stk_buf_release(&o->buf);
    return rc;
}

/* ---- through the writers of src/format ------------------------------------------------------ */

typedef int make_fn(const struct stk_workload *w, struct stk_bench_place at, struct stk_buf *data,
                    struct stk_sample *s, struct stk_err *err);

static int write_samples(const struct stk_workload *w, uint64_t file, struct stk_write_config *cfg,
                         make_fn *make, struct output *o, struct stk_err *err)
{
    const struct stk_format *f = cfg->format;
    struct stk_spare *m = spare_get();
    struct stk_sample s;
    stk_sample_init(&s);
    int rc = m ? 0 : stk_err_nomem(err, sizeof *m);
    for (uint64_t i = 0; i < w->dataset.samples_per_file && rc == 0; i++) {
        struct stk_bench_place at = {file, i};
        stk_sample_reset(&s);
        stk_buf_reset(&m->bytes);
        rc = make(w, at, &m->data, &s, err);
        s.number = i;
        if (rc == 0 && i == 0) {
            cfg->first = &s;
            rc = f->prepare ? f->prepare(cfg, err) : 0;
            rc = rc == 0 && f->begin ? f->begin(cfg, &o->out, err) : rc;
        }
        rc = rc ? rc : f->encode(cfg, &s, &m->bytes, err);
        if (rc == 0)
            rc = f->append ? f->append(cfg, &o->out, m->bytes.data, m->bytes.len, 1, err)
                           : stk_out_write(&o->out, m->bytes.data, m->bytes.len, err);
    }
    rc = rc == 0 && f->finish ? f->finish(cfg, &o->out, err) : rc;
    if (rc < 0 && f->abort)
        f->abort(cfg, &o->out);
    if (f->unprepare)
        f->unprepare(cfg);
    stk_sample_release(&s);
    spare_put(m);
    return rc;
}

static int write_through(const char *format, const char *codec, make_fn *make,
                         const struct stk_workload *w, uint64_t file, int dirfd, const char *name,
                         const char *path, struct stk_err *err)
{
    struct stk_write_config cfg = {.format = stk_format_find(format),
                                   .total_samples = w->dataset.samples_per_file};
    struct output o;
    cfg.codec = codec ? stk_codec_find(codec) : NULL;
    if (w->dataset.compression == STK_COMPRESSION_GZIP)
        cfg.compress = STK_FILTER_DEFLATE;
    int rc = output_open(&o, dirfd, name, path, err);
    rc = rc ? rc : write_samples(w, file, &cfg, make, &o, err);
    return output_close(&o, rc, err);
}

static int fill_data(const struct stk_workload *w, struct stk_bench_place at, bool text,
                     struct stk_buf *data, struct stk_err *err)
{
    size_t n = (size_t)stk_bench_record(w, at);
    stk_buf_reset(data);
    uint8_t *p = stk_buf_extend(data, n);
    if (!p)
        return stk_err_nomem(err, n);
    if (text)
        stk_bench_fill_text(p, n, w->dataset.seed, at);
    else
        stk_bench_fill_sample(p, n, w, at);
    return 0;
}

static int make_bytes(const struct stk_workload *w, struct stk_bench_place at, struct stk_buf *data,
                      struct stk_sample *s, struct stk_err *err)
{
    int rc = fill_data(w, at, false, data, err);
    return rc ? rc : stk_sample_add_bytes(s, "data", STK_BYTES, data->data, data->len, err);
}

static int make_text(const struct stk_workload *w, struct stk_bench_place at, struct stk_buf *data,
                     struct stk_sample *s, struct stk_err *err)
{
    int rc = fill_data(w, at, true, data, err);
    return rc ? rc : stk_sample_add_bytes(s, "data", STK_TEXT, data->data, data->len, err);
}

static int make_array(const struct stk_workload *w, struct stk_bench_place at, struct stk_buf *data,
                      struct stk_sample *s, struct stk_err *err)
{
    int rc = fill_data(w, at, false, data, err);
    struct stk_value v = {.kind = STK_ARRAY, .dtype = STK_U8, .ndim = 1};
    v.data = data->data;
    v.size = data->len;
    v.dim[0] = data->len;
    if (rc == 0 && !stk_sample_add(s, "data", 4, &v))
        rc = stk_err_nomem(err, data->len);
    return rc;
}

#define CAPTION 64u

/* An image and its caption. */
static int make_pair(const struct stk_workload *w, struct stk_bench_place at, struct stk_buf *data,
                     struct stk_sample *s, struct stk_err *err)
{
    char key[48];
    int rc = fill_data(w, at, false, data, err), n;
    n = snprintf(key, sizeof key, "%05llu%08llu", (unsigned long long)at.file,
                 (unsigned long long)at.index);
    uint8_t *caption = stk_arena_alloc(&s->arena, CAPTION);
    s->key = stk_arena_dup(&s->arena, key, (size_t)n);
    s->key_len = (size_t)n;
    if (!caption || !s->key)
        return stk_err_nomem(err, CAPTION);
    stk_bench_fill_text(caption, CAPTION, w->dataset.seed + 1, at);
    rc = rc ? rc : stk_sample_add_bytes(s, "jpg", STK_BYTES, data->data, data->len, err);
    return rc ? rc : stk_sample_add_bytes(s, "txt", STK_TEXT, caption, CAPTION, err);
}

/* ---- tfrecord ------------------------------------------------------------------------------- */

#define TFRECORD_HEAD 12u
#define TFRECORD_TAIL 4u

static int write_tfrecord(const struct stk_workload *w, uint64_t file, int dirfd, const char *name,
                          const char *path, struct stk_err *err)
{
    return write_through("tfrecord", "raw", make_bytes, w, file, dirfd, name, path, err);
}

static uint64_t stored_tfrecord(const struct stk_workload *w, struct stk_bench_place at)
{
    return TFRECORD_HEAD + stk_bench_record(w, at) + TFRECORD_TAIL;
}

/* Collects the first `want` bytes of a record. True: they are complete. */
static bool collect(struct stk_bench_frame *f, size_t want, const uint8_t **p, size_t *n)
{
    size_t k = want - f->have < *n ? want - f->have : *n;
    memcpy(f->head + f->have, *p, k);
    f->have += k;
    *p += k;
    *n -= k;
    return f->have == want;
}

static void skip(struct stk_bench_frame *f, const uint8_t **p, size_t *n)
{
    size_t k = f->skip < *n ? (size_t)f->skip : *n;
    f->skip -= k;
    *p += k;
    *n -= k;
}

static size_t frame_tfrecord(struct stk_bench_frame *f, const uint8_t *p, size_t n, bool *ends)
{
    const uint8_t *begin = p;
    if (!f->in_body && collect(f, TFRECORD_HEAD, &p, &n)) {
        f->in_body = true;
        f->skip = stk_le64(f->head);
        f->skip += f->skip <= UINT64_MAX - TFRECORD_TAIL ? TFRECORD_TAIL : 0;
    }
    if (f->in_body)
        skip(f, &p, &n);
    *ends = f->in_body && f->skip == 0;
    return (size_t)(p - begin);
}

/* ---- tar: two members per sample ------------------------------------------------------------- */

#define TAR_BLOCK   512u
#define TAR_MEMBERS 2u

static int write_tar(const struct stk_workload *w, uint64_t file, int dirfd, const char *name,
                     const char *path, struct stk_err *err)
{
    return write_through("tar", NULL, make_pair, w, file, dirfd, name, path, err);
}

static uint64_t padded(uint64_t n)
{
    return (n + TAR_BLOCK - 1) / TAR_BLOCK * TAR_BLOCK;
}

static uint64_t stored_tar(const struct stk_workload *w, struct stk_bench_place at)
{
    return TAR_MEMBERS * TAR_BLOCK + padded(stk_bench_record(w, at)) + padded(CAPTION);
}

static uint64_t octal(const uint8_t *p, size_t n)
{
    uint64_t v = 0;
    for (size_t i = 0; i < n && p[i] >= '0' && p[i] <= '7'; i++)
        v = v << 3 | (uint64_t)(p[i] - '0');
    return v;
}

static size_t frame_tar(struct stk_bench_frame *f, const uint8_t *p, size_t n, bool *ends)
{
    const uint8_t *begin = p;
    while (n && !*ends) {
        if (!f->in_body && !collect(f, TAR_BLOCK, &p, &n))
            break;
        if (!f->in_body)
            f->skip = padded(octal(f->head + 124, 12));
        f->in_body = true;
        skip(f, &p, &n);
        if (f->skip)
            break;
        f->in_body = false;
        f->have = 0;
        *ends = ++f->members == TAR_MEMBERS;
    }
    return (size_t)(p - begin);
}

/* ---- csv: a label and a text per line -------------------------------------------------------- */

static int write_csv(const struct stk_workload *w, uint64_t file, int dirfd, const char *name,
                     const char *path, struct stk_err *err)
{
    struct stk_buf line = STK_BUF_INIT;
    struct output o;
    int rc = output_open(&o, dirfd, name, path, err);
    for (uint64_t i = 0; i < w->dataset.samples_per_file && rc == 0; i++) {
        struct stk_bench_place at = {file, i};
        rc = fill_data(w, at, true, &line, err);
        if (rc == 0 && line.len > 3)
            memcpy(line.data, i % 2 ? "1," : "0,", 2);
        if (rc == 0)
            line.data[line.len - 1] = '\n';
        rc = rc ? rc : stk_out_write(&o.out, line.data, line.len, err);
    }
    stk_buf_release(&line);
    return output_close(&o, rc, err);
}

static size_t frame_csv(struct stk_bench_frame *f, const uint8_t *p, size_t n, bool *ends)
{
    const uint8_t *newline = memchr(p, '\n', n);
    (void)f;
    *ends = newline;
    return newline ? (size_t)(newline + 1 - p) : n;
}

/* ---- files that are read whole --------------------------------------------------------------- */

static int write_npz(const struct stk_workload *w, uint64_t file, int dirfd, const char *name,
                     const char *path, struct stk_err *err)
{
    return write_through("npz", NULL, make_array, w, file, dirfd, name, path, err);
}

static int write_json(const struct stk_workload *w, uint64_t file, int dirfd, const char *name,
                      const char *path, struct stk_err *err)
{
    return write_through("json", NULL, make_text, w, file, dirfd, name, path, err);
}

static int write_raw(const struct stk_workload *w, uint64_t file, int dirfd, const char *name,
                     const char *path, struct stk_err *err)
{
    struct stk_buf data = STK_BUF_INIT;
    struct output o;
    int rc = output_open(&o, dirfd, name, path, err);
    rc = rc ? rc : fill_data(w, (struct stk_bench_place){file, 0}, false, &data, err);
    rc = rc ? rc : stk_out_write(&o.out, data.data, data.len, err);
    stk_buf_release(&data);
    return output_close(&o, rc, err);
}

static int write_npy(const struct stk_workload *w, uint64_t file, int dirfd, const char *name,
                     const char *path, struct stk_err *err)
{
    return write_through("npy", NULL, make_array, w, file, dirfd, name, path, err);
}

/* ---- records with an index ------------------------------------------------------------------ */

static int put_index(const struct stk_workload *w, uint64_t first, uint64_t step, struct output *o,
                     struct stk_err *err)
{
    uint8_t entry[8];
    int rc = 0;
    for (uint64_t i = 0; i < w->dataset.samples_per_file && rc == 0; i++) {
        stk_put_le64(entry, first + i * step);
        rc = stk_out_write(&o->out, entry, sizeof entry, err);
    }
    return rc;
}

static int write_indexed(const struct stk_workload *w, uint64_t file, int dirfd, const char *name,
                         const char *path, struct stk_err *err)
{
    struct stk_buf data = STK_BUF_INIT;
    struct output o;
    uint64_t n = w->dataset.samples_per_file;
    uint64_t size = stk_bench_record(w, (struct stk_bench_place){file, 0});
    int rc = output_open(&o, dirfd, name, path, err);
    rc = rc ? rc : put_index(w, STK_BENCH_INDEX_ENTRY * n, size, &o, err);
    rc = rc ? rc : put_index(w, size, 0, &o, err);
    for (uint64_t i = 0; i < n && rc == 0; i++) {
        rc = fill_data(w, (struct stk_bench_place){file, i}, false, &data, err);
        rc = rc ? rc : stk_out_write(&o.out, data.data, data.len, err);
    }
    stk_buf_release(&data);
    return output_close(&o, rc, err);
}

/* ---- the table ------------------------------------------------------------------------------ */

static const struct stk_bench_kind kinds[] = {
    [STK_BENCH_TFRECORD] = {.suffix = ".tfrecord",
                            .write = write_tfrecord,
                            .sample = stk_bench_stream_sample,
                            .frame = frame_tfrecord,
                            .stored = stored_tfrecord},
    [STK_BENCH_CSV] = {.suffix = ".csv",
                       .write = write_csv,
                       .sample = stk_bench_stream_sample,
                       .frame = frame_csv,
                       .stored = stk_bench_record},
    [STK_BENCH_NPZ] = {.suffix = ".npz", .write = write_npz, .sample = stk_bench_whole_sample},
    [STK_BENCH_JSON] = {.suffix = ".json", .write = write_json, .sample = stk_bench_whole_sample},
    [STK_BENCH_TAR] = {.suffix = ".tar",
                       .write = write_tar,
                       .sample = stk_bench_stream_sample,
                       .frame = frame_tar,
                       .stored = stored_tar},
    [STK_BENCH_FILES] = {.suffix = ".bin", .write = write_raw, .sample = stk_bench_whole_sample},
    [STK_BENCH_NPY] = {.suffix = ".npy", .write = write_npy, .sample = stk_bench_whole_sample},
    [STK_BENCH_INDEXED] = {.suffix = ".idxbin",
                           .write = write_indexed,
                           .sample = stk_bench_indexed_sample},
    [STK_BENCH_MAPPED] = {.suffix = ".idxbin",
                          .write = write_indexed,
                          .sample = stk_bench_mapped_sample},
};

const struct stk_bench_kind *stk_bench_kind_of(int format)
{
    return format == STK_BENCH_HDF5     ? &stk_bench_hdf5
           : format == STK_BENCH_REPLAY ? &stk_bench_replay
           : format == STK_BENCH_NONE   ? NULL
                                        : &kinds[format];
}
