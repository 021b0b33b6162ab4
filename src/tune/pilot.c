/*
 * pilot.c - the runs behind the candidates, as data; the pilot: a few steps of the job as it is,
 * which tell how long a run must be and what the job waits for; and whether the data was in the
 * page cache when the program was profiled. Runs drop it from there, as a job finds it that reads
 * more than fits into memory, or begins on another node. If the program itself was much faster than
 * such a run, it read cached data: then so do the runs, or gains would be measured that it has had
 * already.
 */
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/pool.h"
#include "base/units.h"
#include "bench/plan.h"
#include "tune/priv.h"

#define SETS_MAX    64
#define PILOT_STEPS 8
#define RUN_MIN_S   0.4 /* shorter ones are all start and end */
#define RUN_MAX_S   20.0
#define RUNS_WANTED 60.0 /* in the budget: ten candidates, three rounds, two studies */
#define EPOCH_TIMES 2.5  /* as long as a run should be: then a whole epoch is run */
#define MEMORY_SHARE 0.5 /* of what is free: more data does not stay in the page cache */

/* ---- what runs ------------------------------------------------------------------------------ */

struct keys {
    struct stk_arena *arena;
    const char **v;
    size_t n;
    bool fail;
};

static void add(struct keys *k, const char *key)
{
    k->fail = k->fail || !key || k->n + 1 == SETS_MAX;
    if (!k->fail)
        k->v[k->n++] = key;
}

static void add_text(struct keys *k, const char *key, const char *value)
{
    add(k, stk_tune_text(k->arena, "%s=%s", key, value));
}

/* A copy instead of the data: of the whole data folder, or of the files of a replay. */
static void add_change(const struct stk_tuner *t, struct keys *k, const struct stk_tune_change *c,
                       const struct stk_tune_copy *copy, struct stk_bench_job *job)
{
    const char *at = copy->at ? copy->at : copy->path ? copy->path : c->makes;
    if (c->use == STK_USE_LOADER)
        add_text(k, "reader.path", at);
    else if (c->use == STK_USE_INDEX && *at)
        add_text(k, "reader.index", at);
    else if (c->use == STK_USE_DATA && job->data)
        job->data = at;
    else if (c->use == STK_USE_DATA)
        add_text(k, "files.1.path", at);
    for (size_t i = 0; i < c->nset; i++)
        add(k, c->set[i]);
    if (c->kind->helps == STK_HELPS_SAVES && stk_tune_saves_at(t, c))
        add_text(k, "checkpoint.dir", stk_tune_saves_at(t, c));
    job->stoker = job->stoker || c->loader;
    job->cpus = c->cpus ? c->cpus : job->cpus;
}

/* Steps of a run. The loader reads ahead further than a short run goes, and its first batch takes
 * the longest, so that it makes more of them: as many as are expected to take no longer than a run
 * may. */
static uint64_t steps_of(const struct stk_tune_subject *s, const struct stk_tune_proposal *c,
                         const struct stk_tune_expected *e)
{
    uint64_t steps = s->pilot.steps, most = s->w.training.most_steps;
    struct stk_bench_plan plan;
    bool loader = false;
    for (size_t i = 0; i < c->nchanges; i++)
        loader = loader || c->change[i].loader;
    if (!steps || !loader || !e || !(e->epoch_s > 0) ||
        stk_bench_plan(&plan, &s->w, 0, stk_tune_ranks(s), NULL) < 0)
        return steps;
    double fit = EPOCH_TIMES * s->pilot.run_s / e->epoch_s, all = (double)s->w.training.epochs;
    fit = fit < 1 ? fit : floor(fmin(fit, all)); /* whole epochs */
    uint64_t more = (uint64_t)(fit * (double)plan.steps);
    more = most && most < more ? most : more;
    return more > steps ? more : steps;
}

/* Whether all data stays in the page cache once it was read. */
static bool fits(const struct stk_tune_subject *s)
{
    return (double)stk_tune_whole_bytes(s) < MEMORY_SHARE * (double)s->memory_bytes;
}

