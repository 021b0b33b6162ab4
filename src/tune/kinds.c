/*
 * kinds.c - the table of changes: how the program reads or writes (threads, read ahead, requests,
 * shares of ranks, memory, the loader), and where and in which form its data is (packed, copied to
 * faster storage). The model does not know what other forms of packed data gain, so they are
 * proposed only where there is a reason, and measured.
 */
#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include "base/file.h"
#include "base/own.h"
#include "host/fs_facts.h"
#include "model/work.h"
#include "pack/pack.h"
#include "stage/stage.h"
#include "stage/target.h"
#include "stoker.h"
#include "tier/source.h"
#include "tune/priv.h"

#define KIB   1024u
#define MIB   (1024u * KIB)
#define SHARD (256u << 20) /* bytes of a shard, as a rule */
#define SMALL (64u << 20)  /* of a small one: the number of its change */
/* What a kind touches whose packed data the loader reads. */
#define LOADS_PACKED                                                                               \
    (STK_SLOT_DATA | STK_SLOT_THREADS | STK_SLOT_PREFETCH | STK_SLOT_REQUEST | STK_SLOT_LOAD)
#define NUMBER(member) offsetof(struct stk_action, member)

#define A(action) (1ull << STK_ACT_##action)

typedef const struct stk_tune_kind kind;

/* ---- for all kinds -------------------------------------------------------------------------- */

struct stk_tune_proposal *stk_tune_add(struct stk_tune_list *list)
{
    return list->n < STK_TUNE_MAX ? &list->item[list->n++] : NULL;
}

static struct stk_tune_change *propose(struct stk_tune_offer *o, kind *k, const char *id,
                                       const char *label)
{
    struct stk_tune_proposal *c = stk_tune_add(o->list);
    if (!c)
        return NULL;
    struct stk_tune_change *x = &c->change[0];
    c->nchanges = 1;
    x->kind = k;
    x->kind_id = k->id;
    x->single = o->list->n - 1;
    x->source = k->helps == STK_HELPS_SAVES ? o->s->save : stk_tune_whole_source(o->s);
    snprintf(x->id, sizeof x->id, "%s", id);
    snprintf(x->label, sizeof x->label, "%s", label);
    snprintf(c->id, sizeof c->id, "%s", id);
    snprintf(c->label, sizeof c->label, "%s", label);
    return x;
}

/* Adds "key=value" to a change. */
static int set(struct stk_tune_offer *o, struct stk_tune_change *c, struct stk_err *err,
               const char *fmt, ...) STK_PRINTF(4, 5);
static int set(struct stk_tune_offer *o, struct stk_tune_change *c, struct stk_err *err,
               const char *fmt, ...)
{
    char text[4400];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (n < 0 || (size_t)n >= sizeof text || c->nset == STK_TUNE_SETS)
        return stk_err_set(err, STK_E_USAGE, NULL, -1, "%.80s: the name is too long", text);
    c->set[c->nset] = stk_arena_dup(o->list->arena, text, (size_t)n);
    return c->set[c->nset++] ? 0 : stk_err_nomem(err, (size_t)n);
}

/* A change of one key to a number. NULL: too many. */
static struct stk_tune_change *propose_number(struct stk_tune_offer *o, kind *k, uint64_t v,
                                              const char *label, const char *key)
{
    char id[STK_POINT_ID_MAX];
    snprintf(id, sizeof id, "%s-%llu", k->id, (unsigned long long)v);
    struct stk_tune_change *c = propose(o, k, id, label);
    if (!c)
        return NULL;
    c->number = v;
    return set(o, c, NULL, "%s=%llu", key, (unsigned long long)v) ? NULL : c;
}

static bool reads_in_steps(const struct stk_workload *w)
{
    return w->dataset.format != STK_BENCH_NONE && w->reader.load == STK_LOAD_STEP;
}

/* It reads files, and copies of them can be tried. */
static bool reads_data(const struct stk_tune_subject *s)
{
    return s->source && reads_in_steps(&s->w);
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
    return w->access.sharing == STK_SHARING_OWN ? w->dataset.files / stk_tune_ranks(s) : 1;
}

/* Workers of a DataLoader are processes that read an epoch when it is asked for; the patch lets
 * them stay for the next one. A profile of a program that has none does not know how long a start
 * takes. */
