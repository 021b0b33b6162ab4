/* verdict.c - see verdict.h. Student's interval of a logarithm of a ratio, and its words. */
#include "base/verdict.h"

#include <math.h>
#include <stdio.h>

#define MORE_MAX 1000 /* runs: nobody makes as many */
#define BLIND    100  /* a factor that would not have been seen: nothing can be */
#define ERROR    0.05 /* of an interval, both sides together: one in forty on each */

/* What the runs of two things show of log(time of b / time of a). */
struct shown {
    double log_times, sd, dof;
    double rounding; /* of both: no number of runs makes it smaller */
    size_t runs;
};

/* Half of the interval of log(ratio) after more runs of both. */
static double half_after(const struct shown *s, size_t more, double error)
{
    double n = (double)s->runs;
    return stk_t_of(s->dof + (double)more, error) * s->sd * sqrt(n / (n + (double)more)) +
           s->rounding;
}

/* The fewest more runs with which the difference, if it is as measured, is either clear or too small
 * to matter. */
static size_t runs_needed(const struct shown *s, double within, double error)
{
    double off = fabs(s->log_times), want = fmax(off, log1p(within) - off);
    size_t few = 0, enough = MORE_MAX + 1;
    while (few + 1 < enough) {
        size_t more = (few + enough) / 2;
        *(half_after(s, more, error) <= want ? &enough : &few) = more;
    }
    return enough <= MORE_MAX ? enough : 0;
}

/* least: a gain up to this is none. alike: a difference up to this changes no decision. */
static enum stk_verdict_kind kind_of(struct stk_interval ci, double least, double alike)
{
    return ci.hi <= 1 + alike && ci.lo >= 1 / (1 + alike) ? STK_VERDICT_SAME
           : ci.lo > 1 + least                            ? STK_VERDICT_FASTER
           : ci.hi < 1                                    ? STK_VERDICT_SLOWER
           : ci.hi < 1 + least                            ? STK_VERDICT_NO_FASTER
                                                          : STK_VERDICT_NOT_KNOWN;
}

static struct stk_verdict decide(const struct shown *s, double within, size_t among)
{
    double error = ERROR / (double)(among ? among : 1), half = half_after(s, 0, error);
    double log_times = s->log_times;
    struct stk_verdict v = {.times = exp(log_times), .ci = {NAN, NAN}, .runs = s->runs};
    if (!isfinite(half) || !isfinite(log_times))
        return v;
    v.ci = (struct stk_interval){exp(log_times - half), exp(log_times + half)};
    v.coarse = s->rounding > half / 2;
    v.kind = kind_of(v.ci, 0, within);
    if (v.kind == STK_VERDICT_NOT_KNOWN)
        v.more = runs_needed(s, within, error);
    return v;
}

static double variance_of(const struct stk_timed *t)
{
    return t->noise->relative_sd * t->noise->relative_sd / stk_median_worth((double)t->runs);
}

struct stk_verdict stk_verdict_of(const struct stk_timed *a, const struct stk_timed *b,
                                  double within, size_t among)
{
    double va = variance_of(a), vb = variance_of(b), dof = a->noise->dof;
    if (a->noise != b->noise && va + vb > 0) /* each has its own: Welch */
        dof = (va + vb) * (va + vb) / (va * va / a->noise->dof + vb * vb / b->noise->dof);
    if (!(a->noise->dof >= 1) || !(b->noise->dof >= 1))
        dof = NAN;
    const struct shown s = {.log_times = log(b->median / a->median),
                            .sd = sqrt(va + vb),
                            .dof = dof,
                            .rounding = -log1p(-a->step / 2) - log1p(-b->step / 2),
                            .runs = a->runs < b->runs ? a->runs : b->runs};
    return decide(&s, within, among);
}

