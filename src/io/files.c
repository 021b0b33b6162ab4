/*
 * files.c - opening files by number: where to read them from, whether they still match the record,
 * and the alignment of direct reads. Nothing else opens a dataset's files.
 */
#include "io/files.h"
#include "base/beneath.h"
#include "base/file.h"
#include "base/pool.h"
#include "host/fs.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHANGED   "the file changed since it was indexed; run again"
#define OUTSIDE   "a link that leads outside the dataset; --follow-links reads it all the same"
#define MIN_ALIGN 512u /* smaller is useless */
#define LOOKED_AT 8u   /* number of files examined for all */
#define LOOKERS   32 /* threads that ask a file server */

/* ---- records ---- */

static int entry_of_item(const void *list, uint64_t number, struct stk_files_entry *e,
                         struct stk_err *err)
{
    (void)err;
    const struct stk_files_item *item = (const struct stk_files_item *)list + number;
    *e = (struct stk_files_entry){.name = item->path,
                                  .name_len = strlen(item->path),
                                  .size = item->size,
                                  .mtime_ns = item->mtime_ns};
    return 0;
}

struct stk_files stk_files_list(const struct stk_files_item *item, uint64_t n)
{
    struct stk_files files = {.rootfd = AT_FDCWD,
                              .root = ".",
                              .count = n,
                              .entry = entry_of_item,
                              .list = item,
                              .outside = true};
    for (uint64_t i = 0; i < n; i++)
        files.bytes += item[i].size == STK_SIZE_ANY ? 0 : item[i].size;
    return files;
}

static int entry_of(const struct stk_files *files, uint64_t number, struct stk_files_entry *e,
                    char name[PATH_MAX], struct stk_err *err)
{
    if (number >= files->count)
        return stk_err_set(err, STK_E_CORRUPT, NULL, -1, "there is no file number %llu",
                           (unsigned long long)number);
    int rc = files->entry(files->list, number, e, err);
    if (rc < 0)
        return rc;
    if (e->name_len >= PATH_MAX)
        return stk_err_set(err, STK_E_CORRUPT, NULL, -1, "a file's name is too long");
    memcpy(name, e->name, e->name_len);
    name[e->name_len] = '\0';
    e->packed = files->packed;
    return 0;
}

/* ---- copies ---- */

uint64_t stk_files_route(const struct stk_files *files, uint64_t number, uint64_t off, uint64_t len)
{
    const struct stk_files_overlay *o = files->overlay;
    return o && number < files->count ? number + o->route(o, number, off, len) * files->count
                                      : number;
}

uint64_t stk_files_route_whole(const struct stk_files *files, uint64_t number)
{
    struct stk_files_entry e;
    if (!files->overlay || number >= files->count ||
        files->entry(files->list, number, &e, NULL) < 0 || e.size == STK_SIZE_ANY)
        return number;
    return stk_files_route(files, number, 0, e.size);
}

/* The level of a number that is one of a copy, and the file's own number. */
static unsigned split(const struct stk_files *files, uint64_t *number)
{
    unsigned level = stk_files_level(files, *number);
    if (!files->overlay || level > files->overlay->levels)
        return 0;
    *number -= level * files->count;
    return level;
}

char *stk_files_path(const struct stk_files *files, uint64_t number)
{
    struct stk_files_entry e;
    char name[PATH_MAX];
    unsigned level = split(files, &number);
    if (level)
        return files->overlay->path(files->overlay, number, level);
    return entry_of(files, number, &e, name, NULL) < 0 ? NULL : stk_path_join(files->root, name);
}

/* A symbolic link may lead outside the root. */
bool stk_files_are_local(const struct stk_files *files)
{
    uint64_t n = files->count < LOOKED_AT ? files->count : LOOKED_AT;
    bool local = files->rootfd == AT_FDCWD || stk_fs_is_local(stk_fs_of_fd(files->rootfd));
    for (uint64_t i = 0; local && i < n; i++) {
        char *path = stk_files_path(files, files->count * i / n);
        local = path && stk_fs_is_local(stk_fs_of_path(path));
        free(path);
    }
    return local;
}

/* Sets the path of an error. */
static void set_path(struct stk_err *err, const char *path)
{
    const struct stk_err was = *err;
    stk_err_set(err, was.code, path, was.offset, "%s", was.what);
    err->sys_errno = was.sys_errno;
}

