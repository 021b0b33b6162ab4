/* bench.c - `stoker bench`: replays the I/O of a training job and says how busy it keeps the
 * accelerators. */
#include "cmd/bench.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/units.h"
#include "bench/bench.h"
#include "host/cpus.h"
#include "report/bench.h"
#include "report/results.h"

/* ---- progress ------------------------------------------------------------------------------- */

static int on_file(void *user, uint64_t files, uint64_t total)
{
    struct stk_run *run = user;
    return stk_progress_update(&run->progress, "generate", 0, 0, files, total);
}

static int on_removed(void *user, uint64_t files, uint64_t total)
{
    struct stk_run *run = user;
    return stk_progress_update(&run->progress, "remove", 0, 0, files, total);
}

static pid_t run_pid; /* of the process that speaks */

/* From here on the run ends by itself, however long its ranks take. */
static int on_stop(void *user, const struct stk_bench_live *live)
{
    struct stk_run *run = user;
    (void)live;
    if (stk_stop_signal())
        run->cleans_up = true;
    return stk_stop_signal();
}

/* The progress of forked ranks is that of the first: theirs would be drawn over it. */
static int on_step(void *user, const struct stk_bench_live *live)
{
    struct stk_run *run = user;
    if (getpid() != run_pid || stk_stop_signal())
        return on_stop(user, live);
    char line[200], wait[32];
    snprintf(line, sizeof line,
             "step %llu of %llu, %.0f samples/s, %.1f %% computing; slowest: rank %lu, waited %s",
             (unsigned long long)live->step, (unsigned long long)live->steps, live->samples_per_s,
             100 * live->utilisation, (unsigned long)live->slowest,
             stk_format_duration(live->slowest_wait_s, wait, sizeof wait));
    return stk_progress_say(&run->progress, line);
}

/* ---- the run -------------------------------------------------------------------------------- */

/* Ranks of one node share its cores. */
static unsigned jobs_of(const struct stk_bench_settings *s)
{
    unsigned here = 0, cpus = stk_cpus();
    if (s->jobs || !s->comm)
        return s->jobs ? (unsigned)s->jobs : cpus;
    uint32_t node = stk_comm_node(s->comm, stk_comm_rank(s->comm));
    for (uint32_t i = 0; i < stk_comm_size(s->comm); i++)
        here += stk_comm_node(s->comm, i) == node;
    return cpus > here ? cpus / here : 1;
}

static int open_data(struct stk_run *run, const struct stk_workload *w, const char *dir,
                     struct stk_bench_data *d)
{
    struct stk_bench_settings *s = run->settings;
    bool generates = dir && (s->generate || s->generate_only);
    run->progress.counted = "files";
    int rc = !dir ? stk_bench_data_users(d, w, &run->err)
             : generates
                 ? stk_bench_data_generate(d, w, dir, jobs_of(s), s->comm, on_file, run, &run->err)
                 : stk_bench_data_open_within(d, w, dir, s->patience, s->comm, &run->err);
    s->not_generated = generates && rc < 0;
    stk_progress_clear(&run->progress);
    if (rc < 0 && s->comm && stk_comm_lost(s->comm, NULL, 0) < 0)
        stk_comm_give_up(s->comm, run->err.what);
    return rc;
}

/* What DLIO's file asks for beside the I/O. */
static void put_dlio(struct stk_run *run, const struct stk_bench_result *r, struct stk_buf *out)
{
    struct stk_bench_settings *s = run->settings;
    const char *unused = stk_buf_cstr(&s->theirs.unused);
    if (s->theirs.au > 0 && r->lost < 0) {
        bool met = r->mlperf >= s->theirs.au;
        stk_buf_printf(out, "metric.au %.0f %% of the file: %s\n", 100 * s->theirs.au,
                       met ? "met" : "not met");
        stk_jw_put_bool(&run->json, "dlio_au_met", met);
    }
    if (*unused)
        stk_buf_printf(out, "keys of DLIO without effect on this I/O: %s\n", unused);
    stk_jw_put_str(&run->json, "dlio_keys_without_effect", unused);
}

static int show_result(struct stk_run *run, const struct stk_bench_result *r)
{
    const struct stk_bench_settings *s = run->settings;
    struct stk_buf out = STK_BUF_INIT;
    if (!r->rank)
        return STK_EXIT_DONE;
    int rc = stk_say_result(run, &stk_bench_kind, r, NULL);
    if (s->dlio)
        put_dlio(run, r, &out);
    int said = stk_say_text(run, &out);
    rc = rc ? rc : said;
    return rc ? rc : r->lost >= 0 ? STK_EXIT_PARTLY : STK_EXIT_DONE;
}

