/*
 * build.c - lists files in parallel and merges what they report into the tables of an index.
 *
 * Files are dealt out in groups of neighbours. A worker appends what its groups report to spools
 * of its own; the merge then copies the groups' stretches in file order, so the index does not
 * depend on the number of workers. Memory does not grow with the dataset.
 */
#include "data/build.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/pool.h"
#include "format/jail.h"
#include "format/lister.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum spool_id { S_FILES, S_EXTENTS, S_SEGMENTS, S_COLUMNS, S_ROWS, S_PARTS, S_KEYLEN, S_KEYS,
                S_POINTS, S_WINDOWS, S_CRCS, S_COUNT };

/* What is known of a file once it is listed. */
struct file_rec {
    uint64_t size;
    int64_t mtime_ns;
    uint64_t nsamples;
    uint64_t has_keys; /* KEYLEN has an entry for each of its samples */
};

struct worker {
    struct stk_spool spool[S_COUNT];
};

struct group {
    unsigned worker;
    uint64_t begin[S_COUNT], end[S_COUNT]; /* stretches of the worker's spools */
};

struct builder {
    struct stk_walk *walk;
    const struct stk_build_options *o;
    const struct stk_index_file *file; /* of the walk, mapped */
    const char *names;
    uint64_t files_per_group, ngroups;
    struct group *group;
    struct worker *worker;
    unsigned nworkers;

    pthread_mutex_t lock; /* everything below */
    struct stk_buf fields, fieldnames, chains, context;
    bool has_context;
    bool any_keys;
    double last_progress;
    _Atomic uint64_t bytes_done, bytes_samples, nsamples;
    uint64_t bytes_total;
    _Atomic bool stopped;
};

/* Where a group is while it is listed: the segment that is still growing, and totals. */
struct group_state {
    struct builder *b;
    struct worker *w;
    struct stk_segment seg; /* kind 0: none yet */
    uint64_t nextents, nsamples, nrows, ncolumns, nparts, windows;
};

struct file_sink {
    struct stk_sink base;
    struct group_state *g;
    uint32_t file;
    const char *path;
    struct file_rec rec;
    uint64_t first_extent; /* of the group's, this file's first */
    unsigned mode;         /* enum stk_segment_kind of this file, 0 not known yet */
    uint64_t progress_off;
    struct stk_buf field_map, chain_map; /* local number -> the dataset's: u16, u8 */
    struct stk_buf parts;                /* of the sample that is open */
    struct stk_buf key;
    bool open, open_has_key;
};

static int put(struct group_state *g, enum spool_id id, const void *p, size_t n,
               struct stk_err *err)
{
    return stk_spool_put(&g->w->spool[id], p, n, err);
}

/* ---- segments ---- */

static int flush_segment(struct group_state *g, struct stk_err *err)
{
    struct stk_segment seg = g->seg;
    g->seg.kind = 0;
    return seg.kind ? put(g, S_SEGMENTS, &seg, sizeof seg, err) : 0;
}

/* Begins this file's segment, or lets it go on with the last one (whole extents, same field). */
static int enter_mode(struct file_sink *f, unsigned mode, uint32_t field, struct stk_err *err)
{
    struct group_state *g = f->g;
    if (f->mode == mode && (mode != STK_SEG_WHOLE || g->seg.field == field))
        return 0;
    if (f->mode)
        return stk_err_set(err, STK_E_UNSUPPORTED, f->path, -1,
                           "samples of different kinds in one file");
    f->mode = mode;
    if (mode == STK_SEG_WHOLE && g->seg.kind == mode && g->seg.field == field &&
        g->seg.first_extent + g->seg.nextents == f->first_extent)
        return 0;
    int rc = flush_segment(g, err);
    g->seg = (struct stk_segment){.first_sample = g->nsamples,
                                  .first_extent = f->first_extent,
                                  .nextents = g->nextents - f->first_extent,
                                  .first = mode == STK_SEG_PARTS ? g->nrows : g->ncolumns,
                                  .field = (uint16_t)field,
                                  .kind = (uint16_t)mode};
    return rc;
}

static void count_samples(struct file_sink *f, uint64_t n)
{
    f->rec.nsamples += n;
    f->g->nsamples += n;
    f->g->seg.nsamples += n;
    atomic_fetch_add_explicit(&f->g->b->nsamples, n, memory_order_relaxed);
}

/* ---- keys ---- */

static int put_key(struct file_sink *f, bool has, const void *key, uint32_t len,
                   struct stk_err *err)
{
    /* The first sample of a file decides whether its keys are kept. */
    if (f->rec.nsamples == 0)
        f->rec.has_keys = has;
    if (!f->rec.has_keys)
        return 0;
    if (!has)
        len = 0;
    int rc = put(f->g, S_KEYLEN, &len, sizeof len, err);
    return rc < 0 ? rc : put(f->g, S_KEYS, key, len, err);
}

/* ---- names and chains the whole dataset shares ---- */

static int map_add(struct stk_buf *map, const void *number, size_t n, struct stk_err *err)
{
    stk_buf_put(map, number, n);
    return stk_buf_check(map, err);
}

