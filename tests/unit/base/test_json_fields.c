/* What stoker writes for itself is read back as it was; what is wrong with it is said by name. */
#include <math.h>
#include <stdint.h>

#include "base/json_fields.h"
#include "check.h"

enum colour { NONE, RED, GREEN, BLUE };
static const char *const colours[] = {"", "red", "green", "blue", NULL};

struct point {
    uint32_t n;
    double wall_s;
    const char **argv, *name, *note;
};
struct all {
    bool flag;
    uint8_t u8;
    uint16_t u16;
    uint32_t u32;
    uint64_t u64, exact, hash;
    int32_t i32;
    int64_t i64;
    double real, delta, known;
    const char *text, *bytes;
    char chars[8], cut[4];
    enum colour colour;
    struct point point, *list;
    size_t nlist;
    uint64_t inside[3];
    size_t ninside;
    const char **words, **texts;
    size_t ntexts;
    double *apart;
    size_t napart;
};

static const struct point no_point = {.wall_s = NAN};
static const struct stk_jfield point_fields[] = {
    {STK_JFIELD(UNSIGNED, "n", struct point, n), .required = true, .min = 1, .max = 100},
    {STK_JFIELD(REAL, "wall_s", struct point, wall_s), .omit = true},
    {STK_JFIELD_WORDS("argv", struct point, argv), .omit = true},
    {0},
};
static const struct stk_jfield named_fields[] = {
    {STK_JFIELD(TEXT, "name", struct point, name), .required = true},
    {STK_JFIELD(TEXT, "note", struct point, note), .required = true, .nullable = true},
    {0},
};
static const struct stk_jfield fields[] = {
#define F(type, name) STK_JFIELD(type, #name, struct all, name)
    {F(FLAG, flag)},
    {F(UNSIGNED, u8)},
    {F(UNSIGNED, u16)},
    {F(UNSIGNED, u32)},
    {F(UNSIGNED, u64)},
    {F(UNSIGNED, exact), .exact = true},
    {F(HASH, hash)},
    {F(COUNT, i32)},
    {F(COUNT, i64)},
    {F(REAL, real)},
    {F(REAL, delta), .negative = true},
    {F(REAL, known), .known = true, .max = 3},
    {F(TEXT, text), .max = 5},
    {F(TEXT, bytes), .bytes = true},
    {F(CHARS, chars)},
    {F(CHARS, cut), .cut = true, .omit = true},
    {F(WORD, colour), .words = colours},
    {F(STRUCT, point), .table = point_fields},
    {STK_JFIELD_LIST(STRUCT, "list", struct all, list, nlist), .table = point_fields,
     .init = &no_point},
    {STK_JFIELD_ARRAY(UNSIGNED, "inside", struct all, inside, ninside)},
    {STK_JFIELD_WORDS("words", struct all, words), .bytes = true},
    {STK_JFIELD_LIST(TEXT, "texts", struct all, texts, ntexts)},
    {STK_JFIELD_LIST(REAL, "apart", struct all, apart, napart), .room = 4},
#undef F
    {0},
};

static const char *write_all(const struct all *a, struct stk_buf *b)
{
    stk_buf_reset(b);
    stk_jfields_text(fields, a, false, b);
    return stk_buf_cstr(b);
}

static int read_all(const char *text, struct stk_arena *arena, struct all *a, struct stk_err *err)
{
    return stk_jfields_parse(fields, text, strlen(text), "all.json", arena, a, err);
}

static const char *const argv[] = {"a", "b\nc", NULL}, *const raw[] = {"\xff", "z", NULL};
static const char *const texts[] = {"one", "two"};

