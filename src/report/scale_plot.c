/*
 * scale_plot.c - the speedup curve on a terminal: points with their intervals, several series in
 * one plot, the ideal diagonal behind them. Both axes are linear, or from N = 16 on both to base 2,
 * so that the diagonal is straight in either case. Points are not joined: nothing is known between
 * them.
 */
#include <math.h>
#include <stdio.h>

#include "base/text.h"
#include "report/scale.h"

#define WIDTH_MAX 96
#define HEIGHT    17
#define LABEL     7 /* columns left of the frame */
#define LOG_FROM  16

struct plot {
    uint32_t cell[HEIGHT][WIDTH_MAX];
    unsigned width;
    bool log, utf8, shared;
    double x0, x1, y0, y1; /* of the axes, in their own scale */
};

static const uint32_t dots[] = {0x25cf, 0x25cb, 0x25a0, 0x25a1, 0x25b2, 0x25b3, 0x25c6, 0x25c7};
static const char letters[] = "ox*#@%&$";
#define MARKS (sizeof dots / sizeof *dots)

static uint32_t mark_of(const struct plot *p, size_t series)
{
    return p->utf8 ? dots[series % MARKS] : (uint32_t)letters[series % MARKS];
}

static double scale(const struct plot *p, double v)
{
    return p->log ? log2(fmax(v, 1e-9)) : v;
}

/* The column or row of a value, which may be outside. */
static int place(double v, double v0, double v1, unsigned cells)
{
    double at = (v - v0) / (v1 - v0) * (cells - 1);
    return at < -1 ? -1 : at > cells ? (int)cells : (int)lround(at);
}

static int column_at(const struct plot *p, double n)
{
    return place(scale(p, n), p->x0, p->x1, p->width);
}

static int row_at(const struct plot *p, double speedup)
{
    return place(scale(p, speedup), p->y0, p->y1, HEIGHT);
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

/* Axes that contain everything; with poor speedups the diagonal may leave at the top. */
static bool set_axes(const struct stk_scaling *all, struct plot *p)
{
    double n_min = INFINITY, n_max = 0, low = INFINITY, high = 0;
    for (size_t k = 0; k < all->nseries; k++)
        for (size_t i = 0; i < all->series[k].nrows; i++) {
            const struct stk_scaling_row *r = &all->series[k].row[i];
            if (!r->runs)
                continue;
            bool known = stk_interval_known(r->speedup_ci);
            n_min = fmin(n_min, (double)r->n);
            n_max = fmax(n_max, (double)r->n);
            low = fmin(low, known ? r->speedup_ci.lo : r->speedup);
            high = fmax(high, known ? r->speedup_ci.hi : r->speedup);
        }
    if (!(n_max > n_min) || !(high > 0))
        return false;
    p->log = n_max >= LOG_FROM;
    double top = fmin(fmax(n_max, high), 2 * high);
    p->x0 = p->log ? log2(n_min) : 0;
    p->x1 = scale(p, n_max);
    p->y0 = p->log ? floor(log2(fmax(fmin(low, n_min), high / 1e4))) : 0;
    p->y1 = scale(p, top);
    return p->y1 > p->y0;
}

static void draw_ideal(struct plot *p)
{
    for (unsigned x = 0; x < p->width; x++) {
        double v = p->x0 + (p->x1 - p->x0) * x / (p->width - 1);
        put(p, (int)x, place(v, p->y0, p->y1, HEIGHT), p->utf8 ? 0xb7 : '.');
    }
}

static void draw_interval(struct plot *p, const struct stk_scaling_row *r)
{
    if (!stk_interval_known(r->speedup_ci))
        return;
    int x = column_at(p, (double)r->n), hi = row_at(p, r->speedup_ci.hi);
    for (int y = row_at(p, r->speedup_ci.lo); y <= hi; y++)
        put(p, x, y, p->utf8 ? 0x2502 : '|');
}

static void draw_point(struct plot *p, const struct stk_scaling_row *r, uint32_t mark)
{
    int x = column_at(p, (double)r->n), y = row_at(p, r->speedup);
    uint32_t there = get(p, x, y), both = p->utf8 ? 0x25c9 : '8';
    bool taken = there == both;
    for (size_t k = 0; k < MARKS && !taken; k++)
        taken = there == mark_of(p, k) && there != mark;
    p->shared = p->shared || taken;
    put(p, x, y, taken ? both : mark);
}

static void draw_series(const struct stk_scaling *all, struct plot *p)
{
    for (size_t k = 0; k < all->nseries; k++)
        for (size_t i = 0; i < all->series[k].nrows; i++)
            if (all->series[k].row[i].runs)
                draw_interval(p, &all->series[k].row[i]);
    for (size_t k = 0; k < all->nseries; k++)
        for (size_t i = 0; i < all->series[k].nrows; i++)
            if (all->series[k].row[i].runs)
                draw_point(p, &all->series[k].row[i], mark_of(p, k));
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
    return p->log ? fmax(ceil(raw), 1) : tens * (part > 5 ? 10 : part > 2 ? 5 : part > 1 ? 2 : 1);
}

/* The label of a row of the plot: the tick in that row, if there is one. */
static void tick_of(const struct plot *p, int y, char *buf, size_t size)
{
    double step = step_of(p);
    buf[0] = '\0';
    for (double v = ceil(p->y0 / step) * step; v <= p->y1 + 1e-9; v += step)
        if (place(v, p->y0, p->y1, HEIGHT) == y)
            snprintf(buf, size, "%.4g", p->log ? exp2(v) : v);
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
static void write_x_labels(const struct stk_scaling *all, const struct plot *p, struct stk_buf *out)
{
    char line[WIDTH_MAX + 32];
    memset(line, ' ', sizeof line);
    for (size_t k = 0; k < all->nseries; k++)
        for (size_t i = 0; i < all->series[k].nrows; i++) {
            const struct stk_scaling_row *r = &all->series[k].row[i];
            char text[24];
            int len = snprintf(text, sizeof text, "%llu", (unsigned long long)r->n);
            int at = r->runs ? column_at(p, (double)r->n) - (len - 1) / 2 : -1;
            if (at < 0 || at + len > (int)sizeof line - 1)
                continue;
            bool room = true;
            for (int j = at ? at - 1 : 0; j <= at + len; j++)
                room = room && line[j] == ' ';
            if (room)
                memcpy(line + at, text, (size_t)len);
        }
    stk_buf_printf(out, "%*s", LABEL + 1, "");
    stk_buf_put(out, line, sizeof line - 1);
    end_line(out);
}

static void write_legend(const struct stk_scaling *all, const struct plot *p, unsigned columns,
                         struct stk_buf *out)
{
    size_t at = 0;
    for (size_t k = 0; k < all->nseries; k++) {
        const char *name = *all->series[k].from->name ? all->series[k].from->name : "measured";
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

void stk_scale_plot(const struct stk_scaling *all, unsigned columns, bool utf8, struct stk_buf *out)
{
    struct plot p = {.utf8 = utf8};
    unsigned room = columns > LABEL + 12 ? columns - LABEL - 4 : 8;
    p.width = room < WIDTH_MAX ? room : WIDTH_MAX;
    p.width = p.width > 64 ? 64 : p.width;
    if (!set_axes(all, &p))
        return;
    draw_ideal(&p);
    draw_series(all, &p);
    stk_buf_printf(out, "%*s over N%s\n", LABEL + 7,
                   all->study->weak ? "scaled speedup" : "speedup",
                   p.log ? " (both axes to base 2)" : "");
    write_rows(&p, out);
    write_x_labels(all, &p, out);
    write_legend(all, &p, columns, out);
}
