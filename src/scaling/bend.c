/*
 * bend.c - fits the two laws of bend.h to medians by least squares of log(t). For a given B or f
 * the best T1 is a mean, so a fit is a search along one line; intervals come from refits of noisy
 * copies.
 */
#include "scaling/bend.h"

#include <math.h>
#include <stdlib.h>

#define STEPS    256  /* of the search; a second, finer one follows around the best */
#define SHARE_LO 1e-3 /* f: less is flat */
#define SHARE_HI 10.0 /* f: ten jobs of which each makes the others start anew */
#define REFITS   400

struct curve {
    size_t n;
    const struct stk_law_point *point;
    double *log_t, *weight;
    enum stk_bend_kind kind;
};

struct fit {
    double theta; /* log B, or log f */
    double log_t1, squares;
};

const char *stk_bend_id(enum stk_bend_kind kind)
{
    static const char *const ids[] = {"unknown", "flat", "limit", "contention"};
    return ids[kind];
}

/* log(t / T1) */
static double rise(enum stk_bend_kind kind, double theta, double n)
{
    return kind == STK_BEND_LIMIT ? fmax(0, log(n) - theta) : log1p(exp(theta) * (n - 1));
}

static struct fit fit_at(const struct curve *c, double theta)
{
    struct fit f = {.theta = theta};
    double sum = 0, weights = 0;
    for (size_t i = 0; i < c->n; i++) {
        sum += c->weight[i] * (c->log_t[i] - rise(c->kind, theta, c->point[i].n));
        weights += c->weight[i];
    }
    f.log_t1 = sum / weights;
    for (size_t i = 0; i < c->n; i++) {
        double off = c->log_t[i] - f.log_t1 - rise(c->kind, theta, c->point[i].n);
        f.squares += c->weight[i] * off * off;
    }
    return f;
}

static struct fit search(const struct curve *c, double from, double to)
{
    struct fit best = fit_at(c, from);
    for (int i = 1; i <= STEPS; i++) {
        struct fit f = fit_at(c, from + (to - from) * i / STEPS);
        best = f.squares < best.squares ? f : best;
    }
    return best;
}

static struct fit fit_curve(const struct curve *c)
{
    bool limit = c->kind == STK_BEND_LIMIT;
    double from = limit ? log(c->point[0].n) : log(SHARE_LO);
    double to = limit ? log(c->point[c->n - 1].n) : log(SHARE_HI);
    double step = (to - from) / STEPS;
    struct fit rough = search(c, from, to);
    return search(c, fmax(from, rough.theta - step), fmin(to, rough.theta + step));
}

/* ---- flat up to ---------------------------------------------------------------------------- */

static struct stk_verdict against_first(const struct stk_law_data *d, size_t i)
{
    const struct stk_law_point *p = d->point;
    struct stk_noise room[2];
    const struct stk_timed a = {p[i].time_s, (size_t)p[i].runs,
                                stk_noise_of(&d->noise, p[i].own, &room[0]), 0},
                           b = {p[0].time_s, (size_t)p[0].runs,
                                stk_noise_of(&d->noise, p[0].own, &room[1]), 0};
    return stk_verdict_of(&a, &b, STK_BEND_WITHIN, d->npoints - 1);
}

static void find_flat(const struct stk_law_data *d, struct stk_bend *out)
{
    out->flat_to = (uint64_t)d->point[0].n;
    for (size_t i = 1; i < d->npoints; i++) {
        struct stk_verdict v = against_first(d, i);
        bool longer = stk_interval_known(v.ci) && v.ci.hi < 1;
        if (longer && v.times < 1 / (1 + STK_BEND_TOLERANCE)) {
            out->rises_at = (uint64_t)d->point[i].n;
            return;
        }
        if (out->unclear_at)
            continue;
        if (v.kind == STK_VERDICT_SAME || v.kind == STK_VERDICT_FASTER) {
            out->flat_to = (uint64_t)d->point[i].n;
            out->flat_within = fmax(out->flat_within, 1 / v.ci.lo - 1);
        } else {
            out->unclear_at = (uint64_t)d->point[i].n;
            out->unclear = v;
        }
    }
}

/* ---- intervals ----------------------------------------------------------------------------- */

/* The standard deviation of one run: of the repeats, or of the residuals if the law misses by more.
 * NaN: neither is known. */
