/* helper.c - see helper.h. */
#include "base/helper.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/pool.h"

#define TICK_S 0.1 /* between looks at the limit and at the child */
#define END_S  0.5 /* for the end of a killed child */

#ifndef SYS_close_range
#define SYS_close_range 436 /* on every machine */
#endif

/* ---- a conversation -------------------------------------------------------------------------- */

void stk_helper_close(int but)
{
    unsigned first = STDERR_FILENO + 1, keep = but < 0 ? 0 : (unsigned)but;
    if (keep > first)
        (void)syscall(SYS_close_range, first, keep - 1, 0);
    (void)syscall(SYS_close_range, keep < first ? first : keep + 1, ~0u, 0);
}

static int begin(void *user)
{
    const struct stk_helper *h = user;
    stk_helper_close(h->keep);
    return h->run(h->user);
}

int stk_helper_start(struct stk_helper *h)
{
    h->child = (struct stk_child){.inside = begin,
                                  .user = h,
                                  .fd = {STK_FD_SOCKET, STK_FD_NULL, STK_FD_KEEP},
                                  .own_group = true, /* what it has started ends with it */
                                  .death_signal = SIGKILL,
                                  .pipe = {-1, -1, -1}};
    return stk_children_left() < STK_CHILDREN_LEFT ? stk_child_start(&h->child) : EAGAIN;
}

bool stk_helper_send(struct stk_helper *h, const void *data, size_t n)
{
    for (const char *p = data; n;) {
        ssize_t k = send(h->child.pipe[0], p, n, MSG_NOSIGNAL);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return false;
        p += k;
        n -= (size_t)k;
    }
    return true;
}

/* The socket may stay open in a process that the child has started: its end is looked for, too. */
ssize_t stk_helper_receive(struct stk_helper *h, void *to, size_t n, double seconds)
{
    double until_s = stk_now() + seconds;
    for (bool ended = false;;) {
        double left_s = fmax(until_s - stk_now(), 0);
        struct pollfd p = {.fd = h->child.pipe[0], .events = POLLIN};
        int ready = poll(&p, 1, ended ? 0 : (int)(fmin(left_s, TICK_S) * 1000) + 1);
        ssize_t got = ready > 0 ? read(p.fd, to, n) : -1;
        if (got >= 0)
            return got;
        if (ready > 0 && errno != EINTR)
            return 0;
        if (ready != 0)
            continue;
        if (ended)
            return 0;
        ended = stk_child_has_ended(&h->child);
        if (!ended && left_s <= 0)
            return -ETIMEDOUT;
    }
}

void stk_helper_end(struct stk_helper *h, double seconds)
{
    (void)stk_child_end(&h->child, seconds);
    if (h->child.inside) /* it was started once */
        stk_child_hang_up(&h->child);
}

/* ---- a question ------------------------------------------------------------------------------ */

struct question {
    int (*ask)(void *user, void *answer);
    void *user, *answer;
};

static int answer_it(void *user)
{
    const struct question *q = user;
    int wrong = q->ask(q->user, q->answer);
    return wrong >= 0 && wrong < 256 ? wrong : EIO;
}

/* 0: it has ended by itself. */
static int wait_for(struct stk_child *c, const struct stk_limit *limit)
{
    double until_s = stk_now() + (limit->seconds > 0 ? limit->seconds : INFINITY);
    for (;;) {
        double left_s = fmax(until_s - stk_now(), 0);
        int why = stk_child_wait_for(c, fmin(left_s, TICK_S));
        if (limit->stop && limit->stop(limit->user))
            return ECANCELED;
        if (why != ETIMEDOUT || left_s <= 0)
            return why;
    }
}

int stk_helper_ask(int (*ask)(void *user, void *answer), void *user, const struct stk_limit *limit,
                   void *answer, size_t size)
{
    memset(answer, 0, size);
    void *shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return ENOMEM;
    struct question q = {ask, user, shared};
    struct stk_helper h = {.run = answer_it, .user = &q, .keep = -1};
    int why = stk_helper_start(&h);
    if (!why) {
        why = wait_for(&h.child, limit);
        stk_helper_end(&h, END_S);
        if (!why)
            why = h.child.ending.signal ? EIO : h.child.ending.status;
    }
    memcpy(answer, shared, size);
    (void)munmap(shared, size);
    return why;
}