/* The job as it is: the keys of every run. */
static int begin_job(struct stk_tuner *t, const struct stk_tune_subject *s, bool cached,
                     uint64_t steps, struct keys *k, struct stk_bench_job *job, struct stk_err *err)
{
    *k = (struct keys){.arena = &t->out->arena,
                       .v = stk_arena_alloc(&t->out->arena, SETS_MAX * sizeof *k->v)};
    if (!k->v)
        return stk_err_nomem(err, SETS_MAX * sizeof *k->v);
    *job = (struct stk_bench_job){
        .w = &s->w, .data = t->plan.data ? s->save : NULL, .storage = t->plan.storage, .set = k->v};
    if (s->cold && !cached) /* data that does not fit is gone when it is read again */
        add_text(k, "reader.cache", fits(s) ? "fresh" : "drop");
    if (stk_tune_saves_at(t, NULL))
        add_text(k, "checkpoint.dir", stk_tune_saves_at(t, NULL));
    if (steps)
        add(k, stk_tune_text(k->arena, "training.most_steps=%llu", (unsigned long long)steps));
    return 0;
}

static int end_job(struct keys *k, struct stk_err *err)
{
    k->v[k->n] = NULL;
    return k->fail ? stk_err_nomem(err, 4096) : 0;
}

int stk_tune_job(struct stk_tuner *t, const struct stk_tune_found *f, size_t number,
                 struct stk_bench_job *job, struct stk_err *err)
{
    static const struct stk_tune_copy none = {0};
    const struct stk_tune_subject *s = &f->subject;
    const struct stk_tune_proposal *c = &f->list.item[number];
    uint64_t steps = steps_of(s, c, f->expected ? &f->expected[number] : NULL);
    struct keys k;
    int rc = begin_job(t, s, s->pilot.cached, steps, &k, job, err);
    for (size_t i = 0; i < c->nchanges && !rc; i++)
        add_change(t, &k, &c->change[i], f->copy ? &f->copy[c->change[i].single] : &none, job);
    return rc ? rc : end_job(&k, err);
}

/* ---- one run of the job as it is --------------------------------------------------------------
 */

struct seen {
    struct stk_bench_figures f;
    double took_s; /* the whole process */
};

static int run_child(void *user)
{
    return stk_bench_job_child(user);
}

static int run_job(struct stk_tuner *t, struct stk_bench_job *job, struct seen *out,
                   struct stk_err *err)
{
    struct stk_tune_child c = {.inside = run_child, .user = job, .text = STK_BUF_INIT};
    struct stk_arena arena = STK_ARENA_INIT;
    int rc = stk_tune_in_child(t, &c, err);
    if (!rc && c.why)
        rc = stk_err_set(err, STK_E_USAGE, NULL, -1, "the workload as it is cannot be replayed: %s",
                         c.why);
    rc = rc ? rc : stk_jfields_parse(stk_bench_figures_fields, (const char *)c.text.data,
                                     c.text.len, NULL, &arena, &out->f, err);
    out->took_s = t->plan.storage ? out->f.elapsed_s : c.wall_s;
    t->passed_s += out->took_s;
    stk_arena_release(&arena);
    stk_buf_release(&c.text);
    return rc;
}

static void take(struct stk_tune_pilot *p, const struct stk_bench_figures *seen)
{
    p->epoch_s = seen->epoch_s;
    p->wait_share = fmin((seen->wait_s + seen->load_s) / seen->wall_s, 1);
    p->save_share = fmin(seen->save_s / seen->wall_s, 1);
    p->compute_s = seen->compute_s / seen->wall_s * seen->epoch_s;
    p->peak_bytes = (uint64_t)seen->memory_bytes;
    p->open_s = seen->open_s;
    p->request_s = seen->request_s;
    p->request_bytes = seen->request_bytes;
}

