/*
 * rank.c - the run of one rank: its steps, its checkpoints, what it did when, and what all took.
 * See rank.h.
 */
#include "bench/bench.h"
#include "bench/feed.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/pool.h"
#include "host/fs.h"

#define BIN_LEAST_S 0x1p-10 /* a millisecond: runs of 125 ms and more fill the bins */
#define TIME_MOST_S 0x1p60

const char *const stk_course_names[STK_COURSE_PARTS] = {"compute", "wait", "others", "checkpoint"};

/* Two bins become one. */
static void halve(struct stk_course *c)
{
    const size_t half = STK_COURSE_BINS / 2;
    for (size_t i = 0; i < half; i++) {
        c->steps[i] = c->steps[2 * i] + c->steps[2 * i + 1];
        for (size_t p = 0; p < STK_COURSE_PARTS; p++)
            c->part_s[p][i] = c->part_s[p][2 * i] + c->part_s[p][2 * i + 1];
    }
    memset(c->steps + half, 0, half * sizeof *c->steps);
    for (size_t p = 0; p < STK_COURSE_PARTS; p++)
        memset(c->part_s[p] + half, 0, half * sizeof *c->part_s[p]);
    c->bin_s *= 2;
}

void stk_course_widen(struct stk_course *c, double bin_s)
{
    while (c->bin_s < bin_s)
        if (c->bin_s > 0)
            halve(c);
        else
            c->bin_s = bin_s;
}

/* Makes room for that time; false: it has no place. */
static bool reach(struct stk_course *c, double at_s)
{
    if (!(at_s >= 0 && at_s < TIME_MOST_S))
        return false;
    stk_course_widen(c, BIN_LEAST_S);
    while (at_s >= c->bin_s * STK_COURSE_BINS)
        halve(c);
    return true;
}

void stk_course_add(struct stk_course *c, enum stk_course_part part, double from_s, double to_s)
{
    if (!(from_s < to_s) || !(from_s >= 0) || !reach(c, to_s))
        return;
    for (size_t i = (size_t)(from_s / c->bin_s); i < STK_COURSE_BINS; i++) {
        double begin = c->bin_s * (double)i, end = begin + c->bin_s;
        if (begin >= to_s)
            break;
        c->part_s[part][i] += (float)(fmin(end, to_s) - fmax(begin, from_s));
    }
}

void stk_course_step(struct stk_course *c, double end_s)
{
    if (reach(c, end_s))
        c->steps[(size_t)(end_s / c->bin_s)]++;
}

void stk_course_merge(struct stk_course *into, const struct stk_course *from)
{
    struct stk_course other = *from;
    stk_course_widen(into, other.bin_s);
    stk_course_widen(&other, into->bin_s);
    for (size_t i = 0; i < STK_COURSE_BINS; i++) {
        into->steps[i] += other.steps[i];
        for (size_t p = 0; p < STK_COURSE_PARTS; p++)
            into->part_s[p][i] += other.part_s[p][i];
    }
}

size_t stk_course_used(const struct stk_course *c)
{
    size_t n = 0;
    for (size_t i = 0; i < STK_COURSE_BINS; i++) {
        bool used = c->steps[i];
        for (size_t p = 0; p < STK_COURSE_PARTS; p++)
            used = used || c->part_s[p][i] > 0;
        n = used ? i + 1 : n;
    }
    return n;
}

/* One run: the accelerator's time line. */
struct run {
    struct stk_bench_config own; /* a copy, for threads that outlast the caller */
    const struct stk_bench_config *c;
    struct stk_bench_config eval; /* of an evaluation */
    struct stk_workload eval_w;
    struct stk_bench_rank *r;
    struct stk_bench_patience patience;
    struct stk_bench_plan plan;
    struct stk_bench_clock clock;
    struct stk_feed feed;
    uint64_t steps;                 /* in all */
    double start_s, free_s, base_s; /* base: the last time at which all ranks met */
    double measured_from_s;
    struct stk_bench_live live;
    struct stk_bench_status *status; /* NULL: not shown */
};

/* A wait in whole milliseconds and a rank as one number, whose maximum is the slowest rank. */
#define RANK_SPAN 65536.0

static double pack_wait(double wait_s, uint64_t rank)
{
    return floor(wait_s * 1e3) * RANK_SPAN + (double)rank;
}

static void unpack_wait(double v, struct stk_bench_live *live)
{
    double ms = floor(v / RANK_SPAN);
    live->slowest = (uint32_t)(v - ms * RANK_SPAN);
    live->slowest_wait_s = 1e-3 * ms;
}

static uint64_t resident_bytes(void)
{
    struct rusage u;
    return getrusage(RUSAGE_SELF, &u) == 0 ? (uint64_t)u.ru_maxrss * 1024 : 0;
}

