/*
 * local.c - the executor "local": on this machine, a warm-up and then one run at a time. The
 * output of a failed run is kept, and the study continues.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/pool.h"
#include "study/priv.h"

struct local {
    struct stk_runner *r;
    struct stk_launcher launcher;
    struct stk_one one;
    struct stk_noise_watch noise;
    bool begun, warming;
};

static int on_tick(void *user, const char *phase)
{
    struct local *l = user;
    return stk_runner_tick(l->r, l->warming ? "warm-up" : phase);
}

/* Keeps the output of a failed run in `file`. */
static int keep_output(struct local *l, const struct stk_point *p, struct stk_study_run *run,
                       char file[STK_RUN_NAME_SIZE + 16], struct stk_err *err)
{
    struct stk_runner *r = l->r;
    char name[STK_RUN_NAME_SIZE];
    int rc = l->one.output.data ? 0 : stk_output_read(l->one.out_fd, false, &l->one.output, err);
    stk_run_name(p, run->repeat, name, sizeof name);
    snprintf(file, STK_RUN_NAME_SIZE + 16, "output/%s.txt", name);
    if (!rc)
        rc = stk_folder_write(&r->folder, file, l->one.output.data, l->one.output.len, err);
    run->output = file;
    return rc;
}

/* What a run was given here. */
static void allocate(const struct stk_runner *r, const struct stk_point *p,
                     struct stk_study_run *run)
{
    const struct stk_runner_conditions *c = &r->conditions;
    uint64_t cpus = p->give.cpus ? p->give.cpus : p->n * r->plan.cores_per_n;
    run->cores = cpus ? (int64_t)cpus : -1;
    run->gpus = p->give.gpus ? (int64_t)p->give.gpus : -1;
    run->nodes = p->give.nodes ? (int64_t)p->give.nodes : 1;
    run->host = run->nodes == 1 ? c->host : NULL;
    run->kind = p->give.gpus && c->gpu[0] ? c->gpu : c->cpu[0] ? c->cpu : NULL;
}

/* One run, and its cost for the budget. */
static int run_timed(struct local *l, const struct stk_point *p, uint64_t repeat,
                     struct stk_study_run *run, struct stk_err *err)
{
    struct stk_runner *r = l->r;
    double start = stk_runner_now(r);
    r->state.label = p->label;
    if (on_tick(l, "run") != 0) /* many short runs must not pass without being asked once */
        return stk_err_set(err, STK_E_STOPPED, NULL, -1, "stopped");
    int rc = stk_one_run(&l->one, p, repeat, run, err);
    stk_noise_run(&l->noise, rc ? NAN : run->cpu_s);
    if (rc || isnan(run->wall_s))
        return rc;
    r->passed_s += run->wall_s;
    r->shortest_s = r->shortest_s > 0 ? fmin(r->shortest_s, run->wall_s) : run->wall_s;
    r->around_s = fmax(r->around_s, stk_runner_now(r) - start - run->wall_s);
    return 0;
}

static int start(struct stk_runner *r, struct stk_tally *t, struct stk_err *err)
{
    struct local *l = r->there;
    struct stk_study_run run;
    char file[STK_RUN_NAME_SIZE + 16];
    int rc = run_timed(l, t->point, stk_tally_next(t), &run, err);
    if (rc)
        return rc;
    allocate(r, t->point, &run);
    if (run.status != STK_RUN_OK)
        rc = keep_output(l, t->point, &run, file, err);
    return rc ? rc : stk_runner_keep(r, t, &run, err);
}

/* Loads files and modules into memory before anything counts. At the largest N, which takes the
 * least time if the problem stays the same. */
static int warm_up(struct local *l, struct stk_err *err)
{
    struct stk_runner *r = l->r;
    const struct stk_point *p = stk_points_most(&r->points, offsetof(struct stk_point, n));
    struct stk_study_run run;
    int rc = 0;
    l->warming = true;
    for (uint64_t i = 0; i < r->plan.warmup && !rc && !r->study.nruns; i++)
        rc = run_timed(l, p, i, &run, err);
    l->warming = false;
    return rc;
}

/* Names the points that were never reached. */
static void note_budget(struct stk_runner *r)
{
    char list[160] = "";
    size_t at = 0;
    for (size_t i = 0; i < r->points.n; i++) {
        const struct stk_tally *t = &r->tally[i];
        const char *name = t->point->label + (at && t->point->by_n ? strlen("N=") : 0);
        if (!stk_tally_tries(t) && at + strlen(name) + 3 < sizeof list)
            at += (size_t)snprintf(list + at, sizeof list - at, "%s%s", at ? ", " : "", name);
    }
    if (at)
        stk_runner_note(&r->conditions, "The budget was spent before %s could be run", list);
    else
        stk_runner_note(
            &r->conditions,
            "The budget was spent before every N was known to %.3g %%; use --resume to continue",
            100 * r->plan.precision);
}

