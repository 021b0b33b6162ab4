/* sample.c - a sample in memory: fields, values, keys, and a neutral serialisation. */
#include "format/sample.h"
#include "base/buf.h"
#include "base/api.h"

#include <math.h>
#include <stdlib.h>

void stk_sample_init(struct stk_sample *s)
{
    *s = (struct stk_sample){0};
}

struct stk_hold *stk_sample_let_go(struct stk_sample *s)
{
    struct stk_hold *h = s->hold;
    stk_sample_reset(s);
    s->hold = NULL;
    return h && atomic_fetch_sub(&h->samples, 1) == 1 ? h : NULL;
}

void stk_hold_free(struct stk_hold *h)
{
    if (h)
        stk_buf_release(&h->bytes);
    free(h);
}

void stk_sample_release(struct stk_sample *s)
{
    stk_hold_free(stk_sample_let_go(s));
    free(s->field);
    stk_arena_release(&s->arena);
    stk_buf_release(&s->bytes);
    stk_sample_init(s);
}

void stk_sample_reset(struct stk_sample *s)
{
    s->key = "";
    s->key_len = 0;
    s->nfields = 0;
    s->record = NULL;
    s->record_len = 0;
    s->record_codec = NULL;
    stk_arena_reset(&s->arena);
    stk_buf_reset(&s->bytes);
}

struct stk_sample *stk_sample_new(void)
{
    struct stk_sample *s = malloc(sizeof *s);
    if (!s)
        return NULL;
    stk_sample_init(s);
    if (stk_live_add(s))
        return s;
    free(s);
    return NULL;
}

void stk_sample_free(struct stk_sample *s)
{
    if (!stk_live_end(s))
        return;
    stk_sample_release(s);
    free(s);
}

const char *stk_sample_key(const struct stk_sample *s, size_t *len)
{
    bool has = s && s->key;
    if (len)
        *len = has ? s->key_len : 0;
    return has ? s->key : "";
}

size_t stk_sample_nfields(const struct stk_sample *s)
{
    return s ? s->nfields : 0;
}

const struct stk_field *stk_sample_field(const struct stk_sample *s, size_t i)
{
    return s && i < s->nfields ? &s->field[i] : NULL;
}

const struct stk_value *stk_sample_get(const struct stk_sample *s, const char *name)
{
    const struct stk_field *f = s && name ? stk_sample_find(s, name) : NULL;
    return f ? &f->value : NULL;
}

struct stk_field *stk_sample_add(struct stk_sample *s, const char *name, size_t name_len,
                                 const struct stk_value *v)
{
    if (s->nfields == s->cap && STK_ARRAY_ROOM(s->field, s->cap, s->nfields + 1, NULL))
        return NULL;
    struct stk_field *f = &s->field[s->nfields++];
    *f = (struct stk_field){.name = name, .name_len = name_len, .value = *v};
    return f;
}

int stk_sample_add_bytes(struct stk_sample *s, const char *name, enum stk_kind kind, const void *p,
                         size_t n, struct stk_err *err)
{
    struct stk_value v = {.kind = (uint8_t)kind, .data = p, .size = n};
    return stk_sample_add(s, name, strlen(name), &v) ? 0 : stk_err_nomem(err, sizeof v);
}

static int add_scalar(struct stk_sample *s, const char *name, size_t name_len, enum stk_dtype dtype,
                      const void *p, struct stk_err *err)
{
    void *copy = stk_arena_dup(&s->arena, p, 8);
    struct stk_value v = {.kind = STK_ARRAY, .dtype = (uint8_t)dtype, .data = copy, .size = 8};
    return copy && stk_sample_add(s, name, name_len, &v) ? 0 : stk_err_nomem(err, sizeof v);
}

int stk_sample_add_i64(struct stk_sample *s, const char *name, size_t name_len, int64_t v,
                       struct stk_err *err)
{
    return add_scalar(s, name, name_len, STK_I64, &v, err);
}

const struct stk_field *stk_sample_find(const struct stk_sample *s, const char *name)
{
    size_t n = strlen(name);
    for (size_t i = 0; i < s->nfields; i++)
        if (s->field[i].name_len == n && memcmp(s->field[i].name, name, n) == 0)
            return &s->field[i];
    return NULL;
}

static int set_label(struct stk_sample *s, enum stk_dtype dtype, const void *p, struct stk_err *err)
{
    const struct stk_field *old = stk_sample_find(s, "label");
    int rc = add_scalar(s, "label", 5, dtype, p, err);
    if (rc == 0 && old) {
        /* The table may have moved when the new field was added. */
        old = stk_sample_find(s, "label");
        s->field[old - s->field] = s->field[--s->nfields];
    }
    s->record = NULL;
    return rc;
}

int stk_sample_set_label(struct stk_sample *s, int64_t label, struct stk_err *err)
{
    return set_label(s, STK_I64, &label, err);
}

int stk_sample_set_label_f64(struct stk_sample *s, double label, struct stk_err *err)
{
    return set_label(s, STK_F64, &label, err);
}

/* ---- values ---- */

