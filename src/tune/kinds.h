/* kinds.h - the rows of the table: of reads.c, then of data.c. */
#ifndef STK_TUNE_KINDS_H
#define STK_TUNE_KINDS_H

#include "tune/priv.h"

extern const struct stk_tune_kind stk_tune_threads, stk_tune_prefetch, stk_tune_request,
    stk_tune_shard, stk_tune_memory, stk_tune_keep, stk_tune_loader;
extern const struct stk_tune_kind stk_tune_pack, stk_tune_compress, stk_tune_squashfs,
    stk_tune_stage, stk_tune_save;

#endif
