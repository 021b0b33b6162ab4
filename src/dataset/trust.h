/*
 * trust.h - whom to trust. Indexes, manifests and states describe data; on a shared node, any user
 * may have put them beside it.
 *
 * A description is trusted if its owner is the caller, root, the owner of the data (who can change
 * the data itself), or a user whom the caller named; and if only users who may write the data may
 * write it. A group without other members counts as its user.
 */
#ifndef STK_DATASET_TRUST_H
#define STK_DATASET_TRUST_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/buf.h"

struct stk_trust {
    struct stat data; /* the file, or the folder, that is described */
    bool all;         /* trust everybody */
    uid_t *user;      /* trust these, too */
    size_t nusers;
};

/* users: NULL, or names and numbers separated by commas, or "all". Leaves data zero. Caller
 * releases, also after an error. */
int stk_trust_init(struct stk_trust *t, const char *users, struct stk_err *err);
void stk_trust_release(struct stk_trust *t);
/* Refuses a file that cannot be trusted, with the owner's name and what to do:
 * STK_E_UNSUPPORTED. */
int stk_trust_check(const struct stk_trust *t, const struct stat *it, const char *path,
                    struct stk_err *err);
/* True if it is trusted only because its owner owns the data: then that user must own all of the
 * data. */
bool stk_trust_is_owners(const struct stk_trust *t, uid_t owner);

/* Reads a whole file of at most max bytes that must be trusted. */
int stk_trust_read(const struct stk_trust *t, const char *path, size_t max, struct stk_buf *text,
                   struct stk_err *err);

#endif
