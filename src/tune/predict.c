/*
 * predict.c - what a change can gain at most, by what the job waits for; and what it should gain,
 * by a model of a step: requests and opens of a batch, the storage that answers them, the threads
 * that make them, the CPU time of decoding.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model/measure.h"
#include "model/work.h"
#include "tune/priv.h"

#define MEASURE_S     0.2
#define MEASURE_BYTES (32u << 20)
#define TRUSTED       1.5 /* a model that misses the baseline by more than this drops nothing */

/* ---- storage -------------------------------------------------------------------------------- */

/* All ranks run on this node, and share what it gets. */
static void take(struct stk_storage *to, const struct stk_storage *from, const struct stk_fs *fs)
{
    *to = *from;
    stk_storage_on(to, fs);
    to->all_Bps = from->all_Bps > 0 || isinf(from->read_Bps) ? from->all_Bps : from->read_Bps;
}

static double lanes_of(const struct stk_tune_subject *s, const struct stk_workload *w);

/* What the calls of the job itself took says more than any other measurement. Requests that are
 * under way together share the rate. */
static void take_pilot(struct stk_tune_subject *s)
{
    struct stk_storage *st = &s->storage;
    double wire = st->read_Bps > 0 ? s->request_bytes / st->read_Bps : 0;
    double own = s->request_s - wire * lanes_of(s, &s->w) * (double)s->ranks;
    if (s->open_s > 0)
        st->open_s = st->ask_s = s->open_s;
    if (s->request_s > 0)
        st->latency_s = fmax(own, fmin(st->latency_s, s->request_s));
}

/* Small files say little about the rate of large requests. */
static void measure_beside(struct stk_tuner *t, const struct stk_measure_how *how)
{
    const struct stk_fs *fs = stk_fs_of_path(t->work.path);
    struct stk_measured m;
    if (stk_measure_folder(t->work.path, fs->name, fs->memory, how, &m) != 0)
        return;
    struct stk_storage *st = &t->s.storage;
    if (m.storage.read_Bps > st->read_Bps)
        st->read_Bps = st->stream_Bps = st->all_Bps = m.storage.read_Bps;
    st->write_Bps = m.storage.write_Bps;
}

static void measure_near(struct stk_tune_near *n, const struct stk_measure_how *how)
{
    const struct stk_storage memory = stk_storage_assumed(STK_REACH_MEMORY);
    struct stk_measured m;
    if (n->fs->memory)
        take(&n->storage, &memory, n->fs);
    else if (stk_measure_folder(n->path, n->fs->name, false, how, &m) == 0)
        take(&n->storage, &m.storage, n->fs);
}

void stk_tune_measure_storage(struct stk_tuner *t)
{
    const struct stk_measure_how how = {.test_s = MEASURE_S,
                                        .max_bytes = MEASURE_BYTES,
                                        .stop = stk_tuner_tick,
                                        .user = t};
    struct stk_measured m;
    struct stk_storage given;
    if (stk_tuner_doing(t, "measuring the storage"))
        return;
    if (t->plan->storage) { /* which is everywhere */
        if (stk_storage_parse(t->plan->storage, &given, NULL) == 0)
            take(&t->s.storage, &given, NULL);
        for (size_t i = 0; i < t->s.nnear; i++)
            t->s.near[i].storage = t->s.storage;
        return;
    }
    if (t->s.source &&
        stk_measure_data(t->s.source, t->s.fs->name, t->s.fs->memory, &how, &m) == 0)
        take(&t->s.storage, &m.storage, t->s.fs);
    t->s.storage.memory = t->s.storage.memory || t->s.cached;
    measure_beside(t, &how);
    take_pilot(&t->s);
    for (size_t i = 0; i < t->s.nnear; i++)
        measure_near(&t->s.near[i], &how);
}

/* ---- a step --------------------------------------------------------------------------------- */

static double at_least_one(double v)
{
    return v < 1 ? 1 : v;
}

/* The batch of one rank: of the groups of a replay from number `first` on. */
static struct stk_work of_groups(const struct stk_workload *w, size_t first)
{
    struct stk_work b = {0};
    for (size_t i = first; i < w->ngroups; i++) {
        const struct stk_bench_group *g = &w->group[i];
        double share = (double)w->training.batch / (double)(g->per ? g->per : 1);
        if (g->keep || g->when != STK_WHEN_SAMPLE)
            continue;
        double bytes = (double)(g->bytes ? g->bytes : 0);
        if (!g->bytes)
            bytes = (double)g->opens * stk_dist_mean(&g->size);
        b.opens += share * (double)g->opens;
        b.asks += share * (double)g->stats;
        b.requests += share * (double)g->requests;
        b.bytes += share * bytes;
    }
    return b;
}

