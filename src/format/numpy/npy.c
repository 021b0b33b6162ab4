/*
 * npy.c - NPY: the rows of one array.
 *
 * A file is one extent and one column: the offset of a row is computed, nothing is stored per row.
 * Big-endian files are cut into extents of about a MiB, because a filter decodes whole extents.
 */
#include "format_code.h"
#include "format/numpy/npyhead.h"
#include "format/ragged.h"

#include <stdio.h>
#include <stdlib.h>

#define FILTERED_EXTENT (1u << 20)
#define EMPTY_ROWS_MAX  (1u << 24) /* empty rows cost a hostile file nothing */

extern const struct stk_format stk_format_npy;

static const char *const suffixes[] = {".npy", NULL};

static int bid(const struct stk_probe *p)
{
    if (p->head_len < 6 || memcmp(p->head, "\x93NUMPY", 6) != 0)
        return stk_format_suffix_matches(&stk_format_npy, p->name) ? 30 : 0;
    return 95;
}

/* ---- listing ------------------------------------------------------------------------------ */

struct rows {
    uint64_t count, bytes; /* rows, bytes per row */
};

/* Extents for big-endian data, each a whole number of rows. */
static int list_swapped(struct stk_lister *l, const struct stk_npy_head *h, const struct rows *r,
                        struct stk_stripe *c, struct stk_err *err)
{
    struct stk_chain chain = {.nsteps = 1,
                              .step[0] = {.id = STK_FILTER_BSWAP, .arg = stk_npy_unit(h)}};
    c->per_extent = r->bytes < FILTERED_EXTENT ? FILTERED_EXTENT / r->bytes : 1;
    for (uint64_t k = 0; k < r->count; k += c->per_extent) {
        uint64_t n = r->count - k < c->per_extent ? r->count - k : c->per_extent;
        int64_t x = stk_list_extent(l, h->data_offset + k * r->bytes, n * r->bytes, &chain, err);
        if (x < 0)
            return (int)x;
        if (k == 0)
            c->first_extent = x;
    }
    return 0;
}

static int list_rows(struct stk_lister *l, const struct stk_npy_head *h, const struct rows *r,
                     struct stk_err *err)
{
    struct stk_field_spec spec = {.name = "data",
                                  .kind = stk_npy_kind(h),
                                  .codec = stk_npy_codec(h),
                                  .dtype = h->dtype,
                                  .ndim = h->ndim ? (uint8_t)(h->ndim - 1) : 0};
    for (unsigned i = 1; i < h->ndim; i++)
        spec.dim[i - 1] = h->dim[i];
    struct stk_stripe c = {.field = stk_list_field(l, &spec, err),
                           .per_extent = r->count ? r->count : 1,
                           .stride = r->bytes,
                           .length = r->bytes};
    if (c.field < 0)
        return c.field;
    int rc = 0;
    if (h->swap && r->bytes && r->count) {
        rc = list_swapped(l, h, r, &c, err);
    } else {
        c.first_extent = stk_list_extent(l, h->data_offset, r->count * r->bytes, NULL, err);
        rc = c.first_extent < 0 ? (int)c.first_extent : 0;
    }
    return rc < 0 ? rc : stk_list_column(l, &c, r->count, err);
}

/* A list of structures: each member is a column. */
static int list_members(struct stk_lister *l, const struct stk_npy_head *h, const struct rows *r,
                        const struct stk_npy_records *s, struct stk_err *err)
{
    int64_t extent = stk_list_extent(l, h->data_offset, r->count * r->bytes, NULL, err);
    int rc = extent < 0 ? (int)extent : 0;
    for (size_t i = 0; rc == 0 && i < s->n; i++) {
        const struct stk_npy_member *m = &s->member[i];
        char name[200];
        snprintf(name, sizeof name, "%.*s", (int)m->name_len, m->name);
        if (m->why[0]) {
            rc = stk_list_left_out(l, "column", name, m->why, err);
            continue;
        }
        struct stk_field_spec spec = {.name = m->name,
                                      .name_len = m->name_len,
                                      .kind = stk_npy_kind(&m->h),
                                      .codec = stk_npy_codec(&m->h),
                                      .dtype = m->h.dtype,
                                      .ndim = (uint8_t)(m->h.ndim - 1)};
        struct stk_stripe c = {.first_extent = extent,
                               .per_extent = r->count ? r->count : 1,
                               .base = m->at,
                               .stride = h->itemsize,
                               .length = m->h.itemsize};
        for (unsigned k = 1; k < m->h.ndim; k++) {
            spec.dim[k - 1] = m->h.dim[k];
            c.length *= m->h.dim[k];
        }
        c.field = stk_list_field(l, &spec, err);
        rc = c.field < 0 ? c.field : stk_list_column(l, &c, r->count, err);
    }
    return rc;
}

