/*
 * reads.c - rules about requests: too small, in random order, one at a time.
 */
#include <math.h>
#include <string.h>

#include "advice/priv.h"
#include "analysis/parts.h"

/* Sums over those files of one format that a rule covers. */
struct tally {
    const char *format;
    double reads, bytes, distinct, read_s, meta_s, files, consec, random, jumps;
    double unpack_s; /* of the library, beside its reads */
    struct stk_work work;
    const struct stk_usage *first; /* most time */
    size_t nfiles;
    double size;
};

static void tally_add(const struct advisor *ad, struct tally *t, const struct stk_usage *u)
{
    t->reads += (double)u->n.c[STK_C_READS];
    t->bytes += (double)u->n.c[STK_C_READ_BYTES];
    t->distinct += (double)u->distinct_bytes;
    t->read_s += u->read_s;
    t->unpack_s += stk_advice_unpack_s(ad, u);
    struct stk_work reads = stk_work_of(u);
    reads.opens = reads.asks = 0;
    stk_work_add(&t->work, &reads);
    t->meta_s += u->meta_s;
    t->files += (double)u->files_read;
    t->consec += u->consec * (double)u->n.c[STK_C_READS];
    t->random += u->random * (double)u->n.c[STK_C_READS];
    t->jumps += stk_kind_jumps(u);
    t->size += (double)u->size_bytes;
    if (!t->first)
        t->first = u;
    t->nfiles++;
}

typedef bool (*chosen_fn)(const struct advisor *, const struct stk_usage *);

static struct tally tally_format(const struct advisor *ad, const char *format, chosen_fn chosen)
{
    struct tally t = {.format = format};
    const struct stk_usage *u;
    for (size_t at = 0; (u = stk_files_of(ad->a, format, &at));)
        if (chosen(ad, u))
            tally_add(ad, &t, u);
    return t;
}

static void name_files(struct advisor *ad, struct stk_finding *f, const char *format,
                       chosen_fn chosen)
{
    const struct stk_usage *u;
    for (size_t at = 0; (u = stk_files_of(ad->a, format, &at));)
        if (chosen(ad, u))
            stk_advice_path(ad, f, u->name);
}

static const char *about(struct advisor *ad, const struct tally *t)
{
    if (t->nfiles == 1 && t->files <= 1)
        return stk_advice_show(ad, t->first->name);
    return stk_advice_text(ad, "%s %s files", stk_advice_count(ad, t->files),
                           *t->format ? t->format : "other");
}

/* ---- in what order ---- */

/* Interleaved streams also jump, but by few distances. */
static bool few_strides(const struct stk_usage *u)
{
    uint64_t known = 0, jumps = u->n.c[STK_C_READS] - u->n.c[STK_C_CONSEC_READS];
    for (int i = 0; i < STK_COMMON; i++)
        known += u->n.stride[i].count;
    return known * 2 > jumps;
}

/* Pieces (data read without a jump; a sample may take a few reads, as in a zip) lie apart, and a
 * share of the jumps go back. In random order, half of them do. */
static bool is_random(const struct advisor *ad, const struct stk_usage *u)
{
    (void)ad;
    double jumps = stk_kind_jumps(u), back = u->random * (double)u->n.c[STK_C_READS];
    return jumps >= (double)stk_limits.least_of_file && u->random >= stk_limits.random / 2 &&
           (double)u->n.c[STK_C_READ_BYTES] / jumps < (double)stk_limits.unit_read &&
           back >= stk_limits.random * jumps && !few_strides(u) && !stk_kind_model(u) &&
           stk_per((double)u->n.c[STK_C_READ_BYTES], u->files_read) >
               (double)stk_limits.stats_file &&
           !stk_kind_whole(u);
}

/* ---- small-reads ---- */

/* Read time through C streams is not the time of the requests that storage sees. */
static bool through_streams(const struct advisor *ad, const struct stk_usage *u)
{
    uint64_t stdio = 0;
    for (size_t i = u->rec_from; i < u->rec_to; i++)
        if (ad->p->rec[i].api == STK_API_STDIO)
            stdio += ad->p->rec[i].n.c[STK_C_READS];
    return stdio > u->n.c[STK_C_READS] / 2;
}

