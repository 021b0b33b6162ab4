/*
 * scale_plot.c - the curves on a terminal: points with their intervals, several series in one plot,
 * the ideal behind them. Speedups of all series have one base: a series that is faster lies higher.
 * Axes of speedups are linear, or from N = 16 on both to base 2, so that the diagonal is straight
 * in either case. Points are not joined: nothing is known between them.
 */
#include <math.h>
#include <stdio.h>

#include "base/text.h"
#include "report/scale.h"
#include "result/blocks.h"

#define WIDTH_MAX 64
#define HEIGHT    17
#define LABEL     7 /* columns left of the frame */
#define LOG_FROM  16

struct point {
    size_t series;
    double n, y;
    struct stk_interval range; /* of y; y itself if it is not known */
};

struct plot {
    uint32_t cell[HEIGHT][WIDTH_MAX];
    unsigned width;
    enum stk_plot kind;
    bool log_x, log_y, utf8, shared, weak, rate;
    double x0, x1, y0, y1; /* of the axes, in their own scale */
    const struct stk_jval *series, *base; /* base: the series with the slowest base */
    const char *metric;
    double base_n, base_value;
    struct stk_buf points; /* struct point */
};

/* for (EACH_POINT(q, p)) */
#define EACH_POINT(q, p)                                                                           \
    const struct point *q = (const struct point *)(void *)(p)->points.data;                        \
    q && q < (const struct point *)(void *)((p)->points.data + (p)->points.len);                   \
    q++

static const uint32_t dots[] = {0x25cf, 0x25cb, 0x25a0, 0x25a1, 0x25b2, 0x25b3, 0x25c6, 0x25c7};
static const char letters[] = "ox*#@%&$";
#define MARKS (sizeof dots / sizeof *dots)

static uint32_t mark_of(const struct plot *p, size_t series)
{
    return p->utf8 ? dots[series % MARKS] : (uint32_t)letters[series % MARKS];
}

/* ---- what is drawn ------------------------------------------------------------------------ */

/* The points of which there is a good run. */
static void gather(struct plot *p)
{
    bool speedup = p->kind == STK_PLOT_SPEEDUP;
    for (size_t k = 0; k < p->series->len; k++) {
        const struct stk_jval *points = stk_json_get(&p->series->item[k], "points");
        for (size_t i = 0; stk_pg_has_rows(points) && i < points->len; i++) {
            const struct stk_jval *one = &points->item[i];
            const struct stk_jval *range =
                stk_json_get(one, speedup ? "common_speedup_interval" : "value_interval");
            struct point q = {k, stk_pg_get(one, "n"),
                              stk_pg_get(one, speedup ? "common_speedup" : "value"),
                              {stk_pg_get(range, "0"), stk_pg_get(range, "1")}};
            if (&p->series->item[k] == p->base && q.n == p->base_n)
                p->base_value = stk_pg_get(one, "value");
            if (!stk_interval_known(q.range))
                q.range = (struct stk_interval){q.y, q.y};
            if (stk_pg_get(one, "runs") > 0)
                stk_buf_put(&p->points, &q, sizeof q);
        }
    }
}

/* Twice the resources, twice as fast; in a weak study, in the same time. */
static double ideal_at(const struct plot *p, double n)
{
    return p->kind == STK_PLOT_SPEEDUP ? n
           : p->weak                   ? p->base_value
           : p->rate                   ? p->base_value / p->base_n * n
                                       : p->base_value * p->base_n / n;
}

/* ---- axes --------------------------------------------------------------------------------- */

static double scale(bool logarithmic, double v)
{
    return logarithmic ? log2(fmax(v, 1e-12)) : v;
}

/* The column or row of a value, which may be outside. */
static int place(double v, double v0, double v1, unsigned cells)
{
    double at = (v - v0) / (v1 - v0) * (cells - 1);
    return at < -1 ? -1 : at > cells ? (int)cells : (int)lround(at);
}

static int column_at(const struct plot *p, double n)
{
    return place(scale(p->log_x, n), p->x0, p->x1, p->width);
}

static int row_at(const struct plot *p, double y)
{
    return place(scale(p->log_y, y), p->y0, p->y1, HEIGHT);
}

static void put(struct plot *p, int x, int y, uint32_t c)
{
    if (x >= 0 && x < (int)p->width && y >= 0 && y < HEIGHT)
        p->cell[HEIGHT - 1 - y][x] = c;
}

static uint32_t get(const struct plot *p, int x, int y)
{
    bool in = x >= 0 && x < (int)p->width && y >= 0 && y < HEIGHT;
    return in ? p->cell[HEIGHT - 1 - y][x] : 0;
}

