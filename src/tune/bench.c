/*
 * bench.c - the bench runs behind the candidates: their words, and the pilot: a few steps of the
 * baseline, which tell how long a run must be and what the job waits for.
 */
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"
#include "base/spawn.h"
#include "bench/plan.h"
#include "tune/priv.h"

#define WORDS_MAX   64
#define JSON_MAX    (16u << 20)
#define GRACE_S     10
#define PILOT_STEPS 8
#define RUN_MIN_S   0.4 /* shorter ones are all start and end */
#define RUN_MAX_S   20.0
#define RUNS_WANTED 60.0 /* in the budget: ten candidates, three rounds, two studies */
#define EPOCH_TIMES 2.5  /* as long as a run should be: then a whole epoch is run */

/* ---- words ---------------------------------------------------------------------------------- */

struct words {
    const char **v;
    size_t n;
};

static void add(struct words *w, const char *word)
{
    if (w->n + 1 < WORDS_MAX)
        w->v[w->n++] = word;
}

static void add_pair(struct words *w, const char *option, const char *value)
{
    add(w, option);
    add(w, value);
}

/* A copy instead of the data: of the whole data folder, or of the files of a replay. */
static void add_copy(struct stk_tuner *t, struct words *w, const struct stk_tune_change *c)
{
    const char *at = c->copy.at ? c->copy.at : c->copy.path;
    if (c->use == STK_USE_LOADER)
        add_pair(w, "--set", stk_tune_text(t, "reader.path=%s", at));
    else if (c->use == STK_USE_INDEX)
        add_pair(w, "--set", stk_tune_text(t, "reader.index=%s", at));
    else if (c->use == STK_USE_DATA && t->plan->data)
        add_pair(w, "--data", at);
    else if (c->use == STK_USE_DATA)
        add_pair(w, "--set", stk_tune_text(t, "files.1.path=%s", at));
}

static void add_saves(struct stk_tuner *t, struct words *w, const struct stk_tune_change *c)
{
    const char *at = stk_tune_saves_at(t, c);
    if (at)
        add_pair(w, "--set", stk_tune_text(t, "checkpoint.dir=%s", at));
}

static void add_change(struct stk_tuner *t, struct words *w, const struct stk_tune_change *c)
{
    add_copy(t, w, c);
    for (size_t i = 0; i < c->nset; i++)
        add_pair(w, "--set", c->set[i]);
    if (c->kind->helps == STK_HELPS_SAVES)
        add_saves(t, w, c);
    if (c->loader)
        add_pair(w, "--reader", "stoker");
}

/* Steps of a run. The loader reads ahead further than a short run goes, and its first batch takes
 * the longest, so that it makes more of them: as many as are expected to take no longer than a run
 * may. */
static uint64_t steps_of(const struct stk_tuner *t, const struct stk_tune_candidate *c)
{
    uint64_t steps = t->out->steps, most = t->s.w.training.most_steps;
    struct stk_bench_plan plan;
    bool loader = false;
    for (size_t i = 0; c && i < c->nchanges; i++)
        loader = loader || c->change[i].loader;
    if (!steps || !loader || !(c->predicted_s > 0) ||
        stk_bench_plan(&plan, &t->s.w, 0, t->s.ranks, NULL) < 0)
        return steps;
    double fit = EPOCH_TIMES * t->run_s / c->predicted_s, all = (double)t->s.w.training.epochs;
    fit = fit < 1 ? fit : floor(fmin(fit, all)); /* whole epochs */
    uint64_t more = (uint64_t)(fit * (double)plan.steps);
    more = most && most < more ? most : more;
    return more > steps ? more : steps;
}

int stk_tune_words(struct stk_tuner *t, const struct stk_tune_candidate *c, const char ***argv,
                   struct stk_err *err)
{
    const struct stk_tune_plan *p = t->plan;
    struct words w = {stk_arena_alloc(&t->out->arena, WORDS_MAX * sizeof *w.v), 0};
    if (!w.v)
        return stk_err_nomem(err, WORDS_MAX * sizeof *w.v);
    add(&w, "bench");
    add(&w, t->s.w.path);
    if (p->small)
        add(&w, "--small");
    if (p->data)
        add_pair(&w, "--data", t->s.save);
    if (t->s.cold && !t->s.cached) /* data that does not fit is gone when it is read again */
        add_pair(&w, "--set", stk_tune_fits(&t->s) ? "reader.cache=fresh" : "reader.cache=drop");
    for (const char *const *s = p->set; s && *s; s++)
        add_pair(&w, "--set", *s);
    add_saves(t, &w, NULL);
    if (p->storage)
        add_pair(&w, "--virtual-storage", p->storage);
    uint64_t steps = steps_of(t, c);
    if (steps)
        add_pair(&w, "--set",
                 stk_tune_text(t, "training.most_steps=%llu", (unsigned long long)steps));
    for (size_t i = 0; c && i < c->nchanges; i++)
        add_change(t, &w, &c->change[i]);
    add(&w, "--no-calibration");
    add(&w, "--quiet");
    add_pair(&w, "--status", "none"); /* a killed one would leave it in the data */
    add_pair(&w, "--json", "-");
    w.v[w.n] = NULL;
    *argv = w.v;
    return w.n + 1 < WORDS_MAX ? 0
                               : stk_err_set(err, STK_E_USAGE, NULL, -1,
                                             "too many keys of the workload are changed (--set)");
}

