/*
 * law.c - fits one law to one curve: weighted non-negative least squares with two or three columns,
 * by trying every subset of them; then intervals, by refitting noisy copies of the curve.
 */
#include "scaling/law.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <stdio.h>

#define GAUSS_NEWTON_STEPS 100
#define FLOOR_SINGLE       1e-3 /* no machine repeats a run better: a lucky fit is not exact */
#define FLOOR              1e-6 /* the clock */
#define POOLED             1.5  /* times that noise: a larger residual counts alone */
#define SHARED_T_MAX       2.8  /* with one or two spare points nothing would be predicted */

const char *stk_law_name(enum stk_law_kind kind)
{
    static const char *const names[] = {"Amdahl's law", "Gustafson's law",
                                        "the Universal Scalability Law"};
    return names[kind];
}

const char *stk_law_id(enum stk_law_kind kind)
{
    static const char *const ids[] = {"amdahl", "gustafson", "usl"};
    return ids[kind];
}

/* ---- least squares ------------------------------------------------------------------------ */

/* Gustafson's law is linear in 1/t, the others in t. */
static bool in_rate(enum stk_law_kind kind)
{
    return kind == STK_LAW_GUSTAFSON;
}

static unsigned columns_of(enum stk_law_kind kind)
{
    return kind == STK_LAW_USL ? 3 : 2;
}

static void design_row(enum stk_law_kind kind, bool weak, double n, double x[3])
{
    x[2] = 0;
    if (kind == STK_LAW_GUSTAFSON) {
        x[0] = 1;
        x[1] = weak ? 1 / n : n;
    } else if (weak) {
        x[0] = 1;
        x[1] = n - 1;
        x[2] = n * (n - 1);
    } else {
        x[0] = 1 / n;
        x[1] = 1;
        x[2] = n - 1;
    }
}

/* Normal equations with columns scaled to length 1. */
struct gram {
    double a[3][3], b[3], scale[3], yy;
    unsigned p;
};

struct row {
    double x[3], y, w; /* w: square root of the weight */
};

static void gram_of(const struct row *row, size_t n, size_t skip, unsigned p, struct gram *g)
{
    *g = (struct gram){.p = p};
    for (size_t i = 0; i < n; i++) {
        if (i == skip)
            continue;
        double y = row[i].y * row[i].w;
        g->yy += y * y;
        for (unsigned j = 0; j < p; j++) {
            double xj = row[i].x[j] * row[i].w;
            g->b[j] += xj * y;
            for (unsigned k = 0; k < p; k++)
                g->a[j][k] += xj * row[i].x[k] * row[i].w;
        }
    }
    for (unsigned j = 0; j < p; j++)
        g->scale[j] = g->a[j][j] > 0 ? 1 / sqrt(g->a[j][j]) : 0;
    for (unsigned j = 0; j < p; j++) {
        g->b[j] *= g->scale[j];
        for (unsigned k = 0; k < p; k++)
            g->a[j][k] *= g->scale[j] * g->scale[k];
    }
}

/* Solves for the columns in `set` by Cholesky; false when they depend on each other. */
static bool solve_subset(const struct gram *g, unsigned set, double c[3])
{
    double l[3][3] = {{0}}, z[3] = {0};
    unsigned col[3], m = 0;
    for (unsigned j = 0; j < g->p; j++)
        if (set >> j & 1)
            col[m++] = j;
    for (unsigned i = 0; i < m; i++) {
        for (unsigned j = 0; j <= i; j++) {
            double s = g->a[col[i]][col[j]];
            for (unsigned k = 0; k < j; k++)
                s -= l[i][k] * l[j][k];
            if (i == j && !(s > 1e-12))
                return false;
            l[i][j] = i == j ? sqrt(s) : s / l[j][j];
        }
        z[i] = g->b[col[i]];
        for (unsigned k = 0; k < i; k++)
            z[i] -= l[i][k] * z[k];
        z[i] /= l[i][i];
    }
    memset(c, 0, 3 * sizeof *c);
    for (unsigned i = m; i-- > 0;) {
        double s = z[i];
        for (unsigned k = i + 1; k < m; k++)
            s -= l[k][i] * c[col[k]];
        c[col[i]] = s / l[i][i];
    }
    return true;
}

/* The solution of the constrained problem is the subset with the smallest residual among those with
 * non-negative coefficients: with three columns there are seven. */
