/* fuzz_run.c - what running a study reads: its plan, words that are split, and the output of the
 * command, searched for a metric. */
#include "harness.h"

#include <stdlib.h>

#include "study/priv.h"

/* A plan that was read can be written and read again. */
static void plan(const char *text, size_t size)
{
    struct stk_arena arena = STK_ARENA_INIT;
    struct stk_runner_plan p, q;
    struct stk_points points;
    struct stk_err err = {0};
    if (stk_runner_read_plan(text, size, "p", &arena, &p, &err) == 0) {
        if (stk_runner_check(&p, &err) == 0)
            (void)stk_points_make(&p, &arena, &points, &err);
        if (stk_runner_copy_plan(&p, &arena, &q, &err))
            stk_fuzz_broken("a plan that was read can be written");
    }
    stk_arena_release(&arena);
}

static void words(const char *text)
{
    struct stk_arena arena = STK_ARENA_INIT;
    struct stk_words w = {.arena = &arena};
    struct stk_marks marks = {.n = 3, .ranks = 6, .size = 9};
    struct stk_buf b = STK_BUF_INIT;
    uint64_t n[STK_RUNNER_N_MAX];
    size_t nn;
    if (stk_words_split(&w, text, NULL) == 0)
        for (size_t i = 0; i < w.n; i++)
            stk_marks_expand(&b, w.v[i], &marks);
    stk_fuzz_touch(b.data, b.len);
    (void)stk_runner_parse_n("n", text, n, &nn, NULL);
    stk_buf_release(&b);
    stk_arena_release(&arena);
}

static void output(char *text, size_t size)
{
    struct stk_metric m;
    struct stk_buf b = STK_BUF_INIT;
    double value;
    char line[64];
    if (stk_metric_init(&m, "([0-9.e+-]+) *(images|s)", (enum stk_metric_pick)(size % 3), NULL))
        stk_fuzz_broken("the expression is good");
    (void)stk_metric_find(&m, text, size, &value);
    stk_metric_release(&m);
    stk_buf_put(&b, text, size);
    stk_output_last_line(&b, line, sizeof line);
    stk_fuzz_touch((const uint8_t *)line, strlen(line));
    stk_buf_release(&b);
}

int fuzz_run(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    if (size && text[0] == '{') {
        plan(text, size);
    } else {
        words(text);
        output(text, size);
    }
    free(text);
    return 0;
}