static const struct {
    const char *name;
    uint8_t size;
    bool is_float;
} dtypes[] = {
    [STK_U8] = {"uint8", 1, false},           [STK_I8] = {"int8", 1, false},
    [STK_U16] = {"uint16", 2, false},         [STK_I16] = {"int16", 2, false},
    [STK_U32] = {"uint32", 4, false},         [STK_I32] = {"int32", 4, false},
    [STK_U64] = {"uint64", 8, false},         [STK_I64] = {"int64", 8, false},
    [STK_F16] = {"float16", 2, true},         [STK_F32] = {"float32", 4, true},
    [STK_F64] = {"float64", 8, true},         [STK_BOOL] = {"bool", 1, false},
    [STK_BF16] = {"bfloat16", 2, true},       [STK_F8_E4M3] = {"float8_e4m3fn", 1, true},
    [STK_F8_E5M2] = {"float8_e5m2", 1, true}, [STK_C64] = {"complex64", 8, false},
    [STK_C128] = {"complex128", 16, false},
};
#define NDTYPES (sizeof dtypes / sizeof *dtypes)

size_t stk_dtype_size(enum stk_dtype t)
{
    return t < NDTYPES ? dtypes[t].size : 0;
}

const char *stk_dtype_name(enum stk_dtype t)
{
    return t < NDTYPES && dtypes[t].name ? dtypes[t].name : "?";
}

bool stk_dtype_is_read(enum stk_dtype t)
{
    return t >= STK_U8 && t <= STK_BOOL;
}

bool stk_dtype_is_float(enum stk_dtype t)
{
    return t < NDTYPES && dtypes[t].is_float;
}

const char *stk_kind_name(enum stk_kind k)
{
    static const char *const names[] = {"?", "bytes", "text", "json", "array", "list"};
    return names[k <= STK_LIST ? k : 0];
}

uint64_t stk_value_count(const struct stk_value *v)
{
    uint64_t n = 1;
    for (unsigned i = 0; i < v->ndim; i++)
        if (__builtin_mul_overflow(n, v->dim[i], &n))
            return UINT64_MAX;
    return n;
}

static double half_to_double(uint16_t h)
{
    int exponent = h >> 10 & 31, fraction = h & 1023;
    double v = exponent == 31 ? (fraction ? (double)NAN : (double)INFINITY)
               : exponent     ? ldexp(1024 + fraction, exponent - 25)
                              : ldexp(fraction, -24);
    return h & 0x8000 ? -v : v;
}

double stk_value_f64(const struct stk_value *v, uint64_t i)
{
    const uint8_t *p = (const uint8_t *)v->data + i * stk_dtype_size(v->dtype);
    if (v->dtype == STK_F16)
        return half_to_double(stk_le16(p));
    if (v->dtype == STK_F32) {
        uint32_t bits = stk_le32(p);
        float f;
        memcpy(&f, &bits, sizeof f);
        return (double)f;
    }
    if (v->dtype == STK_F64) {
        uint64_t bits = stk_le64(p);
        double d;
        memcpy(&d, &bits, sizeof d);
        return d;
    }
    return v->dtype == STK_U64 ? (double)stk_le64(p) : (double)stk_value_i64(v, i);
}

int64_t stk_value_i64(const struct stk_value *v, uint64_t i)
{
    const uint8_t *p = (const uint8_t *)v->data + i * stk_dtype_size(v->dtype);
    switch (v->dtype) {
    case STK_U8:
    case STK_BOOL:
        return *p;
    case STK_I8:
        return (int8_t)*p;
    case STK_U16:
        return stk_le16(p);
    case STK_I16:
        return (int16_t)stk_le16(p);
    case STK_U32:
        return stk_le32(p);
    case STK_I32:
        return (int32_t)stk_le32(p);
    case STK_U64:
    case STK_I64:
        return (int64_t)stk_le64(p);
    default: {
        double d = stk_value_f64(v, i);
        return d >= -0x1p63 && d < 0x1p63 ? (int64_t)d : 0;
    }
    }
}

/* Length of the UTF-8 sequence at p (n >= 1 bytes); 0: invalid. */
static size_t utf8_len(const uint8_t *p, size_t n)
{
    size_t len = p[0] < 0x80 ? 1 : p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
    if (len == 1)
        return 1;
    if (p[0] < 0xc2 || p[0] > 0xf4 || len > n)
        return 0;
    for (size_t i = 1; i < len; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    /* Over-long forms, surrogates, beyond U+10FFFF. */
    if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] >= 0xa0) ||
        (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] >= 0x90))
        return 0;
    return len;
}

bool stk_is_text(const uint8_t *p, size_t n)
{
    while (n) {
        size_t len = *p ? utf8_len(p, n) : 0;
        if (!len)
            return false;
        p += len;
        n -= len;
    }
    return true;
}

/* ---- keys ---- */

bool stk_key_is_safe_path(const char *key, size_t len)
{
    if (!key || !len || len >= 4096 || memchr(key, '\0', len))
        return false;
    for (const char *p = key, *end = key + len; p <= end;) {
        const char *slash = memchr(p, '/', (size_t)(end - p));
        size_t n = (size_t)((slash ? slash : end) - p);
        if (n == 0 || n > 255 || (n == 1 && p[0] == '.') || (n == 2 && p[0] == '.' && p[1] == '.'))
            return false;
        p += n + 1;
    }
    return true;
}

size_t stk_key_stem(const char *key, size_t len)
{
    if (!key || !len)
        return len;
    const char *slash = memrchr(key, '/', len);
    size_t base = slash ? (size_t)(slash + 1 - key) : 0;
    const char *dot = len > base ? memchr(key + base, '.', len - base) : NULL;
    return dot ? (size_t)(dot - key) : len;
}
