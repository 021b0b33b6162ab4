/* tune.c - one call: its stages in order, from its plan or from what an earlier call has kept. */
#include <errno.h>
#include <math.h>
#include <signal.h>
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
#define GRACE_S      20
#define TEXT_MAX     8192

/* ---- for all stages ------------------------------------------------------------------------- */

void stk_tune_note(struct stk_tuner *t, const char *fmt, ...)
{
    struct stk_tune *out = t->out;
    char text[sizeof out->note[0]];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    for (size_t i = 0; i < out->nnotes; i++)
        if (strcmp(out->note[i], text) == 0)
            return;
    if (out->nnotes < STK_TUNE_NOTES)
        memcpy(out->note[out->nnotes++], text, sizeof text);
}

const char *stk_tune_text(struct stk_arena *a, const char *fmt, ...)
{
    struct stk_buf b = STK_BUF_INIT;
    va_list ap;
    va_start(ap, fmt);
    stk_buf_vprintf(&b, fmt, ap);
    va_end(ap);
    const char *text = b.fail ? NULL : stk_arena_dup(a, b.data, b.len);
    stk_buf_release(&b);
    return text;
}

int stk_tuner_tick(void *user)
{
    struct stk_tuner *t = user;
    stk_tuner_show(t);
    return t->plan.tick ? t->plan.tick(t->plan.user, t->doing) : 0;
}

int stk_tuner_doing(struct stk_tuner *t, struct stk_err *err, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(t->doing, sizeof t->doing, fmt, ap);
    va_end(ap);
    return stk_tuner_tick(t) ? stk_err_set(err, STK_E_STOPPED, NULL, -1, "stopped") : 0;
}

/* Jobs wait in a queue by the clock of the machine, whatever storage they read. */
double stk_tuner_now(const struct stk_tuner *t)
{
    bool virtual_time = t->plan.storage && !(t->plan.via->can & STK_VIA_QUEUES);
    return virtual_time ? t->passed_s : stk_now();
}

double stk_tuner_left_s(const struct stk_tuner *t)
{
    return fmax(t->plan.budget_s - (stk_tuner_now(t) - t->start_s), 0);
}

struct attended {
    struct stk_tuner *t;
    struct stk_tune_child *c;
};

static int child_inside(void *user)
{
    const struct attended *a = user;
    return a->c->inside(a->c->user);
}

static int child_tick(void *user)
{
    const struct attended *a = user;
    return stk_tuner_tick(a->t);
}

/* The last line: a library may have said something before. */
static const char *reason(struct stk_buf *said, struct stk_arena *arena)
{
    size_t n = strlen(stk_buf_cstr(said)), from;
    const char *text = stk_buf_cstr(said);
    n -= n && text[n - 1] == '\n';
    for (from = n; from && text[from - 1] != '\n'; from--)
        ;
    const char *why = stk_arena_dup(arena, text + from, n - from);
    return why ? why : "";
}

int stk_tune_in_child(struct stk_tuner *t, struct stk_tune_child *c, struct stk_err *err)
{
    struct attended a = {t, c};
    struct stk_buf said = STK_BUF_INIT;
    struct stk_child child = {.inside = child_inside,
                              .fd = {STK_FD_NULL, STK_FD_PIPE, STK_FD_PIPE},
                              .dir = t->work.path,
                              .own_group = true,
                              .death_signal = SIGTERM,
                              .timeout_s = c->limit_s,
                              .grace_s = GRACE_S,
                              .tick = child_tick,
                              .text = {NULL, &c->text, &said},
                              .text_max = {0, TEXT_MAX, TEXT_MAX},
                              .user = &a};
    errno = stk_child_start(&child);
    int rc = errno ? stk_err_sys(err, NULL, "start a child") : 0;
    if (!rc)
        (void)stk_child_attend(&child);
    if (!rc && child.stopped)
        rc = stk_err_set(err, STK_E_STOPPED, NULL, -1, "stopped");
    c->timed_out = child.timed_out;
    c->wall_s = child.wall_s;
    c->why = !rc && child.ending.status ? reason(&said, &t->out->arena) : NULL;
    stk_buf_release(&said);
    return rc;
}

