/*
 * check.c - what was really gained: the user's own command before and after a change, interleaved,
 * by the clock.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "tune/priv.h"

static int on_run(void *user, const struct stk_runner_state *st)
{
    const struct stk_tune_check_plan *p = user;
    char text[160];
    snprintf(text, sizeof text, "run %llu of %llu: %.80s", (unsigned long long)st->done + 1,
             (unsigned long long)(2 * p->runs), st->label ? st->label : "");
    return p->tick ? p->tick(p->user, text) : 0;
}

/* Wall time in place of the metric, which stk_tune_pairs() looks at. */
static void take_walls(const struct stk_study_series *s, struct stk_study_run *run,
                       struct stk_study_series *out)
{
    *out = (struct stk_study_series){.name = s->name, .run = run, .nruns = s->nruns};
    for (size_t i = 0; i < s->nruns; i++) {
        run[i] = s->run[i];
        run[i].value = run[i].wall_s;
    }
}

struct times {
    double median_s, least_s, most_s;
    size_t failed;
    const char *why; /* of the first that failed; NULL: none, or not known */
};

static void take_times(const struct stk_study_series *s, struct times *out)
{
    double *v = calloc(s->nruns + 1, sizeof *v);
    size_t n = 0;
    *out = (struct times){.median_s = NAN, .least_s = NAN, .most_s = NAN};
    for (size_t i = 0; v && i < s->nruns; i++) {
        const struct stk_study_run *r = &s->run[i];
        if (r->status == STK_RUN_OK) {
            v[n++] = r->wall_s;
            out->least_s = fmin(out->least_s, r->wall_s);
            out->most_s = fmax(out->most_s, r->wall_s);
        } else if (!out->failed++) {
            out->why = r->note;
        }
    }
    if (n)
        out->median_s = stk_median(v, n);
    free(v);
}

static int refuse(const char *which, const struct times *t, struct stk_err *err)
{
    const char *why = t->why ? t->why : "no run ended";
    return stk_err_set(err, STK_E_SYS, NULL, -1, "the command %s the change failed: %.200s", which,
                       why);
}

static int compare(const struct stk_study *study, struct stk_tune_check *out, struct stk_err *err)
{
    const struct stk_study_series *a = &study->series[0], *b = &study->series[1];
    struct stk_study_run *run = calloc(a->nruns + b->nruns + 1, sizeof *run);
    double *log_ratio = calloc(b->nruns + 1, sizeof *log_ratio);
    struct stk_study_series before, after;
    struct times x, y;
    if (!run || !log_ratio) {
        free(run);
        free(log_ratio);
        return stk_err_nomem(err, a->nruns * sizeof *run);
    }
    take_walls(a, run, &before);
    take_walls(b, run + a->nruns, &after);
    out->gain = stk_verdict_of_pairs(
        log_ratio, stk_tune_pairs(&before, &after, log_ratio, b->nruns), STK_VERDICT_ALIKE);
    take_times(&before, &x);
    take_times(&after, &y);
    free(run);
    free(log_ratio);
    out->before_s = x.median_s;
    out->before_least_s = x.least_s;
    out->before_most_s = x.most_s;
    out->after_s = out->gain.times > 0 ? x.median_s / out->gain.times : y.median_s;
    out->failed_before = x.failed;
    out->failed_after = y.failed;
    return isnan(x.median_s)   ? refuse("before", &x, err)
           : isnan(y.median_s) ? refuse("after", &y, err)
                               : 0;
}

/* ---- the two commands ----------------------------------------------------------------------- */

/* As scripts: in the words of a point braces have a meaning. */
static int write_scripts(const struct stk_tune_check_plan *plan, struct stk_folder *work,
                         struct stk_err *err)
{
    struct stk_buf b = STK_BUF_INIT;
    stk_buf_puts(&b, "exec");
    for (const char **w = plan->before; *w; w++) {
        stk_buf_putc(&b, ' ');
        stk_quote_raw(&b, *w, strlen(*w));
    }
    stk_buf_putc(&b, '\n');
    int rc = stk_buf_check(&b, err);
    rc = rc ? rc : stk_folder_write(work, "before.sh", b.data, b.len, err);
    rc = rc ? rc : stk_folder_write(work, "after.sh", plan->after, strlen(plan->after), err);
    stk_buf_release(&b);
    return rc;
}

int stk_tune_check(const struct stk_tune_check_plan *plan, struct stk_tune_check *out,
                   struct stk_err *err)
{
    struct stk_runner_plan p = STK_RUNNER_PLAN_INIT;
    struct stk_runner_watch watch = {.tick = on_run, .user = (void *)(uintptr_t)plan};
    const char *before[] = {"sh", NULL, NULL}, *after[] = {"sh", NULL, NULL};
    const struct stk_point points[] = {
        {.id = "before", .label = "before", .series = "before", .n = 1, .argv = before},
        {.id = "after", .label = "after", .series = "after", .n = 1, .argv = after}};
    struct stk_folder work = STK_FOLDER_INIT;
    char *script[2] = {0};
    struct stk_runner *r = NULL;
    *out = (struct stk_tune_check){.before_s = NAN, .after_s = NAN};
    p.variant = points;
    p.nvariants = 2;
    p.pin = false;
    p.warmup = 0;
    p.runs_min = p.runs_max = plan->runs;
    int rc = stk_folder_temp(&work, ".", STK_TUNE_PREFIX "-check", err);
    rc = rc ? rc : stk_folder_lock(&work, err);
    rc = rc ? rc : write_scripts(plan, &work, err);
    char *dir = rc ? NULL : stk_folder_path(&work, "study");
    before[1] = script[0] = rc ? NULL : stk_folder_path(&work, "before.sh");
    after[1] = script[1] = rc ? NULL : stk_folder_path(&work, "after.sh");
    if (!rc && !(dir && script[0] && script[1]))
        rc = stk_err_nomem(err, 8);
    rc = rc ? rc : stk_runner_new(&p, dir, &r, err);
    rc = rc ? rc : stk_runner_go(r, &watch, err);
    rc = rc ? rc : compare(stk_runner_study(r), out, err);
    stk_runner_free(r);
    if (work.fd >= 0)
        stk_folder_destroy(&work);
    stk_folder_release(&work);
    free(script[0]);
    free(script[1]);
    free(dir);
    return rc;
}
