/*
 * stoker.h - the public C API of libstoker, the whole of it.
 *
 * A dataset is a list of samples whatever its format; a sample is a key and named fields.
 * Functions return 0 or a negative STK_E_* code and fill `err` (last argument, may be NULL,
 * untouched on success). The library never prints, exits or aborts.
 */
#ifndef STOKER_H
#define STOKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define STK_API __attribute__((visibility("default")))

/* ---- errors ------------------------------------------------------------------------------ */

enum stk_code {
    STK_OK = 0,
    STK_E_SYS = -1,         /* a system call failed; sys_errno says how */
    STK_E_NOMEM = -2,       /* out of memory, or over the memory budget */
    STK_E_CORRUPT = -3,     /* the bytes of a dataset are wrong */
    STK_E_UNSUPPORTED = -4, /* refused: not built in, or cannot be expressed in that format */
    STK_E_USAGE = -5,       /* the caller asked for something that makes no sense */
    STK_E_EXISTS = -6,      /* the destination holds data that is not ours to replace */
    STK_E_STALE = -7,       /* an index or manifest no longer describes the files */
    STK_E_STOPPED = -8,     /* a callback or a signal asked to stop */
};

struct stk_err {
    int code;       /* enum stk_code */
    int sys_errno;  /* errno where code is STK_E_SYS, else 0 */
    int64_t offset; /* byte in `path` the error is about, -1 when it is about the whole file */
    char path[1024];
    char what[1024];
};

/* Renders "path:offset: what" (path and offset where known) into buf. Returns buf. */
STK_API const char *stk_err_text(const struct stk_err *err, char *buf, size_t size);

/* ---- values and samples ------------------------------------------------------------------ */

enum stk_kind {
    STK_BYTES = 1, /* opaque bytes: an encoded image, a file */
    STK_TEXT = 2,  /* UTF-8, no terminator */
    STK_JSON = 3,  /* UTF-8 that is one JSON value (objects, mixed or nested arrays, null) */
    STK_ARRAY = 4, /* dtype and shape; ndim 0 is a scalar; little-endian, C order */
    STK_LIST = 5,  /* a ragged list of values, each BYTES, TEXT, ARRAY or LIST */
};

enum stk_dtype {
    STK_U8 = 1,
    STK_I8,
    STK_U16,
    STK_I16,
    STK_U32,
    STK_I32,
    STK_U64,
    STK_I64,
    STK_F16,
    STK_F32,
    STK_F64,
    STK_BOOL,
};

#define STK_MAX_NDIM 8

struct stk_value {
    uint8_t kind;  /* enum stk_kind */
    uint8_t dtype; /* enum stk_dtype, ARRAY only */
    uint8_t ndim;  /* ARRAY only */
    uint64_t dim[STK_MAX_NDIM];
    const void *data; /* Borrowed: valid until the sample is reset. May be unaligned. */
    size_t size;      /* bytes at data */
    const struct stk_value *item; /* LIST only. Borrowed like data. */
    size_t nitems;
};

/* Reserved names: "data" (the payload when there is just one), "label" (ARRAY, I64 scalar).
 * Every other name comes from the dataset; names of classes stand in the manifest. */
struct stk_field {
    const char *name; /* Borrowed, not terminated. */
    size_t name_len;
    struct stk_value value;
};

struct stk_sample;

STK_API struct stk_sample *stk_sample_new(void); /* Caller frees with stk_sample_free(). */
STK_API void stk_sample_free(struct stk_sample *s);
STK_API const char *stk_sample_key(const struct stk_sample *s, size_t *len);
STK_API size_t stk_sample_nfields(const struct stk_sample *s);
/* Borrowed: valid until the sample is read again or freed. NULL when out of range. */
STK_API const struct stk_field *stk_sample_field(const struct stk_sample *s, size_t i);
/* Borrowed, NULL when the sample has no field of that name. */
STK_API const struct stk_value *stk_sample_get(const struct stk_sample *s, const char *name);

STK_API size_t stk_dtype_size(enum stk_dtype t);        /* bytes an element */
STK_API const char *stk_dtype_name(enum stk_dtype t);   /* "float32" */
STK_API const char *stk_kind_name(enum stk_kind k);     /* "bytes" */

/* ---- datasets ---------------------------------------------------------------------------- */

struct stk_dataset;

struct stk_open_options {
    const char *format;  /* NULL: found out from the name and the first bytes */
    const char *payload; /* what a record holds: NULL or "auto", "raw", "example", "sequence", … */
    const char *index;   /* NULL: beside the data, else in the cache directory */
    unsigned jobs;       /* threads for building the index; 0: one a core */
    bool no_index_write; /* build the index in memory-backed scratch, publish nothing */
    bool rebuild_index;  /* ignore an index that is there */
    bool group;          /* a folder's files of one stem (a.jpg, a.json) are one sample */
    /* Called now and then while an index is built; return non-zero to stop. May be NULL. */
    int (*progress)(void *user, uint64_t bytes_done, uint64_t bytes_total, uint64_t samples);
    void *user;
};

/* Opens a file or folder of any readable format; builds the index when there is none that fits.
 * opts may be NULL. Caller frees with stk_dataset_close(). */
STK_API int stk_dataset_open(const char *path, const struct stk_open_options *opts,
                             struct stk_dataset **out, struct stk_err *err);
STK_API void stk_dataset_close(struct stk_dataset *ds);
STK_API uint64_t stk_dataset_len(const struct stk_dataset *ds);
STK_API const char *stk_dataset_format(const struct stk_dataset *ds);
/* Reads sample i. Safe from several threads, each with its own stk_sample. */
STK_API int stk_dataset_read(struct stk_dataset *ds, uint64_t i, struct stk_sample *s,
                             struct stk_err *err);

STK_API const char *stk_version(void);

#ifdef __cplusplus
}
#endif
#endif
