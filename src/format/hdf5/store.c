/*
 * store.c - where an HDF5 dataset's bytes are, as a grid of blocks with their filters.
 *
 * Compact and contiguous data become a grid of one block (more if bytes must be swapped, so that no
 * sample needs the whole); chunked data keeps its grid.
 */
#ifdef STK_HAVE_HDF5
#include "format/hdf5/hdf5.h"

#include <stdio.h>
#include <stdlib.h>

#include "format/jail.h"

#define MAX_BLOCKS   (1ull << 26) /* 1.5 GiB of struct stk_h5_chunk */
#define MADE_BLOCK   (1u << 20)   /* bytes per block when contiguous data is cut */
#define MAX_STORED   (1ull << 30) /* of one block read while listing */
#define MANY_HOLES   (1u << 20)
#define MAX_HOLE_BIT 30 /* the most that the filter for holes can produce */

/* ---- errors ---- */

static herr_t innermost(unsigned n, const H5E_error2_t *e, void *user)
{
    if (n == 0 && e->desc)
        snprintf(user, 200, "%s", e->desc);
    return 0;
}

int stk_h5_failed(const char *path, const char *doing, struct stk_err *err)
{
    char why[200] = "";
    (void)stk_h5.Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, innermost, why);
    /* The library knows the versions up to its own. */
    if (strstr(why, "bad version number") || strstr(why, "unknown version"))
        return stk_err_set(err, STK_E_UNSUPPORTED, path, -1,
                           "written by a newer HDF5 than libhdf5 %d.%d.%d of this build (%s): "
                           "h5repack --high=v110 makes a copy that is read, or use a newer libhdf5",
                           H5_VERS_MAJOR, H5_VERS_MINOR, H5_VERS_RELEASE, why);
    unsigned long long has, base, said;
    if (sscanf(why, "truncated file: eof = %llu, sblock->base_addr = %llu, stored_eof = %llu", &has,
               &base, &said) == 3) /* a user block is not counted */
        return stk_err_set(err, STK_E_CORRUPT, path, (int64_t)(has + base),
                           "truncated: the file ends here, but should have %llu bytes",
                           said + base);
    if (strstr(why, "already open for"))
        return stk_err_set(err, STK_E_UNSUPPORTED, path, -1,
                           "open for writing, or its writer ended without closing it: read it when "
                           "it is closed; h5clear -s removes the mark of a writer that is gone");
    return stk_err_set(err, STK_E_CORRUPT, path, -1, "libhdf5 cannot %s%s%s", doing,
                       *why ? ": " : "", why);
}

static int refuse(const struct stk_h5_store *s, struct stk_err *err, const char *why)
{
    return stk_err_set(err, STK_E_UNSUPPORTED, stk_src_path(s->file->src), -1,
                       "dataset '%.200s': %s", s->name, why);
}

static int damaged(const struct stk_h5_store *s, uint64_t at, const char *why, struct stk_err *err)
{
    return stk_err_set(err, STK_E_CORRUPT, stk_src_path(s->file->src), (int64_t)at,
                       "dataset '%.200s': %s", s->name, why);
}

/* ---- filters ---- */

static const char *filter_name(H5Z_filter_t id, const char *given)
{
    static const struct {
        H5Z_filter_t id;
        const char *name;
    } known[] = {{H5Z_FILTER_SZIP, "szip"},
                 {H5Z_FILTER_NBIT, "n-bit"},
                 {H5Z_FILTER_SCALEOFFSET, "scale-offset"},
                 {32001, "blosc"},
                 {32004, "lz4"},
                 {32008, "bitshuffle"},
                 {32013, "zfp"},
                 {32017, "sz"},
                 {32026, "blosc2"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].id == id)
            return known[i].name;
    return given;
}

