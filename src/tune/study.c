/*
 * study.c - the candidates as points of a study, until the difference of each to the job as it is
 * is clear, or the time is up; and what the runs of the study show.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/units.h"
#include "tune/priv.h"

#define PATIENCE  5.0  /* times the time of the job as it is: then a candidate has lost */
#define SLOWEST_S 30.0 /* but at least this */
#define CLOCK     "elapsed_seconds" /* of the same */
#define METRIC    "epoch_seconds" /* of struct stk_bench_figures */

/* One study while it runs. */
struct running {
    struct stk_tuner *t;
    const struct stk_tune_found *f;
    struct stk_runner *runner;
};

/* ---- points --------------------------------------------------------------------------------- */

static bool make_point(struct stk_tuner *t, const struct stk_tune_proposal *c, struct stk_point *p)
{
    /* For jobs of Slurm; runs here need no program. Paths are in the description, not here, where
     * braces have a meaning. */
    const char *words[] = {t->self, "tune", "--step", c->id, ".", NULL};
    const char **argv = stk_arena_alloc(&t->out->arena, sizeof words);
    *p = (struct stk_point){.id = c->id, .label = c->label, .series = c->id, .n = 1, .argv = argv};
    if (argv)
        memcpy(argv, words, sizeof words);
    return argv;
}

/* ---- while it runs -------------------------------------------------------------------------- */

/* The points of a study against its first, the job as it is. NULL: no memory. Caller frees. */
static struct stk_trial *compare(const struct stk_runner *r, double least)
{
    size_t n;
    const struct stk_tally *all = stk_runner_tally(r, &n);
    struct stk_trial *trial = calloc(n, sizeof *trial);
    double(*pair)[STK_LOOKS_LAST] = calloc(n, sizeof *pair);
    for (size_t i = 1; trial && pair && i < n; i++)
        trial[i] = (struct stk_trial){
            pair[i], stk_tune_pairs(stk_runner_study(r), all[0].series, all[i].series, pair[i],
                                    STK_LOOKS_LAST)};
    if (trial && pair)
        stk_verdict_of_trials(trial + 1, n - 1, least);
    free(pair);
    return trial;
}

/* The job as it is is needed as long as something is compared with it. */
static void decide(void *user, const struct stk_runner *r, bool *enough)
{
    const struct running *now = user;
    struct stk_trial *trial = compare(r, now->t->plan.least);
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
    const struct running *now = user;
    char left[32] = "";
    if (st->left_s >= 1)
        stk_format_duration(st->left_s, left, sizeof left);
    return stk_tuner_doing(now->t, NULL, "run %llu: %.100s%s%s%s",
                           (unsigned long long)st->done + 1, st->label ? st->label : "",
                           *left ? "; at most " : "", left, *left ? " left" : "");
}

/* The number of a candidate; SIZE_MAX: there is none of that id. */
static size_t number_of(const struct stk_tune_list *list, const char *id)
{
    for (size_t i = 0; i < list->n; i++)
        if (strcmp(list->item[i].id, id) == 0)
            return i;
    return SIZE_MAX;
}

/* In a child process. */
static int run_point(void *user, const struct stk_point *p)
{
    const struct running *now = user;
    struct stk_bench_job job;
    size_t i = number_of(&now->f->list, p->id);
    return i == SIZE_MAX || stk_tune_job(now->t, now->f, i, &job, NULL) ? 1
                                                                        : stk_bench_job_child(&job);
}

/* ---- what it shows -------------------------------------------------------------------------- */

/* The reason why a candidate has no time. */
static void explain(const struct stk_study_series *s, struct stk_tune_measured *m)
{
    const struct stk_study_run *run = s->nruns ? &s->run[s->nruns - 1] : NULL;
    bool slow = run && run->status == STK_RUN_TIMEOUT;
    bool ran = run && run->status != STK_RUN_PENDING && run->status != STK_RUN_CANCELLED;
    m->verdict = slow ? STK_TUNE_NOTHING : ran ? STK_TUNE_FAILED : STK_TUNE_UNCLEAR;
    if (slow)
        snprintf(m->why, sizeof m->why, "takes more than %.0f times as long", PATIENCE);
    else
        snprintf(m->why, sizeof m->why, "%s",
                 run && run->note ? run->note : "no run of it has ended");
}

