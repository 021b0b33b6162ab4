/*
 * reads.c - changes of how the program reads or writes: threads, read ahead, requests, shares of
 * ranks, memory, the loader.
 */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/file.h"
#include "base/own.h"
#include "model/work.h"
#include "stoker.h"
#include "tune/kinds.h"

#define KIB 1024u
#define MIB (1024u * KIB)

/* A change of one key to a number. */
static int propose_number(struct stk_tuner *t, const struct stk_tune_kind *k, uint64_t v,
                          const char *label, const char *key, struct stk_err *err)
{
    char id[STK_POINT_ID_MAX];
    snprintf(id, sizeof id, "%s-%llu", k->id, (unsigned long long)v);
    struct stk_tune_change *c = stk_tune_propose(t, k, id, label);
    if (!c)
        return 0;
    c->number = v;
    return stk_tune_set(t, c, err, "%s=%llu", key, (unsigned long long)v);
}

static bool reads_in_steps(const struct stk_workload *w)
{
    return w->dataset.format != STK_BENCH_NONE && w->reader.load == STK_LOAD_STEP;
}

/* ---- threads -------------------------------------------------------------------------------- */

/* Most that read files of their own: a thread of a stream needs one. */
static uint64_t most_threads(const struct stk_tune_subject *s)
{
    const struct stk_workload *w = &s->w;
    if (w->access.sharing == STK_SHARING_COLLECTIVE)
        return 0;
    if (!stk_bench_is_stream(w->dataset.format))
        return 64;
    return w->access.sharing == STK_SHARING_OWN ? w->dataset.files / s->ranks : 1;
}

/* Workers of a DataLoader are processes that read an epoch when it is asked for; the patch lets them
 * stay for the next one. A profile of a program that has none does not know how long a start takes. */
static int start_workers(struct stk_tuner *t, struct stk_tune_change *c, struct stk_err *err)
{
    const struct stk_workload *w = &t->s.w;
    bool torch = t->plan->job.framework == STK_FRAMEWORK_TORCH;
    bool unknown = torch && !w->reader.threads;
    int rc = 0;
    if (unknown || w->reader.epochs == STK_EPOCHS_RESTART)
        rc = stk_tune_set(t, c, err, "reader.epochs=asked");
    if (!rc && unknown)
        rc = stk_tune_set(t, c, err, "reader.start=%.9fs", STK_WORKER_START_S);
    if (!rc && unknown)
        rc = stk_tune_set(t, c, err, "reader.begin=%.9fs", STK_WORKER_START_S);
    return rc;
}

static int propose_threads(struct stk_tuner *t, const struct stk_tune_kind *k, struct stk_err *err)
{
    const struct stk_workload *w = &t->s.w;
    uint64_t now = w->reader.threads, most = most_threads(&t->s);
    const uint64_t tries[] = {now < 2 ? 4 : 2 * now, now < 4 ? 16 : 4 * now};
    int rc = 0;
    for (size_t i = 0; i < 2 && !rc && reads_in_steps(w); i++) {
        uint64_t n = tries[i] < most ? tries[i] : most;
        char label[96];
        if (n <= now || (i && n <= tries[0]))
            continue;
        snprintf(label, sizeof label, "%llu reading threads", (unsigned long long)n);
        rc = propose_number(t, k, n, label, "reader.threads", err);
        struct stk_tune_change *c = &t->out->candidate[t->out->n - 1].change[0];
        if (!rc && w->reader.prefetch < 2 * n)
            rc = stk_tune_set(t, c, err, "reader.prefetch=%llu", (unsigned long long)(2 * n));
        rc = rc ? rc : start_workers(t, c, err);
    }
    return rc;
}

static size_t act_threads(const struct stk_tune_change *c, struct stk_action *out)
{
    out[0] = (struct stk_action){.kind = STK_ACT_READERS, .path = c->source, .count = c->number};
    return 1;
}

static bool patch_threads(const struct stk_tune *t, const struct stk_tune_change *c,
                          const char *made, struct stk_buf *out)
{
    (void)t, (void)made;
    stk_buf_printf(out, "num_workers=%llu", (unsigned long long)c->number);
    return true;
}

const struct stk_tune_kind stk_tune_threads = {
    .id = "threads",
    .slots = STK_SLOT_THREADS | STK_SLOT_PREFETCH,
    .effort = 1,
    .finds = {STK_ACT_READERS, STK_ACT_DECODERS, STK_ACT_LOADER, STK_ACT_MAP_DATASET},
    .nfinds = 4,
    .propose = propose_threads,
    .act = act_threads,
    .advice = "workers of a DataLoader are processes, which take time to start: let them stay from "
              "one epoch to the next (persistent_workers=True), as the ones that were measured",
    .patch_option = "--set",
    .patch = patch_threads,
};

