/*
 * scale.h - the settings of `stoker scale`, and what every way of getting times ends in.
 */
#ifndef STK_CMD_SCALE_H
#define STK_CMD_SCALE_H

#include "cmd/cmd.h"
#include "lab/scaling.h"

struct stk_scale_settings {
    struct stk_common common;
    const char **from;
    const char *unit, *better, *su_weights, *site, *max_relative_su, *predict, *fit, *csv, *save;
    double deadline_s;
    uint64_t cores_per_n, gpus_per_n, seed;
    bool weak, plot;
    /* What is run. */
    const char *n, *via, *output, *resume, *inside, *name;
    const char *prepare, *launcher, *container, *runs, *metric, *match;
    bool shell, threads, ranks, gpus, nodes, pin, oversubscribe;
    uint64_t threads_per_rank, ranks_per_node, size, warmup;
    double precision, budget_s, timeout_s;
    /* As jobs of Slurm. */
    const char **sbatch;
    const char *sbatch_file, *gpu_type;
    uint64_t jobs_at_once;
    bool detach;
};

extern const struct stk_opt stk_scale_options[]; /* scale_options.c */

/* Computes the study, says what it says, writes JSON, CSV and the study file. Returns an exit
 * status or a negative code. */
int stk_scale_finish(struct stk_run *run, const struct stk_study *study);
/* Adds the times of --from to the study. */
int stk_scale_read_files(struct stk_run *run, struct stk_study *study);

/* scale_run.c: runs the command (or goes on with --resume), then the same. */
int stk_scale_run(struct stk_run *run);

#endif
