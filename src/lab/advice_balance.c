/*
 * advice_balance.c - rules about differences: between ranks, between workers, between requests; and
 * whether the accelerator waits.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lab/advice_priv.h"
#include "lab/analysis_priv.h"

/* ---- imbalance ---- */

static int ascending(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;
    return a < b ? -1 : a > b;
}

struct spread {
    double max, median, bytes_max, bytes_median;
    size_t at; /* of the largest */
    size_t n;
};

static bool spread_of(const double *s, const double *bytes, size_t n, struct spread *out)
{
    double *t = calloc(2 * n + 1, sizeof *t);
    if (!t || n < 2) {
        free(t);
        return false;
    }
    *out = (struct spread){.n = n};
    for (size_t i = 0; i < n; i++) {
        t[i] = s[i];
        t[n + i] = bytes[i];
        if (s[i] > s[out->at])
            out->at = i;
    }
    qsort(t, n, sizeof *t, ascending);
    qsort(t + n, n, sizeof *t, ascending);
    out->max = t[n - 1];
    out->median = t[(n - 1) / 2]; /* the lower one of two: of two ranks, the other one */
    out->bytes_max = bytes[out->at];
    out->bytes_median = t[n + (n - 1) / 2];
    free(t);
    return true;
}

/* Time in reads and calls that move no data: a rank that writes the checkpoints is another matter.
 */
static double read_time(const struct advisor *ad, double *s, double *bytes, const uint32_t *unit)
{
    const struct stk_profile *p = ad->p;
    double sum = 0;
    for (size_t i = 0; i < p->nrecs; i++) {
        const struct stk_prof_rec *r = &p->rec[i];
        if (!stk_api_moves(r->api) || r->proc >= p->nprocs || !r->n.c[STK_C_READ_BYTES])
            continue;
        double t = stk_ns(r->n.c[STK_C_READ_NS]) + stk_ns(r->n.c[STK_C_META_NS]);
        s[unit[r->proc]] += t;
        bytes[unit[r->proc]] += (double)r->n.c[STK_C_READ_BYTES];
        sum += t;
    }
    return sum;
}

static void imbalance_finding(struct advisor *ad, const struct spread *d, const char *what,
                              uint32_t number, double gain)
{
    struct stk_finding *f =
        stk_advice_begin(ad, "imbalance", stk_advice_severity(ad, gain),
                         "%s %u reads %.1f times as long as the others", what, number,
                         d->median > 0 ? d->max / d->median : (double)d->n);
    stk_advice_say(ad, f, "%s %u was in reads for %s, the middle one of %s for %s.", what, number,
                   stk_advice_time(ad, d->max), stk_advice_count(ad, (double)d->n),
                   stk_advice_time(ad, d->median));
    bool more = d->bytes_max > 1.3 * d->bytes_median;
    stk_advice_say(ad, f, "It read %s, the middle one %s: %s.", stk_advice_size(ad, d->bytes_max),
                   stk_advice_size(ad, d->bytes_median),
                   more ? "it has more to do" : "as much, but slower");
    stk_advice_number(ad, f, "max_s", d->max, "s");
    stk_advice_number(ad, f, "median_s", d->median, "s");
    stk_advice_number(ad, f, "max_bytes", d->bytes_max, "bytes");
    stk_advice_number(ad, f, "median_bytes", d->bytes_median, "bytes");
    if (more) {
        stk_advice_do(ad, f,
                      "Divide the data by samples or bytes, not by files. stoker's loader gives "
                      "every rank the same number of batches.");
        stk_advice_line(ad, f, "loader = stoker.torch.Loader(PATH, batch=32)");
    } else {
        stk_advice_do(ad, f,
                      "The same work takes longer there: look at that node (other jobs, network, "
                      "storage targets), or leave it out.");
        stk_advice_line(ad, f, "scontrol show node NODE; sacct -N NODE -S now-1hour");
    }
    stk_advice_gain(ad, f, gain,
                    "All wait for the slowest: %s less in it where it is as quick as "
                    "the middle one.",
                    stk_advice_time(ad, d->max - d->median));
}

struct lanes { /* ranks, or workers: seconds and bytes of each */
    double *s, *bytes;
    uint32_t *unit, *who, n;
};