/* ---- reading ahead -------------------------------------------------------------------------- */

static int propose_prefetch(struct stk_tuner *t, const struct stk_tune_kind *k, struct stk_err *err)
{
    const struct stk_workload *w = &t->s.w;
    uint64_t n = w->reader.prefetch < 4 ? 8 : 4 * w->reader.prefetch;
    char label[96];
    if (!reads_in_steps(w) || !w->reader.threads || n > 4096 ||
        w->access.sharing == STK_SHARING_COLLECTIVE)
        return 0;
    snprintf(label, sizeof label, "%llu batches ahead", (unsigned long long)n);
    int rc = propose_number(t, k, n, label, "reader.prefetch", err);
    struct stk_tune_change *c = &t->out->candidate[t->out->n - 1].change[0];
    c->memory_bytes =
        (uint64_t)((double)(n * w->training.batch) * stk_dist_mean(&w->dataset.record));
    return rc;
}

static size_t act_prefetch(const struct stk_tune_change *c, struct stk_action *out)
{
    out[0] = (struct stk_action){.kind = STK_ACT_PREFETCH, .path = c->source, .depth = c->number};
    return 1;
}

/* torch counts batches per worker, and refuses the argument without workers. */
static bool patch_prefetch(const struct stk_tune *t, const struct stk_tune_change *c,
                           const char *made, struct stk_buf *out)
{
    (void)made;
    if (t->threads)
        stk_buf_printf(out, "prefetch_factor=%llu",
                       (unsigned long long)((c->number + t->threads - 1) / t->threads));
    return t->threads > 0;
}

const struct stk_tune_kind stk_tune_prefetch = {
    .id = "prefetch",
    .slots = STK_SLOT_PREFETCH,
    .effort = 1,
    .finds = {STK_ACT_PREFETCH, STK_ACT_LOADER},
    .nfinds = 2,
    .propose = propose_prefetch,
    .act = act_prefetch,
    .patch_option = "--set",
    .patch = patch_prefetch,
};

/* ---- larger requests ------------------------------------------------------------------------ */

#define SMALL_REQUEST (512 * KIB)

/* A replay has the requests of a profile: as many as are needed with the larger ones. */
static int propose_group_request(struct stk_tuner *t, const struct stk_tune_kind *k,
                                 struct stk_err *err)
{
    const struct stk_bench_group *g = &t->s.w.group[0];
    const struct stk_action larger = {.kind = STK_ACT_LARGER_READS, .use = t->out->use};
    if (!stk_action_applies(&larger, &(struct stk_action_scene){.python = true}))
        return 0; /* a library decides how large they are */
    uint64_t bytes = g->bytes ? g->bytes : t->s.bytes, want = (bytes + MIB - 1) / MIB;
    want = want > g->opens ? want : g->opens;
    if (!g->requests || bytes / g->requests >= SMALL_REQUEST || 2 * want > g->requests)
        return 0;
    struct stk_tune_change *c = stk_tune_propose(t, k, "request-1048576", "requests of 1 MiB");
    if (!c)
        return 0;
    c->number = MIB;
    int rc = stk_tune_set(t, c, err, "files.1.requests=%llu", (unsigned long long)want);
    return rc ? rc : stk_tune_set(t, c, err, "files.1.sizes=1Mx1");
}

static int propose_request(struct stk_tuner *t, const struct stk_tune_kind *k, struct stk_err *err)
{
    const struct stk_workload *w = &t->s.w;
    if (w->ngroups && reads_in_steps(w))
        return propose_group_request(t, k, err);
    const uint64_t tries[] = {1 * MIB, 8 * MIB};
    bool stream = stk_bench_is_stream(w->dataset.format);
    uint64_t now = w->access.transfer_bytes;
    char label[96];
    int rc = 0;
    if (!reads_in_steps(w) || !now || w->dataset.format == STK_BENCH_HDF5)
        return 0;
    for (size_t i = 0; i < 2 && !rc && stream; i++) {
        if (tries[i] < 2 * now)
            continue;
        snprintf(label, sizeof label, "requests of %llu MiB",
                 (unsigned long long)(tries[i] / MIB));
        rc = propose_number(t, k, tries[i], label, "access.transfer", err);
    }
    if (!stream && (double)now < stk_dist_mean(&w->dataset.record)) {
        rc = propose_number(t, k, 0, "whole files per request", "access.transfer", err);
    }
    return rc;
}

