/*
 * dest.h - the folder a dataset is written into: DST.partial until it is whole, then DST.
 */
#ifndef STK_PACK_DEST_H
#define STK_PACK_DEST_H

#include "pack/done.h"

struct stk_dest {
    char *final, *partial; /* DST and DST.partial in messages */
    char *name;            /* of DST in its folder */
    int parent;            /* that folder; -1: not open */
    int fd;       /* DST.partial: ours, locked, and 0700 until it is whole. Its contents are reached
                   * through this: names may lead elsewhere if others can write. -1: not open */
    bool force;   /* an existing dataset may be replaced */
    bool resumed; /* there is an unfinished run with the same plan */
    struct stk_done done; /* what an unfinished run has finished */
    bool whole;   /* resume: dst is already the result of the plan; nothing was opened */
};
#define STK_DEST_INIT ((struct stk_dest){.parent = -1, .fd = -1})

/* Refuses a dst inside the folder src: the next time, it would be part of src. */
int stk_dest_apart(const char *src, const char *dst, struct stk_err *err);
/* Refuses if dst holds foreign data (STK_E_EXISTS), or a dataset and !force, or another process is
 * writing it, or DST.partial is not ours. plan: text that must match for a run to resume another.
 * Caller releases with stk_dest_release(). */
int stk_dest_open(struct stk_dest *d, const char *dst, bool force, bool resume, const char *plan,
                  struct stk_err *err);
/* The id of a plan as kept in the manifest: 16 hex digits in to[17]. */
void stk_dest_plan_id(const char *plan, char *to);
/* Makes partial the final dataset (replacing an old one). */
int stk_dest_publish(struct stk_dest *d, struct stk_err *err);
void stk_dest_release(struct stk_dest *d);

#endif
