/* blocks.c - the parts of a page as JSON: what web/src draws. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "result/blocks.h"

static void put_array(struct stk_jw *w, const char *key)
{
    stk_jw_key(w, key);
    stk_jw_open(w, '[');
}

static void put_text(struct stk_jw *w, const char *key, const char *text)
{
    if (text && *text)
        stk_jw_put_str(w, key, text);
}

static void open_block(struct stk_jw *w, const char *is, const char *id, const char *title,
                       const char *text)
{
    stk_jw_open(w, '{');
    stk_jw_put_str(w, "is", is);
    stk_jw_put_str(w, "id", id);
    stk_jw_put_str(w, "title", title);
    put_text(w, "text", text);
}

/* ---- the result ---------------------------------------------------------------------------- */

void stk_pg_short(struct stk_jw *w, const char *text)
{
    struct stk_buf b = STK_BUF_INIT;
    size_t n = strlen(text);
    if (n > STK_PG_SHORT_BYTES) {
        n = STK_PG_SHORT_BYTES;
        while (n && (text[n] & 0xc0) == 0x80) /* inside a character */
            n--;
        stk_buf_printf(&b, "%.*s\xe2\x80\xa6", (int)n, text);
    }
    stk_jw_str(w, b.len ? stk_buf_cstr(&b) : text);
    stk_buf_release(&b);
}

void stk_pg_begin(struct stk_jw *w, const char *kind, const char *name, const char *title)
{
    stk_jw_open(w, '{');
    stk_jw_put_str(w, "kind", kind);
    stk_jw_put_str(w, "name", name);
    stk_jw_key(w, "title");
    stk_pg_short(w, title);
}

void stk_pg_end(struct stk_jw *w)
{
    stk_jw_close(w, '}');
}

void stk_pg_number(struct stk_jw *w, double value, const char *unit, const char *what)
{
    if (!isfinite(value))
        return;
    stk_jw_key(w, "number");
    stk_jw_open(w, '{');
    stk_jw_put_f64(w, "value", value);
    stk_jw_put_str(w, "unit", unit);
    stk_jw_put_str(w, "what", what);
    stk_jw_close(w, '}');
}

void stk_pg_facts(struct stk_jw *w)
{
    put_array(w, "facts");
}

void stk_pg_fact(struct stk_jw *w, const char *name, double value, const char *unit)
{
    if (!isfinite(value))
        return;
    stk_jw_open(w, '{');
    stk_jw_put_str(w, "name", name);
    stk_jw_put_f64(w, "value", value);
    stk_jw_put_str(w, "unit", unit);
    stk_jw_close(w, '}');
}

void stk_pg_fact_text(struct stk_jw *w, const char *name, const char *text)
{
    if (!text || !*text)
        return;
    stk_jw_open(w, '{');
    stk_jw_put_str(w, "name", name);
    stk_jw_put_str(w, "value", text);
    stk_jw_put_str(w, "unit", "text");
    stk_jw_close(w, '}');
}

void stk_pg_findings(struct stk_jw *w, const char *title)
{
    put_text(w, "findings_title", title);
    put_array(w, "findings");
}

void stk_pg_finding(struct stk_jw *w, const char *severity, const char *title,
                    const char *what_to_do, const char *lines)
{
    stk_jw_open(w, '{');
    stk_jw_put_str(w, "severity", severity);
    stk_jw_put_str(w, "title", title);
    put_text(w, "what_to_do", what_to_do);
    if (lines && *lines)
        stk_jw_put_strs(w, "lines", &lines, 1);
}

void stk_pg_blocks(struct stk_jw *w)
{
    put_array(w, "blocks");
}

/* ---- plots --------------------------------------------------------------------------------- */

void stk_pg_plot(struct stk_jw *w, const char *id, const char *title, const char *text)
{
    open_block(w, "plot", id, title, text);
}

void stk_pg_heat(struct stk_jw *w, const char *id, const char *title, const char *text)
{
    open_block(w, "heat", id, title, text);
}

void stk_pg_x(struct stk_jw *w, const struct stk_pg_axis *axis)
{
    stk_jw_key(w, "x");
    stk_jw_open(w, '{');
    stk_jw_put_str(w, "name", axis->name);
    put_text(w, "unit", axis->unit);
    put_text(w, "scale", axis->scale);
    if (isfinite(axis->min))
        stk_jw_put_f64(w, "min", axis->min);
    if (isfinite(axis->max))
        stk_jw_put_f64(w, "max", axis->max);
}

void stk_pg_marks(struct stk_jw *w)
{
    put_array(w, "marks");
}

void stk_pg_mark(struct stk_jw *w, double at, const char *name, size_t color)
{
    stk_jw_open(w, '{');
    stk_jw_put_f64(w, "at", at);
    stk_jw_put_str(w, "name", name);
    if (color != STK_PG_NO_COLOR)
        stk_jw_put_u64(w, "color", color);
    stk_jw_close(w, '}');
}

void stk_pg_panels(struct stk_jw *w)
{
    put_array(w, "panels");
}

void stk_pg_panel(struct stk_jw *w, const char *name, const char *unit)
{
    stk_jw_open(w, '{');
    stk_jw_put_str(w, "name", name);
    stk_jw_put_str(w, "unit", unit);
    put_array(w, "series");
}

void stk_pg_log_panel(struct stk_jw *w, const char *name, const char *unit, unsigned base)
{
    stk_jw_open(w, '{');
    stk_jw_put_str(w, "name", name);
    stk_jw_put_str(w, "unit", unit);
    stk_jw_put_str(w, "scale", "log");
    stk_jw_put_u64(w, "base", base);
    put_array(w, "series");
}

