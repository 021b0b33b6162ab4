/*
 * slots.c - block 0 of a log in a slot of a file that all processes of a run on this node share
 * (proflog/slots.h), and its move to a file of its own. To take a slot is an addition in shared
 * memory; no process waits for another, so none can be held up by one that was killed.
 */
#include "proflog/slots.h"

#include "preload/priv.h"

#include <errno.h>
#include <sys/mman.h>

#define CHAIN 8u /* slots of equal process ids, modulo, that are searched */

static char file_name[192]; /* "": none */
static uint64_t launcher;   /* its number: part of the file's name and of our logs' */
static struct stk_slots *top;  /* stays mapped: forked children take a slot, too */

/* "HOST.L.slots.stklog": HOST must be this node, since nodes cannot share memory. */
void stk_pl_slots_start(const char *name)
{
    size_t host = strlen(stk_pl.host), n = name ? strlen(name) : 0;
    if (n <= host + 1 || n >= sizeof file_name || memcmp(name, stk_pl.host, host) != 0 ||
        name[host] != '.')
        return;
    const char *rest = name + host + 1;
    rest += strspn(rest, "0123456789");
    launcher = stk_pl_number(name + host + 1);
    if (launcher && launcher < UINT64_MAX / STK_SLOTS_NUMBERS - 1 &&
        strcmp(rest, STK_SLOTS_SUFFIX) == 0)
        memcpy(file_name, name, n + 1);
}

static void *map_file(long fd, uint64_t from, size_t bytes)
{
    long at =
        stk_sys6(SYS_mmap, 0, (long)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (long)from);
    return at < 0 && at > -4096 ? NULL : (void *)at;
}

/* A file that was cut must not be mapped, one of another version not be used. */
static bool is_whole(long fd)
{
    uint64_t head[2];
    long n = stk_sys4(SYS_pread64, fd, head, sizeof head, 0);
    stk_pl_sum(&stk_pl.own_read_bytes, n > 0 ? (uint64_t)n : 0);
    return n == (long)sizeof head && head[0] == STK_SLOTS_MAGIC && head[1] == STK_LOG_VERSION;
}

static void raise_to(uint32_t *number, uint32_t to)
{
    uint32_t now = __atomic_load_n(number, __ATOMIC_RELAXED);
    while (now < to && !__atomic_compare_exchange_n(number, &now, to, false, __ATOMIC_SEQ_CST,
                                                    __ATOMIC_RELAXED))
        ;
}

/* The index of a slot that is allocated on disk; -1: none. */
static int64_t take(struct stk_slots *s, long fd)
{
    uint32_t i = __atomic_fetch_add(&s->next, 1, __ATOMIC_SEQ_CST);
    if (i >= STK_SLOTS_MOST || __atomic_load_n(&s->closed, __ATOMIC_SEQ_CST))
        return -1;
    uint32_t there = __atomic_load_n(&s->allocated, __ATOMIC_ACQUIRE);
    if (i < there)
        return i;
    uint32_t more = there + (there < STK_SLOTS_STEP ? there : STK_SLOTS_STEP);
    uint32_t until = more > i ? more : i + 1;
    uint64_t from = stk_slot_at(there), end = stk_slot_at(until);
    if (!stk_pl_log_within_limit(end) || stk_sys4(SYS_fallocate, fd, 0, from, end - from) < 0)
        return -1;
    raise_to(&s->allocated, until);
    return i;
}

/* Finds the log of the program that executed us, in slot k - 1 or in the chain behind it. */
static bool find_before(long fd, uint32_t k, char *name, size_t room)
{
    static STK_TABLE struct stk_log_header h; /* one thread creates a log */
    const size_t head = offsetof(struct stk_log_header, parent);
    uint32_t pid = (uint32_t)stk_sys0(SYS_getpid);
    for (uint32_t turn = 0; k && turn < CHAIN; turn++, k = h.before) {
        if (stk_sys4(SYS_pread64, fd, &h, head, stk_slot_at(k - 1)) != (long)head)
            return false;
        stk_pl_sum(&stk_pl.own_read_bytes, head);
        if (h.pid != pid)
            continue;
        h.name[sizeof h.name - 1] = 0;
        memset(name, 0, room);
        memcpy(name, h.name, sizeof h.name < room ? sizeof h.name : room);
        if (h.magic == STK_LOG_MAGIC)
            return h.end == STK_END_EXEC && h.pid_space == stk_pl_pid_space();
        return stk_pl_log_executed_us(name); /* it has moved */
    }
    return false;
}

