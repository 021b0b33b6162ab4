/*
 * shape.c - distributions: sizes and strides of requests, durations of reads and the time between
 * them, the program's own phases, and the run as a table over time.
 */
#include <stdio.h>

#include "base/text.h"
#include "base/units.h"
#include "result/grid.h"
#include "report/report_priv.h"

#define TIMELINE_ROWS 24

/* ---- sizes --------------------------------------------------------------------------------- */

const char *const stk_report_size_name[STK_SIZE_BINS] = {
    "to 100 B", "to 1 KiB",  "to 10 KiB",  "to 100 KiB", "to 1 MiB",
    "to 4 MiB", "to 10 MiB", "to 100 MiB", "to 1 GiB",   "above 1 GiB"};

static void put_histogram(const struct stk_report *r, const char *what, const uint64_t *count,
                          struct stk_buf *out)
{
    uint64_t all = 0;
    size_t from = STK_SIZE_BINS, to = 0; /* the bins with a count, and those between */
    struct stk_grid t;
    for (size_t i = 0; i < STK_SIZE_BINS; i++) {
        all += count[i];
        from = count[i] && i < from ? i : from;
        to = count[i] ? i + 1 : to;
    }
    if (!all)
        return;
    stk_buf_printf(out, "sizes of %s\n", what);
    stk_grid_init(&t, "lrrl");
    for (size_t i = from; i < to; i++) {
        char n[32], share[16];
        struct stk_buf bar = STK_BUF_INIT;
        double part = (double)count[i] / (double)all;
        stk_grid_bar(part, (unsigned)stk_report_room(r, 40), r->utf8, &bar);
        stk_grid_row(&t, stk_report_size_name[i], stk_word_count(count[i], n, sizeof n),
                     count[i] ? stk_word_share(part, share, sizeof share) : "", stk_buf_cstr(&bar));
        stk_buf_release(&bar);
    }
    stk_grid_render(&t, 2, out);
    stk_grid_release(&t);
}

/* Strides may be negative. */
static const char *stride_text(uint64_t value, char *buf, size_t size)
{
    char n[32];
    bool back = value >> 63;
    snprintf(buf, size, "%s%s", back ? "-" : "+",
             stk_format_count(back ? 0 - value : value, n, sizeof n));
    return buf;
}

static void put_common(const char *what, const struct stk_common_value *v, bool stride,
                       struct stk_buf *out)
{
    char n[32], value[40];
    bool first = true;
    for (size_t i = 0; i < STK_COMMON; i++) {
        if (!v[i].count)
            continue;
        stk_buf_printf(out, "%s%s (%s%s)", first ? what : ", ",
                       stride ? stride_text(v[i].value, value, sizeof value)
                              : stk_format_count(v[i].value, value, sizeof value),
                       v[i].count == 1 ? "once" : stk_format_count(v[i].count, n, sizeof n),
                       v[i].count == 1 ? "" : " times");
        first = false;
    }
}

void stk_report_sizes(const struct stk_report *r, struct stk_buf *out)
{
    const struct stk_counts *n = &r->a->job.n;
    struct stk_buf line = STK_BUF_INIT;
    if (!n->c[STK_C_READS] && !n->c[STK_C_WRITES])
        stk_buf_puts(out, "sizes: no data was read or written\n");
    put_histogram(r, "reads", n->read_size, out);
    put_histogram(r, "writes", n->write_size, out);
    put_common("most common reads, bytes: ", n->size, false, &line);
    if (line.len)
        stk_report_wrapped(stk_buf_cstr(&line), 0, r->columns, out);
    stk_buf_reset(&line);
    put_common("most common strides, bytes: ", n->stride, true, &line);
    if (line.len)
        stk_report_wrapped(stk_buf_cstr(&line), 0, r->columns, out);
    stk_buf_release(&line);
}

/* ---- latency ------------------------------------------------------------------------------- */

static const char *log2_text(unsigned bin, char *buf, size_t size)
{
    return stk_word_time(1e-9 * (double)((uint64_t)1 << bin), buf, size);
}