/* All ranks begin a step together: at the latest time of any. Times are counted from the last
 * meeting, so that the clocks of nodes need not agree. */
static int meet(struct run *run, struct stk_err *err)
{
    double v[2] = {run->free_s - run->base_s, pack_wait(run->r->wait_s, run->plan.rank)};
    if (!run->c->comm || stk_comm_size(run->c->comm) < 2)
        return 0;
    int rc = stk_comm_reduce_f64(run->c->comm, STK_COMM_MAX, v, 2, STK_COMM_FOREVER, err);
    run->free_s = run->base_s + v[0];
    run->base_s = run->free_s;
    unpack_wait(v[1], &run->live);
    return rc;
}

static void count_late(struct run *run)
{
    double late = stk_bench_now(&run->clock) - run->free_s;
    if (late <= 0)
        return;
    run->r->late_s += late;
    if (late > run->r->late_max_s)
        run->r->late_max_s = late;
}

struct step_times {
    double begin_s, ready_s, computed_s, end_s, compute_s;
};

static void note_part(const struct run *run, enum stk_course_part part, double from_s, double to_s)
{
    stk_course_add(&run->r->course, part, from_s - run->start_s, to_s - run->start_s);
}

static bool is_measured(const struct run *run, uint64_t k)
{
    const struct stk_workload *w = run->c->w;
    return k >= w->training.warmup && k + w->training.cooldown < run->steps;
}

/* Whether nothing of its epoch was read before step k asked for it. */
static bool begins_reading(const struct run *run, uint64_t k)
{
    return run->feed.lanes && !run->feed.loaded && stk_lanes_are_asked(&run->plan, k);
}

static void count_step(struct run *run, uint64_t k, const struct step_times *t)
{
    struct stk_bench_rank *r = run->r;
    double data_s = t->ready_s > t->begin_s ? t->ready_s : t->begin_s;
    note_part(run, STK_COURSE_WAIT, t->begin_s, data_s);
    note_part(run, STK_COURSE_COMPUTE, data_s, t->computed_s);
    note_part(run, STK_COURSE_OTHERS, t->computed_s, t->end_s);
    stk_course_step(&r->course, t->end_s - run->start_s);
    if (begins_reading(run, k)) {
        r->asked++;
        r->asked_s += data_s - t->begin_s;
    }
    r->steps++;
    r->samples += stk_bench_plan_batch(&run->plan, k);
    r->wall_s = t->end_s - run->start_s;
    if (k == 0) {
        r->first_s = t->end_s - t->begin_s;
        r->first_batch_s = data_s - t->begin_s;
    } else {
        r->compute_but_first_s += t->compute_s;
    }
    if (!is_measured(run, k))
        return;
    r->measured_steps++;
    r->measured_samples += stk_bench_plan_batch(&run->plan, k);
    r->compute_s += t->compute_s;
    r->wait_s += data_s - t->begin_s;
    r->barrier_s += t->end_s - t->computed_s;
    r->measured_s = t->end_s - run->measured_from_s;
    double took = t->end_s - t->begin_s;
    stk_histogram_add(&r->step, (uint64_t)(took * 1e9 + 0.5));
    r->step_square_s += took * took;
}

/* All ranks continue when the slowest has written. */
static int checkpoint(struct run *run, struct stk_err *err)
{
    struct stk_bench_rank *r = run->r;
    double begin = run->free_s, at = stk_bench_now(&run->clock), took;
    if (run->c->idle)
        return 0;
    stk_bench_status_phase(run->status, "checkpoints");
    int rc = stk_bench_checkpoint(run->c, &run->patience, &run->clock, &r->checkpoint_bytes, err);
    run->free_s += stk_bench_now(&run->clock) - at;
    if (rc == 0 && run->c->w->training.barrier)
        rc = meet(run, err);
    took = run->free_s - begin;
    note_part(run, STK_COURSE_CHECKPOINT, begin, run->free_s);
    r->checkpoints++;
    r->checkpoint_s += took;
    r->checkpoint_max_s = took > r->checkpoint_max_s ? took : r->checkpoint_max_s;
    return rc;
}

