/*
 * scale_run.c - `stoker scale -- CMD`: options made into a plan, the study run or resumed with a
 * line of progress, and whatever there is then handed on to be computed, also after an interrupt.
 */
#include <math.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/num.h"
#include "base/quote.h"
#include "base/units.h"
#include "cmd/scale.h"
#include "lab/run.h"

#define BATCH_HEAD_MAX (1u << 20)

/* ---- the plan ----------------------------------------------------------------------------- */

static bool read_count(const char *p, size_t len, uint64_t *v)
{
    int64_t i;
    double f;
    bool ok = stk_num_parse(p, len, &i, &f) == STK_NUM_INT && i > 0;
    *v = ok ? (uint64_t)i : 0;
    return ok;
}

/* "10", or "3..20". */
static int read_runs(struct stk_run *run, const char *text, uint64_t *min, uint64_t *max)
{
    const char *dots = strstr(text, "..");
    size_t first = dots ? (size_t)(dots - text) : strlen(text);
    bool ok = read_count(text, first, min);
    *max = *min;
    if (dots)
        ok = ok && read_count(dots + 2, strlen(dots + 2), max);
    if (ok && *max >= *min && *max <= STK_RUNS_MAX)
        return 0;
    return stk_err_set(&run->err, STK_E_USAGE, NULL, -1,
                       "--runs: \"%.40s\": write how many, as 10 or 3..20, up to %u", text,
                       STK_RUNS_MAX);
}

static uint64_t sets_of(const struct stk_scale_settings *s)
{
    return (s->threads ? STK_SETS_THREADS : 0u) | (s->ranks ? STK_SETS_RANKS : 0u) |
           (s->gpus ? STK_SETS_GPUS : 0u) | (s->nodes ? STK_SETS_NODES : 0u);
}

/* Which way is better is not guessed at: a recommendation would be upside down. */
static int set_better(struct stk_run *run, struct stk_runs_plan *p)
{
    const struct stk_scale_settings *s = run->settings;
    int rc = p->metric ? stk_metric_check(p->metric, &run->err) : 0;
    if (rc || !p->metric)
        return rc;
    int told =
        s->better ? (strcmp(s->better, "higher") == 0 ? 1 : -1) : stk_metric_sense(p->metric);
    p->higher_better = told > 0;
    if (told)
        return 0;
    return stk_err_set(
        &run->err, STK_E_USAGE, NULL, -1,
        "--metric: is more of \"%.80s\" better, or less? --better higher or --better "
        "lower says it",
        p->metric);
}

static uint64_t pick_of(const char *word)
{
    return strcmp(word, "first") == 0    ? STK_METRIC_FIRST
           : strcmp(word, "median") == 0 ? STK_METRIC_MEDIAN
                                         : STK_METRIC_LAST;
}

/* What takes more than to stand where its option put it. */
static int set_plan(struct stk_run *run, struct stk_runs_plan *p)
{
    const struct stk_scale_settings *s = run->settings;
    const struct stk_runs_plan usual = STK_RUNS_PLAN_INIT;
    *p = s->plan;
    p->argv = run->opts.arg;
    p->sets = sets_of(s);
    p->slurm = strcmp(s->via, "slurm") == 0;
    p->runs_min = usual.runs_min;
    p->runs_max = p->slurm ? usual.runs_min : usual.runs_max;
    if (!stk_opts_given(&run->opts, "warmup"))
        p->warmup = !p->slurm;
    p->seed &= INT64_MAX;
    p->metric_pick = pick_of(s->match);
    int rc = s->n ? stk_runs_parse_n(s->n, p->n, &p->nn, &run->err) : 0;
    if (!rc && s->runs)
        rc = read_runs(run, s->runs, &p->runs_min, &p->runs_max);
    if (!rc && !p->slurm && (p->sbatch || s->sbatch_file || p->gpu_type || p->detach))
        rc = stk_err_set(&run->err, STK_E_USAGE, NULL, -1,
                         "--sbatch, --sbatch-file, --gpu-type and --detach go with --via slurm");
    return rc ? rc : set_better(run, p);
}

static int make_runs(struct stk_run *run, struct stk_runs **out)
{
    const struct stk_scale_settings *s = run->settings;
    struct stk_runs_plan p;
    struct stk_buf head = STK_BUF_INIT;
    int rc = set_plan(run, &p);
    if (!rc && s->sbatch_file) {
        rc = stk_read_file(s->sbatch_file, BATCH_HEAD_MAX, &head, &run->err);
        p.batch_head = stk_buf_cstr(&head);
    }
    rc = rc ? rc : stk_runs_new(&p, s->output, out, &run->err);
    stk_buf_release(&head);
    return rc;
}

