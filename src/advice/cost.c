/*
 * cost.c - what I/O costs this job, from the profile's own numbers: how many seconds of the
 * run one second in a call costs, and the storages it reads from (model.c).
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "host/fs.h"
#include "advice/priv.h"
#include "analysis/parts.h"

/* An unknown name is usually a site's own shared storage ("dvs", "pvfs2"). */
enum stk_reach stk_advice_reach(const char *fs)
{
    if (!fs || !*fs)
        return STK_REACH_UNKNOWN;
    const struct stk_fs *known = stk_fs_by_name(fs);
    return !known || known->network ? STK_REACH_SHARED
           : known->memory          ? STK_REACH_MEMORY
                                    : STK_REACH_LOCAL;
}

bool stk_advice_stripes(const struct stk_usage *u)
{
    const struct stk_fs *known = stk_fs_by_name(u->fs);
    return known && known->stripes;
}

enum stk_reach stk_advice_reach_of(const struct stk_usage *u)
{
    enum stk_reach r = stk_advice_reach(u->fs);
    if (r == STK_REACH_UNKNOWN && u->latency_p50_s > stk_limits.far_read_s &&
        u->mean_read_bytes < (double)stk_limits.unit_read)
        return STK_REACH_SHARED;
    return r;
}

/* ---- seconds ---- */

double stk_advice_load_s(const struct advisor *ad, const struct stk_storage *st, double bytes,
                         double cpu_s, double compute_s)
{
    double own = bytes / ad->ranks, window = stk_loader_window(own);
    struct stk_work w = stk_loader_work(st, own);
    double io = stk_loader_io_s(st, &w, cpu_s, ad->cpus);
    double first = stk_loader_first_s(st, window, ad->ranks, window);
    double hidden = fmax(0, compute_s);
    return stk_loader_start_s(st) + stk_run_ahead_s(hidden, io, first) - hidden;
}

double stk_advice_unpack_s(const struct advisor *ad, const struct stk_usage *u)
{
    double calls_s = 0;
    for (size_t i = u->rec_from; i < u->rec_to; i++)
        if (ad->p->rec[i].api == STK_API_HDF5)
            calls_s += stk_ns(ad->p->rec[i].n.c[STK_C_READ_NS]);
    return fmax(0, calls_s - u->read_s);
}

double stk_advice_wall(const struct advisor *ad, double io_s)
{
    return io_s > 0 ? io_s * ad->wall_per_io : 0;
}

double stk_advice_share(const struct advisor *ad, double wall_s)
{
    return ad->run_s > 0 ? wall_s / ad->run_s : 0;
}

bool stk_advice_matters(const struct advisor *ad, double wall_s)
{
    return wall_s >= stk_limits.low_s && stk_advice_share(ad, wall_s) >= stk_limits.low_share;
}

bool stk_advice_felt(const struct advisor *ad, enum stk_reach reach, double wall_s)
{
    bool near = reach == STK_REACH_LOCAL || reach == STK_REACH_MEMORY;
    return stk_advice_matters(ad, wall_s) && (!near || wall_s >= stk_limits.local_s);
}

enum stk_severity stk_advice_severity(const struct advisor *ad, double wall_s)
{
    double share = stk_advice_share(ad, wall_s);
    if (!stk_advice_matters(ad, wall_s))
        return STK_SEV_NOTE;
    if (share < stk_limits.medium_share || wall_s < stk_limits.medium_s)
        return STK_SEV_LOW;
    return share < stk_limits.high_share ? STK_SEV_MEDIUM : STK_SEV_HIGH;
}

/* ---- what the job waits for ---- */

struct unit_time {
    double main_s, worker_s, alone_s, worker_life, worker_cpu, from, to, sum_s;
    double worker_from, worker_to;
    double lanes; /* maximum of I/O threads in its started processes */
    uint32_t workers;
    bool any, cpu_known;
};

struct proc_more { /* one entry per process */
    uint32_t children;
    double async_s; /* of asynchronous calls, from submission to completion */
};

/* Bytes a process received through pipes and sockets, as far as counted. */
static uint64_t streams_read(const struct stk_prof_proc *q)
{
    uint64_t files = q->read_bytes + q->left_out_read_bytes;
    return q->seen_read_bytes > files ? q->seen_read_bytes - files : 0;
}

