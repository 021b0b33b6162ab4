/* watch_node.c - runs on each node for `stoker watch`: prints a line of JSON per sample. */
#include "cmd/watch.h"

#include <time.h>

#include "base/pool.h"
#include "job/watch.h"

void stk_nap(double s)
{
    struct timespec t = {(time_t)s, (long)((s - (double)(time_t)s) * 1e9)};
    nanosleep(&t, NULL);
}

int stk_watch_here(struct stk_run *run, uint64_t job, uid_t owner, double every_s, uint64_t samples)
{
    struct stk_watcher *w;
    struct stk_watch_node node = {0};
    struct stk_buf line = STK_BUF_INIT;
    int rc = stk_watcher_new(job, owner, &w, &run->err);
    if (rc)
        return rc;
    double next = stk_now();
    for (uint64_t i = 0; !rc && !stk_stop_signal() && (!samples || i < samples); i++) {
        if ((rc = stk_watcher_read(w, &node, &run->err)) != 0)
            break;
        stk_buf_reset(&line);
        stk_watch_write(&node, &line);
        /* The reader is gone: there is nothing left to do. */
        if (line.fail || printf("%s\n", stk_buf_cstr(&line)) < 0 || fflush(stdout) != 0)
            break;
        next += every_s > 0.05 ? every_s : 0.05;
        double left = next - stk_now();
        if (left > 0 && !(samples && i + 1 == samples))
            stk_nap(left);
    }
    stk_buf_release(&line);
    stk_watch_node_release(&node);
    stk_watcher_free(w);
    return rc;
}
