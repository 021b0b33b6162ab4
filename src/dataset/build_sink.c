/*
 * build_sink.c - takes the events of a file's listing, checks them, and appends them to the
 * worker's spools. Fields and chains get numbers of the whole dataset.
 */
#include "dataset/build_priv.h"
#include "base/pool.h"

#include <stdio.h>

/* ---- segments ---- */

int stk_build_flush_segment(struct group_state *g, struct stk_err *err)
{
    struct stk_segment seg = g->seg;
    g->seg.kind = 0;
    return seg.kind ? put(g, S_SEGMENTS, &seg, sizeof seg, err) : 0;
}

/* Begins this file's segment, or continues the last one (whole extents, same field). */
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
    int rc = stk_build_flush_segment(g, err);
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
    return have->name_len == len && have->kind == w->kind &&
           memcmp(b->fieldnames.data + have->name_off, name, len) == 0 &&
           strcmp(have->codec, w->codec) == 0;
}

static bool same_type(const struct stk_index_field *have, const struct stk_field_wire *w)
{
    return have->kind == w->kind && have->dtype == w->dtype && have->ndim == w->ndim &&
           memcmp(have->dim, w->dim, w->ndim * sizeof w->dim[0]) == 0;
}

/* Number of the field, added if new; 65536: its type differs from another file's. */
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

/* Merges the contexts of earlier files and of this one, if the format can. */
static int join_context(struct builder *b, const struct stk_event *e, struct stk_err *err)
{
    const struct stk_format *f = b->walk->format;
    struct stk_buf joined = STK_BUF_INIT;
    if (b->context.len == e->blob_len && memcmp(b->context.data, e->blob, e->blob_len) == 0)
        return 0;
    if (!f->merge_context)
        return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1,
                           "its columns are not those of the files before it");
    int rc = f->merge_context((const char *)b->context.data, b->context.len, e->blob, e->blob_len,
                              &joined, err);
    if (rc == 0)
        rc = stk_buf_check(&joined, err);
    if (rc < 0) {
        stk_buf_release(&joined);
        return rc;
    }
    stk_buf_release(&b->context);
    b->context = joined;
    return 0;
}

static int on_context(struct file_sink *f, const struct stk_event *e, struct stk_err *err)
{
    struct builder *b = f->g->b;
    struct stk_err why = {0};
    int rc = 0;
    pthread_mutex_lock(&b->lock);
    if (!b->has_context) {
        b->has_context = true;
        stk_buf_put(&b->context, e->blob, e->blob_len);
        rc = stk_buf_check(&b->context, &why);
    } else {
        rc = join_context(b, e, &why);
    }
    pthread_mutex_unlock(&b->lock);
    return rc < 0 ? stk_err_set(err, rc, f->path, -1, "%s", why.what) : 0;
}

/* ---- extents and samples ---- */

static int put_extent(struct file_sink *f, const struct stk_event *e, struct stk_err *err)
{
    struct stk_extent x = {.offset = e->a, .length = e->b, .file = f->file};
    if (e->a > f->rec.size || e->b > f->rec.size - e->a)
        return stk_err_set(err, STK_E_CORRUPT, f->path, (int64_t)e->a,
                           "%llu bytes should be here, but the file ends before",
                           (unsigned long long)e->b);
    if (e->a > STK_MAX_OFFSET || e->b > STK_MAX_EXTENT)
        return stk_err_set(err, STK_E_UNSUPPORTED, f->path, (int64_t)e->a,
                           "beyond the limit of 256 TiB of an index");
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

static int field_of(const struct file_sink *f, uint32_t local, uint32_t *field, struct stk_err *err)
{
    const uint16_t *map = (const void *)f->field_map.data;
    if (local >= f->field_map.len / sizeof *map)
        return stk_err_set(err, STK_E_CORRUPT, f->path, -1, "bad field reported");
    *field = map[local];
    return 0;
}

int stk_build_close_sample(struct file_sink *f, struct stk_err *err)
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
    int rc = stk_build_close_sample(f, err);
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

static const struct stk_codec *codec_of(struct builder *b, uint32_t field)
{
    pthread_mutex_lock(&b->lock);
    const struct stk_index_field *f =
        (const struct stk_index_field *)(void *)b->fields.data + field;
    const struct stk_codec *c = f->codec[0] ? stk_codec_find(f->codec) : NULL;
    pthread_mutex_unlock(&b->lock);
    return c;
}

#define FEED_RECORD (24u << 10) /* records above this, on average, often cross blocks */
#define FEED_SAMPLE 64u         /* records for the average */

/* Has a record checked once its bytes have been read. Large records are better read separately:
 * then the listing skips them. */
static int check_record(struct file_sink *f, const struct stk_event *e, uint32_t field,
                        struct stk_err *err)
{
    uint64_t n = f->rec.nsamples, mean = (e->a + e->b) / n;
    if (n <= FEED_SAMPLE && mean > FEED_RECORD * (n == FEED_SAMPLE ? 1 : FEED_SAMPLE / n)) {
        stk_src_set_blocks(f->src, NULL);
        stk_check_close(f->check, false, NULL);
        f->check = NULL;
        return 0;
    }
    if (!f->check_codec || f->check_field != field) {
        f->check_codec = codec_of(f->g->b, field);
        f->check_field = field;
    }
    return stk_check_record(f->check, e->a, e->b, f->check_codec, err);
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
    if (rc == 0 && f->check && e->chain == STK_NO_CHAIN)
        rc = check_record(f, e, field, err);
    atomic_fetch_add_explicit(&f->g->b->bytes_samples, e->b, memory_order_relaxed);
    return rc;
}

static int on_column(struct file_sink *f, const struct stk_event *e, struct stk_err *err)
{
    struct stk_stripe c;
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
                                 .field = field,
                                 .tiles = (uint32_t)c.tiles};
    if (c.tiles > UINT32_MAX)
        return stk_err_set(err, STK_E_UNSUPPORTED, f->path, -1, "too many tiles in a value");
    f->g->seg.ncolumns++;
    f->g->ncolumns++;
    atomic_fetch_add_explicit(&f->g->b->bytes_samples, c.length * e->a * (c.tiles ? c.tiles : 1),
                              memory_order_relaxed);
    return put(f->g, S_COLUMNS, &x, sizeof x, err);
}

