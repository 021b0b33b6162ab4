/* blocks.h - what a page consists of, as JSON: facts, findings, plots and tables, which web/src draws. */
#ifndef STK_RESULT_BLOCKS_H
#define STK_RESULT_BLOCKS_H

#include <math.h>

#include "base/json.h"
#include "result/field.h"

/* ---- what a result shows ------------------------------------------------------------------- */
/* Writes a text, cut to what a line of a page or a cell of a table can show: a command may have
 * thousands of arguments. */
#define STK_PG_SHORT_BYTES 120
void stk_pg_short(struct stk_jw *w, const char *text);

/*
 * A unit is "s", "B", "B/s", "count", "share" (0..1), "x" (a factor), "per s", "text" (shown
 * as it is), "prose" (sentences), or the name of something that is counted in plain numbers
 * ("cores"). NaN is unknown.
 */

void stk_pg_begin(struct stk_jw *w, const char *kind, const char *name, const char *title);
void stk_pg_end(struct stk_jw *w);
void stk_pg_number(struct stk_jw *w, double value, const char *unit, const char *what);

void stk_pg_facts(struct stk_jw *w); /* opens the list */
void stk_pg_fact(struct stk_jw *w, const char *name, double value, const char *unit);
void stk_pg_fact_text(struct stk_jw *w, const char *name, const char *text);

/* What to do: opens the list; close with ']'. title: NULL: "Findings". */
void stk_pg_findings(struct stk_jw *w, const char *title);
/* Opens one of them; close with '}'. severity is written before the title. what_to_do and lines may
 * be NULL. */
void stk_pg_finding(struct stk_jw *w, const char *severity, const char *title,
                    const char *what_to_do, const char *lines);

void stk_pg_blocks(struct stk_jw *w); /* opens the list */

/* A plot: panels above each other over one x axis. Close each with '}', lists with ']'. */
void stk_pg_plot(struct stk_jw *w, const char *id, const char *title, const char *text);
/* A heat map: members "x", "y" (names of rows in "v"), "name", "unit", and "v": rows of values. */
void stk_pg_heat(struct stk_jw *w, const char *id, const char *title, const char *text);
struct stk_pg_axis {
    const char *name, *unit, *scale; /* scale: "linear", "log", "category" */
    double min, max;                 /* NaN: by the data */
};
void stk_pg_x(struct stk_jw *w, const struct stk_pg_axis *axis); /* opens the axis: add "v" */
/* Lines across the x axis with their names: opens the list; close with ']'. */
void stk_pg_marks(struct stk_jw *w);
#define STK_PG_NO_COLOR SIZE_MAX
/* color: of the series that it belongs to. */
void stk_pg_mark(struct stk_jw *w, double at, const char *name, size_t color);
void stk_pg_panels(struct stk_jw *w);                            /* opens the list */
void stk_pg_panel(struct stk_jw *w, const char *name, const char *unit); /* opens a panel, series */
void stk_pg_log_panel(struct stk_jw *w, const char *name, const char *unit, unsigned base);
void stk_pg_panel_end(struct stk_jw *w);
void stk_pg_plot_end(struct stk_jw *w); /* the list of panels and the plot */
/* as: "line", "area", "step", "bar", "points", "both" (points on a line). */
void stk_pg_series(struct stk_jw *w, const char *name,
                   const char *as); /* opens a series: add "v" */
/* A member: six digits are enough for a plot, and keep pages small. */
void stk_pg_values(struct stk_jw *w, const char *key, const double *v, size_t n);
void stk_pg_value(struct stk_jw *w, double v);

struct stk_pg_column {
    const char *name, *title, *unit; /* unit "row": each row ends with the unit of its cells */
};
/* Opens a table and its rows; each row is an array. Close with stk_pg_table_end(). */
void stk_pg_table(struct stk_jw *w, const char *id, const char *title, const char *text,
                  const struct stk_pg_column *column, size_t n);
void stk_pg_table_end(struct stk_jw *w);
#define STK_PG_SIDE_MAX 64 /* columns of things that stand side by side */
/* A value as a cell of that unit. */
void stk_pg_put(struct stk_jw *w, const struct stk_jval *v, const char *unit);
/* A cell: the member of the row that the column names. */
void stk_pg_cell(struct stk_jw *w, const struct stk_jval *row, const struct stk_pg_column *c);

/* ---- from a --json result ------------------------------------------------------------------- */

/* A member, or one of a member: "io.latency.p99_s", "times_ci.0". */
const struct stk_jval *stk_pg_at(const struct stk_jval *obj, const char *name);
double stk_pg_get(const struct stk_jval *obj, const char *name); /* NaN: not a number */
bool stk_pg_true(const struct stk_jval *obj, const char *name);
const char *stk_pg_text(const struct stk_jval *obj, const char *name, const char *otherwise);
/* The numbers that the objects of an array have under that name. */
void stk_pg_values_of(struct stk_jw *w, const char *key, const struct stk_jval *rows,
                      const char *name);
/* The x axis: what the objects have under that name. */
void stk_pg_x_of(struct stk_jw *w, const struct stk_pg_axis *axis, const struct stk_jval *rows,
                 const char *name);
bool stk_pg_has_rows(const struct stk_jval *rows); /* an array that is not empty */
bool stk_pg_any_of(const struct stk_jval *rows, const char *name); /* one has that number */
/* Rows of a heat map: more are neither told apart on a screen nor drawn soon. Neighbours form groups
 * of that many; each cell is the largest of its group, so that one slow rank of many is seen. */
#define STK_PG_HEAT_ROWS 256
static inline size_t stk_pg_heat_group(size_t rows)
{
    return (rows + STK_PG_HEAT_ROWS - 1) / STK_PG_HEAT_ROWS;
}
/* Few ranks are bars, many are points. */
#define STK_PG_RANK_BARS 64
static inline const char *stk_pg_rank_scale(size_t ranks)
{
    return ranks <= STK_PG_RANK_BARS ? "category" : "linear";
}
static inline const char *stk_pg_rank_shape(size_t ranks)
{
    return ranks <= STK_PG_RANK_BARS ? "bar" : "points";
}
/* The time of so many calls that took between from_s and twice that: as if spread evenly. */
static inline double stk_pg_octave_s(double from_s, double count)
{
    return 1.5 * from_s * count;
}
#define STK_PG_COUNT(a) (sizeof(a) / sizeof *(a))

#endif
