/*
 * modes.c - times that come in groups, such as those of a fast and a slow node: which runs are of
 * which group, and whether the node explains it. A median then says which group is the larger one,
 * not how long a run takes.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/units.h"
#include "scaling/priv.h"

#define HOSTS_MAX 256
#define HOST_RUNS 3    /* fewer runs on a node are chance */
#define SLOW      0.10 /* a node that is slower by less is not worth a word */

/* A cost as people know it: a duration, or the metric. */
static const char *shown(const struct stk_scaling *all, double cost, char *buf, size_t size)
{
    const struct stk_study *study = all->study;
    if (!study->metric)
        return stk_format_duration(cost, buf, size);
    return stk_format_number(study->higher_better ? 1 / cost : cost, buf, size);
}

/* ---- nodes -------------------------------------------------------------------------------- */

/* The nodes of the good runs of a series. */
struct hosts {
    const char *name[HOSTS_MAX];
    size_t n;
    bool all_known;
};

static size_t host_index(struct hosts *h, const char *name)
{
    size_t i = 0;
    while (i < h->n && strcmp(h->name[i], name) != 0)
        i++;
    if (i == h->n && h->n < HOSTS_MAX)
        h->name[h->n++] = name;
    return i;
}

static bool is_good(const struct stk_study_run *r, uint64_t n)
{
    return r->n == n && r->status == STK_RUN_OK;
}

/* Names up to three nodes that had only runs of slow modes. False: some node had both, or is
 * unknown, or there is one node. */
static bool explain(const struct stk_scaling *all, const struct stk_scaling_series *s,
                    const struct stk_scaling_row *row, char *buf, size_t size)
{
    struct hosts h = {.all_known = true};
    bool slow[HOSTS_MAX] = {false}, fast[HOSTS_MAX] = {false};
    size_t nslow = 0, at = 0;
    for (size_t i = 0; i < s->from->nruns; i++) {
        const struct stk_study_run *r = &s->from->run[i];
        size_t k = is_good(r, row->n) && r->host ? host_index(&h, r->host) : HOSTS_MAX;
        h.all_known = h.all_known && (!is_good(r, row->n) || k < HOSTS_MAX);
        if (k < HOSTS_MAX)
            *(stk_study_cost(all->study, r) > row->modes.cut ? &slow[k] : &fast[k]) = true;
    }
    buf[0] = '\0';
    for (size_t i = 0; i < h.n; i++) {
        if (slow[i] && fast[i])
            return false;
        if (slow[i] && nslow++ < 3 && at < size)
            at +=
                (size_t)snprintf(buf + at, size - at, "%s%.60s", nslow > 1 ? ", " : "", h.name[i]);
    }
    if (nslow > 3 && at < size)
        snprintf(buf + at, size - at, " and %zu others", nslow - 3);
    return h.all_known && nslow && nslow < h.n;
}

/* Whether the nodes of an N are known and differ. */
static bool has_nodes(const struct stk_scaling_series *s, uint64_t n)
{
    const char *first = NULL;
    for (size_t i = 0; i < s->from->nruns; i++) {
        const struct stk_study_run *r = &s->from->run[i];
        if (!is_good(r, n) || !r->host)
            continue;
        if (first && strcmp(first, r->host) != 0)
            return true;
        first = r->host;
    }
    return false;
}

/* ---- modes of one N ----------------------------------------------------------------------- */

const char *stk_scaling_number(size_t modes)
{
    static const char *const words[STK_MODES_MAX + 1] = {"no", "one", "two", "three", "four"};
    return words[modes <= STK_MODES_MAX ? modes : 0];
}

/* "2 of 5 runs are near 1.00 s, 3 near 2.01 s" */
static void put_modes(const struct stk_scaling *all, const struct stk_modes *m, size_t runs,
                      char *buf, size_t size)
{
    char text[32];
    int at = snprintf(buf, size, "%zu of %zu runs are near %s", m->mode[0].runs, runs,
                      shown(all, m->mode[0].median, text, sizeof text));
    for (size_t i = 1; i < m->n && at > 0 && (size_t)at < size; i++)
        at += snprintf(buf + at, size - (size_t)at, ", %zu near %s", m->mode[i].runs,
                       shown(all, m->mode[i].median, text, sizeof text));
}