static int on_key(struct file_sink *f, const struct stk_event *e, struct stk_err *err)
{
    if (f->mode != STK_SEG_COLUMNS || f->nkeys == f->rec.nsamples)
        return stk_err_set(err, STK_E_CORRUPT, f->path, -1, "bad key reported");
    f->rec.has_keys = true;
    f->nkeys++;
    int rc = put(f->g, S_KEYLEN, &e->blob_len, sizeof e->blob_len, err);
    return rc < 0 ? rc : put(f->g, S_KEYS, e->blob, e->blob_len, err);
}

int stk_build_close_keys(struct file_sink *f, struct stk_err *err)
{
    const uint32_t none = 0;
    int rc = 0;
    for (; f->nkeys && f->nkeys < f->rec.nsamples && rc == 0; f->nkeys++)
        rc = put(f->g, S_KEYLEN, &none, sizeof none, err);
    return rc;
}

static int on_point(struct file_sink *f, const struct stk_event *e, struct stk_err *err)
{
    struct group_state *g = f->g;
    if (e->b > 7 || e->c > STK_POINT_LEAD)
        return stk_err_set(err, STK_E_CORRUPT, f->path, -1, "bad access point reported");
    struct stk_index_point p = {.extent = g->nextents - 1,
                                .decoded_len = e->a,
                                .window_off = g->windows,
                                .window_len = e->blob_len,
                                .bits_lead = (uint32_t)(e->b | e->c << 3)};
    g->windows += e->blob_len;
    int rc = put(g, S_POINTS, &p, sizeof p, err);
    return rc < 0 ? rc : put(g, S_WINDOWS, e->blob, e->blob_len, err);
}

int stk_build_problem(struct builder *b, int code, const char *path, int64_t offset,
                      const char *what, struct stk_err *err)
{
    if (!b->o->problems)
        return stk_err_set(err, code, path, offset, "%s", what);
    pthread_mutex_lock(&b->lock);
    stk_problems_add_code(b->o->problems, code, path, offset, what);
    pthread_mutex_unlock(&b->lock);
    return 0;
}

static int on_note(struct file_sink *f, const struct stk_event *e, struct stk_err *err)
{
    const char *t[3];
    if (!stk_event_texts(e->blob, e->blob_len, t))
        return stk_err_set(err, STK_E_CORRUPT, f->path, -1, "bad note reported");
    return e->type == STK_EV_TAKEN ? stk_notes_taken(&f->notes, t[0], t[1], t[2], 1, err)
                                   : stk_notes_left_out(&f->notes, t[0], t[1], t[2], 1, err);
}

int stk_build_put_notes(struct file_sink *f, struct stk_err *err)
{
    struct stk_buf b = STK_BUF_INIT;
    if (!f->notes.n)
        return 0;
    stk_notes_write(&f->notes, &b);
    int rc = stk_buf_check(&b, err);
    if (rc == 0)
        rc = put(f->g, S_NOTES, b.data, b.len, err);
    stk_buf_release(&b);
    stk_notes_release(&f->notes);
    return rc;
}

int stk_build_report(struct builder *b, bool now, struct stk_err *err)
{
    if (!b->o->progress)
        return 0;
    int rc = 0;
    pthread_mutex_lock(&b->lock);
    double t = stk_now();
    if (now || t - b->last_progress > 0.1) {
        b->last_progress = t;
        if (b->o->progress(b->o->user, atomic_load(&b->bytes_done), b->bytes_total,
                           atomic_load(&b->nsamples)))
            rc = stk_err_set(err, STK_E_STOPPED, NULL, -1, "stopped while building the index");
    }
    pthread_mutex_unlock(&b->lock);
    return rc;
}

/* Reports progress while a large file is listed. */
static int file_progress(struct file_sink *f, uint64_t off, struct stk_err *err)
{
    if (off < f->progress_off + (64u << 20))
        return 0;
    atomic_fetch_add(&f->g->b->bytes_done, off - f->progress_off);
    f->progress_off = off;
    return stk_build_report(f->g->b, false, err);
}

int stk_build_event(struct stk_sink *sink, const struct stk_event *e, struct stk_err *err)
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
    case STK_EV_KEY:
        return on_key(f, e, err);
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
    case STK_EV_END:
        return stk_build_close_sample(f, err);
    case STK_EV_PROBLEM:
        snprintf(what, sizeof what, "%.*s", (int)e->blob_len, (const char *)e->blob);
        return stk_build_problem(b, STK_E_CORRUPT, f->path, (int64_t)e->a, what, err);
    case STK_EV_LEFT_OUT:
    case STK_EV_TAKEN:
        return on_note(f, e, err);
    case STK_EV_AT:
        return file_progress(f, e->a, err);
    default:
        return stk_err_set(err, STK_E_CORRUPT, f->path, -1, "unknown event reported");
    }
}
