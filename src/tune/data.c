/*
 * data.c - changes that need the data in another form or place: packed, compressed, as an image,
 * copied to faster storage; checkpoints that go there. And other forms of packed data, where they can
 * differ from the usual one: more shards, a format without a frame around each sample, more stripes.
 * The model does not know what these gain, so they are proposed only where there is a reason, and
 * measured.
 */
#include <stdio.h>

#include "base/file.h"
#include "base/units.h"
#include "host/cpus.h"
#include "host/fs_facts.h"
#include "pack/pack.h"
#include "stage/stage.h"
#include "stage/target.h"
#include "tier/source.h"
#include "tune/kinds.h"

bool stk_tune_reads_data(const struct stk_tuner *t)
{
    const struct stk_workload *w = &t->s.w;
    return t->s.source && w->dataset.format != STK_BENCH_NONE && w->reader.load == STK_LOAD_STEP;
}

/* "local disk", "RAM": what people call a folder of that kind. */
static const char *place_name(const struct stk_tune_near *n)
{
    return n->fs->memory ? "RAM" : n->fs->network ? n->fs->name : "local disk";
}

/* A copy of the data in the folder of the call, or of near[i]. */
struct stk_tune_change *stk_tune_propose_copy(struct stk_tuner *t, const struct stk_tune_kind *k,
                                              const char *what, const char *label, size_t near)
{
    const struct stk_tune_near *n = near < t->s.nnear ? &t->s.near[near] : NULL;
    char id[STK_POINT_ID_MAX], text[96];
    if (n)
        snprintf(id, sizeof id, "%s-near%zu", what, near + 1);
    else
        snprintf(id, sizeof id, "%s", what);
    const char *in = !n ? "" : n->fs->memory ? " in " : " on ";
    snprintf(text, sizeof text, "%s%s%s", label, in, n ? place_name(n) : "");
    struct stk_tune_change *c = stk_tune_propose(t, k, id, text);
    if (!c)
        return NULL;
    c->where = n ? n->path : NULL;
    c->named = n && t->plan->near ? n->path : "";
    c->near = near;
    c->copy.path = stk_tune_text(t, "%s", id);
    c->copy.bytes = t->s.bytes;
    c->memory_bytes = n && n->fs->memory ? stk_tune_whole_bytes(&t->s) : 0;
    return c;
}

/* "OLD=NEW" */
bool stk_tune_patch_place(const struct stk_tune *t, const struct stk_tune_change *c,
                          const char *made, struct stk_buf *out)
{
    (void)t;
    if (made)
        stk_buf_printf(out, "%s=%s", c->source, made);
    return made != NULL;
}

/* ---- packed --------------------------------------------------------------------------------- */

struct stk_tune_change *stk_tune_propose_packed(struct stk_tuner *t, const struct stk_tune_kind *k,
                                                const char *id, const char *label, size_t near)
{
    struct stk_tune_change *c = stk_tune_propose_copy(t, k, id, label, near);
    if (!c)
        return NULL;
    c->loader = true;
    c->format = t->s.packs_as ? t->s.packs_as : "tfrecord";
    c->use = STK_USE_LOADER;
    return c;
}

static int propose_pack(struct stk_tuner *t, const struct stk_tune_kind *k, struct stk_err *err)
{
    (void)err;
    if (!stk_tune_reads_data(t) || t->s.w.training.eval_every)
        return 0;
    (void)stk_tune_propose_packed(t, k, "pack", "packed + loader", SIZE_MAX);
    for (size_t i = 0; i < t->s.nnear; i++)
        (void)stk_tune_propose_packed(t, k, "pack", "packed + loader", i);
    return 0;
}

static int propose_compress(struct stk_tuner *t, const struct stk_tune_kind *k, struct stk_err *err)
{
    (void)err;
    if (!stk_tune_reads_data(t) || t->s.w.training.eval_every || t->s.packs_as)
        return 0;
    struct stk_tune_change *c =
        stk_tune_propose_packed(t, k, "pack-zstd", "packed with zstd + loader", SIZE_MAX);
    if (c)
        c->codec = "zstd";
    return 0;
}

