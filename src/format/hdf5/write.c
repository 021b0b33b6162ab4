/*
 * write.c - writes HDF5 shards: one dataset per field, chunks of about 1 MiB along the
 * samples.
 *
 * Chunks are filled and compressed here and passed to libhdf5 whole (H5Dwrite_chunk), so that
 * several shards can be compressed at once: only one thread at a time may use libhdf5. The bytes
 * depend only on the samples: no times, datasets in schema order.
 */
#ifdef STK_HAVE_HDF5
#include "format/hdf5/hdf5.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/own.h"
#include "format/ragged.h"

#define CHUNK_BYTES  (1u << 20)
#define BUFFER_TOTAL (64u << 20) /* for all columns of a shard: with many, chunks are smaller */
#define CHUNK_LEAST  (16u << 10)

/* One dataset being written. */
struct array {
    char *name;
    uint8_t kind, dtype; /* kind: of ragged bytes, stored as an attribute */
    unsigned rank;
    hsize_t dim[STK_MAX_NDIM + 1]; /* dim[0] grows */
    hsize_t chunk_rows;
    size_t row_bytes, element;
    hid_t id;           /* -1 until created */
    struct stk_buf buf; /* rows not yet written, less than a chunk after every append */
};

struct shard {
    hid_t file;
    bool made;           /* the datasets exist */
    struct array *array; /* a column has one, or two: X and X.offsets */
    size_t narrays;
    size_t *of_column; /* the first array of each column */
    uint64_t *ragged;  /* bytes so far, by column */
    struct stk_cell *cell;
    struct stk_buf shuffled, packed;
};

/* ---- libhdf5: one thread at a time, none of it across a fork ---- */

static pthread_mutex_t library = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void library_lock(void)
{
    (void)pthread_mutex_lock(&library);
}

static void library_unlock(void)
{
    (void)pthread_mutex_unlock(&library);
}

/* No child may be forked in the middle of a call. */
static void library_init(void)
{
    (void)pthread_atfork(library_lock, library_unlock, library_unlock);
}

static void library_enter(void)
{
    (void)pthread_once(&once, library_init);
    library_lock();
    (void)stk_h5.Eset_auto2(H5E_DEFAULT, NULL, NULL); /* a per-thread setting */
}

/* Errors have been reported: libhdf5's record of them would outlive this thread. */
static void library_leave(void)
{
    (void)stk_h5.Eclear2(H5E_DEFAULT);
    library_unlock();
}

/* ---- errors ---- */

static herr_t find_errno(unsigned n, const H5E_error2_t *e, void *user)
{
    (void)n;
    const char *at = e->desc ? strstr(e->desc, "errno = ") : NULL;
    if (at && !*(int *)user)
        *(int *)user = atoi(at + strlen("errno = "));
    return 0;
}

/* The messages of libhdf5 contain "errno = 28" when a system call failed. */
static int write_failed(struct stk_out *o, const char *doing, struct stk_err *err)
{
    int saved = 0;
    (void)stk_h5.Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, find_errno, &saved);
    if (saved > 0) {
        errno = saved;
        return stk_err_sys(err, stk_out_path(o), "%s", doing);
    }
    int rc = stk_h5_failed(stk_out_path(o), doing, err);
    if (err && rc == STK_E_CORRUPT)
        err->code = STK_E_SYS; /* not damaged data */
    return STK_E_SYS;
}

/* ---- types ---- */

static hid_t bool_type(void)
{
    int8_t no = 0, yes = 1;
    hid_t t = stk_h5.Tenum_create(*stk_h5.T_STD_I8LE);
    if (t >= 0 &&
        (stk_h5.Tenum_insert(t, "FALSE", &no) < 0 || stk_h5.Tenum_insert(t, "TRUE", &yes) < 0)) {
        stk_h5.Tclose(t);
        return -1;
    }
    return t;
}

static hid_t half_type(void)
{
    hid_t t = stk_h5.Tcopy(*stk_h5.T_IEEE_F32LE);
    if (t >= 0 && (stk_h5.Tset_fields(t, 15, 10, 5, 0, 10) < 0 || stk_h5.Tset_size(t, 2) < 0 ||
                   stk_h5.Tset_ebias(t, 15) < 0)) {
        stk_h5.Tclose(t);
        return -1;
    }
    return t;
}

