/* test_result.c - a result drawn from its fields: the screen, CSV, the schema, and how values are rounded. */
#include "result/page.h"
#include "result/screen.h"

#include "base/json.h"
#include "base/text.h"
#include "check.h"

struct row {
    const char *path;
    uint64_t bytes;
    double share;
};

struct sample {
    uint64_t files, bad;
    uint32_t threads;
    int64_t from_device; /* -1: unknown */
    double rate;
    const char *engine, *why;
    bool whole;
    uint64_t wait_ns;
    struct row row[2];
};

#define FROM(member) STK_FROM(struct sample, member)

static const struct stk_result_field row_fields[] = {
    {"path", "file", STK_U_TEXT, STK_FROM(struct row, path)},
    {"bytes", "size", STK_U_BYTES, STK_FROM(struct row, bytes)},
    {"share", "share", STK_U_SHARE, STK_FROM(struct row, share), .flags = STK_F_BAR},
    {NULL}};

static void put_rows(const void *base, struct stk_jw *w)
{
    const struct sample *s = base;
    stk_rows_put(row_fields, s->row, 2, sizeof *s->row, w);
}

STK_NUMBER_OF(each, struct sample, (double)(r->files * 3))

static const struct stk_result_field inner[] = {
    {"wait_seconds", "waited", STK_U_SECONDS, STK_FROM_AS(NS, struct sample, wait_ns)}, {NULL}};

static const struct stk_result_field fields[] = {
    {"engine", "engine", STK_U_TEXT, FROM(engine), .flags = STK_F_HEAD},
    {"files", "files", STK_U_COUNT, FROM(files), "how many there are", .say = "% file(s)"},
    {"each", "each", STK_U_COUNT, .number = each, .joins = ", % of them"},
    {"bad", "bad", STK_U_COUNT, FROM(bad), .flags = STK_F_IF_SET},
    {"worse", "worse", STK_U_COUNT, FROM(files), .joins = ", % worse"},
    {"device_bytes", "from storage", STK_U_BYTES, FROM(from_device), .none = "not known"},
    {"rate", "rate", STK_U_BYTES_PER_S, FROM(rate)},
    {"why", "why", STK_U_TEXT, FROM(why), .flags = STK_F_KNOWN},
    {"threads", NULL, STK_U_COUNT, FROM(threads)},
    {"whole", "whole", STK_U_FLAG, FROM(whole)},
    {"io", NULL, STK_U_GROUP, .of = inner},
    {"", NULL, STK_U_GROUP, .of = inner},
    {"rows", "rows", STK_U_TABLE, .put = put_rows, .of = row_fields},
    {NULL}};

static const struct stk_result_kind kind = {.command = "x", .doing = "X", .fields = fields};

static const struct sample given = {
    .files = 1,
    .from_device = -1,
    .threads = 4,
    .rate = 3 << 20,
    .engine = "a\033b",
    .why = "",
    .wait_ns = 1500000,
    .row = {{"one\n", 5000, 0.25}, {"two", 20480, 1}},
};

static const char *fill(struct stk_buf *b)
{
    struct stk_jw w;
    stk_jw_init(&w, b, false);
    stk_jw_open(&w, '{');
    stk_fields_put(fields, &given, &w);
    stk_jw_close(&w, '}');
    return stk_buf_cstr(b);
}

static void draw(const char *json, unsigned columns, struct stk_buf *out)
{
    struct stk_arena arena = STK_ARENA_INIT;
    struct stk_jval *v = NULL;
    struct stk_err err = {0};
    struct stk_screen s = {
        .subject = "d", .columns = columns, .table_columns = columns, .out = out};
    CHECK_INT(stk_json_parse(&arena, json, strlen(json), &v, &err), 0);
    if (v)
        stk_screen_draw(&kind, v, &s);
    stk_arena_release(&arena);
}