/* Stored bytes per byte of a sample: what bench generates may be compressed. */
static double stored_share(const struct stk_tune_subject *s, const struct stk_workload *w)
{
    double samples = (double)(w->dataset.files * w->dataset.samples_per_file);
    double all = samples * stk_dist_mean(&w->dataset.record);
    return w->dataset.compression != STK_COMPRESSION_NONE && all > 0 ? (double)s->bytes / all : 1;
}

static struct stk_work of_workload(const struct stk_tune_subject *s, const struct stk_workload *w)
{
    double n = (double)w->training.batch, m = stk_dist_mean(&w->dataset.record);
    double per_file = (double)w->dataset.samples_per_file, transfer = (double)w->access.transfer_bytes;
    struct stk_work b = {.opens = n / per_file, .bytes = n * m * stored_share(s, w)};
    if (w->ngroups)
        return of_groups(w, 0);
    if (w->dataset.format == STK_BENCH_HDF5)
        b.requests = n * (w->dataset.chunk_bytes ? at_least_one(m / (double)w->dataset.chunk_bytes) : 1);
    else if (stk_bench_is_stream(w->dataset.format))
        b.requests = transfer > 0 ? b.bytes / transfer : n;
    else
        b.requests = b.opens * (transfer > 0 ? at_least_one(per_file * m / transfer) : 1);
    return b;
}

static double lanes_of(const struct stk_tune_subject *s, const struct stk_workload *w)
{
    double n = (double)(w->reader.threads ? w->reader.threads : 1);
    n = fmin(n, (double)w->reader.prefetch);
    if (!stk_bench_is_stream(w->dataset.format))
        return n;
    bool own = w->access.sharing == STK_SHARING_OWN;
    return own ? fmin(n, at_least_one((double)(w->dataset.files / s->ranks))) : 1;
}

/* How a candidate reads. */
struct way {
    const struct stk_workload *w;
    const struct stk_storage *st;
    bool loader, packed;
    bool unpacks; /* the copy that it reads is compressed */
    double shrunk; /* bytes of the packed data per byte of the data */
    double slower;
};

/* Steps per epoch of a rank. */
static double steps_of(const struct stk_tune_subject *s, const struct way *y)
{
    const struct stk_workload *w = y->w;
    bool all = w->access.offsets == STK_OFFSETS_SAME && !y->loader;
    double samples = (double)(w->dataset.files * w->dataset.samples_per_file);
    return samples / (double)w->training.batch / (all ? 1 : (double)s->ranks);
}

static double think_seconds(const struct stk_workload *w)
{
    return (double)w->training.batch * stk_dist_mean(&w->reader.think);
}

/* CPU seconds per batch in which the program decodes and unpacks. That of a program that was profiled
 * is in reader.think. */
static double program_seconds(const struct stk_tune_subject *s, const struct stk_workload *w,
                              const struct stk_work *b)
{
    bool more = !w->ngroups && w->dataset.compression != STK_COMPRESSION_NONE;
    return think_seconds(w) + (more ? s->unpack.program_s * b->bytes : 0);
}

/* CPU seconds per batch in which the loader decodes and unpacks. bytes: of the data as it is. */
static double loader_seconds(const struct stk_tune_subject *s, const struct way *y, double bytes)
{
    double pictures = y->w->reader.decode ? (double)y->w->training.batch * s->decode_s : 0;
    double grown = bytes * (s->unpack.grows > 0 ? s->unpack.grows : 1);
    return pictures + (!y->packed ? bytes * s->unpack.loader_s : y->unpacks ? grown * s->unpack.unzstd_s : 0);
}

/* The loader reads no byte twice per epoch. */
static double once_bytes(const struct stk_tune_subject *s, const struct way *y, double bytes)
{
    return fmin(bytes, (double)s->bytes / (double)s->ranks / steps_of(s, y));
}

/* CPUs of a rank. */
static double cpus_of(const struct stk_tune_subject *s)
{
    return at_least_one((double)s->cpus / (double)s->ranks);
}

/* Seconds of I/O and decoding per step, pipelined, by the program itself. */
static double program_io_seconds(const struct stk_tune_subject *s, const struct way *y)
{
    struct stk_work b = of_workload(s, y->w);
    b.cpu_s = program_seconds(s, y->w, &b);
    b.lanes = lanes_of(s, y->w);
    b.cpus = cpus_of(s);
    b.clients = (double)s->ranks;
    return stk_work_s(y->st, &b);
}