/* Ctrl-C reaches all ranks, and the one that ends first is not lost. */
static int check_stop(struct stk_run *run, int64_t lost)
{
    return lost >= 0 && stk_stop_signal()
               ? stk_err_set(&run->err, STK_E_STOPPED, NULL, -1, "stopped")
               : 0;
}

/* Closes the screen before the result is printed. */
static int run_single(struct stk_run *run, struct stk_bench_config *c,
                      struct stk_bench_screen *screen)
{
    const struct stk_bench_settings *s = run->settings;
    struct stk_bench_result r = {.lost = -1};
    int rc = stk_bench_run(c, (uint32_t)c->w->training.ranks, !s->no_calibration, &r, &run->err);
    stk_bench_screen_close(screen);
    stk_progress_clear(&run->progress);
    rc = rc ? rc : check_stop(run, r.lost);
    rc = rc ? rc : show_result(run, &r);
    stk_bench_release(&r);
    return rc;
}

#define RANKS_TRIED 64 /* by --find-max without --ranks */

/* The neighbour's workload and data; then both. */
static int run_beside(struct stk_run *run, struct stk_bench_config *c, struct stk_workload *w,
                      struct stk_workload *other, struct stk_bench_data *d,
                      struct stk_series *series)
{
    const struct stk_bench_settings *s = run->settings;
    if (s->comm || !s->neighbour_data)
        return stk_err_set(&run->err, STK_E_USAGE, NULL, -1,
                           s->comm ? "--neighbour runs on this machine: use --ranks N"
                                   : "--neighbour needs --neighbour-data DIR");
    int rc = stk_bench_read(run, s->neighbour, other);
    rc = rc ? rc : stk_workload_settle(other, &run->err);
    rc = rc ? rc : open_data(run, other, s->neighbour_data, d);
    struct stk_bench_config beside = {.w = other, .data = d, .patience_s = s->patience};
    beside.model = c->model;
    return rc ? rc
              : stk_series_neighbour(c, w, &beside, (uint32_t)other->training.ranks, series,
                                     &run->err);
}

static int run_any_series(struct stk_run *run, struct stk_bench_config *c, struct stk_workload *w,
                          struct stk_workload *other, struct stk_series *series)
{
    const struct stk_bench_settings *s = run->settings;
    struct stk_bench_data d = STK_BENCH_DATA_INIT;
    uint32_t limit = s->ranks ? (uint32_t)s->ranks : RANKS_TRIED;
    if (w->access.sharing == STK_SHARING_OWN && w->dataset.files < limit)
        limit = (uint32_t)w->dataset.files;
    if (s->find_max)
        return stk_series_find_max(c, w, s->au, limit, series, &run->err);
    if (s->sweep)
        return stk_series_sweep(c, w, (const char *const *)s->sweep, series, &run->err);
    int rc = run_beside(run, c, w, other, &d, series);
    stk_bench_data_close(&d);
    return rc;
}

static int run_series(struct stk_run *run, struct stk_bench_config *c, struct stk_workload *w,
                      struct stk_bench_screen *screen)
{
    struct stk_series series = {.lost = -1};
    struct stk_workload other = {0};
    c->tick = on_stop;
    int rc = run_any_series(run, c, w, &other, &series);
    stk_bench_screen_close(screen);
    rc = rc ? rc : check_stop(run, series.lost);
    if (rc == 0 && (series.n || series.unjudged))
        rc = stk_say_result(run,
                            series.au > 0      ? &stk_search_kind
                            : series.neighbour ? &stk_beside_kind
                                               : &stk_sweep_kind,
                            &series, NULL);
    rc = rc ? rc : series.lost >= 0 ? STK_EXIT_PARTLY : STK_EXIT_DONE;
    stk_series_release(&series);
    stk_workload_release(&other);
    return rc;
}

