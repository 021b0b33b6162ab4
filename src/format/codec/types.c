/* types.c - one type per field: noting, settling, converting. */
#include "format/codec/types.h"
#include "base/buf.h"
#include "base/hash.h"
#include "format/json/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define NAMES_MAX (1u << 16)

/* Kinds distinguished; below them are the types of arrays (enum stk_dtype). */
enum { K_BYTES = 13, K_TEXT, K_JSON, K_NULL, K_EMPTY, K_LIST };
#define BIT(k) (1u << (k))
#define INTS                                                                                       \
    (BIT(STK_U8) | BIT(STK_I8) | BIT(STK_U16) | BIT(STK_I16) | BIT(STK_U32) | BIT(STK_I32) |       \
     BIT(STK_U64) | BIT(STK_I64))
#define FLOATS  (BIT(STK_F16) | BIT(STK_F32) | BIT(STK_F64))
#define NUMBERS (INTS | FLOATS)

enum { AS_IT_IS, AS_NUMBERS, AS_JSON, AS_BYTES, AS_LIST };

/* ---- the table ---------------------------------------------------------------------------- */

void stk_types_release(struct stk_types *t)
{
    for (size_t i = 0; i < t->ntypes; i++)
        free(t->type[i].name);
    free(t->type);
    free(t->slot);
    *t = (struct stk_types){0};
}

static bool is_named(const struct stk_type *y, const char *name, size_t len)
{
    return y->name_len == len && memcmp(y->name, name, len) == 0;
}

static uint32_t *slot_of(const struct stk_types *t, const char *name, size_t len)
{
    for (size_t i = stk_hash64(name, len) & (t->nslots - 1);; i = (i + 1) & (t->nslots - 1))
        if (!t->slot[i] || is_named(&t->type[t->slot[i] - 1], name, len))
            return &t->slot[i];
}

/* guess: its index in most samples. */
static struct stk_type *find(const struct stk_types *t, const char *name, size_t len, size_t guess)
{
    if (guess < t->ntypes && is_named(&t->type[guess], name, len))
        return &t->type[guess];
    uint32_t *slot = t->nslots ? slot_of(t, name, len) : NULL;
    return slot && *slot ? &t->type[*slot - 1] : NULL;
}

static int grow_slots(struct stk_types *t, struct stk_err *err)
{
    size_t n = t->nslots ? t->nslots * 2 : 64;
    uint32_t *slot = calloc(n, sizeof *slot);
    if (!slot)
        return stk_err_nomem(err, n * sizeof *slot);
    free(t->slot);
    t->slot = slot;
    t->nslots = n;
    for (size_t i = 0; i < t->ntypes; i++)
        *slot_of(t, t->type[i].name, t->type[i].name_len) = (uint32_t)i + 1;
    return 0;
}

/* *out: NULL if there are too many. */
static int add(struct stk_types *t, const char *name, size_t len, struct stk_type **out,
               struct stk_err *err)
{
    *out = NULL;
    if (t->ntypes == NAMES_MAX) {
        t->crowded = true;
        return 0;
    }
    if (t->ntypes * 2 >= t->nslots && grow_slots(t, err) < 0)
        return STK_E_NOMEM;
    if (STK_ARRAY_ROOM(t->type, t->cap, t->ntypes + 1, err))
        return STK_E_NOMEM;
    struct stk_type *y = &t->type[t->ntypes];
    *y = (struct stk_type){.name = malloc(len + 1), .name_len = len};
    if (!y->name)
        return stk_err_nomem(err, len + 1);
    memcpy(y->name, name, len);
    y->name[len] = '\0';
    for (size_t i = 0; i < STK_TYPES_SEEN; i++)
        y->first[i] = UINT64_MAX;
    y->shape_at = y->other_at = UINT64_MAX;
    *slot_of(t, name, len) = (uint32_t)++t->ntypes;
    *out = y;
    return 0;
}

/* ---- noting ------------------------------------------------------------------------------- */

static bool json_is(const struct stk_value *v, const char *word)
{
    const char *p = v->data;
    size_t n = v->size;
    while (n && memchr(" \t\r\n", *p, 4)) {
        p++;
        n--;
    }
    while (n && memchr(" \t\r\n", p[n - 1], 4))
        n--;
    return n == strlen(word) && memcmp(p, word, n) == 0;
}

