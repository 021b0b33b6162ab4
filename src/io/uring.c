/*
 * uring.c - the engine whose owner submits reads to the kernel through one ring, direct or through
 * the page cache, into registered memory if possible. Threads open files, and finish reads that the
 * ring cannot finish.
 */
#include "base/mark.h"
#include "io/priv.h"

#define ABOUT                                                                                      \
    .kind = STK_IO_URING, .name = "uring", .title = "io_uring",                                    \
    .lacking = "io_uring cannot be used here", .caps = STK_IO_CAN_DIRECT

#ifdef STK_HAVE_URING

#include <errno.h>
#include <liburing.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define SEGMENT_MAX (1ull << 30) /* the kernel's limit for one piece of registered memory */
#define EXTRA       8u           /* entries for the wake-up and for cancelling */
#define EAGAINS     16u          /* after that, a thread reads it, waiting as long as it takes */

/* Memory is registered after its first use: by then it is resident, which takes most of the time,
 * and the first reads have not waited for it. */
enum segment_state { SEG_FREE, SEG_NEW, SEG_TO_ADD, SEG_ADDED, SEG_REFUSED, SEG_TO_DROP };

struct segment {
    enum segment_state state;
    uint8_t *p;
    size_t size;
};

struct uring {
    struct io_uring ring;
    bool can_register;
    bool armed;  /* a poll of wake_fd is in the ring */
    bool broken; /* the kernel refuses the ring: threads read the rest */
    int wake_fd;
    unsigned inside;            /* requests in the kernel */
    struct stk_io_list backlog; /* did not fit */

    pthread_mutex_t lock; /* segment */
    _Atomic bool changed; /* some must be added or dropped */
    struct segment segment[STK_IO_SEGMENTS];
};

/* ---- opening ---- */

/* Completions are processed when the owner asks for them, without interrupting it. The ring is not
 * bound to one thread (SINGLE_ISSUER, DEFER_TASKRUN): that gains nothing at our sizes, and the
 * thread that closes the ring must be able to wait for requests of a thread that has ended. */
static int make_ring(struct uring *u, unsigned entries)
{
    int rc = io_uring_queue_init(entries, &u->ring,
                                 IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG);
    return rc == -EINVAL ? io_uring_queue_init(entries, &u->ring, 0) : rc; /* before 5.19 */
}

static bool can_read(struct io_uring *ring)
{
    struct io_uring_probe *probe = io_uring_get_probe_ring(ring);
    bool can = probe && io_uring_opcode_supported(probe, IORING_OP_READ);
    io_uring_free_probe(probe);
    return can;
}

/* A sandbox may allow creating a ring and forbid using it: only a try tells. */
static int try_enter(struct io_uring *ring)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(ring);
    struct io_uring_cqe *cqe = NULL;
    int rc;
    io_uring_prep_nop(sqe);
    io_uring_sqe_set_data(sqe, NULL);
    do {
        rc = io_uring_submit_and_wait(ring, 1);
    } while (rc == -EINTR);
    if (rc >= 0)
        rc = io_uring_peek_cqe(ring, &cqe);
    if (cqe)
        io_uring_cqe_seen(ring, cqe);
    return rc;
}

static int uring_open(struct stk_io *io, struct stk_err *err)
{
    const char *no = getenv("STOKER_NO_URING");
    if (no && *no && strcmp(no, "0") != 0)
        return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1, "STOKER_NO_URING is set");
    struct uring *u = calloc(1, sizeof *u);
    if (!u)
        return stk_err_nomem(err, sizeof *u);
    u->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int rc = u->wake_fd < 0 ? -errno : make_ring(u, io->depth + EXTRA);
    if (rc == 0) {
        rc = can_read(&u->ring) ? try_enter(&u->ring) : -ENOSYS;
        if (rc < 0)
            io_uring_queue_exit(&u->ring);
    }
    if (rc < 0) {
        if (u->wake_fd >= 0)
            close(u->wake_fd);
        free(u);
        errno = -rc;
        return stk_err_sys(err, NULL, "io_uring");
    }
    /* Kernel workers read file systems that cannot read without waiting (FUSE, most network ones),
     * by default four per CPU: too few to hide a round trip. */
    unsigned workers[2] = {io->depth, 0};
    (void)io_uring_register_iowq_max_workers(&u->ring, workers);
    u->can_register = io_uring_register_buffers_sparse(&u->ring, STK_IO_SEGMENTS) == 0;
    pthread_mutex_init(&u->lock, NULL);
    io->engine = u;
    return 0;
}