static int start_workers(struct stk_tune_offer *o, struct stk_tune_change *c, struct stk_err *err)
{
    const struct stk_workload *w = &o->s->w;
    bool unknown = o->plan->job.framework == STK_FRAMEWORK_TORCH && !w->reader.threads;
    int rc = 0;
    if (unknown || w->reader.epochs == STK_EPOCHS_RESTART)
        rc = set(o, c, err, "reader.epochs=asked");
    if (!rc && unknown)
        rc = set(o, c, err, "reader.start=%.9fs", STK_WORKER_START_S);
    if (!rc && unknown)
        rc = set(o, c, err, "reader.begin=%.9fs", STK_WORKER_START_S);
    return rc;
}

static int propose_threads(struct stk_tune_offer *o, kind *k, struct stk_err *err)
{
    const struct stk_workload *w = &o->s->w;
    uint64_t now = w->reader.threads, most = most_threads(o->s);
    const uint64_t tries[] = {now < 2 ? 4 : 2 * now, now < 4 ? 16 : 4 * now};
    int rc = 0;
    for (size_t i = 0; i < 2 && !rc && reads_in_steps(w); i++) {
        uint64_t n = tries[i] < most ? tries[i] : most;
        char label[96];
        if (n <= now || (i && n <= tries[0]))
            continue;
        snprintf(label, sizeof label, "%llu reading threads", (unsigned long long)n);
        struct stk_tune_change *c = propose_number(o, k, n, label, "reader.threads");
        if (c && w->reader.prefetch < 2 * n)
            rc = set(o, c, err, "reader.prefetch=%llu", (unsigned long long)(2 * n));
        if (c && !rc)
            rc = start_workers(o, c, err);
    }
    return rc;
}

static bool patch_threads(const struct stk_tune *t, const struct stk_tune_change *c,
                          const char *made, struct stk_buf *out)
{
    (void)t, (void)made;
    stk_buf_printf(out, "num_workers=%llu", (unsigned long long)c->number);
    return true;
}

static kind threads = {
    .id = "threads",
    .slots = STK_SLOT_THREADS | STK_SLOT_PREFETCH,
    .effort = 1,
    .finds = A(READERS) | A(DECODERS) | A(LOADER) | A(MAP_DATASET),
    .propose = propose_threads,
    .action = {.kind = STK_ACT_READERS},
    .number = NUMBER(count),
    .advice = "workers of a DataLoader are processes, which take time to start: let them stay from "
              "one epoch to the next (persistent_workers=True), as the ones that were measured",
    .patch_option = "--set",
    .patch = patch_threads,
};

/* ---- reading ahead -------------------------------------------------------------------------- */

