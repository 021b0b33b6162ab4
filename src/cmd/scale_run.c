/*
 * scale_run.c - `stoker scale -- CMD`: runs or resumes a study with a line of progress, then passes
 * the times on to be analysed, also after an interrupt.
 */
#include <math.h>
#include <stdio.h>

#include "base/quote.h"
#include "base/text.h"
#include "base/units.h"
#include "cmd/scale.h"

/* Another user's plan is shown, not run: that user would choose what runs as the caller. */
static int show_plan(struct stk_scale *s)
{
    struct stk_run *run = s->run;
    struct stk_buf b = STK_BUF_INIT;
    char why[2200];
    stk_err_text(&run->err, why, sizeof why);
    if (stk_runner_describe(s->said->resume, &b, NULL) == 0 && b.len)
        stk_say(run, "This study would run:\n%s", stk_buf_cstr(&b));
    stk_buf_release(&b);
    stk_buf_puts(&run->hint, "check the plan first: with --trust, it runs as you");
    return stk_err_set(&run->err, STK_E_USAGE, NULL, -1, "the study was not run: %s", why);
}

int stk_scale_open(struct stk_scale *s)
{
    if (s->way == STK_SCALE_RESUMES) {
        int rc = stk_runner_resume(s->said->resume, &s->change, &s->runs, &s->run->err);
        return rc == STK_E_EXISTS ? show_plan(s) : rc;
    }
    return stk_runner_new(&s->plan, s->said->output, &s->runs, &s->run->err);
}

/* ---- while it runs ------------------------------------------------------------------------ */

/* "run 12 of about 60, N=8, 1 min 20 s left" */
static int on_tick(void *user, const struct stk_runner_state *st)
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
        stk_buf_printf(&b, "%s %llu of about %llu", st->phase, (unsigned long long)st->done + 1,
                       (unsigned long long)st->planned);
        if (st->label)
            stk_buf_printf(&b, ", %s", st->label);
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

static void write_conditions(struct stk_jw *w, const struct stk_runner_conditions *c)
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

static void write_run(struct stk_run *run, const struct stk_runner *r, bool complete)
{
    struct stk_jw *w = &run->json;
    const struct stk_runner_plan *p = stk_runner_plan(r);
    stk_jw_key(w, "run");
    stk_jw_open(w, '{');
    stk_jw_put_str(w, "folder", stk_runner_dir(r));
    stk_jw_put_str(w, "via", p->via->name);
    stk_jw_put_u64(w, "seed", p->seed);
    stk_jw_put_u64(w, "runs", stk_runner_study(r)->nruns);
    stk_jw_put_u64(w, "jobs_left", stk_runner_waiting(r));
    stk_jw_put_bool(w, "complete", complete);
    write_conditions(w, stk_runner_conditions(r));
    stk_jw_close(w, '}');
}

static void say_notes(const struct stk_run *run, const struct stk_runner *r)
{
    const struct stk_runner_conditions *c = stk_runner_conditions(r);
    for (size_t i = 0; i < c->nnotes && !run->common->quiet; i++)
        stk_complain(run->cmd->name, c->note[i]);
}

static void say_where(struct stk_run *run, const struct stk_runner *r)
{
    struct stk_buf b = STK_BUF_INIT;
    const struct stk_runner_plan *p = stk_runner_plan(r);
    stk_quote_shell(&b, stk_runner_dir(r));
    stk_say(run, "%zu runs in random order (seed %llu), kept in %s\n", stk_runner_study(r)->nruns,
            (unsigned long long)p->seed, stk_buf_cstr(&b));
    stk_buf_reset(&b);
    if (p->metric) {
        const char *metric = stk_runner_study(r)->metric;
        stk_text_escape(&b, metric, strlen(metric), SIZE_MAX);
        stk_say(run, "Compared: %s, %s is better\n", stk_buf_cstr(&b),
                p->higher_better ? "higher" : "lower");
    }
    stk_buf_release(&b);
}

static void hint_resume(struct stk_run *run, const struct stk_runner *r)
{
    struct stk_buf *b = &run->hint;
    stk_buf_puts(b, "stoker scale --resume ");
    stk_quote_shell(b, stk_runner_dir(r));
    stk_buf_puts(b, stk_runner_waiting(r) ? " collects the jobs and goes on" : " goes on");
}

/* How to repeat runs that are not good; nothing if all are. */
static void hint_retry(struct stk_run *run, const struct stk_runner *r)
{
    size_t n;
    uint64_t bad = 0, lost = 0;
    const struct stk_tally *t = stk_runner_tally(r, &n);
    for (size_t i = 0; i < n; i++) {
        bad += t[i].bad;
        lost += t[i].lost;
    }
    if (!bad && !lost)
        return;
    stk_buf_puts(&run->hint, "stoker scale --resume ");
    stk_quote_shell(&run->hint, stk_runner_dir(r));
    stk_buf_puts(&run->hint, !bad ? " repeats runs that were cancelled or never started"
                                  : " --retry repeats runs that failed");
}

static bool any_good(const struct stk_runner *r)
{
    size_t n;
    const struct stk_tally *t = stk_runner_tally(r, &n);
    for (size_t i = 0; i < n; i++)
        if (t[i].good)
            return true;
    return false;
}

/* Some point without a good run: done in part. */
static int status_of(const struct stk_runner *r, int status)
{
    size_t n;
    const struct stk_tally *t = stk_runner_tally(r, &n);
    for (size_t i = 0; i < n && status == STK_EXIT_DONE; i++)
        status = t[i].good ? status : STK_EXIT_PARTLY;
    return status;
}

/* rc: how the runs ended, and what this returns if it is an error; later errors are only
 * printed. */
static int report(struct stk_scale *s, int rc)
{
    struct stk_run *run = s->run;
    const struct stk_runner *r = s->runs;
    bool any = stk_runner_study(r)->nruns > 0, left = rc || stk_runner_waiting(r);
    struct stk_err why = run->err;
    stk_progress_clear(&run->progress);
    write_run(run, r, rc == 0 && !left);
    int status = STK_EXIT_DONE;
    if (any) {
        say_where(run, r);
        status = stk_scale_finish(s);
    } else if (!rc && !left) { /* the budget was spent before anything ran */
        say_notes(run, r);
        status = STK_EXIT_PROBLEM;
    }
    if (!rc && stk_runner_waiting(r))
        stk_say(run, "%llu jobs are in the queue\n", (unsigned long long)stk_runner_waiting(r));
    if (left)
        hint_resume(run, r);
    else
        hint_retry(run, r);
    if (!rc && run->hint.len && status >= 0 && !run->common->quiet)
        stk_hint(stk_buf_cstr(&run->hint));
    if (!rc)
        return status < 0 || left ? status : status_of(r, status);
    char text[2200];
    if (status < 0)
        stk_complain(run->cmd->name, stk_err_text(&run->err, text, sizeof text));
    run->err = why;
    return rc;
}

int stk_scale_run(struct stk_scale *s)
{
    struct stk_runner_watch watch = {.tick = on_tick, .user = s->run};
    int rc = stk_runner_go(s->runs, &watch, &s->run->err);
    if (!rc || rc == STK_E_STOPPED || any_good(s->runs))
        return report(s, rc);
    stk_runner_discard(s->runs);
    return rc;
}
