/* pool.c - numbered work on a few threads, and the clock. */
#include "base/pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

struct run {
    stk_work_fn *work;
    void *user;
    uint64_t nitems;
    _Atomic uint64_t next;
    _Atomic bool stop;
    pthread_mutex_t lock;
    int rc; /* first error */
    struct stk_err err;
};

struct worker {
    struct run *run;
    unsigned number;
    pthread_t thread;
};

static void *worker_main(void *arg)
{
    struct worker *w = arg;
    struct run *r = w->run;
    while (!atomic_load(&r->stop)) {
        uint64_t item = atomic_fetch_add(&r->next, 1);
        if (item >= r->nitems)
            break;
        struct stk_err err = {0};
        int rc = r->work(r->user, item, w->number, &err);
        if (rc == 0)
            continue;
        pthread_mutex_lock(&r->lock);
        if (r->rc == 0) {
            r->rc = rc;
            r->err = err;
        }
        pthread_mutex_unlock(&r->lock);
        atomic_store(&r->stop, true);
    }
    return NULL;
}

int stk_pool_run(unsigned nthreads, uint64_t nitems, stk_work_fn *work, void *user,
                 struct stk_err *err)
{
    struct run r = {.work = work, .user = user, .nitems = nitems};
    pthread_mutex_init(&r.lock, NULL);
    if (nthreads > nitems)
        nthreads = (unsigned)nitems;
    struct worker *w = calloc(nthreads ? nthreads : 1, sizeof *w);
    unsigned started = 0;
    if (w) {
        w[0] = (struct worker){.run = &r};
        /* The caller is worker 0; a thread that cannot be started only costs speed. */
        for (unsigned i = 1; i < nthreads; i++) {
            w[i] = (struct worker){.run = &r, .number = i};
            if (pthread_create(&w[i].thread, NULL, worker_main, &w[i]) != 0)
                break;
            started = i;
        }
        worker_main(&w[0]);
        for (unsigned i = 1; i <= started; i++)
            pthread_join(w[i].thread, NULL);
    }
    int rc = w ? r.rc : stk_err_nomem(err, nthreads * sizeof *w);
    if (w && rc && err)
        *err = r.err;
    free(w);
    pthread_mutex_destroy(&r.lock);
    return rc;
}

double stk_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}
