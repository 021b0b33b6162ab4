/*
 * study_plots.c - studies drawn over N: speedup with the ideal and the fitted law, time, efficiency
 * and cost. The plateau and the N to request are marked.
 */
#include "report/html/study.h"

#include <stdio.h>
#include <string.h>

#define CURVE 48 /* points of a law */

/* ---- the x axis: N ------------------------------------------------------------------------- */

static bool good(const struct stk_scaling_row *r)
{
    return r->runs > 0;
}

static void put_n_axis(struct stk_jw *w, const struct stk_scaling *all)
{
    const struct stk_pg_axis axis = {stk_pg_study_unit(all), "", "log", NAN, NAN};
    stk_pg_x(w, &axis);
    stk_jw_close(w, '}');
}

/* The wishes that one N fulfils, and the plateau, in one mark. */
static void mark_text(const struct stk_scaling_series *s, uint64_t n, struct stk_buf *b)
{
    for (int k = 0; k < STK_WISHES; k++)
        if (s->choice[k].asked && s->choice[k].found && s->row[s->choice[k].row].n == n)
            stk_buf_printf(b, "%s%s%s", b->len ? ", " : "", stk_wish_id((enum stk_wish)k),
                           stk_pg_doubt(&s->choice[k]));
    if (s->plateau.found && s->plateau.n == n)
        stk_buf_printf(b, "%splateau%s", b->len ? ", " : "",
                       s->plateau.sure ? "" : ", or later");
}

/* Several studies are told apart by the names and colours of their marks. */
static void put_series_marks(struct stk_jw *w, const struct stk_scaling *all, size_t k)
{
    const struct stk_scaling_series *s = &all->series[k];
    for (size_t i = 0; i < s->nrows; i++) {
        struct stk_buf b = STK_BUF_INIT, name = STK_BUF_INIT;
        mark_text(s, s->row[i].n, &b);
        if (all->nseries > 1)
            stk_buf_printf(&name, "%.40s: ", stk_pg_series_name(s));
        stk_buf_puts(&name, stk_buf_cstr(&b));
        if (b.len)
            stk_pg_mark(w, (double)s->row[i].n, stk_buf_cstr(&name),
                        all->nseries > 1 ? k : STK_PG_NO_COLOR);
        stk_buf_release(&name);
        stk_buf_release(&b);
    }
}

static void put_marks(struct stk_jw *w, const struct stk_scaling *all)
{
    stk_pg_marks(w);
    for (size_t k = 0; k < all->nseries; k++)
        put_series_marks(w, all, k);
    stk_jw_close(w, ']');
}

/* ---- a number over N ----------------------------------------------------------------------- */

struct measure {
    size_t value;   /* offset of a double in stk_scaling_row */
    size_t range;   /* of a struct stk_interval; 0: none */
    const char *as; /* how the points are drawn */
};

static double at(const struct stk_scaling_row *r, size_t offset)
{
    double v;
    memcpy(&v, (const char *)r + offset, sizeof v);
    return v;
}

static void put_column(struct stk_jw *w, const char *key, const struct stk_scaling_series *s,
                       size_t offset)
{
    stk_jw_key(w, key);
    stk_jw_open(w, '[');
    for (size_t i = 0; i < s->nrows; i++)
        if (good(&s->row[i]))
            stk_pg_value(w, at(&s->row[i], offset));
    stk_jw_close(w, ']');
}

static void put_ns(struct stk_jw *w, const struct stk_scaling_series *s)
{
    stk_jw_key(w, "x");
    stk_jw_open(w, '[');
    for (size_t i = 0; i < s->nrows; i++)
        if (good(&s->row[i]))
            stk_jw_u64(w, s->row[i].n);
    stk_jw_close(w, ']');
}

static void put_measured(struct stk_jw *w, const struct stk_scaling *all, const struct measure *m)
{
    for (size_t k = 0; k < all->nseries; k++) {
        const struct stk_scaling_series *s = &all->series[k];
        stk_pg_series(w, stk_pg_series_name(s), m->as);
        stk_jw_put_u64(w, "color", k);
        put_ns(w, s);
        put_column(w, "v", s, m->value);
        if (m->range) {
            put_column(w, "lo", s, m->range + offsetof(struct stk_interval, lo));
            put_column(w, "hi", s, m->range + offsetof(struct stk_interval, hi));
        }
        stk_jw_close(w, '}');
    }
}

/* ---- the law ------------------------------------------------------------------------------- */

struct curve {
    double n[CURVE], v[CURVE], lo[CURVE], hi[CURVE];
};

/* The speedup for a cost at n, against the base of the series. */
static double speedup_of(const struct stk_scaling *all, const struct stk_scaling_series *s,
                         double n, double cost)
{
    const struct stk_scaling_row *base = &s->row[s->base];
    return (double)base->n * base->work_cost / (all->study->weak ? cost / n : cost);
}

static bool law_curve(const struct stk_scaling *all, const struct stk_scaling_series *s,
                      bool speedup, struct curve *c)
{
    if (!s->laws || s->laws->chosen < 0 || s->base >= s->nrows || s->last >= s->nrows)
        return false;
    double from = (double)s->row[s->base].n, to = (double)s->row[s->last].n;
    for (size_t i = 0; i < CURVE; i++) {
        struct stk_prediction p;
        c->n[i] = from * pow(to / from, (double)i / (CURVE - 1));
        stk_laws_predict(s->laws, c->n[i], &p);
        double v = stk_law_time(&s->laws->fit[s->laws->chosen], c->n[i]);
        bool band = !p.refused && stk_interval_known(p.time_ci);
        c->v[i] = speedup ? speedup_of(all, s, c->n[i], v) : v;
        c->lo[i] = !band ? NAN : speedup ? speedup_of(all, s, c->n[i], p.time_ci.hi) : p.time_ci.lo;
        c->hi[i] = !band ? NAN : speedup ? speedup_of(all, s, c->n[i], p.time_ci.lo) : p.time_ci.hi;
    }
    return from < to;
}