static void log2_rows(const struct stk_report *r, const uint64_t *count, unsigned nbins,
                      struct stk_buf *out)
{
    unsigned first = nbins, last = 0;
    uint64_t all = 0;
    struct stk_grid t;
    for (unsigned b = 0; b < nbins; b++) {
        all += count[b];
        if (count[b]) {
            first = first < b ? first : b;
            last = b;
        }
    }
    stk_grid_init(&t, "rrrl");
    for (unsigned b = first; b <= last && all; b++) {
        char from[40], label[64], n[32], share[16];
        struct stk_buf bar = STK_BUF_INIT;
        double part = (double)count[b] / (double)all;
        snprintf(label, sizeof label, "%s%s", b + 1 == nbins ? "over " : "from ",
                 log2_text(b, from, sizeof from));
        stk_grid_bar(part, (unsigned)stk_report_room(r, 42), r->utf8, &bar);
        stk_grid_row(&t, label, stk_word_count(count[b], n, sizeof n),
                     count[b] ? stk_word_share(part, share, sizeof share) : "", stk_buf_cstr(&bar));
        stk_buf_release(&bar);
    }
    stk_grid_render(&t, 2, out);
    stk_grid_release(&t);
}

void stk_report_latency(const struct stk_report *r, struct stk_buf *out)
{
    const struct stk_usage *j = &r->a->job;
    uint64_t reads[STK_LATENCY_BINS], gaps[STK_GAP_BINS], any = 0;
    char a[40], b[40], c[40], d[40];
    for (size_t i = 0; i < STK_LATENCY_BINS; i++)
        any += reads[i] = j->n.read_latency[i];
    stk_buf_puts(out, "how long reads took\n");
    if (any)
        log2_rows(r, reads, STK_LATENCY_BINS, out);
    stk_buf_printf(out, "  p50 %s, p99 %s, longest read %s, longest write %s\n",
                   stk_word_time(j->latency_p50_s, a, sizeof a),
                   stk_word_time(j->latency_p99_s, b, sizeof b),
                   stk_word_time(1e-9 * (double)j->n.c[STK_C_MAX_READ_NS], c, sizeof c),
                   stk_word_time(1e-9 * (double)j->n.c[STK_C_MAX_WRITE_NS], d, sizeof d));
    any = 0;
    for (size_t i = 0; i < STK_GAP_BINS; i++)
        any += gaps[i] = r->a->p->gap[i].count;
    if (!any)
        return;
    stk_buf_puts(out, "time between a thread's reads: what it did with the data\n");
    log2_rows(r, gaps, STK_GAP_BINS, out);
}

/* ---- phases, steps, epochs ----------------------------------------------------------------- */

static void put_phases(const struct stk_report *r, struct stk_buf *out)
{
    const struct stk_analysis *a = r->a;
    size_t n = stk_report_rows(r, a->nphases);
    struct stk_buf name = STK_BUF_INIT;
    struct stk_grid t;
    stk_grid_init(&t, "lrrrrrr");
    stk_grid_row(&t, "phase", "times", "in all", "share", "mean", "longest", "I/O, threads added");
    for (size_t i = 0; i < n; i++) {
        const struct stk_phase *ph = &a->phase[i];
        char times[32], total[40], share[16], mean[40], max[40], io[40];
        stk_grid_row(
            &t, stk_word_cut(&name, ph->name, stk_report_room(r, 60)),
            stk_word_count(ph->count, times, sizeof times),
            stk_word_time(ph->total_s, total, sizeof total),
            stk_word_share(a->p->run_s > 0 ? ph->total_s / a->p->run_s : -1, share, sizeof share),
            stk_word_time(ph->mean_s, mean, sizeof mean), stk_word_time(ph->max_s, max, sizeof max),
            stk_word_time(ph->io_s, io, sizeof io));
    }
    stk_grid_render(&t, 2, out);
    stk_report_more(n, a->nphases, out);
    stk_grid_release(&t);
    stk_buf_release(&name);
}

static void put_steps(const struct stk_steps *s, unsigned columns, struct stk_buf *out)
{
    struct stk_buf line = STK_BUF_INIT;
    char n[40], mean[40], p50[40], p99[40], max[40], io[40];
    if (!s->count)
        return;
    stk_buf_printf(
        &line, "%s (%s): mean %s, p50 %s, p99 %s, longest %s",
        stk_word_many(s->count, "step", n, sizeof n),
        s->marked ? "marked" : "detected from pauses between reads: an estimate",
        stk_word_time(s->mean_s, mean, sizeof mean), stk_word_time(s->p50_s, p50, sizeof p50),
        stk_word_time(s->p99_s, p99, sizeof p99), stk_word_time(s->max_s, max, sizeof max));
    stk_report_wrapped(stk_buf_cstr(&line), 2, columns, out);
    stk_buf_release(&line);
    stk_buf_printf(out, "  I/O per step about %s, threads added up\n",
                   stk_word_time(s->io_s, io, sizeof io));
}

