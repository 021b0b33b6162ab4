/*
 * io_files.c - the files requests read: opened and checked against the index by threads, kept open
 * while they are used, closed by age. And what is the same for every engine about one request:
 * which bytes to ask for, and what a short or failed read means.
 */
#include "data/io_priv.h"
#include "data/fetch.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define SHORTER   "the file became shorter"
#define MIN_ALIGN 512u  /* smaller is no use */
#define TRIES_MAX 1000u /* EAGAIN in a row before it is an error */

/* ---- one request ---- */

void stk_io_fail(const struct stk_dataset *ds, struct stk_io_req *req, const struct stk_err *why)
{
    req->code = why->code;
    req->why = malloc(sizeof *req->why);
    if (!req->why)
        return;
    *req->why = *why;
    if (!why->path[0]) {
        char *path = stk_fetch_path(ds, req->file);
        stk_err_set(req->why, why->code, path, why->offset, "%s", why->what);
        req->why->sys_errno = why->sys_errno;
        free(path);
    }
}

static void fail_at(const struct stk_dataset *ds, struct stk_io_req *req, int code, uint64_t off,
                    const char *what)
{
    struct stk_err why = {0};
    stk_err_set(&why, code, NULL, (int64_t)off, "%s", what);
    stk_io_fail(ds, req, &why);
}

static void fail_sys(const struct stk_dataset *ds, struct stk_io_req *req, int error)
{
    struct stk_err why = {0};
    errno = error;
    stk_err_sys(&why, NULL, "read");
    why.offset = (int64_t)(req->at + req->got);
    stk_io_fail(ds, req, &why);
}

bool stk_io_begin(const struct stk_dataset *ds, struct stk_io_req *req)
{
    const struct stk_io_file *f = req->held;
    req->at = req->off;
    req->want = req->len;
    if (req->off > f->size || req->len > f->size - req->off) {
        fail_at(ds, req, STK_E_CORRUPT, req->off, "a read past the end of the file");
        return false;
    }
    if (f->map) {
        req->data = f->map + req->off;
        return true;
    }
    req->buffered = f->align && atomic_load_explicit(&f->refuses, memory_order_relaxed);
    if (f->align) {
        uint64_t mask = f->align - 1;
        req->at = req->off & ~mask;
        req->want = (size_t)(((req->off + req->len + mask) & ~mask) - req->at);
    }
    req->data = (const uint8_t *)req->buf + (req->off - req->at);
    return true;
}

/* Of a file that shrank on another machine the page cache may give zeros: the kernel learns of the
 * new end while it reads. It knows now. */
static void check_end(const struct stk_dataset *ds, struct stk_io_req *req)
{
    struct stat sb;
    int fd = req->buffered ? req->held->plain_fd : req->held->fd;
    if (fstat(fd, &sb) == 0 && (uint64_t)sb.st_size < req->off + req->len)
        fail_at(ds, req, STK_E_STALE, (uint64_t)sb.st_size, SHORTER);
}

enum stk_io_step stk_io_step(const struct stk_dataset *ds, struct stk_io_req *req, ssize_t result)
{
    bool direct = req->held->align && !req->buffered;
    if (result < 0) {
        int error = (int)-result;
        if (error == EINTR || (error == EAGAIN && ++req->tries < TRIES_MAX))
            return STK_STEP_AGAIN;
        if (direct && (error == EINVAL || error == EOPNOTSUPP)) {
            atomic_store_explicit(&req->held->refuses, true, memory_order_relaxed);
            req->buffered = true;
            return STK_STEP_PLAIN;
        }
        fail_sys(ds, req, error);
        return STK_STEP_DONE;
    }
    req->tries = 0;
    req->got += (size_t)result;
    /* A direct read rounded out past the end comes back short: what counts is what was asked for.
     */
    if (req->got >= (size_t)(req->off - req->at) + req->len) {
        if (!direct)
            check_end(ds, req);
        return STK_STEP_DONE;
    }
    if (result == 0) {
        fail_at(ds, req, STK_E_STALE, req->at + req->got, SHORTER);
        return STK_STEP_DONE;
    }
    if (direct && req->got % req->held->align) {
        req->buffered = true;
        return STK_STEP_PLAIN;
    }
    return STK_STEP_AGAIN;
}