/* Modelled storage and a virtual clock leave nothing to watch. */
static int run_shown(struct stk_run *run, struct stk_bench_config *c, struct stk_workload *w)
{
    const struct stk_bench_settings *s = run->settings;
    bool first = !s->comm || stk_comm_rank(s->comm) == 0;
    struct stk_bench_screen screen;
    /* A replay of the user's own files has no data folder: nothing is written beside them. */
    bool silent = c->model.is_virtual || !s->data;
    const char *status = silent && !s->status ? "none" : s->status;
    int rc = stk_bench_screen_open(run, &screen, status, s->data, w, c->stoker, first);
    c->board = &screen.board;
    if (stk_bench_screen_draws(&screen))
        c->tick = on_stop;
    if (rc == 0)
        rc = s->find_max || s->sweep || s->neighbour ? run_series(run, c, w, &screen)
                                                     : run_single(run, c, &screen);
    stk_bench_screen_close(&screen);
    return rc;
}

static int run_on(struct stk_run *run, struct stk_workload *w, const struct stk_bench_data *d)
{
    const struct stk_bench_settings *s = run->settings;
    struct stk_bench_config c = {.data = d, .comm = s->comm, .tick = on_step, .user = run};
    c.patience_s = s->patience;
    run_pid = getpid();
    int rc = 0;
    if (s->find_max && s->comm)
        rc = stk_err_set(&run->err, STK_E_USAGE, NULL, -1,
                         "--find-max changes the number of ranks: run it without mpirun or srun");
    rc = rc ? rc
            : stk_bench_configure(&c, w, s->reader == STK_READER_STOKER, s->model, &run->err);
    if (rc < 0)
        return rc;
    return run_shown(run, &c, w);
}

/* The workload needs no --data: it reads files that exist, those of dataset.path or of groups with
 * absolute paths, or it only writes checkpoints, elsewhere. */
static bool has_own_files(const struct stk_bench_settings *s, const struct stk_workload *w)
{
    bool users = w->dataset.path || (w->ngroups && *w->group[0].path == '/') ||
                 (w->reader.path && s->reader == STK_READER_STOKER) ||
                 (w->dataset.format == STK_BENCH_NONE && w->checkpoint.dir);
    return users && !s->generate && !s->generate_only;
}

static int run_workload(struct stk_run *run)
{
    struct stk_bench_settings *s = run->settings;
    struct stk_workload w = {0};
    struct stk_bench_data d = STK_BENCH_DATA_INIT;
    int rc = stk_bench_workload(run, &w);
    if (rc == 0 && s->show) {
        struct stk_buf out = STK_BUF_INIT;
        stk_workload_text(&w, &out);
        stk_workload_json(&w, &run->json);
        rc = stk_say_text(run, &out);
    } else if (rc == 0 && !s->data && !has_own_files(s, &w)) {
        rc = stk_err_set(&run->err, STK_E_USAGE, NULL, -1, "--data DIR is missing%s",
                         s->generate || s->generate_only ? ": nothing is generated in the folders "
                                                           "of the user"
                                                         : "");
    } else if (rc == 0) {
        rc = open_data(run, &w, s->data, &d);
        if (rc == 0 && s->generate_only) {
            stk_say(run, "%llu files generated, %llu were there\n", (unsigned long long)d.made,
                    (unsigned long long)d.kept);
            stk_jw_put_u64(&run->json, "generated", d.made);
            stk_jw_put_u64(&run->json, "kept", d.kept);
        }
        rc = rc || s->generate_only ? rc : run_on(run, &w, &d);
    }
    stk_bench_data_close(&d);
    stk_workload_release(&w);
    stk_dlio_release(&s->theirs);
    return rc;
}

static int run_clean(struct stk_run *run)
{
    const struct stk_bench_settings *s = run->settings;
    uint64_t files = 0;
    struct stk_left left = {0};
    if (!s->data)
        return stk_err_set(&run->err, STK_E_USAGE, NULL, -1, "--clean needs --data DIR");
    char *board = stk_path_join(s->data, STK_BENCH_BOARD);
    if (board)
        stk_bench_board_clean(board);
    free(board);
    run->progress.counted = "files";
    int rc = stk_bench_data_clean(s->data, on_removed, run, &files, &left, &run->err);
    stk_progress_clear(&run->progress);
    if (rc == 0)
        stk_say(run, "removed %llu file%s\n", (unsigned long long)files, files == 1 ? "" : "s");
    if (rc == 0 && left.n)
        stk_say(run, "%s/%s stays there: stoker bench did not make it\n", s->data, left.first);
    stk_jw_put_u64(&run->json, "removed", files);
    return rc;
}

#define COMPARED 8 /* results, at most */

