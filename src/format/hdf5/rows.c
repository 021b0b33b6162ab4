/*
 * rows.c - HDF5 datasets of numbers and opaque bytes: sample k is row k. Whole in one block,
 * cut along one axis into pieces, or along several into tiles.
 */
#ifdef STK_HAVE_HDF5
#include "format/hdf5/hdf5.h"

#include <stdio.h>

#define MAX_PARTS 4096u  /* per sample; if chunks cut rows into more, it is refused */
#define MAX_TILES 16384u /* per sample, if a codec assembles them */

static uint64_t product(const uint64_t *dim, unsigned from, unsigned to)
{
    uint64_t n = 1;
    for (unsigned i = from; i < to; i++)
        n *= dim[i]; /* cannot overflow: the dataset's bytes were counted before */
    return n;
}

/* True when a row of the dataset is one piece of a block. */
static bool rows_are_whole(const struct stk_h5_store *s)
{
    for (unsigned i = 1; i < s->rank; i++)
        if (i == 1 ? s->block_dim[i] < s->dim[i] : s->block_dim[i] != s->dim[i])
            return false;
    return true;
}

/*
 * A row cut by the chunk grid: it goes along axis `cut` in steps of the chunk; all later axes are
 * whole in every chunk.
 */
static unsigned cut_axis(const struct stk_h5_store *s)
{
    unsigned cut = s->rank - 1;
    while (cut > 1 && s->block_dim[cut] == s->dim[cut])
        cut--;
    return cut;
}

static uint64_t pieces_of_row(const struct stk_h5_store *s)
{
    unsigned cut = cut_axis(s);
    uint64_t n = s->grid.dim[cut];
    for (unsigned i = 1; i < cut; i++)
        if (__builtin_mul_overflow(n, s->dim[i], &n))
            return UINT64_MAX;
    return n;
}

/* Lists the pieces of one row in the order of its elements. */
static int list_pieces(void *user, struct stk_lister *l, int field, uint64_t row,
                       struct stk_err *err)
{
    const struct stk_h5_column *c = user;
    const struct stk_h5_store *s = &c->store;
    unsigned cut = cut_axis(s);
    uint64_t inner = s->element * product(s->dim, cut + 1, s->rank);
    uint64_t coord[STK_H5_MAX_RANK] = {row};
    uint64_t n = pieces_of_row(s);
    int rc = 0;
    for (uint64_t k = 0; rc == 0 && k < n; k++) {
        uint64_t number = 0, within = 0;
        for (unsigned i = 0; i < s->rank; i++) {
            uint64_t block = coord[i] / s->block_dim[i];
            number = number * s->grid.dim[i] + block;
            within = within * s->block_dim[i] + coord[i] % s->block_dim[i];
        }
        uint64_t left = s->dim[cut] - coord[cut];
        uint64_t run = left < s->block_dim[cut] ? left : s->block_dim[cut];
        rc = stk_list_part(l, field, c->first_extent + (int64_t)number, within * s->element,
                           run * inner, err);
        coord[cut] += run;
        for (unsigned i = cut; i > 1 && coord[i] >= s->dim[i]; i--) {
            coord[i] = 0;
            coord[i - 1]++;
        }
    }
    return rc;
}

/* ---- samples along the last axis (MATLAB) ---- */

#define MAX_TURNED (16u << 20) /* elements of all samples: each takes 16 bytes in the index */

/* The elements of a sample, in MATLAB's order of the dimensions: the axis before the last is the
 * first. */
static int list_turned(void *user, struct stk_lister *l, int field, uint64_t row,
                       struct stk_err *err)
{
    const struct stk_h5_column *c = user;
    const struct stk_h5_store *s = &c->store;
    uint64_t coord[STK_H5_MAX_RANK] = {0}, n = product(s->dim, 0, s->rank - 1);
    int rc = 0;
    coord[s->rank - 1] = row;
    for (uint64_t k = 0; rc == 0 && k < n; k++) {
        uint64_t number = 0, within = 0;
        for (unsigned i = 0; i < s->rank; i++) {
            number = number * s->grid.dim[i] + coord[i] / s->block_dim[i];
            within = within * s->block_dim[i] + coord[i] % s->block_dim[i];
        }
        rc = stk_list_part(l, field, c->first_extent + (int64_t)number, within * s->element,
                           s->element, err);
        for (unsigned i = 0; i + 1 < s->rank && ++coord[i] == s->dim[i]; i++)
            coord[i] = 0;
    }
    return rc;
}

static int turned_column(struct stk_h5_column *c, struct stk_table_column *out, struct stk_err *err)
{
    const struct stk_h5_store *s = &c->store;
    uint64_t parts = product(s->dim, 0, s->rank - 1);
    if (parts > MAX_PARTS || parts * s->dim[s->rank - 1] > MAX_TURNED)
        return stk_err_set(err, STK_E_UNSUPPORTED, stk_src_path(s->file->src), -1,
                           "dataset '%.200s': MATLAB stores the %llu numbers of a sample apart; "
                           "save it with the samples as the last dimension (permute)",
                           s->name, (unsigned long long)parts);
    for (unsigned i = 0; i + 1 < s->rank; i++)
        out->spec.dim[i] = s->dim[s->rank - 2 - i];
    out->how = STK_TABLE_OTHER;
    out->parts = list_turned;
    out->user = c;
    return 0;
}