static int take_runs(const struct stk_study_series *s, const struct stk_verdict *gain,
                     bool modelled, struct stk_tune_measured *m, struct stk_err *err)
{
    double *v = calloc(s->nruns + 1, sizeof *v), cpu_s = 0, wall_s = 0;
    struct stk_summary sum;
    if (!v)
        return stk_err_nomem(err, s->nruns * sizeof *v);
    for (size_t i = 0; i < s->nruns; i++)
        if (s->run[i].status == STK_RUN_OK) {
            v[m->runs++] = s->run[i].value;
            cpu_s += s->run[i].cpu_s;
            wall_s += s->run[i].wall_s;
        }
    if (m->runs && stk_summarise(v, m->runs, &sum)) {
        m->epoch_s = sum.median;
        m->epoch_ci = m->runs < 6 ? sum.mean_ci : sum.median_ci;
    }
    free(v);
    m->cores = wall_s > 0 && !modelled ? cpu_s / wall_s : NAN;
    if (m->runs) {
        m->gain = *gain;
        m->verdict = stk_tune_judge(gain);
    } else {
        explain(s, m);
    }
    return 0;
}

/* Of every point that the study has, also one that an earlier call ran and this one does not try.
 */
static int take_all(const struct running *now, struct stk_tune_study *out, struct stk_err *err)
{
    const struct stk_tuner *t = now->t;
    const struct stk_tune_list *list = &now->f->list;
    const struct stk_runner_conditions *c = stk_runner_conditions(now->runner);
    struct stk_trial *trial = compare(now->runner, t->plan.least);
    int rc = trial ? 0 : stk_err_nomem(err, sizeof *trial);
    size_t n;
    const struct stk_tally *all = stk_runner_tally(now->runner, &n);
    const struct stk_study_series *series = stk_runner_study(now->runner)->series;
    out->n = out->item ? list->n : 0;
    for (size_t i = 0; i < n && !rc; i++) {
        size_t number = number_of(list, all[i].point->id);
        if (number < out->n)
            rc = take_runs(&series[all[i].series], &trial[i].verdict, t->plan.storage != NULL,
                           &out->item[number], err);
        out->unfinished = out->unfinished || !all[i].done;
    }
    free(trial);
    out->others_cores = c->others_cores;
    out->cpus = c->cpus_usable;
    return rc;
}

/* ---- the study ------------------------------------------------------------------------------ */

/* The study of that name of an earlier call; *r NULL: there is none. */
static int open_study(const struct stk_folder *work, const char *study,
                      const struct stk_runner_change *change, struct stk_runner **r,
                      struct stk_err *err)
{
    char plan[64], *dir = stk_folder_path(work, study);
    *r = NULL;
    snprintf(plan, sizeof plan, "%s/plan.json", study);
    int rc = dir ? 0 : stk_err_nomem(err, 8);
    if (!rc && stk_folder_has(work, plan))
        rc = stk_runner_resume(dir, change, r, err);
    free(dir);
    return rc;
}

/* A job that starts after its folder is gone has nothing to do. */
static int cancel_jobs(const struct stk_folder *work, const char *study, struct stk_err *err)
{
    struct stk_runner *r = NULL;
    int rc = open_study(work, study, NULL, &r, err);
    if (r)
        rc = stk_runner_cancel(r, err);
    stk_runner_free(r);
    return rc;
}

int stk_tune_cancel(const struct stk_folder *work, struct stk_err *err)
{
    int rc = cancel_jobs(work, STK_TUNE_FIRST, err);
    return rc ? rc : cancel_jobs(work, STK_TUNE_SECOND, err);
}

uint64_t *stk_tune_runs(struct stk_tuner *t, const struct stk_tune_list *list, const char *study)
{
    uint64_t *runs = stk_arena_alloc(&t->out->arena, list->n * sizeof *runs);
    struct stk_runner *r = NULL;
    size_t n = 0;
    if (!runs || open_study(&t->work, study, NULL, &r, NULL) != 0 || !r)
        return NULL;
    memset(runs, 0, list->n * sizeof *runs);
    const struct stk_tally *all = stk_runner_tally(r, &n);
    for (size_t i = 0; i < n; i++) {
        size_t number = number_of(list, all[i].point->id);
        if (number < list->n)
            runs[number] = all[i].good;
    }
    stk_runner_free(r);
    return runs;
}

