/*
 * attend.c - makes a signal end a command even while the kernel blocks it: in a read from a file
 * system that does not answer, or in a wait for a program that does not end.
 *
 * A signal asks the command to stop (progress.c). In a thread that the kernel blocks, the handler
 * does not run and the signal stays pending. So a thread that touches no file polls for it. If the
 * command was asked to stop, or its deadline is over, and it makes no progress for a while, the
 * process exits with the command still blocked. Its output is left as after a crash, which every
 * file stoker writes survives.
 */
#include "cmd/cmd.h"

#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "base/pool.h"
#include "base/thread.h"
#include "cmd/terminal.h"

#define TICK_S     0.1
#define PATIENCE_S 1.5
#define IDLE_CPU_S 0.01 /* CPU time of all threads below which the command makes no progress */

struct watcher {
    const struct stk_run *run;
    struct stk_thread *thread;
    double since_s, cpu_s; /* of the last tick with progress, or before the stop request */
};

/* The signal that asked to stop, or would if its handler ran: sigpending() reports those blocked in
 * this thread. 0: none. */
static int signal_sent(void)
{
    sigset_t set;
    if (stk_stop_signal() || sigpending(&set) < 0)
        return stk_stop_signal();
    return sigismember(&set, SIGINT) ? SIGINT : sigismember(&set, SIGTERM) ? SIGTERM : 0;
}

static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* asked: to stop. */
static bool is_stuck(struct watcher *w, bool asked)
{
    double now = stk_now(), cpu = cpu_seconds();
    if (!asked || cpu - w->cpu_s > IDLE_CPU_S) {
        w->since_s = now;
        w->cpu_s = cpu;
    }
    return now - w->since_s >= PATIENCE_S;
}

/* Allocates nothing, so that the process can fork at any time. Exits without flushing or tearing
 * down: a blocked thread may hold any lock. */
static int watch(void *user, struct stk_err *err)
{
    struct watcher *w = user;
    (void)err;
    while (stk_thread_sleep(w->thread, stk_now() + TICK_S)) {
        const struct stk_deadline *d = atomic_load(&w->run->deadline);
        int sig = signal_sent();
        bool late = !sig && d && d->is_over(d->user);
        if (!is_stuck(w, sig || late) || w->run->cleans_up)
            continue;
        void (*leave_screen)(void) = atomic_load(&w->run->leave_screen);
        if (leave_screen)
            leave_screen();
        stk_terminal_close();
        if (late)
            _exit(d->leave(d->user));
        stk_say_stopped(w->run, sig,
                        ", while waiting for a file system or a program that does not answer");
        _exit(128 + sig);
    }
    return 0;
}

int stk_attend(struct stk_run *run, int (*what)(struct stk_run *run))
{
    struct watcher w = {.run = run, .since_s = stk_now(), .cpu_s = cpu_seconds()};
    if (stk_thread_open(&w.thread, NULL) == 0)
        stk_thread_begin(w.thread, watch, NULL, &w);
    int status = what(run);
    (void)stk_thread_close(w.thread, INFINITY);
    return status;
}