static int on_chain(struct file_sink *f, const struct stk_event *e, struct stk_err *err)
{
    struct builder *b = f->g->b;
    const struct stk_chain *c = (const void *)b->chains.data;
    if (e->blob_len != sizeof *c)
        return stk_err_set(err, STK_E_CORRUPT, f->path, -1, "bad filter chain reported");
    struct stk_chain want;
    memcpy(&want, e->blob, sizeof want);
    if (want.nsteps > STK_CHAIN_MAX)
        return stk_err_set(err, STK_E_CORRUPT, f->path, -1, "bad filter chain reported");
    pthread_mutex_lock(&b->lock);
    c = (const void *)b->chains.data;
    size_t n = b->chains.len / sizeof *c, i = 0;
    while (i < n && memcmp(&c[i], &want, sizeof want) != 0)
        i++;
    if (i == n)
        stk_buf_put(&b->chains, &want, sizeof want);
    int rc = stk_buf_check(&b->chains, err);
    pthread_mutex_unlock(&b->lock);
    uint8_t number = (uint8_t)(i + 1);
    if (rc == 0 && i >= 255)
        rc = stk_err_set(err, STK_E_UNSUPPORTED, f->path, -1, "more than 255 filter chains");
    return rc < 0 ? rc : map_add(&f->chain_map, &number, sizeof number, err);
}

static bool same_field(const struct builder *b, const struct stk_index_field *have,
                       const struct stk_field_wire *w, const char *name, size_t len)
{
    return have->name_len == len &&
           memcmp(b->fieldnames.data + have->name_off, name, len) == 0 &&
           strcmp(have->codec, w->codec) == 0;
}

static bool same_type(const struct stk_index_field *have, const struct stk_field_wire *w)
{
    return have->kind == w->kind && have->dtype == w->dtype && have->ndim == w->ndim &&
           memcmp(have->dim, w->dim, w->ndim * sizeof w->dim[0]) == 0;
}

/* Number of the field, made when it is new; 65536: its type differs from another file's. */
static uint32_t intern_field(struct builder *b, const struct stk_field_wire *w, const char *name,
                             size_t len)
{
    const struct stk_index_field *have = (const void *)b->fields.data;
    uint32_t n = (uint32_t)(b->fields.len / sizeof *have);
    for (uint32_t i = 0; i < n; i++)
        if (same_field(b, &have[i], w, name, len))
            return same_type(&have[i], w) ? i : 65536;
    struct stk_index_field f = {.name_off = (uint32_t)b->fieldnames.len,
                                .name_len = (uint32_t)len,
                                .kind = w->kind,
                                .dtype = w->dtype,
                                .ndim = w->ndim};
    memcpy(f.codec, w->codec, sizeof f.codec);
    memcpy(f.dim, w->dim, sizeof f.dim);
    stk_buf_put(&b->fields, &f, sizeof f);
    stk_buf_put(&b->fieldnames, name, len);
    return n;
}

static int on_field(struct file_sink *f, const struct stk_event *e, struct stk_err *err)
{
    struct builder *b = f->g->b;
    struct stk_field_wire w;
    if (e->blob_len < sizeof w)
        return stk_err_set(err, STK_E_CORRUPT, f->path, -1, "bad field reported");
    memcpy(&w, e->blob, sizeof w);
    w.codec[sizeof w.codec - 1] = '\0';
    if (w.ndim > STK_MAX_NDIM || w.kind < STK_BYTES || w.kind > STK_ARRAY ||
        (w.codec[0] && !stk_codec_find(w.codec)))
        return stk_err_set(err, STK_E_CORRUPT, f->path, -1, "bad field reported");
    const char *name = (const char *)e->blob + sizeof w;
    pthread_mutex_lock(&b->lock);
    uint32_t number = intern_field(b, &w, name, e->blob_len - sizeof w);
    int rc = b->fields.fail ? stk_buf_check(&b->fields, err) : stk_buf_check(&b->fieldnames, err);
    pthread_mutex_unlock(&b->lock);
    if (rc == 0 && number >= 65535)
        rc = stk_err_set(err, STK_E_UNSUPPORTED, f->path, -1,
                         "field '%.*s' has another type or shape than in the files before",
                         (int)(e->blob_len - sizeof w), name);
    uint16_t small = (uint16_t)number;
    return rc < 0 ? rc : map_add(&f->field_map, &small, sizeof small, err);
}

static int on_context(struct file_sink *f, const struct stk_event *e, struct stk_err *err)
{
    struct builder *b = f->g->b;
    pthread_mutex_lock(&b->lock);
    bool same = true;
    if (!b->has_context) {
        b->has_context = true;
        stk_buf_put(&b->context, e->blob, e->blob_len);
    } else {
        same = b->context.len == e->blob_len &&
               memcmp(b->context.data, e->blob, e->blob_len) == 0;
    }
    int rc = stk_buf_check(&b->context, err);
    pthread_mutex_unlock(&b->lock);
    if (rc == 0 && !same)
        rc = stk_err_set(err, STK_E_UNSUPPORTED, f->path, -1,
                         "its columns are not those of the files before it");
    return rc;
}

/* ---- extents and samples ---- */

