/* scale.c - `stoker scale`: how time depends on N, what it costs, and which N to ask for. */
#include "cmd/scale.h"

#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/num.h"
#include "report/grid.h"
#include "report/scale.h"

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
        .cores_per_n = (int64_t)s->plan.cores_per_n,
        .gpus_per_n = (int64_t)s->gpus_per_n,
        .deadline_s = s->deadline_s,
        .predict = predict,
        .throughput = strcmp(s->fit, "throughput") == 0,
        .seed = s->plan.seed,
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
    int rc = stk_put_output(s->csv, &b, &run->err);
    stk_buf_release(&b);
    return rc;
}

static int write_study(struct stk_run *run, const struct stk_study *study)
{
    const struct stk_scale_settings *s = run->settings;
    struct stk_buf b = STK_BUF_INIT;
    struct stk_jw w;
    if (!s->save)
        return 0;
    stk_jw_init(&w, &b, true);
    stk_study_write_json(study, &w);
    stk_buf_putc(&b, '\n');
    int rc = stk_put_output(s->save, &b, &run->err);
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

int stk_scale_finish(struct stk_run *run, const struct stk_study *study,
                     const struct stk_runs_conditions *where)
{
    struct stk_scaling_options o;
    double predict[STK_SCALING_PREDICTIONS];
    struct stk_scaling *all = calloc(1, sizeof *all);
    if (!all)
        return stk_err_nomem(&run->err, sizeof *all);
    int rc = read_settings(run, &o, predict);
    o.note = where ? where->note[0] : NULL;
    o.note_size = where ? sizeof where->note[0] : 0;
    o.nnotes = where ? where->nnotes : 0;
    if (!rc)
        rc = stk_scaling_compute(study, &o, all, &run->err);
    if (!rc) {
        show(run, all);
        stk_scale_json(all, &run->json);
        rc = write_csv(run, all);
    }
    rc = rc ? rc : write_study(run, study);
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

/* A folder is that of a study that was run. */
static int read_one(struct stk_run *run, struct stk_study *study, const char *path,
                    const char *name)
{
    struct stat st;
    char *inside = NULL;
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode) &&
        !(inside = stk_path_join(path, "study.json")))
        return stk_err_nomem(&run->err, strlen(path));
    int rc = stk_study_read(study, inside ? inside : path, name, &run->err);
    free(inside);
    return rc;
}

int stk_scale_read_files(struct stk_run *run, struct stk_study *study)
{
    const struct stk_scale_settings *s = run->settings;
    bool several = study->nruns || (s->from && s->from[0] && s->from[1]);
    int rc = 0;
    if (!study->nruns) {
        rc = stk_study_set_unit(study, s->plan.unit, &run->err);
        study->weak = s->plan.weak;
    }
    for (size_t i = 0; s->from && s->from[i] && !rc; i++) {
        char name[STK_STUDY_TEXT_MAX + 1];
        const char *path = split_from(s->from[i], several, name, sizeof name);
        rc = read_one(run, study, path, name);
    }
    /* What a column `value` means nobody can tell from its name. */
    if (!rc && study->metric && strcmp(study->metric, "value") == 0)
        study->higher_better = s->better && strcmp(s->better, "higher") == 0;
    return rc;
}

/* ---- before anything is done -------------------------------------------------------------- */

/* An option that was typed, and that would be ignored, is a mistake: better now than in an hour. */
static int check_fit(struct stk_run *run, bool runs)
{
    enum { RUN = 1, RESUME = 2, READ = 4 }; /* what each of them goes with */
    static const struct {
        const char *name;
        unsigned with;
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
    };
    const struct stk_scale_settings *s = run->settings;
    unsigned now = s->resume ? RESUME : runs ? RUN : READ;
    for (size_t i = 0; i < sizeof some / sizeof *some; i++)
        if (!(some[i].with & now) && stk_opts_typed(&run->opts, some[i].name))
            return stk_err_set(&run->err, STK_E_USAGE, NULL, -1,
                               now == RESUME
                                   ? "--resume goes on as it was planned: --%s cannot be said again"
                                   : "--%s is about a command that is run, and there is none: put "
                                     "it behind --",
                               some[i].name);
    return 0;
}