static int run_compare(struct stk_run *run)
{
    struct stk_result_file file[COMPARED] = {0};
    const struct stk_jval *result[COMPARED];
    const struct stk_results all = {result, run->opts.arg, run->opts.nargs};
    int rc = all.n >= 2 && all.n <= COMPARED
                 ? 0
                 : stk_err_set(&run->err, STK_E_USAGE, NULL, -1,
                               "--compare takes from 2 to %d results", COMPARED);
    size_t n = 0;
    while (n < all.n && !rc) {
        rc = stk_result_file_open(all.name[n], &file[n], &run->err);
        result[n] = file[n].result;
        if (!rc && (file[n].kind != &stk_bench_kind || !stk_json_get(result[n], "utilisation")))
            rc = stk_err_set(&run->err, STK_E_CORRUPT, all.name[n], -1,
                             "is not the result of a run of stoker bench");
        n++;
    }
    rc = rc ? rc : stk_say_result(run, &stk_benches_kind, &all, NULL);
    while (n)
        stk_result_file_release(&file[--n]);
    return rc;
}

/* Under mpirun or srun every process is a rank; only the first speaks. */
static int join(struct stk_run *run)
{
    struct stk_bench_settings *s = run->settings;
    if (s->ranks)
        return 0;
    const struct stk_comm_options with_files = {.files = true};
    int rc = stk_comm_open(&with_files, &s->comm, &run->err);
    if (rc < 0)
        return rc;
    if (*stk_comm_lacks(s->comm))
        return stk_err_set(&run->err, STK_E_UNSUPPORTED, NULL, -1, "%s; or use --ranks N",
                           stk_comm_lacks(s->comm));
    if (stk_comm_size(s->comm) < 2) {
        stk_comm_close(s->comm);
        s->comm = NULL;
    } else if (stk_comm_rank(s->comm) != 0) {
        s->common.json = NULL;
        s->common.quiet = true;
    }
    return 0;
}

static int run_bench(struct stk_run *run)
{
    struct stk_bench_settings *s = run->settings;
    if (s->list)
        return stk_bench_list(run);
    if (s->clean)
        return run_clean(run);
    if (s->compare)
        return run_compare(run);
    if (!run->opts.nargs && !s->dlio)
        return stk_err_set(&run->err, STK_E_USAGE, NULL, -1,
                           "WORKLOAD is missing: a file, or the name of one that comes with "
                           "stoker (stoker bench --list)");
    int rc = join(run);
    rc = rc ? rc : run_workload(run);
    stk_comm_close(s->comm);
    s->comm = NULL;
    return rc;
}

static const char *hint(const struct stk_run *run)
{
    const struct stk_bench_settings *s = run->settings;
    bool full = s->not_generated && run->err.code == STK_E_SYS &&
                (run->err.sys_errno == ENOSPC || run->err.sys_errno == EDQUOT);
    return full ? "free some space and run the same command again: --generate resumes" : NULL;
}

static const struct stk_example examples[] = {
    {"stoker bench imagenet --small --data /scratch/b --generate", "try it in seconds"},
    {"stoker bench job.yaml --data /scratch/b --ranks 8", "eight accelerators' worth of I/O"},
    {"stoker bench job.yaml --data /scratch/b --reader stoker", "the same with stoker's loader"},
    {"stoker bench --clean --data /scratch/b", "remove the dataset again"},
    {NULL, NULL},
};

const struct stk_cmd stk_cmd_bench = {
    .name = "bench",
    .summary = "replay a training job's I/O: how busy the accelerators stay",
    .args = "[WORKLOAD] [KEY=VALUE...]",
    .description =
        "Replays the I/O of the training job that WORKLOAD describes, on the dataset in --data, "
        "with the computing of each step as a time to wait for. WORKLOAD is a YAML file, or the "
        "name of one that comes with stoker: imagenet, cosmictagger, ffn, climate, cosmoflow, "
        "candle, l2hmc, bert, mmaadsp, frnn, imagetext, llama8b.\n\n"
        "Ranks are processes of this machine, or those that mpirun or srun started. Each reads its "
        "samples as the application would "
        "(TFRecord, CSV and tar as streams through a buffer, HDF5 through libhdf5, NPZ, JSON and "
        "single files whole) or, with --reader stoker, as stoker's loader does.",
    .examples = examples,
    .options = stk_bench_options,
    .settings_size = sizeof(struct stk_bench_settings),
    .run = run_bench,
    .hint = hint,
    .keys = stk_workload_keys,
};
