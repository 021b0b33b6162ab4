/*
 * predict.c - what a change can gain at most, by what the job waits for; and what it should gain,
 * by a model of a step: requests and opens of a batch, the storage that answers them, the threads
 * that make them, the CPU time of decoding.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model/work.h"
#include "tune/priv.h"

#define TRUSTED       1.5 /* a model that misses the baseline by more than this drops nothing */

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
    double per_file = (double)w->dataset.samples_per_file,
           transfer = (double)w->access.transfer_bytes;
    struct stk_work b = {.opens = n / per_file, .bytes = n * m * stored_share(s, w)};
    if (w->ngroups)
        return of_groups(w, 0);
    if (w->dataset.format == STK_BENCH_HDF5)
        b.requests =
            n * (w->dataset.chunk_bytes ? at_least_one(m / (double)w->dataset.chunk_bytes) : 1);
    else if (stk_bench_is_stream(w->dataset.format))
        b.requests = transfer > 0 ? b.bytes / transfer : n;
    else
        b.requests = b.opens * (transfer > 0 ? at_least_one(per_file * m / transfer) : 1);
    return b;
}

double stk_tune_lanes(const struct stk_tune_subject *s, const struct stk_workload *w)
{
    double n = (double)(w->reader.threads ? w->reader.threads : 1);
    n = fmin(n, (double)w->reader.prefetch);
    if (!stk_bench_is_stream(w->dataset.format))
        return n;
    bool own = w->access.sharing == STK_SHARING_OWN;
    return own ? fmin(n, at_least_one((double)(w->dataset.files / stk_tune_ranks(s)))) : 1;
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
    return samples / (double)w->training.batch / (all ? 1 : (double)stk_tune_ranks(s));
}

static double think_seconds(const struct stk_workload *w)
{
    return (double)w->training.batch * stk_dist_mean(&w->reader.think);
}

/* CPU seconds per batch in which the program decodes and unpacks. That of a program that was
 * profiled is in reader.think. */
static double program_seconds(const struct stk_tune_subject *s, const struct stk_workload *w,
                              const struct stk_work *b)
{
    bool more = !w->ngroups && w->dataset.compression != STK_COMPRESSION_NONE;
    return think_seconds(w) + (more ? s->look.unpack.program_s * b->bytes : 0);
}

/* CPU seconds per batch in which the loader decodes and unpacks. bytes: of the data as it is. */
static double loader_seconds(const struct stk_tune_subject *s, const struct way *y, double bytes)
{
    double pictures = y->w->reader.decode ? (double)y->w->training.batch * s->look.decode_s : 0;
    double grown = bytes * (s->look.unpack.grows > 0 ? s->look.unpack.grows : 1);
    return pictures + (!y->packed   ? bytes * s->look.unpack.loader_s
                       : y->unpacks ? grown * s->look.unpack.unzstd_s
                                    : 0);
}

/* The loader reads no byte twice per epoch. */
static double once_bytes(const struct stk_tune_subject *s, const struct way *y, double bytes)
{
    return fmin(bytes, (double)s->bytes / (double)stk_tune_ranks(s) / steps_of(s, y));
}

/* CPUs of a rank. */
static double cpus_of(const struct stk_tune_subject *s)
{
    return at_least_one((double)s->cpus / (double)stk_tune_ranks(s));
}

/* Seconds of I/O and decoding per step, pipelined, by the program itself. */
static double program_io_seconds(const struct stk_tune_subject *s, const struct way *y)
{
    struct stk_work b = of_workload(s, y->w);
    b.cpu_s = program_seconds(s, y->w, &b);
    b.lanes = stk_tune_lanes(s, y->w);
    b.cpus = cpus_of(s);
    b.clients = (double)stk_tune_ranks(s);
    return stk_work_s(y->st, &b);
}

/* What is read beside the dataset, and what else the program does with a sample, unless it only
 * decodes pictures: the loader leaves that to the threads that have done it so far. */
static struct stk_work beside_loader(const struct stk_tune_subject *s, const struct way *y)
{
    struct stk_work rest = of_groups(y->w, 1);
    rest.cpu_s = y->w->reader.decode ? 0 : think_seconds(y->w);
    rest.lanes = stk_tune_lanes(s, y->w);
    rest.cpus = cpus_of(s);
    rest.clients = (double)stk_tune_ranks(s);
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
    io.clients = (double)stk_tune_ranks(s);
    double think = y->w->reader.threads ? rest->cpu_s : 0; /* on the same CPUs */
    return stk_loader_io_s(y->st, &io, think + decode, cpus_of(s));
}

/* Seconds in which the loader reads the data of its first batch: nothing is computed meanwhile. Its
 * buffers are new, those of what it unpacks as well. */
static double first_window(const struct stk_tune_subject *s, const struct way *y)
{
    double all = (double)s->bytes / (double)stk_tune_ranks(s),
           bytes = stk_loader_window(y->shrunk * all);
    double touched = bytes + (y->unpacks ? stk_loader_window(all) : 0);
    return stk_loader_first_s(y->st, bytes, (double)stk_tune_ranks(s), touched);
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
    b.clients = (double)stk_tune_ranks(s);
    return stk_work_s(y->st, &b);
}

