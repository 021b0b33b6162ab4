/*
 * drive.c - takes a study from its present state to the end: rounds of all points in random order,
 * so that a machine that gets warm or busy is not mistaken for scaling, until the intervals are
 * narrow or the time is up. Runs are started by the executor; what has ended is collected.
 */
#include "study/priv.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/pool.h"
#include "base/random.h"
#include "base/stats.h"

#define FAILURES_MAX 2 /* a point that fails this often is not tried again */

static bool is_of(const struct stk_point *p, const struct stk_study_run *run)
{
    return run->n == p->n && (p->by_n ? !run->point : run->point && strcmp(run->point, p->id) == 0);
}

struct stk_tally *stk_runner_point_of(const struct stk_runner *r, const struct stk_study_run *run)
{
    for (size_t i = 0; i < r->points.n; i++)
        if (is_of(r->tally[i].point, run))
            return &r->tally[i];
    return NULL;
}

/* Whether a run of an earlier call is to be repeated: always if it says nothing about the program.
 */
static bool is_past(const struct stk_runner *r, size_t series, size_t i)
{
    enum stk_run_status status = r->study.series[series].run[i].status;
    return i < r->before[series] && (r->retry || !stk_run_blames(status));
}

static void count_bad(const struct stk_runner *r, struct stk_tally *t, size_t i)
{
    enum stk_run_status status = r->study.series[t->series].run[i].status;
    if (is_past(r, t->series, i)) {
        t->past++;
        return;
    }
    t->bad += stk_run_blames(status);
    t->lost += !stk_run_blames(status);
    /* Another try would take as long, or never start either. */
    t->hopeless = t->hopeless || status == STK_RUN_TIMEOUT || status == STK_RUN_PENDING;
}

static void gather(const struct stk_runner *r, struct stk_tally *t, double *cost, double *wall)
{
    const struct stk_study_series *s = &r->study.series[t->series];
    struct stk_summary sum;
    t->good = t->bad = t->lost = t->past = 0;
    t->hopeless = false;
    for (size_t i = 0; i < s->nruns; i++) {
        const struct stk_study_run *run = &s->run[i];
        if (!is_of(t->point, run))
            continue;
        if (run->status == STK_RUN_OK) {
            cost[t->good] = stk_study_cost(&r->study, run);
            wall[t->good++] = isnan(run->wall_s) ? 0 : run->wall_s;
        } else {
            count_bad(r, t, i);
        }
    }
    t->half_width = t->good > 1 && stk_summarise(cost, t->good, &sum) ? stk_half_width(&sum) : NAN;
    t->wall_s = t->good ? stk_median(wall, t->good) : NAN;
    t->cost = t->good ? stk_median(cost, t->good) : NAN;
}

static bool is_done(const struct stk_runner *r, const struct stk_tally *t)
{
    const struct stk_runner_plan *plan = &r->plan;
    uint64_t ended = t->good + t->bad + t->lost;
    if (ended >= plan->runs_max || t->bad >= FAILURES_MAX || t->hopeless)
        return true;
    if (ended < plan->runs_min)
        return false;
    if (r->watch && r->watch->compare)
        return t->enough;
    /* One run has no interval, and no more were requested. */
    return plan->runs_min == plan->runs_max || t->half_width <= plan->precision;
}

void stk_tally_update(const struct stk_runner *r, struct stk_tally *t)
{
    size_t n = r->study.series[t->series].nruns + 1;
    double *v = calloc(2 * n, sizeof *v);
    if (v)
        gather(r, t, v, v + n);
    t->done = is_done(r, t);
    free(v);
}

void stk_tally_compare(const struct stk_runner *r)
{
    bool enough[STK_POINTS_MAX];
    if (!r->watch || !r->watch->compare)
        return;
    r->watch->compare(r->watch->user, r, enough);
    for (size_t i = 0; i < r->points.n; i++) {
        r->tally[i].enough = enough[i];
        r->tally[i].done = is_done(r, &r->tally[i]);
    }
}

uint64_t stk_tally_tries(const struct stk_tally *t)
{
    return t->good + t->bad + t->lost + t->waiting;
}

uint64_t stk_tally_next(const struct stk_tally *t)
{
    return stk_tally_tries(t) + t->past;
}

/* The order of a round: 0..n shuffled by seed and round. */
static void points_order(uint64_t seed, uint64_t round, size_t n, size_t *order)
{
    uint64_t state = seed * STK_GOLDEN64 + round;
    (void)stk_random_next(&state);
    for (size_t i = 0; i < n; i++)
        order[i] = i;
    for (size_t i = n; i > 1; i--) {
        size_t k = (size_t)(stk_random_unit(&state) * (double)i), swap = order[i - 1];
        order[i - 1] = order[k];
        order[k] = swap;
    }
}

/* The expected number of further runs of a point: intervals shrink with the root of their
 * number. */
static double runs_left(const struct stk_runner_plan *plan, const struct stk_tally *t)
{
    double have = (double)(t->good + t->bad + t->lost), want = (double)plan->runs_min;
    if (t->done)
        return 0;
    if (have >= want) {
        double ratio = isnan(t->half_width) ? 2 : t->half_width / plan->precision;
        want = fmax(have + 1, fmin(have * ratio * ratio, (double)plan->runs_max));
    }
    return want - have;
}

double stk_runner_now(const struct stk_runner *r)
{
    return r->plan.clock && !(r->plan.via->can & STK_VIA_QUEUES) ? r->passed_s : stk_now();
}

double stk_runner_spent_s(const struct stk_runner *r)
{
    return stk_runner_now(r) - r->start_s;
}

