/*
 * stream.h - shared by the wrappers of stdio: the descriptor of a stream, and runs.
 *
 * getc() and putc() take a few nanoseconds per byte, and their inlined twins are not calls at all.
 * So they are not recorded individually: a run of them is recorded as one read (or write), by how
 * far the stream's pointer moved since the run began. A run begins when a character function finds
 * the buffer empty (or the stream in no run) and ends with the next call of any other kind on the
 * stream, the next time the buffer is empty, or the end of the process.
 *
 * Tiny blocks of one length (fread() of a number) that the buffer holds are in runs, too; these are
 * recorded as that many reads.
 */
#ifndef STK_PRELOAD_STREAM_H
#define STK_PRELOAD_STREAM_H

#include <stdio.h>

#include "preload/wrap.h"

#define STK_STREAMS 1024 /* descriptors that have runs; above these each character is a call */

struct stk_stream_run {
    FILE *stream;     /* NULL: no run (atomic) */
    const char *mark; /* where the stream's pointer was */
    uint64_t ns;      /* time spent filling (emptying) the buffer */
    bool write;
    uint32_t block;    /* bytes of the last fread(), if tiny; in a run of these */
    bool blocks;       /* the run is one of blocks, not of characters */
    FILE *no_position; /* a stream for which ftello() fails: not tried again */
    uint64_t fill_ns;  /* a seek filled the buffer for the next read: its time */
};
extern struct stk_stream_run stk_stream_runs[STK_STREAMS] __attribute__((visibility("hidden")));

/* -1: memory, or the program's own functions. */
static inline int stk_stream_fd(FILE *f)
{
    int before = errno;
    int fd = fileno_unlocked(f);
    errno = before;
    return fd;
}

static inline struct stk_stream_run *stk_stream_run(int fd)
{
    return fd >= 0 && fd < STK_STREAMS ? &stk_stream_runs[fd] : NULL;
}

#define STK_STREAM_TINY 16 /* bytes: a buffer holds hundreds, and nobody computes long on one */
/* A fread() of `bytes`: true if a run of blocks goes on, or begins, with it. Otherwise the caller
 * records it. */
bool stk_stream_in_blocks(FILE *f, size_t bytes);
/* Ends and records the run of f, which is in one. */
void stk_stream_end_run(FILE *f, int fd, struct stk_stream_run *run);
/* fflush(NULL). */
void stk_stream_end_all(void);

static inline void stk_stream_settle(FILE *f, int fd)
{
    struct stk_stream_run *run = stk_stream_run(fd);
    if (run && __atomic_load_n(&run->stream, __ATOMIC_RELAXED) == f)
        stk_stream_end_run(f, fd, run);
}

/* Before any call on f except those for characters: true if it must be recorded. */
static inline bool stk_stream_begin(struct stk_pl_call *call, FILE *f, int *fd)
{
    *fd = stk_stream_fd(f);
    stk_stream_settle(f, *fd);
    return *fd >= 0 && stk_pl_begin(call);
}

/* Bytes, not wide characters, whose buffer is another. */
static inline bool stk_stream_is_plain(const FILE *f)
{
    return f->_mode <= 0 && f->_IO_buf_base;
}

static inline int64_t stk_stream_unread(const FILE *f)
{
    return stk_stream_is_plain(f) ? f->_IO_read_end - f->_IO_read_ptr : 0;
}

static inline bool stk_stream_unwritten(const FILE *f)
{
    return stk_stream_is_plain(f) && f->_IO_write_ptr > f->_IO_write_base;
}

/* The time of the last seek, if it filled the buffer that this read takes its data from. */
static inline uint64_t stk_stream_fill_ns(struct stk_stream_run *run)
{
    uint64_t ns = run ? run->fill_ns : 0;
    if (__builtin_expect(ns != 0, 0))
        run->fill_ns = 0;
    return ns;
}

static inline void stk_stream_earlier(struct stk_pl_call *call, uint64_t ns)
{
    call->start_ns -= ns < call->start_ns ? ns : call->start_ns;
}

/* Before a stream is closed: its buffer is written, or dropped. */
static inline void stk_stream_emptied(struct stk_pl_call *call, FILE *f, int fd)
{
    uint64_t ns = stk_stream_fill_ns(stk_stream_run(fd));
    stk_stream_earlier(call, ns);
    call->spent = stk_stream_unwritten(f) ? STK_PL_WRITE : ns ? STK_PL_READ : STK_PL_META;
    stk_pl_read_ahead(stk_stream_unread(f));
}

/* Records a read that returned n bytes: both the end of data and an error return none. */
static inline void stk_stream_got(struct stk_pl_call *call, FILE *f, int fd, uint64_t n)
{
    stk_stream_earlier(call, stk_stream_fill_ns(stk_stream_run(fd)));
    int64_t got = n ? (int64_t)n : ferror_unlocked(f) ? -1 : 0;
    stk_pl_read(call, fd, STK_AT_POSITION, got, STK_API_STDIO);
}

#endif
