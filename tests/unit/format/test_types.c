/* test_types.c - one type for each field: what two kinds of value become together, for every kind
 * of target, in either order, seen by one thread or by two. */
#include "check.h"
#include "format/sample.h"
#include "format/codec/types.h"

#include <math.h>
#include <stdlib.h>

enum { CELLS = STK_HOLDS_NULL, RECORDS = STK_HOLDS_NULL | STK_HOLDS_SHAPES | STK_HOLDS_GAPS };
enum { MEMBERS = STK_HOLDS_SHAPES | STK_HOLDS_GAPS, COLUMNS = 0 };
enum { JSON = STK_HOLDS_ANY | STK_HOLDS_NULL | STK_HOLDS_SHAPES | STK_HOLDS_GAPS };

static struct stk_err err;

/* ---- values from words ---- */

/* "uint8 200", "float32 0.5 1.5" (an array), "text a", "bytes a", "json {}", "list a", "" (none).
 */
static void add_value(struct stk_sample *s, const char *words)
{
    char kind[16] = "";
    int at = 0;
    sscanf(words, "%15s%n", kind, &at);
    const char *rest = words[at] ? words + at + 1 : "";
    struct stk_value v = {.data = rest, .size = strlen(rest)};
    double number[8];
    uint8_t n = 0;
    if (!*kind)
        return;
    v.kind = strcmp(kind, "text") == 0    ? STK_TEXT
             : strcmp(kind, "bytes") == 0 ? STK_BYTES
             : strcmp(kind, "json") == 0  ? STK_JSON
             : strcmp(kind, "list") == 0  ? STK_LIST
                                          : STK_ARRAY;
    if (v.kind == STK_LIST) {
        struct stk_value item = {.kind = STK_BYTES, .data = rest, .size = strlen(rest)};
        v.item = stk_arena_dup(&s->arena, &item, sizeof item);
        v.nitems = 1;
        v.data = NULL;
        v.size = 0;
    } else if (v.kind == STK_ARRAY) {
        for (char *end; *rest && n < 8; rest = end)
            number[n++] = strtod(rest, &end);
        while (stk_dtype_size(v.dtype) == 0 || strcmp(stk_dtype_name(v.dtype), kind) != 0)
            v.dtype++;
        size_t each = stk_dtype_size(v.dtype);
        uint8_t *to = stk_arena_alloc(&s->arena, n * each);
        for (size_t i = 0; i < n; i++) {
            float f = (float)number[i];
            int64_t integer =
                number[i] < 0x1p63 ? (int64_t)number[i] : (int64_t)(uint64_t)number[i];
            memcpy(to + i * each,
                   v.dtype == STK_F64   ? (void *)&number[i]
                   : v.dtype == STK_F32 ? (void *)&f
                                        : (void *)&integer,
                   each);
        }
        v.ndim = n > 1;
        v.dim[0] = n;
        v.data = to;
        v.size = n * each;
    }
    CHECK(stk_sample_add(s, "x", 1, &v));
}

static void name_sample(void *user, uint64_t at, char *to, size_t n)
{
    (void)user;
    snprintf(to, n, "sample %llu", (unsigned long long)at);
}

/* ---- deciding ---- */

static void note(struct stk_types *t, const char *words, uint64_t at)
{
    struct stk_sample s;
    stk_sample_init(&s);
    stk_sample_add_i64(&s, "other", 5, 1, &err);
    add_value(&s, words);
    CHECK_INT(stk_types_note(t, &s, at, &err), 0);
    stk_sample_release(&s);
}

static int settle(struct stk_types *t, unsigned holds, bool lenient)
{
    const struct stk_types_target to = {
        .holds = holds, .title = "the format", .lenient = lenient, .name = name_sample};
    err = (struct stk_err){0};
    return stk_types_settle(t, &to, &err);
}

/* What x is now: "float64", "json", "none" (nothing but null), with "+null" where that is among
 * them; or "refused". */
