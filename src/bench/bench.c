/* bench.c - see bench.h. */
#include "bench/bench.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/pool.h"
#include "base/spawn.h"
#include "base/stats.h"
#include "bench/rank.h"
#include "host/fs.h"

#define TAG_RESULT        1
#define CALIBRATION_S     1.0 /* about as long */
#define CALIBRATION_MAX   200 /* steps */
#define CALIBRATION_MIN   5
#define CALIBRATION_TRIES 3

void stk_bench_release(struct stk_bench_result *r)
{
    free(r->rank);
    *r = (struct stk_bench_result){.lost = -1};
}

/* ---- one rank ------------------------------------------------------------------------------- */

static int calibrate_once(const struct stk_bench_config *c, struct stk_bench_rank *space,
                          struct stk_bench_calibration *out, struct stk_err *err)
{
    struct stk_bench_config idle = *c;
    double mean = stk_dist_mean(&c->w->training.compute), worst = 0;
    double fit = mean > 0 ? CALIBRATION_S / mean : CALIBRATION_MAX;
    idle.idle = true;
    idle.tick = NULL;
    idle.most_steps = fit > CALIBRATION_MAX   ? CALIBRATION_MAX
                      : fit < CALIBRATION_MIN ? CALIBRATION_MIN
                                              : (uint64_t)fit;
    int rc = stk_bench_run_rank(&idle, space, err);
    double computed = space->compute_s, idle_share = 0;
    /* Warm-up steps compute as well. */
    for (uint64_t k = 0; k < space->steps && k < c->w->training.warmup; k++)
        computed += stk_bench_compute(c->w, space->rank, k);
    if (rc == 0 && space->elapsed_s > 0 && computed < space->elapsed_s)
        idle_share = 1 - computed / space->elapsed_s;
    worst = idle_share;
    if (rc == 0 && stk_comm_size(c->comm) > 1)
        rc = stk_comm_reduce_f64(c->comm, STK_COMM_MAX, &worst, 1, STK_COMM_FOREVER, err);
    *out = (struct stk_bench_calibration){true, space->steps, 1 - worst, mean};
    return rc;
}

/* Another program may take the cores for a moment: the best of some tries is the machine's. All
 * ranks see the same number, and so agree. */
static int calibrate(const struct stk_bench_config *c, struct stk_bench_rank *space,
                     struct stk_bench_calibration *out, struct stk_err *err)
{
    int rc = 0;
    for (int i = 0; i < CALIBRATION_TRIES && rc == 0 && out->utilisation < STK_BENCH_PACE; i++) {
        struct stk_bench_calibration one = {0};
        rc = calibrate_once(c, space, &one, err);
        if (rc == 0 && one.utilisation >= out->utilisation)
            *out = one;
    }
    return rc;
}

static int run_here(const struct stk_bench_config *c, bool with_calibration,
                    struct stk_bench_rank *r, struct stk_bench_calibration *calibration,
                    struct stk_err *err)
{
    int rc = with_calibration && !c->model.is_virtual ? calibrate(c, r, calibration, err) : 0;
    return rc ? rc : stk_bench_run_rank(c, r, err);
}

/* ---- results of all ------------------------------------------------------------------------- */

static int send_result(struct stk_comm *comm, const struct stk_bench_rank *r, struct stk_err *err)
{
    struct stk_comm_msg m = {0};
    int rc = stk_comm_isend(comm, 0, TAG_RESULT, r, sizeof *r, &m, err);
    return rc ? rc : stk_comm_wait(comm, &m, STK_COMM_FOREVER, err);
}

static int collect(struct stk_comm *comm, struct stk_bench_result *out, struct stk_err *err)
{
    int rc = 0;
    for (uint32_t i = 1; i < out->ranks && rc == 0; i++) {
        struct stk_comm_msg m = {0};
        rc = stk_comm_irecv(comm, i, TAG_RESULT, &out->rank[i], sizeof *out->rank, &m, err);
        rc = rc ? rc : stk_comm_wait(comm, &m, STK_COMM_FOREVER, err);
        if (rc == 0 && m.size != sizeof *out->rank)
            rc = stk_err_set(err, STK_E_CORRUPT, NULL, -1, "rank %lu sent half a result",
                             (unsigned long)i);
    }
    return rc;
}

/* ---- processes ------------------------------------------------------------------------------ */