static double one_run_sd(const struct stk_law_data *d, const struct fit *f)
{
    double repeats = d->noise.relative_sd, spare = (double)d->npoints - 2;
    double residual = spare > 0 ? sqrt(f->squares / spare) : NAN;
    return fmax(repeats, residual); /* a NaN gives the other */
}

static struct stk_interval interval_of(const struct stk_law_data *d, const struct curve *c,
                                       const struct fit *f)
{
    struct stk_interval none = {NAN, NAN};
    double sd = one_run_sd(d, f), *theta = calloc(REFITS, sizeof *theta);
    double *noisy = calloc(c->n, sizeof *noisy);
    struct curve copy = *c;
    uint64_t state = d->seed;
    copy.log_t = noisy;
    for (int k = 0; k < REFITS && theta && noisy && isfinite(sd); k++) {
        for (size_t i = 0; i < c->n; i++)
            noisy[i] = f->log_t1 + rise(c->kind, f->theta, c->point[i].n) +
                       sd / sqrt(c->weight[i]) * stk_random_normal(&state);
        theta[k] = exp(fit_curve(&copy).theta);
    }
    if (theta && noisy && isfinite(sd)) {
        qsort(theta, REFITS, sizeof *theta, stk_by_f64);
        none = stk_middle95(theta, REFITS);
    }
    free(theta);
    free(noisy);
    return none;
}

/* ---- the law ------------------------------------------------------------------------------- */

static void fit_laws(const struct stk_law_data *d, struct curve *c, struct stk_bend *out)
{
    struct fit f[STK_BEND_KINDS];
    for (c->kind = STK_BEND_LIMIT; c->kind <= STK_BEND_CONTENTION; c->kind++)
        f[c->kind] = fit_curve(c);
    /* The limit, unless the other law is clearly closer: with few points both fit. */
    bool contended = f[STK_BEND_CONTENTION].squares < 0.5 * f[STK_BEND_LIMIT].squares;
    c->kind = contended ? STK_BEND_CONTENTION : STK_BEND_LIMIT;
    const struct fit *best = &f[c->kind];
    double worth = 0;
    for (size_t i = 0; i < c->n; i++)
        worth += c->weight[i];
    out->kind = c->kind;
    out->t1_s = exp(best->log_t1);
    out->at = contended ? NAN : exp(best->theta);
    out->share = contended ? exp(best->theta) : NAN;
    out->rms = sqrt(best->squares / worth);
    out->poor = out->rms > STK_LAW_POOR;
    out->ci = interval_of(d, c, best);
}

static void set_flat(const struct curve *c, struct stk_bend *out)
{
    struct curve flat = *c;
    flat.kind = STK_BEND_LIMIT;
    out->kind = STK_BEND_FLAT;
    out->t1_s = exp(fit_at(&flat, log(c->point[c->n - 1].n)).log_t1);
}

void stk_bend_fit(const struct stk_law_data *d, struct stk_bend *out)
{
    *out = (struct stk_bend){.t1_s = NAN, .at = NAN, .share = NAN, .ci = {NAN, NAN}, .rms = NAN};
    if (d->npoints < 2)
        return;
    struct curve c = {.n = d->npoints,
                      .point = d->point,
                      .log_t = calloc(d->npoints, sizeof *c.log_t),
                      .weight = calloc(d->npoints, sizeof *c.weight)};
    if (c.log_t && c.weight) {
        for (size_t i = 0; i < c.n; i++) {
            c.log_t[i] = log(d->point[i].time_s);
            c.weight[i] = stk_median_worth(d->point[i].runs);
        }
        find_flat(d, out);
        if (out->rises_at && !out->unclear_at && c.n >= STK_BEND_POINTS)
            fit_laws(d, &c, out);
        else if (!out->rises_at && !out->unclear_at)
            set_flat(&c, out);
    }
    free(c.log_t);
    free(c.weight);
}

double stk_bend_time(const struct stk_bend *b, double n)
{
    switch (b->kind) {
    case STK_BEND_FLAT:
        return b->t1_s;
    case STK_BEND_LIMIT:
        return b->t1_s * fmax(1, n / b->at);
    case STK_BEND_CONTENTION:
        return b->t1_s * (1 + b->share * (n - 1));
    default:
        return NAN;
    }
}
