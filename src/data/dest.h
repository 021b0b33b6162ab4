/*
 * dest.h - the folder a dataset is written into: DST.partial until it is whole, then DST.
 */
#ifndef STK_DATA_DEST_H
#define STK_DATA_DEST_H

#include "base/buf.h"

struct stk_dest {
    char *final, *partial; /* what messages call DST and DST.partial */
    char *name;            /* of DST in its folder */
    int parent;            /* that folder; -1: not open */
    int fd;       /* DST.partial: ours, locked, and 0700 until it is whole. What is in it is reached
                     through this: names may lead elsewhere where others write too. -1: not open */
    bool force;   /* a dataset that is there may be replaced */
    bool resumed; /* an unfinished run with the same plan is there */
    bool whole;   /* resume: dst is what that plan makes already; nothing was opened */
};
#define STK_DEST_INIT ((struct stk_dest){.parent = -1, .fd = -1})

/* Refuses a dst inside the folder src: written there it would be part of src the next time. */
int stk_dest_apart(const char *src, const char *dst, struct stk_err *err);
/* Refuses when dst holds somebody's data (STK_E_EXISTS), or a dataset and !force, or another
 * process is at it, or DST.partial is not ours. plan: text that two runs must share to be able to
 * continue each other. Caller releases with stk_dest_release(). */
int stk_dest_open(struct stk_dest *d, const char *dst, bool force, bool resume, const char *plan,
                  struct stk_err *err);
/* A plan as the manifest of what it made keeps it: 16 hex digits in to[17]. */
void stk_dest_plan_id(const char *plan, char *to);
/* Makes partial the final dataset (replacing an old one). */
int stk_dest_publish(struct stk_dest *d, struct stk_err *err);
void stk_dest_release(struct stk_dest *d);

#endif
