/* Manifests and results are JSON: what we write must be read the same by us and by everyone. */
#include <math.h>

#include <stdint.h>
#include <stdlib.h>

#include "base/json.h"
#include "check.h"

static void test_writing(void)
{
    struct stk_buf b = STK_BUF_INIT;
    struct stk_jw w;
    stk_jw_init(&w, &b, false);
    stk_jw_open(&w, '{');
    stk_jw_key(&w, "a\"b");
    stk_jw_open(&w, '[');
    stk_jw_u64(&w, UINT64_MAX);
    stk_jw_i64(&w, INT64_MIN);
    stk_jw_f64(&w, 0.1);
    stk_jw_f64(&w, 1.0);
    stk_jw_f64(&w, 1e300);
    stk_jw_f64(&w, 0.0 / 0.0);
    stk_jw_bool(&w, true);
    stk_jw_null(&w);
    stk_jw_str(&w, NULL);
    stk_jw_open(&w, '{');
    stk_jw_close(&w, '}');
    stk_jw_close(&w, ']');
    stk_jw_key(&w, "s");
    stk_jw_strn(&w, "\x00\x1b\n\xff\xc3\xa9\x7f\xc2\x9b\"\\\xe2\x80\xae", 14);
    stk_jw_key(&w, "raw");
    stk_jw_raw(&w, "[1]", 3);
    stk_jw_close(&w, '}');
    CHECK_STR(stk_buf_cstr(&b),
              "{\"a\\\"b\":[18446744073709551615,-9223372036854775808,0.1,1.0,1e+300,null,true,"
              "null,null,{}],\"s\":\"\\u0000\\u001b\\n\xef\xbf\xbd\xc3\xa9\\u007f\\u009b\\\"\\\\\\u202e\","
              "\"raw\":[1]}");
    stk_buf_reset(&b);
    stk_jw_init(&w, &b, true);
    stk_jw_open(&w, '{');
    stk_jw_key(&w, "x");
    stk_jw_open(&w, '[');
    stk_jw_u64(&w, 1);
    stk_jw_u64(&w, 2);
    stk_jw_close(&w, ']');
    stk_jw_key(&w, "y");
    stk_jw_open(&w, '[');
    stk_jw_close(&w, ']');
    stk_jw_close(&w, '}');
    CHECK_STR(stk_buf_cstr(&b), "{\n  \"x\": [\n    1,\n    2\n  ],\n  \"y\": []\n}");
    stk_buf_reset(&b);
    static const char *const text[] = {"one", "two"};
    static const char row[2][8] = {"three", "four"};
    stk_jw_init(&w, &b, false);
    stk_jw_open(&w, '{');
    stk_jw_put_strs(&w, "texts", text, 2);
    stk_jw_put_rows(&w, "rows", row, sizeof(row[0]), 2);
    stk_jw_put_strs(&w, "none", NULL, 0);
    stk_jw_close(&w, '}');
    CHECK_STR(stk_buf_cstr(&b),
              "{\"texts\":[\"one\",\"two\"],\"rows\":[\"three\",\"four\"],\"none\":[]}");
    stk_buf_release(&b);
}

/* Parses from an exactly sized heap copy, so that ASan sees a read past the end. */
static int parse(struct stk_arena *a, const char *text, struct stk_jval **v, struct stk_err *err)
{
    size_t n = strlen(text);
    char *copy = malloc(n ? n : 1);
    if (!copy)
        return STK_E_NOMEM;
    memcpy(copy, text, n);
    int rc = stk_json_parse(a, copy, n, v, err);
    free(copy);
    return rc;
}

static void test_reading(void)
{
    struct stk_arena a = STK_ARENA_INIT;
    struct stk_jval *v = NULL;
    CHECK_INT(parse(&a,
                    " {\"n\": -12, \"f\": 2.5e-3, \"big\": 9223372036854775808, "
                    "\"s\": \"a\\u00e9\\ud83d\\ude00\\n\\/\", \"arr\": [true, null, [], {}], "
                    "\"n2\": 9223372036854775807, \"dup\": 1, \"dup\": 2} \n",
                    &v, NULL),
              0);
    CHECK(v && v->type == STK_JOBJ && v->len == 8);
    CHECK(stk_json_get(v, "n")->type == STK_JINT && stk_json_get(v, "n")->i == -12);
    CHECK(stk_json_get(v, "f")->type == STK_JFLOAT && stk_json_get(v, "f")->f == 2.5e-3);
    CHECK(stk_json_get(v, "big")->type == STK_JFLOAT);
    CHECK(stk_json_get(v, "n2")->i == INT64_MAX);
    CHECK_STR(stk_json_get(v, "s")->str, "a\xc3\xa9\xf0\x9f\x98\x80\n/");
    const struct stk_jval *arr = stk_json_get(v, "arr");
    CHECK(arr->type == STK_JARR && arr->len == 4 && arr->item[0].b && arr->item[2].len == 0);
    CHECK_INT(arr->raw_len, strlen("[true, null, [], {}]"));
    CHECK_INT(stk_json_get(v, "dup")->i, 2);
    CHECK(!stk_json_get(v, "none") && !stk_json_get(arr, "x") && !stk_json_get(NULL, "x"));
    CHECK(parse(&a, "\"a\\u0000b\"", &v, NULL) == 0 && v->len == 3 &&
          memcmp(v->str, "a\0b", 4) == 0);
    CHECK(parse(&a, "-0", &v, NULL) == 0 && v->type == STK_JINT && v->i == 0);
    stk_arena_release(&a);
}