static int propose_prefetch(struct stk_tune_offer *o, kind *k, struct stk_err *err)
{
    const struct stk_workload *w = &o->s->w;
    uint64_t n = w->reader.prefetch < 4 ? 8 : 4 * w->reader.prefetch;
    char label[96];
    (void)err;
    if (!reads_in_steps(w) || !w->reader.threads || n > 4096 ||
        w->access.sharing == STK_SHARING_COLLECTIVE)
        return 0;
    snprintf(label, sizeof label, "%llu batches ahead", (unsigned long long)n);
    struct stk_tune_change *c = propose_number(o, k, n, label, "reader.prefetch");
    if (c)
        c->memory_bytes =
            (uint64_t)((double)(n * w->training.batch) * stk_dist_mean(&w->dataset.record));
    return 0;
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

static kind prefetch = {
    .id = "prefetch",
    .slots = STK_SLOT_PREFETCH,
    .effort = 1,
    .finds = A(PREFETCH) | A(LOADER),
    .propose = propose_prefetch,
    .action = {.kind = STK_ACT_PREFETCH},
    .number = NUMBER(depth),
    .patch_option = "--set",
    .patch = patch_prefetch,
};

/* ---- larger requests ------------------------------------------------------------------------ */

#define SMALL_REQUEST (512 * KIB)

/* A replay has the requests of a profile: as many as are needed with the larger ones. */
static int propose_group_request(struct stk_tune_offer *o, kind *k, struct stk_err *err)
{
    const struct stk_bench_group *g = &o->s->w.group[0];
    const struct stk_format *f = o->s->look.format ? stk_format_find(o->s->look.format) : NULL;
    const struct stk_action larger = {.kind = STK_ACT_LARGER_READS, .use = f ? f->use : NULL};
    if (!stk_action_applies(&larger, &(struct stk_action_scene){.python = true}))
        return 0; /* a library decides how large they are */
    uint64_t bytes = g->bytes ? g->bytes : o->s->bytes, want = (bytes + MIB - 1) / MIB;
    want = want > g->opens ? want : g->opens;
    if (!g->requests || bytes / g->requests >= SMALL_REQUEST || 2 * want > g->requests)
        return 0;
    struct stk_tune_change *c = propose(o, k, "request-1048576", "requests of 1 MiB");
    if (!c)
        return 0;
    c->number = MIB;
    int rc = set(o, c, err, "files.1.requests=%llu", (unsigned long long)want);
    return rc ? rc : set(o, c, err, "files.1.sizes=1Mx1");
}

static int propose_request(struct stk_tune_offer *o, kind *k, struct stk_err *err)
{
    const struct stk_workload *w = &o->s->w;
    const uint64_t tries[] = {1 * MIB, 8 * MIB};
    bool stream = stk_bench_is_stream(w->dataset.format);
    uint64_t now = w->access.transfer_bytes;
    char label[96];
    if (w->ngroups && reads_in_steps(w))
        return propose_group_request(o, k, err);
    if (!reads_in_steps(w) || !now || w->dataset.format == STK_BENCH_HDF5)
        return 0;
    for (size_t i = 0; i < 2 && stream; i++) {
        if (tries[i] < 2 * now)
            continue;
        snprintf(label, sizeof label, "requests of %llu MiB",
                 (unsigned long long)(tries[i] / MIB));
        (void)propose_number(o, k, tries[i], label, "access.transfer");
    }
    if (!stream && (double)now < stk_dist_mean(&w->dataset.record))
        (void)propose_number(o, k, 0, "whole files per request", "access.transfer");
    return 0;
}

static size_t act_request(const struct stk_tune_change *c, struct stk_action *out)
{
    out[0] = (struct stk_action){.kind = c->number ? STK_ACT_LARGER_READS : STK_ACT_READ_WHOLE,
                                 .path = c->source,
                                 .bytes = c->number};
    return 1;
}

static kind request = {
    .id = "request",
    .slots = STK_SLOT_REQUEST,
    .effort = 1,
    .finds = A(LARGER_READS) | A(STREAM_BUFFER) | A(READ_WHOLE) | A(BATCH_READS),
    .propose = propose_request,
    .act = act_request,
};

/* ---- shares of ranks ------------------------------------------------------------------------ */

static int propose_shard(struct stk_tune_offer *o, kind *k, struct stk_err *err)
{
    const struct stk_workload *w = &o->s->w;
    if (w->dataset.format == STK_BENCH_NONE || w->access.offsets != STK_OFFSETS_SAME ||
        w->training.ranks < 2)
        return 0;
    struct stk_tune_change *c = propose(o, k, "shard", "own samples per rank");
    if (!c)
        return 0;
    c->number = w->training.ranks;
    return set(o, c, err, "access.offsets=sharded");
}

static kind shard = {
    .id = "shard",
    .slots = STK_SLOT_SHARD,
    .effort = 1,
    .finds = A(DIVIDE) | A(PARTS) | A(EXCHANGE) | A(READ_ALL),
    .propose = propose_shard,
    .action = {.kind = STK_ACT_DIVIDE},
    .number = NUMBER(count),
    .advice = "check first that the ranks were not meant to read the same samples",
};

/* ---- all of it in memory -------------------------------------------------------------------- */

#define MEMORY_SHARE 0.5 /* of what is free, for data */

static int propose_memory(struct stk_tune_offer *o, kind *k, struct stk_err *err)
{
    const struct stk_tune_subject *s = o->s;
    bool all = s->w.access.offsets == STK_OFFSETS_SAME;
    double need = (double)stk_tune_whole_bytes(s) * (all ? (double)stk_tune_ranks(s) : 1);
    if (!reads_in_steps(&s->w) || s->w.training.epochs < 2 || !s->bytes ||
        s->w.access.sharing == STK_SHARING_COLLECTIVE ||
        need > MEMORY_SHARE * (double)s->memory_bytes)
        return 0;
    struct stk_tune_change *c = propose(o, k, "memory", "all kept in memory");
    if (!c)
        return 0;
    c->memory_bytes = (uint64_t)need;
    c->number = stk_tune_whole_bytes(s);
    return set(o, c, err, "reader.load=stored"); /* each epoch decodes it again */
}

static kind memory = {
    .id = "memory",
    .slots = STK_SLOT_LOAD | STK_SLOT_DATA | STK_SLOT_THREADS | STK_SLOT_PREFETCH,
    .effort = 2,
    .finds = A(KEEP_DATA) | A(READ_ONCE) | A(WARM_UP) | A(STAGE),
    .propose = propose_memory,
    .action = {.kind = STK_ACT_KEEP_DATA},
    .number = NUMBER(bytes),
};

/* ---- a file that is read again and again ---------------------------------------------------- */

#define REREAD 2.0 /* times its size */

static int propose_keep(struct stk_tune_offer *o, kind *k, struct stk_err *err)
{
    const struct stk_workload *w = &o->s->w;
    uint64_t readers = w->training.ranks * (w->reader.threads ? w->reader.threads : 1);
    int rc = 0;
    for (size_t i = 1; i < w->ngroups && !rc; i++) {
        const struct stk_bench_group *g = &w->group[i];
        uint64_t size = (uint64_t)((double)g->count * stk_dist_mean(&g->size));
        char id[STK_POINT_ID_MAX], label[96];
        if (g->keep || g->when != STK_WHEN_SAMPLE || !g->per ||
            size > o->s->memory_bytes / 4 / (w->training.ranks * (w->reader.threads + 1)) ||
            (double)g->opens < REREAD * (double)g->count)
            continue;
        snprintf(id, sizeof id, "keep-%zu", i + 1);
        snprintf(label, sizeof label, "%.60s read once", stk_base_name(g->path));
        struct stk_tune_change *c = propose(o, k, id, label);
        if (!c)
            break;
        c->number = size;
        c->memory_bytes = size * readers;
        c->source = stk_tune_text(o->list->arena, "%s", g->path);
        rc = set(o, c, err, "files.%zu.keep=yes", i + 1);
    }
    return rc;
}

static kind keep = {
    .id = "keep",
    .slots = STK_SLOT_REREAD,
    .effort = 1,
    .finds = A(READ_ONCE) | A(KEEP_DATA) | A(KEEP_OPEN) | A(READ_WHOLE),
    .propose = propose_keep,
    .action = {.kind = STK_ACT_READ_ONCE, .is_file = true},
    .number = NUMBER(bytes),
};

/* ---- stoker's loader ------------------------------------------------------------------------ */

static int propose_loader(struct stk_tune_offer *o, kind *k, struct stk_err *err)
{
    const struct stk_workload *w = &o->s->w;
    (void)err;
    if (!reads_in_steps(w) || w->training.eval_every)
        return 0;
    struct stk_tune_change *c = propose(o, k, "loader", "stoker's loader");
    if (!c)
        return 0;
    c->loader = true;
    if (o->plan->data) /* bench keeps the index of what it has made */
        return 0;
    c->use = STK_USE_INDEX;
    c->makes = "loader.stkidx";
    return 0;
}

static int prepare_loader(const struct stk_tune_making *m, struct stk_buf *at, struct stk_err *err)
{
    const struct stk_open_options o = {.index = m->path};
    struct stk_dataset *ds = NULL;
    int rc = stk_dataset_open(m->s->source, &o, &ds, err);
    stk_dataset_close(ds);
    if (stk_may_exist(AT_FDCWD, m->path)) /* a packed dataset has its own */
        stk_buf_puts(at, m->path);
    return rc;
}

static kind loader = {
    .id = "loader",
    .slots = STK_SLOT_THREADS | STK_SLOT_PREFETCH | STK_SLOT_REQUEST | STK_SLOT_LOAD,
    .effort = 2,
    .finds = A(LOADER) | A(MAP_DATASET) | A(READERS) | A(PREFETCH) | A(PACK) | A(BATCH_READS),
    .propose = propose_loader,
    .prepare = prepare_loader,
    .action = {.kind = STK_ACT_LOADER},
    .patch_option = "--loader",
};

/* ---- fewer CPUs ----------------------------------------------------------------------------- */

/* Half and a quarter of them: whether reading needs what the job has. */
static int propose_cpus(struct stk_tune_offer *o, kind *k, struct stk_err *err)
{
    unsigned ranks = (unsigned)stk_tune_ranks(o->s), each = o->s->cpus / ranks;
    (void)err;
    if (!reads_in_steps(&o->s->w) || o->plan->storage)
        return 0;
    for (unsigned n = each / 2; n && n >= each / 4; n /= 2) {
        char id[STK_POINT_ID_MAX], label[96];
        snprintf(id, sizeof id, "cpus-%u", n);
        snprintf(label, sizeof label, "%u CPU%s instead of %u", n, n == 1 ? "" : "s", each);
        struct stk_tune_change *c = propose(o, k, id, label);
        if (!c)
            break;
        c->number = n;
        c->cpus = n * ranks;
    }
    return 0;
}

static kind cpus = {
    .id = "cpus",
    .slots = STK_SLOT_CPUS,
    .helps = STK_HELPS_COST,
    .effort = 1,
    .propose = propose_cpus,
    .unmodelled = true,
};

/* ---- copies of the data ---------------------------------------------------------------------- */

/* "local disk", "RAM": what people call a folder of that kind. */
static const char *place_name(const struct stk_tune_near *n)
{
    return n->fs->memory ? "RAM" : n->fs->network ? n->fs->name : "local disk";
}

/* In the folder of the call, or (near < nnear) on that storage. NULL: too many. */
static struct stk_tune_change *propose_copy(struct stk_tune_offer *o, kind *k, const char *what,
                                            const char *label, size_t near)
{
    const struct stk_tune_near *n = near < o->s->nnear ? &o->s->near[near] : NULL;
    char id[STK_POINT_ID_MAX], text[96];
    snprintf(id, sizeof id, n ? "%s-near%zu" : "%s", what, near + 1);
    snprintf(text, sizeof text, "%s%s%s", label, !n ? "" : n->fs->memory ? " in " : " on ",
             n ? place_name(n) : "");
    struct stk_tune_change *c = propose(o, k, id, text);
    if (!c)
        return NULL;
    c->where = n ? n->path : NULL;
    c->named = n && o->plan->near ? n->path : "";
    c->near = near;
    c->makes = stk_tune_text(o->list->arena, "%s", id);
    c->use = STK_USE_DATA;
    c->memory_bytes = n && n->fs->memory ? stk_tune_whole_bytes(o->s) : 0;
    return c;
}

/* The same, packed for the loader. format NULL: the one that packs this data best. */
static struct stk_tune_change *propose_packed(struct stk_tune_offer *o, kind *k, const char *id,
                                              const char *label, const char *format, size_t near)
{
    const char *usual = o->s->look.packs_as ? o->s->look.packs_as : "tfrecord";
    struct stk_tune_change *c = propose_copy(o, k, id, label, near);
    if (!c)
        return NULL;
    c->loader = true;
    c->format = format ? format : usual;
    c->use = STK_USE_LOADER;
    return c;
}

/* Nothing says how evaluation reads packed data. */
static bool can_pack(const struct stk_tune_subject *s)
{
    return reads_data(s) && !s->w.training.eval_every;
}

static int propose_pack(struct stk_tune_offer *o, kind *k, struct stk_err *err)
{
    (void)err;
    if (!can_pack(o->s))
        return 0;
    (void)propose_packed(o, k, "pack", "packed + loader", NULL, SIZE_MAX);
    for (size_t i = 0; i < o->s->nnear; i++)
        (void)propose_packed(o, k, "pack", "packed + loader", NULL, i);
    return 0;
}

static int propose_compress(struct stk_tune_offer *o, kind *k, struct stk_err *err)
{
    struct stk_tune_change *c = NULL;
    (void)err;
    if (can_pack(o->s) && !o->s->look.packs_as)
        c = propose_packed(o, k, "pack-zstd", "packed with zstd + loader", NULL, SIZE_MAX);
    if (c)
        c->codec = "zstd";
    return 0;
}

#define FEW 100u /* large files, which gain nothing from being one */

static int propose_squashfs(struct stk_tune_offer *o, kind *k, struct stk_err *err)
{
    (void)err;
    if (can_pack(o->s) && o->s->files >= FEW)
        (void)propose_packed(o, k, "squashfs", "squashfs image + loader", "squashfs", SIZE_MAX);
    return 0;
}

/* A shard lies on one server of a shared file system, as a rule: few shards keep few of them busy.
 */
static int propose_shards(struct stk_tune_offer *o, kind *k, struct stk_err *err)
{
    const struct stk_tune_subject *s = o->s;
    uint64_t usual = s->bytes / SHARD + 1, more = s->bytes / SMALL + 1;
    struct stk_tune_change *c = NULL;
    (void)err;
    if (can_pack(s) && s->fs->network && usual <= 2 * stk_tune_ranks(s) && more >= 2 * usual)
        c = propose_packed(o, k, "shards", "packed in 64 MiB shards + loader", NULL, SIZE_MAX);
    if (c)
        c->number = SMALL;
    return 0;
}

#define FRAME 80u /* bytes that a TFRecord adds to an array: frame, names, type, shape */

/* Rows of arrays, and only small ones: FRAME bytes more for each. */
static int propose_arrays(struct stk_tune_offer *o, kind *k, struct stk_err *err)
{
    const struct stk_workload *w = &o->s->w;
    (void)err;
    if (can_pack(o->s) && o->s->look.arrays && w->dataset.samples_per_file > 1 &&
        FRAME >= o->plan->least * stk_dist_mean(&w->dataset.record))
        (void)propose_packed(o, k, "pack-npy", "packed as NPY + loader", "npy", SIZE_MAX);
    return 0;
}

static int prepare_pack(const struct stk_tune_making *m, struct stk_buf *at, struct stk_err *err)
{
    const struct stk_tune_change *c = m->change;
    const struct stk_open_options open = {.no_index_write = true};
    const struct stk_pack_options o = {.format = c->format,
                                       .shard_size_bytes = c->number ? c->number : SHARD,
                                       .compress = c->codec};
    struct stk_pack_result r = {0};
    int rc = stk_pack_into(m->packed ? m->packed : m->s->source, m->path, &open, &o, &r, err);
    stk_pack_result_release(&r);
    stk_buf_puts(at, m->path);
    return rc;
}

static size_t act_pack(const struct stk_tune_change *c, struct stk_action *out)
{
    size_t n = 0;
    out[n++] = (struct stk_action){
        .kind = STK_ACT_PACK, .format = c->format, .codec = c->codec, .path = c->source,
        .to = STK_TUNE_PACKED, .bytes = c->number};
    if (c->where)
        out[n++] = (struct stk_action){.kind = STK_ACT_STAGE, .path = STK_TUNE_PACKED,
                                       .to = c->named, .to_named = *c->named != '\0'};
    out[n++] = (struct stk_action){.kind = STK_ACT_LOADER, .path = STK_TUNE_PACKED};
    return n;
}

#define PACKS                                                                                      \
    .slots = LOADS_PACKED, .effort = 4, .prepare = prepare_pack, .act = act_pack,                  \
    .patch_option = "--packed", .patches_parts = true
#define PACK_FINDS \
    .finds = A(PACK) | A(REWRITE) | A(BATCH_READS) | A(SORT_READS) | A(LOADER) | A(STAGE)

static kind pack = {PACKS, PACK_FINDS, .id = "pack", .propose = propose_pack, .repacks = true};
static kind compress = {
    PACKS, PACK_FINDS, .id = "compress", .propose = propose_compress, .repacks = true};
static kind squashfs = {
    PACKS, PACK_FINDS, .id = "squashfs", .propose = propose_squashfs, .repacks = true};
static kind shards = {
    PACKS,
    .id = "shards",
    .finds = A(PACK) | A(REWRITE) | A(LOADER) | A(STRIPE_NEW),
    .propose = propose_shards,
    .unmodelled = true,
    .repacks = true,
};
static kind arrays = {
    PACKS,
    .id = "format",
    .finds = A(PACK) | A(REWRITE) | A(BATCH_READS) | A(LOADER),
    .propose = propose_arrays,
    .unmodelled = true,
};

/* ---- staged --------------------------------------------------------------------------------- */

static int propose_stage(struct stk_tune_offer *o, kind *k, struct stk_err *err)
{
    (void)err;
    for (size_t i = 0; i < o->s->nnear && reads_data(o->s); i++)
        (void)propose_copy(o, k, "stage", "staged", i);
    return 0;
}

static int prepare_stage(const struct stk_tune_making *m, struct stk_buf *at, struct stk_err *err)
{
    const struct stk_source_options how = {.no_index = true};
    const struct stk_tier_options make = {.make = true};
    const struct stk_stage_options o = {0};
    struct stk_source src = STK_SOURCE_INIT;
    struct stk_stage_result r = {0};
    struct stk_tier *tier = NULL;
    char stripes[64];
    int rc = stk_source_open(&src, m->source, &how, err);
    rc = rc ? rc : stk_tier_open(m->path, &make, &tier, err);
    if (!rc)
        stk_target_stripe(m->path, src.count ? src.bytes / src.count : 0, STK_TIER_PARCEL, stripes,
                          sizeof stripes);
    rc = rc ? rc : stk_stage_fill(&src, tier, &o, &r, err);
    if (!rc && !r.path)
        rc = stk_err_set(err, STK_E_SYS, m->path, -1, "the copy is not complete");
    if (!rc)
        stk_buf_puts(at, r.path);
    stk_stage_result_release(&r);
    stk_tier_close(tier);
    stk_source_release(&src);
    return rc;
}

/* "OLD=NEW" */
static bool patch_place(const struct stk_tune *t, const struct stk_tune_change *c, const char *made,
                        struct stk_buf *out)
{
    (void)t;
    if (made)
        stk_buf_printf(out, "%s=%s", c->source, made);
    return made != NULL;
}

static kind stage = {
    .id = "stage",
    .slots = STK_SLOT_DATA,
    .effort = 3,
    .finds = A(STAGE) | A(WARM_UP) | A(PACK) | A(PREFETCH),
    .propose = propose_stage,
    .prepare = prepare_stage,
    .action = {.kind = STK_ACT_STAGE},
    .patch_option = "--moved",
    .patch = patch_place,
};

/* A copy by `stoker stage`, which sets the stripes that fit, instead of those that the files have.
 */
static int propose_stripes(struct stk_tune_offer *o, kind *k, struct stk_err *err)
{
    const struct stk_tune_subject *s = o->s;
    struct stk_lustre_stripe now;
    char id[STK_POINT_ID_MAX], label[96];
    (void)err;
    if (!reads_data(s) || !s->fs->stripes || !s->files)
        return 0;
    struct stk_lustre_stripe fit = stk_lustre_stripe_fit(s->bytes / s->files, MIB);
    if (fit.count < 2 || !stk_lustre_stripe(s->source, &now) || now.progressive ||
        now.count < 0 || now.count >= fit.count)
        return 0;
    snprintf(id, sizeof id, "stripes-%lld", (long long)fit.count);
    snprintf(label, sizeof label, "%lld stripes instead of %lld", (long long)fit.count,
             (long long)now.count);
    struct stk_tune_change *c = propose_copy(o, k, id, label, SIZE_MAX);
    if (c)
        c->number = (uint64_t)fit.count;
    return 0;
}

static kind stripes = {
    .id = "stripes",
    .slots = STK_SLOT_DATA,
    .effort = 3,
    .finds = A(STRIPE_NEW) | A(STRIPE_FILE) | A(SHOW_STRIPES) | A(STAGE),
    .propose = propose_stripes,
    .unmodelled = true,
    .prepare = prepare_stage,
    .action = {.kind = STK_ACT_STRIPE_NEW, .bytes = MIB},
    .number = NUMBER(count),
    .advice = "stripes count for new files only: copy the data into the folder after that, or use "
              "`lfs migrate`",
};

/* ---- checkpoints ---------------------------------------------------------------------------- */

static int propose_save(struct stk_tune_offer *o, kind *k, struct stk_err *err)
{
    int rc = 0;
    for (size_t i = 0; i < o->s->nnear && stk_tune_saves(&o->s->w) && !rc; i++) {
        const struct stk_tune_near *n = &o->s->near[i];
        char id[STK_POINT_ID_MAX], label[96];
        snprintf(id, sizeof id, "checkpoint-near%zu", i + 1);
        snprintf(label, sizeof label, "checkpoints to %s", place_name(n));
        struct stk_tune_change *c = propose(o, k, id, label);
        if (!c)
            break;
        c->where = n->path;
        c->near = i;
        rc = set(o, c, err, "checkpoint.dir=%s", n->path);
    }
    return rc;
}

static kind save = {
    .id = "checkpoint",
    .slots = STK_SLOT_SAVE,
    .helps = STK_HELPS_SAVES,
    .effort = 2,
    .finds = A(LOCAL_SAVE) | A(SAVE_ASIDE) | A(SCRATCH) | A(SYNC_ONCE),
    .propose = propose_save,
    .action = {.kind = STK_ACT_LOCAL_SAVE, .to = ""},
};

/* ---- the table ------------------------------------------------------------------------------ */

const struct stk_tune_kind *const stk_tune_kinds[] = {
    &threads, &prefetch, &request, &shard,  &memory, &keep,    &loader, &pack, &compress,
    &squashfs, &stage,   &save,    &shards, &arrays, &stripes, &cpus,   NULL,
};

const struct stk_tune_kind *stk_tune_kind_find(const char *id)
{
    for (size_t i = 0; stk_tune_kinds[i]; i++)
        if (strcmp(stk_tune_kinds[i]->id, id) == 0)
            return stk_tune_kinds[i];
    return NULL;
}

const char *const *stk_tune_kind_ids(void)
{
    static const char *ids[sizeof stk_tune_kinds / sizeof *stk_tune_kinds];
    for (size_t i = 0; stk_tune_kinds[i]; i++)
        ids[i] = stk_tune_kinds[i]->id;
    return ids;
}

/* ---- which of them --------------------------------------------------------------------------- */

static bool carries_out_some(const struct stk_tune_plan *p, kind *k)
{
    for (size_t i = 0; i < p->nactions; i++)
        if (k->finds & 1ull << p->action[i].kind)
            return true;
    return false;
}

static bool wanted_by_findings(const struct stk_tune_plan *p, kind *k)
{
    bool any = false; /* a job may wait though its findings ask for nothing that can be tried */
    for (size_t i = 0; stk_tune_kinds[i] && !any; i++)
        any = carries_out_some(p, stk_tune_kinds[i]);
    return !any || carries_out_some(p, k);
}

bool stk_tune_wants(const struct stk_tune_plan *p, const struct stk_tune_kind *k)
{
    if (!p->only)
        return k->helps == STK_HELPS_COST ? p->fewer_cpus : wanted_by_findings(p, k);
    for (const char *const *id = p->only; *id; id++)
        if (strcmp(*id, k->id) == 0)
            return true;
    return false;
}

/* ---- all of them ------------------------------------------------------------------------------
 */

bool stk_tune_divides(const struct stk_tune_subject *s, const struct stk_tune_change *c)
{
    return stk_tune_ranks(s) > 1 && s->w.access.offsets == STK_OFFSETS_SAME &&
           (c->loader || c->kind->slots & STK_SLOT_SHARD);
}

/* Each rank of a profile that read all samples made steps for all of them. */
static int divide_steps(struct stk_tune_offer *o, struct stk_tune_change *c, struct stk_err *err)
{
    bool fewer = stk_tune_divides(o->s, c) && o->s->w.training.scaling == STK_SCALING_WEAK;
    return fewer ? set(o, c, err, "training.scaling=strong") : 0;
}

/* The loader decodes and unpacks in its own threads what the program decodes in its own way. */
static int decode_too(struct stk_tune_offer *o, struct stk_tune_change *c, struct stk_err *err)
{
    const struct stk_workload *w = &o->s->w;
    const struct stk_tune_look *look = &o->s->look;
    double think = stk_dist_mean(&w->reader.think);
    double rest = think - look->unpack.program_s * stk_dist_mean(&w->dataset.record);
    if (!c->loader)
        return 0;
    if (look->decode)
        return set(o, c, err, "reader.decode=%s", look->decode);
    return think > 0 && look->unpack.program_s > 0
               ? set(o, c, err, "reader.think=%.9fs", fmax(rest, 0))
               : 0;
}

int stk_tune_propose(const struct stk_tune_plan *p, const struct stk_tune_subject *s,
                     struct stk_arena *arena, struct stk_tune_list *out, struct stk_err *err)
{
    struct stk_tune_offer o = {.plan = p, .s = s, .list = out};
    int rc = stk_tune_list_new(arena, out, err);
    for (size_t i = 0; stk_tune_kinds[i] && !rc; i++)
        if (stk_tune_wants(p, stk_tune_kinds[i]))
            rc = stk_tune_kinds[i]->propose(&o, stk_tune_kinds[i], err);
    for (size_t i = 1; i < out->n && !rc; i++) {
        rc = divide_steps(&o, &out->item[i].change[0], err);
        rc = rc ? rc : decode_too(&o, &out->item[i].change[0], err);
    }
    return rc;
}

int stk_tune_list_new(struct stk_arena *arena, struct stk_tune_list *out, struct stk_err *err)
{
    size_t room = STK_TUNE_MAX * sizeof *out->item;
    *out = (struct stk_tune_list){.item = stk_arena_alloc(arena, room), .arena = arena};
    if (!out->item)
        return stk_err_nomem(err, room);
    memset(out->item, 0, room);
    struct stk_tune_proposal *base = stk_tune_add(out);
    snprintf(base->id, sizeof base->id, "%s", STK_TUNE_BASE);
    snprintf(base->label, sizeof base->label, "as it is");
    return 0;
}