static int find_runs(struct stk_run *run, struct stk_runs **out)
{
    const struct stk_scale_settings *s = run->settings;
    const struct stk_opts *o = &run->opts;
    uint64_t n[STK_RUNS_N_MAX];
    struct stk_runs_change c = {
        .n = n,
        .precision = stk_opts_given(o, "precision") ? s->plan.precision : NAN,
        .timeout_s = stk_opts_given(o, "timeout") ? s->plan.timeout_s : NAN,
        .budget_s = stk_opts_given(o, "budget") ? s->plan.budget_s : NAN,
        .at_once = stk_opts_given(o, "jobs-at-once") ? s->plan.at_once : UINT64_MAX,
        .detach = s->plan.detach,
    };
    int rc = 0;
    if (o->nargs)
        return stk_err_set(&run->err, STK_E_USAGE, NULL, -1,
                           "--resume knows the command: leave it out");
    if (s->n)
        rc = stk_runs_parse_n(s->n, n, &c.nn, &run->err);
    if (!rc && s->runs)
        rc = read_runs(run, s->runs, &c.runs_min, &c.runs_max);
    return rc ? rc : stk_runs_resume(s->resume, &c, out, &run->err);
}

/* ---- while it runs ------------------------------------------------------------------------ */

/* "run 12 of about 60, N=8, 1 min 20 s left" */
static int on_tick(void *user, const struct stk_runs_state *st)
{
    struct stk_run *run = user;
    struct stk_buf b = STK_BUF_INIT;
    char left[40];
    if (st->pending || st->running) {
        stk_buf_printf(&b, "%llu of %llu runs, jobs: %llu running, %llu pending",
                       (unsigned long long)st->done, (unsigned long long)st->planned,
                       (unsigned long long)st->running, (unsigned long long)st->pending);
        if (st->pending && st->reason && *st->reason)
            stk_buf_printf(&b, " (%s)", st->reason);
    } else {
        stk_buf_printf(&b, "%s %llu of about %llu, N=%llu", st->phase,
                       (unsigned long long)st->done + 1, (unsigned long long)st->planned,
                       (unsigned long long)st->n);
        if (!isnan(st->left_s))
            stk_buf_printf(&b, ", %s left",
                           st->left_s < 59.5
                               ? (snprintf(left, sizeof left, "%.0f s", st->left_s), left)
                               : stk_format_duration(st->left_s, left, sizeof left));
    }
    int stop = stk_progress_say(&run->progress, stk_buf_cstr(&b));
    stk_buf_release(&b);
    return stop;
}

/* ---- afterwards --------------------------------------------------------------------------- */

static void write_conditions(struct stk_jw *w, const struct stk_runs_conditions *c)
{
    stk_jw_key(w, "conditions");
    stk_jw_open(w, '{');
    stk_jw_put_str(w, "host", c->host);
    stk_jw_put_str(w, "cpu", c->cpu[0] ? c->cpu : NULL);
    stk_jw_put_str(w, "gpu", c->gpu[0] ? c->gpu : NULL);
    stk_jw_put_str(w, "governor", c->governor[0] ? c->governor : NULL);
    stk_jw_put_u64(w, "cpus_usable", c->cpus_usable);
    stk_jw_put_u64(w, "cores_usable", c->cores_usable);
    stk_jw_put_f64(w, "load_before", c->load);
    stk_jw_put_f64(w, "others_cpus", c->others_cores);
    stk_jw_put_f64(w, "others_cpus_worst", c->others_worst);
    stk_jw_put_f64(w, "steal", c->steal);
    stk_jw_put_rows(w, "notes", c->note, sizeof(c->note[0]), c->nnotes);
    stk_jw_close(w, '}');
}

static void write_run(struct stk_run *run, const struct stk_runs *r, bool complete)
{
    struct stk_jw *w = &run->json;
    const struct stk_runs_plan *p = stk_runs_plan(r);
    stk_jw_key(w, "run");
    stk_jw_open(w, '{');
    stk_jw_put_str(w, "folder", stk_runs_dir(r));
    stk_jw_put_str(w, "via", p->slurm ? "slurm" : "local");
    stk_jw_put_u64(w, "seed", p->seed);
    stk_jw_put_u64(w, "runs", stk_runs_study(r)->nruns);
    stk_jw_put_u64(w, "jobs_left", stk_runs_jobs_left(r));
    stk_jw_put_bool(w, "complete", complete);
    write_conditions(w, stk_runs_conditions(r));
    stk_jw_close(w, '}');
}

static void say_notes(const struct stk_run *run, const struct stk_runs *r)
{
    const struct stk_runs_conditions *c = stk_runs_conditions(r);
    for (size_t i = 0; i < c->nnotes && !run->common->quiet; i++)
        stk_complain(run->cmd->name, c->note[i]);
}

