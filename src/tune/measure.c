/*
 * measure.c - the candidates as points of a study, until the difference of each to the baseline is
 * clear, or the time is up; and what the runs of the study show.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/units.h"
#include "tune/priv.h"

#define PATIENCE  5.0  /* times the time of the baseline: then a candidate has lost */
#define SLOWEST_S 30.0 /* but at least this */
#define CLOCK     "elapsed_seconds" /* of the same */
#define METRIC    "epoch_seconds" /* of struct stk_bench_figures */

typedef bool takes_fn(const struct stk_tune_candidate *c);

/* ---- points --------------------------------------------------------------------------------- */

/* With texts of its own: the candidates are sorted. */
static bool make_point(struct stk_tuner *t, const struct stk_tune_candidate *c, struct stk_point *p)
{
    const char **argv = stk_arena_alloc(&t->out->arena, 8 * sizeof *argv);
    const char *id = stk_tune_text(t, "%s", c->id), *label = stk_tune_text(t, "%s", c->label);
    *p = (struct stk_point){.id = id, .label = label, .series = id, .n = 1, .argv = argv};
    if (!argv || !id || !label)
        return false;
    /* For jobs of Slurm; runs here need no program. Paths are in the description, not here, where
     * braces have a meaning. */
    const char *words[] = {t->self, "tune", "--step", id, ".", NULL};
    memcpy(argv, words, sizeof words);
    return true;
}

static int make_points(struct stk_tuner *t, takes_fn *takes, struct stk_point **out, size_t *n,
                       struct stk_err *err)
{
    struct stk_point *p = stk_arena_alloc(&t->out->arena, t->out->n * sizeof *p);
    *n = 0;
    for (size_t i = 0; p && i < t->out->n; i++)
        if ((i == 0 || takes(&t->out->candidate[i])) &&
            !make_point(t, &t->out->candidate[i], &p[(*n)++]))
            p = NULL;
    *out = p;
    return p ? 0 : stk_err_nomem(err, t->out->n * sizeof *p);
}

/* ---- while it runs -------------------------------------------------------------------------- */

/* The points of a study against its first, the baseline. NULL: no memory. Caller frees. */
static struct stk_trial *compare(const struct stk_runner *r, double least)
{
    size_t n;
    const struct stk_tally *all = stk_runner_tally(r, &n);
    const struct stk_study_series *series = stk_runner_study(r)->series;
    struct stk_trial *trial = calloc(n, sizeof *trial);
    double(*pair)[STK_LOOKS_LAST] = calloc(n, sizeof *pair);
    for (size_t i = 1; trial && pair && i < n; i++)
        trial[i] = (struct stk_trial){
            pair[i], stk_tune_pairs(&series[all[0].series], &series[all[i].series], pair[i],
                                    STK_LOOKS_LAST)};
    if (trial && pair)
        stk_verdict_of_trials(trial + 1, n - 1, least);
    free(pair);
    return trial;
}

/* The baseline is needed as long as something is compared with it. */
static void decide(void *user, const struct stk_runner *r, bool *enough)
{
    const struct stk_tuner *t = user;
    struct stk_trial *trial = compare(r, t->plan->least);
    size_t n;
    const struct stk_tally *all = stk_runner_tally(r, &n);
    enough[0] = true;
    for (size_t i = 1; i < n; i++) {
        enough[i] = trial && stk_tune_judge(&trial[i].verdict) != STK_TUNE_UNCLEAR;
        enough[0] = enough[0] && (enough[i] || all[i].done);
    }
    free(trial);
}

static int on_run(void *user, const struct stk_runner_state *st)
{
    struct stk_tuner *t = user;
    char left[32] = "";
    if (st->left_s >= 1)
        stk_format_duration(st->left_s, left, sizeof left);
    return stk_tuner_doing(t, "run %llu: %.100s%s%s%s", (unsigned long long)st->done + 1,
                           st->label ? st->label : "", *left ? "; at most " : "", left,
                           *left ? " left" : "");
}

/* In a child process. */
static int run_point(void *user, const struct stk_point *p)
{
    struct stk_tuner *t = user;
    const struct stk_tune_candidate *c = NULL;
    struct stk_bench_job job;
    for (size_t i = 0; i < t->out->n && !c; i++)
        if (strcmp(t->out->candidate[i].id, p->id) == 0)
            c = &t->out->candidate[i];
    return !c || stk_tune_job(t, c, &job, NULL) ? 1 : stk_bench_job_child(&job);
}

/* ---- what it shows -------------------------------------------------------------------------- */