/* A member that is lost, or has another type, breaks every script that reads results. */
static void test_members(void)
{
    struct stk_buf b = STK_BUF_INIT;
    CHECK_STR(fill(&b),
              "{\"engine\":\"a\\u001bb\",\"files\":1,\"each\":3,\"bad\":0,\"worse\":1,"
              "\"device_bytes\":null,\"rate\":3145728.0,\"why\":null,\"threads\":4,\"whole\":false,"
              "\"io\":{\"wait_seconds\":0.0015},\"wait_seconds\":0.0015,"
              "\"rows\":[{\"path\":\"one\\n\",\"bytes\":5000,\"share\":0.25},"
              "{\"path\":\"two\",\"bytes\":20480,\"share\":1.0}]}");
    stk_buf_release(&b);
}

/* What joins a line that is not shown is not shown, what is unknown is said, and names are escaped. */
static void test_screen(void)
{
    struct stk_buf b = STK_BUF_INIT, out = STK_BUF_INIT, plain = STK_BUF_INIT;
    draw(fill(&b), 80, &out);
    stk_style_apply(stk_buf_cstr(&out), out.len, false, &plain);
    CHECK_STR(stk_buf_cstr(&plain),
              "d: a\\x1bb\n\n"
              "  files         1 file, 3 of them\n"
              "  from storage  not known\n"
              "  rate          3.00 MiB/s\n"
              "  whole         no\n"
              "  waited        1.5 ms\n"
              "  waited        1.5 ms\n\n"
              "  file       size   share\n"
              "  one\\n   5,000 B  25.0 %  ########\n"
              "  two    20.0 KiB   100 %  ##############################\n");
    stk_buf_release(&plain);
    stk_buf_release(&out);
    stk_buf_release(&b);
}

static const struct stk_result_field time_fields[] = {{"jobs", "jobs at once", STK_U_COUNT},
                                                      {"last_s", "last", STK_U_SECONDS},
                                                      {NULL}};
static const struct stk_result_field side_fields[] = {
    {"name", "run", STK_U_TEXT},
    {"bytes", "read", STK_U_BYTES},
    {"share", "busy", STK_U_SHARE},
    {"zero", "never", STK_U_COUNT, .flags = STK_F_IF_SET},
    {"none", "unknown", STK_U_COUNT},
    {NULL}};
static const struct stk_result_field time_columns[] = {
    {"name", "run", STK_U_TEXT},
    {"times", "times", STK_U_TABLE, .of = time_fields, .by = "last_s", .flags = STK_F_SIDE},
    {"said", NULL, STK_U_PROSE, .flags = STK_F_NOTE},
    {NULL}};
static const struct stk_result_field beside[] = {
    {"", "numbers", STK_U_TABLE, .of = side_fields, .pair = {"was", "is"},
     .flags = STK_F_VIEW | STK_F_SIDE},
    {"runs", "times", STK_U_TABLE, .of = time_columns, .flags = STK_F_SIDE},
    {NULL}};
static const struct stk_result_kind beside_kind = {
    .command = "x", .doing = "X", .fields = beside};

/* Who compares two runs would compare a figure of one with another figure of the other, or would
 * not see which has none. */
static void test_side_by_side(void)
{
    struct stk_buf out = STK_BUF_INIT;
    struct stk_screen s = {.columns = 80, .table_columns = 80, .out = &out};
    struct stk_arena arena = STK_ARENA_INIT;
    struct stk_jval *v = NULL;
    const char *json =
        "{\"was\":{\"name\":\"/a/very/long/path/of/results/was.json\",\"bytes\":4096,"
        "\"share\":0.5,\"zero\":0,\"none\":null},"
        "\"is\":{\"name\":\"is\",\"bytes\":2048,\"share\":0.75,\"zero\":0,\"none\":null},"
        "\"runs\":[{\"name\":\"a\",\"times\":[{\"jobs\":1,\"last_s\":2},"
        "{\"jobs\":2,\"last_s\":3}],\"said\":\"It is slow.\"},"
        "{\"name\":\"b\",\"times\":[{\"jobs\":2,\"last_s\":1}]},"
        "{\"name\":7,\"times\":[null,3]}]}";
    CHECK_INT(stk_json_parse(&arena, json, strlen(json), &v, NULL), 0);
    stk_screen_draw(&beside_kind, v, &s);
    CHECK_STR(stk_buf_cstr(&out), "        ...ts/was.json       is        change\n"
                                  "  read         4,096 B  2,048 B    2.00x less\n"
                                  "  busy          50.0 %   75.0 %  +25.0 points\n\n"
                                  "  jobs at once       a       b  7\n"
                                  "  1             2.00 s       -  -\n"
                                  "  2             3.00 s  1.00 s  -\n"
                                  "  It is slow.\n");
    stk_arena_release(&arena);
    stk_buf_release(&out);
}