/* What is read beside the dataset, and what else the program does with a sample, unless it only
 * decodes pictures: the loader leaves that to the threads that have done it so far. */
static struct stk_work beside_loader(const struct stk_tune_subject *s, const struct way *y)
{
    struct stk_work rest = of_groups(y->w, 1);
    rest.cpu_s = y->w->reader.decode ? 0 : think_seconds(y->w);
    rest.lanes = lanes_of(s, y->w);
    rest.cpus = cpus_of(s);
    rest.clients = (double)s->ranks;
    return rest;
}

/* The same by stoker's loader, with all CPUs. */
static double loader_io_seconds(const struct stk_tune_subject *s, const struct way *y,
                                const struct stk_work *rest)
{
    struct stk_work b = of_workload(s, y->w);
    double bytes = once_bytes(s, y, b.bytes - rest->bytes), decode = loader_seconds(s, y, bytes);
    struct stk_work io = stk_loader_work(y->st, bytes * y->shrunk);
    if (!y->packed) {
        io.opens = b.opens;
        io.asks = b.asks;
        io.requests = b.requests;
    }
    io.clients = (double)s->ranks;
    double think = y->w->reader.threads ? rest->cpu_s : 0; /* on the same CPUs */
    return stk_loader_io_s(y->st, &io, think + decode, cpus_of(s));
}

/* Seconds in which the loader reads the data of its first batch: nothing is computed meanwhile. Its
 * buffers are new, those of what it unpacks as well. */
static double first_window(const struct stk_tune_subject *s, const struct way *y)
{
    double all = (double)s->bytes / (double)s->ranks, bytes = stk_loader_window(y->shrunk * all);
    double touched = bytes + (y->unpacks ? stk_loader_window(all) : 0);
    return stk_loader_first_s(y->st, bytes, (double)s->ranks, touched);
}

/* Seconds before the first batch of an epoch of which nothing is read ahead, but for reading it. */
static double start_seconds(const struct stk_workload *w)
{
    double once = (double)w->reader.threads * w->reader.start_s + w->reader.begin_s;
    return once / (w->reader.epochs == STK_EPOCHS_RESTART ? 1 : (double)w->training.epochs);
}

/* Seconds per batch in which one thread reads it, and decodes it if it keeps it decoded. */
static double load_seconds(const struct stk_tune_subject *s, const struct way *y)
{
    struct stk_work b = of_workload(s, y->w);
    b.cpu_s = y->w->reader.load == STK_LOAD_START ? program_seconds(s, y->w, &b) : 0;
    b.clients = (double)s->ranks;
    return stk_work_s(y->st, &b);
}

/* Of data in memory, which is decoded beside computing or before it. */
static double step_in_memory(const struct stk_tune_subject *s, const struct way *y, double compute)
{
    const struct stk_workload *w = y->w;
    double think = w->reader.load == STK_LOAD_STORED ? y->slower * think_seconds(w) : 0;
    return w->reader.threads ? fmax(compute, think / fmin(lanes_of(s, w), cpus_of(s)))
                             : compute + think;
}

/* Threads take the loader's batches while the program computes, or it does all of that itself. */
static double loader_epoch_seconds(const struct stk_tune_subject *s, const struct way *y)
{
    struct stk_work rest = beside_loader(s, y);
    double steps = steps_of(s, y), compute = stk_dist_mean(&y->w->training.compute);
    double epochs = (double)y->w->training.epochs, beside = stk_work_s(y->st, &rest);
    double io = loader_io_seconds(s, y, &rest);
    if (y->w->reader.threads)
        io = stk_slower(io, beside);
    else
        compute += y->slower * beside;
    return stk_loader_start_s(y->st) / epochs +
           stk_run_ahead_s(steps * compute, y->slower * steps * io, first_window(s, y) / epochs);
}

/* Seconds of an epoch without checkpoints; I/O takes y->slower times as long as the model says. */
static double epoch_seconds(const struct stk_tune_subject *s, const struct way *y)
{
    const struct stk_workload *w = y->w;
    double steps = steps_of(s, y), compute = stk_dist_mean(&w->training.compute);
    double epochs = (double)w->training.epochs, lanes = lanes_of(s, w);
    if (stk_workload_loads_first(w))
        return steps * (step_in_memory(s, y, compute) + y->slower * load_seconds(s, y) / epochs);
    if (y->loader)
        return loader_epoch_seconds(s, y);
    double io = y->slower * steps * program_io_seconds(s, y);
    if (!w->reader.threads) /* one after the other */
        return steps * compute + io;
    double first = stk_first_batch_s(io, lanes, steps); /* of the next epoch, it is read ahead */
    first /= w->reader.epochs == STK_EPOCHS_AHEAD ? epochs : 1;
    return start_seconds(w) + stk_run_ahead_s(steps * compute, io, first);
}

