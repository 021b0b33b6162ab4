/*
 * stoker.h - the public C API of libstoker, all of it. docs/c-api.md is the guide.
 *
 * A dataset is a list of samples, whatever its format. A sample is a key and named fields.
 *
 * Errors. Functions return 0 or a negative STK_E_* code and fill `err` (last argument, may be NULL,
 * not touched on success). The library never prints, exits or aborts.
 *
 * NULL. Every function accepts NULL for a handle: one that can fail returns STK_E_USAGE, the others
 * do nothing or return 0, NULL or "". Releasing a handle twice does nothing the second time, unless
 * the library has given the same address to a new handle in between.
 *
 * Threads. Each function states its rule:
 *   any thread      call it at any time, also on a handle that other threads are using;
 *   one at a time   threads may take turns on a handle, but two calls must not overlap;
 *   last            no other call on the handle may be running or follow.
 * Different handles are always independent. After fork() a child may use datasets, samples and
 * subsets, but not the loaders and batches of its parent.
 *
 * Growth. Structs that the caller allocates and the library reads or fills (options, stats, ranks)
 * grow at their end. Set every member that you do not use to 0, best with `= {0}`: 0 is always the
 * default. A program built with an older header keeps working. One built with a newer header gets
 * STK_E_USAGE if it sets an option that the library does not have. The functions that take such
 * structs are inline and pass their size to a function of the same name ending in _sized, which is
 * the one to call from other languages. Structs that the library allocates (batches, notes,
 * problems) grow at their end as well. Structs that stand in arrays or inside others (stk_err,
 * stk_value, stk_span, stk_column) keep their size; `reserved` members are 0.
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

/* ---- version ----------------------------------------------------------------------------- */

/* The version of this header. */
#define STK_VERSION_MAJOR 0
#define STK_VERSION_MINOR 1
#define STK_VERSION_PATCH 0
#define STK_VERSION       "0.1.0"
#define STK_VERSION_NUMBER                                                                         \
    (STK_VERSION_MAJOR * 1000000 + STK_VERSION_MINOR * 1000 + STK_VERSION_PATCH)

/* The version of the ABI, and of the soname: libstoker.so.1. It changes only when programs that
 * were linked before must be built again, whatever the release is called. */
#define STK_ABI 1

/* The version of the library that is running, as STK_VERSION and STK_VERSION_NUMBER. Any thread. */
STK_API const char *stk_version(void);
STK_API unsigned stk_version_number(void);

/* ---- errors ------------------------------------------------------------------------------ */

enum stk_code {
    STK_OK = 0,
    STK_E_SYS = -1,         /* a system call failed; sys_errno says why */
    STK_E_NOMEM = -2,       /* out of memory, or over the memory budget */
    STK_E_CORRUPT = -3,     /* the bytes of a dataset are wrong */
    STK_E_UNSUPPORTED = -4, /* refused: not built in, or the format cannot express it */
    STK_E_USAGE = -5,       /* the caller asked for something that makes no sense */
    STK_E_EXISTS = -6,      /* the destination holds data that is not ours to replace */
    STK_E_STALE = -7,       /* an index or manifest no longer describes the files */
    STK_E_STOPPED = -8,     /* a callback or a signal asked to stop */
};

struct stk_err {
    int code;       /* enum stk_code */
    int sys_errno;  /* errno when code is STK_E_SYS, else 0 */
    int64_t offset; /* byte of `path` that the error is about, -1 when it is about the whole file */
    char path[1024];
    char what[1024];
    uint64_t reserved[4];
};

/* Writes "path:offset: what" (path and offset where known) to buf. Returns buf. Any thread. */
STK_API const char *stk_err_text(const struct stk_err *err, char *buf, size_t size);

/* ---- values and samples ------------------------------------------------------------------ */

