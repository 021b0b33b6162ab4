/*
 * example_write.c - tf.train.Example and SequenceExample, the writing half: fields to features.
 *
 * Adds up sizes first, then writes the record in one pass that copies each value once. The type of
 * a field alone determines its kind of list, never its values, so that all records of a dataset
 * have the same schema. Features are sorted by name: same fields, same bytes.
 */
#include "format/codec/example.h"

#include <stdlib.h>
#define MAX_RECORD     INT32_MAX /* the largest message protobuf reads */
#define DTYPE_DIM      0         /* in addition to enum stk_dtype: uint64_t in native byte order */
#define FIRST_ENTRIES  24        /* on the stack; samples with more fields use the heap */
#define NAME_MAX_SHOWN 200

/* A Feature message to write. */
struct part {
    uint8_t kind;  /* enum stk_feature_kind, not STEPS */
    uint8_t dtype; /* numbers: the type of data */
    const uint8_t *data;
    size_t size;                  /* bytes at data */
    const struct stk_value *item; /* BYTES: if not NULL, a list of byte strings instead of data */
    size_t nitems;
};

/* A map entry to write. Steps become parts one by one, when needed. */
struct entry {
    const char *name, *suffix;
    size_t name_len, suffix_len;
    struct part part;
    const struct stk_value *steps; /* NULL, or a LIST or an array with two dimensions or more */
    size_t body;                   /* bytes of the Feature or FeatureList message */
};

struct plan {
    struct entry *e, first[FIRST_ENTRIES];
    size_t n, cap;
    bool sequence;
    struct stk_err *err;
};

/* ---- sizes -------------------------------------------------------------------------------- */

/* Element i of an integer array, sign-extended: the bits that go into an int64 list. */
static inline uint64_t int_at(const uint8_t *p, uint8_t dtype, size_t i)
{
    uint64_t dim;
    switch (dtype) {
    case STK_I64:
    case STK_U64:
        return stk_le64(p + 8 * i);
    case STK_I32:
        return (uint64_t)(int64_t)(int32_t)stk_le32(p + 4 * i);
    case STK_U32:
        return stk_le32(p + 4 * i);
    case STK_I16:
        return (uint64_t)(int64_t)(int16_t)stk_le16(p + 2 * i);
    case STK_U16:
        return stk_le16(p + 2 * i);
    case STK_I8:
        return (uint64_t)(int64_t)(int8_t)p[i];
    case STK_BOOL:
        return p[i] != 0;
    case DTYPE_DIM:
        memcpy(&dim, p + 8 * i, sizeof dim);
        return dim;
    default:
        return p[i];
    }
}

static size_t int_count(const struct part *p)
{
    return p->size / (p->dtype == DTYPE_DIM ? 8 : stk_dtype_size(p->dtype));
}

/* Bytes of a packed run of varints. */
static size_t packed_size(const struct part *p)
{
    size_t n = int_count(p), size = 0;
    for (size_t i = 0; i < n; i++)
        size += stk_wire_varint_size(int_at(p->data, p->dtype, i));
    return size;
}

/* Bytes of the list message within the Feature. */
static size_t list_size(const struct part *p)
{
    size_t size = 0;
    if (p->kind == STK_FEATURE_FLOAT)
        return p->size ? stk_wire_field_size(p->size) : 0;
    if (p->kind == STK_FEATURE_INT64)
        return p->size ? stk_wire_field_size(packed_size(p)) : 0;
    if (p->kind == STK_FEATURE_BYTES && !p->item)
        return stk_wire_field_size(p->size);
    for (size_t i = 0; i < p->nitems; i++)
        size += stk_wire_field_size(p->item[i].size);
    return size;
}

static size_t feature_size(const struct part *p)
{
    return p->kind == STK_FEATURE_NONE ? 0 : stk_wire_field_size(list_size(p));
}

/* ---- kinds of lists --------------------------------------------------------------------- */

/* The list for an array. Small integers are pixels and sound, for which a varint costs up to ten
 * bytes per element: they are written as raw bytes, like types that no list can hold. */
static enum stk_feature_kind array_kind(enum stk_dtype t, bool scalar)
{
    switch (t) {
    case STK_F32:
        return STK_FEATURE_FLOAT;
    case STK_I64:
    case STK_U64:
    case STK_I32:
    case STK_U32:
    case STK_BOOL:
        return STK_FEATURE_INT64;
    case STK_F16:
    case STK_F64:
        return STK_FEATURE_BYTES;
    default:
        return scalar ? STK_FEATURE_INT64 : STK_FEATURE_BYTES;
    }
}