/* ---- opening ---- */

/* The smallest unit of direct reads on a device, where nobody says: its logical block size. */
static uint32_t block_size(unsigned major_no, unsigned minor_no)
{
    static const char *const places[] = {"/sys/dev/block/%u:%u/queue/logical_block_size",
                                         "/sys/dev/block/%u:%u/../queue/logical_block_size"};
    uint32_t size = 0;
    for (size_t i = 0; i < 2 && !size; i++) {
        char path[96], text[16] = "";
        snprintf(path, sizeof path, i ? places[1] : places[0], major_no, minor_no);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
            continue;
        if (read(fd, text, sizeof text - 1) > 0)
            size = (uint32_t)strtoul(text, NULL, 10);
        close(fd);
    }
    return size == MIN_ALIGN ? MIN_ALIGN : STK_IO_ALIGN;
}

static uint32_t cached_block_size(struct stk_io_files *files, const struct statx *sx)
{
    uint64_t device = (uint64_t)sx->stx_dev_major << 40 | (uint64_t)sx->stx_dev_minor << 16;
    uint64_t known = atomic_load_explicit(&files->device, memory_order_relaxed);
    if (known >> 16 == device >> 16)
        return (uint32_t)(known & 0xffff);
    uint32_t size = block_size(sx->stx_dev_major, sx->stx_dev_minor);
    atomic_store_explicit(&files->device, device | size, memory_order_relaxed);
    return size;
}

/* Direct reads of this file must be multiples of this; 0: they cannot be had. */
static uint32_t direct_align(struct stk_io_files *files, const struct statx *sx)
{
#ifdef STATX_DIOALIGN
    if (sx->stx_mask & STATX_DIOALIGN) {
        uint32_t a = sx->stx_dio_offset_align;
        bool fits = a && a <= STK_IO_ALIGN && sx->stx_dio_mem_align <= STK_IO_ALIGN;
        if (!fits || (a & (a - 1)))
            return 0;
        return a < MIN_ALIGN ? MIN_ALIGN : a;
    }
#endif
    if (files->any_offset)
        return MIN_ALIGN;
    /* Of the others only files of a block device can do with less than a page. */
    return sx->stx_dev_major ? cached_block_size(files, sx) : STK_IO_ALIGN;
}

static int look_at(int fd, struct statx *sx, struct stk_err *err)
{
    unsigned mask = STATX_TYPE | STATX_SIZE | STATX_MTIME | STATX_INO | STATX_UID;
#ifdef STATX_DIOALIGN
    mask |= STATX_DIOALIGN;
#endif
    if (statx(fd, "", AT_EMPTY_PATH, mask, sx) < 0)
        return stk_err_sys(err, NULL, "stat");
    return 0;
}

/* The same as the reader asks of a file, in the same words. */
static int check_unchanged(const struct statx *sx, const struct stk_index_file *indexed,
                           struct stk_err *err)
{
    int64_t mtime = (int64_t)sx->stx_mtime.tv_sec * 1000000000 + sx->stx_mtime.tv_nsec;
    if (!S_ISREG(sx->stx_mode))
        return stk_err_set(err, STK_E_STALE, NULL, -1, "not a regular file");
    if (sx->stx_size != indexed->size || (indexed->mtime_ns && mtime != indexed->mtime_ns))
        return stk_err_set(err, STK_E_STALE, NULL, -1,
                           "the file changed since it was indexed; run again");
    return 0;
}

/* flags: O_DIRECT or 0. Returns a descriptor, or negative. */
static int open_checked(struct stk_io_files *files, uint32_t number, int *flags, struct statx *sx,
                        struct stk_err *err)
{
    const struct stk_index_file *indexed;
    const char *name;
    char buf[PATH_MAX];
    int rc = stk_index_file(&files->ds->index, number, &indexed, &name, err);
    if (rc < 0)
        return rc;
    if (indexed->name_len >= sizeof buf)
        return stk_err_set(err, STK_E_CORRUPT, NULL, -1, "a file's name is too long");
    memcpy(buf, name, indexed->name_len);
    buf[indexed->name_len] = '\0';
    int base = O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK; /* a FIFO must not hold us up */
    int fd = openat(files->ds->rootfd, buf, base | *flags);
    if (fd < 0 && errno == EINVAL && *flags) {
        *flags = 0; /* a file system without direct reads */
        fd = openat(files->ds->rootfd, buf, base);
    }
    atomic_fetch_add_explicit(&files->opens, 1, memory_order_relaxed);
    if (fd < 0)
        return stk_err_sys(err, NULL, "open");
    rc = look_at(fd, sx, err);
    if (rc == 0)
        rc = check_unchanged(sx, indexed, err);
    if (rc < 0)
        close(fd);
    return rc < 0 ? rc : fd;
}

