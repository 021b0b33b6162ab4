/*
 * slots.c - the file of slots for the logs of small processes (proflog/slots.h): created before the
 * program starts, closed when it has ended. It is never mapped here: a program can cut it.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "proflog/slots.h"
#include "record/priv.h"

#define PAGE  4096u
#define CHAIN 64u /* slots of equal process ids, modulo, that are searched */
#define MANY  32u /* slots that are copied rather than trimmed */

static int write_head(int fd, struct stk_err *err)
{
    const struct stk_slots head = {
        .magic = STK_SLOTS_MAGIC, .version = STK_LOG_VERSION, .allocated = STK_SLOTS_FIRST};
    if (fallocate(fd, 0, 0, (off_t)stk_slot_at(STK_SLOTS_FIRST)) != 0)
        return stk_err_sys(err, NULL, "allocate");
    return stk_pwrite_full(fd, &head, sizeof head, 0, "", err);
}

/* Without slots, every process creates a file: for a file system that cannot allocate room, and for
 * traces, which are large. */
void stk_launch_make_slots(struct stk_launch *l)
{
    const struct stk_folder *in = l->spool ? &l->spool_folder : &l->folder;
    l->slots_fd = -1;
    if (l->o.trace)
        return;
    uint64_t number =
        (l->ranked ? l->rank.rank : 0) * (uint64_t)STK_SLOTS_RANK + (uint64_t)getpid();
    snprintf(l->slots, sizeof l->slots, "%s.%llu%s", l->host, (unsigned long long)number,
             STK_SLOTS_SUFFIX);
    if (stk_folder_fresh(in, l->slots, &l->slots_fd, NULL) == 0 && write_head(l->slots_fd, NULL)) {
        (void)stk_folder_remove(in, l->slots, NULL);
        stk_launch_release_slots(l);
    }
    if (l->slots_fd < 0)
        l->slots[0] = '\0';
}

void stk_launch_release_slots(struct stk_launch *l)
{
    if (l->slots_fd >= 0)
        close(l->slots_fd);
    l->slots_fd = -1;
}

void stk_launch_drop_slots(struct stk_launch *l)
{
    if (l->slots_fd >= 0)
        (void)stk_folder_remove(l->spool ? &l->spool_folder : &l->folder, l->slots, NULL);
    stk_launch_release_slots(l);
}

bool stk_slot_read(int fd, uint32_t i, struct stk_log_header *h)
{
    size_t got = 0;
    return stk_pread_full(fd, h, sizeof *h, stk_slot_at(i), &got, "", NULL) == 0 &&
           got == sizeof *h;
}

uint32_t stk_slots_taken(int fd)
{
    struct stk_slots head;
    size_t got = 0, want = offsetof(struct stk_slots, last);
    if (fd < 0 || stk_pread_full(fd, &head, want, 0, &got, "", NULL) || got < want)
        return 0;
    return head.next < STK_SLOTS_MOST ? head.next : STK_SLOTS_MOST;
}

bool stk_slots_know(int fd, pid_t pid)
{
    uint32_t k = 0;
    struct stk_log_header h;
    size_t got = 0, at = (size_t)pid % STK_SLOTS_PIDS * sizeof k;
    if (fd < 0 ||
        stk_pread_full(fd, &k, sizeof k, offsetof(struct stk_slots, last) + at, &got, "", NULL))
        return false;
    for (uint32_t turn = 0; k && k <= STK_SLOTS_MOST && turn < CHAIN; turn++, k = h.before) {
        if (!stk_slot_read(fd, k - 1, &h))
            return false;
        if (h.pid == (uint32_t)pid)
            return true;
    }
    return false;
}

static size_t used_bytes(const uint8_t *data, size_t n)
{
    static const uint8_t zeros[PAGE];
    while (n >= PAGE && memcmp(data + n - PAGE, zeros, PAGE) == 0)
        n -= PAGE;
    return n;
}

/* ---- giving back room ---------------------------------------------------------------------- */

static bool read_slot(int fd, uint32_t i, uint8_t *data)
{
    size_t got = 0;
    return stk_pread_full(fd, data, STK_LOG_FIRST, stk_slot_at(i), &got, "", NULL) == 0 &&
           got == STK_LOG_FIRST;
}

/* Its process may still write to it. */
static bool in_use(const uint8_t *data)
{
    struct stk_log_header h;
    memcpy(&h, data, sizeof h);
    return h.magic == STK_LOG_MAGIC && h.end == STK_END_NONE;
}

/* Gives back the pages at the end of a slot that hold nothing. */
static void trim_slot(int fd, uint32_t i, uint8_t *data)
{
    if (!read_slot(fd, i, data) || in_use(data))
        return;
    size_t used = used_bytes(data, STK_LOG_FIRST);
    if (used < STK_LOG_FIRST)
        (void)fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                        (off_t)(stk_slot_at(i) + used), (off_t)(STK_LOG_FIRST - used));
}

static bool copy_head(int from, int to, uint8_t *data)
{
    size_t got = 0;
    _Static_assert(STK_SLOTS_HEAD <= STK_LOG_FIRST, "the buffer holds it");
    return stk_pread_full(from, data, STK_SLOTS_HEAD, 0, &got, "", NULL) == 0 &&
           got == STK_SLOTS_HEAD && stk_pwrite_full(to, data, got, 0, "", NULL) == 0;
}

/* The same slots at the same places, without pages that hold nothing. false: one is in use. */
static bool copy_slots(int from, int to, uint32_t n, uint8_t *data)
{
    bool good = copy_head(from, to, data);
    for (uint32_t i = 0; good && i < n; i++)
        good = read_slot(from, i, data) && !in_use(data) &&
               stk_pwrite_full(to, data, used_bytes(data, STK_LOG_FIRST), stk_slot_at(i), "",
                               NULL) == 0;
    return good && ftruncate(to, (off_t)stk_slot_at(n)) == 0;
}

/* Replaces the file by a copy: for many slots that takes a fifth of the time of trimming each. */
static bool replace_slots(struct stk_launch *l, uint32_t n, uint8_t *data)
{
    const struct stk_folder *in = l->spool ? &l->spool_folder : &l->folder;
    char name[sizeof l->slots + sizeof ".partial"];
    int fd = -1;
    snprintf(name, sizeof name, "%s.partial", l->slots);
    if (stk_folder_fresh(in, name, &fd, NULL))
        return false;
    bool good = copy_slots(l->slots_fd, fd, n, data) &&
                renameat(in->fd, name, in->fd, l->slots) == 0;
    if (!good)
        (void)stk_folder_remove(in, name, NULL);
    close(good ? l->slots_fd : fd);
    l->slots_fd = good ? fd : l->slots_fd;
    return good;
}

/* A process that takes a slot adds to `next` first and looks at `closed` then, so all slots that
 * are in use are counted here. */
void stk_launch_close_slots(struct stk_launch *l)
{
    const uint32_t closed = 1;
    if (l->slots_fd < 0 || stk_pwrite_full(l->slots_fd, &closed, sizeof closed,
                                           offsetof(struct stk_slots, closed), "", NULL))
        return;
    uint32_t n = stk_slots_taken(l->slots_fd);
    uint8_t *data = malloc(STK_LOG_FIRST);
    bool whole = data && n >= MANY && replace_slots(l, n, data);
    for (uint32_t i = 0; data && !whole && i < n; i++)
        trim_slot(l->slots_fd, i, data);
    free(data);
    if (lseek(l->slots_fd, 0, SEEK_END) > (off_t)stk_slot_at(n))
        (void)!ftruncate(l->slots_fd, (off_t)stk_slot_at(n));
}