static unsigned kind_of(const struct stk_value *v)
{
    switch (v->kind) {
    case STK_ARRAY:
        return v->dtype;
    case STK_TEXT:
        return K_TEXT;
    case STK_JSON:
        return json_is(v, "null") ? K_NULL : json_is(v, "[]") ? K_EMPTY : K_JSON;
    case STK_LIST:
        return K_LIST;
    default:
        return K_BYTES;
    }
}

/* Integers of up to 32 bits are bounded by their type. */
static void note_range(struct stk_type *y, const struct stk_value *v)
{
    bool wide = v->dtype == STK_I64 || v->dtype == STK_U64;
    for (uint64_t i = 0, n = v->size / 8; wide && i < n; i++) {
        int64_t number = stk_value_i64(v, i);
        uint64_t size = number < 0 && v->dtype == STK_I64 ? 0 - (uint64_t)number : (uint64_t)number;
        y->largest = size > y->largest ? size : y->largest;
    }
    for (uint64_t i = 0, n = stk_dtype_is_float(v->dtype) && !y->nonfinite ? stk_value_count(v) : 0;
         i < n && i < v->size; i++)
        y->nonfinite |= !isfinite(stk_value_f64(v, i));
}

/* Compares the shape of the array in sample `at` with the first. */
static void note_shape(struct stk_type *y, unsigned ndim, const uint64_t *dim, uint64_t at)
{
    if (y->shape_at == UINT64_MAX) {
        y->shape_at = at;
        y->ndim = (uint8_t)ndim;
        memcpy(y->dim, dim, sizeof y->dim);
        return;
    }
    size_t tail = ndim > 1 ? (ndim - 1) * sizeof *dim : 0;
    bool differs = ndim != y->ndim || memcmp(dim, y->dim, ndim * sizeof *dim) != 0;
    y->tails_differ |= ndim != y->ndim || (tail && memcmp(dim + 1, y->dim + 1, tail) != 0);
    if (!differs || (y->shapes_differ && y->other_at <= at))
        return;
    y->shapes_differ = true;
    y->other_at = at;
    y->other_ndim = (uint8_t)ndim;
    memcpy(y->other_dim, dim, sizeof y->other_dim);
}

static void note_value(struct stk_type *y, const struct stk_value *v, uint64_t at)
{
    unsigned kind = kind_of(v);
    y->samples++;
    y->seen |= BIT(kind);
    if (at < y->first[kind])
        y->first[kind] = at;
    y->empty_text |= v->kind == STK_TEXT && !v->size;
    if (v->kind == STK_ARRAY) {
        note_range(y, v);
        note_shape(y, v->ndim, v->dim, at);
    }
}

int stk_types_note(struct stk_types *t, const struct stk_sample *s, uint64_t at,
                   struct stk_err *err)
{
    t->samples++;
    for (size_t i = 0; i < s->nfields; i++) {
        const struct stk_field *f = &s->field[i];
        struct stk_type *y = find(t, f->name, f->name_len, i);
        int rc = y ? 0 : add(t, f->name, f->name_len, &y, err);
        if (rc < 0)
            return rc;
        if (y)
            note_value(y, &f->value, at);
    }
    return 0;
}

static void join(struct stk_type *y, const struct stk_type *from)
{
    y->seen |= from->seen;
    y->samples += from->samples;
    y->largest = from->largest > y->largest ? from->largest : y->largest;
    y->nonfinite |= from->nonfinite;
    y->empty_text |= from->empty_text;
    y->tails_differ |= from->tails_differ;
    for (size_t i = 0; i < STK_TYPES_SEEN; i++)
        y->first[i] = from->first[i] < y->first[i] ? from->first[i] : y->first[i];
    if (from->shape_at != UINT64_MAX)
        note_shape(y, from->ndim, from->dim, from->shape_at);
    if (from->shapes_differ)
        note_shape(y, from->other_ndim, from->other_dim, from->other_at);
}

int stk_types_merge(struct stk_types *t, const struct stk_types *from, struct stk_err *err)
{
    int rc = 0;
    t->samples += from->samples;
    t->crowded |= from->crowded;
    for (size_t i = 0; rc == 0 && i < from->ntypes; i++) {
        const struct stk_type *f = &from->type[i];
        struct stk_type *y = find(t, f->name, f->name_len, i);
        rc = y ? 0 : add(t, f->name, f->name_len, &y, err);
        if (rc == 0 && y)
            join(y, f);
    }
    return rc;
}

