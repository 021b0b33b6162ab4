/*
 * hdf5.h - what the files of the HDF5 format share: a dataset's type, and where its bytes are.
 *
 * Only for hdf5*.c. All of it runs in the child process that lists a file (jail.h).
 */
#ifndef STK_FORMAT_HDF5_HDF5_H
#define STK_FORMAT_HDF5_HDF5_H

#include "format/hdf5/lib.h"
#include "format/hdf5/raw.h"
#include "format/ragged.h"
#include "format/codec/codec.h"
#include "format/format.h"

/* ---- types ---- */

enum stk_h5_what {
    STK_H5_NUMBERS,  /* an array of numbers */
    STK_H5_STRING,   /* fixed size, padded */
    STK_H5_VARIABLE, /* bytes or a string in the global heap */
    STK_H5_OPAQUE,   /* bytes of fixed size: opaque, and compounds if there is nothing else */
    STK_H5_REFUSED,  /* see why */
};

struct stk_h5_type {
    enum stk_h5_what what;
    bool compound; /* OPAQUE: a compound */
    bool complex;  /* NUMBERS: the last axis is real and imaginary part */
    uint8_t dtype; /* NUMBERS: enum stk_dtype */
    bool big_endian;
    bool is_string; /* STRING, and VARIABLE that is not mere bytes */
    bool utf8;      /* strings: said to be UTF-8 */
    int padding;    /* STRING: H5T_str_t */
    size_t size;    /* bytes per element in the file */
    unsigned ndims; /* NUMBERS: axes the element itself has (array types) */
    uint64_t dim[STK_MAX_NDIM];
    char why[160];
};

/* The text of an attribute, of either kind of string, cut to n. False: there is none. */
bool stk_h5_text_attribute(hid_t object, const char *name, char *to, size_t n);

/* Describes a dataset's type; never fails, but may say REFUSED. */
void stk_h5_describe_type(hid_t type, unsigned addr_size, struct stk_h5_type *out);

/* ---- storage: a grid of blocks, each stored in one piece ---- */

struct stk_h5_store {
    const struct stk_h5_file *file;
    const char *name; /* of the dataset, for messages; borrowed */
    unsigned rank;
    uint64_t dim[STK_H5_MAX_RANK];
    uint64_t block_dim[STK_H5_MAX_RANK]; /* elements; contiguous data is one block, or a few */
    size_t element;                      /* bytes */
    bool chunked;                        /* every block is whole in the file, also the last */
    uint64_t block_bytes;                /* decoded */
    struct stk_h5_grid grid;
    struct stk_h5_chunk *block; /* grid.nchunks of them; addr 0: a hole, reads as zeros */
    bool has_holes;
    /* The pipeline in the order data went through when it was written. */
    unsigned nfilters;
    struct {
        uint16_t id, arg; /* enum stk_filter_id; 0: does nothing */
    } filter[STK_CHAIN_MAX];
    uint16_t swap; /* big-endian: bytes per element, else 0 */
    /* The block read last, decoded; for stk_h5_store_read. */
    uint64_t decoded_block;
    bool decoded_valid;
    struct stk_buf stored, decoded, scratch;
};

/* Finds the storage of dataset ds. STK_E_UNSUPPORTED with the reason if it cannot be read without
 * libhdf5. Release with stk_h5_store_release(), also on error. */
int stk_h5_store_init(struct stk_h5_store *s, const struct stk_h5_file *f, hid_t ds,
                      const char *name, const struct stk_h5_type *type, struct stk_err *err);
/* Makes the whole dataset one row: adds a first axis of 1. */
int stk_h5_store_wrap(struct stk_h5_store *s, struct stk_err *err);
/* Makes an array of shape (n, 1) or (1, n) a list. */
int stk_h5_store_flatten(struct stk_h5_store *s, struct stk_err *err);
void stk_h5_store_release(struct stk_h5_store *s);
/* Lists every block as an extent. Returns the number of the first. */
int64_t stk_h5_store_list(struct stk_h5_store *s, struct stk_lister *l, struct stk_err *err);
/* Bytes [off, off + n) of a one-dimensional dataset, decoded. A stk_table_read_fn. */
int stk_h5_store_read(void *store, uint64_t off, void *out, size_t n, struct stk_err *err);