static int put_extent(struct file_sink *f, const struct stk_event *e, struct stk_err *err)
{
    struct stk_extent x = {.offset = e->a, .length = e->b, .file = f->file};
    if (e->a > f->rec.size || e->b > f->rec.size - e->a)
        return stk_err_set(err, STK_E_CORRUPT, f->path, (int64_t)e->a,
                           "%llu bytes are said to be here, the file ends before",
                           (unsigned long long)e->b);
    if (e->a > STK_MAX_OFFSET || e->b > STK_MAX_EXTENT)
        return stk_err_set(err, STK_E_UNSUPPORTED, f->path, (int64_t)e->a,
                           "beyond the 256 TiB an index can express");
    if (e->chain != STK_NO_CHAIN) {
        if (e->chain >= f->chain_map.len)
            return stk_err_set(err, STK_E_CORRUPT, f->path, -1, "bad filter chain reported");
        x.chain = f->chain_map.data[e->chain];
    }
    struct stk_packed p = stk_extent_pack(&x);
    f->g->nextents++;
    f->g->seg.nextents += f->mode != 0;
    return put(f->g, S_EXTENTS, &p, sizeof p, err);
}

static int field_of(const struct file_sink *f, uint32_t local, uint32_t *field,
                    struct stk_err *err)
{
    const uint16_t *map = (const void *)f->field_map.data;
    if (local >= f->field_map.len / sizeof *map)
        return stk_err_set(err, STK_E_CORRUPT, f->path, -1, "bad field reported");
    *field = map[local];
    return 0;
}

static int close_sample(struct file_sink *f, struct stk_err *err)
{
    struct group_state *g = f->g;
    if (!f->open)
        return 0;
    f->open = false;
    uint64_t row = g->nparts;
    int rc = put_key(f, f->open_has_key, f->key.data, (uint32_t)f->key.len, err);
    if (rc == 0)
        rc = put(g, S_ROWS, &row, sizeof row, err);
    if (rc == 0)
        rc = put(g, S_PARTS, f->parts.data, f->parts.len, err);
    g->nrows++;
    g->nparts += f->parts.len / sizeof(struct stk_packed);
    count_samples(f, 1);
    return rc;
}

static int on_sample(struct file_sink *f, const struct stk_event *e, struct stk_err *err)
{
    int rc = close_sample(f, err);
    if (rc == 0)
        rc = enter_mode(f, STK_SEG_PARTS, 0, err);
    f->open = true;
    f->open_has_key = e->has_key;
    stk_buf_reset(&f->parts);
    stk_buf_reset(&f->key);
    stk_buf_put(&f->key, e->blob, e->blob_len);
    return rc < 0 ? rc : stk_buf_check(&f->key, err);
}

static int on_part(struct file_sink *f, const struct stk_event *e, struct stk_err *err)
{
    uint32_t field = 0;
    int rc = field_of(f, e->field, &field, err);
    if (rc == 0 && (!f->open || e->a > STK_MAX_PART || e->b > STK_MAX_PART || e->c > UINT32_MAX))
        rc = stk_err_set(err, STK_E_UNSUPPORTED, f->path, -1, "bad part of a sample reported");
    if (rc < 0)
        return rc;
    struct stk_packed p = stk_part_pack(e->c, field, e->a, e->b);
    stk_buf_put(&f->parts, &p, sizeof p);
    atomic_fetch_add_explicit(&f->g->b->bytes_samples, e->b, memory_order_relaxed);
    return stk_buf_check(&f->parts, err);
}

static int on_record(struct file_sink *f, const struct stk_event *e, struct stk_err *err)
{
    uint32_t field = 0;
    int rc = field_of(f, e->field, &field, err);
    if (rc == 0)
        rc = enter_mode(f, STK_SEG_WHOLE, field, err);
    if (rc == 0)
        rc = put_key(f, e->has_key, e->blob, e->blob_len, err);
    if (rc == 0)
        rc = put_extent(f, e, err);
    if (rc == 0)
        count_samples(f, 1);
    atomic_fetch_add_explicit(&f->g->b->bytes_samples, e->b, memory_order_relaxed);
    return rc;
}

static int on_column(struct file_sink *f, const struct stk_event *e, struct stk_err *err)
{
    struct stk_column c;
    uint32_t field = 0;
    if (e->blob_len != sizeof c)
        return stk_err_set(err, STK_E_CORRUPT, f->path, -1, "bad column reported");
    memcpy(&c, e->blob, sizeof c);
    int rc = field_of(f, (uint32_t)c.field, &field, err);
    bool first = f->mode == 0;
    if (rc == 0)
        rc = enter_mode(f, STK_SEG_COLUMNS, 0, err);
    if (rc < 0)
        return rc;
    if (first)
        count_samples(f, e->a);
    else if (e->a != f->rec.nsamples)
        return stk_err_set(err, STK_E_CORRUPT, f->path, -1, "columns of different length reported");
    struct stk_index_column x = {.first_extent = (uint64_t)c.first_extent,
                                 .per_extent = c.per_extent,
                                 .base = c.base,
                                 .stride = c.stride,
                                 .length = c.length,
                                 .field = field};
    f->g->seg.ncolumns++;
    f->g->ncolumns++;
    atomic_fetch_add_explicit(&f->g->b->bytes_samples, c.length * e->a, memory_order_relaxed);
    return put(f->g, S_COLUMNS, &x, sizeof x, err);
}

