/* raw.c - raw bytes, and the number or name in WebDataset's .cls members. */
#include "format/format.h"
#include "format/sample.h"

#include <stdlib.h>
#include <string.h>

static int raw_explode(const char *context, size_t context_len, const uint8_t *p, size_t n,
                       struct stk_sample *s, struct stk_err *err)
{
    (void)context, (void)context_len;
    return stk_sample_add_bytes(s, "data", STK_BYTES, p, n, err);
}

const struct stk_field *stk_raw_field(const struct stk_sample *s)
{
    const struct stk_field *f = stk_sample_find(s, "data");
    for (size_t i = 0; !f && i < s->nfields; i++)
        if (s->field[i].value.kind == STK_BYTES || s->field[i].value.kind == STK_TEXT)
            f = &s->field[i];
    return f || s->nfields != 1 ? f : &s->field[0];
}

/* Only the payload: key and label have no place in a raw record. */
static int raw_implode(const struct stk_sample *s, struct stk_buf *out, struct stk_err *err)
{
    const struct stk_field *f = stk_raw_field(s);
    if (!f || f->value.kind == STK_LIST)
        return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1,
                           "no single field of bytes for a raw record; use --payload example");
    stk_buf_put(out, f->value.data, f->value.size);
    return stk_buf_check(out, err);
}

static bool uniform(const char *context, size_t context_len)
{
    (void)context, (void)context_len;
    return true;
}

const struct stk_codec stk_codec_raw = {
    .name = "raw",
    .title = "bytes",
    .holds = STK_HOLDS_BYTES,
    .payload = true,
    .uniform = uniform,
    .explode = raw_explode,
    .implode = raw_implode,
};

#define CLS_MAX 24 /* a 64-bit integer in decimal, with its sign */

/* Like Python's int(): accepts a leading sign. */
static bool cls_integer(const uint8_t *p, size_t n, int64_t *v)
{
    bool minus = n && p[0] == '-';
    size_t i = minus || (n && p[0] == '+');
    *v = 0;
    if (i == n || n > CLS_MAX)
        return false;
    for (; i < n; i++) {
        if (p[i] < '0' || p[i] > '9' || __builtin_mul_overflow(*v, 10, v) ||
            __builtin_sub_overflow(*v, p[i] - '0', v))
            return false;
    }
    return minus || !__builtin_sub_overflow(0, *v, v);
}

/* A number with a point or exponent; words such as "nan" and "infinity" are not numbers. */
static bool cls_float(const uint8_t *p, size_t n, double *v)
{
    char text[64], *end;
    if (!n || n >= sizeof text)
        return false;
    memcpy(text, p, n);
    text[n] = '\0';
    if (strspn(text, "+-.0123456789eE") != n || !strpbrk(text, ".eE") ||
        !strpbrk(text, "0123456789"))
        return false;
    *v = strtod(text, &end);
    return *end == '\0';
}

static bool is_space(uint8_t c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* The class: its number, or its name. */
static int cls_explode(const char *context, size_t context_len, const uint8_t *p, size_t n,
                       struct stk_sample *s, struct stk_err *err)
{
    (void)context, (void)context_len;
    int64_t v;
    double d;
    for (; n && is_space(p[n - 1]); n--)
        ;
    for (; n && is_space(p[0]); n--)
        p++;
    if (!n)
        return stk_err_set(err, STK_E_CORRUPT, NULL, -1, "the label is empty");
    if (cls_integer(p, n, &v))
        return stk_sample_add_i64(s, "data", 4, v, err);
    if (cls_float(p, n, &d)) {
        double *at = stk_arena_alloc(&s->arena, sizeof *at);
        struct stk_value x = {.kind = STK_ARRAY, .dtype = STK_F64, .data = at, .size = sizeof *at};
        if (at)
            *at = d;
        return at && stk_sample_add(s, "data", 4, &x) ? 0 : stk_err_nomem(err, sizeof *at);
    }
    return stk_sample_add_bytes(s, "data", stk_is_text(p, n) ? STK_TEXT : STK_BYTES, p, n, err);
}

const struct stk_codec stk_codec_cls = {
    .name = "cls", .title = "number or name of a class", .explode = cls_explode};