/* Axes that contain all points; with poor speedups the ideal may leave them. */
static bool set_axes(struct plot *p)
{
    struct {
        double n_min, n_max, low, high;
    } e = {INFINITY, 0, INFINITY, 0};
    for (EACH_POINT(q, p)) {
        e.n_min = fmin(e.n_min, q->n);
        e.n_max = fmax(e.n_max, q->n);
        e.low = fmin(e.low, q->range.lo);
        e.high = fmax(e.high, q->range.hi);
    }
    bool speedup = p->kind == STK_PLOT_SPEEDUP;
    if (!(e.n_max > e.n_min) || !(e.high > 0))
        return false;
    p->log_x = p->kind == STK_PLOT_LOGLOG || e.n_max >= LOG_FROM;
    p->log_y = p->kind == STK_PLOT_LOGLOG || (speedup && p->log_x);
    double top = speedup ? fmin(fmax(e.n_max, e.high), 2 * e.high) : e.high;
    double bottom = fmax(speedup ? fmin(e.low, e.n_min) : e.low, e.high / 1e4);
    p->x0 = p->log_x ? log2(e.n_min) : 0;
    p->x1 = scale(p->log_x, e.n_max);
    p->y0 = p->log_y ? floor(log2(bottom)) : 0;
    p->y1 = scale(p->log_y, top);
    return p->y1 > p->y0;
}

static void draw_ideal(struct plot *p)
{
    for (unsigned x = 0; x < p->width; x++) {
        double v = p->x0 + (p->x1 - p->x0) * x / (p->width - 1), n = p->log_x ? exp2(v) : v;
        if (n > 0 || p->kind == STK_PLOT_SPEEDUP)
            put(p, (int)x, row_at(p, ideal_at(p, n)), p->utf8 ? 0xb7 : '.');
    }
}

static void draw_interval(struct plot *p, const struct point *q)
{
    int x = column_at(p, q->n), hi = row_at(p, q->range.hi);
    for (int y = row_at(p, q->range.lo); y <= hi && q->range.hi > q->range.lo; y++)
        put(p, x, y, p->utf8 ? 0x2502 : '|');
}

static void draw_point(struct plot *p, const struct point *q)
{
    int x = column_at(p, q->n), y = row_at(p, q->y);
    uint32_t there = get(p, x, y), both = p->utf8 ? 0x25c9 : '8', mark = mark_of(p, q->series);
    bool taken = there == both;
    for (size_t k = 0; k < MARKS && !taken; k++)
        taken = there == mark_of(p, k) && there != mark;
    p->shared = p->shared || taken;
    put(p, x, y, taken ? both : mark);
}

/* ---- writing ------------------------------------------------------------------------------ */

static void put_cp(struct stk_buf *out, uint32_t cp)
{
    char text[4];
    stk_buf_put(out, text, stk_utf8_put(text, cp ? cp : ' '));
}

/* A round step of about a quarter of the axis: 1, 2 or 5 times a power of 10. */
static double step_of(const struct plot *p)
{
    double raw = (p->y1 - p->y0) / 4, tens = pow(10, floor(log10(raw))), part = raw / tens;
    return p->log_y ? fmax(ceil(raw), 1) : tens * (part > 5 ? 10 : part > 2 ? 5 : part > 1 ? 2 : 1);
}

/* The label of a row of the plot: the tick in that row, if there is one. */
static void tick_of(const struct plot *p, int y, char *buf, size_t size)
{
    double step = step_of(p);
    buf[0] = '\0';
    for (double v = ceil(p->y0 / step) * step; v <= p->y1 + 1e-9; v += step)
        if (place(v, p->y0, p->y1, HEIGHT) == y)
            snprintf(buf, size, "%.4g", p->log_y ? exp2(v) : v);
}

static void end_line(struct stk_buf *out)
{
    while (out->len && out->data[out->len - 1] == ' ')
        out->len--;
    stk_buf_putc(out, '\n');
}

static void write_rows(const struct plot *p, struct stk_buf *out)
{
    char tick[16];
    for (int y = HEIGHT - 1; y >= 0; y--) {
        tick_of(p, y, tick, sizeof tick);
        stk_buf_printf(out, "%*s ", LABEL - 1, tick);
        put_cp(out, p->utf8 ? (*tick ? 0x2524 : 0x2502) : *tick ? '+' : '|');
        for (unsigned x = 0; x < p->width; x++)
            put_cp(out, p->cell[HEIGHT - 1 - y][x]);
        end_line(out);
    }
    stk_buf_printf(out, "%*s", LABEL, "");
    put_cp(out, p->utf8 ? 0x2514 : '+');
    for (unsigned x = 0; x < p->width; x++)
        put_cp(out, p->utf8 ? 0x2500 : '-');
    stk_buf_putc(out, '\n');
}

