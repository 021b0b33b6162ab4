/*
 * scaling.c - the numbers of each N: medians with intervals, speedup, efficiency, service units,
 * Karp-Flatt; then laws and predictions. Sentences are made in advise_n.c and the scaling_*.c
 * files.
 */
#include "scaling/scaling.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scaling/priv.h"
#include "base/num.h"

#define SUPERLINEAR 1.05 /* higher efficiency makes the base suspicious */

const char *stk_scaling_n_of(const char *unit, uint64_t n, char *buf, size_t size)
{
    size_t len = unit ? strlen(unit) : 0;
    if (!unit)
        snprintf(buf, size, "N=%llu", (unsigned long long)n);
    else /* "1 GPU", "2 GPUs" */
        snprintf(buf, size, "%llu %.*s", (unsigned long long)n,
                 (int)(n == 1 && len > 1 && unit[len - 1] == 's' ? len - 1 : len), unit);
    return buf;
}

const char *stk_scaling_n(const struct stk_scaling *s, uint64_t n, char *buf, size_t size)
{
    return stk_scaling_n_of(s->study->unit, n, buf, size);
}

/* ---- gathering ---------------------------------------------------------------------------- */

static int by_n(const void *a, const void *b)
{
    const struct stk_scaling_row *x = a, *y = b;
    return (x->n > y->n) - (x->n < y->n);
}

static struct stk_scaling_row *find_row(struct stk_scaling_series *s, uint64_t n)
{
    struct stk_scaling_row key = {.n = n};
    return s->nrows ? bsearch(&key, s->row, s->nrows, sizeof key, by_n) : NULL;
}

/* One row per N, in order. */
static int make_rows(struct stk_scaling_series *s, struct stk_err *err)
{
    size_t n = s->from->nruns, k = 0;
    uint64_t *all = calloc(n ? n : 1, sizeof *all);
    if (!all)
        return stk_err_nomem(err, n * sizeof *all);
    for (size_t i = 0; i < n; i++)
        all[i] = s->from->run[i].n;
    qsort(all, n, sizeof *all, stk_by_u64);
    for (size_t i = 0; i < n; i++)
        if (!k || all[i] != all[k - 1])
            all[k++] = all[i];
    int rc = 0;
    if (k > STK_LAW_POINTS_MAX)
        rc = stk_err_set(err, STK_E_USAGE, NULL, -1, "more than %d different N in a series",
                         STK_LAW_POINTS_MAX);
    else if (!(s->row = calloc(k ? k : 1, sizeof *s->row)))
        rc = stk_err_nomem(err, k * sizeof *s->row);
    for (size_t i = 0; i < k && !rc; i++)
        s->row[s->nrows++] = (struct stk_scaling_row){.n = all[i]};
    free(all);
    return rc;
}

size_t stk_scaling_costs(const struct stk_scaling *s, const struct stk_scaling_series *series,
                         uint64_t n, double *v)
{
    size_t k = 0;
    for (size_t i = 0; i < series->from->nruns; i++) {
        const struct stk_study_run *r = &series->from->run[i];
        if (r->n == n && r->status == STK_RUN_OK)
            v[k++] = stk_study_cost(s->study, r);
    }
    return k;
}

static void count_runs(struct stk_scaling_series *s)
{
    for (size_t i = 0; i < s->from->nruns; i++) {
        const struct stk_study_run *r = &s->from->run[i];
        struct stk_scaling_row *row = find_row(s, r->n);
        bool blames = stk_run_blames(r->status);
        if (r->status == STK_RUN_OK) {
            row->runs++;
            continue;
        }
        if (blames ? !row->bad : !row->bad && !row->lost) {
            row->why = r->status;
            row->note = r->note;
            row->output = r->output;
        }
        row->bad += blames;
        row->lost += !blames;
    }
}

/* ---- one N -------------------------------------------------------------------------------- */

enum what { WALL, CORES, GPUS, NODES, SU_PER_HOUR, SU };

/* What a run was allocated: each resource from the run, or else from the options. NaN: unknown. */
struct allocation {
    double cores, gpus, nodes;
};

