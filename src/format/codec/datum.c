/*
 * datum.c - Caffe's Datum, as stored in its LMDBs: 1 channels, 2 height, 3 width, 4 data, 5
 * label, 6 float_data, 7 encoded (protobuf numbers). Pixels are uint8 (or float32) in the order
 * channel, row, column; `encoded` means that data is a JPEG or PNG instead.
 */
#include "format/format.h"
#include "format/sample.h"
#include "format/codec/wire.h"

struct datum {
    uint64_t dim[3]; /* channels, height, width */
    bool has_dim[3];
    const uint8_t *data;
    size_t data_len;
    bool has_data;
    size_t nfloats;
    bool has_label, encoded;
    int32_t label;
};

/* ---- reading ------------------------------------------------------------------------------ */

static bool take_floats(const struct stk_wire_field *f, struct datum *d, uint8_t *to)
{
    bool one = f->type == STK_WIRE_FIXED32;
    if (!one && (f->type != STK_WIRE_LEN || f->len % 4))
        return false;
    if (to && f->len)
        memcpy(to + 4 * d->nfloats, f->p, f->len);
    d->nfloats += f->len / 4;
    return true;
}

static bool take_field(const struct stk_wire_field *f, struct datum *d, uint8_t *floats)
{
    bool number = f->type == STK_WIRE_VARINT;
    switch (f->number) {
    case 1:
    case 2:
    case 3:
        d->dim[f->number - 1] = f->v;
        d->has_dim[f->number - 1] = true;
        return number && f->v <= INT32_MAX;
    case 4:
        d->data = f->p;
        d->data_len = f->len;
        d->has_data = true;
        return f->type == STK_WIRE_LEN;
    case 5:
        d->label = (int32_t)f->v;
        d->has_label = true;
        return number;
    case 6:
        return take_floats(f, d, floats);
    case 7:
        d->encoded = f->v != 0;
        return number;
    default:
        return false; /* unknown to Caffe, too */
    }
}

/* Fills d; copies float_data to `floats` unless it is NULL (a first pass counted them). False: not
 * a Datum. */
static bool parse(const uint8_t *p, size_t n, struct datum *d, uint8_t *floats)
{
    struct stk_wire w = stk_wire_of(p, n);
    struct stk_wire_field f = {0};
    int more;
    *d = (struct datum){0};
    while ((more = stk_wire_next(&w, &f)) > 0)
        if (!take_field(&f, d, floats))
            return false;
    return more == 0;
}

/* channels * height * width; 0 when one is missing or they are absurd. */
static uint64_t pixels(const struct datum *d)
{
    uint64_t n = 1;
    for (int i = 0; i < 3; i++)
        if (!d->has_dim[i] || __builtin_mul_overflow(n, d->dim[i], &n))
            return 0;
    return n;
}

/* Few byte strings are a message by chance, and fewer have consistent numbers. */
static int bid(const uint8_t *p, size_t n)
{
    struct datum d;
    if (!n || !parse(p, n, &d, NULL))
        return 0;
    if (d.encoded)
        return d.data_len ? 85 : 0;
    uint64_t want = pixels(&d);
    return want && (want == d.data_len || want == d.nfloats) ? 95 : 0;
}

static int add_array(struct stk_sample *s, const char *name, enum stk_dtype dtype,
                     const struct datum *d, const void *p, uint64_t count, struct stk_err *err)
{
    struct stk_value v = {.kind = STK_ARRAY, .dtype = (uint8_t)dtype, .data = p};
    v.size = (size_t)count * stk_dtype_size(dtype);
    if (pixels(d) == count) {
        v.ndim = 3;
        memcpy(v.dim, d->dim, sizeof d->dim);
    } else {
        v.ndim = 1;
        v.dim[0] = count;
    }
    return stk_sample_add(s, name, strlen(name), &v) ? 0 : stk_err_nomem(err, sizeof v);
}

static int add_data(struct stk_sample *s, const struct datum *d, struct stk_err *err)
{
    uint64_t want = pixels(d);
    if (d->encoded || !want)
        return stk_sample_add_bytes(s, "data", STK_BYTES, d->data, d->data_len, err);
    if (want != d->data_len)
        return stk_err_set(err, STK_E_CORRUPT, NULL, -1,
                           "a Datum of %llu x %llu x %llu pixels has %zu bytes of data",
                           (unsigned long long)d->dim[0], (unsigned long long)d->dim[1],
                           (unsigned long long)d->dim[2], d->data_len);
    return add_array(s, "data", STK_U8, d, d->data, d->data_len, err);
}

