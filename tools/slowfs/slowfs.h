/*
 * slowfs.h - shared by the parts of slowfs: settings, the mounted file system, counters.
 *
 * One `struct slowfs` is the mount. Event threads (loop.c) take requests, do the work of a request
 * when it arrives (ops_*.c) and send the answer when it is due (job.c, pace.c).
 */
#ifndef SLOWFS_H
#define SLOWFS_H

#define FUSE_USE_VERSION 31
#include <dirent.h>
#include <fuse_lowlevel.h>
#include <stdatomic.h>

#include "faults.h"
#include "node.h"
#include "pace.h"

#define CONTROL_NAME ".slowfs-control"
#define STATS_NAME   ".slowfs-stats"
#define SIZE_BUCKETS 22 /* powers of two from 1 byte to 2 MiB */

struct settings {
    double open_s, stat_s, read_s, write_s;
    uint64_t bandwidth_Bps, client_bandwidth_Bps, max_read_bytes, readahead_bytes;
    double jitter, meta_cache_s;
    uint64_t seed, threads;
    const char *cache, *faults, *stats;
    bool catch_up, foreground, allow_other, help;
};

struct counters {
    _Atomic uint64_t requests[OP_COUNT]; /* opens, stats, reads, writes */
    _Atomic uint64_t bytes[OP_COUNT];    /* of data moved */
    _Atomic uint64_t read_sizes[SIZE_BUCKETS];
    _Atomic uint64_t waiting, waiting_peak; /* received and not yet answered */
    _Atomic uint64_t reading, reading_peak;
};

/* A process with open files: it has its own bandwidth limit. */
struct client {
    struct client *next;
    pid_t pid;
    uint64_t users;
    struct pace_clock clock;
};

struct slowfs {
    struct settings set;
    struct pace pace;
    struct pace_lags lags; /* with --catch-up */
    struct nodes nodes;
    struct faults faults;
    struct counters count;
    struct client *clients; /* under nodes.lock */
    struct fuse_session *session;
    _Atomic bool init_reply; /* the next answer is the one to FUSE_INIT */
    struct control *control;
    int root_fd; /* the source */
    int wake_fd; /* readable: time to leave */
    uint64_t started_ns;
};

/* An open file or directory. Our own files have text instead of a descriptor. */
struct handle {
    struct handle *next; /* of the same node, under nodes.lock */
    int fd;
    bool unbuffered;       /* every read() of the caller is one request */
    _Atomic uint64_t size; /* of the file as last seen */
    struct client *client; /* NULL: no limit of its own */
    char *text;            /* NULL for files */
    DIR *dir;              /* NULL for files */
    struct dirent *entry;  /* of dir: read, but did not fit into the last answer */
    char path[];           /* as opened: matched with faults */
};

uint64_t now_ns(void);

/* session.c. libfuse reports on stderr why it cannot mount. Call session_unmount() after either
 * outcome. */
int session_mount(struct slowfs *fs, const char *mnt);
void session_unmount(struct slowfs *fs);

/* ops_*.c */
void op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name);
void op_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void op_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr, int what,
                struct fuse_file_info *fi);
void op_forget(fuse_req_t req, fuse_ino_t ino, uint64_t count);
void op_forget_multi(fuse_req_t req, size_t count, struct fuse_forget_data *forgets);
void op_readlink(fuse_req_t req, fuse_ino_t ino);
void op_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void op_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
                struct fuse_file_info *fi);
void op_statfs(fuse_req_t req, fuse_ino_t ino);
void op_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode);
void op_symlink(fuse_req_t req, const char *target, fuse_ino_t parent, const char *name);
void op_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t parent, const char *name);
void op_unlink(fuse_req_t req, fuse_ino_t parent, const char *name);
void op_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name);
void op_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t new_parent,
               const char *new_name, unsigned flags);
void op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void op_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
               struct fuse_file_info *fi);
void op_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi);
void op_write(fuse_req_t req, fuse_ino_t ino, const char *data, size_t size, off_t offset,
              struct fuse_file_info *fi);
void op_fsync(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi);
void op_fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t offset, off_t length,
                  struct fuse_file_info *fi);
void op_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);

/* Fills e for the file at path and takes one reference to its node; 0 or an errno. */
int fill_entry(struct slowfs *fs, const char *path, struct fuse_entry_param *e);
/* As the caller sees it: with faults applied. 0 or an errno. */
int fill_attr(struct slowfs *fs, struct node *node, struct handle *h, struct stat *st);
struct handle *handle_new(const char *path); /* NULL: out of memory */
void handle_close(struct slowfs *fs, struct node *node, struct handle *h);

/* loop.c: takes requests until the mount is gone or wake_fd is readable. */
void *loop_run(void *slowfs);

/* control.c: a separate thread executes commands, because telling the kernel to drop pages may wait
 * for reads that the event threads have yet to answer. */
int control_start(struct slowfs *fs);
void control_stop(struct slowfs *fs);
void control_write(struct slowfs *fs, fuse_req_t req, const char *text, size_t size);
void control_reload(struct slowfs *fs);
/* Replaces the rules by those in the file of --faults. err->offset: the line. */
int control_load(struct slowfs *fs, bool mounted, struct stk_err *err);

/* stats.c */
void stats_request(struct counters *c, enum op op, uint64_t bytes);
void stats_enter(struct counters *c, enum op op);
void stats_leave(struct counters *c, enum op op);
/* malloc'ed JSON; NULL: out of memory. Caller frees with free(). */
char *stats_text(struct slowfs *fs);

#endif
