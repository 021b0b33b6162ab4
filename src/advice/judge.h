/* judge.h - from a profile's path to findings in one call. */
#ifndef STK_ADVICE_JUDGE_H
#define STK_ADVICE_JUDGE_H

#include "advice/advice.h"

struct stk_judged { /* must not move: the analysis points to the profile, the advice to its names */
    struct stk_profile profile;
    struct stk_analysis analysis;
    struct stk_advice advice;
};

/* Reads anything stk_profile_read() reads, analyses it and applies every rule. Caller releases with
 * stk_judged_release(); on error there is nothing to release. */
int stk_judge(const char *path, struct stk_judged *j, struct stk_err *err);
void stk_judged_release(struct stk_judged *j);

#endif