void stk_files_blame(const struct stk_files *files, uint64_t number, struct stk_err *err)
{
    char *path = err->path[0] ? NULL : stk_files_path(files, number);
    if (path)
        set_path(err, path);
    free(path);
}

/* ---- detecting changes ---- */

#define LOOK                                                                                       \
    (STATX_TYPE | STATX_MODE | STATX_SIZE | STATX_MTIME | STATX_CTIME | STATX_UID | STATX_INO |    \
     STATX_NLINK)

/* Status of an open file. */
static int look_at(int fd, unsigned more, struct statx *sx, struct stk_err *err)
{
    return statx(fd, "", AT_EMPTY_PATH, LOOK | more, sx) < 0 ? stk_err_sys(err, NULL, "stat") : 0;
}

/* Status of the file that a name leads to. Checks only the last component for a link, which is
 * cheap. This only shows that the file exists; opening decides. */
static int look_by_name(const struct stk_files *files, const char *name, struct statx *sx,
                        struct stk_err *err)
{
    if (statx(files->rootfd, name, files->outside ? 0 : AT_SYMLINK_NOFOLLOW, LOOK, sx) < 0)
        return stk_err_sys(err, NULL, "open");
    if (!S_ISLNK(sx->stx_mode))
        return 0;
    int fd = stk_open_beneath(files->rootfd, name, O_PATH);
    if (fd < 0 && errno == EXDEV)
        return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1, OUTSIDE);
    if (fd < 0)
        return stk_err_sys(err, NULL, "open");
    int rc = look_at(fd, 0, sx, err);
    close(fd);
    return rc;
}

static int check_regular(const struct stk_files_entry *e, const struct statx *sx,
                         struct stk_err *err)
{
    int code = e->packed                 ? STK_E_CORRUPT
               : e->size != STK_SIZE_ANY ? STK_E_STALE
                                         : STK_E_UNSUPPORTED;
    return S_ISREG(sx->stx_mode) ? 0 : stk_err_set(err, code, NULL, -1, "not a regular file");
}

static int64_t ctime_of(const struct statx *sx)
{
    return (int64_t)sx->stx_ctime.tv_sec * 1000000000 + sx->stx_ctime.tv_nsec;
}

static struct stk_file_stamp stamp_of(const struct statx *sx)
{
    return (struct stk_file_stamp){.size = sx->stx_size,
                                   .device = (uint64_t)sx->stx_dev_major << 32 | sx->stx_dev_minor,
                                   .inode = sx->stx_ino,
                                   .mtime_ns = (int64_t)sx->stx_mtime.tv_sec * 1000000000 +
                                               sx->stx_mtime.tv_nsec};
}

/* The times of packed shards are not recorded, so that a copied dataset stays valid. */
static int check_unchanged(const struct stk_files_entry *e, const struct statx *sx,
                           struct stk_err *err)
{
    int64_t mtime = stamp_of(sx).mtime_ns;
    int rc = check_regular(e, sx, err);
    if (rc == 0 && e->packed && e->size != STK_SIZE_ANY && sx->stx_size != e->size)
        return stk_err_set(err, STK_E_CORRUPT, NULL, -1,
                           "it has %llu bytes, but %llu were packed: it was cut off or changed; "
                           "restore it, or pack again",
                           (unsigned long long)sx->stx_size, (unsigned long long)e->size);
    if (rc == 0 && ((e->size != STK_SIZE_ANY && sx->stx_size != e->size) ||
                    (e->mtime_ns && mtime != e->mtime_ns)))
        rc = stk_err_set(err, STK_E_STALE, NULL, -1, CHANGED);
    return rc;
}

int stk_files_compare(const struct stk_files *files, uint64_t number, uid_t *owner,
                      struct stk_err *err)
{
    struct stk_files_entry e;
    struct statx sx = {0};
    char name[PATH_MAX];
    int rc = entry_of(files, number, &e, name, err);
    if (rc == 0 && !name[0])
        rc = stk_err_set(err, STK_E_CORRUPT, NULL, -1, "a file without a name");
    if (rc == 0)
        rc = look_by_name(files, name, &sx, err);
    if (rc == 0)
        rc = check_unchanged(&e, &sx, err);
    if (rc < 0 && err)
        stk_files_blame(files, number, err);
    if (owner)
        *owner = sx.stx_uid;
    return rc;
}

/* ---- opening ---- */

