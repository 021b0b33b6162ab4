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
#include "tune/priv.h"

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

struct stk_tune_candidate *stk_tune_add(struct stk_tune *out)
{
    if (out->n == STK_TUNE_MAX)
        return NULL;
    struct stk_tune_candidate *c = &out->candidate[out->n++];
    *c = (struct stk_tune_candidate){.verdict = STK_TUNE_UNCLEAR,
                                     .predicted_s = NAN,
                                     .epoch_s = NAN,
                                     .utilisation = NAN,
                                     .cores = NAN,
                                     .mixing = NAN,
                                     .pays_after = NAN,
                                     .gain.times = NAN};
    c->change[0].copy.prepare_s = NAN;
    return c;
}

static int add_baseline(struct stk_tune *out, struct stk_err *err)
{
    out->candidate = calloc(STK_TUNE_MAX + 1, sizeof *out->candidate);
    struct stk_tune_candidate *c = out->candidate ? stk_tune_add(out) : NULL;
    if (!c)
        return stk_err_nomem(err, STK_TUNE_MAX * sizeof *out->candidate);
    c->verdict = STK_TUNE_NOTHING;
    c->pays_after = 0;
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
    double screen_s = SCREEN_SHARE * stk_tuner_left_s(t);
    int rc = stk_tune_measure(t, STK_TUNE_FIRST, is_tried, screen_s, false, err);
    stk_tune_rank(t->out);
    if (rc)
        return rc;
    rc = stk_tune_combine(t, err);
    stk_tune_predict(t);
    double left_s = stk_tuner_left_s(t);
    return rc ? rc : stk_tune_measure(t, STK_TUNE_SECOND, is_confirmed, left_s, true, err);
}

/* ---- its stages ----------------------------------------------------------------------------- */

/* A call that is killed from now on can be cleaned up. */
static int begin(struct stk_tuner *t, struct stk_err *err)
{
    int rc = stk_tune_read_subject(t, err);
    if (rc)
        return rc;
    t->own.name = stk_tune_text(t, "%s", t->out->name); /* as a resume has them */
    t->own.data = t->own.data ? t->s.save : NULL;
    t->own.only = stk_tune_wanted(t);
    t->noted = t->out->nnotes;
    rc = stk_tune_folders(t, err);
    return rc ? rc : stk_tune_write_state(t, err);
}

/* Runs and copies of other data say nothing about this one. */
static void forget(struct stk_tuner *t)
{
    static const char *const studies[] = {STK_TUNE_FIRST, STK_TUNE_SECOND};
    t->changed = true;
    t->stage = STK_TUNE_BEGUN;
    t->out->n = 1;
    t->s.cached = false;
    if (t->plan->via->cancel)
        (void)stk_tune_cancel(&t->work, NULL);
    for (size_t i = 0; i < 2; i++)
        (void)stk_remove_at(t->work.fd, studies[i], t->work.path, NULL);
}

