/* advise.c - `stoker advise`: what is wrong with a job's I/O, how we know, and what to do. */
#include "base/text.h"
#include "cmd/cmd.h"
#include "advice/advice.h"
#include "report/profile.h"
#include "replay/replay.h"

struct settings {
    struct stk_common common;
    bool list;
    const char **only;
    int min; /* enum stk_severity */
    const char *trust, *workload;
};

/* As stk_severity_name() has them, least first. */
static const char *const severities[] = {"note", "low", "medium", "high", NULL};

static const char *const *rule_ids(void)
{
    static const char *ids[128];
    for (size_t i = 0; i < 127; i++)
        if (!(ids[i] = stk_rule_id(i, NULL)))
            break;
    return ids;
}

#define OPTION(...) STK_OPT_OF(struct settings, 0, __VA_ARGS__)

static const struct stk_opt options[] = {
    OPTION("list", list, FLAG, .incidental = true, .help = "List every rule and exit"),
    OPTION("only", only, LIST, .arg = "ID", .suggest = rule_ids,
           .help = "Show only this finding; may be repeated"),
    OPTION("min", min, ENUM, .arg = "SEVERITY", .def = "note", .choices = severities,
           .help = "Show findings of at least this severity"),
    OPTION("workload", workload, STRING, .letter = 'w', .arg = "FILE", .path = true,
           .help = "Write the job's I/O as a workload for `stoker bench` to FILE, instead of "
                   "advice"),
    STK_TRUST_OPTION(offsetof(struct settings, trust)),
    STK_COMMON_OPTIONS,
};

/* ---- the rules ----------------------------------------------------------------------------- */

static bool is_rule(const char *name)
{
    const char *const *id = rule_ids();
    while (*id && strcmp(*id, name) != 0)
        id++;
    return *id;
}

static int check_only(struct stk_run *run)
{
    const struct settings *s = run->settings;
    for (const char **one = s->only; one && *one; one++) {
        const char *near = stk_text_nearest(*one, rule_ids());
        if (!is_rule(*one))
            return stk_err_set(&run->err, STK_E_USAGE, NULL, -1,
                               "--only: there is no rule \"%.60s\"%s%s%s", *one,
                               near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
    }
    return 0;
}

/* ---- the findings -------------------------------------------------------------------------- */

/* Exit status 1 means that there is something to fix, which a note is not. A program that was not
 * recorded gets neither verdict. */
static int show(struct stk_run *run, const struct stk_judged *j)
{
    const struct settings *s = run->settings;
    const struct stk_advice *adv = &j->advice;
    struct stk_report r = {.a = &j->analysis,
                           .advice = adv,
                           .only = (const char *const *)s->only,
                           .least = (enum stk_severity)s->min};
    bool problem = false;
    for (size_t i = 0; i < adv->nfindings; i++)
        problem = problem || (adv->finding[i].severity >= STK_SEV_LOW &&
                              stk_report_shows(&r, &adv->finding[i]));
    int rc = stk_say_result(run, &stk_advise_kind, &r, NULL);
    return rc ? rc : adv->blind ? STK_EXIT_PARTLY : problem ? STK_EXIT_PROBLEM : STK_EXIT_DONE;
}

/* ---- the workload --------------------------------------------------------------------------- */

static int write_workload(struct stk_run *run, const struct stk_judged *j)
{
    const struct settings *s = run->settings;
    struct stk_replay_said said = {0};
    int rc = stk_replay_write(&j->analysis, s->workload, &said, &run->err);
    for (size_t i = 0; rc == 0 && i < said.n; i++)
        if (!run->common->quiet)
            stk_complain("assumed", said.line[i].text);
    if (rc == 0)
        stk_say(run, "%s: replay it with: stoker bench %s\n", s->workload, s->workload);
    stk_jw_put_str(&run->json, "workload", s->workload);
    stk_jw_key(&run->json, "assumed");
    stk_jw_open(&run->json, '[');
    for (size_t i = 0; i < said.n; i++)
        stk_jw_str(&run->json, said.line[i].text);
    stk_jw_close(&run->json, ']');
    stk_replay_said_release(&said);
    return rc;
}

static int run_advise(struct stk_run *run)
{
    const struct settings *s = run->settings;
    if (s->list)
        return stk_say_result(run, &stk_rules_kind, NULL, NULL);
    if (!run->opts.nargs)
        return stk_err_set(&run->err, STK_E_USAGE, NULL, -1, "PROFILE is missing");
    int rc = check_only(run);
    struct stk_judged j;
    if (!rc)
        rc = stk_judge_profile(run, run->opts.arg[0], s->trust, &j);
    if (rc)
        return rc;
    rc = s->workload ? write_workload(run, &j) : show(run, &j);
    stk_judged_release(&j);
    return rc;
}

static const struct stk_example examples[] = {
    {"stoker advise train.profile", "what to change"},
    {"stoker advise train.profile --min medium", "what matters most"},
    {"stoker advise train.profile --only small-reads --json -", "one finding, for a program"},
    {"stoker advise train.profile --workload job.yaml", "its I/O, for `stoker bench job.yaml`"},
    {"stoker advise --list", "every rule"},
    {NULL, NULL},
};

const struct stk_cmd stk_cmd_advise = {
    .name = "advise",
    .summary = "recommend changes to a job's I/O, with the expected gain",
    .args = "[PROFILE]",
    .description =
        "Looks at the profile PROFILE (the folder that `stoker profile` wrote, or a Darshan log) "
        "and reports what is wrong with the job's I/O: the evidence, the command or change that "
        "fixes it, and an estimate of the time it saves, with the reasoning. Every finding rests "
        "on evidence: a healthy job has nothing to fix. docs/profile.md describes every rule.\n\n"
        "The exit status is 0 when there is nothing to fix, 1 when there is, and 3 when nothing, "
        "or "
        "too little, was recorded to tell.",
    .examples = examples,
    .options = options,
    .settings_size = sizeof(struct settings),
    .run = run_advise,
};