/* A name, and how far its links may lead. */
struct door {
    int rootfd;
    bool outside;
    const char *name;
};

/* *flags: O_DIRECT or 0; cleared if direct reads are not supported. */
static int open_at(const struct door *d, int *flags)
{
    int base = O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK; /* a FIFO must not block us */
    int fd = stk_open_by_rule(d->rootfd, d->outside, d->name, base | *flags);
    if (fd < 0 && errno == EINVAL && *flags) {
        *flags = 0; /* a file system without direct reads */
        fd = stk_open_by_rule(d->rootfd, d->outside, d->name, base);
    }
    return fd;
}

static int open_checked_at(const struct door *d, const struct stk_files_entry *e, int *flags,
                           struct statx *sx, struct stk_err *err)
{
    unsigned more = 0;
    int fd = open_at(d, flags);
    if (fd < 0 && errno == EXDEV && !d->outside)
        return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1, OUTSIDE);
    if (fd < 0)
        return stk_err_sys(err, NULL, "open");
#ifdef STATX_DIOALIGN
    more = *flags ? STATX_DIOALIGN : 0;
#endif
    int rc = look_at(fd, more, sx, err);
    if (rc == 0)
        rc = check_unchanged(e, sx, err);
    if (rc < 0)
        close(fd);
    return rc < 0 ? rc : fd;
}

static int open_source(const struct stk_files *files, uint64_t number, int *flags, struct statx *sx,
                       struct stk_err *err)
{
    struct stk_files_entry e;
    char name[PATH_MAX];
    int rc = entry_of(files, number, &e, name, err);
    if (rc < 0)
        return rc;
    e.size = files->any_size ? STK_SIZE_ANY : e.size;
    struct door source = {files->rootfd, files->outside, name};
    int fd = open_checked_at(&source, &e, flags, sx, err);
    if (fd < 0 && err) {
        char *path = stk_path_join(files->root, name);
        set_path(err, path);
        free(path);
    }
    return fd;
}

/* The overlay knows whether the copy is good; its size must fit in any case. */
static int open_copy(const struct stk_files *files, uint64_t number, unsigned level, int *flags,
                     struct statx *sx, bool *growing, struct stk_err *err)
{
    const struct stk_files_overlay *o = files->overlay;
    unsigned more = 0;
    int fd = o->open(o, number, level, *flags);
    if (fd < 0 && *flags) {
        *flags = 0;
        fd = o->open(o, number, level, 0);
    }
#ifdef STATX_DIOALIGN
    more = *flags ? STATX_DIOALIGN : 0;
#endif
    struct stk_files_entry e = {.size = STK_SIZE_ANY};
    (void)files->entry(files->list, number, &e, NULL);
    e.mtime_ns = 0; /* a copy may have its own */
    if (fd >= 0 && look_at(fd, more, sx, err) == 0 && check_unchanged(&e, sx, NULL) == 0 &&
        o->fits(o, number, level, sx, growing))
        return fd;
    if (fd >= 0)
        close(fd);
    return stk_err_set(err, STK_E_STALE, NULL, -1, "the copy is gone or was changed");
}

int stk_file_open_at(int rootfd, bool outside, const char *name, const char *path, uint64_t *size,
                     struct stk_err *err)
{
    struct stk_files_entry any = {.size = STK_SIZE_ANY};
    struct door d = {rootfd, outside, name};
    struct statx sx;
    int flags = 0, fd = open_checked_at(&d, &any, &flags, &sx, err);
    if (fd < 0 && err)
        set_path(err, path);
    *size = fd < 0 ? 0 : sx.stx_size;
    return fd;
}

/* Status comes last, so that it covers changes made while the file was read. */
static int read_and_check(int fd, const struct stk_files_entry *e, void *p, size_t size,
                          struct stk_err *err)
{
    struct statx sx;
    size_t got = 0;
    int rc = size ? stk_pread_full(fd, p, size, 0, &got, NULL, err) : 0;
    int looked = look_at(fd, 0, &sx, rc ? NULL : err);
    /* A file that became a pipe or a folder says so, not "Illegal seek". */
    int changed = looked ? 0 : check_unchanged(e, &sx, err);
    rc = changed ? changed : rc ? rc : looked;
    return rc == 0 && got != size ? stk_err_set(err, STK_E_STALE, NULL, -1, CHANGED) : rc;
}