static int add_filter(struct stk_h5_store *s, H5Z_filter_t id, unsigned arg, const char *name,
                      struct stk_err *err)
{
    unsigned i = s->nfilters++;
    s->filter[i].arg = 0;
    if (id == H5Z_FILTER_DEFLATE) {
        s->filter[i].id = STK_FILTER_ZLIB;
    } else if (id == H5Z_FILTER_FLETCHER32) {
        s->filter[i].id = STK_FILTER_FLETCHER;
    } else if (id == H5Z_FILTER_SHUFFLE && arg >= 1 && arg <= UINT16_MAX) {
        s->filter[i].id = arg > 1 ? STK_FILTER_SHUFFLE : 0;
        s->filter[i].arg = (uint16_t)arg;
    } else if (id == 32000) { /* h5py's own */
        s->filter[i].id = STK_FILTER_LZF;
    } else if (id == 32015 && !stk_filter_missing(STK_FILTER_ZSTD)) {
        s->filter[i].id = STK_FILTER_ZSTD;
    } else if (id == 32015) {
        return refuse(s, err, "it is compressed with zstd: install libzstd-dev and build again");
    } else {
        char why[200];
        snprintf(why, sizeof why,
                 "its filter %d (%.60s) is not read; h5repack -f GZIP=4 makes a copy that is",
                 (int)id, filter_name(id, name));
        return refuse(s, err, why);
    }
    return 0;
}

