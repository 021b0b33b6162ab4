/* errand.c - runs a function in a child that shares a piece of memory with us, for a limited time.
 */
#include "base/errand.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>

#include "base/pool.h"
#include "base/spawn.h"

#define TICK_S 0.1
#define END_S  0.5 /* for the end of a killed child */

struct task {
    const struct stk_errand *errand;
    void *answer;
};

static int go(void *user)
{
    const struct task *t = user;
    int wrong = t->errand->inside(t->errand->user, t->answer);
    return wrong >= 0 && wrong < 256 ? wrong : EIO;
}

/* 0: it has ended by itself. */
static int wait_for(struct stk_child *c, const struct stk_errand *e)
{
    double until = stk_now() + e->limit_s;
    for (;;) {
        double left = until - stk_now();
        int why = stk_child_wait_for(c, left < 0 ? 0 : left < TICK_S ? left : TICK_S);
        if (e->stop && e->stop(e->stop_user))
            return ECANCELED;
        if (why != ETIMEDOUT)
            return why;
        if (left <= 0)
            return ETIMEDOUT;
    }
}

static int attend(struct stk_child *c, const struct stk_errand *e)
{
    int why = wait_for(c, e);
    if (c->pid) {
        stk_child_kill(c, SIGKILL);
        (void)stk_child_wait_for(c, END_S);
    } else if (!why) {
        why = c->ending.signal ? EIO : c->ending.status;
    }
    return why;
}

int stk_errand_run(const struct stk_errand *e, void *answer, size_t size)
{
    memset(answer, 0, size);
    void *shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return ENOMEM;
    struct task t = {e, shared};
    struct stk_child c = {.inside = go,
                          .fd = {STK_FD_NULL, STK_FD_NULL, STK_FD_KEEP},
                          .own_group = true, /* programs that it has started end with it */
                          .death_signal = e->outlives ? 0 : SIGKILL,
                          .user = &t};
    int why = stk_child_start(&c);
    if (!why)
        why = attend(&c, e);
    memcpy(answer, shared, size);
    (void)munmap(shared, size);
    return why;
}
