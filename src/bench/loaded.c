/* loaded.c - batches of stoker's own loader, for --reader stoker. */
#include "bench/feed.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/pool.h"
#include "model/work.h"
#include "stoker.h"

#define LOOK_MS   100        /* between looks at the other ranks */
#define BATCH_MAX (1u << 20) /* of the loader */
#define ALL_BYTES 0.9        /* of the data: an epoch that reads so much reads all samples */

struct stk_loaded {
    const struct stk_bench_config *c;
    struct stk_bench_plan plan;
    struct stk_bench_patience *patience;
    struct stk_dataset *ds;
    struct stk_loader *loader;
    bool in_memory; /* everything was read at the start */
    double share, due; /* batches of the loader per step, at most one; those that have come due */
    uint64_t batches;  /* of an epoch that was read whole */
    double start_s, first_s, step_s; /* virtual: of its first step; until it has a batch; per step */
};

static int on_progress(void *user, uint64_t done, uint64_t total, uint64_t samples)
{
    (void)done, (void)total, (void)samples;
    return stk_bench_beat(user);
}

/* The generated dataset, the user's, or what the workload names. */
static void dataset_path(const struct stk_bench_config *c, char *buf, size_t n)
{
    const struct stk_workload *w = c->w;
    const char *group = w->ngroups ? w->group[0].path : "";
    if (w->reader.path)
        snprintf(buf, n, "%s", w->reader.path);
    else if (!c->data->users)
        snprintf(buf, n, "%s/%s", c->data->dir, w->dataset.is_eval ? "eval" : "train");
    else if (*group == '/')
        snprintf(buf, n, "%s", group);
    else
        snprintf(buf, n, "%s/%s", c->data->dir, group);
}

/* What the benchmark wrote has a known format, and its index beside it. */
static void describe_generated(const struct stk_bench_config *c, struct stk_open_options *o,
                               char *index, size_t n)
{
    int format = c->w->dataset.format;
    snprintf(index, n, "%s/%s", c->data->dir,
             c->w->dataset.is_eval ? STK_BENCH_EVAL_INDEX : STK_BENCH_INDEX);
    o->index = index;
    o->header = format == STK_BENCH_CSV ? "no" : NULL;
    if (format != STK_BENCH_FILES && format != STK_BENCH_REPLAY)
        o->format = stk_bench_formats[format];
}

static void release(void *loaded)
{
    struct stk_loaded *l = loaded;
    stk_loader_close(l->loader);
    stk_dataset_close(l->ds);
    free(l);
}

/* In the helper thread. */
static int open_dataset(void *arg, struct stk_err *err)
{
    struct stk_loaded *l = arg;
    char path[4400], index[4400];
    bool foreign = l->c->w->reader.path || l->c->data->users;
    struct stk_open_options o = {.no_index_write = foreign}; /* nothing is written beside it */
    if (foreign && !l->c->w->reader.path)
        o.index = l->c->w->reader.index;
    if (!foreign)
        describe_generated(l->c, &o, index, sizeof index);
    o.progress = on_progress;
    o.user = l->patience;
    dataset_path(l->c, path, sizeof path);
    return stk_dataset_open(path, &o, &l->ds, err);
}

/* Whether an epoch of the workload reads all of its files. */
static bool reads_all(const struct stk_workload *w, double samples)
{
    const struct stk_bench_group *g = &w->group[0];
    double all = w->ngroups ? (double)g->count * stk_dist_mean(&g->size) : 0;
    return w->ngroups && g->per && (double)g->bytes / (double)g->per * samples >= ALL_BYTES * all;
}

/* Samples of the dataset per step. A profile takes each request for a sample: a sample of the dataset may be several of them, or a
 * part of one. The loader gives as much of the dataset in a step as the program reads. */
static double samples_per_step(const struct stk_workload *w, const struct stk_dataset *ds)
{
    double asked = (double)w->dataset.files * (double)w->dataset.samples_per_file;
    double has = (double)stk_dataset_len(ds);
    double n = (double)w->training.batch;
    return asked > has || reads_all(w, asked) ? n * has / asked : n;
}

/* A rank that loads everything at the start, as every other does, needs all samples. */
static int open_loader(void *arg, struct stk_err *err)
{
    struct stk_loaded *l = arg;
    const struct stk_workload *w = l->c->w;
    bool all = stk_workload_loads_first(w) && w->access.offsets == STK_OFFSETS_SAME;
    double samples = samples_per_step(w, l->ds), batch = fmin(ceil(samples), BATCH_MAX);
    struct stk_loader_options o = {.batch = batch > 1 ? (uint32_t)batch : 1};
    l->share = fmin(samples / o.batch, 1);
    l->due = 1 - l->share; /* the first step has one */
    o.epochs = l->c->model.is_virtual; /* its requests are counted: nothing of another one */
    o.rank = all ? 0 : (uint32_t)l->plan.rank;
    o.world = all ? 1 : (uint32_t)l->plan.ranks;
    o.seed = w->dataset.seed;
    o.decode = w->reader.decode;
    o.shuffle = w->access.shuffle == STK_MIX_NONE ? STK_SHUFFLE_NONE : STK_SHUFFLE_BLOCK;
    return stk_loader_open(l->ds, &o, &l->loader, err);
}

static int check(const struct stk_workload *w, struct stk_err *err)
{
    const char *format = stk_bench_formats[w->dataset.format];
    bool ours = w->dataset.format == STK_BENCH_INDEXED || w->dataset.format == STK_BENCH_MAPPED;
    if (ours && !w->reader.path)
        return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1,
                           "dataset.format: stoker's loader reads no %s files: leave out --reader",
                           format);
    return 0;
}

