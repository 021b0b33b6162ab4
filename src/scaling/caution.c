/*
 * caution.c - warnings about a study: failed runs, noise, outliers, mixed machines, a base
 * that cannot be right, curves that go up and down, too few points.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/units.h"
#include "scaling/priv.h"

#define SPREAD  0.10 /* (max - min) / median of an N: more repeats would help */
#define UNUSUAL 6    /* times the noise of other N: chance rarely spreads few runs so far */
#define FAR_OUT                                                                                    \
    5                     /* times the noise of other N: below that, an outlier among few runs may \
                             be chance */
#define SHORT_S      0.01 /* shorter runs measure the start of a program */
#define CAUTIONS_MAX 1000
#define LAUNCH_SHARE 0.05 /* of a run: less does not change a decision */
#define SHORT_JOB_S  10   /* starting a job and its ranks takes a noticeable part of that */

int stk_scaling_warn(struct stk_scaling *all, size_t series, const char *id, struct stk_err *err,
                     const char *fmt, ...)
{
    char *text = NULL;
    if (all->ncautions >= CAUTIONS_MAX)
        return 0;
    int rc = STK_ARRAY_MORE(all->caution, all->ncautions, err);
    if (rc)
        return rc;
    va_list ap;
    va_start(ap, fmt);
    int n = vasprintf(&text, fmt, ap);
    va_end(ap);
    if (n < 0)
        return stk_err_nomem(err, 1);
    all->caution[all->ncautions++] = (struct stk_caution){.id = id, .series = series, .text = text};
    return 0;
}

/* One look at a series, which may add cautions. */
typedef int look(struct stk_scaling *all, size_t index, struct stk_err *err);

static int look_at_failures(struct stk_scaling *all, size_t index, struct stk_err *err)
{
    const struct stk_scaling_series *s = &all->series[index];
    int rc = 0;
    char n[80];
    for (size_t i = 0; i < s->nrows && !rc; i++) {
        const struct stk_scaling_row *r = &s->row[i];
        size_t bad = r->bad ? r->bad : r->lost, of = r->bad + r->lost + r->runs;
        stk_scaling_n(all, r->n, n, sizeof n);
        if (bad)
            rc = stk_scaling_warn(
                all, index, r->bad ? "failed" : "not-run", err, "%s: %zu of %zu run%s %s (%s%s%s%s%s)",
                n, bad, of, of == 1 ? "" : "s",
                r->bad     ? "did not end well"
                : bad == 1 ? "was not run to its end"
                           : "were not run to their end",
                stk_run_status_word(r->why), r->note ? ": " : "", r->note ? r->note : "",
                r->output ? "; see " : "", r->output ? r->output : "");
    }
    if (!rc && s->base == s->nrows)
        rc = stk_scaling_warn(all, index, "empty", err, "there is no good run: nothing to compare");
    return rc;
}

static int look_at_noise(struct stk_scaling *all, size_t index, struct stk_err *err)
{
    char sd[24];
    const struct stk_scaling_series *s = &all->series[index];
    enum stk_noise_verdict v = stk_noise_verdict(&s->noise);
    if (s->base == s->nrows)
        return 0;
    if (v == STK_NOISE_UNKNOWN)
        return stk_scaling_warn(
            all, index, "single-runs", err,
            "every N ran once: the influence of chance on the times is unknown");
    if (v >= STK_NOISE_NOISY)
        return stk_scaling_warn(all, index, "noisy", err,
                                "the machine is %s: runs of the same N differ by %s "
                                "(standard deviation)",
                                stk_noise_word(v),
                                stk_format_share(s->noise.relative_sd, sd, sizeof sd));
    return 0;
}

/* A table of whole seconds shows "± 0.00" and no difference: the reason must be said. */
static int look_at_rounding(struct stk_scaling *all, size_t index, struct stk_err *err)
{
    const struct stk_scaling_series *s = &all->series[index];
    double least = INFINITY;
    char step[40], by[24];
    for (size_t i = s->base; i < s->nrows; i++)
        least = s->row[i].runs ? fmin(least, s->row[i].cost.median) : least;
    if (!(s->step / least > STK_VERDICT_ALIKE))
        return 0;
    if (s->step < 1)
        snprintf(step, sizeof step, "in steps of %g%s", s->step, all->study->metric ? "" : " s");
    else
        snprintf(step, sizeof step, "%s",
                 all->study->metric ? "whole numbers" : "in whole seconds");
    return stk_scaling_warn(all, index, "rounded", err,
                            "the %s are %s: that alone leaves the smallest of them uncertain by "
                            "%s, however many runs agree",
                            all->study->metric ? "values" : "times", step,
                            stk_format_share(s->step / least / 2, by, sizeof by));
}

