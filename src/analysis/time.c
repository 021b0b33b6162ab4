/*
 * time.c - the time axis: epochs, steps and phases as the program marked them. Without
 * marks: epochs where reads repeat and steps where reading pauses, or nothing where neither is
 * clear.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/parts.h"

static double bin_io_s(const struct stk_prof_bin *b)
{
    return stk_ns(b->read_ns) + stk_ns(b->write_ns) + stk_ns(b->meta_ns);
}

double stk_analysis_between(const struct stk_profile *p, double from_s, double to_s,
                            uint64_t *read_bytes)
{
    double io = 0, bytes = 0;
    for (size_t b = 0; p->bin_s > 0 && b < STK_PROF_BINS; b++) {
        double low = (double)b * p->bin_s, high = low + p->bin_s;
        double part = (fmin(high, to_s) - fmax(low, from_s)) / p->bin_s;
        if (part <= 0)
            continue;
        io += bin_io_s(&p->bin[b]) * fmin(1, part);
        bytes += (double)p->bin[b].read_bytes * fmin(1, part);
    }
    if (read_bytes)
        *read_bytes = stk_whole(bytes);
    return io;
}

static void put_epoch(struct stk_analysis *a, uint64_t number, double from_s, double to_s)
{
    struct stk_epoch *e = &a->epoch[a->nepochs++];
    *e = (struct stk_epoch){.number = number, .start_s = from_s, .end_s = to_s};
    e->io_s = stk_analysis_between(a->p, from_s, to_s, &e->read_bytes);
}

static int epochs_room(struct stk_analysis *a, size_t n, struct stk_err *err)
{
    a->epoch = stk_arena_alloc(&a->arena, (n + 1) * sizeof *a->epoch);
    return a->epoch ? 0 : stk_err_nomem(err, n * sizeof *a->epoch);
}

/* The process with the most marks of a kind; the first among equals. */
static uint32_t who_marks(const struct stk_profile *p, uint32_t kind, uint64_t *most)
{
    uint32_t best = 0;
    *most = 0;
    for (size_t i = 0; i < p->nmarks;) {
        uint64_t n = 0;
        uint32_t proc = p->mark[i].proc;
        for (; i < p->nmarks && p->mark[i].proc == proc; i++)
            n += p->mark[i].kind == kind;
        if (n > *most) {
            *most = n;
            best = proc;
        }
    }
    return best;
}

static double proc_end(const struct stk_profile *p, uint32_t proc)
{
    return proc < p->nprocs && p->proc[proc].end_s > 0 ? p->proc[proc].end_s : p->run_s;
}

static int marked_epochs(struct stk_analysis *a, struct stk_err *err)
{
    const struct stk_profile *p = a->p;
    uint64_t n;
    uint32_t proc = who_marks(p, STK_MARK_EPOCH, &n);
    if (n == 0)
        return 0;
    n = n < ANALYSIS_EPOCHS ? n : ANALYSIS_EPOCHS;
    int rc = epochs_room(a, n, err);
    double open = -1;
    uint64_t number = 0;
    for (size_t i = 0; rc == 0 && i < p->nmarks && a->nepochs < n; i++) {
        const struct stk_prof_mark *m = &p->mark[i];
        if (m->proc != proc || m->kind != STK_MARK_EPOCH)
            continue;
        if (open >= 0)
            put_epoch(a, number, open, m->at_s);
        open = m->at_s;
        number = m->number;
    }
    if (rc == 0 && open >= 0 && a->nepochs < n)
        put_epoch(a, number, open, proc_end(p, proc));
    a->epochs_marked = a->nepochs > 0;
    return rc;
}

/* Of the distinct bytes; of N draws with replacement from N, 42 % of those drawn come again. */
#define MOST_AGAIN 0.8

/* What a process read, and when. */
struct reader {
    double distinct, from, to;
};

static bool reads_all(const struct stk_analysis *a, const struct reader *r)
{
    return r->distinct >= 0.9 * (double)a->job.distinct_bytes;
}

/* How many passes over all data were under way at one moment, by processes (workers that do not
 * divide it) or by threads of one. */