static bool is_small(const struct advisor *ad, const struct stk_usage *u)
{
    return u->n.c[STK_C_READS] >= stk_limits.least_of_file && u->mean_read_bytes > 0 &&
           u->mean_read_bytes <= (double)stk_limits.small_read && !stk_kind_whole(u) &&
           !stk_kind_table(u) && !stk_kind_model(u) &&
           stk_per((double)u->n.c[STK_C_READ_BYTES], u->files_read) >
               (double)stk_limits.stats_file &&
           !through_streams(ad, u);
}

static void small_reads_actions(struct advisor *ad, struct stk_finding *f, const struct tally *t)
{
    struct stk_action a = {.use = t->first->use};
    if (stk_kind_library(t->first) && !a.use->batch_read) {
        a = stk_advice_library(ad, t->first, t->size);
        stk_advice_do(ad, f,
                      "The library that reads it chooses the requests: let it read more at a time, "
                      "or keep the data in memory.");
    } else if (a.use->batch_read) {
        a.kind = STK_ACT_BATCH_READS;
        stk_advice_do(ad, f,
                      "Read a whole batch with one slice instead of sample by sample, or pack the "
                      "file so that a loader can fetch megabytes at a time.");
    } else if (t->first->ranks > 1 && few_strides(t->first)) {
        a.kind = STK_ACT_PARTS;
        a.count = t->first->ranks;
        stk_advice_do(ad, f,
                      "Every rank reads each n-th record: give each rank a contiguous part of the "
                      "file, and read that in requests of megabytes; or read collectively.");
    } else if (is_random(ad, t->first) || t->random >= stk_limits.random * t->reads) {
        /* A large buffer would be refilled for each read. */
        a.kind = STK_ACT_SORT_READS;
        stk_advice_do(ad, f,
                      "Sort the samples of a batch by offset and fetch neighbours with one read "
                      "of megabytes, as a loader that shuffles blocks does.");
    } else {
        a.kind = STK_ACT_LARGER_READS;
        a.bytes = stk_limits.big_read;
        stk_advice_do(ad, f,
                      "Read 1 to 4 MiB at a time: use a larger buffer where the program has one, "
                      "or a loader that merges neighbouring samples into large reads.");
    }
    stk_advice_act_all(ad, f, a);
    if (a.kind == STK_ACT_PARTS && !stk_advice_in_python(ad)) {
        a.kind = STK_ACT_READ_ALL;
        a.instead = true;
        stk_advice_act_all(ad, f, a);
    }
    struct stk_action pack = stk_advice_pack(ad, t->first->name);
    pack.instead = f->nactions;
    pack.depth = stk_kind_evaluated(t->first->name) || !ad->trains ? 0 : 1;
    if (t->nfiles == 1 && !t->first->n.c[STK_C_WRITE_BYTES] && stk_kind_packable(t->first))
        stk_advice_act(ad, f, pack);
}

/* Reads of a batch. */
static double batch_of(const struct advisor *ad, const struct tally *t)
{
    double reads = t->reads / ad->ranks, epochs = fmax(1, (double)ad->a->nepochs);
    return stk_batch_of(ad->a, reads, reads / epochs, ad->readers_per_rank);
}

/* Seconds in calls that the remedy saves, and those that reading everything in order would. */
static double merged_s(const struct advisor *ad, const struct tally *t, double *ideal_s)
{
    const struct stk_storage *st = stk_advice_storage(ad, t->first);
    struct stk_work large = stk_work_read(st, t->bytes, (double)stk_limits.big_read);
    bool strides = few_strides(t->first); /* all pieces of a part have neighbours */
    *ideal_s = stk_work_saved_s(st, t->read_s, &t->work, &large);
    if (strides || (!is_random(ad, t->first) && t->random < stk_limits.random * t->reads))
        return *ideal_s;
    if (t->first->use->batch_read) /* a list of rows is still one request per row */
        return 0;
    struct stk_work sorted = stk_work_sorted(st, t->work, fmax(t->size, t->bytes), batch_of(ad, t));
    return stk_work_saved_s(st, t->read_s, &t->work, &sorted);
}

/*
 * Seconds in calls that a buffer saves of reads in order: those that memory answers, with what an
 * interpreter needs for each. The kernel reads ahead meanwhile, so the bytes do not come sooner
 * than storage sends them.
 */