static struct allocation allocation_of(const struct stk_scaling_options *o,
                                       const struct stk_study_run *r)
{
    struct allocation a = {NAN, NAN, NAN};
    double n = (double)r->n;
    size_t hosts = stk_study_hosts(r->host);
    if (r->cores >= 0 || o->cores_per_n)
        a.cores = r->cores >= 0 ? (double)r->cores : n * (double)o->cores_per_n;
    if (r->gpus >= 0 || o->gpus_per_n || o->cores_per_n)
        a.gpus = r->gpus >= 0 ? (double)r->gpus : n * (double)o->gpus_per_n;
    if (r->nodes >= 0)
        a.nodes = (double)r->nodes;
    else if (o->nodes_per_n > 0)
        a.nodes = ceil(n * o->nodes_per_n - 1e-9);
    else if (hosts)
        a.nodes = (double)hosts;
    return a;
}

/* What SUs need and the allocation does not have. A job whose cores are known and whose GPUs are
 * not has none. */
static unsigned missing_of(const struct stk_su_rates *su, const struct allocation *a)
{
    return (su->core > 0 && isnan(a->cores) ? STK_SU_NO_CORES : 0u) |
           (su->gpu > 0 && !(su->core > 0) && isnan(a->gpus) && isnan(a->cores) ? STK_SU_NO_GPUS
                                                                                : 0u) |
           (su->node > 0 && isnan(a->nodes) ? STK_SU_NO_NODES : 0u);
}

static double charge_of(const struct stk_su_rates *su, const struct allocation *a)
{
    if (missing_of(su, a))
        return NAN;
    return stk_su_per_hour(su, isnan(a->cores) ? 0 : a->cores, isnan(a->gpus) ? 0 : a->gpus,
                           isnan(a->nodes) ? 0 : a->nodes);
}

static double pick(const struct stk_scaling_options *o, const struct stk_study_run *r, enum what w)
{
    const struct allocation a = allocation_of(o, r);
    switch (w) {
    case WALL:
        return r->wall_s;
    case CORES:
        return a.cores;
    case GPUS:
        return a.gpus;
    case NODES:
        return a.nodes;
    case SU_PER_HOUR:
        return charge_of(&o->su, &a);
    default:
        return charge_of(&o->su, &a) * r->wall_s / 3600;
    }
}

/* Over the good runs of a series. */
static unsigned su_missing(const struct stk_scaling *all, const struct stk_scaling_series *s)
{
    unsigned missing = 0;
    for (size_t i = 0; i < s->from->nruns; i++) {
        const struct stk_study_run *r = &s->from->run[i];
        const struct allocation a = allocation_of(&all->o, r);
        if (r->status == STK_RUN_OK)
            missing |= missing_of(&all->o.su, &a) | (isnan(r->wall_s) ? STK_SU_NO_TIME : 0u);
    }
    return missing;
}

/* Median over the good runs of an N, for a value that a run may not have. */
static double median_of(const struct stk_scaling *all, const struct stk_scaling_series *s,
                        uint64_t n, enum what w, double *scratch)
{
    size_t k = 0;
    for (size_t i = 0; i < s->from->nruns; i++) {
        const struct stk_study_run *r = &s->from->run[i];
        if (r->n != n || r->status != STK_RUN_OK)
            continue;
        scratch[k] = pick(&all->o, r, w);
        k += isfinite(scratch[k]) ? 1 : 0;
    }
    return stk_median(scratch, k);
}

/* Costs as measured: inverted again if the metric is a rate. */
static void fill_value(const struct stk_study *study, struct stk_scaling_row *r)
{
    bool rate = study->metric && study->higher_better;
    struct stk_interval ci = r->cost.median_ci;
    r->value = rate ? 1 / r->cost.median : r->cost.median;
    r->value_ci = rate ? (struct stk_interval){1 / ci.hi, 1 / ci.lo} : ci;
}

static int fill_row(const struct stk_scaling *all, struct stk_scaling_series *s,
                    struct stk_scaling_row *r, double *v, struct stk_err *err)
{
    static const struct stk_interval none = {NAN, NAN};
    r->value = r->wall_s = r->work_cost = r->su = r->su_per_hour = NAN;
    r->cores = r->gpus = r->nodes = NAN;
    r->speedup = r->efficiency = r->karp_flatt = r->relative_su = NAN;
    r->value_ci = r->speedup_ci = none;
    if (!r->runs)
        return 0;
    stk_scaling_costs(all, s, r->n, v);
    if (!stk_summarise(v, r->runs, &r->cost))
        return stk_err_nomem(err, r->runs * sizeof *v);
    stk_noise_add(&s->noise, v, r->runs);
    stk_noise_add(&r->own, v, r->runs);
    s->step = fmin(s->step, stk_step_of(v, r->runs));
    r->modes = stk_modes_of(v, r->runs);
    fill_value(all->study, r);
    r->work_cost = all->study->weak ? r->cost.median / (double)r->n : r->cost.median;
    r->wall_s = median_of(all, s, r->n, WALL, v);
    r->cores = median_of(all, s, r->n, CORES, v);
    r->gpus = median_of(all, s, r->n, GPUS, v);
    r->nodes = median_of(all, s, r->n, NODES, v);
    r->su_per_hour = median_of(all, s, r->n, SU_PER_HOUR, v);
    r->su = median_of(all, s, r->n, SU, v);
    return 0;
}