static int on_point(struct file_sink *f, const struct stk_event *e, struct stk_err *err)
{
    struct group_state *g = f->g;
    struct stk_index_point p = {.extent = g->nextents - 1,
                                .decoded_len = e->a,
                                .window_off = g->windows,
                                .window_len = e->blob_len,
                                .bits = (uint32_t)e->b};
    g->windows += e->blob_len;
    int rc = put(g, S_POINTS, &p, sizeof p, err);
    return rc < 0 ? rc : put(g, S_WINDOWS, e->blob, e->blob_len, err);
}

static int note_problem(struct builder *b, const char *path, const char *name, int64_t offset,
                        const char *what, struct stk_err *err)
{
    if (!b->o->problems)
        return stk_err_set(err, STK_E_CORRUPT, path, offset, "%s", what);
    pthread_mutex_lock(&b->lock);
    stk_problems_add(b->o->problems, name, offset, what);
    pthread_mutex_unlock(&b->lock);
    return 0;
}

static const char *file_name(const struct builder *b, uint64_t i)
{
    return b->names + b->file[i].name_off;
}

static int report(struct builder *b, bool last, struct stk_err *err)
{
    if (!b->o->progress)
        return 0;
    int rc = 0;
    pthread_mutex_lock(&b->lock);
    double now = stk_now();
    if (last || now - b->last_progress > 0.1) {
        b->last_progress = now;
        if (b->o->progress(b->o->user, atomic_load(&b->bytes_done), b->bytes_total,
                           atomic_load(&b->nsamples)))
            rc = stk_err_set(err, STK_E_STOPPED, NULL, -1, "stopped while building the index");
    }
    pthread_mutex_unlock(&b->lock);
    return rc;
}

/* Now and then, while a large file is listed. */
static int file_progress(struct file_sink *f, uint64_t off, struct stk_err *err)
{
    if (off < f->progress_off + (64u << 20))
        return 0;
    atomic_fetch_add(&f->g->b->bytes_done, off - f->progress_off);
    f->progress_off = off;
    return report(f->g->b, false, err);
}

static int on_event(struct stk_sink *sink, const struct stk_event *e, struct stk_err *err)
{
    struct file_sink *f = (struct file_sink *)sink;
    struct builder *b = f->g->b;
    char what[1024];
    switch (e->type) {
    case STK_EV_RECORD:
        if (file_progress(f, e->a, err) < 0)
            return STK_E_STOPPED;
        return on_record(f, e, err);
    case STK_EV_EXTENT:
        if (file_progress(f, e->a, err) < 0)
            return STK_E_STOPPED;
        return put_extent(f, e, err);
    case STK_EV_SAMPLE:
        return on_sample(f, e, err);
    case STK_EV_PART:
        return on_part(f, e, err);
    case STK_EV_COLUMN:
        return on_column(f, e, err);
    case STK_EV_FIELD:
        return on_field(f, e, err);
    case STK_EV_CHAIN:
        return on_chain(f, e, err);
    case STK_EV_CONTEXT:
        return on_context(f, e, err);
    case STK_EV_POINT:
        return on_point(f, e, err);
    case STK_EV_CRC: {
        struct stk_index_crc c = {.extent = f->g->nextents - 1, .crc32 = (uint32_t)e->a};
        return put(f->g, S_CRCS, &c, sizeof c, err);
    }
    case STK_EV_PROBLEM:
        snprintf(what, sizeof what, "%.*s", (int)e->blob_len, (const char *)e->blob);
        return note_problem(b, f->path, file_name(b, f->file), (int64_t)e->a, what, err);
    default:
        return stk_err_set(err, STK_E_CORRUPT, f->path, -1, "unknown event reported");
    }
}

/* ---- listing a file ---- */

/* A folder's file is a sample as it stands: nothing needs to be opened. */
static int list_tree_file(struct file_sink *f, struct stk_err *err)
{
    struct builder *b = f->g->b;
    struct stat sb;
    if (fstatat(b->walk->rootfd, file_name(b, f->file), &sb, 0) < 0)
        return stk_err_sys(err, f->path, "stat");
    f->rec.size = (uint64_t)sb.st_size;
    f->rec.mtime_ns = (int64_t)sb.st_mtim.tv_sec * 1000000000 + sb.st_mtim.tv_nsec;
    struct stk_lister l;
    stk_lister_init(&l, &f->base, NULL, &b->o->list);
    struct stk_field_spec spec = {.name = "data", .kind = STK_BYTES};
    struct stk_chain chain = {.nsteps = b->o->list.compress != 0,
                              .step[0].id = (uint16_t)b->o->list.compress};
    const char *key = NULL, *dot;
    size_t key_len = 0;
    if (b->o->list.compress) { /* "a.jpg.zst" holds the sample "a.jpg" */
        key = file_name(b, f->file);
        dot = strrchr(key, '.');
        key_len = dot ? (size_t)(dot - key) : strlen(key);
    }
    int field = stk_list_field(&l, &spec, err);
    int rc = field < 0 ? field
                       : stk_list_record_filtered(&l, field, 0, f->rec.size, &chain, key, key_len,
                                                  err);
    stk_lister_release(&l);
    return rc;
}

