/*
 * ops_file.c - open, read, write: requests for data, and the identification of clients.
 *
 * A client is a process: the one that opened the file, since the kernel reads ahead for no process
 * in particular.
 */
#include "job.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- clients ------------------------------------------------------------------------------- */

/* FUSE names the thread; /proc has its process, otherwise the thread stands for it. */
static pid_t process_of(pid_t thread)
{
    char path[64], line[128];
    long pid = thread;
    snprintf(path, sizeof path, "/proc/%ld/status", (long)thread);
    FILE *status = fopen(path, "re");
    while (status && fgets(line, sizeof line, status))
        if (strncmp(line, "Tgid:", 5) == 0)
            pid = strtol(line + 5, NULL, 10);
    if (status)
        fclose(status);
    return (pid_t)pid;
}

static struct client *client_take(struct slowfs *fs, pid_t thread)
{
    if (!fs->pace.client_Bps)
        return NULL;
    pid_t pid = process_of(thread);
    pthread_mutex_lock(&fs->nodes.lock);
    struct client *c = fs->clients;
    while (c && c->pid != pid)
        c = c->next;
    if (!c && (c = calloc(1, sizeof *c))) {
        c->pid = pid;
        c->next = fs->clients;
        fs->clients = c;
    }
    if (c)
        c->users++;
    pthread_mutex_unlock(&fs->nodes.lock);
    return c;
}

static void client_drop(struct slowfs *fs, struct client *client)
{
    if (!client)
        return;
    pthread_mutex_lock(&fs->nodes.lock);
    if (--client->users == 0) {
        struct client **at = &fs->clients;
        while (*at != client)
            at = &(*at)->next;
        *at = client->next;
        free(client);
    }
    pthread_mutex_unlock(&fs->nodes.lock);
}

/* ---- handles ------------------------------------------------------------------------------- */

struct handle *handle_new(const char *path)
{
    struct handle *h = calloc(1, sizeof *h + strlen(path) + 1);
    if (h) {
        h->fd = -1;
        memcpy(h->path, path, strlen(path) + 1);
    }
    return h;
}

void handle_close(struct slowfs *fs, struct node *node, struct handle *h)
{
    nodes_drop_handle(&fs->nodes, node, h);
    client_drop(fs, h->client);
    if (h->fd >= 0)
        close(h->fd);
    if (h->dir)
        closedir(h->dir);
    free(h->text);
    free(h);
}

static struct handle *handle_of(const struct fuse_file_info *fi)
{
    return (struct handle *)(uintptr_t)fi->fh;
}

/* Opens (mode 0) or creates the file at path into the job. The caller's O_DIRECT and O_APPEND only
 * concern its kernel: offsets are always explicit, and the source may lie on anything. */
static int open_file(struct slowfs *fs, struct job *job, const char *path, mode_t mode)
{
    int flags = job->file.flags & ~(O_DIRECT | O_APPEND | O_NOFOLLOW | O_NONBLOCK);
    struct handle *h = handle_new(path);
    if (!h)
        return ENOMEM;
    h->fd = openat(fs->root_fd, path, flags | O_NOFOLLOW | O_CLOEXEC, mode);
    struct stat st;
    if (h->fd < 0 || fstat(h->fd, &st) != 0) {
        int trouble = errno;
        handle_close(fs, &fs->nodes.root, h);
        return trouble;
    }
    h->size = (uint64_t)st.st_size;
    h->client = client_take(fs, fuse_req_ctx(job->req)->pid);
    h->unbuffered = strcmp(fs->set.cache, "off") == 0 || faults_by_call(&fs->faults, path);
    /* The caller's kernel reads ahead as it sees fit; doing it again below would read more. */
    posix_fadvise(h->fd, 0, 0, POSIX_FADV_RANDOM);
    job->file.fh = (uintptr_t)h;
    job->file.direct_io = h->unbuffered;
    job->file.keep_cache = strcmp(fs->set.cache, "keep") == 0;
    h->unbuffered |= (job->file.flags & O_DIRECT) != 0;
    job->handle = h;
    return 0;
}

/* The text of our own files is generated at open. */
static void open_fixed(struct slowfs *fs, fuse_req_t req, struct node *node,
                       struct fuse_file_info *fi)
{
    struct handle *h = handle_new("");
    struct stk_buf out = STK_BUF_INIT;
    if (node == &fs->nodes.control)
        faults_list(&fs->faults, &out);
    if (h)
        h->text = node == &fs->nodes.control ? strdup(stk_buf_cstr(&out)) : stats_text(fs);
    stk_buf_release(&out);
    if (!h || !h->text) {
        free(h);
        fuse_reply_err(req, ENOMEM);
        return;
    }
    fi->fh = (uintptr_t)h;
    fi->direct_io = 1;
    nodes_add_handle(&fs->nodes, node, h);
    if (fuse_reply_open(req, fi) == -ENOENT)
        handle_close(fs, node, h);
}

void op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    struct slowfs *fs = fuse_req_userdata(req);
    struct node *node = node_of(&fs->nodes, ino);
    char path[PATH_MAX];
    if (node == &fs->nodes.control || node == &fs->nodes.stats) {
        open_fixed(fs, req, node, fi);
        return;
    }
    struct job *job = job_new(req, OP_OPEN);
    if (!job)
        return;
    job->node = node;
    job->file = *fi;
    job->error = nodes_path(&fs->nodes, node, NULL, path);
    if (!job->error)
        job->effect = faults_ask(&fs->faults, path, OP_OPEN, 0, 0, false);
    if (!job->error)
        job->error = job->effect.error;
    if (!job->error)
        job->error = open_file(fs, job, path, 0);
    if (!job->error) {
        job->answer = ANSWER_OPEN;
        nodes_add_handle(&fs->nodes, node, job->handle);
    }
    job_submit(job);
}