static struct all example(void)
{
    static struct point list[] = {{.n = 1, .wall_s = NAN}, {.n = 100, .wall_s = 0.5}};
    static double apart[] = {1, 0.25};
    list[1].argv = (const char **)(uintptr_t)argv;
    return (struct all){.flag = true,
                        .u8 = UINT8_MAX,
                        .u16 = UINT16_MAX,
                        .u32 = UINT32_MAX,
                        .u64 = UINT64_MAX,
                        .exact = (1ull << 53) + 1,
                        .hash = 0x1f,
                        .i32 = INT32_MAX,
                        .i64 = INT64_MAX,
                        .real = 0.1,
                        .delta = -2,
                        .known = 3,
                        .text = "\xc3\xa9t\xc3\xa9",
                        .bytes = "\xc3(",
                        .chars = "1234567",
                        .colour = BLUE,
                        .point = {.n = 7, .wall_s = 3},
                        .list = list,
                        .nlist = 2,
                        .inside = {3, 0, 9},
                        .ninside = 3,
                        .words = (const char **)(uintptr_t)raw,
                        .texts = (const char **)(uintptr_t)texts,
                        .ntexts = 2,
                        .apart = apart,
                        .napart = 2};
}

static const char written[] =
    "{\"flag\":true,\"u8\":255,\"u16\":65535,\"u32\":4294967295,\"u64\":18446744073709551615,"
    "\"exact\":\"9007199254740993\",\"hash\":\"000000000000001f\",\"i32\":2147483647,"
    "\"i64\":9223372036854775807,\"real\":0.1,\"delta\":-2.0,\"known\":3.0,\"text\":\"\xc3\xa9t\xc3\xa9\","
    "\"bytes\":{\"hex\":\"c328\"},\"chars\":\"1234567\",\"colour\":\"blue\","
    "\"point\":{\"n\":7,\"wall_s\":3.0},"
    "\"list\":[{\"n\":1},{\"n\":100,\"wall_s\":0.5,\"argv\":[\"a\",\"b\\nc\"]}],"
    "\"inside\":[3,0,9],\"words\":[{\"hex\":\"ff\"},\"z\"],\"texts\":[\"one\",\"two\"],"
    "\"apart\":[1.0,0.25]}\n";

/* Lost otherwise: a value of a plan or a journal that comes back as another one. */
static void round_trip(void)
{
    struct stk_arena arena = STK_ARENA_INIT;
    struct stk_buf b = STK_BUF_INIT;
    struct stk_err err = {0};
    const struct all a = example();
    struct all back = {0};
    CHECK_STR(write_all(&a, &b), written);
    CHECK_INT(read_all(written, &arena, &back, &err), 0);
    CHECK_STR(err.what, "");
    CHECK(back.flag && back.u8 == 255 && back.u16 == 65535 && back.u32 == UINT32_MAX);
    CHECK(back.u64 == UINT64_MAX && back.exact == a.exact && back.hash == 0x1f);
    CHECK(back.i32 == INT32_MAX && back.i64 == INT64_MAX && back.colour == BLUE);
    CHECK(back.real == 0.1 && back.delta == -2 && isnan(back.list[0].wall_s));
    CHECK_STR(back.bytes, "\xc3(");
    CHECK_STR(back.words[0], "\xff");
    CHECK(back.words[2] == NULL && back.ntexts == 2 && back.napart == 2 && back.nlist == 2);
    CHECK_STR(write_all(&back, &b), written);
    stk_buf_release(&b);
    stk_arena_release(&arena);
}

/* What is not known is null, and an empty list is a list. */
static void unknown(void)
{
    struct stk_arena arena = STK_ARENA_INIT;
    struct stk_buf b = STK_BUF_INIT;
    struct all a = {.i32 = -1, .i64 = -5, .real = NAN, .delta = INFINITY, .known = -2}, back = example();
    static const char want[] =
        "{\"flag\":false,\"u8\":0,\"u16\":0,\"u32\":0,\"u64\":0,\"exact\":0,"
        "\"hash\":\"0000000000000000\",\"i32\":null,\"i64\":null,\"real\":null,\"delta\":null,\"known\":null,"
        "\"text\":null,\"bytes\":null,\"chars\":\"\",\"colour\":\"\","
        "\"point\":{\"n\":1,\"wall_s\":0.0},\"list\":[],\"inside\":[],\"words\":[],\"texts\":[],"
        "\"apart\":[]}\n";
    a.point.n = 1;
    CHECK_STR(write_all(&a, &b), want);
    CHECK_INT(read_all(want, &arena, &back, NULL), 0);
    CHECK(back.i32 == -1 && back.i64 == -1 && isnan(back.real) && isnan(back.delta) && back.known == -1);
    CHECK(!back.text && !back.list && !back.words && !back.nlist && !back.ninside);
    back = (struct all){.real = INFINITY}; /* a default that JSON has no number for */
    CHECK_INT(read_all("{\"real\":null}", &arena, &back, NULL), 0);
    CHECK(isinf(back.real));
    /* Missing members, and null for what cannot be unknown, leave the defaults; others are ignored. */
    back = example();
    CHECK_INT(read_all("{\"u32\":null,\"list\":null,\"later\":{\"u8\":1},\"u16\":5,\"cut\":\"abcd\"}", &arena, &back,
                       NULL),
              0);
    CHECK_STR(back.cut, "abc");
    CHECK(back.u32 == UINT32_MAX && back.nlist == 2 && back.u8 == 255 && back.u16 == 5);
    stk_buf_release(&b);
    stk_arena_release(&arena);
}

