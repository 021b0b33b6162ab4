/*
 * scale_settings.c - the settings of `stoker scale`, read once: how the study is computed, what
 * runs, and what a resume changes. Mistakes are reported here, not after an hour.
 */
#include <math.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/num.h"
#include "base/text.h"
#include "cmd/scale.h"
#include "scaling/su.h"

#define BATCH_HEAD_MAX (1u << 20)

/* ---- how it is computed ------------------------------------------------------------------- */

static int bad_setting(struct stk_run *run, const char *name, const char *text, const char *how)
{
    return stk_err_set(&run->err, STK_E_USAGE, NULL, -1, "--%s: \"%.80s\": %s", name, text, how);
}

static bool read_number(const char *p, size_t n, double low, double high, double *out)
{
    int64_t i;
    return stk_num_parse(p, n, &i, out) != STK_NUM_NONE && *out >= low && *out <= high;
}

static int read_predict(struct stk_run *run, const char *text, double *n, size_t *count)
{
    for (const char *p = text ? text : ""; *p;) {
        size_t len = strcspn(p, ",");
        if (*count == STK_SCALING_PREDICTIONS ||
            !read_number(p, len, 1, STK_STUDY_N_MAX, &n[*count]) || floor(n[*count]) != n[*count])
            return bad_setting(run, "predict", text,
                               "write up to 32 whole numbers, such as 16,32,64");
        ++*count;
        p += len;
        p += *p == ',';
    }
    return 0;
}

static int set_options(struct stk_scale *s)
{
    const struct stk_scale_settings *said = s->said;
    struct stk_scaling_options *o = &s->options;
    *o = (struct stk_scaling_options){
        .cores_per_n = (int64_t)said->plan.cores_per_n,
        .gpus_per_n = (int64_t)said->gpus_per_n,
        .deadline_s = said->deadline_s,
        .predict = s->predict,
        .throughput = said->fit == STK_FIT_THROUGHPUT,
        .seed = said->plan.seed,
    };
    int rc = said->columns ? stk_headings_parse(said->columns, &s->headings, &s->run->err) : 0;
    if (!rc && said->columns && !said->from)
        rc = bad_setting(s->run, "columns", said->columns, "it describes the tables of --from");
    if (!rc && !stk_su_parse(said->su_weights, &o->su))
        rc = bad_setting(s->run, "su-weights", said->su_weights, STK_SU_HOW);
    o->su.site = said->site;
    if (!rc && said->max_relative_su &&
        !read_number(said->max_relative_su, strlen(said->max_relative_su), 1e-6, 1e9,
                     &o->max_relative_su))
        rc = bad_setting(s->run, "max-relative-su", said->max_relative_su,
                         "write a number, such as 1.5");
    if (!rc && said->nodes_per_n &&
        !read_number(said->nodes_per_n, strlen(said->nodes_per_n), 1e-6, 1e5, &o->nodes_per_n))
        rc = bad_setting(s->run, "nodes-per-n", said->nodes_per_n,
                         "write a number, such as 1 or 0.25");
    return rc ? rc : read_predict(s->run, said->predict, s->predict, &o->npredict);
}

/* ---- what is run -------------------------------------------------------------------------- */

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
    if (ok && *max >= *min && *max <= STK_RUNNER_RUNS_MAX)
        return 0;
    return stk_err_set(&run->err, STK_E_USAGE, NULL, -1,
                       "--runs: \"%.40s\": write how many, as 10 or 3..20, up to %u", text,
                       STK_RUNNER_RUNS_MAX);
}

static uint64_t sets_of(const struct stk_scale_settings *s)
{
    return (s->threads ? STK_SETS_THREADS : 0u) | (s->ranks ? STK_SETS_RANKS : 0u) |
           (s->gpus ? STK_SETS_GPUS : 0u) | (s->nodes ? STK_SETS_NODES : 0u);
}

/* Which way is better is not guessed at: a recommendation would be upside down. */
static int set_better(const struct stk_scale *s, struct stk_runner_plan *p)
{
    struct stk_run *run = s->run;
    const char *better = s->said->better;
    int rc = p->metric ? stk_metric_check(p->metric, &run->err) : 0;
    if (rc || !p->metric)
        return rc;
    int told = better ? (stk_text_index(better, stk_better_choices) ? 1 : -1)
                      : stk_metric_sense(p->metric);
    p->higher_better = told > 0;
    if (told)
        return 0;
    return stk_err_set(&run->err, STK_E_USAGE, NULL, -1,
                       "--metric: cannot tell whether more or less of \"%.80s\" is better; give "
                       "--better higher or --better lower",
                       p->metric);
}

