/*
 * open.c - makes a loader from its settings or a state: defaults, the order, columns, the engine,
 * the division of the memory, threads.
 */
#include "load/options.h"
#include "load/priv.h"
#include "base/hash.h"
#include "base/api.h"
#include "base/thread.h"
#include "host/cpus.h"
#include "host/cgroup.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define MIB           (1ull << 20)
#define INFLIGHT_MOST (128 * MIB) /* more than any storage needs */
#define MEMORY_LEAST  (16 * MIB)
#define MEMORY_MOST   (512 * MIB)
#define MEMORY_SANE   (1ull << 46) /* so that sums do not overflow */
#define MOST_BATCHES  1024
#define IMAGE_GROWS   8 /* about how much larger a decoded image is than its file */

/* ---- settings ---- */

static uint64_t clamp(uint64_t v, uint64_t lo, uint64_t hi)
{
    return v < lo ? lo : v > hi ? hi : v;
}

/* Sets defaults that no table can express, and refuses options that contradict each other. */
static int check_options(struct stk_loader_options *o, struct stk_err *err)
{
    int rc = stk_loader_options_check(o, err);
    o->world = o->world ? o->world : 1;
    o->threads = o->threads ? o->threads : stk_cpus();
    if (!o->memory_bytes)
        o->memory_bytes = clamp(stk_memory_limit() / 8, MEMORY_LEAST, MEMORY_MOST);
    o->memory_bytes = clamp(o->memory_bytes, 0, MEMORY_SANE);
    if (rc == 0 && o->rank >= o->world)
        rc = stk_err_set(err, STK_E_USAGE, NULL, -1, "rank %u of %u: ranks count from 0", o->rank,
                         o->world);
    return rc;
}

static int parse_decode(struct stk_loader *ld, struct stk_err *err)
{
    const char *d = ld->o.decode;
    if (!d || strcmp(d, "auto") == 0 || strcmp(d, "raw") == 0)
        return 0;
    return stk_image_op_parse(d, &ld->image, &ld->image_field, err);
}

/* The dataset's shape, which identified it in states before stk_dataset_identity(). Such states are
 * still accepted. */
static uint64_t former_identity(const struct stk_dataset *ds)
{
    const struct stk_index_header *h = ds->index.h;
    uint64_t v[] = {h->nsamples, h->nextents, h->bytes_stored, h->bytes_samples, h->data_id};
    return stk_hash64(v, sizeof v);
}

/* ---- opening ---- */

static int check_dataset(struct stk_loader *ld, const struct stk_state *st, struct stk_err *err)
{
    if (st->n != ld->order.n)
        return stk_err_set(err, STK_E_STALE, ld->ds->path, -1,
                           "the state is of another dataset (%llu samples, here are %llu)",
                           (unsigned long long)st->n, (unsigned long long)ld->order.n);
    if (st->dataset_id != stk_dataset_identity(ld->ds) &&
        (!st->former || ld->ds->whole || st->dataset_id != former_identity(ld->ds)))
        return stk_err_set(err, STK_E_STALE, ld->ds->path, -1,
                           "the state is of another dataset: as many samples, but other files");
    return 0;
}

static int take_state(struct stk_loader *ld, struct stk_state *st, struct stk_err *err)
{
    int rc = stk_state_read(ld->o.state, strlen(ld->o.state), st, err);
    if (rc < 0)
        return rc;
    rc = check_dataset(ld, st, err);
    if (rc < 0) {
        stk_state_release(st);
        return rc;
    }
    ld->order.shuffle = st->shuffle;
    ld->order.seed = st->seed;
    if (st->order == STK_ORDER_VERSION) {
        ld->order.block = st->block;
        ld->order.window = st->window;
    }
    ld->o.epoch = st->epoch;
    return 0;
}

static int plan_first(struct stk_loader *ld, struct stk_err *err)
{
    struct stk_state st = {0};
    int rc = ld->o.state ? take_state(ld, &st, err) : 0;
    if (rc < 0)
        return rc;
    ld->first_epoch = ld->feed_epoch = ld->take_epoch = ld->o.epoch;
    rc = stk_loader_plan(ld, ld->o.epoch, st.leg, st.nlegs, err);
    if (ld->o.state)
        stk_state_release(&st);
    return rc;
}

/* A first guess from decoding the first sample: how much larger it becomes, and how much of it is
 * copied into a batch. Finished batches give better numbers. */
