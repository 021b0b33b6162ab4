/*
 * wrap_char.c - characters of streams, in runs (see stream.h). The inlined getc_unlocked() and
 * putc_unlocked() call __uflow() and __overflow() when the buffer is empty, or full. Reads the same
 * pointers of glibc's FILE as those inlined functions.
 */
#include <stdio.h>
#include <string.h>

#include "preload/priv.h"
#include "preload/stream.h"

STK_TABLE struct stk_stream_run stk_stream_runs[STK_STREAMS];
static bool some; /* there were runs (atomic) */

void stk_stream_end_run(FILE *f, int fd, struct stk_stream_run *run)
{
    FILE *expected = f;
    if (!__atomic_compare_exchange_n(&run->stream, &expected, NULL, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_RELAXED))
        return;
    const char *base = run->write ? f->_IO_write_base : f->_IO_read_base;
    const char *at = run->write ? f->_IO_write_ptr : f->_IO_read_ptr;
    struct stk_pl_call call;
    /* An unwrapped function may have refilled or replaced the buffer. */
    if (run->mark < base || run->mark >= at || !stk_pl_begin(&call))
        return;
    stk_stream_earlier(&call, run->ns);
    if (run->write)
        stk_pl_write(&call, fd, STK_AT_POSITION, at - run->mark, STK_API_STDIO);
    else if (run->blocks)
        stk_pl_read_blocks(&call, fd, at - run->mark, run->block, STK_API_STDIO);
    else
        stk_pl_read(&call, fd, STK_AT_POSITION, at - run->mark, STK_API_STDIO);
}

void stk_stream_end_all(void)
{
    if (!__atomic_load_n(&some, __ATOMIC_RELAXED)) /* otherwise it would cost ten pages */
        return;
    for (int fd = 0; fd < STK_STREAMS; fd++) {
        FILE *f = __atomic_load_n(&stk_stream_runs[fd].stream, __ATOMIC_RELAXED);
        if (f)
            stk_stream_end_run(f, fd, &stk_stream_runs[fd]);
    }
}

/* The runs that a child inherits belong to its parent. */
void stk_stream_forked(void)
{
    if (__atomic_exchange_n(&some, false, __ATOMIC_RELAXED))
        memset(stk_stream_runs, 0, sizeof(stk_stream_runs));
}

__attribute__((destructor)) static void end_runs(void)
{
    stk_stream_end_all();
}

static void begin_run(struct stk_stream_run *run, FILE *f, bool write, const char *mark,
                      uint64_t ns)
{
    run->mark = mark;
    run->ns = ns;
    run->write = write;
    run->blocks = false;
    if (!__atomic_load_n(&some, __ATOMIC_RELAXED))
        __atomic_store_n(&some, true, __ATOMIC_RELAXED);
    __atomic_store_n(&run->stream, f, __ATOMIC_RELEASE);
}

static bool in_run(const struct stk_stream_run *run, const FILE *f, bool write)
{
    return __atomic_load_n(&run->stream, __ATOMIC_ACQUIRE) == f && run->write == write &&
           !run->blocks;
}

/* The call that filled or emptied the buffer has ended; its time belongs to the run. */
static uint64_t end_fill(struct stk_pl_call *call)
{
    struct stk_pl_call now;
    uint64_t ns = 0;
    if (stk_pl_begin(&now)) {
        ns = now.start_ns > call->start_ns ? now.start_ns - call->start_ns : 0;
    }
    return ns;
}

/* ---- reading ---- */

static int get_filling(int (*real)(FILE *), FILE *f, int fd, struct stk_stream_run *run)
{
    struct stk_pl_call call;
    stk_stream_settle(f, fd);
    if (fd < 0 || !stk_pl_begin(&call))
        return real(f);
    int c = real(f);
    if (c == EOF)
        stk_stream_got(&call, f, fd, 0);
    else if (run && f->_IO_read_ptr > f->_IO_read_base)
        begin_run(run, f, false, f->_IO_read_ptr - 1, end_fill(&call));
    else
        stk_stream_got(&call, f, fd, 1);
    return c;
}

static inline int get(int (*real)(FILE *), FILE *f)
{
    int fd = stk_stream_fd(f);
    struct stk_stream_run *run = stk_stream_run(fd);
    if (!run || f->_IO_read_ptr >= f->_IO_read_end)
        return get_filling(real, f, fd, run);
    if (!in_run(run, f, false)) {
        stk_stream_settle(f, fd);
        begin_run(run, f, false, f->_IO_read_ptr, stk_stream_fill_ns(run));
    }
    return real(f);
}

