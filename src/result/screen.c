/* screen.c - see screen.h. */
#include "result/screen.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "result/blocks.h"
#include "result/side.h"

#define INDENT    2
#define BAR_WIDTH 30
#define ROOMY     20 /* rows of a terminal: with fewer, no line is left empty */
#define BOX_AT    34 /* columns of text before a box, so that boxes stand below each other */
#define BOX_WIDTH 20
#define BOX_FROM  76 /* columns of a screen that has boxes */
#define TITLE_MAX 24 /* of a column */
#define WIDE      110 /* columns of a terminal */

/* ---- parts and rows ------------------------------------------------------------------------- */

void stk_screen_end(struct stk_screen *s)
{
    if (!s->in_grid)
        return;
    stk_grid_fit(&s->grid, INDENT, s->table_columns);
    stk_grid_render(&s->grid, INDENT, s->out);
    stk_grid_release(&s->grid);
    s->in_grid = false;
}

void stk_screen_part(struct stk_screen *s)
{
    stk_screen_end(s);
    if (s->any && (!s->rows || s->rows >= ROOMY))
        stk_buf_putc(s->out, '\n');
    s->any = true;
}

void stk_screen_row(struct stk_screen *s, const char *title, const char *text)
{
    if (!s->in_grid) {
        stk_screen_part(s);
        stk_grid_init(&s->grid, "lw");
        s->in_grid = true;
    }
    stk_grid_row(&s->grid, title, text);
}

void stk_screen_say(struct stk_screen *s, const char *fmt, ...)
{
    struct stk_buf text = STK_BUF_INIT;
    va_list ap;
    va_start(ap, fmt);
    stk_buf_vprintf(&text, fmt, ap);
    va_end(ap);
    stk_report_wrapped(stk_buf_cstr(&text), INDENT, s->columns, s->out);
    stk_buf_release(&text);
}

static void put_prose(const struct stk_result_field *f, const char *text, struct stk_screen *s)
{
    stk_screen_part(s);
    stk_buf_puts(s->out, f->flags & STK_F_WARN ? STK_WARN : "");
    stk_report_wrapped(text, INDENT, s->columns, s->out);
    stk_buf_puts(s->out, f->flags & STK_F_WARN ? STK_PLAIN : "");
}

/* ---- figures -------------------------------------------------------------------------------- */

static const char *tone_of(const struct stk_result_field *f, const struct stk_jval *v)
{
    return f->tone                  ? f->tone(v)
           : f->flags & STK_F_WARN ? STK_WARN
           : f->flags & STK_F_LEAD ? STK_STRONG
                                   : NULL;
}

/* The phrase with the value in place of "%". */
static void put_phrase(const struct stk_result_field *f, const char *phrase, const struct stk_jval *v,
                       struct stk_buf *out)
{
    const char *tone = tone_of(f, v);
    for (const char *p = phrase; *p; p++) {
        if (p[0] == '%' && p[1] == '%') {
            stk_buf_putc(out, *p++);
        } else if (*p == '%') {
            stk_buf_puts(out, tone ? tone : "");
            stk_field_text(f, v, out);
            stk_buf_puts(out, tone ? STK_PLAIN : "");
        } else if (strncmp(p, "(s)", 3) == 0 || strncmp(p, "(es)", 4) == 0) {
            size_t n = strcspn(p, ")");
            stk_buf_put(out, p + 1, v->f == 1 ? 0 : n - 1);
            p += n;
        } else {
            stk_buf_putc(out, *p);
        }
    }
}

struct row {
    const char *title, *group; /* group: the title of the first row of a group */
    struct stk_buf text;
    bool open;
};

static void end_row(struct row *r, struct stk_screen *s)
{
    if (r->open && s->line)
        stk_buf_printf(s->out, "%s%s %s", s->any ? ", " : "", r->title, stk_buf_cstr(&r->text));
    else if (r->open)
        stk_screen_row(s, r->title, stk_buf_cstr(&r->text));
    s->any = s->any || r->open;
    stk_buf_reset(&r->text);
    r->open = false;
}