/* What is left out if nothing is known of it. */
static void omitted(void)
{
    static const struct stk_jfield some[] = {
#define F(type, name) STK_JFIELD(type, #name, struct all, name), .omit = true
        {F(UNSIGNED, u8)},
        {F(COUNT, i64)},
        {F(REAL, real)},
        {F(TEXT, text)},
        {F(CHARS, chars)},
        {STK_JFIELD_LIST(TEXT, "texts", struct all, texts, ntexts), .omit = true},
#undef F
        {0},
    };
    struct stk_buf b = STK_BUF_INIT;
    struct all a = {.i64 = -1, .real = NAN};
    stk_jfields_text(some, &a, false, &b);
    CHECK_STR(stk_buf_cstr(&b), "{}\n");
    a = example();
    stk_buf_reset(&b);
    stk_jfields_text(some, &a, true, &b);
    CHECK_STR(stk_buf_cstr(&b),
              "{\n  \"u8\": 255,\n  \"i64\": 9223372036854775807,\n  \"real\": 0.1,\n"
              "  \"text\": \"\xc3\xa9t\xc3\xa9\",\n  \"chars\": \"1234567\",\n"
              "  \"texts\": [\n    \"one\",\n    \"two\"\n  ]\n}\n");
    stk_buf_release(&b);
}

static void refused(const char *text, const char *why)
{
    struct stk_arena arena = STK_ARENA_INIT;
    struct stk_err err = {0};
    struct all a = {0};
    CHECK_INT(read_all(text, &arena, &a, &err), STK_E_CORRUPT);
    CHECK_STR(err.what, why);
    CHECK_STR(err.path, "all.json");
    stk_arena_release(&arena);
}

