/* cost_profile.h - the rates of the cost model as a profile of the training has seen them. */
#ifndef STK_STAGE_COST_PROFILE_H
#define STK_STAGE_COST_PROFILE_H

#include "analysis/analysis.h"
#include "stage/cost.h"

/* Fills in what the profile shows of the source at `path` (absolute) and its file system: the rate
 * of its reads, the time of an open, and what the training consumes when it need not wait. Leaves
 * all others. False: the profile has no reads of it, and c is unchanged. */
bool stk_cost_take_profile(const struct stk_analysis *a, const char *path, struct stk_cost_case *c);

#endif
