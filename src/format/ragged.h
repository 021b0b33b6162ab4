/*
 * ragged.h - what the formats made of arrays (NPZ, HDF5) share: tables of columns.
 *
 * Writing: takes the schema from the first sample, and checks every sample against it. Reading:
 * which arrays of a file are columns of its samples, and the listing of tables that need more than
 * stk_list_column() (keys, ragged columns). A ragged column X is two arrays: X (uint8, all values
 * concatenated) and X.offsets (uint64, n + 1): value k is X[offsets[k]:offsets[k+1]].
 */
#ifndef STK_FORMAT_RAGGED_H
#define STK_FORMAT_RAGGED_H

#include "format/format.h"
#include "format/sample.h"

#define STK_RAGGED_OFFSETS ".offsets"
/* The kind of a ragged column's bytes, "text" or "json"; absent for plain bytes. An attribute of X
 * in HDF5; in NPZ, a zero-dimensional array of fixed-size string `X.kind`. */
#define STK_RAGGED_KIND "kind"

/* "text", "json" or NULL (bytes), and back (BYTES if unknown). */
const char *stk_ragged_kind_name(uint8_t kind);
uint8_t stk_ragged_kind_find(const char *name, size_t len);

/* ---- writing ------------------------------------------------------------------------------- */

struct stk_schema_column {
    char *name; /* terminated; a safe relative path (stk_key_is_safe_path) */
    size_t name_len;
    bool ragged;         /* BYTES, TEXT, JSON and the key; else ARRAY */
    uint8_t kind, dtype; /* dtype: ARRAY */
    uint8_t ndim;        /* of one sample's value */
    uint64_t dim[STK_MAX_NDIM];
    size_t row_bytes; /* ARRAY: bytes of one sample's value, never 0 */
};

/* Columns are in the order of the first sample's fields, after the key. */
struct stk_schema {
    struct stk_schema_column *column;
    size_t ncolumns;
    bool has_key; /* column[0] is "key"; not when the first sample has none */
};

/* One sample's value in a column. Borrowed from the encoded bytes. */
struct stk_cell {
    const uint8_t *data;
    size_t size;
};

/* For prepare(): takes the schema from the first sample, or refuses with the reason (lists, names
 * that are not safe paths or collide). format: its title, for messages; folders: a `/` in a name
 * makes a group, which cannot also be an array. Caller frees. */
int stk_schema_new(const struct stk_sample *first, const char *format, bool folders,
                   struct stk_schema **out, struct stk_err *err);
void stk_schema_free(struct stk_schema *sc); /* NULL is fine */
/* For encode(): appends the sample's cells in a private form, or refuses a sample that does not
 * fit. Numbers of another type fit if no value changes (3 in a float64 column). */
int stk_schema_encode(const struct stk_schema *sc, const struct stk_sample *s, struct stk_buf *out,
                      struct stk_err *err);
/* For append(): reads one sample's cells back, ncolumns of them; *used: bytes of p consumed. */
int stk_schema_decode(const struct stk_schema *sc, const uint8_t *p, size_t n,
                      struct stk_cell *cell, size_t *used, struct stk_err *err);

/* ---- reading: which arrays are columns ------------------------------------------------------ */

/* One array of a file. The caller fills the upper half, stk_table_choose() the lower. */
struct stk_table_array {
    const char *name;
    size_t name_len;
    uint8_t kind, dtype; /* ARRAY, or what an element is (BYTES, TEXT) */
    unsigned ndim;       /* of the whole array, including the sample axis */
    uint64_t dim[STK_MAX_NDIM + 1];
    uint64_t bytes; /* of the whole array: breaks ties */
    uint64_t other; /* not 0: samples may also be along another axis, of this length (MATLAB) */

    bool skip;   /* set by the caller or stk_table_split(): no vote, no column, not reported */
    bool column; /* a field of every sample (false for X.offsets: X is the field) */
    bool is_key; /* holds the samples' keys, not a field */
    size_t pair; /* ragged X: the number of its X.offsets; else SIZE_MAX */
};

/* The rule: arrays vote with their first dimension (ragged pairs with offsets - 1). Of the lengths
 * whose arrays have the most elements, the one with the most votes wins, then the one with more
 * bytes, then the longer. Arrays of that length are columns, the others are metadata. Returns the
 * number of samples; 0: no array has a first dimension. */
uint64_t stk_table_choose(struct stk_table_array *a, size_t n);
/* The same for a known number of samples. */
void stk_table_choose_rows(struct stk_table_array *a, size_t n, uint64_t count);
/* Before that: takes one of several splits in a file (train/x and test/x, x_train and x_test),
 * skips the others, and reports it. */
int stk_table_split(struct stk_lister *l, struct stk_table_array *a, size_t n, struct stk_err *err);
/* After that: reports the arrays that are not columns and, if there was a vote, what a sample was
 * taken as. kind: the word for an array ("dataset"). */
int stk_table_report(struct stk_lister *l, const struct stk_table_array *a, size_t n,
                     const char *kind, bool voted, struct stk_err *err);

/* ---- reading: listing a table --------------------------------------------------------------- */

/* Reads bytes [off, off + n) of an array's data (decoded, C order) while listing. */
typedef int stk_table_read_fn(void *user, uint64_t off, void *out, size_t n, struct stk_err *err);

#define STK_TABLE_WINDOW 8192 /* offsets read at a time */

struct stk_table_column {
    struct stk_field_spec spec;
    enum { STK_TABLE_UNIFORM, STK_TABLE_RAGGED, STK_TABLE_OTHER } how;
    bool is_key; /* RAGGED or OTHER only */

    /* UNIFORM: as in format.h, except for the field's number. RAGGED: byte b of X is at base + b %
     * per_extent of extent first_extent + b / per_extent; stride and length unused. first_extent
     * must exist even if X is empty. */
    struct stk_stripe place;

    /* RAGGED */
    uint64_t data_bytes;             /* of X */
    stk_table_read_fn *read_offsets; /* X.offsets as little-endian uint64 */
    void *read_offsets_user;
    stk_table_read_fn *read_data; /* X; needed only for the key */
    void *read_data_user;

    /* OTHER: locate() is called before the sample begins: 0 found, 1 not found (already reported:
     * the sample is left out), negative to stop. Then parts() lists the row's parts of `field`, or
     * key() returns the key. UNIFORM columns may set locate, too. */
    int (*locate)(void *user, struct stk_lister *l, uint64_t row, struct stk_err *err);
    int (*parts)(void *user, struct stk_lister *l, int field, uint64_t row, struct stk_err *err);
    int (*key)(void *user, uint64_t row, const char **key, size_t *len, struct stk_err *err);
    void *user;

    /* Private: the window of offsets. */
    uint64_t window_first, window_len;
    uint64_t *window;
};

/* Lists `count` samples: with stk_list_column() if every column but the key is UNIFORM without
 * locate, else one by one with parts. Damaged offsets are reported with stk_list_problem() and the sample left out.
 * path is for messages. Frees the columns' windows also on error. */
int stk_table_list(struct stk_lister *l, struct stk_table_column *column, size_t ncolumns,
                   uint64_t count, const char *path, struct stk_err *err);

#endif