enum stk_kind {
    STK_BYTES = 1, /* opaque bytes: an encoded image, a file */
    STK_TEXT = 2,  /* UTF-8, no terminator */
    STK_JSON = 3,  /* UTF-8 that is one JSON value (objects, mixed or nested arrays, null) */
    STK_ARRAY = 4, /* dtype and shape; ndim 0 is a scalar; little-endian, C order */
    STK_LIST = 5,  /* a ragged list of values, each BYTES, TEXT, ARRAY or LIST */
};

/* The numbers from STK_BF16 on are reserved: no format yields these types yet. */
enum stk_dtype {
    STK_U8 = 1,
    STK_I8 = 2,
    STK_U16 = 3,
    STK_I16 = 4,
    STK_U32 = 5,
    STK_I32 = 6,
    STK_U64 = 7,
    STK_I64 = 8,
    STK_F16 = 9,
    STK_F32 = 10,
    STK_F64 = 11,
    STK_BOOL = 12,
    STK_BF16 = 13,    /* bfloat16 */
    STK_F8_E4M3 = 14, /* float8_e4m3fn: no infinities */
    STK_F8_E5M2 = 15, /* float8_e5m2 */
    STK_C64 = 16,     /* two float32: real, imaginary */
    STK_C128 = 17,    /* two float64 */
};

#define STK_MAX_NDIM 8

struct stk_value {
    uint8_t kind;  /* enum stk_kind */
    uint8_t dtype; /* enum stk_dtype, ARRAY only */
    uint8_t ndim;  /* ARRAY only */
    uint8_t reserved[5];
    uint64_t dim[STK_MAX_NDIM];
    const void *data; /* may be unaligned. Borrowed: until the sample is read again or freed. */
    size_t size;      /* bytes at data */
    const struct stk_value *item; /* LIST only. Borrowed like data. */
    size_t nitems;
};

/* Reserved names: "data" (the payload when there is just one), "label" (ARRAY, I64 scalar).
 * All other names come from the dataset. */
struct stk_field {
    const char *name; /* Borrowed like the value's data; not terminated. */
    size_t name_len;
    struct stk_value value;
};

struct stk_sample;

/* An empty sample to read into; NULL: out of memory. Any thread. Caller frees with
 * stk_sample_free(). */
STK_API struct stk_sample *stk_sample_new(void);
/* Last. */
STK_API void stk_sample_free(struct stk_sample *s);
/* The next four: any thread, while no thread reads into the sample. What they return is borrowed:
 * valid until the sample is read again or freed. */
STK_API const char *stk_sample_key(const struct stk_sample *s, size_t *len); /* not terminated */
STK_API size_t stk_sample_nfields(const struct stk_sample *s);
/* NULL when out of range. */
STK_API const struct stk_field *stk_sample_field(const struct stk_sample *s, size_t i);
/* NULL when the sample has no field of that name. */
STK_API const struct stk_value *stk_sample_get(const struct stk_sample *s, const char *name);

/* Any thread. 0 and "?" for numbers that are not of the enum. */
STK_API size_t stk_dtype_size(enum stk_dtype t);      /* bytes per element */
STK_API const char *stk_dtype_name(enum stk_dtype t); /* "float32" */
STK_API const char *stk_kind_name(enum stk_kind k);   /* "bytes" */

/* ---- datasets ---------------------------------------------------------------------------- */

struct stk_dataset;

