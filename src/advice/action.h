/*
 * action.h - what a finding recommends, as paths and numbers that programs can act on. The code
 * that people paste is generated from it.
 *
 * A kind is one row of the table in action.c: its name, the names of its parameters, and its code
 * (advice/code). To add a kind, add it to the enum and to the table.
 */
#ifndef STK_ADVICE_ACTION_H
#define STK_ADVICE_ACTION_H

#include "advice/code.h"
#include "advice/fields.h"
#include "format/format.h"
#include "host/scratch.h"

enum stk_action_kind {
    /* the data: elsewhere, or in another form */
    STK_ACT_PACK,             /* into few large files */
    STK_ACT_STAGE,            /* copy to every node */
    STK_ACT_STRIPE_NEW,       /* Lustre: future files of a directory */
    STK_ACT_STRIPE_FILE,      /* Lustre: an existing file */
    STK_ACT_SHOW_STRIPES,     /* Lustre: show where a file lies */
    STK_ACT_LIST_ONCE,        /* keep a directory's listing in a file */
    STK_ACT_WARM_UP,          /* read a file into the page cache before it is used */
    STK_ACT_REWRITE,          /* in the same format, in pieces that suit the reader */
    STK_ACT_WRITE_ARCHIVE,    /* many results in one file */
    STK_ACT_SCRATCH,          /* temporary files: on the node's own disk or in memory */
    STK_ACT_PACK_ENVIRONMENT, /* libraries: one archive, unpacked on every node */
    STK_ACT_LOCAL_SAVE,       /* checkpoints: to the node's disk, copied on in the background */
    /* who reads */
    STK_ACT_LOADER,      /* stoker's loader replaces the program's own */
    STK_ACT_MAP_DATASET, /* stoker's reads under the program's own DataLoader */
    STK_ACT_READERS,     /* more workers or threads */
    STK_ACT_PREFETCH,    /* read ahead */
    STK_ACT_DECODERS,    /* more workers that decode */
    STK_ACT_DIVIDE,      /* by rank: each reads its own samples */
    STK_ACT_PARTS,       /* by rank: each reads one contiguous part */
    STK_ACT_EXCHANGE,    /* each rank reads a part and sends it to the others */
    STK_ACT_READ_ALL,    /* collective reads */
    STK_ACT_WRITE_ALL,   /* collective writes */
    STK_ACT_AGGREGATORS, /* MPI-IO: more ranks that do I/O for the others */
    STK_ACT_CHECK_NODE,  /* look at a node */
    /* how the program reads */
    STK_ACT_LARGER_READS,
    STK_ACT_STREAM_BUFFER, /* of a C stream */
    STK_ACT_BATCH_READS,   /* many samples per request */
    STK_ACT_SORT_READS,    /* sort a batch by offset */
    STK_ACT_PREAD,         /* instead of seek and read */
    STK_ACT_READ_WHOLE,    /* in one call */
    STK_ACT_READ_ONCE,     /* and keep the content */
    STK_ACT_KEEP_DATA,     /* in memory, and take samples from there */
    STK_ACT_KEEP_OPEN,
    STK_ACT_KEEP_MAPPED,
    STK_ACT_KEEP_STAT,   /* ask once whether a file exists */
    STK_ACT_SQLITE_READ, /* many queries per transaction, or a read-only database */
    /* how the program writes */
    STK_ACT_LARGER_WRITES,
    STK_ACT_WHOLE_LINES, /* a log: one write per line, which a killed program does not lose */
    STK_ACT_BATCH_WRITES,
    STK_ACT_SORT_WRITES, /* in order, when the data is complete */
    STK_ACT_KEEP_WRITER, /* open once, append often */
    STK_ACT_SYNC_ONCE,
    STK_ACT_SAVE_ASIDE,    /* in a thread, while the program goes on */
    STK_ACT_SQLITE_COMMIT, /* many rows per transaction */
    STK_ACT_COUNT
};

/* What the program trains with, and so what the code to paste is for. */
enum stk_framework {
    STK_FRAMEWORK_UNKNOWN,
    STK_FRAMEWORK_TORCH,
    STK_FRAMEWORK_TF,
    STK_FRAMEWORK_NUMPY, /* Python without either */
    STK_FRAMEWORK_C,     /* no Python */
};
/* "torch", "tf", "numpy", "c"; NULL: unknown. */
const char *stk_framework_name(enum stk_framework framework);
/* Any other name, and NULL: unknown. */
enum stk_framework stk_framework_of(const char *name);

/* 0 and NULL: not set, or not applicable. struct stk_action_info names the numbers. */
struct stk_action {
    enum stk_action_kind kind;
    bool instead;             /* replaces the previous action, instead of adding to it */
    bool is_file;             /* path: one file, not a directory */
    const char *path;         /* the target; NULL: the program, or an unknown path */
    const char *const *paths; /* all targets, path first */
    size_t npaths;
    bool to_named;  /* stage: the user named `to`; else `stoker stage` finds a place */
    const char *to; /* path of the result; "": in the node's own directory, $TMPDIR */
    uint64_t count, bytes, depth;
    const struct stk_format_use *use;        /* how files of its format are used; NULL: any file */
    const char *format;                      /* pack: format of the result */
    const char *codec;                       /* pack: how its samples are compressed; NULL: not */
    struct {                                 /* the loader's settings */
        enum stk_framework framework;
        const char *shuffle, *last, *decode; /* last: set for data that is read in order, whole */
        uint64_t batch, threads;
        bool labelled;    /* samples lie in one folder per class */
        bool parts;       /* a sample is a file of each of two folders: images/ and masks/ */
        bool batch_known; /* it is the program's own */
        bool size_known;  /* the image size in `decode` is the program's own */
        struct stk_file_field field[STK_FIELDS]; /* if nothing is decoded; none: not known */
    } loader;
    const char *note;           /* loaders: a comment above the lines; static. NULL: the default */
    bool pinned;                /* prefetch: into pinned memory */
    const char *const *pattern; /* stage: only files of these names, if the profile has no list */
    size_t npatterns;
};

/* Names of a kind and of its parameters; NULL: the kind has no such parameter. */
struct stk_action_info {
    const char *name, *path, *to, *count, *bytes, *depth;
};
const struct stk_action_info *stk_action_info(enum stk_action_kind kind);

/* Where the action is carried out. */
struct stk_action_scene {
    enum stk_scheduler scheduler;
    uint32_t nodes;
    bool python;                  /* the program is Python */
    enum stk_framework framework; /* UNKNOWN: code for torch is shown */
    const char *profile;          /* its path; NULL: none */
    /* Whether the program has loaded a Python package; NULL: unknown. */
    bool (*loaded)(const void *job, const char *package);
    const void *job;
};

/* Whether anything can be pasted that carries out the action: a library that opens its files itself
 * takes no buffer, and a package that the program does not use is no help. */
bool stk_action_applies(const struct stk_action *a, const struct stk_action_scene *scene);

/* Appends commands and code that carry out the actions, in order. A quoted path never contains a
 * line break. Caller frees with stk_snippets_release(). */
void stk_actions_render(const struct stk_action *a, size_t n, const struct stk_action_scene *scene,
                        struct stk_snippets *out);

#endif
