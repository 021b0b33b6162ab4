/*
 * priv.h - what the parts of pack share: pack.c decides, pack/work.c reads, encodes and
 * writes, pack/finish.c keeps finished shards of an earlier run and writes index and manifest.
 */
#ifndef STK_PACK_PRIV_H
#define STK_PACK_PRIV_H

#include <pthread.h>

#include "dataset/build.h"
#include "dataset/label.h"
#include "pack/pack.h"
#include "dataset/reader.h"
#include "format/codec/types.h"
#include "base/own.h"
#include "dataset/index.h"
#include "dataset/manifest.h"
#include "base/buf.h"
#include "base/hash.h"
#include "format/format.h"
#include "base/spool.h"
#include "dataset/dataset.h"
#include "base/random.h"

/* ---- selection ------------------------------------------------------------------------------- */

/* Which samples are packed, in which order, and where the shards are cut. It depends only on the
 * source and the options, never on the number of jobs. */

struct stk_select {
    const struct stk_dataset *ds;
    uint64_t n;     /* samples selected */
    uint64_t bytes; /* their stored bytes */
    bool shuffled;
    struct stk_perm perm;
    bool filtered;
    struct stk_spool kept; /* u64 sample numbers, when filtered */
    const uint64_t *number;
    uint64_t *cut; /* shard k holds positions cut[k] .. cut[k+1]-1 */
    uint64_t nshards;
};

struct stk_select_options {
    const char *const *include, *const *exclude; /* globs on keys, or NULL */
    bool shuffle;
    uint64_t seed;
    uint64_t shards; /* 0: by size */
    uint64_t shard_size_bytes;
};

/* Caller releases with stk_select_release(), also after an error. */
int stk_select_init(struct stk_select *s, const struct stk_dataset *ds,
                    const struct stk_select_options *o, struct stk_err *err);
void stk_select_release(struct stk_select *s);
/* Selected sample i in storage order. */
uint64_t stk_select_stored(const struct stk_select *s, uint64_t i);
/* The sample at position i of the output. */
uint64_t stk_select_at(const struct stk_select *s, uint64_t i);

/* ---- a shard --------------------------------------------------------------------------------- */

/* A shard being written: NAME.partial until it is whole, checksummed on the way. */

struct stk_out_file {
    struct stk_out out; /* first: what the format sees */
    char *dir, *name;   /* final name, in out.dirfd; dir: its name in messages */
    char *partial;      /* name of the file being written, for messages */
    char *partial_name; /* in out.dirfd */
    const struct stk_format *format;
    int fd; /* -1 for formats that write the file themselves */
    struct stk_buf buf;
    uint64_t written; /* without buf */
    uint64_t started; /* write-back was started up to here */
    struct stk_hash hash;
    bool patched;    /* the running checksum is void */
    char *side_name; /* name of the sidecar, or NULL */
    struct stk_new side_file;
    struct stk_buf side;
};

#define STK_OUT_INIT ((struct stk_out_file){.out.dirfd = -1, .fd = -1, .side_file = STK_NEW_INIT})

/* In our folder dirfd, named dir in messages. Caller always releases with stk_out_release(), before
 * dirfd is closed. */
int stk_out_open(struct stk_out_file *o, const struct stk_format *f, int dirfd, const char *dir,
                 const char *name, struct stk_err *err);
/* Makes it durable. Fills in name (borrowed from o), size and checksum. */
int stk_out_seal(struct stk_out_file *o, struct stk_manifest_file *shard,
                 struct stk_manifest_file *side, struct stk_err *err);
/* After that: renames it. */
int stk_out_commit(struct stk_out_file *o, struct stk_err *err);
void stk_out_release(struct stk_out_file *o);
/* The name of the sidecar of shard `name`, malloc'ed; f has a sidecar. NULL: no memory. */
char *stk_out_side_name(const struct stk_format *f, const char *name);

/* ---- finished shards ------------------------------------------------------------------------- */

/* The record of finished shards in DST.partial: name, size, samples and checksum of each, written
 * before the shard gets its name. --resume keeps only what has this content still. */

#define STK_DONE_NAME "pack.done"

struct stk_done {
    struct stk_manifest_file *file;
    size_t n;
    struct stk_lookup by_name;
    struct stk_buf text; /* the names are in it */
};

/* Adds a shard, and its sidecar unless side->name is NULL, to the record in the folder dirfd, and
 * makes that durable. From any thread. */
int stk_done_add(int dirfd, const char *path, const struct stk_manifest_file *shard,
                 const struct stk_manifest_file *side, struct stk_err *err);
/* Reads the record. What is damaged in it is as if it were not there. Caller releases in any
 * case. */
int stk_done_read(struct stk_done *d, int dirfd, const char *path, struct stk_err *err);
/* What was recorded last for that name, or NULL. */
const struct stk_manifest_file *stk_done_find(const struct stk_done *d, const char *name);
void stk_done_release(struct stk_done *d);

/* ---- destination ----------------------------------------------------------------------------- */

/* The folder a dataset is written into: DST.partial until it is whole, then DST. */

struct stk_dest {
    char *final, *partial; /* DST and DST.partial in messages */
    char *name;            /* of DST in its folder */
    int parent;            /* that folder; -1: not open */
    int fd;       /* DST.partial: ours, locked, and 0700 until it is whole. Its contents are reached
                   * through this: names may lead elsewhere if others can write. -1: not open */
    bool force;   /* an existing dataset may be replaced */
    bool resumed; /* there is an unfinished run with the same plan */
    struct stk_done done; /* what an unfinished run has finished */
    bool whole;   /* resume: dst is already the result of the plan; nothing was opened */
};
#define STK_DEST_INIT ((struct stk_dest){.parent = -1, .fd = -1})