/*
 * A loader's worker reports every batch to its parent. A child whose parent receives next to
 * nothing (torch.multiprocessing.spawn, a pool of ranks, a subshell) does the work itself: no
 * computing elsewhere hides its I/O.
 */
static bool works_alone(const struct stk_profile *p, const struct stk_prof_proc *q,
                        const struct proc_more *more)
{
    if (q->parent < 0 || (size_t)q->parent >= p->nprocs)
        return false;
    const struct stk_prof_proc *to = &p->proc[q->parent];
    return to->seen_read_bytes > 0 &&
           streams_read(to) < stk_limits.told_bytes * more[q->parent].children;
}

/* Asynchronous requests are in flight while the program computes: it waits for them at most for the
 * rest of its life. */
static double waited_s(const struct stk_prof_proc *q, const struct proc_more *more, double life)
{
    bool async = more->async_s > stk_limits.most * q->io_sum_s && q->cpu_s > 0;
    return async ? fmin(q->io_union_s, fmax(0, life - q->cpu_s)) : q->io_union_s;
}

static void unit_add(struct unit_time *u, const struct stk_prof_proc *q,
                     const struct proc_more *more, bool alone)
{
    double life = fmax(0, q->end_s - q->start_s), waited = waited_s(q, more, life);
    if (q->io_sum_s <= 0)
        return;
    u->from = u->any ? fmin(u->from, q->start_s) : q->start_s;
    u->to = fmax(u->to, q->end_s);
    u->any = true;
    u->sum_s += q->io_sum_s;
    if (stk_prof_forked(q)) {
        u->worker_from = u->workers ? fmin(u->worker_from, q->start_s) : q->start_s;
        u->worker_to = fmax(u->worker_to, q->end_s);
        u->workers++;
        u->worker_s += waited;
        u->alone_s += alone ? waited : 0;
        u->worker_life += life;
        u->worker_cpu += q->cpu_s;
        u->cpu_known = u->cpu_known || q->cpu_s > 0;
    } else {
        u->main_s += waited;
        /* Overlapping calls in one thread are asynchronous calls in flight at once. */
        u->lanes = fmax(u->lanes, q->threads ? q->threads : 1);
        u->lanes = fmax(u->lanes, q->io_union_s > 0 ? q->io_sum_s / q->io_union_s : 1);
    }
}

/* The job waits for workers that are always busy (CPU and I/O). Workers that wait half of their
 * time are ahead, and their I/O is hidden. In between: in proportion. */
static double exposure(const struct advisor *ad)
{
    if (ad->worker_busy < 0)
        return 1;
    return fmin(
        1, fmax(0, (ad->worker_busy - stk_limits.ahead) / (stk_limits.busy - stk_limits.ahead)));
}

static void sum_workers(struct advisor *ad, const struct unit_time *u, uint32_t n)
{
    double life = 0, busy = 0, cpu = 0;
    bool known = false;
    for (uint32_t i = 0; i < n; i++) {
        life += u[i].worker_life;
        busy += u[i].worker_cpu + u[i].worker_s;
        cpu += u[i].worker_cpu;
        ad->workers += u[i].workers;
        known = known || u[i].cpu_known;
    }
    ad->worker_busy = known && life > 0 ? fmin(1, busy / life) : -1;
    ad->worker_cpu = known && life > 0 ? fmin(1, cpu / life) : -1;
}

/* The sum of what units (ranks) wait, divided by how many ran at a time: ranks wait together,
 * programs of a script one after the other. */
static void sum_units(struct advisor *ad, const struct unit_time *u, uint32_t n)
{
    double wait = 0, life = 0, sum = 0, lanes = 0, units = 0, decode = 0;
    double part = exposure(ad), alone = 0, of_workers = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (!u[i].any)
            continue;
        double span = fmax(u[i].to - u[i].from, 1e-9);
        double at_once = u[i].worker_life / fmax(u[i].worker_to - u[i].worker_from, 1e-9);
        at_once = fmax(1, at_once);
        decode += u[i].worker_cpu / at_once;
        alone += u[i].alone_s;
        of_workers += u[i].worker_s;
        double waited = part * (u[i].worker_s - u[i].alone_s) + u[i].alone_s;
        waited = fmin(span, u[i].main_s + waited / at_once);
        wait += waited;
        if (waited > ad->longest_s) {
            ad->longest_s = waited;
            ad->longest = i;
        }
        life += span;
        sum += u[i].sum_s;
        lanes += u[i].workers && u[i].worker_s > u[i].main_s ? at_once : fmax(1, u[i].lanes);
        units++;
    }
    double at_once = ad->run_s > 0 ? fmax(1, life / ad->run_s) : 1;
    ad->hidden = alone < stk_limits.most * of_workers ? 1 - part : 0;
    ad->worker_cpu_s = decode / at_once;
    ad->io_wall_s = fmin(wait / at_once, ad->run_s);
    ad->readers_per_rank = units > 0 ? lanes / units : 1;
    if (ad->a->gpu_util_mean >= 0) /* a busy accelerator does not wait */
        ad->io_wall_s = fmin(ad->io_wall_s, (1 - fmin(1, ad->a->gpu_util_mean)) * ad->run_s);
    ad->wall_per_io = sum > 0 ? ad->io_wall_s / sum : 0;
}

