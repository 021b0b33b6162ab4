/*
 * session.c - the connection to the kernel: initial settings, mount and unmount.
 */
#include "slowfs.h"

#include <fcntl.h>
#include <linux/fuse.h>
#include <stdio.h>
#include <sys/uio.h>
#include <unistd.h>

/* FUSE's own default of 12 requests in flight for read-ahead and asynchronous I/O would be measured
 * instead of our settings. */
#define MAX_BACKGROUND 1024

static void op_init(void *slowfs, struct fuse_conn_info *conn)
{
    struct slowfs *fs = slowfs;
    conn->max_read = (unsigned)fs->set.max_read_bytes;
    conn->max_background = MAX_BACKGROUND;
    conn->congestion_threshold = MAX_BACKGROUND;
    fs->init_reply = (conn->capable & FUSE_CAP_PARALLEL_DIROPS) != 0;
    /* A listing that includes all attributes would hide the cost of a stat. */
    conn->want &= ~(unsigned)(FUSE_CAP_READDIRPLUS | FUSE_CAP_READDIRPLUS_AUTO);
    /* Reading must not cost a stat either, unless pages live long enough to be out of date. */
    if (strcmp(fs->set.cache, "keep") != 0)
        conn->want &= ~(unsigned)FUSE_CAP_AUTO_INVAL_DATA;
    conn->want |=
        conn->capable & (FUSE_CAP_ASYNC_READ | FUSE_CAP_ASYNC_DIO | FUSE_CAP_PARALLEL_DIROPS);
}

static const struct fuse_lowlevel_ops slowfs_ops = {
    .init = op_init,
    .lookup = op_lookup,
    .forget = op_forget,
    .forget_multi = op_forget_multi,
    .getattr = op_getattr,
    .setattr = op_setattr,
    .readlink = op_readlink,
    .mkdir = op_mkdir,
    .symlink = op_symlink,
    .link = op_link,
    .unlink = op_unlink,
    .rmdir = op_rmdir,
    .rename = op_rename,
    .opendir = op_opendir,
    .readdir = op_readdir,
    .releasedir = op_release,
    .statfs = op_statfs,
    .open = op_open,
    .create = op_create,
    .read = op_read,
    .write = op_write,
    .fsync = op_fsync,
    .fallocate = op_fallocate,
    .release = op_release,
};

/* libfuse before 3.17 supports parallel lookups in a directory but does not request them from the
 * kernel (libfuse pull request 861): sixty-four threads that open files would wait for each other.
 * Its first answer is the one to the kernel's greeting; the flag is added there. */
#if FUSE_VERSION >= FUSE_MAKE_VERSION(3, 14) && FUSE_VERSION < FUSE_MAKE_VERSION(3, 17)
static ssize_t send_answer(int fd, struct iovec *iov, int count, void *slowfs)
{
    struct slowfs *fs = slowfs;
    if (atomic_load_explicit(&fs->init_reply, memory_order_relaxed)) {
        fs->init_reply = false;
        struct fuse_init_out *init = count == 2 ? iov[1].iov_base : NULL;
        if (init && iov[1].iov_len >= offsetof(struct fuse_init_out, max_background))
            init->flags |= FUSE_PARALLEL_DIROPS;
    }
    return writev(fd, iov, count);
}

static ssize_t take_request(int fd, void *buffer, size_t size, void *slowfs)
{
    (void)slowfs;
    return read(fd, buffer, size);
}

static int ask_for_parallel_lookups(struct fuse_session *session)
{
    static const struct fuse_custom_io io = {.writev = send_answer, .read = take_request};
    return fuse_session_custom_io(session, &io, fuse_session_fd(session));
}
#else
static int ask_for_parallel_lookups(struct fuse_session *session)
{
    (void)session;
    return 0;
}
#endif

static struct fuse_session *new_session(struct slowfs *fs)
{
    char mount_options[256];
    snprintf(mount_options, sizeof mount_options, "fsname=slowfs,subtype=slowfs,max_read=%llu%s",
             (unsigned long long)fs->set.max_read_bytes,
             fs->set.allow_other ? ",allow_other,default_permissions" : "");
    char *argv[] = {(char *)"slowfs", (char *)"-o", mount_options, NULL};
    struct fuse_args args = FUSE_ARGS_INIT(3, argv);
    struct fuse_session *session = fuse_session_new(&args, &slowfs_ops, sizeof slowfs_ops, fs);
    fuse_opt_free_args(&args);
    return session;
}

int session_mount(struct slowfs *fs, const char *mnt)
{
    fs->session = new_session(fs);
    if (!fs->session || fuse_session_mount(fs->session, mnt) != 0)
        return -1;
    int fd = fuse_session_fd(fs->session);
    if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) != 0)
        return -1;
    return ask_for_parallel_lookups(fs->session);
}

void session_unmount(struct slowfs *fs)
{
    if (!fs->session)
        return;
    fuse_session_unmount(fs->session);
    fuse_session_destroy(fs->session);
}
