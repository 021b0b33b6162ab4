/*
 * wrap_meta.c - calls that query files or change names: the load of metadata servers. Queries count
 * as STATS; everything else has counters of its own.
 */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "preload/wrap.h"

struct statx;

/* ---- stat by path ---- */

/* `args` and `values`: of the function; `dirfd`, `path`: those that name the file. */
#define ASK_PATH(type, name, args, values, dirfd, path)                                            \
    META_PATH(type, name, args, values, dirfd, path, STK_C_STATS)

#define META_PATH(type, name, args, values, dirfd, path, what)                                     \
    WRAP(type, name, args)                                                                         \
    {                                                                                              \
        REAL_OR(type, name, args, -1);                                                             \
        struct stk_pl_call call;                                                                   \
        if (!stk_pl_begin(&call))                                                                  \
            return real values;                                                                    \
        type rc = real values;                                                                     \
        stk_pl_meta_path(&call, dirfd, path, what, rc >= 0);                                       \
        return rc;                                                                                 \
    }

#define STAT(name)                                                                                 \
    ASK_PATH(int, name, (const char *path, struct stat *st), (path, st), AT_FDCWD, path)
STAT(stat)
STAT(stat64)
STAT(lstat)
STAT(lstat64)

/* Programs built before glibc 2.33 call these. */
#define OLD_STAT(name)                                                                             \
    ASK_PATH(int, name, (int version, const char *path, struct stat *st), (version, path, st),     \
             AT_FDCWD, path)
OLD_STAT(__xstat)
OLD_STAT(__xstat64)
OLD_STAT(__lxstat)
OLD_STAT(__lxstat64)

ASK_PATH(int, access, (const char *path, int mode), (path, mode), AT_FDCWD, path)
ASK_PATH(int, euidaccess, (const char *path, int mode), (path, mode), AT_FDCWD, path)
ASK_PATH(int, eaccess, (const char *path, int mode), (path, mode), AT_FDCWD, path)
ASK_PATH(int, faccessat, (int dir, const char *path, int mode, int flags), (dir, path, mode, flags),
         dir, path)
ASK_PATH(ssize_t, readlink, (const char *path, char *to, size_t room), (path, to, room), AT_FDCWD,
         path)
ASK_PATH(ssize_t, readlinkat, (int dir, const char *path, char *to, size_t room),
         (dir, path, to, room), dir, path)
ASK_PATH(ssize_t, __readlink_chk, (const char *path, char *to, size_t n, size_t room),
         (path, to, n, room), AT_FDCWD, path)
ASK_PATH(ssize_t, __readlinkat_chk, (int dir, const char *path, char *to, size_t n, size_t room),
         (dir, path, to, n, room), dir, path)

/* ---- stat by descriptor ---- */

static int asked_fd(struct stk_pl_call *call, int fd, int rc, const struct stat *st)
{
    stk_pl_meta_fd(call, fd, STK_C_STATS, rc == 0, STK_API_POSIX);
    if (rc == 0 && st && S_ISREG(st->st_mode))
        stk_pl_size_fd(fd, (uint64_t)st->st_size);
    return rc;
}

#define FSTAT(name)                                                                                \
    WRAP(int, name, (int fd, struct stat *st))                                                     \
    {                                                                                              \
        REAL_OR(int, name, (int, struct stat *), -1);                                              \
        struct stk_pl_call call;                                                                   \
        if (!stk_pl_begin(&call))                                                                  \
            return real(fd, st);                                                                   \
        return asked_fd(&call, fd, real(fd, st), st);                                              \
    }
FSTAT(fstat)
FSTAT(fstat64)

#define OLD_FSTAT(name)                                                                            \
    WRAP(int, name, (int version, int fd, struct stat *st))                                        \
    {                                                                                              \
        REAL_OR(int, name, (int, int, struct stat *), -1);                                         \
        struct stk_pl_call call;                                                                   \
        if (!stk_pl_begin(&call))                                                                  \
            return real(version, fd, st);                                                          \
        return asked_fd(&call, fd, real(version, fd, st), st);                                     \
    }
OLD_FSTAT(__fxstat)
OLD_FSTAT(__fxstat64)

/* ---- by both: with AT_EMPTY_PATH and no path, the descriptor itself is queried ---- */

static int asked_at(struct stk_pl_call *call, int dir, const char *path, int flags, int rc,
                    const struct stat *st)
{
    if ((flags & AT_EMPTY_PATH) && dir >= 0 && (!path || !path[0]))
        return asked_fd(call, dir, rc, st);
    stk_pl_meta_path(call, dir, path, STK_C_STATS, rc == 0);
    return rc;
}

