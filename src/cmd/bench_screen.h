/*
 * bench_screen.h - the live screen of `stoker bench`, drawn by a process of its own from the board
 * of the run (bench/bench.h), as `stoker watch` does: it costs the ranks nothing, and puts the
 * terminal back even if this process is killed.
 */
#ifndef STK_CMD_BENCH_SCREEN_H
#define STK_CMD_BENCH_SCREEN_H

#include "base/spawn.h"
#include "bench/bench.h"
#include "cmd/cmd.h"

struct stk_bench_screen {
    struct stk_bench_board board; /* give it to the ranks */
    struct stk_child drawer;      /* pid 0: there is none */
};

/* Opens the board and, on a terminal, the screen. status: the value of --status, or NULL; data: the
 * folder of the dataset; first: this process speaks for the run. Caller closes, also on error. */
int stk_bench_screen_open(struct stk_run *run, struct stk_bench_screen *s, const char *status,
                          const char *data, const struct stk_workload *w, bool stoker, bool first);
bool stk_bench_screen_draws(const struct stk_bench_screen *s);
void stk_bench_screen_close(struct stk_bench_screen *s);

#endif
