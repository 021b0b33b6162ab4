/* compare.h - profiles side by side, as results. */
#ifndef STK_REPORT_COMPARE_H
#define STK_REPORT_COMPARE_H

#include "advice/advice.h"
#include "result/field.h"

struct stk_compared_profile { /* all borrowed */
    const char *name;
    const struct stk_analysis *a;
    const struct stk_advice *advice;
    bool compared; /* with another one: both are whole */
};
struct stk_compared_pair {
    struct stk_compared_profile before, after; /* with these names */
};
struct stk_compared_profiles {
    const struct stk_compared_profile *profile;
    size_t n; /* at least 2 */
};

/* False: one of the runs failed, or was not recorded to its end. */
bool stk_compared_whole(const struct stk_analysis *before, const struct stk_analysis *after);
extern const struct stk_result_kind stk_profile_pair_kind; /* of a struct stk_compared_pair */
/* Of a struct stk_compared_profiles: on a page. */
extern const struct stk_result_kind stk_profiles_kind;

#endif
