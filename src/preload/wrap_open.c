/*
 * wrap_open.c - descriptors come and go: open and creat, mkstemp, close, dup, fcntl, chdir.
 *
 * In a forked child that has done no I/O yet, closes and dups only keep the table right: such a
 * child is usually about to execute another program, and needs no log.
 */
#include <stdarg.h>

#include "preload/priv.h"
#include "preload/wrap.h"

#define WITH_MODE(flags) ((flags)&O_CREAT || ((flags)&O_TMPFILE) == O_TMPFILE)

/* open() has a mode only if it creates a file. */
#define TAKE_MODE(flags, mode)                                                                     \
    mode_t mode = 0;                                                                               \
    if (WITH_MODE(flags)) {                                                                        \
        va_list more;                                                                              \
        va_start(more, flags);                                                                     \
        mode = va_arg(more, mode_t);                                                               \
        va_end(more);                                                                              \
    }                                                                                              \
    (void)0

#define OPENED(dirfd, path, flags, call_real)                                                      \
    struct stk_pl_call call;                                                                       \
    if (!stk_pl_begin(&call))                                                                      \
        return call_real;                                                                          \
    int fd = call_real;                                                                            \
    stk_pl_opened(&call, dirfd, path, flags, fd, STK_API_POSIX);                                   \
    return fd