static void put_epochs(const struct stk_report *r, struct stk_buf *out)
{
    const struct stk_analysis *a = r->a;
    size_t n = stk_report_rows(r, a->nepochs);
    struct stk_grid t;
    stk_grid_init(&t, "rrrrr");
    stk_grid_row(&t, a->epochs_marked ? "epoch" : "epoch, detected", "begins", "lasts", "read",
                 "I/O, threads added");
    for (size_t i = 0; i < n; i++) {
        const struct stk_epoch *e = &a->epoch[i];
        char number[24], begins[40], lasts[40], read[40], io[40];
        snprintf(number, sizeof number, "%llu", (unsigned long long)e->number);
        stk_grid_row(&t, number, stk_word_moment(e->start_s, begins, sizeof begins),
                     stk_word_time(e->end_s - e->start_s, lasts, sizeof lasts),
                     stk_word_size(e->read_bytes, read, sizeof read),
                     stk_word_time(e->io_s, io, sizeof io));
    }
    stk_grid_render(&t, 2, out);
    stk_report_more(n, a->nepochs, out);
    stk_grid_release(&t);
}

void stk_report_phases(const struct stk_report *r, struct stk_buf *out)
{
    const struct stk_analysis *a = r->a;
    stk_report_heading("phases, steps, epochs", out);
    if (a->nphases)
        put_phases(r, out);
    put_steps(&a->steps, r->columns, out);
    if (a->nepochs)
        put_epochs(r, out);
    if (!a->nphases)
        stk_report_wrapped("no phases were marked: mark portions of the code with `with "
                           "stoker.phase(\"load\"):` in Python, stk_phase_begin(\"load\") in C",
                           2, r->columns, out);
}

/* ---- the run as a table -------------------------------------------------------------------- */

void stk_report_timeline(const struct stk_report *r, struct stk_buf *out)
{
    static const enum stk_series what[] = {
        STK_SERIES_READ_BPS, STK_SERIES_WRITE_BPS, STK_SERIES_READS, STK_SERIES_META,
        STK_SERIES_IO,       STK_SERIES_CPU,       STK_SERIES_GPU};
    double v[7][TIMELINE_ROWS], span = stk_report_span_s(r->a->p);
    bool any[7];
    struct stk_grid t;
    for (size_t s = 0; s < 7; s++)
        any[s] = stk_report_series(r->a->p, what[s], v[s], TIMELINE_ROWS);
    stk_report_heading("over time", out);
    stk_grid_init(&t, "rrrrrrrr");
    stk_grid_row(&t, "from", "read", "write", "reads/s", "meta/s", "in I/O", "CPU", "GPU");
    for (size_t i = 0; i < TIMELINE_ROWS && span > 0; i++) {
        char cell[8][40];
        stk_word_moment(span * (double)i / TIMELINE_ROWS, cell[0], sizeof cell[0]);
        stk_word_rate(v[0][i], cell[1], sizeof cell[1]);
        stk_word_rate(v[1][i], cell[2], sizeof cell[2]);
        stk_word_count(stk_nearest(v[2][i]), cell[3], sizeof cell[3]);
        stk_word_count(stk_nearest(v[3][i]), cell[4], sizeof cell[4]);
        snprintf(cell[5], sizeof cell[5], "%.2f", v[4][i]);
        snprintf(cell[6], sizeof cell[6], any[5] && v[5][i] >= 0 ? "%.2f" : "-", v[5][i]);
        stk_word_share(any[6] ? v[6][i] : -1, cell[7], sizeof cell[7]);
        stk_grid_row(&t, cell[0], cell[1], cell[2], cell[3], cell[4], cell[5], cell[6], cell[7]);
    }
    stk_grid_render(&t, 2, out);
    stk_grid_release(&t);
    stk_buf_puts(out, "  in I/O: threads in a call, on average; CPU: cores in use\n");
}
