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

bool stk_pread_cached(int fd, void *p, size_t n, uint64_t off)
{
    struct iovec io = {.iov_base = p, .iov_len = n};
    return preadv2(fd, &io, 1, (off_t)off, RWF_NOWAIT) == (ssize_t)n;
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

int stk_read_file(const char *path, size_t max, struct stk_buf *b, struct stk_err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat sb;
    if (fd < 0 || fstat(fd, &sb) < 0) {
        int rc = stk_err_sys(err, path, "open");
        if (fd >= 0)
            close(fd);
        return rc;
    }
    int rc = 0;
    size_t got = 0;
    if (!S_ISREG(sb.st_mode))
        rc = stk_err_set(err, STK_E_UNSUPPORTED, path, -1, "not a regular file");
    else if ((uint64_t)sb.st_size > max)
        rc = stk_err_set(err, STK_E_CORRUPT, path, -1, "%lld bytes are more than expected here",
                         (long long)sb.st_size);
    stk_buf_reset(b);
    if (rc == 0 && !stk_buf_room(b, (size_t)sb.st_size + 1))
        rc = stk_err_nomem(err, (uint64_t)sb.st_size);
    if (rc == 0)
        rc = stk_pread_full(fd, b->data, (size_t)sb.st_size, 0, &got, path, err);
    b->len = rc == 0 ? got : 0;
    close(fd);
    return rc;
}

const char *stk_base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

#define HASH_CHUNK (1u << 20)

int stk_hash_file(const char *path, uint64_t *hash, uint64_t *size, struct stk_err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    uint8_t *buf = malloc(HASH_CHUNK);
    struct stk_hash h;
    stk_hash_init(&h);
    int rc = fd < 0 ? stk_err_sys(err, path, "open") : buf ? 0 : stk_err_nomem(err, HASH_CHUNK);
    size_t got = 1;
    for (*size = 0; rc == 0 && got; *size += got) {
        rc = stk_pread_full(fd, buf, HASH_CHUNK, *size, &got, path, err);
        if (rc == 0)
            stk_hash_update(&h, buf, got);
    }
    *hash = stk_hash_final(&h);
    free(buf);
    if (fd >= 0)
        close(fd);
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

int stk_cache_dir(char **out, struct stk_err *err)
{
    const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char *dir = NULL;
    int n = xdg && xdg[0] == '/'     ? asprintf(&dir, "%s/stoker", xdg)
            : home && home[0] == '/' ? asprintf(&dir, "%s/.cache/stoker", home)
                                     : asprintf(&dir, "/tmp/stoker-%ld", (long)getuid());
    if (n < 0)
        return stk_err_nomem(err, 64);
    struct stat sb;
    int rc = 0;
    if (stat(dir, &sb) < 0) {
        rc = stk_mkdirs(dir, err);
        if (rc == 0)
            (void)chmod(dir, 0700);
    }
    /* In a shared place the folder must be ours, or somebody else feeds us indexes. */
    if (rc == 0 && (stat(dir, &sb) < 0 || sb.st_uid != geteuid()))
        rc = stk_err_set(err, STK_E_SYS, dir, -1, "the cache folder is not this user's");
    if (rc < 0)
        free(dir);
    else
        *out = dir;
    return rc;
}