static int look_at_spread(struct stk_scaling *all, size_t index, struct stk_err *err)
{
    const struct stk_scaling_series *s = &all->series[index];
    int rc = 0;
    char n[80], share[24];
    for (size_t i = 0; i < s->nrows && !rc; i++) {
        const struct stk_scaling_row *r = &s->row[i];
        const struct stk_summary *c = &r->cost;
        double far_out = fmax(c->max - c->median, c->median - c->min) / c->median;
        double range = (c->max - c->min) / c->median;
        double noise = stk_noise_without(&s->noise, &r->own).relative_sd;
        stk_scaling_n(all, r->n, n, sizeof n);
        if (r->modes.n > 1) /* modes.c reports them */
            continue;
        if (c->outliers && !(far_out <= FAR_OUT * noise))
            rc = stk_scaling_warn(
                all, index, "outliers", err, "%s: %zu of %zu runs %s far from the others%s", n,
                c->outliers, r->runs, c->outliers == 1 ? "is" : "are",
                c->first_is_slow_outlier ? ", the first among them: a warm-up run helps" : "");
        else if (r->runs > 1 && r->runs < 6 && range > fmax(SPREAD, UNUSUAL * noise))
            rc = stk_scaling_warn(all, index, "spread", err,
                                  "%s: its %zu runs spread over %s: more repeats would help",
                                  n, r->runs, stk_format_share(range, share, sizeof share));
    }
    return rc;
}

/* Names of the kinds, or nodes, of the good runs of a series: at most `max` different ones. */
static size_t kinds_of(const struct stk_study_series *s, const char **kind, size_t max)
{
    size_t k = 0;
    for (size_t i = 0; i < s->nruns && k < max; i++) {
        const char *name = s->run[i].kind;
        size_t j = 0;
        if (s->run[i].status != STK_RUN_OK || !name || !*name)
            continue;
        while (j < k && strcmp(kind[j], name) != 0)
            j++;
        if (j == k)
            kind[k++] = name;
    }
    return k;
}

static int look_at_kinds(struct stk_scaling *all, size_t index, struct stk_err *err)
{
    const char *kind[3];
    size_t k = kinds_of(all->series[index].from, kind, 3);
    if (k < 2)
        return 0;
    return stk_scaling_warn(
        all, index, "mixed-kinds", err,
        "the runs mix kinds of machines (%s, %s%s): the curve shows the machines as much as N; "
        "use one kind, or give each its own series",
        kind[0], kind[1], k > 2 ? ", and others" : "");
}

/* Runs of one N are rarely next to each other: a study runs in random order. */
static int look_at_allocation(struct stk_scaling *all, size_t index, struct stk_err *err)
{
    const struct stk_scaling_series *s = &all->series[index];
    char n[80];
    for (size_t i = 0; i < s->nrows; i++) {
        const struct stk_study_run *first = NULL;
        for (size_t k = 0; k < s->from->nruns; k++) {
            const struct stk_study_run *r = &s->from->run[k];
            if (r->n != s->row[i].n || r->status != STK_RUN_OK)
                continue;
            first = first ? first : r;
            if (first->cores != r->cores || first->gpus != r->gpus || first->nodes != r->nodes)
                return stk_scaling_warn(all, index, "mixed-allocation", err,
                                        "%s: runs had different numbers of cores, GPUs or nodes",
                                        stk_scaling_n(all, r->n, n, sizeof n));
        }
    }
    return 0;
}

static int look_at_base(struct stk_scaling *all, size_t index, struct stk_err *err)
{
    const struct stk_scaling_series *s = &all->series[index];
    char n[80], n0[80], e[24];
    int rc = 0;
    if (s->base == s->nrows)
        return 0;
    const struct stk_scaling_row *base = &s->row[s->base];
    stk_scaling_n(all, base->n, n0, sizeof n0);
    if (base->n > 1)
        rc = stk_scaling_warn(all, index, "base", err,
                              "N=1 has no time: speedups assume that %s is %llu times as fast as 1",
                              n0, (unsigned long long)base->n);
    if (!rc && s->superlinear)
        return stk_scaling_warn(all, index, "superlinear", err,
                                "%s is more than proportionally faster than %s (%s "
                                "efficient): a cold file cache or memory may have slowed down "
                                "%s%s; nothing is predicted from it",
                                stk_scaling_n(all, s->superlinear->n, n, sizeof n), n0,
                                stk_format_share(s->superlinear->efficiency, e, sizeof e), n0,
                                s->noise.dof >= 1 ? "" : ", or it is chance");
    if (!rc && !all->study->metric && base->cost.median < SHORT_S)
        rc = stk_scaling_warn(all, index, "short", err,
                              "runs take less than 10 ms: most of that may be the start of the "
                              "program");
    return rc;
}

/* *jobs: some of its runs were jobs of a scheduler. */
static double median_launch(const struct stk_study_series *s, uint64_t n, bool *jobs)
{
    double v[64];
    size_t k = 0;
    for (size_t i = 0; i < s->nruns && k < sizeof v / sizeof *v; i++) {
        const struct stk_study_run *r = &s->run[i];
        if (r->n != n || r->status != STK_RUN_OK)
            continue;
        *jobs = *jobs || r->job;
        v[k] = r->launch_s;
        k += isnan(v[k]) ? 0 : 1;
    }
    return stk_median(v, k);
}

