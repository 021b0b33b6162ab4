/*
 * cost.c - the arithmetic of staging. D bytes, N nodes, r copies; B of the source for all nodes, b
 * for one, W and R of a target, F of the fabric:
 *
 *     each node alone   max(N D / B, D / b, D / W)
 *     read once         max(D / B, D / (N b), D / F, D / W)
 *     sharded           max(D / B, D / (N b), (r - 1) D / (N F), r D / (N W))
 *
 * or the time that its files take, if that is longer (model/work.h). An epoch reads each sample
 * once, all nodes together.
 */
#include "stage/cost.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "host/fs.h"
#include "model/measure.h"

const char *stk_cost_way_name(enum stk_cost_way way)
{
    static const char *const names[] = {"each node alone", "read once, then spread", "sharded"};
    return names[way];
}

const char *stk_cost_verdict_name(enum stk_cost_verdict v)
{
    static const char *const names[] = {"pays", "unknown", "local", "cached",
                                        "few",  "slower",  "idle"};
    return names[v];
}

/* ---- seconds ------------------------------------------------------------------------------ */

/* As many threads as the storage was measured with: what more of them would gain is not known. */
#define LANES STK_MEASURE_READERS

double stk_cost_file_s(const struct stk_storage *st)
{
    return (st->open_s + st->latency_s) / LANES;
}

static struct stk_work read_work(double bytes, double files)
{
    return (struct stk_work){.opens = files, .requests = files, .bytes = bytes, .lanes = LANES};
}

/* One of n nodes that do the same. */
static double read_s(const struct stk_storage *st, double bytes, double files, double n)
{
    struct stk_work w = read_work(bytes, files);
    w.clients = n;
    return stk_work_s(st, &w);
}

static double write_s(const struct stk_storage *st, double bytes, double files)
{
    struct stk_work w = {.creates = files, .written = bytes, .lanes = LANES};
    return stk_work_s(st, &w);
}

struct parts {
    double source_least, source_most, fabric, target;
};

static struct stk_cost_time slowest(const struct parts *p)
{
    struct stk_cost_time t = {NAN, NAN, NULL};
    if (isnan(p->source_least) || isnan(p->fabric) || isnan(p->target))
        return t;
    double rest = fmax(p->fabric, p->target);
    t.least_s = fmax(p->source_least, rest);
    t.most_s = fmax(p->source_most, rest);
    t.wall = p->source_most >= rest ? "source" : p->fabric > p->target ? "fabric" : "target";
    return t;
}

static unsigned nodes_of(const struct stk_cost_case *c)
{
    return c->nodes ? c->nodes : 1;
}

/* Each node reads these bytes. If the rate for all nodes is unknown, they may have to share the
 * rate of one. */
static void source_time(const struct stk_cost_case *c, double bytes, double files, struct parts *p)
{
    struct stk_storage shared = c->source;
    shared.all_Bps = shared.all_Bps > 0 ? shared.all_Bps : shared.read_Bps;
    p->source_least = read_s(&c->source, bytes, files, nodes_of(c));
    p->source_most = read_s(&shared, bytes, files, nodes_of(c));
}

/* Copies of each file in the sharded way: never more than nodes. */
static double copies_of(const struct stk_cost_case *c)
{
    unsigned r = c->copies ? c->copies : 1, n = nodes_of(c);
    return r < n ? r : n;
}

static void compute_ways(const struct stk_cost_case *c, struct stk_cost *out)
{
    double D = (double)c->bytes, files = (double)c->files, n = nodes_of(c), k = copies_of(c);
    struct stk_storage fabric = {.read_Bps = c->fabric_Bps};
    struct parts p = {.target = write_s(&c->target, D, files)};
    source_time(c, D, files, &p);
    out->way[STK_COST_NAIVE] = slowest(&p);
    out->way[STK_COST_ONCE] = out->way[STK_COST_SHARD] = (struct stk_cost_time){NAN, NAN, NULL};
    if (nodes_of(c) == 1)
        return;
    source_time(c, D / n, files / n, &p);
    p.fabric = read_s(&fabric, D * (n - 1) / n, 0, 1);
    out->way[STK_COST_ONCE] = slowest(&p);
    p.fabric = read_s(&fabric, (k - 1) * D / n, 0, 1);
    p.target *= k / n;
    out->way[STK_COST_SHARD] = slowest(&p);
}

