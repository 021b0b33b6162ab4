/*
 * law_choose.c - which law to go by, and what it may be asked: the simplest one the data do not
 * contradict, no prediction from a law that was not tested, none far outside the data.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "lab/law.h"

#define AICC_CLEARLY 2   /* the usual reading: less is no difference */
#define AICC_RIVAL   6   /* a law this near is not ruled out */
#define LOO_CLEARLY  0.5 /* without repeats: half the error of prediction */
#define WIDEST       0.5 /* an interval wider than this part of the value says nothing */

static void say(struct stk_laws *l, const char *text)
{
    snprintf(l->reason, sizeof l->reason, "%s", text);
}

/* The two-parameter law: Amdahl's for a fixed problem; for a growing one the better of two. */
static int choose_simple(struct stk_laws *l, bool weak)
{
    const struct stk_law_fit *a = &l->fit[STK_LAW_AMDAHL], *g = &l->fit[STK_LAW_GUSTAFSON];
    if (!weak || !g->ok)
        return a->ok ? STK_LAW_AMDAHL : -1;
    return a->ok && a->rms < g->rms ? STK_LAW_AMDAHL : STK_LAW_GUSTAFSON;
}

/* True when the data call for the third parameter. */
static bool wants_usl(struct stk_laws *l, const struct stk_law_fit *simple)
{
    const struct stk_law_fit *u = &l->fit[STK_LAW_USL];
    bool predicts = l->npoints >= 5;
    if (!u->ok) {
        say(l, l->npoints < 4 ? "the Universal Scalability Law needs four different N"
                              : "the Universal Scalability Law could not be fitted");
        return false;
    }
    if (!(u->coherence > 0)) {
        say(l, "the data show no slowing down by coherence");
        return false;
    }
    if (isnan(u->aicc)) {
        bool better = predicts && u->loo_smape < LOO_CLEARLY * simple->loo_smape;
        say(l, better     ? "it predicts each point from the others at least twice as well"
               : predicts ? "a third parameter does not predict left-out points much better"
                          : "so few single runs cannot carry a third parameter");
        return better;
    }
    if (!(u->aicc < simple->aicc - AICC_CLEARLY)) {
        say(l, "a third parameter does not pay for itself (AICc)");
        return false;
    }
    if (predicts && !(u->loo_smape < simple->loo_smape)) {
        say(l, "a third parameter fits better but predicts left-out points worse");
        return false;
    }
    say(l, "it fits clearly better than two parameters do (AICc, leave-one-out)");
    return true;
}

static int find_rival(const struct stk_laws *l, int simple)
{
    int other = l->chosen == STK_LAW_USL ? simple : STK_LAW_USL;
    const struct stk_law_fit *c = &l->fit[l->chosen], *o = &l->fit[other];
    if (other == l->chosen || !o->ok || o->rms > STK_LAW_POOR)
        return -1;
    if (other == STK_LAW_USL && !(o->coherence > 0))
        return -1;
    bool near = isnan(o->aicc) || isnan(c->aicc) ? o->loo_smape < 2 * c->loo_smape
                                                 : o->aicc < c->aicc + AICC_RIVAL;
    return near ? other : -1;
}

void stk_laws_fit(const struct stk_law_data *d, struct stk_laws *l)
{
    l->chosen = l->rival = -1;
    l->poor = l->has_peak = false;
    l->edge_miss = NAN;
    l->npoints = d->npoints;
    l->n_min = d->npoints ? d->point[0].n : NAN;
    l->n_max = d->npoints ? d->point[d->npoints - 1].n : NAN;
    l->reason[0] = '\0';
    for (int k = 0; k < STK_LAWS; k++)
        stk_law_fit(d, (enum stk_law_kind)k, &l->fit[k]);
    int simple = choose_simple(l, d->weak);
    if (simple < 0) {
        say(l, "a law needs times at two different N at least");
        return;
    }
    l->chosen = wants_usl(l, &l->fit[simple]) ? STK_LAW_USL : simple;
    if (d->npoints == 2)
        say(l, "two points fix a law but cannot test it");
    l->rival = find_rival(l, simple);
    const struct stk_law_fit *f = &l->fit[l->chosen];
    l->poor = f->rms > STK_LAW_POOR;
    l->has_peak = !l->poor && f->peak_n <= 2 * l->n_max;
    l->edge_miss = fabs(log(stk_law_time(f, l->n_max) / d->point[d->npoints - 1].time_s));
}

/* ---- prediction --------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static struct stk_interval time_interval(const struct stk_law_fit *f, double n)
{
    double v[STK_LAW_REPLICATES];
    size_t k = 0;
    for (size_t i = 0; i < f->nboot; i++) {
        v[k] = stk_law_time_of(f->kind, f->weak, f->boot[i], n);
        k += isnan(v[k]) ? 0 : 1;
    }
    if (k < STK_LAW_REPLICATES / 2)
        return (struct stk_interval){NAN, NAN};
    qsort(v, k, sizeof *v, by_value);
    return (struct stk_interval){stk_quantile_sorted(v, k, 0.025),
                                 stk_quantile_sorted(v, k, 0.975)};
}

static const char *why_not(const struct stk_laws *l, double n)
{
    if (!(n >= 1) || !isfinite(n))
        return "N must be 1 or more";
    if (l->npoints < 3)
        return "two points or fewer fix a law but cannot test it; measure a third N";
    if (l->chosen < 0)
        return "no law could be fitted";
    if (l->poor)
        return "no law fits the points: the best one misses them by more than 15 %";
    if (n > STK_LAW_FAR * l->n_max)
        return "it is more than four times the largest N measured";
    if (n > l->n_max && !(l->edge_miss <= STK_LAW_EDGE))
        return "the law misses the largest N measured by more than 5 %, so it cannot go beyond it";
    return NULL;
}

static void refuse(struct stk_prediction *out, const char *why)
{
    out->refused = true;
    snprintf(out->why, sizeof out->why, "%s", why);
}

void stk_laws_predict(const struct stk_laws *l, double n, struct stk_prediction *out)
{
    *out = (struct stk_prediction){.n = n, .time_s = NAN, .time_ci = {NAN, NAN}};
    const char *why = why_not(l, n);
    if (why) {
        refuse(out, why);
        return;
    }
    const struct stk_law_fit *f = &l->fit[l->chosen];
    double t = stk_law_time(f, n);
    struct stk_interval ci = time_interval(f, n);
    if (n > l->n_max) { /* the last point is the nearest witness of what comes */
        ci.lo *= exp(-l->edge_miss);
        ci.hi *= exp(l->edge_miss);
    }
    if (l->rival >= 0 && stk_interval_known(ci)) {
        double other = stk_law_time(&l->fit[l->rival], n);
        ci.lo = fmin(ci.lo, other);
        ci.hi = fmax(ci.hi, other);
    }
    if (isnan(t) || !stk_interval_known(ci)) {
        refuse(out, "the data give no idea of its uncertainty");
        return;
    }
    if (ci.hi - ci.lo > WIDEST * t) {
        char text[sizeof out->why];
        snprintf(text, sizeof text,
                 "it could be anything from %.3g to %.3g s; more repeats, or an N nearer to it, "
                 "would narrow that",
                 ci.lo, ci.hi);
        refuse(out, text);
        return;
    }
    out->time_s = t;
    out->time_ci = ci;
    snprintf(out->why, sizeof out->why, "by %s%s%s", stk_law_name((enum stk_law_kind)l->chosen),
             l->rival >= 0 ? "; the interval reaches to the answer of " : "",
             l->rival >= 0 ? stk_law_name((enum stk_law_kind)l->rival) : "");
}
