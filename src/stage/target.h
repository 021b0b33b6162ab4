/*
 * target.h - which folder of this node takes a copy of N bytes: the candidates of host/scratch.h
 * judged by file system, owner, room and a write probe, each with a verdict and a reason.
 *
 * What a variable is called proves nothing: $SCRATCH is a local disk at one site and a shared,
 * purged file system at another. Every call that may hang runs in a child with a time limit.
 */
#ifndef STK_STAGE_TARGET_H
#define STK_STAGE_TARGET_H

#include "host/fs_facts.h"
#include "host/scratch.h"

enum stk_target_verdict {
    STK_TARGET_FITS,
    STK_TARGET_UNSET,   /* the variable is not set */
    STK_TARGET_ABSENT,  /* no such folder */
    STK_TARGET_SAME,    /* the same folder as an earlier candidate */
    STK_TARGET_SHARED,  /* on a file system that other nodes see */
    STK_TARGET_UNKNOWN, /* on a file system that may or may not be local */
    STK_TARGET_FOREIGN, /* another user's, or others can rename what is in it */
    STK_TARGET_REFUSED, /* not writable, read-only, or the write probe failed */
    STK_TARGET_SMALL,   /* too little free space, quota, or too few inodes */
    STK_TARGET_MEMORY,  /* in memory, and the job may not use that much of it */
    STK_TARGET_STALLED, /* did not answer in time */
};
/* Its name in JSON: "fits", "shared", … */
const char *stk_target_verdict_name(enum stk_target_verdict v);

struct stk_target {
    const char *name; /* as in host/scratch.h; "DST": named by the user */
    bool named;       /* by the user, on the command line: it may be shared */
    char path[4096];  /* absolute, without links; "": not set */
    struct stk_fs_facts facts;
    enum stk_target_verdict verdict;
    char reason[320];    /* "xfs on this node, 1.8 TiB free"; not escaped: names may be in it */
    char warning[1024];  /* of a target that fits: it is purged, or shared; "": none */
    uint64_t job_bytes;  /* memory that the job may still use; UINT64_MAX: not known */
    uint64_t room_bytes; /* the largest copy that it takes; UINT64_MAX: not known */
};

struct stk_target_wish {
    uint64_t bytes, files;   /* of the copy; 0: not known */
    bool no_probe;           /* do not write anything */
    bool no_purge;           /* do not ask whether old files are removed from it */
    double limit_s;          /* for each folder; 0: 5 s */
    int (*stop)(void *user); /* may be NULL; non-zero: give up (STK_E_STOPPED) */
    void *user;
};

struct stk_targets {
    struct stk_target target[STK_SCRATCHES];
    size_t n;
    size_t best; /* n: none fits */
};

/* Judges all candidates. What the user set ($STOKER_SCRATCH) wins if it fits, then folders on disk
 * before folders in memory. Finding none is not an error. out needs no release; it is too large for
 * the stack. */
int stk_targets_find(const struct stk_target_wish *wish, struct stk_targets *out,
                     struct stk_err *err);
/* The one that was chosen; NULL: none. */
const struct stk_target *stk_targets_best(const struct stk_targets *t);
/* Judges a folder that the user names. It may be shared: then it fits, with a warning. If path does
 * not exist, judges the nearest folder above it. */
int stk_target_judge(const char *path, const struct stk_target_wish *wish, struct stk_target *out,
                     struct stk_err *err);
/* STK_E_UNSUPPORTED, with both sizes, if the folder cannot hold so much more. What cannot be found out
 * is no reason to refuse. */
int stk_target_room(const char *path, uint64_t bytes, uint64_t files, struct stk_err *err);
/* The verdict by the facts alone: name, named, path, facts and job_bytes are set. */
void stk_target_decide(struct stk_target *t, const struct stk_target_wish *wish, uid_t me);

/* Gives an empty folder of ours on Lustre the stripe that suits files of file_bytes on average,
 * read in requests of request_bytes. *what (size bytes): "8 stripes of 16 MiB", "" if the folder is
 * not on Lustre or lfs refuses: the copy works without. */
void stk_target_stripe(const char *folder, uint64_t file_bytes, uint64_t request_bytes, char *what,
                       size_t size);

#endif