static int list_container(struct file_sink *f, struct stk_err *err)
{
    struct builder *b = f->g->b;
    const struct stk_format *format = b->walk->format;
    struct stk_src *src;
    int rc = stk_src_open(b->walk->rootfd, file_name(b, f->file), f->path,
                          format->caps & STK_CAN_GZIP, &src, err);
    if (rc < 0)
        return rc;
    f->rec.size = stk_src_file_size(src);
    f->rec.mtime_ns = stk_src_mtime_ns(src);
    struct stk_lister l;
    stk_lister_init(&l, &f->base, src, &b->o->list);
    if (f->rec.size == 0)
        rc = stk_list_problem(&l, 0, err, "the file is empty");
    else if (format->caps & STK_CAN_CRASH)
        rc = stk_jail_list(format, &l, src, err);
    else
        rc = format->list(&l, src, err);
    struct stk_err ignored;
    int end = stk_lister_finish(&l, rc == 0 ? err : &ignored);
    if (rc == 0)
        rc = end == 0 ? close_sample(f, err) : end;
    stk_lister_release(&l);
    stk_src_close(src);
    return rc;
}

/* Damage and unreadable files are problems of that file alone; the rest is everybody's. */
static bool is_file_problem(int code)
{
    return code == STK_E_CORRUPT || code == STK_E_SYS || code == STK_E_UNSUPPORTED;
}

static int list_file(struct group_state *g, uint64_t number, struct stk_err *err)
{
    struct builder *b = g->b;
    struct file_sink f = {.base.event = on_event,
                          .g = g,
                          .file = (uint32_t)number,
                          .first_extent = g->nextents};
    char *path = stk_walk_path(b->walk, file_name(b, number), b->file[number].name_len);
    if (!path)
        return stk_err_nomem(err, b->file[number].name_len);
    f.path = path;
    struct stk_err why = {0};
    int rc = b->walk->format->caps & STK_CAN_TREE ? list_tree_file(&f, &why)
                                                  : list_container(&f, &why);
    if (rc < 0 && is_file_problem(rc) && b->o->problems)
        rc = note_problem(b, path, file_name(b, number), why.offset, why.what, err);
    else if (rc < 0 && err)
        *err = why;
    if (rc == 0)
        rc = put(g, S_FILES, &f.rec, sizeof f.rec, err);
    if (f.rec.has_keys) {
        pthread_mutex_lock(&b->lock);
        b->any_keys = true;
        pthread_mutex_unlock(&b->lock);
    }
    if (f.rec.size > f.progress_off)
        atomic_fetch_add(&b->bytes_done, f.rec.size - f.progress_off);
    stk_buf_release(&f.field_map);
    stk_buf_release(&f.chain_map);
    stk_buf_release(&f.parts);
    stk_buf_release(&f.key);
    free(path);
    return rc < 0 ? rc : report(b, false, err);
}

static void spool_marks(const struct worker *w, uint64_t *mark)
{
    for (int i = 0; i < S_COUNT; i++)
        mark[i] = stk_spool_len(&w->spool[i]);
}

static int list_group(void *user, uint64_t item, unsigned thread, struct stk_err *err)
{
    struct builder *b = user;
    struct group *grp = &b->group[item];
    struct group_state g = {.b = b, .w = &b->worker[thread]};
    grp->worker = thread;
    spool_marks(g.w, grp->begin);
    uint64_t first = item * b->files_per_group, end = first + b->files_per_group;
    int rc = 0;
    for (uint64_t i = first; rc == 0 && i < end && i < b->walk->nfiles; i++)
        rc = list_file(&g, i, err);
    if (rc == 0)
        rc = flush_segment(&g, err);
    spool_marks(g.w, grp->end);
    return rc;
}

/* ---- merging ---- */

struct merge {
    struct builder *b;
    int fd;
    uint64_t off;
    struct stk_buf buf;
    struct stk_hash hash;
    struct stk_index_header h;
    enum stk_table table; /* being written */
    const uint8_t **map;  /* [worker * S_COUNT + spool] */
};

static int merge_flush(struct merge *m, struct stk_err *err)
{
    int rc = stk_write_full(m->fd, m->buf.data, m->buf.len, "index", err);
    m->off += m->buf.len;
    stk_buf_reset(&m->buf);
    return rc;
}

static int merge_put(struct merge *m, const void *p, size_t n, struct stk_err *err)
{
    if (!n)
        return 0;
    stk_hash_update(&m->hash, p, n);
    if (n >= (1u << 20)) {
        int rc = merge_flush(m, err);
        m->off += n;
        return rc < 0 ? rc : stk_write_full(m->fd, p, n, "index", err);
    }
    stk_buf_put(&m->buf, p, n);
    if (m->buf.fail)
        return stk_buf_check(&m->buf, err);
    return m->buf.len >= (1u << 20) ? merge_flush(m, err) : 0;
}