/* Files that cannot be read would be found out only when everything has been run. */
static int check_files(struct stk_run *run)
{
    struct stk_study *scratch = calloc(1, sizeof *scratch);
    if (!scratch)
        return stk_err_nomem(&run->err, sizeof *scratch);
    int rc = stk_scale_read_files(run, scratch);
    stk_study_release(scratch);
    free(scratch);
    return rc;
}

static int check_all(struct stk_run *run, bool runs)
{
    const struct stk_scale_settings *s = run->settings;
    struct stk_scaling_options o;
    double predict[STK_SCALING_PREDICTIONS];
    int rc = check_fit(run, runs);
    rc = rc ? rc : read_settings(run, &o, predict);
    rc = rc ? rc : stk_check_output(run, "csv", s->csv);
    rc = rc ? rc : stk_check_output(run, "save", s->save);
    return rc || !runs || !s->from ? rc : check_files(run);
}

static int run_scale(struct stk_run *run)
{
    const struct stk_scale_settings *s = run->settings;
    bool runs = run->opts.nargs || s->resume;
    if (!runs && !s->from)
        return stk_err_set(&run->err, STK_E_USAGE, NULL, -1,
                           "where do the times come from? --n 1,2,4 -- CMD runs a command, --from "
                           "FILE reads times");
    int rc = s->inside ? 0 : check_all(run, runs);
    if (rc || runs)
        return rc ? rc : stk_scale_run(run);
    struct stk_study *study = calloc(1, sizeof *study);
    if (!study)
        return stk_err_nomem(&run->err, sizeof *study);
    rc = stk_scale_read_files(run, study);
    if (!rc)
        rc = stk_scale_finish(run, study, NULL);
    stk_study_release(study);
    free(study);
    return rc;
}

static const struct stk_example examples[] = {
    {"stoker scale --n 1,2,4,8 --threads -- ./solve input", "threads on this machine"},
    {"stoker scale --n 1,2,4 --ranks --runs 10 -- ./mpi-solve", "MPI ranks, ten runs each"},
    {"stoker scale --n 1-16*2 --metric 'images/s: ([0-9.]+)' -- ./train --workers {n}",
     "a rate that the program prints, and an option of its own"},
    {"stoker scale --via slurm --sbatch --partition=gpu --n 1,2,4 --gpus --ranks -- python ddp.py",
     "jobs of Slurm with 1, 2 and 4 GPUs, three of each"},
    {"stoker scale --resume stoker-scale-python-20260301-101500", "go on with that study"},
    {"stoker scale --from K80=k80.csv --from RTX=rtx.csv --gpus-per-n 1 --cores-per-n 1",
     "times from elsewhere: two kinds of GPU in one plot, with service units"},
    {"stoker scale --from times.csv --deadline 2h --predict 64", "what would 64 take?"},
    {NULL, NULL},
};

const struct stk_cmd stk_cmd_scale = {
    .name = "scale",
    .summary = "speedup, service units, plateau: how many to ask for",
    .args = "[CMD [ARG...]]",
    .description =
        "Runs CMD at several N, here or as jobs of Slurm, and tells how fast it becomes, what it "
        "costs in service units, where more brings nothing (the plateau), and which N to ask for "
        "if it is to be fast, cheap, or both. Intervals come from the repeats of each N; where "
        "there are none, or few, it says so and predicts nothing.\n\n"
        "N is put into the command where {n} stands, or sets a resource: --threads, --ranks, "
        "--gpus, --nodes, or several of them. With --weak the problem grows: {size} is --size "
        "times N. All N are run in rounds of random order, each until its interval is narrow. "
        "The study is kept in a folder after every run; --resume goes on with it, also when its "
        "jobs were left in the queue. A run that fails is marked, its output is kept, and the "
        "rest goes on.\n\n"
        "Times that were measured elsewhere are read by --from: a table with a row a run and the "
        "columns n and time (seconds, 3m20s or 1:02:03), and as many as are known of series, "
        "repeat, cores, gpus, nodes, host, kind and status; or the folder of another study, to "
        "compare.",
    .examples = examples,
    .options = stk_scale_options,
    .settings_size = sizeof(struct stk_scale_settings),
    .runs_program = true,
    .own_status = true,
    .run = run_scale,
};
