/*
 * lustre.h - what Lustre says through its client program `lfs`: stripes and quota. Its output is
 * not trusted, and a call that takes too long is ended. Without lfs nothing is known.
 */
#ifndef STK_HOST_LUSTRE_H
#define STK_HOST_LUSTRE_H

#include "base/err.h"

struct stk_lustre_stripe {
    int64_t count;       /* storage targets; -1: all; 0: not known */
    uint64_t size_bytes; /* 0: not known */
    bool progressive;    /* more of them for later parts of a file; count and size are the first */
};
/* Of a file, or of new files in a folder. False: no lfs, or it does not tell. */
bool stk_lustre_stripe(const char *path, struct stk_lustre_stripe *s);
/* The stripe for files of file_bytes that are read in requests of request_bytes: one request, one
 * storage target. */
struct stk_lustre_stripe stk_lustre_stripe_fit(uint64_t file_bytes, uint64_t request_bytes);
/* Sets it for new files in a folder of ours. STK_E_UNSUPPORTED: there is no lfs. */
int stk_lustre_stripe_set(const char *folder, const struct stk_lustre_stripe *s,
                          struct stk_err *err);

/* What the quota leaves to this user; UINT64_MAX: no limit, or not told. False: not told. */
bool stk_lustre_quota(const char *path, uint64_t *bytes, uint64_t *files);

#endif
