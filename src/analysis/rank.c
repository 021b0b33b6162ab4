/*
 * rank.c - groups processes into ranks and sums what each did; the shares of run time in
 * I/O: per thread, merged, and of the processes that were started.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/parts.h"

/* As the profile groups them; if the reader did not make the profile, each process is its own
 * unit. */
uint32_t stk_analysis_units(const struct stk_profile *p, uint32_t *unit)
{
    bool known = p->nunits > 0 && p->nunits <= p->nprocs;
    for (uint32_t i = 0; i < p->nprocs; i++)
        unit[i] = !known ? i : p->proc[i].unit < p->nunits ? p->proc[i].unit : 0;
    return known ? p->nunits : (uint32_t)p->nprocs;
}

struct span {
    double from, to;
};

/* A row under construction. */
struct row {
    struct span life;
    bool any;
    uint32_t last_file; /* + 1: records are ordered by file */
};

/* The row a process is counted in: that of its rank; processes without a rank share the last one.
 * Without known ranks, all processes share one row. */
static uint32_t rows_of(const struct stk_profile *p, uint32_t *row, uint32_t *ranks)
{
    uint32_t others = 0, n = 0;
    stk_analysis_units(p, row);
    for (size_t i = 0; i < p->nprocs; i++)
        if (p->proc[i].world && row[i] >= n)
            n = row[i] + 1;
    *ranks = n ? n : 1;
    for (size_t i = 0; i < p->nprocs; i++)
        if (!p->proc[i].world) {
            row[i] = n; /* 0 without ranks: the only row */
            others = 1;
        }
    return n ? n + others : 1;
}

static void add_process(struct stk_rank_use *r, struct row *row, const struct stk_prof_proc *q)
{
    if (!row->any) {
        r->rank = q->world ? q->rank : 0;
        row->life = (struct span){q->start_s, q->end_s};
        row->any = true;
    }
    r->procs += stk_prof_counts(q);
    r->cpu_s += q->cpu_s;
    row->life.from = fmin(row->life.from, q->start_s);
    row->life.to = fmax(row->life.to, q->end_s);
    r->run_s = fmax(0, row->life.to - row->life.from);
}

static void add_record(struct stk_rank_use *r, struct row *row, const struct stk_prof_rec *rec)
{
    const uint64_t *c = rec->n.c;
    r->read_bytes += c[STK_C_READ_BYTES];
    r->write_bytes += c[STK_C_WRITE_BYTES];
    r->reads += c[STK_C_READS];
    r->io_s += stk_counts_io_s(&rec->n);
    r->meta_s += stk_ns(c[STK_C_META_NS]);
    if (c[STK_C_READ_BYTES] && row->last_file != rec->file + 1) {
        row->last_file = rec->file + 1;
        r->files_read++;
    }
}

/* The largest number of simultaneous workers per program of a row, added up. */
static void add_workers(const struct stk_analysis *a, const uint32_t *row, uint32_t *unit,
                        uint32_t *most)
{
    const struct stk_profile *p = a->p;
    stk_analysis_units(p, unit);
    for (size_t i = 0; i < p->nprocs; i++) {
        uint32_t n = p->proc[i].worker, *had = &most[unit[i]];
        if (n > *had) {
            a->rank[row[i]].workers += n - *had;
            *had = n;
        }
    }
}

int stk_analysis_ranks(struct stk_analysis *a, struct stk_err *err)
{
    const struct stk_profile *p = a->p;
    size_t room = p->nprocs + 1;
    uint32_t *of = calloc(room, sizeof *of), *unit = calloc(room, sizeof *unit);
    uint32_t *most = calloc(room, sizeof *most), ranks;
    struct row *row = calloc(room, sizeof *row);
    a->rank = stk_arena_alloc(&a->arena, room * sizeof *a->rank);
    int rc = 0;
    if (!of || !unit || !most || !row || !a->rank) {
        rc = stk_err_nomem(err, room * sizeof *a->rank);
    } else {
        uint32_t n = rows_of(p, of, &ranks);
        memset(a->rank, 0, room * sizeof *a->rank);
        for (size_t i = 0; i < p->nprocs; i++)
            add_process(&a->rank[of[i]], &row[of[i]], &p->proc[i]);
        for (size_t i = 0; i < p->nrecs; i++) {
            uint32_t proc = p->rec[i].proc;
            if (stk_api_moves(p->rec[i].api) && proc < p->nprocs)
                add_record(&a->rank[of[proc]], &row[of[proc]], &p->rec[i]);
        }
        add_workers(a, of, unit, most);
        for (uint32_t i = 0; i < n; i++) {
            a->rank[i].known = i < ranks;
            if (a->rank[i].io_s > 0 || a->rank[i].read_bytes || a->rank[i].write_bytes)
                a->rank[a->nranks++] = a->rank[i];
        }
    }
    free(of);
    free(unit);
    free(most);
    free(row);
    return rc;
}

/* ---- shares ---- */

static bool does_io(const struct stk_prof_proc *q)
{
    return q->io_sum_s > 0;
}

/* Time with at least one thread in a call. The time line has the call time of all threads per bin;
 * if calls are independent, none is in progress for (1 - load/n)^n of a bin. At least that of the
 * busiest process, at most the sum of all. Exact with one thread. */