static void decision(struct stk_types *t, int rc, char *to, size_t n)
{
    uint8_t dtype = 0;
    const struct stk_type *y = stk_types_find(t, "x", 1);
    if (rc < 0) {
        CHECK_INT(rc, STK_E_UNSUPPORTED);
        CHECK(strstr(err.what, "'x'") != NULL);
        snprintf(to, n, "refused");
        return;
    }
    uint8_t kind = stk_type_kind(y, &dtype);
    snprintf(to, n, "%s%s",
             kind == STK_ARRAY ? stk_dtype_name(dtype)
             : kind            ? stk_kind_name(kind)
                               : "none",
             stk_type_has_null(y) && kind != STK_JSON ? "+null" : "");
}

static const char *decide(const char *a, const char *b, unsigned holds, bool apart)
{
    static char text[40];
    struct stk_types t = {0}, u = {0};
    note(&t, a, 0);
    note(apart ? &u : &t, b, 1);
    if (apart)
        CHECK_INT(stk_types_merge(&t, &u, &err), 0);
    decision(&t, settle(&t, holds, false), text, sizeof text);
    stk_types_release(&t);
    stk_types_release(&u);
    return text;
}

static const struct {
    const char *a, *b;
    unsigned holds;
    const char *want;
} rules[] = {
    /* integers: the smallest that holds both */
    {"uint8 200", "uint8 7", COLUMNS, "uint8"},
    {"uint8 200", "int8 -7", COLUMNS, "int16"},
    {"uint16 60000", "int8 -7", COLUMNS, "int32"},
    {"uint32 4000000000", "int32 -7", COLUMNS, "int64"},
    {"int16 -7", "int64 9", COLUMNS, "int64"},
    {"uint8 1", "uint32 9", COLUMNS, "uint32"},
    {"uint64 18000000000000000000", "uint8 1", COLUMNS, "uint64"},
    {"uint64 9", "int8 -7", COLUMNS, "int64"},
    {"uint64 18000000000000000000", "int8 -7", COLUMNS, "refused"},
    /* integers and floats: one that loses nothing */
    {"uint8 200", "float32 0.5", COLUMNS, "float32"},
    {"int16 -300", "float64 0.5", COLUMNS, "float64"},
    {"int32 5", "float32 0.5", COLUMNS, "float64"},
    {"int64 5", "float32 0.5", COLUMNS, "float32"},
    {"int64 16777217", "float32 0.5", COLUMNS, "float64"},
    {"int64 9007199254740992", "float64 0.5", COLUMNS, "float64"},
    {"int64 9007199254740994", "float64 0.5", COLUMNS, "refused"},
    {"int64 -9007199254740994", "float32 0.5", COLUMNS, "refused"},
    {"float32 0.5", "float64 0.1", COLUMNS, "float64"},
    /* kinds that one of them can say */
    {"text a", "bytes b", RECORDS, "bytes"},
    {"bytes a", "list b", RECORDS, "list"},
    {"json {}", "text a", MEMBERS, "json"},
    {"json {}", "int64 1", MEMBERS, "json"},
    {"json [1, \"a\"]", "float64 0.5", COLUMNS, "json"},
    {"json {}", "float64 nan", COLUMNS, "refused"},
    /* kinds that none can */
    {"text a", "int64 1", RECORDS, "refused"},
    {"bytes a", "int64 1", RECORDS, "refused"},
    {"json {}", "bytes a", RECORDS, "refused"},
    {"bool 1", "int64 1", RECORDS, "refused"},
    {"text a", "list b", RECORDS, "refused"},
    /* [] is an array without elements where shapes may differ, else JSON */
    {"json []", "int64 1 2", RECORDS, "int64"},
    {"json []", "int64 1 2", COLUMNS, "json"},
    {"json []", "int64 1", RECORDS, "json"},
    {"json [ ]", "json []", RECORDS, "json"},
    /* shapes */
    {"int64 1 2", "int64 1 2 3", MEMBERS, "int64"},
    {"int64 1 2", "int64 1 2 3", COLUMNS, "refused"},
    {"int64 1", "int64 1 2", CELLS, "refused"},
    /* null */
    {"json null", "int64 1", RECORDS, "int64+null"},
    {"json null", "int64 1", CELLS, "int64+null"},
    {"json null", "int64 1", COLUMNS, "refused"},
    {"json null", "text a", RECORDS, "text+null"},
    {"json null", "text a", COLUMNS, "json"},
    {"json null", "text ", CELLS, "refused"},
    {"json null", "int64 1 2", CELLS, "refused"},
    {"json  null ", "json null", RECORDS, "none+null"},
    {"json null", "json {}", COLUMNS, "json"},
    /* not there */
    {"", "int64 1", RECORDS, "int64"},
    {"", "int64 1", MEMBERS, "int64"},
    {"", "int64 1", CELLS, "int64+null"},
    {"", "int64 1", COLUMNS, "refused"},
    /* JSON takes all; numbers become floats where they can */
    {"text a", "int64 1", JSON, "int64"},
    {"int64 1", "float64 0.5", JSON, "float64"},
    {"int64 9007199254740994", "float64 0.5", JSON, "int64"},
};

