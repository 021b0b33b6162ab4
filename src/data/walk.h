/*
 * walk.h - the files of a dataset, in a fixed order, and which format they are.
 */
#ifndef STK_DATA_WALK_H
#define STK_DATA_WALK_H

#include "base/own.h"
#include "base/spool.h"
#include "data/dataset.h"
#include "data/index.h"

struct stk_walk_key {
    uint64_t off, len; /* in names, terminated */
};

struct stk_walk {
    int rootfd;                          /* folder the names are relative to */
    char *root;                          /* its path */
    bool is_dir;                         /* the dataset is a folder (else a single file in root) */
    struct stk_spool names, files, dirs; /* as in the index; sizes and times come later */
    uint64_t nfiles, ignored;
    struct stk_notes notes; /* what is left out already now, and what was taken as what */
    /* Parallel trees: the key of each file's sample (struct stk_walk_key), files of one sample
     * beside each other. Else empty: a file's name is the key. */
    struct stk_spool keys;
    const struct stk_format *format;
    struct stk_readers readers; /* of its folders, and of the files once they were listed */
    bool as_found; /* the format the user named is what it would have been taken for anyway */
};

/* Finds the files below path and their format. want: NULL, or the format the user named (of a
 * folder of files then every file is a sample). split: NULL, or the one whose files are taken.
 * Unreadable folders go into problems. Caller releases with stk_walk_release(), also after an
 * error. */
int stk_walk(struct stk_walk *w, const char *path, const char *want, const char *split,
             const char *tmpdir, struct stk_problems *problems, struct stk_err *err);
/* The same for the shards a manifest lists (names relative to path, checked by the caller). */
int stk_walk_shards(struct stk_walk *w, const char *path, const struct stk_format *format,
                    const char *const *names, size_t n, const char *tmpdir, struct stk_err *err);
void stk_walk_release(struct stk_walk *w);
/* What messages call its root from now on: that was opened by another name (stk_fd_path). */
int stk_walk_call(struct stk_walk *w, const char *root, struct stk_err *err);
/* malloc'ed root/name. */
char *stk_walk_path(const struct stk_walk *w, const char *name, size_t len);
/* Which format a single file is: the highest bid, or by suffix. NULL: none knows it. */
int stk_walk_bid(int dirfd, const char *name, const char *path, const struct stk_format **best,
                 int *bid, struct stk_err *err);

#endif