static void choose_way(struct stk_cost *out)
{
    out->best = STK_COST_NAIVE;
    for (int i = 1; i < STK_COST_WAYS; i++) {
        double best = out->way[out->best].most_s, s = out->way[i].most_s;
        if (!isnan(s) && (isnan(best) || s < best))
            out->best = (enum stk_cost_way)i;
    }
}

/* ---- epochs ------------------------------------------------------------------------------- */

/*
 * The share of a later epoch's reads that a cache of x of the data answers, if it drops the page
 * that was not used for longest and each epoch has a new random order. Between the reads of a
 * sample at u before the end of one epoch and at v of the next (both uniform in 0..1), 1 -
 * (1-u)(1-v) of the data is read; the sample is still there if that is less than x.
 */
static double lru_share(double x)
{
    return x >= 1 ? 1 : x <= 0 ? 0 : x + (1 - x) * log(1 - x);
}

/* Reading at `Bps` per node takes at least as long as the training needs for the data. */
static double epoch_s(const struct stk_cost_case *c, double share, const struct stk_storage *st)
{
    struct stk_work w =
        c->epoch.bytes > 0 ? c->epoch : read_work((double)c->bytes, (double)c->files);
    double compute = c->need_Bps > 0 ? (double)c->bytes / c->need_Bps : 0;
    w.clients = nodes_of(c);
    stk_work_scale(&w, share / w.clients);
    double s = stk_work_s(st, &w);
    return c->in_turn ? s + compute : stk_slower(s, compute);
}

static void compute_epochs(const struct stk_cost_case *c, struct stk_cost *out)
{
    double data = (double)c->bytes;
    out->cached_share = c->cache_bytes && c->bytes ? lru_share((double)c->cache_bytes / data) : NAN;
    double read = isnan(out->cached_share) ? 1 : 1 - out->cached_share;
    out->first_epoch_s = epoch_s(c, 1, &c->source);
    out->source_epoch_s = epoch_s(c, read, &c->source);
    out->target_epoch_s = epoch_s(c, read, &c->target);
    out->saved_s = out->source_epoch_s - out->target_epoch_s;
}

/* Without staging: first + (E - 1) source. With: the copy, then E target; in the background the
 * first epoch reads the source, beside the copy. The smallest E for which staging is ahead. */
static void compute_pay(const struct stk_cost_case *c, struct stk_cost *out)
{
    double copy = out->way[out->best].most_s, first = out->first_epoch_s;
    double lead = c->background ? fmax(copy, first) - first : copy + out->target_epoch_s - first;
    out->pays_after = NAN;
    if (isnan(lead) || isnan(out->saved_s))
        return;
    if (lead < 0)
        out->pays_after = 1;
    else if (out->saved_s <= 0)
        out->pays_after = INFINITY;
    else
        out->pays_after = floor(lead / out->saved_s) + 2;
}

/* ---- words -------------------------------------------------------------------------------- */

#define SLIGHT 0.05 /* a share of an epoch that is not worth a copy, nor known that well */

static const char *missing_rate(const struct stk_cost_case *c)
{
    return !(c->source.read_Bps > 0)    ? "the source is read"
           : !(c->target.write_Bps > 0) ? "the target is written"
           : !(c->target.read_Bps > 0)  ? "the target is read"
                                        : "something";
}

static void judge_slow(const struct stk_cost_case *c, struct stk_cost *out)
{
    char a[32], b[32];
    (void)stk_format_duration(out->source_epoch_s, a, sizeof a);
    (void)stk_format_duration(out->target_epoch_s, b, sizeof b);
    double free_s = c->need_Bps > 0 ? (double)c->bytes / c->need_Bps : 0;
    if (free_s > 0 && out->source_epoch_s <= free_s * (1 + SLIGHT)) {
        out->verdict = STK_COST_IDLE;
        snprintf(out->reason, sizeof out->reason,
                 "it will not pay: the source delivers what the training consumes (%s per epoch)",
                 a);
        return;
    }
    out->verdict = STK_COST_SLOWER;
    snprintf(out->reason, sizeof out->reason,
             "it will not pay: an epoch takes %s from the source and %s from the copy", a, b);
}

static void judge_few(const struct stk_cost_case *c, struct stk_cost *out)
{
    char n[32], m[32];
    out->verdict = STK_COST_FEW;
    snprintf(out->reason, sizeof out->reason, "it will not pay: %s epoch%s, and it takes %s",
             stk_format_count(c->epochs, n, sizeof n), c->epochs == 1 ? "" : "s",
             stk_format_count((uint64_t)fmin(out->pays_after, 1e18), m, sizeof m));
}

