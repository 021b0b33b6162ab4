/*
 * log.c - the log file: created, grown by whole blocks that are allocated on disk before they are
 * mapped, and left behind. No descriptor stays open: a program that closes all it finds (daemons,
 * subprocess) cannot close ours, nor write to it by a number that it believes its own.
 *
 * Of a block, first only the beginning is allocated, the rest on demand. Block 0 is in a slot of a
 * shared file (slots.c) as long as the process needs no other: a script starts thousands of
 * programs, and each has a log.
 */
#include "preload/priv.h"

#include <errno.h>
#include <linux/stat.h>
#include <sys/mman.h>
#include <sys/resource.h>

#define COOL_BLOCKS  16u    /* a log up to this size stays in memory; 1 MiB */
#define FIRST_BLOCKS 3u     /* beyond the small ones */
#define FIRST_BYTES  16384u /* of every block; enough for the time line */
#define MOST_BLOCKS  64u    /* maximum growth of the file at once; 4 MiB */
#define TRACE_BLOCKS 256u   /* with every operation; 16 MiB */
#define CHUNKS       8192u
#define NAME_BLOCKS  1024u
#define LOGS_OF_PID  10000u
#define FULL_NS      1000000000u /* disk full: try again after a second */
#define FIRST_MEMORY (768u << 10)

STK_EXPORT extern const char stoker_preload_writes[];
const char stoker_preload_writes[] = STK_LOG_WRITES;

struct stk_pl_lock stk_pl_log_lock;

static STK_TABLE struct chunk {
    char *at;
    uint32_t blocks, first;     /* how many, and the index of the first in the file */
    uint32_t room;              /* as in struct stk_log_block */
} chunk[CHUNKS];                /* the mappings; the last may have free blocks */
static uint32_t nchunks, given; /* blocks of the last chunk in use */
static uint32_t total;          /* blocks of the file */
static uint32_t small_used;     /* bits: the small blocks of block 0 in use */
static bool in_slot;            /* block 0 is in a slot; there is no file */
static uint64_t full_until_ns;  /* on the monotonic clock */
static uint64_t file_dev, file_ino;
static STK_TABLE const struct stk_log_block *name_block[NAME_BLOCKS];
static uint32_t name_blocks;
static char path_room[PATH_MAX]; /* guarded by the log's lock, or by life.c's if there is no log:
                                    threads may have small stacks */

_Static_assert(offsetof(struct stk_log_header, pid_space) ==
                   offsetof(struct stk_log_header, end) + sizeof(uint32_t),
               "executed_us() reads both at once");
_Static_assert(sizeof(struct stk_log_thread) + sizeof(struct stk_log_block) <= FIRST_BYTES,
               "a thread's time line fits");

