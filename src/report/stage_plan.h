/*
 * stage_plan.h - where a copy goes and whether it pays, for people and for programs: the screen of
 * `stage --dry-run`, and the table of targets, which `doctor` shows as well. Paths are escaped.
 */
#ifndef STK_REPORT_STAGE_PLAN_H
#define STK_REPORT_STAGE_PLAN_H

#include "base/buf.h"
#include "base/json.h"
#include "host/fs_facts.h"
#include "stage/cost.h"
#include "stage/target.h"

struct stk_stage_plan {
    const char *source;
    const struct stk_targets *targets; /* NULL: the user named the target */
    const struct stk_target *target;   /* NULL: none fits */
    const struct stk_cost_case *asked; /* NULL: no cost model */
    const struct stk_cost *cost;
    bool there;        /* the copy is complete already */
    const char *rates; /* where the rates come from: "measured just now"; NULL: not told */
};

void stk_stage_plan_text(const struct stk_stage_plan *p, unsigned columns, struct stk_buf *out);
/* Members "source", "target", "targets", "cost". */
void stk_stage_plan_json(const struct stk_stage_plan *p, struct stk_jw *w);

/* "copy in $SLURM_TMPDIR (/local/7): xfs on this node, 1.8 TiB free", and its warning, wrapped. */
void stk_target_text(const struct stk_target *t, unsigned columns, struct stk_buf *out);
/* One row per candidate; the chosen one is marked. */
void stk_targets_text(const struct stk_targets *t, unsigned columns, struct stk_buf *out);
/* The value of a member. */
void stk_target_json(const struct stk_target *t, struct stk_jw *w);
/* Members "target" (the chosen one, or null) and "targets". */
void stk_targets_json(const struct stk_targets *t, struct stk_jw *w);
/* Members of a file system: type, reach, space, quota, stripes. */
void stk_fs_facts_json(const struct stk_fs_facts *f, struct stk_jw *w);

#endif
