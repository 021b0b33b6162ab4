/*
 * job.h - one request of the kernel from its arrival to its answer.
 *
 * The work of a request (lookup, open, write) is done when it arrives, except that a read's data is
 * fetched when it is due; the answer then waits: for a stall, its latency, its client's link, the
 * shared link. job_step() takes it from one wait to the next.
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

enum wait { WAIT_STALL, WAIT_LATENCY, WAIT_CLIENT, WAIT_LINK };

struct job {
    fuse_req_t req;
    uint64_t due_ns; /* of the current wait */
    enum wait wait;
    enum op op;
    enum answer answer;
    int error; /* positive errno; wins over answer */
    struct effect effect;
    uint64_t stalled_until_ns, client_done_ns;
    uint64_t bytes; /* to be moved over the link */
    struct node *node;
    struct handle *handle;
    off_t offset; /* of a read */
    size_t size;  /* of a read; of a listing; of written data */
    char *text;   /* link target or listing; owned */
    struct stat attr;
    struct fuse_entry_param entry;
    struct fuse_file_info file;
};

/* Counts the request. On NULL the request has been answered with ENOMEM. */
struct job *job_new(fuse_req_t req, enum op op);
/* Passes the job to the event loop of this thread, which owns it from here on. */
void job_submit(struct job *job);
/* Continues a job whose due_ns has come. True: it waits again, until due_ns; false: answered and
 * freed. buffer: max_read bytes for the data of reads. */
bool job_step(struct slowfs *fs, struct job *job, uint64_t now, uint8_t *buffer);
/* Answers with an error and undoes its work. */
void job_abandon(struct slowfs *fs, struct job *job, int error);

/* ops_meta.c: a job about `name` in `parent`, with its path in path[]; the rules have been applied.
 * NULL: answered. */
struct job *named_job(fuse_req_t req, enum op op, fuse_ino_t parent, const char *name,
                      char path[PATH_MAX]);
/* A job about a node itself; path[] is "" when it is gone. NULL: answered. */
struct job *node_job(fuse_req_t req, fuse_ino_t ino, char path[PATH_MAX]);
/* Gives a new file at path to the caller, with the requested mode, whatever our umask; mode 0: a
 * link, which has none. */
void adopt(fuse_req_t req, const char *path, mode_t mode);
/* Answers with the entry of path, unless something has failed before. */
void submit_entry(struct slowfs *fs, struct job *job, const char *path);

#endif
