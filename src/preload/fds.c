/*
 * fds.c - descriptors and what they refer to. A table by number leads to the open file description
 * (shared by duplicated descriptors), which knows its file and its position. Descriptors whose open
 * was not observed (inherited, received over a socket) are looked up at their first use.
 */
#include "preload/priv.h"

#include <linux/stat.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#define DESC_PAGE  64u
#define DESC_PAGES STK_PL_STREAM_PAGES
#define STDIO_READ 4096 /* stdio reads ahead by at least this much */

_Static_assert(DESC_PAGE == STK_PL_STREAM_PAGE, "one index for both");

STK_TABLE struct stk_pl_fd_page *stk_pl_fd_pages[STK_PL_FD_PAGES];
struct stk_pl_fd_page stk_pl_fd_first;
struct stk_pl_lock stk_pl_fds_lock;

static STK_TABLE struct stk_pl_desc *desc_page[DESC_PAGES];
static uint32_t ndescs = 1, first_free; /* index 0 is none */
static uint32_t generations;

struct stk_pl_desc *stk_pl_desc_by_index(uint32_t index)
{
    return &desc_page[index / DESC_PAGE][index % DESC_PAGE];
}

/* The lock is held. */
static struct stk_pl_desc *take_memory(void)
{
    if (first_free) {
        struct stk_pl_desc *d = stk_pl_desc_by_index(first_free);
        first_free = d->next_free;
        return d;
    }
    uint32_t page = ndescs / DESC_PAGE;
    if (page >= DESC_PAGES)
        return NULL;
    if (!desc_page[page]) {
        char *at = stk_pl_memory(STK_PL_APART + DESC_PAGE * sizeof **desc_page);
        if (!at)
            return NULL;
        desc_page[page] = (struct stk_pl_desc *)(at + STK_PL_APART);
    }
    struct stk_pl_desc *d = stk_pl_desc_by_index(ndescs);
    d->index = ndescs++;
    return d;
}

/* Another thread may still use the memory's previous content, if a program closes a descriptor that
 * is being read: it may then mix two files, but always finds a file. */
static struct stk_pl_desc *new_desc(const struct stk_pl_desc *as)
{
    stk_pl_lock(&stk_pl_fds_lock);
    struct stk_pl_desc *d = take_memory();
    if (d) {
        if (as->file)
            __atomic_store_n(&d->file, as->file, __ATOMIC_RELEASE);
        d->keeps_over_exec = as->keeps_over_exec;
        d->append = as->append;
        d->shared = as->shared;
        d->talks = as->talks;
        d->place = as->place;
        d->position = as->position;
        d->end = as->end;
        d->hash = as->hash;
        __atomic_store_n(&d->kind, as->kind, __ATOMIC_RELEASE);
        __atomic_store_n(&d->refs, 1, __ATOMIC_RELAXED);
        d->generation = ++generations ? generations : ++generations;
        d->forks = d->keeps_over_exec ? stk_pl.spawns : stk_pl.forks;
    }
    stk_pl_unlock(&stk_pl_fds_lock);
    return d;
}

void stk_pl_desc_release(struct stk_pl_desc *d)
{
    if (!d || __atomic_sub_fetch(&d->refs, 1, __ATOMIC_ACQ_REL))
        return;
    stk_pl_lock(&stk_pl_fds_lock);
    d->next_free = first_free;
    first_free = d->index;
    stk_pl_unlock(&stk_pl_fds_lock);
}

/* The table entry of fd; NULL: the number is too high, or out of memory. */
static struct stk_pl_desc **place_of(int fd)
{
    uint32_t n = (uint32_t)fd;
    if (n < STK_PL_FD_PAGE)
        return &stk_pl_fd_first.desc[n];
    if (fd < 0 || n >= STK_PL_FD_PAGE * STK_PL_FD_PAGES)
        return NULL;
    struct stk_pl_fd_page **page = &stk_pl_fd_pages[n / STK_PL_FD_PAGE];
    if (!__atomic_load_n(page, __ATOMIC_ACQUIRE)) {
        stk_pl_lock(&stk_pl_fds_lock);
        if (!*page)
            __atomic_store_n(page, stk_pl_memory(sizeof **page), __ATOMIC_RELEASE);
        stk_pl_unlock(&stk_pl_fds_lock);
        if (!*page)
            return NULL;
    }
    return &(*page)->desc[n % STK_PL_FD_PAGE];
}

/* Assigns fd to d (NULL: none); returns the previous description. */
static struct stk_pl_desc *put(int fd, struct stk_pl_desc *d)
{
    if (!d && !stk_pl_desc_at(fd))
        return NULL;
    struct stk_pl_desc **place = place_of(fd);
    return place ? __atomic_exchange_n(place, d, __ATOMIC_ACQ_REL) : NULL;
}

