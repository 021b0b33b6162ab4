/*
 * runner.c - a study being run: creates or reopens its folder, makes its points, and reads its runs
 * so far; drive.c continues from there. A line per run is appended as it ends, which costs
 * microseconds and survives our death; the whole study is published now and then and at the end.
 */
#include "study/priv.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/dir.h"
#include "base/file.h"
#include "base/pool.h"
#include "base/stats.h"
#include "record/launch.h"

static const struct stk_executor *const executors[] = {
    &stk_executor_local,
    &stk_executor_slurm,
};
const char *const stk_executor_names[] = {"local", "slurm", NULL};

const struct stk_executor *stk_executor_find(const char *name)
{
    for (size_t i = 0; i < sizeof executors / sizeof *executors; i++)
        if (strcmp(executors[i]->name, name) == 0)
            return executors[i];
    return NULL;
}

#define SYNC_EVERY_S    2.0 /* the most that a power failure can lose */
#define PUBLISH_EVERY_S 10.0

/* ---- files of lines ----------------------------------------------------------------------- */

/* Reads the complete lines of the text; a rest without a line break is the remains of a crash. */
static int read_lines(const char *text, size_t len, const char *path, stk_line_fn *line, void *user,
                      size_t *whole, struct stk_err *err)
{
    struct stk_arena arena = STK_ARENA_INIT;
    int rc = 0;
    uint64_t number = 1;
    for (*whole = 0; !rc && *whole < len; number++) {
        const char *at = text + *whole, *end = memchr(at, '\n', len - *whole);
        if (!end)
            break;
        struct stk_jval *v;
        stk_arena_reset(&arena);
        rc = stk_json_parse(&arena, at, (size_t)(end - at), &v, err);
        rc = rc ? rc : line(user, v, err);
        *whole = (size_t)(end - text) + 1;
    }
    stk_arena_release(&arena);
    if (rc && rc != STK_E_NOMEM)
        rc = stk_err_set(err, STK_E_CORRUPT, path, -1, "line %llu is damaged",
                         (unsigned long long)number - 1);
    return rc;
}

int stk_lines_open(const struct stk_folder *f, const char *name, int *fd, stk_line_fn *line,
                   void *user, struct stk_err *err)
{
    struct stk_buf b = STK_BUF_INIT;
    size_t whole = 0;
    char *path = stk_folder_path(f, name);
    int rc = path ? stk_folder_append(f, name, fd, err) : stk_err_nomem(err, strlen(name));
    if (!rc && !stk_lock_alone(*fd))
        rc = stk_err_set(err, STK_E_USAGE, path, -1, "another stoker is working on this study");
    rc = rc ? rc : stk_folder_read(f, name, STK_STUDY_FILE_MAX, &b, err);
    if (!rc)
        rc = read_lines(stk_buf_cstr(&b), b.len, path, line, user, &whole, err);
    if (!rc && whole < b.len && ftruncate(*fd, (off_t)whole) != 0)
        rc = stk_err_sys(err, path, "truncate");
    stk_buf_release(&b);
    free(path);
    if (rc && *fd >= 0) {
        close(*fd);
        *fd = -1;
    }
    return rc;
}

/* One write: a line is complete, or its remains are cut off next time. */
int stk_lines_add(int fd, const struct stk_jfield *table, const void *from, const char *path,
                  struct stk_err *err)
{
    struct stk_buf line = STK_BUF_INIT;
    stk_jfields_text(table, from, false, &line);
    int rc = stk_buf_check(&line, err);
    rc = rc ? rc : stk_write_full(fd, line.data, line.len, path, err);
    stk_buf_release(&line);
    return rc;
}

/* ---- runs --------------------------------------------------------------------------------- */

static int runner_publish(struct stk_runner *r, struct stk_err *err)
{
    struct stk_buf b = STK_BUF_INIT;
    struct stk_jw w;
    stk_jw_init(&w, &b, true);
    stk_study_write_json(&r->study, &w);
    stk_buf_putc(&b, '\n');
    int rc = stk_buf_check(&b, err);
    rc = rc ? rc : stk_folder_write(&r->folder, "study.json", b.data, b.len, err);
    stk_buf_release(&b);
    r->published_s = stk_now();
    return rc;
}

