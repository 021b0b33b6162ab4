/* bench_options.c - see bench.h. */
#include "cmd/bench.h"

#include <stdlib.h>
#include <sys/stat.h>

#include "base/installed.h"
#include "bench/bench.h"
#include "cmd/bench_list.h"

static const char *const readers[] = {"application", "stoker", NULL}; /* stk_bench_reader */

#define OPTION(...) STK_OPT_OF(struct stk_bench_settings, 0, __VA_ARGS__)

const struct stk_opt stk_bench_options[] = {
    OPTION("data", data, STRING, .letter = 'd', .arg = "DIR", .path = true, .group = "The data",
           .help = "Folder of the dataset"),
    OPTION("generate", generate, FLAG, .help = "Generate the dataset first, or the rest of it"),
    OPTION("generate-only", generate_only, FLAG, .help = "Generate the dataset and run nothing"),
    OPTION("clean", clean, FLAG,
           .help = "Remove what was generated in --data, and nothing else; needs no workload"),
    OPTION("jobs", jobs, UNSIGNED, .letter = 'j', .arg = "N", .max = 1024, .incidental = true,
           .help = "Threads that generate (default: one per core)"),
    OPTION("dlio", dlio, STRING, .arg = "FILE", .path = true, .group = "The workload",
           .help = "Read a workload file of DLIO or MLPerf Storage instead; the arguments change "
                   "its keys (reader.batch_size=4)"),
    OPTION("list", list, FLAG, .letter = 'l',
           .help = "List the workloads that come with stoker, and run nothing"),
    OPTION("small", small, FLAG, .help = "Use the workload's small variant, which runs in seconds"),
    OPTION("scale", scale, PERCENT, .arg = "PERCENT", .max = 100,
           .help = "Use this share of the files, samples and steps"),
    OPTION("ranks", ranks, UNSIGNED, .arg = "N", .max = 4096,
           .help = "Processes on this machine, one per accelerator (default: those that mpirun "
                   "or srun started, else training.ranks)"),
    OPTION("set", set, LIST, .letter = 's', .arg = "KEY=VALUE",
           .help = "Change a key of the workload, such as training.batch=8, or batch=8 if no "
                   "other key ends in that word; may be repeated"),
    OPTION("reader", reader, ENUM, .arg = "WAY", .def = "application", .choices = readers,
           .help = "Read as the application does, or with stoker's loader"),
    OPTION("sweep", sweep, LIST, .arg = "KEY=A,B,...", .group = "Several runs",
           .help = "Run with each of these values, such as reader.threads=1,2,4; repeated: with "
                   "every combination"),
    OPTION("find-max", find_max, FLAG,
           .help = "Find the most accelerators, up to --ranks, that this storage keeps busy"),
    OPTION("au", au, PERCENT, .arg = "PERCENT", .def = "90", .min = 1, .max = 100,
           .help = "For --find-max: the least utilisation, as MLPerf Storage counts it"),
    OPTION("neighbour", neighbour, STRING, .arg = "WORKLOAD",
           .help = "Run alone, then again with the I/O of this workload beside it"),
    OPTION("neighbour-data", neighbour_data, STRING, .arg = "DIR", .path = true,
           .help = "Folder of the neighbour's dataset; --generate generates it, too"),
    OPTION("compare", compare, FLAG,
           .help = "Show results (files of --json) side by side; the arguments are their names"),
    OPTION("patience", patience, DURATION, .arg = "TIME", .def = "5m", .min = 1, .max = 86400,
           .incidental = true, .group = "Other",
           .help = "A rank that waits longer than this for storage hangs, and ends the run"),
    OPTION("status", status, STRING, .arg = "DIR", .path = true, .incidental = true,
           .help = "Folder for the files that `stoker watch DIR` shows (default: " STK_BENCH_BOARD
                   " in --data; none: no such files); removed at the end"),
    OPTION("no-calibration", no_calibration, FLAG, .hidden = true,
           .help = "Leave out the run without I/O"),
    OPTION("virtual-storage", model, STRING, .arg = "RATE,LATENCY[,shared]", .hidden = true,
           .help = "Modelled storage and a virtual clock, for tests"),
    OPTION("show-workload", show, FLAG,
           .help = "Print every key of the workload with its value, and run nothing"),
    STK_COMMON_OPTIONS,
};

/* ---- the workload --------------------------------------------------------------------------- */

int stk_bench_read(struct stk_run *run, const char *name, struct stk_workload *w)
{
    const struct stk_bench_settings *s = run->settings;
    char beside[300];
    snprintf(beside, sizeof beside, "workloads/%.200s.yaml", name);
    struct stat st;
    /* A folder of that name is the data of an earlier run. */
    bool named = !strchr(name, '/') && (stat(name, &st) != 0 || S_ISDIR(st.st_mode));
    char *found = named ? stk_installed(beside) : NULL;
    char meant[64];
    const char *near = named && !found ? stk_bench_nearest(name, meant, sizeof meant) : NULL;
    if (named && !found)
        return stk_err_set(&run->err, STK_E_USAGE, NULL, -1,
                           "%.200s: there is no such file, and no workload of that name comes with "
                           "stoker; %s%s%s",
                           name, near ? "did you mean " : "stoker bench --list shows them",
                           near ? near : "", near ? "?" : "");
    int rc = stk_workload_read(found ? found : name, s->small, w, &run->err);
    free(found);
    return rc;
}

static int read_any(struct stk_run *run, struct stk_workload *w)
{
    struct stk_bench_settings *s = run->settings;
    size_t n = run->opts.nargs;
    if (s->dlio) {
        int rc = stk_dlio_read(s->dlio, run->opts.arg, n, w, &s->theirs, &run->err);
        s->generate = s->generate || s->theirs.generate;
        s->generate_only = s->generate_only || s->theirs.generate_only;
        s->data = s->data ? s->data : s->theirs.data;
        return rc;
    }
    int rc = stk_bench_read(run, run->opts.arg[0], w);
    for (size_t i = 1; i < n && rc == 0; i++)
        rc = stk_workload_set(w, run->opts.arg[i], &run->err);
    return rc;
}

int stk_bench_workload(struct stk_run *run, struct stk_workload *w)
{
    const struct stk_bench_settings *s = run->settings;
    int rc = read_any(run, w);
    for (const char **p = s->set; rc == 0 && p && *p; p++)
        rc = stk_workload_set(w, *p, &run->err);
    if (rc == 0 && s->comm)
        w->training.ranks = stk_comm_size(s->comm);
    else if (rc == 0 && s->ranks)
        w->training.ranks = s->ranks;
    rc = rc ? rc : stk_workload_settle(w, &run->err);
    if (rc == 0 && s->scale > 0) {
        stk_workload_scale(w, s->scale);
        rc = stk_workload_settle(w, &run->err);
    }
    struct stk_bench_plan plan;
    return rc ? rc : stk_bench_plan(&plan, w, 0, w->training.ranks, &run->err);
}
