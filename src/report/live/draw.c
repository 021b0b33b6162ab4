/* draw.c - a look as a screen of text, as a sentence, and as JSON; the same for all kinds. */
#include <stdio.h>
#include <stdlib.h>

#include "base/style.h"
#include "base/text.h"
#include "base/units.h"
#include "result/grid.h"
#include "report/json_priv.h"
#include "report/live/priv.h"

#define NAME_COLUMNS 10
#define TEXT_COLUMNS 36
#define BAR_COLUMNS  20
#define NARROW_FRAME 60 /* columns: below, the time left has a line of its own */
#define NARROW       12 /* columns of a text in a table that may be cut */

const char *stk_look_state_name(enum stk_look_state s)
{
    static const char *const name[] = {"running", "silent", "ended", "died"};
    return name[s];
}

/* ---- values -------------------------------------------------------------------------------- */

static const char *number_text(double v, char *buf, size_t size)
{
    if (v < 9.995)
        snprintf(buf, size, v > 0 ? "%.2f" : "0", v);
    else if (v < 99.95)
        snprintf(buf, size, "%.1f", v);
    else
        stk_format_count(stk_nearest(v), buf, size);
    return buf;
}

/* "-" for what is unknown. */
static const char *value_text(enum stk_look_unit unit, double v, char *buf, size_t size)
{
    snprintf(buf, size, "-");
    if (isnan(v))
        return buf;
    switch (unit) {
    case STK_LOOK_COUNT: return stk_format_count(stk_nearest(v), buf, size);
    case STK_LOOK_NUMBER: return number_text(v, buf, size);
    case STK_LOOK_BYTES: return stk_format_size(stk_nearest(v), buf, size);
    case STK_LOOK_BPS: return stk_word_rate(v, buf, size);
    case STK_LOOK_SECONDS: return stk_word_moment(v, buf, size);
    case STK_LOOK_SHARE: return stk_word_share(v, buf, size);
    case STK_LOOK_TEXT: break;
    }
    return buf;
}

static double share_of(const struct stk_look_figure *f)
{
    if (f->unit == STK_LOOK_SHARE)
        return f->value;
    return f->of > 0 ? f->value / f->of : NAN;
}

/* "1,203 of 4,800, 12.1/s"; "91.2 %" stands beside its bar. */
static void put_value(const struct stk_look_figure *f, struct stk_buf *out)
{
    char a[48];
    size_t start = out->len;
    if (f->unit != STK_LOOK_SHARE && f->unit != STK_LOOK_TEXT)
        stk_buf_puts(out, value_text(f->unit, f->value, a, sizeof a));
    if (f->of > 0)
        stk_buf_printf(out, " of %s", value_text(f->unit, f->of, a, sizeof a));
    if (f->per_s >= 0)
        stk_buf_printf(out, ", %s/s",
                       value_text(f->unit == STK_LOOK_BYTES ? STK_LOOK_BYTES : STK_LOOK_NUMBER,
                                  f->per_s, a, sizeof a));
    if (f->text && *f->text) {
        stk_buf_puts(out, out->len > start ? " " : "");
        stk_text_escape(out, f->text, strlen(f->text), SIZE_MAX);
    }
}

/* ---- the head ------------------------------------------------------------------------------ */

static bool is_time(double s)
{
    return s >= 0 && s < 1e9;
}

static const char *state_mark(enum stk_look_state s)
{
    static const char *const mark[] = {STK_GOOD, STK_WARN, STK_STRONG, STK_BAD};
    return mark[s];
}

static void put_head(const struct stk_look *l, const struct stk_look_frame *f, struct stk_buf *out)
{
    struct stk_grid g;
    struct stk_buf title = STK_BUF_INIT;
    char state[120], a[32];
    int n = snprintf(state, sizeof state, "%s%s" STK_PLAIN, state_mark(l->state),
                     stk_look_state_name(l->state));
    if (is_time(l->elapsed_s))
        n += snprintf(state + n, sizeof state - (size_t)n, " %s",
                      stk_word_clock(l->elapsed_s, a, sizeof a));
    if (is_time(l->left_s) && f->columns >= NARROW_FRAME)
        snprintf(state + n, sizeof state - (size_t)n, ", about %s left",
                 stk_word_clock(l->left_s, a, sizeof a));
    stk_grid_init(&g, "lel");
    stk_grid_row(&g, l->kind, stk_word_cut(&title, l->title, SIZE_MAX), state);
    stk_grid_fit(&g, 0, f->columns);
    stk_grid_render(&g, 0, out);
    if (is_time(l->left_s) && f->columns < NARROW_FRAME)
        stk_buf_printf(out, "about %s left\n", stk_word_clock(l->left_s, a, sizeof a));
    stk_grid_release(&g);
    stk_buf_release(&title);
}

