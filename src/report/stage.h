/* stage.h - what `stoker stage` did, and which copies a node has, for people and for programs. */
#ifndef STK_REPORT_STAGE_H
#define STK_REPORT_STAGE_H

#include "base/json.h"
#include "result/field.h"
#include "stage/stage.h"

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

#endif
