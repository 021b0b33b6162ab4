/*
 * scaled.c - packed numbers to the numbers they mean (codec.h). Computes in float64 and rounds
 * once, to the type of the field.
 */
#include "format/codec/codec.h"
#include "base/hash.h"
#include "format/sample.h"

#include <math.h>
#include <stdlib.h>

#define PREFIX "scaled:"
#define BLOCK  1024u /* values at a time: they stay in the processor's cache */
#define EXACT  (1ll << 53)

_Static_assert(sizeof(struct stk_scaled) == 88, "records are compared and stored as bytes");

void stk_scaled_name(struct stk_scaled *s, const struct stk_field_spec *spec)
{
    static const char digit[] = "0123456789abcdefghijklmnopqrstuvwxyz";
    memset(s->name, 0, sizeof s->name);
    uint64_t h = stk_hash64(s, sizeof *s) ^ stk_hash64(spec->dim, spec->ndim * sizeof *spec->dim);
    memcpy(s->name, PREFIX, sizeof PREFIX - 1);
    for (size_t at = sizeof PREFIX - 1; at < sizeof s->name - 1; at++, h /= 36)
        s->name[at] = digit[h % 36];
}

/* ---- the context -------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
    return memcmp(a, b, sizeof ((const struct stk_scaled *)a)->name);
}

static int bad_context(struct stk_err *err)
{
    return stk_err_set(err, STK_E_CORRUPT, NULL, -1, "damaged description of the packed numbers");
}

int stk_scaled_merge(const char *a, size_t a_len, const char *b, size_t b_len, struct stk_buf *out,
                     struct stk_err *err)
{
    const size_t one = sizeof(struct stk_scaled);
    if (a_len % one || b_len % one)
        return bad_context(err);
    while (a_len || b_len) {
        int c = !a_len ? 1 : !b_len ? -1 : by_name(a, b);
        if (c == 0 && memcmp(a, b, one) != 0)
            return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1,
                               "two packings of numbers have the same hash");
        stk_buf_put(out, c <= 0 ? a : b, one);
        a += c <= 0 ? one : 0;
        a_len -= c <= 0 ? one : 0;
        b += c >= 0 ? one : 0;
        b_len -= c >= 0 ? one : 0;
    }
    return 0;
}

/* The record that a codec names: a copy, as the context may be at any address. */
static bool find(const char *codec, const char *context, size_t len, struct stk_scaled *out)
{
    struct stk_scaled want = {0};
    if (len % sizeof want || strlen(codec) >= sizeof want.name)
        return false;
    memcpy(want.name, codec, strlen(codec));
    const void *hit = bsearch(&want, context, len / sizeof want, sizeof want, by_name);
    if (!hit)
        return false;
    memcpy(out, hit, sizeof *out);
    return stk_dtype_size(out->stored) && out->nfill <= STK_SCALED_FILLS &&
           memchr(out->tile, 0, sizeof out->tile) &&
           (!out->tile[0] || stk_codec_find(out->tile) == stk_codec_find("tile:"));
}

/* ---- the numbers -------------------------------------------------------------------------- */

#define LOADER(name, type, whole)                                                                  \
    static void load_##name(const struct stk_scaled *s, const uint8_t *p, size_t n, double *to)    \
    {                                                                                              \
        for (size_t i = 0; i < n; i++) {                                                           \
            type v;                                                                                \
            memcpy(&v, p + i * sizeof v, sizeof v);                                                \
            to[i] = (double)v;                                                                     \
        }                                                                                          \
        for (unsigned k = 0; k < s->nfill; k++) {                                                  \
            double real;                                                                           \
            memcpy(&real, &s->fill[k], sizeof real);                                               \
            const type fill = whole ? (type)s->fill[k] : (type)real;                               \
            for (size_t i = 0; i < n; i++) {                                                       \
                type v;                                                                            \
                memcpy(&v, p + i * sizeof v, sizeof v);                                            \
                to[i] = v == fill ? (double)NAN : to[i];                                           \
            }                                                                                      \
        }                                                                                          \
    }
LOADER(u8, uint8_t, true)
LOADER(i8, int8_t, true)
LOADER(u16, uint16_t, true)
LOADER(i16, int16_t, true)
LOADER(u32, uint32_t, true)
LOADER(i32, int32_t, true)
LOADER(u64, uint64_t, true)
LOADER(i64, int64_t, true)
LOADER(f32, float, false)
LOADER(f64, double, false)