static double buffered_s(const struct advisor *ad, const struct tally *t, double saved_s)
{
    const struct stk_storage *st = stk_advice_storage(ad, t->first);
    struct stk_work large = stk_work_read(st, t->bytes, (double)stk_limits.big_read);
    if (t->consec < stk_limits.consecutive * t->reads || t->work.requests > t->reads / 2)
        return saved_s;
    double calls = stk_advice_in_python(ad) ? t->reads * STK_INTERPRETER_S : 0;
    return fmax(0, fmin(t->work.cpu_s + calls, t->read_s + calls - stk_work_s(st, &large)));
}

static void small_reads_of(struct advisor *ad, const char *format)
{
    struct tally t = tally_format(ad, format, is_small);
    if (t.reads < (double)stk_limits.least_reads)
        return;
    double ideal_s, saved_s = buffered_s(ad, &t, merged_s(ad, &t, &ideal_s));
    double gain = stk_advice_wall(ad, saved_s);
    if (!stk_advice_matters(ad, fmax(gain, stk_advice_wall(ad, ideal_s))))
        return;
    struct stk_finding *f =
        stk_advice_begin(ad, STK_RULE_SMALL_READS, stk_advice_severity(ad, gain),
                         "reads of %s instead of megabytes",
                         stk_advice_size(ad, t.bytes / t.reads));
    stk_advice_say(ad, f, "%s: %s reads of %s on average.", about(ad, &t),
                   stk_advice_count(ad, t.reads), stk_advice_size(ad, t.bytes / t.reads));
    stk_advice_say(ad, f,
                   "They took %s in all, %s each; that is %s per second and request, %s of the "
                   "run.",
                   stk_advice_thread_time(ad, t.read_s), stk_advice_time(ad, t.read_s / t.reads),
                   stk_advice_size(ad, t.bytes / t.read_s),
                   stk_advice_percent(ad, stk_advice_share(ad, stk_advice_wall(ad, t.read_s))));
    stk_advice_number(ad, f, "reads", t.reads, "count");
    stk_advice_number(ad, f, "mean_read_bytes", t.bytes / t.reads, "bytes");
    stk_advice_number(ad, f, "read_s", t.read_s, "s");
    stk_advice_number(ad, f, "bandwidth_Bps", t.bytes / t.read_s, "bytes/s");
    name_files(ad, f, format, is_small);
    small_reads_actions(ad, f, &t);
    stk_advice_gain(ad, f, gain, "%s take %s instead of %s in calls, at %s.%s%s",
                    stk_advice_size(ad, t.bytes), stk_advice_time(ad, t.read_s - saved_s),
                    stk_advice_time(ad, t.read_s),
                    stk_advice_pace(ad, stk_advice_storage(ad, t.first)),
                    t.random >= stk_limits.random * t.reads && saved_s < ideal_s
                        ? " In random order, few requests of a batch have neighbours."
                        : "",
                    stk_advice_calls(ad));
}

void stk_rule_small_reads(struct advisor *ad)
{
    for (size_t i = 0; i < ad->a->nformats; i++)
        small_reads_of(ad, ad->a->format[i].name);
}

/* ---- random-reads ---- */

static void random_actions(struct advisor *ad, struct stk_finding *f, const struct tally *t,
                           enum stk_reach reach)
{
    struct stk_action loader = stk_advice_loader(ad, t->first->name);
    bool near = reach == STK_REACH_LOCAL || reach == STK_REACH_MEMORY;
    loader.loader.shuffle = stk_kind_evaluated(t->first->name) ? "none" : "block";
    if (!stk_kind_packable(t->first) && stk_kind_library(t->first))
        stk_advice_do(ad, f,
                      "The library that reads it chooses the requests: let it read more at a time, "
                      "or keep the data in memory.");
    else
        stk_advice_do(
            ad, f,
            "Shuffle blocks of a few MiB and mix samples within a window of blocks: nearly "
            "as random, and the reads stay large. stoker's loader does that by default.%s",
            near ? "" : " Or copy the data to each node first, and shuffle there.");
    if (stk_kind_packable(t->first))
        stk_advice_load(ad, f, loader);
    else if (stk_kind_library(t->first))
        stk_advice_act_all(ad, f, stk_advice_library(ad, t->first, t->size));
    else
        stk_advice_act_all(ad, f, (struct stk_action){.kind = STK_ACT_SORT_READS});
}

/* Seconds of the run until loaders have read and unpacked the same samples, once per epoch: a
 * library that reads more than the sample at each jump reads more. */
