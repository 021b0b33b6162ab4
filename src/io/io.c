/*
 * io.c - the front end of the engines: counts requests, collects results from threads, keeps
 * statistics. It moves no bytes itself.
 */
#include "io/priv.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define DEPTH_MAX  1024u
#define SMALL_FILE (1u << 20) /* files below this are read whole, or nearly */

uint64_t stk_io_now_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* ---- opening ---- */

/* For a folder of small files neither io_uring nor keeping files open helps. */
static bool many_small_files(const struct stk_files *files)
{
    return files->count > stk_handles_limit() && files->bytes / files->count < SMALL_FILE;
}

static int open_parts(struct stk_io *io, const struct stk_io_config *cfg, struct stk_err *err)
{
    enum stk_io_kind kind = cfg->kind;
    stk_io_probe(io->files, cfg, &io->choice);
    if (kind == STK_IO_AUTO)
        kind = io->choice.kind;
    io->depth = cfg->depth            ? cfg->depth
                : io->choice.network ? STK_IO_DEPTH_NETWORK
                                     : STK_IO_DEPTH;
    io->depth = io->depth > DEPTH_MAX ? DEPTH_MAX : io->depth;
    io->most_bytes = cfg->depth || !cfg->bytes ? UINT64_MAX : cfg->bytes;
    io->once = many_small_files(io->files);
    io->random = cfg->random;
    io->watch = cfg->watch && !io->choice.network; /* on a network it may cost a round trip */
    int rc = stk_io_pool_init(&io->pool, io->depth, err);
    if (rc == 0)
        rc = stk_io_take_engine(io, kind, err);
    if (rc < 0)
        return rc;
    enum stk_file_mode mode = kind == STK_IO_DIRECT ? STK_FILE_DIRECT : STK_FILE_SCATTERED;
    return stk_handles_init(&io->handles, io->files, mode, stk_handles_limit(), err);
}

int stk_io_open(const struct stk_files *files, const struct stk_io_config *cfg, struct stk_io **out,
                struct stk_err *err)
{
    struct stk_io *io = calloc(1, sizeof *io);
    if (!io)
        return stk_err_nomem(err, sizeof *io);
    io->files = files;
    io->pid = getpid();
    io->guard = -1;
    pthread_mutex_init(&io->open_lock, NULL);
    pthread_mutex_init(&io->post_lock, NULL);
    pthread_cond_init(&io->post_cond, NULL);
    int rc = open_parts(io, cfg, err);
    if (rc < 0) {
        stk_io_close(io);
        return rc;
    }
    *out = io;
    return 0;
}

static void drop_errors(struct stk_io_list *l)
{
    for (struct stk_io_req *req; (req = stk_io_pop(l));) {
        free(req->why);
        req->why = NULL;
    }
}

void stk_io_stop(struct stk_io *io)
{
    if (io->stopped)
        return;
    io->stopped = true;
    if (io->pid != getpid())
        return; /* a child after fork(): threads and requests belong to the parent */
    if (io->pool.thread)
        stk_io_pool_stop(&io->pool);
    if (io->ops && io->ops->stop)
        io->ops->stop(io);
    drop_errors(&io->done);
    drop_errors(&io->post_done);
    io->jobs.first = io->post_ready.first = io->opening = NULL;
    io->inflight = io->unfinished = 0;
}

void stk_io_close(struct stk_io *io)
{
    if (!io)
        return;
    stk_io_stop(io);
    stk_handles_release(&io->handles);
    if (io->ops && io->ops->close)
        io->ops->close(io);
    if (io->pid == getpid()) { /* destroying them would wait for threads that a child lacks */
        stk_io_pool_release(&io->pool);
        pthread_cond_destroy(&io->post_cond);
        pthread_mutex_destroy(&io->post_lock);
        pthread_mutex_destroy(&io->open_lock);
    }
    free(io);
}

/* ---- properties ---- */

const char *stk_io_name(const struct stk_io *io)
{
    return io->name;
}

const char *stk_io_detail(const struct stk_io *io)
{
    return io->detail;
}

const char *stk_io_reason(const struct stk_io *io)
{
    return io->choice.reason;
}

bool stk_io_maps(const struct stk_io *io)
{
    return io->map != NULL;
}

unsigned stk_io_depth(const struct stk_io *io)
{
    return io->depth;
}

unsigned stk_io_free_slots(const struct stk_io *io)
{
    if (io->inflight >= io->depth || (io->inflight && io->inflight_bytes >= io->most_bytes))
        return 0;
    return io->depth - io->inflight;
}

