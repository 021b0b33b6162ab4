/*
 * build_priv.h - what the parts of the index builder share: build.c distributes and lists files,
 * build_sink.c takes their events, build_merge.c writes the tables.
 */
#ifndef STK_DATASET_BUILD_PRIV_H
#define STK_DATASET_BUILD_PRIV_H

#include "base/beneath.h"
#include "base/spool.h"
#include "dataset/build.h"
#include "dataset/priv.h"
#include "dataset/notes.h"
#include "format/lister.h"

#include <pthread.h>
#include <stdatomic.h>

enum spool_id {
    S_FILES, /* struct file_rec */
    S_EXTENTS,
    S_SEGMENTS,
    S_COLUMNS,
    S_ROWS,
    S_PARTS,
    S_KEYLEN, /* u32 */
    S_KEYS,
    S_POINTS,
    S_WINDOWS,
    S_CRCS,
    S_NOTES, /* as stk_notes_write() makes them */
    S_COUNT
};

/* The record of a listed file. */
struct file_rec {
    uint64_t size;
    int64_t mtime_ns, changed_ns;
    uint32_t inode; /* folded */
    uint64_t nsamples;
    uint64_t has_keys; /* KEYLEN has an entry for each of its samples */
};

struct worker {
    struct stk_spool spool[S_COUNT];
    struct stk_readers readers; /* of the files it has listed */
};

struct group {
    unsigned worker;
    uint64_t begin[S_COUNT], end[S_COUNT]; /* ranges of the worker's spools */
};

struct builder {
    struct stk_walk *walk;
    const struct stk_build_options *o;
    const struct stk_index_file *file; /* of the walk, mapped */
    const char *names;
    const struct stk_walk_key *key; /* keys of parallel trees; NULL: a file's name is its key */
    struct stk_files files;         /* the same, for opening them */
    uint64_t files_per_group, ngroups;
    struct group *group;
    struct worker *worker;
    unsigned nworkers;

    pthread_mutex_t lock; /* protects everything below */
    struct stk_buf fields, fieldnames, chains, context;
    bool has_context;
    double last_progress;
    _Atomic bool any_keys;
    _Atomic uint64_t bytes_done, bytes_samples, nsamples;
    uint64_t bytes_total; /* 0: unknown until the files are examined */
};

/* State of a group while it is listed: the growing segment, and totals. */
struct group_state {
    struct builder *b;
    struct worker *w;
    struct stk_segment seg; /* kind 0: none yet */
    uint64_t nextents, nsamples, nrows, ncolumns, nparts, windows;
    bool lost; /* writing to a spool failed: not a problem of the file */
};

/* Takes the events of one file. All files of a folder share one sink (and one lister). */
struct file_sink {
    struct stk_sink base;
    struct group_state *g;
    uint32_t file;
    const char *path;
    struct file_rec rec;
    uint64_t first_extent; /* this file's first extent in the group */
    uint64_t nkeys;        /* of columns */
    unsigned mode;         /* enum stk_segment_kind of this file; 0: not known yet */
    uint64_t progress_off;
    struct stk_buf field_map, chain_map; /* local number -> the dataset's: u16, u8 */
    struct stk_buf parts;                /* of the sample that is open */
    struct stk_buf key;
    struct stk_notes notes; /* of this file */
    struct stk_stat_walk look; /* for files of a folder, which are not opened */
    bool open, open_has_key;
    struct stk_src *src;
    struct stk_check *check;             /* checks this file's records during listing, or NULL */
    const struct stk_codec *check_codec; /* of check_field */
    uint32_t check_field;
};

static inline int put(struct group_state *g, enum spool_id id, const void *p, size_t n,
                      struct stk_err *err)
{
    int rc = stk_spool_put(&g->w->spool[id], p, n, err);
    g->lost = g->lost || rc < 0;
    return rc;
}

static inline const char *file_name(const struct builder *b, uint64_t i)
{
    return b->names + b->file[i].name_off;
}

/* The name that the file's sample is derived from, for grouping. */
static inline const char *key_name(const struct builder *b, uint64_t i, size_t *len)
{
    *len = b->key ? (size_t)b->key[i].len : b->file[i].name_len;
    return b->key ? b->names + b->key[i].off : file_name(b, i);
}

/* ---- build_sink.c ---- */

int stk_build_event(struct stk_sink *sink, const struct stk_event *e, struct stk_err *err);
/* After the last event of a file: the sample that is still open is complete. */
int stk_build_close_sample(struct file_sink *f, struct stk_err *err);
int stk_build_flush_segment(struct group_state *g, struct stk_err *err);
/* After the last event of a file: columns with keys have one for each sample, also if the listing
 * ended early. */
int stk_build_close_keys(struct file_sink *f, struct stk_err *err);
/* Records a problem of a file, or fails if the caller wants to stop at the first. */
int stk_build_problem(struct builder *b, int code, const char *path, int64_t offset,
                      const char *what, struct stk_err *err);
/* After the last event of a file: writes its notes to the spool. */
int stk_build_put_notes(struct file_sink *f, struct stk_err *err);
/* Calls the progress function at intervals. */
int stk_build_report(struct builder *b, bool now, struct stk_err *err);

/* ---- build_merge.c ---- */

int stk_build_merge(struct builder *b, int fd, struct stk_err *err);

#endif