static double loaded_s(const struct advisor *ad, const struct tally *t)
{
    const struct stk_storage *st = stk_advice_storage(ad, t->first);
    double once = fmin(t->bytes, t->distinct * fmax(1, (double)ad->a->nepochs));
    bool in_order = stk_kind_evaluated(t->first->name);
    double bytes = in_order ? once : stk_loader_windows(once, t->size, ad->ranks);
    double unpack = stk_advice_wall(ad, t->unpack_s * fmin(1, bytes / fmax(1, t->bytes)));
    double compute = stk_compute_of(ad->a) - stk_advice_wall(ad, t->unpack_s);
    return stk_advice_load_s(ad, st, bytes, unpack, compute);
}

/* Seconds of the run that the action saves: a loader reads blocks, many at once; sorting merges. */
static double ordered_s(const struct advisor *ad, const struct tally *t, double *ideal)
{
    const struct stk_storage *st = stk_advice_storage(ad, t->first);
    *ideal = fmax(0, stk_advice_wall(ad, t->read_s + t->unpack_s) - loaded_s(ad, t));
    if (stk_kind_packable(t->first))
        return *ideal;
    struct stk_work w = stk_work_sorted(st, t->work, fmax(t->size, t->bytes), batch_of(ad, t));
    return stk_advice_wall(ad, stk_work_saved_s(st, t->read_s, &t->work, &w));
}

static void random_reads_of(struct advisor *ad, const char *format)
{
    struct tally t = tally_format(ad, format, is_random);
    if (t.reads < (double)stk_limits.least_reads ||
        t.jumps < stk_limits.random * (double)stk_limits.least_reads)
        return;
    enum stk_reach reach = stk_advice_reach_of(t.first);
    double ideal, gain = ordered_s(ad, &t, &ideal);
    double wait = stk_advice_wall(ad, t.read_s + (stk_kind_packable(t.first) ? t.unpack_s : 0));
    /* In the page cache, no order is worse than another. */
    if (!stk_advice_felt(ad, reach, ideal))
        return;
    struct stk_finding *f =
        stk_advice_begin(ad, STK_RULE_RANDOM_READS, stk_advice_severity(ad, gain),
                         "small reads in random order");
    stk_advice_say(
        ad, f,
        "%s: %s reads, in pieces of %s that lie apart; %s of the jumps between them go back.",
        about(ad, &t), stk_advice_count(ad, t.reads), stk_advice_size(ad, t.bytes / t.jumps),
        stk_advice_percent(ad, fmin(1, t.random / t.jumps)));
    stk_advice_say(ad, f, "Read-ahead cannot follow such an order: each piece took %s.",
                   stk_advice_time(ad, t.read_s / t.jumps));
    stk_advice_number(ad, f, "reads", t.reads, "count");
    stk_advice_number(ad, f, "piece_bytes", t.bytes / t.jumps, "bytes");
    stk_advice_number(ad, f, "random", t.random / t.reads, "share");
    stk_advice_number(ad, f, "consecutive", t.consec / t.reads, "share");
    stk_advice_number(ad, f, "read_s", t.read_s, "s");
    name_files(ad, f, format, is_random);
    random_actions(ad, f, &t, reach);
    const char *unpacking = stk_advice_matters(ad, wait - stk_advice_wall(ad, t.read_s))
                                ? " with unpacking"
                                : "";
    stk_advice_gain(ad, f, gain, "%s would take %s instead of %s of the run%s, at %s.",
                    stk_kind_packable(t.first) ? "The same samples in blocks, many at once,"
                                               : "Sorted batches, with neighbours read together,",
                    stk_advice_time(ad, wait - gain), stk_advice_time(ad, wait), unpacking,
                    stk_advice_pace(ad, stk_advice_storage(ad, t.first)));
}

void stk_rule_random_reads(struct advisor *ad)
{
    for (size_t i = 0; i < ad->a->nformats; i++)
        random_reads_of(ad, ad->a->format[i].name);
}

/* ---- prefetch-depth ---- */

static bool is_demand_stream(const struct advisor *ad, const struct stk_usage *u)
{
    (void)ad;
    double per_open = stk_per((double)u->n.c[STK_C_READ_BYTES], u->n.c[STK_C_OPENS]);
    bool stream =
        stk_kind_stream(u) || (per_open >= (double)stk_limits.whole_file && !stk_kind_table(u));
    return stream &&
           (u->mean_read_bytes > (double)stk_limits.small_read || stk_kind_read_ahead(u)) &&
           stk_kind_request(u) < (double)stk_limits.unit_read &&
           u->consec >= stk_limits.consecutive && !u->n.c[STK_C_HINTS] &&
           (double)u->n.c[STK_C_READ_BYTES] >= stk_kind_jumps(u) * (double)stk_limits.big_read &&
           !stk_kind_model(u);
}