/* ---- which candidates a study has -------------------------------------------------------------
 */

static bool is_tried(const struct stk_tune_found *f, size_t i)
{
    return f->expected[i].verdict == STK_TUNE_UNCLEAR && !f->copy[i].why;
}

/* Winners, and combinations of them. */
static bool is_confirmed(const struct stk_tune_found *f, size_t i)
{
    return i >= f->first.n || f->first.item[i].verdict == STK_TUNE_GAIN;
}

/* ---- the stages ----------------------------------------------------------------------------- */

/* Ids of all candidates: what is made in the folders begins with them. */
static int name_points(struct stk_tuner *t, const struct stk_tune_list *list, struct stk_err *err)
{
    t->npoints = 0;
    t->point = stk_arena_alloc(&t->out->arena, STK_TUNE_MAX * sizeof *t->point);
    for (size_t i = 0; t->point && i < list->n; i++)
        t->point[t->npoints++] = list->item[i].id;
    return t->point ? 0 : stk_err_nomem(err, STK_TUNE_MAX);
}

/* The kinds that are tried; a resume has no findings that ask for them. */
static const char *const *wanted(struct stk_tuner *t)
{
    size_t n = 0;
    const char **only = stk_arena_alloc(&t->out->arena, (STK_TUNE_MAX + 1) * sizeof *only);
    for (size_t i = 0; only && stk_tune_kinds[i]; i++)
        if (stk_tune_wants(&t->plan, stk_tune_kinds[i]))
            only[n++] = stk_tune_kinds[i]->id;
    if (only)
        only[n] = NULL;
    return only;
}

/* A call that is killed from now on can be cleaned up. */
static int begin(struct stk_tuner *t, struct stk_tune_found *f, struct stk_err *err)
{
    struct stk_tune_subject *s = &f->subject;
    int rc = stk_tune_find_subject(t, s, err);
    if (rc)
        return rc;
    t->plan.name = stk_tune_text(&t->out->arena, "%s", t->plan.name ? t->plan.name : s->w.name);
    t->plan.data = t->plan.data ? s->save : NULL;
    t->plan.only = wanted(t);
    rc = stk_tune_list_new(&t->out->arena, &f->list, err);
    rc = rc ? rc : stk_tune_folders(t, s, err);
    return rc ? rc : stk_tune_write_state(t, f, err);
}

#define MUCH 0.1 /* of an epoch */

/* A profile cannot tell what one thread decodes from what it computes. */
static void note_one_thread(struct stk_tuner *t, const struct stk_tune_subject *s)
{
    const struct stk_workload *w = &s->w;
    double samples = (double)(w->dataset.files * w->dataset.samples_per_file);
    double think_s = samples / (double)stk_tune_ranks(s) * stk_dist_mean(&w->reader.think);
    char cpu[32];
    if (w->ngroups && t->plan.job.known && !w->reader.threads &&
        think_s > MUCH * s->pilot.epoch_s)
        stk_tune_note(
            t,
            "One thread of the program reads, decodes and computes. Its CPU time, %s per "
            "epoch, is treated as decoding, which can overlap with training. If it trains on "
            "the CPU, expect a smaller speedup",
            (stk_format_duration(think_s, cpu, sizeof cpu), cpu));
}

/* What its files are, how long a run is, what the job waits for, and what it could wait for. */
static int know(struct stk_tuner *t, struct stk_tune_found *f, struct stk_err *err)
{
    struct stk_tune_subject *s = &f->subject;
    stk_tune_look(t, s, &s->look);
    int rc = stk_tune_take_sample(t, s, err);
    rc = rc ? rc : stk_tune_run_pilot(t, s, &s->pilot, err);
    if (rc)
        return rc;
    note_one_thread(t, s);
    stk_tune_measure_storage(t, s);
    return 0;
}