int stk_runner_keep(struct stk_runner *r, struct stk_tally *t, const struct stk_study_run *run,
                    struct stk_err *err)
{
    int rc = stk_study_add(&r->study, t->series, run, err);
    rc = rc ? rc : stk_lines_add(r->journal_fd, stk_study_run_fields, run, r->dir, err);
    double now = stk_now();
    if (!rc && now - r->synced_s > SYNC_EVERY_S) {
        rc = fdatasync(r->journal_fd) == 0 ? 0 : stk_err_sys(err, r->dir, "fdatasync");
        r->synced_s = stk_now();
    }
    if (!rc && now - r->published_s > PUBLISH_EVERY_S)
        rc = runner_publish(r, err);
    r->state.done++;
    stk_tally_update(r, t);
    stk_tally_compare(r);
    return rc;
}

#define EVERY_S 2.0

static void put_point(const struct stk_tally *t, struct stk_jw *w)
{
    stk_jw_open(w, '{');
    stk_jw_put_str(w, "label", t->point->label);
    stk_jw_put_str(w, "series", t->point->series);
    stk_jw_put_u64(w, "n", t->point->n);
    stk_jw_put_u64(w, "good", t->good);
    stk_jw_put_u64(w, "bad", t->bad);
    stk_jw_put_u64(w, "waiting", t->waiting);
    stk_jw_put_f64(w, "wall_s", t->wall_s);
    stk_jw_put_f64(w, "cost", t->cost);
    stk_jw_put_f64(w, "half_width", t->half_width);
    stk_jw_put_bool(w, "done", t->done);
    stk_jw_close(w, '}');
}

static void put_now(void *user, struct stk_jw *w)
{
    const struct stk_runner *r = user;
    const struct stk_runner_state *st = &r->state;
    stk_jw_put_str(w, "unit", r->study.unit);
    stk_jw_put_str(w, "metric", r->study.metric);
    stk_jw_put_bool(w, "weak", r->study.weak);
    stk_jw_put_u64(w, "done", st->done);
    stk_jw_put_u64(w, "planned", st->planned);
    stk_jw_put_str(w, "phase", st->phase);
    stk_jw_put_str(w, "label", st->label);
    stk_jw_put_f64(w, "left_s", st->phase ? st->left_s : NAN);
    stk_jw_put_u64(w, "pending", st->pending);
    stk_jw_put_u64(w, "running", st->running);
    stk_jw_put_str(w, "reason", st->reason);
    stk_jw_put_u64(w, "waiting", stk_runner_waiting(r));
    stk_jw_put_f64(w, "budget_s", r->plan.budget_s > 0 ? r->plan.budget_s : NAN);
    stk_jw_key(w, "points");
    stk_jw_open(w, '[');
    for (size_t i = 0; i < r->points.n; i++)
        put_point(&r->tally[i], w);
    stk_jw_close(w, ']');
}

/* The runner's beacon: in its folder while it runs, and ended afterwards. */
static void runner_show(struct stk_runner *r)
{
    r->beacon = (struct stk_beacon){.name = STK_STUDY_STATUS,
                                    .command = "scale",
                                    .every_s = EVERY_S,
                                    .mode = r->folder.mode,
                                    .put = put_now,
                                    .user = r};
    stk_beacon_begin(&r->beacon, r->folder.fd);
}

#define PLAN_NAME    "plan.json"
#define JOURNAL_NAME "runs.jsonl" /* the one file that is never replaced */

/* ---- the folder --------------------------------------------------------------------------- */

/* "stoker-scale-train.py-20261115-101500" */
static void default_name(const struct stk_runner *r, char *out, size_t size)
{
    char name[48], when[32];
    const char *program = r->plan.shell ? "sh" : stk_base_name(r->points.v[0].argv[0]);
    time_t now = time(NULL);
    struct tm tm;
    stk_launch_safe_name(program, 32, name, sizeof name);
    strftime(when, sizeof when, "%Y%m%d-%H%M%S", localtime_r(&now, &tm));
    snprintf(out, size, "stoker-scale-%s-%s", name, when);
}

/* A folder of that name, or of the next free one: two studies may begin in the same second. */
static int make_default(struct stk_runner *r, bool share, struct stk_err *err)
{
    char name[128], again[144];
    bool made = false;
    int rc = 0;
    default_name(r, name, sizeof name);
    snprintf(again, sizeof again, "%s", name);
    for (int i = 2; !rc && !made && i <= 100; i++) {
        rc = stk_folder_take(&r->folder, again, share, &made, err);
        if (!made)
            stk_folder_release(&r->folder);
        rc = rc == STK_E_EXISTS ? 0 : rc; /* somebody else's */
        snprintf(again, sizeof again, "%s-%d", name, i);
    }
    return rc || made ? rc : stk_err_set(err, STK_E_EXISTS, name, -1, "it exists already");
}

