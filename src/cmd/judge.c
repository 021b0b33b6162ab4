/* judge.c - a profile read, analysed and judged, for the commands that show it. */
#include "cmd/judge.h"

int stk_judge(struct stk_run *run, const char *path, stk_show_fn *show)
{
    struct stk_profile p = {0};
    struct stk_analysis a = {0};
    struct stk_advice advice = {0};
    int rc = stk_profile_read(path, &p, &run->err);
    if (rc)
        return rc;
    rc = stk_analyze(&p, &a, &run->err);
    if (!rc) {
        rc = stk_advise(&a, &advice, &run->err);
        if (!rc) {
            rc = show(run, &a, &advice);
            stk_advice_release(&advice);
        }
        stk_analysis_release(&a);
    }
    stk_profile_release(&p);
    return rc;
}
