/* bench.h - the options of `stoker bench`, and the workload that follows from them. */
#ifndef STK_CMD_BENCH_H
#define STK_CMD_BENCH_H

#include "base/spawn.h"
#include "bench/bench.h"
#include "bench/workload.h"
#include "cmd/cmd.h"
#include "sched/comm.h"

enum stk_bench_reader { STK_READER_APPLICATION, STK_READER_STOKER };

struct stk_bench_settings {
    struct stk_common common;
    struct stk_comm *comm; /* of the processes that mpirun or srun started; NULL: none */
    int reader; /* enum stk_bench_reader */
    const char *data, *dlio, *model, *neighbour, *neighbour_data, *status;
    struct stk_dlio theirs; /* what the file of --dlio says beside the workload */
    const char **set, **sweep;
    uint64_t ranks, jobs;
    double scale, patience, au;
    bool generate, generate_only, clean, small, find_max, compare, no_calibration, show, list;
    bool not_generated; /* the generation failed, not the run */
};

extern const struct stk_opt stk_bench_options[];

/* Reads a file, or a workload that comes with stoker, by its name. */
int stk_bench_read(struct stk_run *run, const char *name, struct stk_workload *w);
/* The workload of the command line, with all changes, settled. */
int stk_bench_workload(struct stk_run *run, struct stk_workload *w);

/* ---- bench_screen.c -------------------------------------------------------------------------- */

/* The live screen of `stoker bench`, drawn by a process of its own from the board of the run
 * (bench/bench.h), as `stoker watch` does: it costs the ranks nothing, and puts the terminal back
 * even if this process is killed. */

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

/* ---- the list of workloads ------------------------------------------------------------------- */

/* Shows them: name, ranks, size of the data, and what it is. */
int stk_bench_list(struct stk_run *run);
/* The one that the user probably meant by `name`, in buf; NULL: none is near. */
const char *stk_bench_nearest(const char *name, char *buf, size_t n);

#endif