static int fill_rows(const struct stk_scaling *all, struct stk_scaling_series *s,
                     struct stk_err *err)
{
    size_t most = 1;
    for (size_t i = 0; i < s->nrows; i++)
        most = s->row[i].runs > most ? s->row[i].runs : most;
    double *v = calloc(most, sizeof *v);
    int rc = v ? 0 : stk_err_nomem(err, most * sizeof *v);
    s->step = 1;
    for (size_t i = 0; i < s->nrows && !rc; i++)
        rc = fill_row(all, s, &s->row[i], v, err);
    free(v);
    stk_noise_finish(&s->noise);
    s->base = s->last = s->nrows;
    for (size_t i = 0; i < s->nrows; i++)
        if (s->row[i].runs) {
            s->base = s->base == s->nrows ? i : s->base;
            s->last = i;
        }
    s->su_missing = su_missing(all, s);
    return rc;
}

/* ---- against the base --------------------------------------------------------------------- */

/* Squared relative errors of a ratio add up (the runs of two N are independent). */
static struct stk_interval ratio_interval(double ratio, const struct stk_summary *top,
                                          const struct stk_summary *bottom)
{
    struct stk_interval t = top->median_ci, b = bottom->median_ci;
    if (!stk_interval_known(t) || !stk_interval_known(b))
        return (struct stk_interval){NAN, NAN};
    double down = hypot(1 - t.lo / top->median, b.hi / bottom->median - 1);
    double up = hypot(t.hi / top->median - 1, 1 - b.lo / bottom->median);
    return (struct stk_interval){ratio * fmax(1 - down, 0), ratio * (1 + up)};
}

double stk_scaling_price(const struct stk_scaling_row *r)
{
    return r->su_per_hour * r->work_cost;
}

static void relate(const struct stk_scaling *all, struct stk_scaling_series *s,
                   struct stk_scaling_row *r)
{
    const struct stk_scaling_row *base = &s->row[s->base];
    double n = (double)r->n, n0 = (double)base->n;
    r->speedup = n0 * base->work_cost / r->work_cost;
    if (r != base)
        r->speedup_ci = ratio_interval(r->speedup, &base->cost, &r->cost);
    r->efficiency = r->speedup / n;
    if (n > n0 && !all->study->weak)
        r->karp_flatt = (1 / r->speedup - 1 / n) / (1 - 1 / n);
    r->relative_su = s->su_known ? stk_scaling_price(r) / stk_scaling_price(base)
                                 : n * r->work_cost / (n0 * base->work_cost);
}

static void relate_rows(const struct stk_scaling *all, struct stk_scaling_series *s)
{
    s->su_known = s->base < s->nrows;
    for (size_t i = s->base; i < s->nrows; i++)
        if (s->row[i].runs && !(s->row[i].su_per_hour > 0))
            s->su_known = false;
    for (size_t i = s->base; i < s->nrows; i++) {
        struct stk_scaling_row *r = &s->row[i];
        if (!r->runs)
            continue;
        relate(all, s, r);
        double slack = stk_scaling_slack(s, &s->row[s->base], r);
        if (!s->superlinear && r->efficiency * exp(isnan(slack) ? 0 : -slack) > SUPERLINEAR)
            s->superlinear = r;
    }
}

static struct stk_timed timed(const struct stk_scaling_series *s, const struct stk_scaling_row *r,
                              double cost, struct stk_noise *room)
{
    return (struct stk_timed){.median = cost,
                              .runs = r->runs,
                              .noise = stk_noise_of(&s->noise, &r->own, room),
                              .step = s->step / r->cost.median};
}