static void guess_growth(struct stk_loader *ld)
{
    uint64_t stored = 0, values = 0;
    bool filtered = stk_index_count(&ld->ds->index, STK_T_CHAINS) > 0;
    for (size_t i = 0; i < ld->sample.nfields; i++)
        values += ld->sample.field[i].value.size;
    ld->grows = 1;
    uint64_t number = ld->order.n ? stk_dataset_at(ld->ds, ld->looked_at) : 0;
    if (ld->order.n && stk_index_sample_bytes(&ld->ds->index, number, &stored, NULL) == 0 &&
        stored && values > stored)
        ld->grows = (double)values / (double)stored;
    if (ld->views && (filtered || !ld->simple))
        atomic_store(&ld->arena_bytes, (size_t)clamp(values * ld->o.batch, 0, MEMORY_SANE));
}

/* The index gets its share of the memory; reads and batches get the rest. */
static int limit_index(struct stk_loader *ld, struct stk_err *err)
{
    const struct stk_index *idx = &ld->ds->index;
    ld->index_bytes = stk_loader_index_share(ld);
    ld->budget = ld->o.memory_bytes - ld->index_bytes;
    return ld->index_bytes < idx->size ? stk_index_limit(idx, err) : 0;
}

/* Bytes of a batch's arrays. */
static uint64_t array_bytes(const struct stk_loader *ld, uint64_t mean)
{
    uint64_t sample = 0;
    for (size_t i = 0; i < ld->ncolumns; i++) {
        sample += ld->column[i].layout == STK_DENSE ? ld->column[i].size : 0;
        if (ld->column[i].image && ld->column[i].layout != STK_DENSE)
            sample += IMAGE_GROWS * mean; /* pixels of images of any size */
    }
    return sample * ld->o.batch;
}

/* Sets the size of stretches, from the memory for reads. */
static void divide_regions(struct stk_loader *ld, uint64_t mean, uint64_t regions)
{
    uint64_t data = stk_dataset_share(ld->ds, ld->ds->index.h->bytes_stored);
    uint64_t planned = mean + SAMPLE_PLAN_BYTES;
    bool block = ld->order.shuffle == STK_SHUFFLE_BLOCK;
    uint64_t window = planned * ld->order.block * ld->order.window;
    /* A stretch ends when it reaches its size; one sample less, and it still fits. */
    uint64_t spare = clamp(2 * mean + 4 * STK_IO_ALIGN, 0, ld->o.read_bytes / 2);
    uint64_t wanted = block ? window + window / 8 : ld->o.read_bytes - spare;
    data += ld->order.n * SAMPLE_PLAN_BYTES;
    wanted = clamp(wanted, 0, data + data / 8 + MIB); /* no more than available */
    uint64_t most = clamp(regions / (block ? 3 : 4), 64 << 10, UINT64_MAX);
    stk_sieve_init(ld, regions / 8);
    ld->decoding.most = (size_t)(regions / 8);
    if (block && wanted > most) /* sieved: read for some of its samples at a time */
        most = clamp((regions - clamp(ld->sieve.size, 0, regions)) / 3, 64 << 10, UINT64_MAX);
    ld->decoded_most = clamp(regions / 4 * 3, 64 << 10, UINT64_MAX);
    ld->stretch_bytes = clamp(wanted, 64 << 10, most);
    uint64_t read = (uint64_t)((double)ld->stretch_bytes * (double)mean / (double)planned);
    ld->region_bytes = block ? read + read / 16 : ld->stretch_bytes + spare;
    ld->region_most = clamp(most, ld->region_bytes, UINT64_MAX);
}

/* True if slices go straight to their batches: load/cut.c needs no other memory for them. */
static bool places_slices(const struct stk_loader *ld)
{
    bool all = ld->simple && !ld->views;
    for (size_t i = 0; i < ld->ncolumns; i++)
        all = all && !ld->column[i].image;
    return all;
}

/* The filtered extents of a window do not fit: every stretch decodes all of them, so stretches are
 * as large as possible. One is decoded while the batches of another are taken, which need the
 * memory of both. */
static void divide_for_cuts(struct stk_loader *ld, uint64_t mean, const struct packed *p)
{
    uint64_t buffers = clamp(p->takes, ld->budget / 4, UINT64_MAX);
    /* A large extent must not leave so little that each batch decodes all of them. */
    ld->budget = clamp(ld->budget, buffers + ld->budget / 4, UINT64_MAX);
    uint64_t rest = ld->budget - buffers;
    uint64_t batch = (ld->batch_bytes + atomic_load(&ld->arena_bytes)) / ld->o.batch;
    uint64_t slices = places_slices(ld) ? 0 : mean, held = ld->views ? 3 : 2;
    uint64_t plan = 2 * SAMPLE_PLAN_BYTES * clamp(p->nslices, 1, 1 << 20); /* tables double */
    uint64_t n = rest / (2 * batch + held * (slices + plan) + 1);
    n = clamp(n, 1, MOST_BATCHES * (uint64_t)ld->o.batch);
    ld->max_batches = (uint32_t)clamp(2 * n / ld->o.batch, 3, 4 * MOST_BATCHES);
    ld->stretch_bytes = clamp(n * (mean + SAMPLE_PLAN_BYTES), 64 << 10, UINT64_MAX);
    ld->region_bytes = clamp(n * slices, 64 << 10, UINT64_MAX);
    ld->region_most = ld->region_bytes;
    ld->decoded_most = 0; /* all of it is for batches, and buffers of a fixed size */
    ld->decoding.most = (size_t)(ld->budget / 8);
    stk_sieve_init(ld, ld->budget / 8);
}