static void put_sentence_lines(const char *mark, const char *text, const struct stk_look_frame *f,
                               struct stk_buf *out)
{
    struct stk_buf safe = STK_BUF_INIT;
    stk_text_escape(&safe, text, strlen(text), SIZE_MAX);
    stk_buf_puts(out, mark);
    stk_report_wrapped(stk_buf_cstr(&safe), 0, f->columns, out);
    stk_buf_puts(out, STK_PLAIN);
    stk_buf_release(&safe);
}

/* The text is escaped: backslashes must not be doubled again. */
static const char *cut_text(struct stk_buf *cut, struct stk_buf *text, size_t columns)
{
    size_t at = 0, used = 0, n = text->len;
    const char *s = stk_buf_cstr(text);
    bool fits = stk_text_width(s, n) <= columns;
    while (!fits && at < n) {
        uint32_t cp = 0;
        size_t len = stk_utf8_next(s + at, n - at, &cp), w = len ? stk_cp_width(cp) : 1;
        if (used + w + 3 > columns)
            break;
        at += len ? len : 1;
        used += w;
    }
    stk_buf_put(cut, s, fits ? n : at);
    stk_buf_puts(cut, fits ? "" : "...");
    return stk_buf_cstr(cut);
}

static void put_figure(const struct stk_look_figure *f, const struct stk_look_frame *frame,
                       struct stk_buf *out)
{
    struct stk_buf text = STK_BUF_INIT, cut = STK_BUF_INIT;
    char a[24];
    double share = share_of(f);
    unsigned room = frame->columns > NAME_COLUMNS ? frame->columns - NAME_COLUMNS : 1;
    put_value(f, &text);
    stk_buf_printf(out, "%-*s", NAME_COLUMNS, f->name);
    if (share >= 0 && frame->columns >= NAME_COLUMNS + TEXT_COLUMNS + BAR_COLUMNS + 10) {
        stk_buf_printf(out, "%-*s", TEXT_COLUMNS, cut_text(&cut, &text, TEXT_COLUMNS - 1));
        stk_grid_box(fmin(share, 1), BAR_COLUMNS, frame->utf8, out);
        stk_buf_printf(out, " %s", stk_word_share(share, a, sizeof a));
    } else {
        stk_buf_puts(out, cut_text(&cut, &text, share >= 0 && room > 9 ? room - 9 : room));
        if (share >= 0)
            stk_buf_printf(out, "%s%s", text.len ? ", " : "", stk_word_share(share, a, sizeof a));
    }
    stk_buf_putc(out, '\n');
    stk_buf_release(&text);
    stk_buf_release(&cut);
}

/* ---- the table ----------------------------------------------------------------------------- */

/* The columns that are shown: those that are known and fit, the first ones first. */
struct choice {
    size_t column[STK_GRID_COLUMNS], n;
};

static const char *cell_text(const struct stk_look_table *t, size_t row, size_t column,
                             char *buf, size_t size)
{
    const struct stk_look_cell *c = &t->cell[row * t->ncolumns + column];
    bool is_text = t->column[column].unit == STK_LOOK_TEXT;
    return is_text ? c->text : value_text(t->column[column].unit, c->value, buf, size);
}

/* The columns of the terminal that it takes; 0: nothing is known. */
static size_t width_of(const struct stk_look_table *t, size_t column)
{
    size_t width = 0;
    bool known = false, is_text = t->column[column].unit == STK_LOOK_TEXT;
    for (size_t r = 0; r < t->nrows; r++) {
        char a[48];
        const char *text = cell_text(t, r, column, a, sizeof a);
        size_t w = stk_text_width(text, strlen(text));
        known = known || (is_text ? w > 0 : !isnan(t->cell[r * t->ncolumns + column].value));
        w = is_text && w > NARROW ? NARROW : w;
        width = w > width ? w : width;
    }
    size_t title = strlen(t->column[column].title);
    return !known ? 0 : width > title ? width : title;
}