static int run_other(const struct stk_bench_config *c, bool with_calibration, struct stk_err *err)
{
    struct stk_bench_rank *r = calloc(1, sizeof *r);
    struct stk_bench_calibration calibration = {0};
    int rc =
        r ? run_here(c, with_calibration, r, &calibration, err) : stk_err_nomem(err, sizeof *r);
    rc = rc ? rc : send_result(c->comm, r, err);
    if (rc < 0 && stk_comm_lost(c->comm, NULL, 0) < 0) {
        char why[400];
        snprintf(why, sizeof why, "%.190s%s%.190s", err->path, *err->path ? ": " : "", err->what);
        stk_comm_give_up(c->comm, why);
    }
    free(r);
    return rc;
}

/* Rank 0, which speaks for the run, cannot remove what it showed any more: whoever ends last does.
 */
static void clean_up_for_first(const struct stk_bench_config *c)
{
    if (c->board && c->board->path && stk_comm_lost(c->comm, NULL, 0) == 0)
        stk_bench_board_clean(c->board->path);
}

static _Noreturn void child(const struct stk_bench_config *c, bool with_calibration)
{
    struct stk_err err = {0};
    int rc = run_other(c, with_calibration, &err);
    clean_up_for_first(c);
    stk_comm_close(c->comm);
    _exit(rc < 0);
}

/* A lost rank is a result: which one, and why. */
static int judge_end(struct stk_bench_config *c, struct stk_bench_result *out, int rc,
                     struct stk_err *err)
{
    out->lost = rc < 0 ? stk_comm_lost(c->comm, out->why_lost, sizeof out->why_lost) : -1;
    if (rc < 0 && out->lost < 0)
        stk_comm_give_up(c->comm, *err->what ? err->what : "rank 0 failed");
    return out->lost > 0 ? 0 : rc;
}

#define END_S    10.0 /* for ranks to end by themselves once the run is over */
#define KILLED_S 1.0  /* for one that was killed: it may wait for its storage */

/* No rank outlives the run, not even one that hangs. One that is lost (-1: none) does not end by
 * itself. */
static void end_ranks(const int *pid, uint32_t n, int64_t lost)
{
    double until_s = stk_now() + END_S;
    if (lost > 0 && lost < n && pid[lost] > 0)
        kill(pid[lost], SIGKILL);
    for (uint32_t i = 1; i < n; i++) {
        struct stk_child rank = {.pid = pid[i]};
        if (pid[i] > 0 && stk_child_wait_for(&rank, fmax(until_s - stk_now(), 0)) == ETIMEDOUT)
            (void)stk_child_end(&rank, KILLED_S);
    }
}

/* Closes the communicator of ranks that were forked. */
static void end_forked(struct stk_bench_config *c, uint32_t ranks, int64_t lost)
{
    int *pid = c->comm ? calloc(ranks, sizeof *pid) : NULL;
    for (uint32_t i = 1; pid && i < ranks; i++)
        pid[i] = stk_comm_pid(c->comm, i);
    stk_comm_close(c->comm);
    c->comm = NULL;
    if (pid)
        end_ranks(pid, ranks, lost);
    free(pid);
}

static int make_ranks(struct stk_bench_config *c, uint32_t ranks, struct stk_err *err)
{
    if (ranks > 1)
        return stk_comm_fork(ranks, &c->comm, err);
    c->comm = stk_comm_alone();
    return c->comm ? 0 : stk_err_nomem(err, 1);
}

static int run_first(struct stk_bench_config *c, bool with_calibration,
                     struct stk_bench_result *out, struct stk_err *err)
{
    out->rank = calloc(out->ranks, sizeof *out->rank);
    int rc = out->rank ? 0 : stk_err_nomem(err, out->ranks * sizeof *out->rank);
    rc = rc ? rc : run_here(c, with_calibration, &out->rank[0], &out->calibration, err);
    rc = rc ? rc : collect(c->comm, out, err);
    rc = judge_end(c, out, rc, err);
    snprintf(out->kind, sizeof out->kind, "%s", stk_comm_kind(c->comm));
    out->mpiio = c->w->access.sharing == STK_SHARING_COLLECTIVE && stk_comm_has_mpiio(c->comm);
    stk_bench_checkpoint_clean(c, out->ranks);
    if (rc == 0)
        stk_bench_sum(out);
    return rc;
}