/* One evaluation: its own data, read and computed in the same way, apart from the steps. */
static int evaluate(struct run *run, struct stk_err *err)
{
    const struct stk_workload *w = &run->eval_w;
    struct stk_bench_plan plan;
    struct stk_feed feed = {0};
    double begin = run->free_s, ready;
    stk_bench_status_phase(run->status, "evaluates");
    stk_workload_eval(run->c->w, &run->eval_w);
    run->eval = *run->c;
    run->eval.w = w;
    int rc = stk_bench_plan(&plan, w, run->plan.rank, run->plan.ranks, err);
    rc =
        rc ? rc : stk_feed_open(&feed, &run->eval, &plan, &run->patience, &run->clock, run->r, err);
    rc = rc ? rc : stk_feed_start(&feed, plan.steps, run->free_s, NULL, err);
    for (uint64_t k = 0; rc == 0 && k < plan.steps; k++) {
        rc = stk_feed_take(&feed, k, run->free_s, &ready, err);
        run->free_s = fmax(ready, run->free_s) + stk_bench_compute(w, plan.rank, k);
        stk_bench_until(&run->clock, run->free_s);
        rc = rc == 0 && w->training.barrier ? meet(run, err) : rc;
        run->r->eval_steps++;
    }
    stk_feed_close(&feed, run->r);
    double took = run->free_s - begin;
    run->r->eval_s += took;
    run->start_s += took;
    run->measured_from_s += took;
    return rc;
}

static bool evaluation_is_due(const struct run *run, uint64_t k)
{
    uint64_t every = run->c->w->training.eval_every, steps = run->plan.steps;
    uint64_t epoch = (k + 1) / steps, first = run->c->w->training.eval_first;
    return every && !run->c->idle && (k + 1) % steps == 0 && epoch >= first &&
           (epoch - first) % every == 0;
}

static bool checkpoint_is_due(const struct run *run, uint64_t k)
{
    const struct stk_workload *w = run->c->w;
    uint64_t every = w->checkpoint.every, epochs = w->checkpoint.every_epochs;
    uint64_t epoch = (k + 1) / run->plan.steps, first = w->checkpoint.first_epoch;
    bool ends = (k + 1) % run->plan.steps == 0;
    if (epochs && ends && epoch >= first && (epoch - first) % epochs == 0)
        return true;
    return (every && (k + 1) % every == 0) || (run->c->w->checkpoint.at_end && k + 1 == run->steps);
}

static int step(struct run *run, uint64_t k, struct stk_err *err)
{
    const struct stk_workload *w = run->c->w;
    struct step_times t = {.begin_s = run->free_s};
    if (k == w->training.warmup)
        run->measured_from_s = run->free_s;
    int rc = stk_feed_take(&run->feed, k, run->free_s, &t.ready_s, err);
    if (rc < 0)
        return rc;
    t.compute_s = stk_bench_compute(w, run->plan.rank, k);
    run->free_s = (t.ready_s > t.begin_s ? t.ready_s : t.begin_s) + t.compute_s;
    t.computed_s = run->free_s;
    stk_bench_until(&run->clock, run->free_s);
    if (t.compute_s > 0)
        count_late(run);
    rc = w->training.barrier ? meet(run, err) : 0;
    t.end_s = run->free_s;
    count_step(run, k, &t);
    if (rc == 0 && checkpoint_is_due(run, k))
        rc = checkpoint(run, err);
    if (rc == 0 && evaluation_is_due(run, k))
        rc = evaluate(run, err);
    if (is_measured(run, k))
        run->r->measured_s = run->free_s - run->measured_from_s;
    run->r->wall_s = run->free_s - run->start_s;
    return rc;
}

static void show(struct run *run, uint64_t k)
{
    const struct stk_bench_rank *r = run->r;
    struct stk_bench_live *live = &run->live;
    live->step = k + 1;
    live->steps = run->steps;
    live->utilisation = stk_bench_utilisation(r);
    live->samples_per_s = r->wall_s > 0 ? (double)(r->samples * run->plan.ranks) / r->wall_s : 0;
    if (!run->c->w->training.barrier || run->plan.ranks == 1)
        unpack_wait(pack_wait(r->wait_s, run->plan.rank), live);
    stk_bench_status_step(run->status, r, live, &run->feed);
}

/* Ranks without barriers do not learn otherwise that one is lost. */
static int look_at_others(const struct run *run, struct stk_err *err)
{
    int64_t lost = run->c->comm ? stk_comm_lost(run->c->comm, NULL, 0) : -1;
    return lost < 0
               ? 0
               : stk_err_set(err, STK_E_STOPPED, NULL, -1, "rank %lld is lost", (long long)lost);
}

static int run_steps(struct run *run, struct stk_err *err)
{
    int rc = 0;
    for (uint64_t k = 0; k < run->steps && rc == 0; k++) {
        rc = look_at_others(run, err);
        rc = rc ? rc : step(run, k, err);
        if (rc == 0)
            show(run, k);
        if (rc == 0 && run->c->tick && run->c->tick(run->c->user, &run->live))
            rc = stk_err_set(err, STK_E_STOPPED, NULL, -1, "stopped");
    }
    return rc;
}

