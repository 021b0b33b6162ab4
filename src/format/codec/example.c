/*
 * example.c - tf.train.Example and SequenceExample, the reading half: features to fields.
 *
 * Bytes and packed floats are views into the record; only varints are decoded, into the sample's
 * arena. Duplicate names: the last wins, as in protobuf. example_scan.c parses the wire format;
 * example_write.c is the writing half.
 */
#include "format/codec/example.h"

#include <stdlib.h>

#include "base/text.h"
#include "format/format.h"
#include "format/json/text.h"

/* Guards against records made to blow up in memory: a list item takes 2 bytes stored, 104 here. */
#define MAX_LIST_ITEMS (1u << 20)

struct parse {
    struct stk_sample *s;
    struct stk_err *err;
    struct stk_feature *f, **sorted;
    size_t n, nsorted;
    size_t items; /* of all lists so far */
};

/* ---- features to values ------------------------------------------------------------------- */

static int corrupt(struct parse *c, const char *why)
{
    return stk_err_set(c->err, STK_E_CORRUPT, NULL, -1, "not a tf.train.Example: %s", why);
}

static void *take(struct parse *c, size_t count, size_t each)
{
    size_t n;
    if (__builtin_mul_overflow(count, each, &n)) {
        stk_err_nomem(c->err, UINT64_MAX);
        return NULL;
    }
    void *p = stk_arena_alloc(&c->s->arena, n);
    if (!p)
        stk_err_nomem(c->err, n);
    return p;
}

static struct stk_value *take_items(struct parse *c, size_t count)
{
    if (count > MAX_LIST_ITEMS - c->items) {
        stk_err_set(c->err, STK_E_UNSUPPORTED, NULL, -1,
                    "more than %u byte strings or steps in one sample", MAX_LIST_ITEMS);
        return NULL;
    }
    c->items += count;
    return take(c, count, sizeof(struct stk_value));
}

static struct stk_value bytes_value(const uint8_t *p, size_t n)
{
    return (struct stk_value){.kind = STK_BYTES, .data = p, .size = n};
}

static struct stk_value array_value(enum stk_dtype dtype, const void *p, size_t count)
{
    return (struct stk_value){.kind = STK_ARRAY,
                              .dtype = (uint8_t)dtype,
                              .ndim = 1,
                              .dim = {count},
                              .data = p,
                              .size = count * stk_dtype_size(dtype)};
}

/* Copies all values of a counted feature: bytes views to items, numbers to out. */
static int gather(struct parse *c, const struct stk_feature *f, struct stk_value *items,
                  uint8_t *out)
{
    struct stk_feature_cursor at = stk_feature_cursor(f);
    struct stk_wire_field v;
    bool odd;
    while (stk_feature_next(&at, &v, &odd) > 0) {
        if (f->kind == STK_FEATURE_BYTES) {
            *items++ = bytes_value(v.p, v.len);
        } else if (f->kind == STK_FEATURE_FLOAT) {
            if (v.len)
                memcpy(out, v.p, v.len);
            out += v.len;
        } else {
            struct stk_wire w = stk_wire_of(v.p, v.len);
            for (uint64_t i; w.p < w.end; out += 8) {
                if (!stk_wire_varint(&w, &i))
                    return corrupt(c, "an integer is longer than 10 bytes");
                stk_put_le64(out, i);
            }
        }
    }
    return 0;
}

static int bytes_to_value(struct parse *c, const struct stk_feature *f, struct stk_value *v)
{
    if (f->count == 1) {
        *v = bytes_value(f->run, f->run_len);
        return 0;
    }
    struct stk_value *items = take_items(c, f->count);
    if (!items)
        return c->err->code;
    *v = (struct stk_value){.kind = STK_LIST, .item = items, .nitems = f->count};
    return gather(c, f, items, NULL);
}

static int numbers_to_value(struct parse *c, const struct stk_feature *f, struct stk_value *v)
{
    enum stk_dtype dtype = f->kind == STK_FEATURE_FLOAT ? STK_F32 : STK_I64;
    if (f->kind == STK_FEATURE_FLOAT && f->runs == 1) {
        *v = array_value(dtype, f->run, f->count);
        return 0;
    }
    uint8_t *out = take(c, f->count, stk_dtype_size(dtype));
    if (!out)
        return c->err->code;
    *v = array_value(dtype, out, f->count);
    return gather(c, f, NULL, out);
}

