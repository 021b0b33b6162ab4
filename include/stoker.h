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
    const char *header;  /* CSV, TSV: NULL or "auto", "yes", "no": the first row names the columns */
    const char *types;   /* CSV, TSV: "x=int,name=text"; NULL: found out over all rows */
    const char *split;   /* NULL: all; else the files whose names say that split ("train") */
    /* Called now and then while an index is built; return non-zero to stop. May be NULL. */
    int (*progress)(void *user, uint64_t bytes_done, uint64_t bytes_total, uint64_t samples);
    void *user;
    /* Open what is left of a damaged dataset, for a loader that passes over bad samples. */
    bool pass_over;
    /* CSV, TSV: what stands between cells, "comma", "semicolon", "tab" or "bar"; NULL or "auto":
     * found out. */
    const char *delimiter;
    /* Formats of several arrays (HDF5, NPZ): only those, names, groups or globs with commas between
     * ("train,label"). NULL: found out. No index is used or kept then. */
    const char *datasets;
    /* Follow links of a folder wherever they lead; else only those that stay beneath it. */
    bool follow_links;
    /* Users ("alice,1001", or "all") whose indexes and manifests are believed, too: not only those
     * of the caller, of root, and of the data's owner. */
    const char *trust;
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
/* Reads samples index[0] ... index[n - 1] into n different samples s[k], with as few reads as
 * bring all of them: faster than n calls. index may name a sample more than once. The samples share
 * the memory they were read to: it is freed when the last of them is read again or freed. Where one
 * cannot be read, those before it are there, it and the others are empty, and its error is
 * returned. Safe from several threads, each with its own samples. */
STK_API int stk_dataset_read_many(struct stk_dataset *ds, const uint64_t *index, size_t n,
                                  struct stk_sample *const *s, struct stk_err *err);

/* A dataset of samples index[0] ... index[n - 1] of ds, in that order; a sample may be named more
 * than once. No data is read or copied. Whatever takes a dataset takes the subset, which counts its
 * own samples from 0. The state of a loader belongs to the samples that the subset has, however it
 * was made. Classes keep their numbers. The subset stays valid when ds is closed. index is copied.
 * Safe from several threads. Caller frees *out with stk_dataset_close(). */
STK_API int stk_dataset_subset(struct stk_dataset *ds, const uint64_t *index, uint64_t n,
                               struct stk_dataset **out, struct stk_err *err);
/* The same for samples first, first + step, ...: n of them. step may be negative. Takes no memory
 * per sample, unless ds is a subset by a list. */
STK_API int stk_dataset_slice(struct stk_dataset *ds, uint64_t first, int64_t step, uint64_t n,
                              struct stk_dataset **out, struct stk_err *err);

/* What was not read although the data is sound, and what was taken for something by its looks. Notes
 * that say the same are one. */
struct stk_note {
    bool taken;              /* else it was left out */
    const char *kind;        /* "link", "dataset", "file", ...; taken: what ("sample", "label", ...) */
    const char *as;          /* taken: to be what; else "" */
    const char *why;         /* in words */
    uint64_t count;          /* how many were left out; taken: in how many files */
    const char *const *name; /* of the first of those left out */
    size_t nnames;
};

/* Borrowed, NULL past the last one. */
STK_API const struct stk_note *stk_dataset_note(const struct stk_dataset *ds, size_t i);

/* The classes labels count from 0 on, sorted; 0 when labels have no names. Borrowed. */
STK_API size_t stk_dataset_classes(struct stk_dataset *ds, const char *const **names);

/* ---- the loader: batches at the speed of the storage ------------------------------------- */

/*
 * A loader goes through a dataset epoch by epoch. Its own threads read ahead, check, decode and put
 * batches together; the caller takes them one by one. The order is a pure function of the seed, the
 * epoch and the shuffle settings: never of the number of ranks, threads, or the machine. Rank r of W
 * gets the r-th of W equal stretches of that order, and all ranks get the same number of batches.
 */
struct stk_loader;

enum stk_shuffle {
    STK_SHUFFLE_BLOCK = 0, /* blocks of neighbours permuted, then samples mixed in a window of them */
    STK_SHUFFLE_GLOBAL,    /* every sample can stand anywhere */
    STK_SHUFFLE_NONE,
};

