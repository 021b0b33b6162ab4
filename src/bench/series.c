/* series.c - a workload at several numbers of accelerators. */
#include "bench/bench.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/spawn.h"
#include "base/verdict.h"
#include "bench/plan.h"

#define WAITS_LEAST 0.05 /* of the time: below, the accelerators set the pace */
#define PACE_LEAST  0.95 /* of the calibration: below, this machine is the limit */

void stk_series_release(struct stk_series *s)
{
    free(s->point);
    *s = (struct stk_series){.lost = -1};
}

/* ---- one run -------------------------------------------------------------------------------- */

static void keep(const struct stk_bench_result *r, struct stk_series_point *p)
{
    double waits = 0, time = 0;
    for (uint32_t i = 0; i < r->ranks; i++) {
        waits += r->rank[i].wait_s;
        time += r->rank[i].measured_s;
    }
    p->ranks = r->ranks;
    p->utilisation = r->utilisation;
    p->mlperf = r->mlperf;
    p->samples_per_s = r->samples_per_s;
    p->io_share = r->io_share;
    p->io_share_steps = r->io_share_steps;
    p->step_s = 1e-9 * (double)stk_histogram_percentile(&r->step, 0.5);
    p->step_p99_s = 1e-9 * (double)stk_histogram_percentile(&r->step, 0.99);
    p->bytes = r->io.bytes;
    p->io_bound = time > 0 && waits / time > WAITS_LEAST;
}

/* Runs the workload as it is and adds a point. *pace: of the calibration, 1 without one. */
static int run_one(struct stk_bench_config *c, struct stk_workload *w, const char *label,
                   struct stk_series *s, double *pace, struct stk_err *err)
{
    struct stk_bench_result r;
    int rc = stk_workload_settle(w, err);
    if (rc == 0 && s->n >= STK_SERIES_MAX)
        rc = stk_err_set(err, STK_E_USAGE, NULL, -1, "more than %u runs", STK_SERIES_MAX);
    if (rc == 0 && STK_ARRAY_MORE(s->point, s->n, err))
        rc = STK_E_NOMEM;
    if (rc < 0)
        return rc;
    rc = stk_bench_run(c, (uint32_t)w->training.ranks, pace != NULL, &r, err);
    if (rc == 0 && r.lost >= 0) {
        s->lost = r.lost;
        snprintf(s->why_lost, sizeof s->why_lost, "%s", r.why_lost);
    } else if (rc == 0 && r.rank) {
        struct stk_series_point *p = &s->point[s->n++];
        *p = (struct stk_series_point){0};
        snprintf(p->label, sizeof p->label, "%s", label);
        keep(&r, p);
        if (pace)
            *pace = r.calibration.done ? r.calibration.utilisation : 1;
    }
    stk_bench_release(&r);
    return rc;
}

/* ---- a sweep -------------------------------------------------------------------------------- */

static int check_sweep(const char *sweep, struct stk_err *err)
{
    char key[64];
    size_t n = strcspn(sweep, "=");
    snprintf(key, sizeof key, "%.*s", (int)n, sweep);
    if (!sweep[n] || !sweep[n + 1])
        return stk_err_set(err, STK_E_USAGE, NULL, -1,
                           "\"%.100s\" is not key=a,b,c, such as reader.threads=1,2,4", sweep);
    if (strncmp(stk_workload_name(key), "dataset.", 8) == 0)
        return stk_err_set(err, STK_E_USAGE, NULL, -1,
                           "%.*s: a sweep reads the same data with all values; run these one by "
                           "one, each with its own --data",
                           (int)n, sweep);
    return 0;
}

/* Every value of sweeps[0], and for each of them the sweeps behind it. label: of those before. */
static int sweep_rest(struct stk_bench_config *c, struct stk_workload *w, const char *const *sweeps,
                      const char *label, struct stk_series *s, struct stk_err *err)
{
    if (!*sweeps)
        return run_one(c, w, label, s, NULL, err);
    int rc = check_sweep(*sweeps, err);
    size_t key = strcspn(*sweeps, "=");
    const char *p = rc == 0 ? *sweeps + key + 1 : "";
    while (*p && rc == 0 && s->lost < 0) {
        char set[160], longer[320];
        size_t n = strcspn(p, ",");
        snprintf(set, sizeof set, "%.*s=%.*s", (int)key, *sweeps, (int)n, p);
        snprintf(longer, sizeof longer, "%.150s%s%s", label, *label ? " " : "", set);
        rc = stk_workload_set(w, set, err);
        rc = rc ? rc : sweep_rest(c, w, sweeps + 1, longer, s, err);
        p += n + (p[n] == ',');
    }
    return rc;
}

