/*
 * wrap_seek.c - positions of streams, and fflush(). These calls move data inside the C library:
 * fseek() reads the block around the new position into the buffer, and all of them write what the
 * buffer holds. That time is reading, or writing. What glibc's FILE tells (its pointers, and the
 * descriptor's position) before and after the call shows which it was.
 */
#include <stdio.h>

#include "preload/stream.h"

struct state {
    int64_t offset;   /* of the descriptor, as the stream knows it; -1: unknown */
    int64_t unread;   /* bytes in the buffer */
    bool has_written; /* the buffer holds output */
};

static struct state state_of(const FILE *f)
{
    return (struct state){f->_offset, stk_stream_unread(f), stk_stream_unwritten(f)};
}

/* Bytes that a seek read into the buffer: it moved the descriptor, and left data there. Seeking
 * within the buffer moves nothing. */
static int64_t filled(const FILE *f, const struct state *before)
{
    bool moved = f->_offset != before->offset;
    return moved && stk_stream_is_plain(f) ? f->_IO_read_end - f->_IO_buf_base : 0;
}

/* The time of a read inside (of `bytes`) belongs to the next read of the stream, which only takes
 * what is in the buffer. */
static void attribute(struct stk_pl_call *call, FILE *f, int fd, const struct state *before,
                      int64_t bytes)
{
    struct stk_stream_run *run = stk_stream_run(fd);
    struct stk_pl_call now;
    stk_pl_read_ahead(bytes + before->unread - stk_stream_unread(f));
    if (before->has_written) {
        call->spent = STK_PL_WRITE;
    } else if (bytes > 0 && run && stk_pl_begin(&now) && now.start_ns > call->start_ns) {
        run->fill_ns += now.start_ns - call->start_ns;
        call->start_ns = now.start_ns;
    } else if (bytes > 0) {
        call->spent = STK_PL_READ;
    }
}

static int sought(struct stk_pl_call *call, FILE *f, int fd, const struct state *before, int rc,
                  int64_t position)
{
    int why = errno;
    attribute(call, f, fd, before, filled(f, before));
    if (rc)
        position = -1;
    else if (position < 0)
        position = ftello(f);
    errno = why;
    stk_pl_sought(call, fd, position, STK_API_STDIO);
    return rc;
}

#define SEEK(name, offset_type)                                                                    \
    WRAP(int, name, (FILE * f, offset_type offset, int whence))                                    \
    {                                                                                              \
        REAL(int, name, (FILE *, offset_type, int));                                               \
        struct stk_pl_call call;                                                                   \
        int fd;                                                                                    \
        if (!stk_stream_begin(&call, f, &fd))                                                      \
            return real(f, offset, whence);                                                        \
        const struct state before = state_of(f);                                                   \
        int rc = real(f, offset, whence);                                                          \
        return sought(&call, f, fd, &before, rc, whence == SEEK_SET ? offset : -1);                \
    }
SEEK(fseek, long)
SEEK(fseeko, off_t)
SEEK(fseeko64, off64_t)

#define SET_POSITION(name)                                                                         \
    WRAP(int, name, (FILE * f, const fpos_t *to))                                                  \
    {                                                                                              \
        REAL(int, name, (FILE *, const fpos_t *));                                                 \
        struct stk_pl_call call;                                                                   \
        int fd;                                                                                    \
        if (!stk_stream_begin(&call, f, &fd))                                                      \
            return real(f, to);                                                                    \
        const struct state before = state_of(f);                                                   \
        return sought(&call, f, fd, &before, real(f, to), -1);                                     \
    }
SET_POSITION(fsetpos)
SET_POSITION(fsetpos64)

WRAP(void, rewind, (FILE * f))
{
    REAL(void, rewind, (FILE *));
    struct stk_pl_call call;
    int fd;
    bool record = stk_stream_begin(&call, f, &fd);
    const struct state before = state_of(f);
    real(f);
    if (record)
        sought(&call, f, fd, &before, 0, 0);
}

#define FLUSH(name)                                                                                \
    WRAP(int, name, (FILE * f))                                                                    \
    {                                                                                              \
        REAL(int, name, (FILE *));                                                                 \
        struct stk_pl_call call;                                                                   \
        int fd;                                                                                    \
        if (!f) {                                                                                  \
            stk_stream_end_all();                                                                  \
            return real(f);                                                                        \
        }                                                                                          \
        if (!stk_stream_begin(&call, f, &fd))                                                      \
            return real(f);                                                                        \
        const struct state before = state_of(f);                                                   \
        int rc = real(f), why = errno;                                                             \
        attribute(&call, f, fd, &before, 0);                                                       \
        errno = why;                                                                               \
        stk_pl_meta_fd(&call, fd, STK_C_FLUSHES, rc == 0, STK_API_STDIO);                          \
        return rc;                                                                                 \
    }
FLUSH(fflush)
FLUSH(fflush_unlocked)
