/*
 * fit.c - the numbers of a storage from a profile: the latency from reads that storage answered one
 * by one, the transfer from long reads, the cost of an open and of a stat from the files that have
 * more of one or of the other.
 */
#include "model/fit.h"

#include <math.h>
#include <string.h>

#include "analysis/parts.h"

/* Below these, nothing is measured: the first few reads are cold, one stall takes 10 ms, and a
 * disk's own cache absorbs 16 MiB. */
#define MEASURED_READS 20
#define MEASURED_S     0.01
#define MEASURED_BYTES (16.0 * 1048576)
#define UNCUT          4194304.0 /* bytes of a request that nothing is seen to cut up */
#define SYNCED         0.3 /* of opens, closes and stats: one sync per file */

/* ---- work ---- */

/* The mean of times that are spread evenly over a bin. */
static double bin_s(int b)
{
    return 1.5e-9 * exp2(b);
}

/* Requests that storage answered: those that take about as long as the ones that take most of the
 * time. The others found their bytes in memory (read ahead, or read before). */
static double count_slow(const struct stk_counts *n, double *fast_s)
{
    double all_s = 0, half_s = 0, slow = 0;
    int b = STK_LATENCY_BINS - 1, edge;
    for (int i = 0; i < STK_LATENCY_BINS; i++)
        all_s += n->read_latency[i] * bin_s(i);
    for (; b > 0 && half_s + n->read_latency[b] * bin_s(b) < all_s / 2; b--)
        half_s += n->read_latency[b] * bin_s(b);
    edge = b - 3; /* an eighth: page cache and storage differ by more, jitter by less */
    *fast_s = 0;
    for (int i = 0; i < STK_LATENCY_BINS; i++) {
        slow += i >= edge ? n->read_latency[i] : 0;
        *fast_s += i < edge ? n->read_latency[i] * bin_s(i) : 0;
    }
    return slow;
}

/* A call that lists a directory returns one name of many that came together. */
#define NAMES_PER_PAGE 64

struct stk_work stk_work_of(const struct stk_usage *u)
{
    const uint64_t *c = u->n.c;
    double fast_s, slow = count_slow(&u->n, &fast_s), reads = (double)c[STK_C_READS];
    slow = slow > 0 ? fmin(slow, reads) : reads; /* Darshan keeps no latencies */
    /* In order, every byte comes from storage once; otherwise those of the other reads do not. */
    bool in_order = u->consec >= STK_FIT_CONSECUTIVE;
    double bytes = in_order ? (double)c[STK_C_READ_BYTES] : slow * u->mean_read_bytes;
    return (struct stk_work){.opens = (double)c[STK_C_OPENS],
                             .asks = (double)c[STK_C_STATS] + (double)c[STK_C_REMOVES] +
                                     (double)c[STK_C_RENAMES] + (double)c[STK_C_ERRORS] +
                                     (double)c[STK_C_DIR_READS] / NAMES_PER_PAGE,
                             .requests = slow,
                             .cpu_s = fmin(fast_s, u->read_s),
                             .bytes = bytes,
                             .piped = in_order && slow < reads / 2};
}

double stk_compute_of(const struct stk_analysis *a)
{
    const struct stk_loop *l = &a->loop;
    bool known = l->how != STK_LOOP_UNKNOWN && l->compute_s >= 0;
    double ranks = a->p->nranks ? a->p->nranks : 1;
    return known ? l->compute_s : fmax(0, a->p->run_s - a->job.io_s / ranks);
}

#define BATCH   32.0
#define BATCHES 16.0

double stk_batch_of(const struct stk_analysis *a, double samples, double epoch, double readers)
{
    const struct stk_steps *s = &a->steps;
    if (s->marked && s->count)
        return fmax(1, ceil(samples / (double)s->count - 1e-9));
    return fmax(1, floor(fmin(BATCH, epoch / (BATCHES * fmax(1, readers)))));
}

/* ---- what those that read decode ---- */

#define CALL_S   2e-6 /* CPU time of a call … */
#define COPY_BPS 4e9  /* … and of the copy of its bytes */
#define MOST_OF  0.8