static void say_where(struct stk_run *run, const struct stk_runs *r)
{
    struct stk_buf b = STK_BUF_INIT;
    const struct stk_runs_plan *p = stk_runs_plan(r);
    stk_quote_shell(&b, stk_runs_dir(r));
    stk_say(run, "%zu runs in random order (seed %llu), kept in %s\n", stk_runs_study(r)->nruns,
            (unsigned long long)p->seed, stk_buf_cstr(&b));
    if (p->metric)
        stk_say(run, "Compared: %s, %s is better\n", stk_runs_study(r)->metric,
                p->higher_better ? "higher" : "lower");
    stk_buf_release(&b);
}

static void hint_resume(struct stk_run *run, const struct stk_runs *r)
{
    struct stk_buf *b = &run->hint;
    stk_buf_puts(b, "stoker scale --resume ");
    stk_quote_shell(b, stk_runs_dir(r));
    stk_buf_puts(b, stk_runs_jobs_left(r) ? " collects the jobs and goes on" : " goes on");
}

/* The study that was run, and beside it those of --from. */
static int compare(struct stk_run *run, const struct stk_runs *r)
{
    const struct stk_scale_settings *s = run->settings;
    const struct stk_runs_conditions *where = stk_runs_conditions(r);
    if (!s->from)
        return stk_scale_finish(run, stk_runs_study(r), where);
    struct stk_study *both = calloc(1, sizeof *both);
    char *own = stk_path_join(stk_runs_dir(r), "study.json");
    int rc = both && own ? 0 : stk_err_nomem(&run->err, sizeof *both);
    rc = rc ? rc : stk_study_read(both, own, s->plan.series ? s->plan.series : "this", &run->err);
    rc = rc ? rc : stk_scale_read_files(run, both);
    rc = rc ? rc : stk_scale_finish(run, both, where);
    if (both)
        stk_study_release(both);
    free(both);
    free(own);
    return rc;
}

static bool any_good(const struct stk_study *s)
{
    for (size_t k = 0; k < s->nseries; k++)
        for (size_t i = 0; i < s->series[k].nruns; i++)
            if (s->series[k].run[i].status == STK_RUN_OK)
                return true;
    return false;
}

/* Some N without a good run: done in part. */
static int status_of(const struct stk_runs *r, int status)
{
    const struct stk_study *s = stk_runs_study(r);
    const struct stk_runs_plan *p = stk_runs_plan(r);
    for (size_t i = 0; i < p->nn && status == STK_EXIT_DONE; i++) {
        bool good = false;
        for (size_t k = 0; k < s->nseries && !good; k++)
            for (size_t m = 0; m < s->series[k].nruns && !good; m++)
                good = s->series[k].run[m].n == p->n[i] && s->series[k].run[m].status == STK_RUN_OK;
        status = good ? status : STK_EXIT_PARTLY;
    }
    return status;
}

/* rc: how running it ended. That is what is returned then; what goes wrong after it is said. */
static int report(struct stk_run *run, const struct stk_runs *r, int rc)
{
    bool any = stk_runs_study(r)->nruns > 0, left = rc || stk_runs_jobs_left(r);
    struct stk_err why = run->err;
    stk_progress_clear(&run->progress);
    write_run(run, r, rc == 0 && !left);
    int status = STK_EXIT_DONE;
    if (any) {
        say_where(run, r);
        status = compare(run, r);
    } else if (!rc && !left) { /* a budget that is spent before anything was run */
        say_notes(run, r);
        status = STK_EXIT_PROBLEM;
    }
    if (!rc && stk_runs_jobs_left(r))
        stk_say(run, "%llu jobs are in the queue\n", (unsigned long long)stk_runs_jobs_left(r));
    if (left)
        hint_resume(run, r);
    if (!rc && left && status >= 0 && !run->common->quiet)
        stk_hint(stk_buf_cstr(&run->hint));
    if (!rc)
        return status < 0 || left ? status : status_of(r, status);
    char text[2200];
    if (status < 0)
        stk_complain(run->cmd->name, stk_err_text(&run->err, text, sizeof text));
    run->err = why;
    return rc;
}

static int stop_asked(void)
{
    return stk_stop_signal();
}

int stk_scale_run(struct stk_run *run)
{
    const struct stk_scale_settings *s = run->settings;
    struct stk_runs *r = NULL;
    struct stk_runs_watch watch = {.tick = on_tick, .user = run};
    int status = 0, rc;
    if (s->inside) {
        rc =
            stk_runs_inside(s->resume ? s->resume : ".", s->inside, stop_asked, &status, &run->err);
        return rc ? rc : status;
    }
    rc = s->resume ? find_runs(run, &r) : make_runs(run, &r);
    if (rc)
        return rc;
    rc = stk_runs_go(r, &watch, &run->err);
    if (!rc || rc == STK_E_STOPPED || any_good(stk_runs_study(r)))
        rc = report(run, r, rc);
    else
        stk_runs_discard(r);
    stk_runs_free(r);
    return rc;
}
