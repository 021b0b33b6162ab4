/*
 * workload.h - the model of a training job's I/O: its dataset, how it is read, the steps, and the
 * checkpoints. Read from a YAML file whose keys are the rows of one table (keys.c): parser, man
 * page and `key=value` on the command line all use that table.
 */
#ifndef STK_BENCH_WORKLOAD_H
#define STK_BENCH_WORKLOAD_H

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/opt.h"

/* ---- lengths and times that vary ------------------------------------------------------------- */

/* A length or a time that varies: "64K", "normal(114660, 5000)", "gamma(2, 50ms)". A draw is a
 * function of a number, not of the draws before it: any process finds the size of any record
 * without going through the others. */
enum stk_dist_kind {
    STK_DIST_CONSTANT,    /* a */
    STK_DIST_NORMAL,      /* mean a, standard deviation b */
    STK_DIST_UNIFORM,     /* from a to b */
    STK_DIST_EXPONENTIAL, /* mean a */
    STK_DIST_GAMMA,       /* shape a, scale b */
    STK_DIST_POISSON,     /* whole bytes or seconds, mean a */
};

struct stk_dist {
    enum stk_dist_kind kind;
    double a, b;
};

enum stk_dist_unit { STK_DIST_BYTES, STK_DIST_SECONDS };

int stk_dist_parse(const char *text, enum stk_dist_unit unit, struct stk_dist *out,
                   struct stk_err *err);
/* The draw with that number: never negative. */
double stk_dist_at(const struct stk_dist *d, uint64_t key);
double stk_dist_mean(const struct stk_dist *d);

enum stk_bench_format {
    STK_BENCH_NONE, /* no dataset: only checkpoints, or only computing */
    STK_BENCH_TFRECORD,
    STK_BENCH_HDF5,
    STK_BENCH_CSV,
    STK_BENCH_NPZ,
    STK_BENCH_JSON,
    STK_BENCH_TAR,
    STK_BENCH_FILES,
    STK_BENCH_NPY,
    STK_BENCH_INDEXED, /* an index, then records */
    STK_BENCH_MAPPED,  /* the same, read by page as a mapping is */
    STK_BENCH_REPLAY, /* groups of files that a profiled program used: workload.group */
};
enum stk_bench_compression { STK_COMPRESSION_NONE, STK_COMPRESSION_GZIP };
enum stk_bench_sharing { STK_SHARING_OWN, STK_SHARING_SHARED, STK_SHARING_COLLECTIVE };
enum stk_bench_offsets { STK_OFFSETS_SHARDED, STK_OFFSETS_SAME };
enum stk_bench_order { STK_ORDER_CONSECUTIVE, STK_ORDER_RANDOM_START };
enum stk_bench_shuffle {
    STK_MIX_NONE,
    STK_MIX_FILES,
    STK_MIX_SAMPLES,
    STK_MIX_BOTH,
};
enum stk_bench_cache { STK_CACHE_KEEP, STK_CACHE_DROP, STK_CACHE_DIRECT, STK_CACHE_FRESH };
enum stk_bench_load { STK_LOAD_STEP, STK_LOAD_START, STK_LOAD_NEVER, STK_LOAD_STORED };
enum stk_bench_epochs { STK_EPOCHS_AHEAD, STK_EPOCHS_ASKED, STK_EPOCHS_RESTART };
enum stk_bench_scaling { STK_SCALING_STRONG, STK_SCALING_WEAK };
enum stk_bench_via { STK_VIA_POSIX, STK_VIA_STDIO };
enum stk_bench_content { STK_CONTENT_RAW, STK_CONTENT_JSON };
enum stk_bench_who { STK_WHO_ZERO, STK_WHO_ALL };
enum stk_bench_think { STK_THINK_BURN, STK_THINK_SLEEP };
enum stk_bench_tail { STK_TAIL_DROP, STK_TAIL_KEEP };
enum stk_bench_pick { STK_PICK_SAMPLE, STK_PICK_NEXT, STK_PICK_RANDOM };
enum stk_bench_start { STK_START_SAMPLE, STK_START_FOLLOW, STK_START_RANDOM };
enum stk_bench_when { STK_WHEN_SAMPLE, STK_WHEN_START };

#define STK_CHECKPOINT_FILES 64u
#define STK_WORKLOAD_KEYS    119u /* at most */
#define STK_GROUPS           8u
#define STK_GROUP_PREFIX     "files."
#define STK_GROUP_SIZES      32u
#define STK_SORTED_MAX       64u
#define STK_REQUEST_MAX      0x7ffff000u /* bytes: Linux reads no more in one call */

/* Files that are used alike. Its counters are those of `per` samples together, as a profile has
 * them; every sample makes its part of each, so that the sums agree. */
