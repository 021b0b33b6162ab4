/*
 * model.c - the time of I/O from five numbers of the storage. The numbers come from the profile:
 * the latency from reads that storage answered one by one, the transfer from long reads, the cost
 * of an open and of a stat from the files that have more of one or of the other.
 */
#include "advice/model.h"

#include <math.h>
#include <string.h>

#include "advice/priv.h"
#include "analysis/parts.h"

/* Below these, nothing is measured: the first few reads are cold, one stall takes 10 ms, and a
 * disk's own cache absorbs 16 MiB. */
#define MEASURED_READS 20
#define MEASURED_S     0.01
#define MEASURED_BYTES (16.0 * MIB)

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
    double bytes = u->consec >= stk_limits.consecutive ? (double)c[STK_C_READ_BYTES]
                                                       : slow * u->mean_read_bytes;
    return (struct stk_work){.opens = (double)c[STK_C_OPENS],
                             .asks = (double)c[STK_C_STATS] + (double)c[STK_C_REMOVES] +
                                     (double)c[STK_C_RENAMES] + (double)c[STK_C_ERRORS] +
                                     (double)c[STK_C_DIR_READS] / NAMES_PER_PAGE,
                             .requests = slow,
                             .memory_s = fmin(fast_s, u->read_s),
                             .bytes = bytes};
}

void stk_work_add(struct stk_work *to, const struct stk_work *w)
{
    to->opens += w->opens;
    to->asks += w->asks;
    to->requests += w->requests;
    to->bytes += w->bytes;
    to->memory_s += w->memory_s;
}

struct stk_work stk_work_read(const struct stk_storage *st, double bytes, double piece)
{
    return (struct stk_work){.requests = ceil(bytes / fmax(1, fmin(piece, st->window))),
                             .bytes = bytes};
}

/* Gaps between sorted random offsets are distributed exponentially around span / batch. Of bytes
 * that are drawn at random, those that came before are in memory. */
struct stk_work stk_work_sorted(const struct stk_storage *st, struct stk_work w, double span,
                                double batch)
{
    double mean = fmax(1, span / fmax(1, batch)), gaps = st->window / mean;
    double apart = exp(-gaps), merged = 1 - 1 / fmax(1, batch);
    w.bytes += w.requests * merged * mean * (1 - apart * (1 + gaps));
    w.requests *= 1 - merged * (1 - apart);
    double drawn = fmax(1e-9, w.bytes / fmax(1, span)), fresh = (1 - exp(-drawn)) / drawn;
    w.bytes *= fresh;
    w.requests *= fresh;
    return w;
}

double stk_model_s(const struct stk_storage *st, const struct stk_work *w)
{
    double wait = w->opens * st->open_s + w->asks * st->ask_s + w->requests * st->latency_s;
    return wait / fmax(1, w->lanes) + w->bytes / st->Bps + w->memory_s;
}

double stk_model_saved_s(const struct stk_storage *st, double measured_s,
                         const struct stk_work *before, const struct stk_work *after)
{
    double was = stk_model_s(st, before), is = stk_model_s(st, after);
    return was > 0 && is < was ? measured_s * (1 - is / was) : 0;
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
    double piece = w.requests > 0 ? w.bytes / w.requests : 0, wait_s = u->read_s - w.memory_s;
    if (piece <= 0) {
        return;
    } else if (piece <= (double)stk_limits.small_read) {
        s->small_reads += w.requests;
        s->small_s += wait_s;
        s->small_bytes += w.bytes;
    } else if (u->mean_read_bytes >= (double)stk_limits.unit_read) {
        s->long_bytes += w.bytes;
        s->long_s += u->read_s;
    } else if (u->consec >= stk_limits.consecutive) {
        s->ahead_bytes += w.bytes;
        s->ahead_s += u->read_s;
        s->ahead_requests += w.requests;
    }
}

static void add_meta(struct sums *s, const struct stk_usage *u)
{
    struct stk_work w = stk_work_of(u);
    double calls = w.opens + w.asks;
    if (calls <= 0 || stk_advice_syncs(u) || stk_kind_blocks(u))
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

/* Opens and stats cost the same unless many files with different shares of them show otherwise. */
static void fit_meta(struct stk_storage *st, const struct sums *s)
{
    double det = s->oo * s->aa - s->oa * s->oa;
    double calls = s->opens + s->asks, mean = calls > 0 ? s->meta_s / calls : st->latency_s;
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

/* The time of long reads is latency per window plus transfer. If the latencies alone would take
 * longer, the storage answers larger requests. */
static void fit_transfer(struct stk_storage *st, const struct sums *s)
{
    /* Between smaller reads the program computes, and the transfer goes on: they show less. */
    bool is_long = s->long_s > MEASURED_S && s->long_bytes >= MEASURED_BYTES;
    bool is_ahead = s->ahead_s > MEASURED_S && s->ahead_bytes >= MEASURED_BYTES;
    st->Bps_measured = is_long || is_ahead;
    if (!st->Bps_measured)
        return;
    double rate = is_long ? s->long_bytes / s->long_s : s->ahead_bytes / s->ahead_s;
    if (s->ahead_requests >= MEASURED_READS)
        st->window = s->ahead_bytes / s->ahead_requests;
    else if (!st->latency_measured)
        st->window = (double)stk_limits.big_read;
    if (!st->latency_measured)
        st->latency_s = fmin(st->latency_s, st->window / rate / 2);
    st->window = fmax(st->window, 1.1 * st->latency_s * rate);
    st->Bps = rate / (1 - st->latency_s * rate / st->window);
}

static void assume(struct stk_storage *st, enum reach reach)
{
    const struct advice_limits *l = &stk_limits;
    st->latency_s = reach == REACH_SHARED ? l->shared_latency_s : l->local_latency_s;
    st->Bps = reach == REACH_SHARED   ? l->shared_Bps
              : reach == REACH_MEMORY ? l->page_Bps
                                      : l->local_Bps;
    st->window = (double)l->window;
}

struct stk_storage stk_storage_fit(const struct stk_analysis *a, const char *fs, enum reach reach)
{
    struct stk_storage st = {.fs = fs};
    struct sums s = {0};
    for (size_t i = 0; i < a->nfiles; i++)
        if (is_on(&a->file[i], fs)) {
            add_reads(&s, &a->file[i]);
            add_meta(&s, &a->file[i]);
        }
    assume(&st, reach);
    st.latency_measured = s.small_reads >= MEASURED_READS && s.small_s > 0;
    if (st.latency_measured)
        st.latency_s = s.small_s / s.small_reads;
    fit_transfer(&st, &s);
    if (st.latency_measured) /* small reads transfer something, too */
        st.latency_s = fmax(st.latency_s / 2, (s.small_s - s.small_bytes / st.Bps) / s.small_reads);
    fit_meta(&st, &s);
    return st;
}