/* Of data in memory, which is decoded beside computing or before it. */
static double step_in_memory(const struct stk_tune_subject *s, const struct way *y, double compute)
{
    const struct stk_workload *w = y->w;
    double think = w->reader.load == STK_LOAD_STORED ? y->slower * think_seconds(w) : 0;
    return w->reader.threads ? fmax(compute, think / fmin(stk_tune_lanes(s, w), cpus_of(s)))
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
    double epochs = (double)w->training.epochs, lanes = stk_tune_lanes(s, w);
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
    return c->where && c->makes ? &s->near[c->near].storage : &s->storage;
}

/* The workload with the keys of a candidate. False: they contradict each other. */
static bool changed(const struct stk_tune_subject *s, const struct stk_tune_proposal *c,
                    struct stk_workload *w)
{
    int rc = 0;
    stk_workload_borrow(&s->w, w);
    for (size_t i = 0; i < c->nchanges; i++)
        for (size_t n = 0; n < c->change[i].nset && !rc; n++)
            rc = stk_workload_set(w, c->change[i].set[n], NULL);
    return (rc ? rc : stk_workload_settle(w, NULL)) == 0;
}

static bool is_made(const struct stk_tune_copy *copy, const struct stk_tune_change *c)
{
    return copy && !isnan(copy[c->single].prepare_s);
}

/* Bytes of packed data per byte of the data; NaN: not known. copy: of all candidates, or NULL. */
static double shrunk_by(const struct stk_tune_subject *s, const struct stk_tune_change *c,
                        const struct stk_tune_copy *copy)
{
    const struct stk_unpack *u = &s->look.unpack;
    if (is_made(copy, c) && s->bytes)
        return (double)copy[c->single].bytes / (double)s->bytes;
    if (c->codec)
        return u->zstd_leaves > 0 ? u->zstd_leaves : NAN;
    return u->grows > 0 ? u->grows : 1;
}

/* An epoch without checkpoints. */
static double model(const struct stk_tune_subject *s, const struct stk_tune_proposal *c,
                    const struct stk_tune_copy *copy, double slower)
{
    struct stk_workload w = {0};
    struct way y = {.w = &w, .st = &s->storage, .shrunk = 1, .slower = slower};
    double seconds = NAN;
    for (size_t i = 0; i < c->nchanges; i++) {
        const struct stk_tune_change *x = &c->change[i];
        y.loader = y.loader || x->loader;
        y.packed = y.packed || x->use == STK_USE_LOADER;
        y.unpacks = y.unpacks || x->codec;
        if (x->use != STK_USE_NOTHING)
            y.st = storage_of(s, x);
        if (x->use == STK_USE_LOADER)
            y.shrunk = shrunk_by(s, x, copy);
    }
    if (changed(s, c, &w) && w.dataset.format != STK_BENCH_NONE)
        seconds = epoch_seconds(s, &y);
    stk_workload_release(&w);
    return seconds;
}

/* Checkpoints of an epoch: on other storage they take as long as their bytes take there. */
static double save_seconds(const struct stk_tune_subject *s, const struct stk_tune_proposal *c)
{
    double now = s->pilot.epoch_s * s->pilot.save_share;
    for (size_t i = 0; i < c->nchanges; i++) {
        const struct stk_tune_change *x = &c->change[i];
        if (x->kind->helps != STK_HELPS_SAVES)
            continue;
        double there = s->near[x->near].storage.write_Bps;
        return there > 0 ? now * fmin(1, s->storage.write_Bps / there) : 0;
    }
    return now;
}

static double epoch_of(const struct stk_tune_subject *s, const struct stk_tune_proposal *c,
                       const struct stk_tune_copy *copy, double slower)
{
    bool saves = c->nchanges == 1 && c->change[0].kind->helps == STK_HELPS_SAVES;
    for (size_t i = 0; i < c->nchanges; i++)
        if (c->change[i].kind->unmodelled)
            return NAN;
    return save_seconds(s, c) + (saves ? s->pilot.epoch_s * (1 - s->pilot.save_share)
                                       : model(s, c, copy, slower));
}

/* ---- dropping ------------------------------------------------------------------------------- */

/* A change cannot save more than the time that the job waits for what it changes. Dividing samples
 * by rank also saves steps. */
static bool is_bound(const struct stk_tune_subject *s, const struct stk_tune_proposal *c,
                     double least, struct stk_tune_expected *e)
{
    enum stk_tune_helps helps = c->change[0].kind->helps;
    double share = helps == STK_HELPS_SAVES ? s->pilot.save_share : s->pilot.wait_share;
    if (helps == STK_HELPS_COST || stk_tune_divides(s, &c->change[0]) || isnan(share) ||
        1 / (1 - fmin(share, 0.999)) >= 1 + least)
        return false;
    snprintf(e->why, sizeof e->why, "the job waits for %s only %.1f %% of its time",
             helps == STK_HELPS_SAVES ? "checkpoints" : "data", 100 * share);
    return true;
}