struct stk_verdict stk_verdict_of_single(double a_s, double b_s)
{
    return (struct stk_verdict){
        .times = a_s > 0 && b_s > 0 ? b_s / a_s : NAN, .ci = {NAN, NAN}, .runs = 1};
}

/* Their mean, and its standard deviation by Student. */
static struct shown mean_of(const double *v, size_t n)
{
    struct shown s = {.dof = (double)n - 1, .runs = n};
    double squares = 0;
    for (size_t i = 0; i < n; i++)
        s.log_times += v[i] / (double)n;
    for (size_t i = 0; i < n; i++)
        squares += (v[i] - s.log_times) * (v[i] - s.log_times);
    s.sd = sqrt(squares / s.dof / (double)n);
    return s;
}

struct stk_verdict stk_verdict_of_pairs(const double *log_ratio, size_t n, double within)
{
    const struct shown s = mean_of(log_ratio, n);
    return n ? decide(&s, within, 1) : (struct stk_verdict){.times = NAN, .ci = {NAN, NAN}};
}

/* ---- candidates that are looked at while they run ------------------------------------------- */

/* Few looks and small first shares: the last one sees a gain of 10 % nearly as well as if it were the
 * only one, and a gain of 2x is seen by the first three. */
static const struct {
    size_t pairs;
    double share; /* of the error */
} look[] = {{STK_LOOKS_FIRST, 0.1}, {4, 0.1},  {5, 0.1},
            {7, 0.15},              {12, 0.2}, {STK_LOOKS_LAST, 0.35}};
#define LOOKS (sizeof look / sizeof *look)

/* Student's quantiles of each look: of the side on which a gain is claimed, and of the other. */
struct quantiles {
    double gain[LOOKS], none[LOOKS];
};

static void set_quantiles(double *out, double error)
{
    for (size_t k = 0; k < LOOKS; k++)
        out[k] = stk_t_of((double)look[k].pairs - 1, error * look[k].share);
}

/* How many more pairs make the interval narrow enough, if the ratio stays as far off as it is. */
static size_t pairs_needed(const struct shown *s, double off, const struct quantiles *q)
{
    for (size_t k = 0; k < LOOKS; k++) {
        double sd = s->sd * sqrt((double)s->runs / (double)look[k].pairs);
        if (look[k].pairs > s->runs && (off > 0 ? q->gain[k] : q->none[k]) * sd < fabs(off))
            return look[k].pairs - s->runs;
    }
    return 0;
}

static struct stk_verdict at_looks(const struct stk_trial *t, const struct quantiles *q,
                                   double least)
{
    struct stk_verdict v = {.times = NAN, .ci = {NAN, NAN}};
    if (t->n && t->n < look[0].pairs) /* nothing is known, but a ratio was measured */
        v = (struct stk_verdict){
            .times = exp(mean_of(t->log_ratio, t->n).log_times),
            .ci = {NAN, NAN},
            .runs = t->n,
            .more = look[0].pairs - t->n};
    for (size_t k = 0; k < LOOKS && look[k].pairs <= t->n && v.kind == STK_VERDICT_NOT_KNOWN; k++) {
        const struct shown s = mean_of(t->log_ratio, look[k].pairs);
        v = (struct stk_verdict){.times = exp(s.log_times),
                                 .ci = {exp(s.log_times - q->gain[k] * s.sd),
                                        exp(s.log_times + q->none[k] * s.sd)},
                                 .runs = s.runs};
        v.kind = kind_of(v.ci, least, least);
        if (v.kind == STK_VERDICT_NOT_KNOWN)
            v.more = pairs_needed(&s, s.log_times - log1p(least), q);
    }
    return v;
}

