/* pack.h - writing a dataset of any format from a dataset of any format. */
#ifndef STK_DATA_PACK_H
#define STK_DATA_PACK_H

#include "data/dataset.h"

struct stk_pack_options {
    struct stk_open_options src; /* jobs: of the packing too; 0: by the number of cores */
    const char *format;          /* NULL: from DST's suffix, else tfrecord */
    const char *payload;         /* NULL: the format's default ("example" for tfrecord) */
    const char *name;            /* of the shards; NULL: DST's base name */
    uint64_t shards;             /* 0: by shard_size_bytes */
    uint64_t shard_size_bytes;
    bool shuffle;
    uint64_t seed;
    bool resume, force;
    const char **include; /* glob patterns on keys/paths, NULL-terminated, or NULL */
    const char **exclude;
    const char *label_from; /* NULL or "auto", "none", "dir", "dir:LEVEL", "csv:FILE" */
    bool number_keys;       /* keys become running numbers */
    const char *compress;   /* NULL or "none", "zstd[:LEVEL]", "lz4", "deflate[:LEVEL]" */
    enum stk_on_error on_error;
    uint64_t memory_bytes;     /* budget for buffers; 0: default */
    const char *settings_json; /* the effective settings, for the manifest; may be NULL */
    /* phase: "index", "pack", "sync". Return non-zero to stop. May be NULL. */
    int (*progress)(void *user, const char *phase, uint64_t bytes_done, uint64_t bytes_total,
                    uint64_t samples_done, uint64_t samples_total);
    void *user;
};

struct stk_pack_result {
    char format[32];
    bool whole;                            /* --resume: it was complete already, nothing was done */
    uint64_t samples, shards, shards_kept; /* kept: found finished by --resume */
    uint64_t files;                        /* written: the shards, or the files of a tree */
    uint64_t bytes_in, bytes_out;
    uint64_t classes;
    bool class_by_class; /* its samples are ordered by class */
    double seconds_index, seconds_total;
    struct stk_problems skipped;
    struct stk_notes notes; /* of the source */
};

void stk_pack_result_release(struct stk_pack_result *r);

/* Packs src into the new folder dst. On failure nothing is at dst that was not there before. */
int stk_pack(const char *src, const char *dst, const struct stk_pack_options *o,
             struct stk_pack_result *result, struct stk_err *err);

#endif