static hid_t file_type(uint8_t dtype)
{
    switch (dtype) {
    case STK_U8:
        return stk_h5.Tcopy(*stk_h5.T_STD_U8LE);
    case STK_I8:
        return stk_h5.Tcopy(*stk_h5.T_STD_I8LE);
    case STK_U16:
        return stk_h5.Tcopy(*stk_h5.T_STD_U16LE);
    case STK_I16:
        return stk_h5.Tcopy(*stk_h5.T_STD_I16LE);
    case STK_U32:
        return stk_h5.Tcopy(*stk_h5.T_STD_U32LE);
    case STK_I32:
        return stk_h5.Tcopy(*stk_h5.T_STD_I32LE);
    case STK_U64:
        return stk_h5.Tcopy(*stk_h5.T_STD_U64LE);
    case STK_I64:
        return stk_h5.Tcopy(*stk_h5.T_STD_I64LE);
    case STK_F16:
        return half_type();
    case STK_F32:
        return stk_h5.Tcopy(*stk_h5.T_IEEE_F32LE);
    case STK_F64:
        return stk_h5.Tcopy(*stk_h5.T_IEEE_F64LE);
    case STK_BOOL:
        return bool_type();
    default:
        return -1;
    }
}

/* ---- making datasets (library held) ---- */

static bool note_kind(hid_t ds, const char *kind)
{
    hid_t type = stk_h5.Tcopy(*stk_h5.T_C_S1), space = stk_h5.Screate(H5S_SCALAR), attr = -1;
    bool good = type >= 0 && space >= 0 && stk_h5.Tset_size(type, strlen(kind)) >= 0 &&
                stk_h5.Tset_strpad(type, H5T_STR_NULLPAD) >= 0;
    if (good)
        attr = stk_h5.Acreate2(ds, STK_RAGGED_KIND, type, space, H5P_DEFAULT, H5P_DEFAULT);
    good = good && attr >= 0 && stk_h5.Awrite(attr, type, kind) >= 0;
    if (attr >= 0)
        stk_h5.Aclose(attr);
    if (space >= 0)
        stk_h5.Sclose(space);
    if (type >= 0)
        stk_h5.Tclose(type);
    return good;
}

static bool set_properties(const struct array *a, bool deflate, int level, hid_t dcpl, hid_t lcpl)
{
    hsize_t chunk[STK_MAX_NDIM + 1];
    memcpy(chunk, a->dim, sizeof chunk);
    chunk[0] = a->chunk_rows;
    return dcpl >= 0 && lcpl >= 0 && stk_h5.Pset_create_intermediate_group(lcpl, 1) >= 0 &&
           stk_h5.Pset_obj_track_times(dcpl, 0) >= 0 &&
           stk_h5.Pset_chunk(dcpl, (int)a->rank, chunk) >= 0 &&
           stk_h5.Pset_fill_time(dcpl, H5D_FILL_TIME_NEVER) >= 0 &&
           (!deflate || a->element == 1 || stk_h5.Pset_shuffle(dcpl) >= 0) &&
           (!deflate || stk_h5.Pset_deflate(dcpl, level ? (unsigned)level : 6u) >= 0);
}

static bool make_array(struct shard *sh, struct array *a, bool deflate, int level)
{
    hsize_t max[STK_MAX_NDIM + 1], now[STK_MAX_NDIM + 1];
    memcpy(max, a->dim, sizeof max);
    memcpy(now, a->dim, sizeof now);
    max[0] = H5S_UNLIMITED;
    now[0] = 0;
    hid_t dcpl = stk_h5.Pcreate(*stk_h5.P_DATASET_CREATE),
          lcpl = stk_h5.Pcreate(*stk_h5.P_LINK_CREATE);
    hid_t type = file_type(a->dtype), space = stk_h5.Screate_simple((int)a->rank, now, max);
    if (type >= 0 && space >= 0 && set_properties(a, deflate, level, dcpl, lcpl))
        a->id = stk_h5.Dcreate2(sh->file, a->name, type, space, lcpl, dcpl, H5P_DEFAULT);
    const char *kind = stk_ragged_kind_name(a->kind);
    bool good = a->id >= 0 && (!kind || note_kind(a->id, kind));
    if (space >= 0)
        stk_h5.Sclose(space);
    if (type >= 0)
        stk_h5.Tclose(type);
    if (lcpl >= 0)
        stk_h5.Pclose(lcpl);
    if (dcpl >= 0)
        stk_h5.Pclose(dcpl);
    return good;
}