int stk_file_read_whole(const struct stk_files *files, uint64_t number, void *p, size_t size,
                        struct stk_err *err)
{
    struct stk_files_entry e;
    char name[PATH_MAX];
    int flags = 0, rc = entry_of(files, number, &e, name, err);
    if (rc < 0)
        return rc;
    struct door d = {files->rootfd, files->outside, name};
    int fd = open_at(&d, &flags);
    if (fd < 0 && errno == EXDEV)
        rc = stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1, OUTSIDE);
    else if (fd < 0)
        rc = stk_err_sys(err, NULL, "open");
    else
        rc = read_and_check(fd, &e, p, size, err);
    if (fd >= 0)
        close(fd);
    if (rc < 0 && err)
        stk_files_blame(files, number, err);
    return rc;
}

/* ---- direct reads ---- */

/* Some servers need hardly any alignment; of other files, only those on a block device work with
 * less than a page. */
static uint32_t align_of_device(int fd, const struct statx *sx)
{
    if (stk_fs_of_fd(fd)->any_offset)
        return MIN_ALIGN;
    uint64_t block = stk_fs_block_size(sx->stx_dev_major, sx->stx_dev_minor);
    return block == MIN_ALIGN ? MIN_ALIGN : STK_FILE_ALIGN;
}

/* Remembers the last device: asking the kernel is slow. */
static uint32_t cached_align(int fd, const struct statx *sx)
{
    static _Atomic uint64_t last; /* the device, and its alignment */
    uint64_t device = (uint64_t)sx->stx_dev_major << 40 | (uint64_t)sx->stx_dev_minor << 16;
    uint64_t known = atomic_load_explicit(&last, memory_order_relaxed);
    if (known && known >> 16 == device >> 16)
        return (uint32_t)(known & 0xffff);
    uint32_t align = align_of_device(fd, sx);
    atomic_store_explicit(&last, device | align, memory_order_relaxed);
    return align;
}

/* Direct reads of this file must be multiples of this; 0: not supported. */
static uint32_t direct_align(int fd, const struct statx *sx)
{
#ifdef STATX_DIOALIGN
    if (sx->stx_mask & STATX_DIOALIGN) {
        uint32_t a = sx->stx_dio_offset_align;
        bool fits = a && a <= STK_FILE_ALIGN && sx->stx_dio_mem_align <= STK_FILE_ALIGN;
        if (!fits || (a & (a - 1)))
            return 0;
        return a < MIN_ALIGN ? MIN_ALIGN : a;
    }
#endif
    return cached_align(fd, sx);
}

/* ---- one open file ---- */

int stk_file_open(const struct stk_files *files, uint64_t number, enum stk_file_mode mode,
                  struct stk_file *f, struct stk_err *err)
{
    struct statx sx;
    int flags = mode == STK_FILE_DIRECT ? O_DIRECT : 0;
    *f = (struct stk_file){.number = (uint32_t)number, .plain_fd = -1};
    unsigned level = split(files, &number);
    f->fd = level ? open_copy(files, number, level, &flags, &sx, &f->growing, err)
                  : open_source(files, number, &flags, &sx, err);
    if (f->fd < 0)
        return f->fd;
    f->size = sx.stx_size;
    f->stamp = stamp_of(&sx);
    f->stamp.ctime_ns = level && !f->growing ? ctime_of(&sx) : 0;
    f->owner = sx.stx_uid;
    f->mode = sx.stx_mode;
    if (mode == STK_FILE_PLAIN)
        return 0;
    f->align = flags ? direct_align(f->fd, &sx) : 0;
    /* With O_NONBLOCK, io_uring of some kernels returns EAGAIN for uncached data. */
    (void)fcntl(f->fd, F_SETFL, f->align ? O_DIRECT : 0);
    /* The kernel would guess the next read from the requests of many threads, and guess wrong: ten
     * times slower at worst. The plan knows, so each request is read as is. */
    if (!f->align)
        (void)posix_fadvise(f->fd, 0, 0, POSIX_FADV_RANDOM);
    return 0;
}

bool stk_file_seeable(const struct stk_file *f)
{
    uid_t me = geteuid();
    return me == 0 || me == f->owner;
}

/* Status of the file that the name leads to now. */
static bool look_now(const struct stk_files *files, uint64_t number, struct stk_files_entry *e,
                     struct statx *sx)
{
    char name[PATH_MAX];
    return entry_of(files, number, e, name, NULL) == 0 && look_by_name(files, name, sx, NULL) == 0;
}