/* Refuses a dst inside the folder src: the next time, it would be part of src. */
int stk_dest_apart(const char *src, const char *dst, struct stk_err *err);
/* Refuses if dst holds foreign data (STK_E_EXISTS), or a dataset and !force, or another process is
 * writing it, or DST.partial is not ours. plan: text that must match for a run to resume another.
 * Caller releases with stk_dest_release(). */
int stk_dest_open(struct stk_dest *d, const char *dst, bool force, bool resume, const char *plan,
                  struct stk_err *err);
/* The id of a plan as kept in the manifest: 16 hex digits in to[17]. */
void stk_dest_plan_id(const char *plan, char *to);
/* Makes partial the final dataset (replacing an old one). */
int stk_dest_publish(struct stk_dest *d, struct stk_err *err);
void stk_dest_release(struct stk_dest *d);

/* ---- contents of a packed dataset ------------------------------------------------------------ */

/* Which files in the folder of a packed dataset are its own: what the manifest names, and in a
 * tree of files what the index names. Nothing else is ever removed from it. */

struct stk_contents {
    struct stk_manifest manifest;
    const char **name; /* of files and trees, sorted; borrowed from the manifest */
    size_t n;
    const char *tree; /* the folder whose files the index names, or NULL */
    bool indexed;     /* it does: the index is the one that the manifest names */
    struct stk_index index;
};

/* Of an open folder. 1: it is a dataset; 0: it has no manifest of stoker; else the error. Caller
 * releases in any case. */
int stk_contents_read(struct stk_contents *c, int fd, const char *path, struct stk_err *err);
void stk_contents_release(struct stk_contents *c);
/* True if the manifest names this file or tree. */
bool stk_contents_name(const struct stk_contents *c, const char *name);
/* Counts the files in the folder that are not of the dataset. */
int stk_contents_others(struct stk_contents *c, int fd, struct stk_left *left, const char *path,
                        struct stk_err *err);
/* Removes those that are of it, its manifest last, but not the folder. */
int stk_contents_remove(struct stk_contents *c, int fd, struct stk_left *left, const char *path,
                        struct stk_err *err);

struct shard {
    uint64_t begin, end; /* positions */
    uint64_t next;       /* next position to assign */
    uint64_t chunks;     /* handed out */
    uint64_t turn;       /* number of the chunk that may append now */
    uint64_t samples;    /* appended */
    unsigned in_flight;
    bool opened, done;
    struct stk_out_file out;
    char name[280];
    struct stk_manifest_file file, side;
    char *side_name;
};

struct pack {
    const struct stk_pack_options *o;
    const struct stk_open_options *open; /* how the source is read; its jobs are of all the work */
    struct stk_dataset *ds;
    struct stk_select sel;
    struct stk_labels labels;
    struct stk_dest dest;
    struct stk_write_config cfg;
    struct stk_types types; /* of the fields, if they had to be unified */
    struct stk_sample first;
    struct stk_reader *first_reader; /* keeps the first sample's bytes */
    struct shard *shard;
    uint64_t nshards;
    unsigned jobs;
    uint64_t chunk_bytes;
    const char *name;
    bool class_by_class; /* order of the written samples */
    unsigned holds;      /* enum stk_holds of the output and the payload of its records */
    char plan_id[17];

    pthread_mutex_t lock; /* protects all below, and the shards' counters */
    pthread_cond_t turned;
    int rc; /* first failure */
    struct stk_err err;
    struct stk_problems skipped;
    uint64_t samples_done, bytes_done, bytes_out, shards_kept, replaced;
    uint64_t shards_redone; /* of an earlier run, changed since */
    uint64_t keys_lost; /* of samples written */
    uint64_t files_out; /* of the dataset: its shards, or the files of a tree */
    double last_progress;
};

/* ---- pack/work.c ---- */

/* Gives a sample its label, its number and a key. */
int stk_pack_dress(const struct pack *p, uint64_t number, struct stk_sample *s,
                   struct stk_err *err);
/* Adds the position of sample `id` in the source to an error, unless it has one. */
void stk_pack_place(const struct pack *p, uint64_t id, struct stk_err *why);
/* True if a sample with this error is left out instead of ending the run. */
bool stk_pack_can_skip(const struct pack *p, int rc);
/* Calls the progress function at intervals; negative if it says stop. */
int stk_pack_report(struct pack *p, const char *phase, bool now, struct stk_err *err);
int stk_pack_write_shards(struct pack *p, struct stk_err *err);

/* ---- pack/types.c ---- */

/* Decides the types of all fields, reading the samples if the index does not suffice. */
int stk_pack_types(struct pack *p, struct stk_err *err);

/* ---- pack/finish.c ---- */

int stk_pack_name_shards(struct pack *p, struct stk_err *err);
/* Keeps the shards that an earlier run finished and that are as it recorded them. */
int stk_pack_keep_finished(struct pack *p, struct stk_err *err);
int stk_pack_write_index(struct pack *p, struct stk_manifest_file *file, struct stk_err *err);
int stk_pack_write_manifest(struct pack *p, const char *src, const struct stk_manifest_file *index,
                            struct stk_err *err);

#endif