static struct choice choose_columns(const struct stk_look_table *t, unsigned columns)
{
    struct choice c = {.n = 0};
    size_t used = 0;
    for (size_t i = 0; i < t->ncolumns && c.n < STK_GRID_COLUMNS; i++) {
        size_t width = width_of(t, i);
        if (!width)
            continue;
        used += width + (c.n ? 2 : 0);
        if (used > columns && c.n > 1)
            break;
        c.column[c.n++] = i;
    }
    return c;
}

/* Each ends in a NUL. */
static void row_cells(const struct stk_look_table *t, size_t row, const struct choice *c,
                      struct stk_buf *cells)
{
    bool slowest = row == t->slowest;
    for (size_t i = 0; i < c->n; i++) {
        char a[48];
        const char *text = cell_text(t, row, c->column[i], a, sizeof a);
        stk_buf_puts(cells, slowest ? STK_WARN : "");
        stk_text_escape(cells, text, strlen(text), 60);
        stk_buf_puts(cells, slowest ? STK_PLAIN : "");
        stk_buf_putc(cells, '\0');
    }
}

struct pick {
    double weight;
    size_t row;
};

static int by_weight(const void *a, const void *b)
{
    const struct pick *x = a, *y = b;
    if (x->weight != y->weight)
        return x->weight < y->weight ? 1 : -1;
    return (x->row > y->row) - (x->row < y->row);
}

static int by_row(const void *a, const void *b)
{
    const struct pick *x = a, *y = b;
    return (x->row > y->row) - (x->row < y->row);
}

/* The most important rows, in their order. NULL: no memory. */
static struct pick *pick_rows(const struct stk_look_table *t, size_t shown)
{
    struct pick *p = malloc((t->nrows + 1) * sizeof *p);
    for (size_t i = 0; p && i < t->nrows; i++) {
        double v = t->cell[i * t->ncolumns + t->important].value;
        p[i] = (struct pick){isnan(v) ? -1 : v, i};
    }
    if (p && shown < t->nrows) {
        qsort(p, t->nrows, sizeof *p, by_weight);
        qsort(p, shown, sizeof *p, by_row);
    }
    return p;
}

static void put_rows(const struct stk_look_table *t, const struct pick *pick, size_t shown,
                     const struct stk_look_frame *f, struct stk_buf *out)
{
    struct stk_grid g;
    struct stk_buf cells = STK_BUF_INIT;
    char align[STK_GRID_COLUMNS + 1] = "";
    const struct choice c = choose_columns(t, f->columns);
    for (size_t i = 0; i < c.n; i++) {
        align[i] = t->column[c.column[i]].unit == STK_LOOK_TEXT ? 'e' : 'r';
        stk_buf_printf(&cells, STK_FAINT "%s" STK_PLAIN, t->column[c.column[i]].title);
        stk_buf_putc(&cells, '\0');
    }
    stk_grid_init(&g, align);
    stk_grid_cells(&g, &cells);
    for (size_t i = 0; i < shown; i++) {
        row_cells(t, pick[i].row, &c, &cells);
        stk_grid_cells(&g, &cells);
    }
    stk_grid_fit(&g, 0, f->columns);
    stk_grid_render(&g, 0, out);
    stk_grid_release(&g);
    stk_buf_release(&cells);
}

/* rows: room for it, with its head and a line about the rest; 0: no limit. */
static void put_table(const struct stk_look *l, size_t rows, const struct stk_look_frame *f,
                      struct stk_buf *out)
{
    const struct stk_look_table *t = &l->table;
    size_t shown = !rows || t->nrows + 1 <= rows ? t->nrows : rows > 3 ? rows - 2 : 1;
    struct pick *pick = pick_rows(t, shown);
    if (!pick) {
        out->fail = true;
        return;
    }
    put_rows(t, pick, shown, f, out);
    if (shown < t->nrows)
        stk_buf_printf(out, "and %zu more %s\n", t->nrows - shown, t->key);
    free(pick);
}

