/*
 * request.c - the part of a request that all engines share: getting its file, computing the range
 * to ask for, and handling a short or failed read.
 */
#include "io/priv.h"
#include "base/file.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#define SHORTER   "the file became shorter"
#define TRIES_MAX 1000u /* EAGAIN in a row before it is an error */

/* ---- one request ---- */

void stk_io_fail(const struct stk_files *files, struct stk_io_req *req, const struct stk_err *why)
{
    req->code = why->code;
    req->why = malloc(sizeof *req->why);
    if (!req->why)
        return;
    *req->why = *why;
    stk_files_blame(files, req->from, req->why);
}

static void fail_at(const struct stk_files *files, struct stk_io_req *req, int code, uint64_t off,
                    const char *what)
{
    struct stk_err why = {0};
    stk_err_set(&why, code, NULL, (int64_t)off, "%s", what);
    stk_io_fail(files, req, &why);
}

static void fail_sys(const struct stk_files *files, struct stk_io_req *req, int error)
{
    struct stk_err why = {0};
    errno = error;
    stk_err_sys(&why, NULL, "read");
    why.offset = (int64_t)(req->at + req->got);
    stk_io_fail(files, req, &why);
}

bool stk_io_begin(const struct stk_files *files, struct stk_io_req *req)
{
    const struct stk_file *f = req->held;
    uint64_t size = req->map ? req->map->size : f->size;
    req->at = req->off;
    req->want = req->len;
    if (req->off > size || req->len > size - req->off) {
        fail_at(files, req, STK_E_CORRUPT, req->off, "a read past the end of the file");
        return false;
    }
    if (req->map) {
        req->data = req->map->p + req->off;
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

static int64_t ns_of(struct timespec t)
{
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* If a file shrank on another machine, the page cache may return zeros: the kernel learns of the
 * new end while it reads, so it knows now. */
static void check_end(const struct stk_files *files, struct stk_io_req *req)
{
    struct stat sb;
    const struct stk_file *f = req->held;
    if (fstat(req->buffered ? f->plain_fd : f->fd, &sb) < 0)
        return;
    if ((uint64_t)sb.st_size < req->off + req->len)
        fail_at(files, req, STK_E_STALE, (uint64_t)sb.st_size, SHORTER);
    if (!f->growing)
        req->changed = (uint64_t)sb.st_size != f->stamp.size ||
                       ns_of(sb.st_mtim) != f->stamp.mtime_ns ||
                       (f->stamp.ctime_ns && ns_of(sb.st_ctim) != f->stamp.ctime_ns);
}

enum stk_io_step stk_io_step(const struct stk_files *files, struct stk_io_req *req, ssize_t result)
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
        fail_sys(files, req, error);
        return STK_STEP_DONE;
    }
    req->tries = 0;
    req->got += (size_t)result;
    /* A direct read extended past the end comes back short: only the requested bytes count. */
    if (req->got >= (size_t)(req->off - req->at) + req->len) {
        if (!direct || req->watch)
            check_end(files, req);
        return STK_STEP_DONE;
    }
    if (result == 0) {
        fail_at(files, req, STK_E_STALE, req->at + req->got, SHORTER);
        return STK_STEP_DONE;
    }
    if (direct && req->got % req->held->align) {
        req->buffered = true;
        return STK_STEP_PLAIN;
    }
    return STK_STEP_AGAIN;
}

/* ---- bytes that are examined while they are in the cache ---- */

void stk_io_arrived(struct stk_io_req *req)
{
    size_t lead = (size_t)(req->off - req->at), n = req->got > lead ? req->got - lead : 0;
    if (req->arrived && n && !req->code)
        req->arrived(req, n < req->len ? n : req->len);
}

bool stk_io_read_cached(struct stk_io *io, struct stk_io_req *req)
{
    enum stk_io_step step = STK_STEP_AGAIN;
    if (!req->arrived || req->held->align ||
        atomic_load_explicit(&io->always_waits, memory_order_relaxed))
        return false;
    while (step == STK_STEP_AGAIN) {
        size_t ask = req->want - req->got;
        ssize_t n = stk_pread_nowait(req->held->fd, (uint8_t *)req->buf + req->got,
                                     ask < STK_IO_HOT ? ask : STK_IO_HOT, req->at + req->got);
        if (n < 0 && errno == EOPNOTSUPP) /* FUSE, a tmpfs */
            atomic_store_explicit(&io->always_waits, true, memory_order_relaxed);
        if (n <= 0)
            return false;
        stk_io_count_read(io, n);
        step = stk_io_step(io->files, req, n);
        stk_io_arrived(req);
    }
    return true;
}

/* ---- its file ---- */

/* The request for which this one's file is being opened; with the lock held. */
static struct stk_io_req *opener_of(struct stk_io *io, const struct stk_io_req *req)
{
    struct stk_io_req *o = io->opening;
    while (o && o->from != req->from)
        o = o->opening;
    return o;
}

static void wait_for(struct stk_io_req *opener, struct stk_io_req *req)
{
    req->next = NULL;
    *(opener->waits ? &opener->last->next : &opener->waits) = req;
    opener->last = req;
}

/* True if the file is open already; then holds it. */
static bool hold(struct stk_io *io, struct stk_io_req *req)
{
    if (!io->map)
        return (req->held = stk_handles_find(&io->handles, req->from)) != NULL;
    struct stk_io_map *map = req->file < io->files->count ? &io->map[req->file] : NULL;
    bool mapped = map && atomic_load_explicit(&map->ready, memory_order_acquire);
    req->map = mapped ? map : NULL;
    return mapped;
}

enum stk_io_got stk_io_get_file(struct stk_io *io, struct stk_io_req *req)
{
    if (hold(io, req))
        return STK_GOT_FILE;
    pthread_mutex_lock(&io->open_lock);
    struct stk_io_req *opener = opener_of(io, req);
    if (opener) {
        wait_for(opener, req);
    } else {
        req->waits = NULL;
        req->opening = io->opening;
        io->opening = req;
    }
    pthread_mutex_unlock(&io->open_lock);
    return opener ? STK_GOT_WAIT : STK_GOT_TO_OPEN;
}

/* From here on, requests for its file do not wait. */
static void take_waiting(struct stk_io *io, struct stk_io_req *req, struct stk_io_list *waited)
{
    pthread_mutex_lock(&io->open_lock);
    struct stk_io_req **p = &io->opening;
    while (*p && *p != req)
        p = &(*p)->opening;
    if (*p)
        *p = req->opening;
    struct stk_io_list waits = {.first = req->waits, .last = req->last};
    pthread_mutex_unlock(&io->open_lock);
    stk_io_push(waited, req);
    stk_io_append(waited, &waits);
}

void stk_io_open_file(struct stk_io *io, struct stk_io_req *req, struct stk_io_list *waited)
{
    struct stk_err why = {0};
    struct stk_file *f = NULL; /* held until all waiting requests hold it */
    int rc = io->map ? stk_io_map_file(io, req->file, &why)
                     : stk_handles_get(&io->handles, req->from, &f, &why);
    take_waiting(io, req, waited);
    for (req = waited->first; req; req = req->next)
        if (rc < 0)
            stk_io_fail(io->files, req, &why);
        else
            (void)hold(io, req);
    if (f)
        stk_handles_put(&io->handles, f);
}

void stk_io_put_file(struct stk_io *io, struct stk_io_req *req)
{
    if (req->held)
        stk_handles_put(&io->handles, req->held);
    req->held = NULL;
}