/* "1.20 GiB of 4.00 GiB    [######          ] 30.0 %" */
static void add_box(const struct stk_result_field *f, const struct stk_jval *v, struct row *r,
                    const struct stk_screen *s)
{
    size_t used = stk_text_width(stk_buf_cstr(&r->text), r->text.len);
    if (s->columns >= BOX_FROM && !s->line) {
        stk_buf_printf(&r->text, "%*s", used < BOX_AT ? (int)(BOX_AT - used) : 0, "");
        stk_buf_puts(&r->text, "  ");
        stk_grid_box(fmin(v->f, 1), BOX_WIDTH, s->utf8, &r->text);
        stk_buf_putc(&r->text, ' ');
    } else if (used) {
        stk_buf_puts(&r->text, ", ");
    }
    stk_field_text(f, v, &r->text);
}

static void add_figure(const struct stk_result_field *f, const struct stk_jval *v, struct row *r,
                       struct stk_screen *s)
{
    bool shown = stk_field_shown(f, v);
    if (!f->joins) {
        end_row(r, s);
        r->title = r->group ? r->group : f->row ? f->row : f->title;
        r->open = shown;
        r->group = shown ? NULL : r->group;
    }
    if (!shown || !r->open)
        return;
    if (!(f->flags & STK_F_BAR))
        put_phrase(f, f->joins                             ? f->joins
                      : f->say && stk_field_set(f, v) ? f->say
                                                      : "%",
                   v, &r->text);
    else if (v->type == STK_JINT || v->type == STK_JFLOAT)
        add_box(f, v, r, s);
}

/* ---- tables --------------------------------------------------------------------------------- */

/* rows: NULL inside an object of them. */
static bool is_column(const struct stk_result_field *f, const struct stk_jval *rows,
                      const struct stk_screen *s)
{
    if (f->flags & STK_F_WIDE && s->columns < WIDE)
        return false;
    return f->title && !(f->flags & (STK_F_PAGE | STK_F_REMARK | STK_F_NOTE)) &&
           f->unit < STK_U_GROUP && (!rows || stk_column_shown(f, rows));
}

static void put_title(const struct stk_result_field *f, const struct stk_screen *s,
                      struct stk_buf *cells)
{
    const char *title = f->title == stk_plus_minus && !s->utf8 ? "+-" : f->title;
    stk_text_escape(cells, title, strlen(title), TITLE_MAX);
    stk_buf_putc(cells, '\0');
}

static void put_cell(const struct stk_result_field *f, const struct stk_jval *v, const char *mark,
                     struct stk_buf *cells)
{
    const char *tone = mark ? mark : v && f->tone ? f->tone(v) : NULL;
    stk_buf_puts(cells, tone ? tone : "");
    if (f->say && stk_field_shown(f, v))
        put_phrase(f, f->say, v, cells);
    else if (!(f->flags & STK_F_IF_SET) || stk_field_shown(f, v))
        stk_field_text(f, v, cells);
    stk_buf_puts(cells, tone ? STK_PLAIN : "");
    stk_buf_putc(cells, '\0');
}

static void put_bar(const struct stk_jval *v, double most, bool utf8, struct stk_buf *cells)
{
    bool number = v && (v->type == STK_JINT || v->type == STK_JFLOAT);
    stk_grid_bar(number && most > 0 ? v->f / most : 0, BAR_WIDTH, utf8, cells);
    stk_buf_putc(cells, '\0');
}

static double largest(const struct stk_jval *rows, const char *key)
{
    double most = 0;
    for (size_t i = 0; rows && i < rows->len; i++) {
        const struct stk_jval *v = stk_json_get(&rows->item[i], key);
        most = v && v->f > most ? v->f : most;
    }
    return most;
}

