/*
 * chart.c - the run over time: the speed of reads, the load of CPUs and GPU meanwhile, and where
 * steps and epochs began. Bins and readings are resampled to the available columns.
 */
#include <math.h>
#include <stdio.h>

#include "base/text.h"
#include "base/units.h"
#include "result/grid.h"
#include "report/report_priv.h"

#define LABEL      24 /* columns left of the chart */
#define MIB        (1u << 20)
#define ROWS       2 /* of the chart of reads */
#define MAX_COLUMN 512

double stk_report_span_s(const struct stk_profile *p)
{
    double all = p->bin_s * STK_PROF_BINS;
    double s = p->run_s > 0 ? p->run_s : 0;
    return p->bin_s > 0 && s > all ? all : s > 0 ? s : all;
}

static double bin_value(const struct stk_prof_bin *b, enum stk_series what)
{
    switch (what) {
    case STK_SERIES_READ_BPS:
        return (double)b->read_bytes;
    case STK_SERIES_WRITE_BPS:
        return (double)b->write_bytes;
    case STK_SERIES_READS:
        return (double)b->reads;
    case STK_SERIES_META:
        return (double)b->meta_calls;
    case STK_SERIES_IO:
        return 1e-9 * ((double)b->read_ns + (double)b->write_ns + (double)b->meta_ns);
    default:
        return 0;
    }
}

/* Spreads the content of a bin evenly over the columns it covers, and divides by their time. */
static bool from_bins(const struct stk_profile *p, enum stk_series what, double *v, size_t n)
{
    double span = stk_report_span_s(p), column_s = span / (double)n;
    bool any = false;
    for (size_t i = 0; i < n; i++)
        v[i] = 0;
    if (!(p->bin_s > 0) || !(column_s > 0))
        return false;
    for (size_t i = 0; i < STK_PROF_BINS; i++) {
        double amount = bin_value(&p->bin[i], what);
        if (!(amount > 0))
            continue;
        any = true;
        double from = (double)i * p->bin_s, to = from + p->bin_s;
        /* The last bin extends past the end of the run; its content does not. */
        to = to > span && from < span ? span : to;
        for (size_t c = (size_t)fmin(from / column_s, (double)(n - 1)); c < n; c++) {
            double lo = fmax(from, (double)c * column_s);
            double hi = c + 1 < n ? fmin(to, (double)(c + 1) * column_s) : to;
            if (hi <= lo && c + 1 < n)
                break;
            v[c] += amount * fmax(hi - lo, 0) / (to - from) / column_s;
        }
    }
    return any;
}

static double reading_value(const struct stk_prof_reading *s, enum stk_series what)
{
    return what == STK_SERIES_GPU      ? s->gpu_util
           : what == STK_SERIES_IOWAIT ? s->iowait_cores
           : what == STK_SERIES_MEMORY ? (double)s->resident_bytes
                                       : s->cpu_cores;
}

/* No node has a million cores; memory has no such limit. */
static double reading_limit(enum stk_series what)
{
    return what == STK_SERIES_MEMORY ? 1e18 : 1e6;
}

/* A reading covers the time since the one before it of the same launcher: rates are means over that
 * time. The first covers its moment only. Readings stand by launcher, then time. */
static double covers_from(const struct stk_profile *p, size_t i)
{
    const struct stk_prof_reading *r = &p->reading[i];
    bool first = i == 0 || p->reading[i - 1].launcher != r->launcher;
    return first ? r->at_s : fmax(0, fmin(p->reading[i - 1].at_s, r->at_s));
}

/* Adds a value to the columns between two places, weighted by the part of each that it covers. */
static void add_covered(double from, double to, double x, double *sum, double *weight, size_t n)
{
    const double moment = 1e-9; /* of a column: counts if nothing else does */
    size_t first = (size_t)fmin(from, (double)(n - 1));
    to = fmin(to, (double)n);
    for (size_t c = first; c < n && (c == first || (double)c < to); c++) {
        double part = fmin(to, (double)(c + 1)) - fmax(from, (double)c);
        sum[c] += x * fmax(part, moment);
        weight[c] += fmax(part, moment);
    }
}

