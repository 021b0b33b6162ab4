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
#include "scaling/scaling.h"

/* ---- the options ----------------------------------------------------------------------------- */

#define TIME_MAX_S (3650ull * 86400) /* ten years: more is a typing error */

const char *const stk_better_choices[] = {"lower", "higher", NULL};
static const char *const match_choices[] = {"last", "first", "median",
                                            NULL}; /* stk_metric_pick */
static const char *const plot_choices[] = {"none", "speedup", "time", "loglog",
                                           NULL}; /* stk_plot */
static const char *const fit_choices[] = {"relative", "throughput", NULL}; /* stk_scale_fit */

#define OPTION(...) STK_OPT_OF(struct stk_scale_settings, 0, __VA_ARGS__)

const struct stk_opt stk_scale_options[] = {
    OPTION("n", n, STRING, .group = "What runs", .arg = "LIST",
           .help = "The values of N: 1,2,4,8 or 1-8 or 1-64*2 (doubled each time)"),
    OPTION("threads", threads, FLAG,
           .help = "N is threads: sets OMP_NUM_THREADS and similar variables to N, and lets the "
                   "command use N cores, one hardware thread of each core first"),
    OPTION("ranks", ranks, FLAG,
           .help = "N is MPI ranks: mpirun -n N before the command; in a job, srun"),
    OPTION("gpus", gpus, FLAG,
           .help = "N is GPUs: the first N of those that can be seen (CUDA_VISIBLE_DEVICES); in "
                   "a job, requests N. With --ranks as well, one rank per GPU"),
    OPTION("nodes", nodes, FLAG, .help = "N is nodes (with --via slurm)"),
    OPTION("threads-per-rank", plan.threads_per_rank, UNSIGNED, .arg = "K", .max = 100000,
           .help = "Threads, and so cores, per rank"),
    OPTION("ranks-per-node", ranks_per_node, STRING, .arg = "K[,K...]",
           .help = "Ranks per node (with --via slurm). With several numbers, such as 4,2,1, each "
                   "N is placed in each of these ways, and each gives a curve"),
    OPTION("spread", spread, STRING, .arg = "LIST",
           .help = "Numbers of nodes, such as 1,2,4, to spread the ranks of each N over; each "
                   "gives a curve (with --ranks and --via slurm)"),
    OPTION("weak", plan.weak, FLAG, .help = "Weak scaling: the problem grows with N"),
    OPTION("size", plan.size, UNSIGNED, .arg = "N", .max = INT64_MAX,
           .help = "The value of {size} in the command; with --weak, multiplied by N"),
    OPTION("shell", plan.shell, FLAG,
           .help = "The command is one line for sh, such as 'gen {n} | sort'"),
    OPTION("prepare", plan.prepare, STRING, .arg = "LINE",
           .help = "A line for sh to execute before each run, untimed; {n} and {size} are "
                   "replaced"),
    OPTION("launcher", plan.launcher, STRING, .arg = "WORDS",
           .help = "Launcher for ranks, instead of mpirun or srun: mpiexec -n {n}, srun "
                   "--mpi=pmix"),
    OPTION("container", plan.container, STRING, .arg = "WORDS",
           .help = "Words between the launcher and the command: apptainer exec --nv image.sif"),
    OPTION("pin", plan.pin, FLAG, .def = "true",
           .help = "With --threads: pin the command to N cores"),
    OPTION("oversubscribe", plan.oversubscribe, FLAG,
           .help = "Allow more threads or ranks than there are CPUs"),
    OPTION("metric", plan.metric, STRING, .group = "What is compared", .arg = "REGEX",
           .help = "Compare a number that the command prints, not its time: the first group of "
                   "this POSIX extended regular expression"),
    OPTION("match", match, ENUM, .arg = "WHICH", .def = "last", .choices = match_choices,
           .help = "Which match to use when there are several"),
    OPTION("better", better, ENUM, .arg = "WHICH", .choices = stk_better_choices,
           .help = "Whether a lower or a higher value of the metric is better; required unless "
                   "its unit says so, as images/s and seconds do. For a column `value` of "
                   "--from, lower is the default"),
    OPTION("unit", plan.unit, STRING, .arg = "WORDS",
           .help = "What N counts, in the plural, for the output: threads, GPUs"),
    OPTION("runs", runs, STRING, .group = "How often", .arg = "MIN[..MAX]",
           .help = "Runs per N: as many as needed, from MIN to MAX (default 3..20; 3 as Slurm "
                   "jobs)"),
    OPTION("precision", plan.precision, PERCENT, .arg = "P", .def = "2%",
           .help = "Repeat an N until half the width of its 95 % interval is below this"),
    OPTION("budget", plan.budget_s, DURATION, .arg = "TIME", .max = TIME_MAX_S,
           .help = "Start no run that would not end within TIME; jobs that are still pending "
                   "then are cancelled"),
    OPTION("timeout", plan.timeout_s, DURATION, .arg = "TIME", .max = TIME_MAX_S,
           .help = "Stop a run that takes longer, and do not repeat that N"),
    OPTION("warmup", plan.warmup, UNSIGNED, .arg = "K", .max = 1000,
           .help = "Warm-up runs at the largest N (default 1; in jobs 0, and then at the N of "
                   "the job)"),
    OPTION("seed", plan.seed, UNSIGNED, .arg = "N", .def = "1",
           .help = "Seed of the random order and intervals: the same seed gives the same ones"),
    OPTION("via", via, ENUM, .group = "Where", .arg = "WHERE", .def = "local",
           .choices = stk_executor_names,
           .help = "Where to run: on this machine, or as Slurm jobs"),
    OPTION("sbatch", plan.sbatch, LIST, .arg = "OPTION",
           .help = "An option for sbatch, such as --partition=gpu; {n} is replaced; may be "
                   "repeated"),
    OPTION("sbatch-file", sbatch_file, STRING, .arg = "FILE",
           .help = "File with the first part of the batch script: #SBATCH lines, module load and "
                   "so on; stoker adds the line that runs the command"),
    OPTION("gpu-type", plan.gpu_type, STRING, .arg = "NAME",
           .help = "The kind of GPU to request from Slurm, with --gpus"),
    OPTION("jobs-at-once", plan.at_once, UNSIGNED, .arg = "K", .def = "0", .max = 100000,
           .help = "Maximum number of jobs in the queue at a time; 0: all. 1 if the command "
                   "waits for storage that its jobs share"),
    OPTION("detach", plan.detach, FLAG, .incidental = true,
           .help = "Submit the jobs and do not wait; --resume collects the results"),
    OPTION("inside", inside, STRING, .arg = "RUN", .incidental = true, .hidden = true,
           .help = "What a job of a study runs: RUN of the study in --resume DIR"),
    OPTION("output", output, STRING, .group = "The study and its comparisons", .letter = 'o',
           .arg = "DIR", .incidental = true,
           .help = "Folder for the study (default stoker-scale-NAME-TIME in the current "
                   "directory)"),
    OPTION("name", plan.series, STRING, .arg = "NAME",
           .help = "Name of the curve when it is compared with others"),
    OPTION("resume", resume, STRING, .arg = "DIR", .incidental = true,
           .help = "Continue the study in DIR; --n adds to it, and --runs, --precision, "
                   "--budget, --timeout and --jobs-at-once replace its settings"),
    OPTION("retry", retry, FLAG, .incidental = true,
           .help = "With --resume: also repeat runs that failed, ran out of memory or took too "
                   "long; runs that were cancelled or never started are repeated in any case"),
    OPTION("share", plan.share, FLAG, .incidental = true,
           .help = "Let others read the new study, as far as the umask allows; by default only "
                   "you can"),
    OPTION("trust", trust, STRING, .arg = "USER,...", .incidental = true,
           .help = "Run studies of these users (names, numbers, or all) with --resume, as "
                   "yourself, and believe those of --from; without it, --resume shows what it "
                   "would run, and stops"),
    OPTION("from", from, LIST, .arg = "[NAME=]FILE",
           .help = "Read times that were measured elsewhere: a table (n, time, ...), a study or "
                   "result of stoker, or the results of hyperfine, JUBE, ReFrame or sacct -P; - "
                   "is the standard input. Repeat it to compare several"),
    OPTION("columns", columns, STRING, .arg = "NAME=HEADING,...",
           .help = "Which columns of --from are which, if their headings do not say it: "
                   "n=tasks,time=runtime_avg"),
    OPTION("su-weights", su_weights, STRING, .group = "Costs and recommendations", .arg = "WEIGHTS",
           .def = "core=1,gpu=2", .help = "Service units per hour of a core, a gpu and a node"),
    OPTION("site", site, STRING, .arg = "NAME", .help = "Name of the site whose weights these are"),
    OPTION("cores-per-n", plan.cores_per_n, UNSIGNED, .arg = "N", .def = "0", .max = 100000,
           .help = "Cores allocated per N, if the times do not include them"),
    OPTION("gpus-per-n", gpus_per_n, UNSIGNED, .arg = "N", .def = "0", .max = 100000,
           .help = "GPUs allocated per N, if the times do not include them"),
    OPTION("nodes-per-n", nodes_per_n, STRING, .arg = "X",
           .help = "Nodes allocated per N, if the times do not include them; may be a part of "
                   "one, such as 0.25, and is then rounded up"),
    OPTION("deadline", deadline_s, DURATION, .arg = "TIME", .max = TIME_MAX_S,
           .help = "Also recommend the cheapest N that finishes within TIME"),
    OPTION("max-relative-su", max_relative_su, STRING, .arg = "X",
           .help = "Also recommend the fastest N that costs at most X times the SUs of the "
                   "smallest"),
    OPTION("predict", predict, STRING, .arg = "N,...",
           .help = "Predict the time at these N, if the data supports it"),
    OPTION("fit", fit, ENUM, .arg = "HOW", .def = "relative", .choices = fit_choices,
           .help = "Fit laws by relative errors of the time, or by errors of throughput as R's "
                   "usl package does"),
    OPTION("plot", plot, ENUM, .group = "The result", .arg = "WHAT", .def = "speedup",
           .choices = plot_choices, .incidental = true,
           .help = "What to draw over N: the speedup of all curves against the slowest base, the "
                   "time (or metric), or the same with logarithmic axes; --no-plot draws nothing"),
    OPTION("csv", csv, STRING, .arg = "FILE", .incidental = true,
           .help = "Write the table as CSV to FILE"),
    OPTION("save", save, STRING, .arg = "FILE", .incidental = true,
           .help = "Write the times as a study that --from can read"),
    STK_COMMON_OPTIONS,
};

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
    const struct {
        unsigned with; /* enum stk_scale_way */
        const char *const *names;
    } some[] = {
        {RUN | RESUME, (const char *const[]){"n", "runs", "precision", "budget", "timeout",
                                             "jobs-at-once", "detach", "name", NULL}},
        {RUN | READ, (const char *const[]){"weak", "unit", NULL}},
        {RUN, (const char *const[]){"threads", "ranks", "gpus", "nodes", "spread",
                                    "threads-per-rank", "size", "shell", "ranks-per-node",
                                    "prepare", "launcher", "container", "pin", "oversubscribe",
                                    "metric", "match", "warmup", "via", "sbatch", "sbatch-file",
                                    "gpu-type", "output", "share", NULL}},
        {RESUME, (const char *const[]){"retry", NULL}},
    };
    for (size_t i = 0; i < sizeof some / sizeof *some; i++)
        for (const char *const *name = some[i].names; *name && !(some[i].with & s->way); name++)
            if (stk_opts_typed(&s->run->opts, *name))
                return stk_err_set(&s->run->err, STK_E_USAGE, NULL, -1,
                                   s->way == STK_SCALE_RESUMES
                                       ? "--resume continues as planned: --%s cannot be changed"
                                   : some[i].with == RESUME
                                       ? "--%s needs a study to continue: --resume DIR"
                                       : "--%s needs a command to run: put it after --",
                                   *name);
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
