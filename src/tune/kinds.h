/* kinds.h - the rows of the table that are in data.c. */
#ifndef STK_TUNE_KINDS_H
#define STK_TUNE_KINDS_H

#include "tune/priv.h"

extern const struct stk_tune_kind stk_tune_pack, stk_tune_compress, stk_tune_squashfs,
    stk_tune_stage, stk_tune_save;

#endif
