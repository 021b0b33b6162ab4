/*
 * npyhead.h - the header of a .npy file, parsed and written, with its length bounded.
 *
 * Reads no files and allocates no memory: callers supply the first bytes. Used by the formats NPY
 * and NPZ and by the codec for .npy members.
 */
#ifndef STK_FORMAT_NUMPY_NPYHEAD_H
#define STK_FORMAT_NUMPY_NPYHEAD_H

#include "base/buf.h"
#include "format/format.h"

/* Longest header text accepted. NumPy itself refuses more than 10,000 characters; a longer one is a
 * structured type or an attack. */
#define STK_NPY_TEXT_MAX 65535u
/* Bytes from the start of the file that always hold the whole header (magic, version, length). */
#define STK_NPY_HEAD_MAX (12u + STK_NPY_TEXT_MAX)

struct stk_npy_head {
    uint8_t dtype; /* enum stk_dtype; 0 for fixed-width strings */
    char chars;    /* 0, or for strings: 'S' (bytes, NUL-padded) or 'U' (UTF-32) */
    bool swap;     /* big-endian elements of more than one byte */
    bool complex;  /* the last axis, of 2, is real and imaginary part */
    bool fortran;  /* first index varies fastest; never set if it makes no difference */
    uint8_t ndim;  /* 0: a scalar */
    uint64_t dim[STK_MAX_NDIM];
    uint64_t itemsize;    /* bytes per element */
    uint64_t count;       /* elements: product of dim, 1 for a scalar */
    uint64_t data_bytes;  /* count * itemsize; at most INT64_MAX, and so is every partial product
                           * of dim and itemsize, also where a dim is 0 (a file of
                           * 128 bytes may so claim 2^60 empty rows: limit those) */
    uint64_t data_offset; /* where the elements start */
};

/* A member of an array of structures. */
struct stk_npy_member {
    const char *name; /* Borrowed from the header. */
    size_t name_len;
    struct stk_npy_head h; /* as if it were a separate array: the same rows, its own axes */
    uint64_t at;           /* offset in a structure */
    char why[96];          /* why it cannot be read, else "" */
};
#define STK_NPY_MEMBERS 256

struct stk_npy_records {
    struct stk_npy_member member[STK_NPY_MEMBERS];
    size_t n;
};

/* The same for a list of structures, which stk_npy_parse() refuses: h->itemsize is the size of
 * one. */
int stk_npy_parse_records(const uint8_t *p, size_t n, struct stk_npy_head *h,
                          struct stk_npy_records *r, struct stk_err *err);

/* How a row becomes a field: kind, codec (NULL: none), and the bytes to swap if it is
 * big-endian. */
uint8_t stk_npy_kind(const struct stk_npy_head *h);
const char *stk_npy_codec(const struct stk_npy_head *h);
uint16_t stk_npy_unit(const struct stk_npy_head *h);
/* The note on complex numbers: as, because. */
#define STK_NPY_PAIRS "pairs of numbers, real and imaginary part", "samples have no complex numbers"

/* Parses the header at the start of p[0..n); n need not reach the data, and more than
 * STK_NPY_HEAD_MAX is never read. STK_E_CORRUPT: no header, or a damaged or absurd one;
 * STK_E_UNSUPPORTED: a valid one of a type we refuse (objects, structures, dates, more than
 * STK_MAX_NDIM dimensions). err->offset is then the byte in p, err->path is empty, and err->what
 * does not say that it is about a header. */
int stk_npy_parse(const uint8_t *p, size_t n, struct stk_npy_head *h, struct stk_err *err);

/* Appends the header numpy.save writes for a C-ordered array: version 1, data at a multiple of 64.
 * Its length does not depend on dim[0], so that a row count known last can be patched in. */
void stk_npy_write_head(struct stk_buf *out, enum stk_dtype dtype, unsigned ndim,
                        const uint64_t *dim);

/* Copies h->data_bytes bytes of elements from src to dst, in C order and little-endian (not
 * overlapping). */
void stk_npy_normalise(const struct stk_npy_head *h, const uint8_t *src, uint8_t *dst);

/* ---- NPZ ------------------------------------------------------------------------------------- */

/* The largest deflated member we write: earlier versions decode all of it for any row. */
#define STK_NPZ_DEFLATED_MAX (1ull << 30)

int stk_npz_prepare(struct stk_write_config *cfg, struct stk_err *err);
void stk_npz_unprepare(struct stk_write_config *cfg);
int stk_npz_encode(const struct stk_write_config *cfg, const struct stk_sample *s,
                   struct stk_buf *out, struct stk_err *err);
int stk_npz_begin(const struct stk_write_config *cfg, struct stk_out *o, struct stk_err *err);
int stk_npz_append(const struct stk_write_config *cfg, struct stk_out *o, const uint8_t *bytes,
                   size_t len, uint64_t nsamples, struct stk_err *err);
int stk_npz_finish(const struct stk_write_config *cfg, struct stk_out *o, struct stk_err *err);
void stk_npz_abort(const struct stk_write_config *cfg, struct stk_out *o);

#endif