static int explode(const char *context, size_t context_len, const uint8_t *p, size_t n,
                   struct stk_sample *s, struct stk_err *err)
{
    (void)context, (void)context_len;
    struct datum d;
    int rc = 0;
    if (!parse(p, n, &d, NULL))
        return stk_err_set(err, STK_E_CORRUPT, NULL, -1, "not a Caffe Datum");
    if (d.has_label)
        rc = stk_sample_add_i64(s, "label", 5, d.label, err);
    /* Caffe's writers set empty data beside float_data. */
    bool use_data = d.has_data && (d.data_len || !d.nfloats);
    if (rc == 0 && use_data)
        rc = add_data(s, &d, err);
    if (rc < 0 || !d.nfloats)
        return rc;
    size_t count = d.nfloats;
    uint8_t *floats = stk_arena_alloc(&s->arena, 4 * count);
    if (!floats)
        return stk_err_nomem(err, 4 * count);
    parse(p, n, &d, floats);
    return add_array(s, use_data ? "float_data" : "data", STK_F32, &d, floats, count, err);
}

/* ---- writing ------------------------------------------------------------------------------ */

static void put_number(struct stk_buf *out, unsigned number, uint64_t v)
{
    uint8_t *p = stk_buf_room(out, 1 + STK_WIRE_VARINT_MAX);
    if (!p)
        return;
    uint8_t *end = p;
    *end++ = (uint8_t)(number << 3 | STK_WIRE_VARINT);
    end = stk_wire_put_varint(end, v);
    out->len += (size_t)(end - p);
}

static void put_bytes(struct stk_buf *out, unsigned number, const void *data, size_t n)
{
    uint8_t *p = stk_buf_room(out, 1 + STK_WIRE_VARINT_MAX);
    if (!p)
        return;
    out->len += (size_t)(stk_wire_put_head(p, number, n) - p);
    stk_buf_put(out, data, n);
}

static int refuse(const struct stk_field *f, const char *why, struct stk_err *err)
{
    return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1, "field '%.*s' %s in a Caffe Datum",
                       (int)f->name_len, f->name, why);
}

static int check_shape(const struct stk_field *f, struct stk_err *err)
{
    const struct stk_value *v = &f->value;
    if (v->kind == STK_LIST)
        return refuse(f, "is a list, which does not fit", err);
    if (v->kind != STK_ARRAY)
        return 0;
    if (v->dtype != STK_U8 && v->dtype != STK_F32)
        return refuse(f, "is an array of neither uint8 nor float32, which does not fit", err);
    if (v->ndim > 3)
        return refuse(f, "has more than three dimensions (channel, row, column)", err);
    for (unsigned i = 0; i < v->ndim; i++)
        if (v->dim[i] > INT32_MAX)
            return refuse(f, "is too large", err);
    return 0;
}

/* A plane is one channel; a vector is channels of one pixel, as Caffe shapes features. */
static void put_dims(struct stk_buf *out, const struct stk_value *v)
{
    uint64_t dim[3] = {1, 1, 1};
    if (v->ndim == 1)
        dim[0] = v->dim[0];
    else
        for (unsigned i = 0; i < v->ndim; i++)
            dim[3 - v->ndim + i] = v->dim[i];
    for (unsigned i = 0; i < 3; i++)
        put_number(out, i + 1, dim[i]);
}

static int find_fields(const struct stk_sample *s, const struct stk_field **label,
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
    if (!*label)
        return 0;
    const struct stk_value *v = &(*label)->value;
    double d = v->kind == STK_ARRAY && stk_value_count(v) == 1 ? stk_value_f64(v, 0) : 0.5;
    if (!(d >= INT32_MIN && d <= INT32_MAX) || d != (double)(int32_t)d)
        return refuse(*label, "must be one 32-bit integer", err);
    return 0;
}

static int implode(const struct stk_sample *s, struct stk_buf *out, struct stk_err *err)
{
    const struct stk_field *label, *data;
    int rc = find_fields(s, &label, &data, err);
    if (rc == 0 && data)
        rc = check_shape(data, err);
    if (rc < 0)
        return rc;
    const struct stk_value *v = data ? &data->value : NULL;
    bool array = v && v->kind == STK_ARRAY, floats = array && v->dtype == STK_F32;
    if (array)
        put_dims(out, v);
    if (v && !floats)
        put_bytes(out, 4, v->data, v->size);
    if (label) /* negative numbers are sign-extended to 64 bits on the wire */
        put_number(out, 5, (uint64_t)stk_value_i64(&label->value, 0));
    for (size_t i = 0; floats && i < v->size; i += 4) {
        /* One by one: Caffe's field is not a packed one. */
        uint8_t item[5] = {6 << 3 | STK_WIRE_FIXED32};
        memcpy(item + 1, (const uint8_t *)v->data + i, 4);
        stk_buf_put(out, item, 5);
    }
    if (v && !array)
        put_number(out, 7, 1);
    return stk_buf_check(out, err);
}

const struct stk_codec stk_codec_datum = {
    .name = "datum",
    .title = "Caffe Datum",
    .holds = STK_HOLDS_SHAPES | STK_HOLDS_GAPS,
    .payload = true,
    .bid = bid,
    .explode = explode,
    .implode = implode,
};
