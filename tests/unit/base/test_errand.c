/* A function in a child with a time limit: its answer, its failure, and one that never returns. */
#include "base/errand.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
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

static void answers(void)
{
    struct answer a;
    int value = 0;
    struct stk_errand e = {.inside = fill, .user = &value, .limit_s = 60};
    CHECK_INT(stk_errand_run(&e, &a, sizeof a), 0);
    CHECK_INT(a.a, 1);
    value = ENOSPC;
    CHECK_INT(stk_errand_run(&e, &a, sizeof a), ENOSPC);
    CHECK_INT(a.b, ENOSPC);
}

/* What it has written before it hung counts. */
static void never_returns(void)
{
    struct answer a;
    struct stk_errand e = {.inside = hang, .limit_s = 0.3};
    CHECK_INT(stk_errand_run(&e, &a, sizeof a), ETIMEDOUT);
    CHECK_INT(a.a == 5 || a.a == 0, 1); /* on a busy machine it may not have begun */
}

static void is_stopped(void)
{
    struct answer a;
    int asked = 0;
    struct stk_errand e = {.inside = hang, .limit_s = 600, .stop = at_once, .stop_user = &asked};
    CHECK_INT(stk_errand_run(&e, &a, sizeof a), ECANCELED);
    CHECK(asked > 0);
}

static void crashes(void)
{
    struct answer a;
    struct stk_errand e = {.inside = crash, .limit_s = 60};
    CHECK_INT(stk_errand_run(&e, &a, sizeof a), EIO);
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    CHECK_RUN(answers);
    CHECK_RUN(never_returns);
    CHECK_RUN(is_stopped);
    CHECK_RUN(crashes);
    return CHECK_DONE();
}