int stk_bench_run(struct stk_bench_config *c, uint32_t ranks, bool calibrate_first,
                  struct stk_bench_result *out, struct stk_err *err)
{
    bool forks = !c->comm;
    struct stk_bench_plan plan;
    struct stk_err why = {0};
    *out = (struct stk_bench_result){.w = c->w, .lost = -1};
    out->ranks = forks ? ranks : stk_comm_size(c->comm);
    out->is_virtual = c->model.is_virtual;
    out->fs = c->data && c->data->dir ? stk_fs_of_path(c->data->dir) : NULL;
    if (c->model.storage.read_Bps > 0) {
        double threads = c->w->reader.threads ? (double)c->w->reader.threads : 1;
        c->model.rate_Bps = stk_storage_share_Bps(&c->model.storage, out->ranks * threads);
    }
    out->stoker = c->stoker;
    int rc = stk_bench_plan(&plan, c->w, 0, out->ranks, &why);
    if (rc == 0 && forks)
        rc = make_ranks(c, ranks, &why);
    if (rc == 0 && c->patience_s > 0)
        stk_comm_set_patience(c->comm, c->patience_s);
    bool other = rc == 0 && stk_comm_rank(c->comm) != 0;
    if (other && forks)
        child(c, calibrate_first);
    if (rc == 0)
        rc = other ? run_other(c, calibrate_first, &why) : run_first(c, calibrate_first, out, &why);
    if (forks)
        end_forked(c, out->ranks, out->lost);
    if (rc < 0 && err)
        *err = why;
    return rc;
}

/* ---- sums ----------------------------------------------------------------------------------- */

static void add_rank(struct stk_bench_result *out, const struct stk_bench_rank *r)
{
    double all = r->wall_s + r->load_s + r->head_s;
    double use = stk_bench_utilisation(r);
    stk_io_tally_merge(&out->io, &r->io);
    stk_histogram_merge(&out->step, &r->step);
    stk_course_merge(&out->course, &r->course);
    out->utilisation += use / out->ranks;
    out->utilisation_least = use < out->utilisation_least ? use : out->utilisation_least;
    out->mlperf += stk_bench_mlperf(r) / out->ranks;
    out->wall_s = r->measured_s > out->wall_s ? r->measured_s : out->wall_s;
    out->samples_per_s += (double)r->measured_samples;
    if (all > 0)
        out->io_share += (r->wait_s + r->load_s + r->head_s + r->checkpoint_s) / all / out->ranks;
    if (r->measured_s > 0)
        out->io_share_steps += fmin((r->wait_s + r->checkpoint_s) / r->measured_s, 1) / out->ranks;
    if (r->wait_s > out->rank[out->slowest].wait_s)
        out->slowest = r->rank;
    out->device_bytes =
        r->device_bytes < 0 || out->device_bytes < 0 ? -1 : out->device_bytes + r->device_bytes;
    out->memory_bytes = r->memory_bytes > out->memory_bytes ? r->memory_bytes : out->memory_bytes;
    out->checkpoints = r->checkpoints > out->checkpoints ? r->checkpoints : out->checkpoints;
    out->checkpoint_bytes += r->checkpoint_bytes;
    out->checkpoint_s = r->checkpoint_s > out->checkpoint_s ? r->checkpoint_s : out->checkpoint_s;
    out->restores = r->restores > out->restores ? r->restores : out->restores;
    out->restore_bytes += r->restore_bytes;
    out->restore_s = r->restore_s > out->restore_s ? r->restore_s : out->restore_s;
    if (r->checkpoint_max_s > out->checkpoint_max_s)
        out->checkpoint_max_s = r->checkpoint_max_s;
}

#define STRAGGLES_TIMES 2.0
#define STRAGGLES_SHARE 0.05

bool stk_bench_straggles(const struct stk_bench_result *r, uint32_t rank)
{
    const struct stk_bench_rank *one = &r->rank[rank];
    return r->ranks > 1 && one->wait_s > STRAGGLES_TIMES * r->wait_median_s &&
           one->wait_s > STRAGGLES_SHARE * one->measured_s;
}

static double median_wait(const struct stk_bench_result *r)
{
    double *v = calloc(r->ranks, sizeof *v), m = 0;
    for (uint32_t i = 0; v && i < r->ranks; i++)
        v[i] = r->rank[i].wait_s;
    if (v)
        m = stk_median(v, r->ranks);
    free(v);
    return m;
}

