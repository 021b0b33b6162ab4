/*
 * log.c - the log file: made, grown by whole blocks that are allocated on disk before they are
 * mapped, and left behind. No descriptor stays open: a program that closes all it finds (daemons,
 * subprocess) cannot close ours, nor write to it by a number it believes its own.
 */
#include "preload/priv.h"

#include <errno.h>
#include <linux/stat.h>
#include <sys/mman.h>
#include <sys/resource.h>

#define COOL_BLOCKS  16u  /* a log may be in memory whole; 1 MiB */
#define FIRST_BLOCKS 4u   /* header, names, time line, records of one thread */
#define MOST_BLOCKS  64u  /* that the file grows by at once; 4 MiB */
#define TRACE_BLOCKS 256u /* with every operation; 16 MiB */
#define CHUNKS       8192u
#define NAME_BLOCKS  1024u
#define LOGS_OF_PID  10000u
#define FULL_NS      1000000000u /* disk full: ask again after a second */

struct stk_pl_lock stk_pl_log_lock;

static struct {
    char *at;
    uint32_t blocks;
} chunk[CHUNKS];                /* what is mapped; the last may have free blocks */
static uint32_t nchunks, given; /* blocks of the last chunk in use */
static uint32_t total;          /* blocks of the file */
static uint64_t full_until_ns;  /* on the monotonic clock */
static uint64_t file_dev, file_ino;
static const struct stk_log_block *name_block[NAME_BLOCKS];
static uint32_t name_blocks;