int stk_loaded_open(const struct stk_bench_config *c, const struct stk_bench_plan *plan,
                    struct stk_bench_patience *patience, struct stk_loaded **out,
                    struct stk_err *err)
{
    struct stk_loaded *l = calloc(1, sizeof *l);
    bool several = c->comm && stk_comm_size(c->comm) > 1, first = plan->rank == 0;
    if (!l)
        return stk_err_nomem(err, sizeof *l);
    *l = (struct stk_loaded){.c = c, .plan = *plan, .patience = patience};
    int rc = check(c->w, err);
    rc = rc == 0 && first ? stk_bench_within(patience, open_dataset, release, l, err) : rc;
    rc = rc == 0 && several ? stk_comm_barrier(c->comm, STK_COMM_FOREVER, err) : rc;
    rc = rc || first ? rc : stk_bench_within(patience, open_dataset, release, l, err);
    rc = rc ? rc : stk_bench_within(patience, open_loader, release, l, err);
    *out = patience->stuck ? NULL : l;
    return rc;
}

/* 1: a batch is there, or the end of an epoch; 0: not within the patience. */
static int wait_batch(struct stk_loaded *l)
{
    double patience = l->patience->seconds;
    double until = stk_now() + patience;
    int ms = patience < 1e-3 * LOOK_MS ? (int)(patience * 1e3) : LOOK_MS;
    while (stk_now() < until && (!l->c->comm || stk_comm_lost(l->c->comm, NULL, 0) < 0))
        if (stk_loader_wait(l->loader, ms) == 1)
            return 1;
    return 0;
}

static int no_batch(struct stk_err *err)
{
    return stk_err_set(err, STK_E_USAGE, NULL, -1, "the dataset has no batch for this rank");
}

/* 1: a batch; 0: the end of an epoch. */
static int next_batch(struct stk_loaded *l, struct stk_err *err)
{
    struct stk_batch *b = NULL;
    if (!wait_batch(l))
        return stk_err_set(err, STK_E_STOPPED, l->c->data->dir, -1,
                           "the loader gave no batch for %.0f s: the storage hangs (--patience)",
                           l->patience->seconds);
    int rc = stk_loader_next(l->loader, &b, err);
    if (rc > 0)
        stk_batch_release(b);
    return rc;
}

int stk_loaded_all(struct stk_loaded *l, struct stk_err *err)
{
    int rc = 1;
    for (l->batches = 0; rc > 0; l->batches += rc > 0)
        rc = next_batch(l, err);
    l->in_memory = rc == 0;
    return rc;
}

int stk_loaded_count(struct stk_loaded *l, double *took_s, struct stk_err *err)
{
    const struct stk_storage *st = &l->c->model.storage;
    struct stk_loader_stats seen = {0};
    int rc = stk_loaded_all(l, err);
    if (rc)
        return rc;
    if (!l->batches)
        return no_batch(err);
    stk_loader_stats(l->loader, &seen);
    double bytes = (double)seen.bytes_read, window = stk_loader_window(bytes);
    struct stk_work w = stk_loader_work(st, bytes);
    w.requests = (double)seen.reads;
    w.opens = (double)seen.opens;
    w.clients = (double)l->plan.ranks;
    double epoch_s = stk_work_s(st, &w);
    l->first_s = stk_loader_first_s(st, window, w.clients, window);
    l->step_s = epoch_s / (double)l->batches * l->share;
    l->in_memory = stk_workload_loads_first(l->c->w);
    *took_s = stk_loader_start_s(st) + (l->in_memory ? epoch_s : 0);
    return 0;
}

void stk_loaded_begin(struct stk_loaded *l, double start_s)
{
    l->start_s = start_s;
}

/* Whether this step has a batch: several may share one. */
static bool is_due(struct stk_loaded *l)
{
    const double nearly = 1 - 1e-9; /* sums are rounded */
    l->due += l->share;
    bool due = l->due >= nearly;
    l->due -= due;
    return due;
}

int stk_loaded_next(struct stk_loaded *l, struct stk_err *err)
{
    if (!is_due(l))
        return 0;
    int rc = next_batch(l, err);
    if (rc == 0) /* the end of an epoch; the data begins again */
        rc = next_batch(l, err);
    return rc > 0 ? 0 : rc ? rc : no_batch(err);
}

double stk_loaded_ready_s(const struct stk_loaded *l, uint64_t step)
{
    return l->in_memory ? l->start_s
                        : l->start_s + fmax(l->first_s, (double)(step + 1) * l->step_s);
}

int stk_loaded_take(struct stk_loaded *l, uint64_t step, double now_s, double *ready_s,
                    struct stk_err *err)
{
    *ready_s = now_s;
    if (l->c->model.is_virtual)
        *ready_s = fmax(now_s, stk_loaded_ready_s(l, step));
    if (l->in_memory || l->c->model.is_virtual)
        return 0;
    /* A batch that is there when the accelerator asks was complete before. */
    bool waits = stk_loader_wait(l->loader, 0) != 1;
    int rc = stk_loaded_next(l, err);
    *ready_s = waits ? stk_now() : now_s;
    return rc;
}

void stk_loaded_close(struct stk_loaded *l, struct stk_io_tally *tally)
{
    struct stk_loader_stats st = {0};
    if (!l)
        return;
    if (l->loader) {
        stk_loader_stats(l->loader, &st);
        struct stk_io_tally io = {.samples = st.samples, .asked_bytes = st.bytes_asked};
        io.bytes = st.bytes_read;
        io.requests = st.reads;
        io.opens = st.opens;
        stk_io_tally_merge(tally, &io);
    }
    release(l);
}