/* The cells of a row; the columns of an object in it stand beside the others. */
static void put_row(const struct stk_result_field *f, const struct stk_jval *row,
                    const struct stk_jval *rows, const struct stk_screen *s, struct stk_buf *cells)
{
    for (; f->key; f++) {
        if (f->unit == STK_U_GROUP && !(f->flags & STK_F_PAGE))
            put_row(f->of, stk_field_of(f, row), NULL, s, cells);
        if (!is_column(f, rows, s))
            continue;
        const struct stk_result_field here = stk_field_in(f, s->result);
        put_cell(&here, stk_pg_at(row, f->key), s->mark, cells);
        if (f->flags & STK_F_BAR)
            put_bar(stk_json_get(row, f->key), largest(rows, f->key), s->utf8, cells);
    }
}

/* The titles, and one letter per column, as of a grid. Returns how many there are. */
static size_t put_titles(const struct stk_result_field *f, const struct stk_jval *rows,
                         const struct stk_screen *s, char *align, size_t n, struct stk_buf *cells)
{
    for (; f->key && n + 2 <= STK_GRID_COLUMNS; f++) {
        if (f->unit == STK_U_GROUP && !(f->flags & STK_F_PAGE))
            n = put_titles(f->of, NULL, s, align, n, cells);
        if (!is_column(f, rows, s))
            continue;
        const struct stk_result_field here = stk_field_in(f, s->result);
        put_title(&here, s, cells);
        align[n++] = f->flags & STK_F_CUT       ? 'b'
                     : f->flags & STK_F_CUT_END ? 'e'
                     : f->flags & STK_F_WRAP    ? 'w'
                     : f->unit >= STK_U_FLAG    ? 'l'
                                                : 'r';
        if (f->flags & STK_F_BAR) {
            stk_buf_putc(cells, '\0');
            align[n++] = 'l';
        }
    }
    align[n] = '\0';
    return n;
}

static void put_dots(size_t columns, struct stk_buf *cells)
{
    stk_buf_put(cells, "...", 4);
    for (size_t i = 1; i < columns; i++)
        stk_buf_putc(cells, '\0');
}

static bool is_true(const struct stk_jval *row, const char *key)
{
    const struct stk_jval *v = key ? stk_json_get(row, key) : NULL;
    return v && v->type == STK_JBOOL && v->b;
}

static void put_line_below(const struct stk_result_field *f, const char *text,
                           struct stk_screen *s)
{
    stk_buf_puts(s->out, f->flags & STK_F_WARN ? STK_WARN : "");
    stk_report_wrapped(text, INDENT, s->columns, s->out);
    stk_buf_puts(s->out, f->flags & STK_F_WARN ? STK_PLAIN : "");
}

/* "/scratch: files older than 30 days are removed"; with `say`, "tar was not measured: ..." */
static void put_remarks(const struct stk_result_field *f, const struct stk_jval *rows,
                        struct stk_screen *s)
{
    for (size_t i = 0; i < rows->len; i++)
        for (const struct stk_result_field *c = f->of; c->key; c++) {
            const struct stk_jval *v = stk_json_get(&rows->item[i], c->key);
            const struct stk_jval *name = stk_json_get(&rows->item[i], f->of->key);
            struct stk_buf line = STK_BUF_INIT;
            bool remark = c->flags & STK_F_REMARK && name;
            if (!v || v->type != STK_JSTR)
                continue;
            if (remark)
                stk_buf_printf(&line, "%s%s%s: ", name->type == STK_JSTR ? name->str : "",
                               c->say ? " " : "", c->say ? c->say : "");
            stk_buf_puts(&line, v->str);
            if (remark || (c->flags & STK_F_NOTE && f->flags & STK_F_SIDE))
                put_line_below(c, stk_buf_cstr(&line), s);
            stk_buf_release(&line);
        }
}

static double number_in(const struct stk_jval *row, const char *key)
{
    const struct stk_jval *v = stk_json_get(row, key);
    return v && (v->type == STK_JINT || v->type == STK_JFLOAT) ? v->f : -INFINITY;
}

