/*
 * action.h - what a finding says to do, as paths and numbers: for programs that do it. The lines
 * that people paste are made of it.
 *
 * A kind is one row of the table in action.c: what it is called, what its parameters are called,
 * and the lines it becomes. To add one, add it to the enum and to the table.
 */
#ifndef STK_LAB_ACTION_H
#define STK_LAB_ACTION_H

#include "base/buf.h"
#include "format/format.h"

enum stk_action_kind {
    /* the data, elsewhere or in another form */
    STK_ACT_PACK,          /* into few large files */
    STK_ACT_STAGE,         /* copy to every node */
    STK_ACT_STRIPE_NEW,    /* Lustre: files that will be made in a directory */
    STK_ACT_STRIPE_FILE,   /* Lustre: a file that is there */
    STK_ACT_SHOW_STRIPES,  /* Lustre: look where a file lies */
    STK_ACT_LIST_ONCE,     /* keep a directory's listing in a file */
    STK_ACT_WARM_UP,       /* read a file into the page cache before it is used */
    STK_ACT_WRITE_ARCHIVE, /* many results in one file */
    STK_ACT_LOCAL_SAVE,    /* checkpoints: to the node's disk, then copied in the background */
    /* who reads */
    STK_ACT_LOADER,      /* stoker's, in place of the program's own */
    STK_ACT_MAP_DATASET, /* stoker's reads under the program's own DataLoader */
    STK_ACT_READERS,     /* more workers or threads */
    STK_ACT_PREFETCH,    /* read ahead */
    STK_ACT_DECODERS,    /* more workers that decode */
    STK_ACT_DIVIDE,      /* by rank: each its own samples */
    STK_ACT_PARTS,       /* by rank: each a part that lies together */
    STK_ACT_EXCHANGE,    /* each rank reads a part and sends it to the others */
    STK_ACT_READ_ALL,    /* collective reads */
    STK_ACT_WRITE_ALL,   /* collective writes */
    STK_ACT_AGGREGATORS, /* MPI-IO: more ranks that do the I/O of all */
    STK_ACT_CHECK_NODE,  /* look at a node */
    /* how it reads */
    STK_ACT_LARGER_READS,
    STK_ACT_STREAM_BUFFER, /* of a C stream */
    STK_ACT_BATCH_READS,   /* many samples in a request */
    STK_ACT_SORT_READS,    /* a batch by offset */
    STK_ACT_PREAD,         /* instead of seek and read */
    STK_ACT_READ_WHOLE,    /* in one call */
    STK_ACT_READ_ONCE,     /* and keep what it says */
    STK_ACT_KEEP_DATA,     /* in memory, and take samples from there */
    STK_ACT_KEEP_OPEN,
    STK_ACT_KEEP_STAT,   /* ask once whether a file is there */
    STK_ACT_SQLITE_READ, /* many queries a transaction, or nobody writes */
    /* how it writes */
    STK_ACT_LARGER_WRITES,
    STK_ACT_BATCH_WRITES,
    STK_ACT_SORT_WRITES, /* in order, when the data is complete */
    STK_ACT_SYNC_ONCE,
    STK_ACT_SAVE_ASIDE,    /* in a thread, while the program goes on */
    STK_ACT_SQLITE_COMMIT, /* many rows a transaction */
    STK_ACT_COUNT
};

/* 0 and NULL: not set, or does not apply. What the numbers are: struct stk_action_info. */
struct stk_action {
    enum stk_action_kind kind;
    bool instead;             /* of the action before it, not besides */
    bool is_file;             /* path: one file, not a directory */
    const char *path;         /* what it is done to; NULL: the program, or a path nobody knows */
    const char *const *paths; /* all it is done to, path first */
    size_t npaths;
    const char *to; /* the result's path; "": of the node's own directory, $TMPDIR */
    uint64_t count, bytes, depth;
    const struct stk_format_use *use;        /* of what lies there; NULL: any file */
    const char *format;                      /* pack: of the result */
    struct {                                 /* the loader's settings */
        const char *framework;               /* "torch", "tf", "c" */
        const char *shuffle, *last, *decode; /* last: set for data that is evaluated on */
        uint64_t batch, threads;
    } loader;
    const char *note; /* loaders: what is said above the lines; static. NULL: the usual */
    bool pinned;      /* prefetch: into memory that the accelerator can fetch from */
};

/* What a kind and its parameters are called; NULL: it has no such parameter. */
struct stk_action_info {
    const char *name, *path, *to, *count, *bytes, *depth;
};
const struct stk_action_info *stk_action_info(enum stk_action_kind kind);

/* Where it is to be done. */
struct stk_action_scene {
    const char *scheduler; /* "slurm", … "" */
    uint32_t nodes;
    bool python; /* the program is */
};

/* Appends commands and code that carry the actions out, in order, each line ended by a newline: no
 * path can hold one once it is quoted. */
void stk_actions_render(const struct stk_action *a, size_t n, const struct stk_action_scene *scene,
                        struct stk_buf *out);

#endif