struct stk_verdict stk_scaling_verdict(const struct stk_scaling_series *s,
                                       const struct stk_scaling_row *a,
                                       const struct stk_scaling_series *t,
                                       const struct stk_scaling_row *b, size_t among)
{
    struct stk_noise room[2];
    const struct stk_timed x = timed(s, a, a->work_cost, &room[0]),
                           y = timed(t, b, b->work_cost, &room[1]);
    return stk_verdict_of(&x, &y, STK_VERDICT_ALIKE, among);
}

struct stk_verdict stk_scaling_verdict_of_su(const struct stk_scaling_series *s,
                                             const struct stk_scaling_row *a,
                                             const struct stk_scaling_row *b, size_t among)
{
    struct stk_noise room[2];
    const struct stk_timed x = timed(s, a, a->relative_su, &room[0]),
                           y = timed(s, b, b->relative_su, &room[1]);
    return stk_verdict_of(&x, &y, STK_VERDICT_ALIKE, among);
}

struct stk_verdict stk_scaling_verdict_of_balance(const struct stk_scaling_series *s,
                                                  const struct stk_scaling_row *a,
                                                  const struct stk_scaling_row *b, size_t among)
{
    const struct stk_scaling_row *row[2] = {a, b};
    struct stk_noise room[2], twice[2];
    struct stk_timed side[2];
    for (size_t k = 0; k < 2; k++) {
        side[k] = timed(s, row[k], row[k]->relative_su * row[k]->work_cost, &room[k]);
        twice[k] = *side[k].noise;
        twice[k].relative_sd *= 2;
        side[k].step = 2 - 2 * pow(1 - side[k].step / 2, 2); /* rounded twice */
    }
    bool shared = side[0].noise == side[1].noise;
    side[0].noise = &twice[0];
    side[1].noise = shared ? &twice[0] : &twice[1];
    return stk_verdict_of(&side[0], &side[1], STK_VERDICT_ALIKE, among);
}

double stk_scaling_slack(const struct stk_scaling_series *s, const struct stk_scaling_row *a,
                         const struct stk_scaling_row *b)
{
    const struct stk_verdict v = stk_scaling_verdict(s, a, s, b, 1);
    return stk_verdict_slack(&v);
}

/* ---- laws --------------------------------------------------------------------------------- */

static void predict(const struct stk_scaling *all, struct stk_scaling_series *s)
{
    for (size_t i = 0; i < all->o.npredict; i++) {
        struct stk_prediction *p = &s->prediction[i];
        stk_laws_predict(s->laws, all->o.predict[i], p);
        if (s->superlinear && !p->refused) {
            *p = (struct stk_prediction){
                .n = p->n, .time_s = NAN, .time_ci = {NAN, NAN}, .refused = true};
            snprintf(p->why, sizeof p->why,
                     "speedup exceeds N somewhere, which no law here allows");
        }
    }
}

/* Times that were rounded are as far off as that, however well they agree. */
static struct stk_noise with_rounding(const struct stk_scaling_series *s)
{
    struct stk_noise noise = s->noise;
    double least = INFINITY;
    for (size_t i = s->base; i < s->nrows; i++)
        least = s->row[i].runs ? fmin(least, s->row[i].cost.median) : least;
    noise.relative_sd = hypot(noise.relative_sd, s->step / least / sqrt(12));
    return noise;
}

static int fit_laws(const struct stk_scaling *all, struct stk_scaling_series *s,
                    struct stk_err *err)
{
    struct stk_law_point *point = calloc(s->nrows ? s->nrows : 1, sizeof *point);
    s->laws = calloc(1, sizeof *s->laws);
    if (!point || !s->laws) {
        free(point);
        return stk_err_nomem(err, sizeof *s->laws);
    }
    size_t k = 0;
    for (size_t i = 0; i < s->nrows; i++)
        if (s->row[i].runs)
            point[k++] = (struct stk_law_point){.n = (double)s->row[i].n,
                                                .time_s = s->row[i].cost.median,
                                                .runs = (double)s->row[i].runs};
    struct stk_law_data d = {.point = point,
                             .npoints = k,
                             .noise = with_rounding(s),
                             .weak = all->study->weak,
                             .throughput = all->o.throughput,
                             .seed = all->o.seed};
    stk_laws_fit(&d, s->laws);
    free(point);
    predict(all, s);
    return 0;
}

/* ---- all of it ---------------------------------------------------------------------------- */