static int make_dir(struct stk_runner *r, const char *dir, bool share, struct stk_err *err)
{
    bool made;
    int rc =
        dir ? stk_folder_take(&r->folder, dir, share, &made, err) : make_default(r, share, err);
    r->dir = r->folder.path;
    if (rc == 0) /* a killed run may have left no more than its plan, half written */
        (void)stk_new_sweep(r->folder.fd, PLAN_NAME);
    int empty = rc ? rc : stk_dir_is_empty(r->folder.fd, r->dir, err);
    if (empty)
        return empty < 0 ? empty : 0;
    return stk_err_set(err, STK_E_USAGE, dir, -1,
                       "the folder is not empty; use --resume to continue an existing study");
}

static int write_plan(struct stk_runner *r, struct stk_err *err)
{
    struct stk_buf b = STK_BUF_INIT;
    stk_runner_write_plan(&r->plan, &b);
    int rc = stk_buf_check(&b, err);
    rc = rc ? rc : stk_folder_write(&r->folder, PLAN_NAME, b.data, b.len, err);
    stk_buf_release(&b);
    return rc;
}

/* ---- the runs so far ---------------------------------------------------------------------- */

/* A run of an N that is no longer in the plan stays in the study. */
static int take_line(void *user, const struct stk_jval *v, struct stk_err *err)
{
    struct stk_runner *r = user;
    struct stk_study_run run;
    int rc = stk_study_read_run(v, &run, err);
    if (rc)
        return rc;
    const struct stk_tally *t = stk_runner_point_of(r, &run);
    if (!t && run.point)
        return stk_err_set(err, STK_E_CORRUPT, NULL, -1,
                           "a run of a point that is not in the plan");
    return stk_study_add(&r->study, t ? t->series : 0, &run, err);
}

static int read_journal(struct stk_runner *r, struct stk_err *err)
{
    return stk_lines_open(&r->folder, JOURNAL_NAME, &r->journal_fd, take_line, r, err);
}

/* ---- its points --------------------------------------------------------------------------- */

int stk_runner_make_points(struct stk_runner *r, struct stk_err *err)
{
    int rc = stk_points_make(&r->plan, &r->arena, &r->points, err);
    if (rc)
        return rc;
    r->tally = stk_arena_alloc(&r->arena, r->points.n * sizeof *r->tally);
    if (!r->tally)
        return stk_err_nomem(err, r->points.n * sizeof *r->tally);
    for (size_t i = 0; i < r->points.n; i++)
        r->tally[i] = (struct stk_tally){
            .point = &r->points.v[i], .wall_s = NAN, .cost = NAN, .half_width = NAN};
    return 0;
}

static int open_series(struct stk_runner *r, struct stk_err *err)
{
    int rc = 0;
    for (size_t i = 0; i < r->points.n && !rc; i++) {
        const char *name = r->points.v[i].series;
        rc = stk_study_series(&r->study, name, strlen(name), &r->tally[i].series, err);
    }
    return rc;
}

static const char *unit_of(const struct stk_runner_plan *p)
{
    if (p->unit)
        return p->unit;
    return p->sets & STK_SETS_GPUS      ? "GPUs"
           : p->sets & STK_SETS_NODES   ? "nodes"
           : p->sets & STK_SETS_RANKS   ? "ranks"
           : p->sets & STK_SETS_THREADS ? "threads"
                                        : NULL;
}

static int open_study(struct stk_runner *r, struct stk_err *err)
{
    const struct stk_runner_plan *p = &r->plan;
    char metric[STK_STUDY_TEXT_MAX + 1];
    int rc = stk_study_set_unit(&r->study, unit_of(p), err);
    if (!rc && p->metric) {
        stk_metric_name(p->metric, metric, sizeof metric);
        rc = stk_study_set_metric(&r->study, metric, p->higher_better, err);
        rc = rc ? rc
                : stk_metric_init(&r->metric, p->metric, (enum stk_metric_pick)p->metric_pick, err);
    }
    r->study.weak = p->weak;
    r->study.fixed = true;
    rc = rc ? rc : open_series(r, err);
    rc = rc ? rc : read_journal(r, err);
    if (rc)
        return rc;
    r->state.done = r->study.nruns;
    for (size_t i = 0; i < r->study.nseries; i++)
        r->before[i] = r->study.series[i].nruns;
    for (size_t i = 0; i < r->points.n; i++)
        stk_tally_update(r, &r->tally[i]);
    return p->via->open ? p->via->open(r, err) : 0;
}

/* ---- making and finding ------------------------------------------------------------------- */

static int new_runs(struct stk_runner **out, struct stk_err *err)
{
    struct stk_runner *r = calloc(1, sizeof *r);
    *out = NULL;
    if (!r)
        return stk_err_nomem(err, sizeof *r);
    r->journal_fd = -1;
    r->beacon = STK_BEACON_INIT;
    r->folder = STK_FOLDER_INIT;
    stk_machine_look(&r->conditions);
    *out = r;
    return 0;
}