const struct stk_storage *stk_advice_storage(const struct advisor *ad, const struct stk_usage *u)
{
    for (size_t i = 0; u && i < ad->nstorages; i++)
        if (strcmp(ad->storage[i].fs, u->fs) == 0)
            return &ad->storage[i];
    return &ad->storage[0];
}

/* Files are sorted by time: the first storage is the one that matters most. */
static void fit_storages(struct advisor *ad)
{
    for (size_t i = 0; i < ad->a->nfiles && ad->nstorages < STORAGES; i++) {
        const struct stk_usage *u = &ad->a->file[i];
        if (ad->nstorages && strcmp(stk_advice_storage(ad, u)->fs, u->fs) == 0)
            continue;
        ad->storage[ad->nstorages++] = stk_storage_fit(ad->a, u->fs, stk_advice_reach_of(u));
    }
    if (!ad->nstorages)
        ad->storage[ad->nstorages++] = stk_storage_fit(ad->a, "", STK_REACH_SHARED);
}

uint64_t stk_advice_memory(const struct advisor *ad)
{
    return ad->node_memory ? ad->node_memory : stk_limits.assumed_memory;
}

static void sum_procs(struct advisor *ad, uint32_t *unit, struct unit_time *u,
                      struct proc_more *more)
{
    const struct stk_profile *p = ad->p;
    uint32_t n = stk_analysis_units(p, unit);
    double cpu = 0;
    for (size_t i = 0; i < p->nprocs; i++)
        if (p->proc[i].parent >= 0 && (size_t)p->proc[i].parent < p->nprocs)
            more[p->proc[i].parent].children++;
    for (size_t i = 0; i < p->nrecs; i++)
        if (p->rec[i].api == STK_API_ASYNC && p->rec[i].proc < p->nprocs)
            more[p->rec[i].proc].async_s += stk_counts_io_s(&p->rec[i].n);
    for (size_t i = 0; i < p->nprocs; i++) {
        unit_add(&u[unit[i]], &p->proc[i], &more[i], works_alone(p, &p->proc[i], more));
        cpu += p->proc[i].cpu_s;
    }
    ad->cores_used = cpu > 0 && ad->run_s > 0 ? cpu / ad->run_s : -1;
    sum_workers(ad, u, n);
    sum_units(ad, u, n);
}

void stk_advice_costs(struct advisor *ad)
{
    const struct stk_profile *p = ad->p;
    uint32_t *unit = calloc(p->nprocs + 1, sizeof *unit);
    struct unit_time *u = calloc(p->nprocs + 1, sizeof *u);
    struct proc_more *more = calloc(p->nprocs + 1, sizeof *more);
    ad->worker_busy = ad->cores_used = -1;
    ad->nodes = p->nhosts ? (uint32_t)p->nhosts : 1;
    ad->ranks = p->nranks ? p->nranks : 1;
    for (size_t i = 0; i < p->nhosts; i++)
        if (p->host[i].memory_bytes &&
            (!ad->node_memory || p->host[i].memory_bytes < ad->node_memory))
            ad->node_memory = p->host[i].memory_bytes;
    if (unit && u && more)
        sum_procs(ad, unit, u, more);
    else
        ad->nomem = true;
    fit_storages(ad);
    ad->cpus = fmax(1, (double)ad->a->cores / ad->ranks);
    ad->in_turn = stk_reads_in_turn(ad->a);
    ad->decode_s = ad->in_turn ? stk_decode_of(ad->a) : stk_readers_cpu_s(ad->a, 0) / ad->ranks;
    free(unit);
    free(more);
    free(u);
}