/* All at once, in schema order: the file must not depend on which array fills first. */
static int make_arrays(const struct stk_write_config *cfg, struct stk_out *o, struct shard *sh,
                       struct stk_err *err)
{
    int rc = 0;
    library_enter();
    for (size_t i = 0; rc == 0 && i < sh->narrays; i++)
        if (!make_array(sh, &sh->array[i], cfg->compress != 0, cfg->level))
            rc = write_failed(o, "make a dataset", err);
    library_leave();
    sh->made = rc == 0;
    return rc;
}

/* ---- chunks ---- */

static void shuffle(const uint8_t *in, size_t n, size_t size, uint8_t *out)
{
    for (size_t b = 0; b < size; b++)
        for (size_t i = 0; i < n; i++)
            out[b * n + i] = in[i * size + b];
}

/* The stored bytes of a chunk: in b, or compressed in the shard's buffers. */
static int pack_chunk(const struct stk_write_config *cfg, struct shard *sh, const struct array *a,
                      const uint8_t **p, size_t *n, struct stk_err *err)
{
    if (!cfg->compress)
        return 0;
    if (a->element > 1) {
        stk_buf_reset(&sh->shuffled);
        uint8_t *to = stk_buf_extend(&sh->shuffled, *n);
        if (!to)
            return stk_err_nomem(err, *n);
        shuffle(*p, *n / a->element, a->element, to);
        *p = to;
    }
    stk_buf_reset(&sh->packed);
    int rc = stk_filter_encode(STK_FILTER_ZLIB, cfg->level, *p, *n, &sh->packed, err);
    *p = sh->packed.data;
    *n = sh->packed.len;
    return rc;
}

/* Writes the chunk at the front of a->buf, which has `rows` real rows. */
static int write_chunk(const struct stk_write_config *cfg, struct stk_out *o, struct shard *sh,
                       struct array *a, hsize_t rows, struct stk_err *err)
{
    const uint8_t *p = a->buf.data;
    size_t n = (size_t)a->chunk_rows * a->row_bytes;
    int rc = pack_chunk(cfg, sh, a, &p, &n, err);
    if (rc < 0)
        return rc;
    hsize_t at[STK_MAX_NDIM + 1] = {a->dim[0]};
    a->dim[0] += rows;
    library_enter();
    if (stk_h5.Dset_extent(a->id, a->dim) < 0 ||
        stk_h5.Dwrite_chunk(a->id, H5P_DEFAULT, 0, at, n, p) < 0)
        rc = write_failed(o, "write", err);
    library_leave();
    return rc;
}

/* Appends whole or partial rows; writes every chunk that becomes full. */
static int array_put(const struct stk_write_config *cfg, struct stk_out *o, struct shard *sh,
                     struct array *a, const uint8_t *p, size_t n, struct stk_err *err)
{
    size_t full = (size_t)a->chunk_rows * a->row_bytes;
    while (n) {
        size_t step = full - a->buf.len < n ? full - a->buf.len : n;
        stk_buf_put(&a->buf, p, step);
        if (a->buf.fail)
            return stk_buf_check(&a->buf, err);
        p += step;
        n -= step;
        if (a->buf.len < full)
            break;
        int rc = sh->made ? 0 : make_arrays(cfg, o, sh, err);
        if (rc == 0)
            rc = write_chunk(cfg, o, sh, a, a->chunk_rows, err);
        if (rc < 0)
            return rc;
        stk_buf_reset(&a->buf);
    }
    return 0;
}

static int array_finish(const struct stk_write_config *cfg, struct stk_out *o, struct shard *sh,
                        struct array *a, struct stk_err *err)
{
    size_t rows = a->buf.len / a->row_bytes, full = (size_t)a->chunk_rows * a->row_bytes;
    if (!rows)
        return 0;
    stk_buf_zeros(&a->buf, full - a->buf.len);
    int rc = stk_buf_check(&a->buf, err);
    return rc < 0 ? rc : write_chunk(cfg, o, sh, a, rows, err);
}

/* ---- shards ---- */

static void shard_free(struct shard *sh)
{
    if (!sh)
        return;
    library_enter();
    for (size_t i = 0; i < sh->narrays; i++)
        if (sh->array[i].id >= 0)
            stk_h5.Dclose(sh->array[i].id);
    if (sh->file >= 0)
        stk_h5.Fclose(sh->file);
    library_leave();
    for (size_t i = 0; i < sh->narrays; i++) {
        stk_buf_release(&sh->array[i].buf);
        free(sh->array[i].name);
    }
    stk_buf_release(&sh->shuffled);
    stk_buf_release(&sh->packed);
    free(sh->array);
    free(sh->of_column);
    free(sh->ragged);
    free(sh->cell);
    free(sh);
}

