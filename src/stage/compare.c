/*
 * compare.c - a comparison from its plan to its numbers: has everything prepared, runs the points,
 * reads their times, and has everything removed that it made.
 */
#include "stage/compare_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/spawn.h"
#include "base/units.h"
#include "host/fs.h"

void stk_compare_note(struct stk_compare *c, const char *fmt, ...)
{
    va_list ap;
    if (c->nnotes == STK_COMPARE_NOTES)
        return;
    va_start(ap, fmt);
    vsnprintf(c->note[c->nnotes++], sizeof c->note[0], fmt, ap);
    va_end(ap);
}

int stk_compare_tick(void *user)
{
    struct compare *k = user;
    return k->plan->tick ? k->plan->tick(k->plan->user, k->doing) : 0;
}

/* ---- points --------------------------------------------------------------------------------- */

static const char *text(struct stk_arena *a, const char *fmt, ...) STK_PRINTF(2, 3);
static const char *text(struct stk_arena *a, const char *fmt, ...)
{
    char out[200];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(out, sizeof out, fmt, ap);
    va_end(ap);
    return stk_arena_dup(a, out, (size_t)n);
}

/* Here one process starts all jobs; a scheduler starts a process for each. Paths are not in the
 * command, where braces have a meaning: the study's folder has them. */
static bool make_point(struct compare *k, const struct stk_form *f, uint64_t n, struct stk_point *p)
{
    const char **argv = stk_arena_alloc(&k->arena, 12 * sizeof *argv);
    unsigned long long jobs = n, per_node = k->plan->per_node ? k->plan->per_node : 1;
    *p = (struct stk_point){
        .id = text(&k->arena, "%s-n%llu", f->id, jobs),
        .label = text(&k->arena, "%s with %llu job%s", f->id, jobs, jobs == 1 ? "" : "s"),
        .series = f->id,
        .n = n,
        .argv = argv};
    if (!argv || !p->id || !p->label)
        return false;
    const char *words[] = {k->self,
                           "stage",
                           "--compare-step",
                           f->id,
                           "--compare-of",
                           text(&k->arena, "%llu", jobs),
                           "--compare-here",
                           text(&k->arena, "%llu", stk_compare_runs_here(k) ? jobs : 1),
                           "."};
    memcpy(argv, words, sizeof words);
    argv[sizeof words / sizeof *words] = NULL;
    if (!stk_compare_runs_here(k))
        p->give = (struct stk_resources){.ranks = n, .ranks_per_node = per_node < n ? per_node : n};
    return words[5] && words[7];
}

static int make_points(struct compare *k, struct stk_point **out, size_t *n, struct stk_err *err)
{
    struct stk_point *p = stk_arena_alloc(&k->arena, STK_FORMS * k->nn * sizeof *p);
    *out = p;
    *n = 0;
    for (size_t i = 0; p && i < STK_FORMS; i++)
        for (size_t j = 0; j < k->nn && k->out->form[i].path; j++)
            if (!make_point(k, k->out->form[i].form, k->n[j], &p[(*n)++]))
                p = NULL;
    if (!p)
        return stk_err_nomem(err, STK_FORMS * k->nn * sizeof *p);
    return *n ? 0
              : stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1, "none of the forms can be staged");
}

static int on_run(void *user, const struct stk_runner_state *st)
{
    struct compare *k = user;
    unsigned long long done = st->done, planned = st->planned;
    char left[32], *at = k->doing;
    size_t size = sizeof k->doing;
    int n =
        st->pending || st->running
            ? snprintf(at, size, "%llu of %llu runs; jobs: %llu running, %llu pending", done,
                       planned, (unsigned long long)st->running, (unsigned long long)st->pending)
            : snprintf(at, size, "run %llu of %llu: %.100s", done + 1, planned,
                       st->label ? st->label : "");
    if (st->left_s >= 1 && n > 0 && (size_t)n < size)
        snprintf(at + n, size - (size_t)n, "; about %s left",
                 stk_format_duration(st->left_s, left, sizeof left));
    return stk_compare_tick(k);
}

