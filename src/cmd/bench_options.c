/* bench_options.c - see bench.h. */
#include "cmd/bench.h"

#include <stdlib.h>
#include <sys/stat.h>

#include "base/spawn.h"
#include "bench/bench.h"
#include "base/dir.h"
#include "base/text.h"
#include "base/units.h"
#include "bench/workload.h"
#include "result/grid.h"

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

/* ---- the list of workloads ------------------------------------------------------------------- */

#define SUFFIX    ".yaml"
#define LISTED    64 /* at most */
#define ONE_OF_US "workloads/imagenet" SUFFIX

struct names {
    char *name[LISTED + 1]; /* NULL after the last */
    size_t n;
};

static void release_names(struct names *list)
{
    for (size_t i = 0; i < list->n; i++)
        free(list->name[i]);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool is_workload(const char *name)
{
    size_t n = strlen(name), suffix = strlen(SUFFIX);
    return n > suffix && *name != '.' && strcmp(name + n - suffix, SUFFIX) == 0;
}

static int find_names(const char *folder, struct names *list, struct stk_err *err)
{
    struct stk_dir d;
    int rc = stk_dir_open(&d, folder, err);
    for (const struct dirent *e; list->n < LISTED && (e = stk_dir_next(&d));) {
        char *copy = is_workload(e->d_name) ? strdup(e->d_name) : NULL;
        if (copy)
            list->name[list->n++] = copy;
    }
    qsort(list->name, list->n, sizeof *list->name, by_name);
    return stk_dir_end(&d, rc, err);
}

/* Without compression and what a format adds. */
static double data_bytes(const struct stk_workload *w)
{
    if (w->dataset.format == STK_BENCH_NONE)
        return 0;
    return (double)w->dataset.files * (double)w->dataset.samples_per_file *
           stk_dist_mean(&w->dataset.record);
}

static int read_one(const char *path, bool small, struct stk_workload *w, struct stk_err *err)
{
    int rc = stk_workload_read(path, small, w, err);
    return rc ? rc : stk_workload_settle(w, err);
}

static const char *size_text(double bytes, char *buf, size_t n)
{
    if (bytes > 0)
        return stk_format_size((uint64_t)bytes, buf, n);
    return "no data";
}

static int list_one(struct stk_run *run, const char *path, struct stk_grid *t)
{
    struct stk_workload w = {0}, small = {0};
    char ranks[32], data[32], little[32];
    int rc = read_one(path, false, &w, &run->err);
    rc = rc ? rc : read_one(path, true, &small, &run->err);
    if (rc == 0) {
        snprintf(ranks, sizeof ranks, "%llu", (unsigned long long)w.training.ranks);
        stk_grid_row(t, w.name, ranks, size_text(data_bytes(&w), data, sizeof data),
                     size_text(data_bytes(&small), little, sizeof little), w.description);
        stk_jw_open(&run->json, '{');
        stk_jw_put_str(&run->json, "name", w.name);
        stk_jw_put_str(&run->json, "description", w.description);
        stk_jw_put_str(&run->json, "path", path);
        stk_jw_put_u64(&run->json, "ranks", w.training.ranks);
        stk_jw_put_u64(&run->json, "bytes", (uint64_t)data_bytes(&w));
        stk_jw_put_u64(&run->json, "small_bytes", (uint64_t)data_bytes(&small));
        stk_jw_close(&run->json, '}');
    }
    stk_workload_release(&w);
    stk_workload_release(&small);
    return rc;
}

static int list_folder(struct stk_run *run, const char *folder, struct stk_buf *out)
{
    struct names list = {0};
    struct stk_grid t;
    char path[4400];
    int rc = find_names(folder, &list, &run->err);
    stk_grid_init(&t, "lrrrl");
    stk_grid_row(&t, "NAME", "RANKS", "DATA", "--small", "");
    stk_jw_key(&run->json, "workloads");
    stk_jw_open(&run->json, '[');
    for (size_t i = 0; i < list.n && rc == 0; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, list.name[i]);
        rc = list_one(run, path, &t);
    }
    stk_jw_close(&run->json, ']');
    stk_grid_render(&t, 0, out);
    stk_grid_release(&t);
    release_names(&list);
    return rc;
}

/* NULL: this installation has none. Caller frees with free(). */
static char *find_folder(void)
{
    char *folder = stk_installed(ONE_OF_US);
    char *end = folder ? strrchr(folder, '/') : NULL;
    if (end)
        *end = '\0';
    return folder;
}

const char *stk_bench_nearest(const char *name, char *buf, size_t n)
{
    char *folder = find_folder();
    struct names list = {0};
    if (folder)
        (void)find_names(folder, &list, NULL); /* a hint */
    for (size_t i = 0; i < list.n; i++)
        list.name[i][strlen(list.name[i]) - strlen(SUFFIX)] = '\0';
    const char *near = stk_text_nearest(name, (const char *const *)list.name);
    snprintf(buf, n, "%s", near ? near : "");
    release_names(&list);
    free(folder);
    return near ? buf : NULL;
}

int stk_bench_list(struct stk_run *run)
{
    struct stk_buf out = STK_BUF_INIT;
    char *folder = find_folder();
    if (!folder)
        return stk_err_set(&run->err, STK_E_SYS, NULL, -1,
                           "%s is not there: this installation of stoker is incomplete", ONE_OF_US);
    int rc = list_folder(run, folder, &out);
    free(folder);
    if (rc == 0)
        return stk_say_text(run, &out);
    stk_buf_release(&out);
    return rc;
}