/* The launcher takes its time whatever N is: in short runs it looks like serial work. */
static int look_at_launch(struct stk_scaling *all, size_t index, struct stk_err *err)
{
    const struct stk_scaling_series *s = &all->series[index];
    const struct stk_scaling_row *worst = NULL;
    double share = LAUNCH_SHARE, launch = NAN;
    bool jobs = false, known = false;
    char n[80], a[32], b[32], c[24];
    for (size_t i = 0; i < s->nrows; i++) {
        const struct stk_scaling_row *r = &s->row[i];
        double here = r->runs ? median_launch(s->from, r->n, &jobs) : NAN;
        known = known || !isnan(here);
        if (here / r->wall_s > share) {
            worst = r;
            launch = here;
            share = here / r->wall_s;
        }
    }
    if (worst && share >= 1) /* the empty command may have met a busier machine */
        return stk_scaling_warn(
            all, index, "launch", err,
            "%s: the launcher with an empty command takes as long as the whole run (%s, %s): these "
            "times are the launcher's, not the program's; longer runs are needed",
            stk_scaling_n(all, worst->n, n, sizeof n), stk_format_duration(launch, a, sizeof a),
            stk_format_duration(worst->wall_s, b, sizeof b));
    if (worst)
        return stk_scaling_warn(
            all, index, "launch", err,
            "%s: the launcher alone takes %s of %s (%s), measured with an empty command: this "
            "part does not shrink with N and looks like serial work; longer runs hide it",
            stk_scaling_n(all, worst->n, n, sizeof n), stk_format_duration(launch, a, sizeof a),
            stk_format_duration(worst->wall_s, b, sizeof b), stk_format_share(share, c, sizeof c));
    if (known || !jobs || s->last == s->nrows || !(s->row[s->last].wall_s < SHORT_JOB_S))
        return 0;
    return stk_scaling_warn(all, index, "launch", err,
                            "jobs of %s take less than 10 s: the start of the job and its launcher "
                            "may be a large part of that, and looks like serial work",
                            stk_scaling_n(all, s->row[s->last].n, n, sizeof n));
}

/* Slower and then faster again: not a peak, something else changed. */
static int look_at_shape(struct stk_scaling *all, size_t index, struct stk_err *err)
{
    const struct stk_scaling_series *s = &all->series[index];
    const struct stk_scaling_row *slow = NULL, *last = NULL, *before = NULL;
    char a[80], b[80], c[80];
    size_t good = 0;
    for (size_t i = s->base; i < s->nrows; i++) {
        const struct stk_scaling_row *r = &s->row[i];
        if (!r->runs)
            continue;
        good++;
        double rise = last ? log(r->work_cost / last->work_cost) : 0, limit = 0.05;
        if (last && s->noise.dof >= 1)
            limit = fmax(limit, stk_scaling_slack(s, last, r));
        if (slow && rise < -limit)
            return stk_scaling_warn(all, index, "not-monotonic", err,
                                    "%s is slower than %s but %s is faster again: look for a "
                                    "cause other than N (placement, node, file system)%s",
                                    stk_scaling_n(all, slow->n, a, sizeof a),
                                    stk_scaling_n(all, before->n, b, sizeof b),
                                    stk_scaling_n(all, r->n, c, sizeof c),
                                    s->noise.dof >= 1 ? "" : ", or it is chance");
        if (rise > limit) {
            slow = r;
            before = last;
        }
        last = r;
    }
    return good > 0 && good < 3
               ? stk_scaling_warn(
                     all, index, "few-points", err,
                     "%s N was measured: no law can be tested and nothing is predicted",
                     good == 1 ? "only one" : "no third")
               : 0;
}

static int look_at_fit(struct stk_scaling *all, size_t index, struct stk_err *err)
{
    char by[24];
    const struct stk_laws *l = all->series[index].laws;
    if (l->chosen < 0 || !l->poor)
        return 0;
    return stk_scaling_warn(all, index, "no-law", err,
                            "no law fits: the best misses the points by %s",
                            stk_format_share(l->fit[l->chosen].rms, by, sizeof by));
}

int stk_scaling_cautions(struct stk_scaling *all, size_t series, struct stk_err *err)
{
    static look *const looks[] = {
        look_at_failures, look_at_noise, look_at_rounding, stk_scaling_modes, look_at_spread,
        look_at_kinds,    look_at_allocation, look_at_base,  look_at_launch,
        look_at_shape,    look_at_fit};
    int rc = 0;
    for (size_t i = 0; i < sizeof looks / sizeof *looks && !rc; i++)
        rc = looks[i](all, series, err);
    return rc;
}
