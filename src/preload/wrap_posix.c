/*
 * wrap_posix.c - reads and writes through descriptors, seeks and syncs, under all names that the C
 * library has for them: with 64-bit offsets, and fortified.
 */
#include <sys/uio.h>
#include <fcntl.h>
#include <sys/sendfile.h>
#include <unistd.h>

#include "preload/wrap.h"

typedef const struct iovec *iovecs;

/* DATA(type of call, name, offset, parameters, their types, their names). */
#define DATA(done, name, offset, parameters, types, arguments)                                     \
    WRAP(ssize_t, name, parameters)                                                                \
    {                                                                                              \
        REAL_OR(ssize_t, name, types, -1);                                                         \
        struct stk_pl_call call;                                                                   \
        stk_pl_ahead(fd);                                                                          \
        if (!stk_pl_begin(&call))                                                                  \
            return real arguments;                                                                 \
        ssize_t n = real arguments;                                                                \
        done(&call, fd, offset, n, STK_API_POSIX);                                                 \
        return n;                                                                                  \
    }

DATA(stk_pl_read, read, STK_AT_POSITION, (int fd, void *p, size_t count), (int, void *, size_t),
     (fd, p, count))
DATA(stk_pl_read, __read_chk, STK_AT_POSITION, (int fd, void *p, size_t count, size_t room),
     (int, void *, size_t, size_t), (fd, p, count, room))
DATA(stk_pl_write, write, STK_AT_POSITION, (int fd, const void *p, size_t count),
     (int, const void *, size_t), (fd, p, count))

#define AT(done, name, pointer)                                                                    \
    DATA(done, name, offset, (int fd, pointer p, size_t count, off_t offset),                      \
         (int, pointer, size_t, off_t), (fd, p, count, offset))
AT(stk_pl_read, pread, void *)
AT(stk_pl_read, pread64, void *)
AT(stk_pl_write, pwrite, const void *)
AT(stk_pl_write, pwrite64, const void *)

#define AT_CHECKED(name)                                                                           \
    DATA(stk_pl_read, name, offset, (int fd, void *p, size_t count, off_t offset, size_t room),    \
         (int, void *, size_t, off_t, size_t), (fd, p, count, offset, room))
AT_CHECKED(__pread_chk)
AT_CHECKED(__pread64_chk)

DATA(stk_pl_read, readv, STK_AT_POSITION, (int fd, iovecs v, int count), (int, iovecs, int),
     (fd, v, count))
DATA(stk_pl_write, writev, STK_AT_POSITION, (int fd, iovecs v, int count), (int, iovecs, int),
     (fd, v, count))

#define VECTOR_AT(done, name)                                                                      \
    DATA(done, name, offset, (int fd, iovecs v, int count, off_t offset),                          \
         (int, iovecs, int, off_t), (fd, v, count, offset))
VECTOR_AT(stk_pl_read, preadv)
VECTOR_AT(stk_pl_read, preadv64)
VECTOR_AT(stk_pl_write, pwritev)
VECTOR_AT(stk_pl_write, pwritev64)

/* Offset -1 means the position here too. */
#define VECTOR2_AT(done, name)                                                                     \
    DATA(done, name, offset, (int fd, iovecs v, int count, off_t offset, int flags),               \
         (int, iovecs, int, off_t, int), (fd, v, count, offset, flags))
VECTOR2_AT(stk_pl_read, preadv2)
VECTOR2_AT(stk_pl_read, preadv64v2)
VECTOR2_AT(stk_pl_write, pwritev2)
VECTOR2_AT(stk_pl_write, pwritev64v2)

#define SEEK(name)                                                                                 \
    WRAP(off_t, name, (int fd, off_t offset, int whence))                                          \
    {                                                                                              \
        REAL(off_t, name, (int, off_t, int));                                                      \
        struct stk_pl_call call;                                                                   \
        if (!stk_pl_begin(&call))                                                                  \
            return real(fd, offset, whence);                                                       \
        off_t position = real(fd, offset, whence);                                                 \
        stk_pl_sought(&call, fd, position, STK_API_POSIX);                                         \
        return position;                                                                           \
    }
SEEK(lseek)
SEEK(lseek64)

#define SYNC(name, parameters, types, arguments)                                                   \
    WRAP(int, name, parameters)                                                                    \
    {                                                                                              \
        REAL(int, name, types);                                                                    \
        struct stk_pl_call call;                                                                   \
        if (!stk_pl_begin(&call))                                                                  \
            return real arguments;                                                                 \
        int rc = real arguments;                                                                   \
        stk_pl_meta_fd(&call, fd, STK_C_FSYNCS, rc == 0, STK_API_POSIX);                           \
        return rc;                                                                                 \
    }
SYNC(fsync, (int fd), (int), (fd))
SYNC(fdatasync, (int fd), (int), (fd))
SYNC(sync_file_range, (int fd, off_t from, off_t bytes, unsigned flags),
     (int, off_t, off_t, unsigned), (fd, from, bytes, flags))

/* ---- from one descriptor to another ---------------------------------------------------------- */

/* Bytes that the kernel copies from one descriptor to another: a read of one file and a write of
 * the other. */

/* Offsets are passed by pointer and advanced by the call. The old value is computed from the new
 * one, which is known to be readable. */
static int64_t offset_of(const off64_t *offset, ssize_t moved)
{
    return offset && moved > 0 ? *offset - moved : STK_AT_POSITION;
}

#define SEND_FILE(name)                                                                            \
    WRAP(ssize_t, name, (int to, int from, off64_t *offset, size_t n))                             \
    {                                                                                              \
        REAL(ssize_t, name, (int, int, off64_t *, size_t));                                        \
        struct stk_pl_call call;                                                                   \
        if (!stk_pl_begin(&call))                                                                  \
            return real(to, from, offset, n);                                                      \
        ssize_t sent = real(to, from, offset, n);                                                  \
        stk_pl_copied(&call, from, offset_of(offset, sent), to, STK_AT_POSITION, sent);            \
        return sent;                                                                               \
    }
SEND_FILE(sendfile)
SEND_FILE(sendfile64)

#define COPY_RANGE(name)                                                                           \
    WRAP(ssize_t, name,                                                                            \
         (int from, off64_t *from_offset, int to, off64_t *to_offset, size_t n, unsigned flags))   \
    {                                                                                              \
        REAL_OR(ssize_t, name, (int, off64_t *, int, off64_t *, size_t, unsigned), -1);            \
        struct stk_pl_call call;                                                                   \
        if (!stk_pl_begin(&call))                                                                  \
            return real(from, from_offset, to, to_offset, n, flags);                               \
        ssize_t copied = real(from, from_offset, to, to_offset, n, flags);                         \
        stk_pl_copied(&call, from, offset_of(from_offset, copied), to,                             \
                      offset_of(to_offset, copied), copied);                                       \
        return copied;                                                                             \
    }
COPY_RANGE(copy_file_range)
COPY_RANGE(splice)
