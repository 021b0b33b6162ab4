/* plot.c - see plot.h. */
#include "result/plot.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "result/blocks.h"

#define LEVEL_COLOR 6

static const struct stk_result_field *column(const struct stk_result_field *of, const char *key)
{
    for (; of->key; of++)
        if (strcmp(of->key, key) == 0)
            return of;
    return NULL;
}

static bool is_category(const struct stk_result_plot *p)
{
    return p->scale <= STK_SCALE_RANKS;
}

static struct stk_pg_axis axis_of(const struct stk_result_plot *p, size_t rows)
{
    static const char *const name[] = {[STK_SCALE_CATEGORY] = "category",
                                       [STK_SCALE_LINEAR] = "linear",
                                       [STK_SCALE_LOG] = "log"};
    return (struct stk_pg_axis){
        p->x_name, stk_unit_name(p->x_unit),
        p->scale == STK_SCALE_RANKS ? stk_pg_rank_scale(rows) : name[p->scale], NAN, NAN};
}

/* ---- rows ----------------------------------------------------------------------------------- */

/* Whether a row has anything that the plot shows. */
static bool has_any(const struct stk_result_plot *p, const struct stk_jval *row)
{
    for (size_t i = 0; i < STK_PLOT_PANELS && p->panel[i].name; i++)
        for (size_t k = 0; k < STK_PLOT_SERIES && p->panel[i].series[k].key; k++)
            if (stk_pg_get(row, p->panel[i].series[k].key) > 0)
                return true;
    return false;
}

static int by_x(const void *a, const void *b, void *x)
{
    double p = stk_pg_get(a, x), q = stk_pg_get(b, x);
    return (p > q) - (p < q);
}

/* In the order of numbers on the axis: a line would run back otherwise. Borrows everything but its
 * items, which the caller frees. */
static struct stk_jval in_order(const struct stk_result_plot *p, const struct stk_jval *rows)
{
    struct stk_jval sorted = {.type = STK_JARR};
    sorted.item = calloc(rows->len + 1, sizeof *sorted.item);
    for (size_t i = 0; sorted.item && i < rows->len; i++)
        if (p->scale == STK_SCALE_CATEGORY || isfinite(stk_pg_get(&rows->item[i], p->x)))
            sorted.item[sorted.len++] = rows->item[i];
    if (sorted.len && !is_category(p))
        qsort_r(sorted.item, sorted.len, sizeof *sorted.item, by_x, (void *)(uintptr_t)p->x);
    return sorted;
}

/* The rows from the first to the last that has anything. */
static void widen(const struct stk_result_plot *p, const struct stk_jval *rows, size_t *from,
                  size_t *to)
{
    for (size_t i = 0; stk_pg_has_rows(rows) && i < rows->len; i++)
        if (!p->trim || has_any(p, &rows->item[i])) {
            *from = i < *from ? i : *from;
            *to = i >= *to ? i + 1 : *to;
        }
}

static struct stk_jval part_of(const struct stk_jval *rows, size_t from, size_t to)
{
    struct stk_jval part = *rows;
    to = to < rows->len ? to : rows->len;
    part.item += from < to ? from : to;
    part.len = from < to ? to - from : 0;
    return part;
}

/* ---- parts ---------------------------------------------------------------------------------- */

static void open_plot(const struct stk_result_plot *p, struct stk_jw *w)
{
    stk_pg_plot(w, p->id, p->title, p->text);
    if (p->flip)
        stk_jw_put_bool(w, "flip", true);
}

static bool is_above(const struct stk_result_plot *p, size_t i, const struct stk_jval *rows)
{
    for (size_t k = 0; k < STK_PLOT_SERIES && p->panel[i].series[k].key; k++)
        for (size_t r = 0; rows && r < rows->len; r++)
            if (stk_pg_get(&rows->item[r], p->panel[i].series[k].key) > p->panel[i].log_above)
                return p->panel[i].log_above > 0;
    return false;
}

static void open_panel(const struct stk_result_plot *p, size_t i, const struct stk_jval *rows,
                       struct stk_jw *w)
{
    if (p->panel[i].logarithmic || is_above(p, i, rows))
        stk_pg_log_panel(w, p->panel[i].name, stk_unit_name(p->panel[i].unit), 2);
    else
        stk_pg_panel(w, p->panel[i].name, stk_unit_name(p->panel[i].unit));
}

