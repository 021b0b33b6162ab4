/*
 * profile_plots.c - the plots of a profile: the run over time, where the time went, ranks over
 * time, sizes and durations of requests, ranks against ranks.
 */
#include "report/html/profile.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- the run over time --------------------------------------------------------------------- */

struct lane {
    const char *name, *as;
    enum stk_series what;
};

/* One reading is not a line. */
bool stk_pg_is_line(const struct stk_profile *p, enum stk_series what)
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
    if (!stk_pg_is_line(p, l->what) || !stk_report_series(p, l->what, v, STK_PG_COLUMNS))
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
        any = any || stk_pg_is_line(p, lane[i].what);
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
    if (!stk_pg_is_line(p, STK_SERIES_READ_BPS) && !stk_pg_is_line(p, STK_SERIES_WRITE_BPS) &&
        !stk_pg_is_line(p, STK_SERIES_IO) && !stk_pg_is_line(p, STK_SERIES_CPU))
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

static size_t parts_of(const struct stk_analysis *a, struct part *part)
{
    const struct stk_loop *l = &a->loop;
    if (l->wait_s >= 0 && l->run_s > 0) {
        part[0] = (struct part){"started", l->start_s};
        part[1] = (struct part){"waited for data", l->wait_s};
        part[2] = (struct part){"wrote", l->write_s};
        part[3] = (struct part){"computed", l->compute_s};
        return 4;
    }
    part[0] = (struct part){"reads", a->job.read_s};
    part[1] = (struct part){"writes", a->job.write_s};
    part[2] = (struct part){"metadata", a->job.meta_s};
    return 3;
}

static bool loop_known(const struct stk_analysis *a)
{
    return a->loop.wait_s >= 0 && a->loop.run_s > 0;
}

void stk_pg_parts(struct stk_jw *w, const struct stk_analysis *const *a, const char *const *name,
                  size_t n)
{
    const struct stk_pg_axis axis = {"", "", "category", NAN, NAN};
    struct part part[4];
    size_t parts = parts_of(a[0], part);
    stk_pg_x(w, &axis);
    stk_jw_put_strs(w, "v", name, n);
    stk_jw_close(w, '}');
    stk_jw_put_bool(w, "flip", true);
    stk_pg_panels(w);
    stk_pg_panel(w, loop_known(a[0]) ? "time of the main loop" : "time in calls", "s");
    for (size_t i = 0; i < parts; i++) {
        stk_pg_series(w, part[i].name, "bar");
        stk_jw_put_str(w, "stack", "all");
        stk_jw_key(w, "v");
        stk_jw_open(w, '[');
        for (size_t k = 0; k < n; k++) {
            struct part mine[4];
            parts_of(a[k], mine);
            stk_pg_value(w, loop_known(a[k]) == loop_known(a[0]) ? mine[i].s : NAN);
        }
        stk_jw_close(w, ']');
        stk_jw_close(w, '}');
    }
    stk_pg_panel_end(w);
    stk_jw_close(w, ']');
    stk_jw_close(w, '}');
}

static void put_where(struct stk_jw *w, const struct stk_analysis *a)
{
    static const char *const main_loop[] = {"main loop"}, *const all[] = {"all threads"};
    stk_pg_plot(w, "where", "Where the time went",
                loop_known(a)
                    ? "The life of the program's main thread; I/O that workers overlap with "
                      "computing is not in it."
                    : "Seconds in I/O calls, threads added up: how long the program waited for "
                      "them is unknown.");
    stk_pg_parts(w, &a, loop_known(a) ? main_loop : all, 1);
}

/* ---- ranks over time ----------------------------------------------------------------------- */

/* A unit's rank, or its first process. */
static void unit_names(const struct stk_profile *p, char (*name)[16], bool *ranks)
{
    for (size_t i = 0; i < p->nunits; i++)
        name[i][0] = '\0';
    *ranks = false;
    for (size_t i = 0; i < p->nprocs; i++) {
        const struct stk_prof_proc *o = &p->proc[i];
        if (o->launch || o->unit >= p->nunits || name[o->unit][0])
            continue;
        snprintf(name[o->unit], sizeof name[0], "%u", o->world ? o->rank : o->pid);
        *ranks = *ranks || o->world;
    }
    /* A job script beside the ranks is not one of them. */
    for (size_t i = 0; i < p->nprocs && *ranks; i++)
        if (!p->proc[i].world && p->proc[i].unit < p->nunits)
            snprintf(name[p->proc[i].unit], sizeof name[0], "beside");
}

