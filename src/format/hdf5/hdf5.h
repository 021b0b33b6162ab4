/*
 * hdf5.h - what the files of the HDF5 format share: a dataset's type, and where its bytes are.
 *
 * Only for hdf5*.c. All of it runs in the child process that lists a file (jail.h).
 */
#ifndef STK_FORMAT_HDF5_HDF5_H
#define STK_FORMAT_HDF5_HDF5_H

#include "format/hdf5/lib.h"
#include "format/hdf5/raw.h"

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

#endif