/* Whether fewer than `most` rows have a larger number. */
static bool is_among(const struct stk_result_field *f, const struct stk_jval *rows, size_t i)
{
    size_t larger = 0;
    double mine = number_in(&rows->item[i], f->by);
    for (size_t k = 0; k < rows->len && larger < f->most; k++) {
        double v = number_in(&rows->item[k], f->by);
        larger += v > mine || (v == mine && k < i);
    }
    return larger < f->most;
}

/* The end of a name, in so many columns: results differ in their last folders. */
static void put_name(const struct stk_result_field *f, const struct stk_jval *row, size_t columns,
                     struct stk_buf *cells)
{
    const struct stk_jval *v = stk_json_get(row, f->key);
    struct stk_buf name = STK_BUF_INIT;
    stk_field_text(f, v, &name);
    const char *at = stk_buf_cstr(&name);
    bool cut = stk_text_width(at, strlen(at)) > columns;
    stk_buf_puts(cells, cut ? "..." : "");
    while (cut && *at && stk_text_width(at, strlen(at)) > columns - 3)
        for (at++; (*at & 0xc0) == 0x80;)
            at++;
    stk_buf_puts(cells, at);
    stk_buf_putc(cells, '\0');
    stk_buf_release(&name);
}

#define SIDE_NAME 9 /* columns of a name, at least */

/* Each row is a column. Of two, the change stands beside them. */
static void put_side(const struct stk_result_field *f, const struct stk_jval *rows,
                     struct stk_screen *s)
{
    struct stk_side side;
    stk_side_of(&side, f, rows, STK_F_PAGE);
    if (!side.n || side.n < f->least)
        return;
    size_t n = rows->len < STK_GRID_COLUMNS - 2 ? rows->len : STK_GRID_COLUMNS - 2;
    bool changes = rows->len == 2 && !side.cell;
    size_t room = (s->columns > 36 ? s->columns - 36 : 0) / (n + changes);
    room = room < SIDE_NAME ? SIDE_NAME : room > TITLE_MAX ? TITLE_MAX : room;
    char align[STK_GRID_COLUMNS + 1] = "l";
    struct stk_buf cells = STK_BUF_INIT;
    struct stk_grid t;
    stk_screen_part(s);
    stk_buf_puts(&cells, side.cell ? side.inner->of->title : "");
    stk_buf_putc(&cells, '\0');
    for (size_t k = 0; k < n; k++) {
        put_name(side.first, &rows->item[k], room, &cells);
        align[k + 1] = side.cell && side.cell->unit >= STK_U_FLAG ? 'l' : 'r';
    }
    if (changes)
        stk_buf_put(&cells, "change", sizeof "change");
    align[n + 1] = changes ? 'r' : '\0';
    align[n + 1 + changes] = '\0';
    stk_grid_init(&t, align);
    stk_grid_cells(&t, &cells);
    for (size_t i = 0; i < side.n; i++) {
        const struct stk_result_field *cell = stk_side_field(&side, i);
        char change[48];
        if (side.cell)
            put_cell(side.inner->of, stk_json_get(side.row[i], side.inner->of->key), NULL, &cells);
        else
            stk_buf_put(&cells, cell->title, strlen(cell->title) + 1);
        for (size_t k = 0; k < n; k++)
            put_cell(cell, stk_side_cell(&side, i, k), NULL, &cells);
        if (changes) {
            stk_buf_puts(&cells, stk_side_change(&side, i, change, sizeof change));
            stk_buf_putc(&cells, '\0');
        }
        stk_grid_cells(&t, &cells);
    }
    stk_grid_narrow(&t, INDENT, s->columns);
    stk_grid_render(&t, INDENT, s->out);
    stk_grid_release(&t);
    stk_buf_release(&cells);
    put_remarks(f, rows, s);
    if (side.cut || n < rows->len)
        stk_screen_say(s, "Not all of it is shown: --json FILE has the rest.");
}