/* ---- settling ----------------------------------------------------------------------------- */

struct settling {
    const struct stk_types_target *to;
    struct stk_err *err;
};

static const char *kind_name(unsigned kind)
{
    static const char *const names[] = {"bytes", "text",           "json",
                                        "null",  "an empty array", "a list"};
    return kind < K_BYTES ? stk_dtype_name((enum stk_dtype)kind) : names[kind - K_BYTES];
}

static int clash(const struct settling *g, struct stk_type *y, unsigned a, unsigned b,
                 const char *why)
{
    char one[240], other[240];
    if (y->first[a] > y->first[b]) {
        unsigned swap = a;
        a = b;
        b = swap;
    }
    if (g->to->lenient) {
        y->only = BIT(a) & NUMBERS && !(BIT(b) & NUMBERS) ? NUMBERS : BIT(a);
        return 0;
    }
    g->to->name(g->to->user, y->first[a], one, sizeof one);
    g->to->name(g->to->user, y->first[b], other, sizeof other);
    return stk_err_set(g->err, STK_E_UNSUPPORTED, NULL, -1,
                       "field '%.200s' is %s in %s and %s in %s: %s", y->name, kind_name(a), one,
                       kind_name(b), other, why);
}

static unsigned lowest(uint32_t bits)
{
    return (unsigned)__builtin_ctz(bits);
}

/* The smallest type for integers of all these types; 0: none. */
static uint8_t int_type(uint32_t seen, uint64_t largest)
{
    static const uint8_t signed_of[] = {STK_I8, STK_I16, STK_I32, STK_I64};
    static const uint8_t unsigned_of[] = {STK_U8, STK_U16, STK_U32, STK_U64};
    int s = -1, u = -1; /* widest of each */
    for (int k = 0; k < 4; k++) {
        s = seen & BIT(signed_of[k]) ? k : s;
        u = seen & BIT(unsigned_of[k]) ? k : u;
    }
    if (s < 0)
        return unsigned_of[u];
    int need = u >= s ? u + 1 : s;
    if (need > 3)
        return largest <= INT64_MAX ? STK_I64 : 0;
    return signed_of[need];
}

/* The smallest float that holds all of these integers and floats exactly; 0: none. */
static uint8_t float_type(uint32_t seen, uint64_t largest)
{
    uint32_t ints = seen & INTS;
    bool wide = ints & (BIT(STK_I64) | BIT(STK_U64));
    uint64_t most = ints & (BIT(STK_I32) | BIT(STK_U32)) ? 1ull << 32 : 1u << 16;
    if (wide && !(ints & (BIT(STK_I32) | BIT(STK_U32))))
        most = largest > (1u << 16) ? largest : 1u << 16;
    else if (wide)
        most = largest > most ? largest : most;
    if (!ints)
        return seen & BIT(STK_F64) ? STK_F64 : seen & BIT(STK_F32) ? STK_F32 : STK_F16;
    if (most <= 1u << 24 && !(seen & BIT(STK_F64)))
        return STK_F32;
    return most <= 1ull << 53 ? STK_F64 : 0;
}

static int settle_numbers(const struct settling *g, struct stk_type *y)
{
    uint32_t seen = y->seen & NUMBERS;
    if (!(seen & (seen - 1)) || (y->seen & BIT(STK_BOOL))) {
        y->dtype = (uint8_t)lowest(seen ? seen : (uint32_t)BIT(STK_BOOL));
        return 0;
    }
    y->dtype = seen & FLOATS ? float_type(seen, y->largest) : int_type(seen, y->largest);
    if (y->dtype) {
        y->as = AS_NUMBERS;
        return 0;
    }
    uint32_t a = seen & FLOATS ? seen & INTS : seen & BIT(STK_U64), b = seen & ~a;
    return clash(g, y, lowest(a), lowest(b), "no type of numbers holds both without loss");
}

