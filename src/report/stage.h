/* stage.h - the results of stage: copies, plans, many nodes. */
#ifndef STK_REPORT_STAGE_H
#define STK_REPORT_STAGE_H

#include "base/json.h"
#include "host/fs_facts.h"
#include "result/field.h"
#include "stage/cost.h"
#include "stage/spread.h"
#include "stage/stage.h"
#include "stage/target.h"

/* ---- copies on this node --------------------------------------------------------------------- */

struct stk_stage_shown {
    const struct stk_source *src;
    const struct stk_notes *notes; /* of src */
    const struct stk_stage_result *result;
    const char *tier, *why; /* the folder, and why it was chosen ("" if the user named it) */
    double list_s, total_s;
    double first_s; /* until the first bytes were in the copy; negative: none were copied */
};
extern const struct stk_result_kind stk_stage_kind; /* of a struct stk_stage_shown */
/* What --list, --verify and --evict write; they fill it as they go. */
extern const struct stk_result_kind stk_sets_kind;

/* A set of a tier: a row of the list, and an object of an array. */
struct stk_grid;
void stk_stage_list_row(const struct stk_tier_info *info, struct stk_grid *t);
void stk_stage_list_json(const char *tier, const struct stk_tier_info *info, struct stk_jw *w);

void stk_stage_check_text(const struct stk_stage_check *c, const char *path, struct stk_buf *out);
void stk_stage_check_json(const struct stk_stage_check *c, const char *path, struct stk_jw *w);

/* ---- where a copy goes and whether it pays --------------------------------------------------- */

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

/* ---- many nodes ------------------------------------------------------------------------------ */

struct stk_stage_nodes {
    const struct stk_spread_result *result;
    const char *source;
    const char *kind; /* of the communicator: "openmpi" */
    uint32_t ranks, min_nodes;
    const char *status; /* the folder of status files that were left; NULL: none */
    double total_s;
};
extern const struct stk_result_kind stk_stage_nodes_kind; /* of a struct stk_stage_nodes */

/* ---- the same data in several forms ---------------------------------------------------------- */

extern const struct stk_result_kind stk_forms_kind; /* of a struct stk_compare */

#endif
