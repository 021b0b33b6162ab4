/* file.c - whole transfers, checksums, paths and the cache folder. */
#include "base/file.h"
#include "base/hash.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

int stk_pread_full(int fd, void *p, size_t n, uint64_t off, size_t *got, const char *path,
                   struct stk_err *err)
{
    size_t done = 0;
    while (done < n) {
        ssize_t k = pread(fd, (uint8_t *)p + done, n - done, (off_t)(off + done));
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0) {
            int rc = stk_err_sys(err, path, "read");
            if (err)
                err->offset = (int64_t)(off + done);
            return rc;
        }
        if (k == 0)
            break;
        done += (size_t)k;
    }
    *got = done;
    return 0;
}

ssize_t stk_pread_nowait(int fd, void *p, size_t n, uint64_t off)
{
    struct iovec io = {.iov_base = p, .iov_len = n};
    return preadv2(fd, &io, 1, (off_t)off, RWF_NOWAIT);
}

bool stk_pread_cached(int fd, void *p, size_t n, uint64_t off)
{
    return stk_pread_nowait(fd, p, n, off) == (ssize_t)n;
}

int stk_write_full(int fd, const void *p, size_t n, const char *path, struct stk_err *err)
{
    size_t done = 0;
    while (done < n) {
        ssize_t k = write(fd, (const uint8_t *)p + done, n - done);
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            return stk_err_sys(err, path, "write");
        done += (size_t)k;
    }
    return 0;
}

int stk_pwrite_full(int fd, const void *p, size_t n, uint64_t off, const char *path,
                    struct stk_err *err)
{
    for (size_t done = 0; done < n;) {
        ssize_t k = pwrite(fd, (const uint8_t *)p + done, n - done, (off_t)(off + done));
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            return stk_err_sys(err, path, "write");
        done += (size_t)k;
    }
    return 0;
}

int stk_read_fd(int fd, size_t max, struct stk_buf *b, const char *path, struct stk_err *err)
{
    struct stat sb;
    size_t got = 0;
    stk_buf_reset(b);
    if (fstat(fd, &sb) < 0)
        return stk_err_sys(err, path, "stat");
    if ((uint64_t)sb.st_size > max)
        return stk_err_set(err, STK_E_CORRUPT, path, -1,
                           "the file has %lld bytes, more than "
                           "expected",
                           (long long)sb.st_size);
    if (!stk_buf_room(b, (size_t)sb.st_size + 1))
        return stk_err_nomem(err, (uint64_t)sb.st_size);
    int rc = stk_pread_full(fd, b->data, (size_t)sb.st_size, 0, &got, path, err);
    b->len = rc == 0 ? got : 0;
    return rc;
}

int stk_read_file_at(int dirfd, const char *name, int flags, size_t max, struct stk_buf *b,
                     const char *path, struct stk_err *err)
{
    int fd, rc = stk_read_open(dirfd, name, flags, &fd, NULL, path, err);
    if (rc < 0)
        return rc;
    rc = stk_read_fd(fd, max, b, path, err);
    close(fd);
    return rc;
}

int stk_read_file(const char *path, size_t max, struct stk_buf *b, struct stk_err *err)
{
    return stk_read_file_at(AT_FDCWD, path, 0, max, b, path, err);
}

const char *stk_base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

#define HASH_CHUNK (1u << 20)

int stk_hash_file(const char *path, uint64_t *hash, uint64_t *size, struct stk_err *err)
{
    return stk_hash_file_at(AT_FDCWD, path, 0, hash, size, path, err);
}

int stk_hash_file_at(int dirfd, const char *name, int flags, uint64_t *hash, uint64_t *size,
                     const char *path, struct stk_err *err)
{
    int fd, rc = stk_read_open(dirfd, name, flags, &fd, NULL, path, err);
    *hash = *size = 0;
    if (rc < 0)
        return rc;
    rc = stk_hash_fd(fd, hash, size, path, err);
    close(fd);
    return rc;
}

int stk_hash_fd(int fd, uint64_t *hash, uint64_t *size, const char *path, struct stk_err *err)
{
    uint8_t *buf = malloc(HASH_CHUNK);
    struct stk_hash h;
    stk_hash_init(&h);
    int rc = buf ? 0 : stk_err_nomem(err, HASH_CHUNK);
    size_t got = HASH_CHUNK;
    for (*size = 0; rc == 0 && got == HASH_CHUNK; *size += got) { /* less: end of file */
        rc = stk_pread_full(fd, buf, HASH_CHUNK, *size, &got, path, err);
        if (rc == 0)
            stk_hash_update(&h, buf, got);
    }
    *hash = stk_hash_final(&h);
    free(buf);
    return rc;
}

char *stk_path_join(const char *a, const char *b)
{
    char *out = NULL;
    size_t n = strlen(a);
    if (!n || strcmp(a, ".") == 0)
        return strdup(b);
    return asprintf(&out, "%s%s%s", a, a[n - 1] == '/' ? "" : "/", b) < 0 ? NULL : out;
}

/* Path of the cache folder, malloc'ed; NULL: no memory. */
static char *cache_place(void)
{
    const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char *dir = NULL;
    int n = xdg && xdg[0] == '/'     ? asprintf(&dir, "%s/stoker", xdg)
            : home && home[0] == '/' ? asprintf(&dir, "%s/.cache/stoker", home)
                                     : asprintf(&dir, "/tmp/stoker-%ld", (long)getuid());
    return n < 0 ? NULL : dir;
}

static int make_above(const char *path, struct stk_err *err)
{
    char *dir = strndup(path, (size_t)(stk_base_name(path) - path));
    int rc = dir ? stk_mkdirs(dir, err) : stk_err_nomem(err, strlen(path));
    free(dir);
    return rc;
}

int stk_cache_dir(bool make, char **out, struct stk_err *err)
{
    char *wanted = cache_place(), *dir = NULL;
    int fd = -1, rc = wanted ? stk_own_resolve(wanted, &dir, err) : stk_err_nomem(err, 64);
    free(wanted);
    /* In a shared folder it must be ours, or another user could feed us indexes. */
    const unsigned flags = STK_OWN_MAKE | STK_OWN_PRIVATE;
    struct stat st;
    bool there = rc == 0 && lstat(dir, &st) == 0;
    if (rc == 0 && !there && make)
        rc = make_above(dir, err);
    if (rc == 0 && (there || make))
        rc = stk_own_folder(dir, flags, &fd, err);
    if (fd >= 0)
        close(fd);
    if (rc < 0)
        free(dir);
    else
        *out = dir;
    return rc;
}