int stk_io_register(struct stk_io *io, void *p, size_t size)
{
    return io->ops->add_memory ? io->ops->add_memory(io, p, size) : -1;
}

void stk_io_unregister(struct stk_io *io, int segment)
{
    if (segment >= 0 && io->ops->drop_memory)
        io->ops->drop_memory(io, segment);
}

bool stk_io_intact(struct stk_io *io, uint32_t file, uint64_t off, uint64_t len)
{
    if (!io->map || file >= io->files->count)
        return true;
    return !atomic_load_explicit(&io->map[file].changed, memory_order_relaxed) &&
           off + len <= stk_guard_damage(io->guard + (int)file);
}

/* ---- requests ---- */

void stk_io_job(struct stk_io *io, struct stk_io_req *req, enum stk_io_job job)
{
    req->job = (uint8_t)job;
    stk_io_push(&io->jobs, req);
    io->njobs++;
}

void stk_io_flush_jobs(struct stk_io *io)
{
    if (!io->jobs.first)
        return;
    struct stk_io_list jobs = {0};
    unsigned n = io->njobs;
    stk_io_append(&jobs, &io->jobs);
    io->njobs = 0;
    stk_io_pool_add(io, &jobs, n);
}

/* Only the owner writes these counters; others read them. */
static void add(_Atomic uint64_t *counter, uint64_t n)
{
    uint64_t v = atomic_load_explicit(counter, memory_order_relaxed);
    atomic_store_explicit(counter, v + n, memory_order_relaxed);
}

void stk_io_count_read(struct stk_io *io, ssize_t n)
{
    atomic_fetch_add_explicit(&io->reads, 1, memory_order_relaxed);
    if (n > 0)
        atomic_fetch_add_explicit(&io->bytes_read, (uint64_t)n, memory_order_relaxed);
}

static void set_up(const struct stk_io *io, struct stk_io_req *req)
{
    req->code = 0;
    req->why = NULL;
    req->data = NULL;
    req->held = NULL;
    req->map = NULL;
    req->got = 0;
    req->tries = 0;
    req->buffered = req->changed = false;
    req->watch = io->watch;
    req->completed_ns = 0;
}

static bool fetches(const struct stk_files_overlay *o)
{
    return o->fetch && !atomic_load_explicit(&o->full, memory_order_relaxed);
}

/* A copy that cannot be read, or was changed, is not used any more. One of the threads reads the
 * source instead: rare, so it need not be fast. */
static bool read_source_instead(struct stk_io *io, struct stk_io_req *req)
{
    const struct stk_files_overlay *o = io->files->overlay;
    if (req->from == req->file || (req->code == 0 && !req->changed))
        return false;
    o->refuse(o, req->file, stk_files_level(io->files, req->from));
    atomic_fetch_add_explicit(&io->refused, 1, memory_order_relaxed);
    stk_io_put_file(io, req);
    free(req->why);
    set_up(io, req);
    req->from = req->file;
    if (req->arrived)
        req->arrived(req, 0);
    stk_io_job(io, req, fetches(o) ? STK_JOB_FETCH : STK_JOB_ONCE);
    stk_io_flush_jobs(io); /* the owner may be about to wait */
    return true;
}

static void count_level(struct stk_io *io, const struct stk_io_req *req)
{
    unsigned level = req->map ? req->map->level : stk_files_level(io->files, req->from);
    if (req->code == 0 && level <= STK_FILES_LEVELS)
        add(&io->level_bytes[level], req->len);
}

/* The sum of the latencies is the integral of the requests in flight over time. */
void stk_io_finished(struct stk_io *io, struct stk_io_req *req)
{
    if (read_source_instead(io, req))
        return;
    count_level(io, req);
    stk_io_put_file(io, req);
    if (!req->completed_ns)
        req->completed_ns = stk_io_now_ns();
    if (req->completed_ns > io->last_completed_ns)
        io->last_completed_ns = req->completed_ns;
    add(&io->latency_ns, req->completed_ns - req->submitted_ns);
    if (--io->unfinished == 0) {
        add(&io->busy_ns, io->last_completed_ns - io->busy_since_ns);
        atomic_store_explicit(&io->busy_since_ns, 0, memory_order_relaxed);
    }
    stk_io_push(&io->done, req);
}