/* Determines the type, ignoring null. */
static int settle_kind(const struct settling *g, struct stk_type *y)
{
    const char *one = "a field has one type in a dataset";
    uint32_t seen = y->seen & ~BIT(K_NULL), arrays = NUMBERS | BIT(STK_BOOL);
    uint32_t sayable = arrays | BIT(K_TEXT) | BIT(K_JSON) | BIT(K_EMPTY);
    if (!seen || !(seen & (seen - 1)))
        return 0;
    if (!(seen & ~NUMBERS))
        return settle_numbers(g, y);
    if (seen == (BIT(K_TEXT) | BIT(K_BYTES))) {
        y->as = AS_BYTES;
        return 0;
    }
    if (seen == (BIT(K_LIST) | BIT(K_BYTES))) {
        y->as = AS_LIST;
        return 0;
    }
    if ((seen & BIT(K_LIST)) && !(seen & ~(arrays | BIT(K_LIST))))
        return 0; /* steps of one width, and of several: a feature list is both */
    bool one_array = !(seen & BIT(STK_BOOL)) || !(seen & NUMBERS);
    if ((seen & BIT(K_EMPTY)) && !(seen & ~(arrays | BIT(K_EMPTY))) && one_array && y->ndim &&
        !y->tails_differ && (g->to->holds & STK_HOLDS_SHAPES)) {
        int rc = settle_numbers(g, y);
        y->as = AS_NUMBERS;
        return rc;
    }
    if ((seen & (BIT(K_JSON) | BIT(K_EMPTY))) && !(seen & ~sayable)) {
        if (y->nonfinite)
            return clash(g, y, lowest(seen & FLOATS), lowest(seen & ~arrays),
                         "JSON would hold both, but not nan and infinities");
        y->as = AS_JSON;
        return 0;
    }
    /* Report the first two that conflict. */
    unsigned a = lowest(seen), b = lowest(seen & (seen - 1));
    for (unsigned k = 0; k < STK_TYPES_SEEN; k++)
        if ((seen & BIT(k)) && y->first[k] < y->first[a])
            a = k;
    uint32_t like_a = BIT(a) & NUMBERS ? NUMBERS : BIT(a);
    b = a == b ? lowest(seen & ~BIT(a)) : b;
    for (unsigned k = 0; k < STK_TYPES_SEEN; k++)
        if ((seen & BIT(k) & ~like_a) && ((BIT(b) & like_a) || y->first[k] < y->first[b]))
            b = k;
    return clash(g, y, a, b, one);
}

static int settle_null(const struct settling *g, struct stk_type *y)
{
    uint32_t others = y->seen & ~BIT(K_NULL);
    bool null = y->seen & BIT(K_NULL),
         cells = !(g->to->holds & (STK_HOLDS_GAPS | STK_HOLDS_SHAPES));
    char why[160];
    if (!null || !others || y->as == AS_JSON || others == BIT(K_JSON))
        return 0;
    if (g->to->holds & STK_HOLDS_NULL) {
        if (cells && y->ndim && (others & (NUMBERS | BIT(STK_BOOL))))
            return clash(g, y, lowest(others), K_NULL, "no cell can express a missing array");
        if (cells && y->empty_text && (others & BIT(K_TEXT)))
            return clash(g, y, K_TEXT, K_NULL,
                         "there is empty text, too, and both would be an empty cell");
        return 0;
    }
    if (others == BIT(K_TEXT)) {
        y->as = AS_JSON;
        return 0;
    }
    snprintf(why, sizeof why, "%s has no null", g->to->title);
    return clash(g, y, lowest(others), K_NULL, why);
}

static int settle_gaps(const struct settling *g, struct stk_type *y, uint64_t samples)
{
    char one[240];
    uint64_t first = UINT64_MAX;
    if (y->samples == samples || (g->to->holds & STK_HOLDS_GAPS))
        return 0;
    if (g->to->holds & STK_HOLDS_NULL) {
        y->fill = true;
        y->seen |= BIT(K_NULL);
        y->first[K_NULL] = y->first[K_NULL] == UINT64_MAX ? 0 : y->first[K_NULL];
        return 0;
    }
    if (g->to->lenient)
        return 0;
    for (size_t i = 0; i < STK_TYPES_SEEN; i++)
        first = y->first[i] < first ? y->first[i] : first;
    g->to->name(g->to->user, first, one, sizeof one);
    return stk_err_set(
        g->err, STK_E_UNSUPPORTED, NULL, -1,
        "field '%.200s' is in %llu of %llu samples (first in %s): in %s all samples must have the "
        "same fields",
        y->name, (unsigned long long)y->samples, (unsigned long long)samples, one, g->to->title);
}