static int feature_to_value(struct parse *c, const struct stk_feature *f, struct stk_value *v)
{
    if (f->kind == STK_FEATURE_BYTES)
        return bytes_to_value(c, f, v);
    if (f->kind != STK_FEATURE_NONE)
        return numbers_to_value(c, f, v);
    *v = (struct stk_value){.kind = STK_LIST}; /* a step without a value */
    return 0;
}

/* Steps that are arrays of one type and width become one array of shape (steps, width). */
static int join_steps(struct parse *c, struct stk_value *v)
{
    const struct stk_value *one = v->item;
    for (size_t i = 0; i < v->nitems; i++)
        if (one[i].kind != STK_ARRAY || one[i].dtype != one->dtype || one[i].size != one->size ||
            !one[i].size)
            return 0;
    if (!v->nitems)
        return 0;
    size_t width = one->size;
    uint8_t *out = take(c, v->nitems, width);
    if (!out)
        return c->err->code;
    for (size_t i = 0; i < v->nitems; i++)
        memcpy(out + i * width, one[i].data, width);
    struct stk_value joined = array_value(one->dtype, out, v->nitems);
    joined.size = v->nitems * width;
    joined.ndim = 2;
    joined.dim[1] = one->dim[0];
    *v = joined;
    return 0;
}

static int steps_to_value(struct parse *c, const struct stk_feature *f, struct stk_value *v)
{
    struct stk_wire w = stk_wire_of(f->body, f->body_len);
    struct stk_wire_field field;
    struct stk_value *item = take_items(c, f->count);
    if (!item)
        return c->err->code;
    *v = (struct stk_value){.kind = STK_LIST, .item = item, .nitems = f->count};
    while (stk_wire_next(&w, &field) > 0) {
        struct stk_feature step = {0};
        bool odd;
        if (field.number != 1)
            continue;
        stk_feature_scan(&step, field.p, field.len, &odd);
        int rc = feature_to_value(c, &step, item++);
        if (rc)
            return rc;
    }
    return join_steps(c, v);
}

static bool text_is(const uint8_t *p, size_t n, const char *text)
{
    return n == strlen(text) && memcmp(p, text, n) == 0;
}

static int make_value(struct parse *c, const struct stk_feature *f, struct stk_value *v)
{
    if (f->kind == STK_FEATURE_STEPS)
        return steps_to_value(c, f, v);
    int rc = feature_to_value(c, f, v);
    if (!rc && f->kind == STK_FEATURE_INT64 && f->count == 1 &&
        text_is((const uint8_t *)f->name, f->name_len, "label"))
        v->ndim = 0;
    return rc;
}

/* ---- companions --------------------------------------------------------------------------- */

static bool is_int(enum stk_dtype t)
{
    return t >= STK_U8 && t <= STK_BOOL && !stk_dtype_is_float(t);
}

/* Stores v as an element of type t. False: it does not fit. */
static bool put_int(uint8_t *to, enum stk_dtype t, int64_t v)
{
    static const struct {
        int64_t low, high;
    } range[] = {
        [STK_U8] = {0, UINT8_MAX},
        [STK_I8] = {INT8_MIN, INT8_MAX},
        [STK_U16] = {0, UINT16_MAX},
        [STK_I16] = {INT16_MIN, INT16_MAX},
        [STK_U32] = {0, UINT32_MAX},
        [STK_I32] = {INT32_MIN, INT32_MAX},
        [STK_U64] = {INT64_MIN, INT64_MAX},
        [STK_I64] = {INT64_MIN, INT64_MAX},
        [STK_BOOL] = {0, 1},
    };
    if (v < range[t].low || v > range[t].high)
        return false;
    uint8_t le[8];
    stk_put_le64(le, (uint64_t)v);
    memcpy(to, le, stk_dtype_size(t));
    return true;
}

