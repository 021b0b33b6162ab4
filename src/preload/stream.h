/*
 * stream.h - shared by the wrappers of stdio: the descriptor of a stream, and runs.
 *
 * getc() and putc() take a few nanoseconds per byte, and their inlined twins are not calls at all.
 * So they are not recorded individually: a run of them is recorded as one read (or write), by how
 * far the stream's pointer moved since the run began. A run begins when a character function finds
 * the buffer empty (or the stream in no run) and ends with the next call of any other kind on the
 * stream, the next time the buffer is empty, or the end of the process.
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
    FILE *no_position; /* a stream for which ftello() fails: not tried again */
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

/* Records a read that returned n bytes: both the end of data and an error return none. */
static inline void stk_stream_got(struct stk_pl_call *call, FILE *f, int fd, uint64_t n)
{
    int64_t got = n ? (int64_t)n : ferror_unlocked(f) ? -1 : 0;
    stk_pl_read(call, fd, STK_AT_POSITION, got, STK_API_STDIO);
}

#endif