static char *map_memory(size_t bytes)
{
    long at = stk_sys6(SYS_mmap, 0, (long)bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return at < 0 && at > -4096 ? NULL : (char *)at;
}

void *stk_pl_memory(size_t bytes)
{
    static char *first;  /* what a short process needs, in one mapping */
    static size_t taken; /* atomic */
    bytes = (bytes + 4095) & ~(size_t)4095;
    if (!taken) { /* a process begins with one thread */
        taken = 1;
        first = map_memory(FIRST_MEMORY);
    }
    if (!first || bytes > FIRST_MEMORY)
        return map_memory(bytes);
    size_t at = __atomic_fetch_add(&taken, bytes, __ATOMIC_RELAXED) - 1;
    return at + bytes <= FIRST_MEMORY ? first + at : map_memory(bytes);
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

/* Path of a log in the folder; NULL: too long. */
static const char *path_of(const char *name)
{
    size_t d = strlen(stk_pl.dir), n = strlen(name);
    if (d + n + 2 > sizeof path_room)
        return NULL;
    memcpy(path_room, stk_pl.dir, d);
    path_room[d] = '/';
    memcpy(path_room + d + 1, name, n + 1);
    return path_room;
}

long stk_pl_log_open(const char *name, int flags)
{
    const char *path = path_of(name);
    if (!path)
        return -ENAMETOOLONG;
    return stk_sys4(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC | O_NOFOLLOW, stk_pl.log_mode);
}

/* Opens this process's log, if it is still the same file. */
static long open_own(void)
{
    uint64_t dev, ino;
    long fd = stk_pl_log_open(stk_pl.name, O_RDWR);
    if (fd < 0 || (identity(fd, &dev, &ino) && dev == file_dev && ino == file_ino))
        return fd;
    stk_sys1(SYS_close, fd);
    return -ESTALE;
}

/* Writes zeros if the file system cannot allocate (NFS 3, some FUSE file systems). */
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

bool stk_pl_log_within_limit(uint64_t bytes)
{
    struct rlimit limit;
    if (stk_sys4(SYS_prlimit64, 0, RLIMIT_FSIZE, 0, &limit) < 0)
        return true;
    return limit.rlim_cur == RLIM_INFINITY || bytes <= limit.rlim_cur;
}

static long allocate(long fd, uint64_t from, uint64_t bytes)
{
    long rc = stk_sys4(SYS_fallocate, fd, 0, from, bytes);
    if (rc == -EOPNOTSUPP || rc == -ENOSYS || rc == -EINVAL)
        rc = write_zeros(fd, from, bytes);
    return rc;
}

/* Adds and maps n blocks, with `room` bytes of each allocated; the lock is held (or there is no
 * other thread). */
static int extend(long fd, uint32_t n, uint32_t room)
{
    uint64_t from = (uint64_t)total * STK_LOG_BLOCK, bytes = (uint64_t)n * STK_LOG_BLOCK;
    if (nchunks == CHUNKS || !stk_pl_log_within_limit(from + bytes))
        return -EFBIG;
    long rc = 0;
    if (room == STK_LOG_BLOCK)
        rc = allocate(fd, from, bytes);
    for (uint32_t i = 0; i < n && !rc && room < STK_LOG_BLOCK; i++)
        rc = allocate(fd, from + (uint64_t)i * STK_LOG_BLOCK, room);
    if (!rc && room < STK_LOG_BLOCK)
        rc = stk_sys2(SYS_ftruncate, fd, from + bytes);
    if (rc < 0)
        return (int)rc;
    long at =
        stk_sys6(SYS_mmap, 0, (long)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (long)from);
    if (at < 0 && at > -4096)
        return (int)at;
    stk_sys3(SYS_madvise, at, bytes, MADV_DONTDUMP);
    chunk[nchunks] = (struct chunk){(char *)at, n, total, room < STK_LOG_BLOCK ? room : 0};
    nchunks++;
    given = 0;
    total += n;
    return 0;
}

static void remove_own(void)
{
    if (path_of(stk_pl.name))
        stk_sys3(SYS_unlinkat, AT_FDCWD, path_room, 0);
}

static long fill_own(long fd)
{
    if (!identity(fd, &file_dev, &file_ino))
        return -ESTALE;
    if (!stk_pl_log_within_limit(STK_LOG_BLOCK))
        return -EFBIG;
    long rc = allocate(fd, 0, STK_LOG_FIRST);
    rc = rc < 0 ? rc : stk_sys2(SYS_ftruncate, fd, STK_LOG_BLOCK);
    return rc < 0 ? rc : stk_pl_slot_leave(stk_pl.log, fd);
}

/* Gives a log in a slot its own file. */
static long move_out(void)
{
    long fd = stk_pl_log_open(stk_pl.name, O_RDWR | O_CREAT | O_EXCL);
    if (fd < 0)
        return fd;
    long rc = fill_own(fd);
    if (rc < 0)
        remove_own();
    stk_sys1(SYS_close, fd);
    in_slot = rc < 0;
    return rc;
}

static int grow(void)
{
    uint64_t now = stk_pl_clock_mono();
    if (now < full_until_ns)
        return -ENOSPC;
    long fd = in_slot ? move_out() : 0;
    fd = fd < 0 ? fd : open_own();
    if (fd < 0) {
        full_until_ns = now + FULL_NS;
        return (int)fd;
    }
    uint32_t most = stk_pl.trace ? TRACE_BLOCKS : MOST_BLOCKS;
    uint32_t n = total < FIRST_BLOCKS ? FIRST_BLOCKS : total < most ? total : most;
    uint32_t room = stk_pl.trace ? STK_LOG_BLOCK : FIRST_BYTES;
    int rc = extend(fd, n, room);
    if (rc < 0)
        rc = extend(fd, 1, room);
    stk_sys1(SYS_close, fd);
    if (rc < 0)
        full_until_ns = now + FULL_NS;
    return rc;
}

/* The chunk that contains a block. */
static const struct chunk *chunk_of(const void *block)
{
    for (uint32_t i = nchunks; i > 0; i--) {
        const struct chunk *c = &chunk[i - 1];
        if ((const char *)block >= c->at &&
            (const char *)block < c->at + (size_t)c->blocks * STK_LOG_BLOCK)
            return c;
    }
    return NULL;
}

/* Part of block 0. */
static bool is_small(const struct stk_log_block *b)
{
    const char *at = (const char *)b;
    return nchunks && at >= chunk[0].at && at < chunk[0].at + STK_LOG_FIRST;
}

bool stk_pl_log_widen(struct stk_log_block *b)
{
    if (!b->room || is_small(b))
        return false;
    stk_pl_lock(&stk_pl_log_lock);
    const struct chunk *c = chunk_of(b);
    uint64_t now = stk_pl_clock_mono();
    long fd = c && now >= full_until_ns ? open_own() : -1;
    if (fd >= 0) {
        uint64_t at = (uint64_t)c->first * STK_LOG_BLOCK + (uint64_t)((char *)b - c->at);
        if (allocate(fd, at + b->room, STK_LOG_BLOCK - b->room) >= 0)
            b->room = 0;
        else
            full_until_ns = now + FULL_NS;
        stk_sys1(SYS_close, fd);
    }
    stk_pl_unlock(&stk_pl_log_lock);
    return !b->room;
}

/* The small block of this kind; NULL: it is in use, or there is none. */
static struct stk_log_block *small_block(enum stk_log_kind kind)
{
    for (uint32_t i = 0; nchunks && i < STK_LOG_SMALL; i++) {
        struct stk_log_small small = stk_log_small(i);
        if (small.kind != kind || small_used & 1u << i)
            continue;
        small_used |= 1u << i;
        struct stk_log_block *b = (struct stk_log_block *)(chunk[0].at + small.at);
        b->room = small.bytes;
        return b;
    }
    return NULL;
}

static struct stk_log_block *large_block(enum stk_log_kind kind)
{
    bool room = nchunks && (kind != STK_BLK_NAMES || name_blocks < NAME_BLOCKS);
    if (!room || (given == chunk[nchunks - 1].blocks && grow() != 0))
        return NULL;
    const struct chunk *c = &chunk[nchunks - 1];
    struct stk_log_block *b = (struct stk_log_block *)(c->at + (size_t)given * STK_LOG_BLOCK);
    b->room = c->room;
    given++;
    __atomic_store_n(&stk_pl.log->nblocks, stk_pl.log->nblocks + 1, __ATOMIC_RELEASE);
    if (kind == STK_BLK_NAMES)
        name_block[name_blocks++] = b;
    return b;
}

struct stk_log_block *stk_pl_log_block(enum stk_log_kind kind, uint32_t slot)
{
    stk_pl_lock(&stk_pl_log_lock);
    struct stk_log_block *b = small_block(kind);
    b = b ? b : large_block(kind);
    if (b) {
        b->kind = kind;
        b->slot = slot;
    }
    stk_pl_unlock(&stk_pl_log_lock);
    return b;
}

void stk_pl_log_ahead(void)
{
    stk_pl_enter();
    stk_pl_lock(&stk_pl_log_lock);
    if (nchunks && given == chunk[nchunks - 1].blocks)
        (void)grow();
    stk_pl_unlock(&stk_pl_log_lock);
    stk_pl_leave();
}

void stk_pl_log_cold(struct stk_log_block *b)
{
    if (!is_small(b))
        stk_sys3(SYS_madvise, b, STK_LOG_BLOCK, MADV_DONTNEED); /* shared: the file keeps it */
}

/* Keeps only recently written parts of a large log in memory. */
void stk_pl_log_cool(void)
{
    stk_pl_lock(&stk_pl_log_lock);
    for (uint32_t i = 1; total > COOL_BLOCKS && i < nchunks; i++)
        stk_sys3(SYS_madvise, chunk[i].at, (size_t)chunk[i].blocks * STK_LOG_BLOCK, MADV_DONTNEED);
    stk_pl_unlock(&stk_pl_log_lock);
}

bool stk_pl_log_name(uint64_t n)
{
    char digits[32], *to = stk_pl.name;
    size_t at = strlen(stk_pl.host), k;
    if (at + 64 > sizeof stk_pl.name)
        return false;
    memcpy(to, stk_pl.host, at);
    const uint64_t number[2] = {(uint64_t)stk_sys0(SYS_getpid), n};
    for (int i = 0; i < 2; i++) {
        uint64_t v = number[i];
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

bool stk_pl_log_executed_us(const char *name)
{
    uint64_t magic = 0;
    uint32_t end[2] = {STK_END_NONE, 0}; /* and pid_space */
    long fd = stk_pl_log_open(name, O_RDONLY);
    if (fd < 0)
        return false;
    bool whole = stk_sys4(SYS_pread64, fd, &magic, sizeof magic,
                          offsetof(struct stk_log_header, magic)) == (long)sizeof magic &&
                 stk_sys4(SYS_pread64, fd, end, sizeof end, offsetof(struct stk_log_header, end)) ==
                     (long)sizeof end;
    stk_sys1(SYS_close, fd);
    stk_pl_sum(&stk_pl.own_read_bytes, sizeof magic + sizeof end);
    return whole && magic == STK_LOG_MAGIC && end[0] == STK_END_EXEC &&
           end[1] == stk_pl_pid_space();
}

/* Creates a new file; its name is in stk_pl.name, the previous one in `before`. */
static long create(char *before, size_t room)
{
    long fd = -EEXIST;
    before[0] = 0;
    for (uint32_t n = 0; n < LOGS_OF_PID && fd == -EEXIST; n++) {
        if (n)
            memcpy(before, stk_pl.name, room);
        if (!stk_pl_log_name(n))
            return -ENAMETOOLONG;
        fd = stk_pl_log_open(stk_pl.name, O_RDWR | O_CREAT | O_EXCL);
    }
    return fd;
}

/* Block 0 in a file of its own; NULL: none. */
static struct stk_log_header *begin_file(char *before, size_t room, int *rc)
{
    long fd = create(before, room);
    *rc = fd < 0 ? (int)fd : identity(fd, &file_dev, &file_ino) ? 0 : -ESTALE;
    if (fd < 0)
        return NULL;
    if (!*rc)
        *rc = extend(fd, 1, STK_LOG_FIRST);
    stk_sys1(SYS_close, fd);
    if (*rc < 0)
        remove_own();
    else if (before[0] && !stk_pl_log_executed_us(before))
        before[0] = 0;
    return *rc < 0 ? NULL : (struct stk_log_header *)chunk[0].at;
}

int stk_pl_log_create(enum stk_log_born born)
{
    char parent[sizeof stk_pl.name], before[sizeof stk_pl.name] = "";
    int rc = 0;
    memcpy(parent, stk_pl.name, sizeof parent);
    total = nchunks = small_used = 0;
    full_until_ns = 0;
    struct stk_log_header *h = stk_pl.trace ? NULL : stk_pl_slot_take(before, sizeof before);
    in_slot = h != NULL;
    if (in_slot) {
        chunk[0] = (struct chunk){(char *)h, 1, 0, STK_LOG_FIRST};
        total = nchunks = 1;
    } else if (!(h = begin_file(before, sizeof before, &rc))) {
        return rc;
    }
    given = 1;
    if (born == STK_BORN_START && before[0]) {
        born = STK_BORN_EXEC;
        memcpy(parent, before, sizeof parent);
    }
    if (born != STK_BORN_START)
        memcpy(h->parent, parent, strnlen(parent, sizeof h->parent - 1));
    stk_pl_header_fill(h, born);
    stk_pl.log = h;
    return 0;
}

/* Unmaps everything between blocks of names, which stay, since our names are in them. */
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
    for (uint32_t i = 1; i < nchunks && !in_use; i++) /* block 0 has names, too */
        unmap_but_names(chunk[i].at, chunk[i].at + (size_t)chunk[i].blocks * STK_LOG_BLOCK);
    nchunks = 0;
    total = 0;
    if (!in_use)
        stk_pl.log = NULL;
}