static void uring_close(struct stk_io *io)
{
    struct uring *u = io->engine;
    if (!u)
        return;
    io_uring_queue_exit(&u->ring);
    close(u->wake_fd);
    pthread_mutex_destroy(&u->lock);
    free(u);
    io->engine = NULL;
}

/* ---- registered memory ---- */

static int uring_add_memory(struct stk_io *io, void *p, size_t size)
{
    struct uring *u = io->engine;
    if (!u->can_register || size > SEGMENT_MAX)
        return -1;
    int found = -1;
    pthread_mutex_lock(&u->lock);
    for (int i = 0; i < (int)STK_IO_SEGMENTS && found < 0; i++)
        if (u->segment[i].state == SEG_FREE)
            found = i;
    if (found >= 0)
        u->segment[found] = (struct segment){.state = SEG_NEW, .p = p, .size = size};
    pthread_mutex_unlock(&u->lock);
    return found;
}

static void uring_drop_memory(struct stk_io *io, int segment)
{
    struct uring *u = io->engine;
    struct segment *s = &u->segment[segment];
    pthread_mutex_lock(&u->lock);
    s->state = s->state == SEG_ADDED ? SEG_TO_DROP : SEG_FREE;
    atomic_store(&u->changed, true);
    pthread_mutex_unlock(&u->lock);
}

static bool tell_kernel(struct uring *u, int i, void *p, size_t size)
{
    struct iovec io = {.iov_base = p, .iov_len = size};
    __u64 tag = 0;
    return io_uring_register_buffers_update_tag(&u->ring, (unsigned)i, &io, &tag, 1) >= 0;
}

/* By the owner. Adds one at a time, so that completions do not wait for all of them. If refused
 * (RLIMIT_MEMLOCK), the memory is used unregistered. */
static void apply_segments(struct uring *u)
{
    if (!atomic_exchange(&u->changed, false))
        return;
    bool added = false;
    pthread_mutex_lock(&u->lock);
    for (int i = 0; i < (int)STK_IO_SEGMENTS; i++) {
        struct segment *s = &u->segment[i];
        if (s->state == SEG_TO_DROP) {
            (void)tell_kernel(u, i, NULL, 0);
            s->state = SEG_FREE;
        } else if (s->state == SEG_TO_ADD && added) {
            atomic_store(&u->changed, true);
        } else if (s->state == SEG_TO_ADD) {
            s->state = tell_kernel(u, i, s->p, s->size) ? SEG_ADDED : SEG_REFUSED;
            added = true;
        }
    }
    pthread_mutex_unlock(&u->lock);
}

static void segment_used(struct uring *u, int segment)
{
    if (segment < 0 || segment >= (int)STK_IO_SEGMENTS)
        return;
    pthread_mutex_lock(&u->lock);
    if (u->segment[segment].state == SEG_NEW) {
        u->segment[segment].state = SEG_TO_ADD;
        atomic_store(&u->changed, true);
    }
    pthread_mutex_unlock(&u->lock);
}

static bool is_registered(struct uring *u, const struct stk_io_req *req, const uint8_t *p, size_t n)
{
    if (req->segment < 0 || req->segment >= (int)STK_IO_SEGMENTS)
        return false;
    pthread_mutex_lock(&u->lock);
    const struct segment *s = &u->segment[req->segment];
    bool in = s->state == SEG_ADDED && p >= s->p && (size_t)(p - s->p) <= s->size &&
              n <= s->size - (size_t)(p - s->p);
    pthread_mutex_unlock(&u->lock);
    return in;
}

