/* plan.c - see plan.h. */
#include "bench/plan.h"


static uint64_t key_of(const struct stk_workload *w, uint64_t a, uint64_t b)
{
    return stk_mix64(w->dataset.seed ^ stk_mix64(a + STK_GOLDEN64 * (b + 1)));
}

uint64_t stk_bench_record(const struct stk_workload *w, struct stk_bench_place at)
{
    double v = stk_dist_at(&w->dataset.record, key_of(w, at.file, at.index));
    bool drawn = w->dataset.record.kind != STK_DIST_CONSTANT;
    return v < 1 ? 1 : drawn && v > 4294967296.0 ? 4294967296u : (uint64_t)v;
}

double stk_bench_compute(const struct stk_workload *w, uint64_t rank, uint64_t step)
{
    return stk_dist_at(&w->training.compute, key_of(w, ~rank, step));
}

double stk_bench_think(const struct stk_workload *w, uint64_t serial)
{
    return stk_dist_at(&w->reader.think, key_of(w, serial, 4));
}

static uint64_t batches(const struct stk_workload *w, uint64_t samples)
{
    uint64_t batch = w->training.batch;
    return samples / batch + (w->training.last == STK_TAIL_KEEP && samples % batch);
}

uint64_t stk_bench_plan_batch(const struct stk_bench_plan *p, uint64_t batch)
{
    uint64_t full = p->w->training.batch, step = batch % p->steps;
    bool cut = p->w->training.last == STK_TAIL_KEEP && p->epoch_samples &&
               (step + 1) * full > p->epoch_samples;
    return cut ? p->epoch_samples - step * full : full;
}

uint64_t stk_bench_plan_serial(const struct stk_bench_plan *p, uint64_t batch, uint64_t i)
{
    uint64_t full = p->w->training.batch, epoch = batch / p->steps, step = batch % p->steps;
    uint64_t each = (p->steps - 1) * full + stk_bench_plan_batch(p, p->steps - 1);
    return (epoch * p->ranks + p->rank) * each + step * full + i;
}

/* ---- shares --------------------------------------------------------------------------------- */

static void share_files(struct stk_bench_plan *p)
{
    const struct stk_workload *w = p->w;
    uint64_t least = w->dataset.files / p->ranks;
    p->files = least + (p->rank < w->dataset.files % p->ranks);
    p->lanes = p->lanes > least ? least : p->lanes;
    p->count = p->files * w->dataset.samples_per_file;
    p->epoch_samples = least * w->dataset.samples_per_file;
}

/* All ranks know the samples of all others: they use the same, or some read for all. */
static bool has_one_order(const struct stk_workload *w)
{
    return w->access.offsets == STK_OFFSETS_SAME || w->access.sharing == STK_SHARING_COLLECTIVE;
}

static void share_samples(struct stk_bench_plan *p)
{
    bool same = has_one_order(p->w);
    uint64_t part = p->total / p->ranks;
    p->first = same ? 0 : p->rank * part;
    p->count = same ? p->total : part;
    p->epoch_samples = part;
    /* A stream is read from the start of the file: threads would all read the same bytes. */
    p->lanes = stk_bench_is_stream(p->w->dataset.format) ? 1 : p->lanes;
}

static int count_steps(struct stk_bench_plan *p, struct stk_err *err)
{
    const struct stk_workload *w = p->w;
    unsigned long long asked = w->training.steps, batch = w->training.batch;
    bool reads = w->dataset.format != STK_BENCH_NONE && w->reader.load != STK_LOAD_NEVER;
    if (w->training.scaling == STK_SCALING_WEAK)
        p->epoch_samples = p->total;
    p->steps = batches(w, p->epoch_samples);
    if (!reads || (asked && w->training.scaling == STK_SCALING_WEAK)) {
        p->steps = asked;
        return 0;
    }
    if (p->steps == 0)
        return stk_err_set(err, STK_E_USAGE, w->path, -1,
                           "training.batch: %llu rank%s with %llu samples per step need more than "
                           "the %llu samples of the dataset",
                           (unsigned long long)p->ranks, p->ranks == 1 ? "" : "s", batch,
                           (unsigned long long)p->total);
    if (asked > p->steps)
        return stk_err_set(err, STK_E_USAGE, w->path, -1,
                           "training.steps: %llu, but the data gives %llu per epoch with %llu "
                           "rank%s; use training.epochs, or training.scaling: weak",
                           asked, (unsigned long long)p->steps, (unsigned long long)p->ranks,
                           p->ranks == 1 ? "" : "s");
    if (asked)
        p->steps = asked;
    return 0;
}

/* The data for evaluation must be enough for the ranks, too. */
static int check_eval(const struct stk_workload *w, uint64_t rank, uint64_t ranks,
                      struct stk_err *err)
{
    struct stk_workload eval;
    struct stk_bench_plan plan;
    if (!w->training.eval_every)
        return 0;
    stk_workload_eval(w, &eval);
    int rc = stk_bench_plan(&plan, &eval, rank, ranks, err);
    return rc ? stk_err_wrap(err, rc, "training.eval_every: the evaluation") : 0;
}