/* Rows cut along several axes: all tiles of a row, assembled by a codec whose name holds their
 * shape. False: the shape does not fit in the name. */
static bool tiled_column(struct stk_h5_column *c, struct stk_table_column *out)
{
    const struct stk_h5_store *s = &c->store;
    const struct stk_h5_type *type = &c->set->type;
    size_t at = (size_t)snprintf(c->codec, sizeof c->codec, "tile");
    for (unsigned i = 1; i < s->rank + type->ndims; i++) {
        uint64_t n = i < s->rank ? s->block_dim[i] : type->dim[i - s->rank];
        at += (size_t)snprintf(c->codec + at, sizeof c->codec - at, "%c%llu", i == 1 ? ':' : 'x',
                               (unsigned long long)n);
        if (at >= sizeof c->codec)
            return false;
    }
    if (type->what != STK_H5_NUMBERS || product(s->grid.dim, 1, s->rank) > MAX_TILES)
        return false;
    uint64_t bytes = s->element * product(s->block_dim, 1, s->rank);
    out->spec.codec = c->codec;
    out->how = STK_TABLE_UNIFORM;
    out->place = (struct stk_stripe){.first_extent = c->first_extent,
                                     .per_extent = s->block_dim[0],
                                     .stride = bytes,
                                     .length = bytes,
                                     .tiles = product(s->grid.dim, 1, s->rank)};
    return true;
}

static const char *codec_of_string(const struct stk_h5_type *t)
{
    return t->padding == H5T_STR_NULLTERM   ? "chars:Z"
           : t->padding == H5T_STR_SPACEPAD ? "chars:P"
                                            : "chars:S";
}

/* A member of a list of compounds: the same bytes of each. */
static int member_column(struct stk_h5_column *c, struct stk_table_column *out)
{
    const struct stk_h5_dataset *d = c->set;
    if (d->type.what == STK_H5_STRING) {
        out->spec.kind = d->type.utf8 ? STK_TEXT : STK_BYTES;
        out->spec.codec = codec_of_string(&d->type);
    }
    out->how = STK_TABLE_UNIFORM;
    out->place = (struct stk_stripe){.first_extent = c->first_extent,
                                     .per_extent = c->store.block_dim[0],
                                     .base = d->at,
                                     .stride = d->whole,
                                     .length = d->type.size};
    return 0;
}

/* Rows of single characters are strings (netCDF). */
static int char_column(struct stk_h5_column *c, struct stk_table_column *out)
{
    out->spec.kind = STK_TEXT;
    out->spec.codec = codec_of_string(&c->set->type);
    return 0;
}

/* Where the bytes of a row are, and how to arrange them. */
static int place_rows(struct stk_h5_column *c, struct stk_table_column *out, struct stk_err *err)
{
    const struct stk_h5_store *s = &c->store;
    const struct stk_h5_type *type = &c->set->type;
    out->spec.kind = type->what == STK_H5_NUMBERS ? STK_ARRAY : STK_BYTES;
    if (type->what == STK_H5_NUMBERS) {
        out->spec.dtype = type->dtype;
        out->spec.ndim = (uint8_t)(s->rank - 1 + type->ndims);
        for (unsigned i = 0; i < s->rank - 1; i++)
            out->spec.dim[i] = s->dim[i + 1];
        for (unsigned i = 0; i < type->ndims; i++)
            out->spec.dim[s->rank - 1 + i] = type->dim[i];
    }
    if (type->what == STK_H5_STRING && !c->set->whole)
        (void)char_column(c, out);
    if (c->set->whole)
        return member_column(c, out);
    if (c->set->turned)
        return turned_column(c, out, err);
    if (rows_are_whole(s)) {
        out->how = STK_TABLE_UNIFORM;
        out->place = (struct stk_stripe){.first_extent = c->first_extent,
                                         .per_extent = s->block_dim[0],
                                         .stride = s->element * product(s->block_dim, 1, s->rank),
                                         .length = s->element * product(s->dim, 1, s->rank)};
        return 0;
    }
    if (!c->no_tiles && tiled_column(c, out))
        return 0;
    if (pieces_of_row(s) > MAX_PARTS)
        return stk_err_set(err, STK_E_UNSUPPORTED, stk_src_path(s->file->src), -1,
                           "dataset '%.200s': its chunks cut a sample into %llu pieces; h5repack "
                           "-l CHUNK=... with chunks of whole samples makes a copy that is read",
                           s->name, (unsigned long long)pieces_of_row(s));
    out->how = STK_TABLE_OTHER;
    out->parts = list_pieces;
    out->user = c;
    return 0;
}

int stk_h5_rows_column(struct stk_h5_column *c, struct stk_lister *l, struct stk_table_column *out,
                       struct stk_err *err)
{
    int rc = place_rows(c, out, err);
    if (rc < 0 || out->spec.kind != STK_ARRAY || c->set->whole)
        return rc;
    return stk_h5_unpack(&c->packing, l, &out->spec, c->codec, err);
}
#endif