void op_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
               struct fuse_file_info *fi)
{
    struct slowfs *fs = fuse_req_userdata(req);
    char path[PATH_MAX];
    struct job *job = named_job(req, OP_OPEN, parent, name, path);
    if (!job)
        return;
    job->file = *fi;
    job->file.flags |= O_CREAT;
    if (!job->error)
        job->error = open_file(fs, job, path, mode);
    if (!job->error)
        adopt(req, path, mode);
    if (!job->error && (job->error = fill_entry(fs, path, &job->entry)) != 0)
        handle_close(fs, &fs->nodes.root, job->handle);
    if (!job->error) {
        job->answer = ANSWER_CREATE;
        job->node = node_of(&fs->nodes, job->entry.ino);
        nodes_add_handle(&fs->nodes, job->node, job->handle);
    }
    job_submit(job);
}

void op_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    struct slowfs *fs = fuse_req_userdata(req);
    handle_close(fs, node_of(&fs->nodes, ino), handle_of(fi));
    fuse_reply_err(req, 0);
}

/* ---- data ---------------------------------------------------------------------------------- */

/* The bytes that will move: those before the end of the file. */
static uint64_t bytes_there(struct handle *h, uint64_t offset, uint64_t size, uint64_t limit)
{
    struct stat st;
    if (offset + size > h->size && fstat(h->fd, &st) == 0)
        h->size = (uint64_t)st.st_size;
    uint64_t end = h->size < limit ? h->size : limit;
    return offset >= end ? 0 : end - offset < size ? end - offset : size;
}

/* From a copy: while the answer is being written, its reader may already have it, and another
 * thread of ours may close the file. */
static void read_fixed(fuse_req_t req, const struct handle *h, size_t size, off_t offset)
{
    size_t len = strlen(h->text), from = (size_t)offset < len ? (size_t)offset : len;
    char *copy = strdup(h->text + from);
    if (!copy) {
        fuse_reply_err(req, ENOMEM);
        return;
    }
    fuse_reply_buf(req, copy, len - from < size ? len - from : size);
    free(copy);
}

void op_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi)
{
    struct slowfs *fs = fuse_req_userdata(req);
    struct handle *h = handle_of(fi);
    (void)ino;
    if (h->text) {
        read_fixed(req, h, size, offset);
        return;
    }
    struct job *job = job_new(req, OP_READ);
    if (!job)
        return;
    job->answer = ANSWER_DATA;
    job->handle = h;
    job->offset = offset;
    job->size = size < fs->set.max_read_bytes ? size : fs->set.max_read_bytes;
    job->effect = faults_ask(&fs->faults, h->path, OP_READ, (uint64_t)offset, size, h->unbuffered);
    job->error = job->effect.error;
    job->bytes = bytes_there(h, (uint64_t)offset, job->size, job->effect.size_limit);
    /* Data that is not in memory is read from the disk while the answer waits. */
    if (fs->pace.latency_ns[OP_READ] && job->bytes)
        posix_fadvise(h->fd, offset, (off_t)job->bytes, POSIX_FADV_WILLNEED);
    job_submit(job);
}

static int write_all(int fd, const char *data, size_t size, off_t offset, size_t *done)
{
    for (*done = 0; *done < size;) {
        ssize_t n = pwrite(fd, data + *done, size - *done, offset + (off_t)*done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return *done ? 0 : errno;
        *done += (size_t)n;
    }
    return 0;
}

void op_write(fuse_req_t req, fuse_ino_t ino, const char *data, size_t size, off_t offset,
              struct fuse_file_info *fi)
{
    struct slowfs *fs = fuse_req_userdata(req);
    struct handle *h = handle_of(fi);
    if (h->text) {
        if (node_of(&fs->nodes, ino) == &fs->nodes.control)
            control_write(fs, req, data, size);
        else
            fuse_reply_err(req, EACCES);
        return;
    }
    struct job *job = job_new(req, OP_WRITE);
    if (!job)
        return;
    job->handle = h;
    job->bytes = size;
    job->effect = faults_ask(&fs->faults, h->path, OP_WRITE, (uint64_t)offset, size, false);
    job->error = job->effect.error;
    if (!job->error)
        job->error = write_all(h->fd, data, size, offset, &job->size);
    if (!job->error)
        job->answer = ANSWER_WRITTEN;
    job_submit(job);
}

void op_fsync(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi)
{
    struct handle *h = handle_of(fi);
    struct job *job = job_new(req, OP_WRITE);
    (void)ino;
    if (!job)
        return;
    if (h->fd >= 0 && (datasync ? fdatasync(h->fd) : fsync(h->fd)) != 0)
        job->error = errno;
    job_submit(job);
}

void op_fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t offset, off_t length,
                  struct fuse_file_info *fi)
{
    (void)ino;
    int rc = fallocate(handle_of(fi)->fd, mode, offset, length);
    fuse_reply_err(req, rc == 0 ? 0 : errno);
}
