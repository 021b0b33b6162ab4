/* scale.c - `stoker scale`: how time depends on N, what it costs, and which N to ask for. */
#include "cmd/scale.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/num.h"
#include "report/grid.h"
#include "report/scale.h"

#define SETTING(field) offsetof(struct stk_scale_settings, field)

static const char *const better_choices[] = {"lower", "higher", NULL};
static const char *const fit_choices[] = {"relative", "throughput", NULL};

static const struct stk_opt options[] = {
    {.name = "from",
     .type = STK_OPT_LIST,
     .arg = "[NAME=]FILE",
     .offset = SETTING(from),
     .help = "Read times that were measured elsewhere, from CSV (n, time, ...) or from a study "
             "or result of stoker; given again, all of them are compared"},
    {.name = "weak",
     .type = STK_OPT_FLAG,
     .offset = SETTING(weak),
     .help = "The problem grew with N: weak scaling"},
    {.name = "unit",
     .type = STK_OPT_STRING,
     .arg = "WORDS",
     .offset = SETTING(unit),
     .help = "What N counts, in the plural, as it is to be called: threads, GPUs"},
    {.name = "better",
     .type = STK_OPT_ENUM,
     .arg = "WHICH",
     .def = "lower",
     .choices = better_choices,
     .offset = SETTING(better),
     .help = "Whether a lower or a higher value of a metric is better (a rate: higher)"},
    {.name = "su-weights",
     .type = STK_OPT_STRING,
     .arg = "WEIGHTS",
     .def = "core=1,gpu=2",
     .offset = SETTING(su_weights),
     .help = "Service units that an hour of a core, a gpu and a node costs"},
    {.name = "site",
     .type = STK_OPT_STRING,
     .arg = "NAME",
     .offset = SETTING(site),
     .help = "Whose weights they are"},
    {.name = "cores-per-n",
     .type = STK_OPT_UNSIGNED,
     .arg = "N",
     .def = "0",
     .max = 100000,
     .offset = SETTING(cores_per_n),
     .help = "Cores allocated for each of N, where the times do not say"},
    {.name = "gpus-per-n",
     .type = STK_OPT_UNSIGNED,
     .arg = "N",
     .def = "0",
     .max = 100000,
     .offset = SETTING(gpus_per_n),
     .help = "GPUs allocated for each of N, where the times do not say"},
    {.name = "deadline",
     .type = STK_OPT_DURATION,
     .arg = "TIME",
     .offset = SETTING(deadline_s),
     .help = "Recommend the cheapest N that is done within TIME, too"},
    {.name = "max-relative-su",
     .type = STK_OPT_STRING,
     .arg = "X",
     .offset = SETTING(max_relative_su),
     .help = "Recommend the fastest N that costs at most X times the SUs of the smallest, too"},
    {.name = "predict",
     .type = STK_OPT_STRING,
     .arg = "N,...",
     .offset = SETTING(predict),
     .help = "Predict the time of these N, where the data can carry it"},
    {.name = "fit",
     .type = STK_OPT_ENUM,
     .arg = "HOW",
     .def = "relative",
     .choices = fit_choices,
     .offset = SETTING(fit),
     .help = "Fit laws by relative errors of the time, or by errors of throughput as R's usl "
             "package does"},
    {.name = "seed",
     .type = STK_OPT_UNSIGNED,
     .arg = "N",
     .def = "1",
     .offset = SETTING(seed),
     .help = "What chance is drawn from: the same seed gives the same intervals"},
    {.name = "plot",
     .type = STK_OPT_FLAG,
     .def = "true",
     .incidental = true,
     .offset = SETTING(plot),
     .help = "Draw the curve"},
    {.name = "csv",
     .type = STK_OPT_STRING,
     .arg = "FILE",
     .incidental = true,
     .offset = SETTING(csv),
     .help = "Write the table as CSV to FILE"},
    {.name = "save",
     .type = STK_OPT_STRING,
     .arg = "FILE",
     .incidental = true,
     .offset = SETTING(save),
     .help = "Write the times themselves as a study, which --from reads"},
    STK_COMMON_OPTIONS,
};

/* ---- settings that are lists of numbers --------------------------------------------------- */