/* How many of the rows are shown: of the first ones, and all of any other table. */
static size_t top_of(const struct stk_result_field *f, const struct stk_jval *rows,
                     const struct stk_screen *s)
{
    size_t most = f->most && s->problems ? s->problems : f->most ? f->most : s->top;
    return f->flags & STK_F_TOP && most && most < rows->len ? most : rows->len;
}

static void put_more(const struct stk_result_field *f, const struct stk_jval *rows, size_t shown,
                     struct stk_screen *s)
{
    const struct stk_jval *total = f->total ? stk_json_get(s->result, f->total) : NULL;
    double all = total && total->f > (double)rows->len ? total->f : (double)rows->len;
    char n[40];
    if (all > (double)shown)
        stk_screen_say(s, "and %s more%s",
                       stk_unit_text(STK_U_COUNT, all - (double)shown, n, sizeof n),
                       f->most ? "" : ": --top 0 shows all");
}

void stk_screen_table(const struct stk_result_field *f, const struct stk_jval *rows,
                      struct stk_screen *s)
{
    char align[STK_GRID_COLUMNS + 1];
    struct stk_buf cells = STK_BUF_INIT;
    struct stk_grid t;
    size_t n = put_titles(f->of, rows, s, align, 0, &cells);
    if (!n) {
        stk_buf_release(&cells);
        return;
    }
    stk_grid_init(&t, align);
    if (f->flags & STK_F_BARE)
        stk_buf_reset(&cells);
    else
        stk_grid_cells(&t, &cells);
    size_t top = top_of(f, rows, s);
    for (size_t i = 0; i < top; i++) {
        /* The first rows differ (caches fill); the last ones show the steady state. */
        if (f->most && !f->by && !(f->flags & STK_F_TOP) && rows->len > f->most && i == f->most / 2) {
            put_dots(n, &cells);
            stk_grid_cells(&t, &cells);
            i = rows->len - f->most / 2;
        }
        if (f->by && f->most && !is_among(f, rows, i))
            continue;
        s->mark = is_true(&rows->item[i], f->marked) ? STK_WARN : NULL;
        put_row(f->of, &rows->item[i], rows, s, &cells);
        stk_grid_cells(&t, &cells);
    }
    if (f->flags & STK_F_CUT)
        stk_grid_drop(&t, INDENT, s->table_columns);
    stk_grid_narrow(&t, INDENT, s->columns);
    stk_grid_fit(&t, INDENT, s->table_columns);
    stk_grid_render(&t, INDENT, s->out);
    stk_grid_release(&t);
    stk_buf_release(&cells);
    if (f->flags & STK_F_TOP)
        put_more(f, rows, top, s);
    put_remarks(f, rows, s);
    if (f->say && (!f->by || (f->most && rows->len > f->most)))
        stk_report_wrapped(f->say, INDENT, s->columns, s->out);
}

static size_t lines_of(const struct stk_buf *b)
{
    size_t n = 0;
    for (size_t i = 0; i < b->len; i++)
        n += b->data[i] == '\n';
    return n;
}

static bool is_last_table(const struct stk_result_field *f)
{
    while ((++f)->key && f->unit != STK_U_TABLE)
        ;
    return !f->key;
}

/* As many rows as the terminal has lines for; a table before others takes half of them. */
static void put_some(const struct stk_result_field *f, const struct stk_jval *rows,
                     struct stk_screen *s)
{
    struct stk_result_field here = *f;
    size_t used = lines_of(s->out) + 2, room = s->rows > used ? s->rows - used : 1;
    room = is_last_table(f) ? room : room / 2;
    here.most = rows->len <= room ? rows->len : room > 2 ? room - 1 : 1;
    stk_screen_table(&here, rows, s);
    if (here.most < rows->len)
        stk_buf_printf(s->out, "%*sand %zu more %s\n", INDENT, "", rows->len - here.most,
                       f->title);
}

