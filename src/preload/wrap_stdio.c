/*
 * wrap_stdio.c - streams: opened and closed; blocks and lines. Counts what the caller received, not
 * what the C library reads ahead below (its own calls do not pass here). Characters are in
 * wrap_char.c, formatted text in wrap_format.c, positions in wrap_seek.c.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "preload/stream.h"

/* The flags of open() for fopen()'s mode. */
static int flags_of(const char *mode)
{
    int flags = mode[0] == 'r' ? O_RDONLY : O_WRONLY | O_CREAT;
    flags |= mode[0] == 'w' ? O_TRUNC : mode[0] == 'a' ? O_APPEND : 0;
    for (const char *m = mode + 1; *m && *m != ','; m++)
        if (*m == '+')
            flags = (flags & ~O_ACCMODE) | O_RDWR;
    return flags;
}

static FILE *opened(struct stk_pl_call *call, const char *path, const char *mode, FILE *f)
{
    stk_pl_opened(call, AT_FDCWD, path, flags_of(mode), f ? stk_stream_fd(f) : -1, STK_API_STDIO);
    return f;
}

#define OPEN(name)                                                                                 \
    WRAP(FILE *, name, (const char *path, const char *mode))                                       \
    {                                                                                              \
        REAL(FILE *, name, (const char *, const char *));                                          \
        struct stk_pl_call call;                                                                   \
        if (!stk_pl_begin(&call))                                                                  \
            return real(path, mode);                                                               \
        return opened(&call, path, mode, real(path, mode));                                        \
    }
OPEN(fopen)
OPEN(fopen64)

/* The file was opened under a name that only the C library knows. */
static FILE *opened_fd(struct stk_pl_call *call, FILE *f, int fd)
{
    stk_pl_meta_fd(call, fd, STK_C_OPENS, f, STK_API_STDIO);
    return f;
}

WRAP(FILE *, fdopen, (int fd, const char *mode))
{
    REAL(FILE *, fdopen, (int, const char *));
    struct stk_pl_call call;
    if (!stk_pl_begin(&call))
        return real(fd, mode);
    FILE *f = real(fd, mode);
    stk_pl_meta_fd(&call, fd, STK_TIME_ONLY, f, STK_API_STDIO); /* the descriptor was open before */
    return f;
}

#define TMPFILE(name)                                                                              \
    WRAP(FILE *, name, (void))                                                                     \
    {                                                                                              \
        REAL(FILE *, name, (void));                                                                \
        struct stk_pl_call call;                                                                   \
        if (!stk_pl_begin(&call))                                                                  \
            return real();                                                                         \
        FILE *f = real();                                                                          \
        if (f)                                                                                     \
            return opened_fd(&call, f, stk_stream_fd(f));                                          \
        return NULL;                                                                               \
    }
TMPFILE(tmpfile)
TMPFILE(tmpfile64)

typedef FILE *reopen_fn(const char *, const char *, FILE *);

/* One file is closed and another opened; without a path the same one, in another mode. */
static FILE *reopen(reopen_fn *real, const char *path, const char *mode, FILE *f)
{
    struct stk_pl_call closing, opening;
    int fd;
    if (!stk_stream_begin(&closing, f, &fd))
        return real(path, mode, f);
    stk_stream_emptied(&closing, f, fd);
    uint32_t what = stk_pl_closing(fd);
    FILE *again = real(path, mode, f);
    bool record = stk_pl_begin(&opening);
    stk_pl_closed(&closing, what, true, STK_API_STDIO);
    if (!record)
        return again;
    /* The time belongs to the close. */
    if (path)
        return opened(&opening, path, mode, again);
    if (again)
        return opened_fd(&opening, again, stk_stream_fd(again));
    return NULL;
}

WRAP(FILE *, freopen, (const char *path, const char *mode, FILE *f))
{
    REAL(FILE *, freopen, (const char *, const char *, FILE *));
    return reopen(real, path, mode, f);
}

WRAP(FILE *, freopen64, (const char *path, const char *mode, FILE *f))
{
    REAL(FILE *, freopen64, (const char *, const char *, FILE *));
    return reopen(real, path, mode, f);
}

static int close_stream(int (*real)(FILE *), FILE *f)
{
    struct stk_pl_call call;
    int fd;
    bool record = stk_stream_begin(&call, f, &fd);
    struct stk_stream_run *run = stk_stream_run(fd);
    if (run)
        run->no_position = NULL;
    if (!record)
        return real(f);
    stk_stream_emptied(&call, f, fd);
    uint32_t what = stk_pl_closing(fd);
    int rc = real(f);
    stk_pl_closed(&call, what, rc != EOF, STK_API_STDIO);
    return rc;
}

WRAP(int, fclose, (FILE * f))
{
    REAL(int, fclose, (FILE *));
    return close_stream(real, f);
}

WRAP(int, pclose, (FILE * f))
{
    REAL(int, pclose, (FILE *));
    return close_stream(real, f);
}

/* ---- blocks ---- */

static inline bool is_in_blocks(FILE *f, size_t size, size_t n)
{
    return size <= STK_STREAM_TINY && n <= STK_STREAM_TINY && stk_stream_in_blocks(f, size * n);
}

#define READ_BLOCK(name)                                                                           \
    WRAP(size_t, name, (void *p, size_t size, size_t n, FILE *f))                                  \
    {                                                                                              \
        REAL(size_t, name, (void *, size_t, size_t, FILE *));                                      \
        struct stk_pl_call call;                                                                   \
        int fd;                                                                                    \
        if (!size || !n || is_in_blocks(f, size, n) || !stk_stream_begin(&call, f, &fd))           \
            return real(p, size, n, f);                                                            \
        size_t got = real(p, size, n, f);                                                          \
        stk_stream_got(&call, f, fd, got *size);                                                   \
        return got;                                                                                \
    }