/* ---- the pilot ------------------------------------------------------------------------------ */

static double number_in(const struct stk_jval *v, const char *name)
{
    const struct stk_jval *x = v && v->type == STK_JOBJ ? stk_json_get(v, name) : NULL;
    return x && (x->type == STK_JINT || x->type == STK_JFLOAT) ? x->f : NAN;
}

struct seen {
    double epoch_s, wall_s, steps, wait_s, save_s, compute_s;
    double open_s, request_s, request_bytes; /* means */
    double took_s;                           /* the whole process */
    double memory_bytes;
};

static void read_io(const struct stk_jval *io, struct seen *out)
{
    double requests = number_in(io, "requests");
    out->open_s = number_in(io, "open_seconds") / number_in(io, "opens");
    out->request_s = number_in(io, "request_seconds") / requests;
    out->request_bytes = number_in(io, "bytes_read") / requests;
}

static int read_result(struct stk_buf *json, struct seen *out, struct stk_err *err)
{
    struct stk_arena arena = STK_ARENA_INIT;
    struct stk_jval *v = NULL;
    int rc = stk_json_parse(&arena, stk_buf_cstr(json), json->len, &v, err);
    const struct stk_jval *r = rc || v->type != STK_JOBJ ? NULL : stk_json_get(v, "result");
    const struct stk_jval *ranks = r && r->type == STK_JOBJ ? stk_json_get(r, "per_rank") : NULL;
    const struct stk_jval *one =
        ranks && ranks->type == STK_JARR && ranks->len ? &ranks->item[0] : NULL;
    *out = (struct seen){.took_s = out->took_s,
                         .epoch_s = number_in(r, "epoch_seconds"),
                         .memory_bytes = number_in(r, "memory_bytes"),
                         .wall_s = number_in(r, "measured_seconds"),
                         .steps = number_in(one, "measured_steps"),
                         .wait_s = number_in(one, "wait_seconds") + number_in(one, "load_seconds") +
                                   number_in(one, "head_seconds"),
                         .save_s = number_in(r, "checkpoint_seconds"),
                         .compute_s = number_in(one, "compute_seconds")};
    read_io(r && r->type == STK_JOBJ ? stk_json_get(r, "io") : NULL, out);
    for (size_t i = 1; one && i < ranks->len; i++)
        out->wait_s = fmax(out->wait_s, number_in(&ranks->item[i], "wait_seconds"));
    stk_arena_release(&arena);
    if (!rc && !(out->epoch_s > 0 && out->wall_s > 0 && out->steps > 0))
        rc = stk_err_set(err, STK_E_CORRUPT, NULL, -1, "bench gave no time");
    return rc;
}

static int run_bench(struct stk_tuner *t, const char **words, struct seen *out, struct stk_err *err)
{
    const char *argv[WORDS_MAX + 1] = {t->self};
    struct stk_buf json = STK_BUF_INIT, said = STK_BUF_INIT;
    for (size_t i = 0; words[i]; i++)
        argv[i + 1] = words[i];
    struct stk_child c = {.argv = argv,
                          .fd = {STK_FD_NULL, STK_FD_PIPE, STK_FD_PIPE},
                          .own_group = true,
                          .death_signal = SIGTERM,
                          .grace_s = GRACE_S,
                          .tick = stk_tuner_tick,
                          .text = {NULL, &json, &said},
                          .text_max = {0, JSON_MAX, 4096},
                          .user = t};
    errno = stk_child_start(&c);
    int rc = errno ? stk_err_sys(err, t->self, "start") : 0;
    if (!rc)
        (void)stk_child_attend(&c);
    out->took_s = c.wall_s;
    if (!rc && c.stopped)
        rc = stk_err_set(err, STK_E_STOPPED, NULL, -1, "stopped");
    if (!rc && c.ending.status)
        rc = stk_err_set(err, STK_E_USAGE, NULL, -1, "the workload as it is cannot be replayed: %s",
                         stk_tune_last_line(&said));
    rc = rc ? rc : read_result(&json, out, err);
    stk_buf_release(&json);
    stk_buf_release(&said);
    return rc;
}

/* Steps that contain what happens now and then: a whole number of checkpoint intervals. The first
 * ones wait for threads that have just begun: there must be others. */
