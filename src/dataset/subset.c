/*
 * subset.c - a dataset of some samples of another one. It borrows everything but the numbering, so
 * that every reader of datasets can read it.
 */
#include "dataset/dataset.h"
#include "base/live.h"

#include <stdlib.h>

/* A subset without samples yet. */
static struct stk_dataset *view_of(struct stk_dataset *whole)
{
    struct stk_dataset *v = malloc(sizeof *v);
    if (!v)
        return NULL;
    *v = (struct stk_dataset){.whole = whole,
                              .path = whole->path,
                              .root = whole->root,
                              .is_dir = whole->is_dir,
                              .trust = whole->trust,
                              .files = whole->files,
                              .format = whole->format,
                              .index = whole->index,
                              .index_path = whole->index_path,
                              .index_built = whole->index_built,
                              .index_why = whole->index_why,
                              .checks = whole->checks,
                              .has_manifest = whole->has_manifest,
                              .manifest = whole->manifest,
                              .problems = whole->problems,
                              .notes = whole->notes,
                              .list = whole->list,
                              .types = whole->types,
                              .payload = whole->payload,
                              .datasets = whole->datasets,
                              .codec = whole->codec};
    pthread_mutex_init(&v->lock, NULL);
    stk_dataset_keep(whole);
    return v;
}

static int no_dataset(struct stk_err *err)
{
    return stk_err_set(err, STK_E_USAGE, NULL, -1, "there is no dataset (NULL)");
}

/* Takes ownership of the pick, also on error. */
static int make_subset(struct stk_dataset *of, struct stk_pick *pick, struct stk_dataset **out,
                       struct stk_err *err)
{
    struct stk_dataset *v = view_of(of->whole ? of->whole : of);
    if (!v) {
        stk_pick_release(pick);
        return stk_err_nomem(err, sizeof *v);
    }
    v->pick = *pick;
    if (!stk_live_add(v)) {
        stk_dataset_drop(v);
        return stk_err_nomem(err, sizeof *v);
    }
    *out = v;
    return 0;
}

static const struct stk_pick *pick_of(const struct stk_dataset *ds)
{
    return ds->whole ? &ds->pick : NULL;
}

/* Reports which dataset lacks the sample. */
static int refuse(const struct stk_dataset *ds, int rc, struct stk_pick *pick, struct stk_err *err)
{
    stk_pick_release(pick);
    struct stk_err why = err ? *err : (struct stk_err){0};
    return rc == STK_E_USAGE ? stk_err_set(err, rc, ds->path, -1, "%s", why.what) : rc;
}

int stk_dataset_subset(struct stk_dataset *ds, const uint64_t *index, uint64_t n,
                       struct stk_dataset **out, struct stk_err *err)
{
    struct stk_pick p;
    if (!ds || !out)
        return no_dataset(err);
    int rc = stk_pick_list(&p, pick_of(ds), stk_dataset_len(ds), index, n, err);
    return rc < 0 ? refuse(ds, rc, &p, err) : make_subset(ds, &p, out, err);
}

int stk_dataset_slice(struct stk_dataset *ds, uint64_t first, int64_t step, uint64_t n,
                      struct stk_dataset **out, struct stk_err *err)
{
    struct stk_pick p;
    if (!ds || !out)
        return no_dataset(err);
    int rc = stk_pick_steps(&p, pick_of(ds), stk_dataset_len(ds), first, step, n, err);
    return rc < 0 ? refuse(ds, rc, &p, err) : make_subset(ds, &p, out, err);
}

int stk_dataset_number(const struct stk_dataset *ds, uint64_t i, uint64_t *number,
                       struct stk_err *err)
{
    if (i >= stk_dataset_len(ds))
        return stk_err_set(err, STK_E_USAGE, ds->path, -1, "there is no sample %llu: %llu in all",
                           (unsigned long long)i, (unsigned long long)stk_dataset_len(ds));
    *number = stk_dataset_at(ds, i);
    return 0;
}

/* ---- its approximate size ---- */

uint64_t stk_dataset_mean_bytes(const struct stk_dataset *ds)
{
    const struct stk_index_header *h = ds->index.h;
    return h->nsamples ? h->bytes_samples / h->nsamples : 0;
}

uint64_t stk_dataset_share(const struct stk_dataset *ds, uint64_t bytes)
{
    uint64_t n = stk_dataset_len(ds), all = ds->index.h->nsamples;
    unsigned __int128 share = all ? (unsigned __int128)bytes * n / all : 0;
    return n == all ? bytes : share > UINT64_MAX ? UINT64_MAX : (uint64_t)share;
}
