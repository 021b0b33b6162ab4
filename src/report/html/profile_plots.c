/*
 * profile_plots.c - the plots of a profile that are not columns of a table: the run over time,
 * where the time went, ranks over time.
 */
#include "report/html/priv.h"
#include "report/report_priv.h"

#include <stdio.h>
#include <stdlib.h>

#include "report/profile.h"

#define STK_PG_COLUMNS 256 /* of the run over time */

/* ---- the run over time --------------------------------------------------------------------- */

struct lane {
    const char *name, *as;
    enum stk_series what;
};

/* One reading is not a line. */
static bool is_line(const struct stk_profile *p, enum stk_series what)
{
    double v[STK_PG_COLUMNS];
    size_t known = 0;
    if (!stk_report_series(p, what, v, STK_PG_COLUMNS))
        return false;
    for (size_t i = 0; i < STK_PG_COLUMNS; i++)
        known += v[i] >= 0;
    return known > 1;
}

static void put_lane(struct stk_jw *w, const struct stk_profile *p, const struct lane *l)
{
    double v[STK_PG_COLUMNS];
    if (!is_line(p, l->what) || !stk_report_series(p, l->what, v, STK_PG_COLUMNS))
        return;
    for (size_t i = 0; i < STK_PG_COLUMNS; i++)
        v[i] = v[i] >= 0 ? v[i] : NAN;
    stk_pg_series(w, l->name, l->as);
    stk_pg_values(w, "v", v, STK_PG_COLUMNS);
    stk_jw_close(w, '}');
}

/* A panel with the lanes that are known. */
static void put_lanes(struct stk_jw *w, const struct stk_profile *p, const char *name,
                      const char *unit, const struct lane *lane, size_t n)
{
    bool any = false;
    for (size_t i = 0; i < n; i++)
        any = any || is_line(p, lane[i].what);
    if (!any)
        return;
    stk_pg_panel(w, name, unit);
    for (size_t i = 0; i < n; i++)
        put_lane(w, p, &lane[i]);
    stk_pg_panel_end(w);
}

static void put_epoch_spans(struct stk_jw *w, const struct stk_analysis *a)
{
    stk_jw_key(w, "spans");
    stk_jw_open(w, '[');
    for (size_t i = 0; i < a->nepochs && i < 400; i++) {
        char name[40];
        snprintf(name, sizeof name, "epoch %llu", (unsigned long long)a->epoch[i].number);
        stk_jw_open(w, '{');
        stk_jw_put_f64(w, "from", a->epoch[i].start_s);
        stk_jw_put_f64(w, "to", a->epoch[i].end_s);
        stk_jw_put_str(w, "name", name);
        stk_jw_close(w, '}');
    }
    stk_jw_close(w, ']');
}

static void put_time_axis(struct stk_jw *w, double span_s, size_t n)
{
    const struct stk_pg_axis axis = {"time", "s", "linear", 0, span_s};
    double at[STK_PG_COLUMNS];
    stk_pg_x(w, &axis);
    for (size_t i = 0; i < n; i++)
        at[i] = span_s * (double)i / (double)n;
    stk_pg_values(w, "v", at, n);
    stk_jw_close(w, '}');
}

static void put_over_time(struct stk_jw *w, const struct stk_analysis *a)
{
    static const struct lane moved[] = {{"read", "area", STK_SERIES_READ_BPS},
                                        {"write", "area", STK_SERIES_WRITE_BPS}};
    static const struct lane busy[] = {{"threads in I/O", "step", STK_SERIES_IO}};
    static const struct lane cpu[] = {{"CPU", "step", STK_SERIES_CPU},
                                      {"waiting for I/O", "step", STK_SERIES_IOWAIT}};
    static const struct lane memory[] = {{"memory", "step", STK_SERIES_MEMORY}};
    static const struct lane gpu[] = {{"GPU", "step", STK_SERIES_GPU}};
    const struct stk_profile *p = a->p;
    if (!is_line(p, STK_SERIES_READ_BPS) && !is_line(p, STK_SERIES_WRITE_BPS) &&
        !is_line(p, STK_SERIES_IO) && !is_line(p, STK_SERIES_CPU))
        return;
    stk_pg_plot(w, "time", "The run over time",
                a->nepochs ? a->epochs_marked
                                 ? "Data moved per second, and the machine meanwhile. Shades are "
                                   "the epochs that the program marked."
                                 : "Data moved per second, and the machine meanwhile. Shades are "
                                   "epochs, detected where reads repeat."
                           : "Data moved per second, and the machine meanwhile.");
    stk_jw_put_str(w, "link", "time");
    put_time_axis(w, stk_report_span_s(p), STK_PG_COLUMNS);
    put_epoch_spans(w, a);
    stk_pg_panels(w);
    put_lanes(w, p, "data", "B/s", moved, 2);
    put_lanes(w, p, "I/O", "threads", busy, 1);
    put_lanes(w, p, "CPU", "cores", cpu, 2);
    put_lanes(w, p, "memory", "B", memory, 1);
    put_lanes(w, p, "GPU", "share", gpu, 1);
    stk_jw_close(w, ']');
    stk_jw_close(w, '}');
}