static double passes_at_once(const struct stk_analysis *a, const struct reader *r)
{
    const struct stk_profile *p = a->p;
    double most = 1;
    for (size_t i = 0; i < p->nprocs; i++) {
        double now = 0;
        for (size_t k = 0; k < p->nprocs && reads_all(a, &r[i]); k++)
            if (reads_all(a, &r[k]) && r[k].from <= r[i].from && r[i].from < r[k].to)
                now += p->proc[k].twins > 1 ? p->proc[k].twins : 1;
        most = fmax(most, now);
    }
    return most;
}

/* 1 also when out of memory: the passes are then too many. */
static double at_once(const struct stk_analysis *a)
{
    const struct stk_profile *p = a->p;
    struct reader *r = calloc(p->nprocs + 1, sizeof *r);
    for (size_t i = 0; r && i < p->nrecs; i++) {
        const struct stk_prof_rec *c = &p->rec[i];
        if (!stk_api_moves(c->api) || c->proc >= p->nprocs || !c->n.c[STK_C_READS])
            continue;
        struct reader *to = &r[c->proc];
        double start = p->proc[c->proc].start_s;
        double from = start + stk_ns(c->n.c[STK_C_FIRST_READ_NS]);
        to->from = to->distinct > 0 ? fmin(to->from, from) : from;
        to->to = fmax(to->to, start + stk_ns(c->n.c[STK_C_LAST_READ_NS]));
        to->distinct += (double)c->distinct_bytes;
    }
    double n = r ? passes_at_once(a, r) : 1;
    free(r);
    return n;
}

/* Bytes if every open read once what its process read of the file. */
static double once_per_open(const struct stk_analysis *a, const struct stk_usage *u)
{
    double sum = 0;
    for (size_t i = u->rec_from; i < u->rec_to; i++) {
        const struct stk_prof_rec *r = &a->p->rec[i];
        if (stk_api_moves(r->api))
            sum += (double)r->distinct_bytes * fmax(1, (double)r->n.c[STK_C_OPENS]);
    }
    return sum;
}

/* More: a buffer is filled around every sample, so that bytes come again within one pass. */
#define AGAIN_IN_OPEN 1.15

/* How many times the data was read, one pass after the other: bytes read from the files that are
 * read again over their distinct bytes. 0 unless it is clear, that is: more than one and a half;
 * nearly all data is read again (draws with replacement leave many samples out); ranks do not share
 * what they read (else ranks and epochs look alike); and the number of opens that read nothing
 * twice, or a mostly ascending order, suggests passes over whole files. */
static double count_passes(const struct stk_analysis *a)
{
    const struct stk_profile *p = a->p;
    double read = 0, distinct = 0, of_ranks = 0, opens = 0, files = 0, later = 0, seq = 0;
    double whole = 0;
    for (size_t i = 0; i < a->nfiles; i++) {
        const struct stk_usage *u = &a->file[i];
        if (u->reread < 1.5 || !u->n.c[STK_C_READ_BYTES])
            continue;
        read += (double)u->n.c[STK_C_READ_BYTES];
        distinct += (double)u->distinct_bytes;
        of_ranks += (double)u->rank_distinct_bytes;
        opens += (double)u->n.c[STK_C_OPENS];
        whole += once_per_open(a, u);
        files += (double)u->files;
        later += (double)(u->n.c[STK_C_READS] - u->n.c[STK_C_FIRST_READS]);
        seq += (double)u->n.c[STK_C_SEQ_READS];
    }
    if (distinct <= 0 || p->run_s <= 0 || distinct < MOST_AGAIN * (double)a->job.distinct_bytes)
        return 0;
    double passes = read / distinct, by_opens = files > 0 ? opens / files : 0;
    bool disjoint = of_ranks <= 1.2 * distinct || of_ranks == 0;
    bool by_whole = fabs(by_opens - passes) <= 0.15 * passes && read <= AGAIN_IN_OPEN * whole;
    bool agree = by_whole || (later > 0 && seq >= 0.9 * later);
    return passes >= 1.5 && disjoint && agree ? passes / at_once(a) : 0;
}

/* The time by which that share of all bytes was read. */
static double time_of_share(const struct stk_profile *p, double share)
{
    double all = 0, seen = 0;
    for (size_t b = 0; b < STK_PROF_BINS; b++)
        all += (double)p->bin[b].read_bytes;
    for (size_t b = 0; b < STK_PROF_BINS; b++) {
        double here = (double)p->bin[b].read_bytes;
        if (here > 0 && seen + here >= share * all)
            return ((double)b + fmin(1, fmax(0, (share * all - seen) / here))) * p->bin_s;
        seen += here;
    }
    return p->run_s;
}

