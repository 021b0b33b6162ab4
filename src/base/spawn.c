/*
 * spawn.c - finds programs as execvp() does, starts children, and attends them.
 */
#include "base/spawn.h"
#include "base/fork_heap.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <math.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "base/pool.h"

extern char **environ;

static int may_run(const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return errno;
    if (!S_ISREG(st.st_mode))
        return EACCES;
    return access(path, X_OK) == 0 ? 0 : EACCES;
}

int stk_find_program(const char *name, char **out)
{
    const char *path = getenv("PATH");
    int worst = ENOENT, rc;
    *out = NULL;
    if (strchr(name, '/')) {
        rc = may_run(name);
        *out = rc ? NULL : strdup(name);
        return rc ? rc : *out ? 0 : ENOMEM;
    }
    path = path ? path : "/usr/local/bin:/bin:/usr/bin";
    for (bool more = *name; more;) {
        size_t len = strcspn(path, ":");
        struct stk_buf b = STK_BUF_INIT;
        stk_buf_printf(&b, "%.*s%s%s", (int)len, path, len ? "/" : "./", name);
        rc = may_run(stk_buf_cstr(&b));
        if (rc == 0)
            *out = strdup(stk_buf_cstr(&b));
        stk_buf_release(&b);
        if (*out)
            return 0;
        worst = rc == EACCES ? EACCES : worst;
        more = path[len];
        path += len + 1;
    }
    return worst;
}

int stk_self_path(char *out, size_t size, struct stk_err *err)
{
    ssize_t n = readlink("/proc/self/exe", out, size - 1);
    if (n < 0)
        return stk_err_sys(err, "/proc/self/exe", "readlink");
    out[n] = '\0';
    return 0;
}

const char **stk_environment(bool (*keep)(const char *var, const void *user), const void *user,
                             const char *const *more)
{
    size_t n = 0, nmore = 0, k = 0;
    while (environ && environ[n])
        n++;
    while (more && more[nmore])
        nmore++;
    const char **env = malloc((n + nmore + 1) * sizeof *env);
    for (size_t i = 0; env && i < n; i++)
        if (keep(environ[i], user))
            env[k++] = environ[i];
    for (size_t i = 0; env && i < nmore; i++)
        env[k++] = more[i];
    if (env)
        env[k] = NULL;
    return env;
}

/* ---- in the child --------------------------------------------------------------------------- */

/* What the child needs, and what we keep until it runs. */
struct starting {
    struct stk_child *c;
    int end[3];    /* its new descriptors 0, 1 and 2; -1: unchanged */
    int null_fd;   /* -1: not needed */
    int report[2]; /* pipe that carries errno if inside() or exec failed; -1: not needed */
    sigset_t mask; /* the caller's */
    pid_t parent;
};

/* After vfork() our handlers would run in our memory, so they are always reset. */
static void reset_signals(bool keep_ignored)
{
    const struct sigaction usual = {.sa_handler = SIG_DFL};
    for (int sig = 1; sig < NSIG; sig++) {
        struct sigaction now;
        if (sigaction(sig, NULL, &now) == 0 && now.sa_handler != SIG_DFL &&
            !(keep_ignored && now.sa_handler == SIG_IGN))
            (void)sigaction(sig, &usual, NULL);
    }
}

/* If our standard descriptors are closed, others may be 0, 1 or 2. Moves them away first, or one
 * would be overwritten before it is used, or closed when the program starts. */
static int out_of_the_way(int *fd)
{
    if (*fd >= 0 && *fd < 3)
        *fd = fcntl(*fd, F_DUPFD_CLOEXEC, 3);
    return *fd;
}

static int take_descriptors(struct starting *s)
{
    for (int i = 0; i < 3; i++)
        if (s->end[i] >= 0 && out_of_the_way(&s->end[i]) < 0)
            return errno;
    if (s->report[1] >= 0 && out_of_the_way(&s->report[1]) < 0)
        return errno;
    for (int i = 0; i < 3; i++)
        if (s->c->pipe[i] >= 0)
            close(s->c->pipe[i]);
    for (int i = 0; i < 3; i++)
        if (s->end[i] >= 0 && dup2(s->end[i], i) < 0)
            return errno;
    return 0;
}

static int run_program(const struct stk_child *c)
{
    char *const *argv = (char *const *)(uintptr_t)c->argv;
    char *const *env = c->env ? (char *const *)(uintptr_t)c->env : environ;
    if (c->path)
        execve(c->path, argv, env);
    else
        execvpe(argv[0], argv, env);
    return errno;
}

/* Returns errno. After vfork() the child shares our memory: makes only calls that do not touch
 * it. */
static int become(struct starting *s)
{
    const struct stk_child *c = s->c;
    sigset_t none;
    sigemptyset(&none);
    if (!c->inside || !c->keep_signals)
        reset_signals(c->keep_signals);
    int wrong = take_descriptors(s);
    if (wrong)
        return wrong;
    if ((c->own_group && setpgid(0, 0) != 0) || (c->dir && chdir(c->dir) != 0) ||
        (c->cpus && sched_setaffinity(0, sizeof *c->cpus, c->cpus) != 0))
        return errno;
    if (c->death_signal) {
        (void)prctl(PR_SET_PDEATHSIG, c->death_signal);
        if (getppid() != s->parent)
            return ESRCH; /* the parent is gone: too late for a signal */
    }
    sigprocmask(SIG_SETMASK, c->keep_signals ? &s->mask : &none, NULL);
    if (c->inside && !c->argv)
        _exit(c->inside(c->user));
    wrong = c->inside ? c->inside(c->user) : 0;
    return wrong ? wrong : run_program(c);
}

