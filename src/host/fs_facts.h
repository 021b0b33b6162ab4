/*
 * fs_facts.h - the file system that holds a path, in numbers: kind, space, quota, stripes, rules of
 * purging. Gathered in a child with a time limit: a file system may not answer.
 */
#ifndef STK_HOST_FS_FACTS_H
#define STK_HOST_FS_FACTS_H

#include <sys/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/thread.h"

/* ---- quota ----------------------------------------------------------------------------------- */

/* device: the source of the mount. *bytes, *files: what user and group leave; UINT64_MAX: no limit.
 * False: not told (no quota there, or the kernel does not tell us). May hang with its disk. */
bool stk_quota_left(const char *device, uint64_t *bytes, uint64_t *files);

/* ---- Lustre ---------------------------------------------------------------------------------- */

/* What Lustre says through its client program `lfs`: stripes and quota. Its output is not trusted,
 * and a call that takes too long is ended. Without lfs nothing is known. */

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

/* ---- rules of purging ------------------------------------------------------------------------ */

/* Rules that remove old files from a folder: $STOKER_PURGE_DAYS, and systemd-tmpfiles. A site's
 * own scripts are not visible: no rule found is not a promise. */

struct stk_purge {
    double days;    /* files that are older are removed; 0: no rule found */
    char from[512]; /* "STOKER_PURGE_DAYS", "/usr/lib/tmpfiles.d/tmp.conf" */
};
/* path: absolute. STOKER_PURGE_DAYS is a number, for all folders, or a list "/scratch=30:/tmp=10";
 * 0 says that the folder is not purged. True if a rule was found. */
bool stk_purge_rule(const char *path, struct stk_purge *p);

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
    struct stk_limit limit; /* 0: 5 s */
    bool nearest;           /* if path does not exist: the nearest folder above it */
    bool no_purge; /* do not look for rules that remove old files: that takes hundreds of calls */
};

/* Fills *out in every case, and returns out->error. look may be NULL. */
int stk_fs_facts(const char *path, const struct stk_fs_look *look, struct stk_fs_facts *out);

#endif
