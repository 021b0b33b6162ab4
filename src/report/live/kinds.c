/* kinds.c - the table of kinds of runs, and which of them a folder is. */
#include <stdlib.h>
#include <sys/stat.h>

#include "report/live/priv.h"

extern const struct stk_look_kind stk_look_bench, stk_look_profile, stk_look_stage, stk_look_spread,
    stk_look_study, stk_look_tune;
const struct stk_look_kind *const stk_look_kinds[] = {
    &stk_look_bench,  &stk_look_study, &stk_look_tune, &stk_look_profile,
    &stk_look_spread, &stk_look_stage, NULL};

int stk_look_open(struct stk_look_watch *v, const char *path, const char *trust,
                  struct stk_err *err)
{
    struct stat st;
    *v = (struct stk_look_watch){.trust = trust};
    if (stat(path, &st) != 0)
        return stk_err_sys(err, path, "open");
    if (!S_ISDIR(st.st_mode))
        return stk_err_set(err, STK_E_USAGE, path, -1,
                           "a file: name the folder of a profile, a study, a tuning or a tier, or the "
                           "data of a benchmark");
    for (size_t i = 0; stk_look_kinds[i] && !v->path; i++) {
        v->kind = stk_look_kinds[i];
        v->path = v->kind->claims(path);
    }
    if (v->path)
        return 0;
    return stk_err_set(err, STK_E_UNSUPPORTED, path, -1,
                       "nothing of stoker runs here: not the folder of a profile, a study, a "
                       "tuning or a tier, and not the data or --status folder of a benchmark");
}