/* The largest of a group of units, from `first` on. */
static void put_heat_row(struct stk_jw *w, const struct stk_profile *p, size_t first, size_t n)
{
    stk_jw_open(w, '[');
    for (size_t i = 0; i < STK_PROF_UNIT_BINS; i++) {
        double most = 0;
        for (size_t k = first; k < first + n; k++)
            most = fmax(most, (double)p->unit_busy[k * STK_PROF_UNIT_BINS + i]);
        char text[24];
        int len = snprintf(text, sizeof text, "%.3g", most);
        stk_jw_raw(w, text, (size_t)len);
    }
    stk_jw_close(w, ']');
}

static bool unit_used(const struct stk_profile *p, size_t unit)
{
    for (size_t i = 0; i < STK_PROF_UNIT_BINS; i++)
        if (p->unit_busy[unit * STK_PROF_UNIT_BINS + i] > 0)
            return true;
    return false;
}

static void put_heat_names(struct stk_jw *w, const struct stk_profile *p, char (*name)[16],
                           size_t group)
{
    stk_jw_key(w, "v");
    stk_jw_open(w, '[');
    for (size_t i = 0; i < p->nunits; i += group) {
        char text[40];
        size_t last = i + group < p->nunits ? i + group - 1 : p->nunits - 1u;
        if (last > i)
            snprintf(text, sizeof text, "%s to %s", name[i], name[last]);
        if (group > 1 || unit_used(p, i))
            stk_jw_str(w, last > i ? text : name[i]);
    }
    stk_jw_close(w, ']');
}

static void put_heat(struct stk_jw *w, const struct stk_profile *p, char (*name)[16], bool ranks)
{
    size_t group = stk_pg_heat_group(p->nunits);
    stk_pg_heat(w, "heat", ranks ? "Ranks over time" : "Programs over time",
                group > 1
                    ? "Threads in an I/O call, on average: a row is of several neighbouring ranks, "
                      "and shows the busiest."
                    : "Threads in an I/O call, on average: a row that differs from the others "
                      "is out of balance.");
    stk_jw_put_str(w, "link", "time");
    stk_jw_put_str(w, "name", "threads in I/O");
    stk_jw_put_str(w, "unit", "");
    put_time_axis(w, stk_report_span_s(p), STK_PROF_UNIT_BINS);
    stk_jw_key(w, "y");
    stk_jw_open(w, '{');
    stk_jw_put_str(w, "name", ranks ? "rank" : "process");
    put_heat_names(w, p, name, group);
    stk_jw_close(w, '}');
    stk_jw_key(w, "v");
    stk_jw_open(w, '[');
    for (size_t i = 0; i < p->nunits; i += group)
        if (group > 1 || unit_used(p, i))
            put_heat_row(w, p, i, i + group <= p->nunits ? group : p->nunits - i);
    stk_jw_close(w, ']');
    stk_jw_close(w, '}');
}

static void put_units(struct stk_jw *w, const struct stk_profile *p)
{
    size_t used = 0;
    bool ranks;
    for (size_t i = 0; p->unit_busy && i < p->nunits; i++)
        used += unit_used(p, i);
    if (used < 2)
        return;
    char(*name)[16] = calloc(p->nunits, sizeof *name);
    if (!name) {
        w->out->fail = true;
        return;
    }
    unit_names(p, name, &ranks);
    put_heat(w, p, name, ranks);
    free(name);
}

/* ---- distributions ------------------------------------------------------------------------- */

static void put_bars(struct stk_jw *w, const char *name, const uint64_t *count, size_t from,
                     size_t to)
{
    stk_pg_series(w, name, "bar");
    stk_jw_key(w, "v");
    stk_jw_open(w, '[');
    for (size_t i = from; i < to; i++)
        stk_jw_u64(w, count[i]);
    stk_jw_close(w, ']');
    stk_jw_close(w, '}');
}

void stk_pg_widen(const uint64_t *count, size_t n, size_t *from, size_t *to)
{
    for (size_t i = 0; i < n; i++) {
        *from = count[i] && i < *from ? i : *from;
        *to = count[i] && i + 1 > *to ? i + 1 : *to;
    }
}

static void put_sizes(struct stk_jw *w, const struct stk_counts *n)
{
    const struct stk_pg_axis axis = {"size of a request", "", "category", NAN, NAN};
    size_t from = STK_SIZE_BINS, to = 0;
    stk_pg_widen(n->read_size, STK_SIZE_BINS, &from, &to);
    stk_pg_widen(n->write_size, STK_SIZE_BINS, &from, &to);
    if (from >= to)
        return;
    stk_pg_plot(w, "sizes", "Sizes of requests",
                "Storage serves few large requests faster than many small ones.");
    stk_pg_x(w, &axis);
    stk_jw_put_strs(w, "v", stk_report_size_name + from, to - from);
    stk_jw_close(w, '}');
    stk_pg_panels(w);
    stk_pg_panel(w, "requests", "count");
    put_bars(w, "reads", n->read_size, from, to);
    put_bars(w, "writes", n->write_size, from, to);
    stk_pg_panel_end(w);
    stk_jw_close(w, ']');
    stk_jw_close(w, '}');
}