struct stk_open_options { /* all zero: the defaults */
    const char *format;   /* NULL: detected from the name and the first bytes */
    const char *payload; /* what a record holds: NULL or "auto", "raw", "example", "sequence", … */
    const char *index;   /* NULL: beside the data, else in the cache directory */
    unsigned jobs;       /* threads that build the index; 0: one per core */
    bool no_index_write; /* build the index in memory-backed scratch, publish nothing */
    bool rebuild_index;  /* ignore an existing index */
    bool group;          /* files of a folder that share a stem (a.jpg, a.json) are one sample */
    const char *header; /* CSV, TSV: NULL or "auto", "yes", "no": the first row names the columns */
    const char *types;  /* CSV, TSV: "x=int,name=text"; NULL: detected from all rows */
    const char *split;  /* NULL: all; else only the files whose names say that split ("train") */
    /* Called now and then while an index is built, from one thread at a time; return non-zero to
     * stop. May be NULL. */
    int (*progress)(void *user, uint64_t bytes_done, uint64_t bytes_total, uint64_t samples);
    void *user;
    /* Open the intact part of a damaged dataset, for a loader that skips bad samples. */
    bool pass_over;
    /* CSV, TSV: what separates cells, "comma", "semicolon", "tab" or "bar"; NULL or "auto":
     * detected. */
    const char *delimiter;
    /* Formats of several arrays (HDF5, NPZ): only these, names, groups or globs separated by commas
     * ("train,label"). NULL: detected. With it, no index is used or kept. */
    const char *datasets;
    /* Follow links inside a folder wherever they lead; else only those that stay beneath it. */
    bool follow_links;
    /* Users ("alice,1001", or "all") whose indexes and manifests are believed, besides those of the
     * caller, of root, and of the data's owner. */
    const char *trust;
};

/* Opens a file or folder of any readable format, and builds the index when none fits. opts may be
 * NULL; nothing of it is kept. Any thread. Caller frees *out with stk_dataset_close(). */
STK_API int stk_dataset_open_sized(const char *path, const struct stk_open_options *opts,
                                   size_t opts_size, struct stk_dataset **out, struct stk_err *err);
static inline int stk_dataset_open(const char *path, const struct stk_open_options *opts,
                                   struct stk_dataset **out, struct stk_err *err)
{
    return stk_dataset_open_sized(path, opts, sizeof(struct stk_open_options), out, err);
}
/* Last; but the loaders, batches and subsets of the dataset stay valid. */
STK_API void stk_dataset_close(struct stk_dataset *ds);
/* Number of samples. Any thread. */
STK_API uint64_t stk_dataset_len(const struct stk_dataset *ds);
/* "tfrecord". Static text. Any thread. */
STK_API const char *stk_dataset_format(const struct stk_dataset *ds);
/* Reads sample i. Any thread, each with its own stk_sample. */
STK_API int stk_dataset_read(struct stk_dataset *ds, uint64_t i, struct stk_sample *s,
                             struct stk_err *err);
/* Reads samples index[0] ... index[n - 1] into n different samples s[k], with as few reads as
 * possible: faster than n calls. index may name a sample more than once. The samples share the
 * memory they were read into; it is freed when the last of them is read again or freed. When a
 * sample cannot be read, the samples before it are filled, it and those after it are empty, and its
 * error is returned. Any thread, each with its own samples. */
STK_API int stk_dataset_read_many(struct stk_dataset *ds, const uint64_t *index, size_t n,
                                  struct stk_sample *const *s, struct stk_err *err);

/* A dataset of samples index[0] ... index[n - 1] of ds, in that order; a sample may be named more
 * than once. No data is read or copied; index is copied. Every function that takes a dataset takes
 * the subset, which counts its samples from 0. Classes keep their numbers. The state of a loader
 * belongs to the samples of the subset, however the subset was made. The subset stays valid when ds
 * is closed. Any thread. Caller frees *out with stk_dataset_close(). */
STK_API int stk_dataset_subset(struct stk_dataset *ds, const uint64_t *index, uint64_t n,
                               struct stk_dataset **out, struct stk_err *err);
/* The same for the n samples first, first + step, ...; step may be negative. Takes no memory per
 * sample, unless ds is itself a subset made of a list. */
STK_API int stk_dataset_slice(struct stk_dataset *ds, uint64_t first, int64_t step, uint64_t n,
                              struct stk_dataset **out, struct stk_err *err);

/* What was left out although the data is sound, or how something was interpreted. Equal notes are
 * counted, not repeated. */