/* Ranks come first among the units, by number; the rest is shells and helpers. */
static void ranks_as_lanes(const struct stk_profile *p, struct lanes *l)
{
    stk_analysis_units(p, l->unit);
    for (size_t i = 0; i < p->nprocs; i++)
        if (p->proc[i].world) {
            l->who[l->unit[i]] = p->proc[i].rank;
            l->n = l->unit[i] >= l->n ? l->unit[i] + 1 : l->n;
        }
}

/* The workers of one process: that which has most of them. Others go to the place behind. */
static void workers_as_lanes(const struct stk_profile *p, struct lanes *l)
{
    int32_t parent = -1;
    uint32_t most = 1;
    for (size_t i = 0; i < p->nprocs; i++)
        if (p->proc[i].worker > most) {
            most = p->proc[i].worker;
            parent = p->proc[i].parent;
        }
    for (size_t i = 0; i < p->nprocs; i++)
        if (parent >= 0 && p->proc[i].parent == parent && p->proc[i].worker) {
            l->who[l->n] = p->proc[i].worker;
            l->unit[i] = l->n++;
        } else {
            l->unit[i] = (uint32_t)p->nprocs;
        }
}

static void compare_lanes(struct advisor *ad, struct lanes *l, bool workers)
{
    struct spread d;
    double sum = read_time(ad, l->s, l->bytes, l->unit);
    if (sum <= 0 || !spread_of(l->s, l->bytes, l->n, &d))
        return;
    /* Of ranks: as much of the run as its calls are worth. Of workers: where they are waited for.
     */
    double scale = workers ? 1 - ad->hidden : stk_advice_wall(ad, sum) * l->n / sum;
    double gain = (d.max - d.median) * fmin(1, scale);
    if (d.max > (1 + stk_limits.imbalance) * d.median &&
        stk_advice_share(ad, gain) >= stk_limits.medium_share && stk_advice_matters(ad, gain))
        imbalance_finding(ad, &d, workers ? "worker" : "rank", l->who[d.at], gain);
}

void stk_rule_imbalance(struct advisor *ad)
{
    size_t n = ad->p->nprocs + 1;
    for (int workers = 0; workers < 2; workers++) {
        struct lanes l = {.s = calloc(n, sizeof(double)),
                          .bytes = calloc(n, sizeof(double)),
                          .unit = calloc(n, sizeof(uint32_t)),
                          .who = calloc(n, sizeof(uint32_t))};
        if (l.s && l.bytes && l.unit && l.who && (workers || ad->ranks >= 2)) {
            if (workers)
                workers_as_lanes(ad->p, &l);
            else
                ranks_as_lanes(ad->p, &l);
            compare_lanes(ad, &l, workers);
        }
        free(l.s);
        free(l.bytes);
        free(l.unit);
        free(l.who);
    }
}

/* ---- slow-requests ---- */

void stk_rule_slow_requests(struct advisor *ad)
{
    const struct stk_usage *worst = NULL;
    double slow_s = 0, slow = 0;
    for (size_t i = 0; i < ad->a->nfiles; i++) {
        const struct stk_usage *u = &ad->a->file[i];
        if (stk_ns(u->n.c[STK_C_MAX_READ_NS]) < stk_limits.slow_read_s)
            continue;
        /* Large requests may take long; these took long for their size. */
        double due = 10 * (ad->latency_s + (double)stk_size_edge[7] / ad->bandwidth_Bps);
        if (stk_ns(u->n.c[STK_C_MAX_READ_NS]) < due && u->mean_read_bytes > 10.0 * MIB)
            continue;
        double here = 0;
        for (int b = 30; b < STK_LATENCY_BINS; b++) { /* 2^30 ns: from a second on */
            slow += u->n.read_latency[b];
            here += u->n.read_latency[b] * exp2(b) * 1.4e-9;
        }
        slow_s += fmin(here, u->read_s);
        if (here > 0 && (!worst || u->n.c[STK_C_MAX_READ_NS] > worst->n.c[STK_C_MAX_READ_NS]))
            worst = u;
    }
    double gain = stk_advice_wall(ad, slow_s);
    double reads = (double)ad->a->job.n.c[STK_C_READS];
    if (!worst || slow > 0.1 * reads || stk_advice_share(ad, gain) < stk_limits.medium_share ||
        !stk_advice_matters(ad, gain))
        return;
    struct stk_finding *f =
        stk_advice_begin(ad, "slow-requests", stk_advice_severity(ad, gain),
                         "%s of %s reads took longer than a second", stk_advice_count(ad, slow),
                         stk_advice_count(ad, reads));
    stk_advice_say(ad, f, "Together they took about %s; half of all reads took less than %s.",
                   stk_advice_time(ad, slow_s), stk_advice_time(ad, ad->a->job.latency_p50_s));
    stk_advice_say(ad, f, "The longest, %s, was of %s.",
                   stk_advice_time(ad, stk_ns(worst->n.c[STK_C_MAX_READ_NS])),
                   stk_advice_show(ad, worst->name));
    stk_advice_number(ad, f, "slow_reads", slow, "count");
    stk_advice_number(ad, f, "slow_s", slow_s, "s");
    stk_advice_number(ad, f, "max_read_s", stk_ns(worst->n.c[STK_C_MAX_READ_NS]), "s");
    stk_advice_path(ad, f, worst->name);
    stk_advice_do(ad, f,
                  "Storage stalls now and then: read further ahead so that a stall is not felt, "
                  "and tell the site which file and time it was.");
    stk_advice_line(ad, f, "lfs getstripe -v %s    # on Lustre: which targets hold it",
                    stk_advice_shell(ad, worst->name));
    stk_advice_gain(ad, f, gain, "The time in reads of a second and more.");
}

