/* use.h - what the files of the overlay share. Private to src/tier. */
#ifndef STK_TIER_USE_H
#define STK_TIER_USE_H

#include "tier/overlay.h"
#include "tier/priv.h"

#define NO_FILE UINT32_MAX

struct level {
    struct stk_tier *tier;
    struct stk_tier_set *set;
    _Atomic uint32_t *file_of; /* by number in the dataset: number in the set, or NO_FILE */
    _Atomic uint8_t *strikes;  /* likewise: how often the copy was refused */
};

struct stk_tier_overlay {
    struct stk_files_overlay base;
    struct stk_dataset *ds;
    struct stk_files files; /* the dataset's, with this overlay */
    struct level level[STK_FILES_LEVELS];
    /* Filling: */
    unsigned fills;             /* the level that is filled; 0: none */
    struct stk_handles handles; /* of sources and copies */
    pthread_mutex_t lock;
    pthread_cond_t changed; /* a parcel is there, or a buffer is free */
    unsigned buffers;       /* in use */
    char why[200];          /* nothing more is filled (base.full), because... */
    uint64_t filled_bytes;
};

/* Takes ownership of t and s if it succeeds. */
int stk_tier_add_level(struct stk_tier_overlay *o, struct stk_tier *t, struct stk_tier_set *s,
                       struct stk_err *err);
/* Opens the tiers that the caller means, memory first (find.c). */
int stk_tier_find(struct stk_tier_overlay *o, const struct stk_tier_use *use, struct stk_buf *notes,
                  struct stk_err *err);
/* Reading through (fetch.c). */
int stk_tier_begin_fetching(struct stk_tier_overlay *o, struct stk_err *err);
void stk_tier_end_fetching(struct stk_tier_overlay *o);
/* Publishes the set that was filled, if it has all samples (rest.c). */
void stk_tier_complete(struct stk_tier_overlay *o);

#endif
