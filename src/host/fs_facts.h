/*
 * fs_facts.h - the file system that holds a path, in numbers: kind, space, quota, stripes, rules of
 * purging. Gathered in a child with a time limit: a file system may not answer.
 */
#ifndef STK_HOST_FS_FACTS_H
#define STK_HOST_FS_FACTS_H

#include <sys/types.h>

#include "host/lustre.h"
#include "host/purge.h"

/* Whether the storage is in this node. */
enum stk_reach { STK_REACH_UNKNOWN, STK_REACH_LOCAL, STK_REACH_MEMORY, STK_REACH_SHARED };
/* "not known", "local disk", "memory", "shared" */
const char *stk_reach_name(enum stk_reach reach);
struct stk_fs;
enum stk_reach stk_reach_of(const struct stk_fs *fs);

struct stk_fs_facts {
    char path[4096];  /* absolute, without links */
    char point[4096]; /* where it is mounted; "": not known */
    char fs[32];      /* "xfs", "fuse.sshfs"; "": not known */
    enum stk_reach reach;
    int error;                /* 0, or errno: the rest is not known. ETIMEDOUT: no answer */
    bool folder;              /* path is one */
    bool writable, read_only; /* we may create files there; it is mounted read-only */
    bool foreign_link;        /* the path is a link that another user made */
    uid_t owner;
    mode_t mode;
    dev_t dev;
    ino_t ino;
    uint64_t total_bytes, free_bytes; /* UINT64_MAX: not known; free: for this user */
    uint64_t total_files, free_files; /* inodes; UINT64_MAX: not known, or no limit */
    bool quota_told;
    uint64_t quota_bytes, quota_files; /* left to this user; UINT64_MAX: no limit, or not told */
    bool stripes;                      /* Lustre */
    struct stk_lustre_stripe stripe;   /* size 0: not told */
    struct stk_purge purge;
};

struct stk_fs_look {
    double limit_s;          /* 0: 5 s */
    bool nearest;            /* if path does not exist: the nearest folder above it */
    int (*stop)(void *user); /* may be NULL; non-zero: give up (ECANCELED) */
    void *user;
    bool no_purge; /* do not look for rules that remove old files: that takes hundreds of calls */
};

/* Fills *out in every case, and returns out->error. look may be NULL. */
int stk_fs_facts(const char *path, const struct stk_fs_look *look, struct stk_fs_facts *out);

#endif
