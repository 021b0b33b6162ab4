/*
 * balance.c - rules about differences: between ranks, between workers, between requests; and
 * whether the accelerator waits.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "advice/priv.h"
#include "analysis/parts.h"

/* ---- imbalance ---- */

static int ascending(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;
    return a < b ? -1 : a > b;
}

struct lanes { /* ranks or workers: seconds and bytes of each */
    double *s, *bytes;
    uint32_t *unit, *who, n;
};

struct spread {
    double max, median, bytes_max, bytes_median;
    size_t at; /* of the largest */
    size_t n;
    bool writes, workers;
};

static bool spread_of(struct advisor *ad, const double *s, const double *bytes, size_t n,
                      struct spread *out)
{
    double *t = n < 2 ? NULL : calloc(2 * n + 1, sizeof *t);
    if (!t) {
        ad->nomem = ad->nomem || n >= 2;
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
    out->median = t[(n - 1) / 2]; /* the lower of the two middle ones: with two ranks, the other
                                     rank */
    out->bytes_max = bytes[out->at];
    out->bytes_median = t[n + (n - 1) / 2];
    free(t);
    return true;
}

/* Whether MPI-IO reads the file whose records begin here: the library then chooses the ranks that
 * read (aggregators). */
static bool is_collective(const struct stk_profile *p, size_t at)
{
    uint32_t file = p->rec[at].file;
    for (; at < p->nrecs && p->rec[at].file == file; at++)
        if (p->rec[at].api == STK_API_MPIIO)
            return true;
    return false;
}

/* Time in reads or in writes, plus calls that move no data. */
static double time_of(const struct advisor *ad, const struct lanes *l, bool writes)
{
    enum stk_counter moved = writes ? STK_C_WRITE_BYTES : STK_C_READ_BYTES;
    enum stk_counter ns = writes ? STK_C_WRITE_NS : STK_C_READ_NS;
    const struct stk_profile *p = ad->p;
    double sum = 0;
    bool collective = false;
    for (size_t i = 0; i < p->nrecs; i++) {
        const struct stk_prof_rec *r = &p->rec[i];
        if (i == 0 || r->file != p->rec[i - 1].file)
            collective = is_collective(p, i);
        if (!stk_api_moves(r->api) || r->proc >= p->nprocs || !r->n.c[moved] ||
            (collective && !writes))
            continue;
        double t = stk_ns(r->n.c[ns]) + stk_ns(r->n.c[STK_C_META_NS]);
        l->s[l->unit[r->proc]] += t;
        l->bytes[l->unit[r->proc]] += (double)r->n.c[moved];
        sum += t;
    }
    return sum;
}

/* Most ranks read only a configuration: one rank that reads for all is a design, not an
 * accident. */
static void alone_finding(struct advisor *ad, const struct spread *d, uint32_t rank, double gain)
{
    gain *= 1 - 1 / (double)d->n;
    struct stk_finding *f = stk_advice_begin(ad, STK_RULE_IMBALANCE, stk_advice_severity(ad, gain),
                                             "rank %u reads, most of %zu ranks do not", rank, d->n);
    stk_advice_say(ad, f, "Rank %u read %s in %s; the median of %zu ranks is %s.", rank,
                   stk_advice_size(ad, d->bytes_max), stk_advice_time(ad, d->max), d->n,
                   stk_advice_size(ad, d->bytes_median));
    stk_advice_number(ad, f, "max_s", d->max, "s");
    stk_advice_number(ad, f, "max_bytes", d->bytes_max, "bytes");
    stk_advice_do(ad, f,
                  "If it distributes the data (MPI_Bcast, MPI_Scatter), let each rank read a part "
                  "and exchange the parts, or let it read the next part while the others compute. "
                  "If it does not, the data is badly divided: give each rank its own part.");
    stk_advice_act(ad, f, (struct stk_action){.kind = STK_ACT_EXCHANGE, .count = d->n});
    stk_advice_gain(ad, f, gain, "%s in the reads of one rank, divided among %zu.",
                    stk_advice_time(ad, d->max), d->n);
}

/* The node a rank ran on; NULL: unknown. */
static const char *node_of(const struct stk_profile *p, uint32_t rank)
{
    for (size_t i = 0; i < p->nprocs; i++) {
        const struct stk_prof_proc *q = &p->proc[i];
        if (q->world && q->rank == rank && q->host < p->nhosts && *p->host[q->host].name)
            return p->host[q->host].name;
    }
    return NULL;
}

static void imbalance_finding(struct advisor *ad, const struct spread *d, uint32_t number,
                              double gain)
{
    const char *what = d->workers ? "worker" : "rank";
    struct stk_finding *f = stk_advice_begin(
        ad, STK_RULE_IMBALANCE, stk_advice_severity(ad, gain),
        "%s %u %s %.1f times as long as the others",
        what, number, d->writes ? "writes" : "reads", d->max / d->median);
    stk_advice_say(ad, f, "%s %u was in %s for %s, the median of %s for %s.", what, number,
                   d->writes ? "writes" : "reads", stk_advice_time(ad, d->max),
                   stk_advice_count(ad, (double)d->n), stk_advice_time(ad, d->median));
    bool more = d->bytes_max > (1 + stk_limits.imbalance) * d->bytes_median;
    stk_advice_say(ad, f, "It %s %s, the median %s: %s.", d->writes ? "wrote" : "read",
                   stk_advice_size(ad, d->bytes_max), stk_advice_size(ad, d->bytes_median),
                   more ? "it has more to do" : "as much, but slower");
    stk_advice_number(ad, f, "max_s", d->max, "s");
    stk_advice_number(ad, f, "median_s", d->median, "s");
    stk_advice_number(ad, f, "max_bytes", d->bytes_max, "bytes");
    stk_advice_number(ad, f, "median_bytes", d->bytes_median, "bytes");
    if (more) {
        stk_advice_do(ad, f,
                      "Divide the data by samples or bytes, not by files. stoker's loader gives "
                      "every rank the same number of batches.");
        const char *dataset = stk_advice_dataset(ad);
        struct stk_action divide = {.kind = STK_ACT_DIVIDE, .count = ad->ranks};
        stk_advice_act(
            ad, f, dataset && stk_advice_in_python(ad) ? stk_advice_loader(ad, dataset) : divide);
    } else {
        stk_advice_do(ad, f,
                      "The same work takes longer there: check that node (other jobs, network, "
                      "storage targets), or exclude it.");
        stk_advice_act(ad, f,
                       (struct stk_action){.kind = STK_ACT_CHECK_NODE,
                                           .path = d->workers ? NULL : node_of(ad->p, number)});
    }
    stk_advice_gain(ad, f, gain,
                    "All wait for the slowest: %s less if it is as fast as the median.",
                    stk_advice_time(ad, d->max - d->median));
}

/* Ranks are the first units, by number; shells and helpers follow. */
static void ranks_as_lanes(const struct stk_profile *p, struct lanes *l)
{
    stk_analysis_units(p, l->unit);
    for (size_t i = 0; i < p->nprocs; i++)
        if (p->proc[i].world) {
            l->who[l->unit[i]] = p->proc[i].rank;
            l->n = l->unit[i] >= l->n ? l->unit[i] + 1 : l->n;
        }
}

/* What a worker reads: a directory, and whether it is evaluation data. Validation workers have
 * other work than training workers. */
struct diet {
    const char *dir; /* NULL: it reads nothing */
    bool evaluated;
    double votes, bytes;
};

static bool same_diet(const struct diet *a, const struct diet *b)
{
    return a->dir && b->dir && strcmp(a->dir, b->dir) == 0 && a->evaluated == b->evaluated;
}

/* The most of a worker's bytes decide (Boyer-Moore). */
static void taste(struct diet *d, const struct stk_usage *u, bool evaluated, double bytes)
{
    struct diet this = {.dir = u->dir, .evaluated = evaluated, .votes = bytes, .bytes = d->bytes};
    if (same_diet(d, &this))
        d->votes += bytes;
    else if (d->votes >= bytes)
        d->votes -= bytes;
    else
        *d = this;
    d->bytes += bytes;
}

static void diets_of(const struct advisor *ad, struct diet *diet)
{
    for (size_t i = 0; i < ad->a->nfiles; i++) {
        const struct stk_usage *u = &ad->a->file[i];
        bool evaluated = stk_kind_evaluated(u->name);
        for (size_t r = u->rec_from; r < u->rec_to; r++) {
            const struct stk_prof_rec *rec = &ad->p->rec[r];
            if (rec->proc < ad->p->nprocs && stk_api_moves(rec->api) && rec->n.c[STK_C_READ_BYTES])
                taste(&diet[rec->proc], u, evaluated, (double)rec->n.c[STK_C_READ_BYTES]);
        }
    }
}

/* The process with the most workers; -1: none has any. */
static int32_t busiest_parent(const struct stk_profile *p)
{
    int32_t parent = -1;
    uint32_t most = 1;
    for (size_t i = 0; i < p->nprocs; i++)
        if (p->proc[i].worker > most) {
            most = p->proc[i].worker;
            parent = p->proc[i].parent;
        }
    return parent;
}

/* A worker of the process that has most. */
struct worker {
    uint32_t proc;
    double start_s, read_s; /* when it was started, and first read */
    const struct diet *diet;
};

static int by_start(const void *a, const void *b)
{
    const struct worker *x = a, *y = b;
    return x->start_s < y->start_s ? -1 : x->start_s > y->start_s;
}

/* first: for each process, when it first read since it started. */
static size_t list_workers(const struct stk_profile *p, const struct diet *diet,
                           const double *first, struct worker *w)
{
    int32_t parent = busiest_parent(p);
    size_t n = 0;
    for (size_t i = 0; i < p->nprocs; i++)
        if (parent >= 0 && p->proc[i].parent == parent && p->proc[i].worker)
            w[n++] = (struct worker){.proc = (uint32_t)i,
                                     .start_s = p->proc[i].start_s,
                                     .read_s = p->proc[i].start_s + first[i],
                                     .diet = &diet[i]};
    qsort(w, n, sizeof *w, by_start);
    return n;
}

/* A loader starts all its workers before any of them reads: later ones are those of another loader
 * (validation), or of the next epoch. Returns how many are started with the first. */
static size_t one_start(const struct worker *w, size_t n)
{
    double begins = n ? w[0].read_s : 0;
    size_t k = n > 0;
    for (; k < n && w[k].start_s <= begins; k++)
        begins = fmin(begins, w[k].read_s);
    return k;
}

static double bytes_of(const struct worker *w, size_t n)
{
    double bytes = 0;
    for (size_t i = 0; i < n; i++)
        bytes += w[i].diet->dir ? w[i].diet->bytes : 0;
    return bytes;
}

/* The workers of the start that reads most, and those in the same places of its other epochs, as
 * far as they read the same data. */
static void number_lanes(const struct stk_profile *p, const struct worker *w, size_t n,
                         struct lanes *l)
{
    const struct worker *most = w;
    size_t members = one_start(w, n), k;
    for (size_t i = members; i < n; i += k) {
        k = one_start(w + i, n - i);
        if (bytes_of(w + i, k) > bytes_of(most, members)) {
            most = w + i;
            members = k;
        }
    }
    const struct diet *main = NULL;
    for (size_t i = 0; i < members; i++)
        if (most[i].diet->dir && (!main || most[i].diet->bytes > main->bytes))
            main = most[i].diet;
    for (size_t i = 0; main && i < members; i++)
        if (same_diet(most[i].diet, main)) {
            l->who[l->n] = p->proc[most[i].proc].worker;
            l->unit[most[i].proc] = l->n++;
        }
    for (size_t i = 0; main && i < n; i += k) {
        k = one_start(w + i, n - i);
        for (size_t at = 0; k == members && at < k; at++)
            if (same_diet(w[i + at].diet, main))
                l->unit[w[i + at].proc] = l->unit[most[at].proc];
    }
}

/* The workers of one loader, over its epochs. Everything else shares the slot after them. */
static void workers_as_lanes(struct advisor *ad, struct lanes *l)
{
    const struct stk_profile *p = ad->p;
    struct diet *diet = calloc(p->nprocs + 1, sizeof *diet);
    struct worker *w = calloc(p->nprocs + 1, sizeof *w);
    double *first = calloc(p->nprocs + 1, sizeof *first);
    ad->nomem = ad->nomem || !diet || !w || !first;
    for (size_t i = 0; i < p->nprocs; i++)
        l->unit[i] = (uint32_t)p->nprocs;
    if (diet && w && first) {
        for (size_t i = 0; i < p->nprocs; i++)
            first[i] = INFINITY;
        for (size_t i = 0; i < p->nrecs; i++)
            if (p->rec[i].proc < p->nprocs && p->rec[i].n.c[STK_C_READS])
                first[p->rec[i].proc] = fmin(first[p->rec[i].proc],
                                             stk_ns(p->rec[i].n.c[STK_C_FIRST_READ_NS]));
        diets_of(ad, diet);
        number_lanes(p, w, list_workers(p, diet, first, w), l);
    }
    free(diet);
    free(w);
    free(first);
}

static void compare_lanes(struct advisor *ad, struct lanes *l, bool workers, bool writes)
{
    struct spread d;
    double sum = time_of(ad, l, writes);
    if (sum <= 0 || !spread_of(ad, l->s, l->bytes, l->n, &d))
        return;
    d.writes = writes;
    d.workers = workers;
    /* The rank that writes checkpoints is another matter: compare only equal work that takes
     * longer. */
    bool more = d.bytes_max > (1 + stk_limits.imbalance) * d.bytes_median;
    if (writes && (more || d.median <= 0))
        return;
    /* For ranks: the share of the run that their calls are worth. For workers: the share in which
     * they are waited for. */
    double scale = workers ? 1 - ad->hidden : stk_advice_wall(ad, sum) * l->n / sum;
    double gain = (d.max - d.median) * fmin(1, scale);
    if (d.max <= (more ? 1 + stk_limits.imbalance : stk_limits.straggler) * d.median ||
        stk_advice_share(ad, gain) < stk_limits.medium_share || !stk_advice_matters(ad, gain))
        return;
    if (d.median > 0 && d.bytes_median >= stk_limits.alone * d.bytes_max)
        imbalance_finding(ad, &d, l->who[d.at], gain);
    else if (!workers)
        alone_finding(ad, &d, l->who[d.at], gain);
}

/* Ranks with at least a tenth of the longest I/O time, but no fewer than needed to move all bytes
 * if each moves as much as the busiest: for a shared file, Darshan names only the slowest and the
 * fastest rank. */
static size_t count_busy(struct advisor *ad, double *longest)
{
    const struct stk_profile *p = ad->p;
    double *s = calloc(p->nunits + 1, sizeof *s), *bytes = calloc(p->nunits + 1, sizeof *bytes);
    double all = 0, most = 0;
    size_t n = 0;
    *longest = 0;
    ad->nomem = ad->nomem || !s || !bytes;
    for (size_t i = 0; s && bytes && i < p->nprocs; i++) {
        const struct stk_prof_proc *q = &p->proc[i];
        if (!q->world || q->unit >= p->nunits)
            continue;
        s[q->unit] += q->io_union_s;
        bytes[q->unit] += (double)q->read_bytes + (double)q->write_bytes;
        all += (double)q->read_bytes + (double)q->write_bytes;
        *longest = fmax(*longest, s[q->unit]);
        most = fmax(most, bytes[q->unit]);
    }
    for (size_t i = 0; s && i < p->nunits; i++)
        n += s[i] > stk_limits.busy_rank * *longest;
    free(s);
    free(bytes);
    return most > 0
               ? (size_t)fmax((double)n, fmin(ad->ranks, ceil(all / most - stk_limits.busy_rank)))
               : n;
}

static void few_actions(struct advisor *ad, struct stk_finding *f, const struct stk_usage *u)
{
    bool collective = false;
    for (size_t i = 0; i < ad->p->nrecs; i++)
        collective = collective || ad->p->rec[i].api == STK_API_MPIIO;
    if (!collective) {
        stk_advice_do(ad, f,
                      "Let each rank, or one per node, read and write its own part instead of "
                      "sending everything through a few.");
        stk_advice_act_all(ad, f,
                           (struct stk_action){.kind = STK_ACT_WRITE_ALL, .count = ad->ranks});
        return;
    }
    stk_advice_do(ad, f,
                  "MPI-IO lets a few ranks (aggregators) do the I/O of all; on Lustre, as many as "
                  "the file has stripes. Increase both.");
    stk_advice_act_all(
        ad, f, (struct stk_action){.kind = STK_ACT_AGGREGATORS, .count = stk_limits.spread});
    if (stk_advice_stripes(u))
        stk_advice_act(ad, f,
                       (struct stk_action){.kind = STK_ACT_STRIPE_NEW,
                                           .path = stk_advice_parent(ad, u->name),
                                           .count = stk_limits.spread});
}

/* A few of many ranks do the I/O: the wait of the mean rank then says nothing. */
static void few_ranks(struct advisor *ad)
{
    double longest;
    size_t n = count_busy(ad, &longest);
    if ((double)n > stk_limits.few_ranks * ad->ranks || !ad->a->nfiles ||
        !stk_advice_matters(ad, longest) ||
        stk_advice_share(ad, longest) < stk_limits.medium_share ||
        stk_advice_said(ad, STK_RULE_CHECKPOINT_LOCAL, NULL))
        return;
    const struct stk_usage *u = &ad->a->file[0];
    struct stk_finding *f = stk_advice_begin(ad, STK_RULE_IMBALANCE, STK_SEV_LOW,
                                             n == 1 ? "%zu of %u ranks does the I/O of all"
                                                    : "about %zu of %u ranks do the I/O of all",
                                             n, ad->ranks);
    stk_advice_say(ad, f,
                   "%s spends most time in I/O: %s, %s of the run; the mean of all ranks "
                   "is %s.",
                   stk_advice_rank(ad, ad->longest), stk_advice_time(ad, longest),
                   stk_advice_percent(ad, stk_advice_share(ad, longest)),
                   stk_advice_time(ad, ad->io_wall_s));
    stk_advice_say(ad, f, "Most of the time goes to %s.", stk_advice_show(ad, u->name));
    stk_advice_number(ad, f, "busy_ranks", (double)n, "count");
    stk_advice_number(ad, f, "ranks", ad->ranks, "count");
    stk_advice_number(ad, f, "max_s", longest, "s");
    stk_advice_path(ad, f, u->name);
    few_actions(ad, f, u);
    stk_advice_gain(ad, f, 0,
                    "Depends on how many requests the storage can serve at once: try it.");
}

void stk_rule_imbalance(struct advisor *ad)
{
    size_t before = ad->out->nfindings;
    size_t n = ad->p->nprocs + 1;
    for (int turn = 0; turn < 3; turn++) { /* reads of ranks, of workers; writes of ranks */
        bool workers = turn == 1, writes = turn == 2;
        if (writes && ad->out->nfindings > before)
            break;
        struct lanes l = {.s = calloc(n, sizeof(double)),
                          .bytes = calloc(n, sizeof(double)),
                          .unit = calloc(n, sizeof(uint32_t)),
                          .who = calloc(n, sizeof(uint32_t))};
        ad->nomem = ad->nomem || !l.s || !l.bytes || !l.unit || !l.who;
        if (!ad->nomem && (workers || ad->ranks >= 2)) {
            if (workers)
                workers_as_lanes(ad, &l);
            else
                ranks_as_lanes(ad->p, &l);
            compare_lanes(ad, &l, workers, writes);
        }
        free(l.s);
        free(l.bytes);
        free(l.unit);
        free(l.who);
    }
    if (ad->out->nfindings == before && ad->ranks > 1)
        few_ranks(ad);
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
        const struct stk_storage *st = stk_advice_storage(ad, u);
        struct stk_work one = {.requests = 1, .bytes = (double)stk_size_edge[7]};
        double due = stk_limits.slow_for_size * stk_work_s(st, &one);
        if (stk_ns(u->n.c[STK_C_MAX_READ_NS]) < due &&
            u->mean_read_bytes > (double)stk_size_edge[6])
            continue;
        double here = 0;
        for (int b = 30; b < STK_LATENCY_BINS; b++) { /* from 2^30 ns, about a second */
            slow += u->n.read_latency[b];
            here += u->n.read_latency[b] * exp2(b + 0.5) * 1e-9; /* the middle of the bin */
        }
        slow_s += fmin(here, u->read_s);
        if (here > 0 && (!worst || u->n.c[STK_C_MAX_READ_NS] > worst->n.c[STK_C_MAX_READ_NS]))
            worst = u;
    }
    double gain = stk_advice_wall(ad, slow_s);
    double reads = (double)ad->a->job.n.c[STK_C_READS];
    if (!worst || slow > stk_limits.slow_reads * reads ||
        stk_advice_share(ad, gain) < stk_limits.medium_share || !stk_advice_matters(ad, gain))
        return;
    struct stk_finding *f =
        stk_advice_begin(ad, STK_RULE_SLOW_REQUESTS, stk_advice_severity(ad, gain),
                         "%s of %s reads took longer than a second", stk_advice_count(ad, slow),
                         stk_advice_count(ad, reads));
    stk_advice_say(ad, f, "Together they took about %s; half of all reads took less than %s.",
                   stk_advice_thread_time(ad, slow_s),
                   stk_advice_time(ad, ad->a->job.latency_p50_s));
    stk_advice_say(ad, f, "The longest, %s, was of %s.",
                   stk_advice_time(ad, stk_ns(worst->n.c[STK_C_MAX_READ_NS])),
                   stk_advice_show(ad, worst->name));
    stk_advice_number(ad, f, "slow_reads", slow, "count");
    stk_advice_number(ad, f, "slow_s", slow_s, "s");
    stk_advice_number(ad, f, "max_read_s", stk_ns(worst->n.c[STK_C_MAX_READ_NS]), "s");
    stk_advice_path(ad, f, worst->name);
    stk_advice_do(ad, f,
                  "Storage stalls now and then: read further ahead to hide stalls, and report the "
                  "file and the time to your site.");
    stk_advice_act_all(ad, f, (struct stk_action){.kind = STK_ACT_SHOW_STRIPES});
    stk_advice_gain(ad, f, gain, "The time in reads of a second or more.");
}

