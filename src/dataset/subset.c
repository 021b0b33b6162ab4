/*
 * subset.c - a dataset of some samples of another one. It borrows everything but the numbering, so
 * that every reader of datasets can read it.
 */
#include "dataset/dataset.h"
#include "base/api.h"
#include "base/hash.h"

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

/* ---- which samples --------------------------------------------------------------------------- */

/* The samples of a subset: checks them, brings them into one form, and identifies them. */

static int no_such_sample(uint64_t number, uint64_t have, struct stk_err *err)
{
    return stk_err_set(err, STK_E_USAGE, NULL, -1, "there is no sample %llu: %llu in all",
                       (unsigned long long)number, (unsigned long long)have);
}

/* Numbers at equal steps need no list: the same samples always have one form. */
static void fold(struct stk_pick *p)
{
    uint64_t first = p->n ? p->list[0] : 0, step = p->n > 1 ? p->list[1] - first : 1;
    for (uint64_t i = 0; i < p->n; i++)
        if (p->list[i] != first + i * step)
            return;
    free(p->list);
    *p = (struct stk_pick){.n = p->n, .first = first, .step = step};
}

int stk_pick_list(struct stk_pick *p, const struct stk_pick *of, uint64_t have,
                  const uint64_t *number, uint64_t n, struct stk_err *err)
{
    uint64_t bytes;
    *p = (struct stk_pick){.n = n, .step = 1};
    if (n && !number)
        return stk_err_set(err, STK_E_USAGE, NULL, -1, "there are no numbers of samples (NULL)");
    if (__builtin_mul_overflow(n, sizeof *p->list, &bytes) || bytes >= SIZE_MAX ||
        !(p->list = malloc((size_t)bytes + 1)))
        return stk_err_nomem(err, n * sizeof *p->list);
    for (uint64_t i = 0; i < n; i++) {
        if (number[i] >= have)
            return no_such_sample(number[i], have, err);
        p->list[i] = of ? stk_pick_at(of, number[i]) : number[i];
    }
    fold(p);
    return 0;
}

/* The last of n numbers at equal steps; false: it is not below `have`. */
static bool last_step(uint64_t first, int64_t step, uint64_t n, uint64_t have, uint64_t *last)
{
    __int128 at = (__int128)first + (__int128)step * (__int128)(n - 1);
    bool huge = n > have && step != 0; /* no product of such numbers overflows */
    *last = huge || at < 0 || at > UINT64_MAX ? UINT64_MAX : (uint64_t)at;
    return *last < have;
}

int stk_pick_steps(struct stk_pick *p, const struct stk_pick *of, uint64_t have, uint64_t first,
                   int64_t step, uint64_t n, struct stk_err *err)
{
    uint64_t last, by = (uint64_t)step;
    *p = (struct stk_pick){.step = 1};
    if (n == 0)
        return 0;
    if (first >= have || !last_step(first, step, n, have, &last))
        return no_such_sample(first >= have ? first : last, have, err);
    if (!of || !of->list) {
        *p = (struct stk_pick){.n = n,
                               .first = of ? stk_pick_at(of, first) : first,
                               .step = n == 1 ? 1
                                       : of   ? of->step * by
                                              : by};
        return 0;
    }
    if (n > SIZE_MAX / sizeof *p->list || !(p->list = malloc(n * sizeof *p->list)))
        return stk_err_nomem(err, n);
    for (p->n = 0; p->n < n; p->n++)
        p->list[p->n] = of->list[first + p->n * by];
    fold(p);
    return 0;
}

void stk_pick_release(struct stk_pick *p)
{
    free(p->list);
    *p = (struct stk_pick){0};
}

bool stk_pick_is_all(const struct stk_pick *p, uint64_t have)
{
    return !p->list && p->n == have && p->first == 0 && (p->step == 1 || have == 0);
}

uint64_t stk_pick_hash(const struct stk_pick *p, uint64_t seed)
{
    const uint64_t head[] = {seed, p->n, p->first, p->step};
    struct stk_hash h;
    stk_hash_init(&h);
    stk_hash_update(&h, head, sizeof head);
    if (p->list)
        stk_hash_update(&h, p->list, (size_t)p->n * sizeof *p->list);
    return stk_hash_final(&h);
}
