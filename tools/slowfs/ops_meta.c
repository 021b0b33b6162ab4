/* ops_meta.c - lookups and attributes: the most common metadata requests. */
#include "job.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* ---- attributes ---------------------------------------------------------------------------- */

static void fixed_attr(const struct slowfs *fs, const struct node *node, struct stat *st)
{
    *st = (struct stat){
        .st_ino = (ino_t)(uintptr_t)node,
        .st_mode = S_IFREG | (node == &fs->nodes.control ? 0600 : 0400),
        .st_nlink = 1,
        .st_uid = getuid(),
        .st_gid = getgid(),
        .st_blksize = 4096,
    };
}

static bool is_fixed_file(struct slowfs *fs, struct node *node)
{
    return node == &fs->nodes.control || node == &fs->nodes.stats;
}

/* An unlinked file is reached through any open descriptor. */
static int stat_gone(struct slowfs *fs, struct node *node, struct stat *st)
{
    pthread_mutex_lock(&fs->nodes.lock);
    int rc = ESTALE;
    for (struct handle *h = node->handles; h && rc != 0; h = h->next)
        rc = h->fd >= 0 && fstat(h->fd, st) == 0 ? 0 : ESTALE;
    pthread_mutex_unlock(&fs->nodes.lock);
    return rc;
}

int fill_attr(struct slowfs *fs, struct node *node, struct handle *h, struct stat *st)
{
    char path[PATH_MAX];
    if (is_fixed_file(fs, node)) {
        fixed_attr(fs, node, st);
        return 0;
    }
    if (h && h->fd >= 0 && fstat(h->fd, st) == 0)
        return 0;
    int trouble = nodes_path(&fs->nodes, node, NULL, path);
    if (trouble)
        return stat_gone(fs, node, st);
    if (fstatat(fs->root_fd, path_at(path), st, AT_SYMLINK_NOFOLLOW) != 0)
        return errno;
    uint64_t limit = faults_size_limit(&fs->faults, path);
    if (S_ISREG(st->st_mode) && (uint64_t)st->st_size > limit)
        st->st_size = (off_t)limit;
    return 0;
}

int fill_entry(struct slowfs *fs, const char *path, struct fuse_entry_param *e)
{
    *e = (struct fuse_entry_param){.attr_timeout = fs->set.meta_cache_s,
                                   .entry_timeout = fs->set.meta_cache_s};
    struct node *node = nodes_take(&fs->nodes, path);
    if (!node)
        return ENOMEM;
    e->ino = node_number(&fs->nodes, node);
    int trouble = fill_attr(fs, node, NULL, &e->attr);
    if (trouble)
        nodes_forget(&fs->nodes, node, 1);
    return trouble;
}

static bool reply_fixed_entry(struct slowfs *fs, fuse_req_t req, fuse_ino_t parent,
                              const char *name)
{
    struct node *node = strcmp(name, CONTROL_NAME) == 0 ? &fs->nodes.control
                        : strcmp(name, STATS_NAME) == 0 ? &fs->nodes.stats
                                                        : NULL;
    if (!node || parent != FUSE_ROOT_ID)
        return false;
    struct fuse_entry_param e = {.ino = node_number(&fs->nodes, node)};
    fixed_attr(fs, node, &e.attr);
    fuse_reply_entry(req, &e);
    return true;
}

struct job *named_job(fuse_req_t req, enum op op, fuse_ino_t parent, const char *name,
                      char path[PATH_MAX])
{
    struct slowfs *fs = fuse_req_userdata(req);
    struct job *job = job_new(req, op);
    if (!job)
        return NULL;
    job->error = nodes_path(&fs->nodes, node_of(&fs->nodes, parent), name, path);
    if (!job->error)
        job->effect = faults_ask(&fs->faults, path, op, 0, 0, false);
    if (!job->error)
        job->error = job->effect.error;
    return job;
}

void adopt(fuse_req_t req, const char *path, mode_t mode)
{
    const struct slowfs *fs = fuse_req_userdata(req);
    const struct fuse_ctx *caller = fuse_req_ctx(req);
    /* On failure the file stays as an unprivileged server creates it. */
    int rc = 0;
    if (geteuid() == 0)
        rc = fchownat(fs->root_fd, path, caller->uid, caller->gid, AT_SYMLINK_NOFOLLOW);
    if (rc == 0 && mode)
        rc = fchmodat(fs->root_fd, path, mode, 0);
    (void)rc;
}

void submit_entry(struct slowfs *fs, struct job *job, const char *path)
{
    if (!job->error)
        job->error = fill_entry(fs, path, &job->entry);
    if (!job->error) {
        job->answer = ANSWER_ENTRY;
        job->node = node_of(&fs->nodes, job->entry.ino);
    }
    job_submit(job);
}

void op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    struct slowfs *fs = fuse_req_userdata(req);
    char path[PATH_MAX];
    if (reply_fixed_entry(fs, req, parent, name))
        return;
    struct job *job = named_job(req, OP_STAT, parent, name, path);
    if (job)
        submit_entry(fs, job, path);
}

