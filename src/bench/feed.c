/* feed.c - where the batches of a rank come from: see feed.h. */
#include "bench/feed.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/pool.h"
#include "bench/reader.h"

/* ---- before the first step ------------------------------------------------------------------ */

/* What the helper thread works with: it may outlast the caller. */
struct preparation {
    const struct stk_bench_config *c;
    struct stk_bench_patience *patience;
    struct stk_bench_plan plan;
    struct stk_bench_reader reader;
    struct stk_bench_clock clock;
    struct stk_io_tally tally;
    double head_s, load_s;
};

static int read_all(struct preparation *p, struct stk_err *err)
{
    uint64_t all = stk_bench_plan_all(&p->plan);
    int rc = 0;
    for (uint64_t i = 0; i < all && rc == 0; i++) {
        p->reader.serial = p->plan.rank * all + i;
        rc = stk_bench_reader_sample(&p->reader, stk_bench_plan_load(&p->plan, i), err);
        rc = rc ? rc : stk_bench_beat(p->patience);
    }
    return rc;
}

static int read_first(void *arg, struct stk_err *err)
{
    struct preparation *p = arg;
    const struct stk_bench_config *c = p->c;
    double begin = stk_bench_now(&p->clock);
    int rc = stk_bench_reader_init(&p->reader, c->w, c->data, &p->clock, &p->tally, err);
    rc = rc ? rc : stk_bench_reader_head(&p->reader, err);
    if (rc == 0 && c->w->dataset.format == STK_BENCH_REPLAY)
        rc = stk_bench_replay_start(&p->reader, p->plan.rank, err);
    double mid = stk_bench_now(&p->clock);
    if (rc == 0 && stk_workload_loads_first(c->w))
        rc = read_all(p, err);
    p->head_s = mid - begin;
    p->load_s = stk_bench_now(&p->clock) - mid;
    stk_bench_reader_release(&p->reader);
    return rc;
}

static int prepare(struct stk_feed *f, struct stk_bench_clock *clock, struct stk_bench_rank *r,
                   struct stk_err *err)
{
    const struct stk_workload *w = f->c->w;
    bool replay = w->dataset.format == STK_BENCH_REPLAY;
    if (!w->access.head_reads && !stk_workload_loads_first(w) && !replay)
        return 0;
    struct preparation *p = calloc(1, sizeof *p);
    if (!p)
        return stk_err_nomem(err, sizeof *p);
    *p = (struct preparation){.c = f->c, .patience = f->patience, .plan = f->plan, .clock = *clock};
    int rc = stk_bench_within(f->patience, read_first, free, p, err);
    if (f->patience->stuck)
        return rc;
    *clock = p->clock;
    stk_io_tally_merge(&r->io, &p->tally);
    r->head_s = p->head_s;
    r->load_s += p->load_s;
    free(p);
    return rc;
}

static int load(struct stk_feed *f, struct stk_bench_clock *clock, struct stk_bench_rank *r,
                struct stk_err *err)
{
    double begin = stk_bench_now(clock), took_s = 0;
    int rc = stk_loaded_open(f->c, &f->plan, f->patience, &f->loaded, err);
    if (!rc && f->c->model.is_virtual)
        rc = stk_loaded_count(f->loaded, &took_s, err);
    else if (!rc && stk_workload_loads_first(f->c->w))
        rc = stk_loaded_all(f->loaded, err);
    stk_bench_after(clock, begin + took_s);
    r->load_s = stk_bench_now(clock) - begin; /* opening it takes time, too */
    return rc;
}

/* ---- all of them ---------------------------------------------------------------------------- */

int stk_feed_open(struct stk_feed *f, const struct stk_bench_config *c,
                  const struct stk_bench_plan *plan, struct stk_bench_patience *patience,
                  struct stk_bench_clock *clock, struct stk_bench_rank *r, struct stk_err *err)
{
    *f = (struct stk_feed){.c = c, .plan = *plan, .patience = patience};
    if (c->idle || c->w->dataset.format == STK_BENCH_NONE)
        return 0;
    bool loads = c->stoker && c->w->reader.load != STK_LOAD_NEVER;
    int rc = loads ? load(f, clock, r, err) : 0;
    return rc || (loads && c->w->dataset.format != STK_BENCH_REPLAY) ? rc
                                                                     : prepare(f, clock, r, err);
}

/* Nothing but reading takes time, here and on other ranks. */
static bool is_instant(const struct stk_feed *f)
{
    const struct stk_workload *w = f->c->w;
    const struct stk_dist *d = &w->training.compute;
    bool alone = !w->training.barrier || f->plan.ranks == 1;
    bool writes = w->checkpoint.every || w->checkpoint.every_epochs || w->checkpoint.at_end;
    return d->kind == STK_DIST_CONSTANT && !(d->a > 0) && alone && !writes &&
           !w->training.eval_every && !f->c->idle && !f->loaded && !stk_lanes_are_gated(w);
}

int stk_feed_start(struct stk_feed *f, uint64_t batches, double start_s, double *started_s,
                   struct stk_err *err)
{
    const struct stk_bench_config *c = f->c;
    bool reads = c->w->dataset.format != STK_BENCH_NONE && c->w->reader.load == STK_LOAD_STEP;
    bool thinks = stk_dist_mean(&c->w->reader.think) > 0;
    bool decodes = c->w->reader.load == STK_LOAD_STORED && thinks && !f->loaded;
    f->start_s = start_s;
    bool works = thinks || c->w->ngroups > 1;
    if (f->loaded)
        stk_loaded_begin(f->loaded, start_s);
    if ((!reads && !decodes) || (f->loaded && !works))
        return 0;
    if (c->w->access.sharing == STK_SHARING_COLLECTIVE)
        return c->idle ? 0
                       : stk_collective_open(c, &f->plan, start_s, f->patience,
                                             &f->collective, err);
    struct stk_lanes_config lanes = {.plan = &f->plan,
                                     .data = c->data,
                                     .model = &c->model,
                                     .batches = batches,
                                     .start_s = start_s,
                                     .patience_s = c->patience_s,
                                     .idle = c->idle,
                                     .instant = is_instant(f),
                                     .started_s = started_s,
                                     .loaded = f->loaded};
    return stk_lanes_open(&lanes, &f->lanes, err);
}

int stk_feed_take(struct stk_feed *f, uint64_t batch, double now_s, double *ready_s,
                  struct stk_err *err)
{
    *ready_s = now_s;
    if (f->loaded && !f->lanes)
        return stk_loaded_take(f->loaded, batch, now_s, ready_s, err);
    if (f->collective)
        return stk_collective_take(f->collective, batch, now_s, ready_s, err);
    return f->lanes ? stk_lanes_take(f->lanes, batch, now_s, ready_s, err) : 0;
}

void stk_feed_queue(const struct stk_feed *f, uint64_t *ready, uint64_t *slots)
{
    *ready = *slots = 0;
    if (f->lanes)
        stk_lanes_queue(f->lanes, ready, slots);
}

void stk_feed_close(struct stk_feed *f, struct stk_bench_rank *r)
{
    struct stk_io_tally lanes = {0};
    stk_lanes_close(f->lanes, &lanes);
    if (f->loaded) /* which counts them, whatever the lanes do beside it */
        lanes.samples = 0;
    stk_io_tally_merge(&r->io, &lanes);
    if (!f->patience || !f->patience->stuck)
        stk_collective_close(f->collective, &r->io);
    stk_loaded_close(f->loaded, &r->io);
    *f = (struct stk_feed){0};
}
