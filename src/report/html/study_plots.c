/*
 * study_plots.c - studies drawn over N: speedup with the ideal and the fitted law, time, efficiency
 * and cost. The plateau and the N to request are marked.
 */
#include <stdio.h>

#include "report/scale.h"
#include "result/blocks.h"

#define IDEAL_COLOR 6
#define LAW_COLOR   2

/* A number over N, in a panel; a plot has one or two. */
struct measure {
    const char *id, *title, *text;
    const char *name, *unit; /* of the panel */
    const char *value, *interval;
    const char *law, *law_interval; /* members of the curve; NULL: not drawn */
    double ideal_slope, ideal; /* ideal + slope * N; NaN: none */
    bool logarithmic, joins;   /* joins: another panel of the plot before it */
};

static const struct stk_jval *points_of(const struct stk_jval *series, size_t k)
{
    return stk_json_get(&series->item[k], "points");
}

/* A member of the rows that have it, with its place, or an end of its interval. */
static void put_column(struct stk_jw *w, const char *key, const struct stk_jval *rows,
                       const char *name, const char *end)
{
    char member[80];
    snprintf(member, sizeof member, "%s%s", name, end);
    stk_jw_key(w, key);
    stk_jw_open(w, '[');
    for (size_t i = 0; stk_pg_has_rows(rows) && i < rows->len; i++)
        if (!(stk_pg_get(&rows->item[i], "runs") <= 0)) /* the points of a law have none */
            stk_pg_value(w, stk_pg_get(&rows->item[i], member));
    stk_jw_close(w, ']');
}

static void put_curve(struct stk_jw *w, const char *name, const char *as, size_t color,
                      const struct stk_jval *rows, const char *value, const char *interval)
{
    stk_pg_series(w, name, as);
    stk_jw_put_u64(w, "color", color);
    put_column(w, "x", rows, "n", "");
    put_column(w, "v", rows, value, "");
    if (interval) {
        put_column(w, "lo", rows, interval, ".0");
        put_column(w, "hi", rows, interval, ".1");
    }
    stk_jw_close(w, '}');
}

static void put_ideal(struct stk_jw *w, const struct stk_jval *series, const struct measure *m)
{
    double n[2] = {INFINITY, 0};
    for (size_t k = 0; k < series->len; k++) {
        const struct stk_jval *points = points_of(series, k);
        for (size_t i = 0; stk_pg_has_rows(points) && i < points->len; i++)
            if (stk_pg_get(&points->item[i], "runs") > 0) {
                n[0] = fmin(n[0], stk_pg_get(&points->item[i], "n"));
                n[1] = fmax(n[1], stk_pg_get(&points->item[i], "n"));
            }
    }
    const double v[] = {m->ideal + m->ideal_slope * n[0], m->ideal + m->ideal_slope * n[1]};
    stk_pg_series(w, "ideal", "line");
    stk_jw_put_bool(w, "dash", true);
    stk_jw_put_u64(w, "color", IDEAL_COLOR);
    stk_pg_values(w, "x", n, 2);
    stk_pg_values(w, "v", v, 2);
    stk_jw_close(w, '}');
}

static void put_panel(struct stk_jw *w, const struct stk_jval *series, const struct measure *m)
{
    char name[160];
    if (m->logarithmic)
        stk_pg_log_panel(w, m->name, m->unit, 2);
    else
        stk_pg_panel(w, m->name, m->unit);
    for (size_t k = 0; k < series->len; k++)
        put_curve(w, stk_scale_series_word(stk_pg_text(&series->item[k], "name", "")), "both", k,
                  points_of(series, k), m->value, m->interval);
    if (isfinite(m->ideal))
        put_ideal(w, series, m);
    for (size_t k = 0; m->law && k < series->len; k++) {
        const struct stk_jval *curve = stk_pg_at(&series->item[k], "laws.curve");
        if (series->len > 1)
            snprintf(name, sizeof name, "law of %.100s", stk_pg_text(&series->item[k], "name", ""));
        else
            snprintf(name, sizeof name, "%s",
                     stk_scale_law_word(stk_pg_text(&series->item[k], "laws.chosen", "law")));
        if (stk_pg_has_rows(curve))
            put_curve(w, name, "line", series->len > 1 ? k : LAW_COLOR,
                      curve, m->law, m->law_interval);
    }
    stk_pg_panel_end(w);
}

/* ---- marks ---------------------------------------------------------------------------------- */