/* With a trace, every call is recorded. The second call of one length begins a run: lengths that
 * alternate would end one each time. */
bool stk_stream_in_blocks(FILE *f, size_t bytes)
{
    int fd = stk_stream_fd(f);
    struct stk_stream_run *run = stk_stream_run(fd);
    if (!run || bytes > STK_STREAM_TINY || !stk_stream_is_plain(f) ||
        (size_t)(f->_IO_read_end - f->_IO_read_ptr) < bytes || stk_pl.watch->trace)
        return false;
    bool same = run->block == bytes;
    if (same && run->blocks && __atomic_load_n(&run->stream, __ATOMIC_ACQUIRE) == f)
        return true;
    stk_stream_settle(f, fd);
    run->block = (uint32_t)bytes;
    if (!same)
        return false;
    begin_run(run, f, false, f->_IO_read_ptr, stk_stream_fill_ns(run));
    run->blocks = true;
    return true;
}

#define GET(name)                                                                                  \
    WRAP(int, name, (FILE * f))                                                                    \
    {                                                                                              \
        REAL(int, name, (FILE *));                                                                 \
        return get(real, f);                                                                       \
    }
GET(fgetc)
GET(fgetc_unlocked)
GET(getc)
GET(getc_unlocked)
GET(_IO_getc)
GET(__uflow)

WRAP(int, getchar, (void))
{
    REAL(int, getc, (FILE *));
    return get(real, stdin);
}

WRAP(int, getchar_unlocked, (void))
{
    REAL(int, getc_unlocked, (FILE *));
    return get(real, stdin);
}

/* A character that was just read is put back: the run shortens by itself. Anything else goes to
 * another buffer, where the run would be lost. */
WRAP(int, ungetc, (int c, FILE *f))
{
    REAL(int, ungetc, (int, FILE *));
    bool back = f->_IO_read_ptr > f->_IO_read_base &&
                (unsigned char)f->_IO_read_ptr[-1] == (unsigned char)c;
    if (!back)
        stk_stream_settle(f, stk_stream_fd(f));
    return real(c, f);
}

/* ---- writing ---- */

static int put_emptying(int (*real)(int, FILE *), int c, FILE *f, int fd,
                        struct stk_stream_run *run)
{
    struct stk_pl_call call;
    stk_stream_settle(f, fd);
    if (fd < 0 || !stk_pl_begin(&call))
        return real(c, f);
    int rc = real(c, f);
    if (run && rc != EOF && f->_IO_write_ptr > f->_IO_write_base)
        begin_run(run, f, true, f->_IO_write_ptr - 1, end_fill(&call));
    else /* unbuffered, or the end of a line */
        stk_pl_write(&call, fd, STK_AT_POSITION, rc == EOF ? -1 : 1, STK_API_STDIO);
    return rc;
}

static inline int put(int (*real)(int, FILE *), int c, FILE *f)
{
    int fd = stk_stream_fd(f);
    struct stk_stream_run *run = stk_stream_run(fd);
    if (!run || f->_IO_write_ptr >= f->_IO_write_end)
        return put_emptying(real, c, f, fd, run);
    if (!in_run(run, f, true)) {
        stk_stream_settle(f, fd);
        begin_run(run, f, true, f->_IO_write_ptr, 0);
    }
    return real(c, f);
}

#define PUT(name)                                                                                  \
    WRAP(int, name, (int c, FILE *f))                                                              \
    {                                                                                              \
        REAL(int, name, (int, FILE *));                                                            \
        return put(real, c, f);                                                                    \
    }
PUT(fputc)
PUT(fputc_unlocked)
PUT(putc)
PUT(putc_unlocked)
PUT(_IO_putc)

WRAP(int, putchar, (int c))
{
    REAL(int, putc, (int, FILE *));
    return put(real, c, stdout);
}

WRAP(int, putchar_unlocked, (int c))
{
    REAL(int, putc_unlocked, (int, FILE *));
    return put(real, c, stdout);
}

static int overflow(int c, FILE *f)
{
    REAL(int, __overflow, (FILE *, int));
    return real(f, c);
}

WRAP(int, __overflow, (FILE * f, int c))
{
    if (c != EOF)
        return put_emptying(overflow, c, f, stk_stream_fd(f), stk_stream_run(stk_stream_fd(f)));
    stk_stream_settle(f, stk_stream_fd(f)); /* nothing to write: only empties the buffer */
    return overflow(c, f);
}