static int found_epochs(struct stk_analysis *a, struct stk_err *err)
{
    double passes = count_passes(a);
    if (passes < 1.5 || passes > ANALYSIS_EPOCHS || a->p->bin_s <= 0)
        return 0;
    if (fabs(passes - round(passes)) < 0.1 * passes && round(passes) >= 2)
        passes = round(passes); /* headers read again, files left in the middle */
    size_t n = (size_t)ceil(passes);
    int rc = epochs_room(a, n, err);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        double to = i + 1 == n ? 1 : (double)(i + 1) / passes;
        put_epoch(a, i, time_of_share(a->p, (double)i / passes), time_of_share(a->p, to));
    }
    return rc;
}

int stk_analysis_epochs(struct stk_analysis *a, struct stk_err *err)
{
    int rc = marked_epochs(a, err);
    return rc || a->nepochs ? rc : found_epochs(a, err);
}

/* ---- steps ---- */

static int ascending(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;
    return a < b ? -1 : a > b;
}

static int marked_steps(struct stk_analysis *a, struct stk_err *err)
{
    const struct stk_profile *p = a->p;
    uint64_t most;
    uint32_t proc = who_marks(p, STK_MARK_STEP, &most);
    if (most == 0)
        return 0;
    double *t = calloc(p->nmarks, sizeof *t);
    double sum = 0, from = -1, to = 0;
    size_t n = 0;
    if (!t)
        return stk_err_nomem(err, p->nmarks * sizeof *t);
    for (size_t i = 0; i < p->nmarks; i++) {
        const struct stk_prof_mark *m = &p->mark[i];
        if (m->kind != STK_MARK_STEP)
            continue;
        if (m->length_s > 0) {
            t[n++] = m->length_s;
            sum += m->length_s;
        }
        if (m->proc == proc) {
            from = from < 0 ? m->at_s : fmin(from, m->at_s);
            to = fmax(to, m->at_s + m->length_s);
        }
    }
    a->steps = (struct stk_steps){.marked = true, .count = most};
    if (n) {
        qsort(t, n, sizeof *t, ascending);
        a->steps.mean_s = sum / (double)n;
        a->steps.p50_s = t[n / 2];
        a->steps.p99_s = t[n - 1 - (n - 1) / 100];
        a->steps.max_s = t[n - 1];
    }
    a->steps.io_s = stk_analysis_between(p, fmax(0, from), to, NULL) / (double)most;
    free(t);
    return 0;
}

/* The bin where long pauses begin, or 0 without a clear gap: at least two (nearly) empty bins,
 * about a factor of 8, between short pauses (within a step) and long ones (between steps). */
static int pause_bin(const struct stk_prof_gap *gap)
{
    uint64_t all = 0, below = 0;
    int found = 0;
    for (int b = 0; b < STK_GAP_BINS; b++)
        all += gap[b].count;
    for (int b = 1; b < STK_GAP_BINS - 2; b++) {
        below += gap[b - 1].count;
        uint64_t here = gap[b].count + gap[b + 1].count, above = all - below - here;
        if (below && above && here * 50 <= above && here * 50 <= below)
            found = b + 2;
    }
    return found;
}

/* Threads that read: a thread that only looks for files has no pauses between reads. */
static double reading_lanes(const struct stk_profile *p)
{
    double lanes = 0, all = 0;
    for (size_t i = 0; i < p->nprocs; i++) {
        if (p->proc[i].io_sum_s <= 0)
            continue;
        double threads = p->proc[i].threads ? p->proc[i].threads : 1;
        all += threads;
        lanes += p->proc[i].read_bytes ? threads : 0;
    }
    return lanes > 0 ? lanes : all;
}