static void put_table(const struct stk_result_field *f, const struct stk_jval *rows,
                      struct stk_screen *s)
{
    struct stk_jval those = stk_rows_those(f, rows);
    if (those.len && f->flags & STK_F_SIDE) {
        put_side(f, &those, s);
    } else if ((those.len || f->none) && those.len >= f->least) {
        stk_screen_part(s);
        if (f->flags & STK_F_NAMED)
            stk_buf_printf(s->out, STK_STRONG "%s" STK_PLAIN "\n", f->title);
        if (those.len && s->rows)
            put_some(f, &those, s);
        else if (those.len)
            stk_screen_table(f, &those, s);
        else
            stk_screen_say(s, "%s", f->none);
    }
    free(those.item);
}

/* ---- lists ---------------------------------------------------------------------------------- */

static void put_texts(const struct stk_result_field *f, const struct stk_jval *list, struct stk_screen *s)
{
    size_t most = s->problems ? s->problems : f->most ? f->most : list->len, i = 0;
    if (!list->len)
        return;
    stk_screen_part(s);
    for (; i < list->len && i < most; i++) {
        struct stk_buf line = STK_BUF_INIT;
        if (list->item[i].type != STK_JSTR)
            continue;
        stk_buf_printf(&line, "%s%s", f->say ? f->say : "", list->item[i].str);
        stk_buf_puts(s->out, f->flags & STK_F_WARN ? STK_WARN : "");
        if (f->flags & STK_F_WRAP && line.len && line.data[line.len - 1] != '.')
            stk_buf_putc(&line, '.');
        if (f->flags & STK_F_WRAP)
            stk_report_wrapped(stk_buf_cstr(&line), INDENT, s->columns, s->out);
        else
            stk_text_escape(s->out, stk_buf_cstr(&line), line.len, SIZE_MAX);
        stk_buf_puts(s->out, f->flags & STK_F_WARN ? STK_PLAIN : "");
        stk_buf_puts(s->out, f->flags & STK_F_WRAP ? "" : "\n");
        stk_buf_release(&line);
    }
    if (i < list->len)
        stk_buf_printf(s->out, "and %zu more; --json FILE has them\n", list->len - i);
}

/* ---- the document --------------------------------------------------------------------------- */

static void draw_fields(const struct stk_result_field *f, const struct stk_jval *obj, struct row *r,
                        struct stk_screen *s);

static void draw_group(const struct stk_result_field *f, const struct stk_jval *v, struct row *r,
                       struct stk_screen *s)
{
    if (!v || v->type != STK_JOBJ)
        return;
    if (f->flags & STK_F_NAMED) {
        end_row(r, s);
        stk_screen_part(s);
        stk_buf_printf(s->out, STK_STRONG "%s" STK_PLAIN "\n", f->title);
        s->any = false; /* its rows stand directly below */
    }
    r->group = f->flags & STK_F_NAMED ? NULL : f->title;
    draw_fields(f->of, v, r, s);
    r->group = NULL;
    if (f->flags & STK_F_NAMED) {
        end_row(r, s);
        stk_screen_end(s);
        s->any = true;
    }
}

/* Figures stand in rows; everything else is a part of its own. */
static bool is_figure(const struct stk_result_field *f)
{
    return !f->draw && (f->unit <= STK_U_TEXT || (f->unit == STK_U_LIST && !(f->flags & STK_F_NAMED)));
}

/* Whether the member is what the field says: a result may come from a file. */
static bool is_sound(const struct stk_result_field *f, const struct stk_jval *v)
{
    return f->unit == STK_U_TEXT || f->unit == STK_U_PROSE   ? v->type == STK_JSTR
           : f->flags & STK_F_MAP || f->pair[0]              ? v->type == STK_JOBJ
           : f->unit == STK_U_LIST || f->unit == STK_U_TABLE ? v->type == STK_JARR
           : f->unit == STK_U_GROUP                          ? v->type == STK_JOBJ
                                                             : true;
}

