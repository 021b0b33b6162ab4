/* codec_raw.c - bytes as they are, and the ASCII integer of WebDataset's .cls members. */
#include "format/format.h"
#include "format/sample.h"

static int raw_explode(const char *context, size_t context_len, const uint8_t *p, size_t n,
                       struct stk_sample *s, struct stk_err *err)
{
    (void)context, (void)context_len;
    return stk_sample_add_bytes(s, "data", STK_BYTES, p, n, err);
}

/* Only the payload: key and label have no place in a raw record. */
static int raw_implode(const struct stk_sample *s, struct stk_buf *out, struct stk_err *err)
{
    const struct stk_field *f = stk_sample_find(s, "data");
    for (size_t i = 0; !f && i < s->nfields; i++)
        if (s->field[i].value.kind == STK_BYTES || s->field[i].value.kind == STK_TEXT)
            f = &s->field[i];
    if (!f && s->nfields == 1)
        f = &s->field[0];
    if (!f || f->value.kind == STK_LIST)
        return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1,
                           "no single field of bytes for a raw record; use --payload example");
    stk_buf_put(out, f->value.data, f->value.size);
    return stk_buf_check(out, err);
}

const struct stk_codec stk_codec_raw = {
    .name = "raw",
    .title = "bytes",
    .payload = true,
    .explode = raw_explode,
    .implode = raw_implode,
};

#define CLS_MAX 24 /* a 64-bit integer in decimal, with room for white space */

static int cls_explode(const char *context, size_t context_len, const uint8_t *p, size_t n,
                       struct stk_sample *s, struct stk_err *err)
{
    (void)context, (void)context_len;
    while (n && (p[n - 1] == '\n' || p[n - 1] == '\r' || p[n - 1] == ' '))
        n--;
    size_t i = n && p[0] == '-';
    int64_t v = 0;
    if (i == n || n > CLS_MAX)
        return stk_err_set(err, STK_E_CORRUPT, NULL, -1, "the label is not an integer");
    for (; i < n; i++)
        if (p[i] < '0' || p[i] > '9' || __builtin_mul_overflow(v, 10, &v) ||
            __builtin_add_overflow(v, p[i] - '0', &v))
            return stk_err_set(err, STK_E_CORRUPT, NULL, -1, "the label is not an integer");
    return stk_sample_add_i64(s, "label", 5, p[0] == '-' ? -v : v, err);
}

const struct stk_codec stk_codec_cls = {
    .name = "cls", .title = "label in decimal", .explode = cls_explode};
