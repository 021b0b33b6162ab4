/* thread.c - see thread.h. */
#include "base/thread.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/pool.h"

#define TICK_S 0.1 /* between looks at the limit */

/* ---- for every thread ------------------------------------------------------------------------ */

int stk_thread_start(pthread_t *thread, void *(*run)(void *user), void *user)
{
    static const int fault[] = {SIGBUS, SIGSEGV, SIGFPE, SIGILL};
    sigset_t set, old;
    sigfillset(&set);
    for (size_t i = 0; i < sizeof fault / sizeof *fault; i++)
        sigdelset(&set, fault[i]);
    pthread_sigmask(SIG_SETMASK, &set, &old);
    int why = pthread_create(thread, NULL, run, user);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return why;
}

void stk_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attr);
    pthread_condattr_destroy(&attr);
}

bool stk_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock, double until_s)
{
    double whole = floor(fmin(until_s, 1e12));
    struct timespec t = {.tv_sec = (time_t)whole};
    t.tv_nsec = until_s > whole ? (long)(fmin(until_s - whole, 0.999999999) * 1e9) : 0;
    return pthread_cond_timedwait(cond, lock, &t) != ETIMEDOUT;
}

/* ---- a function at a time -------------------------------------------------------------------- */

struct stk_thread {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    stk_thread_fn *fn; /* to run, or running; NULL: idle */
    void (*drop)(void *user);
    void *user;
    int rc;
    struct stk_err err;
    bool runs; /* the thread has begun: a leak checker sees what it uses from then on */
    bool last; /* it ends once it is idle */
    bool left; /* … and then frees this and what it used */
    _Atomic bool stop;
    _Atomic uint64_t beats;
};

static void release(struct stk_thread *t)
{
    pthread_cond_destroy(&t->changed);
    pthread_mutex_destroy(&t->lock);
    free(t);
}

static void *thread_main(void *arg)
{
    struct stk_thread *t = arg;
    pthread_mutex_lock(&t->lock);
    t->runs = true;
    pthread_cond_broadcast(&t->changed);
    for (;;) {
        while (!t->fn && !t->last)
            pthread_cond_wait(&t->changed, &t->lock);
        stk_thread_fn *fn = t->fn;
        if (!fn)
            break;
        struct stk_err err = {0};
        pthread_mutex_unlock(&t->lock);
        int rc = fn(t->user, &err);
        pthread_mutex_lock(&t->lock);
        t->rc = rc;
        t->err = err;
        t->fn = NULL;
        pthread_cond_broadcast(&t->changed);
    }
    bool left = t->left;
    pthread_mutex_unlock(&t->lock);
    if (left && t->drop)
        t->drop(t->user);
    if (left)
        release(t);
    return NULL;
}

int stk_thread_open(struct stk_thread **out, struct stk_err *err)
{
    struct stk_thread *t = calloc(1, sizeof *t);
    *out = NULL;
    if (!t)
        return stk_err_nomem(err, sizeof *t);
    pthread_mutex_init(&t->lock, NULL);
    stk_cond_init(&t->changed);
    int why = stk_thread_start(&t->thread, thread_main, t);
    if (why) {
        release(t);
        return stk_err_set(err, STK_E_SYS, NULL, -1, "start a thread: %s", strerror(why));
    }
    pthread_mutex_lock(&t->lock);
    while (!t->runs)
        pthread_cond_wait(&t->changed, &t->lock);
    pthread_mutex_unlock(&t->lock);
    *out = t;
    return 0;
}

void stk_thread_begin(struct stk_thread *t, stk_thread_fn *fn, void (*drop)(void *user),
                      void *user)
{
    pthread_mutex_lock(&t->lock);
    t->fn = fn;
    t->drop = drop;
    t->user = user;
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->lock);
}

/* With the lock held. */
static bool is_idle_by(struct stk_thread *t, double until_s)
{
    while (t->fn && stk_cond_wait(&t->changed, &t->lock, until_s))
        ;
    return !t->fn;
}

bool stk_thread_wait(struct stk_thread *t, double seconds)
{
    double until_s = stk_now() + seconds;
    pthread_mutex_lock(&t->lock);
    bool idle = is_idle_by(t, until_s);
    pthread_mutex_unlock(&t->lock);
    return idle;
}

int stk_thread_call(struct stk_thread *t, stk_thread_fn *fn, void (*drop)(void *user), void *user,
                    const struct stk_limit *limit, int *rc, struct stk_err *err)
{
    double limit_s = limit->seconds > 0 ? limit->seconds : INFINITY, since_s = stk_now();
    uint64_t beats = atomic_load(&t->beats);
    stk_thread_begin(t, fn, drop, user);
    while (!stk_thread_wait(t, fmin(limit_s, TICK_S))) {
        double now_s = stk_now();
        uint64_t now = atomic_load(&t->beats);
        since_s = now != beats ? now_s : since_s;
        beats = now;
        if (now_s - since_s >= limit_s)
            return ETIMEDOUT;
        if (limit->stop && limit->stop(limit->user))
            return ECANCELED;
    }
    *rc = t->rc;
    if (t->rc < 0 && err)
        *err = t->err;
    return 0;
}

bool stk_thread_beat(struct stk_thread *t)
{
    atomic_fetch_add_explicit(&t->beats, 1, memory_order_relaxed);
    return !atomic_load_explicit(&t->stop, memory_order_relaxed);
}

bool stk_thread_sleep(struct stk_thread *t, double until_s)
{
    pthread_mutex_lock(&t->lock);
    while (!t->stop && stk_cond_wait(&t->changed, &t->lock, until_s))
        ;
    pthread_mutex_unlock(&t->lock);
    return !t->stop;
}

bool stk_thread_close(struct stk_thread *t, double grace_s)
{
    if (!t)
        return true;
    pthread_mutex_lock(&t->lock);
    t->stop = true;
    pthread_cond_broadcast(&t->changed);
    bool idle = is_idle_by(t, stk_now() + grace_s);
    t->last = true;
    t->left = !idle;
    if (!idle)
        pthread_detach(t->thread); /* while it cannot end */
    pthread_cond_broadcast(&t->changed);
    pthread_t thread = t->thread;
    pthread_mutex_unlock(&t->lock);
    if (!idle)
        return false;
    pthread_join(thread, NULL);
    release(t);
    return true;
}
