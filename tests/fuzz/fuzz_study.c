/* fuzz_study.c - times measured elsewhere: CSV and study files, and everything computed, drawn and
 * written from them. */
#include "harness.h"

#include <stdlib.h>

#include "report/scale.h"
#include "result/page.h"
#include "result/screen.h"

/* What was read can be written and read again. */
static void write_and_read(const struct stk_study *s)
{
    struct stk_buf b = STK_BUF_INIT;
    struct stk_jw w;
    stk_jw_init(&w, &b, false);
    stk_study_write_json(s, &w);
    struct stk_study *back = calloc(1, sizeof *back);
    bool utf8 = true; /* bytes that are not UTF-8 become longer, perhaps too long */
    for (size_t i = 0; i < b.len; i++)
        utf8 = utf8 && b.data[i] < 0x80;
    if (back && stk_study_read_json(back, (const char *)b.data, b.len, "s", NULL) && utf8)
        stk_fuzz_broken("a study that was written can be read");
    if (back)
        stk_study_release(back);
    free(back);
    stk_buf_release(&b);
}

static void compute(const struct stk_study *s)
{
    static const double predict[] = {3, 1000};
    struct stk_scaling_options o = {.su = STK_SU_RATES_INIT,
                                    .deadline_s = 10,
                                    .max_relative_su = 1.5,
                                    .predict = predict,
                                    .npredict = 2,
                                    .throughput = s->nruns % 2,
                                    .seed = 1};
    struct stk_scaling *all = calloc(1, sizeof *all);
    enum stk_plot plot = (enum stk_plot)(s->nruns % 4);
    struct stk_buf b = STK_BUF_INIT;
    struct stk_arena arena = STK_ARENA_INIT;
    struct stk_screen screen = {
        .columns = 80, .table_columns = 80, .utf8 = s->nseries % 2, .style = &plot, .out = &b};
    struct stk_jval *v;
    struct stk_jw w;
    if (all && stk_scaling_compute(s, &o, all, NULL) == 0) {
        if (stk_result_fill(&stk_scale_kind, all, &arena, &v, NULL))
            stk_fuzz_broken("results are written as JSON");
        stk_screen_draw(&stk_scale_kind, v, &screen);
        stk_fuzz_touch(b.data, b.len);
        stk_buf_reset(&b);
        stk_csv_columns_draw(stk_scale_kind.csv, v, &b);
        stk_fuzz_touch(b.data, b.len);
        stk_buf_reset(&b);
        stk_jw_init(&w, &b, false);
        stk_page_draw(&stk_scale_kind, "study", "N", v, &w);
        stk_fuzz_touch(b.data, b.len);
    }
    if (all)
        stk_scaling_release(all);
    free(all);
    stk_arena_release(&arena);
    stk_buf_release(&b);
}

int fuzz_study(const uint8_t *data, size_t size)
{
    struct stk_study *s = calloc(1, sizeof *s);
    struct stk_err err = {0};
    if (!s)
        return 0;
    bool json = size && data[0] == '{';
    s->weak = size % 3 == 0;
    int rc = json ? stk_study_read_json(s, (const char *)data, size, "s", &err)
                  : stk_study_read_csv(s, (const char *)data, size, "s", "", &err);
    if (rc == 0) {
        write_and_read(s);
        compute(s);
    }
    stk_study_release(s);
    free(s);
    return 0;
}
