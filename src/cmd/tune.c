/* tune.c - `stoker tune`: tries changes on this storage and ranks what they gain. */
#include "cmd/tune.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/dir.h"
#include "base/file.h"
#include "base/text.h"
#include "result/grid.h"
#include "report/report.h"
#include "report/tune.h"

struct settings {
    struct stk_common common;
    struct stk_tune_plan plan;
    const char **set, **near;
    const char *executor, *resume, *clean, *step, *trust, *apply, *check, *study;
    double for_s;
    uint64_t runs, steps;
    struct stk_tune_scale scale; /* of study */
    bool ask;
};

#define AT(field) offsetof(struct settings, field)

#define OPTION(...) STK_OPT_OF(struct settings, 0, __VA_ARGS__)

static const struct stk_opt options[] = {
    OPTION("data", plan.data, STRING, .letter = 'd', .arg = "DIR", .path = true,
           .group = "What is tuned",
           .help = "Folder of the dataset of WORKLOAD, as `stoker bench --generate` made it"),
    OPTION("set", set, LIST, .letter = 's', .arg = "KEY=VALUE",
           .help = "Change a key of the workload, such as training.ranks=4; may be repeated"),
    OPTION("small", plan.small, FLAG, .help = "Use the workload's small variant"),
    OPTION("for", for_s, DURATION, .arg = "TIME",
           .help = "End the command after TIME: what it did until then is tuned"),
    OPTION("steps", steps, UNSIGNED, .arg = "N", .min = 1, .max = 1000000000,
           .help = "End the command after N steps, by its marks (stoker.step()) or by the pauses "
                   "between its reads"),
    STK_TRUST_OPTION(AT(trust)),
    OPTION("only", plan.only, NAMES, .arg = "KIND,...", .suggest = stk_tune_kind_ids,
           .group = "What is tried",
           .help = "Try changes of these kinds only, such as threads,loader"),
    OPTION("budget", plan.budget_s, DURATION, .arg = "TIME", .def = "10m", .min = 1,
           .help = "Time for all runs together"),
    OPTION("least", plan.least, PERCENT, .arg = "PERCENT", .def = "3", .min = 0, .max = 1000,
           .help = "A gain below this is not worth a change"),
    OPTION("space", plan.space_bytes, SIZE, .arg = "SIZE",
           .help = "The most that copies and packed data may take together (default: what is "
                   "free)"),
    OPTION("near", near, LIST, .arg = "DIR", .path = true,
           .help = "A folder on faster storage to try copies in; may be repeated (default: those "
                   "that this node has)"),
    OPTION("beside", plan.beside, STRING, .arg = "DIR", .path = true,
           .help = "Prepare data in a new folder in DIR, on the storage of the data (default: in "
                   "the folder that contains the data)"),
    OPTION("order-seed", plan.seed, UNSIGNED, .arg = "N", .def = "1", .incidental = true,
           .help = "Seed of the random order of the runs"),
    OPTION("executor", executor, ENUM, .arg = "WHERE", .def = "local",
           .choices = stk_executor_names, .group = "Where and how",
           .help = "Run here, or as jobs of Slurm"),
    OPTION("sbatch", plan.sbatch, LIST, .arg = "OPTION",
           .help = "With Slurm: an option for sbatch, as --sbatch --partition=gpu; may be "
                   "repeated"),
    OPTION("keep", plan.keep, FLAG, .help = "Keep the folder with prepared data and all runs"),
    OPTION("resume", resume, STRING, .arg = "DIR", .path = true,
           .help = "Continue what was stopped or killed, in the folder that it left"),
    OPTION("clean", clean, STRING, .arg = "DIR", .path = true,
           .help = "Remove everything that was made in that folder, and on other storage for it"),
    OPTION("apply", apply, STRING, .arg = "DST", .path = true, .group = "After that",
           .help = "Do the dataset part of the best change: pack all data into the new folder "
                   "DST, or copy it to this node. For a Python script that it understands, a "
                   "patch is written beside the script, which stays as it is; else the lines to "
                   "change are printed"),
    OPTION("choose", plan.choice, STRING, .arg = "ID",
           .help = "Show and apply this change instead of the best, by its id in the result of "
                   "--json, such as pack or threads-4"),
    OPTION("ask", ask, FLAG,
           .help = "Print what to ask the scheduler for, as lines of a batch file with their "
                   "reasons"),
    OPTION("study", study, STRING, .arg = "DIR", .path = true,
           .help = "For --ask: take the number of nodes from this study of `stoker scale` (its "
                   "folder, or a table that `stoker scale --from` reads)"),
    OPTION("check", check, STRING, .arg = "LINE",
           .help = "Tune nothing: run the command after -- and this line for sh, which has the "
                   "change, in turns, and print what was really gained"),
    OPTION("runs", runs, UNSIGNED, .arg = "N", .def = "3", .min = 2, .max = 1000,
           .help = "For --check: runs of each"),
    OPTION("virtual-storage", plan.storage, STRING, .arg = "RATE,LATENCY[,shared]", .hidden = true,
           .help = "Modelled storage and a virtual clock, for tests"),
    OPTION("step", step, STRING, .arg = "ID", .hidden = true,
           .help = "Run one point, described in the folder"),
    STK_COMMON_OPTIONS,
};

