/*
 * order.c - walks the plan of an epoch and notes each parcel when it is first needed. Ranks read at
 * the same time, so their parts are walked side by side.
 */
#include "stage/order.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "dataset/dataset.h"
#include "load/options.h"
#include "load/plan.h"

struct walk {
    const struct stk_source *src;
    uint64_t *number; /* of each file of the dataset in the source's list; src->count: none */
    uint64_t *base;   /* number of each file's first parcel among all */
    uint8_t *seen;    /* by parcel */
    struct stk_part *part;
    size_t n;
    struct stk_buf slices;
};

/* ---- parcels ---- */

static int add(struct walk *w, uint64_t file, uint64_t parcel, struct stk_err *err)
{
    uint8_t *seen = &w->seen[w->base[file] + parcel];
    struct stk_part *last = w->n ? &w->part[w->n - 1] : NULL;
    if (*seen)
        return 0;
    *seen = 1;
    if (last && last->file == file && last->first + last->count == parcel) {
        last->count++;
        return 0;
    }
    if (STK_ARRAY_MORE(w->part, w->n, err))
        return STK_E_NOMEM;
    w->part[w->n++] = (struct stk_part){.file = file, .first = parcel, .count = 1};
    return 0;
}

/* The parcels of a stored range. The index is not trusted: a range may lie outside of its file. */
static int add_extent(struct walk *w, const struct stk_extent *e, struct stk_err *err)
{
    uint64_t file = e->file < w->src->ds->files.count ? w->number[e->file] : w->src->count;
    if (file == w->src->count)
        return 0;
    uint64_t parcels = stk_tier_parcels(w->src->file[file].size);
    uint64_t first = e->offset / STK_TIER_PARCEL;
    uint64_t last = (e->offset + (e->length ? e->length - 1 : 0)) / STK_TIER_PARCEL;
    int rc = 0;
    for (uint64_t k = first; rc == 0 && k <= last && k < parcels; k++)
        rc = add(w, file, k, err);
    return rc;
}

static int add_sample(struct walk *w, uint64_t sample, struct stk_err *err)
{
    const struct stk_dataset *ds = w->src->ds;
    w->slices.len = 0;
    int rc = stk_index_slices(&ds->index, stk_dataset_at(ds, sample), &w->slices, err);
    const struct stk_slice *v = (const void *)w->slices.data;
    for (size_t i = 0; rc == 0 && i < w->slices.len / sizeof *v; i++) {
        struct stk_extent e;
        rc = stk_index_extent(&ds->index, v[i].extent, &e, err);
        rc = rc ? rc : add_extent(w, &e, err);
    }
    return rc;
}

static int add_rest(struct walk *w, struct stk_err *err)
{
    int rc = 0;
    for (uint64_t i = 0; rc == 0 && i < w->src->count; i++)
        for (uint64_t k = 0; rc == 0 && k < stk_tier_parcels(w->src->file[i].size); k++)
            rc = add(w, i, k, err);
    return rc;
}

/* ---- the epoch ---- */

static int walk_epoch(struct walk *w, const struct stk_stage_order *o, struct stk_err *err)
{
    struct stk_loader_options lo = o->loader;
    struct stk_order set, order;
    int rc = stk_loader_options_check(&lo, err);
    if (rc < 0)
        return rc;
    stk_order_of(w->src->ds, &lo, &set);
    stk_order_init(&order, set.n, set.shuffle, set.seed, lo.epoch, set.block, set.window);
    uint64_t ranks = o->ranks ? o->ranks : 1;
    uint64_t most = order.n / ranks + (order.n % ranks != 0);
    for (uint64_t k = 0; rc == 0 && k < most; k++)
        for (uint64_t r = 0; rc == 0 && r < ranks; r++) {
            uint64_t first = order.n / ranks * r + (r < order.n % ranks ? r : order.n % ranks);
            uint64_t size = order.n / ranks + (r < order.n % ranks);
            if (k < size)
                rc = add_sample(w, stk_order_at(&order, first + k), err);
        }
    return rc;
}

/* ---- tables ---- */