/* ---- reading ---- */

/* A profiler cannot see reads through a ring as calls: reports them. */
static void tell_profiler(const struct stk_io_req *req, int result)
{
    if (stk_profiled() && req->asked_ns)
        stk_mark_read(req->held->fd, (int64_t)(req->at + req->got), result, req->asked_ns,
                      stk_io_now_ns());
}

/* Queues it for the next submission. False: the ring is full. */
static bool queue_read(struct uring *u, struct stk_io_req *req)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(&u->ring);
    if (!sqe)
        return false;
    uint8_t *p = (uint8_t *)req->buf + req->got;
    size_t left = req->want - req->got;
    unsigned n = left > STK_IO_ASK_MAX ? STK_IO_ASK_MAX : (unsigned)left;
    uint64_t off = req->at + req->got;
    if (is_registered(u, req, p, n))
        io_uring_prep_read_fixed(sqe, req->held->fd, p, n, off, req->segment);
    else
        io_uring_prep_read(sqe, req->held->fd, p, n, off);
    io_uring_sqe_set_data(sqe, req);
    if (stk_profiled())
        req->asked_ns = stk_io_now_ns();
    u->inside++;
    return true;
}

static void uring_start(struct stk_io *io, struct stk_io_req *req)
{
    struct uring *u = io->engine;
    if (req->buffered || u->broken) {
        stk_io_job(io, req, STK_JOB_READ);
        return;
    }
    /* The kernel would copy data that is in memory in this thread, too, at submission. */
    if (stk_io_read_cached(io, req))
        stk_io_finished(io, req);
    else if (u->backlog.first || !queue_read(u, req))
        stk_io_push(&u->backlog, req);
}

static void take_wake_up(struct uring *u)
{
    uint64_t count;
    u->armed = false;
    (void)!read(u->wake_fd, &count, sizeof count);
}

static void one_completion(struct stk_io *io, const struct io_uring_cqe *cqe)
{
    struct uring *u = io->engine;
    struct stk_io_req *req = io_uring_cqe_get_data(cqe);
    if (!req)
        return; /* a cancellation */
    if ((void *)req == u) {
        take_wake_up(u);
        return;
    }
    u->inside--;
    tell_profiler(req, cqe->res);
    stk_io_count_read(io, cqe->res);
    if (io->stopped)
        return;
    segment_used(u, req->segment);
    switch (stk_io_step(io->files, req, cqe->res)) {
    case STK_STEP_DONE:
        stk_io_finished(io, req);
        break;
    case STK_STEP_PLAIN:
        stk_io_job(io, req, STK_JOB_READ);
        break;
    case STK_STEP_AGAIN:
        if (req->tries >= EAGAINS || u->broken)
            stk_io_job(io, req, STK_JOB_READ);
        else
            stk_io_push(&u->backlog, req);
        break;
    }
}

static void take_completions(struct stk_io *io)
{
    struct uring *u = io->engine;
    struct io_uring_cqe *cqe;
    while (io_uring_peek_cqe(&u->ring, &cqe) == 0 && cqe) {
        one_completion(io, cqe);
        io_uring_cqe_seen(&u->ring, cqe);
    }
}

/* Queues requests that did not fit or must continue, and the poll for wake-ups. */
static void fill_ring(struct uring *u)
{
    while (u->backlog.first && queue_read(u, u->backlog.first))
        stk_io_pop(&u->backlog);
    struct io_uring_sqe *sqe = u->armed || u->broken ? NULL : io_uring_get_sqe(&u->ring);
    if (!sqe)
        return;
    io_uring_prep_poll_add(sqe, u->wake_fd, POLLIN);
    io_uring_sqe_set_data(sqe, u);
    u->armed = true;
}

/* From now on the kernel refuses the ring (a sandbox was closed after we opened it). It finishes
 * the requests it has taken; threads read the others. */
