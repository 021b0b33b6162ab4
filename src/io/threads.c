/*
 * threads.c - the threads: they open files for every engine, and are an engine themselves: each
 * reads one request at a time with pread. They are started when there is work for one more, never
 * print, and take no signals of the program.
 */
#include "io/priv.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define STACK_BYTES (256u << 10) /* a path, an error, and what libc and sanitizers need */

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22 /* Linux 5.14 */
#endif

/* ---- a thread's work on a request ---- */

static void read_request(struct stk_io *io, struct stk_io_req *req)
{
    /* A range of one block is requested once, in memory or not. */
    bool over = req->want > STK_IO_HOT && stk_io_read_cached(io, req);
    enum stk_io_step step = over ? STK_STEP_DONE : STK_STEP_AGAIN;
    while (step != STK_STEP_DONE) {
        struct stk_err why = {0};
        int fd = req->buffered ? stk_handles_plain(&io->handles, req->held, &why) : req->held->fd;
        if (fd < 0) {
            stk_io_fail(io->files, req, &why);
            return;
        }
        if (req->tries)
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        size_t ask = req->want - req->got;
        if (ask > STK_IO_ASK_MAX)
            ask = STK_IO_ASK_MAX;
        ssize_t n = pread(fd, (uint8_t *)req->buf + req->got, ask, (off_t)(req->at + req->got));
        stk_io_count_read(io, n);
        step = stk_io_step(io->files, req, n < 0 ? -errno : n);
        stk_io_arrived(req);
    }
}

/* One of very many small files: not worth keeping open. */
static void read_once(struct stk_io *io, struct stk_io_req *req)
{
    struct stk_file f;
    struct stk_err why = {0};
    atomic_fetch_add_explicit(&io->opens, 1, memory_order_relaxed);
    if (stk_file_open(io->files, req->from, io->handles.mode, &f, &why) < 0) {
        stk_io_fail(io->files, req, &why);
        return;
    }
    req->held = &f;
    if (stk_io_begin(io->files, req))
        read_request(io, req);
    req->held = NULL;
    stk_file_close(&f);
}

/* A range that no copy has yet, while copies are made. */
static void fetch_request(struct stk_io *io, struct stk_io_req *req)
{
    const struct stk_files_overlay *o = io->files->overlay;
    if (o->fetch(o, req->file, req->off, req->len, req->buf) < 0) {
        read_once(io, req);
        return;
    }
    stk_io_count_read(io, (ssize_t)req->len);
    req->at = req->off;
    req->want = req->got = req->len;
    req->data = req->buf;
    stk_io_arrived(req);
}

/* True if the file that has the name now ends before the range. */
static bool became_shorter(const struct stk_io *io, const struct stk_io_req *req)
{
    struct stat sb;
    uint64_t number = req->file + req->map->level * io->files->count;
    char *path = stk_files_path(io->files, number);
    bool shorter = !path || stat(path, &sb) < 0 || (uint64_t)sb.st_size < req->off + req->len;
    free(path);
    return shorter;
}

/* Waits until the pages are loaded. This fails if the file ends before them or its disk fails; if a
 * file shrank on another machine, they may be zeros instead. */
static void load_mapped(struct stk_io *io, struct stk_io_req *req)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE) - 1;
    uintptr_t from = (uintptr_t)req->data & ~page;
    uintptr_t to = ((uintptr_t)req->data + req->len + page) & ~page;
    struct stk_err why = {0};
    (void)madvise((void *)from, to - from, MADV_WILLNEED); /* all of it at once */
    int rc = madvise((void *)from, to - from, MADV_POPULATE_READ);
    bool failed = rc < 0 && (errno == EFAULT || errno == EHWPOISON);
    if ((failed || io->choice.network) && became_shorter(io, req)) {
        stk_err_set(&why, STK_E_STALE, NULL, (int64_t)req->off, "the file became shorter");
        stk_io_fail(io->files, req, &why);
    } else if (failed) {
        errno = EIO;
        stk_err_sys(&why, NULL, "read");
        why.offset = (int64_t)req->off;
        stk_io_fail(io->files, req, &why);
    }
    stk_io_count_read(io, (ssize_t)req->len);
}

static void work_on(struct stk_io *io, struct stk_io_req *req)
{
    struct stk_io_list done = {0};
    if (req->job == STK_JOB_ONCE)
        read_once(io, req);
    else if (req->job == STK_JOB_FETCH)
        fetch_request(io, req);
    else if (req->job == STK_JOB_LOAD)
        load_mapped(io, req);
    else
        read_request(io, req);
    req->completed_ns = stk_io_now_ns();
    stk_io_push(&done, req);
    stk_io_post(io, &done, NULL);
}

/* Opens the file and serves the requests that waited: reads the first here, which saves a
 * switch. */
static void open_file(struct stk_io *io, struct stk_io_req *req)
{
    struct stk_io_list opened = {0}, done = {0}, ready = {0};
    unsigned nready = 0;
    struct stk_io_req *mine = NULL;
    stk_io_open_file(io, req, &opened);
    bool hand_back = io->ops->threads_do == STK_JOB_OPEN;
    while ((req = stk_io_pop(&opened))) {
        req->job = (uint8_t)io->ops->threads_do;
        if (req->code < 0 || (!hand_back && !stk_io_begin(io->files, req))) {
            req->completed_ns = stk_io_now_ns();
            stk_io_push(&done, req);
        } else if (!hand_back && !mine) {
            mine = req;
        } else {
            stk_io_push(&ready, req);
            nready++;
        }
    }
    if (!hand_back && nready)
        stk_io_pool_add(io, &ready, nready);
    if (done.first || ready.first)
        stk_io_post(io, &done, &ready);
    if (mine)
        work_on(io, mine);
}