static void open_series(const struct stk_result_plot *p, size_t i, const char *name, const char *as,
                        size_t rows, struct stk_jw *w)
{
    stk_pg_series(w, name, p->scale == STK_SCALE_RANKS ? stk_pg_rank_shape(rows) : as);
    if (p->panel[i].stacked)
        stk_jw_put_str(w, "stack", p->panel[i].name); /* panels have stacks of their own */
}

static void put_level(double level, const char *name, size_t n, struct stk_jw *w)
{
    stk_pg_series(w, name, "line");
    stk_jw_put_bool(w, "dash", true);
    stk_jw_put_u64(w, "color", LEVEL_COLOR);
    stk_jw_key(w, "v");
    stk_jw_open(w, '[');
    for (size_t i = 0; i < n; i++)
        stk_pg_value(w, level);
    stk_jw_close(w, ']');
    stk_jw_close(w, '}');
}

static void put_interval(const struct stk_jval *rows, const char *member, struct stk_jw *w)
{
    char bound[80];
    for (int hi = 0; hi < 2 && member; hi++) {
        snprintf(bound, sizeof bound, "%s.%d", member, hi);
        stk_pg_values_of(w, hi ? "hi" : "lo", rows, bound);
    }
}

/* ---- a table -------------------------------------------------------------------------------- */

/* Where rows without anything are left out, so is a panel without anything. */
static bool series_any(const struct stk_result_plot *p, const char *key, const struct stk_jval *rows)
{
    if (!p->trim)
        return stk_pg_any_of(rows, key);
    for (size_t i = 0; i < rows->len; i++)
        if (stk_pg_get(&rows->item[i], key) > 0)
            return true;
    return false;
}

static bool panel_any(const struct stk_result_plot *p, size_t i, const struct stk_jval *rows)
{
    for (size_t k = 0; k < STK_PLOT_SERIES && p->panel[i].series[k].key; k++)
        if (series_any(p, p->panel[i].series[k].key, rows))
            return true;
    return false;
}

static void put_panel(const struct stk_result_field *f, size_t i, const struct stk_jval *rows,
                      const struct stk_jval *result, struct stk_jw *w)
{
    const struct stk_result_plot *p = f->plot;
    open_panel(p, i, rows, w);
    for (size_t k = 0; k < STK_PLOT_SERIES && p->panel[i].series[k].key; k++) {
        const char *key = p->panel[i].series[k].key, *name = p->panel[i].series[k].name;
        const struct stk_result_field *c = column(f->of, key);
        if (!stk_pg_any_of(rows, key))
            continue;
        open_series(p, i, name ? name : c && c->title ? c->title : key, p->panel[i].series[k].as,
                    rows->len, w);
        stk_pg_values_of(w, "v", rows, key);
        put_interval(rows, p->panel[i].series[k].interval, w);
        stk_jw_close(w, '}');
    }
    double level = p->panel[i].level ? stk_pg_get(result, p->panel[i].level) : NAN;
    if (isfinite(level))
        put_level(level, p->panel[i].level_name, rows->len, w);
    stk_pg_panel_end(w);
}

void stk_plot_draw(const struct stk_result_field *f, const struct stk_jval *rows,
                   const struct stk_jval *result, struct stk_jw *w)
{
    const struct stk_result_plot *p = f->plot;
    struct stk_jval sorted = in_order(p, rows);
    size_t from = sorted.len, to = 0;
    bool any = false;
    widen(p, &sorted, &from, &to);
    const struct stk_jval part = part_of(&sorted, from, to);
    const struct stk_pg_axis axis = axis_of(p, part.len);
    for (size_t i = 0; i < STK_PLOT_PANELS && p->panel[i].name; i++)
        any = any || panel_any(p, i, &part);
    if (any && part.len >= p->least && (!p->most || part.len <= p->most)) {
        open_plot(p, w);
        stk_pg_x_of(w, &axis, &part, p->x);
        if (p->mark) {
            double at = stk_pg_get(result, p->mark);
            stk_pg_marks(w);
            if (at > 0)
                stk_pg_mark(w, at, p->mark_name, STK_PG_NO_COLOR);
            stk_jw_close(w, ']');
        }
        stk_pg_panels(w);
        for (size_t i = 0; i < STK_PLOT_PANELS && p->panel[i].name; i++)
            if (panel_any(p, i, &part))
                put_panel(f, i, &part, result, w);
        stk_pg_plot_end(w);
    }
    free(sorted.item);
}