/* Cores and memory of several launchers add up. */
static bool from_readings(const struct stk_profile *p, enum stk_series what, double *v, size_t n)
{
    double span = stk_report_span_s(p);
    double sum[MAX_COLUMN] = {0}, weight[MAX_COLUMN] = {0};
    uint32_t launchers = 0;
    bool any = false;
    if (n > MAX_COLUMN || !(span > 0))
        return false;
    for (size_t i = 0; i < p->nreadings; i++) {
        const struct stk_prof_reading *s = &p->reading[i];
        double x = reading_value(s, what), per_s = (double)n / span;
        launchers = s->launcher + 1 > launchers ? s->launcher + 1 : launchers;
        if (!(x >= 0 && x < reading_limit(what)) || !(s->at_s >= 0))
            continue;
        add_covered(covers_from(p, i) * per_s, s->at_s * per_s, x, sum, weight, n);
        any = true;
    }
    bool adds_up = what == STK_SERIES_CPU || what == STK_SERIES_MEMORY;
    double scale = adds_up ? (double)launchers : 1;
    for (size_t c = 0; c < n; c++)
        v[c] = weight[c] > 0 ? sum[c] / weight[c] * scale : -1;
    return any;
}

bool stk_report_series(const struct stk_profile *p, enum stk_series what, double *v, size_t n)
{
    return what >= STK_SERIES_CPU ? from_readings(p, what, v, n) : from_bins(p, what, v, n);
}

/* ---- drawing ------------------------------------------------------------------------------- */

/* A cell filled to `level` eighths from below. */
static void put_level(unsigned level, bool utf8, struct stk_buf *out)
{
    static const char ascii[] = " .:-=+*##";
    char block[4];
    if (!utf8 || level == 0)
        stk_buf_putc(out, ascii[level]);
    else
        stk_buf_put(out, block, stk_utf8_put(block, 0x2580 + level));
}

static void put_label(const char *name, const char *top, struct stk_buf *out)
{
    int room = LABEL - 2 - (int)strlen(name);
    stk_buf_printf(out, "%s%*s  ", name, room > 0 ? room : 0, top);
}

/* Strips trailing blanks and ends the line. */
static void end_line(struct stk_buf *out)
{
    while (out->len && out->data[out->len - 1] == ' ')
        out->len--;
    stk_buf_putc(out, '\n');
}

struct series {
    const char *name;
    double v[MAX_COLUMN], top;
    size_t n;
};

/* The text left of the rows: "read  peak 1.20 GiB/s" and below it "mean 210 MiB/s". */
struct label {
    char peak[48], mean[48];
};

static void draw(const struct series *s, unsigned rows, const struct label *l, bool utf8,
                 struct stk_buf *out)
{
    for (unsigned row = rows; row-- > 0;) {
        bool first = row + 1 == rows, second = row + 2 == rows;
        put_label(first ? s->name : "", first ? l->peak : second ? l->mean : "", out);
        for (size_t c = 0; c < s->n; c++) {
            double eighths = s->top > 0 ? s->v[c] / s->top * rows * 8 : 0;
            /* Anything above 0 is visible. */
            unsigned all = eighths > 0 ? (unsigned)fmin(fmax(eighths + 0.5, 1), rows * 8) : 0;
            unsigned below = row * 8;
            put_level(all <= below ? 0 : all - below > 8 ? 8 : all - below, utf8, out);
        }
        end_line(out);
    }
}

/* From the bins themselves, not from the columns. */
static struct label rates(const struct stk_profile *p, enum stk_series what)
{
    struct label l = {.mean = ""};
    char text[40];
    double all = 0, peak = 0, span = stk_report_span_s(p);
    for (size_t i = 0; i < STK_PROF_BINS; i++) {
        double amount = bin_value(&p->bin[i], what), from = (double)i * p->bin_s;
        double width = from < span ? fmin(p->bin_s, span - from) : p->bin_s;
        all += amount;
        /* The last bin may hold a call that ended in its first moment. */
        peak = fmax(peak, amount / fmax(width, p->bin_s / 2));
    }
    snprintf(l.peak, sizeof l.peak, "peak %s", stk_word_rate(peak, text, sizeof text));
    snprintf(l.mean, sizeof l.mean, "mean %s", stk_word_rate(all / span, text, sizeof text));
    return l;
}

static bool fill(const struct stk_profile *p, enum stk_series what, struct series *s)
{
    bool any = stk_report_series(p, what, s->v, s->n);
    s->top = 0;
    for (size_t c = 0; c < s->n; c++)
        s->top = s->v[c] > s->top ? s->v[c] : s->top;
    return any;
}