static struct part bytes_part(const void *p, size_t n)
{
    return (struct part){.kind = STK_FEATURE_BYTES, .data = p, .size = n};
}

static struct part array_part(const struct stk_value *v, bool scalar)
{
    return (struct part){.kind = (uint8_t)array_kind(v->dtype, scalar),
                         .dtype = v->dtype,
                         .data = v->data,
                         .size = v->size};
}

static struct part list_part(const struct stk_value *v)
{
    static const struct stk_value none;
    return (struct part){
        .kind = STK_FEATURE_BYTES, .item = v->nitems ? v->item : &none, .nitems = v->nitems};
}

static size_t step_count(const struct stk_value *v)
{
    return v->kind == STK_LIST ? v->nitems : (size_t)v->dim[0];
}

static struct part step_part(const struct stk_value *v, size_t i)
{
    if (v->kind == STK_ARRAY) {
        struct part p = array_part(v, false);
        p.size = v->size / v->dim[0];
        p.data += p.size * i;
        return p;
    }
    const struct stk_value *item = &v->item[i];
    if (item->kind == STK_ARRAY)
        return array_part(item, false);
    if (item->kind == STK_LIST)
        return list_part(item);
    return bytes_part(item->data, item->size);
}

static int refuse(struct plan *pl, const struct stk_field *f, const char *why)
{
    return stk_err_set(pl->err, STK_E_UNSUPPORTED, NULL, -1, "field '%.*s' %s",
                       (int)(f->name_len < NAME_MAX_SHOWN ? f->name_len : NAME_MAX_SHOWN), f->name,
                       why);
}

static bool all_bytes(const struct stk_value *v)
{
    for (size_t i = 0; i < v->nitems; i++)
        if (v->item[i].kind == STK_ARRAY || v->item[i].kind == STK_LIST)
            return false;
    return true;
}

/* ---- the plan ----------------------------------------------------------------------------- */

static struct entry *add_entry(struct plan *pl, const char *name, size_t len, const char *suffix)
{
    /* There is room: plan_open() counts the most that a field can need. */
    struct entry *e = &pl->e[pl->n++];
    e->name = name;
    e->name_len = len;
    e->suffix = suffix;
    e->suffix_len = strlen(suffix);
    e->steps = NULL;
    return e;
}

static void add_part(struct plan *pl, const struct stk_field *f, const char *suffix, struct part p)
{
    struct entry *e = add_entry(pl, f->name, f->name_len, suffix);
    e->part = p;
    e->body = feature_size(&p);
}

static void add_steps(struct plan *pl, const struct stk_field *f)
{
    struct entry *e = add_entry(pl, f->name, f->name_len, "");
    e->steps = &f->value;
    e->body = 0;
    for (size_t i = 0; i < step_count(&f->value); i++) {
        struct part p = step_part(&f->value, i);
        e->body += stk_wire_field_size(feature_size(&p));
    }
}

static void add_dtype(struct plan *pl, const struct stk_field *f, const char *dtype)
{
    add_part(pl, f, STK_EXAMPLE_DTYPE, bytes_part(dtype, strlen(dtype)));
}

static void add_shape(struct plan *pl, const struct stk_field *f, const uint64_t *dim, size_t ndim)
{
    add_part(pl, f, STK_EXAMPLE_SHAPE,
             (struct part){.kind = STK_FEATURE_INT64,
                           .dtype = DTYPE_DIM,
                           .data = (const uint8_t *)dim,
                           .size = ndim * sizeof *dim});
}

static void plan_array(struct plan *pl, const struct stk_field *f)
{
    const struct stk_value *v = &f->value;
    bool native = v->dtype == STK_F32 || v->dtype == STK_I64;
    bool label = f->name_len == 5 && memcmp(f->name, "label", 5) == 0;
    if (!native)
        add_dtype(pl, f, stk_dtype_name(v->dtype));
    if (pl->sequence && native && v->ndim >= 2 && v->size) {
        add_steps(pl, f);
        if (v->ndim > 2)
            add_shape(pl, f, v->dim, v->ndim);
        return;
    }
    struct part p = array_part(v, v->ndim == 0);
    add_part(pl, f, "", p);
    /* What the reader assumes: one dimension; for a single int64 label, none. */
    bool granted = label && p.kind == STK_FEATURE_INT64 && stk_value_count(v) == 1 ? v->ndim == 0
                                                                                   : v->ndim == 1;
    if (!granted)
        add_shape(pl, f, v->dim, v->ndim);
}

