/* err.c - filling, wrapping and rendering struct stk_err. No allocation, no output. */
#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Long paths keep their end: it names the file. */
static void copy_path(struct stk_err *err, const char *path)
{
    err->path[0] = '\0';
    if (!path)
        return;
    size_t n = strlen(path), room = sizeof err->path - 1;
    if (n <= room)
        memcpy(err->path, path, n + 1);
    else
        snprintf(err->path, sizeof err->path, "...%s", path + (n - room + 3));
}

int stk_err_set(struct stk_err *err, int code, const char *path, int64_t offset, const char *fmt,
                ...)
{
    if (!err)
        return code;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(err->what, sizeof err->what, fmt, ap);
    va_end(ap);
    err->code = code;
    err->sys_errno = 0;
    err->offset = offset;
    copy_path(err, path);
    return code;
}

int stk_err_sys(struct stk_err *err, const char *path, const char *fmt, ...)
{
    int saved = errno;
    if (!err)
        return STK_E_SYS;
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(err->what, sizeof err->what, fmt, ap);
    va_end(ap);
    if (n >= 0 && (size_t)n < sizeof err->what)
        snprintf(err->what + n, sizeof err->what - (size_t)n, ": %s", strerror(saved));
    err->code = STK_E_SYS;
    err->sys_errno = saved;
    err->offset = -1;
    copy_path(err, path);
    return STK_E_SYS;
}

int stk_err_at(struct stk_err *err, int code, const char *path)
{
    if (err && !err->path[0])
        copy_path(err, path);
    return code;
}

int stk_err_nomem(struct stk_err *err, uint64_t bytes)
{
    return stk_err_set(err, STK_E_NOMEM, NULL, -1, "out of memory: could not allocate %llu bytes",
                       (unsigned long long)bytes);
}

int stk_err_wrap(struct stk_err *err, int code, const char *fmt, ...)
{
    if (!err)
        return code;
    char old[sizeof err->what];
    memcpy(old, err->what, sizeof old);
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(err->what, sizeof err->what, fmt, ap);
    va_end(ap);
    size_t room = n >= 0 && (size_t)n < sizeof err->what ? sizeof err->what - (size_t)n : 0;
    if (room > 2) /* cuts what does not fit */
        snprintf(err->what + n, room, ": %.*s", (int)(room - 3), old);
    return err->code ? err->code : code;
}

const char *stk_err_text(const struct stk_err *err, char *buf, size_t size)
{
    if (!buf || !size)
        return "";
    if (!err)
        *buf = '\0';
    else if (err->path[0] && err->offset >= 0)
        snprintf(buf, size, "%s:%lld: %s", err->path, (long long)err->offset, err->what);
    else if (err->path[0])
        snprintf(buf, size, "%s: %s", err->path, err->what);
    else
        snprintf(buf, size, "%s", err->what);
    return buf;
}

const char *stk_errno_name(int error)
{
#define NAME(e) {e, #e}
    static const struct {
        int error;
        const char *name;
    } known[] = {NAME(EPERM),   NAME(ENOENT),    NAME(EINTR),        NAME(EIO),       NAME(ENXIO),
                 NAME(E2BIG),   NAME(ENOEXEC),   NAME(EBADF),        NAME(ECHILD),    NAME(EAGAIN),
                 NAME(ENOMEM),  NAME(EACCES),    NAME(EFAULT),       NAME(EBUSY),     NAME(EEXIST),
                 NAME(EXDEV),   NAME(ENODEV),    NAME(ENOTDIR),      NAME(EISDIR),    NAME(EINVAL),
                 NAME(ENFILE),  NAME(EMFILE),    NAME(ENOTTY),       NAME(ETXTBSY),   NAME(EFBIG),
                 NAME(ENOSPC),  NAME(ESPIPE),    NAME(EROFS),        NAME(EMLINK),    NAME(EPIPE),
                 NAME(ERANGE),  NAME(EDEADLK),   NAME(ENAMETOOLONG), NAME(ENOLCK),    NAME(ENOSYS),
                 NAME(ELOOP),   NAME(ENOTEMPTY), NAME(ENODATA),      NAME(ENOLINK),   NAME(EPROTO),
                 NAME(EBADMSG), NAME(EOVERFLOW), NAME(EOPNOTSUPP),   NAME(ENOBUFS),   NAME(ENOTCONN),
                 NAME(EHOSTDOWN), NAME(ESHUTDOWN), NAME(ETIMEDOUT),  NAME(ECONNREFUSED),
                 NAME(EHOSTUNREACH), NAME(ESTALE), NAME(EREMOTEIO),  NAME(EDQUOT),    NAME(ECANCELED)};
#undef NAME
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].error == error)
            return known[i].name;
    return NULL;
}
