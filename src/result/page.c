/* page.c - see page.h. */
#include "result/page.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "result/blocks.h"
#include "result/plot.h"
#include "result/side.h"

#define COLUMNS 40 /* of a table, at most */

static const char *capital(const char *text, char *buf, size_t size)
{
    snprintf(buf, size, "%s", text);
    buf[0] = (char)toupper((unsigned char)buf[0]);
    return buf;
}

static bool is_number(const struct stk_jval *v)
{
    return v && (v->type == STK_JINT || v->type == STK_JFLOAT);
}

/* Of the screen alone. */
static bool is_view(const struct stk_result_field *f)
{
    return f->flags & STK_F_VIEW && !(f->flags & STK_F_PAGE);
}

static bool on_page(const struct stk_result_field *f)
{
    return f->title && !is_view(f) && !(f->flags & STK_F_SCREEN);
}

/* ---- the verdict and the facts --------------------------------------------------------------- */

struct head {
    const char *verdict, *caveat;
    bool number; /* is written: the first that is known */
};

static void put_number(const struct stk_result_field *f, const struct stk_jval *obj,
                       struct head *h, struct stk_jw *w)
{
    for (; f->key; f++) {
        const struct stk_jval *v = stk_field_of(f, obj);
        if (is_view(f))
            continue;
        if (f->unit == STK_U_GROUP)
            put_number(f->of, v, h, w);
        if (f->flags & STK_F_VERDICT && v && v->type == STK_JSTR)
            h->verdict = v->str;
        if (f->flags & STK_F_LEAD && is_number(v) && !h->number) {
            char what[300];
            snprintf(what, sizeof what, "%s%s%s", f->title, *h->caveat ? ": " : "", h->caveat);
            stk_pg_number(w, v->f, stk_unit_name(f->unit), what);
            h->number = true;
        }
    }
}

/* before: the titles of the groups it stands in. */
static void put_fact(const struct stk_result_field *f, const char *before,
                     const struct stk_jval *v, struct stk_jw *w)
{
    char both[120], title[120];
    struct stk_buf text = STK_BUF_INIT;
    snprintf(both, sizeof both, "%s%s", before, f->title);
    capital(both, title, sizeof title);
    if (is_number(v) && stk_field_set(f, v)) {
        stk_pg_fact(w, title, v->f, stk_unit_name(f->unit));
        return;
    }
    if (v->type == STK_JSTR)
        stk_buf_puts(&text, f->word ? f->word(v->str) : v->str);
    else
        stk_field_text(f, v, &text);
    stk_pg_fact_text(w, title, stk_buf_cstr(&text));
    stk_buf_release(&text);
}

static void put_facts(const struct stk_result_field *f, const char *before,
                      const struct stk_jval *obj, struct stk_jw *w)
{
    for (; f->key; f++) {
        const struct stk_jval *v = stk_field_of(f, obj);
        if (is_view(f))
            continue;
        if (f->unit == STK_U_GROUP && v && v->type == STK_JOBJ) {
            char inside[80];
            bool titled = f->title && !(f->flags & STK_F_NAMED);
            snprintf(inside, sizeof inside, "%.40s%.30s%s", before, titled ? f->title : "",
                     titled ? ", " : "");
            put_facts(f->of, inside, v, w);
        } else if (on_page(f) && f->unit < STK_U_PROSE && stk_field_shown(f, v)) {
            put_fact(f, before, v, w);
        }
    }
}

/* ---- plots and tables ----------------------------------------------------------------------- */

/* The columns of a table, with the texts that they borrow. */
struct columns {
    const struct stk_jval *result, *rows;
    const struct stk_result_field *inner; /* a table in each row; NULL: the rows themselves */
    size_t n;
    struct stk_pg_column c[COLUMNS];
    const char *(*word[COLUMNS])(const char *text);
    char name[COLUMNS][80], title[COLUMNS][80];
};