/* The reason why a candidate has no time. */
static void explain(struct stk_tune_candidate *c, const struct stk_study_series *s)
{
    const struct stk_study_run *run = s->nruns ? &s->run[s->nruns - 1] : NULL;
    const char *note = run && run->note ? run->note : "no run of it has ended";
    bool slow = run && run->status == STK_RUN_TIMEOUT;
    bool ran = run && run->status != STK_RUN_PENDING && run->status != STK_RUN_CANCELLED;
    c->verdict = slow ? STK_TUNE_NOTHING : ran ? STK_TUNE_FAILED : STK_TUNE_UNCLEAR;
    if (slow)
        snprintf(c->why, sizeof c->why, "takes more than %.0f times as long", PATIENCE);
    else
        snprintf(c->why, sizeof c->why, "%s", note);
}

static double utilisation(const struct stk_tuner *t, double epoch_s)
{
    return t->s.compute_s > 0 && epoch_s > 0 ? fmin(t->s.compute_s / epoch_s, 1) : NAN;
}

static int take_times(struct stk_tuner *t, struct stk_tune_candidate *c,
                      const struct stk_study_series *s, struct stk_err *err)
{
    double *v = calloc(s->nruns + 1, sizeof *v), cpu_s = 0, wall_s = 0;
    struct stk_summary sum;
    size_t n = 0;
    if (!v)
        return stk_err_nomem(err, s->nruns * sizeof *v);
    for (size_t i = 0; i < s->nruns; i++)
        if (s->run[i].status == STK_RUN_OK) {
            v[n++] = s->run[i].value;
            cpu_s += s->run[i].cpu_s;
            wall_s += s->run[i].wall_s;
        }
    if (n && stk_summarise(v, n, &sum)) {
        c->epoch_s = sum.median;
        c->epoch_ci = n < 6 ? sum.mean_ci : sum.median_ci;
        c->utilisation = utilisation(t, sum.median);
    }
    c->cores = wall_s > 0 && !t->plan->storage ? cpu_s / wall_s : NAN;
    c->runs += n;
    free(v);
    return 0;
}

static int take_result(struct stk_tuner *t, struct stk_tune_candidate *c,
                       const struct stk_study_series *s, const struct stk_verdict *gain,
                       bool confirms, struct stk_err *err)
{
    bool any = false;
    for (size_t i = 0; i < s->nruns; i++)
        any = any || s->run[i].status == STK_RUN_OK;
    if (!any && confirms && c->runs)
        return 0; /* the first study stands */
    if (!any)
        explain(c, s);
    int rc = any ? take_times(t, c, s, err) : 0;
    if (any && c->nchanges) {
        c->gain = *gain;
        c->verdict = stk_tune_judge(gain);
        c->confirmed = confirms;
    }
    return rc;
}

/* Its time and use follow from the ratio: medians of other rounds would contradict it. */
static void follow_ratio(const struct stk_tune_candidate *base, struct stk_tune_candidate *c)
{
    double was = c->epoch_s;
    if (!(c->gain.times > 0) || !(base->epoch_s > 0) || !(was > 0))
        return;
    c->epoch_s = base->epoch_s / c->gain.times;
    c->utilisation = isnan(c->utilisation) ? NAN : fmin(c->utilisation * was / c->epoch_s, 1);
    c->epoch_ci = (struct stk_interval){base->epoch_s / c->gain.ci.hi,
                                        base->epoch_s / c->gain.ci.lo};
}

static struct stk_tune_candidate *candidate_of(struct stk_tune *out, const char *id)
{
    for (size_t i = 0; i < out->n; i++)
        if (strcmp(out->candidate[i].id, id) == 0)
            return &out->candidate[i];
    return NULL;
}

static int take_all(struct stk_tuner *t, takes_fn *takes, bool confirms, struct stk_err *err)
{
    struct stk_trial *trial = compare(t->runner, t->plan->least);
    int rc = trial ? 0 : stk_err_nomem(err, sizeof *trial);
    size_t n;
    const struct stk_tally *all = stk_runner_tally(t->runner, &n);
    const struct stk_study_series *series = stk_runner_study(t->runner)->series;
    for (size_t i = 0; i < n && !rc; i++) {
        struct stk_tune_candidate *c = candidate_of(t->out, all[i].point->id);
        if (c && (i == 0 || takes(c))) /* of a resumed study: it may not be tried any more */
            rc = take_result(t, c, &series[all[i].series], &trial[i].verdict, confirms, err);
    }
    free(trial);
    for (size_t i = 1; i < t->out->n; i++)
        follow_ratio(&t->out->candidate[0], &t->out->candidate[i]);
    for (size_t i = 0; i < n; i++)
        t->out->budget_spent = t->out->budget_spent || !all[i].done;
    return rc;
}

/* ---- the study ------------------------------------------------------------------------------ */