static struct stk_runner_plan plan_of(const struct stk_tuner *t, const struct stk_tune_pilot *pilot,
                                      double budget_s)
{
    struct stk_runner_plan p = STK_RUNNER_PLAN_INIT;
    p.cwd = t->work.path;
    p.pin = false;
    p.runs_min = STK_LOOKS_FIRST;
    p.runs_max = STK_LOOKS_LAST;
    p.warmup = 0;
    p.seed = t->plan.seed;
    p.budget_s = fmax(budget_s, 1);
    p.timeout_s = fmax(PATIENCE * pilot->run_s, SLOWEST_S);
    p.metric = METRIC;
    p.metric_pick = STK_METRIC_MEMBER;
    p.clock = t->plan.storage ? CLOCK : NULL;
    p.at_once = t->plan.storage ? 0 : 1; /* real storage is shared by all runs */
    p.via = t->plan.via;
    p.sbatch = t->plan.sbatch;
    return p;
}

static int open_runner(const struct stk_tuner *t, const char *study,
                       const struct stk_runner_plan *p, struct stk_runner **r, struct stk_err *err)
{
    const struct stk_runner_change change = {.variant = p->variant,
                                             .nvariants = p->nvariants,
                                             .runs_min = p->runs_min,
                                             .runs_max = p->runs_max,
                                             .precision = NAN,
                                             .timeout_s = NAN,
                                             .budget_s = p->budget_s,
                                             .at_once = UINT64_MAX};
    int rc = open_study(&t->work, study, &change, r, err);
    char *dir = rc || *r ? NULL : stk_folder_path(&t->work, study);
    if (!rc && !*r)
        rc = dir ? stk_runner_new(p, dir, r, err) : stk_err_nomem(err, 8);
    free(dir);
    return rc;
}

/* Room for what is found, and the points. */
static int make_points(struct stk_tuner *t, const struct stk_tune_found *f,
                       bool (*takes)(const struct stk_tune_found *f, size_t number),
                       struct stk_point **point, size_t *n, struct stk_tune_study *out,
                       struct stk_err *err)
{
    static const struct stk_tune_measured none = {.epoch_s = NAN, .cores = NAN,
                                                  .gain = {.times = NAN, .ci = {NAN, NAN}},
                                                  .verdict = STK_TUNE_UNCLEAR};
    size_t all = f->list.n;
    *point = stk_arena_alloc(&t->out->arena, all * sizeof **point);
    out->item = stk_arena_alloc(&t->out->arena, all * sizeof *out->item);
    bool ok = *point && out->item;
    for (size_t i = 0; i < all && ok; i++) {
        out->item[i] = none;
        if (!i || takes(f, i))
            ok = make_point(t, &f->list.item[i], &(*point)[(*n)++]);
    }
    return ok ? 0 : stk_err_nomem(err, all * sizeof **point);
}

int stk_tune_study(struct stk_tuner *t, const struct stk_tune_found *f, const char *study,
                   bool (*takes)(const struct stk_tune_found *f, size_t number), double budget_s,
                   struct stk_tune_study *out, struct stk_err *err)
{
    struct running now = {t, f, NULL};
    struct stk_runner_watch watch = {
        .tick = on_run, .compare = decide, .run = run_point, .user = &now};
    struct stk_runner_plan p = plan_of(t, &f->subject.pilot, budget_s);
    struct stk_point *points;
    *out = (struct stk_tune_study){.others_cores = NAN};
    int rc = make_points(t, f, takes, &points, &p.nvariants, out, err);
    if (rc || p.nvariants < 2)
        return rc;
    p.variant = points;
    rc = stk_tune_write_state(t, f, err);
    rc = rc ? rc : open_runner(t, study, &p, &now.runner, err);
    rc = rc ? rc : stk_runner_go(now.runner, &watch, err);
    if (now.runner) {
        t->passed_s += stk_runner_spent_s(now.runner);
        int late = take_all(&now, out, rc ? NULL : err);
        rc = rc ? rc : late;
        if (rc && rc != STK_E_STOPPED)
            (void)stk_runner_cancel(now.runner, NULL);
    }
    stk_runner_free(now.runner);
    return rc;
}