static bool is_choice(const struct stk_tune_plan *p, const struct stk_tune_proposal *c)
{
    return p->choice && strcmp(p->choice, c->id) == 0;
}

/* A copy of the data is worth its time and space only if it is expected to gain something. */
static bool is_in_vain(const struct stk_tune_subject *s, const struct stk_tune_proposal *c,
                       double least, struct stk_tune_expected *e)
{
    double times = s->pilot.epoch_s / e->epoch_s;
    enum stk_tune_use use = c->change[0].use;
    bool copies = use == STK_USE_LOADER || use == STK_USE_DATA;
    if (!copies || isnan(times) || times >= 1 + least)
        return false;
    snprintf(e->why, sizeof e->why,
             "it is expected to be %.2f times as fast: this storage answers large requests no "
             "faster",
             times);
    return true;
}

/* How many times as long as in the model the I/O of the job takes, which is what it waits for. What
 * it computes is known, and does not get slower with it. */
static double io_slower(const struct stk_tune_subject *s, const struct stk_tune_proposal *job,
                        double base)
{
    double computing = model(s, job, NULL, 0);
    double pilot = s->pilot.epoch_s * (1 - s->pilot.save_share);
    /* Beside I/O that nothing hides. */
    double beside = s->w.reader.threads ? start_seconds(&s->w) : computing;
    return base > computing && pilot > computing ? (pilot - beside) / (base - beside) : 1;
}

struct stk_tune_expected *stk_tune_predict(const struct stk_tune_plan *p,
                                           const struct stk_tune_subject *s,
                                           const struct stk_tune_list *list,
                                           const struct stk_tune_copy *copy)
{
    struct stk_tune_expected *all = stk_arena_alloc(list->arena, list->n * sizeof *all);
    double base = model(s, &list->item[0], NULL, 1), off = base / s->pilot.epoch_s;
    double slower = io_slower(s, &list->item[0], base);
    bool trusted = off < TRUSTED && off > 1 / TRUSTED;
    for (size_t i = 0; all && i < list->n; i++) {
        const struct stk_tune_proposal *c = &list->item[i];
        struct stk_tune_expected *e = &all[i];
        *e = (struct stk_tune_expected){.verdict = STK_TUNE_UNCLEAR};
        e->epoch_s = i ? epoch_of(s, c, copy, slower) : s->pilot.epoch_s;
        bool made = i && is_made(copy, &c->change[0]);
        if (i && (is_bound(s, c, p->least, e) ||
                  (trusted && !made && !is_choice(p, c) && is_in_vain(s, c, p->least, e))))
            e->verdict = STK_TUNE_DROPPED;
    }
    return all;
}

/* ---- what the budget allows ----------------------------------------------------------------- */

#define ROUNDS 3.5 /* that a candidate should have a chance of */
#define SHARE  0.6 /* of the time that is left, for the first study */

static double promise(const struct stk_tune_plan *p, const struct stk_tune_subject *s,
                      const struct stk_tune_proposal *c, const struct stk_tune_expected *e)
{
    if (is_choice(p, c))
        return INFINITY;
    return isnan(e->epoch_s) ? 1 + p->least : s->pilot.epoch_s / e->epoch_s;
}

/* Skips the one that promises least. False: there is none. */
static bool skip_one(const struct stk_tune_plan *p, const struct stk_tune_subject *s,
                     const struct stk_tune_list *list, const uint64_t *runs, size_t room,
                     struct stk_tune_expected *expected)
{
    size_t tried = 0, least = 0;
    double lowest = INFINITY;
    for (size_t i = 1; i < list->n; i++) {
        double v = promise(p, s, &list->item[i], &expected[i]);
        if (expected[i].verdict != STK_TUNE_UNCLEAR)
            continue;
        tried++;
        if (runs && runs[i]) /* they are there: others make room */
            continue;
        if (!least ||
            v <= lowest) { /* of equals the one that takes more effort: it is further down */
            least = i;
            lowest = v;
        }
    }
    if (tried <= room || !least)
        return false;
    expected[least].verdict = STK_TUNE_SKIPPED;
    snprintf(expected[least].why, sizeof expected[least].why,
             "the budget allows %zu change%s, and others promise more: use a larger --budget", room,
             room == 1 ? "" : "s");
    return true;
}

void stk_tune_ration(const struct stk_tune_plan *p, const struct stk_tune_subject *s,
                     const struct stk_tune_list *list, const uint64_t *runs, double left_s,
                     struct stk_tune_expected *expected)
{
    double cost = s->pilot.run_cost_s, n = cost > 0 ? SHARE * left_s / cost / ROUNDS - 1 : INFINITY;
    size_t room = n < STK_TUNE_MAX ? (size_t)fmax(n, 1) : STK_TUNE_MAX;
    while (skip_one(p, s, list, runs, room, expected))
        ;
}