/* One run of that many steps, of which the rest is told. */
static int run(struct stk_tuner *t, const struct stk_tune_subject *s, uint64_t steps,
               struct stk_tune_pilot *p, struct seen *seen, struct stk_err *err)
{
    struct stk_bench_job job;
    struct keys k;
    p->steps = steps;
    int rc = stk_tuner_doing(t, err, "a few steps of the workload as it is");
    rc = rc ? rc : begin_job(t, s, p->cached, steps, &k, &job, err);
    rc = rc ? rc : end_job(&k, err);
    rc = rc ? rc : run_job(t, &job, seen, err);
    if (!rc)
        take(p, &seen->f);
    return rc;
}

/* ---- how long a run is ------------------------------------------------------------------------
 */

/* Steps that contain what happens now and then: a whole number of checkpoint intervals. The first
 * ones wait for threads that have just begun: there must be others. */
static uint64_t whole_intervals(const struct stk_workload *w, uint64_t steps)
{
    uint64_t every = w->checkpoint.every, begin = 3 * w->reader.threads;
    uint64_t least = w->training.warmup + (begin > PILOT_STEPS ? begin : PILOT_STEPS);
    steps = steps > least ? steps : least;
    return every ? (steps + every - 1) / every * every : steps;
}

static double run_seconds(const struct stk_tune_plan *p)
{
    return fmin(fmax(p->budget_s / RUNS_WANTED, RUN_MIN_S), RUN_MAX_S);
}

/* Seconds in which the program made the steps of an epoch, when it was profiled; NaN: not known. */
static double own_epoch_s(const struct stk_tuner *t, const struct stk_workload *w)
{
    struct stk_bench_plan plan;
    if (!(t->plan.job.loop_s > 0) || stk_bench_plan(&plan, w, 0, w->training.ranks, NULL) < 0)
        return NAN;
    double steps = (double)plan.steps, all = steps * (double)w->training.epochs;
    return t->plan.job.loop_s * steps /
           (w->training.most_steps ? (double)w->training.most_steps : all);
}

/* Steps of a run: whole epochs, if they are short. A part of an epoch does the loader wrong, which
 * reads ahead further than a short run goes; and it does the job as it is wrong, whose data gets
 * into the page cache meanwhile. So a job that was profiled is run whole, if it may. */
static uint64_t whole_epochs(const struct stk_tuner *t, const struct stk_workload *w,
                             uint64_t steps, struct stk_tune_pilot *p)
{
    struct stk_bench_plan plan;
    double own_s = own_epoch_s(t, w), epoch_s = fmin(p->epoch_s, own_s);
    double n = fmin(EPOCH_TIMES * run_seconds(&t->plan) / epoch_s, (double)w->training.epochs);
    uint64_t can = (uint64_t)n, epochs = 1; /* that a run may have */
    if (stk_bench_plan(&plan, w, 0, w->training.ranks, NULL) < 0 || !plan.steps || !can)
        return steps;
    if (steps > plan.steps)
        epochs = (steps + plan.steps - 1) / plan.steps;
    if (!isnan(own_s) || epochs > can)
        epochs = can;
    p->run_s = fmax(p->run_s, epoch_s * (double)epochs);
    return plan.steps * epochs;
}

/* *p: what it says of the page cache counts. */
static int find_length(struct stk_tuner *t, const struct stk_tune_subject *s,
                       struct stk_tune_pilot *p, struct stk_err *err)
{
    const struct stk_workload *w = &s->w;
    uint64_t steps = whole_intervals(w, PILOT_STEPS), most = w->training.most_steps;
    double want = run_seconds(&t->plan), around = 0;
    for (bool enough = false; !enough;) {
        struct seen seen = {0};
        int rc = run(t, s, steps, p, &seen, err);
        if (rc)
            return rc;
        double wall_s = seen.f.wall_s;
        bool all = seen.f.steps + (double)w->training.warmup < (double)steps;
        bool timed = seen.f.epoch_s > 0 && wall_s > 0 && seen.f.steps > 0;
        double fit = timed ? seen.f.steps * want / wall_s : INFINITY;
        enough = all || wall_s > want / 4 || (most && steps >= most);
        if (enough && !timed) /* before that: the first request had the data of all these steps */
            return stk_err_set(err, STK_E_CORRUPT, NULL, -1, "the run has no time");
        p->run_s = all ? wall_s : fmax(want, wall_s); /* no run is longer than all of it */
        around = seen.took_s - wall_s;
        uint64_t next = whole_intervals(w, fit < 1e9 ? (uint64_t)fit : 1000000000u);
        steps = enough || next < 16 * steps ? next : 16 * steps;
    }
    uint64_t first = p->steps;
    p->steps = most && steps > most ? most : whole_epochs(t, w, steps, p);
    p->run_cost_s = p->run_s + around;
    if (p->steps > first && !isnan(own_epoch_s(t, w)) && !t->plan.storage) {
        struct seen seen = {0}; /* the first steps are not like the others */
        return run(t, s, p->steps, p, &seen, err);
    }
    return 0;
}