static bool solve(const struct gram *g, double coef[3])
{
    double best = INFINITY;
    for (unsigned set = 1; set < 1u << g->p; set++) {
        double c[3], explained = 0;
        if (!solve_subset(g, set, c) || c[0] < 0 || c[1] < 0 || c[2] < 0)
            continue;
        for (unsigned j = 0; j < g->p; j++)
            explained += c[j] * g->b[j];
        if (g->yy - explained < best) {
            best = g->yy - explained;
            for (unsigned j = 0; j < 3; j++)
                coef[j] = j < g->p ? c[j] * g->scale[j] : 0;
        }
    }
    return isfinite(best);
}

/* The time of N = 1 must be positive. */
static bool has_t1(enum stk_law_kind kind, bool weak, const double c[3])
{
    return (weak && kind != STK_LAW_GUSTAFSON ? c[0] : c[0] + c[1]) > 0;
}

double stk_law_time_of(enum stk_law_kind kind, bool weak, const double coef[3], double n)
{
    double x[3], y = 0;
    design_row(kind, weak, n, x);
    for (unsigned j = 0; j < columns_of(kind); j++)
        y += coef[j] * x[j];
    y = in_rate(kind) ? 1 / y : y;
    return y > 0 && isfinite(y) ? y : NAN;
}

double stk_law_time(const struct stk_law_fit *f, double n)
{
    return stk_law_time_of(f->kind, f->weak, f->coef, n);
}

/* ---- one curve ---------------------------------------------------------------------------- */

struct curve {
    const struct stk_law_data *d;
    enum stk_law_kind kind;
    size_t skip; /* the omitted point; npoints: none */
    struct row row[STK_LAW_POINTS_MAX];
};

static void set_rows(struct curve *c, const double *time_s)
{
    for (size_t i = 0; i < c->d->npoints; i++) {
        const struct stk_law_point *p = &c->d->point[i];
        struct row *r = &c->row[i];
        design_row(c->kind, c->d->weak, p->n, r->x);
        r->y = in_rate(c->kind) ? 1 / time_s[i] : time_s[i];
        r->w = sqrt(stk_median_worth(p->runs)) / r->y;
    }
}

/* The quantity in which the law is linear: the time, or its inverse. */
static double predictor(const struct row *r, const double coef[3])
{
    return coef[0] * r->x[0] + coef[1] * r->x[1] + coef[2] * r->x[2];
}

/* Sum of squares of log(measured / fitted); infinite where the law gives no time. */
static double log_squares(const struct curve *c, const double *time_s, const double coef[3])
{
    double sum = 0;
    for (size_t i = 0; i < c->d->npoints; i++) {
        double off = log(time_s[i] / stk_law_time_of(c->kind, c->d->weak, coef, c->d->point[i].n));
        if (i != c->skip)
            sum += stk_median_worth(c->d->point[i].runs) * off * off;
    }
    return isnan(sum) ? INFINITY : sum;
}

/* Working responses and weights of one Gauss-Newton step from coef: they turn least squares of
 * log(t), or of 1/t, into the same linear problem at each step. */
static void working_rows(struct curve *c, const double *time_s, const double coef[3])
{
    for (size_t i = 0; i < c->d->npoints; i++) {
        struct row *r = &c->row[i];
        double m = predictor(r, coef), y = in_rate(c->kind) ? 1 / time_s[i] : time_s[i];
        bool throughput = c->d->throughput && !in_rate(c->kind);
        r->w = sqrt(stk_median_worth(c->d->point[i].runs)) / (throughput ? m * m : m);
        r->y = throughput ? 2 * m - m * m / y : m * (1 + log(y / m));
    }
}

/* Weights from measured times favour times that are too short, so with noise the first fit is too
 * low. Steps that do not improve the fit are discarded. */
static void refine(struct curve *c, const double *time_s, double coef[3])
{
    bool by_log = !c->d->throughput || in_rate(c->kind);
    double now = by_log ? log_squares(c, time_s, coef) : 0;
    for (unsigned step = 0; step < GAUSS_NEWTON_STEPS && isfinite(now); step++) {
        struct gram g;
        double next[3] = {0}, moved = 0;
        working_rows(c, time_s, coef);
        gram_of(c->row, c->d->npoints, c->skip, columns_of(c->kind), &g);
        if (!solve(&g, next))
            return;
        double then = by_log ? log_squares(c, time_s, next) : 0;
        if (then > now)
            return;
        for (unsigned j = 0; j < 3; j++)
            moved = fmax(moved, fabs(next[j] - coef[j]) / (fabs(next[j]) + 1e-300));
        memcpy(coef, next, sizeof next);
        now = then;
        if (moved < 1e-9)
            return;
    }
}

