/*
 * helper.h - a function in a child process, for what may hang or crash: a question to a file system
 * that may not answer, a driver, a library that reads a damaged file. The child is killed when its
 * time is over. What it has answered by then counts, and a crash is an error here.
 *
 * The function may do anything, but has no descriptors of ours: no lock of ours stays held by a
 * child that cannot be killed. What must work on our own memory is for a thread (base/thread.h).
 */
#ifndef STK_BASE_HELPER_H
#define STK_BASE_HELPER_H

#include <stddef.h>

#include "base/spawn.h"
#include "base/thread.h"

/* ---- a question ------------------------------------------------------------------------------ */

/* Runs ask(user, answer) in a child. `answer` is zeroed memory that is shared with it: what ask()
 * has written there counts, however it ends. Returns what ask() returns, 0 or an errno, or
 * ETIMEDOUT: it took too long and was killed; ECANCELED: limit->stop() said so; EIO: it crashed; or
 * the errno of starting it. After ENOMEM the answer is zero. */
int stk_helper_ask(int (*ask)(void *user, void *answer), void *user, const struct stk_limit *limit,
                   void *answer, size_t size);

/* ---- a conversation -------------------------------------------------------------------------- */

struct stk_helper {
    int (*run)(void *user); /* in the child; its standard input is a socket to us */
    void *user;
    int keep;               /* a descriptor that it needs; -1: none */
    struct stk_child child; /* pid 0: none runs */
};

/* In any child without a program: closes all descriptors but the standard ones and `but` (-1: none),
 * so that it holds no lock of ours. */
void stk_helper_close(int but);
/* 0 or errno. EAGAIN: too many have been left behind. Caller ends it with stk_helper_end(). */
int stk_helper_start(struct stk_helper *h);
/* False: it has ended. */
bool stk_helper_send(struct stk_helper *h, const void *data, size_t n);
/* Waits for what it writes to its standard input, at most that long. Returns the bytes received, at
 * most n; 0: it has ended; -ETIMEDOUT. */
ssize_t stk_helper_receive(struct stk_helper *h, void *to, size_t n, double seconds);
/* Kills it, if it still runs, and waits that long. See stk_child_end(). */
void stk_helper_end(struct stk_helper *h, double seconds);

/* ---- confinement ----------------------------------------------------------------------------- */

/* What a process gives up for good before it lets a library read an untrusted file.
 *
 * Uses two mechanisms of the kernel if they exist: seccomp allows only system calls that read and
 * compute, Landlock allows opening only the named files. Neither needs privileges. */

enum {
    STK_CONFINED_CALLS = 1, /* seccomp: no network, no new process or program, writing only to
                             * `answers`, no executable memory; refused with EPERM */
    STK_CONFINED_FILES = 2, /* Landlock: opens only the named files, and only for reading */
};

struct stk_confine {
    int readable; /* descriptor of a file that may be opened again, by any of its names */
    int answers;  /* descriptor that may be written to, besides standard output and error */
};

/* Confines the calling thread and what it starts: call it in a helper process (base/helper.h).
 * /proc/self/maps stays readable. Returns the mechanisms that took effect, STK_CONFINED_*; none if the
 * kernel, the architecture or an outer sandbox does not allow them. */
unsigned stk_confine(const struct stk_confine *c);

#endif
