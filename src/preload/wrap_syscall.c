/*
 * wrap_syscall.c - system calls that programs make by syscall(): I/O is recorded as for the
 * functions of the same name. Also io_uring, whose transfers no wrapper sees: counts its rings and
 * submissions, by syscall() and by liburing's functions.
 */
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/wrap.h"
#include "preload/priv.h"

/* ---- io_uring ---- */

/* liburing's functions call each other, and old ones call syscall(): only the outermost counts. */
static void count_outermost(enum stk_pl_tally what)
{
    if (!stk_inside_library)
        stk_pl_tally(what, 1);
}

/* liburing returns negative error numbers. */
#define URING(name, args, values, tally)                                                           \
    WRAP(int, name, args)                                                                          \
    {                                                                                              \
        FOREIGN(int, name, args);                                                                  \
        if (!real)                                                                                 \
            return -ENOSYS;                                                                        \
        stk_inside_library++;                                                                      \
        int rc = real values;                                                                      \
        stk_inside_library--;                                                                      \
        if (rc >= 0)                                                                               \
            count_outermost(tally);                                                                \
        return rc;                                                                                 \
    }

URING(io_uring_queue_init, (unsigned entries, void *ring, unsigned flags), (entries, ring, flags),
      STK_TALLY_URING_RING)
URING(io_uring_queue_init_params, (unsigned entries, void *ring, void *params),
      (entries, ring, params), STK_TALLY_URING_RING)
URING(io_uring_queue_init_mem, (unsigned entries, void *ring, void *params, void *p, size_t n),
      (entries, ring, params, p, n), STK_TALLY_URING_RING)
URING(io_uring_submit, (void *ring), (ring), STK_TALLY_URING_ENTER)
URING(io_uring_submit_and_wait, (void *ring, unsigned wait), (ring, wait), STK_TALLY_URING_ENTER)
URING(io_uring_submit_and_wait_timeout,
      (void *ring, void **done, unsigned wait, void *timeout, void *signals),
      (ring, done, wait, timeout, signals), STK_TALLY_URING_ENTER)
URING(io_uring_submit_and_get_events, (void *ring), (ring), STK_TALLY_URING_ENTER)

/* ---- syscall() ---- */

typedef long syscall_fn(long, long, long, long, long, long, long);
static syscall_fn *real_syscall;

__attribute__((constructor(101))) static void find_real(void)
{
    __atomic_store_n(&real_syscall, (syscall_fn *)stk_pl_real("syscall"), __ATOMIC_RELAXED);
}

/* Before the real function is known: allocators call syscall() while dlsym() waits for them. */
__attribute__((noinline)) static long call_directly(long n, long a, long b, long c, long d, long e,
                                                    long f)
{
    long got = stk_sys6(n, a, b, c, d, e, f);
    if (got < 0 && got >= -4095) {
        errno = (int)-got;
        return -1;
    }
    return got;
}

enum kind {
    OTHER,
    OPEN,
    CLOSE,
    READ,
    READ_AT,
    WRITE,
    WRITE_AT,
    SEEK,
    STAT,
    DIR_READ,
    SYNC,
    COPY,
    COUNTED,
    KERNEL_AIO,
    SANDBOX,
    LIFE
};

static inline enum kind kind_of(long n)
{
    switch (n) {
#ifdef SYS_open
    case SYS_open:
#endif
    case SYS_openat:
#ifdef SYS_openat2
    case SYS_openat2:
#endif
        return OPEN;
    case SYS_close:
        return CLOSE;
    case SYS_read:
    case SYS_readv:
        return READ;
    case SYS_pread64:
    case SYS_preadv:
    case SYS_preadv2:
        return READ_AT;
    case SYS_write:
    case SYS_writev:
        return WRITE;
    case SYS_pwrite64:
    case SYS_pwritev:
    case SYS_pwritev2:
        return WRITE_AT;
    case SYS_lseek:
        return SEEK;
    case SYS_newfstatat:
    case SYS_statx:
    case SYS_faccessat:
        return STAT;
    case SYS_getdents64:
        return DIR_READ;
    case SYS_fsync:
    case SYS_fdatasync:
        return SYNC;
    case SYS_sendfile:
    case SYS_copy_file_range:
    case SYS_splice:
        return COPY;
#ifdef SYS_io_uring_setup
    case SYS_io_uring_setup:
    case SYS_io_uring_enter:
        return COUNTED;
#endif
    case SYS_io_submit:
    case SYS_io_getevents:
#ifdef SYS_io_pgetevents
    case SYS_io_pgetevents:
#endif
        return KERNEL_AIO;
    case SYS_seccomp:
    case SYS_prctl:
        return SANDBOX;
    case SYS_exit_group:
    case SYS_execve:
    case SYS_execveat:
        return LIFE;
    default:
        return OTHER;
    }
}

static void opened(struct stk_pl_call *call, long n, long a, long b, long c, long fd)
{
    int dir = (int)a, flags = (int)c;
    const char *path = (const char *)b;
#ifdef SYS_openat2
    if (n == SYS_openat2) /* the flags come first in struct open_how, which the kernel has just
                             read */
        flags = fd >= 0 ? (int)*(const uint64_t *)c : 0;
#endif
#ifdef SYS_open
    if (n == SYS_open) {
        dir = AT_FDCWD;
        path = (const char *)a;
        flags = (int)b;
    }
#endif
    (void)n;
    stk_pl_opened(call, dir, path, flags, (int)fd, STK_API_POSIX);
}

/* The kernel has advanced the offsets: subtracts the bytes moved. */
static int64_t offset_of(long offset, long moved)
{
    return offset && moved > 0 ? *(const int64_t *)offset - moved : STK_AT_POSITION;
}

