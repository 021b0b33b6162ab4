/* patience.c - see patience.h. */
#include "bench/patience.h"

#include <errno.h>

int stk_bench_patience_open(struct stk_bench_patience *p, struct stk_err *err)
{
    p->seconds = p->seconds > 0 ? p->seconds : STK_PATIENCE_S;
    return stk_thread_open(&p->thread, err);
}

static int is_rank_lost(void *comm)
{
    return comm && stk_comm_lost(comm, NULL, 0) >= 0;
}

int stk_bench_within(struct stk_bench_patience *p, stk_thread_fn *fn, void (*drop)(void *user),
                     void *user, struct stk_err *err)
{
    const struct stk_limit limit = {p->seconds, is_rank_lost, p->comm};
    char why_lost[200] = "";
    int rc = 0, why = stk_thread_call(p->thread, fn, drop, user, &limit, &rc, err);
    p->stuck = why != 0;
    if (why == ECANCELED) {
        int64_t rank = stk_comm_lost(p->comm, why_lost, sizeof why_lost);
        return stk_err_set(err, STK_E_STOPPED, NULL, -1, "rank %lld is lost: %s", (long long)rank,
                           why_lost);
    }
    if (why)
        return stk_err_set(err, STK_E_STOPPED, p->dir, -1,
                           "no request has returned for %.0f s: the storage hangs (--patience)",
                           p->seconds);
    return rc;
}

int stk_bench_beat(struct stk_bench_patience *p)
{
    return stk_thread_beat(p->thread) ? 0 : STK_E_STOPPED;
}

void stk_bench_patience_close(struct stk_bench_patience *p)
{
    (void)stk_thread_close(p->thread, 0);
}
