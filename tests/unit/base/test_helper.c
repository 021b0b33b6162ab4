/* A function in a child: its answer, its failure, its silence, and what it has of ours. */
#include "base/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

struct answer {
    int a, b;
};

static int fill(void *user, void *answer)
{
    *(struct answer *)answer = (struct answer){1, *(int *)user};
    return *(int *)user;
}

static int hang(void *user, void *answer)
{
    (void)user;
    ((struct answer *)answer)->a = 5;
    for (;;)
        pause();
    return 0;
}

static int pause_for_ever(void *user)
{
    struct answer nothing;
    return hang(user, &nothing);
}

static int crash(void *user, void *answer)
{
    (void)user;
    (void)answer;
    signal(SIGKILL, SIG_DFL);
    return raise(SIGKILL);
}

static int at_once(void *user)
{
    ++*(int *)user;
    return 1;
}

static const struct stk_limit minute = {.seconds = 60};

static void answers(void)
{
    struct answer a;
    int value = 0;
    CHECK_INT(stk_helper_ask(fill, &value, &minute, &a, sizeof a), 0);
    CHECK_INT(a.a, 1);
    value = ENOSPC;
    CHECK_INT(stk_helper_ask(fill, &value, &minute, &a, sizeof a), ENOSPC);
    CHECK_INT(a.b, ENOSPC);
}

/* What it has written before it hung counts. */
static void never_returns(void)
{
    struct answer a;
    const struct stk_limit limit = {.seconds = 0.3};
    CHECK_INT(stk_helper_ask(hang, NULL, &limit, &a, sizeof a), ETIMEDOUT);
    CHECK_INT(a.a == 5 || a.a == 0, 1); /* on a busy machine it may not have begun */
}

static void is_stopped(void)
{
    struct answer a;
    int asked = 0;
    const struct stk_limit limit = {.seconds = 600, .stop = at_once, .user = &asked};
    CHECK_INT(stk_helper_ask(hang, NULL, &limit, &a, sizeof a), ECANCELED);
    CHECK(asked > 0);
}

static void crashes(void)
{
    struct answer a;
    CHECK_INT(stk_helper_ask(crash, NULL, &minute, &a, sizeof a), EIO);
}

/* ---- what it has of ours ---- */

static int count_open(void *user, void *answer)
{
    (void)user;
    for (int fd = 3; fd < 1024; fd++)
        *(int *)answer += fcntl(fd, F_GETFD) >= 0;
    return 0;
}

/* A child that the kernel does not let go would hold our locks for as long. */
static void no_descriptor_of_ours(void)
{
    int n = -1, fd = open("/proc/self/exe", O_RDONLY); /* not even without O_CLOEXEC */
    CHECK(fd >= 0);
    CHECK_INT(stk_helper_ask(count_open, NULL, &minute, &n, sizeof n), 0);
    CHECK_INT(n, 0);
    close(fd);
}

/* ---- a conversation ---- */

static int echo(void *user)
{
    char text[64];
    struct stat st;
    ssize_t n;
    if (fstat(*(int *)user, &st) != 0)
        return 1;
    while ((n = read(STDIN_FILENO, text, sizeof text)) > 0 && *text != '!')
        if (write(STDIN_FILENO, text, (size_t)n) != n)
            break;
    return 7;
}

static void conversation(void)
{
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    struct stk_helper h = {.run = echo, .user = &fd, .keep = fd};
    char text[64] = "";
    CHECK_INT(stk_helper_start(&h), 0);
    for (int i = 0; i < 100; i++) {
        CHECK(stk_helper_send(&h, "hello", 6));
        CHECK_INT(stk_helper_receive(&h, text, sizeof text, 60), 6);
        CHECK_STR(text, "hello");
    }
    CHECK_INT(stk_helper_receive(&h, text, sizeof text, 0), -ETIMEDOUT);
    CHECK(stk_helper_send(&h, "!", 1));
    CHECK_INT(stk_helper_receive(&h, text, sizeof text, 60), 0);
    CHECK_INT(stk_child_wait_for(&h.child, 60), 0);
    CHECK_INT(h.child.ending.status, 7);
    CHECK(!stk_helper_send(&h, "hello", 6)); /* and SIGPIPE does not end us */
    stk_helper_end(&h, 60);
    stk_helper_end(&h, 60);
    close(fd);
    CHECK(fcntl(STDIN_FILENO, F_GETFD) >= 0);
}

/* One that the kernel would not let go is as one that was given no time to end. */
static void left_behind(void)
{
    struct answer a;
    struct stk_child c = {.inside = pause_for_ever, .fd = {STK_FD_NULL, STK_FD_NULL, STK_FD_KEEP}};
    CHECK_INT(stk_child_start(&c), 0);
    pid_t pid = c.pid;
    int why = stk_child_end(&c, 0);
    CHECK(why == 0 || why == ETIMEDOUT);
    CHECK_INT(stk_child_is_left(pid), why == ETIMEDOUT);
    CHECK(c.pid == 0 && c.ending.signal == SIGKILL);
    int value = 0;
    CHECK_INT(stk_helper_ask(fill, &value, &minute, &a, sizeof a), 0);
    while (stk_children_left())
        sched_yield();
    CHECK(!stk_child_is_left(pid));
    CHECK(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD);
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    CHECK_RUN(answers);
    CHECK_RUN(never_returns);
    CHECK_RUN(is_stopped);
    CHECK_RUN(crashes);
    CHECK_RUN(no_descriptor_of_ours);
    CHECK_RUN(conversation);
    CHECK_RUN(left_behind);
    return CHECK_DONE();
}