static void table_begin(struct merge *m, enum stk_table t)
{
    uint64_t at = m->off + m->buf.len;
    stk_buf_zeros(&m->buf, (STK_INDEX_ALIGN - at % STK_INDEX_ALIGN) % STK_INDEX_ALIGN);
    m->h.table[t].off = m->off + m->buf.len;
    m->table = t;
    stk_hash_init(&m->hash);
}

static void table_end(struct merge *m, uint32_t elem)
{
    m->h.table[m->table].elem = elem;
    m->h.table[m->table].count = (m->off + m->buf.len - m->h.table[m->table].off) / elem;
    m->h.table[m->table].hash = stk_hash_final(&m->hash);
}

static int put_table(struct merge *m, enum stk_table t, uint32_t elem, const void *p, size_t n,
                     struct stk_err *err)
{
    table_begin(m, t);
    int rc = merge_put(m, p, n, err);
    table_end(m, elem);
    return rc;
}

static const uint8_t *stretch(const struct merge *m, uint64_t grp, enum spool_id id, size_t *len)
{
    const struct group *g = &m->b->group[grp];
    *len = (size_t)(g->end[id] - g->begin[id]);
    /* An empty spool has no map, and NULL + 0 is not for C to say. */
    return *len ? m->map[g->worker * S_COUNT + id] + g->begin[id] : NULL;
}

/* Copies a spool's stretches as they are. */
static int merge_plain(struct merge *m, enum stk_table t, enum spool_id id, uint32_t elem,
                       struct stk_err *err)
{
    int rc = 0;
    table_begin(m, t);
    for (uint64_t i = 0; rc == 0 && i < m->b->ngroups; i++) {
        size_t n;
        const uint8_t *p = stretch(m, i, id, &n);
        rc = merge_put(m, p, n, err);
    }
    table_end(m, elem);
    return rc;
}

static int merge_files(struct merge *m, struct stk_err *err)
{
    struct builder *b = m->b;
    int rc = 0;
    uint64_t number = 0;
    table_begin(m, STK_T_FILES);
    for (uint64_t i = 0; rc == 0 && i < b->ngroups; i++) {
        size_t n;
        const struct file_rec *r = (const void *)stretch(m, i, S_FILES, &n);
        for (size_t k = 0; rc == 0 && k < n / sizeof *r; k++, number++) {
            struct stk_index_file f = b->file[number];
            f.size = r[k].size;
            f.mtime_ns = b->o->portable ? 0 : r[k].mtime_ns;
            m->h.bytes_stored += f.size;
            rc = merge_put(m, &f, sizeof f, err);
        }
    }
    table_end(m, sizeof(struct stk_index_file));
    return rc;
}

/* Segments count from their group's start; whole-extent segments that meet are joined. */
static int merge_segments(struct merge *m, struct stk_err *err)
{
    struct stk_segment last = {0};
    uint64_t samples = 0, extents = 0, rows = 0, columns = 0;
    int rc = 0;
    table_begin(m, STK_T_SEGMENTS);
    for (uint64_t i = 0; rc == 0 && i < m->b->ngroups; i++) {
        size_t n, len;
        const struct stk_segment *s = (const void *)stretch(m, i, S_SEGMENTS, &n);
        uint64_t group_samples = 0;
        for (size_t k = 0; rc == 0 && k < n / sizeof *s; k++) {
            struct stk_segment seg = s[k];
            group_samples += seg.nsamples;
            seg.first_sample += samples;
            seg.first_extent += extents;
            seg.first += seg.kind == STK_SEG_PARTS ? rows : columns;
            if (last.kind == STK_SEG_WHOLE && seg.kind == last.kind && seg.field == last.field &&
                last.first_extent + last.nextents == seg.first_extent) {
                last.nsamples += seg.nsamples;
                last.nextents += seg.nextents;
                continue;
            }
            rc = last.kind ? merge_put(m, &last, sizeof last, err) : 0;
            last = seg;
        }
        samples += group_samples;
        (void)stretch(m, i, S_EXTENTS, &len), extents += len / sizeof(struct stk_packed);
        (void)stretch(m, i, S_ROWS, &len), rows += len / 8;
        (void)stretch(m, i, S_COLUMNS, &len), columns += len / sizeof(struct stk_index_column);
    }
    if (rc == 0 && last.kind)
        rc = merge_put(m, &last, sizeof last, err);
    table_end(m, sizeof last);
    m->h.nsamples = samples;
    return rc;
}

static int merge_rows(struct merge *m, struct stk_err *err)
{
    uint64_t parts = 0;
    int rc = 0;
    table_begin(m, STK_T_ROWS);
    for (uint64_t i = 0; rc == 0 && i < m->b->ngroups; i++) {
        size_t n;
        const uint64_t *row = (const void *)stretch(m, i, S_ROWS, &n);
        for (size_t k = 0; rc == 0 && k < n / 8; k++) {
            uint64_t v = row[k] + parts;
            rc = merge_put(m, &v, 8, err);
        }
        (void)stretch(m, i, S_PARTS, &n);
        parts += n / sizeof(struct stk_packed);
    }
    if (rc == 0)
        rc = merge_put(m, &parts, 8, err);
    table_end(m, 8);
    return rc;
}

