/* test_csv.c - CSV syntax and columns: rows are found the same in windows of any size, quoting is
 * undone, and what the columns are is guessed as the documentation says. */
#include "check.h"
#include "base/num.h"
#include "format/csv/csv.h"
#include "format/sample.h"

#include <math.h>
#include <stdlib.h>

extern const struct stk_codec stk_codec_csv;

static struct stk_err err;

/* ---- rows ---- */

static char found[1024];

static int note_row(void *user, uint64_t off, uint64_t len, uint64_t cells, struct stk_err *e)
{
    (void)user;
    (void)e;
    size_t at = strlen(found);
    snprintf(found + at, sizeof found - at, "%llu+%llu:%llu ", (unsigned long long)off,
             (unsigned long long)len, (unsigned long long)cells);
    return 0;
}

/* Every row as offset+length:cells, the text seen in windows of `window` bytes. */
static const char *rows_of(const char *text, size_t window)
{
    size_t n = strlen(text);
    struct stk_csv_scan sc = {.delim = ',', .row = note_row};
    found[0] = '\0';
    for (size_t at = 0; at < n; at += window) {
        size_t m = n - at < window ? n - at : window;
        char *copy = malloc(m); /* of exactly this size, so that ASan sees a step too far */
        memcpy(copy, text + at, m);
        CHECK_INT(stk_csv_scan_bytes(&sc, at, copy, m, &err), 0);
        free(copy);
    }
    CHECK_INT(stk_csv_scan_end(&sc, n, &err), 0);
    if (sc.quoted)
        strcat(found, "open");
    return found;
}

