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
};

/* Computes the study, says what it says, writes JSON, CSV and the study file. Returns an exit
 * status or a negative code. */
int stk_scale_finish(struct stk_run *run, const struct stk_study *study);

#endif
