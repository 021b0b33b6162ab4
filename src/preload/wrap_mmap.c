/*
 * wrap_mmap.c - files mapped into memory: how often and how much; touching them afterwards is not a
 * call. Also hints about future reads. Mappings without a file belong to allocators, which may run
 * before our constructor and inside dlsym(): they go straight through.
 */
#include <fcntl.h>
#include <sys/mman.h>

#include "preload/priv.h"
#include "preload/wrap.h"

/* Where files are mapped, for calls that take an address. A new mapping replaces the oldest:
 * msync() on that is then not counted. */
#define MAPPINGS 256
static STK_TABLE struct mapping {
    uintptr_t from, to; /* from is stored last (atomic); 0: none */
    uint32_t name;
} mappings[MAPPINGS];
static unsigned next_mapping;

/* The descriptor may be closed while the mapping stays: keeps the file's name. */
static void remember(void *at, size_t length, int fd)
{
    const struct stk_pl_desc *d = stk_pl_desc_at(fd);
    if (!d || d->kind != STK_PL_FILE)
        return;
    unsigned slot = __atomic_fetch_add(&next_mapping, 1, __ATOMIC_RELAXED) % MAPPINGS;
    struct mapping *m = &mappings[slot];
    __atomic_store_n(&m->from, 0, __ATOMIC_RELEASE);
    m->to = (uintptr_t)at + length;
    m->name = d->file->id;
    __atomic_store_n(&m->from, (uintptr_t)at, __ATOMIC_RELEASE);
}

/* The newest first: an address is reused after munmap(). */
static uint32_t name_at(const void *address)
{
    uintptr_t at = (uintptr_t)address;
    unsigned newest = __atomic_load_n(&next_mapping, __ATOMIC_RELAXED);
    for (unsigned back = 1; back <= MAPPINGS && back <= newest; back++) {
        const struct mapping *m = &mappings[(newest - back) % MAPPINGS];
        uintptr_t from = __atomic_load_n(&m->from, __ATOMIC_ACQUIRE);
        if (from && at >= from && at < m->to)
            return m->name;
    }
    return 0;
}

typedef void *map_fn(void *, size_t, int, int, int, off_t);
typedef int unmap_fn(void *, size_t);
static map_fn *real_map, *real_map64;
static unmap_fn *real_unmap;

__attribute__((constructor(101))) static void find_real(void)
{
    if (!__atomic_load_n(&real_map, __ATOMIC_RELAXED))
        __atomic_store_n(&real_map, (map_fn *)stk_pl_real("mmap"), __ATOMIC_RELAXED);
    if (!__atomic_load_n(&real_map64, __ATOMIC_RELAXED))
        __atomic_store_n(&real_map64, (map_fn *)stk_pl_real("mmap64"), __ATOMIC_RELAXED);
    if (!__atomic_load_n(&real_unmap, __ATOMIC_RELAXED))
        __atomic_store_n(&real_unmap, (unmap_fn *)stk_pl_real("munmap"), __ATOMIC_RELAXED);
}

/* Before the real function is known: looking it up may need memory, hence this very call. */
static void *map_directly(void *at, size_t length, int protection, int flags, int fd, off_t offset)
{
    long got = stk_sys6(SYS_mmap, (long)at, (long)length, protection, flags, fd, offset);
    if (got < 0 && got >= -4095) {
        errno = (int)-got;
        return MAP_FAILED;
    }
    return (void *)got;
}

static int unmap_directly(void *at, size_t length)
{
    long got = stk_sys2(SYS_munmap, at, length);
    if (got < 0)
        errno = (int)-got;
    return got < 0 ? -1 : 0;
}

static void *map(map_fn **which, void *at, size_t length, int protection, int flags, int fd,
                 off_t offset)
{
    map_fn *real = __atomic_load_n(which, __ATOMIC_RELAXED);
    bool file = fd >= 0 && !(flags & MAP_ANONYMOUS);
    struct stk_pl_call call;
    if (!real)
        return map_directly(at, length, protection, flags, fd, offset);
    if (!file || !stk_pl_begin(&call))
        return real(at, length, protection, flags, fd, offset);
    void *got = real(at, length, protection, flags, fd, offset);
    stk_pl_mapped(&call, fd, length, got != MAP_FAILED);
    if (got != MAP_FAILED)
        remember(got, length, fd);
    return got;
}