void stk_pg_panel_end(struct stk_jw *w)
{
    stk_jw_close(w, ']');
    stk_jw_close(w, '}');
}

void stk_pg_plot_end(struct stk_jw *w)
{
    stk_jw_close(w, ']');
    stk_jw_close(w, '}');
}

void stk_pg_series(struct stk_jw *w, const char *name, const char *as)
{
    stk_jw_open(w, '{');
    stk_jw_put_str(w, "name", name);
    stk_jw_put_str(w, "as", as);
}

void stk_pg_value(struct stk_jw *w, double v)
{
    char text[40];
    if (!isfinite(v)) {
        stk_jw_null(w);
        return;
    }
    int n = snprintf(text, sizeof text, "%.6g", v);
    stk_jw_raw(w, text, (size_t)n);
}

void stk_pg_values(struct stk_jw *w, const char *key, const double *v, size_t n)
{
    put_array(w, key);
    for (size_t i = 0; i < n; i++)
        stk_pg_value(w, v[i]);
    stk_jw_close(w, ']');
}

/* ---- tables -------------------------------------------------------------------------------- */

void stk_pg_table(struct stk_jw *w, const char *id, const char *title, const char *text,
                  const struct stk_pg_column *column, size_t n)
{
    open_block(w, "table", id, title, text);
    put_array(w, "columns");
    for (size_t i = 0; i < n; i++) {
        stk_jw_open(w, '{');
        stk_jw_put_str(w, "name", column[i].name);
        stk_jw_put_str(w, "title", column[i].title);
        stk_jw_put_str(w, "unit", column[i].unit);
        stk_jw_close(w, '}');
    }
    stk_jw_close(w, ']');
    put_array(w, "rows");
}

void stk_pg_table_end(struct stk_jw *w)
{
    stk_jw_close(w, ']');
    stk_jw_close(w, '}');
}

/* ---- from a --json result ------------------------------------------------------------------ */

bool stk_pg_has_rows(const struct stk_jval *rows)
{
    return rows && rows->type == STK_JARR && rows->len;
}

static bool is_number(const struct stk_jval *v)
{
    return v && (v->type == STK_JINT || v->type == STK_JFLOAT);
}

/* A member of an object, or an element of an array by its number. */
static const struct stk_jval *one_of(const struct stk_jval *obj, const char *name)
{
    if (!obj || obj->type != STK_JARR)
        return stk_json_get(obj, name);
    char *end;
    unsigned long i = strtoul(name, &end, 10);
    return end > name && !*end && i < obj->len ? &obj->item[i] : NULL;
}

const struct stk_jval *stk_pg_at(const struct stk_jval *obj, const char *name)
{
    const struct stk_jval *v = one_of(obj, name);
    const char *dot = strchr(name, '.');
    char first[64];
    if (v || !dot || (size_t)(dot - name) >= sizeof first)
        return v;
    snprintf(first, sizeof first, "%.*s", (int)(dot - name), name);
    return stk_pg_at(one_of(obj, first), dot + 1);
}

double stk_pg_get(const struct stk_jval *obj, const char *name)
{
    const struct stk_jval *v = stk_pg_at(obj, name);
    return is_number(v) ? v->f : NAN;
}

bool stk_pg_true(const struct stk_jval *obj, const char *name)
{
    const struct stk_jval *v = stk_pg_at(obj, name);
    return v && v->type == STK_JBOOL && v->b;
}

const char *stk_pg_text(const struct stk_jval *obj, const char *name, const char *otherwise)
{
    const struct stk_jval *v = stk_pg_at(obj, name);
    return v && v->type == STK_JSTR ? v->str : otherwise;
}

static bool is_text(const char *unit)
{
    return strcmp(unit, "text") == 0 || strcmp(unit, "prose") == 0;
}

/* A number is copied as it was written: the page shows the same as --json. */
static void put_cell(struct stk_jw *w, const struct stk_jval *v, bool text)
{
    if (text && v && v->type == STK_JSTR)
        stk_jw_strn(w, v->str, v->len);
    else if (text && v && v->type == STK_JBOOL)
        stk_jw_str(w, v->b ? "yes" : "no");
    else if (!text && is_number(v))
        stk_jw_raw(w, v->raw, v->raw_len);
    else
        stk_jw_null(w);
}

void stk_pg_put(struct stk_jw *w, const struct stk_jval *v, const char *unit)
{
    put_cell(w, v, is_text(unit));
}

void stk_pg_cell(struct stk_jw *w, const struct stk_jval *row, const struct stk_pg_column *c)
{
    stk_pg_put(w, stk_pg_at(row, c->name), c->unit);
}

void stk_pg_values_of(struct stk_jw *w, const char *key, const struct stk_jval *rows,
                      const char *name)
{
    put_array(w, key);
    for (size_t i = 0; stk_pg_has_rows(rows) && i < rows->len; i++)
        stk_pg_value(w, stk_pg_get(&rows->item[i], name));
    stk_jw_close(w, ']');
}

void stk_pg_x_of(struct stk_jw *w, const struct stk_pg_axis *axis, const struct stk_jval *rows,
                 const char *name)
{
    stk_pg_x(w, axis);
    put_array(w, "v");
    for (size_t i = 0; stk_pg_has_rows(rows) && i < rows->len; i++) {
        const struct stk_jval *v = stk_pg_at(&rows->item[i], name);
        put_cell(w, v, v && v->type == STK_JSTR);
    }
    stk_jw_close(w, ']');
    stk_jw_close(w, '}');
}

bool stk_pg_any_of(const struct stk_jval *rows, const char *name)
{
    bool any = false;
    for (size_t i = 0; stk_pg_has_rows(rows) && i < rows->len; i++)
        any = any || isfinite(stk_pg_get(&rows->item[i], name));
    return any;
}
