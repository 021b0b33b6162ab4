/*
 * scale.h - `stoker scale`, one way through: settings -> plan -> points and runs so far -> times of
 * --from -> runs -> study -> analysis -> print. Each is read or made once, in this order, and
 * errors are detected before anything runs.
 */
#ifndef STK_CMD_SCALE_H
#define STK_CMD_SCALE_H

#include "cmd/cmd.h"
#include "study/runner.h"
#include "scaling/scaling.h"
#include "study/study.h"

enum stk_scale_fit { STK_FIT_RELATIVE, STK_FIT_THROUGHPUT };
extern const char *const stk_better_choices[]; /* "lower", "higher" */

struct stk_scale_settings {
    struct stk_common common;
    const char **from;
    int fit;   /* enum stk_scale_fit */
    int match; /* enum stk_metric_pick */
    const char *better, *su_weights, *site, *max_relative_su, *predict, *csv, *save;
    const char *nodes_per_n, *columns, *ranks_per_node;
    double deadline_s;
    uint64_t gpus_per_n;
    int plot; /* enum stk_plot */
    /* What is run: what an option can say as it is stands in the plan. */
    struct stk_runner_plan plan;
    const char *n, *spread, *via, *output, *resume, *inside, *runs, *sbatch_file, *trust;
    bool threads, ranks, gpus, nodes, retry;
};

extern const struct stk_opt stk_scale_options[]; /* scale_settings.c */

/* Where the times come from. */
enum stk_scale_way { STK_SCALE_RUNS = 1, STK_SCALE_RESUMES = 2, STK_SCALE_READS = 4 };

/* One call of the command. */
struct stk_scale {
    struct stk_run *run;
    const struct stk_scale_settings *said;
    enum stk_scale_way way;
    struct stk_scaling_options options;
    double predict[STK_SCALING_PREDICTIONS];
    struct stk_headings headings; /* of tables of --from */
    struct stk_runner_plan plan;  /* when it runs */
    struct stk_buf batch_head;
    struct stk_runner_change change; /* when it resumes */
    uint64_t more_n[STK_RUNNER_N_MAX];
    struct stk_runner *runs; /* NULL: when it only reads */
    struct stk_study *study; /* what is compared; NULL: that of runs alone */
};

/* scale_settings.c: reads options and plan (or change), and tries the output paths. */
int stk_scale_settle(struct stk_scale *s);
/* scale_study.c: reads the times of --from, to compare with ours. */
int stk_scale_read(struct stk_scale *s);
/* scale_study.c: computes the study, shows it, and writes it as JSON, CSV and to its file. */
int stk_scale_finish(struct stk_scale *s);

#endif