/* What of it is in memory mincore() tells the owner only; to others the file itself does, if it is
 * kept open. */
static void prepare_looking(struct stk_io_file *f, const struct statx *sx)
{
    uid_t me = geteuid();
    f->seeable = me == 0 || me == sx->stx_uid;
    if (!f->seeable && f->fd < (int)stk_io_files_limit()) {
        (void)posix_fadvise(f->fd, 0, 0, POSIX_FADV_RANDOM); /* looking brings nothing in */
        return;
    }
    close(f->fd); /* the mapping keeps the file */
    f->fd = -1;
}

static int map_file(struct stk_io_files *files, struct stk_io_file *f, const struct statx *sx,
                    struct stk_err *err)
{
    if (f->size == 0)
        return 0;
    void *p = f->size <= SIZE_MAX ? mmap(NULL, (size_t)f->size, PROT_READ, MAP_SHARED, f->fd, 0)
                                  : MAP_FAILED;
    if (p == MAP_FAILED)
        return stk_err_sys(err, NULL, "mmap");
    if (files->random)
        (void)madvise(p, (size_t)f->size, MADV_RANDOM);
    f->map = p;
    stk_guard_add(files->guard + (int)f->number, p, (size_t)f->size);
    prepare_looking(f, sx);
    return 0;
}

int stk_io_file_open(struct stk_io_files *files, struct stk_io_file *f, struct stk_err *err)
{
    struct statx sx;
    int flags = files->direct ? O_DIRECT : 0;
    f->plain_fd = -1;
    f->fd = open_checked(files, f->number, &flags, &sx, err);
    if (f->fd < 0)
        return f->fd;
    f->size = sx.stx_size;
    f->align = flags ? direct_align(files, &sx) : 0;
    /* O_NONBLOCK makes some kernels' io_uring give EAGAIN for what is not cached. */
    (void)fcntl(f->fd, F_SETFL, f->align ? O_DIRECT : 0);
    if (files->map) {
        int rc = map_file(files, f, &sx, err);
        if (rc < 0)
            stk_io_file_close(f);
        return rc;
    }
    /* The kernel would guess at what comes next from the requests of many threads, and go wrong:
     * ten times slower at worst. The plan knows; so each request is read as it is. */
    if (!f->align)
        (void)posix_fadvise(f->fd, 0, 0, POSIX_FADV_RANDOM);
    return 0;
}

void stk_io_file_close(struct stk_io_file *f)
{
    if (f->map)
        (void)munmap((void *)(uintptr_t)f->map, (size_t)f->size);
    if (f->fd >= 0)
        close(f->fd);
    if (f->plain_fd >= 0)
        close(f->plain_fd);
    f->map = NULL;
    f->fd = f->plain_fd = -1;
}

int stk_io_file_plain(struct stk_io_files *files, struct stk_io_file *f, struct stk_err *err)
{
    if (!f->align)
        return f->fd;
    pthread_mutex_lock(&files->lock);
    int fd = f->plain_fd;
    pthread_mutex_unlock(&files->lock);
    if (fd >= 0)
        return fd;
    struct statx now, then;
    int flags = 0, rc = look_at(f->fd, &then, err);
    fd = rc < 0 ? rc : open_checked(files, f->number, &flags, &now, err);
    if (fd < 0)
        return fd;
    if (now.stx_ino != then.stx_ino) {
        close(fd);
        return stk_err_set(err, STK_E_STALE, NULL, -1,
                           "the file changed since it was indexed; run again");
    }
    pthread_mutex_lock(&files->lock);
    if (f->plain_fd < 0) {
        f->plain_fd = fd;
    } else { /* another request was faster */
        close(fd);
        fd = f->plain_fd;
    }
    pthread_mutex_unlock(&files->lock);
    return fd;
}
