/* tune.c - one call from its plan to its ranking; see tune.h. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/pool.h"
#include "base/spawn.h"
#include "base/units.h"
#include "tune/spec.h"

#define SCREEN_SHARE 0.6 /* of the budget that is left after preparing, for the first study */

void stk_tune_note(struct stk_tune *t, const char *fmt, ...)
{
    char text[sizeof t->note[0]];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    for (size_t i = 0; i < t->nnotes; i++)
        if (strcmp(t->note[i], text) == 0)
            return;
    if (t->nnotes < STK_TUNE_NOTES)
        memcpy(t->note[t->nnotes++], text, sizeof text);
}

const char *stk_tune_text(struct stk_tuner *t, const char *fmt, ...)
{
    struct stk_buf b = STK_BUF_INIT;
    va_list ap;
    va_start(ap, fmt);
    stk_buf_vprintf(&b, fmt, ap);
    va_end(ap);
    const char *text = b.fail ? NULL : stk_arena_dup(&t->out->arena, b.data, b.len);
    stk_buf_release(&b);
    return text;
}

int stk_tuner_tick(void *user)
{
    struct stk_tuner *t = user;
    stk_tuner_show(t);
    return t->plan->tick ? t->plan->tick(t->plan->user, t->doing) : 0;
}

int stk_tuner_doing(struct stk_tuner *t, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(t->doing, sizeof t->doing, fmt, ap);
    va_end(ap);
    return stk_tuner_tick(t);
}

/* Jobs wait in a queue by the clock of the machine, whatever storage they read. */
double stk_tuner_now(const struct stk_tuner *t)
{
    bool virtual_time = t->plan->storage && !(t->plan->via->can & STK_VIA_QUEUES);
    return virtual_time ? t->passed_s : stk_now();
}

double stk_tuner_left_s(const struct stk_tuner *t)
{
    return fmax(t->plan->budget_s - (stk_tuner_now(t) - t->start_s), 0);
}

/* ---- the two studies ------------------------------------------------------------------------ */

static bool is_tried(const struct stk_tune_candidate *c)
{
    return c->nchanges == 1 && c->verdict != STK_TUNE_DROPPED && c->verdict != STK_TUNE_SKIPPED;
}

/* Winners, and combinations of them. */
static bool is_confirmed(const struct stk_tune_candidate *c)
{
    return c->verdict == STK_TUNE_GAIN || c->nchanges > 1;
}

/* A winner whose second measurement did not come about has one chance in forty of being none. */
static void distrust(struct stk_tune *t)
{
    for (size_t i = 1; i < t->n; i++) {
        struct stk_tune_candidate *c = &t->candidate[i];
        if (c->verdict == STK_TUNE_GAIN && !c->confirmed)
            snprintf(c->why, sizeof c->why, "not measured a second time");
    }
}

static int add_baseline(struct stk_tuner *t, struct stk_err *err)
{
    struct stk_tune *out = t->out;
    out->candidate = calloc(STK_TUNE_MAX + 1, sizeof *out->candidate);
    if (!out->candidate)
        return stk_err_nomem(err, STK_TUNE_MAX * sizeof *out->candidate);
    struct stk_tune_candidate *c = &out->candidate[out->n++];
    *c = (struct stk_tune_candidate){.verdict = STK_TUNE_NOTHING,
                                     .predicted_s = NAN,
                                     .epoch_s = NAN,
                                     .utilisation = NAN,
                                     .cores = NAN,
                                     .mixing = NAN};
    c->gain.times = 1;
    snprintf(c->id, sizeof c->id, "%s", STK_TUNE_BASE);
    snprintf(c->label, sizeof c->label, "as it is");
    return 0;
}

