/*
 * wrap_copy.c - bytes that the kernel copies from one descriptor to another: a read of one file and
 * a write of the other.
 */
#include <fcntl.h>
#include <sys/sendfile.h>
#include <unistd.h>

#include "preload/wrap.h"

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
