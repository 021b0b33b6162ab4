/* judge.c - see judge.h. */
#include "advice/judge.h"

int stk_judge(const char *path, struct stk_judged *j, struct stk_err *err)
{
    *j = (struct stk_judged){0};
    int rc = stk_profile_read(path, &j->profile, err);
    if (!rc)
        rc = stk_analyze(&j->profile, &j->analysis, err);
    if (!rc)
        rc = stk_advise(&j->analysis, &j->advice, err);
    if (rc)
        stk_judged_release(j);
    return rc;
}

void stk_judged_release(struct stk_judged *j)
{
    stk_advice_release(&j->advice);
    stk_analysis_release(&j->analysis);
    stk_profile_release(&j->profile);
}