struct stk_note {
    bool taken;       /* an interpretation; else something was left out */
    const char *kind; /* "link", "dataset", "file", ...; taken: what ("sample", "label", ...) */
    const char *as;   /* taken: as what; else "" */
    const char *why;  /* in words */
    uint64_t count;   /* how many were left out; taken: in how many files */
    const char *const *name; /* of the first ones that were left out */
    size_t nnames;
};

/* Note i, NULL past the last one. Borrowed: valid until the dataset is closed. Any thread. */
STK_API const struct stk_note *stk_dataset_note(const struct stk_dataset *ds, size_t i);

/* The names of the classes, sorted: label 0 is (*names)[0]. Returns their number, 0 when labels
 * have no names. Borrowed: valid until the dataset is closed. Any thread. */
STK_API size_t stk_dataset_classes(struct stk_dataset *ds, const char *const **names);

/* ---- the loader: batches at the speed of the storage ------------------------------------- */

/*
 * A loader goes through a dataset epoch by epoch. Its own threads read ahead, check, decode and
 * assemble batches; the caller takes them one by one. The order is a pure function of the seed, the
 * epoch and the shuffle settings, never of the number of ranks, the threads or the machine. Rank r
 * of W gets the r-th of W equal parts of that order, and all ranks get the same number of batches.
 */
struct stk_loader;

enum stk_shuffle {
    STK_SHUFFLE_BLOCK =
        0, /* blocks of neighbours permuted, then samples mixed in a window of them */
    STK_SHUFFLE_GLOBAL = 1, /* every sample can come at any position */
    STK_SHUFFLE_NONE = 2,
};

/* What to do with an incomplete last batch. In each case all ranks get the same number of batches.
 */
enum stk_last {
    STK_LAST_DROP = 0,  /* leave it out */
    STK_LAST_PAD = 1,   /* fill it with samples given before, flagged STK_REPEAT */
    STK_LAST_SHORT = 2, /* give it short, equally short on every rank: a part that has one sample
                         * less ends with an STK_REPEAT */
};

/* What to do with a sample that cannot be read or decoded. */
enum stk_on_error {
    STK_ON_ERROR_STOP = 0,    /* stk_loader_next() fails, at the sample's place in the order */
    STK_ON_ERROR_SKIP = 1,    /* the batch is filled from the end of the rank's part */
    STK_ON_ERROR_REPLACE = 2, /* another sample, drawn by the seed, takes its place; flagged
                               * STK_REPLACED */
};

struct stk_loader_options { /* all zero: the defaults */
    uint32_t batch;         /* samples per batch; 0: 32 */
    int shuffle;            /* enum stk_shuffle */
    int last;               /* enum stk_last */
    int on_error;           /* enum stk_on_error */
    uint64_t seed;
    uint64_t epoch;        /* the first one */
    uint64_t epochs;       /* how many; 0: not known: only a few batches of the next one are read early */
    uint64_t block_bytes;  /* BLOCK: neighbours that are read together; 0: 2 MiB */
    uint64_t window_bytes; /* BLOCK: how much is mixed together; 0: 64 MiB */
    uint32_t rank, world;  /* world 0: one rank */
    uint32_t threads;      /* that decode; 0: one per core */
    uint32_t depth;        /* reads in flight; 0: the engine's choice */
    uint64_t memory_bytes; /* for reading ahead; 0: an eighth of what the job may use */
    uint64_t read_bytes;   /* largest read; 0: 4 MiB */
    const char *io;        /* the engine, by its name in `stoker load --help`; NULL: "auto" */
    /* NULL or "auto": fields as the format gives them; "raw": records as stored, not decoded;
     * "image:WxH,…": JPEG and PNG to uint8 arrays, see docs/loader.md. */
    const char *decode;
    const char *const *fields; /* NULL: all; else the names wanted, NULL-terminated */
    const char *state;         /* NULL, or the text of stk_loader_state(): resume there */
    bool keys;                 /* batches have the samples' keys */
    bool no_check;             /* do not compare checksums */
    /* Memory for arrays, for callers that want it pinned or shared. NULL: the loader's own. Called
     * from any of the loader's threads, several at once. */
    void *(*alloc)(void *user, size_t size);
    void (*free)(void *user, void *p, size_t size);
    void *user;
    /* Copies on this node to read instead of the dataset's own files (docs/tier.md). NULL or
     * "auto": those of $STOKER_TIER, else those of this job; "off"; else folders, separated by ':'.
     */
    const char *tier;
    uint64_t tier_limit_bytes; /* of a tier that is made; 0: none but the disk */
    bool tier_fill;            /* copy what is read into the first tier; it is made if missing */
};