static bool fit_curve(struct curve *c, const double *time_s, double coef[3])
{
    struct gram g;
    set_rows(c, time_s);
    gram_of(c->row, c->d->npoints, c->skip, columns_of(c->kind), &g);
    if (!solve(&g, coef))
        return false;
    refine(c, time_s, coef);
    return has_t1(c->kind, c->d->weak, coef);
}

/* ---- meaning of the coefficients ---------------------------------------------------------- */

static void meaning(enum stk_law_kind kind, bool weak, const double c[3], double out[4])
{
    double t1 = c[0] + c[1], serial = c[1] / t1;
    if (kind == STK_LAW_GUSTAFSON) {
        serial = weak ? serial : 1 - serial;
        t1 = 1 / t1;
    } else if (weak) {
        t1 = c[0];
        serial = c[1] / c[0];
    }
    out[0] = t1;
    out[1] = serial;
    out[2] = kind == STK_LAW_USL ? c[2] / t1 : 0;
    /* Where dt/dN is 0; in weak scaling, throughput peaks where N/t does. */
    double fast = weak ? c[0] - c[1] : c[0];
    out[3] = kind != STK_LAW_USL || !(c[2] > 0) ? INFINITY : sqrt(fmax(fast, 0) / c[2]);
    out[3] = fmax(out[3], 1);
}

static double residual_squares(const struct stk_law_data *d, const struct stk_law_fit *f,
                               double *rms)
{
    double rss = 0, plain = 0;
    for (size_t i = 0; i < d->npoints; i++) {
        double off = log(stk_law_time(f, d->point[i].n) / d->point[i].time_s);
        rss += stk_median_worth(d->point[i].runs) * off * off;
        plain += off * off;
    }
    *rms = sqrt(plain / (double)d->npoints);
    return rss;
}

/* Akaike's criterion, corrected for few data. With repeats every run counts; their scatter is part
 * of every model's residual. The floor represents the clock: no law is right to 6 digits. */
static double aicc_of(const struct stk_law_data *d, unsigned ncoef, double rss)
{
    double n = (double)d->npoints + (d->noise.dof > 0 ? d->noise.dof : 0), k = ncoef + 1;
    double scatter = d->noise.dof > 0 ? d->noise.dof * pow(d->noise.relative_sd, 2) : 0;
    if (!(n - k - 1 > 0))
        return NAN;
    double mean = fmax((rss + scatter) / n, FLOOR * FLOOR);
    return n * log(mean) + 2 * k + 2 * k * (k + 1) / (n - k - 1);
}

/* Symmetric relative error of each point, as predicted by the others. */
static double leave_one_out(struct curve *c, const double *time_s)
{
    size_t n = c->d->npoints;
    double sum = 0;
    if (n <= columns_of(c->kind))
        return NAN;
    for (c->skip = 0; c->skip < n; c->skip++) {
        double coef[3] = {0}, t = NAN, real = time_s[c->skip];
        if (fit_curve(c, time_s, coef))
            t = stk_law_time_of(c->kind, c->d->weak, coef, c->d->point[c->skip].n);
        sum += isnan(t) ? 2 : 2 * fabs(t - real) / (fabs(t) + fabs(real));
    }
    c->skip = n;
    return sum / (double)n;
}

/* ---- intervals ---------------------------------------------------------------------------- */

/* Relative variance of one run: from the repeats and the residuals; from the residuals alone if
 * they are clearly larger, since then the law is not quite right, which repeats cannot show. */
static void fill_noise(const struct stk_law_data *d, struct stk_law_fit *f)
{
    double dof = fmax((double)d->npoints - (double)f->ncoef, 0), left = dof > 0 ? f->rss / dof : 0;
    double pure_dof = d->noise.dof > 0 ? d->noise.dof : 0;
    double pure = pure_dof > 0 ? pow(d->noise.relative_sd, 2) : 0;
    f->run_variance = left;
    f->dof = dof;
    if (pure_dof > 0 && (dof <= 0 || left < POOLED * pure)) {
        f->run_variance = (pure_dof * pure + dof * left) / (pure_dof + dof);
        f->dof = pure_dof + dof;
    }
    f->run_variance = fmax(f->run_variance, pow(pure_dof > 0 ? FLOOR : FLOOR_SINGLE, 2));
}

