/*
 * wrap_dir.c - directories: every entry that readdir() returns is a call. What walks directories
 * inside the C library is in wrap_walk.c.
 */
#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include "preload/wrap.h"

static int fd_of(DIR *dir)
{
    int before = errno;
    int fd = dirfd(dir);
    errno = before;
    return fd;
}

/* The time belongs to the open; the call is also a read of the directory. */
static void count_read(int fd)
{
    struct stk_pl_call call;
    if (stk_pl_begin(&call))
        stk_pl_meta_fd(&call, fd, STK_C_DIR_READS, true, STK_API_POSIX);
}

WRAP(DIR *, opendir, (const char *path))
{
    REAL(DIR *, opendir, (const char *));
    struct stk_pl_call call;
    if (!stk_pl_begin(&call))
        return real(path);
    DIR *dir = real(path);
    int fd = dir ? fd_of(dir) : -1;
    stk_pl_opened(&call, AT_FDCWD, path, O_RDONLY | O_DIRECTORY, fd, STK_API_POSIX);
    if (fd >= 0)
        count_read(fd);
    return dir;
}

WRAP(DIR *, fdopendir, (int fd))
{
    REAL(DIR *, fdopendir, (int));
    struct stk_pl_call call;
    if (!stk_pl_begin(&call))
        return real(fd);
    DIR *dir = real(fd);
    stk_pl_meta_fd(&call, fd, STK_C_DIR_READS, dir, STK_API_POSIX);
    return dir;
}

/* NULL is the end, or an error that only errno tells: both are calls on the directory. */
#define READ_ENTRY(name, type)                                                                     \
    WRAP(type *, name, (DIR * dir))                                                                \
    {                                                                                              \
        REAL(type *, name, (DIR *));                                                               \
        struct stk_pl_call call;                                                                   \
        if (!stk_pl_begin(&call))                                                                  \
            return real(dir);                                                                      \
        type *entry = real(dir);                                                                   \
        stk_pl_meta_fd(&call, fd_of(dir), STK_C_DIR_READS, true, STK_API_POSIX);                   \
        return entry;                                                                              \
    }
READ_ENTRY(readdir, struct dirent)
READ_ENTRY(readdir64, struct dirent64)

#define READ_ENTRY_R(name, type)                                                                   \
    WRAP(int, name, (DIR * dir, type * entry, type * *result))                                     \
    {                                                                                              \
        REAL(int, name, (DIR *, type *, type **));                                                 \
        struct stk_pl_call call;                                                                   \
        if (!stk_pl_begin(&call))                                                                  \
            return real(dir, entry, result);                                                       \
        int rc = real(dir, entry, result);                                                         \
        stk_pl_meta_fd(&call, fd_of(dir), STK_C_DIR_READS, rc == 0, STK_API_POSIX);                \
        return rc;                                                                                 \
    }
READ_ENTRY_R(readdir_r, struct dirent)
READ_ENTRY_R(readdir64_r, struct dirent64)

WRAP(int, closedir, (DIR * dir))
{
    REAL(int, closedir, (DIR *));
    struct stk_pl_call call;
    int fd = dir ? fd_of(dir) : -1;
    if (fd < 0 || !stk_pl_begin(&call))
        return real(dir);
    uint32_t what = stk_pl_closing(fd);
    int rc = real(dir);
    stk_pl_closed(&call, what, rc == 0, STK_API_POSIX);
    return rc;
}

#define READ_BATCH(name)                                                                           \
    WRAP(ssize_t, name, (int fd, void *p, size_t room))                                            \
    {                                                                                              \
        REAL_OR(ssize_t, name, (int, void *, size_t), -1);                                         \
        struct stk_pl_call call;                                                                   \
        if (!stk_pl_begin(&call))                                                                  \
            return real(fd, p, room);                                                              \
        ssize_t got = real(fd, p, room);                                                           \
        stk_pl_meta_fd(&call, fd, STK_C_DIR_READS, got >= 0, STK_API_POSIX);                       \
        return got;                                                                                \
    }
READ_BATCH(getdents64)