static size_t act_request(const struct stk_tune_change *c, struct stk_action *out)
{
    out[0] = (struct stk_action){.kind = c->number ? STK_ACT_LARGER_READS : STK_ACT_READ_WHOLE,
                                 .path = c->source,
                                 .bytes = c->number};
    return 1;
}

const struct stk_tune_kind stk_tune_request = {
    .id = "request",
    .slots = STK_SLOT_REQUEST,
    .effort = 1,
    .finds = {STK_ACT_LARGER_READS, STK_ACT_STREAM_BUFFER, STK_ACT_READ_WHOLE, STK_ACT_BATCH_READS},
    .nfinds = 4,
    .propose = propose_request,
    .act = act_request,
};

/* ---- shares of ranks ------------------------------------------------------------------------ */

static int propose_shard(struct stk_tuner *t, const struct stk_tune_kind *k, struct stk_err *err)
{
    const struct stk_workload *w = &t->s.w;
    if (w->dataset.format == STK_BENCH_NONE || w->access.offsets != STK_OFFSETS_SAME ||
        t->s.ranks < 2)
        return 0;
    struct stk_tune_change *c = stk_tune_propose(t, k, "shard", "own samples per rank");
    if (!c)
        return 0;
    c->number = t->s.ranks;
    return stk_tune_set(t, c, err, "access.offsets=sharded");
}

static size_t act_shard(const struct stk_tune_change *c, struct stk_action *out)
{
    out[0] = (struct stk_action){.kind = STK_ACT_DIVIDE, .path = c->source, .count = c->number};
    return 1;
}

const struct stk_tune_kind stk_tune_shard = {
    .id = "shard",
    .slots = STK_SLOT_SHARD,
    .effort = 1,
    .finds = {STK_ACT_DIVIDE, STK_ACT_PARTS, STK_ACT_EXCHANGE, STK_ACT_READ_ALL},
    .nfinds = 4,
    .propose = propose_shard,
    .act = act_shard,
    .advice = "check first that the ranks were not meant to read the same samples",
};

/* ---- all of it in memory -------------------------------------------------------------------- */

#define MEMORY_SHARE 0.5 /* of what is free, for data */

static int propose_memory(struct stk_tuner *t, const struct stk_tune_kind *k, struct stk_err *err)
{
    const struct stk_tune_subject *s = &t->s;
    bool all = s->w.access.offsets == STK_OFFSETS_SAME;
    uint64_t bytes = stk_tune_whole_bytes(s);
    double need = (double)bytes * (all ? (double)s->ranks : 1);
    if (!reads_in_steps(&s->w) || s->w.training.epochs < 2 || !s->bytes ||
        s->w.access.sharing == STK_SHARING_COLLECTIVE ||
        need > MEMORY_SHARE * (double)s->memory_bytes)
        return 0;
    struct stk_tune_change *c = stk_tune_propose(t, k, "memory", "all kept in memory");
    if (!c)
        return 0;
    c->memory_bytes = (uint64_t)need;
    c->number = bytes;
    return stk_tune_set(t, c, err, "reader.load=stored"); /* each epoch decodes it again */
}

static size_t act_memory(const struct stk_tune_change *c, struct stk_action *out)
{
    out[0] = (struct stk_action){.kind = STK_ACT_KEEP_DATA, .path = c->source, .bytes = c->number};
    return 1;
}

const struct stk_tune_kind stk_tune_memory = {
    .id = "memory",
    .slots = STK_SLOT_LOAD | STK_SLOT_DATA | STK_SLOT_THREADS | STK_SLOT_PREFETCH,
    .effort = 2,
    .finds = {STK_ACT_KEEP_DATA, STK_ACT_READ_ONCE, STK_ACT_WARM_UP, STK_ACT_STAGE},
    .nfinds = 4,
    .propose = propose_memory,
    .act = act_memory,
};

/* ---- a file that is read again and again ---------------------------------------------------- */

#define REREAD 2.0 /* times its size */

static uint64_t group_bytes(const struct stk_bench_group *g)
{
    return (uint64_t)((double)g->count * stk_dist_mean(&g->size));
}