/* A user would get another type by another order of files, or by more threads. */
static void test_rules(void)
{
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        for (int how = 0; how < 4; how++) {
            const char *a = how & 1 ? rules[i].b : rules[i].a;
            const char *b = how & 1 ? rules[i].a : rules[i].b;
            const char *got = decide(a, b, rules[i].holds, how & 2);
            if (strcmp(got, rules[i].want) != 0)
                fprintf(stderr, "'%s' and '%s', holds %#x, way %d\n", a, b, rules[i].holds, how);
            CHECK_STR(got, rules[i].want);
        }
}

/* ---- converting ---- */

/* Sample `words` after the two were made one type; how many fields it has in *nfields. */
static void check_converted(struct stk_types *t, const char *words, const char *want, bool fill)
{
    struct stk_sample s;
    stk_sample_init(&s);
    stk_sample_add_i64(&s, "other", 5, 1, &err);
    add_value(&s, words);
    s.record = (const uint8_t *)"a stored record, which is another now";
    CHECK_INT(stk_types_convert(t, &s, &err), 0);
    CHECK(s.record == NULL);
    const struct stk_field *f = stk_sample_find(&s, "x");
    CHECK(f || !fill);
    struct stk_sample other;
    stk_sample_init(&other);
    add_value(&other, want);
    const struct stk_value *v = &f->value, *w = &other.field[0].value;
    CHECK(v->kind == w->kind && v->dtype == w->dtype && v->ndim == w->ndim && v->size == w->size);
    CHECK(v->kind == STK_LIST ? v->nitems == w->nitems : memcmp(v->data, w->data, v->size) == 0);
    stk_sample_release(&other);
    stk_sample_release(&s);
}