/* Checks the plan and makes its points, if the executor has what they need. */
static int make_points(struct stk_runner *r, struct stk_err *err)
{
    int rc = stk_runner_make_points(r, err);
    return rc || !r->plan.via->check ? rc : r->plan.via->check(&r->plan, &r->points, err);
}

int stk_runner_new(const struct stk_runner_plan *plan, const char *dir, struct stk_runner **out,
                   struct stk_err *err)
{
    char cwd[PATH_MAX];
    struct stk_runner_plan p = *plan;
    struct stk_runner *r;
    int rc = new_runs(&r, err);
    if (rc)
        return rc;
    p.cwd = plan->cwd ? plan->cwd : getcwd(cwd, sizeof cwd);
    if (!p.cwd)
        rc = stk_err_sys(err, NULL, "getcwd");
    rc = rc ? rc : stk_runner_check(&p, err);
    rc = rc ? rc : stk_runner_copy_plan(&p, &r->arena, &r->plan, err);
    rc = rc ? rc : make_points(r, err);
    rc = rc ? rc : r->plan.via->find(r, err); /* a missing command is an error at once */
    rc = rc ? rc : make_dir(r, dir, plan->share, err);
    rc = rc ? rc : write_plan(r, err);
    rc = rc ? rc : open_study(r, err);
    if (rc) {
        stk_runner_free(r);
        return rc;
    }
    r->fresh = true;
    *out = r;
    return 0;
}

void stk_runner_discard(struct stk_runner *r)
{
    bool good = stk_runner_waiting(r) > 0;
    for (size_t i = 0; i < r->points.n; i++)
        good = good || r->tally[i].good;
    if (r->fresh && !good)
        stk_folder_destroy(&r->folder);
}

/* Adds N to the plan; runs of other N stay. */
static int add_n(struct stk_runner_plan *p, const struct stk_runner_change *c, struct stk_err *err)
{
    if (c->nn && p->nvariants)
        return stk_err_set(err, STK_E_USAGE, NULL, -1, "a study of variants has no N to add to");
    for (size_t i = 0; i < c->nn; i++) {
        bool there = false;
        for (size_t k = 0; k < p->nn; k++)
            there = there || p->n[k] == c->n[i];
        if (!there && p->nn == STK_RUNNER_N_MAX)
            return stk_err_set(err, STK_E_USAGE, NULL, -1, "more than %d different N",
                               STK_RUNNER_N_MAX);
        if (!there)
            p->n[p->nn++] = c->n[i];
    }
    qsort(p->n, p->nn, sizeof *p->n, stk_by_u64);
    return 0;
}

static bool same_id(const struct stk_point *a, const struct stk_point *b)
{
    return a->id && b->id && strcmp(a->id, b->id) == 0;
}

/* Through a copy: the additions belong to the caller. */
static int add_variants(struct stk_runner *r, const struct stk_runner_change *c,
                        struct stk_err *err)
{
    struct stk_runner_plan both = r->plan;
    size_t room = r->plan.nvariants + c->nvariants;
    if (!c->nvariants)
        return 0;
    struct stk_point *all = calloc(room, sizeof *all);
    if (!all)
        return stk_err_nomem(err, room * sizeof *all);
    both.variant = all;
    for (size_t i = 0; i < r->plan.nvariants; i++)
        all[i] = r->plan.variant[i];
    for (size_t i = 0; i < c->nvariants; i++) {
        bool there = false;
        for (size_t k = 0; k < both.nvariants; k++)
            there = there || same_id(&all[k], &c->variant[i]);
        if (!there)
            all[both.nvariants++] = c->variant[i];
    }
    int rc = stk_runner_check(&both, err);
    rc = rc ? rc : stk_runner_copy_plan(&both, &r->arena, &r->plan, err);
    free(all);
    return rc;
}

static int apply(struct stk_runner *r, const struct stk_runner_change *c, struct stk_err *err)
{
    struct stk_runner_plan *p = &r->plan;
    int rc = add_n(p, c, err);
    rc = rc ? rc : add_variants(r, c, err);
    if (c->runs_max) {
        p->runs_min = c->runs_min;
        p->runs_max = c->runs_max;
    }
    p->precision = isnan(c->precision) ? p->precision : c->precision;
    p->timeout_s = isnan(c->timeout_s) ? p->timeout_s : c->timeout_s;
    p->budget_s = isnan(c->budget_s) ? p->budget_s : c->budget_s;
    p->at_once = c->at_once == UINT64_MAX ? p->at_once : c->at_once;
    p->detach = c->detach;
    return rc;
}

