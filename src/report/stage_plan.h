/*
 * stage_plan.h - where a copy goes and whether it pays: the result of `stage --dry-run`, and the
 * table of targets, which `doctor` has as well.
 */
#ifndef STK_REPORT_STAGE_PLAN_H
#define STK_REPORT_STAGE_PLAN_H

#include "host/fs_facts.h"
#include "stage/cost.h"
#include "stage/target.h"
#include "result/field.h"

struct stk_stage_plan {
    const char *source;
    const struct stk_targets *targets; /* NULL: the user named the target */
    const struct stk_target *target;   /* NULL: none fits */
    const struct stk_cost_case *asked; /* NULL: no cost model */
    const struct stk_cost *cost;
    bool there;        /* the copy is complete already */
    const char *rates; /* where the rates come from: "measured just now"; NULL: not told */
};

extern const struct stk_result_kind stk_stage_plan_kind; /* of a struct stk_stage_plan */

/* "target" (the chosen one, or null) and "targets", of a struct stk_targets. */
extern const struct stk_result_field stk_target_fields[];
/* A file system, of a struct stk_fs_facts: type, reach, space, quota, stripes. */
extern const struct stk_result_field stk_fs_fields[];

#endif
