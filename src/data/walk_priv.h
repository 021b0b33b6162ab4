/*
 * walk_priv.h - what the parts of the walk share: walk.c lists files and finds their format,
 * walk_tree.c decides which files of a folder are samples.
 */
#ifndef STK_DATA_WALK_PRIV_H
#define STK_DATA_WALK_PRIV_H

#include "data/walk.h"

/* The names found. */
struct stk_walk_names {
    const struct stk_index_file *file;
    const char *text;
    uint64_t n;
};

int stk_walk_map(struct stk_walk *w, struct stk_walk_names *v, struct stk_err *err);

static inline const char *stk_walk_name(const struct stk_walk_names *v, uint64_t i)
{
    return v->text + v->file[i].name_off;
}

/* Keeps the files whose byte in keep is not 0, in place of all. */
int stk_walk_keep(struct stk_walk *w, const struct stk_walk_names *v, const uint8_t *keep,
                  struct stk_err *err);

/* Of a folder of files: leaves out what is no sample, and pairs images with their labels. */
int stk_walk_tree(struct stk_walk *w, struct stk_err *err);
/* Which splits the files are of; with `want` only the files of that one stay. */
int stk_walk_splits(struct stk_walk *w, const char *want, struct stk_err *err);

#endif
