/*
 * wrap_posix.c - reads and writes through descriptors, seeks and syncs, under all names that the C
 * library has for them: with 64-bit offsets, and fortified.
 */
#include <sys/uio.h>

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