/* A value would be another after it was brought into the type. */
static void test_values_stay(void)
{
    static const struct {
        const char *a, *b;
        unsigned holds;
        const char *a_then, *b_then;
    } cases[] = {
        {"uint8 200", "int8 -7", COLUMNS, "int16 200", "int16 -7"},
        {"int64 -5", "float32 0.5", COLUMNS, "float32 -5", "float32 0.5"},
        {"int32 2147483647", "float32 0.1", COLUMNS, "float64 2147483647",
         "float64 0.10000000149011612"},
        {"int64 9007199254740992 -1", "float64 0.5 1", MEMBERS, "float64 9007199254740992 -1",
         "float64 0.5 1"},
        {"text a", "bytes b", RECORDS, "bytes a", "bytes b"},
        {"bytes a", "list b", RECORDS, "list a", "list b"},
        {"json {}", "text a\"b", MEMBERS, "json {}", "json \"a\\\"b\""},
        {"json {}", "int64 12", MEMBERS, "json {}", "json 12"},
        {"json null", "text a", COLUMNS, "json null", "json \"a\""},
        {"", "int64 12", CELLS, "json null", "int64 12"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct stk_types t = {0};
        note(&t, cases[i].a, 0);
        note(&t, cases[i].b, 1);
        CHECK_INT(settle(&t, cases[i].holds, false), 0);
        check_converted(&t, cases[i].a, cases[i].a_then, true);
        check_converted(&t, cases[i].b, cases[i].b_then, true);
        stk_types_release(&t);
    }
}

/* [] among arrays: the same kind of array, with nothing in it. */
static void test_empty_array(void)
{
    struct stk_types t = {0};
    struct stk_sample s;
    note(&t, "json []", 0);
    note(&t, "float32 1 2 3", 1);
    CHECK_INT(settle(&t, RECORDS, false), 0);
    stk_sample_init(&s);
    add_value(&s, "json []");
    CHECK_INT(stk_types_convert(&t, &s, &err), 0);
    const struct stk_value *v = &s.field[0].value;
    CHECK(v->kind == STK_ARRAY && v->dtype == STK_F32 && v->ndim == 1 && v->dim[0] == 0);
    CHECK_INT(v->size, 0);
    stk_sample_release(&s);
    stk_types_release(&t);
}

/* With --on-error skip the samples that do not fit the first are refused one by one. */
static void test_lenient(void)
{
    struct stk_types t = {0};
    struct stk_sample s;
    note(&t, "int64 1", 0);
    note(&t, "text a", 1);
    note(&t, "float64 0.5", 2);
    CHECK_INT(settle(&t, RECORDS, true), 0);
    static const char *const words[] = {"int64 1", "text a", "float64 0.5"};
    for (int i = 0; i < 3; i++) {
        stk_sample_init(&s);
        add_value(&s, words[i]);
        CHECK_INT(stk_types_convert(&t, &s, &err), i == 1 ? STK_E_UNSUPPORTED : 0);
        stk_sample_release(&s);
    }
    CHECK(strstr(err.what, "field 'x' is text here but") != NULL);
    stk_types_release(&t);
}

/* The first samples of both kinds are named, whichever thread met them. */
static void test_names_in_refusals(void)
{
    struct stk_types t = {0}, u = {0};
    note(&t, "text a", 9);
    note(&t, "int64 1", 5);
    note(&u, "int64 1", 3);
    note(&u, "text a", 4);
    CHECK_INT(stk_types_merge(&t, &u, &err), 0);
    CHECK_INT(settle(&t, RECORDS, false), STK_E_UNSUPPORTED);
    CHECK(strstr(err.what, "is int64 in sample 3 and text in sample 4"));
    stk_types_release(&t);
    stk_types_release(&u);
    note(&t, "int64 1", 0);
    note(&t, "", 1);
    CHECK_INT(settle(&t, COLUMNS, false), STK_E_UNSUPPORTED);
    CHECK(strstr(err.what, "is in 1 of 2 samples"));
    stk_types_release(&t);
}

/* Nothing to do costs nothing: the sample and its stored record stay as they are. */
static void test_nothing_to_do(void)
{
    struct stk_types t = {0};
    struct stk_sample s;
    note(&t, "int64 1", 0);
    note(&t, "int64 2", 1);
    CHECK_INT(settle(&t, COLUMNS, false), 0);
    CHECK(!t.active);
    stk_sample_init(&s);
    add_value(&s, "int64 1");
    s.record = (const uint8_t *)"kept";
    CHECK_INT(stk_types_convert(&t, &s, &err), 0);
    CHECK_STR((const char *)s.record, "kept");
    stk_sample_release(&s);
    stk_types_release(&t);
    CHECK(stk_types_find(&t, "x", 1) == NULL && stk_types_find(NULL, "x", 1) == NULL);
}

/* More fields than any dataset has: the table of names grows, and finds them all. */
static void test_many_fields(void)
{
    struct stk_types t = {0};
    struct stk_sample s;
    char name[5000][8];
    stk_sample_init(&s);
    for (int i = 0; i < 5000; i++) {
        int n = snprintf(name[i], sizeof name[i], "f%d", i * 7 % 5000);
        CHECK_INT(stk_sample_add_i64(&s, name[i], (size_t)n, i, &err), 0);
    }
    CHECK_INT(stk_types_note(&t, &s, 0, &err), 0);
    CHECK_INT(stk_types_note(&t, &s, 1, &err), 0);
    CHECK_INT(t.ntypes, 5000);
    for (int i = 0; i < 5000; i++)
        CHECK(stk_types_find(&t, name[i], strlen(name[i]))->samples == 2);
    CHECK(stk_types_find(&t, "f5000", 5) == NULL);
    stk_sample_release(&s);
    stk_types_release(&t);
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    CHECK_RUN(test_rules);
    CHECK_RUN(test_values_stay);
    CHECK_RUN(test_empty_array);
    CHECK_RUN(test_lenient);
    CHECK_RUN(test_names_in_refusals);
    CHECK_RUN(test_nothing_to_do);
    CHECK_RUN(test_many_fields);
    return CHECK_DONE();
}