/* The pilot is the only measurement of the baseline if nothing is worth trying. */
static void take_pilot(struct stk_tuner *t)
{
    struct stk_tune_candidate *base = &t->out->candidate[0];
    if (!isnan(base->epoch_s))
        return;
    base->epoch_s = t->s.epoch_s;
    base->epoch_ci = (struct stk_interval){NAN, NAN};
    base->utilisation = t->s.compute_s > 0 ? t->s.compute_s / t->s.epoch_s : NAN;
    base->runs = 1;
}

static int measure(struct stk_tuner *t, struct stk_err *err)
{
    int rc = stk_tune_measure(t, STK_TUNE_FIRST, is_tried, SCREEN_SHARE * stk_tuner_left_s(t), false, err);
    stk_tune_rank(t->out);
    if (rc)
        return rc;
    rc = stk_tune_combine(t, err);
    stk_tune_predict(t);
    rc = rc ? rc : stk_tune_measure(t, STK_TUNE_SECOND, is_confirmed, stk_tuner_left_s(t), true, err);
    return rc;
}

/* ---- the call ------------------------------------------------------------------------------- */

/* Runs and copies of other data say nothing about this one. */
static void forget_runs(struct stk_tuner *t)
{
    static const char *const studies[] = {STK_TUNE_FIRST, STK_TUNE_SECOND};
    t->changed = true;
    if (stk_tune_spec_is_jobs(t->earlier))
        (void)stk_tune_cancel(&t->work, NULL);
    for (size_t i = 0; i < 2; i++)
        (void)stk_remove_at(t->work.fd, studies[i], t->work.path, NULL);
    stk_tune_note(t->out, "The data has changed since the call that is resumed: its runs are not "
                          "counted, and its copies are made anew");
}

#define MUCH 0.1 /* of an epoch */

/* A profile cannot tell what one thread decodes from what it computes. */
static void note_one_thread(struct stk_tuner *t)
{
    const struct stk_workload *w = &t->s.w;
    double samples = (double)(w->dataset.files * w->dataset.samples_per_file) / (double)t->s.ranks;
    double think_s = samples * stk_dist_mean(&w->reader.think);
    char cpu[32];
    if (w->ngroups && t->plan->job.known && !w->reader.threads && think_s > MUCH * t->s.epoch_s)
        stk_tune_note(t->out,
                      "One thread of the program reads, decodes and computes. Its CPU time, %s per "
                      "epoch, is treated as decoding, which can overlap with training. If it trains on "
                      "the CPU, expect a smaller speedup",
                      (stk_format_duration(think_s, cpu, sizeof cpu), cpu));
}

static int prepare(struct stk_tuner *t, struct stk_tune_spec *earlier, struct stk_err *err)
{
    if (earlier) {
        t->work = earlier->folder;
        earlier->folder = STK_FOLDER_INIT;
    }
    int rc = stk_self_path(t->self, sizeof t->self, err);
    rc = rc ? rc : add_baseline(t, err);
    rc = rc ? rc : stk_tune_read_subject(t, err);
    if (!rc && !earlier)
        rc = stk_tune_folders(t, err);
    else if (!rc && !stk_tune_spec_same(earlier, &t->s))
        forget_runs(t);
    if (!rc) {
        stk_tune_name_folders(t);
        stk_tune_name_saves(t);
        stk_tune_note_indexes(t);
    }
    if (!rc && !earlier)
        rc = stk_tune_write_spec(t, err);
    rc = rc ? rc : stk_tune_make_saves(t, err);
    if (!rc && earlier)
        stk_tune_spec_whole(earlier, &t->s.whole);
    if (!rc && t->s.whole.source) /* the result outlives the description */
        t->s.whole.source = stk_tune_text(t, "%s", t->s.whole.source);
    if (!rc)
        stk_tune_check_sound(t);
    rc = rc ? rc : stk_tune_sample(t, err);
    t->s.cached = earlier && !t->changed && stk_tune_spec_cached(earlier);
    rc = rc ? rc : stk_tune_pilot(t, err);
    if (!rc && (!earlier || t->changed))
        rc = stk_tune_settle_cache(t, err);
    /* Runs of one study have one number of steps. */
    uint64_t steps = earlier && !t->changed ? stk_tune_spec_steps(earlier, &t->run_s) : 0;
    t->out->steps = steps ? steps : t->out->steps;
    if (!rc)
        note_one_thread(t);
    rc = rc ? rc : stk_tune_propose_all(t, err);
    if (!rc) {
        stk_tune_adopt_copies(t);
        stk_tune_measure_storage(t);
        stk_tune_predict(t);
        stk_tune_ration(t);
    }
    rc = rc ? rc : stk_tune_prepare(t, err);
    if (!rc) /* sizes of packed data are known now */
        stk_tune_predict(t);
    return rc;
}

