/* fill.c - a result from the structs of a command, by tables of fields. */
#include <math.h>
#include <string.h>

#include "result/field.h"

static void put_number(const struct stk_result_field *f, double v, struct stk_jw *w)
{
    bool whole = f->unit == STK_U_COUNT || f->unit == STK_U_ID || f->unit == STK_U_BYTES;
    if (f->flags & STK_F_KNOWN && v < 0)
        stk_jw_null(w);
    else if (whole && fabs(v) < 9e15)
        stk_jw_i64(w, (int64_t)round(v));
    else
        stk_jw_f64(w, v);
}

static void put_count(uint64_t v, bool known, struct stk_jw *w)
{
    if ((known && !v) || v == UINT64_MAX)
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
        if (f->flags & STK_F_VIEW)
            continue;
        if (f->put || f->number || f->unit == STK_U_GROUP || f->from.type != STK_FROM_NOTHING) {
            if (*f->key)
                stk_jw_key(w, f->key);
            put_value(f, base, w);
        }
    }
}

/* A table in it takes lines of its own. */
static bool has_table(const struct stk_result_field *f)
{
    while (f->key && f->unit != STK_U_TABLE)
        f++;
    return f->key;
}

void stk_row_put(const struct stk_result_field *f, const void *row, struct stk_jw *w)
{
    bool pretty = w->pretty;
    stk_jw_open(w, '{');
    w->pretty = pretty && has_table(f);
    stk_fields_put(f, row, w);
    stk_jw_close(w, '}');
    w->pretty = pretty;
}

void stk_rows_put(const struct stk_result_field *f, const void *rows, size_t n, size_t size,
                  struct stk_jw *w)
{
    stk_jw_open(w, '[');
    for (size_t i = 0; i < n; i++)
        stk_row_put(f, (const char *)rows + i * size, w);
    stk_jw_close(w, ']');
}

/* ---- the way back --------------------------------------------------------------------------- */

static int get_rows(const struct stk_result_field *f, const struct stk_jval *v, void *base,
                    struct stk_arena *arena, struct stk_err *err)
{
    int rc = 0;
    char *at = base, *rows;
    if (v->type != STK_JARR || !v->len)
        return 0;
    if (v->len > SIZE_MAX / f->from.size || !(rows = stk_arena_alloc(arena, v->len * f->from.size)))
        return stk_err_nomem(err, v->len);
    memset(rows, 0, v->len * f->from.size);
    for (size_t i = 0; !rc && i < v->len; i++)
        rc = stk_fields_get(f->of, &v->item[i], rows + i * f->from.size, arena, err);
    *(void **)(void *)(at + f->from.at) = rows;
    *(size_t *)(void *)(at + f->from.n) = v->len;
    return rc;
}

static uint64_t count_of(const struct stk_jval *v)
{
    return v->type == STK_JINT && v->i >= 0 ? (uint64_t)v->i
           : v->f > 0 && v->f < 1.8e19      ? (uint64_t)v->f
                                            : 0;
}

static void get_value(const struct stk_result_field *f, const struct stk_jval *v, char *at)
{
    bool number = v->type == STK_JINT || v->type == STK_JFLOAT, null = v->type == STK_JNULL;
    switch (f->from.type) {
    case STK_FROM_U64:
        if (number)
            *(uint64_t *)(void *)at = count_of(v);
        break;
    case STK_FROM_U32:
        if (number)
            *(uint32_t *)(void *)at = (uint32_t)fmin((double)count_of(v), UINT32_MAX);
        break;
    case STK_FROM_I64:
        if (number || null)
            *(int64_t *)(void *)at = null ? -1 : v->i;
        break;
    case STK_FROM_F64:
        if (number || null)
            *(double *)(void *)at = null ? f->flags & STK_F_KNOWN ? -1 : NAN : v->f;
        break;
    case STK_FROM_NS:
        if (number)
            *(uint64_t *)(void *)at = v->f > 0 && v->f < 1e10 ? (uint64_t)(v->f * 1e9) : 0;
        break;
    case STK_FROM_BOOL:
        if (v->type == STK_JBOOL)
            *(bool *)(void *)at = v->b;
        break;
    case STK_FROM_STR:
        if (v->type == STK_JSTR)
            *(const char **)(void *)at = v->str;
        break;
    default: break;
    }
}

int stk_fields_get(const struct stk_result_field *f, const struct stk_jval *obj, void *base,
                   struct stk_arena *arena, struct stk_err *err)
{
    int rc = 0;
    for (; f->key && !rc; f++) {
        const struct stk_jval *v = stk_field_of(f, obj);
        char *at = (char *)base + f->from.at;
        bool inside = f->unit == STK_U_GROUP && f->from.type != STK_FROM_POINTER && !f->put;
        if (!v || f->flags & STK_F_VIEW)
            continue;
        if (inside)
            rc = stk_fields_get(f->of, v, f->from.type == STK_FROM_STRUCT ? at : base, arena, err);
        else if (f->from.type == STK_FROM_ROWS)
            rc = get_rows(f, v, base, arena, err);
        else if (!f->put && !f->number)
            get_value(f, v, at);
    }
    return rc;
}

/* ---- a result ------------------------------------------------------------------------------- */

int stk_result_fill(const struct stk_result_kind *kind, const void *data, struct stk_arena *arena,
                    struct stk_jval **result, struct stk_err *err)
{
    struct stk_buf text = STK_BUF_INIT;
    struct stk_jw w;
    stk_jw_init(&w, &text, false);
    w.bytes = true;
    stk_jw_open(&w, '{');
    stk_fields_put(kind->fields, data, &w);
    stk_jw_close(&w, '}');
    int rc = stk_buf_check(&text, err);
    const char *own = rc ? NULL : stk_arena_dup(arena, (const char *)text.data, text.len);
    rc = rc ? rc : own ? stk_json_parse_bytes(arena, own, text.len, result, err)
                       : stk_err_nomem(err, text.len);
    stk_buf_release(&text);
    return rc;
}