static void add_column(const struct stk_result_field *f, const char *before, struct columns *t)
{
    const struct stk_result_field here = stk_field_in(f, t->result);
    snprintf(t->name[t->n], sizeof t->name[0], "%s%s", before, f->key);
    capital(here.title, t->title[t->n], sizeof t->title[0]);
    t->c[t->n] = (struct stk_pg_column){
        t->name[t->n], here.title == f->title ? t->title[t->n] : here.title,
        stk_unit_name(here.unit)};
    t->word[t->n++] = f->word;
}

/* The members of nested objects are columns, too: "io.requests". The page does not show a column
 * that is empty, but who computes with it finds it. */
static void add_columns(const struct stk_result_field *of, const char *before, struct columns *t)
{
    for (; of->key && t->n < COLUMNS; of++) {
        if (of->unit == STK_U_GROUP && of->of) {
            char inside[80];
            snprintf(inside, sizeof inside, "%.38s%.38s%s", before, of->key, *of->key ? "." : "");
            add_columns(of->of, inside, t);
        } else if (on_page(of) && of->unit < STK_U_LIST && !(of->flags & STK_F_NOTE)) {
            add_column(of, before, t);
        }
    }
}

static void put_cells(const struct columns *t, size_t from, size_t to, const struct stk_jval *row,
                      struct stk_jw *w)
{
    for (size_t i = from; i < to; i++) {
        const char *text = t->word[i] ? stk_pg_text(row, t->name[i], NULL) : NULL;
        if (text)
            stk_jw_str(w, t->word[i](text));
        else
            stk_pg_cell(w, row, &t->c[i]);
    }
}

static void put_table(const struct stk_result_field *f, const struct stk_jval *rows,
                      const struct stk_jval *result, struct stk_jw *w)
{
    struct columns t = {.result = result, .rows = rows};
    char head[120], id[80];
    add_columns(f->of, "", &t);
    snprintf(id, sizeof id, "%s-table", f->key);
    stk_pg_table(w, f->id ? f->id : f->plot ? id : f->key, capital(f->title, head, sizeof head),
                 f->meaning, t.c, t.n);
    for (size_t i = 0; i < rows->len; i++) {
        if (rows->item[i].type != STK_JOBJ)
            continue;
        stk_jw_open(w, '[');
        put_cells(&t, 0, t.n, &rows->item[i], w);
        stk_jw_close(w, ']');
    }
    stk_pg_table_end(w);
}

/* Tables inside the rows of a table become one, with the first column of the outer rows, which has
 * the name of their table: "series". */
static void put_inner(const struct stk_result_field *outer, const struct stk_result_field *f,
                      const struct stk_jval *rows, const struct stk_jval *result, struct stk_jw *w)
{
    struct columns t = {.result = result, .rows = rows, .inner = f};
    char head[120];
    add_column(outer->of, "", &t);
    add_columns(f->of, "", &t);
    t.c[0].name = outer->key;
    stk_pg_table(w, f->key, capital(f->title, head, sizeof head), f->meaning, t.c, t.n);
    t.c[0].name = t.name[0];
    for (size_t i = 0; i < rows->len; i++) {
        const struct stk_jval *inner = stk_field_of(f, &rows->item[i]);
        for (size_t k = 0; inner && k < inner->len && inner->item; k++) {
            stk_jw_open(w, '[');
            put_cells(&t, 0, 1, &rows->item[i], w);
            put_cells(&t, 1, t.n, &inner->item[k], w);
            stk_jw_close(w, ']');
        }
    }
    stk_pg_table_end(w);
}

