/*
 * scale_table.c - one row per N: time with its interval, speedup, efficiency, service units,
 * Karp-Flatt. Each column has one unit and one number of decimals, so that numbers can be compared.
 */
#include <math.h>
#include <stdio.h>

#include "base/text.h"
#include "base/units.h"
#include "result/grid.h"
#include "report/report.h"
#include "report/scale.h"

#define CELL 32

/* How a table shows times. */
struct style {
    double factor; /* 1000: milliseconds */
    int decimals;
    char head[CELL]; /* "time, s" */
};

static struct style style_of(const struct stk_scaling *all, const struct stk_scaling_series *s)
{
    struct style st = {.factor = 1};
    double low = INFINITY, high = 0;
    for (size_t i = 0; i < s->nrows; i++)
        if (s->row[i].runs) {
            low = fmin(low, s->row[i].value);
            high = fmax(high, s->row[i].value);
        }
    if (!all->study->metric && high > 0 && high < 1)
        st.factor = 1000;
    low *= st.factor;
    /* Three digits of the smallest. */
    double digits = low > 0 && isfinite(low) ? 2 - floor(log10(low)) : 0;
    st.decimals = (int)fmin(fmax(digits, 0), 6);
    if (all->study->metric) {
        struct stk_buf b = STK_BUF_INIT;
        stk_text_escape(&b, all->study->metric, strlen(all->study->metric), 16);
        snprintf(st.head, sizeof st.head, "%s", stk_buf_cstr(&b));
        stk_buf_release(&b);
    } else {
        snprintf(st.head, sizeof st.head, "time, %s", st.factor > 1 ? "ms" : "s");
    }
    return st;
}

static const char *number(char *buf, double v, int decimals, const char *unit)
{
    if (fabs(v) >= 1e7 && isfinite(v)) /* nobody reads so many digits, and the table gets too
                                          wide */
        snprintf(buf, CELL, "%.3g%s", v, unit);
    else if (isfinite(v))
        snprintf(buf, CELL, "%.*f%s", decimals, v, unit);
    else
        snprintf(buf, CELL, "-");
    return buf;
}

static double half_width(const struct stk_scaling_row *r)
{
    struct stk_interval i = r->value_ci;
    return stk_interval_known(i) ? fmax(r->value - i.lo, i.hi - r->value) : NAN;
}

static const char *runs_text(const struct stk_scaling_row *r, char *buf)
{
    if (r->bad + r->lost)
        snprintf(buf, CELL, "%zu of %zu", r->runs, r->runs + r->bad + r->lost);
    else
        snprintf(buf, CELL, "%zu", r->runs);
    return buf;
}

static void add_row(struct stk_grid *g, const struct stk_scaling_row *r, const struct style *st)
{
    char c[9][CELL];
    snprintf(c[0], CELL, "%llu", (unsigned long long)r->n);
    if (r->runs)
        number(c[1], r->value * st->factor, st->decimals, "");
    else
        snprintf(c[1], CELL, "%s", stk_run_status_word(r->why));
    number(c[2], half_width(r) * st->factor, st->decimals, "");
    number(c[3], r->speedup, 2, "");
    number(c[4], 100 * r->efficiency, 0, " %");
    if (r->su < 0.1) /* a short run: still three digits */
        snprintf(c[5], CELL, "%.3g", r->su);
    else
        number(c[5], r->su, r->su < 10 ? 3 : r->su < 1000 ? 1 : 0, "");
    number(c[6], r->relative_su, 2, "");
    number(c[7], r->karp_flatt, 3, "");
    runs_text(r, c[8]);
    stk_grid_row(g, c[0], c[1], c[2], c[3], c[4], c[5], c[6], c[7], c[8]);
}

static void heading(const struct stk_scaling *all, const struct stk_scaling_series *s,
                    struct stk_buf *out)
{
    char n[80], t[32];
    const char *name = s->from->name;
    if (*name) {
        stk_text_escape(out, name, strlen(name), 60);
        stk_buf_puts(out, ": ");
    }
    stk_buf_printf(out, "%s scaling", all->study->weak ? "weak" : "strong");
    if (s->base < s->nrows) {
        struct stk_buf b = STK_BUF_INIT;
        stk_scaling_n(all, s->row[s->base].n, n, sizeof n);
        stk_text_escape(&b, n, strlen(n), 40);
        stk_buf_printf(out, ", against %s", stk_buf_cstr(&b));
        stk_buf_release(&b);
        if (!all->study->metric)
            stk_buf_printf(out, " (%s)", stk_format_duration(s->row[s->base].wall_s, t, sizeof t));
    }
    stk_buf_putc(out, '\n');
}