/* The lists and files that a plan has from options. */
static int read_lists(struct stk_scale *s, struct stk_runner_plan *p)
{
    const struct stk_scale_settings *said = s->said;
    struct stk_err *err = &s->run->err;
    int rc = said->n ? stk_runner_parse_n("n", said->n, p->n, &p->nn, err) : 0;
    if (!rc && said->spread)
        rc = stk_runner_parse_n("spread", said->spread, p->spread, &p->nspread, err);
    if (!rc && said->ranks_per_node)
        rc = stk_runner_parse_n("ranks-per-node", said->ranks_per_node, p->pack, &p->npack, err);
    if (p->npack == 1) { /* one way to place them is not a comparison */
        p->ranks_per_node = p->pack[0];
        p->npack = 0;
    }
    if (!rc && said->runs)
        rc = read_runs(s->run, said->runs, &p->runs_min, &p->runs_max);
    if (!rc && said->sbatch_file) {
        rc = stk_read_file(said->sbatch_file, BATCH_HEAD_MAX, &s->batch_head, err);
        p->batch_head = stk_buf_cstr(&s->batch_head);
    }
    return rc;
}

/* Sets what an option alone does not determine. */
static int set_plan(struct stk_scale *s)
{
    const struct stk_runner_plan usual = STK_RUNNER_PLAN_INIT;
    struct stk_runner_plan *p = &s->plan;
    *p = s->said->plan;
    p->argv = s->run->opts.arg;
    p->sets = sets_of(s->said);
    p->via = stk_executor_find(s->said->via);
    p->runs_min = usual.runs_min;
    p->runs_max = p->via->runs_max;
    if (!stk_opts_given(&s->run->opts, "warmup"))
        p->warmup = p->via->warmup;
    p->seed &= INT64_MAX;
    p->metric_pick = (uint64_t)s->said->match;
    int rc = read_lists(s, p);
    return rc ? rc : set_better(s, p);
}

static int set_change(struct stk_scale *s)
{
    const struct stk_scale_settings *said = s->said;
    const struct stk_opts *o = &s->run->opts;
    struct stk_runner_change *c = &s->change;
    *c = (struct stk_runner_change){
        .n = s->more_n,
        .precision = stk_opts_given(o, "precision") ? said->plan.precision : NAN,
        .timeout_s = stk_opts_given(o, "timeout") ? said->plan.timeout_s : NAN,
        .budget_s = stk_opts_given(o, "budget") ? said->plan.budget_s : NAN,
        .at_once = stk_opts_given(o, "jobs-at-once") ? said->plan.at_once : UINT64_MAX,
        .detach = said->plan.detach,
        .retry = said->retry,
        .trust = said->trust,
    };
    if (o->nargs)
        return stk_err_set(&s->run->err, STK_E_USAGE, NULL, -1,
                           "--resume knows the command: leave it out");
    int rc = said->n ? stk_runner_parse_n("n", said->n, s->more_n, &c->nn, &s->run->err) : 0;
    if (!rc && said->runs)
        rc = read_runs(s->run, said->runs, &c->runs_min, &c->runs_max);
    return rc;
}

/* ---- what does not go together ------------------------------------------------------------ */

/* An option that would be ignored is a mistake: better reported now than in an hour. */
static int check_fit(const struct stk_scale *s)
{
    enum { RUN = STK_SCALE_RUNS, RESUME = STK_SCALE_RESUMES, READ = STK_SCALE_READS };
    static const struct {
        const char *name;
        unsigned with; /* enum stk_scale_way */
    } some[] = {
        {"n", RUN | RESUME},
        {"runs", RUN | RESUME},
        {"precision", RUN | RESUME},
        {"budget", RUN | RESUME},
        {"timeout", RUN | RESUME},
        {"jobs-at-once", RUN | RESUME},
        {"detach", RUN | RESUME},
        {"name", RUN | RESUME},
        {"weak", RUN | READ},
        {"unit", RUN | READ},
        {"threads", RUN},
        {"ranks", RUN},
        {"gpus", RUN},
        {"nodes", RUN},
        {"spread", RUN},
        {"threads-per-rank", RUN},
        {"size", RUN},
        {"shell", RUN},
        {"ranks-per-node", RUN},
        {"prepare", RUN},
        {"launcher", RUN},
        {"container", RUN},
        {"pin", RUN},
        {"oversubscribe", RUN},
        {"metric", RUN},
        {"match", RUN},
        {"warmup", RUN},
        {"via", RUN},
        {"sbatch", RUN},
        {"sbatch-file", RUN},
        {"gpu-type", RUN},
        {"output", RUN},
        {"share", RUN},
        {"retry", RESUME},
    };
    for (size_t i = 0; i < sizeof some / sizeof *some; i++)
        if (!(some[i].with & s->way) && stk_opts_typed(&s->run->opts, some[i].name))
            return stk_err_set(&s->run->err, STK_E_USAGE, NULL, -1,
                               s->way == STK_SCALE_RESUMES
                                   ? "--resume continues as planned: --%s cannot be changed"
                               : some[i].with == RESUME
                                   ? "--%s needs a study to continue: --resume DIR"
                                   : "--%s needs a command to run: put it after --",
                               some[i].name);
    return 0;
}

int stk_scale_settle(struct stk_scale *s)
{
    int rc = check_fit(s);
    rc = rc ? rc : set_options(s);
    rc = rc ? rc : stk_check_output(s->run, "csv", s->said->csv);
    rc = rc ? rc : stk_check_output(s->run, "save", s->said->save);
    if (rc || s->way == STK_SCALE_READS)
        return rc;
    return s->way == STK_SCALE_RESUMES ? set_change(s) : set_plan(s);
}