static int read_plan(struct stk_runner *r, struct stk_err *err)
{
    struct stk_buf b = STK_BUF_INIT;
    struct stk_err why = {0};
    char *path = stk_folder_path(&r->folder, PLAN_NAME);
    int rc = path ? stk_folder_read(&r->folder, PLAN_NAME, STK_STUDY_FILE_MAX, &b, &why)
                  : stk_err_nomem(&why, 4096);
    if (stk_if_there(rc, &why) == 0)
        rc = stk_err_set(&why, STK_E_USAGE, r->dir, -1, "there is no study (no " PLAN_NAME ")");
    if (rc && err)
        *err = why;
    rc = rc ? rc : stk_runner_read_plan(stk_buf_cstr(&b), b.len, path, &r->arena, &r->plan, err);
    free(path);
    stk_buf_release(&b);
    return rc;
}

int stk_runner_find_plan(struct stk_runner *r, const char *dir, struct stk_err *err)
{
    int rc = stk_folder_find(&r->folder, dir, JOURNAL_NAME, r->trust, err);
    r->dir = r->folder.path;
    rc = rc ? rc : stk_folder_check(&r->folder, PLAN_NAME, r->trust, err);
    return rc ? rc : read_plan(r, err);
}

int stk_runner_describe(const char *dir, struct stk_buf *out, struct stk_err *err)
{
    struct stk_runner *r;
    int rc = new_runs(&r, err);
    if (rc)
        return rc;
    r->trust = "all"; /* for display only, nothing runs */
    rc = stk_runner_find_plan(r, dir, err);
    if (!rc)
        stk_runner_plan_text(&r->plan, out);
    stk_runner_free(r);
    return rc;
}

int stk_runner_resume(const char *dir, const struct stk_runner_change *change,
                      struct stk_runner **out, struct stk_err *err)
{
    struct stk_runner *r;
    int rc = new_runs(&r, err);
    if (rc)
        return rc;
    r->trust = change ? change->trust : NULL;
    r->retry = change && change->retry;
    rc = stk_runner_find_plan(r, dir, err);
    if (!rc && change)
        rc = apply(r, change, err);
    rc = rc ? rc : stk_runner_check(&r->plan, err);
    rc = rc ? rc : make_points(r, err);
    rc = rc ? rc : open_study(r, err);
    r->changed = change;
    if (rc) {
        stk_runner_free(r);
        return rc;
    }
    *out = r;
    return 0;
}

int stk_runner_go(struct stk_runner *r, const struct stk_runner_watch *watch, struct stk_err *err)
{
    struct stk_err late = {0};
    r->watch = watch;
    r->start_s = stk_runner_now(r);
    r->synced_s = r->published_s = stk_now();
    stk_tally_compare(r);
    if (r->plan.weak && !r->plan.grows && !stk_runner_grows(&r->plan))
        stk_runner_note(
            &r->conditions,
            "Nothing in the command makes the problem grow with N ({size}, {n}): --weak assumes "
            "that the program does so by itself");
    /* From now on it is ours: nobody else runs it. */
    int rc = r->changed ? write_plan(r, err) : 0;
    if (!rc) {
        runner_show(r);
        rc = stk_runner_drive(r, err);
    }
    int bad = runner_publish(r, &late); /* the runs so far, even when stopped */
    stk_beacon_end(&r->beacon, true);
    r->watch = NULL;
    if (bad && !rc && err)
        *err = late;
    return rc ? rc : bad;
}

void stk_runner_free(struct stk_runner *r)
{
    if (!r)
        return;
    if (r->journal_fd >= 0)
        close(r->journal_fd);
    if (r->there)
        r->plan.via->close(r);
    stk_metric_release(&r->metric);
    stk_study_release(&r->study);
    stk_folder_release(&r->folder);
    stk_arena_release(&r->arena);
    free(r);
}

/* ---- looking ------------------------------------------------------------------------------ */

const struct stk_study *stk_runner_study(const struct stk_runner *r)
{
    return &r->study;
}

const struct stk_runner_plan *stk_runner_plan(const struct stk_runner *r)
{
    return &r->plan;
}

const struct stk_runner_conditions *stk_runner_conditions(const struct stk_runner *r)
{
    return &r->conditions;
}

const char *stk_runner_dir(const struct stk_runner *r)
{
    return r->dir;
}

const struct stk_tally *stk_runner_tally(const struct stk_runner *r, size_t *npoints)
{
    *npoints = r->points.n;
    return r->tally;
}
