/*
 * bench.c - a run of `stoker bench` on a page: how busy the accelerators were, when they waited,
 * what was asked of the storage, and rank by rank. bench_series.c has several runs.
 */
#include "report/bench.h"
#include "report/html/bench.h"

#include <stdio.h>

#define RANKS_AS_BARS 32 /* more are points */

/* ---- over time ----------------------------------------------------------------------------- */

static const struct {
    const char *member, *name;
} parts[] = {{"compute", "computing"},
             {"wait", "waiting for data"},
             {"others", "waiting for other ranks"},
             {"checkpoint", "checkpoints"}};

static double item_of(const struct stk_jval *list, size_t i)
{
    bool number = stk_pg_has_rows(list) && i < list->len &&
                  (list->item[i].type == STK_JINT || list->item[i].type == STK_JFLOAT);
    return number ? list->item[i].f : NAN;
}

static double total_of(const struct stk_jval *course, size_t i)
{
    double all = 0;
    for (size_t k = 0; k < STK_PG_COUNT(parts); k++)
        all += fmax(0, item_of(stk_json_get(course, parts[k].member), i));
    return all;
}

/* The values of a list, each divided. */
static void put_divided(struct stk_jw *w, const struct stk_jval *list, double by)
{
    stk_jw_key(w, "v");
    stk_jw_open(w, '[');
    for (size_t i = 0; stk_pg_has_rows(list) && i < list->len; i++)
        stk_pg_value(w, item_of(list, i) / by);
    stk_jw_close(w, ']');
}

static void put_share(struct stk_jw *w, const struct stk_jval *course, size_t part, size_t n)
{
    const struct stk_jval *list = stk_json_get(course, parts[part].member);
    stk_pg_series(w, parts[part].name, "area");
    stk_jw_put_str(w, "stack", "all");
    stk_jw_key(w, "v");
    stk_jw_open(w, '[');
    for (size_t i = 0; i < n; i++) {
        double all = total_of(course, i);
        stk_pg_value(w, all > 0 ? item_of(list, i) / all : NAN);
    }
    stk_jw_close(w, ']');
    stk_jw_close(w, '}');
}

/* Bins of so many seconds each. */
static void put_bin_axis(struct stk_jw *w, double bin_s, size_t n)
{
    const struct stk_pg_axis axis = {"time", "s", "linear", 0, bin_s * (double)n};
    stk_pg_x(w, &axis);
    stk_jw_key(w, "v");
    stk_jw_open(w, '[');
    for (size_t i = 0; i < n; i++)
        stk_pg_value(w, bin_s * (double)i);
    stk_jw_close(w, ']');
    stk_jw_close(w, '}');
}

static bool has_course(const struct stk_jval *course)
{
    return stk_pg_get(course, "bin_seconds") > 0 &&
           stk_pg_has_rows(stk_json_get(course, "steps")) &&
           stk_json_get(course, "steps")->len > 1;
}

static void put_over_time(struct stk_jw *w, const struct stk_jval *course)
{
    if (!has_course(course))
        return;
    const struct stk_jval *steps = stk_json_get(course, "steps");
    double bin_s = stk_pg_get(course, "bin_seconds");
    stk_pg_plot(w, "time", "The run over time",
                "What the accelerators did, all ranks together, and the steps that they ended. "
                "Warm-up is included, evaluations are not.");
    stk_jw_put_str(w, "link", "time");
    put_bin_axis(w, bin_s, steps->len);
    stk_pg_panels(w);
    stk_pg_panel(w, "share of time", "share");
    for (size_t i = 0; i < STK_PG_COUNT(parts); i++)
        if (stk_pg_has_rows(stk_json_get(course, parts[i].member)))
            put_share(w, course, i, steps->len);
    stk_jw_close(w, ']');
    stk_jw_put_f64(w, "max", 1);
    stk_jw_close(w, '}');
    stk_pg_panel(w, "steps", "per s");
    stk_pg_series(w, "steps", "step");
    put_divided(w, steps, bin_s);
    stk_jw_close(w, '}');
    stk_pg_panel_end(w);
    stk_pg_plot_end(w);
}

/* ---- ranks --------------------------------------------------------------------------------- */

