/*
 * run_exec.c - one process, started, timed and waited for with as little as possible around it:
 * vfork, which copies no page tables, a clock before and after, and a poll that sleeps meanwhile.
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/pool.h"
#include "lab/run_priv.h"

#define TICK_S  0.2
#define GRACE_S 3.0 /* between asking a program to end and ending it */

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

/* In the child, which shares our memory until it runs the program: calls that touch nothing. */
static int become(const struct stk_exec *e, int null_fd)
{
    static const int defaults[] = {SIGINT, SIGTERM, SIGPIPE, SIGXFSZ, SIGQUIT, SIGHUP, SIGCHLD};
    sigset_t none;
    sigemptyset(&none);
    for (size_t i = 0; i < sizeof defaults / sizeof *defaults; i++)
        signal(defaults[i], SIG_DFL);
    if ((!e->same_group && setpgid(0, 0) != 0) || dup2(null_fd, 0) < 0 || dup2(e->out_fd, 1) < 0 ||
        dup2(e->out_fd, 2) < 0)
        return errno;
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (e->dir && chdir(e->dir) != 0)
        return errno;
    if (e->cpus && sched_setaffinity(0, sizeof *e->cpus, e->cpus) != 0)
        return errno;
    sigprocmask(SIG_SETMASK, &none, NULL);
    execve(e->path, (char *const *)(uintptr_t)e->argv, (char *const *)(uintptr_t)e->envp);
    return errno;
}

/* Signals wait until the child is the program: our handlers must not run in it. */
__attribute__((noinline)) static pid_t start(const struct stk_exec *e, int null_fd, int *trouble)
{
    volatile int failed = 0;
    sigset_t all, old;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &old);
    pid_t pid = vfork();
    if (pid == 0) {
        failed = become(e, null_fd);
        _exit(127);
    }
    *trouble = pid < 0 ? errno : failed;
    sigprocmask(SIG_SETMASK, &old, NULL);
    return pid;
}

/* ---- waiting ------------------------------------------------------------------------------ */

struct waiting {
    const struct stk_exec *e;
    struct stk_exec_end *end;
    pid_t pid;
    int pidfd; /* -1: a kernel before 5.3, where the child is looked at every millisecond */
    double start_s, kill_s;
};

static bool has_ended(pid_t pid)
{
    siginfo_t info = {0};
    return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT | WNOHANG) == 0 && info.si_pid == pid;
}

/* True: it has ended. */
static bool sleep_until(const struct waiting *w, double until_s)
{
    double left_s = until_s - stk_now();
    if (w->pidfd >= 0) {
        struct pollfd p = {.fd = w->pidfd, .events = POLLIN};
        struct timespec t = {0};
        t.tv_sec = left_s > 0 ? (time_t)left_s : 0;
        t.tv_nsec = left_s > 0 ? (long)((left_s - floor(left_s)) * 1e9) : 0;
        return ppoll(&p, 1, &t, NULL) == 1;
    }
    bool over = false;
    while (!(over = has_ended(w->pid)) && stk_now() < until_s)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    return over;
}

static pid_t whom(const struct waiting *w)
{
    return w->e->same_group ? w->pid : -w->pid;
}

static void end_it(struct waiting *w, double now_s)
{
    if (w->kill_s == 0) {
        kill(whom(w), SIGTERM);
        kill(whom(w), SIGCONT);
        w->kill_s = now_s + GRACE_S;
    } else if (now_s >= w->kill_s) {
        kill(whom(w), SIGKILL);
        w->kill_s = INFINITY;
    }
}

static void await(struct waiting *w)
{
    const struct stk_exec *e = w->e;
    double limit_s = e->timeout_s > 0 ? w->start_s + e->timeout_s : INFINITY;
    for (;;) {
        double now = stk_now(), until = now + TICK_S;
        until = limit_s < until && w->kill_s == 0 ? limit_s : until;
        until = w->kill_s > 0 && w->kill_s < until ? w->kill_s : until;
        bool over = sleep_until(w, until);
        now = stk_now();
        if (over) {
            w->end->wall_s = now - w->start_s;
            return;
        }
        if (now >= limit_s)
            w->end->timed_out = true;
        if (e->tick && e->tick(e->user) != 0)
            w->end->stopped = true;
        if (w->end->timed_out || w->end->stopped)
            end_it(w, now);
    }
}

double stk_cpu_seconds(const struct rusage *use)
{
    return (double)(use->ru_utime.tv_sec + use->ru_stime.tv_sec) +
           (double)(use->ru_utime.tv_usec + use->ru_stime.tv_usec) * 1e-6;
}

static void collect(struct waiting *w)
{
    struct rusage use = {0}, ours = {0};
    struct stk_exec_end *end = w->end;
    int status = 0;
    while (wait4(w->pid, &status, 0, &use) < 0 && errno == EINTR)
        ;
    if ((end->timed_out || end->stopped) && !w->e->same_group)
        kill(-w->pid, SIGKILL); /* children that did not listen */
    end->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    end->status = end->signal ? 128 + end->signal : WEXITSTATUS(status);
    end->cpu_s = stk_cpu_seconds(&use);
    /* Between vfork and exec it had our memory, and that counts as its own. */
    getrusage(RUSAGE_SELF, &ours);
    end->max_rss_bytes = use.ru_maxrss > ours.ru_maxrss ? (int64_t)use.ru_maxrss * 1024 : -1;
}

int stk_exec_timed(const struct stk_exec *e, struct stk_exec_end *end, struct stk_err *err)
{
    struct waiting w = {.e = e, .end = end};
    int trouble = 0, null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    *end = (struct stk_exec_end){.wall_s = NAN, .cpu_s = NAN, .max_rss_bytes = -1};
    if (null_fd < 0)
        return stk_err_sys(err, "/dev/null", "open");
    w.start_s = stk_now();
    w.pid = start(e, null_fd, &trouble);
    if (w.pid > 0) {
        w.pidfd = (int)syscall(SYS_pidfd_open, w.pid, 0);
        await(&w);
        collect(&w);
        if (w.pidfd >= 0)
            close(w.pidfd);
    }
    close(null_fd);
    errno = trouble;
    return trouble ? stk_err_sys(err, e->path, "cannot be run") : 0;
}