/* Converts v to type t if that loses nothing; otherwise leaves it. */
static bool retype(struct parse *c, struct stk_value *v, enum stk_dtype t)
{
    size_t width = stk_dtype_size(t);
    if (v->kind == STK_BYTES && v->size % width == 0) {
        *v = array_value(t, v->data, v->size / width);
        return true;
    }
    if (v->kind == STK_LIST) {
        struct stk_value *item = take_items(c, v->nitems);
        for (size_t i = 0; item && i < v->nitems; i++) {
            item[i] = v->item[i];
            if (item[i].kind == STK_LIST || !retype(c, &item[i], t))
                return false;
        }
        v->item = item ? item : v->item;
        return item;
    }
    if (v->kind != STK_ARRAY || v->dtype != STK_I64 || !is_int(t))
        return false;
    size_t count = v->size / 8;
    uint8_t *out = take(c, count, width);
    for (size_t i = 0; out && i < count; i++)
        if (!put_int(out + i * width, t, (int64_t)stk_le64((const uint8_t *)v->data + 8 * i)))
            return false;
    if (!out)
        return false;
    v->data = out;
    v->size = count * width;
    v->dtype = (uint8_t)t;
    return true;
}

/* The kind JSON is a promise about the bytes that a hostile record may break. */
static bool is_json(const struct stk_value *v)
{
    if (v->kind != STK_BYTES)
        return false;
    struct stk_json_cur c = stk_json_record(v->data, v->size, NULL);
    struct stk_json_leaves leaves = {0};
    stk_json_space(&c);
    return stk_json_walk(&c, 0, &leaves) == 0 && stk_json_end(&c) == 0;
}

static bool is_text(const struct stk_value *v)
{
    const char *p = v->data;
    uint32_t cp;
    for (size_t i = 0, step; v->kind == STK_BYTES && i < v->size; i += step)
        if (!(step = stk_utf8_next(p + i, v->size - i, &cp)))
            return false;
    return v->kind == STK_BYTES;
}

