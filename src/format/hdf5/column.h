/*
 * column.h - a dataset of an HDF5 file as a column of samples; for hdf5.c, format/hdf5/rows.c and
 * format/hdf5/text.c only. Like all of hdf5.h, it runs in the child process that lists a file.
 */
#ifndef STK_FORMAT_HDF5_COLUMN_H
#define STK_FORMAT_HDF5_COLUMN_H

#include "format/hdf5/hdf5.h"
#include "format/hdf5/packing.h"
#include "format/ragged.h"

struct stk_h5_dataset {
    char *name; /* of the field */
    char *path; /* of the dataset; if that has compounds, this is a member */
    struct stk_h5_type type;
    unsigned rank;
    uint64_t dim[STK_H5_MAX_RANK];
    bool matlab;      /* of a MAT-file: its first dimension is the last one here */
    bool flat;        /* of two dimensions, one of which is 1: read as a list */
    bool turned;      /* samples are along the last axis */
    size_t at, whole; /* member: its offset in the compound, and the compound's size; else 0 */
};

/* All datasets of a file, under all their names. Caller frees with stk_h5_forget(), also on error.
 * left: why one was left out, if any was. */
int stk_h5_find(struct stk_h5_file *f, struct stk_lister *l, hid_t h5, struct stk_h5_dataset **set,
                size_t *n, char *left, size_t left_size, struct stk_err *err);
void stk_h5_forget(struct stk_h5_dataset *set, size_t n);

/* A column that is more than uniform slices: strings, and values in the global heap. */
struct stk_h5_column {
    struct stk_h5_store store, offsets; /* offsets: of a ragged pair */
    struct stk_h5_heap heap;
    const struct stk_h5_dataset *set;
    int64_t first_extent, empty_extent; /* empty: of zero bytes, for empty values */
    uint64_t at, len;                   /* the value located last: in the file, or in its row */
    char *bytes;                        /* a row, or a key */
    struct stk_h5_packing packing;
    char codec[16];                     /* of rows in tiles, or of packed numbers */
    bool is_key;
    bool no_tiles; /* do not use the codec that assembles tiles */
    bool quiet;    /* only examining: problems are reported when the sample is listed */
};

void stk_h5_column_release(struct stk_h5_column *c);

/* Both fill `out` for a column whose store is known; out->user borrows c. */

/* Numbers and opaque bytes: a sample is a row. STK_E_UNSUPPORTED when chunks cut it too finely. */
int stk_h5_rows_column(struct stk_h5_column *c, struct stk_lister *l, struct stk_table_column *out,
                       struct stk_err *err);
/* Strings, and bytes of variable length; `count` of them. */
int stk_h5_text_column(struct stk_h5_column *c, struct stk_lister *l, uint64_t count,
                       struct stk_table_column *out, struct stk_err *err);

#endif
