/*
 * walk_priv.h - what the parts of the walk share: walk.c lists files and finds their format,
 * walk_tree.c decides which files of a folder are samples.
 */
#ifndef STK_DATASET_WALK_PRIV_H
#define STK_DATASET_WALK_PRIV_H

#include "dataset/walk.h"

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

/* Keeps only the files whose byte in keep is not 0. */
int stk_walk_keep(struct stk_walk *w, const struct stk_walk_names *v, const uint8_t *keep,
                  struct stk_err *err);

/* For a folder of files: leaves out files that are not samples, and pairs images with their
 * labels. */
int stk_walk_tree(struct stk_walk *w, struct stk_err *err);
/* Finds the splits of the files; with `want`, keeps only the files of that split. */
int stk_walk_splits(struct stk_walk *w, const char *want, struct stk_err *err);

#endif
