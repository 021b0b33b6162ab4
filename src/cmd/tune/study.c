/* study.c - the number of nodes that a study of `stoker scale` recommends, for --ask. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "cmd/tune.h"
#include "record/folder.h"
#include "report/tune.h"
#include "scaling/scaling.h"

static bool is_study(const char *name)
{
    return strcmp(name, "study.json") == 0;
}

static bool counts(const struct stk_study *s, const char *unit)
{
    return s->unit && strcmp(s->unit, unit) == 0;
}

/* The balanced N of the first series, else the fastest. */
static int take_choice(const struct stk_scaling *all, const char *dir, struct stk_tune_scale *out,
                       struct stk_err *err)
{
    const struct stk_scaling_series *s = &all->series[0];
    const struct stk_choice *c = &s->choice[STK_WISH_BALANCED];
    char n[64];
    c = all->nseries && c->found ? c : &s->choice[STK_WISH_FASTEST];
    if (!all->nseries || !c->found)
        return stk_err_set(err, STK_E_USAGE, dir, -1,
                           "the study recommends no N: too few of its runs ended well");
    const struct stk_scaling_row *row = &s->row[c->row];
    bool nodes = counts(all->study, "nodes");
    *out = (struct stk_tune_scale){.nodes = nodes ? (double)row->n : row->nodes};
    if (counts(all->study, "ranks") || counts(all->study, "GPUs"))
        out->tasks = row->n;
    snprintf(out->why, sizeof out->why, "%s: beyond that, more stop paying (%.80s)",
             stk_scaling_n(all, row->n, n, sizeof n), stk_base_name(dir));
    return 0;
}

int stk_tune_read_study(struct stk_run *run, const char *dir, const char *trust,
                        struct stk_tune_scale *out)
{
    struct stk_study study = STK_STUDY_INIT;
    struct stk_scaling *all = calloc(1, sizeof *all);
    const struct stk_scaling_options o = {.su = STK_SU_RATES_INIT, .seed = 1};
    struct stat st;
    bool folder = stat(dir, &st) == 0 && S_ISDIR(st.st_mode); /* else a result or a table */
    char *path = folder ? stk_path_join(dir, "study.json") : strdup(dir);
    int rc = path && all ? 0 : stk_err_nomem(&run->err, sizeof *all);
    if (!rc && folder)
        rc = stk_folder_believe(dir, is_study, trust, &run->err);
    rc = rc ? rc : stk_study_read(&study, path, "", &run->err);
    if (!rc) {
        rc = stk_scaling_compute(&study, &o, all, &run->err);
        rc = rc ? rc : take_choice(all, dir, out, &run->err);
        stk_scaling_release(all);
    }
    stk_study_release(&study);
    free(path);
    free(all);
    return rc;
}