#define OPEN(name)                                                                                 \
    WRAP(int, name, (const char *path, int flags, ...))                                            \
    {                                                                                              \
        REAL(int, name, (const char *, int, ...));                                                 \
        TAKE_MODE(flags, mode);                                                                    \
        OPENED(AT_FDCWD, path, flags, real(path, flags, mode));                                    \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                                                               \
    WRAP(int, name, (int dirfd, const char *path, int flags, ...))                                 \
    {                                                                                              \
        REAL(int, name, (int, const char *, int, ...));                                            \
        TAKE_MODE(flags, mode);                                                                    \
        OPENED(dirfd, path, flags, real(dirfd, path, flags, mode));                                \
    }
OPENAT(openat)
OPENAT(openat64)

#define OPEN_2(name)                                                                               \
    WRAP(int, name, (const char *path, int flags))                                                 \
    {                                                                                              \
        REAL_OR(int, name, (const char *, int), -1);                                               \
        OPENED(AT_FDCWD, path, flags, real(path, flags));                                          \
    }
OPEN_2(__open_2)
OPEN_2(__open64_2)

#define OPENAT_2(name)                                                                             \
    WRAP(int, name, (int dirfd, const char *path, int flags))                                      \
    {                                                                                              \
        REAL_OR(int, name, (int, const char *, int), -1);                                          \
        OPENED(dirfd, path, flags, real(dirfd, path, flags));                                      \
    }
OPENAT_2(__openat_2)
OPENAT_2(__openat64_2)

#define CREAT(name)                                                                                \
    WRAP(int, name, (const char *path, mode_t mode))                                               \
    {                                                                                              \
        REAL(int, name, (const char *, mode_t));                                                   \
        OPENED(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, real(path, mode));                    \
    }
CREAT(creat)
CREAT(creat64)

#define TEMPORARY(name, more_flags, parameters, types, arguments)                                  \
    WRAP(int, name, parameters)                                                                    \
    {                                                                                              \
        REAL(int, name, types);                                                                    \
        OPENED(AT_FDCWD, path, O_CREAT | O_RDWR | (more_flags), real arguments);                   \
    }
TEMPORARY(mkstemp, 0, (char *path), (char *), (path))
TEMPORARY(mkstemp64, 0, (char *path), (char *), (path))
TEMPORARY(mkostemp, flags, (char *path, int flags), (char *, int), (path, flags))
TEMPORARY(mkostemp64, flags, (char *path, int flags), (char *, int), (path, flags))
TEMPORARY(mkstemps, 0, (char *path, int end), (char *, int), (path, end))
TEMPORARY(mkstemps64, 0, (char *path, int end), (char *, int), (path, end))
TEMPORARY(mkostemps, flags, (char *path, int end, int flags), (char *, int, int),
          (path, end, flags))
TEMPORARY(mkostemps64, flags, (char *path, int end, int flags), (char *, int, int),
          (path, end, flags))

WRAP(int, close, (int fd))
{
    REAL(int, close, (int));
    struct stk_pl_call call;
    if (stk_pl_child_pending()) {
        stk_pl_forget(fd);
        return real(fd);
    }
    if (!stk_pl_begin(&call))
        return real(fd);
    uint32_t what = stk_pl_closing(fd);
    int rc = real(fd);
    stk_pl_closed(&call, what, rc == 0, STK_API_POSIX);
    return rc;
}

/* Forgets the descriptors of a range that is gone. */
static void closed(unsigned first, unsigned last)
{
    struct stk_pl_call call;
    if (stk_pl_child_pending()) {
        stk_pl_enter();
        stk_pl_fds_forget_range(first, last);
        stk_pl_leave();
    } else if (stk_pl_begin(&call)) {
        stk_pl_closed_range(&call, first, last);
    }
}

WRAP(int, close_range, (unsigned first, unsigned last, int flags))
{
    REAL_OR(int, close_range, (unsigned, unsigned, int), -1);
    int rc = real(first, last, flags);
    if (rc == 0 && !(flags & 4)) /* CLOSE_RANGE_CLOEXEC only marks them */
        closed(first, last);
    return rc;
}

WRAP(void, closefrom, (int first))
{
    REAL(void, closefrom, (int));
    if (!real)
        return;
    real(first);
    closed(first < 0 ? 0 : (unsigned)first, UINT32_MAX);
}

/* `to` is `from` now. */
static int duped(struct stk_pl_call *call, bool recorded, int from, int to)
{
    if (recorded) {
        stk_pl_duped(call, from, to);
    } else if (to >= 0 && stk_pl_child_pending()) {
        stk_pl_enter();
        stk_pl_fds_dup(from, to);
        stk_pl_leave();
    }
    return to;
}

#define DUP(name, parameters, types, arguments)                                                    \
    WRAP(int, name, parameters)                                                                    \
    {                                                                                              \
        REAL(int, name, types);                                                                    \
        struct stk_pl_call call;                                                                   \
        bool recorded = !stk_pl_child_pending() && stk_pl_begin(&call);                            \
        return duped(&call, recorded, from, real arguments);                                       \
    }
DUP(dup, (int from), (int), (from))
DUP(dup2, (int from, int to), (int, int), (from, to))
DUP(dup3, (int from, int to, int flags), (int, int, int), (from, to, flags))

static bool is_lock(int what)
{
    return what == F_SETLK || what == F_SETLKW || what == F_OFD_SETLK || what == F_OFD_SETLKW;
}

static int control(int (*real)(int, int, ...), int fd, int what, void *argument)
{
    struct stk_pl_call call;
    if (what == F_DUPFD || what == F_DUPFD_CLOEXEC) {
        bool recorded = !stk_pl_child_pending() && stk_pl_begin(&call);
        return duped(&call, recorded, fd, real(fd, what, argument));
    }
    if (is_lock(what) && stk_pl_begin(&call)) {
        int locked = real(fd, what, argument);
        stk_pl_meta_fd(&call, fd, STK_C_LOCKS, locked >= 0, STK_API_POSIX);
        return locked;
    }
    int rc = real(fd, what, argument);
    if (what == F_SETFL && rc == 0 && !stk_pl_self.vforked)
        stk_pl_fds_append(fd, (intptr_t)argument & O_APPEND);
    return rc;
}

#define CONTROL(name)                                                                              \
    WRAP(int, name, (int fd, int what, ...))                                                       \
    {                                                                                              \
        REAL_OR(int, name, (int, int, ...), -1);                                                   \
        va_list more;                                                                              \
        va_start(more, what);                                                                      \
        void *argument = va_arg(more, void *); /* or nothing: then it is not used */               \
        va_end(more);                                                                              \
        return control(real, fd, what, argument);                                                  \
    }
CONTROL(fcntl)
CONTROL(fcntl64)

/* Relative paths mean something else from here on. */
WRAP(int, chdir, (const char *path))
{
    REAL(int, chdir, (const char *));
    int rc = real(path);
    if (!stk_pl_self.vforked)
        stk_pl_path_moved();
    return rc;
}

WRAP(int, fchdir, (int fd))
{
    REAL(int, fchdir, (int));
    int rc = real(fd);
    if (!stk_pl_self.vforked)
        stk_pl_path_moved();
    return rc;
}