/* ---- where the time went ------------------------------------------------------------------- */

struct part {
    const char *name;
    double s;
};

static void put_where(struct stk_jw *w, const struct stk_analysis *a)
{
    static const char *const main_loop = "main loop", *const all = "all threads";
    const struct stk_loop *l = &a->loop;
    const struct stk_usage *j = &a->job;
    const struct part lived[] = {{"started", l->start_s},
                                 {"waited for data", l->wait_s},
                                 {"wrote", l->write_s},
                                 {"computed", l->compute_s}};
    const struct part called[] = {
        {"reads", j->read_s}, {"writes", j->write_s}, {"metadata", j->meta_s}};
    const struct stk_pg_axis axis = {"", "", "category", NAN, NAN};
    bool known = l->wait_s >= 0 && l->run_s > 0;
    const struct part *part = known ? lived : called;
    stk_pg_plot(w, "where", "Where the time went",
                known ? "The life of the program's main thread; I/O that workers overlap with "
                        "computing is not in it."
                      : "Seconds in I/O calls, threads added up: how long the program waited for "
                        "them is unknown.");
    stk_pg_x(w, &axis);
    stk_jw_put_strs(w, "v", known ? &main_loop : &all, 1);
    stk_jw_close(w, '}');
    stk_jw_put_bool(w, "flip", true);
    stk_pg_panels(w);
    stk_pg_panel(w, known ? "time of the main loop" : "time in calls", "s");
    for (size_t i = 0; i < (known ? STK_PG_COUNT(lived) : STK_PG_COUNT(called)); i++) {
        stk_pg_series(w, part[i].name, "bar");
        stk_jw_put_str(w, "stack", "all");
        stk_pg_values(w, "v", &part[i].s, 1);
        stk_jw_close(w, '}');
    }
    stk_pg_panel_end(w);
    stk_pg_plot_end(w);
}

/* ---- ranks over time ----------------------------------------------------------------------- */

static void put_heat(struct stk_jw *w, const struct stk_jval *units, double span_s)
{
    const struct stk_jval *rows = stk_json_get(units, "rows");
    const char *unit = stk_pg_text(units, "unit", "process");
    if (!rows || rows->type != STK_JARR || rows->len < 2)
        return;
    stk_pg_heat(w, "heat", strcmp(unit, "rank") == 0 ? "Ranks over time" : "Programs over time",
                stk_pg_get(units, "of_each") > 1
                    ? "Threads in an I/O call, on average: a row is of several neighbouring ranks, "
                      "and shows the busiest."
                    : "Threads in an I/O call, on average: a row that differs from the others "
                      "is out of balance.");
    stk_jw_put_str(w, "link", "time");
    stk_jw_put_str(w, "name", "threads in I/O");
    stk_jw_put_str(w, "unit", "");
    put_time_axis(w, span_s, STK_PROF_UNIT_BINS);
    stk_jw_key(w, "y");
    stk_jw_open(w, '{');
    stk_jw_put_str(w, "name", unit);
    stk_jw_key(w, "v");
    stk_jw_open(w, '[');
    for (size_t i = 0; i < rows->len; i++)
        stk_jw_str(w, stk_pg_text(&rows->item[i], "name", ""));
    stk_jw_close(w, ']');
    stk_jw_close(w, '}');
    stk_jw_key(w, "v");
    stk_jw_open(w, '[');
    for (size_t i = 0; i < rows->len; i++) {
        const struct stk_jval *busy = stk_json_get(&rows->item[i], "threads");
        stk_jw_open(w, '[');
        for (size_t k = 0; stk_pg_has_rows(busy) && k < busy->len; k++)
            stk_pg_value(w, busy->item[k].f);
        stk_jw_close(w, ']');
    }
    stk_jw_close(w, ']');
    stk_jw_close(w, '}');
}

void stk_pg_profile_plots(const struct stk_jval *result, struct stk_jw *w)
{
    struct stk_profile_time *t = malloc(sizeof *t);
    struct stk_arena arena = STK_ARENA_INIT;
    if (t && stk_profile_time_of(result, t, &arena) == 0) {
        put_over_time(w, &t->a);
        put_where(w, &t->a);
        put_heat(w, stk_json_get(result, "units"), stk_report_span_s(&t->p));
    }
    w->out->fail = w->out->fail || !t;
    stk_arena_release(&arena);
    free(t);
}