void op_forget(fuse_req_t req, fuse_ino_t ino, uint64_t count)
{
    struct slowfs *fs = fuse_req_userdata(req);
    nodes_forget(&fs->nodes, node_of(&fs->nodes, ino), count);
    fuse_reply_none(req);
}

void op_forget_multi(fuse_req_t req, size_t count, struct fuse_forget_data *forgets)
{
    struct slowfs *fs = fuse_req_userdata(req);
    for (size_t i = 0; i < count; i++)
        nodes_forget(&fs->nodes, node_of(&fs->nodes, forgets[i].ino), forgets[i].nlookup);
    fuse_reply_none(req);
}

struct job *node_job(fuse_req_t req, fuse_ino_t ino, char path[PATH_MAX])
{
    struct slowfs *fs = fuse_req_userdata(req);
    struct job *job = job_new(req, OP_STAT);
    if (!job)
        return NULL;
    job->node = node_of(&fs->nodes, ino);
    if (nodes_path(&fs->nodes, job->node, NULL, path) != 0)
        *path = '\0';
    if (*path)
        job->effect = faults_ask(&fs->faults, path, OP_STAT, 0, 0, false);
    job->error = job->effect.error;
    return job;
}

static void submit_attr(struct slowfs *fs, struct job *job, struct fuse_file_info *fi)
{
    struct handle *h = fi ? (struct handle *)(uintptr_t)fi->fh : NULL;
    if (!job->error)
        job->error = fill_attr(fs, job->node, h, &job->attr);
    if (!job->error)
        job->answer = ANSWER_ATTR;
    job_submit(job);
}

/* Our own files cost nothing. */
static bool reply_fixed_attr(struct slowfs *fs, fuse_req_t req, fuse_ino_t ino)
{
    struct stat st;
    if (!is_fixed_file(fs, node_of(&fs->nodes, ino)))
        return false;
    fixed_attr(fs, node_of(&fs->nodes, ino), &st);
    fuse_reply_attr(req, &st, 0);
    return true;
}

void op_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    struct slowfs *fs = fuse_req_userdata(req);
    char path[PATH_MAX];
    (void)fi; /* by path: faults set the size by path */
    if (reply_fixed_attr(fs, req, ino))
        return;
    struct job *job = node_job(req, ino, path);
    if (job)
        submit_attr(fs, job, NULL);
}

/* A path that reaches a node under any current name: "/proc/self/fd/N". Caller closes *fd. */
static int reach(struct slowfs *fs, const char *path, struct handle *h, int *fd, char proc[64])
{
    *fd = h && h->fd >= 0 ? fcntl(h->fd, F_DUPFD_CLOEXEC, 0)
                          : openat(fs->root_fd, path_at(path), O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (*fd < 0)
        return errno;
    snprintf(proc, 64, "/proc/self/fd/%d", *fd);
    return 0;
}

static struct timespec new_time(int what, int set, int set_now, struct timespec given)
{
    if (what & set_now)
        return (struct timespec){.tv_nsec = UTIME_NOW};
    return what & set ? given : (struct timespec){.tv_nsec = UTIME_OMIT};
}

static int change(int fd, const char *proc, const struct stat *attr, int what)
{
    uid_t uid = what & FUSE_SET_ATTR_UID ? attr->st_uid : (uid_t)-1;
    gid_t gid = what & FUSE_SET_ATTR_GID ? attr->st_gid : (gid_t)-1;
    if (what & FUSE_SET_ATTR_MODE && chmod(proc, attr->st_mode) != 0)
        return errno;
    if (what & (FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID) &&
        fchownat(fd, "", uid, gid, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) != 0)
        return errno;
    if (what & FUSE_SET_ATTR_SIZE && truncate(proc, attr->st_size) != 0)
        return errno;
    if (what & (FUSE_SET_ATTR_ATIME | FUSE_SET_ATTR_MTIME)) {
        struct timespec times[2] = {
            new_time(what, FUSE_SET_ATTR_ATIME, FUSE_SET_ATTR_ATIME_NOW, attr->st_atim),
            new_time(what, FUSE_SET_ATTR_MTIME, FUSE_SET_ATTR_MTIME_NOW, attr->st_mtim)};
        if (utimensat(AT_FDCWD, proc, times, 0) != 0)
            return errno;
    }
    return 0;
}

void op_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr, int what,
                struct fuse_file_info *fi)
{
    struct slowfs *fs = fuse_req_userdata(req);
    char path[PATH_MAX], proc[64];
    int fd = -1;
    if (reply_fixed_attr(fs, req, ino))
        return;
    struct job *job = node_job(req, ino, path);
    if (!job)
        return;
    if (!job->error)
        job->error = reach(fs, path, fi ? (struct handle *)(uintptr_t)fi->fh : NULL, &fd, proc);
    if (!job->error)
        job->error = change(fd, proc, attr, what);
    if (fd >= 0)
        close(fd);
    submit_attr(fs, job, fi);
}

void op_statfs(fuse_req_t req, fuse_ino_t ino)
{
    struct slowfs *fs = fuse_req_userdata(req);
    struct statvfs st;
    (void)ino;
    if (fstatvfs(fs->root_fd, &st) != 0)
        fuse_reply_err(req, errno);
    else
        fuse_reply_statfs(req, &st);
}