static double merged_s(const struct stk_profile *p)
{
    double lanes = 0, sum = 0, most = 0, merged = 0;
    for (size_t i = 0; i < p->nprocs; i++) {
        const struct stk_prof_proc *q = &p->proc[i];
        if (!does_io(q))
            continue;
        lanes += q->threads ? q->threads : 1;
        sum += q->io_union_s;
        most = fmax(most, q->io_union_s);
    }
    for (size_t b = 0; lanes > 0 && p->bin_s > 0 && b < STK_PROF_BINS; b++) {
        const struct stk_prof_bin *at = &p->bin[b];
        double load = stk_ns(at->read_ns) + stk_ns(at->write_ns) + stk_ns(at->meta_ns);
        double share = fmin(1, load / p->bin_s / lanes);
        merged += p->bin_s * (1 - pow(1 - share, lanes));
    }
    return fmin(fmax(merged, most), sum);
}

/* Mean over the started processes that lived at least half as long as the longest: a shell, or a
 * short-lived helper, says nothing about the training loop. */
static double main_share(const struct stk_profile *p)
{
    double longest = 0, sum = 0;
    size_t n = 0;
    for (size_t i = 0; i < p->nprocs; i++)
        if (!stk_prof_forked(&p->proc[i]) && does_io(&p->proc[i]))
            longest = fmax(longest, p->proc[i].end_s - p->proc[i].start_s);
    for (size_t i = 0; i < p->nprocs; i++) {
        const struct stk_prof_proc *q = &p->proc[i];
        if (stk_prof_forked(q) || !does_io(q) || q->end_s - q->start_s < longest / 2)
            continue;
        sum += fmin(q->io_union_s, p->run_s);
        n++;
    }
    return n && p->run_s > 0 ? sum / (double)n / p->run_s : 0;
}

struct launcher_use {
    double cpu_sum, cpu_max, wait_sum, other_sum;
    uint64_t n, nwait, nother, resident;
};

static void add_reading(struct launcher_use *u, const struct stk_prof_reading *s)
{
    if (s->cpu_cores >= 0) {
        u->cpu_sum += s->cpu_cores;
        u->cpu_max = fmax(u->cpu_max, s->cpu_cores);
        u->n++;
    }
    if (s->iowait_cores >= 0) {
        u->wait_sum += s->iowait_cores;
        u->nwait++;
    }
    if (s->other_cores >= 0) {
        u->other_sum += s->other_cores;
        u->nother++;
    }
    if (s->resident_bytes > u->resident)
        u->resident = s->resident_bytes;
}

/* Adds up CPU and memory of all launchers; I/O wait belongs to a node, so it is averaged. With
 * several launchers, the other programs of one may be the processes of another. */
static void sum_launchers(struct stk_analysis *a, const struct launcher_use *u, size_t n)
{
    double wait = 0, waits = 0, known = 0;
    a->other_cores_mean = n == 1 && u[0].nother ? u[0].other_sum / (double)u[0].nother : -1;
    a->cpu_cores_mean = a->cpu_cores_max = 0;
    for (size_t l = 0; l < n; l++) {
        a->peak_resident_bytes += u[l].resident;
        if (u[l].n) {
            a->cpu_cores_mean += u[l].cpu_sum / (double)u[l].n;
            a->cpu_cores_max += u[l].cpu_max;
            known++;
        }
        if (u[l].nwait) {
            wait += u[l].wait_sum / (double)u[l].nwait;
            waits++;
        }
    }
    if (known == 0)
        a->cpu_cores_mean = a->cpu_cores_max = -1;
    a->iowait_mean = waits > 0 ? wait / waits : -1;
}

#define LAUNCHERS_MAX (1u << 20)

static int sum_readings(struct stk_analysis *a, struct stk_err *err)
{
    const struct stk_profile *p = a->p;
    double util = 0, nutil = 0, idle = 0;
    size_t launchers = 0;
    for (size_t i = 0; i < p->nreadings; i++) {
        const struct stk_prof_reading *s = &p->reading[i];
        if (s->launcher < LAUNCHERS_MAX && s->launcher >= launchers)
            launchers = s->launcher + 1;
        if (s->gpu_util >= 0) {
            util += s->gpu_util;
            idle += s->gpu_util < STK_GPU_IDLE;
            nutil++;
        }
    }
    struct launcher_use *use = calloc(launchers + 1, sizeof *use);
    if (!use)
        return stk_err_nomem(err, (launchers + 1) * sizeof *use);
    for (size_t i = 0; i < p->nreadings; i++)
        if (p->reading[i].launcher < launchers)
            add_reading(&use[p->reading[i].launcher], &p->reading[i]);
    sum_launchers(a, use, launchers);
    a->gpu_util_mean = nutil > 0 ? util / nutil : -1;
    a->gpu_idle_share = nutil > 0 ? idle / nutil : -1;
    free(use);
    return 0;
}

int stk_analysis_shares(struct stk_analysis *a, struct stk_err *err)
{
    const struct stk_profile *p = a->p;
    double io = 0, threads = 0;
    for (size_t i = 0; i < p->nprocs; i++) {
        const struct stk_prof_proc *q = &p->proc[i];
        if (!does_io(q))
            continue;
        io += q->io_sum_s;
        threads += q->threads ? q->threads : 1;
    }
    if (p->run_s > 0 && threads > 0) {
        a->io_share_thread = fmin(1, io / threads / p->run_s);
        a->io_share_merged = fmin(1, merged_s(p) / p->run_s);
        a->io_share_main = fmin(1, main_share(p));
    }
    return sum_readings(a, err);
}
