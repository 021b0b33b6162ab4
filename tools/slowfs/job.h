/*
 * job.h - one request of the kernel from its arrival to its answer.
 *
 * The work of a request (lookup, open, write) is done when it arrives, except that a read's data
 * is fetched when it is due; the answer then waits: for a stall, its latency, its turn on its
 * client's link, its turn on the shared link. job_step() takes it from one wait to the next.
 */
#ifndef SLOWFS_JOB_H
#define SLOWFS_JOB_H

#include "slowfs.h"

enum answer {
    ANSWER_ERROR, /* error 0: done */
    ANSWER_ENTRY,
    ANSWER_ATTR,
    ANSWER_OPEN,
    ANSWER_CREATE,
    ANSWER_TEXT,    /* readlink */
    ANSWER_LISTING, /* readdir */
    ANSWER_WRITTEN,
    ANSWER_DATA, /* read: fetched when due */
};

enum stage { STAGE_STALL, STAGE_LATENCY, STAGE_CLIENT, STAGE_LINK };

struct job {
    fuse_req_t req;
    uint64_t due_ns; /* of the stage it is in */
    enum stage stage;
    enum op op;
    enum answer answer;
    int error; /* positive errno; wins over answer */
    struct effect effect;
    uint64_t stalled_until_ns, client_done_ns;
    uint64_t bytes; /* to be moved over the link */
    struct node *node;
    struct handle *handle;
    off_t offset; /* of a read */
    size_t size;  /* of a read; of listing; of what was written */
    char *text;   /* link target or listing; owned */
    struct stat attr;
    struct fuse_entry_param entry;
    struct fuse_file_info file;
};

/* Counts the request. On NULL the request has been answered with ENOMEM. */
struct job *job_new(fuse_req_t req, enum op op);
/* Hands the job over to the event loop of this thread. Owned by it from here on. */
void job_submit(struct job *job);
/* Goes on with a job whose due_ns has come. True: it waits again, until due_ns; false: answered
 * and freed. buffer: max_read bytes for the data of reads. */
bool job_step(struct slowfs *fs, struct job *job, uint64_t now, uint8_t *buffer);
/* Answers with an error and undoes what was done for it. */
void job_abandon(struct slowfs *fs, struct job *job, int error);

/* ops_meta.c: a job about `name` in `parent`, its path in path[]; the rules have been asked. NULL:
 * answered. */
struct job *named_job(fuse_req_t req, enum op op, fuse_ino_t parent, const char *name,
                      char path[PATH_MAX]);
/* A job about a node itself; path[] is "" when it is gone. NULL: answered. */
struct job *node_job(fuse_req_t req, fuse_ino_t ino, char path[PATH_MAX]);
/* What was made at path belongs to the caller and has the mode it asked for, whatever our umask;
 * mode 0: a link, it has none. */
void adopt(fuse_req_t req, const char *path, mode_t mode);
/* Answers with the entry of path, when nothing has gone wrong before. */
void submit_entry(struct slowfs *fs, struct job *job, const char *path);

#endif