static void shape_text(char *to, size_t n, unsigned ndim, const uint64_t *dim)
{
    int at = snprintf(to, n, "(");
    for (unsigned i = 0; i < ndim && (size_t)at < n; i++)
        at += snprintf(to + at, n - (size_t)at, i ? ", %llu" : "%llu", (unsigned long long)dim[i]);
    if ((size_t)at < n)
        snprintf(to + at, n - (size_t)at, ")");
}

static int settle_shapes(const struct settling *g, const struct stk_type *y)
{
    char one[240], other[240], a[200], b[200];
    if (!y->shapes_differ || (g->to->holds & STK_HOLDS_SHAPES) || y->as == AS_JSON ||
        g->to->lenient)
        return 0;
    g->to->name(g->to->user, y->shape_at, one, sizeof one);
    g->to->name(g->to->user, y->other_at, other, sizeof other);
    shape_text(a, sizeof a, y->ndim, y->dim);
    shape_text(b, sizeof b, y->other_ndim, y->other_dim);
    enum stk_dtype t = y->dtype ? (enum stk_dtype)y->dtype : (enum stk_dtype)lowest(y->seen);
    return stk_err_set(g->err, STK_E_UNSUPPORTED, NULL, -1,
                       "%s: field '%.200s' is %s %s here but %s %s in %s; in %s all must be alike",
                       other, y->name, stk_dtype_name(t), b, stk_dtype_name(t), a, one,
                       g->to->title);
}

int stk_types_settle(struct stk_types *t, const struct stk_types_target *target,
                     struct stk_err *err)
{
    const struct settling g = {target, err};
    const unsigned holds = target->holds;
    int rc = 0;
    if (t->crowded && !(holds & STK_HOLDS_ANY))
        return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1,
                           "more than %u different fields in the dataset", NAMES_MAX);
    for (size_t i = 0; rc == 0 && i < t->ntypes; i++) {
        struct stk_type *y = &t->type[i];
        if (holds & STK_HOLDS_ANY) { /* only numbers are unified, if possible */
            uint32_t numbers = y->seen & NUMBERS;
            y->dtype = (numbers & INTS) && (numbers & FLOATS) ? float_type(numbers, y->largest) : 0;
            y->as = y->dtype ? AS_NUMBERS : AS_IT_IS;
        } else {
            rc = settle_gaps(&g, y, t->samples);
            rc = rc < 0 ? rc : settle_kind(&g, y);
            rc = rc < 0 ? rc : settle_null(&g, y);
            rc = rc < 0 ? rc : settle_shapes(&g, y);
        }
        t->active |= y->as != AS_IT_IS || y->fill || y->only;
    }
    return rc;
}

const struct stk_type *stk_types_find(const struct stk_types *t, const char *name, size_t len)
{
    return t ? find(t, name, len, 0) : NULL;
}

bool stk_type_has_null(const struct stk_type *y)
{
    return y->seen & BIT(K_NULL);
}

uint8_t stk_type_kind(const struct stk_type *y, uint8_t *dtype)
{
    uint32_t seen = y->seen & ~BIT(K_NULL), arrays = seen & (NUMBERS | BIT(STK_BOOL));
    *dtype = y->as == AS_NUMBERS ? y->dtype : arrays ? (uint8_t)lowest(arrays) : 0;
    if (y->as == AS_JSON || (seen & BIT(K_JSON)))
        return STK_JSON;
    if (arrays)
        return STK_ARRAY;
    if (y->as == AS_BYTES || seen == BIT(K_BYTES))
        return STK_BYTES;
    return seen == BIT(K_TEXT)                   ? STK_TEXT
           : seen & (BIT(K_EMPTY))               ? STK_JSON
           : seen & (BIT(K_LIST) | BIT(K_BYTES)) ? STK_LIST
                                                 : 0;
}

/* ---- converting --------------------------------------------------------------------------- */

static void put_number(uint8_t *to, uint8_t dtype, const struct stk_value *v, uint64_t i)
{
    uint8_t le[8];
    if (dtype == STK_F64) {
        double d = stk_value_f64(v, i);
        memcpy(to, &d, 8);
    } else if (dtype == STK_F32) {
        float f = (float)stk_value_f64(v, i);
        memcpy(to, &f, 4);
    } else {
        stk_put_le64(le, (uint64_t)stk_value_i64(v, i));
        memcpy(to, le, stk_dtype_size(dtype));
    }
}

