/*
 * select.h - which samples are packed, in which order, and where the shards are cut. It depends
 * only on the source and the options, never on the number of jobs.
 */
#ifndef STK_PACK_SELECT_H
#define STK_PACK_SELECT_H

#include "base/spool.h"
#include "dataset/dataset.h"
#include "base/perm.h"

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

#endif