bool stk_dtype_known(const void *p, size_t n)
{
    static const char *const words[] = {"json", "text", "null"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (text_is(p, n, words[i]))
            return true;
    for (int t = STK_U8; t <= STK_BOOL; t++)
        if (text_is(p, n, stk_dtype_name((enum stk_dtype)t)))
            return true;
    return false;
}

static bool apply_dtype(struct parse *c, const struct stk_feature *dtype, struct stk_value *v)
{
    if (text_is(dtype->run, dtype->run_len, "json")) {
        v->kind = is_json(v) ? STK_JSON : v->kind;
        return v->kind == STK_JSON;
    }
    if (text_is(dtype->run, dtype->run_len, "text")) {
        v->kind = is_text(v) ? STK_TEXT : v->kind;
        return v->kind == STK_TEXT;
    }
    if (text_is(dtype->run, dtype->run_len, "null") && v->kind == STK_LIST && !v->nitems) {
        *v = (struct stk_value){.kind = STK_JSON, .data = "null", .size = 4};
        return true;
    }
    for (int t = STK_U8; t <= STK_BOOL; t++) {
        if (text_is(dtype->run, dtype->run_len, stk_dtype_name((enum stk_dtype)t)))
            return retype(c, v, (enum stk_dtype)t);
    }
    return false;
}

static bool apply_shape(struct parse *c, const struct stk_feature *shape, struct stk_value *v)
{
    uint8_t raw[8 * STK_MAX_NDIM];
    uint64_t dim[STK_MAX_NDIM] = {0}, count = 1;
    if (shape->count > STK_MAX_NDIM || gather(c, shape, NULL, raw))
        return false;
    bool empty = false;
    for (size_t i = 0; i < shape->count; i++) {
        dim[i] = stk_le64(raw + 8 * i);
        empty |= dim[i] == 0;
        if (dim[i] > INT64_MAX)
            return false;
    }
    if (v->kind == STK_BYTES && shape->count == 1 && dim[0] == 1) {
        struct stk_value *item = take_items(c, 1);
        if (!item)
            return false;
        *item = *v;
        *v = (struct stk_value){.kind = STK_LIST, .item = item, .nitems = 1};
        return true;
    }
    for (size_t i = 0; i < shape->count && !empty; i++)
        if (__builtin_mul_overflow(count, dim[i], &count))
            return false;
    if (v->kind != STK_ARRAY || (empty ? 0 : count) != stk_value_count(v))
        return false;
    v->ndim = (uint8_t)shape->count;
    memcpy(v->dim, dim, sizeof dim);
    return true;
}

static int by_name(const void *a, const void *b)
{
    const struct stk_feature *x = *(struct stk_feature *const *)a,
                             *y = *(struct stk_feature *const *)b;
    size_t n = x->name_len < y->name_len ? x->name_len : y->name_len;
    int c = n ? memcmp(x->name, y->name, n) : 0;
    return c ? c : (x->name_len > y->name_len) - (x->name_len < y->name_len);
}

/* By name, then by position in the record: the entries are in one array in that order. */
static int by_name_and_place(const void *a, const void *b)
{
    const struct stk_feature *x = *(struct stk_feature *const *)a,
                             *y = *(struct stk_feature *const *)b;
    int c = by_name(a, b);
    return c ? c : (x > y) - (x < y);
}

static struct stk_feature *find(const struct parse *c, const char *name, size_t len)
{
    const struct stk_feature want = {.name = name, .name_len = len}, *key = &want;
    struct stk_feature **hit =
        bsearch(&key, c->sorted, c->nsorted, sizeof(struct stk_feature *), by_name);
    return hit ? *hit : NULL;
}

/* Sorts by name and marks as gone each feature that a later one of the same name overrides. */
static int sort_features(struct parse *c)
{
    c->sorted = take(c, c->n, sizeof(struct stk_feature *));
    if (!c->sorted)
        return c->err->code;
    bool ascending = true;
    for (size_t i = 0; i < c->n; i++) {
        c->sorted[i] = &c->f[i];
        ascending = ascending && (!i || by_name(&c->sorted[i - 1], &c->sorted[i]) < 0);
    }
    c->nsorted = c->n;
    if (ascending)
        return 0;
    qsort(c->sorted, c->n, sizeof *c->sorted, by_name_and_place);
    size_t kept = 0;
    for (size_t i = 0; i < c->n; i++) {
        struct stk_feature *f = c->sorted[i];
        if (kept && by_name(&c->sorted[kept - 1], &f) == 0) {
            struct stk_feature *was = c->sorted[--kept];
            if ((was->kind == STK_FEATURE_STEPS) != (f->kind == STK_FEATURE_STEPS))
                return stk_err_set(c->err, STK_E_UNSUPPORTED, NULL, -1,
                                   "'%.*s' is both in context and in feature_lists",
                                   (int)(f->name_len > 200 ? 200 : f->name_len), f->name);
            was->gone = true;
        }
        c->sorted[kept++] = f;
    }
    c->nsorted = kept;
    return 0;
}

static void take_key(struct parse *c)
{
    struct stk_sample *s = c->s;
    struct stk_feature *f = find(c, "__key__", 7);
    f = f ? f : find(c, "key", 3);
    if (!f || f->kind != STK_FEATURE_BYTES || f->count != 1 || !f->run_len ||
        (f->name_len == 3 && !stk_is_text(f->run, f->run_len)))
        return;
    if (!s->key_len) {
        s->key = (const char *)f->run;
        s->key_len = f->run_len;
    }
    /* The key of the format itself (LMDB) wins; a different one here stays a field. */
    f->gone = s->key_len == f->run_len && memcmp(s->key, f->run, f->run_len) == 0;
}

/* The companion that f could be, by its name and kind: 's', 'd', or 0. */
static char companion_kind(const struct stk_feature *f)
{
    if (f->name_len <= STK_EXAMPLE_SUFFIX_LEN)
        return 0;
    const char *end = f->name + f->name_len - STK_EXAMPLE_SUFFIX_LEN;
    if (f->kind == STK_FEATURE_INT64 && memcmp(end, STK_EXAMPLE_SHAPE, STK_EXAMPLE_SUFFIX_LEN) == 0)
        return 's';
    if (f->kind == STK_FEATURE_BYTES && f->count == 1 &&
        memcmp(end, STK_EXAMPLE_DTYPE, STK_EXAMPLE_SUFFIX_LEN) == 0)
        return 'd';
    return 0;
}

/* Restores shape and dtype of features that have companions. A companion that does not fit (a
 * foreign file with such names) stays a field. */
static int apply_companions(struct parse *c)
{
    bool any = false;
    for (size_t i = 0; i < c->nsorted; i++) {
        struct stk_feature *f = c->sorted[i];
        char kind = companion_kind(f);
        struct stk_feature *base =
            kind ? find(c, f->name, f->name_len - STK_EXAMPLE_SUFFIX_LEN) : NULL;
        if (!base || base->gone || companion_kind(base))
            continue;
        *(kind == 's' ? &base->shape : &base->dtype) = f;
        any = true;
    }
    for (size_t i = 0; any && i < c->nsorted; i++) {
        struct stk_feature *f = c->sorted[i];
        if (!f->shape && !f->dtype)
            continue;
        f->value = take(c, 1, sizeof *f->value);
        int rc = f->value ? make_value(c, f, f->value) : c->err->code;
        if (rc)
            return rc;
        if (f->dtype)
            f->dtype->gone = apply_dtype(c, f->dtype, f->value);
        if (f->shape)
            f->shape->gone = apply_shape(c, f->shape, f->value);
    }
    return 0;
}

/* ---- records to samples ------------------------------------------------------------------- */

static int add_fields(struct parse *c)
{
    for (size_t i = 0; i < c->n; i++) {
        struct stk_feature *f = &c->f[i];
        struct stk_value made;
        bool null = f->value && f->value->kind == STK_JSON;
        if (f->gone || (f->kind == STK_FEATURE_NONE && !null))
            continue;
        int rc = f->value ? 0 : make_value(c, f, &made);
        if (rc)
            return rc;
        if (!stk_sample_add(c->s, f->name, f->name_len, f->value ? f->value : &made))
            return stk_err_nomem(c->err, sizeof(struct stk_field));
    }
    return 0;
}

/* Scans all map entries of the record; with c->f NULL only counts them. */
static int scan_record(struct parse *c, const uint8_t *p, size_t n, bool sequence)
{
    struct stk_wire w = stk_wire_of(p, n);
    struct stk_wire_field part, entry;
    int r;
    c->n = 0;
    while ((r = stk_wire_next(&w, &part)) > 0) {
        if (part.number == 2 && !sequence)
            return stk_err_set(c->err, STK_E_UNSUPPORTED, NULL, -1,
                               "it has feature lists (a SequenceExample: --payload sequence)");
        if (part.number > 2)
            continue;
        if (part.type != STK_WIRE_LEN)
            return corrupt(c, "features is not a message");
        struct stk_wire map = stk_wire_of(part.p, part.len);
        while ((r = stk_wire_next(&map, &entry)) > 0) {
            bool odd;
            if (entry.number != 1 || entry.type != STK_WIRE_LEN)
                continue;
            const char *why = c->f ? stk_feature_scan_entry(&c->f[c->n], entry.p, entry.len,
                                                            part.number == 2, &odd)
                                   : NULL;
            if (why)
                return corrupt(c, why);
            c->n++;
        }
        if (r < 0)
            return corrupt(c, "features are cut off or not a message");
    }
    return r < 0 ? corrupt(c, "the record is cut off or not a message") : 0;
}

static int explode(const uint8_t *p, size_t n, bool sequence, struct stk_sample *s,
                   struct stk_err *err)
{
    struct stk_err local;
    struct parse c = {.s = s, .err = err ? err : &local};
    int rc = scan_record(&c, p, n, sequence);
    if (rc)
        return rc;
    if (c.n > STK_EXAMPLE_MAX_FEATURES)
        return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1, "more than %u features in a record",
                           STK_EXAMPLE_MAX_FEATURES);
    c.f = take(&c, c.n, sizeof *c.f);
    if (!c.f)
        return c.err->code;
    rc = scan_record(&c, p, n, sequence);
    rc = rc ? rc : sort_features(&c);
    if (rc)
        return rc;
    take_key(&c);
    rc = apply_companions(&c);
    return rc ? rc : add_fields(&c);
}

static int example_explode(const char *context, size_t context_len, const uint8_t *p, size_t n,
                           struct stk_sample *s, struct stk_err *err)
{
    (void)context, (void)context_len;
    return explode(p, n, false, s, err);
}

static int sequence_explode(const char *context, size_t context_len, const uint8_t *p, size_t n,
                            struct stk_sample *s, struct stk_err *err)
{
    (void)context, (void)context_len;
    return explode(p, n, true, s, err);
}

const struct stk_codec stk_codec_example = {
    .name = "example",
    .title = "tf.train.Example",
    .holds = STK_HOLDS_NULL | STK_HOLDS_SHAPES | STK_HOLDS_GAPS | STK_HOLDS_KEY,
    .payload = true,
    .bid = stk_example_bid,
    .explode = example_explode,
    .implode = stk_example_implode,
};

const struct stk_codec stk_codec_sequence = {
    .name = "sequence",
    .title = "tf.train.SequenceExample",
    .holds = STK_HOLDS_NULL | STK_HOLDS_SHAPES | STK_HOLDS_GAPS | STK_HOLDS_KEY,
    .payload = true,
    .widens = "example",
    .bid = stk_sequence_bid,
    .explode = sequence_explode,
    .implode = stk_sequence_implode,
};