static void found_steps(struct stk_analysis *a)
{
    const struct stk_profile *p = a->p;
    double lanes = reading_lanes(p), pause = 0, n = 0, rest = 0, short_n = 0;
    int from = pause_bin(p->gap);
    for (int b = 0; b < STK_GAP_BINS; b++) {
        double count = (double)p->gap[b].count, s = stk_ns(p->gap[b].ns);
        n += b >= from ? count : 0;
        pause += b >= from ? s : 0;
        short_n += b < from ? count : 0;
        rest += b < from ? s : 0;
    }
    /* 10 ms: shorter pauses are decoding, not a training step. A handful is chance. */
    if (!from || lanes <= 0 || n < 10 * lanes || short_n < n || pause / n < 0.01 || pause < rest)
        return;
    double others = (rest + a->job.io_s) / n;
    a->steps = (struct stk_steps){.count = stk_whole(n / lanes + 0.5)};
    a->steps.mean_s = pause / n + others;
    a->steps.io_s = a->job.io_s / n;
    double seen = 0;
    for (int b = from; b < STK_GAP_BINS; b++) {
        if (!p->gap[b].count)
            continue;
        double before = seen, mean = stk_ns(p->gap[b].ns) / (double)p->gap[b].count + others;
        seen += (double)p->gap[b].count;
        if (before < 0.5 * n && seen >= 0.5 * n)
            a->steps.p50_s = mean;
        if (before < 0.99 * n && seen >= 0.99 * n)
            a->steps.p99_s = mean;
        a->steps.max_s = mean;
    }
}

int stk_analysis_steps(struct stk_analysis *a, struct stk_err *err)
{
    int rc = marked_steps(a, err);
    if (rc == 0 && !a->steps.marked)
        found_steps(a);
    return rc;
}

/* ---- phases ---- */

static int by_total(const void *x, const void *y)
{
    const struct stk_phase *a = x, *b = y;
    if (a->total_s != b->total_s)
        return a->total_s < b->total_s ? 1 : -1;
    return strcmp(a->name, b->name);
}

/* How much of each bin lies in a phase of that name (in any process): at most all of it. */
static void cover_bins(const struct stk_profile *p, const char *name, double *cover)
{
    memset(cover, 0, STK_PROF_BINS * sizeof *cover);
    for (size_t i = 0; i < p->nmarks; i++) {
        const struct stk_prof_mark *m = &p->mark[i];
        if (m->kind != STK_MARK_PHASE || strcmp(m->name, name) != 0 || m->at_s < 0)
            continue;
        double to = m->at_s + fmax(0, m->length_s), first = floor(m->at_s / p->bin_s);
        for (double b = first; b < STK_PROF_BINS && b * p->bin_s < to; b++) {
            double low = fmax(b * p->bin_s, m->at_s), high = fmin((b + 1) * p->bin_s, to);
            cover[(size_t)b] = fmin(1, cover[(size_t)b] + fmax(0, high - low) / p->bin_s);
        }
    }
}

#define PHASES_MAX 64 /* names; a program that generates names is not worth more */

static void count_phase(struct stk_analysis *a, const struct stk_prof_mark *m)
{
    size_t k = 0;
    while (k < a->nphases && strcmp(a->phase[k].name, m->name) != 0)
        k++;
    if (k == PHASES_MAX)
        return;
    if (k == a->nphases)
        a->phase[a->nphases++] = (struct stk_phase){.name = m->name};
    a->phase[k].count++;
    a->phase[k].total_s += m->length_s;
    a->phase[k].max_s = fmax(a->phase[k].max_s, m->length_s);
}

int stk_analysis_phases(struct stk_analysis *a, struct stk_err *err)
{
    const struct stk_profile *p = a->p;
    a->phase = stk_arena_alloc(&a->arena, PHASES_MAX * sizeof *a->phase);
    double *cover = calloc(STK_PROF_BINS, sizeof *cover);
    if (!a->phase || !cover) {
        free(cover);
        return stk_err_nomem(err, PHASES_MAX * sizeof *a->phase);
    }
    for (size_t i = 0; i < p->nmarks; i++)
        if (p->mark[i].kind == STK_MARK_PHASE)
            count_phase(a, &p->mark[i]);
    for (size_t k = 0; k < a->nphases; k++) {
        a->phase[k].mean_s = a->phase[k].total_s / (double)a->phase[k].count;
        if (p->bin_s > 0)
            cover_bins(p, a->phase[k].name, cover);
        for (size_t b = 0; p->bin_s > 0 && b < STK_PROF_BINS; b++)
            a->phase[k].io_s += bin_io_s(&p->bin[b]) * cover[b];
    }
    qsort(a->phase, a->nphases, sizeof *a->phase, by_total);
    free(cover);
    return 0;
}
