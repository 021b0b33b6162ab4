/*
 * done.h - the record of finished shards in DST.partial: name, size, samples and checksum of each,
 * written before the shard gets its name. --resume keeps only what has this content still.
 */
#ifndef STK_PACK_DONE_H
#define STK_PACK_DONE_H

#include "base/buf.h"
#include "base/lookup.h"
#include "dataset/manifest.h"

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

#endif