/* ---- the page cache ------------------------------------------------------------------------- */

#define NEAR       1.3  /* a replay within this factor of the program's time is as it was */
#define FAR        1.6  /* one beyond this is not, and that is said */
#define READ_SHARE 0.15 /* of the budget that is left, for reading all data */
#define PIECE      (1u << 20)

static bool read_file(struct stk_tuner *t, const char *path, uint8_t *piece, double until_s)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    ssize_t n = fd >= 0 ? 1 : -1;
    while (n > 0 && stk_now() < until_s && !stk_tuner_tick(t))
        n = read(fd, piece, PIECE);
    if (fd >= 0)
        close(fd);
    return n == 0;
}

/* Brings all data into the page cache. False: it takes too long, or cannot be read. */
static bool read_all(struct stk_tuner *t, const char *source)
{
    struct stk_tune_files f = {0};
    double until_s = stk_now() + READ_SHARE * stk_tuner_left_s(t);
    uint8_t *piece = malloc(PIECE);
    bool all = piece && !stk_tuner_doing(t, NULL, "reading the data into memory") &&
               stk_tune_files_list(source, NULL, &f, NULL) == 0;
    for (size_t i = 0; i < f.n && all; i++) {
        char *path = stk_tune_file_path(source, &f.file[i]);
        all = path && read_file(t, path, piece, until_s);
        free(path);
    }
    stk_tune_files_release(&f);
    free(piece);
    return all;
}

static double far_from(double own_s, double epoch_s)
{
    return fabs(log(epoch_s / own_s));
}

static void say(struct stk_tuner *t, const struct stk_tune_pilot *p, double own_s, double cold_s)
{
    char own[32], cold[32], now[32];
    stk_format_duration(own_s, own, sizeof own);
    stk_format_duration(cold_s, cold, sizeof cold);
    stk_format_duration(p->epoch_s, now, sizeof now);
    if (p->cached)
        stk_tune_note(
            t,
            "The program read its data from memory, where earlier runs had left it (an "
            "epoch took %s; from storage: %s), and so do all runs here. For a job that finds "
            "none of it there: --set reader.cache=fresh",
            own, cold);
    if (far_from(own_s, p->epoch_s) > log(FAR))
        stk_tune_note(
            t,
            "An epoch of the program took %s, and %s as it is replayed here: its own gains may be "
            "others than those in the table. `--check` measures them",
            own, now);
}

int stk_tune_run_pilot(struct stk_tuner *t, const struct stk_tune_subject *s,
                       struct stk_tune_pilot *out, struct stk_err *err)
{
    struct stk_tune_pilot cold = {.epoch_s = NAN}, cached = {.epoch_s = NAN, .cached = true};
    int rc = find_length(t, s, &cold, err);
    double own_s = rc ? NAN : own_epoch_s(t, &s->w);
    *out = cold;
    if (rc || isnan(own_s) || !s->cold || t->plan.storage)
        return rc;
    if (cold.epoch_s > NEAR * own_s && s->source && fits(s) && read_all(t, s->source)) {
        rc = find_length(t, s, &cached, err);
        if (!rc && far_from(own_s, cached.epoch_s) < far_from(own_s, cold.epoch_s))
            *out = cached;
    }
    if (!rc)
        say(t, out, own_s, cold.epoch_s);
    return rc;
}