/* Divides the budget between reads and batches. */
static void divide_memory(struct stk_loader *ld)
{
    uint64_t mean = stk_dataset_mean_bytes(ld->ds), dense = array_bytes(ld, mean);
    ld->batch_bytes = dense;
    uint64_t batches = ld->budget / (dense + mean * ld->o.batch + 1);
    uint64_t half = ld->budget / 2 / (dense + atomic_load(&ld->arena_bytes) + 1);
    /* Two windows, if they fit: the rest of a window that a stretch leaves is read again. */
    uint64_t windows = 2 * ld->order.block * ld->order.window / ld->o.batch + 2;
    ld->max_batches = (uint32_t)clamp(batches < half ? batches : half, 3,
                                      clamp(windows, MOST_BATCHES, 4 * MOST_BATCHES));
    uint64_t taken = dense * ld->max_batches;
    divide_regions(ld, mean, ld->budget - clamp(taken, 0, ld->budget / 2));
    struct packed packed;
    stk_loader_packed(ld, &packed);
    stk_loader_warn_extent(ld, &packed);
    ld->cuts = ld->order.shuffle != STK_SHUFFLE_NONE && packed.nextents > FEW_EXTENTS &&
               packed.bytes > ld->decoded_most;
    if (ld->cuts)
        divide_for_cuts(ld, mean, &packed);
    uint32_t items = 4 * ld->o.threads; /* so that the last part of a batch is done soon */
    ld->item_samples = (uint32_t)clamp((ld->o.batch + items - 1) / items, 1, 256);
}

/* Which checksums are compared in any case: those of the index, or of a filter. */
static void find_checksums(struct stk_loader *ld)
{
    const struct stk_index *idx = &ld->ds->index;
    const struct stk_chain *c = idx->table[STK_T_CHAINS];
    uint64_t n = stk_index_count(idx, STK_T_CHAINS);
    ld->checks = stk_index_count(idx, STK_T_CHECKS) > 0 && !ld->o.no_check;
    ld->sums = ld->checks || (ld->ds->format->caps & STK_CAN_SUM && !ld->o.no_check);
    for (uint64_t i = 0; i < n && i < 255; i++)
        ld->summed_chain[i + 1] = stk_fetch_is_summed(idx, &c[i]);
}

/* The caller may free its options now. Whether fields were named is still needed. */
static void forget_texts(struct stk_loader_options *o)
{
    static const char *const named[] = {NULL};
    o->io = o->decode = o->state = o->tier = NULL;
    o->fields = o->fields ? named : NULL;
}

static int start_threads(struct stk_loader *ld, struct stk_err *err)
{
    int e = stk_thread_start(&ld->feeder, stk_feed_main, ld);
    ld->feeder_started = e == 0;
    for (uint32_t i = 0; e == 0 && i < ld->nworkers; i++) {
        e = stk_thread_start(&ld->worker[i].thread, stk_work_main, &ld->worker[i]);
        ld->worker[i].started = e == 0;
        if (e != 0 && i > 0)
            e = 0; /* fewer are enough */
    }
    errno = e;
    return e ? stk_err_sys(err, NULL, "cannot start a thread") : 0;
}

static void name_tiers(struct stk_loader *ld)
{
    const char *path;
    for (unsigned i = 1; ld->tier && (path = stk_tier_overlay_path(ld->tier, i)); i++)
        stk_buf_printf(&ld->tier_text, "%s%s (%s)", i > 1 ? ", " : "", path,
                       stk_tier_overlay_in_memory(ld->tier, i) ? "memory" : "disk");
}

static int open_tier(struct stk_loader *ld, struct stk_err *err)
{
    struct stk_tier_use use = {
        .tiers = ld->o.tier, .fill = ld->o.tier_fill, .limit_bytes = ld->o.tier_limit_bytes};
    int rc = stk_tier_overlay_open(ld->ds, &use, &ld->tier, &ld->tier_notes, err);
    ld->files = ld->ds->files;
    if (ld->tier)
        ld->files.overlay = stk_tier_overlay_files(ld->tier);
    name_tiers(ld);
    if (ld->tier_notes.len)
        (void)stk_buf_cstr(&ld->tier_notes); /* terminated from here on */
    return rc;
}

