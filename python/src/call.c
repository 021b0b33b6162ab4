/*
 * call.c - library calls that may wait for storage, made so that Ctrl-C is answered while they do.
 *
 * A thread that the kernel holds (a file server that does not answer) cannot be called back. So
 * the call is made on a helper thread while the caller's waits without the GIL, in short slices,
 * and lets signal handlers run between them. When one of them raises, the call is asked to stop
 * and has a moment to do so; after that it is left behind: it ends when it can, frees what it
 * has, and never touches Python, which may be gone by then.
 *
 * A helper of calls that are made often is kept. After a fork the child only forgets it.
 */
#include "pystk.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum {
    SLICE_MS = 100, /* between looks at signals */
    GRACE_MS = 500, /* for a call that was asked to stop */
};

struct helper {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct stk_py_call *call; /* NULL: it has nothing to do */
    bool last;                /* it ends after this call, or without one */
    bool left;                /* its call was left to it, and so is the struct */
};

/* One that has no call, and whose it is. Changed with the GIL held. */
static struct helper *idle;
static pid_t owner;

/* ---- the helper ---- */

static void free_helper(struct helper *h)
{
    pthread_cond_destroy(&h->changed);
    pthread_mutex_destroy(&h->lock);
    free(h);
}

static void *help(void *user)
{
    struct helper *h = user;
    struct stk_py_call *c = NULL;
    pthread_mutex_lock(&h->lock);
    for (;;) {
        while (!h->call && !h->last)
            pthread_cond_wait(&h->changed, &h->lock);
        if (!h->call)
            break;
        c = h->call; /* it may have been left behind before this thread ran at all */
        pthread_mutex_unlock(&h->lock);
        c->run(c);
        pthread_mutex_lock(&h->lock);
        h->call = NULL;
        pthread_cond_signal(&h->changed);
    }
    bool left = h->left;
    pthread_mutex_unlock(&h->lock);
    if (left) {
        c->drop(c);
        free_helper(h);
    }
    return NULL;
}

/* Signals are for Python's threads, but faults must reach their handlers. */
static int start_thread(struct helper *h)
{
    sigset_t all, old;
    sigfillset(&all);
    sigdelset(&all, SIGBUS);
    sigdelset(&all, SIGSEGV);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int e = pthread_create(&h->thread, NULL, help, h);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return e;
}

static struct helper *new_helper(void)
{
    struct helper *h = calloc(1, sizeof *h);
    pthread_condattr_t attr;
    if (!h)
        return NULL;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_mutex_init(&h->lock, NULL);
    pthread_cond_init(&h->changed, &attr);
    pthread_condattr_destroy(&attr);
    if (start_thread(h) == 0)
        return h;
    free_helper(h);
    return NULL;
}

/* NULL: there is none to be had, or none is of use: Python's handlers run in the first thread. */
static struct helper *take_helper(void)
{
    pid_t pid = getpid();
    if (pid != gettid())
        return NULL;
    struct helper *h = owner == pid ? idle : NULL;
    owner = pid;
    idle = NULL;
    return h ? h : new_helper();
}

/* It has no call. */
static void end_helper(struct helper *h)
{
    pthread_mutex_lock(&h->lock);
    h->last = true;
    pthread_cond_signal(&h->changed);
    pthread_mutex_unlock(&h->lock);
    pthread_join(h->thread, NULL);
    free_helper(h);
}

static void put_helper(struct helper *h, bool often)
{
    if (often && !idle)
        idle = h;
    else
        end_helper(h);
}

PyObject *stk_py_end_helper(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    struct helper *h = owner == getpid() ? idle : NULL;
    idle = NULL;
    if (h)
        end_helper(h);
    Py_RETURN_NONE;
}

/* ---- the caller ---- */

static void hand_over(struct helper *h, struct stk_py_call *c)
{
    pthread_mutex_lock(&h->lock);
    h->call = c;
    pthread_cond_signal(&h->changed);
    pthread_mutex_unlock(&h->lock);
}

/* Whether it is done within that time. leave: if not, it is the helper's from now on. */
static bool wait_for(struct helper *h, int ms, bool leave)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += (long)(ms % 1000) * 1000000;
    until.tv_sec += ms / 1000 + until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    int late = 0;
    pthread_mutex_lock(&h->lock);
    while (h->call && !late)
        late = pthread_cond_timedwait(&h->changed, &h->lock, &until);
    bool done = !h->call;
    if (!done && leave) {
        h->left = h->last = true;
        pthread_detach(h->thread);
    }
    pthread_mutex_unlock(&h->lock);
    return done;
}

/* Waits a moment for a call whose result is not wanted. False: the call is left behind. */
static bool finish(struct helper *h, struct stk_py_call *c)
{
    bool done = wait_for(h, GRACE_MS, true);
    if (done)
        c->drop(c);
    return done;
}

int stk_py_call(struct stk_py_call *c, bool may_stall)
{
    struct helper *h = may_stall ? take_helper() : NULL;
    bool done = !h, raised = false, often = c->often;
    if (h) {
        hand_over(h, c);
    } else {
        Py_BEGIN_ALLOW_THREADS c->run(c);
        Py_END_ALLOW_THREADS
    }
    while (!done && !raised) {
        Py_BEGIN_ALLOW_THREADS done = wait_for(h, SLICE_MS, false);
        Py_END_ALLOW_THREADS raised = !done && PyErr_CheckSignals() < 0;
    }
    if (raised) {
        atomic_store(&c->stop, true);
        Py_BEGIN_ALLOW_THREADS done = finish(h, c);
        Py_END_ALLOW_THREADS
    }
    if (h && done)
        put_helper(h, often && !raised);
    return raised ? -1 : 0;
}

void stk_py_call_last(struct stk_py_call *c, bool may_stall)
{
    struct helper *h = may_stall ? take_helper() : NULL;
    bool done = false;
    if (h) {
        hand_over(h, c);
        Py_BEGIN_ALLOW_THREADS done = finish(h, c);
        Py_END_ALLOW_THREADS
    } else {
        Py_BEGIN_ALLOW_THREADS c->run(c);
        c->drop(c);
        Py_END_ALLOW_THREADS
    }
    if (done)
        put_helper(h, false);
}