/* Counts the rows present, and reports a wrong file length. */
static int measure(struct stk_lister *l, struct stk_src *src, const struct stk_npy_head *h,
                   struct rows *r, struct stk_err *err)
{
    uint64_t size = stk_src_size(src), have = size < h->data_offset ? 0 : size - h->data_offset;
    r->count = h->ndim ? h->dim[0] : 1;
    r->bytes = h->itemsize;
    for (unsigned i = 1; i < h->ndim; i++)
        r->bytes *= h->dim[i];
    if (have == h->data_bytes)
        return 0;
    if (have > h->data_bytes)
        return stk_list_problem(l, (int64_t)(h->data_offset + h->data_bytes), err,
                                "%llu bytes after the array's end",
                                (unsigned long long)(have - h->data_bytes));
    r->count = r->bytes ? have / r->bytes : 0;
    return stk_list_problem(l, (int64_t)size, err,
                            "the array should have %llu bytes, the file ends after %llu",
                            (unsigned long long)h->data_bytes, (unsigned long long)have);
}

static int list(struct stk_lister *l, struct stk_src *src, struct stk_err *err)
{
    const uint8_t *p;
    size_t got;
    struct stk_npy_head h;
    struct stk_err why;
    struct rows r;
    int rc = stk_src_peek(src, 0, STK_NPY_HEAD_MAX, &p, &got, err);
    if (rc < 0)
        return rc;
    struct stk_npy_records *records = NULL;
    rc = stk_npy_parse(p, got, &h, &why);
    if (rc == STK_E_UNSUPPORTED && (records = malloc(sizeof *records)))
        rc = stk_npy_parse_records(p, got, &h, records, &why);
    if (rc == 0 && records) {
        rc = measure(l, src, &h, &r, err);
        rc = rc < 0 ? rc : list_members(l, &h, &r, records, err);
        free(records);
        return rc;
    }
    free(records);
    if (rc == STK_E_CORRUPT)
        return stk_list_problem(l, why.offset, err, "NPY header: %s", why.what);
    if (rc < 0)
        return stk_err_set(err, rc, stk_src_path(src), why.offset, "NPY header: %s", why.what);
    if (h.fortran)
        return stk_err_set(err, STK_E_UNSUPPORTED, stk_src_path(src), -1,
                           "the array is in Fortran order, its rows are scattered; save it with "
                           "numpy.save(path, numpy.ascontiguousarray(a))");
    if (h.chars && h.ndim > 1 && (h.chars == 'U' || h.itemsize > 1))
        return stk_err_set(err, STK_E_UNSUPPORTED, stk_src_path(src), -1,
                           "an array with several strings in a row; save it as CSV or JSON");
    rc = measure(l, src, &h, &r, err);
    if (rc == 0 && h.complex)
        rc = stk_list_taken(l, "array", STK_NPY_PAIRS, err);
    if (rc < 0)
        return rc;
    if (r.count > EMPTY_ROWS_MAX && !r.bytes)
        return stk_list_problem(l, 0, err, "%llu rows without data", (unsigned long long)r.count);
    return list_rows(l, &h, &r, err);
}

/* ---- writing ------------------------------------------------------------------------------ */

/* Rows have no key: drops the samples' keys; a schema without a key is a bare array. */
static struct stk_sample without_key(const struct stk_sample *s)
{
    struct stk_sample bare = *s;
    bare.key_len = 0;
    return bare;
}

static void unprepare(struct stk_write_config *cfg)
{
    stk_schema_free(cfg->priv);
    cfg->priv = NULL;
}