int stk_tune_prepare_pack(const struct stk_tuner *t, const struct stk_tune_change *c,
                          struct stk_buf *at, struct stk_err *err)
{
    const struct stk_tune_copy *packed = c->kind->repacks ? stk_tune_packed(t) : NULL;
    const struct stk_open_options open = {.no_index_write = true};
    const struct stk_pack_options o = {.format = c->format,
                                       .shard_size_bytes = c->number ? c->number : STK_TUNE_SHARD,
                                       .compress = c->codec};
    struct stk_pack_result r = {0};
    int rc = stk_pack_into(packed ? packed->path : t->s.source, c->copy.path, &open, &o, &r, err);
    stk_pack_result_release(&r);
    stk_buf_puts(at, c->copy.path);
    return rc;
}

size_t stk_tune_act_pack(const struct stk_tune_change *c, struct stk_action *out)
{
    out[0] = (struct stk_action){
        .kind = STK_ACT_PACK, .format = c->format, .codec = c->codec, .path = c->source,
        .to = STK_TUNE_PACKED, .bytes = c->number};
    out[1] = (struct stk_action){.kind = STK_ACT_LOADER, .path = STK_TUNE_PACKED};
    if (!c->where)
        return 2;
    out[2] = out[1];
    out[1] = (struct stk_action){.kind = STK_ACT_STAGE, .path = STK_TUNE_PACKED, .to = c->named,
                                 .to_named = *c->named != '\0'};
    return 3;
}

#define PACK_FINDS                                                                                 \
    {                                                                                              \
        STK_ACT_PACK, STK_ACT_REWRITE, STK_ACT_BATCH_READS, STK_ACT_SORT_READS, STK_ACT_LOADER,    \
            STK_ACT_STAGE                                                                          \
    }

const struct stk_tune_kind stk_tune_pack = {
    .id = "pack",
    .slots = STK_TUNE_LOADS_PACKED,
    .effort = 4,
    .finds = PACK_FINDS,
    .nfinds = 6,
    .propose = propose_pack,
    .repacks = true,
    .prepare = stk_tune_prepare_pack,
    .act = stk_tune_act_pack,
    .patch_option = "--packed",
    .patches_parts = true,
};

const struct stk_tune_kind stk_tune_compress = {
    .id = "compress",
    .slots = STK_TUNE_LOADS_PACKED,
    .effort = 4,
    .finds = PACK_FINDS,
    .nfinds = 6,
    .propose = propose_compress,
    .repacks = true,
    .prepare = stk_tune_prepare_pack,
    .act = stk_tune_act_pack,
    .patch_option = "--packed",
    .patches_parts = true,
};

/* ---- a squashfs image ----------------------------------------------------------------------- */

static int propose_squashfs(struct stk_tuner *t, const struct stk_tune_kind *k, struct stk_err *err)
{
    (void)err;
    /* Few large files gain nothing from being one. */
    if (!stk_tune_reads_data(t) || t->s.w.training.eval_every || t->s.files < 100)
        return 0;
    struct stk_tune_change *c =
        stk_tune_propose_packed(t, k, "squashfs", "squashfs image + loader", SIZE_MAX);
    if (c)
        c->format = "squashfs";
    return 0;
}

static size_t act_squashfs(const struct stk_tune_change *c, struct stk_action *out)
{
    out[0] = (struct stk_action){
        .kind = STK_ACT_PACK, .format = c->format, .path = c->source, .to = STK_TUNE_PACKED};
    out[1] = (struct stk_action){.kind = STK_ACT_LOADER, .path = STK_TUNE_PACKED};
    return 2;
}

const struct stk_tune_kind stk_tune_squashfs = {
    .id = "squashfs",
    .slots = STK_TUNE_LOADS_PACKED,
    .effort = 4,
    .finds = PACK_FINDS,
    .nfinds = 6,
    .propose = propose_squashfs,
    .repacks = true,
    .prepare = stk_tune_prepare_pack,
    .act = act_squashfs,
    .patch_option = "--packed",
    .patches_parts = true,
};

/* ---- staged --------------------------------------------------------------------------------- */

static int propose_stage(struct stk_tuner *t, const struct stk_tune_kind *k, struct stk_err *err)
{
    (void)err;
    for (size_t i = 0; i < t->s.nnear && stk_tune_reads_data(t); i++) {
        struct stk_tune_change *c = stk_tune_propose_copy(t, k, "stage", "staged", i);
        if (c)
            c->use = STK_USE_DATA;
    }
    return 0;
}