static void load_f16(const struct stk_scaled *s, const uint8_t *p, size_t n, double *to)
{
    const struct stk_value v = {.kind = STK_ARRAY, .dtype = STK_F16, .data = p};
    for (size_t i = 0; i < n; i++)
        to[i] = stk_value_f64(&v, i);
    for (unsigned k = 0; k < s->nfill; k++) {
        double fill;
        memcpy(&fill, &s->fill[k], sizeof fill);
        for (size_t i = 0; i < n; i++)
            to[i] = to[i] == fill ? (double)NAN : to[i];
    }
}

typedef void load_fn(const struct stk_scaled *s, const uint8_t *p, size_t n, double *to);

static load_fn *const loader[] = {
    [STK_U8] = load_u8,   [STK_I8] = load_i8,   [STK_U16] = load_u16, [STK_I16] = load_i16,
    [STK_U32] = load_u32, [STK_I32] = load_i32, [STK_U64] = load_u64, [STK_I64] = load_i64,
    [STK_F16] = load_f16, [STK_F32] = load_f32, [STK_F64] = load_f64};

/* True if a float64 holds these integers, or they are scaled: then they are no integers any
 * more. */
static bool are_exact(const struct stk_scaled *s, const uint8_t *p, size_t n, const double *got)
{
    bool wide = s->stored == STK_I64 || s->stored == STK_U64, exact = true;
    if (!wide || s->scale != 1 || s->offset != 0)
        return true;
    for (size_t i = 0; i < n; i++) {
        int64_t v = (int64_t)stk_le64(p + 8 * i);
        bool small = v <= EXACT && (v >= (s->stored == STK_U64 ? 0 : -EXACT));
        exact &= small || isnan(got[i]);
    }
    return exact;
}

static void put_block(const double *from, size_t n, uint8_t dtype, uint8_t *to)
{
    for (size_t i = 0; dtype == STK_F32 && i < n; i++) {
        float f = (float)from[i];
        memcpy(to + i * sizeof f, &f, sizeof f);
    }
    if (dtype == STK_F64)
        memcpy(to, from, n * sizeof *from);
}

static int unpack(const struct stk_scaled *s, const struct stk_field_spec *spec, const uint8_t *p,
                  uint64_t count, uint8_t *to, struct stk_err *err)
{
    double block[BLOCK];
    size_t from = stk_dtype_size(s->stored), into = stk_dtype_size(spec->dtype);
    for (uint64_t at = 0; at < count; at += BLOCK) {
        size_t n = count - at < BLOCK ? (size_t)(count - at) : BLOCK;
        loader[s->stored](s, p + at * from, n, block);
        if (!are_exact(s, p + at * from, n, block))
            return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1,
                               "'%.*s' has missing values beside integers past 2^53, which no "
                               "float holds",
                               (int)spec->name_len, spec->name);
        for (size_t i = 0; i < n; i++)
            block[i] = block[i] * s->scale + s->offset;
        put_block(block, n, spec->dtype, to + at * into);
    }
    return 0;
}

static int arrange(const struct stk_field_spec *spec, const char *context, size_t context_len,
                   const uint8_t *p, size_t n, struct stk_sample *sample, const uint8_t **out,
                   size_t *out_len, struct stk_err *err)
{
    struct stk_scaled s;
    struct stk_field_spec stored = *spec;
    if (!find(spec->codec, context, context_len, &s) ||
        s.stored >= sizeof loader / sizeof *loader || !loader[s.stored] ||
        (spec->dtype != STK_F32 && spec->dtype != STK_F64))
        return bad_context(err);
    stored.dtype = s.stored;
    stored.codec = s.tile;
    const struct stk_codec *tile = s.tile[0] ? stk_codec_find(s.tile) : NULL;
    int rc = tile ? tile->arrange(&stored, NULL, 0, p, n, sample, &p, &n, err) : 0;
    size_t bytes, count = n / stk_dtype_size(s.stored);
    if (rc < 0)
        return rc;
    if (__builtin_mul_overflow(count, stk_dtype_size(spec->dtype), &bytes))
        return stk_err_nomem(err, n);
    uint8_t *to = stk_arena_alloc(&sample->arena, bytes ? bytes : 1);
    if (!to)
        return stk_err_nomem(err, bytes);
    *out = to;
    *out_len = bytes;
    return unpack(&s, spec, p, count, to, err);
}

static bool uniform(const char *context, size_t context_len)
{
    (void)context, (void)context_len;
    return true;
}

const struct stk_codec stk_codec_scaled = {
    .name = "scaled", .title = "packed numbers", .uniform = uniform, .arrange = arrange};