static int plan(struct stk_tuner *t, struct stk_tune_found *f, struct stk_err *err)
{
    int rc = stk_tune_propose(&t->plan, &f->subject, &t->out->arena, &f->list, err);
    return rc ? rc : stk_tune_find_parts(t, &f->subject, &f->parts, err);
}

/* A prediction with the sizes of copies, of the candidates that the budget allows. */
static int expect(const struct stk_tuner *t, struct stk_tune_found *f, struct stk_err *err)
{
    const struct stk_tune_expected *before = f->expected;
    size_t singles = f->first.n ? f->first.n : f->list.n;
    f->expected = stk_tune_predict(&t->plan, &f->subject, &f->list, f->copy);
    if (!f->expected)
        return stk_err_nomem(err, f->list.n);
    for (size_t i = 1; before && i < singles; i++)
        if (before[i].verdict != STK_TUNE_UNCLEAR)
            f->expected[i] = before[i];
    return 0;
}

static int measure(struct stk_tuner *t, struct stk_tune_found *f, struct stk_err *err)
{
    struct stk_tune_list all;
    const uint64_t *runs = t->resumed ? stk_tune_runs(t, &f->list, STK_TUNE_FIRST) : NULL;
    int rc = expect(t, f, err);
    if (rc)
        return rc;
    stk_tune_ration(&t->plan, &f->subject, &f->list, runs, stk_tuner_left_s(t), f->expected);
    rc = stk_tune_make_copies(t, f, err);
    rc = rc ? rc : expect(t, f, err);
    t->measures = !rc;
    rc = rc ? rc : stk_tune_study(t, f, STK_TUNE_FIRST, is_tried,
                                  SCREEN_SHARE * stk_tuner_left_s(t), &f->first, err);
    if (rc || !f->first.n)
        return rc;
    rc = stk_tune_combine(&f->list, &f->first, &all, err);
    if (rc)
        return rc;
    f->list = all;
    rc = name_points(t, &f->list, err);
    rc = rc ? rc : expect(t, f, err);
    return rc ? rc : stk_tune_study(t, f, STK_TUNE_SECOND, is_confirmed, stk_tuner_left_s(t),
                                    &f->second, err);
}

/* subject, candidates, prediction, copies, studies: a stage that an earlier call has ended was
 * loaded, and is not made again. */
static int walk(struct stk_tuner *t, struct stk_tune_found *f, struct stk_err *err)
{
    static int (*const make[])(struct stk_tuner *, struct stk_tune_found *, struct stk_err *) = {
        [STK_TUNE_KNOWN] = know, [STK_TUNE_PLANNED] = plan};
    int rc = stk_tune_enter(t->saves, err);
    while (!rc && t->stage < STK_TUNE_PLANNED) {
        rc = make[t->stage + 1](t, f, err);
        if (rc)
            return rc;
        t->stage++;
        rc = name_points(t, &f->list, err);
        rc = rc ? rc : stk_tune_write_state(t, f, err);
    }
    rc = rc ? rc : name_points(t, &f->list, err);
    return rc ? rc : measure(t, f, err);
}

/* ---- the call ------------------------------------------------------------------------------- */

int stk_tune_init(struct stk_tuner *t, const struct stk_tune_plan *plan, struct stk_tune *out,
                  struct stk_err *err)
{
    *out = (struct stk_tune){0};
    *t = (struct stk_tuner){
        .plan = *plan, .out = out, .work = STK_FOLDER_INIT, .beacon = STK_BEACON_INIT};
    t->plan.via = plan->via ? plan->via : &stk_executor_local;
    t->start_s = stk_tuner_now(t);
    return stk_self_path(t->self, sizeof t->self, err);
}

void stk_tune_end(struct stk_tuner *t)
{
    stk_folder_release(&t->work);
    t->out->seconds = stk_tuner_now(t) - t->start_s;
}