static void put_latency(struct stk_jw *w, const struct stk_usage *job)
{
    const struct stk_pg_axis axis = {"a read took at least", "s", "category", NAN, NAN};
    uint64_t count[STK_LATENCY_BINS];
    size_t from = STK_LATENCY_BINS, to = 0;
    char text[300], a[40], b[40];
    for (size_t i = 0; i < STK_LATENCY_BINS; i++)
        count[i] = job->n.read_latency[i];
    stk_pg_widen(count, STK_LATENCY_BINS, &from, &to);
    if (from >= to)
        return;
    snprintf(text, sizeof text, "Half of the reads took up to %s, 99 %% up to %s. Below, the time that the reads of each "
             "bar took in all: few slow ones may take most of it.",
             stk_word_time(job->latency_p50_s, a, sizeof a),
             stk_word_time(job->latency_p99_s, b, sizeof b));
    stk_pg_plot(w, "latency", "How long reads took", text);
    stk_pg_x(w, &axis);
    stk_jw_key(w, "v");
    stk_jw_open(w, '[');
    for (size_t i = from; i < to; i++)
        stk_pg_value(w, 1e-9 * (double)((uint64_t)1 << i));
    stk_jw_close(w, ']');
    stk_jw_close(w, '}');
    stk_pg_panels(w);
    stk_pg_panel(w, "reads", "count");
    put_bars(w, "reads", count, from, to);
    stk_pg_panel_end(w);
    stk_pg_panel(w, "time, about", "s");
    stk_pg_series(w, "time, about", "bar");
    stk_jw_key(w, "v");
    stk_jw_open(w, '[');
    for (size_t i = from; i < to; i++)
        stk_pg_value(w, stk_pg_octave_s(1e-9 * (double)((uint64_t)1 << i), (double)count[i]));
    stk_jw_close(w, ']');
    stk_jw_close(w, '}');
    stk_pg_panel_end(w);
    stk_pg_plot_end(w);
}

/* ---- ranks against ranks ------------------------------------------------------------------- */

static void put_rank_values(struct stk_jw *w, const struct stk_analysis *a, const char *key,
                            size_t offset, bool count)
{
    stk_jw_key(w, key);
    stk_jw_open(w, '[');
    for (size_t i = 0; i < a->nranks; i++) {
        const char *at = (const char *)&a->rank[i] + offset;
        if (!a->rank[i].known)
            continue;
        if (count)
            stk_pg_value(w, (double)*(const uint64_t *)(const void *)at);
        else
            stk_pg_value(w, *(const double *)(const void *)at);
    }
    stk_jw_close(w, ']');
}

static void put_rank_panel(struct stk_jw *w, const struct stk_analysis *a, const char *as,
                           const char *name, const char *unit, size_t offset, bool count)
{
    stk_pg_panel(w, name, unit);
    stk_pg_series(w, name, as);
    put_rank_values(w, a, "v", offset, count);
    stk_jw_close(w, '}');
    stk_pg_panel_end(w);
}

static void put_ranks(struct stk_jw *w, const struct stk_analysis *a)
{
    size_t known = 0;
    for (size_t i = 0; i < a->nranks; i++)
        known += a->rank[i].known;
    if (known < 2)
        return;
    const struct stk_pg_axis axis = {"rank", "", stk_pg_rank_scale(known), NAN, NAN};
    const char *as = stk_pg_rank_shape(known);
    stk_pg_plot(w, "balance", "Ranks against ranks",
                "All ranks wait for the slowest: one that stands out costs the whole job.");
    stk_pg_x(w, &axis);
    stk_jw_key(w, "v");
    stk_jw_open(w, '[');
    for (size_t i = 0; i < a->nranks; i++)
        if (a->rank[i].known)
            stk_jw_u64(w, a->rank[i].rank);
    stk_jw_close(w, ']');
    stk_jw_close(w, '}');
    stk_pg_panels(w);
    put_rank_panel(w, a, as, "time in I/O", "s", offsetof(struct stk_rank_use, io_s), false);
    put_rank_panel(w, a, as, "bytes read", "B", offsetof(struct stk_rank_use, read_bytes), true);
    stk_jw_close(w, ']');
    stk_jw_close(w, '}');
}

void stk_pg_profile_plots(struct stk_jw *w, const struct stk_analysis *a)
{
    put_over_time(w, a);
    put_where(w, a);
    put_units(w, a->p);
    put_ranks(w, a);
    put_sizes(w, &a->job.n);
    put_latency(w, &a->job);
}
