/*
 * run_local.c - a study on this machine: a warm-up, then rounds, one run at a time. A run that goes
 * wrong is kept with its output, and the study goes on.
 */
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/pool.h"
#include "lab/run_priv.h"

struct local {
    struct stk_runs *r;
    struct stk_launcher launcher;
    struct stk_one one;
    bool warming;
};

static int on_tick(void *user, const char *phase)
{
    struct local *l = user;
    return stk_runs_tick(l->r, l->warming ? "warm-up" : phase);
}

/* What a bad run has written, for whoever asks why. Its note tells where. */
static int keep_output(struct local *l, struct stk_study_run *run, char *note, size_t size,
                       struct stk_err *err)
{
    struct stk_runs *r = l->r;
    char name[96];
    int rc = l->one.output.data ? 0 : stk_output_read(l->one.out_fd, false, &l->one.output, err);
    snprintf(name, sizeof name, "output/n%llu-r%u.txt", (unsigned long long)run->n, run->repeat);
    char *dir = stk_runs_path(r, "output"), *path = stk_runs_path(r, "%s", name);
    if (!dir || !path)
        rc = stk_err_nomem(err, 4096);
    rc = rc ? rc : stk_mkdirs(dir, err);
    rc = rc ? rc : stk_write_file_atomic(path, l->one.output.data, l->one.output.len, err);
    free(dir);
    free(path);
    snprintf(note, size, "%.*s; see %s", (int)(size - sizeof name - 8), run->note ? run->note : "",
             name);
    run->note = note;
    return rc;
}

/* What a run was given here. */
static void allocate(const struct stk_runs *r, struct stk_study_run *run)
{
    const struct stk_runs_plan *p = &r->plan;
    uint64_t threads = p->threads_per_rank ? p->threads_per_rank : 1;
    if (p->sets & STK_SETS_RANKS)
        run->cores = (int64_t)(run->n * threads);
    else if (p->sets & STK_SETS_THREADS)
        run->cores = (int64_t)run->n;
    else if (p->cores_per_n)
        run->cores = (int64_t)(run->n * p->cores_per_n);
    if (p->sets & STK_SETS_GPUS)
        run->gpus = (int64_t)run->n;
    run->host = r->conditions.host;
    run->kind = p->sets & STK_SETS_GPUS && r->conditions.gpu[0] ? r->conditions.gpu
                : r->conditions.cpu[0]                          ? r->conditions.cpu
                                                                : NULL;
}

/* One run, and what a budget has to know of it. */
static int run_timed(struct local *l, uint64_t n, struct stk_study_run *run, struct stk_err *err)
{
    struct stk_runs *r = l->r;
    double start = stk_now();
    int rc = stk_one_run(&l->one, n, run, err);
    if (rc || isnan(run->wall_s))
        return rc;
    r->shortest_s = r->shortest_s > 0 ? fmin(r->shortest_s, run->wall_s) : run->wall_s;
    r->around_s = fmax(r->around_s, stk_now() - start - run->wall_s);
    return 0;
}

static int run_point(struct local *l, struct stk_point *p, struct stk_err *err)
{
    struct stk_runs *r = l->r;
    struct stk_study_run run;
    char note[STK_STUDY_TEXT_MAX + 1];
    r->state.n = p->n;
    r->state.repeat = p->good + p->bad;
    int rc = run_timed(l, p->n, &run, err);
    if (rc)
        return rc;
    stk_noise_run(&r->noise, run.cpu_s);
    run.repeat = (uint32_t)(p->good + p->bad);
    allocate(r, &run);
    if (run.status != STK_RUN_OK)
        rc = keep_output(l, &run, note, sizeof note, err);
    return rc ? rc : stk_runs_keep(r, &run, err);
}

/* Files and modules come into memory before anything counts. At the largest N: where the problem
 * stays the same, that takes the least time. */
static int warm_up(struct local *l, struct stk_err *err)
{
    struct stk_runs *r = l->r;
    struct stk_study_run run;
    int rc = 0;
    l->warming = true;
    for (uint64_t i = 0; i < r->plan.warmup && !rc && !r->study.nruns; i++) {
        r->state.n = r->plan.n[r->plan.nn - 1];
        r->state.repeat = i;
        rc = run_timed(l, r->state.n, &run, err);
        stk_noise_run(&r->noise, rc ? NAN : run.cpu_s);
    }
    l->warming = false;
    return rc;
}

/* Whether anything may still come of it: one whole round without a good run is enough. */
static bool hopeless(const struct stk_runs *r)
{
    for (size_t i = 0; i < r->plan.nn; i++)
        if (r->point[i].good || !r->point[i].bad)
            return false;
    return true;
}

static int run_rounds(struct local *l, struct stk_err *err)
{
    struct stk_runs *r = l->r;
    size_t order[STK_RUNS_N_MAX];
    int rc = 0;
    bool left = true;
    for (uint64_t round = 0; left && !rc && round < r->plan.runs_max; round++) {
        left = false;
        stk_points_order(&r->plan, round, order);
        for (size_t i = 0; i < r->plan.nn && !rc; i++) {
            struct stk_point *p = &r->point[order[i]];
            left = left || !p->done;
            if (p->done || p->good + p->bad > round)
                continue;
            if (!stk_points_affordable(r, p)) {
                r->budget_spent = true;
                continue;
            }
            rc = run_point(l, p, err);
        }
        left = left && !hopeless(r) && !r->budget_spent;
    }
    return rc;
}

/* N that were never reached are named. */
static void note_budget(struct stk_runs *r)
{
    char list[160] = "";
    size_t at = 0;
    for (size_t i = 0; i < r->plan.nn; i++)
        if (!r->point[i].good && !r->point[i].bad && at + 24 < sizeof list)
            at += (size_t)snprintf(list + at, sizeof list - at, "%s%llu", at ? ", " : "",
                                   (unsigned long long)r->point[i].n);
    if (at)
        stk_runs_note(&r->conditions, "The budget was spent before N=%s could be run", list);
    else
        stk_runs_note(&r->conditions,
                      "The budget was spent before every N was known to %.3g %%; --resume goes on",
                      100 * r->plan.precision);
}

static int run_all(struct local *l, struct stk_err *err)
{
    struct stk_runs *r = l->r;
    stk_noise_begin(&r->noise);
    int rc = warm_up(l, err);
    rc = rc ? rc : run_rounds(l, err);
    stk_noise_end(&r->noise, &r->conditions);
    if (r->budget_spent)
        note_budget(r);
    return rc;
}

int stk_runs_local(struct stk_runs *r, struct stk_err *err)
{
    struct local l = {.r = r};
    const struct stk_metric *metric = r->plan.metric ? &r->metric : NULL;
    int rc = stk_launcher_init(&l.launcher, &r->plan, true, &r->conditions, err);
    l.one.out_fd = -1;
    rc = rc ? rc : stk_one_init(&l.one, &r->plan, &l.launcher, metric, NULL, err);
    if (!rc) {
        l.one.tick = on_tick;
        l.one.user = &l;
        rc = run_all(&l, err);
    }
    stk_one_release(&l.one);
    stk_launcher_release(&l.launcher);
    return rc;
}