/* Why SUs are missing, and what relative SUs are then. */
static void explain_su(const struct stk_scaling *all, const struct stk_scaling_series *s, bool some,
                       struct stk_buf *out)
{
    static const struct {
        unsigned bit;
        const char *what;
    } parts[] = {
        {STK_SU_NO_CORES, "the number of cores (column cores, or --cores-per-n)"},
        {STK_SU_NO_GPUS, "the number of GPUs (column gpus, or --gpus-per-n)"},
        {STK_SU_NO_NODES, "the number of nodes (column nodes, or --nodes-per-n)"},
        {STK_SU_NO_TIME, "the time of a run (column time)"},
    };
    struct stk_buf b = STK_BUF_INIT;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (s->su_missing & parts[i].bit)
            stk_buf_printf(&b, "%s%s",
                           b.len  ? ", "
                           : some ? "no SU for some N: missing is "
                                  : "no SU: missing is ",
                           parts[i].what);
    if (b.len)
        stk_report_wrapped(stk_buf_cstr(&b), 2, 80, out);
    if (!s->su_known)
        stk_buf_puts(out, "  relative SU = N / speedup, as if cores, GPUs and nodes grew with N\n");
    if (s->su_known && all->study->metric && some) {
        stk_buf_reset(&b);
        stk_buf_printf(&b, "relative SU counts the work that %.60s measures, SU the whole run: they "
                           "grow differently",
                       all->study->metric);
        stk_report_wrapped(stk_buf_cstr(&b), 2, 80, out);
    }
    stk_buf_release(&b);
}

/* Explains numbers that are not obvious. */
static void footnote(const struct stk_scaling *all, const struct stk_scaling_series *s, bool utf8,
                     struct stk_buf *out)
{
    bool range = false, interval = false, su = false;
    for (size_t i = 0; i < s->nrows; i++) {
        const struct stk_scaling_row *r = &s->row[i];
        bool known = stk_interval_known(r->value_ci);
        range = range || (known && r->cost.ci_is_range);
        interval = interval || (known && !r->cost.ci_is_range);
        su = su || isfinite(r->su);
    }
    const char *pm = utf8 ? "\xc2\xb1" : "+-";
    if (interval && range)
        stk_buf_printf(
            out, "  %s: 95 %% interval of the median; the range if there are fewer than 6 runs\n",
            pm);
    else if (interval)
        stk_buf_printf(out, "  %s: 95 %% interval of the median\n", pm);
    else if (range)
        stk_buf_printf(out, "  %s: range of the runs (fewer than 6: no 95 %% interval)\n", pm);
    const struct stk_su_rates *rate = &all->o.su;
    if (su) {
        stk_buf_printf(out, "  SU = (%g x cores + %g x GPUs", rate->core, rate->gpu);
        if (rate->node > 0)
            stk_buf_printf(out, " + %g x nodes", rate->node);
        stk_buf_puts(out, ") x hours");
        if (rate->site) {
            stk_buf_puts(out, ", ");
            stk_text_escape(out, rate->site, strlen(rate->site), 40);
        }
        stk_buf_putc(out, '\n');
    }
    if (s->base < s->nrows)
        explain_su(all, s, su, out);
}

void stk_scale_table(const struct stk_scaling *all, size_t series, bool utf8, struct stk_buf *out)
{
    const struct stk_scaling_series *s = &all->series[series];
    struct style st = style_of(all, s);
    struct stk_grid g;
    heading(all, s, out);
    stk_grid_init(&g, "rrrrrrrrr");
    stk_grid_row(&g, "N", st.head, utf8 ? "\xc2\xb1" : "+-", "speedup", "efficiency", "SU",
                 "rel. SU", "Karp-Flatt", "runs");
    for (size_t i = 0; i < s->nrows; i++)
        add_row(&g, &s->row[i], &st);
    stk_grid_render(&g, 2, out);
    stk_grid_release(&g);
    footnote(all, s, utf8, out);
}
