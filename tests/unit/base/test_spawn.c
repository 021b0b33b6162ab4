/*
 * test_spawn.c - children: what they are started with, what we learn of their end, and that
 * nothing of them is left when their time is up.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/pool.h"
#include "base/spawn.h"
#include "check.h"
#include "scratch.h"

#define SH(script)                                                                                 \
    (const char *const[])                                                                          \
    {                                                                                              \
        "sh", "-c", script, NULL                                                                   \
    }
#define OUTPUT                                                                                     \
    {                                                                                              \
        STK_FD_NULL, STK_FD_PIPE, STK_FD_KEEP                                                      \
    }
#define MAX (1u << 20)

/* Runs it to its end; what it wrote is compared. */
static void says(struct stk_child *c, const char *want)
{
    struct stk_buf b = STK_BUF_INIT;
    c->text[1] = &b;
    c->text_max[1] = MAX;
    CHECK_INT(stk_child_start(c), 0);
    CHECK_INT(stk_child_attend(c), 0);
    CHECK_STR(stk_buf_cstr(&b), want);
    stk_child_hang_up(c);
    stk_buf_release(&b);
}

static void endings(void)
{
    struct stk_child c = {.argv = SH("exit 3"), .fd = {STK_FD_NULL, STK_FD_NULL, STK_FD_NULL}};
    CHECK_INT(stk_child_start(&c), 0);
    CHECK(c.pid > 0 && c.pipe[0] < 0 && c.pipe[1] < 0);
    CHECK_INT(stk_child_wait(&c), 0);
    CHECK(c.ending.status == 3 && !c.ending.signal && c.wall_s > 0 && c.pid == 0);
    c.argv = SH("kill -USR1 $$");
    CHECK_INT(stk_child_start(&c), 0);
    CHECK_INT(stk_child_wait(&c), 0);
    CHECK(c.ending.signal == SIGUSR1 && c.ending.status == 128 + SIGUSR1);
    CHECK_INT(stk_child_wait(&c), ECHILD);
    stk_child_kill(&c, SIGKILL); /* no process, least of all our own group */
}

/* The caller learns at once that the program does not exist, and has no child to wait for. */
static void not_there(void)
{
    int fd[] = OUTPUT;
    struct stk_child c = {.argv = (const char *const[]){"no-such-program", NULL}};
    memcpy(c.fd, fd, sizeof fd);
    CHECK_INT(stk_child_start(&c), ENOENT);
    CHECK(c.pid == 0 && c.pipe[1] < 0);
    c.path = "/nowhere/sh";
    CHECK_INT(stk_child_start(&c), ENOENT);
    c.path = "/";
    CHECK_INT(stk_child_start(&c), EACCES);
    c = (struct stk_child){.argv = SH("true"), .fd = OUTPUT, .dir = "/nowhere"};
    CHECK_INT(stk_child_start(&c), ENOENT);
    CHECK(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD);
}

static void collected(void)
{
    struct stk_buf out = STK_BUF_INIT, err = STK_BUF_INIT;
    struct stk_child c = {.argv = SH("yes | head -n 100000; echo no >&2; sleep 100 & exit 1"),
                          .fd = {STK_FD_NULL, STK_FD_PIPE, STK_FD_PIPE},
                          .own_group = true,
                          .text = {NULL, &out, &err},
                          .text_max = {0, 150001, 2}};
    CHECK_INT(stk_child_start(&c), 0);
    pid_t group = c.pid;
    CHECK_INT(stk_child_attend(&c), 0); /* not kept by the one that sleeps */
    CHECK(c.ending.status == 1 && !c.timed_out);
    CHECK(out.len == 150001 && memcmp(out.data, "y\ny\n", 4) == 0);
    CHECK_STR(stk_buf_cstr(&err), "no");
    CHECK_INT(kill(-group, SIGKILL), 0);
    stk_child_hang_up(&c);
    stk_buf_release(&out);
    stk_buf_release(&err);
}

static void surroundings(void)
{
    const char *const env[] = {"A=b", "PATH=/usr/bin:/bin", NULL};
    struct stk_child c = {.argv = SH("echo $A $HOME; pwd"), .fd = OUTPUT, .env = env, .dir = "/"};
    says(&c, "b\n/\n");
    cpu_set_t ours, one;
    CHECK_INT(sched_getaffinity(0, sizeof ours, &ours), 0);
    CPU_ZERO(&one);
    for (size_t i = 0; i < CPU_SETSIZE && !CPU_COUNT(&one); i++)
        if (CPU_ISSET(i, &ours))
            CPU_SET(i, &one);
    c = (struct stk_child){.argv = SH("nproc"), .fd = OUTPUT, .cpus = &one};
    says(&c, "1\n");
}