struct looking {
    const struct stk_files *files;
    int64_t ns;
    _Atomic bool changed;
};

static int look_at_one(void *user, uint64_t item, unsigned thread, struct stk_err *err)
{
    struct looking *l = user;
    struct stk_files_entry e;
    struct statx sx;
    (void)thread, (void)err;
    if (l->changed || !look_now(l->files, item, &e, &sx))
        return 0;
    if ((l->ns && ctime_of(&sx) > l->ns) ||
        (l->files->in_place && e.inode && e.inode != stk_inode_fold(sx.stx_ino)))
        l->changed = true;
    return 0;
}

/* Many at once: each of them takes a round trip. */
bool stk_files_changed_since(const struct stk_files *files, int64_t ns)
{
    struct looking l = {.files = files, .ns = ns};
    uint64_t n = files->count < STK_FILES_LOOK ? files->count : STK_FILES_LOOK;
    if ((ns || files->in_place) && n)
        (void)stk_pool_run(stk_files_are_local(files) ? 1 : LOOKERS, n, look_at_one, &l, NULL);
    return l.changed;
}

struct latest {
    const struct stk_files *files;
    _Atomic uint64_t ns;
};

static int look_for_latest(void *user, uint64_t item, unsigned thread, struct stk_err *err)
{
    struct latest *l = user;
    struct stk_files_entry e;
    struct statx sx;
    char name[PATH_MAX];
    (void)thread;
    int rc = entry_of(l->files, item, &e, name, err);
    if (rc == 0)
        rc = look_by_name(l->files, name, &sx, err);
    if (rc < 0) {
        stk_files_blame(l->files, item, err);
        return rc;
    }
    uint64_t now = (uint64_t)ctime_of(&sx), before = l->ns;
    while (before < now && !atomic_compare_exchange_weak(&l->ns, &before, now))
        ;
    return 0;
}

int stk_files_latest(const struct stk_files *files, uint64_t *ns, struct stk_err *err)
{
    struct latest l = {.files = files};
    unsigned jobs = stk_files_are_local(files) ? 1 : LOOKERS;
    int rc = files->count ? stk_pool_run(jobs, files->count, look_for_latest, &l, err) : 0;
    *ns = l.ns;
    return rc;
}

/* An access control list that lets others write shows in the group bits. */
static bool is_ours(uid_t owner, unsigned mode)
{
    return (owner == geteuid() || owner == 0) && !(mode & (S_IWGRP | S_IWOTH));
}

bool stk_file_is_ours(const struct stk_file *f)
{
    return is_ours(f->owner, f->mode);
}

bool stk_files_are_ours(const struct stk_files *files)
{
    bool ours = true;
    for (uint64_t i = 0; ours && i < files->count; i++) {
        struct stk_files_entry e;
        struct statx sx; /* a copy is in a folder of ours */
        ours = stk_files_route_whole(files, i) != i ||
               (look_now(files, i, &e, &sx) && is_ours(sx.stx_uid, sx.stx_mode));
    }
    return ours;
}

bool stk_file_changed(const struct stk_files *files, uint64_t number, int fd,
                      const struct stk_file_stamp *was)
{
    struct stk_files_entry e;
    struct statx sx;
    if (fd >= 0 && look_at(fd, 0, &sx, NULL) < 0)
        return true; /* no longer accessible: a server that is gone */
    if (fd < 0 && !look_now(files, number, &e, &sx))
        return false;
    struct stk_file_stamp now = stamp_of(&sx);
    if (fd < 0 && (now.device != was->device || now.inode != was->inode))
        return false;
    /* Removing a name sets the ctime and leaves the bytes. */
    bool touched = was->ctime_ns && sx.stx_nlink && ctime_of(&sx) != was->ctime_ns;
    return now.size != was->size || now.mtime_ns != was->mtime_ns || touched;
}

void stk_file_close(struct stk_file *f)
{
    if (f->fd >= 0)
        close(f->fd);
    if (f->plain_fd >= 0)
        close(f->plain_fd);
    f->fd = f->plain_fd = -1;
}

/* Not by name, which may belong to another file by now. */
int stk_file_open_plain(const struct stk_file *f, struct stk_err *err)
{
    char self[40];
    snprintf(self, sizeof self, "/proc/self/fd/%d", f->fd);
    int fd = open(self, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? stk_err_sys(err, NULL, "open") : fd;
}
