/* patient.c - see patient.h. */
#include "bench/patient.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/pool.h"

#define LOOK_NS 100000000l /* between looks at progress and at the other ranks */

struct stk_patient {
    struct stk_comm *comm;
    const char *dir;
    double patience_s;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    stk_patient_fn *fn; /* to run, or running; NULL: idle */
    void *arg;
    int rc;
    struct stk_err err;
    bool stop, stuck;
    _Atomic uint64_t beats;
};

static void *patient_main(void *user)
{
    struct stk_patient *p = user;
    pthread_mutex_lock(&p->lock);
    for (;;) {
        while (!p->fn && !p->stop)
            pthread_cond_wait(&p->changed, &p->lock);
        if (p->stop)
            break;
        stk_patient_fn *fn = p->fn;
        void *arg = p->arg;
        struct stk_err err = {0};
        pthread_mutex_unlock(&p->lock);
        int rc = fn(arg, &err);
        pthread_mutex_lock(&p->lock);
        p->rc = rc;
        p->err = err;
        p->fn = NULL;
        pthread_cond_broadcast(&p->changed);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

int stk_patient_open(struct stk_comm *comm, const char *dir, double patience_s,
                     struct stk_patient **out, struct stk_err *err)
{
    struct stk_patient *p = calloc(1, sizeof *p);
    pthread_condattr_t attr;
    *out = NULL;
    if (!p)
        return stk_err_nomem(err, sizeof *p);
    *p = (struct stk_patient){.comm = comm, .dir = dir};
    p->patience_s = patience_s > 0 ? patience_s : STK_PATIENCE_S;
    pthread_mutex_init(&p->lock, NULL);
    pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&p->changed, &attr);
    pthread_condattr_destroy(&attr);
    int why = pthread_create(&p->thread, NULL, patient_main, p);
    if (why == 0) {
        *out = p;
        return 0;
    }
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->lock);
    free(p);
    return stk_err_set(err, STK_E_SYS, NULL, -1, "start a thread: %s", strerror(why));
}

void stk_patient_beat(struct stk_patient *p)
{
    atomic_fetch_add_explicit(&p->beats, 1, memory_order_relaxed);
}

bool stk_patient_is_stuck(const struct stk_patient *p)
{
    return p && p->stuck;
}

/* 0: go on waiting. */
static int judge(struct stk_patient *p, double since, struct stk_err *err)
{
    char why[200];
    int64_t lost = p->comm ? stk_comm_lost(p->comm, why, sizeof why) : -1;
    if (lost >= 0)
        return stk_err_set(err, STK_E_STOPPED, NULL, -1, "rank %lld is lost: %s", (long long)lost,
                           why);
    if (stk_now() - since < p->patience_s)
        return 0;
    return stk_err_set(err, STK_E_STOPPED, p->dir, -1,
                       "no request has returned for %.0f s: the storage hangs (--patience)",
                       p->patience_s);
}

static void wait_a_little(struct stk_patient *p)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    long part = p->patience_s < 1e-9 * LOOK_NS ? (long)(p->patience_s * 1e9) : LOOK_NS;
    until.tv_nsec += part;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    (void)pthread_cond_timedwait(&p->changed, &p->lock, &until);
}

int stk_patient_call(struct stk_patient *p, stk_patient_fn *fn, void *arg, struct stk_err *err)
{
    uint64_t beats = atomic_load(&p->beats);
    double since = stk_now();
    int rc = 0;
    pthread_mutex_lock(&p->lock);
    p->fn = fn;
    p->arg = arg;
    pthread_cond_broadcast(&p->changed);
    while (p->fn && rc == 0) {
        wait_a_little(p);
        uint64_t now = atomic_load(&p->beats);
        since = now != beats ? stk_now() : since;
        beats = now;
        rc = p->fn ? judge(p, since, err) : 0;
    }
    p->stuck = p->fn != NULL;
    if (!p->stuck) {
        rc = p->rc;
        if (rc < 0 && err)
            *err = p->err;
    }
    pthread_mutex_unlock(&p->lock);
    return rc;
}

struct forsaken {
    void *p;
    struct forsaken *next;
};
static _Atomic(struct forsaken *) all_forsaken;

void stk_patient_forsake(void *p)
{
    struct forsaken *f = malloc(sizeof *f);
    if (!f)
        return;
    *f = (struct forsaken){p, atomic_load(&all_forsaken)};
    while (!atomic_compare_exchange_weak(&all_forsaken, &f->next, f))
        ;
}

void stk_patient_close(struct stk_patient *p)
{
    if (p && p->stuck)
        stk_patient_forsake(p);
    if (!p || p->stuck)
        return;
    pthread_mutex_lock(&p->lock);
    p->stop = true;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
    pthread_join(p->thread, NULL);
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->lock);
    free(p);
}