/* Every measured N under its column, if there is room. */
static void write_x_labels(const struct plot *p, struct stk_buf *out)
{
    char line[WIDTH_MAX + 32], text[24];
    memset(line, ' ', sizeof line);
    for (EACH_POINT(q, p)) {
        int len = snprintf(text, sizeof text, "%.0f", q->n);
        int at = column_at(p, q->n) - (len - 1) / 2;
        bool room = len < (int)sizeof text && at >= 0 && at + len <= (int)sizeof line - 1;
        for (int j = at > 0 ? at - 1 : 0; room && j <= at + len; j++)
            room = line[j] == ' ';
        if (room)
            memcpy(line + at, text, (size_t)len);
    }
    stk_buf_printf(out, "%*s", LABEL + 1, "");
    stk_buf_put(out, line, sizeof line - 1);
    end_line(out);
}

static void write_legend(const struct plot *p, unsigned columns, struct stk_buf *out)
{
    size_t at = 0;
    for (size_t k = 0; k < p->series->len; k++) {
        const char *name = stk_scale_series_word(stk_pg_text(&p->series->item[k], "name", ""));
        struct stk_buf b = STK_BUF_INIT;
        size_t w = stk_text_escape(&b, name, strlen(name), 30) + 4;
        if (at && at + w > columns) {
            end_line(out);
            at = 0;
        }
        stk_buf_printf(out, "%*s", at ? 2 : LABEL + 1, "");
        put_cp(out, mark_of(p, k));
        stk_buf_printf(out, " %s", stk_buf_cstr(&b));
        at += at ? w : w + LABEL;
        stk_buf_release(&b);
    }
    if (p->shared)
        stk_buf_printf(out, "  %s several", p->utf8 ? "\xe2\x97\x89" : "8");
    stk_buf_printf(out, "  %s ideal\n", p->utf8 ? "\xc2\xb7" : ".");
}

static void write_title(const struct plot *p, struct stk_buf *out)
{
    const char *base = stk_pg_text(p->base, "name", "");
    const char *what = p->kind != STK_PLOT_SPEEDUP ? p->metric ? p->metric : "time, s"
                       : p->weak                   ? "scaled speedup"
                                                   : "speedup";
    stk_buf_printf(out, "%*s", LABEL, "");
    stk_text_escape(out, what, strlen(what), 30);
    stk_buf_puts(out, " over N");
    if (p->kind == STK_PLOT_SPEEDUP && p->series->len > 1) {
        stk_buf_puts(out, ", against ");
        stk_text_escape(out, base, strlen(base), 30);
        stk_buf_puts(out, " with N=1");
    }
    stk_buf_puts(out, p->log_x && p->log_y ? " (both axes to base 2)\n"
                      : p->log_x           ? " (N to base 2)\n"
                                           : "\n");
}

static void draw(struct plot *p, unsigned columns, struct stk_buf *out)
{
    draw_ideal(p);
    for (EACH_POINT(q, p))
        draw_interval(p, q);
    for (EACH_POINT(q, p))
        draw_point(p, q);
    write_title(p, out);
    write_rows(p, out);
    write_x_labels(p, out);
    write_legend(p, columns, out);
}

void stk_scale_plot(const struct stk_jval *result, enum stk_plot kind, unsigned columns, bool utf8,
                    struct stk_buf *out)
{
    const struct stk_jval *series = stk_json_get(result, "series");
    double base = stk_pg_get(result, "common_base");
    struct plot p = {.utf8 = utf8, .kind = kind, .series = series};
    if (kind == STK_PLOT_NONE || !stk_pg_has_rows(series) || !(base >= 0) ||
        !(base < (double)series->len))
        return;
    unsigned room = columns > LABEL + 12 ? columns - LABEL - 4 : 8;
    p.width = room < WIDTH_MAX ? room : WIDTH_MAX;
    p.base = &series->item[(size_t)base];
    p.base_n = stk_pg_get(p.base, "base_n");
    p.metric = stk_pg_text(result, "study.metric", NULL);
    p.weak = stk_pg_true(result, "study.weak");
    p.rate = p.metric && stk_pg_true(result, "study.higher_is_better");
    gather(&p);
    if (!p.points.fail && set_axes(&p))
        draw(&p, columns, out);
    stk_buf_release(&p.points);
}
