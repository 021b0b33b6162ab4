/* page.c - see page.h. */
#include "result/page.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "result/blocks.h"

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

static bool on_page(const struct stk_result_field *f)
{
    bool view = f->flags & STK_F_VIEW && !(f->flags & STK_F_PAGE);
    return f->title && !view && !(f->flags & STK_F_SCREEN);
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
    if (is_number(v)) {
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

/* ---- plots and tables -------------------------------------------------------------------------- */

static const struct stk_result_field *column(const struct stk_result_field *of, const char *key)
{
    for (; of->key; of++)
        if (strcmp(of->key, key) == 0)
            return of;
    return NULL;
}

static void put_plot(const struct stk_result_plot *p, const struct stk_result_field *of,
                     const struct stk_jval *rows, struct stk_jw *w)
{
    const struct stk_pg_axis axis = {p->x_name, stk_unit_name(p->x_unit), p->scale, NAN, NAN};
    stk_pg_plot(w, p->id, p->title, p->text);
    stk_pg_x_of(w, &axis, rows, p->x);
    stk_pg_panels(w);
    for (size_t i = 0; i < STK_PLOT_PANELS && p->panel[i].name; i++) {
        stk_pg_panel(w, p->panel[i].name, stk_unit_name(p->panel[i].unit));
        for (size_t k = 0; k < STK_PLOT_SERIES && p->panel[i].series[k].key; k++) {
            const char *key = p->panel[i].series[k].key, *name = p->panel[i].series[k].name;
            const struct stk_result_field *f = column(of, key);
            if (stk_pg_any_of(rows, key))
                stk_pg_series_of(w, name ? name : f ? f->title : key, p->panel[i].series[k].as,
                                 rows, key);
        }
        stk_pg_panel_end(w);
    }
    stk_pg_plot_end(w);
}

/* The members of nested objects are columns, too: "io.requests". */
static size_t columns_of(const struct stk_result_field *of, const char *before, char (*name)[80],
                         char (*title)[80], struct stk_pg_column *c, size_t n)
{
    for (; of->key && n < COLUMNS; of++) {
        snprintf(name[n], sizeof name[n], "%s%s", before, of->key);
        if (of->unit == STK_U_GROUP) {
            char inside[80];
            snprintf(inside, sizeof inside, "%.70s%s", name[n], *of->key ? "." : "");
            n = columns_of(of->of, inside, name, title, c, n);
        } else if (on_page(of) && of->unit < STK_U_LIST) {
            c[n] = (struct stk_pg_column){name[n], capital(of->title, title[n], sizeof title[n]),
                                          stk_unit_name(of->unit)};
            n++;
        }
    }
    return n;
}

static void put_table(const struct stk_result_field *f, const struct stk_jval *rows, struct stk_jw *w)
{
    struct stk_pg_column c[COLUMNS];
    char name[COLUMNS][80], title[COLUMNS][80], head[120], id[80];
    size_t n = columns_of(f->of, "", name, title, c, 0);
    snprintf(id, sizeof id, "%s-table", f->key);
    stk_pg_table_of(w, f->plot ? id : f->key, capital(f->title, head, sizeof head), f->meaning,
                    rows, c, n);
}

static void put_blocks(const struct stk_result_field *f, const struct stk_jval *obj, struct stk_jw *w)
{
    for (; f->key; f++) {
        const struct stk_jval *v = stk_field_of(f, obj);
        if (f->unit == STK_U_GROUP && v && v->type == STK_JOBJ)
            put_blocks(f->of, v, w);
        if (f->unit != STK_U_TABLE || !on_page(f) || !stk_pg_has_rows(v))
            continue;
        if (f->plot)
            put_plot(f->plot, f->of, v, w);
        put_table(f, v, w);
    }
}

/* ---- notes ------------------------------------------------------------------------------------- */

static void put_notes(const struct stk_result_field *f, const struct stk_jval *obj, struct stk_jw *w)
{
    for (; f->key; f++) {
        const struct stk_jval *v = stk_field_of(f, obj);
        if (!v || f->flags & (STK_F_VERDICT | STK_F_SCREEN))
            continue;
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
    snprintf(title, sizeof title, "%s %.280s", kind->doing, subject);
    stk_pg_begin(w, kind->command, name, title);
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
    stk_pg_blocks(w);
    if (kind->blocks)
        kind->blocks(result, w);
    put_blocks(kind->fields, result, w);
    stk_jw_close(w, ']');
    stk_jw_key(w, "notes");
    stk_jw_open(w, '[');
    put_notes(kind->fields, result, w);
    stk_jw_close(w, ']');
    stk_pg_end(w);
}