static void test_rows(void)
{
    static const struct {
        const char *text, *rows;
    } cases[] = {
        {"a,b\n1,2\n", "0+3:2 4+3:2 "},
        {"a,b\r\n1,2\r\n", "0+3:2 5+3:2 "},
        {"a,b\n1,2", "0+3:2 4+3:2 "},
        {"\n\r\na\n\n", "3+1:1 "},
        {"\"a,b\",c\n", "0+7:2 "},
        {"\"a\nb\",c\nd,e\n", "0+7:2 8+3:2 "},
        {"\"a\"\"\nb\",c\nd,e\n", "0+9:2 10+3:2 "},
        {"\"\",\"\"\n", "0+5:2 "},
        {"\"\"\"\"\nx\n", "0+4:1 5+1:1 "},
        {"a\"b,c\"\nd,e\n", "0+6:2 7+3:2 "}, /* a quote inside a cell is a character */
        {"x,\"a\r\nb\"\r\ny,z\r\n", "0+8:2 10+3:2 "},
        {"a\n\"b,c\n", "0+1:1 open"},
        {"a\n\"b\"", "0+1:1 2+3:1 "},
        {"a,\"b", "open"},
        {"", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t window = 1; window <= 12; window++)
            CHECK_STR(rows_of(cases[i].text, window), cases[i].rows);
}

static void test_cells(void)
{
    const char *text = "a,\"b,c\",,\"d\"\"e\",\"\"";
    const char *want[] = {"a", "b,c", "", "d\"e", ""};
    struct stk_csv_row row = {.p = text, .end = text + strlen(text), .delim = ',', .more = true};
    struct stk_csv_cell c;
    char out[32];
    for (size_t i = 0; i < 5; i++) {
        CHECK_INT(stk_csv_next(&row, &c, &err), 1);
        out[stk_csv_unquote(&c, out)] = '\0';
        CHECK_STR(out, want[i]);
    }
    CHECK_INT(stk_csv_next(&row, &c, &err), 0);
    const char *bad = "\"a\"b,c";
    row = (struct stk_csv_row){.p = bad, .end = bad + strlen(bad), .delim = ',', .more = true};
    CHECK_INT(stk_csv_next(&row, &c, &err), STK_E_CORRUPT);
}

static void test_guess(void)
{
    static const struct {
        const char *text;
        char want;
    } cases[] = {{"a,b;c,d", ','},     {"\r\n\na;b\nc,d,e", ';'},
                 {"\"a,b,c\";d", ';'}, {"a\tb,c\td", '\t'},
                 {"a|b", '\0'},        {"a", '\0'},
                 {"", '\0'},           {"\"a,b", '\0'}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        CHECK_INT(stk_csv_guess(cases[i].text, strlen(cases[i].text), ",;\t"), cases[i].want);
}

/* What is written is read again, whatever is in it. */
static void test_put(void)
{
    static const char *const texts[][2] = {{"a b", "a b"},       {"", ""},
                                           {"a,b", "\"a,b\""},   {"a;b", "a;b"},
                                           {"\"", "\"\"\"\""},   {"x\"y\"", "\"x\"\"y\"\"\""},
                                           {"a\nb", "\"a\nb\""}, {"a\r", "\"a\r\""}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct stk_buf b = STK_BUF_INIT;
        stk_csv_put(&b, texts[i][0], strlen(texts[i][0]), ',');
        CHECK_STR(stk_buf_cstr(&b), texts[i][1]);
        stk_buf_release(&b);
    }
}

/* ---- columns ---- */

static const char *context_of(const char *text)
{
    static struct stk_buf out;
    struct stk_csv_schema sc;
    stk_buf_reset(&out);
    CHECK_INT(stk_csv_infer(text, strlen(text), true, &(struct stk_csv_told){0}, &sc, &err), 0);
    CHECK_INT(stk_csv_context_write(&sc, &out, &err), 0);
    stk_csv_schema_release(&sc);
    const char *copy = stk_buf_cstr(&out);
    snprintf(found, sizeof found, "%s", copy);
    stk_buf_release(&out);
    return found;
}

static void test_infer(void)
{
    CHECK_STR(context_of("a,b,c\n1,2.5,x\n2,3,y\n"), "csv 44 1 3\nia\nfb\ntc\n");
    CHECK_STR(context_of("1,2\n3,4\n"), "csv 44 0 2\nic0\nic1\n");
    CHECK_STR(context_of("name\nx\ny\n"), "csv 44 1 1\ntname\n");
    CHECK_STR(context_of("x,x\nx,x\n"), "csv 44 0 2\ntc0\ntc1\n"); /* not distinct: no header */
    CHECK_STR(context_of("a;b\n1;2\n"), "csv 59 1 2\nia\nib\n");
    CHECK_STR(context_of("a\tb\n1\t2\n"), "csv 9 1 2\nia\nib\n");
    CHECK_STR(context_of("a,\"b,\nc\"\n1,2\n"), "csv 44 1 2\nia\nib, c\n");
    CHECK_STR(context_of("a,b\n1,\n2,\n"), "csv 44 1 2\nia\neb\n");
    CHECK_STR(context_of("a,b\n1,3\n,4\n"), "csv 44 1 2\nga\nib\n"); /* none needs a nan */
    CHECK_STR(context_of("a,b\n"), "csv 44 1 2\nua\nub\n");
    CHECK_STR(context_of("id\n007\n"), "csv 44 1 1\ntid\n"); /* a name made of digits */
    CHECK_STR(context_of("id\n99999999999999999999\n"), "csv 44 1 1\ntid\n");
    CHECK_STR(context_of("a,a,\n1,2,3\n"), "csv 44 1 3\nia\nia.1\nic2\n");
    /* The new name is another column's, and so is the next. */
    CHECK_STR(context_of("a,a,a.1,,c3\n1,2,3,4,5\n"), "csv 44 1 5\nia\nia.1\nia.1.2\nic3\nic3.4\n");
    /* Integers that a float would change, alone, with gaps, and beside floats. */
    CHECK_STR(context_of("a,b,c\n9007199254740993,9007199254740993,9007199254740993\n1,,0.5\n"),
              "csv 44 1 3\nwa\npb\ntc\n");
    CHECK_STR(context_of("a\n9007199254740992\n0.5\n"), "csv 44 1 1\nfa\n");
    CHECK_STR(context_of("a\n99999999999999999999\n0.5\n"), "csv 44 1 1\nta\n");
    /* nan and inf are names where one beside them stands over numbers. */
    CHECK_STR(context_of("id,nan,inf\n1,2,3\n"), "csv 44 1 3\niid\ninan\niinf\n");
    CHECK_STR(context_of("nan,inf\n1,2\n"), "csv 44 0 2\nfc0\nfc1\n");
    CHECK_STR(context_of("cat,nan\ndog,2.5\n"), "csv 44 0 2\ntc0\nfc1\n");
}

static void test_bars(void)
{
    CHECK_STR(context_of("a|b\n1|x,y\n2|z\n"), "csv 124 1 2\nia\ntb\n");
    CHECK_STR(context_of("a, or A|b\n1|x\n"), "csv 124 1 2\nia, or A\ntb\n");
    CHECK_STR(context_of("1,a|b|c\n2,d|e|f\n"), "csv 44 0 2\nic0\ntc1\n"); /* words in a cell */
    CHECK_STR(context_of("tags\na|b\nc\n"), "csv 44 1 1\nttags\n");
    CHECK_STR(context_of("a|b"), "csv 44 1 1\nua|b\n"); /* one row tells nothing */
    CHECK_STR(context_of("a|\"b|\nc\"\n1|2\n"), "csv 124 1 2\nia\nib| c\n");
}

static void test_arrays(void)
{
    CHECK_STR(context_of("y,x_0,x_1\n1,2,3\n"), "csv 44 1 3\niy\nI2 x\n");
    CHECK_STR(context_of("x_0,x_1,y\n1,2.5,t\n"), "csv 44 1 3\nF2 x\nty\n");
    CHECK_STR(context_of("x_0,x_1,x\n1,2,3\n"), "csv 44 1 3\nix_0\nix_1\nix\n"); /* x is taken */
    CHECK_STR(context_of("x_1,x_2\n1,2\n"), "csv 44 1 2\nix_1\nix_2\n");
    CHECK_STR(context_of("x_0,x_2\n1,2\n"), "csv 44 1 2\nix_0\nix_2\n"); /* one is no array */
    /* No array holds integers that a float would change and gaps. */
    CHECK_STR(context_of("x_0,x_1\n9007199254740993,1\n2,\n"), "csv 44 1 2\nwx_0\ngx_1\n");
    CHECK_STR(context_of("x_0,x_1\n9007199254740993,1\n"), "csv 44 1 2\nW2 x\n");
}

static const char *merged(const char *a, const char *b)
{
    struct stk_buf out = STK_BUF_INIT;
    int rc = stk_csv_context_merge(a, strlen(a), b, strlen(b), &out, &err);
    snprintf(found, sizeof found, "%s", rc < 0 ? err.what : stk_buf_cstr(&out));
    stk_buf_release(&out);
    return found;
}

static void test_merge(void)
{
    CHECK_STR(merged("csv 44 1 2\nia\nfb\n", "csv 44 1 2\nfa\ntb\n"), "csv 44 1 2\nfa\ntb\n");
    CHECK_STR(merged("csv 44 1 2\nua\nub\n", "csv 44 1 2\nia\ntb\n"), "csv 44 1 2\nia\ntb\n");
    CHECK_STR(merged("csv 44 1 1\nea\n", "csv 44 1 1\nia\n"), "csv 44 1 1\nga\n");
    CHECK_STR(merged("csv 44 1 2\nI2 x\n", "csv 44 1 2\nF2 x\n"), "csv 44 1 2\nF2 x\n");
    CHECK_STR(merged("csv 44 1 2\nI2 x\n", "csv 44 1 2\nix_0\ntx_1\n"), "csv 44 1 2\nix_0\ntx_1\n");
    /* As if all rows were in one file. */
    CHECK_STR(merged("csv 44 1 3\nwa\nwb\nwc\n", "csv 44 1 3\nga\nib\nfc\n"),
              "csv 44 1 3\npa\nwb\ntc\n");
    CHECK_STR(merged("csv 44 1 2\ngx\nex\n", "csv 44 1 2\nfx\nwx\n"), "csv 44 1 2\nfx\npx\n");
    CHECK_STR(merged("csv 44 1 2\nW2 x\n", "csv 44 1 2\nG2 x\n"), "csv 44 1 2\npx_0\npx_1\n");
    CHECK_STR(merged("csv 44 1 1\nia\n", "csv 44 1 1\nib\n"),
              "its column 0 is b, in the files before it a");
    CHECK(strstr(merged("csv 44 1 1\nia\n", "csv 44 1 2\nia\nib\n"), "has 2 columns"));
    CHECK(strstr(merged("csv 44 1 1\nia\n", "csv 59 1 1\nia\n"), "separated by ;"));
    CHECK(strstr(merged("csv 44 1 1\nI9 a\n", "csv 44 1 1\nia\n"), "damaged"));
}

/* ---- the codec ---- */

static int explode(struct stk_sample *s, const char *context, const char *row)
{
    stk_sample_reset(s);
    err = (struct stk_err){0};
    return stk_codec_csv.explode(context, strlen(context), (const uint8_t *)row, strlen(row), s,
                                 &err);
}

static void test_explode(void)
{
    struct stk_sample s;
    stk_sample_init(&s);
    const char *ctx = "csv 44 1 7\ntkey\nilabel\nfx\ntt\nF3 v\n";
    CHECK_INT(explode(&s, ctx, "\"a \"\"b\"\"\", 7,,\"x,y\",1,,2.5"), 0);
    CHECK(s.key_len == 5 && memcmp(s.key, "a \"b\"", 5) == 0);
    CHECK_INT(s.nfields, 4);
    CHECK_INT(stk_value_i64(&s.field[0].value, 0), 7);
    CHECK(isnan(stk_value_f64(&s.field[1].value, 0)));
    CHECK(s.field[2].value.size == 3 && memcmp(s.field[2].value.data, "x,y", 3) == 0);
    CHECK_INT(s.field[3].value.dim[0], 3);
    CHECK(stk_value_f64(&s.field[3].value, 2) == 2.5);
    CHECK_INT(explode(&s, ctx, "a,x,1,t,1,2,3"), STK_E_CORRUPT);
    CHECK(strstr(err.what, "column label: 'x'"));
    CHECK_INT(explode(&s, ctx, "a,,1,t,1,2,3"), STK_E_CORRUPT);
    CHECK_INT(explode(&s, ctx, "a,1,1,t,1,2"), STK_E_CORRUPT);
    CHECK_INT(explode(&s, ctx, "a,1,1,t,1,2,3,4"), STK_E_CORRUPT);
    CHECK_INT(explode(&s, ctx, "a,1,1,\xff,1,2,3"), STK_E_CORRUPT);
    CHECK_INT(explode(&s, "csv 44 1 1\nI1000000 x\n", "1,2"), STK_E_CORRUPT);
    CHECK_INT(explode(&s, "nonsense", "1"), STK_E_CORRUPT);
    stk_sample_release(&s);
}

/* ---- numbers ---- */

static const char *text_of(double v)
{
    found[stk_num_f64(found, v)] = '\0';
    return found;
}

static const char *text_of_single(float v)
{
    found[stk_num_f32(found, v)] = '\0';
    return found;
}

static int number(const char *text, int64_t *i, double *f)
{
    return (int)stk_num_parse(text, strlen(text), i, f);
}

static void test_numbers(void)
{
    int64_t i = 0;
    double f = 0;
    CHECK_STR(text_of(0.1), "0.1");
    CHECK_STR(text_of(1), "1.0");
    CHECK_STR(text_of(-0.0), "-0.0");
    CHECK_STR(text_of(0.1 + 0.2), "0.30000000000000004");
    CHECK_STR(text_of(1e16), "1e+16");
    CHECK_STR(text_of(123456789012345.0), "123456789012345.0");
    CHECK_STR(text_of(5e-324), "5e-324");
    CHECK_STR(text_of(1.7976931348623157e308), "1.7976931348623157e+308");
    CHECK_STR(text_of((double)INFINITY), "inf");
    CHECK_STR(text_of_single(0.1f), "0.1");
    CHECK_STR(text_of_single(16777216), "16777216.0");
    CHECK_STR(text_of_single(1e-45f), "1e-45");
    CHECK_INT(number("9223372036854775807", &i, &f), STK_NUM_INT);
    CHECK(i == INT64_MAX);
    CHECK_INT(number("-9223372036854775808", &i, &f), STK_NUM_INT);
    CHECK(i == INT64_MIN);
    CHECK_INT(number("9223372036854775808", &i, &f), STK_NUM_BIG);
    CHECK_INT(number("1e400", &i, &f), STK_NUM_FLOAT);
    CHECK(isinf(f));
    static const char *const none[] = {"", "-", ".", "e5", "1e", "1e+", "0x10", "1 ", "1,5", "--1"};
    for (size_t k = 0; k < sizeof none / sizeof *none; k++)
        CHECK_INT(number(none[k], &i, &f), STK_NUM_NONE);
}

/* Numbers of all sizes survive being written and read. */
static void test_round_trip(void)
{
    uint64_t x = 88172645463325252ull;
    for (int k = 0; k < 200000; k++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        double v, f = 0;
        float single;
        int64_t i;
        memcpy(&v, &x, sizeof v);
        if (k % 2)
            v = (double)(x >> 11) * 0x1p-53 * 1000;
        uint32_t bits = (uint32_t)x;
        memcpy(&single, &bits, sizeof single);
        size_t n = stk_num_f64(found, v);
        bool same = stk_num_parse(found, n, &i, &f) == STK_NUM_FLOAT && (f == v || isnan(v));
        n = stk_num_f32(found, single);
        same &= stk_num_parse(found, n, &i, &f) == STK_NUM_FLOAT &&
                ((float)f == single || isnan(single));
        found[n] = '\0';
        same &= isnan(single) || strtof(found, NULL) == single;
        CHECK(same && n < STK_NUM_ROOM);
        if (!same)
            return;
    }
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    CHECK_RUN(test_rows);
    CHECK_RUN(test_cells);
    CHECK_RUN(test_guess);
    CHECK_RUN(test_put);
    CHECK_RUN(test_infer);
    CHECK_RUN(test_bars);
    CHECK_RUN(test_arrays);
    CHECK_RUN(test_merge);
    CHECK_RUN(test_explode);
    CHECK_RUN(test_numbers);
    CHECK_RUN(test_round_trip);
    return CHECK_DONE();
}
