/* fuzz_page.c - a JSON file that claims to be the result of a command: the data of a page made of
 * it is what web/src expects, or it is refused with a reason; its screen has no control characters. */
#include "harness.h"

#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "report/html/page.h"
#include "report/results.h"
#include "result/screen.h"

static size_t length_of(const struct stk_jval *list)
{
    if (!list || list->type != STK_JARR)
        stk_fuzz_broken("a plot has lists of values");
    return list->len;
}

static void check_series(const struct stk_jval *series, const struct stk_jval *axis)
{
    const struct stk_jval *x = stk_json_get(series, "x");
    if (length_of(stk_json_get(series, "v")) != length_of(x ? x : stk_json_get(axis, "v")))
        stk_fuzz_broken("a series has a value for each x");
}

static void check_plot(const struct stk_jval *block)
{
    const struct stk_jval *panels = stk_json_get(block, "panels");
    for (size_t i = 0; i < length_of(panels); i++) {
        const struct stk_jval *series = stk_json_get(&panels->item[i], "series");
        for (size_t k = 0; k < length_of(series); k++)
            check_series(&series->item[k], stk_json_get(block, "x"));
    }
}

static void check_heat(const struct stk_jval *block)
{
    const struct stk_jval *rows = stk_json_get(block, "v");
    size_t wide = length_of(stk_json_get(stk_json_get(block, "x"), "v"));
    if (length_of(rows) != length_of(stk_json_get(stk_json_get(block, "y"), "v")))
        stk_fuzz_broken("every row of a heat map has a name");
    for (size_t i = 0; i < rows->len; i++)
        if (length_of(&rows->item[i]) != wide)
            stk_fuzz_broken("every row of a heat map has all its cells");
}

static void check_table(const struct stk_jval *block)
{
    const struct stk_jval *rows = stk_json_get(block, "rows");
    size_t wide = length_of(stk_json_get(block, "columns"));
    for (size_t i = 0; i < length_of(rows); i++)
        if (length_of(&rows->item[i]) < wide)
            stk_fuzz_broken("every row of a table has all its cells");
}

static void check_result(const struct stk_jval *result)
{
    static const char *const texts[] = {"kind", "name", "title", "verdict"};
    const struct stk_jval *blocks = stk_json_get(result, "blocks");
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const struct stk_jval *v = stk_json_get(result, texts[i]);
        if (!v || v->type != STK_JSTR)
            stk_fuzz_broken("a result has a kind, a name, a title and a verdict");
    }
    for (size_t i = 0; i < length_of(blocks); i++) {
        const struct stk_jval *is = stk_json_get(&blocks->item[i], "is");
        if (is && strcmp(is->str, "plot") == 0)
            check_plot(&blocks->item[i]);
        else if (is && strcmp(is->str, "heat") == 0)
            check_heat(&blocks->item[i]);
        else
            check_table(&blocks->item[i]);
    }
}

static void check_data(const struct stk_buf *data)
{
    struct stk_arena arena = STK_ARENA_INIT;
    struct stk_jval *root;
    if (stk_json_parse(&arena, (const char *)data->data, data->len, &root, NULL))
        stk_fuzz_broken("the data of a page is JSON");
    const struct stk_jval *results = stk_json_get(root, "results");
    for (size_t i = 0; i < length_of(results); i++)
        check_result(&results->item[i]);
    stk_arena_release(&arena);
}

static void check_screen(const char *path)
{
    struct stk_result_file f = {0};
    struct stk_buf out = STK_BUF_INIT, plain = STK_BUF_INIT;
    if (stk_result_file_open(path, &f, NULL) == 0 && f.kind) {
        struct stk_screen s = {
            .subject = f.subject, .columns = 80, .table_columns = 80, .utf8 = true, .out = &out};
        stk_screen_draw(f.kind, f.result, &s);
        stk_style_apply(stk_buf_cstr(&out), out.len, false, &plain);
        for (size_t i = 0; i < plain.len; i++)
            if (plain.data[i] < 0x20 && plain.data[i] != '\n')
                stk_fuzz_broken("a screen has no control characters");
    }
    stk_buf_release(&out);
    stk_buf_release(&plain);
    stk_result_file_release(&f);
}

/* Files that are not JSON are profiles or logs, which have targets of their own. */
int fuzz_page(const uint8_t *data, size_t size)
{
    if (!size || data[0] != '{')
        return 0;
    const char *path = stk_fuzz_file("result.json", data, size);
    const char *twice[] = {path, path};
    check_screen(path);
    for (size_t n = 1; n <= 2; n++) {
        struct stk_buf out = STK_BUF_INIT;
        struct stk_err err = {0};
        int rc = stk_page_data(twice, n, "all", &out, NULL, &err);
        if (rc && !*err.what)
            stk_fuzz_broken("a refused result has a reason");
        if (!rc)
            check_data(&out);
        stk_buf_release(&out);
    }
    return 0;
}