static void test_refusing(void)
{
    static const struct {
        const char *text;
        int64_t offset;
    } wrong[] = {
        {"", 0},
        {"  ", 2},
        {"nul", 0},
        {"01", 0},
        {"1.", 0},
        {"-", 0},
        {"1e", 0},
        {"+1", 0},
        {"NaN", 0},
        {"[1,]", 3},
        {"[1 2]", 3},
        {"[1", 0},
        {"{\"a\"}", 4},
        {"{\"a\":}", 5},
        {"{a:1}", 1},
        {"{\"a\":1,}", 7},
        {"\"a", 0},
        {"\"\\x\"", 1},
        {"\"\\u12\"", 1},
        {"\"\n\"", 1},
        {"\"\\ud800\"", 1},
        {"\"\\udc00\"", 1},
        {"\"\xff\"", 1},
        {"1 2", 2},
        {"1e999", 0},
        {"\"\xc3", 1},
        {"[[[", 3},
        {"\"\\", 1},
        {"'a'", 0},
        {"{", 1},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct stk_arena a = STK_ARENA_INIT;
        struct stk_jval *v = NULL;
        struct stk_err err = {0};
        CHECK_INT(parse(&a, wrong[i].text, &v, &err), STK_E_CORRUPT);
        CHECK_INT(err.offset, wrong[i].offset);
        CHECK(v == NULL);
        stk_arena_release(&a);
    }
}

/* A million brackets must be an error message, not a stack overflow. */
static void test_depth(void)
{
    size_t n = 1000000;
    char *text = malloc(n + 1);
    memset(text, '[', n);
    text[n] = '\0';
    struct stk_arena a = STK_ARENA_INIT;
    struct stk_jval *v = NULL;
    CHECK_INT(stk_json_parse(&a, text, n, &v, NULL), STK_E_CORRUPT);
    memset(text + 64, ']', 64);
    CHECK_INT(stk_json_parse(&a, text, 128, &v, NULL), 0);
    stk_arena_release(&a);
    free(text);
}

/* Random documents written and read back agree in every double. */
static void test_round_trip(void)
{
    uint64_t seed = 42;
    for (int i = 0; i < 20000; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        double d;
        memcpy(&d, &seed, sizeof d);
        if (d != d || d - d != 0)
            continue;
        struct stk_buf b = STK_BUF_INIT;
        struct stk_arena a = STK_ARENA_INIT;
        struct stk_jw w;
        struct stk_jval *v = NULL;
        stk_jw_init(&w, &b, false);
        stk_jw_f64(&w, d);
        CHECK(stk_json_parse(&a, (const char *)b.data, b.len, &v, NULL) == 0 && v->f == d);
        stk_buf_release(&b);
        stk_arena_release(&a);
    }
}

/* -1 for "not known" would be taken for a number. */
static void known_or_null(void)
{
    struct stk_buf out = STK_BUF_INIT;
    struct stk_jw w;
    stk_jw_init(&w, &out, false);
    stk_jw_open(&w, '{');
    stk_jw_put_known_f64(&w, "a", -1);
    stk_jw_put_known_f64(&w, "b", 0.5);
    stk_jw_put_known_f64(&w, "c", NAN);
    stk_jw_put_known_i64(&w, "d", -1);
    stk_jw_put_known_i64(&w, "e", 0);
    stk_jw_close(&w, '}');
    CHECK_STR(stk_buf_cstr(&out), "{\"a\":null,\"b\":0.5,\"c\":null,\"d\":null,\"e\":0}");
    stk_buf_release(&out);
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    CHECK_RUN(test_writing);
    CHECK_RUN(test_reading);
    CHECK_RUN(test_refusing);
    CHECK_RUN(test_depth);
    CHECK_RUN(test_round_trip);
    CHECK_RUN(known_or_null);
    return CHECK_DONE();
}