static void put_where(struct stk_jw *w, const struct stk_jval *rows)
{
    const struct stk_pg_axis axis = {"rank", "", "category", NAN, NAN};
    if (!stk_pg_has_rows(rows) || rows->len > RANKS_AS_BARS)
        return;
    stk_pg_plot(w, "where", "Where the time went",
                "The measured steps of each rank. Checkpoints count as part of them.");
    stk_pg_x_of(w, &axis, rows, "rank");
    stk_jw_put_bool(w, "flip", true);
    stk_pg_panels(w);
    stk_pg_panel(w, "time", "s");
    const char *const member[] = {"compute_seconds", "wait_seconds", "barrier_seconds",
                                  "checkpoint_seconds"};
    for (size_t i = 0; i < STK_PG_COUNT(member); i++) {
        stk_pg_series(w, parts[i].name, "bar");
        stk_jw_put_str(w, "stack", "all");
        stk_pg_values_of(w, "v", rows, member[i]);
        stk_jw_close(w, '}');
    }
    stk_pg_panel_end(w);
    stk_pg_plot_end(w);
}

static void put_balance(struct stk_jw *w, const struct stk_jval *rows)
{
    static const struct stk_pg_column panels[] = {{"utilisation", "utilisation", "share"},
                                                  {"wait_seconds", "waited for data", "s"},
                                                  {"io.latency.p99_s", "a request, p99", "s"}};
    if (!stk_pg_has_rows(rows) || rows->len < 2)
        return;
    const struct stk_pg_axis axis = {"rank", "", stk_pg_rank_scale(rows->len), NAN, NAN};
    stk_pg_plot(w, "balance", "Ranks against ranks",
                "With a barrier per step, all ranks wait for the slowest.");
    stk_pg_x_of(w, &axis, rows, "rank");
    stk_pg_panels(w);
    for (size_t i = 0; i < STK_PG_COUNT(panels); i++) {
        stk_pg_panel(w, panels[i].title, panels[i].unit);
        stk_pg_series_of(w, panels[i].title, stk_pg_rank_shape(rows->len), rows, panels[i].name);
        stk_pg_panel_end(w);
    }
    stk_pg_plot_end(w);
}

/* The largest of n ranks. */
static void put_wait_row(struct stk_jw *w, const struct stk_jval *rank, size_t n, size_t bins,
                         double bin_s)
{
    stk_jw_open(w, '[');
    for (size_t i = 0; i < bins; i++) {
        double most = NAN;
        for (size_t k = 0; k < n; k++)
            most = fmax(most, item_of(stk_json_get(&rank[k], "wait_over_time"), i) / bin_s);
        stk_pg_value(w, fmin(1, most));
    }
    stk_jw_close(w, ']');
}

static void put_wait_name(struct stk_jw *w, const struct stk_jval *rank, size_t n)
{
    char text[60];
    if (n == 1) {
        stk_pg_value(w, stk_pg_get(rank, "rank"));
        return;
    }
    snprintf(text, sizeof text, "%.0f to %.0f", stk_pg_get(rank, "rank"),
             stk_pg_get(&rank[n - 1], "rank"));
    stk_jw_str(w, text);
}

static void put_heat(struct stk_jw *w, const struct stk_jval *rows, const struct stk_jval *course)
{
    if (!has_course(course) || !stk_pg_has_rows(rows) || rows->len < 2)
        return;
    double bin_s = stk_pg_get(course, "bin_seconds");
    size_t bins = stk_json_get(course, "steps")->len;
    size_t group = stk_pg_heat_group(rows->len);
    stk_pg_heat(w, "heat", "Ranks over time",
                group > 1 ? "The share of time in which a rank waited for data: a row is of several "
                            "neighbouring ranks, and shows the one that waited most."
                          : "The share of time in which a rank waited for data.");
    stk_jw_put_str(w, "link", "time");
    stk_jw_put_str(w, "name", "waiting for data");
    stk_jw_put_str(w, "unit", "share");
    put_bin_axis(w, bin_s, bins);
    stk_jw_key(w, "y");
    stk_jw_open(w, '{');
    stk_jw_put_str(w, "name", "rank");
    stk_jw_key(w, "v");
    stk_jw_open(w, '[');
    for (size_t i = 0; i < rows->len; i += group)
        put_wait_name(w, &rows->item[i], rows->len - i < group ? rows->len - i : group);
    stk_jw_close(w, ']');
    stk_jw_close(w, '}');
    stk_jw_key(w, "v");
    stk_jw_open(w, '[');
    for (size_t i = 0; i < rows->len; i += group)
        put_wait_row(w, &rows->item[i], rows->len - i < group ? rows->len - i : group, bins, bin_s);
    stk_jw_close(w, ']');
    stk_jw_close(w, '}');
}

/* ---- requests and steps -------------------------------------------------------------------- */

struct bars {
    const char *id, *title, *text;
    const char *label;         /* the member of a row at the x axis */
    struct stk_pg_axis axis;
    const char *what;
};

