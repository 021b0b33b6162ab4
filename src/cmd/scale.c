/* scale.c - `stoker scale`: how time depends on N, what it costs, and which N to choose. */
#include "cmd/scale.h"
#include "base/text.h"
#include "base/units.h"

#include <stdlib.h>
#include <math.h>
#include <stdio.h>

/* ---- runs ------------------------------------------------------------------------------------ */

/* `stoker scale -- CMD`: runs or resumes a study with a line of progress, then passes the times on
 * to be analysed, also after an interrupt. */

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

/* Points and runs so far, from the plan or from the folder. */
static int open_study(struct stk_scale *s)
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

/* Runs, reports the outcome, and finishes the study. Returns an exit status or a negative code. */
static int run_study(struct stk_scale *s)
{
    struct stk_runner_watch watch = {.tick = on_tick, .user = s->run};
    int rc = stk_runner_go(s->runs, &watch, &s->run->err);
    if (!rc || rc == STK_E_STOPPED || any_good(s->runs))
        return report(s, rc);
    stk_runner_discard(s->runs);
    return rc;
}

static int stop_asked(void)
{
    return stk_stop_signal();
}

/* The work of one job of a study. */
static int run_inside(struct stk_run *run)
{
    const struct stk_scale_settings *said = run->settings;
    int status = 0;
    int rc = stk_runner_inside(said->resume ? said->resume : ".", said->inside, said->trust,
                               stop_asked, &status, &run->err);
    return rc ? rc : status;
}

static void release(struct stk_scale *s)
{
    stk_runner_free(s->runs);
    if (s->study)
        stk_study_release(s->study);
    free(s->study);
    stk_buf_release(&s->batch_head);
    free(s);
}

static int go(struct stk_scale *s)
{
    int rc = stk_scale_settle(s);
    if (!rc && s->way != STK_SCALE_READS)
        rc = open_study(s);
    rc = rc ? rc : stk_scale_read(s);
    if (rc && s->runs)
        stk_runner_discard(s->runs);
    if (rc)
        return rc;
    return s->runs ? run_study(s) : stk_scale_finish(s);
}

static int run_scale(struct stk_run *run)
{
    const struct stk_scale_settings *said = run->settings;
    if (!run->opts.nargs && !said->resume && !said->from)
        return stk_err_set(&run->err, STK_E_USAGE, NULL, -1,
                           "no source of times: --n 1,2,4 -- CMD runs a command, --from FILE "
                           "reads times");
    if (said->inside)
        return run_inside(run);
    struct stk_scale *s = calloc(1, sizeof *s);
    if (!s)
        return stk_err_nomem(&run->err, sizeof *s);
    s->run = run;
    s->said = said;
    s->way = said->resume ? STK_SCALE_RESUMES : run->opts.nargs ? STK_SCALE_RUNS : STK_SCALE_READS;
    int rc = go(s);
    release(s);
    return rc;
}

static const struct stk_example examples[] = {
    {"stoker scale --n 1,2,4,8 --threads -- ./solve input", "threads on this machine"},
    {"stoker scale --n 1,2,4 --ranks --runs 10 -- ./mpi-solve", "MPI ranks, ten runs each"},
    {"stoker scale --n 1-16*2 --metric 'images/s: ([0-9.]+)' -- ./train --workers {n}",
     "a rate that the program prints, and an option of the program"},
    {"stoker scale --via slurm --sbatch --partition=gpu --n 1,2,4 --gpus --ranks -- python ddp.py",
     "Slurm jobs with 1, 2 and 4 GPUs, three of each"},
    {"stoker scale --via slurm --n 4,8 --ranks --ranks-per-node 4,2,1 -- ./mpi-solve",
     "the same ranks packed on few nodes and spread over many"},
    {"stoker scale --resume stoker-scale-python-20260301-101500", "continue that study"},
    {"stoker scale --from K80=k80.csv --from RTX=rtx.csv --gpus-per-n 1 --cores-per-n 1",
     "times measured elsewhere: two kinds of GPU in one plot, with service units"},
    {"stoker scale --from times.csv --deadline 2h --predict 64", "how long would 64 take?"},
    {NULL, NULL},
};

const struct stk_cmd stk_cmd_scale = {
    .name = "scale",
    .summary = "speedup, service units, plateau: which N to choose",
    .args = "[CMD [ARG...]]",
    .description =
        "Runs CMD at several N, here or as Slurm jobs, and reports the speedup, the cost in "
        "service units, where a larger N gains nothing (the plateau), and which N to choose to be "
        "fast, cheap, or both. Confidence intervals come from repeated runs of each N; with few or "
        "no repeats, it says so and predicts nothing.\n\n"
        "N replaces {n} in the command, or sets a resource: --threads, --ranks, --gpus, --nodes, "
        "or several of them. With --weak the problem grows: {size} is --size times N. All N run in "
        "rounds of random order, each until its interval is narrow. The study is saved to a folder "
        "after every run; --resume continues it, even with jobs still in the queue. A run that "
        "fails is marked, its output is kept, and the others continue.\n\n"
        "--from reads times that were measured elsewhere: a table with one row per run and the "
        "columns n and time (seconds, 3m20s or 1:02:03), and optionally series, repeat, cores, "
        "gpus, nodes, host, kind and status; results of hyperfine, JUBE, ReFrame or sacct -P; or "
        "the folder of another study, to compare.",
    .examples = examples,
    .options = stk_scale_options,
    .settings_size = sizeof(struct stk_scale_settings),
    .runs_program = true,
    .own_status = true,
    .run = run_scale,
};