/* ---- accelerator-waits ---- */

struct idle {
    double idle, with_io, all, first_s, last_s;
};

/* Samples after the accelerator first worked: before that it could not wait for data. */
static struct idle watch_gpu(const struct advisor *ad)
{
    const struct stk_profile *p = ad->p;
    struct idle w = {.first_s = -1};
    bool worked = false;
    for (size_t i = 0; i < p->nsamples; i++) {
        const struct stk_prof_sample *s = &p->sample[i];
        if (s->gpu_util < 0)
            continue;
        worked = worked || s->gpu_util >= 0.1;
        if (!worked)
            continue;
        w.all++;
        if (s->gpu_util >= 0.1)
            continue;
        w.idle++;
        /* In the second before the sample: someone was in a call for a tenth of it at least. */
        if (stk_analysis_between(p, s->at_s - 1, s->at_s, NULL) < 0.1)
            continue;
        w.with_io++;
        w.first_s = w.first_s < 0 ? s->at_s : w.first_s;
        w.last_s = s->at_s;
    }
    return w;
}

void stk_rule_accelerator_waits(struct advisor *ad)
{
    struct idle w = watch_gpu(ad);
    double share = w.all > 0 ? w.with_io / w.all : 0, gain = share * ad->run_s;
    if (w.with_io < 3 || share < stk_limits.medium_share || !stk_advice_matters(ad, gain))
        return;
    struct stk_finding *f = stk_advice_begin(ad, "accelerator-waits", stk_advice_severity(ad, gain),
                                             "the accelerator is idle %s of the time while data is "
                                             "read",
                                             stk_advice_percent(ad, share));
    stk_advice_say(
        ad, f, "In %s of %s samples the GPU did under 10 %%; in %s of them data was read.",
        stk_advice_count(ad, w.idle), stk_advice_count(ad, w.all), stk_advice_count(ad, w.with_io));
    stk_advice_say(ad, f, "First at %s, last at %s of the run; its mean use is %s.",
                   stk_advice_time(ad, w.first_s), stk_advice_time(ad, w.last_s),
                   stk_advice_percent(ad, ad->a->gpu_util_mean));
    stk_advice_number(ad, f, "idle_with_io", share, "ratio");
    stk_advice_number(ad, f, "gpu_util_mean", ad->a->gpu_util_mean, "ratio");
    const char *other = ad->out->nfindings > 1 ? ad->out->finding[0].id : NULL;
    if (other)
        stk_advice_do(ad, f, "What it waits for is in the other findings: begin with %s.", other);
    else
        stk_advice_do(ad, f,
                      "Read ahead and in parallel, so that data is there when it is asked "
                      "for: more workers, a larger prefetch_factor, or stoker's loader.");
    stk_advice_line(ad, f,
                    "DataLoader(dataset, num_workers=8, prefetch_factor=4, "
                    "persistent_workers=True, pin_memory=True)");
    stk_advice_gain(ad, f, gain, "If the accelerator never waited for data, %s of the run.",
                    stk_advice_percent(ad, share));
}
