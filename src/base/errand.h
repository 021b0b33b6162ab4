/*
 * errand.h - a function that may hang, run in a child with a time limit: questions to a file system
 * that may not answer, and probes of one.
 */
#ifndef STK_BASE_ERRAND_H
#define STK_BASE_ERRAND_H

#include <stdbool.h>
#include <stddef.h>

struct stk_errand {
    /* Runs in the child. `answer` is zeroed memory that the parent sees: what the function has
     * written there before the time limit counts. Returns 0, or an errno that
     * stk_errand_run() returns. */
    int (*inside)(void *user, void *answer);
    void *user;
    double limit_s;
    bool outlives;                /* goes on if this process is killed: it cleans up */
    int (*stop)(void *stop_user); /* may be NULL; non-zero: ends it */
    void *stop_user;
};

/* Copies the answer (size bytes) in every case but one: ENOMEM leaves it zeroed. ETIMEDOUT: it took
 * too long and was killed; a child that the kernel does not let go is left behind. ECANCELED:
 * stopped. EIO: it crashed. Else the errno of inside(), or of starting the child. */
int stk_errand_run(const struct stk_errand *e, void *answer, size_t size);

#endif
