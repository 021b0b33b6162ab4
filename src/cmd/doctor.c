/* doctor.c - `stoker doctor`: what this node has for datasets, how fast it is, and what is missing.
 */
#include "cmd/cmd.h"

#include <stdlib.h>

#include "report/node.h"
#include "format/jail.h"
#include "stage/survey.h"

struct settings {
    struct stk_common common;
    bool quick;
    double limit_s;
    const char *mpicc;
};

#define OPTION(...) STK_OPT_OF(struct settings, 0, __VA_ARGS__)

static const struct stk_opt options[] = {
    OPTION("quick", quick, FLAG, .help = "Measure nothing and write nothing"),
    OPTION("build-mpi", mpicc, STRING, .arg = "MPICC",
           .help = "Build a module for the MPI of this compiler first (mpicc, or its path), so "
                   "that `stoker stage` under srun or mpirun reads the source once for all nodes"),
    OPTION("answer-limit", limit_s, DURATION, .arg = "TIME", .def = "3s", .incidental = true,
           .help = "Time a file system has to answer; after that it counts as one that does not"),
    STK_COMMON_OPTIONS,
};

static int stopped(void *user)
{
    (void)user;
    return stk_stop_signal();
}

static void tell(void *user)
{
    const struct stk_run *run = user;
    if (!run->common->quiet)
        stk_complain("doctor", "measuring storage takes a few seconds; --quick does without");
}

static int show(struct stk_run *run, const struct stk_survey *survey)
{
    struct stk_build_part part[STK_BUILD_PARTS_MAX];
    struct stk_build build = {part, stk_list_parts(part), stk_jail_locks()};
    struct stk_doctor d = {survey, &build};
    return stk_say_result(run, &stk_doctor_kind, &d, NULL);
}

static int build_mpi(struct stk_run *run, const char *mpicc)
{
    struct stk_comm_module m = {0};
    struct stk_buf text = STK_BUF_INIT;
    int rc = stk_comm_build(mpicc, &m, &run->err);
    if (rc)
        return rc;
    stk_buf_printf(&text, "built a module for %s: %s", m.library, m.path);
    if (!run->common->quiet)
        stk_complain("doctor", stk_buf_cstr(&text));
    stk_jw_put_str(&run->json, "built", m.path);
    stk_buf_release(&text);
    return 0;
}

static int run_doctor(struct stk_run *run)
{
    const struct settings *s = run->settings;
    int rc = s->mpicc ? build_mpi(run, s->mpicc) : 0;
    if (rc)
        return rc;
    struct stk_survey_options o = {.path = run->opts.arg,
                                   .npaths = run->opts.nargs,
                                   .quick = s->quick,
                                   .limit = {s->limit_s, stopped, run},
                                   .tell = tell};
    struct stk_survey *survey = calloc(1, sizeof *survey); /* too large for the stack */
    if (!survey)
        return stk_err_nomem(&run->err, sizeof *survey);
    rc = stk_survey_take(&o, survey, &run->err);
    rc = rc ? rc : show(run, survey);
    stk_survey_release(survey);
    free(survey);
    return rc;
}

static const struct stk_example examples[] = {
    {"stoker doctor", "the node, and where copies would go"},
    {"stoker doctor /data/imagenet", "also how fast this dataset can be read"},
    {"stoker doctor --build-mpi mpicc", "after `module load openmpi`: a module for that MPI"},
    {"stoker doctor --quick --json -", "without measuring, for a script"},
    {NULL, NULL},
};

const struct stk_cmd stk_cmd_doctor = {
    .name = "doctor",
    .summary = "what this node has, how fast its storage is, what is missing",
    .args = "[PATH...]",
    .description =
        "Prints on one screen: the file systems that hold the given paths, the current folder, "
        "your home and the folders for copies, with type, free space, quota and stripes; their "
        "speed; where `stoker stage` would put a copy, and why; CPUs, memory, GPUs, io_uring, "
        "Slurm, MPI and tiers as far as this job may use them; what is missing, and what it would "
        "give.\n\n"
        "Measuring takes two seconds or so for each file system. It reads files of the given "
        "paths, and elsewhere writes up to 130 MiB into a new folder, which it removes again, also "
        "if you interrupt it. It never counts the page cache of the node as storage. With --quick, "
        "it measures and writes nothing.\n\n"
        "A file system that does not answer does not stop it. What is not known is reported as "
        "not known. The exit status is 0, whatever it finds.",
    .examples = examples,
    .options = options,
    .settings_size = sizeof(struct settings),
    .wary = true,
    .run = run_doctor,
};
