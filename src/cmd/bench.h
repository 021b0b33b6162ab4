/* bench.h - the options of `stoker bench`, and the workload that follows from them. */
#ifndef STK_CMD_BENCH_H
#define STK_CMD_BENCH_H

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

#endif