static int run_points(struct compare *k, struct stk_err *err)
{
    struct stk_runner_plan p = STK_RUNNER_PLAN_INIT;
    struct stk_runner_watch watch = {.tick = on_run, .user = k};
    struct stk_point *points = NULL;
    char *study = stk_folder_path(&k->work, "study");
    int rc = study ? make_points(k, &points, &p.nvariants, err) : stk_err_nomem(err, 6);
    p.variant = points;
    p.cwd = k->work.path;
    p.pin = false;
    p.runs_min = p.runs_max = k->plan->runs;
    p.warmup = 0;
    p.seed = k->plan->seed;
    p.metric = STK_COMPARE_METRIC;
    p.metric_pick = STK_METRIC_MEDIAN;
    p.unit = "jobs";
    p.weak = p.grows = true;
    p.at_once = 1; /* all points read the same storage */
    p.via = k->plan->via;
    p.sbatch = k->plan->sbatch;
    rc = rc ? rc : stk_runner_new(&p, study, &k->out->runner, err);
    rc = rc ? rc : stk_runner_go(k->out->runner, &watch, err);
    if (rc && k->out->runner)
        (void)stk_runner_cancel(k->out->runner, NULL);
    free(study);
    return rc;
}

/* ---- what it shows -------------------------------------------------------------------------- */

static void fit_bend(struct stk_compare_form *f)
{
    const struct stk_scaling_series *s = f->series;
    struct stk_law_point *point = calloc(s->nrows, sizeof *point);
    struct stk_law_data d = {.point = point, .noise = s->noise, .seed = 1};
    for (size_t i = 0; point && i < s->nrows; i++)
        if (s->row[i].runs)
            point[d.npoints++] = (struct stk_law_point){(double)s->row[i].n, s->row[i].value,
                                                        (double)s->row[i].runs, &s->row[i].own};
    stk_bend_fit(&d, &f->bend);
    free(point);
}

/* The reason of a form of which no run succeeded. */
static void find_failure(struct stk_compare_form *f)
{
    for (size_t i = 0; i < f->series->nrows; i++)
        if (f->series->row[i].runs)
            return;
    const char *why = f->series->nrows ? f->series->row[0].note : NULL;
    snprintf(f->why, sizeof f->why, "every run failed: %s", why ? why : "no run ended");
}

static int compute(struct compare *k, struct stk_err *err)
{
    struct stk_compare *c = k->out;
    struct stk_scaling_options o = {.su = STK_SU_RATES_INIT, .seed = 1};
    int rc = stk_scaling_compute(stk_runner_study(c->runner), &o, &c->scaling, err);
    for (size_t i = 0; i < c->scaling.nseries && !rc; i++) {
        const struct stk_form *form = stk_form_find(c->scaling.series[i].from->name);
        struct stk_compare_form *f = form ? &c->form[form - stk_forms] : NULL;
        if (!f)
            continue;
        f->series = &c->scaling.series[i];
        find_failure(f);
        fit_bend(f);
    }
    return rc ? rc : stk_compare_read_times(c, &k->work, err);
}

static void note_caches(struct compare *k)
{
    struct stk_compare *c = k->out;
    stk_compare_note(c, "Before each run the data was dropped from the page cache of the node; names and "
            "inodes, and the caches of file servers, were not");
    if (stk_fs_of_path(k->source.path)->memory)
        stk_compare_note(c, "The source is in memory: nothing of it can be dropped");
    if (stk_compare_runs_here(k) && k->n[k->nn - 1] > 1)
        stk_compare_note(c, "All jobs at once ran on this node, and may find in its page cache what another "
                "of them has just read; --executor slurm gives each a node");
}

static bool is_complete(const struct stk_compare *c)
{
    size_t n;
    const struct stk_tally *t = stk_runner_tally(c->runner, &n);
    bool all = !c->stopped;
    for (size_t i = 0; i < n; i++)
        all = all && t[i].good >= c->runs;
    return all;
}

static void take_notes(struct compare *k)
{
    const struct stk_runner_conditions *c = stk_runner_conditions(k->out->runner);
    note_caches(k);
    for (size_t i = 0; i < c->nnotes; i++)
        stk_compare_note(k->out, "%s", c->note[i]);
}

static int measure(struct compare *k, struct stk_err *err)
{
    int rc = stk_compare_make_folders(k, err);
    rc = rc ? rc : stk_compare_prepare(k, err);
    rc = rc ? rc
            : stk_compare_write_spec(k->out, stk_compare_runs_here(k) ? k->there.path : k->plan->target,
                                     &k->work, err);
    rc = rc ? rc : run_points(k, err);
    k->out->stopped = rc == STK_E_STOPPED;
    if (k->out->runner && (!rc || k->out->stopped) && stk_runner_study(k->out->runner)->nruns) {
        int late = compute(k, rc ? NULL : err);
        rc = rc ? rc : late;
        k->out->complete = is_complete(k->out);
        take_notes(k);
    }
    return rc;
}