enum { STK_REPEAT = 1, STK_REPLACED = 2 }; /* flags of a sample in a batch */

struct stk_span {
    const void *data;
    size_t size;
};

enum stk_layout {
    STK_DENSE = 1, /* one array of n x dim[...]: `data` */
    STK_SPANS = 2, /* n byte strings: `span` */
    STK_VALUES =
        3, /* n values of any kind and shape: `value`; kind 0: the sample lacks the field */
};

struct stk_column {
    const char *name;    /* terminated */
    uint8_t layout;      /* enum stk_layout */
    uint8_t kind;        /* enum stk_kind; STK_VALUES: of the first sample that has the field */
    uint8_t dtype, ndim; /* DENSE: of one sample */
    uint8_t reserved0[4];
    uint64_t dim[STK_MAX_NDIM];
    void *data;
    const struct stk_span *span;
    const struct stk_value *value;
    uint64_t reserved[4];
};

struct stk_batch {
    uint64_t epoch, step; /* step: number of the batch within the epoch, from 0 */
    size_t n;
    const uint64_t *id;         /* which samples, as the loader's dataset counts them */
    const uint8_t *flags;       /* STK_REPEAT, STK_REPLACED */
    const struct stk_span *key; /* NULL unless asked for */
    size_t ncolumns; /* the columns of all batches, then fields that only some later samples have */
    const struct stk_column *column;
};

/* Opens a loader. opts may be NULL; nothing of it is kept but alloc, free and user. The dataset may
 * be closed at once. Any thread. Caller frees *out with stk_loader_close(). */
STK_API int stk_loader_open_sized(struct stk_dataset *ds, const struct stk_loader_options *opts,
                                  size_t opts_size, struct stk_loader **out, struct stk_err *err);
static inline int stk_loader_open(struct stk_dataset *ds, const struct stk_loader_options *opts,
                                  struct stk_loader **out, struct stk_err *err)
{
    return stk_loader_open_sized(ds, opts, sizeof(struct stk_loader_options), out, err);
}
/* Stops the threads. Batches that the caller holds stay valid until they are released. Last. */
STK_API void stk_loader_close(struct stk_loader *ld);
/* The next batch: 1 and *out; 0 at the end of an epoch (the next call begins another epoch).
 * Everything in the batch is borrowed: valid until stk_batch_release(). After an error with
 * STK_ON_ERROR_STOP the loader cannot continue; further calls return the same error. One at a
 * time. */
STK_API int stk_loader_next(struct stk_loader *ld, struct stk_batch **out, struct stk_err *err);
/* Waits until stk_loader_next() would not block: 1; 0: not within timeout_ms. One at a time, with
 * stk_loader_next(). */
STK_API int stk_loader_wait(struct stk_loader *ld, int timeout_ms);
/* Any thread, in any order, also after stk_loader_close(). */
STK_API void stk_batch_release(struct stk_batch *b);
/* Batches of this epoch, those taken included; of a resumed epoch, from there on. One at a time,
 * with stk_loader_next(). */
STK_API uint64_t stk_loader_steps(const struct stk_loader *ld);
/* Where the caller is, as a short JSON text to resume from later, with any number of ranks and any
 * batch size. Works in a forked child, too, unless a thread was in stk_loader_next() at the fork.
 * One at a time, with stk_loader_next(). Caller frees *out with free(). */
