/*
 * status.h - a running benchmark for `stoker watch`: a *board*, which is a private folder with a
 * beacon (host/beacon.h) of the run and one of each rank.
 *
 *   run.json         what runs: workload, reader, ranks
 *   rank-00003.json  how far a rank is: phase, step, times, queue, bytes
 *
 * A thread of the rank writes its beacon, so that a slow file system does not delay a step. All
 * ranks together write at most twenty files per second. The folder is removed when the run ends.
 */
#ifndef STK_BENCH_STATUS_H
#define STK_BENCH_STATUS_H

#include "bench/feed.h"
#include "host/beacon.h"

#define STK_BENCH_BOARD "stoker-bench.status" /* in the data folder */
#define STK_BENCH_RUN   "run.json"
#define STK_BENCH_RANK  "rank-" /* a rank's file begins with this */

struct stk_bench_board {
    int dirfd; /* -1: there is none */
    char *path;
    const struct stk_workload *w;
    uint64_t ranks;
    bool stoker;
    struct stk_beacon run;
};
#define STK_BENCH_BOARD_INIT ((struct stk_bench_board){.dirfd = -1, .run = {.dirfd = -1}})

/* Makes the folder, or takes the one that a killed run left. first: this process speaks for the
 * run. STK_E_EXISTS: another run uses it. Caller closes, also after an error. */
int stk_bench_board_open(struct stk_bench_board *b, const char *path, const struct stk_workload *w,
                         bool stoker, bool first, struct stk_err *err);
/* Removes the files and the folder, if this process spoke for the run. */
void stk_bench_board_close(struct stk_bench_board *b);
/* Removes what a killed run left. */
void stk_bench_board_clean(const char *path);

/* ---- a rank ---- */

struct stk_bench_status;
/* NULL: the board is NULL, or it cannot be done. */
struct stk_bench_status *stk_bench_status_begin(const struct stk_bench_board *board,
                                                const struct stk_bench_plan *plan, bool idle);
/* What it does now: a text that stays valid. */
void stk_bench_status_phase(struct stk_bench_status *s, const char *phase);
/* After each step. */
void stk_bench_status_step(struct stk_bench_status *s, const struct stk_bench_rank *r,
                           const struct stk_bench_live *live, const struct stk_feed *feed);
/* Removes the file. NULL is fine. */
void stk_bench_status_end(struct stk_bench_status *s);

#endif