struct stk_bench_group {
    const char *path; /* a file or a folder, within dataset.path or absolute; NULL: no such group */
    const char *match; /* names of files in the folder and below it; NULL: all, or path is a file */
    uint64_t count;    /* files */
    const char *size_text;
    struct stk_dist size; /* bytes of a file that is generated */
    uint64_t per;         /* samples, or ranks if when is STK_WHEN_START */
    uint64_t opens, stats, seeks, requests, ends, bytes;
    const char *const *sizes;
    struct stk_bench_sizes {
        uint64_t bytes, count;
    } drawn[STK_GROUP_SIZES]; /* ascending */
    size_t ndrawn;
    uint64_t weight;                /* of all drawn sizes */
    double sequential, consecutive; /* shares of the requests after the first of a sample */
    int pick, when, start;
    bool keep, hold;
};

struct stk_workload {
    const char *name, *description;
    struct {
        int format;      /* enum stk_bench_format */
        int compression; /* enum stk_bench_compression */
        uint64_t files, eval_files, samples_per_file, folders, eval_folders, chunk_bytes, seed;
        bool is_eval; /* these are the files for evaluation: stk_workload_eval() */
        const char *record_text;
        struct stk_dist record; /* bytes */
        const char *const *dims;
        uint64_t element_bytes;
        const char *path; /* of files that exist: nothing is generated or written there */
    } dataset;
    struct stk_bench_group group[STK_GROUPS];
    size_t ngroups;
    struct {
        int sharing, offsets, order, shuffle; /* enums above */
        bool reshuffle;
        uint64_t sorted;         /* shuffled samples that are put in order, together; 1: none */
        uint64_t transfer_bytes; /* 0: one request per sample */
        uint64_t readers;        /* collective: ranks that read */
        uint64_t head_reads, head_bytes;
        double head_consecutive; /* share of the head's reads that begin where the last ended */
    } access;
    struct {
        uint64_t threads, prefetch;
        int load, cache, think_how, epochs; /* enums above */
        double start_s, begin_s; /* of a thread: in the training loop, and its own */
        const char *think_text;
        struct stk_dist think; /* seconds per sample */
        const char *path;      /* of --reader stoker; NULL: the dataset */
        const char *index;     /* of the dataset, for the same; NULL: where it usually is */
        const char *decode;    /* what it decodes pictures to, instead of `think`; NULL: nothing */
    } reader;
    struct {
        uint64_t ranks, batch, epochs, steps, most_steps, warmup, cooldown;
        int scaling, last;
        bool barrier;
        const char *compute_text;
        struct stk_dist compute; /* seconds */
        uint64_t eval_every, eval_first, eval_steps;
        uint64_t eval_batch; /* 0: batch */
        const char *eval_text;
        struct stk_dist eval_compute; /* seconds */
    } training;
    struct {
        uint64_t every, every_epochs, first_epoch, restores;
        bool at_end, fsync, shift;
        const char *const *files;
        uint64_t bytes[STK_CHECKPOINT_FILES];
        size_t nfiles;
        int via, who, content;
        uint64_t transfer_bytes; /* of a write; 0: the whole file */
        const char *dir;         /* NULL: the data folder */
    } checkpoint;
    struct {
        uint64_t layers, hidden, ffn, vocabulary, heads, kv_heads;
        uint64_t weight_bytes, optimizer_bytes;
        uint64_t tensor, pipeline, zero;
        uint64_t data;                     /* 0: as many copies as the ranks give */
        uint64_t layer_bytes, state_bytes; /* 0: as the sizes above give */
    } model;
    const char *path;                 /* the file, for messages; NULL: none */
    unsigned line[STK_WORKLOAD_KEYS]; /* by row of stk_workload_keys; 0: not from the file */
    struct stk_arena arena;           /* of the texts */
};

/* Every key, "dataset.files": its type, default, range and help. Ends with name NULL. The rows
 * "files.N." are of the first group; those of group i are i structs further. */
extern const struct stk_opt stk_workload_keys[];
/* The row of a key, or NULL. "files.2.path": the row of "files.N.path", and *group is 1. */
const struct stk_opt *stk_workload_key(const char *key, size_t *group);
/* The formats by number, NULL-terminated. */
extern const char *const stk_bench_formats[];
/* True for a format that is read from the start of a file on, record after record. */
bool stk_bench_is_stream(int format);

#define STK_WORKLOAD_MAX (256u << 10) /* bytes of a file */

/* Whether all data is read before the first step. */
static inline bool stk_workload_loads_first(const struct stk_workload *w)
{
    return w->reader.load == STK_LOAD_START || w->reader.load == STK_LOAD_STORED;
}