/* A file of a stranger: nothing is where the fields say it is. */
static void test_foreign(void)
{
    const char *const foreign[] = {
        "{}",
        "[]",
        "{\"rows\":[1,null,{\"path\":{}}],\"io\":3,\"files\":\"x\",\"whole\":7,\"engine\":[1,{}]}",
        "{\"rows\":{\"path\":1},\"io\":{\"wait_seconds\":\"y\"},\"files\":-1e300,\"rate\":1e300}"};
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++) {
        struct stk_buf out = STK_BUF_INIT;
        draw(foreign[i], 60, &out);
        CHECK(!out.fail);
        stk_buf_release(&out);
    }
}

static void test_csv_and_schema(void)
{
    struct stk_arena arena = STK_ARENA_INIT;
    struct stk_buf b = STK_BUF_INIT, out = STK_BUF_INIT, schema = STK_BUF_INIT;
    struct stk_jval *v = NULL;
    struct stk_jw w;
    const char *json = fill(&b);
    CHECK_INT(stk_json_parse(&arena, json, b.len, &v, NULL), 0);
    CHECK(stk_csv_draw(&kind, "rows", v, &out));
    CHECK_STR(stk_buf_cstr(&out), "path,bytes,share\n\"one\n\",5000,0.25\ntwo,20480,1\n");
    CHECK(!stk_csv_draw(&kind, "files", v, &out));
    stk_jw_init(&w, &schema, false);
    stk_schema_draw(&kind, &w);
    CHECK(strstr(stk_buf_cstr(&schema),
                 "\"files\":{\"title\":\"files\",\"description\":\"how many there are\","
                 "\"type\":[\"integer\",\"null\"],\"unit\":\"count\"}"));
    stk_buf_release(&schema);
    stk_buf_release(&out);
    stk_buf_release(&b);
    stk_arena_release(&arena);
}

static void check_unit(enum stk_unit unit, double v, const char *want)
{
    char buf[64];
    CHECK_STR(stk_unit_text(unit, v, buf, sizeof buf), want);
}

/* One number has one text: web/src/units.js rounds the same values alike. */
static void test_values(void)
{
    check_unit(STK_U_COUNT, 1234567, "1,234,567");
    check_unit(STK_U_BYTES, 9999, "9,999 B");
    check_unit(STK_U_BYTES, 10240, "10.0 KiB");
    check_unit(STK_U_BYTES_PER_S, 1572864, "1.50 MiB/s");
    check_unit(STK_U_SECONDS, 0, "0 s");
    check_unit(STK_U_SECONDS, 2.5e-7, "250 ns");
    check_unit(STK_U_SECONDS, 0.0042, "4.2 ms");
    check_unit(STK_U_SECONDS, 3661, "1 h 01 min");
    check_unit(STK_U_SHARE, 0, "0.0 %");
    check_unit(STK_U_SHARE, 0.0001, "<0.1 %");
    check_unit(STK_U_SHARE, 0.186, "18.6 %");
    check_unit(STK_U_SHARE, 0.9999, "99.9 %");
    check_unit(STK_U_SHARE, 1, "100 %");
    check_unit(STK_U_SHARE, 1.18, "118 %");
    check_unit(STK_U_SHARE, 1e9, ">999 %");
    check_unit(STK_U_TIMES, 1.5, "1.50x");
    check_unit(STK_U_PER_S, 12.34, "12.3/s");
    check_unit(STK_U_PER_S, 5000, "5,000/s");
    check_unit(STK_U_PLAIN, 12.3456, "12.35");
    check_unit(STK_U_PLAIN, NAN, "-");
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    CHECK_RUN(test_members);
    CHECK_RUN(test_screen);
    CHECK_RUN(test_side_by_side);
    CHECK_RUN(test_foreign);
    CHECK_RUN(test_csv_and_schema);
    CHECK_RUN(test_values);
    return CHECK_DONE();
}