static int compute_series(struct stk_scaling *all, size_t index, struct stk_err *err)
{
    struct stk_scaling_series *s = &all->series[index];
    s->from = &all->study->series[index];
    all->nseries = index + 1; /* releases what exists so far, whatever happens */
    int rc = make_rows(s, err);
    if (rc)
        return rc;
    count_runs(s);
    rc = fill_rows(all, s, err);
    if (rc)
        return rc;
    relate_rows(all, s);
    rc = fit_laws(all, s, err);
    if (rc)
        return rc;
    stk_scaling_plateau(s);
    stk_scaling_choose(all, s);
    return stk_scaling_cautions(all, index, err);
}

/* ---- speedups of all series against one base ------------------------------------------------- */

/* The cost of N = 1 by the base of a series; NaN: it has no good run. */
static double unit_cost(const struct stk_scaling_series *s)
{
    const struct stk_scaling_row *base = &s->row[s->base];
    return s->base < s->nrows ? (double)base->n * base->work_cost : NAN;
}

double stk_scaling_speedup(const struct stk_scaling *s, double n, double cost)
{
    return unit_cost(&s->series[s->slowest]) / (s->study->weak ? cost / n : cost);
}

static void set_common_speedups(struct stk_scaling *all)
{
    const struct stk_scaling_series *s = all->series;
    for (size_t i = 1; i < all->nseries; i++)
        if (!(unit_cost(&s[all->slowest]) >= unit_cost(&s[i])) && !isnan(unit_cost(&s[i])))
            all->slowest = i;
    for (size_t k = 0; k < all->nseries; k++) {
        double common = unit_cost(&s[all->slowest]) / unit_cost(&s[k]);
        for (size_t i = 0; i < s[k].nrows; i++) {
            struct stk_scaling_row *r = &s[k].row[i];
            r->common_speedup = r->speedup * common;
            r->common_speedup_ci = (struct stk_interval){r->speedup_ci.lo * common,
                                                         r->speedup_ci.hi * common};
        }
    }
}

int stk_scaling_compute(const struct stk_study *study, const struct stk_scaling_options *o,
                        struct stk_scaling *out, struct stk_err *err)
{
    memset(out, 0, sizeof *out);
    out->study = study;
    out->o = *o;
    out->o.npredict = o->npredict < STK_SCALING_PREDICTIONS ? o->npredict : STK_SCALING_PREDICTIONS;
    int rc = 0;
    for (size_t i = 0; i < study->nseries && !rc; i++)
        rc = compute_series(out, i, err);
    for (size_t i = 0; i < o->nnotes && out->nseries && !rc; i++)
        rc = stk_scaling_warn(out, 0, "conditions", err, "%s", o->note + i * o->note_size);
    if (rc)
        return rc;
    set_common_speedups(out);
    stk_scaling_place(out);
    return stk_scaling_compare(out, err);
}

void stk_scaling_release(struct stk_scaling *s)
{
    for (size_t i = 0; i < s->nseries; i++) {
        free(s->series[i].row);
        free(s->series[i].laws);
    }
    for (size_t i = 0; i < s->ncautions; i++)
        free(s->caution[i].text);
    free(s->caution);
    free(s->comparison);
    memset(s, 0, sizeof *s);
}

/* ---- service units --------------------------------------------------------------------------- */

#define WEIGHT_MAX 1e6

static bool parse_weight(const char *p, size_t n, double *to)
{
    int64_t i;
    return stk_num_parse(p, n, &i, to) != STK_NUM_NONE && *to >= 0 && *to <= WEIGHT_MAX;
}

bool stk_su_parse(const char *text, struct stk_su_rates *r)
{
    const char *const names[] = {"core", "gpu", "node"};
    double *const to[] = {&r->core, &r->gpu, &r->node};
    *r = (struct stk_su_rates){0};
    for (const char *p = text; *p;) {
        size_t n = strcspn(p, ","), k = 0;
        const char *eq = memchr(p, '=', n);
        size_t name = eq ? (size_t)(eq - p) : 0;
        while (k < 3 && !(strlen(names[k]) == name && memcmp(names[k], p, name) == 0))
            k++;
        if (k == 3 || !parse_weight(eq + 1, n - name - 1, to[k]))
            return false;
        p += n;
        p += *p == ',';
    }
    return r->core > 0 || r->gpu > 0 || r->node > 0;
}

static double part(double weight, double count)
{
    return weight > 0 ? weight * (count < 0 ? (double)NAN : count) : 0;
}

double stk_su_per_hour(const struct stk_su_rates *r, double cores, double gpus, double nodes)
{
    return part(r->core, cores) + part(r->gpu, gpus) + part(r->node, nodes);
}
