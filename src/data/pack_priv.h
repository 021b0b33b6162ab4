/*
 * pack_priv.h - what the parts of pack share: pack.c decides, pack_work.c reads, encodes and
 * writes, pack_finish.c takes over finished shards of an earlier run and writes index and manifest,
 * pack_checks.c gives the index the samples' checksums.
 */
#ifndef STK_DATA_PACK_PRIV_H
#define STK_DATA_PACK_PRIV_H

#include "data/build.h"
#include "data/dest.h"
#include "data/label.h"
#include "data/out.h"
#include "data/pack.h"
#include "data/reader.h"
#include "data/select.h"
#include "format/types.h"

#include <pthread.h>

struct shard {
    uint64_t begin, end; /* positions */
    uint64_t next;       /* position not handed out yet */
    uint64_t chunks;     /* handed out */
    uint64_t turn;       /* chunk that may append now */
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
    struct stk_types types; /* of the fields, where they had to be made one */
    struct stk_sample first;
    struct stk_reader *first_reader; /* keeps the first sample's bytes */
    struct shard *shard;
    uint64_t nshards;
    unsigned jobs;
    uint64_t chunk_bytes;
    const char *name;
    bool class_by_class; /* the samples, as they are written */
    unsigned holds; /* enum stk_holds: what is written, and the payload of its records */
    char plan_id[17];

    pthread_mutex_t lock; /* all below, and the shards' counters */
    pthread_cond_t turned;
    int rc; /* first failure */
    struct stk_err err;
    struct stk_problems skipped;
    uint64_t samples_done, bytes_done, bytes_out, shards_kept;
    uint64_t keys_lost; /* of samples written */
    uint64_t files_out; /* of the dataset: its shards, or the files of a tree */
    double last_progress;
};

/* ---- pack_work.c ---- */

/* Gives a sample its label, its number and a key. */
int stk_pack_dress(const struct pack *p, uint64_t number, struct stk_sample *s,
                   struct stk_err *err);
/* Adds to an error where sample `id` of the source stands, unless it says so. */
void stk_pack_place(const struct pack *p, uint64_t id, struct stk_err *why);
/* Whether a sample that failed so is left out instead of ending the run. */
bool stk_pack_can_skip(const struct pack *p, int rc);
/* Calls the progress function now and then; negative when it says stop. */
int stk_pack_report(struct pack *p, const char *phase, bool now, struct stk_err *err);
int stk_pack_write_shards(struct pack *p, struct stk_err *err);

/* ---- pack_types.c ---- */

/* Decides the types of all fields, looking at the samples where the index cannot say. */
int stk_pack_types(struct pack *p, struct stk_err *err);

/* ---- pack_finish.c ---- */

int stk_pack_name_shards(struct pack *p, struct stk_err *err);
/* Takes over the shards that a run before this one finished. */
int stk_pack_keep_finished(struct pack *p, struct stk_err *err);
int stk_pack_write_index(struct pack *p, struct stk_manifest_file *file, struct stk_err *err);
int stk_pack_write_manifest(struct pack *p, const char *src, const struct stk_manifest_file *index,
                            struct stk_err *err);

/* ---- pack_checks.c ---- */

/* True: the format has no checksums of its own, so the index has them. */
bool stk_pack_wants_checks(const struct pack *p);
/* Reads all samples that were written (the files of w, indexed by fd), and puts their checksums
 * into the index. */
int stk_pack_add_checks(struct pack *p, const struct stk_walk *w, int fd, const char *path,
                        struct stk_err *err);

#endif
