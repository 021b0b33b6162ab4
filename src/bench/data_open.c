/* data_open.c - opens the data folder of a benchmark, unless its storage hangs: see data.h. */
#include <stdlib.h>

#include "bench/data.h"
#include "bench/patience.h"

/* What the helper thread works with: it may outlast the caller. */
struct opening {
    struct stk_bench_data data;
    const struct stk_workload *w;
    const char *dir;
};

static int open_it(void *arg, struct stk_err *err)
{
    struct opening *o = arg;
    return stk_bench_data_open(&o->data, o->w, o->dir, err);
}

static void drop(void *arg)
{
    struct opening *o = arg;
    stk_bench_data_close(&o->data);
    free(o);
}

int stk_bench_data_open_within(struct stk_bench_data *d, const struct stk_workload *w,
                               const char *dir, double patience_s, struct stk_comm *comm,
                               struct stk_err *err)
{
    struct opening *o = calloc(1, sizeof *o);
    struct stk_bench_patience p = {.comm = comm, .dir = dir, .seconds = patience_s};
    *d = STK_BENCH_DATA_INIT;
    if (!o)
        return stk_err_nomem(err, sizeof *o);
    *o = (struct opening){.data = STK_BENCH_DATA_INIT, .w = w, .dir = dir};
    int rc = stk_bench_patience_open(&p, err);
    rc = rc ? rc : stk_bench_within(&p, open_it, drop, o, err);
    stk_bench_patience_close(&p);
    if (p.stuck)
        return rc;
    *d = o->data;
    free(o);
    return rc;
}