WRAP(void *, mmap, (void *at, size_t length, int protection, int flags, int fd, off_t offset))
{
    return map(&real_map, at, length, protection, flags, fd, offset);
}

WRAP(void *, mmap64, (void *at, size_t length, int protection, int flags, int fd, off_t offset))
{
    return map(&real_map64, at, length, protection, flags, fd, offset);
}

/* One mapping may be unmapped in parts, or several at once: counts calls for the first file in the
 * range. */
static void forget(uintptr_t from, uintptr_t to)
{
    unsigned newest = __atomic_load_n(&next_mapping, __ATOMIC_RELAXED);
    for (unsigned back = 1; back <= MAPPINGS && back <= newest; back++) {
        struct mapping *m = &mappings[(newest - back) % MAPPINGS];
        uintptr_t start = __atomic_load_n(&m->from, __ATOMIC_ACQUIRE);
        if (start >= from && m->to <= to)
            __atomic_compare_exchange_n(&m->from, &start, 0, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_RELAXED);
    }
}

static int named(struct stk_pl_call *call, uint32_t name, enum stk_counter what, int rc)
{
    stk_pl_named_meta(call, name, what, rc == 0, STK_API_POSIX);
    return rc;
}

/* An allocator's, before our constructor and inside dlsym(): as for mmap(). */
WRAP(int, munmap, (void *at, size_t length))
{
    unmap_fn *real = __atomic_load_n(&real_unmap, __ATOMIC_RELAXED);
    uint32_t name = real && __atomic_load_n(&next_mapping, __ATOMIC_RELAXED) ? name_at(at) : 0;
    struct stk_pl_call call;
    if (!real)
        return unmap_directly(at, length);
    if (!name || !stk_pl_begin(&call))
        return real(at, length);
    /* First: another thread may get the addresses at once. */
    forget((uintptr_t)at, (uintptr_t)at + length);
    return named(&call, name, STK_C_MUNMAPS, real(at, length));
}

WRAP(int, msync, (void *at, size_t length, int flags))
{
    REAL(int, msync, (void *, size_t, int));
    uint32_t name = name_at(at);
    struct stk_pl_call call;
    if (!name || !stk_pl_begin(&call))
        return real(at, length, flags);
    return named(&call, name, STK_C_MSYNCS, real(at, length, flags));
}

/* Advice about reading a file; allocators give other advice, and often. */
static bool about_reading(int advice)
{
    return advice == MADV_WILLNEED || advice == MADV_SEQUENTIAL || advice == MADV_RANDOM ||
           advice == 22 /* MADV_POPULATE_READ, Linux 5.14 */;
}

WRAP(int, madvise, (void *at, size_t length, int advice))
{
    REAL(int, madvise, (void *, size_t, int));
    uint32_t name = about_reading(advice) ? name_at(at) : 0;
    struct stk_pl_call call;
    if (!name || !stk_pl_begin(&call))
        return real(at, length, advice);
    return named(&call, name, STK_C_HINTS, real(at, length, advice));
}

WRAP(int, posix_madvise, (void *at, size_t length, int advice))
{
    REAL(int, posix_madvise, (void *, size_t, int));
    uint32_t name = about_reading(advice) ? name_at(at) : 0;
    struct stk_pl_call call;
    if (!name || !stk_pl_begin(&call))
        return real(at, length, advice);
    return named(&call, name, STK_C_HINTS, real(at, length, advice));
}

#define HINT_FD(type, name, args, values)                                                          \
    WRAP(type, name, args)                                                                         \
    {                                                                                              \
        REAL(type, name, args);                                                                    \
        struct stk_pl_call call;                                                                   \
        if (!stk_pl_begin(&call))                                                                  \
            return real values;                                                                    \
        type rc = real values;                                                                     \
        stk_pl_meta_fd(&call, fd, STK_C_HINTS, rc == 0, STK_API_POSIX);                            \
        return rc;                                                                                 \
    }
HINT_FD(int, posix_fadvise, (int fd, off_t offset, off_t length, int advice),
        (fd, offset, length, advice))
HINT_FD(int, posix_fadvise64, (int fd, off64_t offset, off64_t length, int advice),
        (fd, offset, length, advice))
HINT_FD(ssize_t, readahead, (int fd, off64_t offset, size_t length), (fd, offset, length))