/* Offsets of keys; files without keys get empty ones where others have some. */
static int merge_keyoff(struct merge *m, struct stk_err *err)
{
    uint64_t off = 0;
    int rc = 0;
    table_begin(m, STK_T_KEYOFF);
    for (uint64_t i = 0; rc == 0 && m->b->any_keys && i < m->b->ngroups; i++) {
        size_t nrec, nlen;
        const struct file_rec *r = (const void *)stretch(m, i, S_FILES, &nrec);
        const uint32_t *len = (const void *)stretch(m, i, S_KEYLEN, &nlen);
        for (size_t k = 0; k < nrec / sizeof *r; k++)
            for (uint64_t s = 0; rc == 0 && s < r[k].nsamples; s++) {
                rc = merge_put(m, &off, 8, err);
                off += r[k].has_keys ? *len++ : 0;
            }
    }
    if (rc == 0 && m->b->any_keys)
        rc = merge_put(m, &off, 8, err);
    table_end(m, 8);
    return rc;
}

static int merge_points(struct merge *m, struct stk_err *err)
{
    uint64_t extents = 0, windows = 0;
    int rc = 0;
    table_begin(m, STK_T_POINTS);
    for (uint64_t i = 0; rc == 0 && i < m->b->ngroups; i++) {
        size_t n, len;
        const struct stk_index_point *p = (const void *)stretch(m, i, S_POINTS, &n);
        for (size_t k = 0; rc == 0 && k < n / sizeof *p; k++) {
            struct stk_index_point x = p[k];
            x.extent += extents;
            x.window_off += windows;
            rc = merge_put(m, &x, sizeof x, err);
        }
        (void)stretch(m, i, S_EXTENTS, &len), extents += len / sizeof(struct stk_packed);
        (void)stretch(m, i, S_WINDOWS, &len), windows += len;
    }
    table_end(m, sizeof(struct stk_index_point));
    return rc;
}

static int merge_crcs(struct merge *m, struct stk_err *err)
{
    uint64_t extents = 0;
    int rc = 0;
    table_begin(m, STK_T_CRCS);
    for (uint64_t i = 0; rc == 0 && i < m->b->ngroups; i++) {
        size_t n, len;
        const struct stk_index_crc *c = (const void *)stretch(m, i, S_CRCS, &n);
        for (size_t k = 0; rc == 0 && k < n / sizeof *c; k++) {
            struct stk_index_crc x = c[k];
            x.extent += extents;
            rc = merge_put(m, &x, sizeof x, err);
        }
        (void)stretch(m, i, S_EXTENTS, &len), extents += len / sizeof(struct stk_packed);
    }
    table_end(m, sizeof(struct stk_index_crc));
    return rc;
}

static int merge_shared(struct merge *m, struct stk_err *err)
{
    struct builder *b = m->b;
    const void *names, *dirs;
    int rc = stk_spool_map(&b->walk->names, &names, err);
    if (rc == 0)
        rc = put_table(m, STK_T_NAMES, 1, names, stk_spool_len(&b->walk->names), err);
    if (rc == 0)
        rc = stk_spool_map(&b->walk->dirs, &dirs, err);
    if (rc == 0)
        rc = put_table(m, STK_T_DIRS, sizeof(struct stk_index_dir), dirs,
                       b->o->portable ? 0 : stk_spool_len(&b->walk->dirs), err);
    if (rc == 0)
        rc = put_table(m, STK_T_FIELDS, sizeof(struct stk_index_field), b->fields.data,
                       b->fields.len, err);
    if (rc == 0)
        rc = put_table(m, STK_T_FIELDNAMES, 1, b->fieldnames.data, b->fieldnames.len, err);
    if (rc == 0)
        rc = put_table(m, STK_T_CHAINS, sizeof(struct stk_chain), b->chains.data, b->chains.len,
                       err);
    if (rc == 0)
        rc = put_table(m, STK_T_CONTEXT, 1, b->context.data, b->context.len, err);
    return rc;
}

static void fill_header(struct merge *m)
{
    struct builder *b = m->b;
    struct stk_index_header *h = &m->h;
    memcpy(h->magic, "STKINDX", 8);
    h->version = STK_INDEX_VERSION;
    h->ntables = STK_T_COUNT;
    h->nfiles = h->table[STK_T_FILES].count;
    h->nextents = h->table[STK_T_EXTENTS].count;
    h->bytes_samples = atomic_load(&b->bytes_samples);
    h->files_ignored = b->walk->ignored;
    h->compress = b->o->list.compress;
    if ((b->walk->format->caps & STK_CAN_TREE) && !b->o->list.compress)
        h->flags |= STK_INDEX_KEYS_ARE_FILES;
    snprintf(h->format, sizeof h->format, "%s", b->walk->format->name);
    const struct stk_index_field *f = (const void *)b->fields.data;
    if (b->fields.len)
        snprintf(h->payload, sizeof h->payload, "%s", f->codec);
    h->file_size = m->off;
    h->header_hash = 0;
    h->header_hash = stk_hash64(h, sizeof *h);
}