/* CPU time in calls, estimated, where no process says it. */
static double calls_cpu_s(const struct stk_analysis *a)
{
    const uint64_t *c = a->job.n.c;
    double calls = (double)(c[STK_C_READS] + c[STK_C_OPENS] + c[STK_C_CLOSES] + c[STK_C_STATS]);
    return fmin(a->job.io_s, calls * CALL_S + (double)c[STK_C_READ_BYTES] / COPY_BPS);
}

/* CPU time of the start, of which only the duration is known. A start is nearly all computing, but
 * on a busy machine it takes longer than its CPU time: then it has its share of it. */
static double start_cpu_s(const struct stk_loop *l, double cpu_s)
{
    double busy_s = l->start_s + fmax(0, l->compute_s);
    return l->start_s <= MOST_OF * cpu_s || busy_s <= 0 ? l->start_s : cpu_s * l->start_s / busy_s;
}

/* CPU time of a process after its start, outside the kernel where that is known. */
static double own_cpu_s(const struct stk_prof_proc *q, double start_s)
{
    double all = fmax(0, q->cpu_s - start_s);
    return q->user_s > 0 ? all * q->user_s / q->cpu_s : all;
}

static bool has_workers(const struct stk_analysis *a)
{
    for (size_t i = 0; i < a->nranks; i++)
        if (a->rank[i].workers)
            return true;
    return false;
}

bool stk_reads_in_turn(const struct stk_analysis *a)
{
    return !has_workers(a) && a->loop.how != STK_LOOP_THREADS;
}

double stk_readers_cpu_s(const struct stk_analysis *a, double begin_s)
{
    bool known = false, workers = has_workers(a);
    double s = 0;
    for (size_t i = 0; i < a->p->nprocs; i++) {
        const struct stk_prof_proc *q = &a->p->proc[i];
        if (workers ? !q->worker : !q->read_bytes)
            continue;
        s += own_cpu_s(q, workers ? begin_s : start_cpu_s(&a->loop, q->cpu_s));
        known = known || q->user_s > 0;
    }
    return known ? s : fmax(0, s - calls_cpu_s(a));
}

double stk_decode_of(const struct stk_analysis *a)
{
    double ranks = a->p->nranks ? a->p->nranks : 1;
    /* What an interpreter spends around a call is of the call: readers that share it gain nothing. */
    double calls_s = (double)a->job.n.c[STK_C_READS] * STK_INTERPRETER_S;
    double decode_s = fmax(0, stk_readers_cpu_s(a, 0) - calls_s) / ranks;
    return stk_reads_in_turn(a) ? fmin(decode_s, stk_compute_of(a)) : 0;
}

/* ---- fitting ---- */

struct sums { /* over the files of one file system */
    double small_reads, small_s, small_bytes;
    double long_bytes, long_s;
    double ahead_bytes, ahead_s, ahead_requests; /* in order: the kernel reads ahead */
    double oo, oa, aa, om, am; /* normal equations of opens and asks against seconds */
    double opens, asks, meta_s;
};

static bool is_on(const struct stk_usage *u, const char *fs)
{
    return strcmp(u->fs, fs) == 0;
}

static void add_reads(struct sums *s, const struct stk_usage *u)
{
    struct stk_work w = stk_work_of(u);
    double piece = w.requests > 0 ? w.bytes / w.requests : 0, wait_s = u->read_s - w.cpu_s;
    if (piece <= 0) {
        return;
    } else if (piece <= STK_FIT_SMALL) {
        s->small_reads += w.requests;
        s->small_s += wait_s;
        s->small_bytes += w.bytes;
    } else if (u->mean_read_bytes >= STK_FIT_LONG) {
        s->long_bytes += w.bytes;
        s->long_s += u->read_s;
    } else if (u->consec >= STK_FIT_CONSECUTIVE) {
        s->ahead_bytes += w.bytes;
        s->ahead_s += u->read_s;
        s->ahead_requests += w.requests;
    }
}

bool stk_usage_syncs(const struct stk_usage *u)
{
    const uint64_t *c = u->n.c;
    double n = (double)(c[STK_C_FSYNCS] + c[STK_C_MSYNCS]);
    return n >= 1 && n >= SYNCED * (double)(c[STK_C_OPENS] + c[STK_C_CLOSES] + c[STK_C_STATS]);
}