/* The wishes that one N fulfils, and the plateau, in one mark. */
static void mark_text(const struct stk_jval *s, double n, struct stk_buf *b)
{
    const struct stk_jval *wishes = stk_json_get(s, "recommended");
    for (size_t i = 0; wishes && wishes->type == STK_JOBJ && i < wishes->len; i++)
        if (stk_pg_get(&wishes->item[i], "n") == n)
            stk_buf_printf(b, "%s%s%s", b->len ? ", " : "", wishes->name[i].str,
                           stk_pg_true(&wishes->item[i], "known") ? "" : ", not known");
    if (stk_pg_get(s, "plateau.n") == n)
        stk_buf_printf(b, "%splateau%s", b->len ? ", " : "",
                       stk_pg_true(s, "plateau.sure") ? "" : ", or later");
}

/* Several studies are told apart by the names and colours of their marks. */
static void put_marks(struct stk_jw *w, const struct stk_jval *series)
{
    stk_pg_marks(w);
    for (size_t k = 0; k < series->len; k++) {
        const struct stk_jval *points = points_of(series, k);
        const char *of = stk_scale_series_word(stk_pg_text(&series->item[k], "name", ""));
        for (size_t i = 0; stk_pg_has_rows(points) && i < points->len; i++) {
            double n = stk_pg_get(&points->item[i], "n");
            struct stk_buf text = STK_BUF_INIT, name = STK_BUF_INIT;
            mark_text(&series->item[k], n, &text);
            if (series->len > 1)
                stk_buf_printf(&name, "%.40s: ", of);
            stk_buf_puts(&name, stk_buf_cstr(&text));
            if (text.len)
                stk_pg_mark(w, n, stk_buf_cstr(&name), series->len > 1 ? k : STK_PG_NO_COLOR);
            stk_buf_release(&text);
            stk_buf_release(&name);
        }
    }
    stk_jw_close(w, ']');
}

void stk_scale_plots(const struct stk_jval *result, struct stk_jw *w)
{
    const struct stk_jval *series = stk_json_get(result, "series");
    const char *metric = stk_pg_text(result, "study.metric", NULL);
    bool rate = metric && stk_pg_true(result, "study.higher_is_better"), su = false;
    const struct stk_pg_axis axis = {stk_pg_text(result, "study.unit", "N"), "", "log", NAN, NAN};
    for (size_t k = 0; k < series->len; k++)
        su = su || stk_pg_any_of(points_of(series, k), "su");
    const struct measure all[] = {
        {"speedup", "Speedup",
         "Points are medians of the runs, with 95 % intervals, or ranges of fewer than six runs; "
         "the shade is the band of the fitted law. All are against N = 1 of the slowest series. "
         "Both axes are logarithmic.",
         "speedup", "x", "common_speedup", "common_speedup_interval", "common_speedup",
         "common_speedup_interval", 1, 0, .logarithmic = true},
        {"value", metric ? metric : "Time",
         metric ? "The metric as measured." : "How long a run took.", metric ? metric : "time",
         metric ? "" : "s", "value", "value_interval",
         /* The law is one of costs: those of a rate are its inverse. */
         rate ? NULL : "cost", "cost_interval", 0, NAN, .logarithmic = true},
        {"efficiency", "Efficiency", "Speedup per N: the share of the resources that is used well.",
         "efficiency", "share", "efficiency", NULL, NULL, NULL, 0, 1},
        {"cost", "Cost",
         su ? "Service units per run, and as a multiple of those of the smallest N."
            : "Service units as a multiple of those of the smallest N.",
         su ? "SU" : "rel. SU", su ? "SU" : "x", su ? "su" : "relative_su", NULL, NULL, NULL, 0,
         NAN},
        {"cost", "", "", "rel. SU", "x", "relative_su", NULL, NULL, NULL, 0, NAN, .joins = true},
    };
    for (size_t i = 0; i < STK_PG_COUNT(all) - !su; i++) {
        if (!all[i].joins) {
            stk_pg_plot(w, all[i].id, all[i].title, all[i].text);
            stk_pg_x(w, &axis);
            stk_jw_close(w, '}');
            put_marks(w, series);
            stk_pg_panels(w);
        }
        put_panel(w, series, &all[i]);
        if (i + 1 == STK_PG_COUNT(all) - !su || !all[i + 1].joins)
            stk_pg_plot_end(w);
    }
}
