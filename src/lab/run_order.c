/*
 * run_order.c - which run comes next: rounds of all N in random order, so that a machine that grows
 * warm or busy does not pass for scaling, until the intervals are narrow or the time is spent.
 */
#include <math.h>
#include <stdlib.h>

#include "base/pool.h"
#include "base/random.h"
#include "lab/run_priv.h"
#include "lab/stats.h"

#define FAILURES_MAX 2 /* an N that fails so often is not tried again */

/* Half of the width of the interval of what is compared, relative. Few runs: Student's, because the
 * range of three says little; more: that of the median, as in the table. */
static double half_width(const struct stk_summary *s)
{
    struct stk_interval i = s->n < 6 ? s->mean_ci : s->median_ci;
    return stk_interval_known(i) && s->median > 0 ? (i.hi - i.lo) / 2 / s->median : NAN;
}

static void gather(const struct stk_runs *r, struct stk_point *p, double *cost, double *wall)
{
    const struct stk_study_series *s = &r->study.series[r->series];
    struct stk_summary sum;
    p->good = p->bad = 0;
    p->hopeless = false;
    for (size_t i = 0; i < s->nruns; i++) {
        const struct stk_study_run *run = &s->run[i];
        if (run->n != p->n)
            continue;
        if (run->status == STK_RUN_OK) {
            cost[p->good] = stk_study_cost(&r->study, run);
            wall[p->good++] = isnan(run->wall_s) ? 0 : run->wall_s;
        } else {
            p->bad++;
            /* Once more would take as long, or never begin either. */
            p->hopeless =
                p->hopeless || run->status == STK_RUN_TIMEOUT || run->status == STK_RUN_PENDING;
        }
    }
    p->half_width = p->good > 1 && stk_summarise(cost, p->good, &sum) ? half_width(&sum) : NAN;
    p->wall_s = p->good ? stk_median(wall, p->good) : NAN;
}

static bool is_done(const struct stk_runs_plan *plan, const struct stk_point *p)
{
    if (p->good + p->bad >= plan->runs_max || p->bad >= FAILURES_MAX || p->hopeless)
        return true;
    if (p->good + p->bad < plan->runs_min)
        return false;
    /* One run has no interval: more were not asked for. */
    return plan->runs_min == plan->runs_max || p->half_width <= plan->precision;
}

void stk_points_update(struct stk_runs *r)
{
    size_t n = r->study.series[r->series].nruns + 1;
    double *v = calloc(2 * n, sizeof *v);
    for (size_t i = 0; i < r->plan.nn; i++) {
        struct stk_point *p = &r->point[i];
        p->n = r->plan.n[i];
        if (v)
            gather(r, p, v, v + n);
        p->done = is_done(&r->plan, p);
    }
    free(v);
}

void stk_points_order(const struct stk_runs_plan *p, uint64_t round, size_t *order)
{
    uint64_t state = p->seed * STK_GOLDEN64 + round;
    (void)stk_random_next(&state);
    for (size_t i = 0; i < p->nn; i++)
        order[i] = i;
    for (size_t i = p->nn; i > 1; i--) {
        size_t k = (size_t)(stk_random_unit(&state) * (double)i), swap = order[i - 1];
        order[i - 1] = order[k];
        order[k] = swap;
    }
}

/* How many more runs of an N are to be expected: intervals shrink with the root of their number. */
static double runs_left(const struct stk_runs_plan *plan, const struct stk_point *p)
{
    double have = (double)(p->good + p->bad), want = (double)plan->runs_min;
    if (p->done)
        return 0;
    if (have >= want) {
        double ratio = isnan(p->half_width) ? 2 : p->half_width / plan->precision;
        want = fmax(have + 1, fmin(have * ratio * ratio, (double)plan->runs_max));
    }
    return want - have;
}

double stk_points_left_s(const struct stk_runs *r, uint64_t *planned)
{
    double known = 0, guess = NAN, left = 0, runs = 0;
    for (size_t i = 0; i < r->plan.nn; i++)
        if (!isnan(r->point[i].wall_s)) {
            guess = (isnan(guess) ? 0 : guess) + r->point[i].wall_s;
            known++;
        }
    guess /= known;
    for (size_t i = 0; i < r->plan.nn; i++) {
        double n = runs_left(&r->plan, &r->point[i]);
        runs += n;
        left += n > 0 ? n * (isnan(r->point[i].wall_s) ? guess : r->point[i].wall_s) : 0;
    }
    *planned = r->state.done + (uint64_t)llround(runs);
    double budget = r->plan.budget_s > 0 ? r->plan.budget_s - (stk_now() - r->start_s) : INFINITY;
    if (isnan(left)) /* nothing has been measured yet */
        return isinf(budget) ? NAN : fmax(budget, 0);
    return fmin(left, fmax(budget, 0));
}

bool stk_points_affordable(const struct stk_runs *r, const struct stk_point *p)
{
    double spent = stk_now() - r->start_s;
    if (r->plan.budget_s <= 0)
        return true;
    /* An N that was not run yet takes at least what the quickest did. */
    double run = isnan(p->wall_s) ? r->shortest_s : p->wall_s;
    return spent + run + r->around_s <= r->plan.budget_s;
}