/* The files that the launcher's own output goes to, from its environment variable. */
static struct {
    uint64_t dev, ino;
} output[2];

void stk_pl_fds_start(const char *outputs)
{
    for (size_t i = 0; outputs && i < sizeof output / sizeof *output; i++) {
        const char *ino = strchr(outputs, ':');
        if (!ino)
            return;
        output[i].dev = stk_pl_number(outputs);
        output[i].ino = stk_pl_number(ino + 1);
        outputs = strchr(ino, ',');
        outputs += outputs != NULL;
    }
}

struct facts {
    uint64_t dev, ino, size;
    uint32_t mode;
};

/* Does not query the servers of a network file system again: the open just did. */
static bool ask(int fd, struct facts *f)
{
    struct statx s;
    if (stk_sys5(SYS_statx, fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC,
                 STATX_TYPE | STATX_INO | STATX_SIZE, &s) >= 0) {
        *f = (struct facts){makedev(s.stx_dev_major, s.stx_dev_minor), s.stx_ino, s.stx_size,
                            s.stx_mode};
        return true;
    }
    struct stat old; /* Linux before 4.11 */
    if (stk_sys4(SYS_newfstatat, fd, "", &old, AT_EMPTY_PATH) < 0)
        return false;
    *f = (struct facts){old.st_dev, old.st_ino, (uint64_t)old.st_size, old.st_mode};
    return true;
}

/* Determines what is open on fd, whose path is in t->path; false: no room. */
static bool classify(struct stk_pl_thread *t, int fd, const struct facts *f, struct stk_pl_desc *d)
{
    size_t folder = stk_pl_left_out(t->path.text, t->path.length, true);
    if (folder) {
        d->kind = STK_PL_LEFT_OUT;
        d->place = stk_pl_place(t->path.text, folder);
        stk_pl_sum(&stk_pl.log->left_out_files, 1);
        stk_pl_library(t->path.text);
        stk_pl_sum(&stk_pl.log->left_out[d->place].files, 1);
        return true;
    }
    d->kind = STK_PL_FILE;
    d->hash = t->path.hash;
    d->file = stk_pl_file_of(&t->path, STK_PL_OPENED);
    if (!d->file)
        return false;
    d->file->dev = f->dev;
    if (d->file->group)
        stk_pl_sum(&stk_pl.log->grouped_files, 1);
    else
        d->file->ino = f->ino;
    stk_pl_storage(d->file, fd, f->dev, t->path.text, sizeof t->path.text); /* no longer needed */
    return true;
}

/* A file without a name is not the folder that was opened for it. */
static bool name_opened(struct stk_pl_thread *t, int dirfd, const char *path, int flags, int fd)
{
    return (flags & O_TMPFILE) == O_TMPFILE ? stk_pl_path_of_fd(t, fd)
                                            : stk_pl_path_make(t, dirfd, path, fd);
}

struct stk_pl_desc *stk_pl_desc_open(struct stk_pl_thread *t, int dirfd, const char *path,
                                     int flags, int fd, uint64_t *size)
{
    struct facts facts;
    struct stk_pl_desc as = {.kind = STK_PL_STREAM};
    struct stk_pl_desc *d = NULL;
    if (ask(fd, &facts)) {
        bool known = S_ISREG(facts.mode) || S_ISDIR(facts.mode);
        as.talks = stk_pl_talks(facts.mode);
        as.append = flags & O_APPEND;
        as.keeps_over_exec = !(flags & O_CLOEXEC);
        as.end = (int64_t)facts.size;
        *size = S_ISREG(facts.mode) ? facts.size : 0;
        if (!known || (name_opened(t, dirfd, path, flags, fd) && classify(t, fd, &facts, &as)))
            d = new_desc(&as);
    }
    stk_pl_desc_release(put(fd, d));
    return d;
}

/* A job's printed output is not data, although it may go to a file. A file that a shell opened for
 * a program is. */
static bool is_output(const struct facts *f)
{
    bool is = false;
    for (size_t i = 0; i < sizeof output / sizeof *output; i++)
        is = is || (output[i].ino && output[i].ino == f->ino && output[i].dev == f->dev);
    return is;
}

/* The position before the call at hand: stdio has read ahead of its caller. */
static int64_t position_before(int fd, int64_t moved, enum stk_api api)
{
    int64_t at = stk_sys3(SYS_lseek, fd, 0, SEEK_CUR);
    if (moved < 0 || at < 0)
        return at < 0 ? 0 : at;
    if (api == STK_API_STDIO)
        moved = (moved + STDIO_READ - 1) / STDIO_READ * STDIO_READ;
    return at > moved ? at - moved : 0;
}

