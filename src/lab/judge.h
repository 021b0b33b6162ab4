/* judge.h - from a profile's path to findings in one call. */
#ifndef STK_LAB_JUDGE_H
#define STK_LAB_JUDGE_H

#include "lab/advice.h"

struct stk_judged { /* must not be moved: the analysis points at the profile, the advice at its
                       names */
    struct stk_profile profile;
    struct stk_analysis analysis;
    struct stk_advice advice;
};

/* Reads whatever stk_profile_read() reads, analyses it and asks every rule. Caller releases with
 * stk_judged_release(); on error there is nothing to release. */
int stk_judge(const char *path, struct stk_judged *j, struct stk_err *err);
void stk_judged_release(struct stk_judged *j);

#endif