/* ---- a table in each row -------------------------------------------------------------------- */

/* The points of an outer row that are drawn. */
static struct stk_jval points_of(const struct stk_result_field *inner, const struct stk_jval *row,
                                 size_t from, size_t to)
{
    const struct stk_jval *points = stk_json_get(row, inner->key), none = {.type = STK_JARR};
    return stk_pg_has_rows(points) ? part_of(points, from, to) : none;
}

static void put_points(const struct stk_result_plot *p, size_t i, const char *name, size_t color,
                       const struct stk_jval *points, struct stk_jw *w)
{
    open_series(p, i, name, p->panel[i].series[0].as, points->len, w);
    stk_jw_put_u64(w, "color", color);
    if (!is_category(p))
        stk_pg_values_of(w, "x", points, p->x);
    stk_pg_values_of(w, "v", points, p->panel[i].series[0].key);
    put_interval(points, p->interval, w);
    stk_jw_close(w, '}');
}

static void put_curve(const struct stk_result_plot *p, size_t i, const char *name, size_t color,
                      const struct stk_jval *row, struct stk_jw *w)
{
    const struct stk_jval *curve = p->curve ? stk_json_get(row, p->curve) : NULL;
    char title[160];
    if (!stk_pg_has_rows(curve))
        return;
    snprintf(title, sizeof title, "%s %.100s", p->curve_name, name);
    stk_pg_series(w, title, "line");
    stk_jw_put_u64(w, "color", color);
    stk_jw_put_bool(w, "dash", true);
    stk_pg_values_of(w, "x", curve, p->x);
    stk_pg_values_of(w, "v", curve, p->panel[i].series[0].key);
    stk_jw_close(w, '}');
}

static const char *name_of(const struct stk_result_field *f, const struct stk_jval *row)
{
    const char *name = stk_pg_text(row, f->of->key, "?");
    return f->of->word ? f->of->word(name) : name;
}

static void put_inner_marks(const struct stk_result_field *f, const struct stk_result_plot *p,
                            const struct stk_jval *rows, struct stk_jw *w)
{
    stk_pg_marks(w);
    for (size_t k = 0; k < rows->len; k++) {
        double at = stk_pg_get(&rows->item[k], p->mark);
        char name[160];
        snprintf(name, sizeof name, "%.100s %s", name_of(f, &rows->item[k]), p->mark_name);
        if (at > 0)
            stk_pg_mark(w, at, name, k);
    }
    stk_jw_close(w, ']');
}

void stk_plot_draw_inner(const struct stk_result_field *f, const struct stk_result_field *inner,
                         const struct stk_jval *rows, struct stk_jw *w)
{
    const struct stk_result_plot *p = inner->plot;
    const struct stk_pg_axis axis = axis_of(p, 0);
    const struct stk_jval *longest = NULL;
    size_t from = SIZE_MAX, to = 0;
    for (size_t k = 0; k < rows->len; k++) {
        const struct stk_jval *points = stk_json_get(&rows->item[k], inner->key);
        widen(p, points, &from, &to);
        if (stk_pg_has_rows(points) && (!longest || points->len > longest->len))
            longest = points;
    }
    if (!longest || from >= to || longest->len < p->least)
        return;
    const struct stk_jval names = part_of(longest, from, to);
    open_plot(p, w);
    if (is_category(p)) {
        stk_pg_x_of(w, &axis, &names, p->x);
    } else {
        stk_pg_x(w, &axis);
        stk_jw_close(w, '}');
    }
    if (p->mark)
        put_inner_marks(f, p, rows, w);
    stk_pg_panels(w);
    for (size_t i = 0; i < STK_PLOT_PANELS && p->panel[i].name; i++) {
        bool open = false;
        for (size_t k = 0; k < rows->len; k++) {
            const struct stk_jval points = points_of(inner, &rows->item[k], from, to);
            if (!series_any(p, p->panel[i].series[0].key, &points))
                continue;
            if (!open)
                open_panel(p, i, NULL, w);
            open = true;
            put_points(p, i, name_of(f, &rows->item[k]), k, &points, w);
            put_curve(p, i, name_of(f, &rows->item[k]), k, &rows->item[k], w);
        }
        if (open)
            stk_pg_panel_end(w);
    }
    stk_pg_plot_end(w);
}