void stk_verdict_of_trials(struct stk_trial *trial, size_t n, double least)
{
    struct quantiles q;
    size_t faster = 0, before;
    set_quantiles(q.none, ERROR);
    for (size_t i = 0; i < n; i++)
        trial[i].verdict.kind = STK_VERDICT_NOT_KNOWN;
    do { /* Holm: those that are faster leave their part of the error to the rest */
        before = faster;
        set_quantiles(q.gain, ERROR / (double)(n - before));
        for (size_t i = 0; i < n; i++) {
            if (trial[i].verdict.kind == STK_VERDICT_FASTER)
                continue;
            trial[i].verdict = at_looks(&trial[i], &q, least);
            faster += trial[i].verdict.kind == STK_VERDICT_FASTER;
        }
    } while (faster > before && faster < n);
}

const char *stk_verdict_promise(double least, char *buf, size_t size)
{
    snprintf(buf, size, "At most one study in forty calls a change faster that gains less than %.3g %%",
             100 * least);
    return buf;
}

double stk_verdict_slack(const struct stk_verdict *v)
{
    return log(v->ci.hi / v->ci.lo) / 2;
}

/* ---- words ---------------------------------------------------------------------------------- */

const char *stk_verdict_id(enum stk_verdict_kind kind)
{
    static const char *const ids[] = {"not-known", "faster", "slower", "same", "no-faster"};
    return ids[kind];
}

/* Rounded up: the promise is "within". */
static double percent_of(double times)
{
    return fmax(1, ceil(100 * (times - 1) - 1e-6));
}

/* How far the interval reaches from 1, to either side. */
static double reach_of(const struct stk_verdict *v)
{
    return fmax(v->ci.hi, 1 / v->ci.lo);
}

const char *stk_verdict_word(const struct stk_verdict *v, char *buf, size_t size)
{
    static const char *const words[] = {"not known", "faster", "slower", "same", "no faster"};
    int n = snprintf(buf, size, "%s", words[v->kind]);
    if (v->kind == STK_VERDICT_SAME && n > 0 && (size_t)n < size)
        snprintf(buf + n, size - (size_t)n, " within %.0f %%",
                 percent_of(reach_of(v)));
    return buf;
}

/* "a difference up to 40 % would not have been seen": the runs do not exclude it. */
static void unseen_text(const struct stk_verdict *v, char *buf, size_t size)
{
    double unseen = reach_of(v);
    const char *rounded = v->coarse ? ", for the times are rounded" : "";
    if (!stk_interval_known(v->ci))
        snprintf(buf, size, "%s", v->runs > 1 ? "the noise of the runs is not known"
                                              : "one run of each does not show the noise");
    else if (!(unseen < BLIND))
        snprintf(buf, size, "%zu runs of each show no difference of any size", v->runs);
    else if (unseen < 2)
        snprintf(buf, size, "a difference up to %.0f %% would not have been seen%s",
                 percent_of(unseen), rounded);
    else
        snprintf(buf, size, "a difference up to %.2gx would not have been seen%s", unseen, rounded);
}

const char *stk_verdict_text(const struct stk_verdict *v, char *buf, size_t size)
{
    char word[40], unseen[96], more[96] = "";
    stk_verdict_word(v, word, sizeof word);
    if (v->kind == STK_VERDICT_SAME)
        snprintf(buf, size, "%s", word);
    else if (v->kind != STK_VERDICT_NOT_KNOWN)
        snprintf(buf, size, "%s, %.3gx (95 %%: %.3gx to %.3gx)", word, v->times, v->ci.lo,
                 v->ci.hi);
    else if (isnan(v->times))
        snprintf(buf, size, "%s: nothing was measured", word);
    else {
        unseen_text(v, unseen, sizeof unseen);
        if (!stk_interval_known(v->ci))
            snprintf(more, sizeof more, "; %zu more of each would show it", v->more ? v->more : 2);
        else if (v->more)
            snprintf(more, sizeof more, "; %zu more run%s of each would show it if %.3gx is right",
                     v->more, v->more == 1 ? "" : "s", v->times);
        snprintf(buf, size, "%s (%.3gx measured): %s%s", word, v->times, unseen, more);
    }
    return buf;
}