/* What is mapped is not copied anywhere. */
static enum stk_io_kind engine_for(const struct stk_loader *ld, enum stk_io_kind kind)
{
    return kind == STK_IO_MMAP && ld->o.tier_fill ? STK_IO_THREADS : kind;
}

static int open_parts(struct stk_loader *ld, struct stk_err *err)
{
    enum stk_io_kind kind = STK_IO_AUTO;
    int rc = ld->o.io ? stk_io_find(ld->o.io, &kind, err) : 0;
    if (rc == 0)
        rc = parse_decode(ld, err);
    if (rc == 0) /* first: who fills a tier meanwhile lets us read the source before it */
        rc = open_tier(ld, err);
    if (rc == 0)
        rc = stk_reader_new(ld->ds, &ld->reader, err);
    if (rc == 0)
        rc = stk_dataset_labels(ld->ds, &ld->labels, err);
    if (rc == 0)
        rc = stk_columns_find(ld, err);
    find_checksums(ld);
    if (rc == 0)
        rc = plan_first(ld, err);
    if (rc < 0)
        return rc;
    stk_loader_warn(ld, &ld->plan[ld->o.epoch % 2].order);
    struct stk_io_config cfg = {.kind = engine_for(ld, kind),
                                .depth = ld->o.depth,
                                .bytes = INFLIGHT_MOST,
                                .random = ld->order.shuffle == STK_SHUFFLE_GLOBAL,
                                .cache_room = stk_memory_free() / 2,
                                .watch = !ld->ds->format->check};
    rc = stk_io_open(&ld->files, &cfg, &ld->io, err);
    if (rc == 0)
        rc = stk_watch_init(ld, err);
    if (rc < 0)
        return rc;
    guess_growth(ld);
    stk_reader_rest(ld->reader); /* from here on, it reads only failed samples */
    rc = limit_index(ld, err);
    if (rc < 0)
        return rc;
    divide_memory(ld);
    stk_regions_init(&ld->regions, ld->io, (size_t)ld->region_bytes, (size_t)ld->budget);
    rc = stk_worker_init(&ld->mender, ld, err);
    ld->worker = calloc(ld->o.threads, sizeof *ld->worker);
    if (rc == 0 && !ld->worker)
        rc = stk_err_nomem(err, ld->o.threads * sizeof *ld->worker);
    for (; rc == 0 && ld->nworkers < ld->o.threads; ld->nworkers++)
        rc = stk_worker_init(&ld->worker[ld->nworkers], ld, err);
    forget_texts(&ld->o);
    return rc < 0 ? rc : start_threads(ld, err);
}

/* A loader that stk_loader_close() accepts. */
static struct stk_loader *new_loader(void)
{
    struct stk_loader *ld = calloc(1, sizeof *ld);
    if (ld && !stk_live_add(ld)) {
        free(ld);
        ld = NULL;
    }
    return ld;
}

int stk_loader_open_sized(struct stk_dataset *ds, const struct stk_loader_options *opts,
                          size_t opts_size, struct stk_loader **out, struct stk_err *err)
{
    struct stk_loader_options o;
    int rc = ds && out ? stk_sized_in(&o, sizeof o, opts, opts_size, "loader options", err)
                       : stk_err_set(err, STK_E_USAGE, NULL, -1, "there is no %s (NULL)",
                                     ds ? "place for the loader" : "dataset");
    if (rc == 0)
        rc = check_options(&o, err);
    if (rc < 0)
        return rc;
    struct stk_loader *ld = new_loader();
    if (!ld)
        return stk_err_nomem(err, sizeof *ld);
    ld->ds = ds;
    stk_dataset_keep(ds);
    ld->o = o;
    ld->pid = getpid();
    atomic_store(&ld->refs, 1);
    pthread_mutex_init(&ld->lock, NULL);
    pthread_cond_init(&ld->work_cond, NULL);
    stk_cond_init(&ld->ready_cond);
    stk_sample_init(&ld->sample);
    ld->work_last = &ld->work_first;
    ld->out_last = &ld->out_first;
    ld->submit_last = &ld->submit_first;
    stk_loader_set_order(ld);
    rc = open_parts(ld, err);
    if (rc < 0) {
        stk_loader_close(ld);
        return rc;
    }
    stk_problems_of_dataset(ld);
    *out = ld;
    return 0;
}