int stk_tune_prepare_stage(const struct stk_tuner *t, const struct stk_tune_change *c,
                           struct stk_buf *at, struct stk_err *err)
{
    const struct stk_source_options how = {.no_index = true};
    const struct stk_tier_options make = {.make = true};
    const struct stk_stage_options o = {0};
    struct stk_source src = STK_SOURCE_INIT;
    struct stk_stage_result r = {0};
    struct stk_tier *tier = NULL;
    char stripes[64];
    int rc = stk_source_open(&src, t->plan->data ? t->s.save : t->s.source, &how, err);
    rc = rc ? rc : stk_tier_open(c->copy.path, &make, &tier, err);
    if (!rc)
        stk_target_stripe(c->copy.path, src.count ? src.bytes / src.count : 0, STK_TIER_PARCEL,
                          stripes, sizeof stripes);
    rc = rc ? rc : stk_stage_fill(&src, tier, &o, &r, err);
    if (!rc && !r.path)
        rc = stk_err_set(err, STK_E_SYS, c->copy.path, -1, "the copy is not complete");
    if (!rc)
        stk_buf_puts(at, r.path);
    stk_stage_result_release(&r);
    stk_tier_close(tier);
    stk_source_release(&src);
    return rc;
}

static size_t act_stage(const struct stk_tune_change *c, struct stk_action *out)
{
    out[0] = (struct stk_action){.kind = STK_ACT_STAGE, .path = c->source, .to = c->named,
                                 .to_named = *c->named != '\0'};
    return 1;
}

const struct stk_tune_kind stk_tune_stage = {
    .id = "stage",
    .slots = STK_SLOT_DATA,
    .effort = 3,
    .finds = {STK_ACT_STAGE, STK_ACT_WARM_UP, STK_ACT_PACK, STK_ACT_PREFETCH},
    .nfinds = 4,
    .propose = propose_stage,
    .prepare = stk_tune_prepare_stage,
    .act = act_stage,
    .patch_option = "--moved",
    .patch = stk_tune_patch_place,
};

/* ---- checkpoints ---------------------------------------------------------------------------- */

static int propose_save(struct stk_tuner *t, const struct stk_tune_kind *k, struct stk_err *err)
{
    int rc = 0;
    for (size_t i = 0; i < t->s.nnear && stk_tune_saves(&t->s.w) && !rc; i++) {
        const struct stk_tune_near *n = &t->s.near[i];
        char id[STK_POINT_ID_MAX], label[96];
        snprintf(id, sizeof id, "checkpoint-near%zu", i + 1);
        snprintf(label, sizeof label, "checkpoints to %s", place_name(n));
        struct stk_tune_change *c = stk_tune_propose(t, k, id, label);
        if (!c)
            break;
        c->where = n->path;
        c->near = i;
        rc = stk_tune_set(t, c, err, "checkpoint.dir=%s", n->path);
    }
    return rc;
}

static size_t act_save(const struct stk_tune_change *c, struct stk_action *out)
{
    out[0] = (struct stk_action){.kind = STK_ACT_LOCAL_SAVE, .path = c->source, .to = ""};
    return 1;
}

const struct stk_tune_kind stk_tune_save = {
    .id = "checkpoint",
    .slots = STK_SLOT_SAVE,
    .helps = STK_HELPS_SAVES,
    .effort = 2,
    .finds = {STK_ACT_LOCAL_SAVE, STK_ACT_SAVE_ASIDE, STK_ACT_SCRATCH, STK_ACT_SYNC_ONCE},
    .nfinds = 4,
    .propose = propose_save,
    .act = act_save,
};

/* ---- other forms of the same data ----------------------------------------------------------- */

#define MIB   (1u << 20)
#define FRAME 80u /* bytes that a TFRecord adds to an array: frame, names, type, shape */

/* ---- more shards ---------------------------------------------------------------------------- */

/* A shard lies on one server of a shared file system, as a rule: few shards keep few of them busy. */
static int propose_shards(struct stk_tuner *t, const struct stk_tune_kind *k, struct stk_err *err)
{
    const struct stk_tune_subject *s = &t->s;
    uint64_t usual = s->bytes / STK_TUNE_SHARD + 1, more = s->bytes / STK_TUNE_SMALL + 1;
    (void)err;
    if (!stk_tune_reads_data(t) || s->w.training.eval_every || !s->fs->network ||
        usual > 2 * s->ranks || more < 2 * usual)
        return 0;
    struct stk_tune_change *c =
        stk_tune_propose_packed(t, k, "shards", "packed in 64 MiB shards + loader", SIZE_MAX);
    if (c)
        c->number = STK_TUNE_SMALL;
    return 0;
}