/* ---- one point ------------------------------------------------------------------------------ */

/* In a job of Slurm: a run, whose figures are read there. */
static int run_step(struct stk_run *run)
{
    const struct settings *s = run->settings;
    struct stk_buf out = STK_BUF_INIT;
    if (!run->opts.nargs)
        return stk_err_set(&run->err, STK_E_USAGE, NULL, -1, "--step needs a folder");
    int rc = stk_tune_step(run->opts.arg[0], s->step, stk_stop_signal, &out, &run->err);
    return rc ? (stk_buf_release(&out), rc) : stk_say_text(run, &out);
}

/* ---- the whole ------------------------------------------------------------------------------ */

static int on_tick(void *user, const char *doing)
{
    struct stk_run *run = user;
    return stk_progress_say(&run->progress, doing);
}

static int show(struct stk_run *run, const struct stk_tune *t)
{
    const struct settings *s = run->settings;
    const struct stk_tune_shown shown = {
        .tune = t, .ask = s->ask, .scale = s->study ? &s->scale : NULL, .applies = s->apply};
    return stk_say_result(run, &stk_tune_kind, &shown, NULL);
}

static void say_folder(struct stk_run *run, const struct stk_tune *t)
{
    struct stk_buf dir = STK_BUF_INIT;
    if (t->dir)
        stk_quote_shell(&dir, t->dir);
    const char *path = stk_buf_cstr(&dir);
    if (t->dir && t->stopped)
        stk_buf_printf(&run->hint,
                       "`stoker tune --resume %s` continues, `stoker tune --clean %s` removes "
                       "what was made",
                       path, path);
    else if (t->dir)
        stk_say(run, "\nKept: %s; `stoker tune --clean %s` removes it.\n", path, path);
    stk_buf_release(&dir);
}

static int run_all(struct stk_run *run, const struct stk_tune_plan *plan)
{
    const struct settings *s = run->settings;
    struct stk_tune t = {0};
    int rc = s->resume ? stk_tune_resume(s->resume, plan, &t, &run->err)
                       : stk_tune(plan, &t, &run->err);
    stk_progress_clear(&run->progress);
    if (!rc && s->apply)
        rc = stk_tune_pack_to(&t, s->apply, &run->err);
    if (!rc && s->plan.choice)
        rc = stk_tune_choose(&t, s->plan.choice, &run->err);
    if (!rc || (t.stopped && t.candidate && t.candidate[0].runs)) {
        struct stk_err why = run->err;
        int shown = show(run, &t);
        run->err = rc ? why : run->err;
        rc = rc ? rc : shown;
    }
    say_folder(run, &t);
    if (rc && !t.dir && plan->notes && plan->notes[0]) /* may be the reason */
        stk_buf_printf(&run->hint, "%s", plan->notes[0]);
    if (!rc && s->apply)
        rc = stk_tune_apply(run, &t);
    stk_tune_release(&t);
    return rc;
}

static int run_check(struct stk_run *run)
{
    const struct settings *s = run->settings;
    const struct stk_tune_check_plan plan = {.before = run->opts.arg,
                                             .after = s->check,
                                             .runs = s->runs,
                                             .tick = on_tick,
                                             .user = run};
    struct stk_tune_check c;
    if (!run->opts.nargs)
        return stk_err_set(&run->err, STK_E_USAGE, NULL, -1,
                           "--check compares with the command as it is: put that after --");
    run->cleans_up = true;
    int rc = stk_tune_check(&plan, &c, &run->err);
    stk_progress_clear(&run->progress);
    return rc ? rc : stk_say_result(run, &stk_tune_check_kind, &c, NULL);
}

/* A program that only maps its files, say, shows no reads that could be repeated: what the profile
 * says of it is advice that nobody has measured. */
static int show_findings(struct stk_run *run, const struct stk_judged *j)
{
    const struct stk_report r = {.a = &j->analysis,
                                 .advice = &j->advice,
                                 .columns = stk_columns(run),
                                 .utf8 = stk_term_utf8()};
    struct stk_buf out = STK_BUF_INIT;
    stk_report_sentence(&out, 0, r.columns, "Nothing was measured: %s.", run->err.what);
    stk_buf_putc(&out, '\n');
    stk_report_findings(&r, &out);
    stk_jw_put_str(&run->json, "not_measured", run->err.what);
    stk_report_findings_json(&r, &run->json);
    run->err = (struct stk_err){0};
    int rc = stk_say_text(run, &out);
    return rc ? rc : STK_EXIT_PARTLY;
}

