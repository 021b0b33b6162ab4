/*
 * spawn_wait.c - attends a running child: its output, its time limit, its end. Sleeps on a pidfd;
 * before Linux 5.3 it polls every millisecond.
 */
#include "base/spawn.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/pool.h"

#define TICK_S   0.2
#define LOOK_S   0.001 /* polling interval without a pidfd */
#define AT_ONCE  65536 /* usual capacity of a pipe */
#define PIPE_MAX 16    /* times that: its maximum capacity */

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

struct stk_ending stk_ending_of(int wait_status)
{
    int signal = WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) : 0;
    return (struct stk_ending){.status = signal ? 128 + signal : WEXITSTATUS(wait_status),
                               .signal = signal};
}

int stk_reap(pid_t pid, int *wait_status, struct rusage *use)
{
    *wait_status = 0;
    while (wait4(pid, wait_status, 0, use) < 0)
        if (errno != EINTR)
            return errno;
    return 0;
}

double stk_cpu_seconds(const struct rusage *use)
{
    return (double)(use->ru_utime.tv_sec + use->ru_stime.tv_sec) +
           (double)(use->ru_utime.tv_usec + use->ru_stime.tv_usec) * 1e-6;
}

void stk_child_kill(const struct stk_child *c, int signal)
{
    if (c->pid)
        (void)kill(c->own_group ? -c->pid : c->pid, signal);
}

void stk_child_hang_up(struct stk_child *c)
{
    for (int i = 0; i < 3; i++) {
        if (c->pipe[i] >= 0)
            close(c->pipe[i]);
        c->pipe[i] = -1;
    }
}

int stk_child_read(struct stk_child *c, int which, struct stk_buf *to, size_t max)
{
    char chunk[AT_ONCE];
    ssize_t got = read(c->pipe[which], chunk, sizeof chunk);
    if (got < 0 && errno == EINTR)
        return 0;
    if (got <= 0) {
        close(c->pipe[which]);
        c->pipe[which] = -1;
        return -1;
    }
    size_t room = max > to->len ? max - to->len : 0;
    stk_buf_put(to, chunk, (size_t)got < room ? (size_t)got : room);
    return 1;
}

/* ---- its end ------------------------------------------------------------------------------ */

bool stk_child_has_ended(const struct stk_child *c)
{
    siginfo_t info = {0};
    if (!c->pid)
        return true;
    int rc = waitid(P_PID, (id_t)c->pid, &info, WEXITED | WNOWAIT | WNOHANG);
    return rc == 0 ? info.si_pid == c->pid : errno == ECHILD;
}

static void note_wall(struct stk_child *c)
{
    if (c->wall_s == 0)
        c->wall_s = stk_now() - c->start_s;
}

int stk_child_wait(struct stk_child *c)
{
    int status;
    if (!c->pid)
        return ECHILD;
    int wrong = stk_reap(c->pid, &status, &c->use);
    note_wall(c);
    c->pid = 0;
    c->ending = stk_ending_of(status);
    return wrong;
}

/* ---- that does not end -------------------------------------------------------------------- */

static _Atomic pid_t left[STK_CHILDREN_LEFT]; /* 0: free */

unsigned stk_children_left(void)
{
    unsigned n = 0;
    for (unsigned i = 0; i < STK_CHILDREN_LEFT; i++) {
        pid_t pid = atomic_load(&left[i]);
        if (pid && waitpid(pid, NULL, WNOHANG) == 0)
            n++;
        else if (pid)
            (void)atomic_compare_exchange_strong(&left[i], &pid, 0);
    }
    return n;
}

bool stk_child_is_left(pid_t pid)
{
    bool found = false;
    for (unsigned i = 0; i < STK_CHILDREN_LEFT; i++)
        found = found || (pid && atomic_load(&left[i]) == pid);
    return found;
}

static void leave(struct stk_child *c)
{
    pid_t none = 0;
    (void)stk_children_left();
    for (unsigned i = 0; i < STK_CHILDREN_LEFT; i++, none = 0)
        if (atomic_compare_exchange_strong(&left[i], &none, c->pid))
            break;
    note_wall(c);
    c->pid = 0;
    c->ending = (struct stk_ending){128 + SIGKILL, SIGKILL};
}

/* ---- while it runs ------------------------------------------------------------------------ */

struct watch {
    struct stk_child *c;
    int pidfd;      /* -1: a kernel before 5.3 */
    double limit_s; /* end of its time limit */
    double tick_s, kill_s;
    double leave_s; /* after SIGKILL */
};