static void copied(struct stk_pl_call *call, long n, const long arg[6], long moved)
{
    if (n == SYS_sendfile) /* (to, from, offset, n) */
        stk_pl_copied(call, (int)arg[1], offset_of(arg[2], moved), (int)arg[0], STK_AT_POSITION,
                      moved);
    else /* (from, offset, to, offset, n, flags) */
        stk_pl_copied(call, (int)arg[0], offset_of(arg[1], moved), (int)arg[2],
                      offset_of(arg[3], moved), moved);
}

static void done(struct stk_pl_call *call, enum kind kind, long n, const long arg[6], long got)
{
    int fd = (int)arg[0];
    switch (kind) {
    case OPEN:
        return opened(call, n, arg[0], arg[1], arg[2], got);
    case READ:
        return stk_pl_read(call, fd, STK_AT_POSITION, got, STK_API_POSIX);
    case READ_AT:
        return stk_pl_read(call, fd, arg[3], got, STK_API_POSIX);
    case WRITE:
        return stk_pl_write(call, fd, STK_AT_POSITION, got, STK_API_POSIX);
    case WRITE_AT:
        return stk_pl_write(call, fd, arg[3], got, STK_API_POSIX);
    case SEEK:
        return stk_pl_sought(call, fd, got, STK_API_POSIX);
    case STAT:
        return stk_pl_meta_path(call, fd, (const char *)arg[1], STK_C_STATS, got >= 0);
    case DIR_READ:
        return stk_pl_meta_fd(call, fd, STK_C_DIR_READS, got >= 0, STK_API_POSIX);
    case SYNC:
        return stk_pl_meta_fd(call, fd, STK_C_FSYNCS, got >= 0, STK_API_POSIX);
    case COPY:
        return copied(call, n, arg, got);
    default:
        return;
    }
}

__attribute__((noinline)) static long record(enum kind kind, long n, long a, long b, long c, long d,
                                             long e, long f)
{
    struct stk_pl_call call;
    if (!stk_pl_begin(&call))
        return real_syscall(n, a, b, c, d, e, f);
    if (kind == CLOSE) {
        uint32_t what = stk_pl_closing((int)a);
        long rc = real_syscall(n, a, b, c, d, e, f);
        stk_pl_closed(&call, what, rc == 0, STK_API_POSIX);
        return rc;
    }
    long got = real_syscall(n, a, b, c, d, e, f);
    done(&call, kind, n, (const long[6]){a, b, c, d, e, f}, got);
    return got;
}

/* Forbids system calls from here on: see prctl() in wrap_life.c. */
__attribute__((noinline)) static long sandbox(long n, long a, long b, long c, long d, long e,
                                              long f)
{
    bool begins = n == SYS_prctl ? stk_pl_sandbox_begins(a, b) : a == 0 || a == 1; /* mode */
    uint32_t before = begins ? stk_pl_sandbox() : 0;
    long rc = real_syscall(n, a, b, c, d, e, f);
    if (begins && rc < 0)
        stk_pl_no_sandbox(before);
    return rc;
}

/* Like _exit() and execve(), wrap_life.c. */
__attribute__((noinline)) static long life(long n, long a, long b, long c, long d, long e, long f)
{
    stk_pl_ending(n == SYS_exit_group ? STK_END_EXIT : STK_END_EXEC);
    long rc = real_syscall(n, a, b, c, d, e, f);
    stk_pl_exec_failed();
    return rc;
}

static void count(long n)
{
#ifdef SYS_io_uring_setup
    if (n == SYS_io_uring_setup)
        return count_outermost(STK_TALLY_URING_RING);
    if (n == SYS_io_uring_enter)
        return count_outermost(STK_TALLY_URING_ENTER);
#endif
    (void)n;
}

/* Submits (context, n, list), or fetches results (context, least, n, events, timeout). */
__attribute__((noinline)) static long kernel_aio(long n, long a, long b, long c, long d, long e,
                                                 long f)
{
    if (stk_inside_library) /* libaio's function calls syscall() */
        return real_syscall(n, a, b, c, d, e, f);
    bool submits = n == SYS_io_submit;
    if (submits)
        stk_aio_submitting((struct iocb **)c, b);
    long got = real_syscall(n, a, b, c, d, e, f);
    if (submits)
        stk_aio_submitted((struct iocb **)c, b, got);
    else
        stk_aio_fetched((const struct io_event *)d, got);
    return got;
}

/* Variadic in C: integers and pointers are passed as if it had seven arguments. If the caller
 * passes fewer, something else is on the stack in place of the last one, perhaps a word that other
 * threads change: it may be read but never written, which a compiler does that turns the last call
 * into a jump. So that call is not the last statement. */
WRAP(long, syscall, (long n, long a, long b, long c, long d, long e, long f))
{
    syscall_fn *real = __atomic_load_n(&real_syscall, __ATOMIC_RELAXED);
    enum kind kind = kind_of(n);
    long got;
    if (__builtin_expect(!real, 0))
        got = call_directly(n, a, b, c, d, e, f);
    else if (kind == OTHER || kind == COUNTED)
        got = real(n, a, b, c, d, e, f);
    else if (kind == KERNEL_AIO)
        got = kernel_aio(n, a, b, c, d, e, f);
    else if (kind == SANDBOX)
        got = sandbox(n, a, b, c, d, e, f);
    else if (kind == LIFE)
        got = life(n, a, b, c, d, e, f);
    else
        got = record(kind, n, a, b, c, d, e, f);
    if (kind == COUNTED && got >= 0)
        count(n);
    __asm__ volatile("" : "+r"(got));
    return got;
}
