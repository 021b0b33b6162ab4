/*
 * wrap_format.c - formatted text on streams: printf() returns what it wrote; scanf() does not
 * return what it consumed, so the movement of the stream counts. The variadic functions call the
 * real ones that take a va_list.
 */
#include <stdarg.h>
#include <stdio.h>

#include "preload/stream.h"

static int printed(struct stk_pl_call *call, int fd, int n)
{
    if (n)
        stk_pl_write(call, fd, STK_AT_POSITION, n, STK_API_STDIO);
    return n;
}

static int print(FILE *f, const char *format, va_list args)
{
    REAL(int, vfprintf, (FILE *, const char *, va_list));
    struct stk_pl_call call;
    int fd;
    if (!stk_stream_begin(&call, f, &fd))
        return real(f, format, args);
    return printed(&call, fd, real(f, format, args));
}

static int print_checked(FILE *f, int flag, const char *format, va_list args)
{
    REAL_OR(int, __vfprintf_chk, (FILE *, int, const char *, va_list), -1);
    struct stk_pl_call call;
    int fd;
    if (!stk_stream_begin(&call, f, &fd))
        return real(f, flag, format, args);
    return printed(&call, fd, real(f, flag, format, args));
}

WRAP(int, vfprintf, (FILE * f, const char *format, va_list args))
{
    return print(f, format, args);
}

WRAP(int, vprintf, (const char *format, va_list args))
{
    return print(stdout, format, args);
}

WRAP(int, __vfprintf_chk, (FILE * f, int flag, const char *format, va_list args))
{
    return print_checked(f, flag, format, args);
}

WRAP(int, __vprintf_chk, (int flag, const char *format, va_list args))
{
    return print_checked(stdout, flag, format, args);
}

/* The body of a variadic function: `last` is its last named argument. */
#define WITH_ARGS(last, call)                                                                      \
    va_list args;                                                                                  \
    va_start(args, last);                                                                          \
    int n = call;                                                                                  \
    va_end(args);                                                                                  \
    return n

WRAP(int, fprintf, (FILE * f, const char *format, ...))
{
    WITH_ARGS(format, print(f, format, args));
}

WRAP(int, printf, (const char *format, ...))
{
    WITH_ARGS(format, print(stdout, format, args));
}

WRAP(int, __fprintf_chk, (FILE * f, int flag, const char *format, ...))
{
    WITH_ARGS(format, print_checked(f, flag, format, args));
}

WRAP(int, __printf_chk, (int flag, const char *format, ...))
{
    WITH_ARGS(format, print_checked(stdout, flag, format, args));
}

/* ---- on descriptors ---- */

static int print_fd(int fd, const char *format, va_list args)
{
    REAL(int, vdprintf, (int, const char *, va_list));
    struct stk_pl_call call;
    if (!stk_pl_begin(&call))
        return real(fd, format, args);
    int n = real(fd, format, args);
    stk_pl_write(&call, fd, STK_AT_POSITION, n, STK_API_POSIX);
    return n;
}

static int print_fd_checked(int fd, int flag, const char *format, va_list args)
{
    REAL_OR(int, __vdprintf_chk, (int, int, const char *, va_list), -1);
    struct stk_pl_call call;
    if (!stk_pl_begin(&call))
        return real(fd, flag, format, args);
    int n = real(fd, flag, format, args);
    stk_pl_write(&call, fd, STK_AT_POSITION, n, STK_API_POSIX);
    return n;
}

WRAP(int, vdprintf, (int fd, const char *format, va_list args))
{
    return print_fd(fd, format, args);
}

WRAP(int, __vdprintf_chk, (int fd, int flag, const char *format, va_list args))
{
    return print_fd_checked(fd, flag, format, args);
}

WRAP(int, dprintf, (int fd, const char *format, ...))
{
    WITH_ARGS(format, print_fd(fd, format, args));
}

WRAP(int, __dprintf_chk, (int fd, int flag, const char *format, ...))
{
    WITH_ARGS(format, print_fd_checked(fd, flag, format, args));
}

/* ---- scanf ---- */

/* The position of f, or -1. A pipe has none, and asking costs a system call: done once. */
static int64_t position_of(FILE *f, int fd)
{
    struct stk_stream_run *run = stk_stream_run(fd);
    if (!run || run->no_position == f)
        return -1;
    int before = errno;
    int64_t at = ftello(f);
    if (at < 0)
        run->no_position = f;
    errno = before;
    return at;
}

typedef int scan_fn(FILE *, const char *, va_list);

static int scan(scan_fn *real, FILE *f, const char *format, va_list args)
{
    struct stk_pl_call call;
    int fd;
    if (!real) {
        errno = ENOSYS;
        return EOF;
    }
    if (!stk_stream_begin(&call, f, &fd))
        return real(f, format, args);
    int64_t from = position_of(f, fd);
    const char *mark = f->_IO_read_ptr;
    int n = real(f, format, args);
    int64_t to = position_of(f, fd);
    if (from < 0 || to < 0) /* as far as the buffer tells */
        to = f->_IO_read_ptr > mark && mark ? f->_IO_read_ptr - mark : 0, from = 0;
    if (to > from)
        stk_stream_got(&call, f, fd, (uint64_t)(to - from));
    else if (n == EOF)
        stk_stream_got(&call, f, fd, 0);
    return n;
}

/* The same three functions for every edition of C: they differ in the meaning of `%a` and `%b`. */
#define SCAN(prefix)                                                                               \
    static scan_fn *find##prefix(void)                                                             \
    {                                                                                              \
        REAL(int, prefix##vfscanf, (FILE *, const char *, va_list));                               \
        return real;                                                                               \
    }                                                                                              \
    WRAP(int, prefix##vfscanf, (FILE * f, const char *format, va_list args))                       \
    {                                                                                              \
        return scan(find##prefix(), f, format, args);                                              \
    }                                                                                              \
    WRAP(int, prefix##vscanf, (const char *format, va_list args))                                  \
    {                                                                                              \
        return scan(find##prefix(), stdin, format, args);                                          \
    }                                                                                              \
    WRAP(int, prefix##fscanf, (FILE * f, const char *format, ...))                                 \
    {                                                                                              \
        WITH_ARGS(format, scan(find##prefix(), f, format, args));                                  \
    }                                                                                              \
    WRAP(int, prefix##scanf, (const char *format, ...))                                            \
    {                                                                                              \
        WITH_ARGS(format, scan(find##prefix(), stdin, format, args));                              \
    }
SCAN()
SCAN(__isoc99_)
SCAN(__isoc23_)