READ_BLOCK(fread)
READ_BLOCK(fread_unlocked)

#define READ_BLOCK_CHECKED(name)                                                                   \
    WRAP(size_t, name, (void *p, size_t room, size_t size, size_t n, FILE *f))                     \
    {                                                                                              \
        REAL(size_t, name, (void *, size_t, size_t, size_t, FILE *));                              \
        struct stk_pl_call call;                                                                   \
        int fd;                                                                                    \
        if (!size || !n || is_in_blocks(f, size, n) || !stk_stream_begin(&call, f, &fd))           \
            return real(p, room, size, n, f);                                                      \
        size_t got = real(p, room, size, n, f);                                                    \
        stk_stream_got(&call, f, fd, got *size);                                                   \
        return got;                                                                                \
    }
READ_BLOCK_CHECKED(__fread_chk)
READ_BLOCK_CHECKED(__fread_unlocked_chk)

#define WRITE_BLOCK(name)                                                                          \
    WRAP(size_t, name, (const void *p, size_t size, size_t n, FILE *f))                            \
    {                                                                                              \
        REAL(size_t, name, (const void *, size_t, size_t, FILE *));                                \
        struct stk_pl_call call;                                                                   \
        int fd;                                                                                    \
        if (!size || !n || !stk_stream_begin(&call, f, &fd))                                       \
            return real(p, size, n, f);                                                            \
        size_t put = real(p, size, n, f);                                                          \
        stk_pl_write(&call, fd, STK_AT_POSITION, put ? (int64_t)(put * size) : -1, STK_API_STDIO); \
        return put;                                                                                \
    }
WRITE_BLOCK(fwrite)
WRITE_BLOCK(fwrite_unlocked)

/* ---- lines ---- */

#define READ_LINE(name)                                                                            \
    WRAP(char *, name, (char *p, int size, FILE *f))                                               \
    {                                                                                              \
        REAL(char *, name, (char *, int, FILE *));                                                 \
        struct stk_pl_call call;                                                                   \
        int fd;                                                                                    \
        if (size < 2 || !stk_stream_begin(&call, f, &fd))                                          \
            return real(p, size, f);                                                               \
        char *line = real(p, size, f);                                                             \
        stk_stream_got(&call, f, fd, line ? strlen(line) : 0);                                     \
        return line;                                                                               \
    }
READ_LINE(fgets)
READ_LINE(fgets_unlocked)

#define READ_LINE_CHECKED(name)                                                                    \
    WRAP(char *, name, (char *p, size_t room, int size, FILE *f))                                  \
    {                                                                                              \
        REAL(char *, name, (char *, size_t, int, FILE *));                                         \
        struct stk_pl_call call;                                                                   \
        int fd;                                                                                    \
        if (size < 2 || !stk_stream_begin(&call, f, &fd))                                          \
            return real(p, room, size, f);                                                         \
        char *line = real(p, room, size, f);                                                       \
        stk_stream_got(&call, f, fd, line ? strlen(line) : 0);                                     \
        return line;                                                                               \
    }
READ_LINE_CHECKED(__fgets_chk)
READ_LINE_CHECKED(__fgets_unlocked_chk)

#define READ_DELIM(name)                                                                           \
    WRAP(ssize_t, name, (char **line, size_t *room, int delim, FILE *f))                           \
    {                                                                                              \
        REAL(ssize_t, name, (char **, size_t *, int, FILE *));                                     \
        struct stk_pl_call call;                                                                   \
        int fd;                                                                                    \
        if (!stk_stream_begin(&call, f, &fd))                                                      \
            return real(line, room, delim, f);                                                     \
        ssize_t got = real(line, room, delim, f);                                                  \
        stk_stream_got(&call, f, fd, got > 0 ? (uint64_t)got : 0);                                 \
        return got;                                                                                \
    }
READ_DELIM(getdelim)
READ_DELIM(__getdelim)

WRAP(ssize_t, getline, (char **line, size_t *room, FILE *f))
{
    REAL(ssize_t, getline, (char **, size_t *, FILE *));
    struct stk_pl_call call;
    int fd;
    if (!stk_stream_begin(&call, f, &fd))
        return real(line, room, f);
    ssize_t got = real(line, room, f);
    stk_stream_got(&call, f, fd, got > 0 ? (uint64_t)got : 0);
    return got;
}

static int put_text(struct stk_pl_call *call, int fd, int rc, size_t length)
{
    if (rc < 0 || length)
        stk_pl_write(call, fd, STK_AT_POSITION, rc < 0 ? -1 : (int64_t)length, STK_API_STDIO);
    return rc;
}

#define WRITE_LINE(name)                                                                           \
    WRAP(int, name, (const char *text, FILE *f))                                                   \
    {                                                                                              \
        REAL(int, name, (const char *, FILE *));                                                   \
        struct stk_pl_call call;                                                                   \
        int fd;                                                                                    \
        if (!stk_stream_begin(&call, f, &fd))                                                      \
            return real(text, f);                                                                  \
        int rc = real(text, f);                                                                    \
        return put_text(&call, fd, rc, rc < 0 ? 0 : strlen(text));                                 \
    }
WRITE_LINE(fputs)
WRITE_LINE(fputs_unlocked)

WRAP(int, puts, (const char *text))
{
    REAL(int, puts, (const char *));
    struct stk_pl_call call;
    int fd;
    if (!stk_stream_begin(&call, stdout, &fd))
        return real(text);
    int rc = real(text);
    return put_text(&call, fd, rc, rc < 0 ? 0 : strlen(text) + 1);
}