static void start_request(struct stk_io *io, struct stk_io_req *req)
{
    if (stk_io_begin(io->files, req))
        io->ops->start(io, req);
    else
        stk_io_finished(io, req);
}

/* Where to read it from. A mapped file is routed as a whole, when it is mapped. False: the overlay
 * reads it. */
static bool route(const struct stk_io *io, struct stk_io_req *req)
{
    const struct stk_files_overlay *o = io->files->overlay;
    bool ask = o && !io->map && req->file < io->files->count;
    req->from =
        ask ? (uint32_t)stk_files_route(io->files, req->file, req->off, req->len) : req->file;
    return !ask || !fetches(o) || req->from != req->file;
}

void stk_io_submit(struct stk_io *io, struct stk_io_req *req)
{
    set_up(io, req);
    req->submitted_ns = stk_io_now_ns();
    io->inflight++;
    io->inflight_bytes += req->len;
    if (io->unfinished++ == 0)
        atomic_store_explicit(&io->busy_since_ns, req->submitted_ns, memory_order_relaxed);
    bool reads = route(io, req);
    if (io->once || !reads) {
        stk_io_job(io, req, reads ? STK_JOB_ONCE : STK_JOB_FETCH);
        return;
    }
    switch (stk_io_get_file(io, req)) {
    case STK_GOT_FILE:
        start_request(io, req);
        break;
    case STK_GOT_TO_OPEN:
        stk_io_job(io, req, STK_JOB_OPEN);
        break;
    case STK_GOT_WAIT:
        break;
    }
}

size_t stk_io_reap(struct stk_io *io, struct stk_io_req **done, size_t max, bool wait)
{
    for (;;) {
        io->ops->poll(io, wait && !io->done.first);
        if (!wait || io->done.first || atomic_load(&io->woken))
            break;
    }
    if (wait)
        atomic_store(&io->woken, false);
    size_t n = 0;
    while (n < max && io->done.first) {
        done[n] = stk_io_pop(&io->done);
        io->inflight_bytes -= done[n++]->len;
    }
    io->inflight -= (unsigned)n;
    return n;
}

void stk_io_wake(struct stk_io *io)
{
    if (!atomic_exchange(&io->woken, true))
        io->ops->notify(io);
}

/* ---- results from threads ---- */

void stk_io_post(struct stk_io *io, struct stk_io_list *done, struct stk_io_list *ready)
{
    pthread_mutex_lock(&io->post_lock);
    stk_io_append(&io->post_done, done);
    if (ready)
        stk_io_append(&io->post_ready, ready);
    atomic_store(&io->posted, true);
    pthread_mutex_unlock(&io->post_lock);
    io->ops->notify(io);
}

void stk_io_take_posted(struct stk_io *io)
{
    if (!atomic_exchange(&io->posted, false))
        return;
    struct stk_io_list done = {0}, ready = {0};
    pthread_mutex_lock(&io->post_lock);
    stk_io_append(&done, &io->post_done);
    stk_io_append(&ready, &io->post_ready);
    pthread_mutex_unlock(&io->post_lock);
    for (struct stk_io_req *req; (req = stk_io_pop(&done));)
        stk_io_finished(io, req);
    for (struct stk_io_req *req; (req = stk_io_pop(&ready));)
        start_request(io, req);
}

void stk_io_stats(struct stk_io *io, struct stk_io_stats *out)
{
    uint64_t busy = atomic_load_explicit(&io->busy_ns, memory_order_relaxed);
    uint64_t since = atomic_load_explicit(&io->busy_since_ns, memory_order_relaxed);
    uint64_t now = since ? stk_io_now_ns() : 0;
    *out = (struct stk_io_stats){
        .reads = atomic_load_explicit(&io->reads, memory_order_relaxed),
        .bytes_read = atomic_load_explicit(&io->bytes_read, memory_order_relaxed),
        .opens = atomic_load_explicit(&io->opens, memory_order_relaxed) +
                 atomic_load_explicit(&io->handles.opens, memory_order_relaxed),
        .depth_integral_s =
            (double)atomic_load_explicit(&io->latency_ns, memory_order_relaxed) * 1e-9,
        .busy_s = (double)(busy + (now > since ? now - since : 0)) * 1e-9,
        .refused = atomic_load_explicit(&io->refused, memory_order_relaxed),
    };
    for (unsigned i = 0; i <= STK_FILES_LEVELS; i++)
        out->level_bytes[i] = atomic_load_explicit(&io->level_bytes[i], memory_order_relaxed);
}