const struct stk_tune_kind stk_tune_shards = {
    .id = "shards",
    .slots = STK_TUNE_LOADS_PACKED,
    .effort = 4,
    .finds = {STK_ACT_PACK, STK_ACT_REWRITE, STK_ACT_LOADER, STK_ACT_STRIPE_NEW},
    .nfinds = 4,
    .propose = propose_shards,
    .unmodelled = true,
    .repacks = true,
    .prepare = stk_tune_prepare_pack,
    .act = stk_tune_act_pack,
    .patch_option = "--packed",
    .patches_parts = true,
};

/* ---- arrays without frames ------------------------------------------------------------------ */

/* Rows of arrays, and only small ones: FRAME bytes more for each. */
static int propose_arrays(struct stk_tuner *t, const struct stk_tune_kind *k, struct stk_err *err)
{
    const struct stk_tune_subject *s = &t->s;
    double each = stk_dist_mean(&s->w.dataset.record);
    (void)err;
    if (!stk_tune_reads_data(t) || s->w.training.eval_every || !s->arrays ||
        s->w.dataset.samples_per_file < 2 || FRAME < t->plan->least * each)
        return 0;
    struct stk_tune_change *c =
        stk_tune_propose_packed(t, k, "pack-npy", "packed as NPY + loader", SIZE_MAX);
    if (c)
        c->format = "npy";
    return 0;
}

const struct stk_tune_kind stk_tune_arrays = {
    .id = "format",
    .slots = STK_TUNE_LOADS_PACKED,
    .effort = 4,
    .finds = {STK_ACT_PACK, STK_ACT_REWRITE, STK_ACT_BATCH_READS, STK_ACT_LOADER},
    .nfinds = 4,
    .propose = propose_arrays,
    .unmodelled = true,
    .prepare = stk_tune_prepare_pack,
    .act = stk_tune_act_pack,
    .patch_option = "--packed",
    .patches_parts = true,
};

/* ---- stripes -------------------------------------------------------------------------------- */

/* A copy by `stoker stage`, which sets the stripes that fit, instead of those that the files have. */
static int propose_stripes(struct stk_tuner *t, const struct stk_tune_kind *k, struct stk_err *err)
{
    const struct stk_tune_subject *s = &t->s;
    struct stk_lustre_stripe now;
    char id[STK_POINT_ID_MAX], label[96];
    (void)err;
    if (!stk_tune_reads_data(t) || !s->fs->stripes || !s->files)
        return 0;
    struct stk_lustre_stripe fit = stk_lustre_stripe_fit(s->bytes / s->files, MIB);
    if (fit.count < 2 || !stk_lustre_stripe(s->source, &now) || now.progressive ||
        now.count < 0 || now.count >= fit.count)
        return 0;
    snprintf(id, sizeof id, "stripes-%lld", (long long)fit.count);
    snprintf(label, sizeof label, "%lld stripes instead of %lld", (long long)fit.count,
             (long long)now.count);
    struct stk_tune_change *c = stk_tune_propose_copy(t, k, id, label, SIZE_MAX);
    if (!c)
        return 0;
    c->use = STK_USE_DATA;
    c->number = (uint64_t)fit.count;
    return 0;
}

static size_t act_stripes(const struct stk_tune_change *c, struct stk_action *out)
{
    out[0] = (struct stk_action){
        .kind = STK_ACT_STRIPE_NEW, .path = c->source, .count = c->number, .bytes = MIB};
    return 1;
}

const struct stk_tune_kind stk_tune_stripes = {
    .id = "stripes",
    .slots = STK_SLOT_DATA,
    .effort = 3,
    .finds = {STK_ACT_STRIPE_NEW, STK_ACT_STRIPE_FILE, STK_ACT_SHOW_STRIPES, STK_ACT_STAGE},
    .nfinds = 4,
    .propose = propose_stripes,
    .unmodelled = true,
    .prepare = stk_tune_prepare_stage,
    .act = act_stripes,
    .advice = "stripes count for new files only: copy the data into the folder after that, or use "
              "`lfs migrate`",
};
