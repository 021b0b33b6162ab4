/* bench.c - a run of `stoker bench` over time on a page: what the accelerators did, and which ranks waited. */
#include "report/bench.h"
#include "result/blocks.h"

#include <stdio.h>

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

/* ---- the result ---------------------------------------------------------------------------- */

void stk_bench_blocks(const struct stk_jval *r, struct stk_jw *w)
{
    const struct stk_jval *course = stk_json_get(r, "over_time");
    put_over_time(w, course);
    put_heat(w, stk_json_get(r, "per_rank"), course);
}