/* The cause libhdf5 gives for its last failure, as an error about the file. */
int stk_h5_failed(const char *path, const char *doing, struct stk_err *err);

/* ---- packed numbers -------------------------------------------------------------------------- */

/* Numbers stored packed, as the attributes of netCDF describe; for format/hdf5 only. */

struct stk_h5_packing {
    bool packed;     /* false: the stored numbers are the values */
    bool limited;    /* values may be out of their valid range */
    uint8_t dtype;   /* of the values */
    struct stk_scaled how; /* packed: all but its name and tile */
};

/* Reads the attributes. STK_E_UNSUPPORTED with the reason: they cannot be applied. */
int stk_h5_packing(hid_t ds, const struct stk_h5_type *type, struct stk_h5_packing *out,
                   struct stk_err *err);
/* Makes a column of numbers one of values: sets its type and codec, whose name goes to `codec`. */
int stk_h5_unpack(const struct stk_h5_packing *p, struct stk_lister *l, struct stk_field_spec *spec,
                  char codec[16], struct stk_err *err);

/* ---- columns --------------------------------------------------------------------------------- */

/* A dataset of an HDF5 file as a column of samples; for hdf5.c, format/hdf5/rows.c and
 * format/hdf5/text.c only. Like all of hdf5.h, it runs in the child process that lists a file. */

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

/* ---- families -------------------------------------------------------------------------------- */

/* Datasets of which each is one sample; for hdf5.c and format/hdf5/family.c only. */

#define STK_H5_MAX_COLUMNS 1024u /* of one table */

struct stk_h5_family {
    char *name;     /* of the field */
    size_t *member; /* numbers of the datasets, in the order of the numbers in their names */
    uint64_t *number;
    size_t n;
    bool varies; /* of several shapes */
};

struct stk_h5_families {
    struct stk_h5_family *item; /* all of the same numbers */
    size_t n;
};

/* Finds them; none where the file is a table. Release also on error. */
int stk_h5_families(const struct stk_h5_dataset *set, const struct stk_table_array *a, size_t n,
                    struct stk_h5_families *fs, struct stk_err *err);
void stk_h5_families_release(struct stk_h5_families *fs);

/* A family being listed. The caller fills the upper half and releases `column`. */
struct stk_h5_family_column {
    const struct stk_h5_file *file;
    const struct stk_h5_dataset *set;
    const struct stk_h5_family *family;
    hid_t h5;

    struct stk_h5_column column;  /* the dataset looked at */
    struct stk_table_column cell; /* its one row */
    char codec[16], first_codec[16];
};

/* 1: no dataset of it can be read (each was reported). */
int stk_h5_family_start(struct stk_h5_family_column *f, struct stk_lister *l,
                        struct stk_table_column *out, struct stk_err *err);
/* The numbers in the names are the samples' keys. */
void stk_h5_family_key(struct stk_h5_family_column *f, struct stk_table_column *out);

/* ---- writing --------------------------------------------------------------------------------- */

int stk_hdf5_prepare(struct stk_write_config *cfg, struct stk_err *err);
void stk_hdf5_unprepare(struct stk_write_config *cfg);
int stk_hdf5_encode(const struct stk_write_config *cfg, const struct stk_sample *s,
                    struct stk_buf *out, struct stk_err *err);
int stk_hdf5_begin(const struct stk_write_config *cfg, struct stk_out *o, struct stk_err *err);
int stk_hdf5_append(const struct stk_write_config *cfg, struct stk_out *o, const uint8_t *bytes,
                    size_t len, uint64_t nsamples, struct stk_err *err);
int stk_hdf5_finish(const struct stk_write_config *cfg, struct stk_out *o, struct stk_err *err);
void stk_hdf5_abort(const struct stk_write_config *cfg, struct stk_out *o);

#endif