int stk_bench_plan(struct stk_bench_plan *p, const struct stk_workload *w, uint64_t rank,
                   uint64_t ranks, struct stk_err *err)
{
    *p = (struct stk_bench_plan){.w = w, .rank = rank, .ranks = ranks};
    p->lanes = w->reader.threads ? w->reader.threads : 1;
    p->total = w->dataset.files * w->dataset.samples_per_file;
    bool reads = w->dataset.format != STK_BENCH_NONE;
    bool own = w->access.sharing == STK_SHARING_OWN;
    if (reads && own && w->reader.load != STK_LOAD_NEVER && w->dataset.files < ranks)
        return stk_err_set(err, STK_E_USAGE, w->path, -1,
                           "access.sharing: \"own\" needs a file per rank, and dataset.files is "
                           "%llu for %llu ranks; use more files, or access.sharing: shared",
                           (unsigned long long)w->dataset.files, (unsigned long long)ranks);
    if (w->access.sharing == STK_SHARING_COLLECTIVE && ranks % w->access.readers)
        return stk_err_set(err, STK_E_USAGE, w->path, -1,
                           "access.readers: %llu does not divide %llu ranks",
                           (unsigned long long)w->access.readers, (unsigned long long)ranks);
    if (own && w->dataset.files >= ranks)
        share_files(p);
    else
        share_samples(p);
    int rc = count_steps(p, err);
    rc = rc ? rc : stk_model_check(w, ranks, err);
    if (rc == 0 && w->training.warmup + w->training.cooldown >= p->steps * w->training.epochs)
        rc = stk_err_set(err, STK_E_USAGE, w->path, -1,
                         "training.%s: leaves none of the %llu steps to measure",
                         w->training.cooldown ? "cooldown" : "warmup",
                         (unsigned long long)(p->steps * w->training.epochs));
    if (rc == 0)
        stk_bench_plan_epoch(p, 0);
    return rc ? rc : check_eval(w, rank, ranks, err);
}

void stk_bench_plan_epoch(struct stk_bench_plan *p, uint64_t epoch)
{
    bool same = has_one_order(p->w);
    p->epoch = epoch;
    epoch = p->w->access.reshuffle ? epoch : 0;
    stk_perm_init(&p->file_perm, p->w->dataset.files, key_of(p->w, epoch, 1));
    stk_perm_init(&p->sample_perm, p->count ? p->count : 1,
                  key_of(p->w, epoch, 2 + (same ? 0 : p->rank)));
}

/* ---- places --------------------------------------------------------------------------------- */

static uint64_t mix_file(const struct stk_bench_plan *p, uint64_t file)
{
    int mix = p->w->access.shuffle;
    return mix == STK_MIX_FILES || mix == STK_MIX_BOTH ? stk_perm_at(&p->file_perm, file) : file;
}

/* The sample at position i of a shuffled order, which may be sorted within runs. */
static uint64_t mix_sample(const struct stk_bench_plan *p, uint64_t i)
{
    uint64_t most = p->w->access.sorted, run[STK_SORTED_MAX], n = 0;
    if (most < 2)
        return stk_perm_at(&p->sample_perm, i);
    uint64_t from = i - i % most;
    for (; n < most && from + n < p->count; n++) {
        uint64_t v = stk_perm_at(&p->sample_perm, from + n), at = n;
        for (; at && run[at - 1] > v; at--)
            run[at] = run[at - 1];
        run[at] = v;
    }
    return run[i - from];
}

/* Position i of the rank's own order, 0 to count - 1, as a place. Samples are mixed over all that
 * the rank reads; in a stream, in memory only. */
static struct stk_bench_place place_of(const struct stk_bench_plan *p, uint64_t i)
{
    const struct stk_workload *w = p->w;
    uint64_t per_file = w->dataset.samples_per_file;
    bool mix = (w->access.shuffle == STK_MIX_SAMPLES || w->access.shuffle == STK_MIX_BOTH) &&
               !stk_bench_is_stream(w->dataset.format);
    i = mix ? mix_sample(p, i) : i;
    if (p->files)
        return (struct stk_bench_place){mix_file(p, p->rank + i / per_file * p->ranks),
                                        i % per_file};
    i += p->first;
    return (struct stk_bench_place){mix_file(p, i / per_file), i % per_file};
}

/* Sample n of a lane that has its own files: every `lanes`th file of the rank. */
static uint64_t own_position(const struct stk_bench_plan *p, uint64_t lane, uint64_t n)
{
    uint64_t per_file = p->w->dataset.samples_per_file;
    uint64_t mine = (p->files - lane + p->lanes - 1) / p->lanes;
    uint64_t file = lane + p->lanes * (n / per_file % mine);
    return file * per_file + n % per_file;
}

static uint64_t random_start(const struct stk_bench_plan *p, uint64_t step)
{
    uint64_t rank = has_one_order(p->w) ? 0 : p->rank;
    return key_of(p->w, step ^ p->epoch << 40, 3 + rank) % p->count;
}

struct stk_bench_place stk_bench_plan_at(const struct stk_bench_plan *p, uint64_t lane, uint64_t n)
{
    const struct stk_workload *w = p->w;
    uint64_t batch = w->training.batch, step = lane + p->lanes * (n / batch);
    if (w->access.order == STK_ORDER_RANDOM_START)
        return place_of(p, (random_start(p, step) + n % batch) % p->count);
    if (p->files && stk_bench_is_stream(w->dataset.format))
        return place_of(p, own_position(p, lane, n));
    return place_of(p, (step * batch + n % batch) % p->count);
}

uint64_t stk_bench_plan_together(const struct stk_bench_plan *p)
{
    bool same = p->w->access.offsets == STK_OFFSETS_SAME;
    return p->w->training.batch * (same ? 1 : p->ranks);
}

struct stk_bench_place stk_bench_plan_shared(const struct stk_bench_plan *p, uint64_t step,
                                             uint64_t n)
{
    bool jumps = p->w->access.order == STK_ORDER_RANDOM_START;
    uint64_t start = jumps ? random_start(p, step) : step * stk_bench_plan_together(p);
    return place_of(p, (start + n) % p->count);
}

uint64_t stk_bench_plan_all(const struct stk_bench_plan *p)
{
    return p->count;
}

struct stk_bench_place stk_bench_plan_load(const struct stk_bench_plan *p, uint64_t n)
{
    return place_of(p, n);
}
