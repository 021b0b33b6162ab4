/*
 * run.c - the runs behind the candidates, as data; the pilot: a few steps of the baseline, which
 * tell how long a run must be and what the job waits for; and whether the data was in the page
 * cache when the program was profiled. Runs drop it from there, as a job finds it that reads more
 * than fits into memory, or begins on another node. If the program itself was much faster than
 * such a run, it read cached data: then so do the runs, or gains would be measured that it has had
 * already.
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/pool.h"
#include "base/spawn.h"
#include "base/units.h"
#include "bench/plan.h"
#include "tune/files.h"
#include "tune/priv.h"

#define SETS_MAX    64
#define FIGURES_MAX 4096
#define SAID_MAX    4096
#define GRACE_S     10
#define PILOT_STEPS 8
#define RUN_MIN_S   0.4 /* shorter ones are all start and end */
#define RUN_MAX_S   20.0
#define RUNS_WANTED 60.0 /* in the budget: ten candidates, three rounds, two studies */
#define EPOCH_TIMES 2.5  /* as long as a run should be: then a whole epoch is run */

/* ---- what runs ------------------------------------------------------------------------------ */

struct keys {
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

static void add_saves(struct stk_tuner *t, struct keys *k, const struct stk_tune_change *c)
{
    const char *at = stk_tune_saves_at(t, c);
    if (at)
        add(k, stk_tune_text(t, "checkpoint.dir=%s", at));
}

/* A copy instead of the data: of the whole data folder, or of the files of a replay. */
static void add_copy(struct stk_tuner *t, struct keys *k, const struct stk_tune_change *c,
                     struct stk_bench_job *job)
{
    const char *at = c->copy.at ? c->copy.at : c->copy.path;
    if (c->use == STK_USE_LOADER)
        add(k, stk_tune_text(t, "reader.path=%s", at));
    else if (c->use == STK_USE_INDEX && *at)
        add(k, stk_tune_text(t, "reader.index=%s", at));
    else if (c->use == STK_USE_DATA && job->data)
        job->data = at;
    else if (c->use == STK_USE_DATA)
        add(k, stk_tune_text(t, "files.1.path=%s", at));
}

static void add_change(struct stk_tuner *t, struct keys *k, const struct stk_tune_change *c,
                       struct stk_bench_job *job)
{
    add_copy(t, k, c, job);
    for (size_t i = 0; i < c->nset; i++)
        add(k, c->set[i]);
    if (c->kind->helps == STK_HELPS_SAVES)
        add_saves(t, k, c);
    job->stoker = job->stoker || c->loader;
    job->cpus = c->cpus ? c->cpus : job->cpus;
}

/* Steps of a run. The loader reads ahead further than a short run goes, and its first batch takes
 * the longest, so that it makes more of them: as many as are expected to take no longer than a run
 * may. */
static uint64_t steps_of(const struct stk_tuner *t, const struct stk_tune_candidate *c)
{
    uint64_t steps = t->s.steps, most = t->s.w.training.most_steps;
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

int stk_tune_job(struct stk_tuner *t, const struct stk_tune_candidate *c, struct stk_bench_job *job,
                 struct stk_err *err)
{
    struct keys k = {.v = stk_arena_alloc(&t->out->arena, SETS_MAX * sizeof *k.v)};
    if (!k.v)
        return stk_err_nomem(err, SETS_MAX * sizeof *k.v);
    *job = (struct stk_bench_job){
        .w = &t->s.w, .data = t->plan->data ? t->s.save : NULL, .storage = t->plan->storage};
    if (t->s.cold && !t->s.cached) /* data that does not fit is gone when it is read again */
        add(&k, stk_tune_fits(&t->s) ? "reader.cache=fresh" : "reader.cache=drop");
    add_saves(t, &k, NULL);
    uint64_t steps = steps_of(t, c);
    if (steps)
        add(&k, stk_tune_text(t, "training.most_steps=%llu", (unsigned long long)steps));
    for (size_t i = 0; c && i < c->nchanges; i++)
        add_change(t, &k, &c->change[i], job);
    k.v[k.n] = NULL;
    job->set = k.v;
    return k.fail ? stk_err_nomem(err, 4096) : 0;
}

/* ---- the pilot ------------------------------------------------------------------------------ */

struct seen {
    struct stk_bench_figures f;
    double took_s; /* the whole process */
};

struct running {
    struct stk_tuner *t;
    const struct stk_bench_job *job;
};

static int on_tick(void *user)
{
    const struct running *r = user;
    return stk_tuner_tick(r->t);
}

static int run_child(void *user)
{
    const struct running *r = user;
    return stk_bench_job_child(r->job);
}

static int read_figures(const struct stk_buf *text, struct stk_arena *arena,
                        struct stk_bench_figures *f, struct stk_err *err)
{
    int rc = stk_jfields_parse(stk_bench_figures_fields, (const char *)text->data, text->len, NULL,
                               arena, f, err);
    if (!rc && !(f->epoch_s > 0 && f->wall_s > 0 && f->steps > 0))
        rc = stk_err_set(err, STK_E_CORRUPT, NULL, -1, "the run has no time");
    return rc;
}

static int run_job(struct stk_tuner *t, const struct stk_bench_job *job, struct seen *out,
                   struct stk_err *err)
{
    struct running running = {t, job};
    struct stk_buf text = STK_BUF_INIT, said = STK_BUF_INIT;
    struct stk_arena arena = STK_ARENA_INIT;
    struct stk_child c = {.inside = run_child,
                          .fd = {STK_FD_NULL, STK_FD_PIPE, STK_FD_PIPE},
                          .dir = t->work.path,
                          .own_group = true,
                          .death_signal = SIGTERM,
                          .grace_s = GRACE_S,
                          .tick = on_tick,
                          .text = {NULL, &text, &said},
                          .text_max = {0, FIGURES_MAX, SAID_MAX},
                          .user = &running};
    errno = stk_child_start(&c);
    int rc = errno ? stk_err_sys(err, NULL, "start a run") : 0;
    if (!rc)
        (void)stk_child_attend(&c);
    if (!rc && c.stopped)
        rc = stk_err_set(err, STK_E_STOPPED, NULL, -1, "stopped");
    if (!rc && c.ending.status)
        rc = stk_err_set(err, STK_E_USAGE, NULL, -1, "the workload as it is cannot be replayed: %s",
                         stk_tune_reason(&said));
    rc = rc ? rc : read_figures(&text, &arena, &out->f, err);
    out->took_s = t->plan->storage ? out->f.elapsed_s : c.wall_s;
    t->passed_s += out->took_s;
    stk_arena_release(&arena);
    stk_buf_release(&text);
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

static void take(struct stk_tuner *t, const struct stk_bench_figures *seen)
{
    struct stk_tune_subject *s = &t->s;
    s->epoch_s = seen->epoch_s;
    s->wait_share = fmin((seen->wait_s + seen->load_s) / seen->wall_s, 1);
    s->save_share = fmin(seen->save_s / seen->wall_s, 1);
    s->compute_s = seen->compute_s / seen->wall_s * seen->epoch_s;
    s->peak_bytes = (uint64_t)seen->memory_bytes;
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
    struct stk_bench_job job;
    t->s.steps = steps;
    int rc = stk_tuner_doing(t, "a few steps of the workload as it is")
                 ? stk_err_set(err, STK_E_STOPPED, NULL, -1, "stopped")
                 : stk_tune_job(t, NULL, &job, err);
    rc = rc ? rc : run_job(t, &job, seen, err);
    if (!rc)
        take(t, &seen->f);
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
        double wall_s = seen.f.wall_s;
        bool all = seen.f.steps + (double)t->s.w.training.warmup < (double)steps;
        double fit = seen.f.steps * want / wall_s;
        enough = all || wall_s > want / 4 || (most && steps >= most);
        t->run_s =
            all ? wall_s : fmax(want, wall_s); /* no run is longer than all of it */
        t->run_cost_s = t->run_s + seen.took_s - wall_s;
        uint64_t next = fit < 1e9 ? (uint64_t)fit : 1000000000u;
        next = whole_intervals(&t->s.w, next);
        steps = enough || next < 16 * steps ? next : 16 * steps;
    }
    double around = t->run_cost_s - t->run_s;
    uint64_t first = t->s.steps, whole = most && steps > most ? most : whole_epochs(t, steps);
    t->s.steps = whole;
    t->run_cost_s = t->run_s + around;
    if (whole > first && !isnan(stk_tune_own_epoch_s(t)) && !t->plan->storage) {
        struct seen seen = {0}; /* the first steps are not like the others */
        rc = run_pilot(t, whole, &seen, err);
    }
    return rc;
}

/* ---- the page cache ------------------------------------------------------------------------- */

#define NEAR         1.3  /* a replay within this factor of the program's time is as it was */
#define FAR          1.6  /* one beyond this is not, and that is said */
#define READ_SHARE   0.15 /* of the budget that is left, for reading all data */
#define MEMORY_SHARE 0.5  /* of what is free: more does not stay */
#define PIECE        (1u << 20)

double stk_tune_own_epoch_s(const struct stk_tuner *t)
{
    const struct stk_workload *w = &t->s.w;
    struct stk_bench_plan plan;
    if (!(t->plan->job.loop_s > 0) || stk_bench_plan(&plan, w, 0, t->s.ranks, NULL) < 0)
        return NAN;
    double steps = (double)plan.steps, all = steps * (double)w->training.epochs;
    return t->plan->job.loop_s * steps /
           (w->training.most_steps ? (double)w->training.most_steps : all);
}

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
static bool read_all(struct stk_tuner *t)
{
    struct stk_tune_files f = {0};
    double until_s = stk_now() + READ_SHARE * stk_tuner_left_s(t);
    uint8_t *piece = malloc(PIECE);
    bool all = piece && !stk_tuner_doing(t, "reading the data into memory") &&
               stk_tune_files_list(t->s.source, NULL, &f, NULL) == 0;
    for (size_t i = 0; i < f.n && all; i++) {
        char *path = stk_tune_file_path(t->s.source, &f.file[i]);
        all = path && read_file(t, path, piece, until_s);
        free(path);
    }
    stk_tune_files_release(&f);
    free(piece);
    return all;
}

bool stk_tune_fits(const struct stk_tune_subject *s)
{
    return (double)stk_tune_whole_bytes(s) < MEMORY_SHARE * (double)s->memory_bytes;
}

static double far_from(double own_s, double epoch_s)
{
    return fabs(log(epoch_s / own_s));
}

static void say(struct stk_tuner *t, double own_s, double cold_s)
{
    char own[32], cold[32], now[32];
    stk_format_duration(own_s, own, sizeof own);
    stk_format_duration(cold_s, cold, sizeof cold);
    stk_format_duration(t->s.epoch_s, now, sizeof now);
    if (t->s.cached)
        stk_tune_note(
            t->out,
            "The program read its data from memory, where earlier runs had left it (an "
            "epoch took %s; from storage: %s), and so do all runs here. For a job that finds "
            "none of it there: --set reader.cache=fresh",
            own, cold);
    if (far_from(own_s, t->s.epoch_s) > log(FAR))
        stk_tune_note(
            t->out,
            "An epoch of the program took %s, and %s as it is replayed here: its own gains may be "
            "others than those in the table. `--check` measures them",
            own, now);
}

int stk_tune_settle_cache(struct stk_tuner *t, struct stk_err *err)
{
    struct stk_tune_subject *s = &t->s;
    double own_s = stk_tune_own_epoch_s(t), cold_s = s->epoch_s;
    int rc = 0;
    if (isnan(own_s) || !s->cold || t->plan->storage)
        return 0;
    if (cold_s > NEAR * own_s && s->source && stk_tune_fits(s) && read_all(t)) {
        s->cached = true;
        rc = stk_tune_pilot(t, err);
        s->cached = rc || far_from(own_s, s->epoch_s) < far_from(own_s, cold_s);
        if (!s->cached)
            rc = stk_tune_pilot(t, err);
    }
    if (!rc)
        say(t, own_s, cold_s);
    return rc;
}