void *stk_pl_memory(size_t bytes)
{
    long at = stk_sys6(SYS_mmap, 0, (long)bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return at < 0 && at > -4096 ? NULL : (void *)at;
}

static bool identity(long fd, uint64_t *dev, uint64_t *ino)
{
    struct statx s;
    if (stk_sys5(SYS_statx, fd, "", AT_EMPTY_PATH, STATX_INO, &s) < 0)
        return false;
    *dev = (uint64_t)s.stx_dev_major << 32 | s.stx_dev_minor;
    *ino = s.stx_ino;
    return true;
}

/* Path of a log in the folder. */
static bool path_of(char *to, size_t room, const char *name)
{
    size_t d = strlen(stk_pl.dir), n = strlen(name);
    if (d + n + 2 > room)
        return false;
    memcpy(to, stk_pl.dir, d);
    to[d] = '/';
    memcpy(to + d + 1, name, n + 1);
    return true;
}

/* Where the file system cannot allocate (NFS 3, some FUSE ones), zeros are written. */
static long write_zeros(long fd, uint64_t from, uint64_t bytes)
{
    static const char zeros[4096];
    for (uint64_t done = 0; done < bytes;) {
        long n = stk_sys4(SYS_pwrite64, fd, zeros, sizeof zeros, from + done);
        if (n != (long)sizeof zeros)
            return n < 0 ? n : -ENOSPC;
        done += (uint64_t)n;
        stk_pl_sum(&stk_pl.own_write_bytes, (uint64_t)n);
    }
    return 0;
}

/* A file beyond the user's limit would not fail but kill (SIGXFSZ). */
static bool within_limit(uint64_t bytes)
{
    struct rlimit limit;
    if (stk_sys4(SYS_prlimit64, 0, RLIMIT_FSIZE, 0, &limit) < 0)
        return true;
    return limit.rlim_cur == RLIM_INFINITY || bytes <= limit.rlim_cur;
}

/* Adds and maps n blocks; the lock is held (or nobody else is there). */
static int extend(long fd, uint32_t n)
{
    uint64_t from = (uint64_t)total * STK_LOG_BLOCK, bytes = (uint64_t)n * STK_LOG_BLOCK;
    if (nchunks == CHUNKS || !within_limit(from + bytes))
        return -EFBIG;
    long rc = stk_sys4(SYS_fallocate, fd, 0, from, bytes);
    if (rc == -EOPNOTSUPP || rc == -ENOSYS || rc == -EINVAL)
        rc = write_zeros(fd, from, bytes);
    if (rc < 0)
        return (int)rc;
    long at =
        stk_sys6(SYS_mmap, 0, (long)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (long)from);
    if (at < 0 && at > -4096)
        return (int)at;
    stk_sys3(SYS_madvise, at, bytes, MADV_DONTDUMP);
    chunk[nchunks].at = (char *)at;
    chunk[nchunks++].blocks = n;
    given = 0;
    total += n;
    return 0;
}

static int grow(void)
{
    char path[PATH_MAX];
    uint64_t dev, ino, now = stk_pl_clock_mono();
    if (now < full_until_ns || !path_of(path, sizeof path, stk_pl.name))
        return -ENOSPC;
    long fd = stk_sys4(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0);
    if (fd < 0) {
        full_until_ns = now + FULL_NS;
        return (int)fd;
    }
    int rc = -ESTALE;
    if (identity(fd, &dev, &ino) && dev == file_dev && ino == file_ino) {
        uint32_t most = stk_pl.trace ? TRACE_BLOCKS : MOST_BLOCKS;
        uint32_t n = total < most ? total : most;
        rc = extend(fd, n);
        if (rc < 0 && n > 1)
            rc = extend(fd, 1);
    }
    stk_sys1(SYS_close, fd);
    if (rc < 0)
        full_until_ns = now + FULL_NS;
    return rc;
}

struct stk_log_block *stk_pl_log_block(enum stk_log_kind kind, uint32_t slot)
{
    struct stk_log_block *b = NULL;
    stk_pl_lock(&stk_pl_log_lock);
    bool room = nchunks && (kind != STK_BLK_NAMES || name_blocks < NAME_BLOCKS);
    if (room && (given < chunk[nchunks - 1].blocks || grow() == 0)) {
        b = (struct stk_log_block *)(chunk[nchunks - 1].at + (size_t)given * STK_LOG_BLOCK);
        b->kind = kind;
        b->slot = slot;
        given++;
        __atomic_store_n(&stk_pl.log->nblocks, stk_pl.log->nblocks + 1, __ATOMIC_RELEASE);
        if (kind == STK_BLK_NAMES)
            name_block[name_blocks++] = b;
    }
    stk_pl_unlock(&stk_pl_log_lock);
    return b;
}

void stk_pl_log_cold(struct stk_log_block *b)
{
    stk_sys3(SYS_madvise, b, STK_LOG_BLOCK, MADV_DONTNEED); /* shared: the file keeps it */
}

/* Of a log that has grown, only what was written lately stays in memory. */
void stk_pl_log_cool(void)
{
    stk_pl_lock(&stk_pl_log_lock);
    for (uint32_t i = 0; total > COOL_BLOCKS && i < nchunks; i++)
        stk_sys3(SYS_madvise, chunk[i].at, (size_t)chunk[i].blocks * STK_LOG_BLOCK, MADV_DONTNEED);
    stk_pl_unlock(&stk_pl_log_lock);
}

/* HOST.PID.N.stklog; false: too long. */
static bool name_of(char *to, size_t room, uint32_t n)
{
    char digits[32];
    size_t at = strlen(stk_pl.host), k;
    if (at + 64 > room)
        return false;
    memcpy(to, stk_pl.host, at);
    const uint32_t number[2] = {(uint32_t)stk_sys0(SYS_getpid), n};
    for (int i = 0; i < 2; i++) {
        uint32_t v = number[i];
        k = sizeof digits;
        do
            digits[--k] = (char)('0' + v % 10);
        while (v /= 10);
        to[at++] = '.';
        memcpy(to + at, digits + k, sizeof digits - k);
        at += sizeof digits - k;
    }
    memcpy(to + at, STK_LOG_SUFFIX, sizeof STK_LOG_SUFFIX);
    return true;
}

/* The process whose log is `name` has this number and said that it executes another program: it is
 * this one. */
static bool executed_us(const char *name)
{
    char path[PATH_MAX];
    struct stk_log_header h; /* 8 KiB, once, before the program's own code runs */
    if (!path_of(path, sizeof path, name))
        return false;
    long fd = stk_sys4(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW, 0);
    if (fd < 0)
        return false;
    long n = stk_sys4(SYS_pread64, fd, &h, sizeof h, 0);
    stk_sys1(SYS_close, fd);
    return n == (long)sizeof h && h.magic == STK_LOG_MAGIC && h.end == STK_END_EXEC;
}

/* Opens a file that was not there; its name is in stk_pl.name, the one before in `before`. */
static long create(char *before, size_t room)
{
    char path[PATH_MAX];
    long fd = -EEXIST;
    before[0] = 0;
    for (uint32_t n = 0; n < LOGS_OF_PID && fd == -EEXIST; n++) {
        if (n)
            memcpy(before, stk_pl.name, room);
        if (!name_of(stk_pl.name, sizeof stk_pl.name, n) ||
            !path_of(path, sizeof path, stk_pl.name))
            return -ENAMETOOLONG;
        fd = stk_sys4(SYS_openat, AT_FDCWD, path,
                      O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    }
    return fd;
}

int stk_pl_log_create(enum stk_log_born born)
{
    char parent[sizeof stk_pl.name], before[sizeof stk_pl.name];
    memcpy(parent, stk_pl.name, sizeof parent);
    long fd = create(before, sizeof before);
    if (fd < 0)
        return (int)fd;
    int rc = identity(fd, &file_dev, &file_ino) ? 0 : -ESTALE;
    total = nchunks = 0;
    full_until_ns = 0;
    if (!rc)
        rc = extend(fd, FIRST_BLOCKS);
    stk_sys1(SYS_close, fd);
    if (rc < 0) {
        char path[PATH_MAX];
        if (path_of(path, sizeof path, stk_pl.name))
            stk_sys3(SYS_unlinkat, AT_FDCWD, path, 0);
        return rc;
    }
    if (born == STK_BORN_START && before[0] && executed_us(before)) {
        born = STK_BORN_EXEC;
        memcpy(parent, before, sizeof parent);
    }
    struct stk_log_header *h = (struct stk_log_header *)chunk[0].at;
    given = 1;
    if (born != STK_BORN_START)
        memcpy(h->parent, parent, strnlen(parent, sizeof h->parent - 1));
    stk_pl_header_fill(h, born);
    stk_pl.log = h;
    return 0;
}

/* What lies between blocks of names goes; these stay, since our names lie there. */
static void unmap_but_names(char *from, char *end)
{
    for (char *at = from; at < end; at += STK_LOG_BLOCK) {
        bool names = false;
        for (uint32_t i = 0; i < name_blocks && !names; i++)
            names = name_block[i] == (struct stk_log_block *)at;
        if (!names)
            continue;
        if (at > from)
            stk_sys2(SYS_munmap, from, at - from);
        from = at + STK_LOG_BLOCK;
    }
    if (from < end)
        stk_sys2(SYS_munmap, from, end - from);
}

void stk_pl_log_leave(bool in_use)
{
    for (uint32_t i = 0; i < nchunks && !in_use; i++)
        unmap_but_names(chunk[i].at, chunk[i].at + (size_t)chunk[i].blocks * STK_LOG_BLOCK);
    nchunks = 0;
    total = 0;
    if (!in_use)
        stk_pl.log = NULL;
}