static void array_init(struct array *a, size_t columns)
{
    uint64_t bytes = BUFFER_TOTAL / columns;
    bytes = bytes > CHUNK_BYTES ? CHUNK_BYTES : bytes < CHUNK_LEAST ? CHUNK_LEAST : bytes;
    a->id = -1;
    a->chunk_rows = a->row_bytes < bytes ? bytes / a->row_bytes : 1;
}

/* The arrays of column i: its own, or its bytes and its offsets. */
static int add_column(struct shard *sh, const struct stk_schema *sc, size_t i, struct stk_err *err)
{
    const struct stk_schema_column *c = &sc->column[i];
    struct array *a = &sh->array[sh->narrays++];
    sh->of_column[i] = sh->narrays - 1;
    a->id = -1;
    a->name = strdup(c->name);
    a->kind = c->ragged ? c->kind : STK_ARRAY;
    a->dtype = c->ragged ? STK_U8 : c->dtype;
    a->rank = c->ragged ? 1 : c->ndim + 1u;
    for (unsigned k = 0; !c->ragged && k < c->ndim; k++)
        a->dim[k + 1] = c->dim[k];
    a->element = c->ragged ? 1 : stk_dtype_size(c->dtype);
    a->row_bytes = c->ragged ? 1 : c->row_bytes;
    array_init(a, sc->ncolumns);
    if (c->ragged) {
        struct array *off = &sh->array[sh->narrays++];
        off->kind = STK_ARRAY;
        off->dtype = STK_U64;
        off->rank = 1;
        off->element = off->row_bytes = 8;
        array_init(off, sc->ncolumns);
        stk_buf_zeros(&off->buf, 8); /* the first value begins at 0 */
        if (asprintf(&off->name, "%s" STK_RAGGED_OFFSETS, c->name) < 0)
            off->name = NULL;
        return off->name && a->name ? 0 : stk_err_nomem(err, c->name_len);
    }
    return a->name ? 0 : stk_err_nomem(err, c->name_len);
}

static int shard_new(const struct stk_schema *sc, struct shard **out, struct stk_err *err)
{
    struct shard *sh = calloc(1, sizeof *sh);
    if (!sh)
        return stk_err_nomem(err, sizeof *sh);
    sh->file = -1;
    sh->array = calloc(2 * sc->ncolumns, sizeof *sh->array);
    sh->of_column = calloc(sc->ncolumns, sizeof *sh->of_column);
    sh->ragged = calloc(sc->ncolumns, sizeof *sh->ragged);
    sh->cell = calloc(sc->ncolumns, sizeof *sh->cell);
    int rc = sh->array && sh->of_column && sh->ragged && sh->cell
                 ? 0
                 : stk_err_nomem(err, sc->ncolumns * sizeof *sh->array);
    for (size_t i = 0; rc == 0 && i < sc->ncolumns; i++)
        rc = add_column(sh, sc, i, err);
    if (rc < 0)
        shard_free(sh);
    else
        *out = sh;
    return rc;
}

/* Creates the file: readable by libhdf5 1.8 and later, without times, links in creation order. */
static hid_t make_file(const char *path)
{
    hid_t file = -1, fcpl = stk_h5.Pcreate(*stk_h5.P_FILE_CREATE),
          fapl = stk_h5.Pcreate(*stk_h5.P_FILE_ACCESS);
    if (fcpl >= 0 && fapl >= 0 && stk_h5.Pset_obj_track_times(fcpl, 0) >= 0 &&
        stk_h5.Pset_link_creation_order(fcpl, H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED) >= 0 &&
        stk_h5.Pset_libver_bounds(fapl, H5F_LIBVER_EARLIEST, H5F_LIBVER_V18) >= 0)
        file = stk_h5.Fcreate(path, H5F_ACC_TRUNC, fcpl, fapl);
    if (fapl >= 0)
        stk_h5.Pclose(fapl);
    if (fcpl >= 0)
        stk_h5.Pclose(fcpl);
    return file;
}

/* ---- the format's functions ---- */