/* ---- accelerator-waits ---- */

struct idle {
    double idle, with_io, all, first_s, last_s;
};

/* Readings after the accelerator first worked: before that it could not wait for data. */
static struct idle watch_gpu(const struct advisor *ad)
{
    const struct stk_profile *p = ad->p;
    struct idle w = {.first_s = -1};
    bool worked = false;
    for (size_t i = 0; i < p->nreadings; i++) {
        const struct stk_prof_reading *s = &p->reading[i];
        if (s->gpu_util < 0)
            continue;
        worked = worked || s->gpu_util >= STK_GPU_IDLE;
        if (!worked)
            continue;
        w.all++;
        if (s->gpu_util >= STK_GPU_IDLE)
            continue;
        w.idle++;
        /* In the second before the reading, calls were in progress for at least a tenth of the
         * time. */
        if (stk_analysis_between(p, s->at_s - 1, s->at_s, NULL) < STK_GPU_IDLE)
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
    if (w.with_io < (double)stk_limits.least_idle || share < stk_limits.medium_share ||
        !stk_advice_matters(ad, gain))
        return;
    struct stk_finding *f =
        stk_advice_begin(ad, STK_RULE_ACCELERATOR_WAITS, stk_advice_severity(ad, gain),
                         "the accelerator is idle %s of the time while data is "
                         "read",
                         stk_advice_percent(ad, share));
    stk_advice_say(ad, f,
                   "In %s of %s samples the GPU was less than 10 %% busy; in %s of them data was "
                   "being read.",
                   stk_advice_count(ad, w.idle), stk_advice_count(ad, w.all),
                   stk_advice_count(ad, w.with_io));
    stk_advice_say(ad, f, "First at %s, last at %s of the run; its mean utilisation is %s.",
                   stk_advice_time(ad, w.first_s), stk_advice_time(ad, w.last_s),
                   stk_advice_percent(ad, ad->a->gpu_util_mean));
    stk_advice_number(ad, f, "idle_with_io", share, "share");
    stk_advice_number(ad, f, "gpu_util_mean", ad->a->gpu_util_mean, "share");
    const char *other = ad->out->nfindings > 1 ? ad->out->finding[0].id : NULL;
    if (other)
        stk_advice_do(ad, f, "The other findings say what it waits for: begin with %s.", other);
    else
        stk_advice_do(ad, f,
                      "Read ahead and in parallel, so that data is ready when it is needed: more "
                      "workers, a larger prefetch_factor, or stoker's loader.");
    stk_advice_act(ad, f,
                   (struct stk_action){.kind = STK_ACT_PREFETCH,
                                       .count = stk_limits.feed_workers,
                                       .depth = stk_limits.ahead_batches / stk_limits.feed_workers,
                                       .bytes = stk_limits.ahead_bytes,
                                       .pinned = true});
    stk_advice_gain(ad, f, gain, "%s of the run, if the accelerator never waited for data.",
                    stk_advice_percent(ad, share));
}