/* Each row is a column; each line has the unit of its cells. */
static void put_side(const struct stk_result_field *f, const struct stk_jval *rows,
                     struct stk_jw *w)
{
    struct stk_side s;
    struct stk_pg_column c[STK_PG_SIDE_MAX + COLUMNS];
    size_t n = 0, labels;
    char head[120], title[COLUMNS][80];
    stk_side_of(&s, f, rows, STK_F_SCREEN);
    if (!s.n)
        return;
    if (!s.cell)
        c[n++] = (struct stk_pg_column){"what", "Figure", "text"};
    for (const struct stk_result_field *of = s.cell ? s.inner->of : NULL; of && of->key; of++)
        if (of != s.cell && of->title && n < COLUMNS) {
            c[n] = (struct stk_pg_column){of->key, capital(of->title, title[n], sizeof title[n]),
                                          stk_unit_name(of->unit)};
            n++;
        }
    labels = n;
    size_t many = rows->len < STK_PG_SIDE_MAX ? rows->len : STK_PG_SIDE_MAX;
    for (size_t k = 0; k < many; k++) {
        const char *name = stk_pg_text(&rows->item[k], s.first->key, "?");
        c[n++] = (struct stk_pg_column){name, name, s.cell ? stk_unit_name(s.cell->unit) : "row"};
    }
    const char *text =
        s.cut || many < rows->len ? "Not all of it is shown: --json has the rest." : f->meaning;
    stk_pg_table(w, f->title, capital(f->title, head, sizeof head), text, c, n);
    for (size_t i = 0; i < s.n; i++) {
        const struct stk_result_field *cell = stk_side_field(&s, i);
        const struct stk_pg_column of = {.unit = stk_unit_name(cell->unit)};
        stk_jw_open(w, '[');
        if (!s.cell)
            stk_jw_str(w, cell->title);
        for (size_t k = 0; s.cell && k < labels; k++)
            stk_pg_cell(w, s.row[i], &c[k]);
        for (size_t k = 0; k < many; k++)
            stk_pg_put(w, stk_side_cell(&s, i, k), of.unit);
        if (!s.cell)
            stk_jw_str(w, of.unit);
        stk_jw_close(w, ']');
    }
    stk_pg_table_end(w);
}

/* The members of an object, with their values. */
static void put_members(const struct stk_result_field *f, const struct stk_jval *obj,
                        struct stk_jw *w)
{
    static const struct stk_pg_column columns[] = {{"key", "Key", "text"},
                                                   {"value", "Value", "text"}};
    char head[120];
    stk_pg_table(w, f->key, capital(f->title, head, sizeof head), f->meaning, columns, 2);
    for (size_t i = 0; i < obj->len; i++) {
        const struct stk_jval *v = &obj->item[i];
        bool text = v->type == STK_JSTR;
        stk_jw_open(w, '[');
        stk_jw_strn(w, obj->name[i].str, obj->name[i].len);
        stk_jw_strn(w, text ? v->str : v->raw, text ? v->len : v->raw_len);
        stk_jw_close(w, ']');
    }
    stk_pg_table_end(w);
}

/* A table that no field draws on the page may still have a plot. */
static bool has_plot(const struct stk_result_field *f)
{
    bool view = f->flags & STK_F_VIEW && !(f->flags & STK_F_PAGE);
    return f->plot && !view;
}

static void put_blocks_of(const struct stk_result_field *f, const struct stk_jval *rows,
                          const struct stk_jval *result, struct stk_jw *w)
{
    if (has_plot(f))
        stk_plot_draw(f, rows, result, w);
    for (const struct stk_result_field *of = f->of; of->key; of++)
        if (of->unit == STK_U_TABLE && has_plot(of))
            stk_plot_draw_inner(f, of, rows, w);
    if (!on_page(f))
        return;
    if (f->flags & STK_F_SIDE)
        put_side(f, rows, w);
    else
        put_table(f, rows, result, w);
    for (const struct stk_result_field *of = f->of; of->key; of++)
        if (of->unit == STK_U_TABLE && on_page(of) && !(f->flags & STK_F_SIDE))
            put_inner(f, of, rows, result, w);
}

