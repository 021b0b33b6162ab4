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

int stk_replay(const struct stk_analysis *a, struct stk_workload *w, struct stk_replay_said *said,
               struct stk_err *err)
{
    struct rp_model m = {.a = a, .said = said};
    struct stk_bench_plan plan;
    *said = (struct stk_replay_said){0};
    *w = (struct stk_workload){0};
    int rc = stk_rp_model(&m, err);
    rc = rc ? rc : stk_rp_fill(&m, w, err);
    rc = rc ? rc : stk_workload_settle(w, err); /* it must be a workload that runs */
    rc = rc ? rc : stk_bench_plan(&plan, w, 0, w->training.ranks, err);
    free(m.group);
    stk_arena_release(&m.arena);
    return rc;
}

/* What is assumed, above the keys. */
static void put_head(const struct stk_analysis *a, const struct stk_replay_said *said,
                     struct stk_buf *out)
{
    struct stk_jw j;
    stk_buf_puts(out, "# The I/O of a profile, for `stoker bench`: counters are the profile's.\n");
    stk_buf_puts(out, "# Of ");
    stk_jw_init(&j, out, false);
    stk_jw_str(&j, a->p->command ? a->p->command : "");
    stk_buf_puts(out, "\n# What a profile does not know, and what is assumed instead:\n");
    for (size_t i = 0; i < said->n; i++)
        stk_buf_printf(out, "# - %s\n", said->line[i].text);
}

int stk_replay_write(const struct stk_analysis *a, const char *path, struct stk_replay_said *said,
                     struct stk_err *err)
{
    struct stk_buf text = STK_BUF_INIT;
    struct stk_workload w;
    int rc = stk_replay(a, &w, said, err);
    if (!rc) {
        put_head(a, said, &text);
        stk_workload_yaml(&w, &text);
        rc = stk_buf_check(&text, err);
    }
    rc = rc ? rc : stk_write_file_atomic(path, text.data, text.len, err);
    stk_workload_release(&w);
    stk_buf_release(&text);
    return rc;
}
