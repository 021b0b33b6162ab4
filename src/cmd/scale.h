/*
 * scale.h - the settings of `stoker scale`, and what every way of getting times ends in.
 */
#ifndef STK_CMD_SCALE_H
#define STK_CMD_SCALE_H

#include "cmd/cmd.h"
#include "lab/run.h"
#include "lab/scaling.h"

struct stk_scale_settings {
    struct stk_common common;
    const char **from;
    const char *better, *su_weights, *site, *max_relative_su, *predict, *fit, *csv, *save;
    double deadline_s;
    uint64_t gpus_per_n;
    bool plot;
    /* What is run: what an option can say as it is stands in the plan. */
    struct stk_runs_plan plan;
    const char *n, *via, *output, *resume, *inside, *runs, *match, *sbatch_file;
    bool threads, ranks, gpus, nodes;
};

extern const struct stk_opt stk_scale_options[]; /* scale_options.c */

/* Computes the study, says what it says, writes JSON, CSV and the study file. where: what was noted
 * while it was run; NULL: it was not run by us. Returns an exit status or a negative code. */
int stk_scale_finish(struct stk_run *run, const struct stk_study *study,
                     const struct stk_runs_conditions *where);
/* Adds the times of --from to the study. */
int stk_scale_read_files(struct stk_run *run, struct stk_study *study);

/* scale_run.c: runs the command (or goes on with --resume), then the same. */
int stk_scale_run(struct stk_run *run);

#endif