static int to_numbers(const struct stk_type *y, struct stk_sample *s, struct stk_value *v,
                      struct stk_err *err)
{
    if (v->kind == STK_JSON && y->ndim && json_is(v, "[]")) {
        *v = (struct stk_value){.kind = STK_ARRAY, .dtype = y->dtype, .ndim = y->ndim, .data = ""};
        memcpy(v->dim, y->dim, sizeof v->dim);
        v->dim[0] = 0;
        return 0;
    }
    if (v->kind != STK_ARRAY || v->dtype == y->dtype || v->dtype == STK_BOOL)
        return 0;
    size_t each = stk_dtype_size(y->dtype), count = v->size / stk_dtype_size(v->dtype);
    uint8_t *out = stk_arena_alloc(&s->arena, count * each + 1);
    if (!out)
        return stk_err_nomem(err, count * each);
    for (size_t i = 0; i < count; i++)
        put_number(out + i * each, y->dtype, v, i);
    v->data = out;
    v->size = count * each;
    v->dtype = y->dtype;
    return 0;
}

static int to_json(struct stk_sample *s, struct stk_value *v, struct stk_err *err)
{
    struct stk_buf b = STK_BUF_INIT;
    if (v->kind == STK_JSON)
        return 0;
    int rc = stk_json_value(v, &b, err);
    rc = rc < 0 ? rc : stk_buf_check(&b, err);
    void *text = rc == 0 ? stk_arena_dup(&s->arena, b.data, b.len) : NULL;
    if (rc == 0)
        *v = (struct stk_value){.kind = STK_JSON, .data = text, .size = b.len};
    stk_buf_release(&b);
    return rc == 0 && !text ? stk_err_nomem(err, v->size) : rc;
}

static int to_list(struct stk_sample *s, struct stk_value *v, struct stk_err *err)
{
    if (v->kind != STK_BYTES)
        return 0;
    struct stk_value *item = stk_arena_dup(&s->arena, v, sizeof *v);
    if (!item)
        return stk_err_nomem(err, sizeof *v);
    *v = (struct stk_value){.kind = STK_LIST, .item = item, .nitems = 1};
    return 0;
}

static int convert(const struct stk_type *y, struct stk_sample *s, struct stk_value *v,
                   struct stk_err *err)
{
    if (y->only && !(BIT(kind_of(v)) & y->only))
        return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1,
                           "field '%.200s' is %s here but %s in the first sample; a field has one "
                           "type in a dataset",
                           y->name, kind_name(kind_of(v)), kind_name(lowest(y->only & y->seen)));
    switch (y->as) {
    case AS_NUMBERS:
        return to_numbers(y, s, v, err);
    case AS_JSON:
        return to_json(s, v, err);
    case AS_LIST:
        return to_list(s, v, err);
    case AS_BYTES:
        v->kind = v->kind == STK_TEXT ? STK_BYTES : v->kind;
        return 0;
    default:
        return 0;
    }
}

/* Adds null for missing fields. */
static int fill_gaps(const struct stk_types *t, struct stk_sample *s, struct stk_err *err)
{
    static const struct stk_value null = {.kind = STK_JSON, .data = "null", .size = 4};
    for (size_t i = 0; i < t->ntypes; i++) {
        const struct stk_type *y = &t->type[i];
        if (!y->fill || stk_sample_find(s, y->name))
            continue;
        if (!stk_sample_add(s, y->name, y->name_len, &null))
            return stk_err_nomem(err, sizeof null);
    }
    return 0;
}

int stk_types_convert(const struct stk_types *t, struct stk_sample *s, struct stk_err *err)
{
    int rc = 0;
    if (!t->active)
        return 0;
    s->record = NULL;
    for (size_t i = 0; rc == 0 && i < s->nfields; i++) {
        struct stk_field *f = &s->field[i];
        const struct stk_type *y = find(t, f->name, f->name_len, i);
        rc = y ? convert(y, s, &f->value, err) : 0;
    }
    return rc < 0 || s->nfields >= t->ntypes ? rc : fill_gaps(t, s, err);
}
