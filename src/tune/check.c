/*
 * check.c - what was really gained: the user's own command before and after a change, interleaved,
 * by the clock.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tune/priv.h"


static int on_run(void *user, const struct stk_runner_state *st)
{
    const struct stk_tune_check_plan *p = user;
    char text[160];
    snprintf(text, sizeof text, "run %llu of %llu: %.80s", (unsigned long long)st->done + 1,
             (unsigned long long)(2 * p->runs), st->label ? st->label : "");
    return p->tick ? p->tick(p->user, text) : 0;
}

/* Wall time in place of the metric, which stk_tune_compare() looks at. */
static void take_walls(const struct stk_study_series *s, struct stk_study_run *run,
                       struct stk_study_series *out)
{
    *out = (struct stk_study_series){.name = s->name, .run = run, .nruns = s->nruns};
    for (size_t i = 0; i < s->nruns; i++) {
        run[i] = s->run[i];
        run[i].value = run[i].wall_s;
    }
}

static double median_of(const struct stk_study_series *s)
{
    double *v = calloc(s->nruns + 1, sizeof *v), m = NAN;
    size_t n = 0;
    for (size_t i = 0; v && i < s->nruns; i++)
        if (s->run[i].status == STK_RUN_OK)
            v[n++] = s->run[i].wall_s;
    if (n)
        m = stk_median(v, n);
    free(v);
    return m;
}

static int compare(const struct stk_study *study, struct stk_tune_check *out, struct stk_err *err)
{
    const struct stk_study_series *a = &study->series[0], *b = &study->series[1];
    struct stk_study_run *run = calloc(a->nruns + b->nruns + 1, sizeof *run);
    struct stk_study_series before, after;
    if (!run)
        return stk_err_nomem(err, a->nruns * sizeof *run);
    take_walls(a, run, &before);
    take_walls(b, run + a->nruns, &after);
    out->gain = stk_tune_compare(&before, &after);
    out->before_s = median_of(&before);
    out->after_s = median_of(&after);
    free(run);
    if (isnan(out->before_s) || isnan(out->after_s))
        return stk_err_set(err, STK_E_SYS, NULL, -1, "the command %s the change failed: %.200s",
                           isnan(out->before_s) ? "before" : "after",
                           study->nruns && a->nruns && a->run[0].note ? a->run[0].note
                           : b->nruns && b->run[0].note               ? b->run[0].note
                                                                      : "no run ended");
    return 0;
}

int stk_tune_check(const struct stk_tune_check_plan *plan, struct stk_tune_check *out,
                   struct stk_err *err)
{
    struct stk_runner_plan p = STK_RUNNER_PLAN_INIT;
    struct stk_runner_watch watch = {.tick = on_run, .user = (void *)(uintptr_t)plan};
    const char *after[] = {"sh", "-c", plan->after, NULL};
    const struct stk_point points[] = {
        {.id = "before", .label = "before", .series = "before", .n = 1, .argv = plan->before},
        {.id = "after", .label = "after", .series = "after", .n = 1, .argv = after}};
    struct stk_folder work = STK_FOLDER_INIT;
    struct stk_runner *r = NULL;
    *out = (struct stk_tune_check){.before_s = NAN, .after_s = NAN};
    p.variant = points;
    p.nvariants = 2;
    p.pin = false;
    p.warmup = 0;
    p.runs_min = p.runs_max = plan->runs;
    int rc = stk_folder_temp(&work, ".", STK_TUNE_PREFIX "-check", err);
    char *dir = rc ? NULL : stk_folder_path(&work, "study");
    rc = rc ? rc : dir ? stk_runner_new(&p, dir, &r, err) : stk_err_nomem(err, 8);
    rc = rc ? rc : stk_runner_go(r, &watch, err);
    rc = rc ? rc : compare(stk_runner_study(r), out, err);
    stk_runner_free(r);
    if (work.fd >= 0)
        stk_folder_destroy(&work);
    stk_folder_release(&work);
    free(dir);
    return rc;
}