static int finish(struct stk_tuner *t, int rc)
{
    struct stk_tune *out = t->out;
    /* Nothing that took time is lost to an error: neither runs, nor what an earlier call made. */
    out->stopped = rc == STK_E_STOPPED || (rc && (t->measures || t->earlier));
    bool stays = t->work.fd >= 0 && (t->plan->keep || out->stopped);
    if (out->candidate && (!rc || out->stopped) && t->s.epoch_s > 0) {
        take_pilot(t);
        for (size_t i = 1; i < out->n; i++)
            stk_tune_cost(t, &out->candidate[i]);
        stk_tune_extrapolate(t);
        stk_tune_rank(out);
        distrust(out);
    }
    stk_beacon_end(&t->beacon, stays);
    stk_tune_remove_indexes(t); /* while the description still knows them */
    if (stays)
        out->dir = strdup(t->work.path);
    else
        stk_tune_remove(t);
    stk_folder_release(&t->work);
    stk_folder_release(&t->saves);
    for (size_t i = 0; i < STK_TUNE_NEAR; i++)
        stk_folder_release(&t->there[i]);
    stk_tune_release_subject(&t->s);
    out->seconds = stk_tuner_now(t) - t->start_s;
    return rc;
}

static int tune(const struct stk_tune_plan *plan, struct stk_tune_spec *earlier,
                struct stk_tune *out, struct stk_err *err)
{
    struct stk_tuner t = {
        .plan = plan, .earlier = earlier, .out = out, .work = STK_FOLDER_INIT,
        .saves = STK_FOLDER_INIT,
        .s.epoch_s = NAN, .beacon = STK_BEACON_INIT};
    for (size_t i = 0; i < STK_TUNE_NEAR; i++)
        t.there[i] = STK_FOLDER_INIT;
    t.start_s = stk_tuner_now(&t);
    out->least = plan->least;
    out->via = plan->via;
    out->job = plan->job;
    if (plan->script)
        out->script = *plan->script;
    for (const char *const *note = plan->notes; note && *note; note++)
        stk_tune_note(out, "%s", *note);
    int rc = prepare(&t, earlier, err);
    t.measures = !rc;
    rc = rc ? rc : measure(&t, err);
    return finish(&t, rc);
}

int stk_tune(const struct stk_tune_plan *plan, struct stk_tune *out, struct stk_err *err)
{
    *out = (struct stk_tune){0};
    return tune(plan, NULL, out, err);
}

int stk_tune_resume(const char *dir, const struct stk_tune_plan *plan, struct stk_tune *out,
                    struct stk_err *err)
{
    struct stk_tune_spec s = STK_TUNE_SPEC_INIT;
    struct stk_tune_plan p = *plan;
    *out = (struct stk_tune){0};
    int rc = stk_tune_spec_open(&s, dir, err);
    rc = rc ? rc : stk_folder_lock(&s.folder, err);
    if (!rc) {
        stk_tune_spec_plan(&s, &p);
        rc = tune(&p, &s, out, err);
    }
    stk_tune_spec_close(&s);
    return rc;
}

void stk_tune_release(struct stk_tune *t)
{
    free(t->name);
    free(t->dir);
    free(t->candidate);
    stk_arena_release(&t->arena);
}