/* The data may be another by now, by number, bytes and times of its files. */
static int look_again(struct stk_tuner *t, struct stk_err *err)
{
    const struct stk_tune_subject *s = &t->s, was = *s;
    int rc = stk_tune_find_data(t, err);
    if (!rc && (s->files != was.files || s->bytes != was.bytes ||
                fabs(s->newest_s - was.newest_s) > 1e-3))
        forget(t);
    return rc ? rc : stk_tune_describe(t, err);
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

/* The subject: what its files are, how long a run is, what the job waits for. */
static int know(struct stk_tuner *t, struct stk_err *err)
{
    stk_tune_check_sound(t);
    int rc = stk_tune_sample(t, err);
    rc = rc ? rc : stk_tune_pilot(t, err);
    rc = rc ? rc : stk_tune_settle_cache(t, err);
    if (!rc)
        note_one_thread(t);
    return rc ? rc : stk_tune_describe(t, err);
}

/* The candidates, and what is expected of them. */
static int plan(struct stk_tuner *t, struct stk_err *err)
{
    int rc = stk_tune_propose_all(t, err);
    if (!rc) {
        stk_tune_measure_storage(t);
        stk_tune_predict(t);
    }
    return rc;
}

static int copy(struct stk_tuner *t, struct stk_err *err)
{
    stk_tune_ration(t);
    int rc = stk_tune_make_copies(t, err);
    if (!rc) /* sizes of packed data are known now */
        stk_tune_predict(t);
    t->measures = !rc;
    return rc;
}

/* subject, candidates and predictions, copies, studies, verdicts: a stage that an earlier call has
 * ended was loaded, and is not made again. */
static int walk(struct stk_tuner *t, struct stk_err *err)
{
    static int (*const make[])(struct stk_tuner *, struct stk_err *) = {
        [STK_TUNE_KNOWN] = know, [STK_TUNE_PLANNED] = plan};
    int rc = stk_tune_open_folders(t, err);
    while (!rc && t->stage < STK_TUNE_PLANNED) {
        rc = make[t->stage + 1](t, err);
        if (rc)
            return rc;
        t->stage++;
        t->noted = t->out->nnotes;
        rc = stk_tune_write_state(t, err);
    }
    rc = rc ? rc : copy(t, err);
    return rc ? rc : measure(t, err);
}

static void judge(struct stk_tuner *t)
{
    struct stk_tune *out = t->out;
    take_pilot(t);
    for (size_t i = 1; i < out->n; i++)
        stk_tune_cost(t, &out->candidate[i]);
    stk_tune_extrapolate(t);
    stk_tune_rank(out);
    distrust(out);
}

/* ---- the call ------------------------------------------------------------------------------- */

int stk_tune_init(struct stk_tuner *t, const struct stk_tune_plan *plan, struct stk_tune *out,
                  struct stk_err *err)
{
    *out = (struct stk_tune){.least = plan->least, .via = plan->via, .job = plan->job};
    *t = (struct stk_tuner){.plan = &t->own, .own = *plan, .out = out, .work = STK_FOLDER_INIT,
                            .saves = STK_FOLDER_INIT, .s.epoch_s = NAN,
                            .beacon = STK_BEACON_INIT};
    for (size_t i = 0; i < STK_TUNE_NEAR; i++)
        t->there[i] = STK_FOLDER_INIT;
    t->own.via = plan->via ? plan->via : &stk_executor_local;
    t->start_s = stk_tuner_now(t);
    int rc = add_baseline(out, err);
    return rc ? rc : stk_self_path(t->self, sizeof t->self, err);
}

void stk_tune_end(struct stk_tuner *t)
{
    stk_tune_release_folders(t);
    stk_tune_release_subject(&t->s);
    t->out->seconds = stk_tuner_now(t) - t->start_s;
}

static int finish(struct stk_tuner *t, int rc)
{
    struct stk_tune *out = t->out;
    /* Nothing that took time is lost to an error: neither runs, nor what an earlier call made. */
    out->stopped = rc == STK_E_STOPPED || (rc && (t->measures || t->resumed));
    bool stays = t->work.fd >= 0 && (t->plan->keep || out->stopped);
    if (t->changed)
        stk_tune_note(out, "The data has changed since the call that is resumed: its runs are not "
                           "counted, and its copies are made anew");
    if (out->candidate && (!rc || out->stopped) && t->s.epoch_s > 0)
        judge(t);
    stk_beacon_end(&t->beacon, stays);
    stk_tune_remove_indexes(t); /* while the description still knows them */
    if (stays)
        out->dir = strdup(t->work.path);
    else
        stk_tune_remove(t);
    stk_tune_end(t);
    return rc;
}

int stk_tune(const struct stk_tune_plan *plan, struct stk_tune *out, struct stk_err *err)
{
    struct stk_tuner t;
    int rc = stk_tune_init(&t, plan, out, err);
    if (plan->script)
        out->script = *plan->script;
    for (const char *const *note = plan->notes; note && *note; note++)
        stk_tune_note(out, "%s", *note);
    rc = rc ? rc : begin(&t, err);
    rc = rc ? rc : walk(&t, err);
    return finish(&t, rc);
}

int stk_tune_resume(const char *dir, const struct stk_tune_plan *plan, struct stk_tune *out,
                    struct stk_err *err)
{
    struct stk_tuner t;
    int rc = stk_tune_init(&t, plan, out, err);
    rc = rc ? rc : stk_tune_read_state(&t, dir, err);
    rc = rc ? rc : stk_folder_lock(&t.work, err);
    if (rc) { /* nothing is known to be ours to remove */
        stk_tune_end(&t);
        return rc;
    }
    t.resumed = true;
    t.start_s = stk_tuner_now(&t); /* by the clock of that call */
    out->least = t.plan->least;
    out->via = t.plan->via;
    out->job = t.plan->job;
    rc = look_again(&t, err);
    if (rc) /* of data that is not there, nothing is shown */
        t.s.epoch_s = NAN;
    rc = rc ? rc : walk(&t, err);
    return finish(&t, rc);
}

void stk_tune_release(struct stk_tune *t)
{
    free(t->name);
    free(t->dir);
    free(t->candidate);
    stk_arena_release(&t->arena);
}
