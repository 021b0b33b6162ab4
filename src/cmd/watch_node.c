/* watch_node.c - runs on each node for `stoker watch`: prints a line of JSON per sample. */
#include "cmd/watch.h"

#include <poll.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "base/pool.h"
#include "job/watch.h"

void stk_nap(double s)
{
    struct timespec t = {(time_t)s, (long)((s - (double)(time_t)s) * 1e9)};
    nanosleep(&t, NULL);
}

struct lifeline {
    double limit_s; /* 0: none */
    double last_s;
};

/* Reads what has come; false: the other end is gone. */
static bool is_alive(struct lifeline *l)
{
    char bytes[256];
    ssize_t n = read(STDIN_FILENO, bytes, sizeof bytes);
    if (n > 0)
        l->last_s = stk_now();
    return n != 0;
}

/* Waits until then. False: there is no one left to sample for. */
static bool rest(struct lifeline *l, double until)
{
    double left;
    while (!stk_stop_signal()) {
        struct pollfd p = {.fd = l->limit_s > 0 ? STDIN_FILENO : -1, .events = POLLIN};
        left = until - stk_now();
        int ready = poll(&p, 1, left > 0 ? (int)(left * 1000) + 1 : 0);
        if (ready > 0 && !is_alive(l))
            return false;
        if (l->limit_s > 0 && stk_now() - l->last_s > l->limit_s)
            return false;
        if (ready == 0 && left <= 0)
            return true;
    }
    return true;
}

static bool print_sample(const struct stk_watch_node *node, struct stk_buf *line)
{
    stk_buf_reset(line);
    stk_jfields_text(stk_watch_fields, node, false, line);
    return !line->fail && fputs(stk_buf_cstr(line), stdout) >= 0 && fflush(stdout) == 0;
}

int stk_watch_here(struct stk_run *run, const struct stk_watch_target *target,
                   const struct stk_watch_sampling *how)
{
    struct stk_watcher *w;
    struct stk_watch_node node = {0};
    struct stk_buf line = STK_BUF_INIT;
    struct lifeline life = {.limit_s = how->lifeline_s, .last_s = stk_now()};
    (void)prctl(PR_SET_NAME, STK_WATCH_SAMPLER);
    int rc = stk_watcher_new(target, &w, &run->err);
    if (rc)
        return rc;
    double next = stk_now();
    for (uint64_t i = 0; !stk_stop_signal() && (!how->samples || i < how->samples); i++) {
        if ((rc = stk_watcher_read(w, &node, &run->err)) != 0 || !print_sample(&node, &line))
            break; /* the reader is gone: there is nothing left to do */
        next += how->every_s > 0.05 ? how->every_s : 0.05;
        bool last = how->samples && i + 1 == how->samples;
        if (!last && !rest(&life, next))
            break;
    }
    stk_buf_release(&line);
    stk_watch_node_release(&node);
    stk_watcher_free(w);
    return rc;
}
