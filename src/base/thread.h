/*
 * thread.h - a thread that does what may never return, such as a request to a file server that does
 * not answer. The kernel may hold it, so that it cannot be ended: then it is left behind, with what
 * it uses, and ends when it can. base/helper.h is for what can be done in another process: that can
 * be killed, and may crash.
 *
 * Also what every thread needs: a start that leaves signals to the program's own threads, and waits
 * on a condition with a time limit.
 */
#ifndef STK_BASE_THREAD_H
#define STK_BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>

#include "base/err.h"

/* How long to wait for what may never come. */
struct stk_limit {
    double seconds;          /* without progress; 0: none */
    int (*stop)(void *user); /* asked every 0.1 s, if not NULL; non-zero: waits no longer */
    void *user;
};

/* ---- a function at a time -------------------------------------------------------------------- */

struct stk_thread;

typedef int stk_thread_fn(void *user, struct stk_err *err);

/* Caller frees with stk_thread_close(). */
int stk_thread_open(struct stk_thread **out, struct stk_err *err);
/* Has it run fn(user), one function at a time. After stk_thread_close() has left it behind, the
 * thread calls drop(user) once fn has returned; NULL: what user points to stays for good. */
void stk_thread_begin(struct stk_thread *t, stk_thread_fn *fn, void (*drop)(void *user),
                      void *user);
/* Whether the function has returned, within that time. */
bool stk_thread_wait(struct stk_thread *t, double seconds);
/* Begins fn and waits for it: 0, and *rc and *err are its results. ETIMEDOUT: it did not return,
 * nor call stk_thread_beat(), for so long; ECANCELED: limit->stop() said so. Then fn still runs,
 * and only stk_thread_close() may follow. */
int stk_thread_call(struct stk_thread *t, stk_thread_fn *fn, void (*drop)(void *user), void *user,
                    const struct stk_limit *limit, int *rc, struct stk_err *err);
/* From fn: it makes progress. False: nobody waits for it any more, and it may give up. */
bool stk_thread_beat(struct stk_thread *t);
/* From fn: sleeps until then, by stk_now(). False: as above, and it did not sleep to the end. */
bool stk_thread_sleep(struct stk_thread *t, double until_s);
/* Waits that long for a function that still runs. True: it has returned, and what it used is the
 * caller's. False: it is left behind, with what it uses. NULL is fine. */
bool stk_thread_close(struct stk_thread *t, double grace_s);

/* ---- for every thread ------------------------------------------------------------------------ */

/* As pthread_create(), but the thread takes no signals except for faults of its own. 0 or errno. */
int stk_thread_start(pthread_t *thread, void *(*run)(void *user), void *user);
/* For stk_cond_wait(), whose clock is that of stk_now(). */
void stk_cond_init(pthread_cond_t *cond);
/* As pthread_cond_timedwait(). False: the time is over. */
bool stk_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock, double until_s);

#endif