/* Repeats of an N may share an error (its placement, its input): only the few residuals show that,
 * and by luck they may not. So predictions trust no more degrees of freedom than the residuals
 * have. */
static double shared_width(const struct stk_law_data *d, const struct stk_law_fit *f)
{
    double dof = (double)d->npoints - (double)f->ncoef;
    if (!(d->noise.dof > 0) || dof < 1)
        return 1;
    double one =
        fmax(f->rss / dof, pow(d->noise.relative_sd, 2)) * pow(fmin(stk_t95(dof), SHARED_T_MAX), 2);
    return sqrt(fmax(one / (f->run_variance * pow(stk_t95(f->dof), 2)), 1));
}

/* Refits copies of the fitted curve with noise on them. */
static void bootstrap(struct curve *c, double noise, struct stk_law_fit *f)
{
    double time_s[STK_LAW_POINTS_MAX];
    uint64_t state = c->d->seed;
    for (unsigned k = 0; k < STK_LAW_REPLICATES; k++) {
        for (size_t i = 0; i < c->d->npoints; i++) {
            const struct stk_law_point *p = &c->d->point[i];
            double z = noise / sqrt(stk_median_worth(p->runs)) * stk_random_normal(&state);
            time_s[i] = stk_law_time(f, p->n) * exp(z);
        }
        if (fit_curve(c, time_s, f->boot[f->nboot]))
            f->nboot++;
    }
}

static void fill_intervals(struct stk_law_fit *f)
{
    double v[4][STK_LAW_REPLICATES], m[4];
    if (f->nboot < STK_LAW_REPLICATES / 2)
        return;
    for (size_t k = 0; k < f->nboot; k++) {
        meaning(f->kind, f->weak, f->boot[k], m);
        for (unsigned j = 0; j < 4; j++)
            v[j][k] = m[j];
    }
    f->t1_ci = stk_middle95(v[0], f->nboot);
    f->serial_ci = stk_middle95(v[1], f->nboot);
    if (f->kind == STK_LAW_USL) {
        f->coherence_ci = stk_middle95(v[2], f->nboot);
        f->peak_ci = stk_middle95(v[3], f->nboot);
    }
}

void stk_law_fit(const struct stk_law_data *d, enum stk_law_kind kind, struct stk_law_fit *f)
{
    static const struct stk_interval none = {NAN, NAN};
    unsigned p = columns_of(kind);
    double time_s[STK_LAW_POINTS_MAX], m[4];
    *f = (struct stk_law_fit){.kind = kind, .weak = d->weak, .ncoef = p};
    f->t1_ci = f->serial_ci = f->coherence_ci = f->peak_ci = none;
    f->aicc = f->loo_smape = f->rms = NAN;
    /* Three parameters from three points test nothing: the USL needs a fourth. */
    if (d->npoints < (p == 3 ? 4 : 2) || d->npoints > STK_LAW_POINTS_MAX)
        return;
    struct curve *c = malloc(sizeof *c);
    if (!c)
        return;
    *c = (struct curve){.d = d, .kind = kind, .skip = d->npoints};
    for (size_t i = 0; i < d->npoints; i++)
        time_s[i] = d->point[i].time_s;
    f->ok = fit_curve(c, time_s, f->coef);
    if (f->ok) {
        meaning(kind, d->weak, f->coef, m);
        f->t1_s = m[0];
        f->serial = m[1];
        f->coherence = m[2];
        f->peak_n = m[3];
        f->rss = residual_squares(d, f, &f->rms);
        fill_noise(d, f);
        f->shared_width = shared_width(d, f);
        f->aicc = aicc_of(d, p, f->rss);
        f->loo_smape = leave_one_out(c, time_s);
        if (f->dof >= 1) /* with few degrees of freedom, the noise itself is uncertain */
            bootstrap(c, sqrt(f->run_variance) * stk_t95(f->dof) / 1.96, f);
        fill_intervals(f);
    }
    free(c);
}

/* ---- choosing a law -------------------------------------------------------------------------- */

/* Which law to use, and what it may predict: the simplest law that the data do not contradict; no
 * prediction from an untested law, none far outside the data. */

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