static int open_pidfd(const struct stk_child *c)
{
    return (int)syscall(SYS_pidfd_open, c->pid, 0);
}

/* Sleeps until until_s, until the child ends, or until there is something to read. True: it has
 * ended. */
static bool sleep_until(struct stk_child *c, int pidfd, double until_s)
{
    struct pollfd p[3] = {{.fd = pidfd, .events = POLLIN}};
    for (int i = 1; i < 3; i++)
        p[i] = (struct pollfd){.fd = c->text[i] ? c->pipe[i] : -1, .events = POLLIN};
    double left_s = until_s - stk_now();
    left_s = pidfd < 0 && left_s > LOOK_S ? LOOK_S : left_s > 0 ? left_s : 0;
    struct timespec t = {.tv_sec = (time_t)left_s,
                         .tv_nsec = (long)((left_s - floor(left_s)) * 1e9)};
    int got = ppoll(p, 3, &t, NULL);
    bool over = pidfd < 0 ? stk_child_has_ended(c) : got > 0 && p[0].revents;
    if (over)
        note_wall(c);
    for (int i = 1; i < 3; i++)
        if (got > 0 && p[i].revents)
            (void)stk_child_read(c, i, c->text[i], c->text_max[i]);
    return over;
}

int stk_child_wait_for(struct stk_child *c, double seconds)
{
    double until = stk_now() + seconds;
    bool over = stk_child_has_ended(c);
    int pidfd = over || seconds <= 0 ? -1 : open_pidfd(c);
    while (!over && stk_now() < until)
        over = sleep_until(c, pidfd, until);
    if (pidfd >= 0)
        close(pidfd);
    return over ? stk_child_wait(c) : ETIMEDOUT;
}

int stk_child_end(struct stk_child *c, double seconds)
{
    if (!c->pid)
        return 0;
    stk_child_kill(c, SIGKILL);
    int why = stk_child_wait_for(c, seconds);
    if (why == ETIMEDOUT)
        leave(c);
    return why;
}

static void end_it(struct watch *w, double now_s)
{
    const struct stk_child *c = w->c;
    if (w->kill_s == INFINITY && c->grace_s > 0) {
        stk_child_kill(c, SIGTERM);
        stk_child_kill(c, SIGCONT);
        w->kill_s = now_s + c->grace_s;
    } else if (w->kill_s == INFINITY || now_s >= w->kill_s) {
        stk_child_kill(c, SIGKILL);
        w->kill_s = now_s + TICK_S;
        w->leave_s = fmin(w->leave_s, now_s + STK_CHILD_END_S);
    }
}

static void check(struct watch *w)
{
    struct stk_child *c = w->c;
    double now = stk_now();
    if (now >= w->limit_s)
        c->timed_out = true;
    if (now >= w->tick_s) {
        c->stopped = (c->tick && c->tick(c->user) != 0) || c->stopped;
        w->tick_s = now + TICK_S;
    }
    if (c->timed_out || c->stopped)
        end_it(w, now);
}

static double soonest(const struct watch *w)
{
    double until = w->tick_s < w->kill_s ? w->tick_s : w->kill_s;
    return w->limit_s < until && !w->c->timed_out ? w->limit_s : until;
}

/* Reads what is left in its pipes; its own children may still write. */
static void read_rest(struct stk_child *c)
{
    for (int i = 1; i < 3; i++) {
        struct pollfd p = {.fd = c->text[i] ? c->pipe[i] : -1, .events = POLLIN};
        for (int n = 0; n < PIPE_MAX && p.fd >= 0 && poll(&p, 1, 0) > 0; n++)
            if (stk_child_read(c, i, c->text[i], c->text_max[i]) < 0)
                break;
    }
}

int stk_child_attend(struct stk_child *c)
{
    struct watch w = {.c = c,
                      .pidfd = open_pidfd(c),
                      .limit_s = c->timeout_s > 0 ? c->start_s + c->timeout_s : INFINITY,
                      .tick_s = stk_now() + TICK_S,
                      .kill_s = INFINITY,
                      .leave_s = INFINITY};
    bool over = false;
    while (!over && stk_now() < w.leave_s) {
        over = sleep_until(c, w.pidfd, soonest(&w));
        if (!over)
            check(&w);
    }
    if (w.pidfd >= 0)
        close(w.pidfd);
    if ((c->timed_out || c->stopped) && c->own_group)
        stk_child_kill(c, SIGKILL); /* children that ignored SIGTERM */
    int wrong = over ? stk_child_wait(c) : ETIMEDOUT;
    if (!over)
        leave(c);
    read_rest(c);
    return wrong;
}