static int restore(struct run *run, struct stk_err *err)
{
    struct stk_bench_rank *r = run->r;
    double begin = run->free_s;
    int rc = 0;
    uint64_t n = run->c->idle ? 0 : run->c->w->checkpoint.restores;
    for (; r->restores < n && rc == 0; r->restores++) {
        double at = stk_bench_now(&run->clock);
        stk_bench_status_phase(run->status, "restores");
        rc = stk_bench_restore(run->c, &run->patience, &run->clock, &r->restore_bytes, err);
        run->free_s += stk_bench_now(&run->clock) - at;
        rc = rc ? rc : meet(run, err);
    }
    r->restore_s = run->free_s - begin;
    return rc;
}

static int begin(struct run *run, struct stk_err *err)
{
    const struct stk_bench_config *c = run->c;
    uint64_t ranks = c->comm ? stk_comm_size(c->comm) : 1;
    int rc = stk_bench_plan(&run->plan, c->w, run->r->rank, ranks, err);
    run->status = rc ? NULL : stk_bench_status_begin(c->board, &run->plan, c->idle);
    if (rc == 0 && !c->idle) {
        run->patience.comm = c->comm;
        run->patience.dir = c->data->dir;
        run->patience.seconds = c->patience_s;
        rc = stk_bench_patience_open(&run->patience, err);
    }
    run->clock = (struct stk_bench_clock){.model = &c->model};
    run->steps = run->plan.steps * c->w->training.epochs;
    if (c->w->training.most_steps && run->steps > c->w->training.most_steps)
        run->steps = c->w->training.most_steps;
    if (c->most_steps && run->steps > c->most_steps)
        run->steps = c->most_steps;
    rc = rc ? rc
            : stk_feed_open(&run->feed, c, &run->plan, &run->patience, &run->clock, run->r, err);
    if (rc == 0 && ranks > 1)
        rc = stk_comm_barrier(c->comm, STK_COMM_FOREVER, err);
    run->start_s = run->free_s = run->base_s = stk_bench_now(&run->clock);
    /* Virtual clocks start together, as real ones do behind a barrier. */
    rc = rc ? rc : meet(run, err);
    run->start_s = run->base_s;
    return rc ? rc : stk_feed_start(&run->feed, run->steps, run->start_s, &run->r->started_s, err);
}

static struct run *new_run(const struct stk_bench_config *c, struct stk_bench_rank *r)
{
    struct run *run = calloc(1, sizeof *run);
    if (!run)
        return NULL;
    run->own = *c;
    run->own.model.hangs = c->model.hangs && c->model.hangs_on == r->rank;
    if (c->model.hangs && !run->own.model.hangs)
        run->own.patience_s = 0; /* a test may have little; the others are only slow */
    if (!(run->own.patience_s > 0))
        run->own.patience_s = STK_PATIENCE_S;
    run->c = &run->own;
    run->r = r;
    return run;
}

/* -1: not known; nothing is fetched from modelled storage. */
static int64_t fetched_since(const struct stk_bench_config *c, int64_t before, uint64_t read)
{
    const char *dir = c->data ? c->data->dir : NULL;
    if (c->model.is_virtual || !dir)
        return -1;
    return stk_fs_fetched_between(stk_fs_of_path(dir), before, stk_fs_fetched_bytes(), read);
}

int stk_bench_run_rank(const struct stk_bench_config *c, struct stk_bench_rank *r,
                       struct stk_err *err)
{
    *r = (struct stk_bench_rank){.rank = c->comm ? stk_comm_rank(c->comm) : 0};
    if (c->comm)
        snprintf(r->node, sizeof r->node, "%s",
                 stk_comm_node_name(c->comm, stk_comm_node(c->comm, r->rank)));
    struct run *run = new_run(c, r);
    if (!run)
        return stk_err_nomem(err, sizeof *run);
    int64_t before = stk_fs_fetched_bytes();
    int rc = begin(run, err);
    rc = rc ? rc : run_steps(run, err);
    rc = rc ? rc : restore(run, err);
    r->elapsed_s = c->model.is_virtual ? r->wall_s : stk_now() - run->start_s;
    stk_bench_status_end(run->status);
    stk_feed_close(&run->feed, r);
    r->device_bytes = fetched_since(c, before, r->io.bytes);
    r->memory_bytes = resident_bytes();
    stk_bench_patience_close(&run->patience);
    if (!run->patience.stuck)
        free(run);
    return rc;
}

double stk_bench_utilisation(const struct stk_bench_rank *r)
{
    return r->measured_s > 0 ? r->compute_s / r->measured_s : 0;
}

double stk_bench_mlperf(const struct stk_bench_rank *r)
{
    double time = r->wall_s - r->first_s - r->checkpoint_s;
    return time > 0 ? r->compute_but_first_s / time : 0;
}