int stk_series_sweep(struct stk_bench_config *c, struct stk_workload *w, const char *const *sweeps,
                     struct stk_series *out, struct stk_err *err)
{
    *out = (struct stk_series){.lost = -1};
    return sweep_rest(c, w, sweeps, "", out, err);
}

void stk_series_verdict(const struct stk_series *s, struct stk_buf *out)
{
    size_t turn = 1;
    char text[STK_VERDICT_TEXT];
    while (turn < s->n && s->point[turn].io_bound == s->point[0].io_bound)
        turn++;
    if (s->n == 0)
        return;
    bool bound = s->point[0].io_bound;
    const struct stk_series_point *a = &s->point[0], *b = &s->point[s->n - 1];
    const struct stk_verdict v = stk_verdict_of_single(1 / b->samples_per_s, 1 / a->samples_per_s);
    if (s->neighbour)
        stk_buf_printf(out,
                       "With %s beside it, the job computes %.1f %% of the time instead of "
                       "%.1f %%, and a step takes %.2f times as long at 99 %%. Samples per second "
                       "against alone: %s.\n",
                       s->neighbour, 100 * b->utilisation, 100 * a->utilisation,
                       a->step_p99_s > 0 ? b->step_p99_s / a->step_p99_s : 1,
                       stk_verdict_text(&v, text, sizeof text));
    else if (turn < s->n)
        stk_buf_printf(out, "By one run of each, the job turns from %s to %s at %s.\n",
                       bound ? "I/O-bound" : "compute-bound", bound ? "compute-bound" : "I/O-bound",
                       s->point[turn].label);
    else
        stk_buf_printf(out,
                       "By one run of each, the job is %s with all of these values: the "
                       "accelerators wait for data in %s than 5 %% of the time.\n",
                       bound ? "I/O-bound" : "compute-bound", bound ? "more" : "less");
}

/* ---- the most ranks ------------------------------------------------------------------------- */

struct search {
    struct stk_bench_config *c;
    struct stk_workload *w;
    struct stk_series *s;
};

#define STEPS_LEAST     10 /* beside the first */
#define STEPS_PER_BATCH 5  /* for each batch that is read ahead: then its share is a fifth at most \
                            */

/* Steps of a rank with which its utilisation is that of the storage. */
static uint64_t steps_needed(const struct stk_workload *w)
{
    uint64_t ahead = STEPS_PER_BATCH * w->reader.prefetch;
    return 1 + w->training.warmup + (ahead > STEPS_LEAST ? ahead : STEPS_LEAST);
}

/* Gives that many ranks enough steps. False: they have not. */
static bool give_steps(struct search *f, uint32_t ranks, uint64_t epochs, struct stk_err *err,
                       int *rc)
{
    struct stk_bench_plan plan;
    struct stk_workload *w = f->w;
    bool reads_again = f->c->model.is_virtual || w->reader.cache == STK_CACHE_DROP ||
                       w->reader.cache == STK_CACHE_DIRECT;
    uint64_t needed = steps_needed(w);
    w->training.epochs = epochs;
    *rc = stk_workload_settle(w, err);
    *rc = *rc ? *rc : stk_bench_plan(&plan, w, 0, ranks, err);
    if (*rc || w->reader.load != STK_LOAD_STEP || !plan.steps)
        return *rc == 0;
    if (reads_again && plan.steps * epochs < needed)
        w->training.epochs = (needed + plan.steps - 1) / plan.steps;
    if (plan.steps * w->training.epochs >= needed)
        return true;
    if (!f->s->unjudged || ranks < f->s->unjudged) {
        f->s->unjudged = ranks;
        f->s->steps = plan.steps * epochs;
        f->s->steps_needed = needed;
    }
    return false;
}