static int bad_setting(struct stk_run *run, const char *name, const char *text, const char *how)
{
    return stk_err_set(&run->err, STK_E_USAGE, NULL, -1, "--%s: \"%.80s\": %s", name, text, how);
}

static bool read_number(const char *p, size_t n, double low, double high, double *out)
{
    int64_t i;
    return stk_num_parse(p, n, &i, out) != STK_NUM_NONE && *out >= low && *out <= high;
}

/* "core=1,gpu=2,node=0"; those not named are 0. */
static int read_weights(struct stk_run *run, const char *text, struct stk_su_rates *r)
{
    static const char how[] = "write core=1,gpu=2,node=0, numbers from 0 to 1000000";
    const char *const names[] = {"core", "gpu", "node"};
    double *const to[] = {&r->core, &r->gpu, &r->node};
    *r = (struct stk_su_rates){0};
    for (const char *p = text; *p;) {
        size_t n = strcspn(p, ","), k = 0;
        const char *eq = memchr(p, '=', n);
        size_t name = eq ? (size_t)(eq - p) : 0;
        while (k < 3 && !(strlen(names[k]) == name && memcmp(names[k], p, name) == 0))
            k++;
        if (k == 3 || !read_number(eq + 1, n - name - 1, 0, 1e6, to[k]))
            return bad_setting(run, "su-weights", text, how);
        p += n;
        p += *p == ',';
    }
    return r->core > 0 || r->gpu > 0 || r->node > 0 ? 0 : bad_setting(run, "su-weights", text, how);
}

static int read_predict(struct stk_run *run, const char *text, double *n, size_t *count)
{
    for (const char *p = text ? text : ""; *p;) {
        size_t len = strcspn(p, ",");
        if (*count == STK_SCALING_PREDICTIONS ||
            !read_number(p, len, 1, STK_STUDY_N_MAX, &n[*count]) || floor(n[*count]) != n[*count])
            return bad_setting(run, "predict", text, "write up to 32 whole numbers, as 16,32,64");
        ++*count;
        p += len;
        p += *p == ',';
    }
    return 0;
}

static int read_settings(struct stk_run *run, struct stk_scaling_options *o, double *predict)
{
    const struct stk_scale_settings *s = run->settings;
    *o = (struct stk_scaling_options){
        .cores_per_n = (int64_t)s->cores_per_n,
        .gpus_per_n = (int64_t)s->gpus_per_n,
        .deadline_s = s->deadline_s,
        .predict = predict,
        .throughput = strcmp(s->fit, "throughput") == 0,
        .seed = s->seed,
    };
    int rc = read_weights(run, s->su_weights, &o->su);
    o->su.site = s->site;
    if (!rc && s->max_relative_su &&
        !read_number(s->max_relative_su, strlen(s->max_relative_su), 1e-6, 1e9,
                     &o->max_relative_su))
        rc = bad_setting(run, "max-relative-su", s->max_relative_su, "write a number, as 1.5");
    return rc ? rc : read_predict(run, s->predict, predict, &o->npredict);
}

/* ---- the result --------------------------------------------------------------------------- */

static int write_csv(struct stk_run *run, const struct stk_scaling *all)
{
    const struct stk_scale_settings *s = run->settings;
    struct stk_buf b = STK_BUF_INIT;
    if (!s->csv)
        return 0;
    stk_scale_csv(all, &b);
    int rc = stk_buf_check(&b, &run->err);
    if (!rc)
        rc = stk_write_file_atomic(s->csv, b.data, b.len, &run->err);
    stk_buf_release(&b);
    return rc;
}

static void show(const struct stk_run *run, const struct stk_scaling *all)
{
    const struct stk_scale_settings *s = run->settings;
    struct stk_buf b = STK_BUF_INIT;
    stk_scale_text(all, stk_columns(run), stk_term_utf8(), s->plot, &b);
    stk_say(run, "%s", stk_buf_cstr(&b));
    stk_buf_release(&b);
}

/* Nothing good in a series is a problem; a failed run among good ones is a caution. */
static int status_of(const struct stk_scaling *all)
{
    for (size_t i = 0; i < all->nseries; i++)
        if (all->series[i].base == all->series[i].nrows)
            return STK_EXIT_PROBLEM;
    return STK_EXIT_DONE;
}