STK_API int stk_loader_state(const struct stk_loader *ld, char **out, struct stk_err *err);
/* Merges the states that all ranks had at the same step into one that any number of ranks can
 * resume from. Needed only when samples were skipped; else the states are equal. Any thread. Caller
 * frees *out with free(). */
STK_API int stk_states_merge(const char *const *state, size_t n, char **out, struct stk_err *err);

struct stk_loader_stats {
    uint64_t samples, batches, repeats, replaced, skipped, corrupt;
    uint64_t bytes_asked; /* stored bytes of the samples given */
    uint64_t bytes_read;  /* bytes the engine asked the file system for */
    uint64_t reads, opens;
    uint64_t stall_ns;  /* the caller waited in stk_loader_next() */
    uint64_t decode_ns; /* checking and decoding, summed over the threads */
    double depth;       /* reads in flight, mean over the time there were any */
    uint64_t memory_bytes, memory_peak_bytes; /* the budget; the most that was in use */
    uint32_t threads;
    uint32_t reserved;
    const char *io; /* the engine in use: "direct", … Borrowed until the loader is closed, as
                     * the next two. */
    const char *io_detail;           /* the same in more words */
    const char *io_reason;           /* why it was chosen; "" when it was given */
    uint64_t checked, checked_bytes; /* samples and bytes whose checksums were compared */
    uint64_t unsupported;            /* part of `corrupt`: sound, but of a kind that is not read */
    uint64_t decoded_bytes;          /* that filters produced; a block decoded twice counts twice */
    uint64_t left_out; /* what the dataset's files hold and its readers leave out (notes) */
    /* Bytes of finished reads, by where they came from. */
    uint64_t source_bytes, tier_memory_bytes, tier_disk_bytes;
    uint64_t tier_filled_bytes; /* copied into the tier by this loader */
    uint64_t tier_refused;      /* reads of a copy that failed and were repeated from the source */
    const char *tier; /* the tiers in use: "/dev/shm/x (memory), /tmp/y (disk)"; "": none. Borrowed
                       * until the loader is closed, as the next one. */
    const char *tier_ended; /* why filling ended early; "": it did not */
};
/* Fills *out. One at a time, with stk_loader_next(). */
STK_API void stk_loader_stats_sized(struct stk_loader *ld, struct stk_loader_stats *out,
                                    size_t out_size);
static inline void stk_loader_stats(struct stk_loader *ld, struct stk_loader_stats *out)
{
    stk_loader_stats_sized(ld, out, sizeof(struct stk_loader_stats));
}
/* The text of problem i: what pass_over passed over at opening, then what on_error did (the first
 * 1000 are kept); NULL past the last.
 * Borrowed: valid until the loader is closed. One at a time, with stk_loader_next(). */
STK_API const char *stk_loader_problem(struct stk_loader *ld, size_t i);
/* Warning i: something seen at opening that may harm training, such as classes that the shuffle
 * leaves together. NULL past the last. Borrowed: valid until the loader is closed. Any thread. */
STK_API const char *stk_loader_warning(const struct stk_loader *ld, size_t i);

/* ---- packing and verifying --------------------------------------------------------------- */

/* One thing that is wrong with a dataset. */
struct stk_problem {
    const char *path;
    int code;       /* enum stk_code; STK_E_UNSUPPORTED: sound data that cannot be read */
    int64_t offset; /* byte of `path`, -1: the whole file */
    const char *what;
};

/* What a pack or a verification found and did. */
struct stk_result;

struct stk_result_stats {
    const char *format;  /* of the dataset written or verified. Borrowed: as long as the result. */
    uint64_t samples;    /* written; verify: found */
    uint64_t files;      /* written; verify: read */
    uint64_t bytes_read; /* of the source */
    uint64_t bytes_written; /* pack */
    uint64_t bytes_checked; /* verify: bytes that a stored checksum vouches for */
    uint64_t shards;        /* pack */
    uint64_t shards_kept;   /* pack with resume: finished before */
    uint64_t classes;       /* pack */
    uint64_t problems;      /* verify; pack: samples skipped */
    uint64_t unsupported;   /* part of `problems`: sound data that cannot be read */
    uint64_t left_out;      /* by the readers, although it is sound (notes) */
    double seconds;
    uint64_t whole;     /* 1: no problems and nothing left out */
    uint64_t was_there; /* pack with resume: 1: it was complete before, nothing was done */
};

