/*
 * stage_compare.h - `stoker stage --compare`: its options, as rows for the table of `stage`, and
 * its two entries: the comparison, and one point of it.
 */
#ifndef STK_CMD_STAGE_COMPARE_H
#define STK_CMD_STAGE_COMPARE_H

#include "cmd/cmd.h"
#include "stage/compare.h"

struct stk_stage_compare_settings {
    bool compare;
    const char *const *forms;
    const char *jobs, *beside, *executor;
    uint64_t runs, seed, per_node;
    const char **sbatch;
    /* Of a point. */
    const char *step;
    uint64_t of, here;
};

const char *const *stk_stage_compare_forms(void);
/* True if the options ask for a comparison or a point of one: then stk_stage_compare_run() does it
 * all. */
bool stk_stage_compare_asked(const struct stk_stage_compare_settings *s);
int stk_stage_compare_run(struct stk_run *run, const struct stk_stage_compare_settings *s);

#endif