/* What happens to an incomplete last batch. Whatever it is, every rank has as many batches. */
enum stk_last {
    STK_LAST_DROP = 0, /* left out */
    STK_LAST_PAD,      /* filled with samples seen before, flagged STK_REPEAT */
    STK_LAST_SHORT,    /* of what is left, as many on every rank: parts that are one shorter end with
                        * an STK_REPEAT */
};

/* What happens to a sample that cannot be read or decoded. */
enum stk_on_error {
    STK_ON_ERROR_STOP = 0, /* stk_loader_next() fails, in its place in the order */
    STK_ON_ERROR_SKIP,     /* the batch is filled up from the end of the rank's part */
    STK_ON_ERROR_REPLACE,  /* another sample, drawn by the seed, stands in; flagged STK_REPLACED */
};

struct stk_loader_options { /* all zero: the defaults */
    uint32_t batch;         /* samples a batch; 0: 32 */
    int shuffle;            /* enum stk_shuffle */
    int last;               /* enum stk_last */
    int on_error;           /* enum stk_on_error */
    uint64_t seed;
    uint64_t epoch;         /* the first one */
    uint64_t epochs;        /* how many; 0: not known, so none is read ahead of its first call */
    uint64_t block_bytes;   /* BLOCK: neighbours that stay together while reading; 0: 2 MiB */
    uint64_t window_bytes;  /* BLOCK: what samples are mixed in; 0: 64 MiB */
    uint32_t rank, world;   /* world 0: one rank */
    uint32_t threads;       /* that decode; 0: one a core */
    uint32_t depth;         /* reads in flight; 0: the engine's choice */
    uint64_t memory_bytes;  /* for reading ahead; 0: an eighth of what the job may use */
    uint64_t read_bytes;    /* largest read; 0: 4 MiB */
    const char *io;         /* the engine, by its name in `stoker load --help`; NULL: "auto" */
    /* NULL or "auto": fields as the format gives them; "raw": records as stored, not taken apart;
     * "image:WxH,…": JPEG and PNG to uint8 arrays, see docs/loader.md. */
    const char *decode;
    const char *const *fields; /* NULL: all; else the names wanted, NULL-terminated */
    const char *state;         /* NULL, or what stk_loader_state() gave: go on from there */
    bool keys;                 /* batches have the samples' keys */
    bool no_check;             /* trust the records: do not compare checksums */
    /* Memory for arrays, for callers that want it pinned or shared. NULL: the loader's own. */
    void *(*alloc)(void *user, size_t size);
    void (*free)(void *user, void *p, size_t size);
    void *user;
};

enum { STK_REPEAT = 1, STK_REPLACED = 2 }; /* flags of a sample in a batch */

struct stk_span {
    const void *data;
    size_t size;
};

enum stk_layout {
    STK_DENSE = 1, /* one array of n x dim[...]: `data` */
    STK_SPANS,     /* n byte strings: `span` */
    STK_VALUES,    /* n values of any kind and shape: `value`; kind 0: a sample lacks the field */
};

struct stk_column {
    const char *name; /* terminated */
    uint8_t layout;   /* enum stk_layout */
    uint8_t kind;     /* enum stk_kind; STK_VALUES: of the first that is there */
    uint8_t dtype, ndim; /* DENSE: of one sample */
    uint64_t dim[STK_MAX_NDIM];
    void *data;
    const struct stk_span *span;
    const struct stk_value *value;
};

struct stk_batch {
    uint64_t epoch, step; /* step: number of the batch in the epoch, from 0 */
    size_t n;
    const uint64_t *id;     /* which samples */
    const uint8_t *flags;   /* STK_REPEAT, STK_REPLACED */
    const struct stk_span *key; /* NULL unless asked for */
    size_t ncolumns; /* behind those of all batches: fields that only some later samples have */
    const struct stk_column *column;
};

/* The dataset must outlive the loader and every batch. opts may be NULL. Caller frees with
 * stk_loader_close(). */
STK_API int stk_loader_open(struct stk_dataset *ds, const struct stk_loader_options *opts,
                            struct stk_loader **out, struct stk_err *err);