struct stk_pack_options {       /* all zero: the defaults */
    const char *format;         /* to write; NULL: by the ending of dst, else "tfrecord" */
    const char *payload;        /* what a record holds; NULL or "auto": what suits the format */
    const char *name;           /* of the files; NULL: as dst */
    uint64_t shards;            /* number of files; 0: by shard_size_bytes */
    uint64_t shard_size_bytes;  /* 0: 256 MiB; LMDB and squashfs: one file */
    uint64_t seed;              /* of the shuffle */
    bool shuffle;               /* write the samples in a random order that the seed decides */
    bool resume;                /* continue a pack that was stopped; the result is the same */
    bool force;                 /* replace the packed dataset at dst */
    bool number_keys;           /* keys become running numbers */
    int on_error;               /* STK_ON_ERROR_STOP or STK_ON_ERROR_SKIP */
    const char *const *include; /* only keys that match one of these globs, NULL-terminated */
    const char *const *exclude; /* no keys that match one of these */
    const char *label_from;     /* NULL or "auto", "none", "dir", "dir:LEVEL", "csv:FILE" */
    const char *compress;       /* NULL or "none", "zstd[:LEVEL]", "lz4", "deflate[:LEVEL]" */
    uint64_t memory_bytes;      /* for buffers; 0: 12 MiB per thread */
    const char *settings_json;  /* a JSON object that the manifest records; NULL: none */
    /* phase: "index", "pack", "sync". Called from one thread at a time; return non-zero to stop.
     * May be NULL. */
    int (*progress)(void *user, const char *phase, uint64_t bytes_done, uint64_t bytes_total,
                    uint64_t samples_done, uint64_t samples_total);
    void *user;
};

/* Packs the dataset src into the new folder dst, as `stoker pack` does. open says how src is read
 * (its jobs are those of the packing, its progress is not called); open, opts and result may be
 * NULL. On failure dst is as it was before. Any thread. Caller frees *result with
 * stk_result_free(); it is NULL after an error. */
STK_API int stk_pack_sized(const char *src, const char *dst, const struct stk_open_options *open,
                           size_t open_size, const struct stk_pack_options *opts, size_t opts_size,
                           struct stk_result **result, struct stk_err *err);
static inline int stk_pack(const char *src, const char *dst, const struct stk_open_options *open,
                           const struct stk_pack_options *opts, struct stk_result **result,
                           struct stk_err *err)
{
    return stk_pack_sized(src, dst, open, sizeof(struct stk_open_options), opts,
                          sizeof(struct stk_pack_options), result, err);
}

struct stk_verify_options { /* all zero: the defaults */
    uint64_t memory_bytes;  /* for buffers; 0: 8 MiB per thread */
};

/* Reads every byte of a dataset and checks what can be checked, as `stoker verify` does. open says
 * how it is read (its jobs and progress are those of the verification); open and opts may be NULL.
 * Returns 0 when everything could be looked at, also when problems were found: ask *result. Any
 * thread. Caller frees *result with stk_result_free(); it is NULL after an error. */
STK_API int stk_verify_sized(const char *path, const struct stk_open_options *open,
                             size_t open_size, const struct stk_verify_options *opts,
                             size_t opts_size, struct stk_result **result, struct stk_err *err);
static inline int stk_verify(const char *path, const struct stk_open_options *open,
                             const struct stk_verify_options *opts, struct stk_result **result,
                             struct stk_err *err)
{
    return stk_verify_sized(path, open, sizeof(struct stk_open_options), opts,
                            sizeof(struct stk_verify_options), result, err);
}