int stk_compare(const struct stk_compare_plan *plan, struct stk_compare *out, struct stk_err *err)
{
    struct compare k = {.plan = plan,
                        .out = out,
                        .source = STK_SOURCE_INIT,
                        .work = STK_FOLDER_INIT,
                        .there = STK_FOLDER_INIT};
    *out = (struct stk_compare){.runs = plan->runs, .via = plan->via};
    int rc = stk_self_path(k.self, sizeof k.self, err);
    rc = rc ? rc : stk_runner_parse_n("jobs", plan->jobs, k.n, &k.nn, err);
    rc = rc ? rc : stk_compare_choose_forms(&k, err);
    rc = rc ? rc : stk_compare_look(&k, err);
    rc = rc ? rc : stk_compare_check_space(&k, err);
    const char *target = k.target[0] ? k.target : plan->target;
    if (!rc && target) {
        out->target = strdup(target);
        out->target_fs = stk_compare_runs_here(&k) ? stk_fs_of_path(target)->name : NULL;
    }
    rc = rc ? rc : measure(&k, err);
    stk_compare_remove_folders(&k);
    stk_compare_remove_index(&k);
    stk_source_release(&k.source);
    stk_arena_release(&k.arena);
    free(k.beside);
    free(k.index);
    return rc;
}

void stk_compare_release(struct stk_compare *c)
{
    stk_scaling_release(&c->scaling);
    stk_runner_free(c->runner);
    for (size_t i = 0; i < STK_FORMS; i++) {
        free(c->form[i].path);
        free(c->form[i].times);
    }
    free(c->source);
    free(c->target);
}

static double prepare_of(const struct stk_compare_form *f)
{
    return isnan(f->prepare_s) ? 0 : f->prepare_s;
}

/* As stk_scaling_verdict(), of the medians in the table. */
struct stk_verdict stk_compare_verdict(const struct stk_compare_form *f,
                                       const struct stk_compare_form *than)
{
    static const struct stk_noise unknown = {.relative_sd = NAN};
    const struct stk_compare_form *form[] = {f, than};
    struct stk_timed side[2];
    struct stk_noise room[2];
    for (size_t k = 0; k < 2; k++) {
        const struct stk_scaling_series *s = form[k]->series;
        double last_s = form[k]->ntimes ? form[k]->times[0].last_s : NAN;
        side[k] = (struct stk_timed){last_s, 1, &unknown, 0};
        for (size_t i = 0; s && i < s->nrows; i++)
            if (form[k]->ntimes && s->row[i].n == form[k]->times[0].n) {
                side[k].runs = s->row[i].runs;
                side[k].noise = stk_noise_of(&s->noise, &s->row[i].own, &room[k]);
            }
    }
    return stk_verdict_of(&side[0], &side[1], STK_VERDICT_ALIKE, STK_FORMS - 1);
}

const struct stk_compare_form *stk_compare_best(const struct stk_compare *c)
{
    const struct stk_compare_form *files = &c->form[STK_FORM_FILES], *best = NULL;
    double fastest = INFINITY;
    bool takes[STK_FORMS] = {false};
    for (size_t i = 0; i < STK_FORMS; i++) {
        const struct stk_compare_form *f = &c->form[i];
        takes[i] = f->ntimes &&
                   (!files->ntimes || stk_compare_verdict(f, files).kind == STK_VERDICT_FASTER);
        if (takes[i])
            fastest = fmin(fastest, f->times[0].last_s);
    }
    for (size_t i = 0; i < STK_FORMS; i++) {
        const struct stk_compare_form *f = &c->form[i];
        if (takes[i] && f->times[0].last_s <= (1 + STK_BEND_TOLERANCE) * fastest &&
            (!best || prepare_of(f) < prepare_of(best)))
            best = f;
    }
    return best || !files->ntimes ? best : files;
}

double stk_compare_pays_after(const struct stk_compare_form *f, const struct stk_compare_form *than)
{
    if (!f->ntimes || !than->ntimes || isnan(f->prepare_s))
        return NAN;
    double saved = than->times[0].last_s - f->times[0].last_s;
    return saved > 0 ? ceil(f->prepare_s / saved) : INFINITY;
}