/* A job that starts after its folder is gone has nothing to do. */
static int cancel_jobs(const struct stk_folder *work, const char *study, struct stk_err *err)
{
    struct stk_runner *r = NULL;
    char plan[64], *dir = stk_folder_path(work, study);
    snprintf(plan, sizeof plan, "%s/plan.json", study);
    int rc = dir ? 0 : stk_err_nomem(err, 8);
    if (!rc && stk_folder_has(work, plan)) {
        rc = stk_runner_resume(dir, NULL, &r, err);
        rc = rc ? rc : stk_runner_cancel(r, err);
        stk_runner_free(r);
    }
    free(dir);
    return rc;
}

int stk_tune_cancel(const struct stk_folder *work, struct stk_err *err)
{
    int rc = cancel_jobs(work, STK_TUNE_FIRST, err);
    return rc ? rc : cancel_jobs(work, STK_TUNE_SECOND, err);
}

static int open_runner(struct stk_tuner *t, const char *dir, struct stk_runner_plan *p,
                       struct stk_err *err)
{
    char name[64];
    snprintf(name, sizeof name, "%s/plan.json", stk_base_name(dir));
    if (!stk_folder_has(&t->work, name))
        return stk_runner_new(p, dir, &t->runner, err);
    struct stk_runner_change change = {.variant = p->variant,
                                       .nvariants = p->nvariants,
                                       .runs_min = p->runs_min,
                                       .runs_max = p->runs_max,
                                       .precision = NAN,
                                       .timeout_s = NAN,
                                       .budget_s = p->budget_s,
                                       .at_once = UINT64_MAX};
    return stk_runner_resume(dir, &change, &t->runner, err);
}

static void set_plan(const struct stk_tuner *t, double budget_s, struct stk_runner_plan *p)
{
    double run_s = t->s.epoch_s > 0 ? PATIENCE * t->run_s : 0;
    p->cwd = t->work.path;
    p->pin = false;
    p->runs_min = STK_LOOKS_FIRST;
    p->runs_max = STK_LOOKS_LAST;
    p->warmup = 0;
    p->seed = t->plan->seed;
    p->budget_s = fmax(budget_s, 1);
    p->timeout_s = fmax(run_s, SLOWEST_S);
    p->metric = METRIC;
    p->metric_pick = STK_METRIC_MEMBER;
    p->clock = t->plan->storage ? CLOCK : NULL;
    p->at_once = t->plan->storage ? 0 : 1; /* real storage is shared by all runs */
    p->via = t->plan->via;
    p->sbatch = t->plan->sbatch;
}

static int run_study(struct stk_tuner *t, const char *study, takes_fn *takes, double budget_s,
                     bool confirms, struct stk_err *err)
{
    struct stk_runner_plan p = STK_RUNNER_PLAN_INIT;
    struct stk_runner_watch watch = {.tick = on_run, .compare = decide, .run = run_point, .user = t};
    struct stk_point *points = NULL;
    char *dir = stk_folder_path(&t->work, study);
    int rc = dir ? make_points(t, takes, &points, &p.nvariants, err) : stk_err_nomem(err, 8);
    p.variant = points;
    set_plan(t, budget_s, &p);
    rc = rc ? rc : open_runner(t, dir, &p, err);
    rc = rc ? rc : stk_runner_go(t->runner, &watch, err);
    if (t->runner) {
        t->passed_s += stk_runner_spent_s(t->runner);
        int late = take_all(t, takes, confirms, rc ? NULL : err);
        rc = rc ? rc : late;
    }
    if (rc && rc != STK_E_STOPPED && t->runner)
        (void)stk_runner_cancel(t->runner, NULL);
    free(dir);
    return rc;
}

#define BUSY 0.25 /* of the CPUs: enough to blur times */

static void note_noise(struct stk_tuner *t)
{
    const struct stk_runner_conditions *c = stk_runner_conditions(t->runner);
    if (c->others_cores > BUSY * c->cpus_usable && !t->plan->storage && !t->noisy++)
        stk_tune_note(t->out,
                      "Other programs kept %.1f of the %u CPUs busy meanwhile: intervals are wider "
                      "than on a quiet machine",
                      c->others_cores, c->cpus_usable);
}

int stk_tune_measure(struct stk_tuner *t, const char *study, takes_fn *takes, double budget_s,
                     bool confirms, struct stk_err *err)
{
    size_t n = 0;
    for (size_t i = 1; i < t->out->n; i++)
        n += takes(&t->out->candidate[i]);
    if (!n)
        return 0;
    int rc = stk_tune_write_state(t, err);
    rc = rc ? rc : run_study(t, study, takes, budget_s, confirms, err);
    if (t->runner) {
        note_noise(t);
        stk_runner_free(t->runner);
        t->runner = NULL;
    }
    return rc;
}
