/*
 * judge.c - what the runs show: pairs of one round, whose ratio does not suffer from a machine that
 * gets slower meanwhile; and the ranking.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tune/priv.h"

#define NEARLY    0.95 /* of the best gain: not worth more effort */
#define CLOSE     0.85 /* the same, if the difference may be noise */

/* The value of the run of that number; NaN: none, or it failed. */
static double value_of(const struct stk_study_series *s, uint32_t repeat)
{
    double v = NAN;
    for (size_t i = 0; i < s->nruns; i++)
        if (s->run[i].repeat == repeat && s->run[i].status == STK_RUN_OK)
            v = s->run[i].value;
    return v;
}

size_t stk_tune_pairs(const struct stk_study_series *base, const struct stk_study_series *other,
                      double *log_ratio, size_t max)
{
    size_t pairs = 0;
    for (size_t i = 0; i < other->nruns && pairs < max; i++) {
        double a = value_of(base, other->run[i].repeat), b = other->run[i].value;
        if (other->run[i].status == STK_RUN_OK && a > 0 && b > 0)
            log_ratio[pairs++] = log(a / b);
    }
    return pairs;
}

enum stk_tune_verdict stk_tune_judge(const struct stk_verdict *v)
{
    return v->kind == STK_VERDICT_FASTER      ? STK_TUNE_GAIN
           : v->kind == STK_VERDICT_NOT_KNOWN ? STK_TUNE_UNCLEAR
                                              : STK_TUNE_NOTHING;
}

/* ---- the ranking ---------------------------------------------------------------------------- */

static unsigned effort_of(const struct stk_tune_candidate *c)
{
    unsigned sum = 0;
    for (size_t i = 0; i < c->nchanges; i++)
        sum += c->change[i].kind->effort;
    return sum;
}

/* Gains first, the largest before the others; then what was tried; then what was not. */
static double key_of(const struct stk_tune_candidate *c)
{
    double times = isnan(c->gain.times) ? 0 : fmin(c->gain.times, 1e6);
    return (c->verdict == STK_TUNE_GAIN ? 0 : 1e9 * (1 + (double)c->verdict)) - times;
}

static int by_rank(const void *a, const void *b)
{
    const struct stk_tune_candidate *x = a, *y = b;
    double kx = key_of(x), ky = key_of(y);
    if (kx != ky)
        return kx < ky ? -1 : 1;
    return strcmp(x->id, y->id);
}

/* Clearly faster, and not by less of something. */
static bool can_be_best(const struct stk_tune_candidate *c)
{
    for (size_t i = 0; i < c->nchanges; i++)
        if (c->change[i].kind->helps == STK_HELPS_COST)
            return false;
    return c->verdict == STK_TUNE_GAIN;
}

static bool nearly_best(const struct stk_tune_candidate *c, double most)
{
    const struct stk_verdict *r = &c->gain;
    return r->times >= NEARLY * most || (r->times >= CLOSE * most && r->ci.hi >= most);
}

/* Of those that gain nearly as much as the best, the one that takes least effort. */
static size_t choose(const struct stk_tune *t)
{
    size_t best = 0;
    double most = 1;
    for (size_t i = 1; i < t->n; i++)
        if (can_be_best(&t->candidate[i]))
            most = fmax(most, t->candidate[i].gain.times);
    for (size_t i = 1; i < t->n; i++) {
        const struct stk_tune_candidate *c = &t->candidate[i];
        if (can_be_best(c) && nearly_best(c, most) &&
            (!best || effort_of(c) < effort_of(&t->candidate[best])))
            best = i;
    }
    return best;
}

void stk_tune_rank(struct stk_tune *t)
{
    if (t->n > 1)
        qsort(t->candidate + 1, t->n - 1, sizeof *t->candidate, by_rank);
    t->best = choose(t);
}

int stk_tune_choose(struct stk_tune *t, const char *id, struct stk_err *err)
{
    struct stk_buf ids = STK_BUF_INIT;
    for (size_t i = 1; i < t->n && !t->chosen; i++) {
        stk_buf_printf(&ids, "%s%s", i > 1 ? ", " : "", t->candidate[i].id);
        if (strcmp(t->candidate[i].id, id) == 0) {
            t->best = i;
            t->chosen = true;
        }
    }
    int rc = t->chosen ? 0
                       : stk_err_set(err, STK_E_USAGE, NULL, -1,
                                     "\"%.60s\" is not a change that is possible here (%.300s)", id,
                                     ids.len ? stk_buf_cstr(&ids) : "there is none");
    stk_buf_release(&ids);
    return rc;
}
