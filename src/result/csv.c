/* csv.c - a table of a result as CSV: the keys of its columns, and raw values. */
#include <string.h>

#include "base/csv.h"
#include "result/blocks.h"
#include "result/page.h"

static bool is_cell(const struct stk_result_field *f)
{
    return f->unit <= STK_U_PROSE;
}

/* Programs that expect whole numbers read 6 and not 6.0. */
static void put_number(const struct stk_jval *v, struct stk_buf *out)
{
    size_t n = v->raw_len;
    bool whole = n > 2 && memcmp(v->raw + n - 2, ".0", 2) == 0;
    stk_buf_put(out, v->raw, whole ? n - 2 : n);
}

static void put_cell(const struct stk_jval *v, struct stk_buf *out)
{
    if (v && v->type == STK_JSTR)
        stk_csv_put_text(out, v->str);
    else if (v && (v->type == STK_JINT || v->type == STK_JFLOAT || v->type == STK_JBOOL))
        put_number(v, out);
}

/* The cells of a row, or of the first one if row is NULL. before: the objects it stands in. */
static void put_row(const struct stk_result_field *f, const struct stk_jval *row,
                    const char *before, bool *more, struct stk_buf *out)
{
    for (; f->key; f++) {
        struct stk_buf name = STK_BUF_INIT;
        const char *key = f->csv ? f->csv : f->key;
        stk_buf_printf(&name, "%s%s", before, key);
        if (f->flags & STK_F_VIEW) {
            /* described by another field */
        } else if (f->unit == STK_U_GROUP) {
            stk_buf_puts(&name, *key ? "." : "");
            put_row(f->of, row ? stk_field_of(f, row) : NULL, stk_buf_cstr(&name), more, out);
        } else if (is_cell(f)) {
            stk_buf_puts(out, *more ? "," : "");
            if (row)
                put_cell(stk_field_of(f, row), out);
            else
                stk_buf_puts(out, stk_buf_cstr(&name));
            *more = true;
        }
        stk_buf_release(&name);
    }
}

static const struct stk_result_field *find(const struct stk_result_field *f, const char *key,
                                           const struct stk_jval **obj)
{
    for (; f->key; f++) {
        const struct stk_jval *inside = stk_field_of(f, *obj);
        const struct stk_result_field *found;
        if (f->unit == STK_U_TABLE && strcmp(f->key, key) == 0)
            return f;
        if (f->unit == STK_U_GROUP && (found = find(f->of, key, &inside))) {
            *obj = inside;
            return found;
        }
    }
    return NULL;
}

void stk_csv_head(const struct stk_result_field *of, struct stk_buf *out)
{
    bool more = false;
    put_row(of, NULL, "", &more, out);
    stk_buf_putc(out, '\n');
}

int stk_csv_row(const struct stk_result_field *of, const void *base, struct stk_arena *arena,
                struct stk_buf *out, struct stk_err *err)
{
    const struct stk_result_kind kind = {.fields = of};
    struct stk_jval *row;
    bool more = false;
    stk_arena_reset(arena);
    int rc = stk_result_fill(&kind, base, arena, &row, err);
    if (!rc)
        put_row(of, row, "", &more, out);
    if (!rc)
        stk_buf_putc(out, '\n');
    return rc;
}

bool stk_csv_draw(const struct stk_result_kind *kind, const char *table,
                  const struct stk_jval *result, struct stk_buf *out)
{
    const struct stk_result_field *f = find(kind->fields, table, &result);
    if (!f)
        return false;
    const struct stk_jval *rows = stk_json_get(result, f->key), none = {.type = STK_JOBJ};
    bool more = false;
    stk_csv_head(f->of, out);
    for (size_t i = 0; rows && rows->type == STK_JARR && i < rows->len; i++) {
        more = false;
        put_row(f->of, rows->item[i].type == STK_JOBJ ? &rows->item[i] : &none, "", &more, out);
        stk_buf_putc(out, '\n');
    }
    return true;
}

static void put_columns(const struct stk_result_csv *csv, const struct stk_jval *outer,
                        const struct stk_jval *row, struct stk_buf *out)
{
    for (const struct stk_csv_member *c = csv->column; c->title; c++) {
        const char *member = c->member ? c->member : c->title;
        stk_buf_puts(out, c > csv->column ? "," : "");
        put_cell(*member == '^' ? stk_pg_at(outer, member + 1) : stk_pg_at(row, member), out);
    }
    stk_buf_putc(out, '\n');
}

void stk_csv_columns_draw(const struct stk_result_csv *csv, const struct stk_jval *result,
                          struct stk_buf *out)
{
    const struct stk_jval *rows = stk_json_get(result, csv->rows);
    for (const struct stk_csv_member *c = csv->column; c->title; c++)
        stk_buf_printf(out, "%s%s", c > csv->column ? "," : "", c->title);
    stk_buf_putc(out, '\n');
    for (size_t i = 0; stk_pg_has_rows(rows) && i < rows->len; i++) {
        const struct stk_jval *row = &rows->item[i];
        const struct stk_jval *inner = csv->inner ? stk_json_get(row, csv->inner) : NULL;
        for (size_t k = 0; stk_pg_has_rows(inner) && k < inner->len; k++)
            put_columns(csv, row, &inner->item[k], out);
        if (!csv->inner)
            put_columns(csv, NULL, row, out);
    }
}
