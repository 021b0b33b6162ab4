/* judge.h - a profile read, analysed and judged, for the commands that show it. */
#ifndef STK_CMD_JUDGE_H
#define STK_CMD_JUDGE_H

#include "cmd/cmd.h"
#include "lab/advice.h"

typedef int stk_show_fn(struct stk_run *run, const struct stk_analysis *a,
                        const struct stk_advice *advice);
/* Calls show() with what the profile at path comes to, and returns what it does. */
int stk_judge(struct stk_run *run, const char *path, stk_show_fn *show);

#endif
