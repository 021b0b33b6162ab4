/*
 * manifest.h - manifest.json: marks a packed dataset as complete. Written last.
 */
#ifndef STK_DATASET_MANIFEST_H
#define STK_DATASET_MANIFEST_H

#include "base/buf.h"
#include "dataset/trust.h"

#define STK_MANIFEST_NAME "manifest.json"
#define STK_INDEX_NAME    "index.stkidx"

struct stk_manifest_file {
    const char *name; /* relative to the dataset, checked to be a safe path */
    uint64_t size, samples, xxh64;
};

struct stk_manifest {
    const char *format, *payload; /* payload "" if the format has none */
    int compress;                 /* enum stk_filter_id or 0 */
    bool grouped;                 /* a tree whose samples are several files of one stem */
    const char *columns;          /* tables of text: stk_list_options' types; else "" */
    uint64_t samples, bytes;
    struct stk_manifest_file *shard; /* files the samples are in */
    size_t nshards;
    struct stk_manifest_file *other; /* the index, .idx files … */
    size_t nother;
    bool class_by_class;  /* samples of a class are adjacent */
    const char **classes; /* label i is classes[i] */
    size_t nclasses;
    const char *plan;          /* id of the run that made it (stk_dest_plan_id), or NULL */
    const char *source;        /* path of the packed source */
    const char *label_from;    /* "dir:1" if labels are directories of the keys, else "" */
    const char *settings_json; /* as given, or NULL */
    struct stk_arena arena;    /* owns all of the above after a read */
};

/* Where to look for one. */
struct stk_manifest_at {
    int dirfd;                     /* the dataset */
    bool outside;                  /* a link may lead out of it; else such a link is ignored */
    const char *dir;               /* its path, for messages */
    const struct stk_trust *trust; /* NULL, or whom to trust: others are refused */
};
/* 1: read; 0: none, or a manifest.json of another program; negative: stoker's, but damaged. */
int stk_manifest_read_at(const struct stk_manifest_at *at, struct stk_manifest *m,
                         struct stk_err *err);
/* After 0: STK_E_CORRUPT if the folder has the index of a packed dataset: without its manifest, it
 * would be another dataset, with fewer samples. Else 0. */
int stk_manifest_missing(const struct stk_manifest_at *at, struct stk_err *err);
/* Reads it, whoever wrote it. */
int stk_manifest_read(const char *dir, struct stk_manifest *m, struct stk_err *err);
void stk_manifest_release(struct stk_manifest *m);
/* Identifies the shards of a dataset: a hash of names, sizes and checksums. Not 0. */
uint64_t stk_manifest_id(const struct stk_manifest_file *shard, size_t n);
/* Writes it to the folder dirfd; dir: its name in messages. */
int stk_manifest_write(int dirfd, const char *dir, const struct stk_manifest *m,
                       struct stk_err *err);

const char *stk_compress_name(int filter); /* "zstd", "lz4", "deflate" or "" */
/* Parses "zstd:3" and the like; *filter 0 for "none". */
int stk_compress_parse(const char *text, int *filter, int *level, struct stk_err *err);

#endif