/* ---- a candidate ---------------------------------------------------------------------------- */

static const struct stk_storage *storage_of(const struct stk_tune_subject *s,
                                            const struct stk_tune_change *c)
{
    return c->where && c->copy.path ? &s->near[c->near].storage : &s->storage;
}

/* The workload with the keys of a candidate. False: they contradict each other. */
static bool changed(const struct stk_tune_subject *s, const struct stk_tune_candidate *c,
                    struct stk_workload *w)
{
    int rc = 0;
    stk_workload_borrow(&s->w, w);
    for (size_t i = 0; i < c->nchanges; i++)
        for (size_t n = 0; n < c->change[i].nset && !rc; n++)
            rc = stk_workload_set(w, c->change[i].set[n], NULL);
    return (rc ? rc : stk_workload_settle(w, NULL)) == 0;
}

/* Bytes of packed data per byte of the data; NaN: not known. */
static double shrunk_by(const struct stk_tune_subject *s, const struct stk_tune_change *c)
{
    if (!isnan(c->copy.prepare_s) && s->bytes)
        return (double)c->copy.bytes / (double)s->bytes;
    if (c->codec)
        return s->unpack.zstd_leaves > 0 ? s->unpack.zstd_leaves : NAN;
    return s->unpack.grows > 0 ? s->unpack.grows : 1;
}

static double model(const struct stk_tuner *t, const struct stk_tune_candidate *c, double slower)
{
    struct stk_workload w = {0};
    struct way y = {.w = &w,
                    .st = &t->s.storage,
                    .shrunk = 1,
                    .slower = slower};
    double seconds = NAN;
    for (size_t i = 0; i < c->nchanges; i++) {
        const struct stk_tune_change *x = &c->change[i];
        y.loader = y.loader || x->loader;
        y.packed = y.packed || x->use == STK_USE_LOADER;
        y.unpacks = y.unpacks || x->codec;
        if (x->use != STK_USE_NOTHING)
            y.st = storage_of(&t->s, x);
        if (x->use == STK_USE_LOADER)
            y.shrunk = shrunk_by(&t->s, x);
    }
    if (changed(&t->s, c, &w) && w.dataset.format != STK_BENCH_NONE)
        seconds = epoch_seconds(&t->s, &y);
    stk_workload_release(&w);
    return seconds;
}

static bool helps(const struct stk_tune_candidate *c, enum stk_tune_helps what)
{
    for (size_t i = 0; i < c->nchanges; i++)
        if (c->change[i].kind->helps == what)
            return true;
    return false;
}

/* Checkpoints of an epoch: on other storage they take as long as their bytes take there. */
static double save_seconds(const struct stk_tuner *t, const struct stk_tune_candidate *c)
{
    const struct stk_tune_subject *s = &t->s;
    double now = s->epoch_s * s->save_share;
    for (size_t i = 0; i < c->nchanges; i++)
        for (size_t n = 0; n < s->nnear && c->change[i].kind->helps == STK_HELPS_SAVES; n++)
            if (c->change[i].where == s->near[n].path && s->near[n].storage.write_Bps > 0)
                return now * fmin(1, s->storage.write_Bps / s->near[n].storage.write_Bps);
    return helps(c, STK_HELPS_SAVES) ? 0 : now;
}

static void predict(struct stk_tuner *t, struct stk_tune_candidate *c, double slower)
{
    bool reads = !helps(c, STK_HELPS_SAVES) || c->nchanges > 1;
    double rest = reads ? model(t, c, slower) : t->s.epoch_s * (1 - t->s.save_share);
    c->predicted_s = save_seconds(t, c) + rest;
    for (size_t i = 0; i < c->nchanges; i++)
        if (c->change[i].kind->unmodelled)
            c->predicted_s = NAN;
}

/* ---- dropping ------------------------------------------------------------------------------- */

static double share_of(const struct stk_tune_subject *s, enum stk_tune_helps helps)
{
    return helps == STK_HELPS_COST ? NAN : helps == STK_HELPS_SAVES ? s->save_share : s->wait_share;
}

/* A change cannot save more than the time that the job waits for what it changes. Dividing samples
 * by rank also saves steps. */
