/*
 * write.c - a sample as one JSON object on one line.
 *
 * Text is a string, other bytes are {"$base64": "..."}, arrays are numbers nested by their shape,
 * JSON values are checked before they are copied. NaN and infinities are refused.
 */
#include "base/text.h"
#include "format/json/text.h"
#include "format/sample.h"

#include <math.h>

#define LIST_DEPTH 32

static bool is_utf8(const char *p, size_t n)
{
    uint32_t cp;
    for (size_t i = 0, step; i < n; i += step) {
        step = (unsigned char)p[i] < 0x80 ? 1 : stk_utf8_next(p + i, n - i, &cp);
        if (!step)
            return false;
    }
    return true;
}

/* p is UTF-8. */
static void put_string(struct stk_buf *out, const char *p, size_t n)
{
    static const char from[] = "\b\f\n\r\t\"\\", to[] = "bfnrt\"\\";
    size_t plain = 0;
    stk_buf_putc(out, '"');
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)p[i];
        if (c >= 0x20 && c != '"' && c != '\\')
            continue;
        const char *at = c ? strchr(from, c) : NULL;
        stk_buf_put(out, p + plain, i - plain);
        if (at)
            stk_buf_put(out, (char[]){'\\', to[at - from]}, 2);
        else
            stk_buf_printf(out, "\\u%04x", c);
        plain = i + 1;
    }
    stk_buf_put(out, p + plain, n - plain);
    stk_buf_putc(out, '"');
}

static void put_base64(struct stk_buf *out, const uint8_t *p, size_t n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    stk_buf_puts(out, "{\"" STK_JSON_BASE64 "\":\"");
    char *o = stk_buf_extend(out, (n + 2) / 3 * 4);
    for (size_t i = 0; o && i < n; i += 3, o += 4) {
        size_t left = n - i < 3 ? n - i : 3;
        uint32_t word = (uint32_t)p[i] << 16;
        if (left > 1)
            word |= (uint32_t)p[i + 1] << 8;
        if (left > 2)
            word |= p[i + 2];
        for (size_t k = 0; k < 4; k++)
            o[k] = k <= left ? digits[word >> (18 - 6 * k) & 63] : '=';
    }
    stk_buf_puts(out, "\"}");
}

static int refuse_nan(struct stk_err *err)
{
    return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1, "JSON has no NaN and no infinity");
}

/* A JSON value: checked, and put on one line. */
static int put_json(struct stk_buf *out, const char *p, size_t n, struct stk_err *err)
{
    struct stk_json_cur c = stk_json_record(p, n, err);
    struct stk_json_leaves l = {0};
    stk_json_space(&c);
    int rc = stk_json_walk(&c, 1, &l);
    if (rc == 0)
        rc = stk_json_end(&c);
    if (rc == 0 && l.words)
        rc = refuse_nan(err);
    char *o = rc == 0 ? stk_buf_room(out, n) : NULL;
    if (!o)
        return rc;
    bool string = false;
    for (size_t i = 0; i < n; i++) {
        if (p[i] == '"')
            string = !string;
        if (string && p[i] == '\\')
            *o++ = p[i++];
        if (string || !memchr(" \n\r\t", p[i], 4))
            *o++ = p[i];
    }
    out->len = (size_t)((uint8_t *)o - out->data);
    return 0;
}

static bool put_element(struct stk_buf *out, const struct stk_value *v, uint64_t i)
{
    if (v->dtype == STK_BOOL) {
        stk_buf_puts(out, stk_value_i64(v, i) ? "true" : "false");
        return true;
    }
    if (stk_dtype_is_float(v->dtype) && !isfinite(stk_value_f64(v, i)))
        return false;
    char *to = stk_buf_room(out, STK_NUM_ROOM);
    if (to)
        out->len += stk_value_text(v, i, to);
    return true;
}

/* Writes elements from *at on, dimensions from d on. */
static bool put_array(struct stk_buf *out, const struct stk_value *v, unsigned d, uint64_t *at)
{
    if (d == v->ndim)
        return put_element(out, v, (*at)++);
    stk_buf_putc(out, '[');
    for (uint64_t i = 0; i < v->dim[d] && !out->fail; i++) {
        if (i)
            stk_buf_putc(out, ',');
        if (!put_array(out, v, d + 1, at))
            return false;
    }
    stk_buf_putc(out, ']');
    return true;
}

static int put_value(struct stk_buf *out, const struct stk_value *v, unsigned depth,
                     struct stk_err *err)
{
    uint64_t at = 0;
    int rc = 0;
    switch (v->kind) {
    case STK_BYTES:
    case STK_TEXT:
        /* UTF-8 bytes with a NUL stay bytes, but text with a NUL stays text. */
        if (v->kind == STK_TEXT ? is_utf8(v->data, v->size) : stk_is_text(v->data, v->size))
            put_string(out, v->data, v->size);
        else
            put_base64(out, v->data, v->size);
        return 0;
    case STK_JSON:
        return put_json(out, v->data, v->size, err);
    case STK_ARRAY:
        if (stk_value_count(v) == 0)
            stk_buf_puts(out, "[]"); /* ignores the other dimensions, which may be absurd */
        else if (!put_array(out, v, 0, &at))
            return refuse_nan(err);
        return 0;
    default:
        break;
    }
    if (depth >= LIST_DEPTH)
        return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1, "lists nested too deeply");
    stk_buf_putc(out, '[');
    for (size_t i = 0; i < v->nitems && rc == 0; i++) {
        if (i)
            stk_buf_putc(out, ',');
        rc = put_value(out, &v->item[i], depth + 1, err);
    }
    stk_buf_putc(out, ']');
    return rc;
}

int stk_json_value(const struct stk_value *v, struct stk_buf *out, struct stk_err *err)
{
    return put_value(out, v, 0, err);
}

int stk_json_implode(const struct stk_sample *s, struct stk_buf *out, struct stk_err *err)
{
    const char *comma = "";
    stk_buf_putc(out, '{');
    if (s->key_len) {
        struct stk_value key = {.kind = STK_TEXT, .data = s->key, .size = s->key_len};
        stk_buf_puts(out, "\"key\":");
        (void)put_value(out, &key, 0, err);
        comma = ",";
    }
    for (size_t i = 0; i < s->nfields; i++, comma = ",") {
        const struct stk_field *f = &s->field[i];
        if (!is_utf8(f->name, f->name_len))
            return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1,
                               "a field's name is not UTF-8 text");
        if (s->key_len && f->name_len == 3 && memcmp(f->name, "key", 3) == 0)
            return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1,
                               "the field key of sample %.*s would be taken for its key",
                               (int)(s->key_len < 200 ? s->key_len : 200), s->key);
        stk_buf_puts(out, comma);
        put_string(out, f->name, f->name_len);
        stk_buf_putc(out, ':');
        int rc = put_value(out, &f->value, 0, err);
        if (rc < 0)
            return stk_err_wrap(err, rc, "field %.*s of sample %.*s",
                                (int)(f->name_len < 200 ? f->name_len : 200), f->name,
                                (int)(s->key_len < 200 ? s->key_len : 200), s->key);
    }
    stk_buf_putc(out, '}');
    return stk_buf_check(out, err);
}