int stk_hdf5_prepare(struct stk_write_config *cfg, struct stk_err *err)
{
    struct stk_schema *sc = NULL;
    int rc = stk_h5_start(err);
    if (rc < 0)
        return rc;
    if (!cfg->first)
        return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1,
                           "HDF5 takes its fields from the first sample, and there is none");
    rc = stk_schema_new(cfg->first, "HDF5", true, &sc, err);
    for (size_t i = 0; rc == 0 && i < sc->ncolumns; i++)
        if (sc->column[i].row_bytes > UINT32_MAX) {
            rc = stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1,
                             "field '%s' has more than 4 GiB, the most a chunk of HDF5 can have",
                             sc->column[i].name);
            stk_schema_free(sc);
        }
    if (rc == 0)
        cfg->priv = sc;
    return rc;
}

void stk_hdf5_unprepare(struct stk_write_config *cfg)
{
    stk_schema_free(cfg->priv);
    cfg->priv = NULL;
}

int stk_hdf5_encode(const struct stk_write_config *cfg, const struct stk_sample *s,
                    struct stk_buf *out, struct stk_err *err)
{
    return stk_schema_encode(cfg->priv, s, out, err);
}

int stk_hdf5_begin(const struct stk_write_config *cfg, struct stk_out *o, struct stk_err *err)
{
    struct shard *sh = NULL;
    char at[STK_FD_PATH];
    int rc = shard_new(cfg->priv, &sh, err);
    if (rc < 0)
        return rc;
    *stk_out_state(o) = sh;
    library_enter();
    sh->file = make_file(stk_fd_path(o->dirfd, o->name, at));
    if (sh->file < 0)
        rc = write_failed(o, "create", err);
    library_leave();
    return rc;
}

static int append_one(const struct stk_write_config *cfg, struct stk_out *o, struct shard *sh,
                      struct stk_err *err)
{
    const struct stk_schema *sc = cfg->priv;
    for (size_t i = 0; i < sc->ncolumns; i++) {
        struct array *a = &sh->array[sh->of_column[i]];
        int rc = array_put(cfg, o, sh, a, sh->cell[i].data, sh->cell[i].size, err);
        if (rc == 0 && sc->column[i].ragged) {
            uint8_t end[8];
            sh->ragged[i] += sh->cell[i].size;
            stk_put_le64(end, sh->ragged[i]);
            rc = array_put(cfg, o, sh, a + 1, end, sizeof end, err);
        }
        if (rc < 0)
            return rc;
    }
    return 0;
}

int stk_hdf5_append(const struct stk_write_config *cfg, struct stk_out *o, const uint8_t *bytes,
                    size_t len, uint64_t nsamples, struct stk_err *err)
{
    struct shard *sh = *stk_out_state(o);
    for (uint64_t i = 0; i < nsamples; i++) {
        size_t used = 0;
        int rc = stk_schema_decode(cfg->priv, bytes, len, sh->cell, &used, err);
        if (rc == 0)
            rc = append_one(cfg, o, sh, err);
        if (rc < 0)
            return rc;
        bytes += used;
        len -= used;
    }
    return 0;
}

/* A shard smaller than a chunk gets smaller chunks: a stored chunk is always whole. */
static void fit_chunks(struct shard *sh)
{
    for (size_t i = 0; i < sh->narrays; i++) {
        struct array *a = &sh->array[i];
        size_t rows = a->buf.len / a->row_bytes;
        a->chunk_rows = rows ? rows : 1;
    }
}

int stk_hdf5_finish(const struct stk_write_config *cfg, struct stk_out *o, struct stk_err *err)
{
    struct shard *sh = *stk_out_state(o);
    int rc = 0;
    if (!sh->made) {
        fit_chunks(sh);
        rc = make_arrays(cfg, o, sh, err);
    }
    for (size_t i = 0; rc == 0 && i < sh->narrays; i++)
        rc = array_finish(cfg, o, sh, &sh->array[i], err);
    if (rc < 0)
        return rc;
    library_enter();
    for (size_t i = 0; rc == 0 && i < sh->narrays; i++) {
        if (stk_h5.Dclose(sh->array[i].id) < 0)
            rc = write_failed(o, "write", err);
        sh->array[i].id = -1;
    }
    if (rc == 0 && stk_h5.Fclose(sh->file) < 0)
        rc = write_failed(o, "write", err);
    sh->file = -1;
    library_leave();
    if (rc == 0) {
        shard_free(sh);
        *stk_out_state(o) = NULL;
    }
    return rc;
}

void stk_hdf5_abort(const struct stk_write_config *cfg, struct stk_out *o)
{
    (void)cfg;
    shard_free(*stk_out_state(o));
    *stk_out_state(o) = NULL;
}

#else
typedef int stk_no_hdf5_write; /* a file must declare something */
#endif