static int propose_keep(struct stk_tuner *t, const struct stk_tune_kind *k, struct stk_err *err)
{
    const struct stk_workload *w = &t->s.w;
    int rc = 0;
    for (size_t i = 1; i < w->ngroups && !rc; i++) {
        const struct stk_bench_group *g = &w->group[i];
        uint64_t size = group_bytes(g);
        char id[STK_POINT_ID_MAX], label[96];
        if (g->keep || g->when != STK_WHEN_SAMPLE || !g->per ||
            size > t->s.memory_bytes / 4 / (t->s.ranks * (w->reader.threads + 1)) ||
            (double)g->opens < REREAD * (double)g->count)
            continue;
        snprintf(id, sizeof id, "keep-%zu", i + 1);
        snprintf(label, sizeof label, "%.60s read once", stk_base_name(g->path));
        struct stk_tune_change *c = stk_tune_propose(t, k, id, label);
        if (!c)
            break;
        c->number = size;
        c->memory_bytes = size * t->s.ranks * (w->reader.threads ? w->reader.threads : 1);
        c->source = stk_tune_text(t, "%s", g->path);
        rc = stk_tune_set(t, c, err, "files.%zu.keep=yes", i + 1);
    }
    return rc;
}

static size_t act_keep(const struct stk_tune_change *c, struct stk_action *out)
{
    out[0] = (struct stk_action){
        .kind = STK_ACT_READ_ONCE, .path = c->source, .is_file = true, .bytes = c->number};
    return 1;
}

const struct stk_tune_kind stk_tune_keep = {
    .id = "keep",
    .slots = STK_SLOT_REREAD,
    .effort = 1,
    .finds = {STK_ACT_READ_ONCE, STK_ACT_KEEP_DATA, STK_ACT_KEEP_OPEN, STK_ACT_READ_WHOLE},
    .nfinds = 4,
    .propose = propose_keep,
    .act = act_keep,
};

/* ---- stoker's loader ------------------------------------------------------------------------ */

static int propose_loader(struct stk_tuner *t, const struct stk_tune_kind *k, struct stk_err *err)
{
    const struct stk_workload *w = &t->s.w;
    (void)err;
    if (!reads_in_steps(w) || w->training.eval_every)
        return 0;
    struct stk_tune_change *c = stk_tune_propose(t, k, "loader", "stoker's loader");
    if (!c)
        return 0;
    c->loader = true;
    if (t->plan->data) /* bench keeps the index of what it has made */
        return 0;
    c->use = STK_USE_INDEX;
    c->copy.path = stk_tune_text(t, "loader.stkidx");
    return 0;
}

static int prepare_loader(const struct stk_tuner *t, const struct stk_tune_change *c,
                          struct stk_buf *at, struct stk_err *err)
{
    const struct stk_open_options o = {.index = c->copy.path};
    struct stk_dataset *ds = NULL;
    int rc = stk_dataset_open(t->s.source, &o, &ds, err);
    stk_dataset_close(ds);
    if (stk_may_exist(AT_FDCWD, c->copy.path)) /* a packed dataset has its own */
        stk_buf_puts(at, c->copy.path);
    return rc;
}

static size_t act_loader(const struct stk_tune_change *c, struct stk_action *out)
{
    out[0] = (struct stk_action){.kind = STK_ACT_LOADER, .path = c->source};
    return 1;
}

const struct stk_tune_kind stk_tune_loader = {
    .id = "loader",
    .slots = STK_SLOT_THREADS | STK_SLOT_PREFETCH | STK_SLOT_REQUEST | STK_SLOT_LOAD,
    .effort = 2,
    .finds = {STK_ACT_LOADER, STK_ACT_MAP_DATASET, STK_ACT_READERS, STK_ACT_PREFETCH, STK_ACT_PACK,
              STK_ACT_BATCH_READS},
    .nfinds = 6,
    .propose = propose_loader,
    .prepare = prepare_loader,
    .act = act_loader,
    .patch_option = "--loader",
};

/* ---- fewer CPUs ----------------------------------------------------------------------------- */

/* Half and a quarter of them: whether reading needs what the job has. */
static int propose_cpus(struct stk_tuner *t, const struct stk_tune_kind *k, struct stk_err *err)
{
    const struct stk_tune_subject *s = &t->s;
    unsigned each = (unsigned)(s->cpus / s->ranks);
    (void)err;
    if (!reads_in_steps(&s->w) || t->plan->storage)
        return 0;
    for (unsigned n = each / 2; n && n >= each / 4; n /= 2) {
        char id[STK_POINT_ID_MAX], label[96];
        snprintf(id, sizeof id, "cpus-%u", n);
        snprintf(label, sizeof label, "%u CPU%s instead of %u", n, n == 1 ? "" : "s", each);
        struct stk_tune_change *c = stk_tune_propose(t, k, id, label);
        if (!c)
            break;
        c->number = n;
        c->cpus = n * (unsigned)s->ranks;
    }
    return 0;
}

const struct stk_tune_kind stk_tune_cpus = {
    .id = "cpus",
    .slots = STK_SLOT_CPUS,
    .helps = STK_HELPS_COST,
    .effort = 1,
    .propose = propose_cpus,
    .unmodelled = true,
};
