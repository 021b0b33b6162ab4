/* advise.c - `stoker advise`: what is wrong with a job's I/O, how we know, and what to do. */
#include "base/text.h"
#include "base/units.h"
#include "cmd/cmd.h"
#include "advice/judge.h"
#include "report/grid.h"
#include "report/report.h"

struct settings {
    struct stk_common common;
    bool list;
    const char **only;
    const char *min;
    const char *trust;
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

static const struct stk_opt options[] = {
    {.name = "list",
     .type = STK_OPT_FLAG,
     .incidental = true,
     .offset = offsetof(struct settings, list),
     .help = "List every rule and exit"},
    {.name = "only",
     .type = STK_OPT_LIST,
     .arg = "ID",
     .offset = offsetof(struct settings, only),
     .suggest = rule_ids,
     .help = "Show only this finding; may be repeated"},
    {.name = "min",
     .type = STK_OPT_ENUM,
     .arg = "SEVERITY",
     .def = "note",
     .choices = severities,
     .offset = offsetof(struct settings, min),
     .help = "Show findings of at least this severity"},
    STK_TRUST_OPTION(offsetof(struct settings, trust)),
    STK_COMMON_OPTIONS,
};

/* ---- the rules ----------------------------------------------------------------------------- */

static int list_rules(struct stk_run *run)
{
    struct stk_buf out = STK_BUF_INIT;
    struct stk_grid t;
    const char *id, *summary;
    stk_grid_init(&t, "ll");
    stk_jw_key(&run->json, "rules");
    stk_jw_open(&run->json, '[');
    for (size_t i = 0; (id = stk_rule_id(i, &summary)); i++) {
        stk_grid_row(&t, id, summary);
        stk_jw_open(&run->json, '{');
        stk_jw_put_str(&run->json, "id", id);
        stk_jw_put_str(&run->json, "summary", summary);
        stk_jw_close(&run->json, '}');
    }
    stk_jw_close(&run->json, ']');
    stk_grid_render(&t, 0, &out);
    stk_say(run, "%s", stk_buf_cstr(&out));
    stk_grid_release(&t);
    stk_buf_release(&out);
    return STK_EXIT_DONE;
}

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

static bool wanted(const struct settings *s, const struct stk_finding *f)
{
    size_t least = 0;
    while (severities[least] && strcmp(severities[least], s->min) != 0)
        least++;
    if ((size_t)f->severity < least)
        return false;
    for (const char **one = s->only; one && *one; one++)
        if (strcmp(*one, f->id) == 0)
            return true;
    return !s->only;
}

/* Exit status 1 means that there is something to fix, which a note is not. A program that was not
 * recorded gets neither verdict. */
static int show(struct stk_run *run, const struct stk_analysis *a, const struct stk_advice *adv)
{
    const struct settings *s = run->settings;
    struct stk_report r = {
        .a = a, .advice = adv, .columns = stk_columns(run), .utf8 = stk_term_utf8()};
    struct stk_buf out = STK_BUF_INIT;
    struct stk_jw *w = &run->json;
    size_t shown = 0;
    bool problem = false;
    stk_jw_put_str(w, "verdict", adv->verdict);
    stk_jw_key(w, "findings");
    stk_jw_open(w, '[');
    for (size_t i = 0; i < adv->nfindings; i++) {
        const struct stk_finding *f = &adv->finding[i];
        if (!wanted(s, f))
            continue;
        stk_report_finding(&r, f, ++shown, &out);
        stk_buf_putc(&out, '\n');
        stk_report_finding_json(f, w);
        problem = problem || f->severity >= STK_SEV_LOW;
    }
    stk_jw_close(w, ']');
    stk_jw_put_u64(w, "findings_total", adv->nfindings);
    if (shown < adv->nfindings)
        stk_buf_printf(&out, "%zu of %zu findings shown\n", shown, adv->nfindings);
    stk_report_wrapped(adv->verdict, 0, r.columns, &out);
    int rc = stk_buf_check(&out, &run->err);
    if (!rc)
        stk_say(run, "%s", stk_buf_cstr(&out));
    stk_buf_release(&out);
    return rc ? rc : adv->blind ? STK_EXIT_PARTLY : problem ? STK_EXIT_PROBLEM : STK_EXIT_DONE;
}

static int run_advise(struct stk_run *run)
{
    const struct settings *s = run->settings;
    if (s->list)
        return list_rules(run);
    if (!run->opts.nargs)
        return stk_err_set(&run->err, STK_E_USAGE, NULL, -1, "PROFILE is missing");
    int rc = check_only(run);
    struct stk_judged j;
    if (!rc)
        rc = stk_judge_profile(run, run->opts.arg[0], s->trust, &j);
    if (rc)
        return rc;
    rc = show(run, &j.analysis, &j.advice);
    stk_judged_release(&j);
    return rc;
}

static const struct stk_example examples[] = {
    {"stoker advise train.profile", "what to change"},
    {"stoker advise train.profile --min medium", "what matters most"},
    {"stoker advise train.profile --only small-reads --json -", "one finding, for a program"},
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