static bool is_drawn(const struct stk_result_field *f)
{
    return f->draw || f->title || f->unit == STK_U_PROSE;
}

static void draw_part(const struct stk_result_field *f, const struct stk_jval *obj, struct stk_screen *s)
{
    const struct stk_jval *v = stk_field_of(f, obj);
    struct stk_pair pair;
    if (f->draw)
        f->draw(f, obj, s);
    else if (f->unit == STK_U_TABLE)
        put_table(f, stk_rows_of(f, obj, &pair), s);
    else if (f->unit == STK_U_PROSE)
        put_prose(f, v->str, s);
    else if (f->unit == STK_U_LIST)
        put_texts(f, v, s);
}

static void draw_field(const struct stk_result_field *f, const struct stk_jval *obj, struct row *r,
                       struct stk_screen *s)
{
    const struct stk_jval *v = stk_field_of(f, obj);
    if (s->line && !is_figure(f) && f->unit != STK_U_GROUP)
        return;
    if (is_figure(f) && (f->title || f->joins)) {
        add_figure(f, v, r, s);
    } else if (f->unit == STK_U_GROUP && !f->draw) {
        draw_group(f, v, r, s);
    } else if (!is_figure(f) && is_drawn(f) && stk_field_shown(f, v) && is_sound(f, v)) {
        end_row(r, s);
        draw_part(f, obj, s);
    }
}

static void draw_fields(const struct stk_result_field *f, const struct stk_jval *obj, struct row *r,
                        struct stk_screen *s)
{
    for (; f->key; f++)
        if (!(f->flags & (STK_F_HEAD | STK_F_PAGE | STK_F_VERDICT)) &&
            (!f->part || f->part & s->parts))
            draw_field(f, obj, r, s);
}

void stk_screen_fields(const struct stk_result_field *f, const struct stk_jval *obj,
                       struct stk_screen *s)
{
    struct row r = {0};
    draw_fields(f, obj, &r, s);
    end_row(&r, s);
    stk_screen_end(s);
    stk_buf_release(&r.text);
}

/* "PATH: TFRecord, 1,000 samples" */
static void draw_head(const struct stk_result_field *f, const struct stk_jval *obj,
                      struct stk_screen *s)
{
    for (; f->key; f++) {
        const struct stk_jval *v = stk_field_of(f, obj);
        if (f->unit == STK_U_GROUP && !*f->key)
            draw_head(f->of, v, s);
        if (!(f->flags & STK_F_HEAD) || !stk_field_shown(f, v))
            continue;
        bool named = s->subject && *s->subject;
        if (!s->any && named) {
            stk_buf_puts(s->out, STK_STRONG);
            stk_text_escape(s->out, s->subject, strlen(s->subject), SIZE_MAX);
            stk_buf_puts(s->out, STK_PLAIN);
        }
        stk_buf_puts(s->out, s->any ? ", " : named ? ": " : "");
        put_phrase(f, f->say ? f->say : "%", v, s->out);
        s->any = true;
    }
}

static void put_head(const struct stk_result_kind *kind, const struct stk_jval *result,
                     struct stk_screen *s)
{
    struct stk_buf head = STK_BUF_INIT, *out = s->out;
    struct stk_grid line;
    s->out = &head;
    draw_head(kind->fields, result, s);
    s->out = out;
    if (s->any) {
        stk_grid_init(&line, "e");
        stk_grid_row(&line, stk_buf_cstr(&head));
        if (kind->fits)
            stk_grid_fit(&line, 0, s->columns);
        stk_grid_render(&line, 0, out);
        stk_grid_release(&line);
    }
    stk_buf_release(&head);
}

void stk_screen_draw(const struct stk_result_kind *kind, const struct stk_jval *result,
                     struct stk_screen *s)
{
    s->result = result;
    s->table_columns = kind->fits ? s->columns : s->table_columns;
    put_head(kind, result, s);
    stk_screen_fields(kind->fields, result, s);
}