static void give_up(struct stk_io *io)
{
    struct uring *u = io->engine;
    const struct io_uring_sq *sq = &u->ring.sq;
    u->broken = true;
    u->armed = false;
    for (unsigned i = *sq->khead; i != sq->sqe_tail; i++) {
        struct stk_io_req *req = (void *)(uintptr_t)sq->sqes[i & (sq->ring_entries - 1)].user_data;
        if (!req || (void *)req == u)
            continue;
        u->inside--;
        stk_io_job(io, req, STK_JOB_READ);
    }
    for (struct stk_io_req *req; (req = stk_io_pop(&u->backlog));)
        stk_io_job(io, req, STK_JOB_READ);
}

/* Without the ring: waits until a thread posts or a read that is still in the ring ends. */
static void wait_outside(struct uring *u)
{
    uint64_t count;
    struct pollfd fds[] = {{.fd = u->wake_fd, .events = POLLIN},
                           {.fd = u->ring.ring_fd, .events = POLLIN}};
    (void)poll(fds, u->inside ? 2 : 1, 100);
    (void)!read(u->wake_fd, &count, sizeof count);
}

/* Submits what is queued; wait: until something has happened. */
static void submit(struct stk_io *io, bool wait)
{
    struct uring *u = io->engine;
    if (u->broken && wait)
        wait_outside(u);
    if (u->broken || (!wait && !io_uring_sq_ready(&u->ring)))
        return;
    int rc = io_uring_submit_and_wait(&u->ring, wait);
    if (rc >= 0 || rc == -EINTR || rc == -EBUSY)
        return;
    /* EAGAIN: completions must be taken first, or memory is short; tries again. */
    if (rc == -EAGAIN || rc == -ENOMEM)
        usleep(1000);
    else
        give_up(io);
}

static void uring_poll(struct stk_io *io, bool wait)
{
    struct uring *u = io->engine;
    stk_io_take_posted(io);
    stk_io_flush_jobs(io);
    fill_ring(u);
    submit(io, false);
    if (!u->broken)
        apply_segments(u);
    take_completions(io);
    if (wait && !io->done.first) {
        fill_ring(u);
        /* A post or wake-up after this sees it; an earlier one is seen here. */
        atomic_store(&io->waiting, true);
        if (!atomic_load(&io->posted) && !atomic_load(&io->woken))
            submit(io, true);
        atomic_store(&io->waiting, false);
        take_completions(io);
    }
    stk_io_flush_jobs(io);
}

static void uring_notify(struct stk_io *io)
{
    struct uring *u = io->engine;
    if (!atomic_load(&io->waiting))
        return;
    uint64_t one = 1;
    (void)!write(u->wake_fd, &one, sizeof one);
}

/* Reads on their way to a disk cannot be cancelled: waits for them. */
static void uring_stop(struct stk_io *io)
{
    struct uring *u = io->engine;
    submit(io, false);
#ifdef IORING_ASYNC_CANCEL_ANY
    struct io_uring_sqe *sqe = io_uring_get_sqe(&u->ring);
    if (sqe) {
        io_uring_prep_cancel(sqe, NULL, IORING_ASYNC_CANCEL_ANY);
        io_uring_sqe_set_data(sqe, NULL);
    }
#endif
    while (u->inside) {
        submit(io, true);
        take_completions(io);
    }
}

const struct stk_io_ops stk_io_uring_ops = {
    ABOUT,
    .threads_do = STK_JOB_OPEN,
    .open = uring_open,
    .close = uring_close,
    .stop = uring_stop,
    .start = uring_start,
    .poll = uring_poll,
    .notify = uring_notify,
    .add_memory = uring_add_memory,
    .drop_memory = uring_drop_memory,
};

#else

static int uring_open(struct stk_io *io, struct stk_err *err)
{
    (void)io;
    return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1, "built without liburing");
}

const struct stk_io_ops stk_io_uring_ops = {ABOUT, .open = uring_open};

#endif
