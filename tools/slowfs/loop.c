/*
 * loop.c - the event threads: each takes requests from the kernel and keeps the waiting ones in a
 * heap of its own, so that hundreds wait at once without a thread each, and without a lock.
 */
#include "job.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define NS 1000000000u

struct loop {
    struct slowfs *fs;
    struct job **heap; /* the earliest due first */
    size_t count, cap;
    int epoll_fd, timer_fd;
    uint64_t armed_ns; /* the timer's setting; 0: none, UINT64_MAX: it has expired */
    uint8_t *buffer;
};

/* The loop that this thread runs: request handlers have no other access to it. */
static _Thread_local struct loop *self;

uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * NS + (uint64_t)t.tv_nsec;
}

/* ---- heap ---------------------------------------------------------------------------------- */

static bool heap_push(struct loop *l, struct job *job)
{
    if (l->count == l->cap) {
        size_t cap = l->cap ? l->cap * 2 : 256;
        struct job **heap = realloc(l->heap, cap * sizeof *heap);
        if (!heap)
            return false;
        l->heap = heap;
        l->cap = cap;
    }
    size_t at = l->count++;
    for (; at && l->heap[(at - 1) / 2]->due_ns > job->due_ns; at = (at - 1) / 2)
        l->heap[at] = l->heap[(at - 1) / 2];
    l->heap[at] = job;
    return true;
}

static struct job *heap_pop(struct loop *l)
{
    struct job *top = l->heap[0], *last = l->heap[--l->count];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < l->count; at = child) {
        if (child + 1 < l->count && l->heap[child + 1]->due_ns < l->heap[child]->due_ns)
            child++;
        if (l->heap[child]->due_ns >= last->due_ns)
            break;
        l->heap[at] = l->heap[child];
    }
    l->heap[at] = last;
    return top;
}

/* ---- jobs ---------------------------------------------------------------------------------- */

static void go_on(struct loop *l, struct job *job, uint64_t now)
{
    if (job_step(l->fs, job, now, l->buffer) && !heap_push(l, job))
        job_abandon(l->fs, job, ENOMEM);
}

void job_submit(struct job *job)
{
    uint64_t now = now_ns();
    job->due_ns = now;
    job->stalled_until_ns = now + job->effect.stall_ns;
    job->wait = WAIT_STALL;
    if (job->effect.error)
        job->error = job->effect.error;
    go_on(self, job, now);
}

static void serve_due(struct loop *l)
{
    while (l->count) {
        uint64_t now = now_ns();
        if (l->heap[0]->due_ns > now)
            return;
        go_on(l, heap_pop(l), now);
    }
}

/* ---- waiting ------------------------------------------------------------------------------- */

static void arm(struct loop *l)
{
    uint64_t due = l->count ? l->heap[0]->due_ns : 0;
    if (due == l->armed_ns)
        return;
    struct itimerspec t = {.it_value = {(time_t)(due / NS), (long)(due % NS)}};
    timerfd_settime(l->timer_fd, TFD_TIMER_ABSTIME, &t, NULL);
    l->armed_ns = due;
}

/* False: time to leave. */
static bool wait_for_event(struct loop *l)
{
    struct epoll_event event[4];
    arm(l);
    int n = epoll_wait(l->epoll_fd, event, 4, -1);
    for (int i = 0; i < n; i++) {
        if (event[i].data.fd == l->fs->wake_fd)
            return false;
        if (event[i].data.fd == l->timer_fd)
            l->armed_ns = UINT64_MAX; /* setting it again makes it unreadable */
    }
    return n >= 0 || errno == EINTR;
}

/* A request wakes one thread, not all of them. */
static bool watch(int epoll_fd, int fd, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.fd = fd};
    return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

static bool loop_init(struct loop *l, struct slowfs *fs)
{
    *l = (struct loop){.fs = fs};
    l->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    l->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    return posix_memalign((void **)&l->buffer, 4096, fs->set.max_read_bytes) == 0 &&
           l->epoll_fd >= 0 && l->timer_fd >= 0 && watch(l->epoll_fd, l->timer_fd, EPOLLIN) &&
           watch(l->epoll_fd, fs->wake_fd, EPOLLIN) &&
           watch(l->epoll_fd, fuse_session_fd(fs->session), EPOLLIN | EPOLLEXCLUSIVE);
}

static void loop_release(struct loop *l)
{
    while (l->count)
        job_abandon(l->fs, heap_pop(l), ECONNABORTED);
    free(l->heap);
    free(l->buffer);
    if (l->epoll_fd >= 0)
        close(l->epoll_fd);
    if (l->timer_fd >= 0)
        close(l->timer_fd);
}

/* Due answers first, then one request: a thread that drained the kernel's queue would answer alone
 * what several could. */
static void serve(struct loop *l)
{
    struct fuse_session *session = l->fs->session;
    struct fuse_buf request = {0};
    while (!fuse_session_exited(session)) {
        serve_due(l);
        int n = fuse_session_receive_buf(session, &request);
        if (n > 0)
            fuse_session_process_buf(session, &request);
        else if (n == 0 || (n != -EAGAIN && n != -EINTR) || !wait_for_event(l))
            break;
    }
    free(request.mem);
}

void *loop_run(void *slowfs)
{
    struct slowfs *fs = slowfs;
    struct loop loop;
    self = &loop;
    if (loop_init(&loop, fs))
        serve(&loop);
    loop_release(&loop);
    fuse_session_exit(fs->session);
    kill(getpid(), SIGTERM); /* the main thread waits for it: if one leaves, all leave */
    return NULL;
}