static void refusals(void)
{
    refused("[]", "it is no object");
    refused("{\"flag\":1}", "'flag' is neither true nor false");
    refused("{\"u8\":256}", "'u8' is too large");
    refused("{\"u32\":4294967296}", "'u32' is too large");
    refused("{\"u64\":18446744073709551616}", "'u64' is no whole number");
    refused("{\"u64\":-1}", "'u64' is no whole number");
    refused("{\"u64\":1.0}", "'u64' is no whole number");
    refused("{\"u64\":\"1\"}", "'u64' is no whole number");
    refused("{\"exact\":\"\"}", "'exact' is no whole number");
    refused("{\"exact\":\"1x\"}", "'exact' is no whole number");
    refused("{\"exact\":\"99999999999999999999\"}", "'exact' is no whole number");
    refused("{\"i32\":2147483648}", "'i32' is too large");
    refused("{\"i64\":9223372036854775808}", "'i64' is too large");
    refused("{\"i64\":-1}", "'i64' is no whole number");
    refused("{\"hash\":\"00000000000001F0\"}", "'hash' is not of 16 hexadecimal digits");
    refused("{\"hash\":31}", "'hash' is not of 16 hexadecimal digits");
    refused("{\"real\":\"1\"}", "'real' is not a number");
    refused("{\"real\":-1}", "'real' is below 0");
    refused("{\"known\":3.1}", "'known' is too large");
    refused("{\"known\":-1}", "'known' is below 0");
    refused("{\"text\":\"123456\"}", "'text' is longer than 5 bytes");
    refused("{\"text\":\"1\\u0000\"}", "'text' is not a text");
    refused("{\"text\":{\"hex\":\"31\"}}", "'text' is not a text");
    refused("{\"bytes\":{\"hex\":\"3\"}}", "'bytes' is not a text");
    refused("{\"bytes\":{\"hex\":\"3g\"}}", "'bytes' is not a text");
    refused("{\"bytes\":{\"hex\":\"00\"}}", "'bytes' is not a text");
    refused("{\"bytes\":{\"other\":\"31\"}}", "'bytes' is not a text");
    refused("{\"chars\":\"12345678\"}", "'chars' is longer than 7 bytes");
    refused("{\"colour\":\"pink\"}", "'colour' is not red, green or blue");
    refused("{\"colour\":\"red\\u0000\"}", "'colour' is not red, green or blue");
    refused("{\"colour\":0}", "'colour' is not red, green or blue");
    refused("{\"point\":[]}", "'point' is no object");
    refused("{\"point\":{}}", "'point.n' is missing");
    refused("{\"point\":{\"n\":null}}", "'point.n' is no whole number");
    refused("{\"point\":{\"n\":0}}", "'point.n' is too small");
    refused("{\"list\":[{\"n\":1},{\"n\":101}]}", "'list[1].n' is too large");
    refused("{\"list\":[{\"n\":1,\"argv\":[\"a\",null]}]}", "'list[0].argv[1]' is not a text");
    refused("{\"list\":{}}", "'list' is not a list");
    refused("{\"inside\":[1,2,3,4]}", "'inside' is too long");
    refused("{\"apart\":[1,2,3,4,5]}", "'apart' is too long");
    refused("{\"words\":\"a\"}", "'words' is not a list");
    refused("{\"u8\":1", "bad JSON: \"{\" without \"}\"");
}

/* A text that must be there, and one of which must be said that there is none. */
static void required_texts(void)
{
    static const struct {
        const char *text, *why;
    } given[] = {
        {"{\"name\":\"a\",\"note\":null}", ""},
        {"{\"name\":\"a\"}", "'note' is missing"},
        {"{\"name\":null,\"note\":null}", "'name' is not a text"},
    };
    struct stk_arena arena = STK_ARENA_INIT;
    for (size_t i = 0; i < sizeof given / sizeof *given; i++) {
        struct stk_err err = {0};
        struct point p = {.note = "x"};
        int rc = stk_jfields_parse(named_fields, given[i].text, strlen(given[i].text), NULL, &arena,
                                   &p, &err);
        CHECK_INT(rc, *given[i].why ? STK_E_CORRUPT : 0);
        CHECK_STR(err.what, given[i].why);
        CHECK(*given[i].why || !p.note);
    }
    stk_arena_release(&arena);
}

/* A table may know more spellings than it writes. */
static int find_other(const char *word, size_t n)
{
    return n == 4 && memcmp(word, "rose", n) == 0 ? RED : -1;
}

static void other_words(void)
{
    static const struct stk_jfield one[] = {
        {STK_JFIELD(WORD, "colour", struct all, colour), .words = colours, .find = find_other},
        {0},
    };
    static const char *const known[] = {"{\"colour\":\"rose\"}", "{\"colour\":\"red\"}"};
    struct stk_arena arena = STK_ARENA_INIT;
    for (size_t i = 0; i < 2; i++) {
        struct all a = {.colour = BLUE};
        CHECK_INT(stk_jfields_parse(one, known[i], strlen(known[i]), NULL, &arena, &a, NULL), 0);
        CHECK_INT(a.colour, RED);
    }
    stk_arena_release(&arena);
}

int main(int argc, char **argv_)
{
    CHECK_BEGIN(argc, argv_);
    CHECK_RUN(round_trip);
    CHECK_RUN(unknown);
    CHECK_RUN(omitted);
    CHECK_RUN(refusals);
    CHECK_RUN(required_texts);
    CHECK_RUN(other_words);
    return CHECK_DONE();
}