static void bound(const struct stk_tune_subject *s, struct stk_tune_candidate *c, double least)
{
    const struct stk_tune_kind *k = c->change[0].kind;
    double share = share_of(s, k->helps);
    if (stk_tune_divides(s, &c->change[0]) || isnan(share) || 1 / (1 - fmin(share, 0.999)) >= 1 + least)
        return;
    c->verdict = STK_TUNE_DROPPED;
    snprintf(c->why, sizeof c->why, "the job waits for %s only %.1f %% of its time",
             k->helps == STK_HELPS_SAVES ? "checkpoints" : "data", 100 * share);
}

static bool is_choice(const struct stk_tuner *t, const struct stk_tune_candidate *c)
{
    return t->plan->choice && strcmp(t->plan->choice, c->id) == 0;
}

/* A copy of the data is worth its time and space only if it is expected to gain something. */
static void drop(const struct stk_tuner *t, struct stk_tune_candidate *c)
{
    double times = t->s.epoch_s / c->predicted_s;
    enum stk_tune_use use = c->change[0].use;
    bool copies = use == STK_USE_LOADER || use == STK_USE_DATA;
    if (!copies || isnan(times) || times >= 1 + t->plan->least || is_choice(t, c))
        return;
    c->verdict = STK_TUNE_DROPPED;
    snprintf(c->why, sizeof c->why,
             "it is expected to be %.2f times as fast: this storage answers large requests no "
             "faster",
             times);
}

/* ---- what the budget allows ----------------------------------------------------------------- */

#define ROUNDS 3.5 /* that a candidate should have a chance of */

static double promise(const struct stk_tuner *t, const struct stk_tune_candidate *c)
{
    if (is_choice(t, c))
        return INFINITY;
    return isnan(c->predicted_s) ? 1 + t->plan->least : t->s.epoch_s / c->predicted_s;
}

static struct stk_tune_candidate *least_promising(struct stk_tuner *t, size_t *tried)
{
    struct stk_tune_candidate *least = NULL;
    *tried = 0;
    for (size_t i = 1; i < t->out->n; i++) {
        struct stk_tune_candidate *c = &t->out->candidate[i];
        if (c->verdict != STK_TUNE_UNCLEAR)
            continue;
        ++*tried;
        /* Of equals the one that takes more effort, which is further down. */
        if (!least || promise(t, c) <= promise(t, least))
            least = c;
    }
    return least;
}

void stk_tune_ration(struct stk_tuner *t)
{
    double runs = t->run_cost_s > 0 ? 0.6 * stk_tuner_left_s(t) / t->run_cost_s : INFINITY;
    size_t room = runs / ROUNDS - 1 < STK_TUNE_MAX ? (size_t)fmax(runs / ROUNDS - 1, 1)
                                                   : STK_TUNE_MAX;
    for (size_t tried;;) {
        struct stk_tune_candidate *c = least_promising(t, &tried);
        if (tried <= room)
            return;
        c->verdict = STK_TUNE_SKIPPED;
        snprintf(c->why, sizeof c->why,
                 "the budget allows %zu change%s, and others promise more: use a larger --budget",
                 room, room == 1 ? "" : "s");
    }
}

/* How many times as long as in the model the I/O of the job takes, which is what it waits for. What
 * it computes is known, and does not get slower with it. */
static double io_slower(const struct stk_tuner *t, double base)
{
    double computing = model(t, &t->out->candidate[0], 0);
    double pilot = t->s.epoch_s * (1 - t->s.save_share);
    /* Beside I/O that nothing hides. */
    double beside = t->s.w.reader.threads ? start_seconds(&t->s.w) : computing;
    return base > computing && pilot > computing ? (pilot - beside) / (base - beside) : 1;
}

void stk_tune_predict(struct stk_tuner *t)
{
    struct stk_tune *out = t->out;
    double base = model(t, &out->candidate[0], 1), off = base / t->s.epoch_s;
    double slower = io_slower(t, base);
    bool trusted = off < TRUSTED && off > 1 / TRUSTED;
    out->candidate[0].predicted_s = t->s.epoch_s;
    for (size_t i = 1; i < out->n; i++) {
        struct stk_tune_candidate *c = &out->candidate[i];
        if (c->verdict != STK_TUNE_UNCLEAR)
            continue;
        predict(t, c, slower);
        bound(&t->s, c, t->plan->least);
        if (c->verdict == STK_TUNE_UNCLEAR && trusted && isnan(c->change[0].copy.prepare_s))
            drop(t, c);
    }
}