static void judge_good(struct stk_cost *out)
{
    char n[32], s[32];
    out->verdict = STK_COST_PAYS;
    (void)stk_format_count((uint64_t)out->pays_after, n, sizeof n);
    (void)stk_format_duration(fmax(out->saved_s, 0), s, sizeof s);
    if (out->pays_after <= 1)
        snprintf(out->reason, sizeof out->reason,
                 "it pays within the first epoch, and saves %s per further epoch", s);
    else
        snprintf(out->reason, sizeof out->reason, "it pays after %s epochs, and saves %s per epoch",
                 n, s);
}

static void judge(const struct stk_cost_case *c, struct stk_cost *out)
{
    char a[32], b[32];
    if (c->source_local) {
        out->verdict = STK_COST_LOCAL;
        snprintf(out->reason, sizeof out->reason,
                 "it will not pay: the source is on this node already");
    } else if (out->cached_share >= 1 && !(out->pays_after <= 1)) {
        out->verdict = STK_COST_CACHED;
        snprintf(out->reason, sizeof out->reason,
                 "it will not pay: the page cache (%s) holds the data (%s) after the first epoch",
                 stk_format_size(c->cache_bytes, a, sizeof a),
                 stk_format_size(c->bytes, b, sizeof b));
    } else if (isnan(out->pays_after)) {
        out->verdict = STK_COST_UNKNOWN;
        snprintf(out->reason, sizeof out->reason,
                 "not known whether it pays: how fast %s is not known", missing_rate(c));
    } else if (out->saved_s <= out->source_epoch_s * SLIGHT && out->pays_after > 1) {
        judge_slow(c, out);
    } else if (c->epochs && (double)c->epochs < out->pays_after) {
        judge_few(c, out);
    } else {
        judge_good(out);
    }
}

void stk_cost_compute(const struct stk_cost_case *c, struct stk_cost *out)
{
    *out = (struct stk_cost){0};
    compute_ways(c, out);
    choose_way(out);
    compute_epochs(c, out);
    compute_pay(c, out);
    judge(c, out);
}

/* ---- from a profile ------------------------------------------------------------------------ */

static bool is_below(const char *name, const char *path)
{
    size_t n = strlen(path);
    return strncmp(name, path, n) == 0 && (name[n] == '/' || !name[n]);
}

/* Calls of a node that are under way together, while any is. */
static double lanes_of(const struct stk_analysis *a)
{
    double any_s = a->io_share_merged * a->p->run_s;
    double nodes = a->p->nhosts ? (double)a->p->nhosts : 1;
    double ranks = a->p->nranks ? a->p->nranks : 1;
    return fmax(1, (any_s > 0 ? a->job.io_s / any_s : ranks) / nodes);
}

bool stk_cost_take_profile(const struct stk_analysis *a, const char *path, struct stk_cost_case *c)
{
    struct stk_work all = {0};
    double bytes = 0;
    const char *fs = NULL;
    for (size_t i = 0; i < a->nfiles; i++)
        if (is_below(a->file[i].name, path)) {
            bytes += (double)a->file[i].n.c[STK_C_READ_BYTES];
            fs = fs ? fs : a->file[i].fs; /* that with the most time */
            struct stk_work one = stk_work_of(&a->file[i]);
            stk_work_add(&all, &one);
        }
    if (!(bytes > 0) || !fs)
        return false;
    const struct stk_fs *known = stk_fs_by_name(fs);
    struct stk_storage st =
        stk_storage_fit(a, fs, known ? stk_reach_of(known) : STK_REACH_UNKNOWN);
    if (st.read_measured)
        c->source.read_Bps = st.read_Bps;
    if (st.latency_measured) {
        c->source.open_s = st.open_s;
        c->source.latency_s = st.latency_s;
    }
    /* It may be of several epochs, or of a part of one. */
    stk_work_scale(&all, (double)c->bytes / bytes);
    c->epoch = all;
    c->epoch.lanes = lanes_of(a);
    c->in_turn = a->loop.how == STK_LOOP_READS;
    if (stk_compute_of(a) > 0)
        c->need_Bps = bytes / stk_compute_of(a);
    return true;
}
