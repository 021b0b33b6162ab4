/* judge.h - a profile read, analysed and judged, for the commands that show it. */
#ifndef STK_CMD_JUDGE_H
#define STK_CMD_JUDGE_H

#include "cmd/cmd.h"
#include "lab/advice.h"

struct stk_judged { /* stays where it is: the analysis points at the profile */
    struct stk_profile profile;
    struct stk_analysis analysis;
    struct stk_advice advice;
};

int stk_judge(const char *path, struct stk_judged *j, struct stk_err *err);
void stk_judged_release(struct stk_judged *j);

#endif