/* Reads a workload file. small: with the values of its section `small`. On error err->path is the
 * file and err->what begins with the line. Caller frees with stk_workload_release(), also on
 * error. */
int stk_workload_read(const char *path, bool small, struct stk_workload *w, struct stk_err *err);
/* The same from text; name: for messages. */
int stk_workload_parse(const char *text, size_t n, const char *name, bool small,
                       struct stk_workload *w, struct stk_err *err);
/* Every key has its default. */
int stk_workload_default(struct stk_workload *w, struct stk_err *err);
/* The key that ends in this word, "reader.prefetch" for "prefetch", if there is one such key; else
 * the word. */
const char *stk_workload_name(const char *word);
/* "dataset.files=8", "prefetch=4". */
int stk_workload_set(struct stk_workload *w, const char *assignment, struct stk_err *err);
/* Makes the data and the steps smaller: fraction of the files, or of the samples per file where
 * there are few files. Keeps record length, batch and compute time. */
void stk_workload_scale(struct stk_workload *w, double fraction);
/* Works out what follows from the keys, and refuses contradictions by name of the key. Call it
 * after the last change. */
int stk_workload_settle(struct stk_workload *w, struct stk_err *err);
/* The evaluation of w as a workload of its own. Borrows everything; do not release it. */
void stk_workload_eval(const struct stk_workload *w, struct stk_workload *out);
void stk_workload_release(struct stk_workload *w);
/* A workload of its own with the values of w, which it borrows. */
void stk_workload_borrow(const struct stk_workload *w, struct stk_workload *out);
/* A text that lives as long as the workload, for a key; NULL: no memory. */
const char *stk_workload_keep(struct stk_workload *w, const char *fmt, ...) STK_PRINTF(2, 3);

/* An object of the keys that do not have their defaults, and the workload of such an object,
 * settled. Caller frees with stk_workload_release(), also on error. */
void stk_workload_save(const struct stk_workload *w, struct stk_jw *j);
int stk_workload_load(struct stk_workload *w, const struct stk_jval *v, struct stk_err *err);
/* The same keys as a workload file. */
void stk_workload_yaml(const struct stk_workload *w, struct stk_buf *out);
/* The JSON text of every key's value, as members of the open object. */
void stk_workload_json(const struct stk_workload *w, struct stk_jw *j);

/* ---- files of DLIO --------------------------------------------------------------------------- */

/* DLIO's workload files, MLPerf Storage's among them, read as they are. Every key is honoured,
 * refused by name, or listed as one that has no effect on the I/O here. */

/* What a file says beside the workload. */
struct stk_dlio {
    bool generate;         /* workflow.generate_data */
    bool generate_only;    /* and nothing else */
    double au;             /* metric.au, the least utilisation; 0: not given */
    const char *data;      /* dataset.data_folder, or NULL. Lives as long as the workload */
    struct stk_buf unused; /* the keys without effect, separated by ", " */
};

/* changes: n times "key=value", as on DLIO's command line ("++workload.reader.batch_size=4").
 * Caller frees with stk_workload_release() and stk_dlio_release(), also on error. */
int stk_dlio_read(const char *path, const char *const *changes, size_t n, struct stk_workload *w,
                  struct stk_dlio *d, struct stk_err *err);
/* The same from text; name: for messages. */
int stk_dlio_parse(const char *text, size_t len, const char *name, const char *const *changes,
                   size_t n, struct stk_workload *w, struct stk_dlio *d, struct stk_err *err);
void stk_dlio_release(struct stk_dlio *d);

/* ---- YAML ------------------------------------------------------------------------------------ */

/* A small part of YAML, through libyaml: mappings of scalars and of lists of scalars. A file
 * becomes a list of dotted keys with their values and lines. Anchors, aliases, tags, several
 * documents and deep nesting are refused: a small file cannot become a large one. */
#define STK_YAML_DEPTH 8    /* mappings within mappings */
#define STK_YAML_KEYS  1024 /* of a file */
#define STK_YAML_LINE  4096 /* bytes of a key with those above it, and of a value */

struct stk_yaml_entry {
    const char *key;   /* "dataset.files" */
    const char *value; /* of a list: its items, separated by commas */
    unsigned line;     /* from 1 */
};

struct stk_yaml {
    struct stk_yaml_entry *item;
    size_t n;
    struct stk_arena arena;
};

/* name: for messages. Messages begin with "line N: ". Caller frees with stk_yaml_release(), also on
 * error. */
int stk_yaml_parse(const char *text, size_t n, const char *name, struct stk_yaml *out,
                   struct stk_err *err);
void stk_yaml_release(struct stk_yaml *y);

#endif