/* A list in a SequenceExample. All its arrays share one NAME/dtype. */
static int plan_steps(struct plan *pl, const struct stk_field *f)
{
    const struct stk_value *v = &f->value;
    bool native = true;
    for (size_t i = 0; i < v->nitems; i++) {
        const struct stk_value *item = &v->item[i];
        if (item->kind == STK_LIST && !all_bytes(item))
            return refuse(pl, f, "is a list of lists of arrays: no feature list can hold it");
        if (item->kind != STK_ARRAY)
            continue;
        if (item->ndim > 1)
            return refuse(pl, f,
                          "is a list of arrays of several dimensions: their shapes would "
                          "be lost in a feature list");
        native = native && (item->dtype == STK_F32 || item->dtype == STK_I64);
    }
    for (size_t i = 0; !native && i < v->nitems; i++)
        if (v->item[i].kind != STK_ARRAY || v->item[i].dtype != v->item[0].dtype)
            return refuse(pl, f,
                          "is a list of values of different types: no feature list can "
                          "hold it");
    if (!native)
        add_dtype(pl, f, stk_dtype_name(v->item[0].dtype));
    add_steps(pl, f);
    return 0;
}

static int plan_field(struct plan *pl, const struct stk_field *f)
{
    static const uint64_t one = 1;
    const struct stk_value *v = &f->value;
    if (!f->name_len)
        return refuse(pl, f, "has an empty name, which has no place in a tf.train.Example");
    if (f->name_len == 7 && memcmp(f->name, "__key__", 7) == 0)
        return refuse(pl, f, "has the name of the feature that holds the key of a sample");
    if (!stk_is_text((const uint8_t *)f->name, f->name_len))
        return refuse(pl, f, "has a name that is not UTF-8: no feature can have it");
    switch (v->kind) {
    case STK_ARRAY:
        plan_array(pl, f);
        return 0;
    case STK_LIST:
        if (pl->sequence)
            return plan_steps(pl, f);
        if (!all_bytes(v))
            return refuse(pl, f,
                          "is a list of arrays or of lists: a tf.train.Example cannot "
                          "hold it (--payload sequence can)");
        add_part(pl, f, "", list_part(v));
        if (v->nitems == 1) /* distinguishes it from plain bytes */
            add_shape(pl, f, &one, 1);
        return 0;
    case STK_JSON:
        if (v->size == 4 && memcmp(v->data, "null", 4) == 0) {
            add_dtype(pl, f, "null");
            add_part(pl, f, "", (struct part){.kind = STK_FEATURE_NONE});
            return 0;
        }
        add_dtype(pl, f, "json");
        break;
    case STK_TEXT:
        add_dtype(pl, f, "text");
        break;
    default:
        break;
    }
    add_part(pl, f, "", bytes_part(v->data, v->size));
    return 0;
}

/* Byte i of the name with its suffix. */
static int name_byte(const struct entry *e, size_t i)
{
    return (uint8_t)(i < e->name_len ? e->name[i] : e->suffix[i - e->name_len]);
}

static int name_order(const struct entry *a, const struct entry *b)
{
    size_t na = a->name_len + a->suffix_len, nb = b->name_len + b->suffix_len;
    size_t same = a->name_len < b->name_len ? a->name_len : b->name_len;
    int c = same ? memcmp(a->name, b->name, same) : 0;
    for (size_t i = same; !c && i < na && i < nb; i++)
        c = name_byte(a, i) - name_byte(b, i);
    return c ? c : (na > nb) - (na < nb);
}

/* Context before feature lists, then by the bytes of the name. */
static int entry_order(const void *x, const void *y)
{
    const struct entry *a = x, *b = y;
    if (!a->steps != !b->steps)
        return a->steps ? 1 : -1;
    return name_order(a, b);
}

static void sort_entries(struct plan *pl)
{
    if (pl->n > FIRST_ENTRIES) {
        qsort(pl->e, pl->n, sizeof *pl->e, entry_order);
        return;
    }
    for (size_t i = 1; i < pl->n; i++) {
        struct entry e = pl->e[i];
        size_t at = i;
        for (; at && entry_order(&pl->e[at - 1], &e) > 0; at--)
            pl->e[at] = pl->e[at - 1];
        pl->e[at] = e;
    }
}

static int plan_open(struct plan *pl, const struct stk_sample *s)
{
    pl->e = pl->first;
    pl->cap = 3 * s->nfields + 1; /* a value, its shape and its dtype; the key */
    if (pl->cap <= FIRST_ENTRIES)
        return 0;
    pl->e = malloc(pl->cap * sizeof *pl->e);
    return pl->e ? 0 : stk_err_nomem(pl->err, pl->cap * sizeof *pl->e);
}