/* ---- in the parent -------------------------------------------------------------------------- */

/* The other end of a pipe must not leak into a child that another thread forks at the same time: a
 * child without exec would keep it open. */
static pthread_mutex_t fork_lock = PTHREAD_MUTEX_INITIALIZER;

static bool is_made(int fd)
{
    return fd == STK_FD_PIPE || fd == STK_FD_SOCKET;
}

static int make_pipe(struct starting *s, int i)
{
    int fd[2], ours = i == 0 ? 1 : 0; /* the child reads 0 and writes 1 and 2 */
    int wrong = s->c->fd[i] == STK_FD_SOCKET
                    ? socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd)
                    : pipe2(fd, O_CLOEXEC);
    if (wrong)
        return errno;
    s->c->pipe[i] = fd[ours];
    s->end[i] = fd[!ours];
    return 0;
}

static int make_descriptors(struct starting *s)
{
    struct stk_child *c = s->c;
    int wrong = 0;
    for (int i = 0; i < 3 && !wrong; i++) {
        if (is_made(c->fd[i]))
            wrong = make_pipe(s, i);
        else if (c->fd[i] == STK_FD_NULL && s->null_fd < 0 &&
                 (s->null_fd = open("/dev/null", O_RDWR | O_CLOEXEC)) < 0)
            wrong = errno;
        else if (c->fd[i] != STK_FD_KEEP)
            s->end[i] = c->fd[i] == STK_FD_NULL ? s->null_fd : c->fd[i];
    }
    if (!wrong && c->inside && c->argv && pipe2(s->report, O_CLOEXEC) != 0)
        wrong = errno;
    return wrong;
}

static void drop(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* Closes the descriptors that only the child needs. */
static void drop_descriptors(struct starting *s)
{
    for (int i = 0; i < 3; i++)
        if (is_made(s->c->fd[i]))
            drop(&s->end[i]);
    drop(&s->null_fd);
    drop(&s->report[1]);
}

static int fork_child(struct starting *s)
{
    pid_t pid = fork();
    if (pid == 0) {
        (void)pthread_mutex_unlock(&fork_lock);
        int wrong = become(s);
        if (s->report[1] >= 0)
            (void)!write(s->report[1], &wrong, sizeof wrong);
        _exit(127);
    }
    int wrong = pid < 0 ? errno : 0;
    s->c->pid = pid > 0 ? pid : 0;
    if (pid > 0 && s->c->own_group)
        (void)setpgid(pid, pid); /* in both parent and child: either may run first */
    return wrong;
}

__attribute__((noinline)) static int vfork_child(struct starting *s)
{
    /* A copy: the child moves descriptors that stay in place here. */
    struct starting theirs = *s;
    volatile int wrong = 0;
    pid_t pid = vfork();
    if (pid == 0) {
        wrong = become(&theirs);
        _exit(127);
    }
    s->c->pid = pid > 0 ? pid : 0;
    return pid < 0 ? errno : wrong;
}

/* The pipe closes by itself when exec succeeds. */
static int hear_report(struct starting *s)
{
    int wrong = 0;
    while (read(s->report[0], &wrong, sizeof wrong) < 0 && errno == EINTR)
        ;
    drop(&s->report[0]);
    return wrong;
}

/* Clears the results of an earlier start. */
static void forget(struct stk_child *c)
{
    c->pid = 0;
    for (int i = 0; i < 3; i++)
        c->pipe[i] = -1;
    c->ending = (struct stk_ending){0};
    c->use = (struct rusage){0};
    c->wall_s = 0;
    c->timed_out = c->stopped = false;
}

int stk_child_start(struct stk_child *c)
{
    struct starting s = {.c = c, .end = {-1, -1, -1}, .null_fd = -1, .report = {-1, -1}};
    sigset_t all;
    sigfillset(&all);
    s.parent = getpid();
    forget(c);
    (void)pthread_mutex_lock(&fork_lock);
    int wrong = make_descriptors(&s);
    if (!wrong) {
        /* Signals are blocked until the child has called exec: our handlers must not run in it. */
        pthread_sigmask(SIG_SETMASK, &all, &s.mask);
        c->start_s = stk_now();
        wrong = c->inside ? fork_child(&s) : vfork_child(&s);
        pthread_sigmask(SIG_SETMASK, &s.mask, NULL);
    }
    drop_descriptors(&s);
    (void)pthread_mutex_unlock(&fork_lock);
    if (s.report[0] >= 0 && !wrong)
        wrong = hear_report(&s);
    drop(&s.report[0]);
    if (wrong && c->pid)
        (void)stk_child_wait(c);
    if (wrong)
        stk_child_hang_up(c);
    return wrong;
}

/* ---- a running child ------------------------------------------------------------------------- */

/* Attends a running child: its output, its time limit, its end. Sleeps on a pidfd; before Linux
 * 5.3 it polls every millisecond. */

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