int stk_scale_finish(struct stk_run *run, const struct stk_study *study)
{
    const struct stk_scale_settings *s = run->settings;
    struct stk_scaling_options o;
    double predict[STK_SCALING_PREDICTIONS];
    struct stk_scaling *all = calloc(1, sizeof *all);
    if (!all)
        return stk_err_nomem(&run->err, sizeof *all);
    int rc = read_settings(run, &o, predict);
    if (!rc)
        rc = stk_scaling_compute(study, &o, all, &run->err);
    if (!rc) {
        show(run, all);
        stk_scale_json(all, &run->json);
        rc = write_csv(run, all);
    }
    if (!rc && s->save)
        rc = stk_study_save(study, s->save, &run->err);
    rc = rc ? rc : status_of(all);
    stk_scaling_release(all);
    free(all);
    return rc;
}

/* ---- times from files --------------------------------------------------------------------- */

/* "NAME=FILE" names the series of a file that names none; a path that is there is a path. Without
 * a name and with several files, the file's own name is it. */
static const char *split_from(const char *arg, bool several, char *name, size_t size)
{
    const char *eq = strchr(arg, '=');
    name[0] = '\0';
    if (eq && access(arg, F_OK) != 0) {
        snprintf(name, size, "%.*s", (int)(eq - arg), arg);
        return eq + 1;
    }
    const char *slash = strrchr(arg, '/'), *base = slash ? slash + 1 : arg;
    const char *dot = strrchr(base, '.');
    if (several)
        snprintf(name, size, "%.*s", (int)(dot && dot > base ? dot - base : (long)strlen(base)),
                 base);
    return arg;
}

static int read_files(struct stk_run *run, struct stk_study *study)
{
    const struct stk_scale_settings *s = run->settings;
    int rc = stk_study_set_unit(study, s->unit, &run->err);
    study->weak = s->weak;
    for (size_t i = 0; s->from[i] && !rc; i++) {
        char name[STK_STUDY_TEXT_MAX + 1];
        const char *path = split_from(s->from[i], s->from[1] != NULL, name, sizeof name);
        rc = stk_study_read(study, path, name, &run->err);
    }
    /* What a column `value` means nobody can tell from its name. */
    if (!rc && study->metric && strcmp(study->metric, "value") == 0)
        study->higher_better = strcmp(s->better, "higher") == 0;
    return rc;
}

static int run_scale(struct stk_run *run)
{
    const struct stk_scale_settings *s = run->settings;
    if (!s->from)
        return stk_err_set(&run->err, STK_E_USAGE, NULL, -1,
                           "where do the times come from? --from FILE reads them");
    struct stk_study *study = calloc(1, sizeof *study);
    if (!study)
        return stk_err_nomem(&run->err, sizeof *study);
    int rc = read_files(run, study);
    if (!rc)
        rc = stk_scale_finish(run, study);
    stk_study_release(study);
    free(study);
    return rc;
}

static const struct stk_example examples[] = {
    {"stoker scale --from times.csv", "the table, the curve and which N to ask for"},
    {"stoker scale --from K80=k80.csv --from RTX=rtx.csv --gpus-per-n 1 --cores-per-n 1",
     "two kinds of GPU in one plot, with service units"},
    {"stoker scale --from times.csv --deadline 2h --predict 64", "what would 64 take?"},
    {NULL, NULL},
};

const struct stk_cmd stk_cmd_scale = {
    .name = "scale",
    .summary = "speedup, service units, plateau: how many to ask for",
    .args = "",
    .description =
        "Tells from times at several N (cores, GPUs, nodes) how fast a job becomes, what it costs "
        "in service units, where more brings nothing (the plateau), and which N to ask for if it "
        "is to be fast, cheap, or both. Intervals come from the repeats of each N; where there are "
        "none, or few, it says so and predicts nothing.\n\n"
        "A table of times has a row a run, with the columns n and time (seconds, 3m20s or "
        "1:02:03), and as many as are known of series, repeat, cores, gpus, nodes, host, kind and "
        "status.",
    .examples = examples,
    .options = options,
    .settings_size = sizeof(struct stk_scale_settings),
    .run = run_scale,
};
