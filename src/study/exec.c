/*
 * exec.c - runs one process to its end and times it with as little as possible around it:
 * vfork, which copies no page tables, a clock before and after, and a poll that sleeps in between.
 */
#include <errno.h>
#include <math.h>
#include <signal.h>

#include "study/priv.h"

#define GRACE_S 3.0 /* between asking a program to end and killing it */

/* Between vfork and exec it shared our memory, which counts as its own. */
static int64_t peak_bytes(const struct rusage *use)
{
    struct rusage ours = {0};
    getrusage(RUSAGE_SELF, &ours);
    return use->ru_maxrss > ours.ru_maxrss ? (int64_t)use->ru_maxrss * 1024 : -1;
}

int stk_exec_timed(struct stk_child *c, struct stk_exec_end *end, struct stk_err *err)
{
    *end = (struct stk_exec_end){.wall_s = NAN, .cpu_s = NAN, .max_rss_bytes = -1};
    c->death_signal = SIGTERM;
    c->grace_s = GRACE_S;
    errno = stk_child_start(c);
    if (errno)
        return stk_err_sys(err, c->path, "cannot be run");
    (void)stk_child_attend(c);
    *end = (struct stk_exec_end){.wall_s = c->wall_s,
                                 .cpu_s = stk_cpu_seconds(&c->use),
                                 .max_rss_bytes = peak_bytes(&c->use),
                                 .status = c->ending.status,
                                 .signal = c->ending.signal,
                                 .timed_out = c->timed_out,
                                 .stopped = c->stopped};
    return 0;
}