static void plan_close(struct plan *pl)
{
    if (pl->e != pl->first)
        free(pl->e);
}

static int twins(struct plan *pl, const struct entry *e)
{
    return stk_err_set(
        pl->err, STK_E_UNSUPPORTED, NULL, -1, "two features would have the name '%.*s%s'",
        (int)(e->name_len < NAME_MAX_SHOWN ? e->name_len : NAME_MAX_SHOWN), e->name, e->suffix);
}

/* Names must be unique across context and feature lists: both become fields of one sample. */
static int refuse_twins(struct plan *pl)
{
    size_t lists = 0;
    while (lists < pl->n && !pl->e[lists].steps)
        lists++;
    for (size_t i = 1; i < pl->n; i++)
        if (i != lists && name_order(&pl->e[i - 1], &pl->e[i]) == 0)
            return twins(pl, &pl->e[i]);
    for (size_t c = 0, l = lists; c < lists && l < pl->n;) {
        int order = name_order(&pl->e[c], &pl->e[l]);
        if (order == 0)
            return twins(pl, &pl->e[l]);
        c += order < 0;
        l += order > 0;
    }
    return 0;
}

static bool ends_in(const struct stk_field *f, const char *suffix)
{
    return f->name_len > STK_EXAMPLE_SUFFIX_LEN &&
           memcmp(f->name + f->name_len - STK_EXAMPLE_SUFFIX_LEN, suffix, STK_EXAMPLE_SUFFIX_LEN) ==
               0;
}

/* True if the dimensions in v fit the field `base`, so that the reader would accept them. */
static bool is_shape_of(const struct stk_value *v, const struct stk_value *base)
{
    uint64_t n = stk_value_count(v), count = 1;
    if (v->kind != STK_ARRAY || n > STK_MAX_NDIM ||
        array_kind(v->dtype, v->ndim == 0) != STK_FEATURE_INT64)
        return false;
    for (uint64_t i = 0; i < n; i++)
        if (__builtin_mul_overflow(count, (uint64_t)stk_value_i64(v, i), &count))
            return false;
    return base->kind == STK_ARRAY ? count == stk_value_count(base) : n == 1 && count == 1;
}

/* True if the feature of a field has the kind of a companion (example.c: companion_kind). */
static bool has_kind_of_companion(const struct plan *pl, size_t first, bool shape)
{
    for (size_t i = first; i < pl->n; i++) {
        const struct entry *e = &pl->e[i];
        bool one = !e->part.item || e->part.nitems == 1;
        if (!e->suffix_len && !e->steps)
            return shape ? e->part.kind == STK_FEATURE_INT64
                         : e->part.kind == STK_FEATURE_BYTES && one;
    }
    return false;
}

/* Refuses a field with the name of a companion that the reader would take for one, or that would
 * need companions itself, which the reader would not look for. Its entries begin at `first`. */
static int refuse_companion(struct plan *pl, const struct stk_sample *s, const struct stk_field *f,
                            size_t first)
{
    bool shape = ends_in(f, STK_EXAMPLE_SHAPE), dtype = ends_in(f, STK_EXAMPLE_DTYPE);
    size_t len = f->name_len - STK_EXAMPLE_SUFFIX_LEN, entries = pl->n - first;
    const struct stk_field *base = NULL;
    for (size_t i = 0; (shape || dtype) && i < s->nfields; i++)
        if (s->field[i].name_len == len && memcmp(s->field[i].name, f->name, len) == 0)
            base = &s->field[i];
    if (entries > 1 &&
        (base || ((shape || dtype) && has_kind_of_companion(pl, first, shape))))
        return refuse(pl, f,
                      "has a name that denotes the shape or type of another field, and a type "
                      "that an Example cannot record");
    if (!base)
        return 0;
    bool bytes = f->value.kind == STK_BYTES;
    if (shape ? is_shape_of(&f->value, &base->value)
              : bytes && stk_dtype_known(f->value.data, f->value.size))
        return refuse(pl, f, "would be taken for the shape or type of another field");
    return 0;
}

