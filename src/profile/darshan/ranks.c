/*
 * ranks.c - Darshan's records, rank by rank. For a file that all ranks opened, Darshan
 * keeps the sum and what the slowest and the fastest rank did: these two get their own shares, the
 * others share the rest evenly, and a note says so.
 */
#include "profile/darshan/priv.h"

#include <stdlib.h>

static int by_rank(const void *a, const void *b)
{
    const struct stk_darshan_rec *x = a, *y = b;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return (x->file > y->file) - (x->file < y->file);
}

static int heat_by_rank(const void *a, const void *b)
{
    const struct stk_darshan_heat *x = a, *y = b;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

/* ---- shares ---- */

/* The slowest and the fastest of n ranks are known, with their shares of the total. */
struct known {
    uint64_t n;
    int64_t slowest, fastest; /* -1: neither is known, all shares are equal */
    double slow, fast;
};

/* The share of the total that belongs to the ranks before this one. */
static double before(const struct known *k, uint64_t rank)
{
    if (rank >= k->n)
        return 1;
    if (k->slowest < 0)
        return (double)rank / (double)k->n;
    bool slowest = (uint64_t)k->slowest < rank, fastest = (uint64_t)k->fastest < rank;
    double other = (1 - k->slow - k->fast) / (double)(k->n - 2);
    return (slowest ? k->slow : 0) + (fastest ? k->fast : 0) +
           (double)(rank - slowest - fastest) * other;
}

static uint64_t cut(uint64_t v, double at)
{
    double n = (double)v * at + 0.5;
    return n < 1 ? 0 : at >= 1 || n >= (double)v ? v : (uint64_t)n;
}

/* Cuts v where this rank begins and where the next one does: all parts add up to v. */
static uint64_t part(uint64_t v, const struct known *k, uint64_t rank)
{
    uint64_t from = cut(v, before(k, rank)), to = cut(v, before(k, rank + 1));
    return to > from ? to - from : 0;
}

/* Known shares that make no sense: all shares are equal. */
static struct known known(const struct stk_darshan_rec *all, uint64_t n, double slow, double fast)
{
    struct known even = {.n = n, .slowest = -1, .fastest = -1};
    if (n < 3 || all->slowest < 0 || all->fastest < 0 || all->slowest == all->fastest ||
        !(slow >= 0) || !(fast >= 0) || slow + fast > 1 || (uint64_t)all->slowest >= n ||
        (uint64_t)all->fastest >= n)
        return even;
    return (struct known){n, all->slowest, all->fastest, slow, fast};
}

/* How much of a rank's `own` time (or bytes) were reads, when all ranks together have `reads` and
 * `rest`: Darshan does not say. Stays as close to the mean as possible, so that no rank is blamed
 * for reads that may have been writes. */
static double least(double own, double reads, double rest, uint64_t n)
{
    double mean = reads / (double)n;
    if (mean < own - rest)
        mean = own - rest;
    return mean < own ? mean : own;
}

/* Divides the reads, and the rest. */
static void divide(const struct stk_darshan_rec *all, uint64_t n, double slow, double fast,
                   double reads, double rest, struct known out[2])
{
    double s = least(slow, reads, rest, n), f = least(fast, reads, rest, n);
    out[0] = out[1] = known(all, n, -1, -1);
    if (slow < 0 || fast < 0)
        return;
    if (reads > 0)
        out[0] = known(all, n, s / reads, f / reads);
    if (rest > 0)
        out[1] = known(all, n, (slow - s) / rest, (fast - f) / rest);
}

static void counts_of_rank(const struct stk_darshan_rec *all, uint64_t rank, uint64_t n,
                           struct stk_counts *out)
{
    /* The rank that moved the most bytes made most of the calls. */
    static const enum stk_counter reads[] = {STK_C_READ_BYTES, STK_C_READS,
                                             STK_C_EOF_READS,  STK_C_FIRST_READS,
                                             STK_C_SEQ_READS,  STK_C_CONSEC_READS};
    static const enum stk_counter writes[] = {STK_C_WRITE_BYTES, STK_C_WRITES, STK_C_SEQ_WRITES,
                                              STK_C_WRITE_OPENS, STK_C_CONSEC_WRITES};
    static const enum stk_counter kept[] = {
        STK_C_MAX_READ_NS,  STK_C_MAX_WRITE_NS, STK_C_MIN_OFFSET, STK_C_MAX_OFFSET,
        STK_C_FILE_SIZE,    STK_C_FIRST_NS,     STK_C_LAST_NS,    STK_C_FIRST_READ_NS,
        STK_C_LAST_READ_NS, STK_C_OPEN_NS,      STK_C_CLOSE_NS};
    const uint64_t *c = all->n.c;
    struct known even = known(all, n, -1, -1), time[2], bytes[2];
    divide(all, n, all->slowest_s, all->fastest_s, (double)c[STK_C_READ_NS] / 1e9,
           ((double)c[STK_C_WRITE_NS] + (double)c[STK_C_META_NS]) / 1e9, time);
    divide(all, n, (double)all->slowest_bytes, (double)all->fastest_bytes,
           (double)c[STK_C_READ_BYTES], (double)c[STK_C_WRITE_BYTES], bytes);
    for (size_t i = 0; i < STK_C_COUNT; i++)
        out->c[i] = part(c[i], &even, rank);
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        out->c[kept[i]] = c[kept[i]];
    out->c[STK_C_READ_NS] = part(c[STK_C_READ_NS], &time[0], rank);
    out->c[STK_C_WRITE_NS] = part(c[STK_C_WRITE_NS], &time[1], rank);
    out->c[STK_C_META_NS] = part(c[STK_C_META_NS], &time[1], rank);
    for (size_t i = 0; i < sizeof reads / sizeof *reads; i++)
        out->c[reads[i]] = part(c[reads[i]], &bytes[0], rank);
    for (size_t i = 0; i < sizeof writes / sizeof *writes; i++)
        out->c[writes[i]] = part(c[writes[i]], &bytes[1], rank);
    for (size_t i = 0; i < STK_SIZE_BINS; i++) {
        out->read_size[i] = part(all->n.read_size[i], &bytes[0], rank);
        out->write_size[i] = part(all->n.write_size[i], &bytes[1], rank);
    }
    for (size_t i = 0; i < STK_COMMON; i++)
        out->size[i] = (struct stk_common_value){all->n.size[i].value,
                                                 part(all->n.size[i].count, &bytes[0], rank)};
}

/* ---- one process per rank ---- */

struct ranks {
    struct stk_darshan *d;
    size_t shared;    /* records of all ranks come first */
    bool split;       /* divided among ranks; otherwise all with the first one */
    size_t rec, heat; /* next to use */
};

static int add_record(struct stk_darshan *d, const struct stk_darshan_rec *r,
                      const struct stk_counts *n, uint64_t distinct, struct stk_err *err)
{
    static const struct stk_cover unknown = {.overflow = 1};
    uint32_t rec;
    int rc = stk_pb_rec(d->pb, r->file, r->api, &rec, err);
    rc = rc ? rc : stk_pb_rec_add(d->pb, rec, n, &unknown, err);
    if (rc)
        return rc;
    uint64_t *sum = &d->pb->p->rec[rec].distinct_bytes;
    *sum = *sum > UINT64_MAX - distinct ? UINT64_MAX : *sum + distinct;
    d->pb->rec[rec].told = true;
    return 0;
}

static int add_shared(struct ranks *k, uint64_t rank, bool first, struct stk_err *err)
{
    struct stk_darshan *d = k->d;
    int rc = 0;
    for (size_t i = 0; i < k->shared && !rc; i++) {
        const struct stk_darshan_rec *r = &d->rec[i];
        if (k->split) {
            struct stk_counts n;
            stk_counts_init(&n);
            counts_of_rank(r, rank, d->nprocs, &n);
            uint64_t read = n.c[STK_C_READ_BYTES];
            rc = add_record(d, r, &n, read < r->distinct_bytes ? read : r->distinct_bytes, err);
        } else if (first) {
            d->pb->file[r->file].shared_ranks = (uint32_t)d->nprocs;
            rc = add_record(d, r, &r->n, r->distinct_bytes, err);
        }
    }
    return rc;
}

/* The heat map knows when bytes moved, not when time passed: time is spread like the bytes. */
static int add_line(struct ranks *k, int64_t rank, uint32_t proc, struct stk_err *err)
{
    struct stk_darshan *d = k->d;
    struct stk_pb_proc *x = &d->pb->proc[proc];
    size_t end = k->heat;
    double width = 0;
    uint64_t read = 0, written = 0, time[3] = {0}, reads = 0;
    while (k->heat < d->nheat && d->heat[k->heat].rank < rank)
        end = ++k->heat;
    for (; end < d->nheat && d->heat[end].rank == rank; end++) {
        width = d->heat[end].width_s > width ? d->heat[end].width_s : width;
        *(d->heat[end].write ? &written : &read) += d->heat[end].bytes;
    }
    if (end == k->heat || width > 1e8)
        return 0;
    for (size_t i = d->pb->p->nrecs; i-- > 0 && d->pb->p->rec[i].proc == proc;) {
        const struct stk_prof_rec *r = &d->pb->p->rec[i];
        if (!stk_api_moves(r->api))
            continue;
        time[0] += r->n.c[STK_C_READ_NS];
        time[1] += r->n.c[STK_C_WRITE_NS];
        reads += r->n.c[STK_C_READS];
    }
    struct stk_log_bin *bin = stk_arena_alloc(&d->pb->temp, STK_DARSHAN_BINS * sizeof *bin);
    if (!bin)
        return stk_err_nomem(err, STK_DARSHAN_BINS * sizeof *bin);
    memset(bin, 0, STK_DARSHAN_BINS * sizeof *bin);
    for (; k->heat < end; k->heat++) {
        const struct stk_darshan_heat *h = &d->heat[k->heat];
        struct stk_log_bin *b = &bin[(size_t)((double)h->bin * h->width_s / width)];
        if (h->write) {
            b->write_bytes += h->bytes;
            b->write_ns += (uint64_t)((double)time[1] * ((double)h->bytes / (double)written));
        } else {
            double of_all = (double)h->bytes / (double)read, calls = (double)reads * of_all;
            b->read_bytes += h->bytes;
            b->read_ns += (uint64_t)((double)time[0] * of_all);
            b->reads += calls < 1e9 ? (uint32_t)calls : 1000000000u;
        }
    }
    x->line = bin;
    x->line_ns = (uint64_t)(width * 1e9);
    x->line_bins = STK_DARSHAN_BINS;
    return 0;
}

static int begin_rank(struct stk_darshan *d, int64_t rank, uint32_t *proc, struct stk_err *err)
{
    int rc = stk_pb_proc(d->pb, proc, err);
    if (rc)
        return rc;
    struct stk_prof_proc *p = &d->pb->p->proc[*proc];
    struct stk_pb_proc *x = &d->pb->proc[*proc];
    p->command = p->exe = d->exe;
    p->ended = STK_END_EXIT; /* otherwise there would be no log */
    p->rank = (uint32_t)rank;
    p->world = d->nprocs > 1 && d->nprocs <= STK_PB_MAX_WORLD ? (uint32_t)d->nprocs : 0;
    p->pid = d->pid < UINT32_MAX ? (uint32_t)d->pid : 0;
    p->ppid = d->fork_parent < UINT32_MAX ? (uint32_t)d->fork_parent : 0;
    p->born = d->fork_parent ? STK_BORN_FORK : STK_BORN_START;
    x->end = STK_END_EXIT;
    x->no_line = true;
    x->end_ns = d->run_s > 0 && d->run_s < 1e8 ? (uint64_t)(d->run_s * 1e9) : 1;
    /* To the second; one clock for both, since there is no other. */
    x->start_real_ns = x->start_mono_ns = d->start_s < 10000000000 ? d->start_s * 1000000000 : 0;
    return stk_pb_host(d->pb, "", &p->host, err);
}

static int add_rank(struct ranks *k, int64_t rank, bool first, struct stk_err *err)
{
    struct stk_darshan *d = k->d;
    uint32_t proc;
    int rc = begin_rank(d, rank, &proc, err);
    rc = rc ? rc : add_shared(k, (uint64_t)rank, first, err);
    if (!rc) /* with I/O: files that all ranks opened, or files of its own */
        d->pb->p->proc[proc].threads =
            k->shared > 0 || (k->rec < d->nrecs && d->rec[k->rec].rank == rank);
    for (; !rc && k->rec < d->nrecs && d->rec[k->rec].rank == rank; k->rec++)
        rc = add_record(d, &d->rec[k->rec], &d->rec[k->rec].n, d->rec[k->rec].distinct_bytes, err);
    return rc ? rc : add_line(k, rank, proc, err);
}

static int note_shared(const struct ranks *k, struct stk_err *err)
{
    size_t files = 0;
    for (size_t i = 0; i < k->shared; i++)
        files += !i || k->d->rec[i].file != k->d->rec[i - 1].file;
    if (!files)
        return 0;
    return stk_pb_note(
        k->d->pb, err,
        "For %zu file%s that all %llu ranks opened, Darshan keeps the sum and what the slowest "
        "and the fastest rank did: the other ranks are shown with equal shares.",
        files, files == 1 ? "" : "s", (unsigned long long)k->d->nprocs);
}

int stk_darshan_ranks(struct stk_darshan *d, struct stk_err *err)
{
    struct ranks k = {.d = d};
    int rc = 0;
    bool first = true;
    d->nprocs = d->nprocs ? d->nprocs : 1;
    d->nprocs = d->nprocs <= STK_PB_MAX_WORLD ? d->nprocs : STK_PB_MAX_WORLD;
    if (d->nrecs)
        qsort(d->rec, d->nrecs, sizeof *d->rec, by_rank);
    if (d->nheat)
        qsort(d->heat, d->nheat, sizeof *d->heat, heat_by_rank);
    while (k.shared < d->nrecs && d->rec[k.shared].rank < 0)
        k.shared++;
    k.rec = k.shared;
    k.split = k.shared && k.shared * d->nprocs + d->nrecs <= d->pb->max_recs;
    for (int64_t rank = 0, next; !rc; rank = next) {
        rc = add_rank(&k, rank, first, err);
        first = false;
        /* Ranks that did nothing are still ranks, unless there are too many. */
        next = rank + 1;
        if (next >= (int64_t)d->nprocs || next >= 65536) {
            if (k.rec >= d->nrecs)
                break;
            next = d->rec[k.rec].rank > next ? d->rec[k.rec].rank : next;
        }
    }
    return rc ? rc : note_shared(&k, err);
}
