/*
 * priv.h - what the parts of pack share: pack.c decides, pack/work.c reads, encodes and
 * writes, pack/finish.c keeps finished shards of an earlier run and writes index and manifest.
 */
#ifndef STK_PACK_PRIV_H
#define STK_PACK_PRIV_H

#include "dataset/build.h"
#include "pack/dest.h"
#include "dataset/label.h"
#include "pack/out.h"
#include "pack/pack.h"
#include "dataset/reader.h"
#include "pack/select.h"
#include "format/codec/types.h"

#include <pthread.h>

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