static bool not_home(const char *var, const void *user)
{
    (void)user;
    return strncmp(var, "HOME=", 5) != 0;
}

static void environments(void)
{
    static const char *const more[] = {"A=b", "C=", NULL};
    CHECK_INT(setenv("D", "d", 1), 0);
    const char **env = stk_environment(not_home, NULL, more);
    struct stk_child c = {
        .argv = SH("echo ${HOME-none} $A ${C-none} $D"), .env = env, .fd = OUTPUT};
    says(&c, "none b d\n");
    free(env);
}

static int stop_second(void *user)
{
    return ++*(int *)user > 1;
}

static bool group_is_gone(pid_t group)
{
    for (double until = stk_now() + 60; stk_now() < until;) {
        if (kill(-group, 0) != 0)
            return true;
        while (waitpid(-1, NULL, WNOHANG) > 0) /* orphans come to us: see main() */
            ;
    }
    return false;
}

/* A run that hangs is ended with all that it started, also what does not listen. */
static void time_is_up(void)
{
    int ticks = 0;
    struct stk_child c = {.argv = SH("trap '' TERM; sleep 100 & sleep 100 & wait; sleep 100"),
                          .fd = {STK_FD_NULL, STK_FD_NULL, STK_FD_NULL},
                          .own_group = true,
                          .timeout_s = 0.05,
                          .grace_s = 0.1};
    CHECK_INT(stk_child_start(&c), 0);
    pid_t group = c.pid;
    CHECK_INT(stk_child_attend(&c), 0);
    CHECK(c.timed_out && !c.stopped && c.ending.signal == SIGKILL && c.wall_s >= 0.15);
    CHECK(group_is_gone(group));
    c.argv = SH("sleep 100");
    c.timeout_s = 0;
    c.tick = stop_second;
    c.user = &ticks;
    CHECK_INT(stk_child_start(&c), 0);
    CHECK_INT(stk_child_attend(&c), 0);
    CHECK(!c.timed_out && c.stopped && c.ending.signal == SIGTERM && ticks == 2);
    c = (struct stk_child){.argv = SH("exec sleep 100"), .fd = OUTPUT};
    CHECK_INT(stk_child_start(&c), 0);
    CHECK(!stk_child_has_ended(&c));
    CHECK_INT(stk_child_wait_for(&c, 0), ETIMEDOUT);
    CHECK_INT(stk_child_wait_for(&c, 0.01), ETIMEDOUT);
    stk_child_kill(&c, SIGKILL);
    CHECK_INT(stk_child_wait_for(&c, 60), 0);
    CHECK_INT(c.ending.signal, SIGKILL);
    stk_child_hang_up(&c);
}

static void usage(void)
{
    struct stk_child c = {.argv = SH("i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"),
                          .fd = {STK_FD_KEEP, STK_FD_KEEP, STK_FD_KEEP}};
    CHECK_INT(stk_child_start(&c), 0);
    CHECK_INT(stk_child_wait(&c), 0);
    CHECK(stk_cpu_seconds(&c.use) > 0 && c.use.ru_maxrss > 0);
}

static int fail_inside(void *user)
{
    return *(int *)user;
}

static int set_inside(void *user)
{
    return setenv("FROM_INSIDE", user, 1);
}

static int write_inside(void *user)
{
    (void)!write(1, user, 3);
    return 7;
}

static void functions(void)
{
    int wrong = ENOTTY;
    struct stk_child c = {.argv = SH("true"), .fd = OUTPUT, .inside = fail_inside, .user = &wrong};
    CHECK_INT(stk_child_start(&c), ENOTTY);
    char yes[] = "yes";
    c = (struct stk_child){
        .argv = SH("echo $FROM_INSIDE"), .fd = OUTPUT, .inside = set_inside, .user = yes};
    says(&c, "yes\n");
    CHECK(!getenv("FROM_INSIDE"));
    c.argv = (const char *const[]){"no-such-program", NULL};
    CHECK_INT(stk_child_start(&c), ENOENT);
    c = (struct stk_child){.fd = OUTPUT, .inside = write_inside, .user = yes};
    says(&c, "yes");
    CHECK_INT(c.ending.status, 7);
}