/* Fills *out. Any thread. */
STK_API void stk_result_stats_sized(const struct stk_result *r, struct stk_result_stats *out,
                                    size_t out_size);
static inline void stk_result_stats(const struct stk_result *r, struct stk_result_stats *out)
{
    stk_result_stats_sized(r, out, sizeof(struct stk_result_stats));
}
/* Problem i (the first 1000 are kept) and note i; NULL past the last. Borrowed: valid until the
 * result is freed. Any thread. */
STK_API const struct stk_problem *stk_result_problem(const struct stk_result *r, size_t i);
STK_API const struct stk_note *stk_result_note(const struct stk_result *r, size_t i);
/* Last. */
STK_API void stk_result_free(struct stk_result *r);

/* ---- which process of how many ------------------------------------------------------------ */

struct stk_rank {
    uint32_t rank, world;             /* of the job */
    uint32_t local_rank, local_world; /* on this node; local_world 0: unknown */
    const char *from; /* "torchrun", "Open MPI", "MPICH", "PMIx", "Slurm", or "" alone. Static. */
};

/* What the launcher (torchrun, mpirun, srun) says in the environment; rank 0 of 1 without one. Any
 * thread, while none changes the environment. */
STK_API int stk_rank_detect_sized(struct stk_rank *r, size_t size, struct stk_err *err);
static inline int stk_rank_detect(struct stk_rank *r, struct stk_err *err)
{
    return stk_rank_detect_sized(r, sizeof(struct stk_rank), err);
}

/* ---- saving ------------------------------------------------------------------------------- */

/*
 * Replaces a file of the program, such as a checkpoint, whole or not at all: the new one is written
 * under a hidden name (".NAME.saving.…") and renamed when it is on disk. Whenever the program is
 * killed, the old or the new file is there; the next save of that name removes what was left over.
 * Saves of one name take effect one after another, in the order in which they are committed or
 * started. Only a regular file is replaced; a link of the caller is followed.
 */
struct stk_save;

/* near: a folder on a disk of this node in which the file is written first, so that only commit
 * waits for the storage of `path`; NULL: none. Waits for a save of the same name that was started.
 * Caller frees with stk_save_commit(), stk_save_start() or stk_save_abort(). Any thread. */
STK_API int stk_save_begin(const char *path, const char *near, struct stk_save **save,
                           struct stk_err *err);
/* Where to write: an open file, which stays the save's, or its name. One at a time. */
STK_API int stk_save_fd(const struct stk_save *save);
STK_API const char *stk_save_path(const struct stk_save *save);
/* Publishes what was written. After an error the old file is there; what was written near stays,
 * too, and the error says where. Last. */
STK_API int stk_save_commit(struct stk_save *save, struct stk_err *err);
/* The same on a thread of the library; exit() waits for it. stk_saves_wait() waits for all that were
 * started, and returns the first error that it has not returned before. Last; any thread. */
STK_API int stk_save_start(struct stk_save *save, struct stk_err *err);
STK_API int stk_saves_wait(struct stk_err *err);
/* Leaves the old file. Last. */
STK_API void stk_save_abort(struct stk_save *save);

/* ---- marks: what a profile should know of the program ------------------------------------ */

/*
 * Under `stoker profile` these put the program's own steps, epochs and phases on the profile's time
 * line; otherwise they do nothing, in a nanosecond. Any thread; phases nest, each thread has its
 * own. Names are copied (up to 255 bytes).
 */
STK_API void stk_step(void); /* a training step begins: one more than the last */
STK_API void stk_epoch(void);
STK_API void stk_step_at(uint64_t number); /* the same, with the program's own number */
STK_API void stk_epoch_at(uint64_t number);
STK_API void stk_phase_begin(const char *name); /* "load", "forward", "checkpoint", … */
STK_API void stk_phase_end(void);

#ifdef __cplusplus
}
#endif
#endif