#define STAT_AT(name)                                                                              \
    WRAP(int, name, (int dir, const char *path, struct stat *st, int flags))                       \
    {                                                                                              \
        REAL_OR(int, name, (int, const char *, struct stat *, int), -1);                           \
        struct stk_pl_call call;                                                                   \
        if (!stk_pl_begin(&call))                                                                  \
            return real(dir, path, st, flags);                                                     \
        return asked_at(&call, dir, path, flags, real(dir, path, st, flags), st);                  \
    }
STAT_AT(fstatat)
STAT_AT(fstatat64)

#define OLD_STAT_AT(name)                                                                          \
    WRAP(int, name, (int version, int dir, const char *path, struct stat *st, int flags))          \
    {                                                                                              \
        REAL_OR(int, name, (int, int, const char *, struct stat *, int), -1);                      \
        struct stk_pl_call call;                                                                   \
        if (!stk_pl_begin(&call))                                                                  \
            return real(version, dir, path, st, flags);                                            \
        return asked_at(&call, dir, path, flags, real(version, dir, path, st, flags), st);         \
    }
OLD_STAT_AT(__fxstatat)
OLD_STAT_AT(__fxstatat64)

WRAP(int, statx, (int dir, const char *path, int flags, unsigned mask, struct statx *st))
{
    REAL_OR(int, statx, (int, const char *, int, unsigned, struct statx *), -1);
    struct stk_pl_call call;
    if (!stk_pl_begin(&call))
        return real(dir, path, flags, mask, st);
    return asked_at(&call, dir, path, flags, real(dir, path, flags, mask, st), NULL);
}

/* ---- names that go ---- */

META_PATH(int, unlink, (const char *path), (path), AT_FDCWD, path, STK_C_REMOVES)
META_PATH(int, rmdir, (const char *path), (path), AT_FDCWD, path, STK_C_REMOVES)
META_PATH(int, remove, (const char *path), (path), AT_FDCWD, path, STK_C_REMOVES)
META_PATH(int, unlinkat, (int dir, const char *path, int flags), (dir, path, flags), dir, path,
          STK_C_REMOVES)
/* Counted for the old name: that is the file that was written. */
META_PATH(int, rename, (const char *from, const char *to), (from, to), AT_FDCWD, from,
          STK_C_RENAMES)
META_PATH(int, renameat, (int from_dir, const char *from, int to_dir, const char *to),
          (from_dir, from, to_dir, to), from_dir, from, STK_C_RENAMES)
META_PATH(int, renameat2,
          (int from_dir, const char *from, int to_dir, const char *to, unsigned flags),
          (from_dir, from, to_dir, to, flags), from_dir, from, STK_C_RENAMES)

/* ---- names that come ---- */

#define MAKE(name, args, values, dirfd, path)                                                      \
    META_PATH(int, name, args, values, dirfd, path, STK_C_MAKES)
MAKE(mkdir, (const char *path, mode_t mode), (path, mode), AT_FDCWD, path)
MAKE(mkdirat, (int dir, const char *path, mode_t mode), (dir, path, mode), dir, path)
MAKE(mkfifo, (const char *path, mode_t mode), (path, mode), AT_FDCWD, path)
MAKE(symlink, (const char *to, const char *path), (to, path), AT_FDCWD, path)
MAKE(symlinkat, (const char *to, int dir, const char *path), (to, dir, path), dir, path)
MAKE(link, (const char *from, const char *path), (from, path), AT_FDCWD, path)
MAKE(linkat, (int from_dir, const char *from, int dir, const char *path, int flags),
     (from_dir, from, dir, path, flags), dir, path)

/* ---- what is changed beside the data ---- */

struct timespec;
struct timeval;
struct utimbuf;

#define CHANGE(name, args, values, dirfd, path)                                                    \
    META_PATH(int, name, args, values, dirfd, path, STK_C_CHANGES)
CHANGE(truncate, (const char *path, off_t size), (path, size), AT_FDCWD, path)
CHANGE(truncate64, (const char *path, off64_t size), (path, size), AT_FDCWD, path)
CHANGE(chmod, (const char *path, mode_t mode), (path, mode), AT_FDCWD, path)
CHANGE(fchmodat, (int dir, const char *path, mode_t mode, int flags), (dir, path, mode, flags), dir,
       path)
CHANGE(chown, (const char *path, uid_t user, gid_t group), (path, user, group), AT_FDCWD, path)
CHANGE(lchown, (const char *path, uid_t user, gid_t group), (path, user, group), AT_FDCWD, path)
CHANGE(fchownat, (int dir, const char *path, uid_t user, gid_t group, int flags),
       (dir, path, user, group, flags), dir, path)