static uint64_t whole_intervals(const struct stk_workload *w, uint64_t steps)
{
    uint64_t every = w->checkpoint.every, begin = 3 * w->reader.threads;
    uint64_t least = w->training.warmup + (begin > PILOT_STEPS ? begin : PILOT_STEPS);
    steps = steps > least ? steps : least;
    return every ? (steps + every - 1) / every * every : steps;
}

static double run_seconds(const struct stk_tuner *t)
{
    double s = t->plan->budget_s / RUNS_WANTED;
    return s < RUN_MIN_S ? RUN_MIN_S : s > RUN_MAX_S ? RUN_MAX_S : s;
}

static void take(struct stk_tuner *t, const struct seen *seen)
{
    struct stk_tune_subject *s = &t->s;
    s->epoch_s = seen->epoch_s;
    s->wait_share = fmin(seen->wait_s / seen->wall_s, 1);
    s->save_share = fmin(seen->save_s / seen->wall_s, 1);
    s->compute_s = seen->compute_s / seen->wall_s * seen->epoch_s;
    t->out->compute_s = s->compute_s;
    t->out->memory_bytes = seen->memory_bytes > 0 ? (uint64_t)seen->memory_bytes : 0;
    s->open_s = seen->open_s;
    s->request_s = seen->request_s;
    s->request_bytes = seen->request_bytes;
}

/* Epochs that a run may have, if an epoch takes that long. */
static uint64_t epochs_that_fit(const struct stk_tuner *t, double epoch_s)
{
    double n = EPOCH_TIMES * run_seconds(t) / epoch_s, all = (double)t->s.w.training.epochs;
    return (uint64_t)(n < all ? n : all);
}

/* Steps of a run: whole epochs, if they are short. A part of an epoch does the loader wrong, which
 * reads ahead further than a short run goes; and it does the job as it is wrong, whose data gets
 * into the page cache meanwhile. So a job that was profiled is run whole, if it may. */
static uint64_t whole_epochs(struct stk_tuner *t, uint64_t steps)
{
    struct stk_bench_plan plan;
    double own_s = stk_tune_own_epoch_s(t);
    uint64_t can = epochs_that_fit(t, fmin(t->s.epoch_s, own_s)), epochs = 1;
    if (stk_bench_plan(&plan, &t->s.w, 0, t->s.ranks, NULL) < 0 || !plan.steps || !can)
        return steps;
    if (steps > plan.steps)
        epochs = (steps + plan.steps - 1) / plan.steps;
    if (!isnan(own_s) || epochs > can)
        epochs = can;
    t->run_s = fmax(t->run_s, fmin(t->s.epoch_s, own_s) * (double)epochs);
    return plan.steps * epochs;
}

/* One run of that many steps, of which the rest is told. */
static int run_pilot(struct stk_tuner *t, uint64_t steps, struct seen *seen, struct stk_err *err)
{
    const char **words = NULL;
    t->out->steps = steps;
    int rc = stk_tuner_doing(t, "a few steps of the workload as it is")
                 ? stk_err_set(err, STK_E_STOPPED, NULL, -1, "stopped")
                 : stk_tune_words(t, NULL, &words, err);
    rc = rc ? rc : run_bench(t, words, seen, err);
    if (!rc)
        take(t, seen);
    return rc;
}

int stk_tune_pilot(struct stk_tuner *t, struct stk_err *err)
{
    uint64_t steps = whole_intervals(&t->s.w, PILOT_STEPS), most = t->s.w.training.most_steps;
    double want = run_seconds(t);
    int rc = 0;
    for (bool enough = false; !rc && !enough;) {
        struct seen seen = {0};
        rc = run_pilot(t, steps, &seen, err);
        if (rc)
            return rc;
        bool all = seen.steps + (double)t->s.w.training.warmup < (double)steps;
        double fit = seen.steps * want / seen.wall_s;
        enough = all || seen.wall_s > want / 4 || (most && steps >= most);
        t->run_s =
            all ? seen.wall_s : fmax(want, seen.wall_s); /* no run is longer than all of it */
        t->run_cost_s = t->run_s + seen.took_s - seen.wall_s;
        uint64_t next = fit < 1e9 ? (uint64_t)fit : 1000000000u;
        next = whole_intervals(&t->s.w, next);
        steps = enough || next < 16 * steps ? next : 16 * steps;
    }
    double around = t->run_cost_s - t->run_s;
    uint64_t first = t->out->steps, whole = most && steps > most ? most : whole_epochs(t, steps);
    t->out->steps = whole;
    t->run_cost_s = t->run_s + around;
    if (whole > first && !isnan(stk_tune_own_epoch_s(t)) && !t->plan->storage) {
        struct seen seen = {0}; /* the first steps are not like the others */
        rc = run_pilot(t, whole, &seen, err);
    }
    return rc;
}
