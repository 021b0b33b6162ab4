/*
 * saves.c - checkpoints of the runs go into folders of the call, on the storage that they are for:
 * what a killed run has written lies where --clean removes it, and nothing of the job is touched.
 */
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "tune/priv.h"

bool stk_tune_saves(const struct stk_workload *w)
{
    return w->checkpoint.every || w->checkpoint.every_epochs || w->checkpoint.at_end;
}

/* The folder of the job's checkpoints, or the nearest one above it: that of an earlier run may be
 * gone. malloc'ed; NULL: none. */
static char *nearest(const char *dir)
{
    char *at = dir ? strdup(dir) : NULL, *real = at ? realpath(at, NULL) : NULL, *slash;
    while (at && !real && (slash = strrchr(at, '/')) && slash > at) {
        *slash = '\0';
        real = realpath(at, NULL);
    }
    free(at);
    return real;
}

void stk_tune_name_saves(struct stk_tuner *t)
{
    if (!stk_tune_saves(&t->s.w))
        return;
    char *dir = nearest(t->s.w.checkpoint.dir);
    if (dir && access(dir, W_OK | X_OK) == 0)
        t->saves_path = stk_tune_text(t, "%s/%s", dir, stk_base_name(t->work.path));
    else
        t->saves_path = stk_tune_text(t, "%s", t->work.path);
    free(dir);
}

int stk_tune_make_saves(struct stk_tuner *t, struct stk_err *err)
{
    bool made;
    if (!t->saves_path || strcmp(t->saves_path, t->work.path) == 0)
        return 0;
    return stk_folder_take(&t->saves, t->saves_path, false, &made, err);
}

/* Jobs of Slurm may run on other nodes, where no folder of the call is: bench makes and removes its
 * own. */
const char *stk_tune_saves_at(const struct stk_tuner *t, const struct stk_tune_change *c)
{
    bool elsewhere = c && c->kind->helps == STK_HELPS_SAVES;
    if (!elsewhere)
        return t->saves_path;
    return t->plan->via == &stk_executor_local ? t->there_path[c->near] : NULL;
}
