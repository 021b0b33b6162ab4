/*
 * target.h - which folder of this node takes a copy of N bytes: the candidates of host/scratch.h
 * judged by file system, owner, room and a write probe, each with a verdict and a reason.
 *
 * What a variable is called proves nothing: $SCRATCH is a local disk at one site and a shared,
 * purged file system at another. Every call that may hang runs in a child with a time limit.
 */
#ifndef STK_STAGE_TARGET_H
#define STK_STAGE_TARGET_H

#include <stdint.h>

#include "host/fs_facts.h"
#include "host/scratch.h"
#include "stage/stage.h"

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
    struct stk_limit limit;  /* for each folder; 0: 5 s. A stop is STK_E_STOPPED */
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

/* ---- where a copy goes ----------------------------------------------------------------------- */

/* Where a copy goes: the tier that the user names, else a tier of this job that has a part of the
 * copy, else one in the best folder of the node (stage/target.h). */
struct stk_choose_options {
    const char *dst;         /* that the user names; NULL: none */
    const char *form;        /* the copy is packed in this format; NULL: as it is */
    uint64_t bytes;          /* of the copy */
    int (*stop)(void *user); /* as in struct stk_target_wish, with user NULL */
};

struct stk_chosen { /* all zero: nothing is chosen */
    char *tier;     /* its path, absolute; NULL: none */
    bool named;     /* by the user: it may be shared by jobs */
    size_t taken;   /* bytes of it that are the usual name, if another user has that; else 0 */
    bool begun, there;           /* the tier has a copy: a part of it, all of it */
    struct stk_targets *targets; /* the candidates; NULL: the user named the tier */
    struct stk_target *target;   /* the folder of the tier: one of them, or the named one */
    uint64_t file_bytes;         /* the mean size of a file */
    struct stk_buf why;          /* of the choice, for people */
};

/* STK_E_UNSUPPORTED: no folder takes it. What was found out stays in *out, which the caller
 * releases in any case. */
int stk_choose_tier(const struct stk_choose_options *c, const struct stk_source *src,
                    struct stk_chosen *out, struct stk_err *err);
void stk_chosen_release(struct stk_chosen *c);
/* Sets the stripe of a tier that was just made, if it is on Lustre. file_bytes: the mean size of a
 * file, 0: as it was chosen for. */
void stk_chosen_stripe(struct stk_chosen *c, const char *path, uint64_t file_bytes);

/* The tier at the path that the user names, absolute, malloc'ed; NULL: no memory. */
char *stk_tier_named(const char *dst);
/* Calls see() with the tiers to look at without a source: dst, or those of this job that exist. */
int stk_tiers_each(const char *dst, int (*see)(void *user, const char *path), void *user);
/* True if that path, which need not exist, is the folder or lies in it. folder: a real path. */
bool stk_path_is_inside(const char *path, const char *folder);

/* ---- tiers of jobs that are over ------------------------------------------------------------- */

/* Removes the default tiers of jobs that are over: a job that was killed cannot do so itself, and a
 * node's disk belongs to the next one. */

/* Looks into the folders of host/scratch.h for default tiers of this user. Removes one if its job
 * is known to be over (sched/slurm/slurm.h) and no process uses it; a tier that the user named is never
 * touched. told (may be NULL): called with the path of each that is gone, or that stays. Returns the
 * number of those that are gone. */
struct stk_swept {
    const char *path;
    const char *left; /* it stays because of this file in it, which stoker did not put there; or NULL */
    const char *used; /* it stays because a process uses it, which this names; or NULL */
};
uint64_t stk_stage_sweep(void (*told)(void *user, const struct stk_swept *one), void *user);

#endif