/* ---- the executor ------------------------------------------------------------------------- */

static int wrong(struct stk_err *err, const char *what)
{
    return stk_err_set(err, STK_E_USAGE, NULL, -1, "%s", what);
}

/* Whether ranks can be placed on several nodes from here. */
static bool places(const struct stk_runner_plan *p)
{
    const char *nodes = getenv("SLURM_JOB_NUM_NODES"); /* in salloc, or in a batch file */
    return p->launcher ? stk_marks_in(p->launcher, "{nodes}") ||
                             stk_marks_in(p->launcher, "{ranks_per_node}")
                       : nodes && strtol(nodes, NULL, 10) > 1;
}

static uint64_t cpus_per_node(const struct stk_point *p)
{
    uint64_t nodes = p->give.nodes ? p->give.nodes : 1;
    return (p->give.cpus + nodes - 1) / nodes;
}

static const struct stk_point *most_cpus(const struct stk_points *points)
{
    const struct stk_point *most = &points->v[0];
    for (size_t i = 1; i < points->n; i++)
        most = cpus_per_node(&points->v[i]) > cpus_per_node(most) ? &points->v[i] : most;
    return most;
}

static int check(const struct stk_runner_plan *p, const struct stk_points *points,
                 struct stk_err *err)
{
    const struct stk_point *most = most_cpus(points);
    unsigned have = stk_cpus();
    if (p->sbatch || p->batch_head || p->gpu_type || p->detach)
        return wrong(err, "--sbatch, --sbatch-file, --gpu-type and --detach require --via slurm");
    if ((p->sets & STK_SETS_NODES) || p->ranks_per_node || (p->nspread + p->npack && !places(p)))
        return wrong(err,
                     "--nodes, --ranks-per-node and --spread require --via slurm: this is a "
                     "single node. In an allocation of several nodes, or with a --launcher "
                     "that takes {nodes} or {ranks_per_node}, ranks are also placed from here");
    if (p->oversubscribe || cpus_per_node(most) <= have)
        return 0;
    return stk_err_set(err, STK_E_USAGE, NULL, -1,
                       "%s needs %llu CPUs, and only %u may be used here: programs would wait for "
                       "each other and distort the times; use --oversubscribe to run it all the "
                       "same",
                       most->label, (unsigned long long)cpus_per_node(most), have);
}

static int find(const struct stk_runner *r, struct stk_err *err)
{
    struct stk_launcher l;
    struct stk_command c = {0};
    struct stk_runner_conditions unused = {0};
    int rc = stk_launcher_init(&l, &r->plan, &r->points, &unused, err);
    /* With several N the first is enough: --prepare may create the others. */
    for (size_t i = 0; i < r->points.n && !rc; i++)
        if (i == 0 || !r->points.v[i].by_n)
            rc = stk_command_make(&c, &l, &r->plan, &r->points.v[i], err);
    stk_command_release(&c);
    stk_launcher_release(&l);
    return rc;
}

static int begin(struct stk_runner *r, struct stk_err *err)
{
    struct local *l = r->there = calloc(1, sizeof *l);
    if (!l)
        return stk_err_nomem(err, sizeof *l);
    l->r = r;
    l->one.out_fd = -1;
    int rc = stk_launcher_init(&l->launcher, &r->plan, &r->points, &r->conditions, err);
    rc = rc ? rc
            : stk_one_init(&l->one, &r->plan, &l->launcher, r->plan.metric ? &r->metric : NULL, -1,
                           err);
    if (rc)
        return rc;
    l->one.tick = on_tick;
    l->one.user = l;
    l->one.run = r->watch ? r->watch->run : NULL;
    l->one.run_user = r->watch ? r->watch->user : NULL;
    l->begun = true;
    stk_noise_begin(&l->noise);
    return warm_up(l, err);
}

static void end(struct stk_runner *r)
{
    struct local *l = r->there;
    if (!l)
        return;
    if (l->begun)
        stk_noise_end(&l->noise, &r->conditions);
    if (l->begun && r->budget_spent)
        note_budget(r);
    stk_one_release(&l->one);
    stk_launcher_release(&l->launcher);
    free(l);
    r->there = NULL;
}

const struct stk_executor stk_executor_local = {
    .name = "local",
    .can = STK_VIA_CHOOSES,
    .runs_max = 20,
    .warmup = 1,
    .check = check,
    .find = find,
    .begin = begin,
    .end = end,
    .start = start,
};