/* The dataset's files by number in the source's list. */
static int match_files(struct walk *w, struct stk_err *err)
{
    const struct stk_source *s = w->src;
    const struct stk_files *files = &s->ds->files;
    int rc = 0;
    w->number = calloc(files->count + 1, sizeof *w->number);
    if (!w->number)
        return stk_err_nomem(err, files->count * sizeof *w->number);
    for (uint64_t i = 0; rc == 0 && i < files->count; i++) {
        struct stk_files_entry e;
        rc = files->entry(files->list, i, &e, err);
        char *name = rc ? NULL : strndup(e.name, e.name_len);
        if (rc == 0 && !name)
            rc = stk_err_nomem(err, e.name_len);
        w->number[i] = name ? stk_source_find(s, s->is_dir ? name : "") : 0;
        free(name);
    }
    return rc;
}

static int count_parcels(struct walk *w, struct stk_err *err)
{
    const struct stk_source *s = w->src;
    uint64_t all = 0;
    w->base = calloc(s->count + 1, sizeof *w->base);
    for (uint64_t i = 0; w->base && i < s->count; i++) {
        w->base[i] = all;
        all += stk_tier_parcels(s->file[i].size);
    }
    w->seen = calloc(all + 1, 1);
    return w->base && w->seen ? 0 : stk_err_nomem(err, all);
}

int stk_stage_parts(const struct stk_source *src, const struct stk_stage_order *o,
                    struct stk_part **out, size_t *n, struct stk_err *err)
{
    struct walk w = {.src = src};
    if (!src->ds || !o)
        return stk_copy_all(src, out, n, err);
    int rc = count_parcels(&w, err);
    rc = rc ? rc : match_files(&w, err);
    rc = rc ? rc : walk_epoch(&w, o, err);
    rc = rc ? rc : add_rest(&w, err);
    free(w.number);
    free(w.base);
    free(w.seen);
    stk_buf_release(&w.slices);
    *out = rc ? NULL : w.part;
    *n = rc ? 0 : w.n;
    if (rc)
        free(w.part);
    return rc;
}

/* ---- the part of a rank ---- */

static int walk_rank(struct walk *w, const struct stk_loader_options *o, uint64_t epoch,
                     struct stk_err *err)
{
    struct stk_order set, order;
    struct stk_plan plan;
    bool repeat;
    stk_order_of(w->src->ds, o, &set);
    stk_order_init(&order, set.n, set.shuffle, set.seed, epoch, set.block, set.window);
    int rc = stk_plan_init(&plan, &order, NULL, 0, o->rank, o->world, o->batch, o->last, err);
    if (rc < 0)
        return rc;
    for (uint64_t s = 0; rc == 0 && s < plan.slots; s++)
        rc = add_sample(w, stk_plan_sample(&plan, s, &repeat), err);
    stk_plan_release(&plan);
    return rc;
}

/* Manifest, index and labels: every loader opens them. */
static void add_side_files(struct walk *w)
{
    uint64_t n = w->src->ds->files.count;
    uint8_t *listed = calloc(w->src->count + 1, 1);
    for (uint64_t i = 0; listed && i < n; i++)
        listed[w->number[i]] = 1;
    for (uint64_t i = 0; i < w->src->count; i++)
        if (!listed || !listed[i])
            memset(w->seen + w->base[i], 1, stk_tier_parcels(w->src->file[i].size));
    free(listed);
}

int stk_stage_need(const struct stk_source *src, const struct stk_loader_options *o, uint8_t *need,
                   struct stk_err *err)
{
    struct walk w = {.src = src};
    struct stk_loader_options lo = *o;
    uint64_t epochs = o->epochs ? o->epochs : 1;
    if (!src->ds)
        return stk_err_set(err, STK_E_UNSUPPORTED, src->path, -1,
                           "is not a dataset: no plan says which part a rank needs");
    lo.world = lo.world ? lo.world : 1;
    int rc = stk_loader_options_check(&lo, err);
    rc = rc ? rc : count_parcels(&w, err);
    rc = rc ? rc : match_files(&w, err);
    /* As stored, every epoch is the same. */
    if (lo.shuffle == STK_SHUFFLE_NONE)
        epochs = 1;
    for (uint64_t e = 0; rc == 0 && e < epochs; e++)
        rc = walk_rank(&w, &lo, lo.epoch + e, err);
    if (rc == 0)
        add_side_files(&w);
    for (uint64_t i = 0; rc == 0 && i < src->count; i++)
        for (uint64_t k = 0; k < stk_tier_parcels(src->file[i].size); k++)
            need[w.base[i] + k] |= w.seen[w.base[i] + k];
    free(w.number);
    free(w.base);
    free(w.seen);
    free(w.part);
    stk_buf_release(&w.slices);
    return rc;
}
