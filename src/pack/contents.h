/*
 * contents.h - which files in the folder of a packed dataset are its own: what the manifest names,
 * and in a tree of files what the index names. Nothing else is ever removed from it.
 */
#ifndef STK_PACK_CONTENTS_H
#define STK_PACK_CONTENTS_H

#include "base/own.h"
#include "dataset/index.h"
#include "dataset/manifest.h"

struct stk_contents {
    struct stk_manifest manifest;
    const char **name; /* of files and trees, sorted; borrowed from the manifest */
    size_t n;
    const char *tree; /* the folder whose files the index names, or NULL */
    bool indexed;     /* it does: the index is the one that the manifest names */
    struct stk_index index;
};

/* Of an open folder. 1: it is a dataset; 0: it has no manifest of stoker; else the error. Caller
 * releases in any case. */
int stk_contents_read(struct stk_contents *c, int fd, const char *path, struct stk_err *err);
void stk_contents_release(struct stk_contents *c);
/* True if the manifest names this file or tree. */
bool stk_contents_name(const struct stk_contents *c, const char *name);
/* Counts the files in the folder that are not of the dataset. */
int stk_contents_others(struct stk_contents *c, int fd, struct stk_left *left, const char *path,
                        struct stk_err *err);
/* Removes those that are of it, its manifest last, but not the folder. */
int stk_contents_remove(struct stk_contents *c, int fd, struct stk_left *left, const char *path,
                        struct stk_err *err);

#endif
