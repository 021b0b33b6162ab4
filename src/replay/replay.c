/* replay.c - see replay.h. */
#include "replay/replay.h"

#include <stdlib.h>

#include "base/own.h"
#include "bench/plan.h"
#include "replay/priv.h"

void stk_replay_said_release(struct stk_replay_said *said)
{
    free(said->line);
    stk_arena_release(&said->arena);
    *said = (struct stk_replay_said){0};
}

/* What was written must be a workload that runs. */
static int check(const struct stk_buf *text, struct stk_err *err)
{
    struct stk_workload w = {0};
    struct stk_bench_plan plan;
    int rc = stk_workload_parse((const char *)text->data, text->len, "the workload", false, &w, err);
    rc = rc ? rc : stk_workload_settle(&w, err);
    rc = rc ? rc : stk_bench_plan(&plan, &w, 0, w.training.ranks, err);
    stk_workload_release(&w);
    return rc;
}

int stk_replay_text(const struct stk_analysis *a, struct stk_buf *out, struct stk_replay_said *said,
                    struct stk_err *err)
{
    struct rp_model m = {.a = a, .said = said};
    *said = (struct stk_replay_said){0};
    int rc = stk_rp_model(&m, err);
    if (rc == 0)
        stk_rp_text(&m, out);
    rc = rc ? rc : stk_buf_check(out, err);
    rc = rc ? rc : check(out, err);
    free(m.group);
    stk_arena_release(&m.arena);
    return rc;
}

int stk_replay_write(const struct stk_analysis *a, const char *path, struct stk_replay_said *said,
                     struct stk_err *err)
{
    struct stk_buf text = STK_BUF_INIT;
    int rc = stk_replay_text(a, &text, said, err);
    rc = rc ? rc : stk_write_file_atomic(path, text.data, text.len, err);
    stk_buf_release(&text);
    return rc;
}