bool stk_usage_blocks(const struct stk_usage *u)
{
    uint64_t calls = stk_counts_meta_calls(&u->n) + u->n.c[STK_C_FSYNCS];
    return u->meta_s > STK_FIT_BLOCKED_S * (double)calls;
}

static void add_meta(struct sums *s, const struct stk_usage *u)
{
    struct stk_work w = stk_work_of(u);
    double calls = w.opens + w.asks;
    if (calls <= 0 || stk_usage_syncs(u) || stk_usage_blocks(u))
        return;
    /* Divided by the calls: every file counts by its mean, not by its square. */
    s->oo += w.opens * w.opens / calls;
    s->oa += w.opens * w.asks / calls;
    s->aa += w.asks * w.asks / calls;
    s->om += w.opens * u->meta_s / calls;
    s->am += w.asks * u->meta_s / calls;
    s->opens += w.opens;
    s->asks += w.asks;
    s->meta_s += u->meta_s;
}

/* Opens and stats cost the same unless many files with different shares of them show otherwise. One
 * stall among few calls says nothing: they cost no more than a request. */
static void fit_meta(struct stk_storage *st, const struct sums *s)
{
    double det = s->oo * s->aa - s->oa * s->oa;
    double calls = s->opens + s->asks, mean = calls > 0 ? s->meta_s / calls : st->latency_s;
    if (calls < MEASURED_READS)
        mean = fmin(mean, st->latency_s);
    st->open_s = st->ask_s = mean;
    if (fmin(s->opens, s->asks) < MEASURED_READS || !(det > 0.01 * s->oo * s->aa))
        return;
    double open = (s->om * s->aa - s->am * s->oa) / det;
    double ask = (s->am * s->oo - s->om * s->oa) / det;
    if (open >= 0 && ask >= 0) {
        st->open_s = open;
        st->ask_s = ask;
    }
}

/* A long read takes as long as its latencies, one per window, or as its transfer, whichever is
 * longer. If the latencies explain half of the time or more, the transfer is not seen. */
static void fit_transfer(struct stk_storage *st, const struct sums *s)
{
    /* Between smaller reads the program computes, and the transfer goes on: they show less. */
    bool is_long = s->long_s > MEASURED_S && s->long_bytes >= MEASURED_BYTES;
    bool is_ahead = s->ahead_s > MEASURED_S && s->ahead_bytes >= MEASURED_BYTES;
    st->read_measured = is_long || is_ahead;
    if (!st->read_measured)
        return;
    double rate = is_long ? s->long_bytes / s->long_s : s->ahead_bytes / s->ahead_s;
    if (s->ahead_requests >= MEASURED_READS)
        st->window = s->ahead_bytes / s->ahead_requests;
    else if (!st->latency_measured)
        st->window = UNCUT;
    if (!st->latency_measured)
        st->latency_s = fmin(st->latency_s, st->window / rate / 2);
    bool waits = st->latency_s * rate >= st->window / 2;
    st->window = waits ? st->latency_s * rate : st->window;
    st->read_Bps = waits ? fmax(st->read_Bps, rate) : rate;
}

struct stk_storage stk_storage_fit(const struct stk_analysis *a, const char *fs,
                                   enum stk_reach reach)
{
    struct stk_storage st = stk_storage_assumed(reach);
    const struct stk_fs *known = stk_fs_by_name(fs);
    struct sums s = {0};
    for (size_t i = 0; i < a->nfiles; i++)
        if (is_on(&a->file[i], fs)) {
            add_reads(&s, &a->file[i]);
            add_meta(&s, &a->file[i]);
        }
    if (known)
        stk_storage_on(&st, known);
    st.fs = fs;
    st.latency_measured = s.small_reads >= MEASURED_READS && s.small_s > 0;
    if (st.latency_measured)
        st.latency_s = s.small_s / s.small_reads;
    fit_transfer(&st, &s);
    if (st.latency_measured) /* small reads transfer something, too */
        st.latency_s = fmax(st.latency_s / 2,
                            (s.small_s - s.small_bytes / st.read_Bps) / s.small_reads);
    fit_meta(&st, &s);
    return st;
}