/* Stops the threads. Batches still held stay valid until they are released. */
STK_API void stk_loader_close(struct stk_loader *ld);
/* The next batch: 1 and *out; 0 at the end of an epoch (the call after that begins the next one).
 * Everything in the batch is borrowed: valid until stk_batch_release(). One caller at a time. After
 * an error of STK_ON_ERROR_STOP the loader cannot go on; calls give the same error again. */
STK_API int stk_loader_next(struct stk_loader *ld, struct stk_batch **out, struct stk_err *err);
/* Waits until stk_loader_next() would not block; 0: not within timeout_ms. */
STK_API int stk_loader_wait(struct stk_loader *ld, int timeout_ms);
/* From any thread, in any order, also after stk_loader_close(). */
STK_API void stk_batch_release(struct stk_batch *b);
/* Batches of this epoch, those taken included; of an epoch gone on with, from there on. */
STK_API uint64_t stk_loader_steps(const struct stk_loader *ld);
/* Where the caller is, as a short JSON text, to go on from later: with any number of ranks, any
 * batch size. malloc'ed. Caller frees with free(). In a forked child too, unless a thread was in
 * stk_loader_next() when it forked. */
STK_API int stk_loader_state(const struct stk_loader *ld, char **out, struct stk_err *err);

struct stk_loader_stats {
    uint64_t samples, batches, repeats, replaced, skipped, corrupt;
    uint64_t bytes_asked;  /* stored bytes of the samples given */
    uint64_t bytes_read;   /* bytes the engine asked the file system for */
    uint64_t reads, opens;
    uint64_t stall_ns;     /* the caller waited in stk_loader_next() */
    uint64_t decode_ns;    /* threads checked and decoded, all together */
    double depth;          /* reads in flight, mean over the time there were any */
    uint64_t memory_bytes, memory_peak_bytes; /* the budget; the most that was in use */
    uint32_t threads;
    const char *io;        /* the engine in use: "direct", … Borrowed, as the next two. */
    const char *io_detail; /* the same in more words */
    const char *io_reason; /* why it was chosen; "" when it was given */
    uint64_t checked, checked_bytes; /* samples whose checksums were compared, and their bytes */
    uint64_t unsupported;  /* of those in `corrupt`: sound, but of a kind that is not read */
    uint64_t decoded_bytes; /* what undoing filters made; of blocks read twice, twice */
    uint64_t left_out;     /* what the dataset's files hold and its readers do not take (notes) */
};
STK_API void stk_loader_stats(struct stk_loader *ld, struct stk_loader_stats *out);
/* Problem i of those that on_error passed over (the first 1000 are kept): its text, or NULL past
 * the last. Borrowed: until the loader is closed. */
STK_API const char *stk_loader_problem(struct stk_loader *ld, size_t i);
/* Warning i: what was seen when it was opened that may harm a training, such as classes that the
 * shuffle leaves together. NULL past the last. Borrowed: until the loader is closed. */
STK_API const char *stk_loader_warning(const struct stk_loader *ld, size_t i);

/* ---- which process of how many ------------------------------------------------------------ */

struct stk_rank {
    uint32_t rank, world;             /* of the job */
    uint32_t local_rank, local_world; /* on this node; local_world 0: unknown */
    const char *from; /* "torchrun", "Open MPI", "MPICH", "PMIx", "Slurm", or "" alone */
};

/* What the launcher (torchrun, mpirun, srun) says in the environment; rank 0 of 1 without one. */
STK_API int stk_rank_detect(struct stk_rank *r, struct stk_err *err);

/* ---- marks: what a profile should know of the program ------------------------------------ */

/*
 * Under `stoker profile` these put the program's own steps, epochs and phases on the profile's time
 * line; otherwise they do nothing, in a nanosecond. From any thread; phases nest, each thread has
 * its own. Names are copied (up to 255 bytes).
 */
STK_API void stk_step(void); /* a training step begins: one more than the last */
STK_API void stk_epoch(void);
STK_API void stk_step_at(uint64_t number); /* the same, with the program's own number */
STK_API void stk_epoch_at(uint64_t number);
STK_API void stk_phase_begin(const char *name); /* "load", "forward", "checkpoint", … */
STK_API void stk_phase_end(void);

STK_API const char *stk_version(void);

#ifdef __cplusplus
}
#endif
#endif