static int check_schema(const struct stk_schema *sc, const struct stk_sample *first,
                        struct stk_err *err)
{
    if (sc->ncolumns != 1)
        return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1,
                           "sample %.*s has %zu fields, an NPY file is one array; use npz",
                           (int)(first->key_len < 200 ? first->key_len : 200), first->key,
                           sc->ncolumns);
    const struct stk_schema_column *c = &sc->column[0];
    if (c->ragged)
        return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1,
                           "field %s is %s of any length, an NPY file has rows of numbers; use npz",
                           c->name, stk_kind_name(c->kind));
    if (c->ndim == STK_MAX_NDIM)
        return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1, "field %s has too many dimensions",
                           c->name);
    return 0;
}

static int prepare(struct stk_write_config *cfg, struct stk_err *err)
{
    struct stk_schema *sc = NULL;
    if (!cfg->first)
        return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1,
                           "without a sample the type of an NPY array is not known");
    struct stk_sample first = without_key(cfg->first);
    int rc = stk_schema_new(&first, "NPY", false, &sc, err);
    if (rc == 0)
        rc = check_schema(sc, cfg->first, err);
    if (rc == 0)
        cfg->priv = sc;
    else
        stk_schema_free(sc);
    return rc;
}

static int encode(const struct stk_write_config *cfg, const struct stk_sample *s,
                  struct stk_buf *out, struct stk_err *err)
{
    struct stk_sample bare = without_key(s);
    int rc = stk_schema_encode(cfg->priv, &bare, out, err);
    return rc < 0 ? stk_err_wrap(err, rc, "sample %.*s", (int)(s->key_len < 200 ? s->key_len : 200),
                                 s->key)
                  : 0;
}

/* The header's length does not depend on the number of rows: it is rewritten at the end. */
static int put_head(const struct stk_write_config *cfg, struct stk_out *o, uint64_t rows,
                    bool again, struct stk_err *err)
{
    const struct stk_schema *sc = cfg->priv;
    const struct stk_schema_column *c = &sc->column[0];
    uint64_t dim[STK_MAX_NDIM] = {rows};
    struct stk_buf head = STK_BUF_INIT;
    memcpy(dim + 1, c->dim, c->ndim * sizeof *dim);
    stk_npy_write_head(&head, c->dtype, c->ndim + 1u, dim);
    int rc = stk_buf_check(&head, err);
    if (rc == 0)
        rc = again ? stk_out_patch(o, 0, head.data, head.len, err)
                   : stk_out_write(o, head.data, head.len, err);
    stk_buf_release(&head);
    return rc;
}

static int begin(const struct stk_write_config *cfg, struct stk_out *o, struct stk_err *err)
{
    return put_head(cfg, o, 0, false, err);
}

/* The state of a shard is its number of rows. */
static int append(const struct stk_write_config *cfg, struct stk_out *o, const uint8_t *bytes,
                  size_t len, uint64_t nsamples, struct stk_err *err)
{
    (void)cfg;
    void **state = stk_out_state(o);
    *state = (void *)((uintptr_t)*state + (uintptr_t)nsamples);
    return stk_out_write(o, bytes, len, err);
}

static int finish(const struct stk_write_config *cfg, struct stk_out *o, struct stk_err *err)
{
    void **state = stk_out_state(o);
    uint64_t rows = (uintptr_t)*state;
    *state = NULL;
    return put_head(cfg, o, rows, true, err);
}

static void abandon(const struct stk_write_config *cfg, struct stk_out *o)
{
    (void)cfg;
    *stk_out_state(o) = NULL;
}

static const struct stk_format_use use = {
    .how = STK_USE_SAMPLE | STK_USE_LIBRARY | STK_USE_ARRAY,
    .package = "numpy",
    .open = stk_code_npy_open_py,
    .parse = stk_code_npy_parse_py,
    .keep = stk_code_npy_keep_py,
};

const struct stk_format stk_format_npy = {
    .name = "npy",
    .title = "NPY",
    .suffix = ".npy",
    .suffixes = suffixes,
    .caps = STK_CAN_READ | STK_CAN_WRITE | STK_CAN_SHARD | STK_CAN_BE_SAMPLE | STK_CAN_BE_ARRAYS,
    .bid = bid,
    .list = list,
    .prepare = prepare,
    .unprepare = unprepare,
    .encode = encode,
    .begin = begin,
    .append = append,
    .finish = finish,
    .abort = abandon,
    .use = &use,
};