CHANGE(utimensat, (int dir, const char *path, const struct timespec times[2], int flags),
       (dir, path, times, flags), dir, path)
CHANGE(utimes, (const char *path, const struct timeval times[2]), (path, times), AT_FDCWD, path)
CHANGE(utime, (const char *path, const struct utimbuf *times), (path, times), AT_FDCWD, path)
CHANGE(setxattr, (const char *path, const char *name, const void *value, size_t size, int flags),
       (path, name, value, size, flags), AT_FDCWD, path)

#define META_FD(type, name, args, values, what)                                                    \
    WRAP(type, name, args)                                                                         \
    {                                                                                              \
        REAL_OR(type, name, args, -1);                                                             \
        struct stk_pl_call call;                                                                   \
        if (!stk_pl_begin(&call))                                                                  \
            return real values;                                                                    \
        type rc = real values;                                                                     \
        stk_pl_meta_fd(&call, fd, what, rc >= 0, STK_API_POSIX);                                   \
        return rc;                                                                                 \
    }
#define CHANGE_FD(name, args, values) META_FD(int, name, args, values, STK_C_CHANGES)
CHANGE_FD(ftruncate, (int fd, off_t size), (fd, size))
CHANGE_FD(ftruncate64, (int fd, off64_t size), (fd, size))
CHANGE_FD(fchmod, (int fd, mode_t mode), (fd, mode))
CHANGE_FD(fchown, (int fd, uid_t user, gid_t group), (fd, user, group))
CHANGE_FD(futimens, (int fd, const struct timespec times[2]), (fd, times))
CHANGE_FD(fsetxattr, (int fd, const char *name, const void *value, size_t size, int flags),
          (fd, name, value, size, flags))
CHANGE_FD(fallocate, (int fd, int mode, off_t offset, off_t length), (fd, mode, offset, length))
CHANGE_FD(fallocate64, (int fd, int mode, off64_t offset, off64_t length),
          (fd, mode, offset, length))

/* Returns the error. */
#define ALLOCATE(name, offset_type)                                                                \
    WRAP(int, name, (int fd, offset_type offset, offset_type length))                              \
    {                                                                                              \
        REAL(int, name, (int, offset_type, offset_type));                                          \
        struct stk_pl_call call;                                                                   \
        if (!stk_pl_begin(&call))                                                                  \
            return real(fd, offset, length);                                                       \
        int why = real(fd, offset, length);                                                        \
        stk_pl_meta_fd(&call, fd, STK_C_CHANGES, why == 0, STK_API_POSIX);                         \
        return why;                                                                                \
    }
ALLOCATE(posix_fallocate, off_t)
ALLOCATE(posix_fallocate64, off64_t)

/* ---- extended attributes ---- */

#define ATTRIBUTES(name, args, values)                                                             \
    META_PATH(ssize_t, name, args, values, AT_FDCWD, path, STK_C_XATTRS)
ATTRIBUTES(getxattr, (const char *path, const char *name, void *value, size_t room),
           (path, name, value, room))
ATTRIBUTES(lgetxattr, (const char *path, const char *name, void *value, size_t room),
           (path, name, value, room))
ATTRIBUTES(listxattr, (const char *path, char *list, size_t room), (path, list, room))
ATTRIBUTES(llistxattr, (const char *path, char *list, size_t room), (path, list, room))
META_FD(ssize_t, fgetxattr, (int fd, const char *name, void *value, size_t room),
        (fd, name, value, room), STK_C_XATTRS)
META_FD(ssize_t, flistxattr, (int fd, char *list, size_t room), (fd, list, room), STK_C_XATTRS)

/* ---- file systems ---- */

struct statfs;
struct statvfs;

#define STATFS(name, type)                                                                         \
    META_PATH(int, name, (const char *path, struct type *st), (path, st), AT_FDCWD, path,          \
              STK_C_STATFS)
STATFS(statfs, statfs)
STATFS(statfs64, statfs)
STATFS(statvfs, statvfs)
STATFS(statvfs64, statvfs)
META_FD(int, fstatfs, (int fd, struct statfs *st), (fd, st), STK_C_STATFS)
META_FD(int, fstatvfs, (int fd, struct statvfs *st), (fd, st), STK_C_STATFS)

/* ---- locks ---- */

META_FD(int, flock, (int fd, int operation), (fd, operation), STK_C_LOCKS)
META_FD(int, lockf, (int fd, int what, off_t length), (fd, what, length), STK_C_LOCKS)
META_FD(int, lockf64, (int fd, int what, off64_t length), (fd, what, length), STK_C_LOCKS)
