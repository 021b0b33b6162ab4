/*
 * forms.c - other forms of the same data, where they can differ from the usual one: more shards, a
 * format without a frame around each sample, more stripes. The model does not know what they gain,
 * so they are proposed only where there is a reason, and measured.
 */
#include <stdio.h>

#include "base/units.h"
#include "host/lustre.h"
#include "tune/kinds.h"

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
