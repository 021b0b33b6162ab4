/*
 * choose.h - where a copy goes: the tier that the user names, else a tier of this job that has a
 * part of the copy, else one in the best folder of the node (stage/target.h).
 */
#ifndef STK_STAGE_CHOOSE_H
#define STK_STAGE_CHOOSE_H

#include "stage/stage.h"
#include "stage/target.h"

struct stk_choose_options {
    const char *dst;         /* that the user names; NULL: none */
    const char *form;        /* the copy is packed in this format; NULL: as it is */
    uint64_t bytes;          /* of the copy */
    int (*stop)(void *user); /* as in struct stk_target_wish, with user NULL */
};

struct stk_chosen { /* all zero: nothing is chosen */
    char *tier;     /* its path, absolute; NULL: none */
    bool named;     /* by the user: it may be shared by jobs */
    size_t taken;   /* bytes of it that are the usual name, if another user has that; else 0 */
    bool begun, there;           /* the tier has a copy: a part of it, all of it */
    struct stk_targets *targets; /* the candidates; NULL: the user named the tier */
    struct stk_target *target;   /* the folder of the tier: one of them, or the named one */
    uint64_t file_bytes;         /* the mean size of a file */
    struct stk_buf why;          /* of the choice, for people */
};

/* STK_E_UNSUPPORTED: no folder takes it. What was found out stays in *out, which the caller
 * releases in any case. */
int stk_choose_tier(const struct stk_choose_options *c, const struct stk_source *src,
                    struct stk_chosen *out, struct stk_err *err);
void stk_chosen_release(struct stk_chosen *c);
/* Sets the stripe of a tier that was just made, if it is on Lustre. file_bytes: the mean size of a
 * file, 0: as it was chosen for. */
void stk_chosen_stripe(struct stk_chosen *c, const char *path, uint64_t file_bytes);

/* The tier at the path that the user names, absolute, malloc'ed; NULL: no memory. */
char *stk_tier_named(const char *dst);
/* Calls see() with the tiers to look at without a source: dst, or those of this job that exist. */
int stk_tiers_each(const char *dst, int (*see)(void *user, const char *path), void *user);
/* True if that path, which need not exist, is the folder or lies in it. folder: a real path. */
bool stk_path_is_inside(const char *path, const char *folder);

#endif