/* True in *good: that many ranks reach the utilisation. */
static int try_ranks(struct search *f, uint32_t ranks, bool *good, struct stk_err *err)
{
    char label[40];
    double pace = 1;
    uint64_t epochs = f->w->training.epochs;
    int rc;
    f->w->training.ranks = ranks;
    *good = give_steps(f, ranks, epochs, err, &rc);
    if (!*good)
        return rc;
    snprintf(label, sizeof label, "%lu rank%s", (unsigned long)ranks, ranks == 1 ? "" : "s");
    rc = run_one(f->c, f->w, label, f->s, &pace, err);
    f->w->training.epochs = epochs;
    *good = rc == 0 && f->s->lost < 0 && f->s->point[f->s->n - 1].mlperf >= f->s->au;
    if (rc == 0 && pace < PACE_LEAST)
        f->s->machine_ends = true;
    return rc;
}

int stk_series_find_max(struct stk_bench_config *c, struct stk_workload *w, double au,
                        uint32_t limit, struct stk_series *out, struct stk_err *err)
{
    *out = (struct stk_series){.lost = -1, .au = au, .limit = limit};
    struct search f = {c, w, out};
    uint32_t bad = 0;
    bool good = true;
    int rc = 0;
    for (uint32_t n = 1; rc == 0 && good && out->lost < 0 && !out->machine_ends; n *= 2) {
        n = n > limit ? limit : n;
        rc = try_ranks(&f, n, &good, err);
        *(good ? &out->most : &bad) = n;
        if (n == limit)
            break;
    }
    while (rc == 0 && bad > out->most + 1 && out->lost < 0 && !out->machine_ends) {
        uint32_t middle = out->most + (bad - out->most) / 2;
        rc = try_ranks(&f, middle, &good, err);
        *(good ? &out->most : &bad) = middle;
    }
    if (bad != out->unjudged) /* fewer ranks than that are not fast enough */
        out->unjudged = 0;
    return rc;
}

/* ---- a neighbour ---------------------------------------------------------------------------- */

struct neighbour {
    struct stk_bench_config *c;
    uint32_t ranks;
    bool told;
};

/* Its first step is done: it is at work. */
static int on_first_step(void *user, const struct stk_bench_live *live)
{
    struct neighbour *n = user;
    (void)live;
    if (!n->told && n->c->comm && stk_comm_rank(n->c->comm) == 0)
        n->told = write(STDOUT_FILENO, "1", 1) == 1;
    return 0;
}

/* In a child: over and over, until it is killed. */
static int run_neighbour(void *user)
{
    struct neighbour *n = user;
    struct stk_bench_result r;
    int rc = 0;
    n->c->tick = on_first_step;
    n->c->user = n;
    while (rc == 0) {
        rc = stk_bench_run(n->c, n->ranks, false, &r, NULL);
        rc = rc == 0 && r.lost >= 0 ? STK_E_STOPPED : rc;
        stk_bench_release(&r);
    }
    return 1;
}

/* Waits until it reads, or has ended. */
static int wait_neighbour(struct stk_child *child, struct stk_err *err)
{
    struct stk_buf text = STK_BUF_INIT;
    struct timespec pause = {.tv_nsec = 2000000};
    int got = 0;
    while (got == 0 && !text.len) {
        got = stk_child_read(child, 1, &text, 1);
        if (got == 0)
            nanosleep(&pause, NULL);
    }
    bool works = text.len > 0;
    stk_buf_release(&text);
    return works ? 0
                 : stk_err_set(err, STK_E_STOPPED, NULL, -1,
                               "the neighbour's workload failed; run it alone to see why");
}

int stk_series_neighbour(struct stk_bench_config *c, struct stk_workload *w,
                         struct stk_bench_config *other, uint32_t ranks, struct stk_series *out,
                         struct stk_err *err)
{
    *out = (struct stk_series){.lost = -1, .neighbour = other->w->name};
    struct neighbour n = {.c = other, .ranks = ranks};
    struct stk_child child = {.inside = run_neighbour,
                              .user = &n,
                              .own_group = true,
                              .death_signal = SIGKILL,
                              .fd = {STK_FD_NULL, STK_FD_PIPE, STK_FD_KEEP}};
    char label[160];
    snprintf(label, sizeof label, "with %.80s", other->w->name);
    int rc = run_one(c, w, "alone", out, NULL, err);
    if (rc < 0 || out->lost >= 0)
        return rc;
    int why = stk_child_start(&child);
    if (why)
        return stk_err_set(err, STK_E_SYS, NULL, -1, "start the neighbour: %s", strerror(why));
    rc = wait_neighbour(&child, err);
    rc = rc ? rc : run_one(c, w, label, out, NULL, err);
    (void)stk_child_end(&child, STK_CHILD_END_S);
    stk_child_hang_up(&child);
    return rc;
}
