/*
 * overlay.h - the copies of a dataset in the tiers of this node, for those who read it through an
 * engine: found, checked, and filled if the caller asks for that.
 */
#ifndef STK_TIER_OVERLAY_H
#define STK_TIER_OVERLAY_H

#include "base/buf.h"
#include "dataset/dataset.h"
#include "io/files.h"

struct stk_tier_use {
    /* "off"; paths of tiers, separated by ':'; "auto" or NULL: those of $STOKER_TIER, else the
     * tiers of this job in the folders of host/scratch.h */
    const char *tiers;
    bool fill;            /* fill the first tier, made if missing */
    uint64_t limit_bytes; /* of a tier that is made; 0: none */
};

struct stk_tier_overlay;
/* *out: NULL if no tier has a copy and none is filled. A tier that is not ours or cannot be used is
 * left out, with a sentence in *notes; but the one to fill must be usable. Borrows ds. Caller
 * closes. */
int stk_tier_overlay_open(struct stk_dataset *ds, const struct stk_tier_use *use,
                          struct stk_tier_overlay **out, struct stk_buf *notes,
                          struct stk_err *err);
/* After the engines that use it. A set that is complete by now is published. */
void stk_tier_overlay_close(struct stk_tier_overlay *o);
/* The reader has its first bytes: whoever fills the tiers may go on. Once, from any thread. */
void stk_tier_overlay_started(struct stk_tier_overlay *o);
/* For struct stk_files. Borrowed. */
const struct stk_files_overlay *stk_tier_overlay_files(const struct stk_tier_overlay *o);
/* The tier of a level, from 1; NULL: no such level. Borrowed. */
const char *stk_tier_overlay_path(const struct stk_tier_overlay *o, unsigned level);
bool stk_tier_overlay_in_memory(const struct stk_tier_overlay *o, unsigned level);
/* What filling did; why it ended before all was there, "" if it did not. */
struct stk_tier_filled {
    uint64_t bytes; /* put into the tier by this process */
    char why[200];
};
void stk_tier_overlay_filled(struct stk_tier_overlay *o, struct stk_tier_filled *out);

#endif
