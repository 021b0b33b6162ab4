/*
 * spread_step.c - a step that asks a disk which may hang: in a thread of its own, so that this node
 * can tell the others, and they do not wait.
 */
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "stage/spread_priv.h"

struct step {
    int (*run)(void *user, struct stk_err *err);
    void *user;
    pthread_mutex_t lock;
    pthread_cond_t ended;
    bool done, left; /* left: nobody waits for it any more */
    int rc;
    struct stk_err err;
};

static void free_step(struct step *s)
{
    pthread_cond_destroy(&s->ended);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

static void *step_main(void *arg)
{
    struct step *s = arg;
    int rc = s->run(s->user, &s->err);
    pthread_mutex_lock(&s->lock);
    s->rc = rc;
    s->done = true;
    bool left = s->left;
    pthread_cond_signal(&s->ended);
    pthread_mutex_unlock(&s->lock);
    if (left)
        free_step(s);
    return NULL;
}

static struct step *new_step(int (*run)(void *user, struct stk_err *err), void *user)
{
    struct step *s = calloc(1, sizeof *s);
    pthread_condattr_t attr;
    if (!s)
        return NULL;
    s->run = run;
    s->user = user;
    pthread_mutex_init(&s->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&s->ended, &attr);
    pthread_condattr_destroy(&attr);
    return s;
}

/* True: it has ended. */
static bool wait_for(struct step *s, double limit_s)
{
    struct timespec until;
    int late = 0;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)limit_s + 1;
    pthread_mutex_lock(&s->lock);
    while (!s->done && !late)
        late = pthread_cond_timedwait(&s->ended, &s->lock, &until);
    s->left = !s->done;
    bool done = s->done;
    pthread_mutex_unlock(&s->lock);
    return done;
}

int stk_spread_step(int (*run)(void *user, struct stk_err *err), void *user, double limit_s,
                    bool *stuck, struct stk_err *err)
{
    struct step *s = new_step(run, user);
    pthread_t thread;
    if (!s)
        return stk_err_nomem(err, sizeof *s);
    if (pthread_create(&thread, NULL, step_main, s) != 0) {
        free_step(s);
        return stk_err_set(err, STK_E_SYS, NULL, -1, "no thread can be started");
    }
    if (!wait_for(s, limit_s)) {
        (void)pthread_detach(thread);
        *stuck = true;
        return stk_err_set(err, STK_E_STOPPED, NULL, -1,
                           "the disk has not completed a sync for %.0f s", limit_s);
    }
    pthread_join(thread, NULL);
    int rc = s->rc;
    if (rc && err)
        *err = s->err;
    free_step(s);
    return rc;
}
