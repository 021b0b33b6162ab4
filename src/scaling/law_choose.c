/*
 * law_choose.c - which law to use, and what it may predict: the simplest law that the data do not
 * contradict; no prediction from an untested law, none far outside the data.
 */
#include <math.h>
#include <stdio.h>

#include "scaling/law.h"

#define WIDEST 0.5 /* an interval wider than this share of the value is useless */

static void say(struct stk_laws *l, const char *text)
{
    snprintf(l->reason, sizeof l->reason, "%s", text);
}

/* The two-parameter law: Amdahl's for a fixed problem, the better of two for a growing one. */
static int choose_simple(struct stk_laws *l, bool weak)
{
    const struct stk_law_fit *a = &l->fit[STK_LAW_AMDAHL], *g = &l->fit[STK_LAW_GUSTAFSON];
    if (!weak || !g->ok)
        return a->ok ? STK_LAW_AMDAHL : -1;
    return a->ok && a->rms < g->rms ? STK_LAW_AMDAHL : STK_LAW_GUSTAFSON;
}

/* True when the data justify the third parameter: an F test of what it explains against the noise,
 * which accounts for how little four or five single runs can tell. */
static bool wants_usl(struct stk_laws *l, const struct stk_law_fit *simple)
{
    const struct stk_law_fit *u = &l->fit[STK_LAW_USL];
    if (!u->ok) {
        say(l, l->npoints < 4 ? "the Universal Scalability Law needs four different N"
                              : "the Universal Scalability Law could not be fitted");
        return false;
    }
    if (!(u->coherence > 0)) {
        say(l, "the data show no slowdown from coherence");
        return false;
    }
    double by = sqrt(fmax(simple->rss - u->rss, 0) / u->run_variance);
    bool wanted = by > stk_t95(u->dof);
    say(l, wanted ? "it fits better than two parameters do, by more than chance explains (F test)"
                  : "a third parameter does not fit better than chance explains (F test)");
    return wanted;
}

/* The USL contains Amdahl's law: where that was chosen, a little coherence is always possible. */
static int find_rival(const struct stk_laws *l)
{
    const struct stk_law_fit *u = &l->fit[STK_LAW_USL];
    return l->chosen != STK_LAW_USL && u->ok && u->rms <= STK_LAW_POOR ? STK_LAW_USL : -1;
}

/* From the smallest to the largest of both; b may be unknown. */
static struct stk_interval both(struct stk_interval a, struct stk_interval b)
{
    if (!stk_interval_known(a) || !stk_interval_known(b))
        return a;
    return (struct stk_interval){fmin(a.lo, b.lo), fmax(a.hi, b.hi)};
}

void stk_laws_fit(const struct stk_law_data *d, struct stk_laws *l)
{
    l->chosen = l->rival = -1;
    l->poor = l->has_peak = false;
    l->edge_miss = NAN;
    l->serial_ci = (struct stk_interval){NAN, NAN};
    l->npoints = d->npoints;
    l->n_max = d->npoints ? d->point[d->npoints - 1].n : NAN;
    l->reason[0] = '\0';
    for (int k = 0; k < STK_LAWS; k++)
        stk_law_fit(d, (enum stk_law_kind)k, &l->fit[k]);
    int simple = choose_simple(l, d->weak);
    if (simple < 0) {
        say(l, "a law needs times at two or more different N");
        return;
    }
    l->chosen = wants_usl(l, &l->fit[simple]) ? STK_LAW_USL : simple;
    if (d->npoints == 2)
        say(l, "two points fix a law but cannot test it");
    l->rival = find_rival(l);
    const struct stk_law_fit *f = &l->fit[l->chosen];
    l->serial_ci = f->serial_ci;
    if (l->rival >= 0 && l->fit[l->rival].coherence > 0) /* the data suggest it */
        l->serial_ci = both(l->serial_ci, l->fit[l->rival].serial_ci);
    l->poor = f->rms > STK_LAW_POOR;
    l->has_peak = !l->poor && f->peak_n <= 2 * l->n_max;
    l->edge_miss = fabs(log(stk_law_time(f, l->n_max) / d->point[d->npoints - 1].time_s));
}

/* ---- prediction --------------------------------------------------------------------------- */

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
    struct stk_interval ci = stk_middle95(v, k);
    double t = stk_law_time(f, n);
    ci.lo = t * pow(ci.lo / t, f->shared_width);
    ci.hi = t * pow(ci.hi / t, f->shared_width);
    return ci;
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
    if (n > l->n_max && l->npoints < 4)
        return "three N cannot show whether it slows down beyond them; measure a fourth";
    if (n > l->n_max && l->fit[l->rival >= 0 ? l->rival : l->chosen].dof < 2)
        return "so few single runs say too little about the noise to predict beyond them; repeat "
               "them";
    if (n > STK_LAW_FAR * l->n_max)
        return "it is more than four times the largest N measured";
    if (n > l->n_max && !(l->edge_miss <= STK_LAW_EDGE))
        return "the law misses the largest N measured by more than 5 %, so it cannot predict "
               "beyond it";
    return NULL;
}

bool stk_laws_reach_beyond(const struct stk_laws *l)
{
    return !why_not(l, nextafter(l->n_max, INFINITY));
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
    if (n > l->n_max) { /* the last point is the closest evidence */
        ci.lo *= exp(-l->edge_miss);
        ci.hi *= exp(l->edge_miss);
    }
    if (l->rival >= 0)
        ci = both(ci, time_interval(&l->fit[l->rival], n));
    if (isnan(t) || !stk_interval_known(ci)) {
        refuse(out, "the data do not determine its uncertainty");
        return;
    }
    if (ci.hi - ci.lo > WIDEST * t) {
        char text[sizeof out->why];
        snprintf(text, sizeof text,
                 "it could be anything from %.3g to %.3g s; more repeats, or an N closer to it, "
                 "would narrow that",
                 ci.lo, ci.hi);
        refuse(out, text);
        return;
    }
    out->time_s = t;
    out->time_ci = ci;
    snprintf(out->why, sizeof out->why, "by %s%s%s", stk_law_name((enum stk_law_kind)l->chosen),
             l->rival >= 0 ? "; the interval includes that of " : "",
             l->rival >= 0 ? stk_law_name((enum stk_law_kind)l->rival) : "");
}

bool stk_laws_known(const struct stk_laws *l)
{
    return l->chosen >= 0 && !l->poor && stk_interval_known(l->serial_ci) &&
           l->serial_ci.hi - l->serial_ci.lo <= STK_LAW_UNDECIDED;
}
