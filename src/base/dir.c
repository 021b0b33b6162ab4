/* dir.c - getdents64() with its errors. */
#include "base/dir.h"
#include "base/own.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FOLDER (O_RDONLY | O_DIRECTORY | O_CLOEXEC)
#define LIST   32768 /* as glibc's */

/* The kernel's entry is that of the C library on every 64-bit Linux. */
_Static_assert(offsetof(struct dirent, d_reclen) == 16 && offsetof(struct dirent, d_name) == 19,
               "struct dirent is not struct linux_dirent64");

int stk_dir_take(struct stk_dir *d, int fd, const char *path, struct stk_err *err)
{
    *d = (struct stk_dir){.fd = fd, .list = fd >= 0 ? malloc(LIST) : NULL, .path = path};
    if (d->list)
        return 0;
    int rc = stk_err_sys(err, path, "open the folder");
    if (fd >= 0)
        close(fd);
    return rc;
}

int stk_dir_open(struct stk_dir *d, const char *path, struct stk_err *err)
{
    return stk_dir_take(d, open(path, FOLDER), path, err);
}

int stk_dir_open_optional(struct stk_dir *d, const char *path, struct stk_err *err)
{
    int fd = open(path, FOLDER);
    if (fd >= 0 || !stk_is_absent(errno))
        return stk_dir_take(d, fd, path, err);
    *d = (struct stk_dir){.path = path};
    return 0;
}

int stk_dir_open_fd(struct stk_dir *d, int dirfd, const char *path, struct stk_err *err)
{
    return stk_dir_take(d, openat(dirfd, ".", FOLDER), path, err);
}

static bool is_dot(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* A folder that was removed has no entries; any other that the kernel does not find is not empty. */
static bool is_removed(int fd)
{
    struct stat st;
    return errno == ENOENT && fstat(fd, &st) == 0 && st.st_nlink == 0;
}

static void fill(struct stk_dir *d)
{
    long n = syscall(SYS_getdents64, d->fd, d->list, (size_t)LIST);
    if (n < 0 && !is_removed(d->fd))
        d->error = errno;
    d->have = n > 0 ? (size_t)n : 0;
    d->at = 0;
}

static const struct dirent *next(struct stk_dir *d)
{
    if (d->at == d->have)
        fill(d);
    if (d->at == d->have)
        return NULL;
    const struct dirent *e = (const void *)(d->list + d->at);
    d->at += e->d_reclen;
    return e;
}

const struct dirent *stk_dir_next(struct stk_dir *d)
{
    const struct dirent *e = NULL;
    if (d->list && !d->error)
        while ((e = next(d)) && is_dot(e->d_name)) {
        }
    return e;
}

bool stk_dir_stat(struct stk_dir *d, const struct dirent *e, int flags, struct stat *st)
{
    if (fstatat(d->fd, e->d_name, st, flags) == 0)
        return true;
    /* A link in a circle leads to nothing, too. */
    if (!d->error && !stk_is_absent(errno) && errno != ELOOP) {
        d->error = errno;
        d->entry = strdup(e->d_name);
    }
    return false;
}

unsigned char stk_dir_type(struct stk_dir *d, const struct dirent *e)
{
    struct stat st;
    if (e->d_type != DT_UNKNOWN)
        return e->d_type;
    return stk_dir_stat(d, e, AT_SYMLINK_NOFOLLOW, &st) ? (unsigned char)((st.st_mode & S_IFMT) >> 12) : DT_UNKNOWN;
}

int stk_dir_end(struct stk_dir *d, int rc, struct stk_err *err)
{
    if (d->list)
        close(d->fd);
    free(d->list);
    if (rc >= 0 && d->error) {
        errno = d->error;
        rc = d->entry ? stk_err_sys(err, d->path, "look at '%s' in it", d->entry)
                      : stk_err_sys(err, d->path, "read the folder");
    }
    free(d->entry);
    *d = (struct stk_dir){0};
    return rc;
}

int stk_dir_is_empty(int dirfd, const char *path, struct stk_err *err)
{
    struct stk_dir d;
    int rc = stk_dir_open_fd(&d, dirfd, path, err);
    bool empty = !stk_dir_next(&d);
    rc = stk_dir_end(&d, rc, err);
    return rc < 0 ? rc : empty;
}