/* The result, of what is known so far; and what is left of the call. */
static int finish(struct stk_tuner *t, struct stk_tune_found *f, int rc, struct stk_err *err)
{
    struct stk_tune *out = t->out;
    /* Nothing that took time is lost to an error: neither runs, nor what an earlier call made. */
    out->stopped = rc == STK_E_STOPPED || (rc && (t->measures || t->resumed));
    bool stays = t->work.fd >= 0 && (t->plan.keep || out->stopped);
    if (t->changed)
        stk_tune_note(t, "The data has changed since the call that is resumed: its runs are not "
                         "counted, and its copies are made anew");
    if ((!rc || out->stopped) && f->subject.pilot.epoch_s > 0) {
        int late = stk_tune_verdicts(t, f, out, rc ? NULL : err);
        rc = rc ? rc : late;
    }
    stk_beacon_end(&t->beacon, stays);
    stk_tune_remove_indexes(t); /* while the description still knows them */
    if (stays)
        out->dir = strdup(t->work.path);
    else
        stk_tune_remove(t);
    stk_workload_release(&f->subject.w);
    stk_tune_end(t);
    return rc;
}

int stk_tune(const struct stk_tune_plan *plan, struct stk_tune *out, struct stk_err *err)
{
    struct stk_tune_found f = {.subject.pilot.epoch_s = NAN};
    struct stk_tuner t;
    int rc = stk_tune_init(&t, plan, out, err);
    if (plan->script)
        out->script = *plan->script;
    for (const char *const *note = plan->notes; note && *note; note++)
        stk_tune_note(&t, "%s", *note);
    rc = rc ? rc : begin(&t, &f, err);
    rc = rc ? rc : walk(&t, &f, err);
    return finish(&t, &f, rc, err);
}

/* Runs and copies of other data say nothing about this one. */
static int forget(struct stk_tuner *t, struct stk_tune_found *f, struct stk_err *err)
{
    static const char *const studies[] = {STK_TUNE_FIRST, STK_TUNE_SECOND};
    t->changed = true;
    t->stage = STK_TUNE_BEGUN;
    f->copy = NULL;
    f->parts = (struct stk_tune_parts){0};
    f->subject.pilot = (struct stk_tune_pilot){.epoch_s = NAN};
    if (t->plan.via->cancel)
        (void)stk_tune_cancel(&t->work, NULL);
    for (size_t i = 0; i < 2; i++)
        (void)stk_remove_at(t->work.fd, studies[i], t->work.path, NULL);
    return stk_tune_list_new(&t->out->arena, &f->list, err);
}

/* The data may be another by now, by number, bytes and times of its files. */
static int look_again(struct stk_tuner *t, struct stk_tune_found *f, struct stk_err *err)
{
    struct stk_tune_subject now = f->subject, *was = &f->subject;
    int rc = stk_tune_find_data(t, &now, err);
    if (rc)
        return rc;
    bool other = now.files != was->files || now.bytes != was->bytes ||
                 fabs(now.newest_s - was->newest_s) > 1e-3;
    *was = now;
    return other ? forget(t, f, err) : 0;
}

int stk_tune_resume(const char *dir, const struct stk_tune_plan *plan, struct stk_tune *out,
                    struct stk_err *err)
{
    struct stk_tune_found f = {.subject.pilot.epoch_s = NAN};
    struct stk_tuner t;
    int rc = stk_tune_init(&t, plan, out, err);
    rc = rc ? rc : stk_tune_read_state(&t, dir, &f, err);
    rc = rc ? rc : stk_folder_lock(&t.work, err);
    if (rc) { /* nothing is known to be ours to remove */
        stk_workload_release(&f.subject.w);
        stk_tune_end(&t);
        return rc;
    }
    t.resumed = true;
    t.start_s = stk_tuner_now(&t); /* by the clock of that call */
    rc = look_again(&t, &f, err);
    if (rc) /* of data that is not there, nothing is shown */
        f.subject.pilot.epoch_s = NAN;
    rc = rc ? rc : walk(&t, &f, err);
    return finish(&t, &f, rc, err);
}

void stk_tune_release(struct stk_tune *t)
{
    free(t->name);
    free(t->dir);
    free(t->candidate);
    stk_arena_release(&t->arena);
}
