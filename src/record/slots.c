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

/* Gives back the pages at the end of a range that hold nothing. */
static void trim(int fd, uint64_t from, const uint8_t *data, size_t n)
{
    static const uint8_t zeros[PAGE];
    size_t used = n;
    while (used >= PAGE && memcmp(data + used - PAGE, zeros, PAGE) == 0)
        used -= PAGE;
    if (used < n)
        (void)fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)(from + used),
                        (off_t)(n - used));
}

/* Unless its process may still write to it. */
static void trim_slot(int fd, uint32_t i, uint8_t *data)
{
    struct stk_log_header h;
    size_t got = 0;
    if (stk_pread_full(fd, data, STK_LOG_FIRST, stk_slot_at(i), &got, "", NULL) ||
        got < STK_LOG_FIRST)
        return;
    memcpy(&h, data, sizeof h);
    if (h.magic != STK_LOG_MAGIC || h.end != STK_END_NONE)
        trim(fd, stk_slot_at(i), data, STK_LOG_FIRST);
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
    for (uint32_t i = 0; data && i < n; i++)
        trim_slot(l->slots_fd, i, data);
    free(data);
    if (lseek(l->slots_fd, 0, SEEK_END) > (off_t)stk_slot_at(n))
        (void)!ftruncate(l->slots_fd, (off_t)stk_slot_at(n));
}