static size_t lines_of(const struct stk_buf *b)
{
    size_t n = 0;
    for (size_t i = 0; i < b->len; i++)
        n += b->data[i] == '\n';
    return n;
}

void stk_look_text(const struct stk_look *l, const struct stk_look_frame *f, struct stk_buf *out)
{
    put_head(l, f, out);
    if (l->why)
        put_sentence_lines(state_mark(l->state), l->why, f, out);
    for (size_t i = 0; i < l->nfigures; i++)
        put_figure(&l->figure[i], f, out);
    for (size_t i = 0; i < l->nnotes; i++)
        put_sentence_lines(STK_WARN, l->note[i], f, out);
    if (!l->table.nrows)
        return;
    stk_buf_putc(out, '\n');
    size_t used = lines_of(out);
    put_table(l, !f->rows ? 0 : f->rows > used + 2 ? f->rows - used : 2, f, out);
}

/* ---- a sentence ---------------------------------------------------------------------------- */

void stk_look_sentence(const struct stk_look *l, struct stk_buf *out)
{
    char a[48];
    stk_buf_puts(out, stk_look_state_name(l->state));
    for (size_t i = 0; i < l->nfigures; i++) {
        const struct stk_look_figure *f = &l->figure[i];
        double share = share_of(f);
        stk_buf_printf(out, ", %s", f->name);
        if (f->unit == STK_LOOK_SHARE)
            stk_buf_printf(out, " %s", stk_word_share(share, a, sizeof a));
        stk_buf_putc(out, ' ');
        put_value(f, out);
    }
    if (is_time(l->left_s))
        stk_buf_printf(out, ", about %s left", stk_word_clock(l->left_s, a, sizeof a));
    if (l->why) {
        stk_buf_puts(out, "; ");
        stk_text_escape(out, l->why, strlen(l->why), SIZE_MAX);
    }
}

/* ---- JSON ---------------------------------------------------------------------------------- */

static void put_number(struct stk_jw *w, const char *key, double v)
{
    stk_jw_key(w, key);
    if (v >= 0 && v < 9e15 && v == floor(v))
        stk_jw_u64(w, (uint64_t)v);
    else
        stk_jw_f64(w, v);
}

static void put_figure_json(struct stk_jw *w, const struct stk_look_figure *f)
{
    char key[64];
    if (f->unit == STK_LOOK_TEXT) {
        stk_jw_put_str(w, f->key, f->text);
        return;
    }
    put_number(w, f->key, f->value);
    if (!isnan(f->of)) {
        snprintf(key, sizeof key, "%s_total", f->key);
        put_number(w, key, f->of);
    }
    if (f->counts || !isnan(f->per_s)) {
        snprintf(key, sizeof key, "%s_per_s", f->key);
        put_number(w, key, f->per_s);
    }
}

static void put_table_json(struct stk_jw *w, const struct stk_look_table *t)
{
    put_array(w, t->key);
    for (size_t r = 0; r < t->nrows; r++) {
        bool pretty = open_row(w);
        for (size_t i = 0; i < t->ncolumns; i++) {
            const struct stk_look_cell *c = &t->cell[r * t->ncolumns + i];
            if (t->column[i].unit == STK_LOOK_TEXT)
                stk_jw_put_str(w, t->column[i].key, c->text);
            else
                put_number(w, t->column[i].key, c->value);
        }
        close_row(w, pretty);
    }
    stk_jw_close(w, ']');
}

void stk_look_json(const struct stk_look *l, struct stk_jw *w)
{
    stk_jw_put_str(w, "kind", l->kind);
    stk_jw_put_str(w, "title", l->title);
    stk_jw_put_str(w, "state", stk_look_state_name(l->state));
    stk_jw_put_str(w, "why", l->why);
    stk_jw_put_f64(w, "elapsed_s", l->elapsed_s);
    stk_jw_put_f64(w, "left_s", l->left_s);
    for (size_t i = 0; i < l->nfigures; i++)
        put_figure_json(w, &l->figure[i]);
    if (l->table.key)
        put_table_json(w, &l->table);
    stk_jw_put_strs(w, "notes", l->note, l->nnotes);
}