static int warn_row(struct stk_scaling *all, size_t index, const struct stk_scaling_row *r,
                    bool *by_node, struct stk_err *err)
{
    const struct stk_scaling_series *s = &all->series[index];
    const struct stk_modes *m = &r->modes;
    char n[80], modes[240], nodes[256], why[400] = "";
    bool explained = explain(all, s, r, nodes, sizeof nodes);
    if (explained)
        snprintf(why, sizeof why, "; the slow runs are those on %s", nodes);
    else if (has_nodes(s, r->n))
        snprintf(why, sizeof why, "; the node does not explain it");
    *by_node = *by_node || explained;
    put_modes(all, m, r->runs, modes, sizeof modes);
    return stk_scaling_warn(
        all, index, "modes", err,
        "%s: the times have %s modes: %s (%.2gx)%s. Its median shows %s, and ratios to other N may "
        "compare different modes",
        stk_scaling_n(all, r->n, n, sizeof n), stk_scaling_number(m->n), modes,
        m->mode[m->n - 1].median / m->mode[0].median, why, m->n > 2 ? "one of them" : "the larger group");
}

/* ---- a slow node -------------------------------------------------------------------------- */

/* The median cost of the good runs of N on other nodes; NaN: there are none. */
static double on_others(const struct stk_scaling *all, const struct stk_study_series *s, uint64_t n,
                        const char *host, double *v)
{
    size_t k = 0;
    for (size_t i = 0; i < s->nruns; i++) {
        const struct stk_study_run *r = &s->run[i];
        if (is_good(r, n) && r->host && strcmp(r->host, host) != 0)
            v[k++] = stk_study_cost(all->study, r);
    }
    return stk_median(v, k);
}

/* How much longer runs take on a node than the same N on others: 1 if nothing is clear. Clear:
 * every run takes longer, by more than these differences differ. */
static double slowness(const struct stk_scaling *all, const struct stk_study_series *s,
                       const char *host, double *v, size_t *count)
{
    double least = INFINITY, most = -INFINITY;
    *count = 0;
    for (size_t i = 0; i < s->nruns; i++) {
        const struct stk_study_run *r = &s->run[i];
        if (r->status != STK_RUN_OK || !r->host || strcmp(r->host, host) != 0)
            continue;
        double ratio = log(stk_study_cost(all->study, r) / on_others(all, s, r->n, host, v));
        if (isnan(ratio))
            continue;
        least = fmin(least, ratio);
        most = fmax(most, ratio);
        ++*count;
    }
    bool clear = *count >= HOST_RUNS && least > log1p(SLOW) && least > most - least;
    return clear ? exp((least + most) / 2) : 1;
}

static int warn_nodes(struct stk_scaling *all, size_t index, struct stk_err *err)
{
    const struct stk_study_series *s = all->series[index].from;
    struct hosts h = {0};
    for (size_t i = 0; i < s->nruns; i++)
        if (s->run[i].status == STK_RUN_OK && s->run[i].host)
            (void)host_index(&h, s->run[i].host);
    double *v = calloc(s->nruns + 1, sizeof *v);
    int rc = v ? 0 : stk_err_nomem(err, s->nruns * sizeof *v);
    for (size_t i = 0; h.n > 1 && i < h.n && !rc; i++) {
        size_t runs;
        double slow = slowness(all, s, h.name[i], v, &runs);
        if (slow > 1)
            rc = stk_scaling_warn(all, index, "slow-node", err,
                                  "%.80s is slow: %zu runs there took %.2fx as long as runs of the "
                                  "same N on other nodes",
                                  h.name[i], runs, slow);
    }
    free(v);
    return rc;
}

int stk_scaling_modes(struct stk_scaling *all, size_t index, struct stk_err *err)
{
    const struct stk_scaling_series *s = &all->series[index];
    bool by_node = false;
    int rc = 0;
    for (size_t i = 0; i < s->nrows && !rc; i++)
        if (s->row[i].modes.n > 1)
            rc = warn_row(all, index, &s->row[i], &by_node, err);
    return rc || by_node ? rc : warn_nodes(all, index, err);
}