/* Of a request: reading it from the page cache takes a few microseconds, and a large one a second
 * per 2 GB and more; storage behind FUSE or a network takes longer even if it is empty and near. */
#define MEMORY_S   20e-6
#define MEMORY_BPS 1e9

enum stk_bench_source stk_bench_source(const struct stk_bench_result *r)
{
    const struct stk_io_tally *io = &r->io;
    if (!io->bytes || r->is_virtual)
        return STK_BENCH_FROM_NOWHERE;
    if (r->device_bytes >= 0)
        return 2 * (uint64_t)r->device_bytes < io->bytes ? STK_BENCH_FROM_MEMORY
                                                         : STK_BENCH_FROM_STORAGE;
    if (!io->latency.count)
        return STK_BENCH_NOT_COUNTED;
    double median = 1e-9 * (double)stk_histogram_percentile(&io->latency, 0.5);
    double rate = (double)stk_histogram_percentile(&io->rate, 0.5);
    return median > MEMORY_S && rate < MEMORY_BPS ? STK_BENCH_NOT_COUNTED_SLOW
                                                  : STK_BENCH_NOT_COUNTED_FAST;
}

double stk_bench_bytes_per_s(const struct stk_bench_result *r)
{
    bool reads = r->w->reader.load == STK_LOAD_STEP && r->io.samples;
    return reads ? r->samples_per_s * (double)r->io.asked_bytes / (double)r->io.samples : 0;
}

/* Of all measured steps of all ranks. */
static double step_stdev(const struct stk_bench_result *r)
{
    double squares = 0, mean = 1e-9 * stk_histogram_mean(&r->step);
    for (uint32_t i = 0; i < r->ranks; i++)
        squares += r->rank[i].step_square_s;
    double v = r->step.count ? squares / (double)r->step.count - mean * mean : 0;
    return v > 0 ? sqrt(v) : 0;
}

/* Of an epoch, before its first batch, if nothing of it is read ahead: threads that stay are
 * started once for all epochs. */
static double asked_seconds(const struct stk_bench_rank *r, const struct stk_workload *w)
{
    double epochs = (double)w->training.epochs, asked = (double)r->asked;
    if (!r->asked)
        return 0;
    return w->reader.epochs == STK_EPOCHS_RESTART ? r->asked_s / asked
           : w->reader.epochs == STK_EPOCHS_ASKED
               ? (r->asked_s - r->started_s) / asked + r->started_s / epochs
               : r->asked_s / epochs;
}

/* Ranks that read the same samples need as many more steps for all of them; stoker's loader divides
 * them. */
static double epoch_seconds(const struct stk_bench_result *r)
{
    const struct stk_workload *w = r->w;
    struct stk_bench_plan plan;
    double before = 0, asked = 0, wall = r->wall_s;
    uint64_t steps = r->rank[0].measured_steps;
    if (!w || !steps || stk_bench_plan(&plan, w, 0, r->ranks, NULL) < 0)
        return NAN;
    bool same = !r->stoker && w->dataset.format != STK_BENCH_NONE &&
                w->access.sharing != STK_SHARING_OWN && w->access.offsets == STK_OFFSETS_SAME;
    for (uint32_t i = 0; i < r->ranks; i++)
        before = fmax(before, r->rank[i].load_s + r->rank[i].head_s);
    for (uint32_t i = 0; i < r->ranks; i++) { /* the slowest: the others wait for it */
        asked = fmax(asked, asked_seconds(&r->rank[i], w));
        wall = fmin(wall, r->wall_s - r->rank[i].asked_s);
    }
    double passes = same && w->training.scaling == STK_SCALING_STRONG ? r->ranks : 1;
    return wall / (double)steps * (double)plan.steps * passes + asked +
           before / (double)w->training.epochs;
}

void stk_bench_sum(struct stk_bench_result *r)
{
    r->utilisation_least = 1;
    for (uint32_t i = 0; i < r->ranks; i++)
        if (r->lost < 0 || r->rank[i].steps)
            add_rank(r, &r->rank[i]);
    r->wait_median_s = median_wait(r);
    r->step_stdev_s = step_stdev(r);
    r->samples_per_s = r->wall_s > 0 ? r->samples_per_s / r->wall_s : 0;
    r->epoch_s = r->lost < 0 ? epoch_seconds(r) : NAN;
}