static int merge_all(struct merge *m, struct stk_err *err)
{
    stk_buf_zeros(&m->buf, sizeof m->h); /* the header's place */
    int rc = merge_files(m, err);
    if (rc == 0)
        rc = merge_shared(m, err);
    if (rc == 0)
        rc = merge_plain(m, STK_T_EXTENTS, S_EXTENTS, sizeof(struct stk_packed), err);
    if (rc == 0)
        rc = merge_segments(m, err);
    if (rc == 0)
        rc = merge_plain(m, STK_T_COLUMNS, S_COLUMNS, sizeof(struct stk_index_column), err);
    if (rc == 0)
        rc = merge_rows(m, err);
    if (rc == 0)
        rc = merge_plain(m, STK_T_PARTS, S_PARTS, sizeof(struct stk_packed), err);
    if (rc == 0)
        rc = merge_keyoff(m, err);
    if (rc == 0)
        rc = merge_plain(m, STK_T_KEYS, S_KEYS, 1, err);
    if (rc == 0)
        rc = merge_points(m, err);
    if (rc == 0)
        rc = merge_plain(m, STK_T_WINDOWS, S_WINDOWS, 1, err);
    if (rc == 0)
        rc = merge_crcs(m, err);
    if (rc == 0)
        rc = merge_flush(m, err);
    if (rc < 0)
        return rc;
    fill_header(m);
    if (pwrite(m->fd, &m->h, sizeof m->h, 0) != (ssize_t)sizeof m->h)
        return stk_err_sys(err, "index", "write");
    return 0;
}

static int merge(struct builder *b, int fd, struct stk_err *err)
{
    struct merge m = {.b = b, .fd = fd};
    m.map = calloc((size_t)b->nworkers * S_COUNT, sizeof *m.map);
    int rc = m.map ? 0 : stk_err_nomem(err, b->nworkers * sizeof *m.map);
    for (unsigned w = 0; rc == 0 && w < b->nworkers; w++)
        for (int i = 0; rc == 0 && i < S_COUNT; i++) {
            const void *p = NULL;
            rc = stk_spool_map(&b->worker[w].spool[i], &p, err);
            m.map[w * S_COUNT + (unsigned)i] = p;
        }
    if (rc == 0)
        rc = merge_all(&m, err);
    stk_buf_release(&m.buf);
    free(m.map);
    return rc;
}

/* ---- the whole ---- */

static void plan_groups(struct builder *b)
{
    uint64_t nfiles = b->walk->nfiles;
    uint64_t least = b->walk->format->caps & STK_CAN_TREE ? 512 : 1;
    uint64_t per = nfiles / ((uint64_t)b->nworkers * 16);
    b->files_per_group = per > least ? per : least;
    b->ngroups = (nfiles + b->files_per_group - 1) / b->files_per_group;
}

static int builder_init(struct builder *b, struct stk_err *err)
{
    const void *files, *names;
    int rc = stk_spool_map(&b->walk->files, &files, err);
    if (rc == 0)
        rc = stk_spool_map(&b->walk->names, &names, err);
    if (rc < 0)
        return rc;
    b->file = files;
    b->names = names;
    b->nworkers = b->o->jobs ? b->o->jobs : stk_cpus();
    plan_groups(b);
    b->group = calloc(b->ngroups ? b->ngroups : 1, sizeof *b->group);
    b->worker = calloc(b->nworkers, sizeof *b->worker);
    if (!b->group || !b->worker)
        return stk_err_nomem(err, b->ngroups * sizeof *b->group);
    for (unsigned w = 0; w < b->nworkers; w++)
        for (int i = 0; i < S_COUNT; i++)
            stk_spool_init(&b->worker[w].spool[i], b->o->tmpdir);
    return 0;
}

static void builder_release(struct builder *b)
{
    for (unsigned w = 0; b->worker && w < b->nworkers; w++)
        for (int i = 0; i < S_COUNT; i++)
            stk_spool_release(&b->worker[w].spool[i]);
    free(b->worker);
    free(b->group);
    stk_buf_release(&b->fields);
    stk_buf_release(&b->fieldnames);
    stk_buf_release(&b->chains);
    stk_buf_release(&b->context);
    pthread_mutex_destroy(&b->lock);
}

int stk_build_index(struct stk_walk *w, const struct stk_build_options *o, int fd,
                    struct stk_err *err)
{
    const struct stk_format *f = w->format;
    if (f->missing)
        return stk_err_set(err, STK_E_UNSUPPORTED, w->root, -1,
                           "%s is not in this build of stoker: install %s and build again", f->title,
                           f->missing);
    if (!(f->caps & STK_CAN_READ))
        return stk_err_set(err, STK_E_UNSUPPORTED, w->root, -1, "%s cannot be read", f->title);
    struct builder b = {.walk = w, .o = o};
    pthread_mutex_init(&b.lock, NULL);
    int rc = builder_init(&b, err);
    if (rc == 0)
        rc = stk_pool_run(b.nworkers, b.ngroups, list_group, &b, err);
    if (rc == 0)
        rc = report(&b, true, err);
    if (rc == 0)
        rc = merge(&b, fd, err);
    builder_release(&b);
    return rc;
}
