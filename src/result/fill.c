/* fill.c - a result from the structs of a command, by tables of fields. */
#include <math.h>
#include <string.h>

#include "result/field.h"

static void put_number(const struct stk_result_field *f, double v, struct stk_jw *w)
{
    bool whole = f->unit == STK_U_COUNT || f->unit == STK_U_BYTES;
    if (f->flags & STK_F_KNOWN && v < 0)
        stk_jw_null(w);
    else if (whole && fabs(v) < 9e15)
        stk_jw_i64(w, (int64_t)v);
    else
        stk_jw_f64(w, v);
}

static void put_count(uint64_t v, bool known, struct stk_jw *w)
{
    if (known && !v)
        stk_jw_null(w);
    else
        stk_jw_u64(w, v);
}

static void put_text(const char *text, bool known, struct stk_jw *w)
{
    stk_jw_str(w, known && text && !*text ? NULL : text);
}

static void put_signed(int64_t v, struct stk_jw *w)
{
    if (v < 0)
        stk_jw_null(w);
    else
        stk_jw_i64(w, v);
}

void stk_interval_put(struct stk_interval i, struct stk_jw *w)
{
    if (!stk_interval_known(i)) {
        stk_jw_null(w);
        return;
    }
    stk_jw_open(w, '[');
    stk_jw_f64(w, i.lo);
    stk_jw_f64(w, i.hi);
    stk_jw_close(w, ']');
}

static void put_rows(const struct stk_result_field *f, const void *base, struct stk_jw *w)
{
    const char *at = base;
    stk_rows_put(f->of, *(const void *const *)(const void *)(at + f->from.at),
                 *(const size_t *)(const void *)(at + f->from.n), f->from.size, w);
}

static void put_from(const struct stk_result_field *f, const void *base, struct stk_jw *w)
{
    const void *at = (const char *)base + f->from.at;
    bool known = f->flags & STK_F_KNOWN;
    switch (f->from.type) {
    case STK_FROM_U64: put_count(*(const uint64_t *)at, known, w); break;
    case STK_FROM_U32: put_count(*(const uint32_t *)at, known, w); break;
    case STK_FROM_I64: put_signed(*(const int64_t *)at, w); break;
    case STK_FROM_F64: put_number(f, *(const double *)at, w); break;
    case STK_FROM_BOOL: stk_jw_bool(w, *(const bool *)at); break;
    case STK_FROM_STR: put_text(*(const char *const *)at, known, w); break;
    case STK_FROM_CHARS: put_text(at, known, w); break;
    case STK_FROM_NS: stk_jw_f64(w, 1e-9 * (double)*(const uint64_t *)at); break;
    case STK_FROM_ROWS: put_rows(f, base, w); break;
    case STK_FROM_INTERVAL: stk_interval_put(*(const struct stk_interval *)at, w); break;
    case STK_FROM_STRUCT:
    case STK_FROM_POINTER:
    case STK_FROM_NOTHING: break;
    }
}

/* What a field is filled from: a part of the struct, or all of it. */
static const void *part_of(const struct stk_result_field *f, const void *base)
{
    const char *at = (const char *)base + f->from.at;
    return f->from.type == STK_FROM_STRUCT    ? at
           : f->from.type == STK_FROM_POINTER ? *(const void *const *)(const void *)at
                                              : base;
}

static void put_value(const struct stk_result_field *f, const void *base, struct stk_jw *w)
{
    if (f->put) {
        f->put(part_of(f, base), w);
    } else if (f->number) {
        put_number(f, f->number(part_of(f, base)), w);
    } else if (f->unit == STK_U_GROUP && !*f->key) {
        stk_fields_put(f->of, part_of(f, base), w);
    } else if (f->unit == STK_U_GROUP) {
        stk_jw_open(w, '{');
        stk_fields_put(f->of, part_of(f, base), w);
        stk_jw_close(w, '}');
    } else {
        put_from(f, base, w);
    }
}

void stk_fields_put(const struct stk_result_field *f, const void *base, struct stk_jw *w)
{
    for (; f->key; f++) {
        if (f->put || f->number || f->unit == STK_U_GROUP || f->from.type != STK_FROM_NOTHING) {
            if (*f->key)
                stk_jw_key(w, f->key);
            put_value(f, base, w);
        }
    }
}

void stk_rows_put(const struct stk_result_field *f, const void *rows, size_t n, size_t size,
                  struct stk_jw *w)
{
    stk_jw_open(w, '[');
    for (size_t i = 0; i < n; i++) {
        stk_jw_open(w, '{');
        stk_fields_put(f, (const char *)rows + i * size, w);
        stk_jw_close(w, '}');
    }
    stk_jw_close(w, ']');
}

int stk_result_fill(const struct stk_result_kind *kind, const void *data, struct stk_arena *arena,
                    struct stk_jval **result, struct stk_err *err)
{
    struct stk_buf text = STK_BUF_INIT;
    struct stk_jw w;
    stk_jw_init(&w, &text, false);
    stk_jw_open(&w, '{');
    stk_fields_put(kind->fields, data, &w);
    stk_jw_close(&w, '}');
    int rc = stk_buf_check(&text, err);
    const char *own = rc ? NULL : stk_arena_dup(arena, (const char *)text.data, text.len);
    rc = rc ? rc : own ? stk_json_parse(arena, own, text.len, result, err)
                       : stk_err_nomem(err, text.len);
    stk_buf_release(&text);
    return rc;
}
