/*
 * core.h - the interface for the wrappers, inside the user's program.
 *
 * A wrapper calls the real function between stk_pl_begin() and one of the recording functions:
 *
 *     ssize_t pread64(int fd, void *p, size_t n, off64_t offset)
 *     {
 *         REAL(ssize_t, pread64, (int, void *, size_t, off64_t));
 *         struct stk_pl_call call;
 *         if (!stk_pl_begin(&call))
 *             return real(fd, p, n, offset);
 *         ssize_t got = real(fd, p, n, offset);
 *         stk_pl_read(&call, fd, offset, got, STK_API_POSIX);
 *         return got;
 *     }
 *
 * Every recording function first takes the end time, preserves errno, and never blocks, allocates
 * or fails. stk_pl_begin() is false when nothing must be recorded: not set up yet, switched off,
 * out of time (--for), inside our own code, inside a signal handler that interrupted it, in a vfork
 * child. Calls nest (HDF5 calls pread): both are recorded, each in its own API.
 *
 * Nothing here depends on the rest of stoker.
 */
#ifndef STK_PRELOAD_CORE_H
#define STK_PRELOAD_CORE_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "proflog/log.h"

#define STK_EXPORT __attribute__((visibility("default")))
/* For tables that a short process does not touch, or only at their beginning: the linker places them
 * before all smaller variables, which then share a few pages (meson.build). */
#define STK_TABLE _Alignas(4096)

/* Declares `real`, the next definition of NAME in the order of libraries (so that other preloaded
 * libraries keep working), looked up at the first call; a program cannot run without those of
 * libc. */
#define REAL(type, name, args)                                                                     \
    static type(*real_##name) args;                                                                \
    if (__builtin_expect(!__atomic_load_n(&real_##name, __ATOMIC_RELAXED), 0))                     \
        __atomic_store_n(&real_##name, (type(*) args)stk_pl_real(#name), __ATOMIC_RELAXED);        \
    type(*const real) args = real_##name

/* As dlsym(RTLD_NEXT). NULL: none. */
void *stk_pl_real(const char *name);
/* The same; if that finds nothing (a library loaded by dlopen, such as h5py's HDF5), searches the
 * libraries of the calling object. */
void *stk_pl_real_of(const char *name, const void *return_address);

/* What the time of a call goes to. */
enum stk_pl_what { STK_PL_META, STK_PL_READ, STK_PL_WRITE };

struct stk_pl_thread;
struct stk_pl_call {
    struct stk_pl_thread *thread;
    uint64_t start_ns; /* since the process's start */
    /* Of a call that is neither a read nor a write: META, unless the C library moved data inside it
     * (fclose() empties a stream's buffer). */
    enum stk_pl_what spent;
};

/* fd will be read or written: prefetches what that changes while the kernel works, since with
 * thousands of open files it is not in the cache. Call it before stk_pl_begin(), which takes the
 * time. */
void stk_pl_ahead(int fd);
bool stk_pl_begin(struct stk_pl_call *call);

/* ---- descriptors ---- */
/* An open of path (relative to dirfd) returned fd, or failed (fd < 0). */
void stk_pl_opened(struct stk_pl_call *call, int dirfd, const char *path, int flags, int fd,
                   enum stk_api api);
/* Before a close, since another thread may reuse the number at once; pass the result to
 * stk_pl_closed(). */
uint32_t stk_pl_closing(int fd);
void stk_pl_closed(struct stk_pl_call *call, uint32_t what, bool ok, enum stk_api api);
void stk_pl_duped(struct stk_pl_call *call, int from, int to); /* to < 0: failed */
/* close_range(): forgets [first, last] without recording errors individually. */
void stk_pl_closed_range(struct stk_pl_call *call, unsigned first, unsigned last);

/* ---- data ---- */
#define STK_AT_POSITION (-1) /* at the descriptor's position, which advances */
/* got: the result of the call (-1: error). A descriptor whose open was not observed (inherited,
 * received) is looked up once. */
void stk_pl_read(struct stk_pl_call *call, int fd, int64_t offset, int64_t got, enum stk_api api);
void stk_pl_write(struct stk_pl_call *call, int fd, int64_t offset, int64_t put, enum stk_api api);
/* The same for reads of `each` bytes, one after the other, that returned `got` in all. The time is
 * that of the first; the others came from a buffer. */
void stk_pl_read_blocks(struct stk_pl_call *call, int fd, int64_t got, uint32_t each,
                        enum stk_api api);
/* The C library read `bytes` more for a stream than its callers received (negative: less), as far
 * as the call at hand tells: the kernel's count includes them. */
void stk_pl_read_ahead(int64_t bytes);
/* sendfile and the like: n bytes of `from` went to `to`; either may be a pipe or socket. The time
 * counts once, for the read. */
void stk_pl_copied(struct stk_pl_call *call, int from, int64_t from_offset, int to,
                   int64_t to_offset, int64_t n);
/* A transfer that ended elsewhere (aio, io_uring, reported by a library), with its own start and
 * end. */
void stk_pl_async(int fd, bool write, int64_t offset, int64_t n, uint64_t start_ns,
                  uint64_t end_ns);
void stk_pl_sought(struct stk_pl_call *call, int fd, int64_t position, enum stk_api api);

/* ---- the rest: `what` is the counter, in addition to META_NS and ERRORS ---- */
void stk_pl_meta_fd(struct stk_pl_call *call, int fd, enum stk_counter what, bool ok,
                    enum stk_api api);
void stk_pl_meta_path(struct stk_pl_call *call, int dirfd, const char *path, enum stk_counter what,
                      bool ok);
/* A function of the C library listed a directory, or a tree below it, and returned `names`; < 0: it
 * failed. They count like those of readdir(). */
void stk_pl_walked(struct stk_pl_call *call, int dirfd, const char *path, int64_t names);
void stk_pl_mapped(struct stk_pl_call *call, int fd, size_t length, bool ok);
/* fstat() and stat() report the size: kept if the file is known. */
void stk_pl_size_fd(int fd, uint64_t size);

/* ---- things with a name and no descriptor (HDF5 and MPI-IO files) ---- */
/* An id for the name; 0: left out or no room. Takes a lock: for opens, not for reads. */
uint32_t stk_pl_name(const char *path);
void stk_pl_named_meta(struct stk_pl_call *call, uint32_t name, enum stk_counter what, bool ok,
                       enum stk_api api);
/* offset -1: unknown; the call is then in no sequence. */
void stk_pl_named_data(struct stk_pl_call *call, uint32_t name, bool write, int64_t offset,
                       int64_t n, enum stk_api api);

/* Bits of enum stk_log_layout, for the records of this thread. */
void stk_pl_named_layout(uint32_t name, uint8_t layouts, enum stk_api api);

/* ---- counts of the whole process ---- */
enum stk_pl_tally {
    STK_TALLY_URING_RING,
    STK_TALLY_URING_ENTER,
    STK_TALLY_KERNEL_AIO, /* calls of io_submit() */
    STK_TALLY_AIO_TRANSFERS,
    STK_TALLY_AIO_RESULTS,
    STK_TALLY_AIO_READ, /* bytes */
    STK_TALLY_AIO_WRITTEN
};
void stk_pl_tally(enum stk_pl_tally what, uint64_t n);

/* ---- life (life.c): called by the wrappers of _exit, exec*, abort ---- */
/* Before exec: notes it in the log, and puts what the new program needs from us into its
 * environment. */
void stk_pl_before_exec(void);
void stk_pl_exec_failed(void);
void stk_pl_ending(enum stk_log_end how);

#endif