struct stk_log_header *stk_pl_slot_take(char *before, size_t room)
{
    long fd = file_name[0] ? stk_pl_log_open(file_name, O_RDWR) : -ENOENT;
    if (fd < 0)
        return NULL;
    struct stk_log_header *h = NULL;
    if (!top && is_whole(fd))
        top = map_file(fd, 0, STK_SLOTS_HEAD);
    int64_t i = top ? take(top, fd) : -1;
    uint32_t *last = top ? &top->last[(uint32_t)stk_sys0(SYS_getpid) % STK_SLOTS_PIDS] : NULL;
    if (i >= 0 && stk_pl_log_name(launcher * STK_SLOTS_NUMBERS + (uint64_t)i + 1))
        h = map_file(fd, stk_slot_at((uint32_t)i), STK_LOG_FIRST);
    if (h) {
        h->before = __atomic_exchange_n(last, (uint32_t)i + 1, __ATOMIC_RELAXED);
        if (!find_before(fd, h->before, before, room))
            before[0] = 0;
    }
    stk_sys1(SYS_close, fd);
    return h;
}

/* What other threads wrote to the slot between our copy of it and their first write to the file:
 * mostly counters, which both sides may have raised. */
static void catch_up(uint64_t *file, const uint64_t *slot, const uint64_t *copy)
{
    for (size_t i = 0; i < STK_LOG_FIRST / sizeof *file; i++) {
        uint64_t was = copy[i], now = __atomic_load_n(&slot[i], __ATOMIC_RELAXED);
        if (now != was && !__atomic_compare_exchange_n(&file[i], &was, now, false, __ATOMIC_RELAXED,
                                                       __ATOMIC_RELAXED))
            __atomic_fetch_add(&file[i], now - copy[i], __ATOMIC_RELAXED);
    }
}

/* The magic number last: a log of which a part is missing is none. */
static bool write_copy(long fd, const char *copy)
{
    const long first = sizeof(uint64_t), rest = (long)STK_LOG_FIRST - first;
    stk_pl_sum(&stk_pl.own_write_bytes, STK_LOG_FIRST);
    return stk_sys4(SYS_pwrite64, fd, copy + first, rest, first) == rest &&
           stk_sys4(SYS_pwrite64, fd, copy, first, 0) == first;
}

int stk_pl_slot_leave(struct stk_log_header *block, long fd)
{
    char *copy = stk_pl_memory(STK_LOG_FIRST);
    long slot = stk_sys5(SYS_mremap, block, 0, STK_LOG_FIRST, MREMAP_MAYMOVE, 0);
    if (!copy || (slot < 0 && slot > -4096))
        return -ENOMEM;
    memcpy(copy, block, STK_LOG_FIRST);
    void *file = write_copy(fd, copy) ? map_file(fd, 0, STK_LOG_FIRST) : NULL;
    long moved = !file ? -ENOSPC
                       : stk_sys5(SYS_mremap, file, STK_LOG_FIRST, STK_LOG_FIRST,
                                  MREMAP_MAYMOVE | MREMAP_FIXED, block);
    if (moved == (long)(intptr_t)block) {
        catch_up((uint64_t *)block, (const uint64_t *)slot, (const uint64_t *)copy);
        __atomic_store_n(&((struct stk_log_header *)slot)->magic, 0, __ATOMIC_RELEASE);
    }
    stk_sys2(SYS_munmap, slot, STK_LOG_FIRST);
    return moved == (long)(intptr_t)block ? 0 : -ENOSPC;
}
