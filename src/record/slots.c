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
#define SURE  (5 * PAGE) /* of a slot: what a process of a fifth of a second uses of it */
_Static_assert(SURE >= 18816 + sizeof(struct stk_log_block) + offsetof(struct stk_log_thread, bin),
               "all but the time line");

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

/* ---- giving back room ---------------------------------------------------------------------- */

/* The time of the last recorded call. */
static uint64_t last_call_ns(const uint8_t *data, struct stk_log_small small)
{
    struct stk_log_block b;
    struct stk_log_record r;
    uint64_t last = 0;
    memcpy(&b, data + small.at, sizeof b);
    for (size_t at = 0; at + sizeof r <= b.used && b.used <= small.bytes - sizeof b;
         at += sizeof r) {
        memcpy(&r, data + small.at + sizeof b + at, sizeof r);
        last = r.n.c[STK_C_LAST_NS] > last ? r.n.c[STK_C_LAST_NS] : last;
    }
    return last;
}

/* The end of the time line, which is the last thing in a slot; 0: there is none. */
static size_t line_end(const uint8_t *data, struct stk_log_small small, uint64_t last_ns)
{
    const size_t at = small.at + sizeof(struct stk_log_block);
    uint32_t kind;
    uint64_t bin_ns;
    memcpy(&kind, data + small.at, sizeof kind);
    memcpy(&bin_ns, data + at + offsetof(struct stk_log_thread, bin_ns), sizeof bin_ns);
    if (kind != STK_BLK_THREAD || !bin_ns)
        return 0;
    uint64_t bins = last_ns / bin_ns + 1;
    bins = bins < STK_LOG_BINS ? bins : STK_LOG_BINS;
    return at + offsetof(struct stk_log_thread, bin) + bins * sizeof(struct stk_log_bin);
}

/* How much of a slot holds something, by its first SURE bytes. To read the rest would fill the page
 * cache with pages that were never touched, and take longer than all else here. */
static size_t used_bytes(const uint8_t *data)
{
    struct stk_log_small small;
    struct stk_log_header h;
    uint64_t last_ns = 0;
    size_t end = 0;
    memcpy(&h, data, sizeof h);
    if (h.magic != STK_LOG_MAGIC) /* it has moved to a file */
        return sizeof h;
    for (uint32_t i = 0; i < STK_LOG_SMALL; i++)
        if ((small = stk_log_small(i)).kind == STK_BLK_RECORDS)
            last_ns = last_call_ns(data, small);
    for (uint32_t i = 0; i < STK_LOG_SMALL; i++)
        if ((small = stk_log_small(i)).kind == STK_BLK_THREAD)
            end = line_end(data, small, last_ns);
    return end > SURE ? end : SURE;
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
    size_t got = 0;
    if (stk_pread_full(fd, data, SURE, stk_slot_at(i), &got, "", NULL) || got < SURE ||
        in_use(data))
        return;
    size_t used = (used_bytes(data) + PAGE - 1) / PAGE * PAGE;
    if (used < STK_LOG_FIRST)
        (void)fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                        (off_t)(stk_slot_at(i) + used), (off_t)(STK_LOG_FIRST - used));
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
    uint8_t *data = malloc(SURE);
    for (uint32_t i = 0; data && i < n; i++)
        trim_slot(l->slots_fd, i, data);
    free(data);
    if (lseek(l->slots_fd, 0, SEEK_END) > (off_t)stk_slot_at(n))
        (void)!ftruncate(l->slots_fd, (off_t)stk_slot_at(n));
}