/* Seconds from the first read of each of these files to its last, added up: reading ahead cannot
 * make this less than the storage takes to send them. INFINITY: unknown. */
static double read_span_s(const struct advisor *ad, const struct tally *t)
{
    double sum = 0;
    const struct stk_usage *u;
    for (size_t at = 0; (u = stk_files_of(ad->a, t->format, &at));) {
        double from = stk_ns(u->n.c[STK_C_FIRST_READ_NS]), to = stk_ns(u->n.c[STK_C_LAST_READ_NS]);
        sum += is_demand_stream(ad, u) && to > from ? to - from : 0;
    }
    return sum > 0 ? sum : INFINITY;
}

static void prefetch_of(struct advisor *ad, const char *format)
{
    struct tally t = tally_format(ad, format, is_demand_stream);
    double wait = stk_advice_wall(ad, t.read_s);
    if (t.reads < (double)stk_limits.least_reads / 2 ||
        stk_advice_share(ad, wait) < stk_limits.exposed_share ||
        !stk_advice_felt(ad, stk_advice_reach_of(t.first), wait))
        return;
    double compute = fmax(0, ad->run_s - ad->io_wall_s);
    const struct stk_storage *st = stk_advice_storage(ad, t.first);
    struct stk_work whole = stk_work_read(st, t.bytes, (double)stk_limits.big_read);
    double stream = stk_advice_wall(ad, stk_work_s(st, &whole));
    double gain = fmax(0, fmin(fmin(wait, compute), read_span_s(ad, &t) - stream));
    const char *place = t.nfiles > 1 ? stk_advice_parent(ad, t.first->name) : t.first->name;
    struct stk_finding *f =
        stk_advice_begin(ad, STK_RULE_PREFETCH_DEPTH, stk_advice_severity(ad, gain),
                         "a sequential stream is read on demand, %s at a time",
                         stk_advice_size(ad, t.bytes / t.reads));
    stk_advice_say(ad, f, "%s: %s reads of %s, %s of them directly after the previous one.",
                   about(ad, &t), stk_advice_count(ad, t.reads),
                   stk_advice_size(ad, t.bytes / t.reads),
                   stk_advice_percent(ad, t.consec / t.reads));
    stk_advice_say(ad, f,
                   "The readers wait for them %s of the run; data in this order can be read far "
                   "ahead while the program computes.",
                   stk_advice_percent(ad, stk_advice_share(ad, wait)));
    stk_advice_number(ad, f, "mean_read_bytes", t.bytes / t.reads, "bytes");
    stk_advice_number(ad, f, "consecutive", t.consec / t.reads, "share");
    stk_advice_number(ad, f, "wait_share", stk_advice_share(ad, wait), "share");
    name_files(ad, f, format, is_demand_stream);
    stk_advice_do(ad, f,
                  "Use a buffer of megabytes and read many samples ahead, not one. stoker's "
                  "loader reads ahead as far as its memory allows.");
    stk_advice_act(ad, f,
                   (struct stk_action){.kind = STK_ACT_PREFETCH,
                                       .path = place,
                                       .count = stk_limits.ahead_workers,
                                       .depth = stk_limits.ahead_batches / stk_limits.ahead_workers,
                                       .bytes = stk_limits.ahead_bytes,
                                       .use = t.first->use});
    struct stk_action loader = stk_advice_loader(ad, place);
    loader.instead = true;
    if (stk_kind_packable(t.first))
        stk_advice_act(ad, f, loader);
    stk_advice_gain(ad, f, gain,
                    "The run waits %s for these reads; computing can hide as much of that as it "
                    "takes itself (%s), but the reads alone take %s, at %s.",
                    stk_advice_time(ad, wait), stk_advice_time(ad, compute),
                    stk_advice_time(ad, stream), stk_advice_pace(ad, st));
}

void stk_rule_prefetch_depth(struct advisor *ad)
{
    for (size_t i = 0; i < ad->a->nformats; i++)
        prefetch_of(ad, ad->a->format[i].name);
}
