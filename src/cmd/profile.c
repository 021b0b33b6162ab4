/* profile.c - `stoker profile`: run a program, record its I/O, CPU, memory and GPU use. */
#include "cmd/cmd.h"

#include "base/text.h"
#include "record/launch.h"

struct settings {
    struct stk_common common;
    const char *output, *spool;
    const char **include, **exclude;
    double for_s, sample_s, copy_s;
    uint64_t files;
    bool trace, force, share;
};

#define OPTION(...) STK_OPT_OF(struct settings, 0, __VA_ARGS__)

static const struct stk_opt options[] = {
    OPTION("output", output, STRING, .letter = 'o', .arg = "DIR",
           .help = "Folder for the profile; DIR-2, DIR-3 ... if DIR holds the profile of another "
                   "run. Without -o, all tasks of a run share a new folder "
                   "stoker-profile-NAME-... in the current directory"),
    OPTION("trace", trace, FLAG,
           .help = "Record every operation, not only sums; takes 32 bytes per operation"),
    OPTION("for", for_s, DURATION, .arg = "TIME", .max = 3650ull * 86400,
           .help = "Stop recording after TIME; the program keeps running"),
    OPTION("include", include, LIST, .arg = "PATTERN",
           .help = "Record files below this path or matching this glob, even those left out "
                   "otherwise; may be repeated, or separated by commas"),
    OPTION("exclude", exclude, LIST, .arg = "PATTERN",
           .help = "Leave these files out, except for their sum; --include takes precedence"),
    OPTION("files", files, UNSIGNED, .arg = "N", .def = "4096", .min = 1, .max = 1000000,
           .help = "Number of files that a process records one by one; further files are grouped "
                   "by folder and suffix"),
    OPTION("sample", sample_s, DURATION, .arg = "TIME", .def = "1s", .max = 3600,
           .help = "Interval for sampling CPU, memory and GPU, at least 10ms; 0: never"),
    OPTION("spool", spool, STRING, .arg = "DIR",
           .help = "Write logs to this node-local folder first (default for a profile on a "
                   "network file system: $TMPDIR or /tmp)"),
    OPTION("copy-every", copy_s, DURATION, .arg = "TIME", .def = "30s", .min = 1, .max = 86400,
           .help = "Interval for copying logs from the --spool folder"),
    OPTION("force", force, FLAG, .letter = 'f',
           .help = "Replace the profile of another run in DIR, instead of using DIR-2"),
    OPTION("share", share, FLAG,
           .help = "Let others read the profile, as far as the umask allows; by default only you "
                   "can"),
    STK_COMMON_OPTIONS,
};

static void say_notes(const struct stk_run *run, const struct stk_launch_result *r)
{
    for (size_t i = 0; i < r->nnotes && !run->common->quiet; i++)
        stk_complain(run->cmd->name, r->note[i]);
}

/* The first of several tasks speaks for all. */
static void say_where(const struct stk_run *run, const struct stk_launch_result *r)
{
    struct stk_rank rank;
    struct stk_buf b = STK_BUF_INIT;
    if (stk_rank_detect(&rank, NULL) == 0 && rank.world > 1 && rank.rank != 0)
        return;
    stk_quote_shell(&b, r->dir);
    stk_say(run, "stoker: profile in %s; read it with: stoker report %s\n", stk_buf_cstr(&b),
            stk_buf_cstr(&b));
    stk_buf_release(&b);
}

/* Members of the open object. */
static void put_launch(const struct stk_launch_result *r, struct stk_jw *w)
{
    stk_jw_put_str(w, "profile", r->dir);
    stk_jw_put_str(w, "run", r->run);
    stk_jw_put_u64(w, "program_status", (uint64_t)r->status);
    stk_jw_put_known_i64(w, "program_signal", r->signal ? r->signal : -1);
    stk_jw_put_f64(w, "program_seconds", r->seconds);
    stk_jw_put_f64(w, "cpu_s", r->cpu_s);
    stk_jw_put_u64(w, "peak_resident_bytes", r->peak_resident_bytes);
    stk_jw_put_u64(w, "samples", r->readings);
    stk_jw_put_u64(w, "logs", r->logs);
    stk_jw_put_u64(w, "unseen_processes", r->unseen);
    stk_jw_put_str(w, "spool_left", r->spool_left);
    stk_jw_put_strs(w, "notes", r->note, r->nnotes);
}

/* Reports an error of stoker's own; the exit status stays the program's. */
static int own_trouble(struct stk_run *run, int status)
{
    char text[2200];
    stk_complain(run->cmd->name, stk_err_text(&run->err, text, sizeof text));
    return status;
}

static int run_profile(struct stk_run *run)
{
    const struct settings *s = run->settings;
    struct stk_launch_options o = {
        .argv = (char *const *)(uintptr_t)run->opts.arg,
        .dir = s->output,
        .force = s->force,
        .trace = s->trace,
        .for_s = s->for_s,
        .sample_s = s->sample_s,
        .copy_s = s->copy_s,
        .files = s->files,
        .include = (const char *const *)s->include,
        .exclude = (const char *const *)s->exclude,
        .spool = s->spool,
        .share = s->share,
    };
    struct stk_launch *l = NULL;
    struct stk_launch_result r;
    run->out_is_data = true; /* standard output belongs to the program */
    int rc = stk_launch_begin(&o, &l, &r, &run->err);
    if (rc)
        return r.status ? own_trouble(run, r.status) : rc;
    if (r.warning)
        stk_complain(run->cmd->name, r.warning);
    rc = stk_launch_run(l, &r, &run->err);
    put_launch(&r, &run->json);
    say_notes(run, &r);
    if (rc)
        own_trouble(run, r.status);
    else if (r.dir)
        say_where(run, &r);
    run->raise_signal = r.signal;
    stk_launch_free(l);
    return r.status;
}

static const struct stk_example examples[] = {
    {"stoker profile -- python train.py", "see what a training job reads"},
    {"stoker profile --for 5m -o prof -- python train.py", "record the first five minutes only"},
    {"srun -n 8 stoker profile -- python train.py", "eight tasks, one profile"},
    {"stoker profile --trace --include /data -- ./reader", "every operation on files below /data"},
    {NULL, NULL},
};

const struct stk_cmd stk_cmd_profile = {
    .name = "profile",
    .summary = "run a program and record its I/O, CPU, memory and GPU use",
    .args = "CMD [ARG...]",
    .description =
        "Runs CMD with a small preloaded library that counts what CMD and its children do with "
        "files, and samples CPU, memory and GPUs once per second. The result is a folder that "
        "`stoker report` and `stoker advise` read. Nothing is lost when the program is killed.\n"
        "\n"
        "The program keeps its input, output, signals and exit status: when a signal ends the "
        "program, stoker ends by the same signal; 127 means that it was not found, 126 that it "
        "could not be executed. The first word that is not an option starts CMD, with or without "
        "--. stoker's own messages go to standard error, at the end.\n"
        "\n"
        "Under srun or mpirun, put stoker before the program (`srun stoker profile -- CMD`): "
        "tasks of one run share one folder. A program that is statically linked or setuid runs "
        "too, but only the kernel's counters are recorded for it.",
    .examples = examples,
    .options = options,
    .settings_size = sizeof(struct settings),
    .runs_program = true,
    .run = run_profile,
};