static int with_input(struct stk_run *run, struct stk_tune_plan *plan)
{
    const struct settings *s = run->settings;
    struct stk_tune_input in = STK_TUNE_INPUT_INIT;
    stk_stop_on_loss();
    const struct stk_tune_ends ends = {
        .for_s = s->for_s, .steps = s->steps, .budget_s = plan->budget_s};
    int rc = s->resume ? 0 : stk_tune_input(run, &in, plan, s->trust, &ends);
    run->cleans_up = true; /* from now on there is something */
    if (rc == STK_E_UNSUPPORTED && in.judged && in.judged->advice.nfindings)
        rc = show_findings(run, in.judged);
    rc = rc ? rc : run_all(run, plan);
    stk_tune_input_release(&in);
    return rc;
}

/* Said before hours of runs, not after them. */
static int check_destination(struct stk_run *run, const char *to)
{
    struct stk_dir d;
    int rc = stk_dir_open(&d, to, &run->err);
    bool empty = !stk_dir_next(&d);
    rc = stk_dir_end(&d, rc, &run->err);
    if (rc && run->err.sys_errno == ENOENT)
        return 0;
    return rc || empty ? rc
                       : stk_err_set(&run->err, STK_E_USAGE, to, -1,
                                    "there is something in it: --apply packs into a new folder");
}

static int run_tune(struct stk_run *run)
{
    struct settings *s = run->settings;
    int wrong = s->study ? stk_tune_read_study(run, s->study, s->trust, &s->scale) : 0;
    if (wrong)
        return wrong; /* before hours of runs */
    if (s->step)
        return run_step(run);
    if (s->check)
        return run_check(run);
    if ((s->resume || s->clean) && run->opts.nargs)
        return stk_err_set(&run->err, STK_E_USAGE, NULL, -1,
                           "\"%.200s\": the folder of --%s says what is tuned", run->opts.arg[0],
                           s->resume ? "resume" : "clean");
    if (s->clean) {
        struct stk_left left = {0};
        int rc = stk_tune_clean(s->clean, &left, &run->err);
        if (!rc && left.n)
            stk_say(run, "removed what tune made; %s stays\n", left.first);
        else if (!rc)
            stk_say(run, "removed %s\n", s->clean);
        return rc;
    }
    wrong = s->apply ? check_destination(run, s->apply) : 0;
    if (wrong)
        return wrong;
    s->plan.set = (const char *const *)s->set;
    s->plan.near = (const char *const *)s->near;
    s->plan.via = stk_executor_find(s->executor);
    s->plan.fewer_cpus = s->ask;
    s->plan.tick = on_tick;
    s->plan.user = run;
    return with_input(run, &s->plan);
}

/* --resume is for a folder that may not be there. */
static const char *hint(const struct stk_run *run)
{
    bool full = run->err.code == STK_E_SYS &&
                (run->err.sys_errno == ENOSPC || run->err.sys_errno == EDQUOT);
    return full ? "free some space; --beside names another folder on the storage of the data"
                : NULL;
}

static const struct stk_example examples[] = {
    {"stoker tune -- python train.py", "what makes this program faster here"},
    {"stoker tune train.profile --budget 20m", "the same for a program that was profiled before"},
    {"stoker tune /scratch/images", "the fastest way to read this dataset"},
    {"stoker tune job.yaml --data /scratch/b --only threads,loader", "try some changes only"},
    {"stoker tune --steps 200 -- python train.py", "one that takes hours: 200 steps of it"},
    {"stoker tune --apply /scratch/packed -- python train.py",
     "and pack the data, and write a patch for the script"},
    {"stoker tune --check 'python new.py' -- python train.py", "what a change has really gained"},
    {"stoker tune --resume /scratch/stoker-tune.x7Kq2f", "continue what was stopped"},
    {NULL, NULL},
};

const struct stk_cmd stk_cmd_tune = {
    .name = "tune",
    .summary = "try changes on this storage and rank what they gain",
    .args = "[INPUT...]",
    .description =
        "INPUT is a workload (a YAML file, or the name of one that comes with stoker), a profile, a "
        "dataset, which is read as programs usually do, or -- and a command, which is profiled "
        "first.\n\n"
        "Replays its I/O as it is and with each change "
        "that may help, interleaved, on this storage, until the differences are known or the budget is spent. Winners "
        "and their combinations are measured a second time, and ranked: how many times as fast an "
        "epoch is, what the change costs, and how to make it. Nothing is recommended that is not "
        "shown to be faster.\n\n"
        "The data is only read. Everything else is made in a folder beside it, which is removed "
        "at the end. After Ctrl-C the table shows what is known so far, and the folder stays, so "
        "that --resume can continue.",
    .examples = examples,
    .options = options,
    .settings_size = sizeof(struct settings),
    .hint = hint,
    .run = run_tune,
};
