/* dir.c - readdir() with its errors. */
#include "base/dir.h"
#include "base/own.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FOLDER (O_RDONLY | O_DIRECTORY | O_CLOEXEC)

int stk_dir_take(struct stk_dir *d, int fd, const char *path, struct stk_err *err)
{
    *d = (struct stk_dir){.stream = fd >= 0 ? fdopendir(fd) : NULL, .path = path};
    if (d->stream)
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

const struct dirent *stk_dir_next(struct stk_dir *d)
{
    const struct dirent *e;
    if (!d->stream || d->error)
        return NULL;
    do {
        errno = 0;
        e = readdir(d->stream);
    } while (e && is_dot(e->d_name));
    d->error = e ? 0 : errno;
    return e;
}

bool stk_dir_stat(struct stk_dir *d, const struct dirent *e, int flags, struct stat *st)
{
    if (fstatat(dirfd(d->stream), e->d_name, st, flags) == 0)
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
    if (d->stream)
        closedir(d->stream);
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