static void put_time_in(struct stk_jw *w, const struct stk_jval *rows)
{
    stk_pg_panel(w, "time, about", "s");
    stk_pg_series(w, "time, about", "bar");
    stk_jw_key(w, "v");
    stk_jw_open(w, '[');
    for (size_t i = 0; i < rows->len; i++)
        stk_pg_value(w, stk_pg_octave_s(stk_pg_get(&rows->item[i], "from_s"),
                                        stk_pg_get(&rows->item[i], "count")));
    stk_jw_close(w, ']');
    stk_jw_close(w, '}');
    stk_pg_panel_end(w);
}

/* Bins in order, from the first to the last that counts something. */
static void put_bars(struct stk_jw *w, const struct stk_jval *rows, const struct bars *b)
{
    size_t from = 0, to = stk_pg_has_rows(rows) ? rows->len : 0;
    while (from < to && !(stk_pg_get(&rows->item[from], "count") > 0))
        from++;
    while (to > from && !(stk_pg_get(&rows->item[to - 1], "count") > 0))
        to--;
    if (from == to)
        return;
    struct stk_jval part = *rows;
    part.item += from;
    part.len = to - from;
    stk_pg_plot(w, b->id, b->title, b->text);
    stk_pg_x_of(w, &b->axis, &part, b->label);
    stk_pg_panels(w);
    stk_pg_panel(w, b->what, "count");
    stk_pg_series_of(w, b->what, "bar", &part, "count");
    stk_pg_panel_end(w);
    if (stk_pg_any_of(&part, "from_s"))
        put_time_in(w, &part);
    stk_pg_plot_end(w);
}

static void put_distributions(struct stk_jw *w, const struct stk_jval *r)
{
    static const struct bars sizes = {
        "sizes", "Sizes of requests",
        "Storage serves few large requests faster than many small ones.",
        "bytes", {"bytes of a request", "", "category", NAN, NAN}, "requests"};
    static const struct bars latency = {
        "latency", "How long requests took",
        "Each bar counts the requests up to twice its time. A second hill far to the right: a "
        "cache that some requests miss. Below, the time that the requests of each bar took.",
        "from_s", {"a request took at least", "s", "category", NAN, NAN}, "requests"};
    static const struct bars steps = {
        "steps", "How long steps took", "Each bar counts the measured steps up to twice its time.",
        "from_s", {"a step took at least", "s", "category", NAN, NAN}, "steps"};
    put_bars(w, stk_pg_at(r, "io.request_sizes"), &sizes);
    put_bars(w, stk_pg_at(r, "io.latency.histogram"), &latency);
    put_bars(w, stk_pg_at(r, "step.histogram"), &steps);
}

/* ---- the workload -------------------------------------------------------------------------- */

static void put_workload(struct stk_jw *w, const struct stk_jval *keys)
{
    static const struct stk_pg_column columns[] = {{"key", "Key", "text"},
                                                   {"value", "Value", "text"}};
    if (!keys || keys->type != STK_JOBJ || !keys->len)
        return;
    stk_pg_table(w, "workload", "Workload", "Every key with its value.", columns,
                 STK_PG_COUNT(columns));
    for (size_t i = 0; i < keys->len; i++) {
        const struct stk_jval *v = &keys->item[i];
        stk_jw_open(w, '[');
        stk_jw_strn(w, keys->name[i].str, keys->name[i].len);
        if (v->type == STK_JSTR)
            stk_jw_strn(w, v->str, v->len);
        else
            stk_jw_strn(w, v->raw, v->raw_len);
        stk_jw_close(w, ']');
    }
    stk_pg_table_end(w);
}

/* ---- the result ---------------------------------------------------------------------------- */

void stk_bench_blocks(const struct stk_jval *r, struct stk_jw *w)
{
    const struct stk_jval *rows = stk_json_get(r, "per_rank");
    const struct stk_jval *course = stk_json_get(r, "over_time");
    put_over_time(w, course);
    put_where(w, rows);
    put_heat(w, rows, course);
    put_balance(w, rows);
    put_distributions(w, r);
    put_workload(w, stk_json_get(r, "workload"));
}

static int add_bench(struct stk_page *page, const struct stk_pg_input *in, struct stk_err *err)
{
    if (stk_pg_bench_is_series(in->result))
        return stk_pg_bench_series(page, in, err);
    return stk_err_set(err, STK_E_UNSUPPORTED, in->path, -1,
                       "the result of `stoker bench` contains no run: give one of a run, a "
                       "sweep or a comparison");
}

const struct stk_pg_kind stk_pg_bench = {.name = "bench",
                                         .command = "bench",
                                         .add = add_bench,
                                         .keep = stk_pg_bench_keep,
                                         .finish = stk_pg_bench_compare};