static double points_left_s(const struct stk_runner *r, uint64_t *planned)
{
    double known = 0, guess = NAN, left = 0, runs = 0;
    for (size_t i = 0; i < r->points.n; i++)
        if (!isnan(r->tally[i].wall_s)) {
            guess = (isnan(guess) ? 0 : guess) + r->tally[i].wall_s;
            known++;
        }
    guess /= known;
    for (size_t i = 0; i < r->points.n; i++) {
        double n = runs_left(&r->plan, &r->tally[i]);
        runs += n;
        left += n > 0 ? n * (isnan(r->tally[i].wall_s) ? guess : r->tally[i].wall_s) : 0;
    }
    *planned = r->state.done + (uint64_t)llround(runs);
    double budget = r->plan.budget_s > 0 ? r->plan.budget_s - stk_runner_spent_s(r) : INFINITY;
    if (isnan(left)) /* nothing has been measured yet */
        return isinf(budget) ? NAN : fmax(budget, 0);
    return fmin(left, fmax(budget, 0));
}

/* Whether the budget allows a run: the first one always. */
static bool points_affordable(const struct stk_runner *r, const struct stk_tally *t)
{
    double spent = stk_runner_spent_s(r);
    if (r->plan.budget_s <= 0)
        return true;
    /* A point that has not run yet takes at least as long as the fastest. */
    double run = isnan(t->wall_s) ? r->shortest_s : t->wall_s;
    return spent + run + r->around_s <= r->plan.budget_s;
}

int stk_runner_tick(struct stk_runner *r, const char *phase)
{
    r->state.phase = phase;
    r->state.left_s = points_left_s(r, &r->state.planned);
    stk_beacon_tick(&r->beacon, false);
    if (!r->watch || !r->watch->tick)
        return 0;
    return r->watch->tick(r->watch->user, &r->state);
}

uint64_t stk_runner_waiting(const struct stk_runner *r)
{
    uint64_t n = 0;
    for (size_t i = 0; i < r->points.n; i++)
        n += r->tally[i].waiting;
    return n;
}

static bool all_done(const struct stk_runner *r)
{
    for (size_t i = 0; i < r->points.n; i++)
        if (!r->tally[i].done)
            return false;
    return true;
}

/* Whether to give up: one whole round without a good run is enough. */
static bool hopeless(const struct stk_runner *r)
{
    for (size_t i = 0; i < r->points.n; i++)
        if (r->tally[i].good || r->tally[i].waiting || !stk_tally_tries(&r->tally[i]))
            return false;
    return true;
}

/* How many tries a point should have before waiting runs are collected. */
static uint64_t target(const struct stk_runner *r, const struct stk_tally *t)
{
    uint64_t tries = stk_tally_tries(t);
    if (t->done)
        return 0;
    if (tries < r->plan.runs_min)
        return r->plan.runs_min;
    return t->waiting ? 0 : tries + 1; /* not precise yet: one more at a time */
}

static bool queues(const struct stk_runner *r)
{
    return r->plan.via->can & STK_VIA_QUEUES;
}

static int start_round(struct stk_runner *r, uint64_t round, struct stk_err *err)
{
    size_t order[STK_POINTS_MAX];
    int rc = 0;
    points_order(r->plan.seed, round, r->points.n, order);
    for (size_t i = 0; i < r->points.n && !rc && !r->later; i++) {
        struct stk_tally *t = &r->tally[order[i]];
        uint64_t tries = stk_tally_tries(t);
        if (tries > round || tries >= target(r, t) ||
            (r->plan.at_once && stk_runner_waiting(r) >= r->plan.at_once))
            continue;
        /* Waiting in a queue costs no budget: pending jobs are cancelled when the time is up. */
        if (!queues(r) && !points_affordable(r, t)) {
            r->budget_spent = true;
            continue;
        }
        rc = r->plan.via->start(r, t, err);
    }
    return rc;
}

static int start_missing(struct stk_runner *r, struct stk_err *err)
{
    int rc = 0;
    bool vain = false;
    r->later = false;
    r->refused = (struct stk_err){0};
    for (uint64_t round = 0; round < r->plan.runs_max && !rc && !vain && !r->later; round++) {
        if (all_done(r) || r->budget_spent)
            break;
        rc = start_round(r, round, err);
        vain = hopeless(r) && (!queues(r) || r->refused.code);
    }
    if (!rc && vain && r->refused.code) { /* the same for every point */
        rc = r->refused.code;
        if (err)
            *err = r->refused;
    }
    return rc;
}

static bool over_budget(const struct stk_runner *r)
{
    return r->plan.budget_s > 0 && stk_runner_spent_s(r) > r->plan.budget_s;
}

static int wait_for_rest(struct stk_runner *r, struct stk_err *err)
{
    int rc = 0;
    while (!rc && stk_runner_waiting(r)) {
        bool changed = false;
        rc = r->plan.via->collect(r, &changed, err);
        if (!rc && over_budget(r)) {
            r->budget_spent = true;
            rc = r->plan.via->cancel(r, false, "still pending when the budget was spent", err);
        }
        if (!rc && (changed || r->later) && !r->budget_spent)
            rc = start_missing(r, err);
    }
    return rc;
}

int stk_runner_drive(struct stk_runner *r, struct stk_err *err)
{
    const struct stk_executor *via = r->plan.via;
    int rc = via->begin(r, err);
    rc = rc ? rc : start_missing(r, err);
    if (!rc && !r->plan.detach)
        rc = wait_for_rest(r, err);
    via->end(r);
    return rc;
}

int stk_runner_cancel(struct stk_runner *r, struct stk_err *err)
{
    const struct stk_executor *via = r->plan.via;
    return via->cancel && r->there ? via->cancel(r, true, "cancelled", err) : 0;
}
