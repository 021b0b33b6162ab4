/* ops_name.c - links, directories, creating and removing names: the rest of the metadata
 * requests. */
#include "job.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- names --------------------------------------------------------------------------------- */

void op_readlink(fuse_req_t req, fuse_ino_t ino)
{
    struct slowfs *fs = fuse_req_userdata(req);
    char path[PATH_MAX], target[PATH_MAX];
    struct job *job = node_job(req, ino, path);
    if (!job)
        return;
    ssize_t n = job->error ? -1 : readlinkat(fs->root_fd, path_at(path), target, sizeof target);
    if (n >= 0)
        job->text = strndup(target, (size_t)n);
    if (job->text)
        job->answer = ANSWER_TEXT;
    else if (!job->error)
        job->error = n < 0 ? errno : ENOMEM;
    job_submit(job);
}

void op_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
    struct slowfs *fs = fuse_req_userdata(req);
    char path[PATH_MAX];
    struct job *job = named_job(req, OP_STAT, parent, name, path);
    if (!job)
        return;
    if (!job->error && mkdirat(fs->root_fd, path, mode) != 0)
        job->error = errno;
    if (!job->error)
        adopt(req, path, mode);
    submit_entry(fs, job, path);
}

void op_symlink(fuse_req_t req, const char *target, fuse_ino_t parent, const char *name)
{
    struct slowfs *fs = fuse_req_userdata(req);
    char path[PATH_MAX];
    struct job *job = named_job(req, OP_STAT, parent, name, path);
    if (!job)
        return;
    if (!job->error && symlinkat(target, fs->root_fd, path) != 0)
        job->error = errno;
    if (!job->error)
        adopt(req, path, 0);
    submit_entry(fs, job, path);
}

void op_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t parent, const char *name)
{
    struct slowfs *fs = fuse_req_userdata(req);
    char path[PATH_MAX], from[PATH_MAX];
    struct job *job = named_job(req, OP_STAT, parent, name, path);
    if (!job)
        return;
    if (!job->error)
        job->error = nodes_path(&fs->nodes, node_of(&fs->nodes, ino), NULL, from);
    if (!job->error && linkat(fs->root_fd, from, fs->root_fd, path, 0) != 0)
        job->error = errno;
    submit_entry(fs, job, path);
}

static void remove_name(fuse_req_t req, fuse_ino_t parent, const char *name, int flags)
{
    struct slowfs *fs = fuse_req_userdata(req);
    char path[PATH_MAX];
    struct job *job = named_job(req, OP_STAT, parent, name, path);
    if (!job)
        return;
    if (!job->error && unlinkat(fs->root_fd, path, flags) != 0)
        job->error = errno;
    if (!job->error)
        nodes_remove(&fs->nodes, path);
    job_submit(job);
}

void op_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    remove_name(req, parent, name, 0);
}

void op_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    remove_name(req, parent, name, AT_REMOVEDIR);
}

void op_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t new_parent,
               const char *new_name, unsigned flags)
{
    struct slowfs *fs = fuse_req_userdata(req);
    char path[PATH_MAX], to[PATH_MAX];
    struct job *job = named_job(req, OP_STAT, parent, name, path);
    if (!job)
        return;
    if (!job->error && flags & ~(unsigned)RENAME_NOREPLACE)
        job->error = EINVAL;
    if (!job->error)
        job->error = nodes_path(&fs->nodes, node_of(&fs->nodes, new_parent), new_name, to);
    if (!job->error && renameat2(fs->root_fd, path, fs->root_fd, to, flags) != 0)
        job->error = errno;
    if (!job->error)
        job->error = nodes_rename(&fs->nodes, path, to);
    job_submit(job);
}

/* ---- directories --------------------------------------------------------------------------- */

static int open_dir(struct slowfs *fs, const char *path, struct handle **out)
{
    struct handle *h = *out = handle_new(path);
    int fd = openat(fs->root_fd, path_at(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int trouble = fd < 0 ? errno : h ? 0 : ENOMEM;
    if (!trouble && !(h->dir = fdopendir(fd)))
        trouble = errno;
    if (trouble && fd >= 0)
        close(fd);
    if (trouble)
        free(h);
    return trouble;
}

void op_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    struct slowfs *fs = fuse_req_userdata(req);
    struct node *node = node_of(&fs->nodes, ino);
    struct handle *h;
    char path[PATH_MAX];
    int trouble = nodes_path(&fs->nodes, node, NULL, path);
    if (!trouble)
        trouble = open_dir(fs, path, &h);
    if (trouble) {
        fuse_reply_err(req, trouble);
        return;
    }
    nodes_add_handle(&fs->nodes, node, h);
    fi->fh = (uintptr_t)h;
    if (fuse_reply_open(req, fi) == -ENOENT)
        handle_close(fs, node, h);
}

/* The next name to show: neither ours, nor one that has vanished. */
static struct dirent *next_entry(struct slowfs *fs, struct handle *h)
{
    char path[PATH_MAX];
    for (;;) {
        struct dirent *entry = readdir(h->dir);
        if (!entry)
            return NULL;
        int n = snprintf(path, sizeof path, "%s%s%s", h->path, *h->path ? "/" : "", entry->d_name);
        if (n < 0 || (size_t)n >= sizeof path || !faults_vanished(&fs->faults, path))
            return entry;
    }
}

static size_t fill_listing(fuse_req_t req, struct handle *h, char *out, size_t size)
{
    struct slowfs *fs = fuse_req_userdata(req);
    size_t used = 0;
    for (;;) {
        if (!h->entry && !(h->entry = next_entry(fs, h)))
            return used;
        struct stat st = {.st_ino = h->entry->d_ino, .st_mode = (mode_t)h->entry->d_type << 12};
        size_t n =
            fuse_add_direntry(req, out + used, size - used, h->entry->d_name, &st, telldir(h->dir));
        if (n > size - used)
            return used;
        used += n;
        h->entry = NULL;
    }
}

void op_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
                struct fuse_file_info *fi)
{
    struct handle *h = (struct handle *)(uintptr_t)fi->fh;
    struct job *job = job_new(req, OP_STAT);
    (void)ino;
    if (!job)
        return;
    if (!h->entry || offset == 0) {
        seekdir(h->dir, offset);
        h->entry = NULL;
    }
    job->text = malloc(size);
    if (job->text) {
        job->size = fill_listing(req, h, job->text, size);
        job->answer = ANSWER_LISTING;
    } else {
        job->error = ENOMEM;
    }
    job_submit(job);
}
