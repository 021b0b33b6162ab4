/*
 * trust.h - whose word counts. Indexes, manifests and states say what data is; on a node that
 * others share anybody may have written the one that stands beside it.
 *
 * One is believed when its owner is the caller, root, or the owner of the data, who can change the
 * data itself, or a user whom the caller named; and when nobody else may write it who may not write
 * the data as well. A group that has no other member counts as its user.
 */
#ifndef STK_DATA_TRUST_H
#define STK_DATA_TRUST_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/buf.h"

struct stk_trust {
    struct stat data; /* the file, or the folder, that is described */
    bool all;         /* whoever it is */
    uid_t *user;      /* also these */
    size_t nusers;
};

/* users: NULL, or names and numbers with commas between, or "all". data is zero as yet. Caller
 * releases, also after an error. */
int stk_trust_init(struct stk_trust *t, const char *users, struct stk_err *err);
void stk_trust_release(struct stk_trust *t);
/* Refuses what cannot be believed, with the owner's name and what to do: STK_E_UNSUPPORTED. */
int stk_trust_check(const struct stk_trust *t, const struct stat *it, const char *path,
                    struct stk_err *err);
/* True when it is believed for the owner of the data alone: then that must be the owner of all of
 * it. */
bool stk_trust_is_owners(const struct stk_trust *t, uid_t owner);

/* Reads a whole file of at most max bytes that must be believed. */
int stk_trust_read(const struct stk_trust *t, const char *path, size_t max, struct stk_buf *text,
                   struct stk_err *err);

#endif
