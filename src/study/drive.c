/*
 * drive.c - takes a study from its present state to the end: rounds over all points, each
 * started by the executor until it is known precisely enough; collects what has ended and keeps
 * within the budget.
 */
#include <math.h>

#include "base/pool.h"
#include "study/priv.h"

int stk_runner_tick(struct stk_runner *r, const char *phase)
{
    r->state.phase = phase;
    r->state.left_s = stk_points_left_s(r, &r->state.planned);
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
    stk_points_order(r->plan.seed, round, r->points.n, order);
    for (size_t i = 0; i < r->points.n && !rc && !r->later; i++) {
        struct stk_tally *t = &r->tally[order[i]];
        uint64_t tries = stk_tally_tries(t);
        if (tries > round || tries >= target(r, t) ||
            (r->plan.at_once && stk_runner_waiting(r) >= r->plan.at_once))
            continue;
        /* Waiting in a queue costs no budget: pending jobs are cancelled when the time is up. */
        if (!queues(r) && !stk_points_affordable(r, t)) {
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
