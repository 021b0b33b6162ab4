/* test_live.c - a look at a run as a screen: it fits, and shows the rows that matter. */
#include "report/live/priv.h"

#include "base/text.h"
#include "check.h"

#define ROWS 5000

static const struct stk_result_field columns[] = {
    {"rank", "rank", STK_U_TEXT, .flags = STK_F_CUT_END},
    {"none", "unknown", STK_U_COUNT, .flags = STK_F_IF_SET},
    {"wait_s", "waited", STK_U_SECONDS, .flags = STK_F_IF_SET},
    {"node", "a node with a long title", STK_U_TEXT, .flags = STK_F_CUT_END},
    {"more", "a column that has no room", STK_U_COUNT, .flags = STK_F_IF_SET},
    {"even", "and another of that size", STK_U_COUNT, .flags = STK_F_IF_SET},
    {"last", "the last, without room", STK_U_COUNT, .flags = STK_F_IF_SET},
    {"slowest", NULL, STK_U_FLAG},
    {NULL}};
static const struct stk_result_field fields[] = {
    STK_LOOK_FIRST,
    STK_LOOK_OF("steps", "steps", STK_U_COUNT),
    STK_LOOK_RATE("steps", STK_U_PER_S),
    STK_LOOK_BAR("steps"),
    {"busy", "busy", STK_U_SHARE, .flags = STK_F_BAR},
    {"ranks", "ranks", STK_U_TABLE, .of = columns, .by = "wait_s", .marked = "slowest",
     .flags = STK_F_CUT},
    {NULL}};
static const struct stk_look_kind kind = {.name = "bench", .fields = fields};

static void fill(struct stk_look *l)
{
    *l = (struct stk_look){.kind = &kind, .title = "t\033[2J", .state = STK_LOOK_RUNS};
    l->elapsed_s = 80;
    l->left_s = 3600;
    struct stk_look_figure *f = stk_look_add(l, "steps", 25);
    f->of = 100;
    f->per_s = 12.5;
    stk_look_add(l, "busy", 0.5);
    CHECK_INT(stk_look_rows(l, "ranks", columns, ROWS, NULL), 0);
    for (size_t i = 0; i < ROWS; i++) {
        stk_look_cell(l, i, "rank")->text = stk_look_printf(l, "%zu", i);
        stk_look_cell(l, i, "wait_s")->value = i % 1000 == 7 ? 100 : 1;
        stk_look_cell(l, i, "node")->text = "n\t1";
        stk_look_cell(l, i, "more")->value = stk_look_cell(l, i, "even")->value = 1;
        stk_look_cell(l, i, "last")->value = 1;
    }
    l->table.slowest = 7;
}

static void check_fits(const char *text, unsigned columns_most, unsigned rows_most)
{
    unsigned rows = 0;
    for (const char *p = text; *p; rows++) {
        size_t n = strcspn(p, "\n");
        CHECK(stk_text_width(p, n) <= columns_most);
        p += n + (p[n] == '\n');
    }
    CHECK(rows <= rows_most);
}

/* With 5,000 ranks, the one that holds up all others would be somewhere below the screen. */
static void the_rows_that_matter(void)
{
    struct stk_look l;
    struct stk_buf b = STK_BUF_INIT, plain = STK_BUF_INIT;
    fill(&l);
    stk_look_text(&l, &(struct stk_look_frame){.columns = 80, .rows = 10}, &b);
    check_fits(stk_buf_cstr(&b), 80, 10);
    CHECK(strstr(stk_buf_cstr(&b), STK_WARN "7" STK_PLAIN) != NULL);
    stk_style_apply(stk_buf_cstr(&b), b.len, false, &plain);
    const char *text = stk_buf_cstr(&plain);
    CHECK(strstr(text, "bench, running, 1 min 20 s, about 1 h 00 min left, t\\x1b[2J\n") == text);
    CHECK(strstr(text, "25 of 100, 12.5/s") && strstr(text, "25.0 %") && strstr(text, "50.0 %"));
    CHECK(strstr(text, "\n  1007 ") && strstr(text, "\n  2007 ") && !strstr(text, "\n  1 "));
    CHECK(strstr(text, "n\\t1") && strstr(text, "and 4996 more ranks\n"));
    CHECK(!strstr(text, "unknown") && !strstr(text, "the last"));
    stk_buf_release(&b);
    stk_buf_release(&plain);
    stk_arena_release(&l.arena);
}

/* On any terminal, no line wraps. */
static void fits_everywhere(void)
{
    struct stk_look l;
    struct stk_buf b = STK_BUF_INIT;
    fill(&l);
    l.why = "a sentence of many words that is longer than a narrow terminal is wide, by far";
    stk_look_note(&l, l.why);
    for (unsigned columns_most = 40; columns_most < 300; columns_most += 13) {
        stk_buf_reset(&b);
        stk_look_text(&l, &(struct stk_look_frame){.columns = columns_most, .rows = 50}, &b);
        check_fits(stk_buf_cstr(&b), columns_most, 50);
    }
    stk_buf_reset(&b);
    stk_look_text(&l, &(struct stk_look_frame){.columns = 120}, &b); /* all of them */
    CHECK(strstr(stk_buf_cstr(&b), "\n  4999 ") != NULL);
    stk_buf_release(&b);
    stk_arena_release(&l.arena);
}

/* What is not known is null, and no rate is made up. */
static void the_same_as_json(void)
{
    struct stk_look l;
    struct stk_buf b = STK_BUF_INIT;
    struct stk_jw w;
    fill(&l);
    l.table.nrows = 1;
    stk_jw_init(&w, &b, false);
    stk_jw_open(&w, '{');
    stk_look_json(&l, &w);
    stk_jw_close(&w, '}');
    const char *text = stk_buf_cstr(&b);
    CHECK(strstr(text, "\"steps\":25,\"steps_total\":100,\"steps_share\":0.25,\"steps_per_s\":12.5,\"busy\":0.5"));
    CHECK(strstr(text, "\"ranks\":[{\"rank\":\"0\",\"none\":null,\"wait_s\":1,\"node\":\"n\\t1\""));
    CHECK(strstr(text, "\"state\":\"running\",\"why\":null") && !strstr(text, "busy_per_s"));
    stk_buf_release(&b);
    stk_arena_release(&l.arena);
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    CHECK_RUN(the_rows_that_matter);
    CHECK_RUN(fits_everywhere);
    CHECK_RUN(the_same_as_json);
    return CHECK_DONE();
}