static void draw_data(const struct stk_report *r, struct series *s, struct stk_buf *out)
{
    const struct stk_profile *p = r->a->p;
    struct label l;
    s->name = "read";
    if (fill(p, STK_SERIES_READ_BPS, s)) {
        l = rates(p, STK_SERIES_READ_BPS);
        draw(s, ROWS, &l, r->utf8, out);
    }
    const uint64_t *c = r->a->job.n.c;
    bool writes = c[STK_C_WRITE_BYTES] >= MIB || c[STK_C_WRITE_BYTES] > c[STK_C_READ_BYTES] / 100;
    s->name = "write";
    if (writes && fill(p, STK_SERIES_WRITE_BPS, s)) {
        l = rates(p, STK_SERIES_WRITE_BPS);
        draw(s, 1, &l, r->utf8, out);
    }
}

static void draw_readings(const struct stk_report *r, struct series *s, struct stk_buf *out)
{
    const struct stk_analysis *a = r->a;
    struct label l = {.mean = ""};
    s->name = "CPU";
    if (fill(a->p, STK_SERIES_CPU, s)) {
        s->top = fmax(s->top, 1); /* a hundredth of a core must not look busy */
        snprintf(l.peak, sizeof l.peak, "mean %.1f cores", a->cpu_cores_mean);
        draw(s, 1, &l, r->utf8, out);
    }
    s->name = "GPU";
    if (fill(a->p, STK_SERIES_GPU, s)) {
        char text[16];
        s->top = 1;
        snprintf(l.peak, sizeof l.peak, "mean %s",
                 stk_word_share(a->gpu_util_mean, text, sizeof text));
        draw(s, 1, &l, r->utf8, out);
    }
}

/* ---- the axis ------------------------------------------------------------------------------ */

struct axis {
    char text[MAX_COLUMN + 1];
    size_t n, free; /* the first free column */
};

/* Puts "|12" at the moment, if it is free and `gap` columns after the last one. */
static void put_tick(struct axis *x, double share, uint64_t number, size_t gap)
{
    char tick[32];
    size_t len = (size_t)snprintf(tick, sizeof tick, "|%llu", (unsigned long long)number);
    size_t at = share > 0 ? (size_t)fmin(share * (double)x->n, (double)x->n) : 0;
    if (at < x->free || at + len > x->n)
        return;
    memcpy(x->text + at, tick, len);
    x->free = at + len + gap;
}

static struct axis axis_of(size_t n)
{
    struct axis x = {.n = n};
    memset(x.text, ' ', n);
    return x;
}

static void put_axis(const struct axis *x, const char *name, const char *top, struct stk_buf *out)
{
    put_label(name, top, out);
    stk_buf_puts(out, x->text);
    end_line(out);
}

static void draw_epochs(const struct stk_analysis *a, size_t n, struct stk_buf *out)
{
    struct axis x = axis_of(n);
    double span = stk_report_span_s(a->p);
    for (size_t i = 0; i < a->nepochs; i++)
        put_tick(&x, a->epoch[i].start_s / span, a->epoch[i].number, 1);
    put_axis(&x, "epoch", a->epochs_marked ? "" : "(found)", out);
}

/* The steps of the first process that marks them, with as many numbers as are readable. */
static void draw_steps(const struct stk_analysis *a, size_t n, struct stk_buf *out)
{
    const struct stk_profile *p = a->p;
    struct axis x = axis_of(n);
    double span = stk_report_span_s(p);
    uint32_t proc = UINT32_MAX;
    for (size_t i = 0; i < p->nmarks; i++) {
        const struct stk_prof_mark *m = &p->mark[i];
        if (m->kind != STK_MARK_STEP || (proc != UINT32_MAX && m->proc != proc))
            continue;
        proc = m->proc;
        put_tick(&x, m->at_s / span, m->number, 8);
    }
    if (proc != UINT32_MAX)
        put_axis(&x, "step", "", out);
}

static void draw_time(const struct stk_profile *p, size_t n, struct stk_buf *out)
{
    char end[40];
    stk_format_duration(stk_report_span_s(p), end, sizeof end);
    put_label("time", "", out);
    stk_buf_printf(out, "0%*s\n", (int)n - 1, end);
}

void stk_report_chart(const struct stk_report *r, struct stk_buf *out)
{
    const struct stk_analysis *a = r->a;
    size_t columns = r->columns > MAX_COLUMN ? MAX_COLUMN : r->columns < 40 ? 40 : r->columns;
    struct series s = {.n = columns - LABEL};
    size_t before = out->len;
    if (!(stk_report_span_s(a->p) > 0))
        return;
    draw_data(r, &s, out);
    draw_readings(r, &s, out);
    if (out->len == before)
        return;
    if (a->nepochs > 1 || (a->nepochs && a->epochs_marked))
        draw_epochs(a, s.n, out);
    if (a->steps.marked)
        draw_steps(a, s.n, out);
    draw_time(a->p, s.n, out);
}