static void run_job(struct stk_io *io, struct stk_io_req *req)
{
    if (req->job == STK_JOB_OPEN)
        open_file(io, req);
    else
        work_on(io, req);
}

/* ---- the threads ---- */

static void *thread_main(void *arg)
{
    struct stk_io *io = arg;
    struct stk_io_pool *pool = &io->pool;
    pthread_mutex_lock(&pool->lock); /* counts as idle from its creation */
    while (!pool->stop) {
        struct stk_io_req *req = stk_io_pop(&pool->queue);
        if (!req) {
            pthread_cond_wait(&pool->work, &pool->lock);
            continue;
        }
        pool->queued--;
        pool->idle--;
        pthread_mutex_unlock(&pool->lock);
        run_job(io, req);
        pthread_mutex_lock(&pool->lock);
        pool->idle++;
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

int stk_io_pool_init(struct stk_io_pool *pool, unsigned max, struct stk_err *err)
{
    pool->thread = calloc(max, sizeof *pool->thread);
    if (!pool->thread)
        return stk_err_nomem(err, max * sizeof *pool->thread);
    pool->max = max;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->work, NULL);
    return 0;
}

/* With the lock held. Our threads take no signals of the program; a fault goes to its own
 * thread. */
static bool start_thread(struct stk_io *io)
{
    struct stk_io_pool *pool = &io->pool;
    pthread_attr_t attr;
    sigset_t all, old;
    if (pthread_attr_init(&attr) != 0)
        return false;
    (void)pthread_attr_setstacksize(&attr, STACK_BYTES);
    sigfillset(&all);
    for (size_t i = 0; i < 4; i++)
        sigdelset(&all, (int[]){SIGBUS, SIGSEGV, SIGFPE, SIGILL}[i]);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int rc = pthread_create(&pool->thread[pool->nthreads], &attr, thread_main, io);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attr);
    if (rc != 0)
        return false;
    pool->nthreads++;
    pool->idle++;
    return true;
}

void stk_io_pool_add(struct stk_io *io, struct stk_io_list *jobs, unsigned n)
{
    struct stk_io_pool *pool = &io->pool;
    struct stk_io_list here = {0};
    pthread_mutex_lock(&pool->lock);
    stk_io_append(&pool->queue, jobs);
    pool->queued += n;
    for (unsigned i = n < pool->idle ? n : pool->idle; i > 0; i--)
        pthread_cond_signal(&pool->work);
    while (pool->queued > pool->idle && pool->nthreads < pool->max && !pool->stop)
        if (!start_thread(io))
            break;
    if (pool->nthreads == 0) {
        stk_io_append(&here, &pool->queue);
        pool->queued = 0;
    }
    pthread_mutex_unlock(&pool->lock);
    for (struct stk_io_req *req; (req = stk_io_pop(&here));)
        run_job(io, req);
}

void stk_io_pool_stop(struct stk_io_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    pool->stop = true;
    pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->lock);
    for (unsigned i = 0; i < pool->nthreads; i++)
        pthread_join(pool->thread[i], NULL);
    pool->nthreads = 0;
    pool->queue.first = NULL;
}

void stk_io_pool_release(struct stk_io_pool *pool)
{
    if (!pool->thread)
        return;
    pthread_cond_destroy(&pool->work);
    pthread_mutex_destroy(&pool->lock);
    free(pool->thread);
    pool->thread = NULL;
}

/* ---- the engine ---- */

static void start(struct stk_io *io, struct stk_io_req *req)
{
    stk_io_job(io, req, STK_JOB_READ);
}

void stk_io_threads_poll(struct stk_io *io, bool wait)
{
    stk_io_flush_jobs(io);
    stk_io_take_posted(io);
    stk_io_flush_jobs(io);
    if (!wait || io->done.first)
        return;
    pthread_mutex_lock(&io->post_lock);
    atomic_store(&io->waiting, true);
    while (!atomic_load(&io->posted) && !atomic_load(&io->woken))
        pthread_cond_wait(&io->post_cond, &io->post_lock);
    atomic_store(&io->waiting, false);
    pthread_mutex_unlock(&io->post_lock);
    stk_io_take_posted(io);
    stk_io_flush_jobs(io);
}

void stk_io_threads_notify(struct stk_io *io)
{
    if (!atomic_load(&io->waiting))
        return;
    pthread_mutex_lock(&io->post_lock);
    pthread_cond_signal(&io->post_cond);
    pthread_mutex_unlock(&io->post_lock);
}

const struct stk_io_ops stk_io_threads_ops = {
    .kind = STK_IO_THREADS,
    .name = "threads",
    .title = "threads",
    .caps = STK_IO_CAN_DIRECT | STK_IO_CAN_ONCE,
    .threads_do = STK_JOB_READ,
    .start = start,
    .poll = stk_io_threads_poll,
    .notify = stk_io_threads_notify,
};
