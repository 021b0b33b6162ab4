/* kinds.h - the rows of the table: of reads.c and data.c. */
#ifndef STK_TUNE_KINDS_H
#define STK_TUNE_KINDS_H

#include "tune/priv.h"

extern const struct stk_tune_kind stk_tune_threads, stk_tune_prefetch, stk_tune_request,
    stk_tune_shard, stk_tune_memory, stk_tune_keep, stk_tune_loader, stk_tune_cpus;
extern const struct stk_tune_kind stk_tune_pack, stk_tune_compress, stk_tune_squashfs,
    stk_tune_stage, stk_tune_save;
extern const struct stk_tune_kind stk_tune_shards, stk_tune_arrays, stk_tune_stripes;

#define STK_TUNE_SHARD      (256u << 20) /* bytes of a shard, as a rule */
#define STK_TUNE_SMALL      (64u << 20) /* of a small one: the number of its change */
/* What a kind touches whose packed data the loader reads. */
#define STK_TUNE_LOADS_PACKED                                                                      \
    (STK_SLOT_DATA | STK_SLOT_THREADS | STK_SLOT_PREFETCH | STK_SLOT_REQUEST | STK_SLOT_LOAD)

/* The job reads files, and copies of them can be tried. */
bool stk_tune_reads_data(const struct stk_tuner *t);
/* A copy in the folder of the call, or (near < nnear) on that storage. NULL: too many. */
struct stk_tune_change *stk_tune_propose_copy(struct stk_tuner *t, const struct stk_tune_kind *k,
                                              const char *what, const char *label, size_t near);
/* The same, packed into TFRecord shards for the loader. */
struct stk_tune_change *stk_tune_propose_packed(struct stk_tuner *t, const struct stk_tune_kind *k,
                                                const char *id, const char *label, size_t near);
int stk_tune_prepare_pack(const struct stk_tuner *t, const struct stk_tune_change *c,
                         struct stk_buf *at, struct stk_err *err);
int stk_tune_prepare_stage(const struct stk_tuner *t, const struct stk_tune_change *c,
                         struct stk_buf *at, struct stk_err *err);
size_t stk_tune_act_pack(const struct stk_tune_change *c, struct stk_action *out);
bool stk_tune_patch_place(const struct stk_tune *t, const struct stk_tune_change *c,
                          const char *made, struct stk_buf *out);

#endif