/* A user's program must not start with signals ignored only because we ignore them; one that
 * nohup started us for, must. */
static void signals(void)
{
    const char *script = "kill -HUP $$; echo alive";
    struct stk_child c = {.argv = SH(script), .fd = OUTPUT};
    sigset_t hup, old;
    sigemptyset(&hup);
    sigaddset(&hup, SIGHUP);
    signal(SIGHUP, SIG_IGN);
    c.keep_signals = true;
    says(&c, "alive\n");
    c.keep_signals = false;
    says(&c, "");
    CHECK_INT(c.ending.signal, SIGHUP);
    signal(SIGHUP, SIG_DFL);
    sigprocmask(SIG_BLOCK, &hup, &old);
    says(&c, "");
    sigprocmask(SIG_SETMASK, &old, NULL);
    CHECK_INT(c.ending.signal, SIGHUP);
}

/* In a child of ours, since it closes its standard descriptors. What it finds wrong is its exit
 * status. */
static int without_standard_fds(void *user)
{
    for (int i = 0; i < 3; i++)
        close(i);
    int out = open(user, O_RDWR | O_CREAT | O_CLOEXEC, 0600), in = open("/dev/null", O_RDONLY);
    char text[64] = "";
    struct stk_buf b = STK_BUF_INIT;
    struct stk_child c = {.argv = SH("echo out; echo err >&2; cat"), .fd = {in, out, out}};
    if (out != 0 || in != 1 || stk_child_start(&c) != 0 || stk_child_wait(&c) != 0)
        return 1;
    if (pread(out, text, sizeof text - 1, 0) != 8 || strcmp(text, "out\nerr\n") != 0)
        return 2;
    close(in);
    close(out);
    c = (struct stk_child){.argv = SH("cat; echo out; echo err >&2"),
                           .fd = {STK_FD_NULL, STK_FD_PIPE, STK_FD_NULL},
                           .text = {NULL, &b},
                           .text_max = {0, MAX}};
    if (stk_child_start(&c) != 0 || stk_child_attend(&c) != 0 || c.ending.status != 0)
        return 3;
    int rc = strcmp(stk_buf_cstr(&b), "out\n") == 0 ? 0 : 4;
    stk_buf_reset(&b);
    stk_child_hang_up(&c);
    c.inside = set_inside; /* with a pipe for errors among them */
    c.user = user;
    if (!rc && (stk_child_start(&c) != 0 || stk_child_attend(&c) != 0 || c.ending.status != 0))
        rc = 5;
    rc = !rc && strcmp(stk_buf_cstr(&b), "out\n") != 0 ? 6 : rc;
    c.argv = (const char *const[]){"no-such-program", NULL};
    rc = !rc && stk_child_start(&c) != ENOENT ? 7 : rc;
    stk_buf_release(&b);
    return rc;
}

static void closed_fds(void)
{
    char path[600];
    snprintf(path, sizeof path, "%s", scratch_path("out"));
    struct stk_child c = {.fd = {STK_FD_KEEP, STK_FD_KEEP, STK_FD_KEEP},
                          .inside = without_standard_fds,
                          .user = path};
    CHECK_INT(stk_child_start(&c), 0);
    CHECK_INT(stk_child_wait(&c), 0);
    CHECK_INT(c.ending.status, 0);
}

static void input(void)
{
    struct stk_child c = {.argv = SH("cat"), .fd = {STK_FD_PIPE, STK_FD_PIPE, STK_FD_KEEP}};
    struct stk_buf b = STK_BUF_INIT;
    CHECK_INT(stk_child_start(&c), 0);
    CHECK_INT(write(c.pipe[0], "abc", 3), 3);
    close(c.pipe[0]);
    c.pipe[0] = -1;
    while (stk_child_read(&c, 1, &b, MAX) >= 0)
        ;
    CHECK(c.pipe[1] < 0);
    CHECK_STR(stk_buf_cstr(&b), "abc");
    CHECK_INT(stk_child_wait(&c), 0);
    stk_buf_release(&b);
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
    scratch_begin();
    CHECK_RUN(endings);
    CHECK_RUN(not_there);
    CHECK_RUN(surroundings);
    CHECK_RUN(environments);
    CHECK_RUN(usage);
    CHECK_RUN(functions);
    CHECK_RUN(signals);
    CHECK_RUN(closed_fds);
    CHECK_RUN(input);
    CHECK_RUN(time_is_up);
    CHECK_RUN(collected);
    scratch_done();
    return CHECK_DONE();
}
