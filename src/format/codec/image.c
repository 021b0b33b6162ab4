/*
 * image.c - MXNet's image record: a 24-byte header (IRHeader), labels, then the image.
 *
 * flag 0: one label, in the header. flag n > 0: n float32 labels follow the header. Labels are
 * stored as float32; a whole number becomes an integer, like a class number.
 */
#include "format/codec/codec.h"
#include "format/format.h"
#include "format/sample.h"

#include <math.h>
#include <stdio.h>

#define LABELS_MAX 65536u /* no real header has more */

static float float_at(const uint8_t *p)
{
    uint32_t bits = stk_le32(p);
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static void put_float(struct stk_buf *out, float f)
{
    uint32_t bits;
    uint8_t le[4];
    memcpy(&bits, &f, sizeof bits);
    stk_put_le32(le, bits);
    stk_buf_put(out, le, 4);
}

/* ---- recognising -------------------------------------------------------------------------- */

static bool label_plausible(const uint8_t *p)
{
    float size = fabsf(float_at(p));
    return size == 0 || (size > 1e-6f && size < 1e9f);
}

/* The ids are arbitrary. Without labels after the header its first word is 0, which is rare in
 * other data; with labels, these are checked, too. */
bool stk_irheader_plausible(const uint8_t *p, size_t n, uint64_t total)
{
    if (n < STK_IRHEADER)
        return false;
    uint32_t flag = stk_le32(p);
    if (!flag)
        return label_plausible(p + 4);
    if (flag > LABELS_MAX || flag > (total - STK_IRHEADER) / 4)
        return false;
    bool good = true;
    for (size_t i = 0; good && i < flag && i < 16 && STK_IRHEADER + 4 * (i + 1) <= n; i++)
        good = label_plausible(p + STK_IRHEADER + 4 * i);
    return good;
}

uint64_t stk_irheader_id(const uint8_t *record)
{
    return stk_le64(record + 8);
}

static bool is_image(const uint8_t *p, size_t n)
{
    static const struct {
        const char *magic;
        size_t len;
    } known[] = {{"\xff\xd8\xff", 3}, {"\x89PNG\r\n\x1a\n", 8}, {"GIF8", 4}, {"BM", 2},
                 {"RIFF", 4},         {"\x93NUMPY", 6}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (n > known[i].len && memcmp(p, known[i].magic, known[i].len) == 0)
            return true;
    return false;
}

/* Requires an image after the header: alone, it looks too much like a record of zeros. */
static int bid(const uint8_t *p, size_t n)
{
    if (!stk_irheader_plausible(p, n, n))
        return 0;
    size_t head = STK_IRHEADER + 4 * (size_t)stk_le32(p);
    return is_image(p + head, n - head) ? 80 : 0;
}

/* ---- reading ------------------------------------------------------------------------------ */

static int add_labels(const uint8_t *p, uint32_t flag, struct stk_sample *s, struct stk_err *err)
{
    struct stk_value v = {.kind = STK_ARRAY, .dtype = STK_F32, .data = p + 4, .size = 4};
    if (flag) {
        v.ndim = 1;
        v.dim[0] = flag;
        v.data = p + STK_IRHEADER;
        v.size = 4 * (size_t)flag;
    } else {
        double label = (double)float_at(p + 4);
        if (fabs(label) < 0x1p53 && label == nearbyint(label))
            return stk_sample_add_i64(s, "label", 5, (int64_t)label, err);
    }
    return stk_sample_add(s, "label", 5, &v) ? 0 : stk_err_nomem(err, sizeof v);
}

static int explode(const char *context, size_t context_len, const uint8_t *p, size_t n,
                   struct stk_sample *s, struct stk_err *err)
{
    (void)context, (void)context_len;
    if (n < STK_IRHEADER)
        return stk_err_set(err, STK_E_CORRUPT, NULL, -1,
                           "a record of %zu bytes has no room for its 24-byte image header", n);
    uint32_t flag = stk_le32(p);
    if (flag > (n - STK_IRHEADER) / 4)
        return stk_err_set(err, STK_E_CORRUPT, NULL, -1,
                           "the image header says %u labels, but only %zu bytes follow it", flag,
                           n - STK_IRHEADER);
    if (!s->key_len) {
        char text[24];
        int len = snprintf(text, sizeof text, "%llu", (unsigned long long)stk_irheader_id(p));
        s->key = stk_arena_dup(&s->arena, text, (size_t)len);
        if (!s->key)
            return stk_err_nomem(err, sizeof text);
        s->key_len = (size_t)len;
    }
    int rc = add_labels(p, flag, s, err);
    size_t head = STK_IRHEADER + 4 * (size_t)flag;
    return rc < 0 ? rc : stk_sample_add_bytes(s, "data", STK_BYTES, p + head, n - head, err);
}

/* ---- writing ------------------------------------------------------------------------------ */

bool stk_sample_has_id(const struct stk_sample *s, uint64_t *id)
{
    bool number = s->key_len > 0;
    *id = 0;
    for (size_t i = 0; number && i < s->key_len; i++) {
        char c = s->key[i];
        number = c >= '0' && c <= '9' && !__builtin_mul_overflow(*id, 10, id) &&
                 !__builtin_add_overflow(*id, (uint64_t)(c - '0'), id);
    }
    return number;
}

uint64_t stk_sample_id(const struct stk_sample *s)
{
    uint64_t id;
    return stk_sample_has_id(s, &id) ? id : s->number;
}

static int refuse(const struct stk_field *f, const char *why, struct stk_err *err)
{
    return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1, "field '%.*s' %s in an MXNet image record",
                       (int)f->name_len, f->name, why);
}

/* The labels as float32, appended to out; sets *count, 0 for a single one, which goes to *one. */
static int put_labels(const struct stk_field *f, struct stk_buf *out, uint32_t *count, float *one,
                      struct stk_err *err)
{
    const struct stk_value *v = &f->value;
    uint64_t n = v->kind == STK_ARRAY ? stk_value_count(v) : 0;
    if (v->kind != STK_ARRAY || v->ndim > 1 || n == 0 || n > LABELS_MAX)
        return refuse(f, "must be a number or a list of up to 65536 numbers", err);
    for (uint64_t i = 0; i < n; i++) {
        double d = stk_value_f64(v, i);
        float label = (float)d;
        bool whole = !stk_dtype_is_float(v->dtype);
        if (whole && ((double)label != d || fabs(d) > 0x1p53))
            return refuse(f,
                          "holds an integer that float32 cannot represent: labels are "
                          "float32",
                          err);
        *one = label;
        if (v->ndim)
            put_float(out, label);
    }
    *count = v->ndim ? (uint32_t)n : 0;
    return 0;
}

/* The one field that is the payload; the rest must be the label. */
static int find_payload(const struct stk_sample *s, const struct stk_field **label,
                        const struct stk_field **data, struct stk_err *err)
{
    *label = stk_sample_find(s, "label");
    *data = stk_sample_find(s, "data");
    for (size_t i = 0; i < s->nfields; i++) {
        const struct stk_field *f = &s->field[i];
        if (f == *label || f == *data)
            continue;
        if (*data)
            return refuse(f, "has no place beside 'data'", err);
        *data = f;
    }
    if (*data && ((*data)->value.kind == STK_ARRAY || (*data)->value.kind == STK_LIST))
        return refuse(*data, "is an array and would lose its shape", err);
    return 0;
}

static int implode(const struct stk_sample *s, struct stk_buf *out, struct stk_err *err)
{
    const struct stk_field *label, *data;
    int rc = find_payload(s, &label, &data, err);
    if (rc < 0)
        return rc;
    size_t at = out->len;
    uint32_t count = 0, bits;
    float one = 0;
    stk_buf_zeros(out, STK_IRHEADER);
    if (label && (rc = put_labels(label, out, &count, &one, err)) < 0)
        return rc;
    if (data)
        stk_buf_put(out, data->value.data, data->value.size);
    if (out->fail)
        return stk_buf_check(out, err);
    uint8_t *head = out->data + at;
    memcpy(&bits, &one, sizeof bits);
    stk_put_le32(head, count);
    stk_put_le32(head + 4, count ? 0 : bits);
    stk_put_le64(head + 8, stk_sample_id(s));
    return 0;
}

const struct stk_codec stk_codec_image = {
    .name = "image",
    .title = "MXNet IRHeader",
    .holds = STK_HOLDS_SHAPES | STK_HOLDS_GAPS | STK_HOLDS_ID,
    .payload = true,
    .bid = bid,
    .explode = explode,
    .implode = implode,
};