static int make_plan(struct plan *pl, const struct stk_sample *s)
{
    for (size_t i = 0; i < s->nfields; i++) {
        size_t before = pl->n;
        int rc = plan_field(pl, &s->field[i]);
        if (!rc)
            rc = refuse_companion(pl, s, &s->field[i], before);
        if (rc)
            return rc;
    }
    if (s->key_len) {
        /* A field named "key" keeps its name; the reader then uses only __key__, which may be bytes
         * that are not text. */
        bool taken = stk_sample_find(s, "key") || !stk_is_text((const uint8_t *)s->key, s->key_len);
        const struct stk_field key = {.name = taken ? "__key__" : "key", .name_len = taken ? 7 : 3};
        add_part(pl, &key, "", bytes_part(s->key, s->key_len));
    }
    sort_entries(pl);
    return refuse_twins(pl);
}

/* ---- writing ------------------------------------------------------------------------------ */

static uint8_t *put_bytes(uint8_t *to, const void *p, size_t n)
{
    if (n)
        memcpy(to, p, n);
    return to + n;
}

static uint8_t *put_feature(uint8_t *to, const struct part *p)
{
    if (p->kind == STK_FEATURE_NONE)
        return to;
    to = stk_wire_put_head(to, p->kind, list_size(p));
    if (p->kind == STK_FEATURE_BYTES && p->item) {
        for (size_t i = 0; i < p->nitems; i++) {
            to = stk_wire_put_head(to, 1, p->item[i].size);
            to = put_bytes(to, p->item[i].data, p->item[i].size);
        }
    } else if (p->kind == STK_FEATURE_INT64 && p->size) {
        to = stk_wire_put_head(to, 1, packed_size(p));
        for (size_t i = 0, n = int_count(p); i < n; i++)
            to = stk_wire_put_varint(to, int_at(p->data, p->dtype, i));
    } else if (p->kind == STK_FEATURE_BYTES || p->size) {
        to = stk_wire_put_head(to, 1, p->size);
        to = put_bytes(to, p->data, p->size);
    }
    return to;
}

static size_t entry_size(const struct entry *e)
{
    return stk_wire_field_size(e->name_len + e->suffix_len) + stk_wire_field_size(e->body);
}

static uint8_t *put_entry(uint8_t *to, const struct entry *e)
{
    to = stk_wire_put_head(to, 1, entry_size(e));
    to = stk_wire_put_head(to, 1, e->name_len + e->suffix_len);
    to = put_bytes(to, e->name, e->name_len);
    to = put_bytes(to, e->suffix, e->suffix_len);
    to = stk_wire_put_head(to, 2, e->body);
    if (!e->steps)
        return put_feature(to, &e->part);
    for (size_t i = 0; i < step_count(e->steps); i++) {
        struct part p = step_part(e->steps, i);
        to = stk_wire_put_head(to, 1, feature_size(&p));
        to = put_feature(to, &p);
    }
    return to;
}

static int write_plan(struct plan *pl, struct stk_buf *out)
{
    size_t size[2] = {0}; /* context, feature lists */
    for (size_t i = 0; i < pl->n; i++)
        size[pl->e[i].steps != NULL] += stk_wire_field_size(entry_size(&pl->e[i]));
    size_t total = stk_wire_field_size(size[0]);
    if (pl->sequence)
        total += stk_wire_field_size(size[1]);
    if (total > MAX_RECORD)
        return stk_err_set(pl->err, STK_E_UNSUPPORTED, NULL, -1,
                           "the sample takes %zu bytes; protobuf holds less than 2 GiB", total);
    uint8_t *to = stk_buf_extend(out, total);
    if (!to)
        return stk_buf_check(out, pl->err);
    size_t i = 0;
    to = stk_wire_put_head(to, 1, size[0]);
    for (; i < pl->n && !pl->e[i].steps; i++)
        to = put_entry(to, &pl->e[i]);
    /* Even if empty: it distinguishes a SequenceExample from an Example. */
    if (pl->sequence)
        to = stk_wire_put_head(to, 2, size[1]);
    for (; i < pl->n; i++)
        to = put_entry(to, &pl->e[i]);
    return 0;
}

static int implode(const struct stk_sample *s, bool sequence, struct stk_buf *out,
                   struct stk_err *err)
{
    struct plan pl;
    pl.n = 0;
    pl.sequence = sequence;
    pl.err = err;
    int rc = plan_open(&pl, s);
    if (rc)
        return rc;
    rc = make_plan(&pl, s);
    if (!rc)
        rc = write_plan(&pl, out);
    plan_close(&pl);
    return rc;
}

int stk_example_implode(const struct stk_sample *s, struct stk_buf *out, struct stk_err *err)
{
    return implode(s, false, out, err);
}

int stk_sequence_implode(const struct stk_sample *s, struct stk_buf *out, struct stk_err *err)
{
    return implode(s, true, out, err);
}
