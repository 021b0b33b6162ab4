/* A function in a thread of its own: its result, progress, and one that is left behind. */
#include "base/thread.h"

#include <errno.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "check.h"

static struct stk_thread *thread;
static sem_t go, gone;

static int fill(void *user, struct stk_err *err)
{
    int *value = user;
    if (*value < 0)
        return stk_err_set(err, STK_E_STALE, NULL, -1, "nothing is there");
    return (*value)++;
}

static int wait_for_go(void *user, struct stk_err *err)
{
    (void)user;
    (void)err;
    while (sem_wait(&go) != 0)
        ;
    return 0;
}

static void dropped(void *user)
{
    free(user);
    sem_post(&gone);
}

static int no(void *user)
{
    ++*(int *)user;
    return 1;
}

/* One thread runs many functions, one after another. */
static void results(void)
{
    const struct stk_limit none = {0};
    struct stk_err err = {0};
    int rc = 1, value = 0;
    CHECK_INT(stk_thread_open(&thread, NULL), 0);
    for (int i = 0; i < 1000; i++) {
        CHECK_INT(stk_thread_call(thread, fill, NULL, &value, &none, &rc, &err), 0);
        CHECK_INT(rc, i);
    }
    value = -1;
    CHECK_INT(stk_thread_call(thread, fill, NULL, &value, &none, &rc, &err), 0);
    CHECK_INT(rc, STK_E_STALE);
    CHECK_STR(err.what, "nothing is there");
    CHECK(stk_thread_close(thread, 0));
    CHECK(stk_thread_close(NULL, 0));
}

/* Who waits goes on; the function frees what it used when it returns. */
static void left_behind(const struct stk_limit *limit, int why)
{
    int rc = 7;
    void *used = malloc(1);
    CHECK_INT(stk_thread_open(&thread, NULL), 0);
    CHECK_INT(stk_thread_call(thread, wait_for_go, dropped, used, limit, &rc, NULL), why);
    CHECK_INT(rc, 7);
    CHECK(!stk_thread_close(thread, 0));
    CHECK(sem_trywait(&gone) != 0);
    sem_post(&go);
    while (sem_wait(&gone) != 0)
        ;
}

static void never_returns(void)
{
    int asked = 0;
    left_behind(&(struct stk_limit){.seconds = 0.02}, ETIMEDOUT);
    left_behind(&(struct stk_limit){.seconds = 600, .stop = no, .user = &asked}, ECANCELED);
    CHECK_INT(asked, 1);
}

/* One that returns while it is being closed is not left. */
static void returns_at_last(void)
{
    CHECK_INT(stk_thread_open(&thread, NULL), 0);
    stk_thread_begin(thread, wait_for_go, dropped, NULL);
    CHECK(!stk_thread_wait(thread, 0.01));
    sem_post(&go);
    CHECK(stk_thread_close(thread, 600));
    CHECK(sem_trywait(&gone) != 0);
}

/* Each beat gives it the whole time again: it beats once between two looks of the caller, and works
 * for twice the limit. */
#define LOOKS 10

static int beat_when_asked(void *user, struct stk_err *err)
{
    for (int i = 0; i < LOOKS; i++) {
        (void)wait_for_go(user, err);
        CHECK(stk_thread_beat(thread));
        sem_post(&gone);
    }
    return 0;
}

static int ask_for_a_beat(void *user)
{
    if (++*(int *)user > LOOKS)
        return 0;
    sem_post(&go);
    while (sem_wait(&gone) != 0)
        ;
    return 0;
}

static void makes_progress(void)
{
    int rc = 7, asked = 0;
    const struct stk_limit limit = {.seconds = 0.5, .stop = ask_for_a_beat, .user = &asked};
    CHECK_INT(stk_thread_open(&thread, NULL), 0);
    CHECK_INT(stk_thread_call(thread, beat_when_asked, NULL, NULL, &limit, &rc, NULL), 0);
    CHECK_INT(rc, 0);
    CHECK(asked >= LOOKS);
    CHECK(stk_thread_close(thread, 0));
}

/* A function that asks whether anybody waits ends soon. */
static int until_left(void *user, struct stk_err *err)
{
    (void)user;
    (void)err;
    while (stk_thread_beat(thread))
        sched_yield();
    return 0;
}

static void gives_up(void)
{
    CHECK_INT(stk_thread_open(&thread, NULL), 0);
    stk_thread_begin(thread, until_left, NULL, NULL);
    CHECK(!stk_thread_wait(thread, 0.01));
    CHECK(stk_thread_close(thread, 600));
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    sem_init(&go, 0, 0);
    sem_init(&gone, 0, 0);
    CHECK_RUN(results);
    CHECK_RUN(never_returns);
    CHECK_RUN(returns_at_last);
    CHECK_RUN(makes_progress);
    CHECK_RUN(gives_up);
    return CHECK_DONE();
}