static void put_law(struct stk_jw *w, const struct stk_scaling *all, size_t k, bool speedup)
{
    const struct stk_scaling_series *s = &all->series[k];
    struct curve c;
    char name[160];
    if (!law_curve(all, s, speedup, &c))
        return;
    if (all->nseries > 1)
        snprintf(name, sizeof name, "law of %.100s", stk_pg_series_name(s));
    else
        snprintf(name, sizeof name, "%s", stk_law_name((enum stk_law_kind)s->laws->chosen));
    stk_pg_series(w, name, "line");
    stk_jw_put_u64(w, "color", all->nseries > 1 ? k : 2);
    stk_pg_values(w, "x", c.n, CURVE);
    stk_pg_values(w, "v", c.v, CURVE);
    stk_pg_values(w, "lo", c.lo, CURVE);
    stk_pg_values(w, "hi", c.hi, CURVE);
    stk_jw_close(w, '}');
}

/* ---- plots --------------------------------------------------------------------------------- */

static void n_range(const struct stk_scaling *all, double *from, double *to)
{
    *from = INFINITY;
    *to = 0;
    for (size_t k = 0; k < all->nseries; k++)
        for (size_t i = 0; i < all->series[k].nrows; i++) {
            double n = (double)all->series[k].row[i].n;
            if (!good(&all->series[k].row[i]))
                continue;
            *from = fmin(*from, n);
            *to = fmax(*to, n);
        }
}

static void put_ideal(struct stk_jw *w, const struct stk_scaling *all, double (*ideal)(double n))
{
    double n[2];
    n_range(all, &n[0], &n[1]);
    double v[] = {ideal(n[0]), ideal(n[1])};
    stk_pg_series(w, "ideal", "line");
    stk_jw_put_bool(w, "dash", true);
    stk_jw_put_u64(w, "color", 6);
    stk_pg_values(w, "x", n, 2);
    stk_pg_values(w, "v", v, 2);
    stk_jw_close(w, '}');
}

static double ideal_speedup(double n)
{
    return n;
}

static double ideal_share(double n)
{
    (void)n;
    return 1;
}

static void begin_plot(struct stk_jw *w, const struct stk_scaling *all, const char *id,
                       const char *title, const char *text)
{
    stk_pg_plot(w, id, title, text);
    put_n_axis(w, all);
    put_marks(w, all);
    stk_pg_panels(w);
}

static void end_plot(struct stk_jw *w)
{
    stk_pg_panel_end(w);
    stk_jw_close(w, ']');
    stk_jw_close(w, '}');
}

#define AT(member) offsetof(struct stk_scaling_row, member)

static void put_speedup(struct stk_jw *w, const struct stk_scaling *all)
{
    const struct measure m = {AT(speedup), AT(speedup_ci), "both"};
    begin_plot(w, all, "speedup", "Speedup",
               "Points are medians of the runs, with 95 % intervals, or ranges of fewer than six "
               "runs; the shade is the band of the fitted law. Both axes are logarithmic.");
    stk_pg_log_panel(w, "speedup", "x", 2);
    put_measured(w, all, &m);
    put_ideal(w, all, ideal_speedup);
    for (size_t k = 0; k < all->nseries; k++)
        put_law(w, all, k, true);
    end_plot(w);
}

static void put_value(struct stk_jw *w, const struct stk_scaling *all)
{
    const struct measure m = {AT(value), AT(value_ci), "both"};
    const char *metric = all->study->metric;
    begin_plot(w, all, "value", metric ? metric : "Time",
               metric ? "The metric as measured." : "How long a run took.");
    stk_pg_log_panel(w, metric ? metric : "time", metric ? "" : "s", 2);
    put_measured(w, all, &m);
    /* The law is one of costs: those of a rate are its inverse. */
    for (size_t k = 0; k < all->nseries && !all->study->higher_better; k++)
        put_law(w, all, k, false);
    end_plot(w);
}

static void put_efficiency(struct stk_jw *w, const struct stk_scaling *all)
{
    const struct measure m = {AT(efficiency), 0, "both"};
    begin_plot(w, all, "efficiency", "Efficiency",
               "Speedup per N: the share of the resources that is used well.");
    stk_pg_panel(w, "efficiency", "share");
    put_measured(w, all, &m);
    put_ideal(w, all, ideal_share);
    end_plot(w);
}

static bool any_known(const struct stk_scaling *all, size_t offset)
{
    for (size_t k = 0; k < all->nseries; k++)
        for (size_t i = 0; i < all->series[k].nrows; i++)
            if (isfinite(at(&all->series[k].row[i], offset)))
                return true;
    return false;
}

static void put_cost(struct stk_jw *w, const struct stk_scaling *all)
{
    const struct measure su = {AT(su), 0, "both"}, relative = {AT(relative_su), 0, "both"};
    bool known = any_known(all, su.value);
    begin_plot(w, all, "cost", "Cost",
               known ? "Service units per run, and as a multiple of those of the smallest N."
                     : "Service units as a multiple of those of the smallest N.");
    if (known) {
        stk_pg_panel(w, "cost", "SU");
        put_measured(w, all, &su);
        stk_pg_panel_end(w);
    }
    stk_pg_panel(w, "relative cost", "x");
    put_measured(w, all, &relative);
    end_plot(w);
}

void stk_pg_study_plots(struct stk_jw *w, const struct stk_scaling *all)
{
    put_speedup(w, all);
    put_value(w, all);
    put_efficiency(w, all);
    put_cost(w, all);
}