static int read_filters(struct stk_h5_store *s, hid_t dcpl, struct stk_err *err)
{
    int n = stk_h5.Pget_nfilters(dcpl);
    if (n < 0)
        return stk_h5_failed(stk_src_path(s->file->src), "read a filter pipeline", err);
    if ((unsigned)n + (s->swap != 0) > STK_CHAIN_MAX)
        return refuse(s, err, "it has too many filters");
    for (int i = 0; i < n; i++) {
        unsigned flags = 0, cd[8] = {0}, config = 0;
        size_t ncd = sizeof cd / sizeof *cd;
        char name[64] = "";
        H5Z_filter_t id =
            stk_h5.Pget_filter2(dcpl, (unsigned)i, &flags, &ncd, cd, sizeof name, name, &config);
        if (id < 0)
            return stk_h5_failed(stk_src_path(s->file->src), "read a filter pipeline", err);
        name[sizeof name - 1] = '\0';
        int rc = add_filter(s, id, ncd ? cd[0] : 0, name, err);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* The chain that decodes a block's stored bytes; false: they are the data. */
static bool block_chain(const struct stk_h5_store *s, const struct stk_h5_chunk *b,
                        struct stk_chain *c)
{
    *c = (struct stk_chain){.max_decoded = s->block_bytes};
    if (!b->addr) {
        unsigned bits = 0;
        while ((1ull << bits) < s->block_bytes)
            bits++;
        c->step[c->nsteps].id = STK_FILTER_ZEROS;
        c->step[c->nsteps++].arg = (uint16_t)bits;
        c->max_decoded = 0;
        return true;
    }
    for (unsigned i = s->nfilters; i-- > 0;) {
        if (!s->filter[i].id || (b->mask >> i & 1))
            continue;
        c->step[c->nsteps].id = s->filter[i].id;
        c->step[c->nsteps++].arg = s->filter[i].arg;
    }
    if (s->swap) {
        c->step[c->nsteps].id = STK_FILTER_BSWAP;
        c->step[c->nsteps++].arg = s->swap;
    }
    return c->nsteps > 0;
}

/* ---- the grid ---- */

static int make_grid(struct stk_h5_store *s, const hsize_t *max_dim, struct stk_err *err)
{
    struct stk_h5_grid *g = &s->grid;
    g->rank = s->rank;
    g->nchunks = 1;
    s->block_bytes = s->element;
    for (unsigned i = 0; i < s->rank; i++) {
        uint64_t c = s->block_dim[i];
        if (!c || __builtin_mul_overflow(s->block_bytes, c, &s->block_bytes))
            return damaged(s, 0, "impossible chunk dimensions", err);
        g->dim[i] = s->dim[i] / c + (s->dim[i] % c != 0);
        uint64_t most = max_dim ? max_dim[i] : s->dim[i];
        g->max[i] = most == H5S_UNLIMITED ? 0 : most / c + (most % c != 0);
        if (__builtin_mul_overflow(g->nchunks, g->dim[i], &g->nchunks) || g->nchunks > MAX_BLOCKS)
            return refuse(s, err, "it has more than 67 million chunks");
    }
    g->chunk_bytes = s->block_bytes;
    g->filtered = s->nfilters > 0;
    s->block = calloc(g->nchunks ? g->nchunks : 1, sizeof *s->block);
    return s->block ? 0 : stk_err_nomem(err, g->nchunks * sizeof *s->block);
}

/* Data in one piece at addr (STK_H5_NOWHERE: never written), with `size` bytes recorded (0: not
 * recorded). Compounds with members in the global heap differ in size between file and memory. */
static int one_piece(struct stk_h5_store *s, uint64_t addr, uint64_t size, struct stk_err *err)
{
    uint64_t row = s->element, total, end;
    for (unsigned i = 1; i < s->rank; i++) {
        s->block_dim[i] = s->dim[i];
        if (__builtin_mul_overflow(row, s->dim[i], &row) || !row)
            return damaged(s, 0, "impossible dimensions", err);
    }
    if (__builtin_mul_overflow(row, s->dim[0], &total))
        return damaged(s, 0, "impossible dimensions", err);
    if (size && size != total)
        return refuse(s, err, "its elements are stored in another size than they have");
    bool nowhere = addr == STK_H5_NOWHERE;
    s->block_dim[0] = s->dim[0];
    if (s->swap || nowhere)
        s->block_dim[0] = row < MADE_BLOCK ? MADE_BLOCK / row : 1;
    int rc = make_grid(s, NULL, err);
    if (rc < 0 || nowhere)
        return rc;
    if (__builtin_add_overflow(addr, total, &end) || end > stk_src_size(s->file->src))
        return damaged(s, addr, "its data should be here, but the file ends before", err);
    uint64_t at = addr;
    for (uint64_t i = 0; i < s->grid.nchunks; i++) {
        uint64_t n = end - at < s->block_bytes ? end - at : s->block_bytes;
        s->block[i] = (struct stk_h5_chunk){.addr = at, .size = n};
        at += n;
    }
    return 0;
}

#define EMPTY_ROWS_MAX (1u << 24) /* empty rows cost a hostile file nothing */

static bool has_empty_rows(const struct stk_h5_store *s)
{
    for (unsigned i = 1; i < s->rank; i++)
        if (!s->dim[i])
            return true;
    return false;
}

/* An array of shape (9, 0): rows that take no space in the file. */
static int empty_rows(struct stk_h5_store *s, struct stk_err *err)
{
    if (s->dim[0] > EMPTY_ROWS_MAX)
        return refuse(s, err, "too many rows without data");
    memcpy(s->block_dim, s->dim, sizeof s->block_dim);
    s->block_dim[0] = s->dim[0] ? s->dim[0] : 1;
    s->grid.rank = s->rank;
    s->block = calloc(1, sizeof *s->block);
    return s->block ? 0 : stk_err_nomem(err, sizeof *s->block);
}

/* ---- chunks from libhdf5, for index types that we do not parse ---- */

static int grid_number(const struct stk_h5_store *s, const hsize_t *first, uint64_t *number)
{
    *number = 0;
    for (unsigned i = 0; i < s->rank; i++) {
        uint64_t c = first[i] / s->block_dim[i];
        if (c >= s->grid.dim[i])
            return -1;
        *number = *number * s->grid.dim[i] + c;
    }
    return 0;
}

/*
 * H5Dget_chunk_info counts the user block in some versions and not in others: comparing with
 * H5Dread_chunk shows which. *add: the offset to add to addresses.
 */
static int find_base(struct stk_h5_store *s, hid_t ds, const hsize_t *first, uint64_t addr,
                     uint64_t size, uint64_t *add, struct stk_err *err)
{
    *add = 0;
    if (!s->file->base || !size)
        return 0;
    const uint8_t *p;
    size_t got = 0, n = size < STK_PEEK_MAX ? (size_t)size : STK_PEEK_MAX;
    uint32_t mask;
    if (size > MAX_STORED)
        return refuse(s, err, "its chunks are too large");
    uint8_t *chunk = malloc(size);
    if (!chunk)
        return stk_err_nomem(err, size);
    int rc = 0;
    if (stk_h5.Dread_chunk(ds, H5P_DEFAULT, first, &mask, chunk) < 0)
        rc = stk_h5_failed(stk_src_path(s->file->src), "read a chunk", err);
    if (rc == 0)
        rc = stk_src_peek(s->file->src, addr, n, &p, &got, err);
    if (rc == 0 && (got < n || memcmp(p, chunk, n) != 0))
        *add = s->file->base;
    free(chunk);
    return rc;
}

static int ask_library(struct stk_h5_store *s, hid_t ds, hid_t space, struct stk_err *err)
{
    const char *path = stk_src_path(s->file->src);
    hsize_t n = 0, first[H5S_MAX_RANK], size = 0;
    uint64_t add = 0;
    if (stk_h5.Dget_num_chunks(ds, space, &n) < 0)
        return stk_h5_failed(path, "count chunks", err);
    for (hsize_t i = 0; i < n; i++) {
        unsigned mask = 0;
        haddr_t addr = HADDR_UNDEF;
        uint64_t number, end;
        if (s->file->alive)
            s->file->alive(s->file->user);
        if (stk_h5.Dget_chunk_info(ds, space, i, first, &mask, &addr, &size) < 0)
            return stk_h5_failed(path, "list chunks", err);
        if (addr == HADDR_UNDEF)
            continue;
        int rc = i ? 0 : find_base(s, ds, first, addr, size, &add, err);
        if (rc < 0)
            return rc;
        if (grid_number(s, first, &number) < 0 || __builtin_add_overflow(addr, add, &addr) ||
            __builtin_add_overflow(addr, size, &end) || end > stk_src_size(s->file->src))
            return damaged(s, addr, "a chunk lies beyond the end", err);
        s->block[number] = (struct stk_h5_chunk){.addr = addr, .size = size, .mask = mask};
    }
    return 0;
}

static int chunked(struct stk_h5_store *s, hid_t ds, hid_t space, const hsize_t *max_dim,
                   const struct stk_h5_layout *layout, struct stk_err *err)
{
    if (layout->ndims != s->rank + 1)
        return damaged(s, 0, "its chunks have another number of dimensions", err);
    if (layout->dim[s->rank] != s->element)
        return refuse(s, err, "its elements are stored in another size than they have");
    s->chunked = true;
    memcpy(s->block_dim, layout->dim, s->rank * sizeof *s->block_dim);
    int rc = make_grid(s, max_dim, err);
    if (rc < 0)
        return rc;
    if (s->block_bytes > UINT32_MAX) /* HDF5's own limit; also keeps products of dimensions small */
        return damaged(s, 0, "impossible chunk dimensions", err);
    if (layout->index == STK_H5_INDEX_BTREE2)
        return ask_library(s, ds, space, err);
    return stk_h5_list_chunks(s->file, layout, &s->grid, s->block, err);
}

/* ---- holes ---- */

static int check_fill(struct stk_h5_store *s, hid_t ds, hid_t dcpl, struct stk_err *err)
{
    H5D_fill_value_t defined;
    hid_t type = -1;
    bool zero = true;
    if (s->block_bytes > 1ull << MAX_HOLE_BIT)
        return refuse(s, err, "chunks that were never written are larger than 1 GiB");
    if (stk_h5.Pfill_value_defined(dcpl, &defined) < 0 || defined != H5D_FILL_VALUE_USER_DEFINED)
        return 0;
    type = stk_h5.Dget_type(ds);
    size_t n = type < 0 ? 0 : stk_h5.Tget_size(type);
    uint8_t *value = n ? calloc(1, n) : NULL;
    if (!value || stk_h5.Pget_fill_value(dcpl, type, value) < 0)
        zero = false;
    for (size_t i = 0; zero && i < n; i++)
        zero = value[i] == 0;
    free(value);
    if (type >= 0)
        stk_h5.Tclose(type);
    return zero ? 0
                : refuse(s, err,
                         "its fill value is not zero, and parts were never written; h5repack "
                         "makes a copy that can be read");
}

static int check_blocks(struct stk_h5_store *s, hid_t ds, hid_t dcpl, struct stk_err *err)
{
    struct stk_chain c;
    uint64_t holes = 0;
    for (uint64_t i = 0; i < s->grid.nchunks; i++) {
        const struct stk_h5_chunk *b = &s->block[i];
        if (!b->addr)
            holes++;
        else if ((!block_chain(s, b, &c) || c.step[0].id == STK_FILTER_BSWAP) &&
                 b->size < s->block_bytes && (s->chunked || i + 1 < s->grid.nchunks))
            return damaged(s, b->addr, "a chunk is smaller than it should be", err);
    }
    /* One damaged bit in a dimension creates millions of missing chunks. */
    if (holes > MANY_HOLES && holes / 4 > s->grid.nchunks - holes)
        return refuse(s, err, "nearly all of its chunks were never written");
    return holes ? check_fill(s, ds, dcpl, err) : 0;
}

/* ---- the whole ---- */

static int init_from(struct stk_h5_store *s, hid_t ds, hid_t space, hid_t dcpl, struct stk_err *err)
{
    hsize_t dim[H5S_MAX_RANK], max_dim[H5S_MAX_RANK];
    H5O_info_t info;
    const char *path = stk_src_path(s->file->src);
    int rank = stk_h5.Sget_simple_extent_dims(space, dim, max_dim);
    if (rank == 0) /* a scalar: a list of one */
        rank = 1, dim[0] = max_dim[0] = 1;
    if (rank < 1 || stk_h5.Oget_info(ds, &info) < 0)
        return stk_h5_failed(path, "describe a dataset", err);
    s->rank = (unsigned)rank;
    for (int i = 0; i < rank; i++)
        s->dim[i] = dim[i];
    int rc = read_filters(s, dcpl, err);
    if (rc < 0)
        return rc;
    if (stk_h5.Pget_external_count(dcpl) > 0)
        return refuse(s, err, "its data is in other files (external storage)");
    if (has_empty_rows(s))
        return empty_rows(s, err);
    struct stk_h5_layout layout;
    rc = stk_h5_find_layout(s->file, info.addr, &layout, err);
    if (rc < 0)
        return rc;
    switch (layout.class) {
    case STK_H5_COMPACT:
    case STK_H5_CONTIGUOUS:
        rc = one_piece(s, layout.addr, layout.size, err);
        break;
    case STK_H5_CHUNKED:
        rc = chunked(s, ds, space, max_dim, &layout, err);
        break;
    default:
        return refuse(s, err, "it is a view of other datasets (virtual)");
    }
    return rc < 0 ? rc : check_blocks(s, ds, dcpl, err);
}

int stk_h5_store_init(struct stk_h5_store *s, const struct stk_h5_file *f, hid_t ds,
                      const char *name, const struct stk_h5_type *type, struct stk_err *err)
{
    *s = (struct stk_h5_store){.file = f, .name = name, .element = type->size};
    if (type->what == STK_H5_NUMBERS && type->big_endian)
        s->swap = (uint16_t)stk_dtype_size(type->dtype);
    hid_t space = stk_h5.Dget_space(ds), dcpl = stk_h5.Dget_create_plist(ds);
    int rc = space < 0 || dcpl < 0 ? stk_h5_failed(stk_src_path(f->src), "describe a dataset", err)
                                   : init_from(s, ds, space, dcpl, err);
    if (dcpl >= 0)
        stk_h5.Pclose(dcpl);
    if (space >= 0)
        stk_h5.Sclose(space);
    return rc;
}

static void shift(uint64_t *dim, unsigned rank)
{
    memmove(dim + 1, dim, rank * sizeof *dim);
    dim[0] = 1;
}

int stk_h5_store_wrap(struct stk_h5_store *s, struct stk_err *err)
{
    if (s->rank >= STK_H5_MAX_RANK)
        return refuse(s, err, "it has too many dimensions");
    shift(s->dim, s->rank);
    shift(s->block_dim, s->rank);
    shift(s->grid.dim, s->rank);
    shift(s->grid.max, s->rank);
    s->grid.rank = ++s->rank;
    return 0;
}

int stk_h5_store_flatten(struct stk_h5_store *s, struct stk_err *err)
{
    unsigned drop = s->rank == 2 && s->dim[0] == 1 ? 0 : 1;
    if (s->rank != 2 || s->dim[drop] != 1 || s->block_dim[drop] != 1)
        return refuse(s, err, "its chunks are larger than the dataset");
    s->dim[0] = s->dim[1 - drop];
    s->block_dim[0] = s->block_dim[1 - drop];
    s->grid.dim[0] = s->grid.dim[1 - drop];
    s->grid.max[0] = s->grid.max[1 - drop];
    s->grid.rank = --s->rank;
    return 0;
}

void stk_h5_store_release(struct stk_h5_store *s)
{
    free(s->block);
    stk_buf_release(&s->stored);
    stk_buf_release(&s->decoded);
    stk_buf_release(&s->scratch);
    *s = (struct stk_h5_store){0};
}

int64_t stk_h5_store_list(struct stk_h5_store *s, struct stk_lister *l, struct stk_err *err)
{
    int64_t first = -1;
    /* A dataset without blocks (a ragged column of empty values) still needs an extent to refer
     * to. */
    uint64_t n = s->grid.nchunks ? s->grid.nchunks : 1;
    for (uint64_t i = 0; i < n; i++) {
        const struct stk_h5_chunk *b = &s->block[i];
        struct stk_chain c;
        bool filtered = s->grid.nchunks && block_chain(s, b, &c);
        int64_t number = stk_list_extent(l, b->addr, b->size, filtered ? &c : NULL, err);
        if (number < 0)
            return number;
        first = first < 0 ? number : first;
    }
    return first;
}

/* ---- reading while listing ---- */

static int decode_block(struct stk_h5_store *s, uint64_t number, const struct stk_chain *c,
                        struct stk_err *err)
{
    const struct stk_h5_chunk *b = &s->block[number];
    if (s->decoded_valid && s->decoded_block == number)
        return 0;
    s->decoded_valid = false;
    if (b->size > MAX_STORED)
        return refuse(s, err, "its chunks are too large");
    stk_buf_reset(&s->stored);
    for (uint64_t at = 0; at < b->size;) {
        const uint8_t *p;
        size_t got = 0, n = b->size - at < STK_PEEK_MAX ? (size_t)(b->size - at) : STK_PEEK_MAX;
        int rc = stk_src_peek(s->file->src, b->addr + at, n, &p, &got, err);
        if (rc < 0)
            return rc;
        if (got < n)
            return damaged(s, b->addr, "the file ends inside a chunk", err);
        stk_buf_put(&s->stored, p, n);
        at += n;
    }
    int rc = stk_buf_check(&s->stored, err);
    if (rc == 0)
        rc = stk_filter_decode(c, s->stored.data, s->stored.len, &s->decoded, &s->scratch,
                               stk_src_path(s->file->src), b->addr, err);
    s->decoded_block = number;
    s->decoded_valid = rc == 0;
    return rc;
}

static int read_piece(struct stk_h5_store *s, uint64_t number, uint64_t off, uint8_t *out, size_t n,
                      struct stk_err *err)
{
    const struct stk_h5_chunk *b = &s->block[number];
    struct stk_chain c;
    if (!b->addr) {
        memset(out, 0, n);
        return 0;
    }
    if (block_chain(s, b, &c)) {
        int rc = decode_block(s, number, &c, err);
        if (rc < 0)
            return rc;
        if (s->decoded.len < off || s->decoded.len - off < n)
            return damaged(s, b->addr, "a chunk is smaller than it should be", err);
        memcpy(out, s->decoded.data + off, n);
        return 0;
    }
    const uint8_t *p;
    size_t got = 0;
    int rc = stk_src_peek(s->file->src, b->addr + off, n, &p, &got, err);
    if (rc == 0 && got < n)
        rc = damaged(s, b->addr + off, "the file ends inside it", err);
    if (rc == 0)
        memcpy(out, p, n);
    return rc;
}

int stk_h5_store_read(void *store, uint64_t off, void *out, size_t n, struct stk_err *err)
{
    struct stk_h5_store *s = store;
    uint8_t *to = out;
    while (n) {
        uint64_t number = off / s->block_bytes, within = off % s->block_bytes;
        size_t step = s->block_bytes - within < n ? (size_t)(s->block_bytes - within) : n;
        step = step < STK_PEEK_MAX ? step : STK_PEEK_MAX;
        if (number >= s->grid.nchunks)
            return damaged(s, 0, "it is shorter than it should be", err);
        int rc = read_piece(s, number, within, to, step, err);
        if (rc < 0)
            return rc;
        off += step;
        to += step;
        n -= step;
    }
    return 0;
}

#else
typedef int stk_no_hdf5_store; /* a file must declare something */
#endif
