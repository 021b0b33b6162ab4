/*
 * file.h - whole transfers, checksums and paths of files. own.h creates files.
 */
#ifndef STK_BASE_FILE_H
#define STK_BASE_FILE_H

#include "base/buf.h"
#include "base/own.h"

/* Reads/writes all n bytes at off despite EINTR and short transfers. pread: *got < n only at
 * EOF. */
int stk_pread_full(int fd, void *p, size_t n, uint64_t off, size_t *got, const char *path,
                   struct stk_err *err);
/* Reads the part of n bytes that is in the page cache. Returns its length, or -1 (the first byte is
 * not there, or this is unknown). */
ssize_t stk_pread_nowait(int fd, void *p, size_t n, uint64_t off);
/* Reads n bytes if all of them are in the page cache. False: they are not, or this is unknown. */
bool stk_pread_cached(int fd, void *p, size_t n, uint64_t off);
int stk_write_full(int fd, const void *p, size_t n, const char *path, struct stk_err *err);
int stk_pwrite_full(int fd, const void *p, size_t n, uint64_t off, const char *path,
                    struct stk_err *err);
/* Reads a whole file into b; refuses more than max bytes, and anything but a regular file. */
int stk_read_file(const char *path, size_t max, struct stk_buf *b, struct stk_err *err);
/* The same for an open regular file. */
int stk_read_fd(int fd, size_t max, struct stk_buf *b, const char *path, struct stk_err *err);
/* The same in an open folder. flags: O_NOFOLLOW or 0. */
int stk_read_file_at(int dirfd, const char *name, int flags, size_t max, struct stk_buf *b,
                     const char *path, struct stk_err *err);
/* XXH64 and size of a whole file. */
int stk_hash_file(const char *path, uint64_t *hash, uint64_t *size, struct stk_err *err);
int stk_hash_file_at(int dirfd, const char *name, int flags, uint64_t *hash, uint64_t *size,
                     const char *path, struct stk_err *err);
/* The same for an open file. */
int stk_hash_fd(int fd, uint64_t *hash, uint64_t *size, const char *path, struct stk_err *err);
/* malloc'ed "a/b"; a == "" or "." gives b. Caller frees with free(). NULL: no memory. */
char *stk_path_join(const char *a, const char *b);
/* The part of a path after its last "/". Borrowed from path. */
const char *stk_base_name(const char *path);
/* $XDG_CACHE_HOME/stoker or ~/.cache/stoker, or /tmp/stoker-UID. make: made private (0700) if
 * missing. malloc'ed. STK_E_EXISTS: it is not ours. */
int stk_cache_dir(bool make, char **out, struct stk_err *err);

#endif