struct stk_pl_desc *stk_pl_desc_find(struct stk_pl_thread *t, int fd, enum stk_api api,
                                     int64_t moved)
{
    struct stk_pl_desc *d = stk_pl_desc_at(fd);
    struct facts facts;
    if (LIKELY(d != NULL) || fd < 0 || !ask(fd, &facts))
        return d;
    struct stk_pl_desc as = {.kind = STK_PL_STREAM, .shared = true, .keeps_over_exec = true};
    as.talks = stk_pl_talks(facts.mode);
    bool known = S_ISDIR(facts.mode) || (S_ISREG(facts.mode) && !is_output(&facts));
    if (known && stk_pl_path_of_fd(t, fd) && t->path.text[0] == '/') {
        if (!classify(t, fd, &facts, &as))
            return NULL;
        long flags = stk_sys3(SYS_fcntl, fd, F_GETFL, 0);
        as.append = flags > 0 && flags & O_APPEND;
        as.position = position_before(fd, moved, api);
        as.end = (int64_t)facts.size - (as.append && api != STK_API_STDIO && moved > 0 ? moved : 0);
    }
    struct stk_pl_desc **place = place_of(fd), *none = NULL;
    d = place ? new_desc(&as) : NULL;
    if (d &&
        !__atomic_compare_exchange_n(place, &none, d, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
        stk_pl_desc_release(d); /* another thread was faster */
        d = none;
    }
    return d;
}

uint32_t stk_pl_closing(int fd)
{
    if (stk_pl_self.vforked || stk_pl_self.inside)
        return 0;
    stk_pl_enter();
    struct stk_pl_desc *d = put(fd, NULL);
    stk_pl_leave();
    return d ? d->index : 0;
}

void stk_pl_forget(int fd)
{
    stk_pl_enter();
    stk_pl_desc_release(put(fd, NULL));
    stk_pl_leave();
}

void stk_pl_fds_forget_range(unsigned first, unsigned last)
{
    for (unsigned p = first / STK_PL_FD_PAGE; p < STK_PL_FD_PAGES && p <= last / STK_PL_FD_PAGE;
         p++) {
        if (p && !__atomic_load_n(&stk_pl_fd_pages[p], __ATOMIC_ACQUIRE))
            continue;
        for (unsigned i = 0; i < STK_PL_FD_PAGE; i++) {
            unsigned fd = p * STK_PL_FD_PAGE + i;
            if (fd >= first && fd <= last)
                stk_pl_desc_release(put((int)fd, NULL));
        }
    }
}

void stk_pl_fds_dup(int from, int to)
{
    struct stk_pl_desc *d = stk_pl_desc_at(from);
    if (from == to)
        return;
    uint32_t refs = d ? __atomic_load_n(&d->refs, __ATOMIC_ACQUIRE) : 0;
    while (refs && !__atomic_compare_exchange_n(&d->refs, &refs, refs + 1, false, __ATOMIC_ACQ_REL,
                                                __ATOMIC_ACQUIRE))
        ;
    stk_pl_desc_release(put(to, refs ? d : NULL)); /* 0: another thread is closing it right now */
}

/* fcntl(F_SETFL) */
void stk_pl_fds_append(int fd, bool append)
{
    struct stk_pl_desc *d = stk_pl_desc_at(fd);
    if (d)
        d->append = append;
}

/* The position after a call, from the kernel; -1: it has none. */
static int64_t position_after(struct stk_pl_desc *d, int fd)
{
    int64_t at = stk_sys3(SYS_lseek, fd, 0, SEEK_CUR);
    if (at >= 0)
        __atomic_store_n(&d->position, at, __ATOMIC_RELAXED);
    return at;
}

int64_t stk_pl_position(struct stk_pl_desc *d, int fd, int64_t moved, enum stk_api api)
{
    uint32_t forks = d->keeps_over_exec ? stk_pl.spawns : stk_pl.forks;
    if (UNLIKELY(d->shared || d->forks != forks) && api != STK_API_STDIO) {
        int64_t at = position_after(d, fd);
        if (at >= 0)
            return at > moved ? at - moved : 0;
    }
    return __atomic_fetch_add(&d->position, moved, __ATOMIC_RELAXED);
}

/* A write moves the position to the end, where others may append, too; pwrite() leaves the position
 * alone, and so does a stream until it empties its buffer. */
int64_t stk_pl_appended(struct stk_pl_desc *d, int fd, bool at_position, int64_t moved,
                        enum stk_api api)
{
    int64_t at = at_position && api != STK_API_STDIO ? position_after(d, fd) : -1;
    if (at >= moved) {
        __atomic_store_n(&d->end, at, __ATOMIC_RELAXED);
        return at - moved;
    }
    at = __atomic_fetch_add(&d->end, moved, __ATOMIC_RELAXED);
    if (at_position)
        __atomic_store_n(&d->position, at + moved, __ATOMIC_RELAXED);
    return at;
}