static void put_blocks(const struct stk_result_field *f, const struct stk_jval *obj,
                       const struct stk_jval *result, struct stk_jw *w)
{
    for (; f->key; f++) {
        struct stk_pair pair;
        const struct stk_jval *v = stk_field_of(f, obj);
        if (is_view(f))
            continue;
        if (f->unit == STK_U_GROUP && v && v->type == STK_JOBJ)
            put_blocks(f->of, v, result, w);
        if (f->unit == STK_U_ANY && f->flags & STK_F_MAP && v && v->type == STK_JOBJ && v->len)
            put_members(f, v, w);
        if (f->unit != STK_U_TABLE || !f->of || !(on_page(f) || has_plot(f)))
            continue;
        const struct stk_jval *rows = stk_rows_of(f, obj, &pair);
        if (!stk_pg_has_rows(rows))
            continue;
        struct stk_jval those = stk_rows_those(f, rows);
        if (those.len)
            put_blocks_of(f, &those, result, w);
        free(those.item);
    }
}

/* ---- notes ---------------------------------------------------------------------------------- */

/* "K80: Plateau: ...": sentences of rows that have a name. */
static void put_row_notes(const struct stk_result_field *of, const struct stk_jval *row,
                          struct stk_jw *w)
{
    const char *name = stk_pg_text(row, "name", "");
    struct stk_buf text = STK_BUF_INIT;
    for (; of->key; of++) {
        const char *said = of->flags & STK_F_NOTE ? stk_pg_text(row, of->key, NULL) : NULL;
        if (!said)
            continue;
        stk_buf_printf(&text, "%s%s%s", name, *name ? ": " : "", said);
        stk_jw_str(w, stk_buf_cstr(&text));
        stk_buf_reset(&text);
    }
    stk_buf_release(&text);
}

static void put_notes(const struct stk_result_field *f, const struct stk_jval *obj, struct stk_jw *w)
{
    for (; f->key; f++) {
        const struct stk_jval *v = stk_field_of(f, obj);
        if (!v || f->flags & (STK_F_VERDICT | STK_F_SCREEN | STK_F_VIEW))
            continue;
        for (size_t i = 0; f->unit == STK_U_TABLE && f->of && stk_pg_has_rows(v) && i < v->len; i++)
            put_row_notes(f->of, &v->item[i], w);
        if (f->unit == STK_U_GROUP && v->type == STK_JOBJ)
            put_notes(f->of, v, w);
        else if (f->unit == STK_U_PROSE && v->type == STK_JSTR)
            stk_jw_strn(w, v->str, v->len);
        else if (f->unit == STK_U_LIST && f->flags & STK_F_NAMED && v->type == STK_JARR)
            for (size_t i = 0; i < v->len; i++)
                if (v->item[i].type == STK_JSTR)
                    stk_jw_strn(w, v->item[i].str, v->item[i].len);
    }
}

void stk_page_draw(const struct stk_result_kind *kind, const char *name, const char *subject,
                   const struct stk_jval *result, struct stk_jw *w)
{
    char title[320];
    snprintf(title, sizeof title, "%s%s%.280s", kind->doing, *subject ? " " : "", subject);
    stk_pg_begin(w, kind->page ? kind->page : kind->command, name, title);
    struct stk_buf verdict = STK_BUF_INIT, caveat = STK_BUF_INIT;
    if (kind->caveat)
        kind->caveat(result, &caveat);
    struct head h = {.verdict = "", .caveat = stk_buf_cstr(&caveat)};
    put_number(kind->fields, result, &h, w);
    stk_buf_release(&caveat);
    if (kind->verdict)
        kind->verdict(result, &verdict);
    else
        stk_buf_puts(&verdict, h.verdict);
    stk_jw_put_str(w, "verdict", stk_buf_cstr(&verdict));
    stk_buf_release(&verdict);
    stk_pg_facts(w);
    put_facts(kind->fields, "", result, w);
    stk_jw_close(w, ']');
    if (kind->findings)
        kind->findings(result, w);
    stk_pg_blocks(w);
    if (kind->blocks)
        kind->blocks(result, w);
    put_blocks(kind->fields, result, result, w);
    stk_jw_close(w, ']');
    stk_jw_key(w, "notes");
    stk_jw_open(w, '[');
    put_notes(kind->fields, result, w);
    stk_jw_close(w, ']');
    stk_pg_end(w);
}
