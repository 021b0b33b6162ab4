/*
 * walk.h - the files of a dataset, in a fixed order, and their format.
 */
#ifndef STK_DATASET_WALK_H
#define STK_DATASET_WALK_H

#include "base/own.h"
#include "base/spool.h"
#include "dataset/dataset.h"
#include "dataset/index.h"

struct stk_walk_key {
    uint64_t off, len; /* in names, terminated */
};

struct stk_walk {
    int rootfd;                          /* folder the names are relative to */
    char *root;                          /* its path */
    bool is_dir;                         /* the dataset is a folder (else a single file in root) */
    bool outside;                        /* follow links that lead out of the root */
    struct stk_spool names, files, dirs; /* as in the index; sizes and times come later */
    uint64_t nfiles, ignored;
    struct stk_notes notes; /* what the walk left out, and what it took as something */
    /* Parallel trees: the key of each file's sample (struct stk_walk_key), files of one sample
     * adjacent. Else empty: a file's name is the key. */
    struct stk_spool keys;
    const struct stk_format *format;
    struct stk_problems *problems; /* borrowed: what cannot be listed or looked at */
    struct stk_readers readers; /* of its folders, and of the files once they are listed */
    const struct stk_format *mark;  /* of the folder being listed: what a file in it tells */
    const struct stk_format *store; /* a store of this format was left out, or is the root */
    bool as_found;              /* the format the user named is also the detected one */
};

struct stk_walk_options {
    int rootfd;        /* the folder, if the caller has opened it; else -1 */
    bool outside;      /* follow links wherever they lead, not only beneath the folder */
    const char *want;  /* NULL, or the format the user named: of a folder of files then every file
                        * is a sample */
    const char *split; /* NULL, or the split to read */
    const char *tmpdir;
};

/* Finds the files below path and their format. Links that lead out of the folder are left out, with
 * a note. What cannot be listed or looked at goes into problems. Caller releases with stk_walk_release(), also after
 * an error. */
int stk_walk_with(struct stk_walk *w, const char *path, const struct stk_walk_options *o,
                  struct stk_problems *problems, struct stk_err *err);
/* The same for a folder that is not open yet. */
int stk_walk(struct stk_walk *w, const char *path, const char *want, const char *split,
             const char *tmpdir, struct stk_problems *problems, struct stk_err *err);
/* The same for the shards a manifest lists (names relative to path, checked by the caller). */
int stk_walk_shards(struct stk_walk *w, const char *path, const struct stk_walk_options *o,
                    const struct stk_format *format, const char *const *names, size_t n,
                    struct stk_err *err);
void stk_walk_release(struct stk_walk *w);
/* malloc'ed root/name. */
char *stk_walk_path(const struct stk_walk *w, const char *name, size_t len);

#endif
