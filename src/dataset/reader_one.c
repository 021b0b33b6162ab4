/*
 * reader_one.c - samples for the public calls, from any thread: a reader is taken from the
 * dataset's idle ones and given back.
 */
#include "dataset/label.h"
#include "dataset/reader_priv.h"

#include <stdlib.h>

static int take_idle(struct stk_dataset *ds, struct stk_reader **r, struct stk_err *err)
{
    pthread_mutex_lock(&ds->lock);
    *r = ds->idle;
    if (*r)
        ds->idle = (*r)->next;
    pthread_mutex_unlock(&ds->lock);
    return *r ? 0 : stk_reader_new(ds, r, err);
}

/* The label that only the sample's directory tells. */
static int add_label(struct stk_dataset *ds, struct stk_sample *s, struct stk_err *err)
{
    struct stk_labels *l;
    int64_t label;
    int rc = stk_dataset_labels(ds, &l, err);
    if (rc < 0 || !l || stk_sample_find(s, "label"))
        return rc;
    rc = stk_labels_of(l, s->key, s->key_len, &label, err);
    return rc <= 0 ? rc : stk_sample_set_label(s, label, err);
}

static void give_back(struct stk_dataset *ds, struct stk_reader *r)
{
    pthread_mutex_lock(&ds->lock);
    r->next = ds->idle;
    ds->idle = r;
    pthread_mutex_unlock(&ds->lock);
}

/* Empties the samples. One of the buffers they had serves the next read. NULL: no memory. */
static struct stk_hold *take_hold(struct stk_sample *const *s, size_t n)
{
    struct stk_hold *h = NULL;
    for (size_t k = 0; k < n; k++) {
        struct stk_hold *mine = stk_sample_let_go(s[k]);
        if (h && mine && mine->bytes.cap > h->bytes.cap) { /* the largest of them */
            struct stk_hold *other = h;
            h = mine;
            mine = other;
        }
        if (h)
            stk_hold_free(mine);
        else
            h = mine;
    }
    return h ? h : calloc(1, sizeof *h);
}

static int get_samples(struct stk_reader *r, struct stk_sample *const *s, size_t n,
                       struct stk_err *err)
{
    int rc = 0;
    for (size_t k = 0; rc == 0 && k < n; k++) {
        rc = stk_reader_get(r, k, s[k], err);
        if (rc == 0)
            rc = add_label(r->ds, s[k], err);
        if (rc < 0)
            stk_sample_reset(s[k]);
    }
    return rc;
}

/* Reads to the hold's buffer, which the samples share from then on. */
static int read_to(struct stk_hold *h, struct stk_reader *r, const uint64_t *index, size_t n,
                   struct stk_sample *const *s, struct stk_err *err)
{
    struct stk_buf own = r->bytes;
    r->bytes = h->bytes;
    int rc = stk_reader_batch(r, index, n, err);
    if (rc == 0)
        rc = get_samples(r, s, n, err);
    h->bytes = r->bytes;
    r->bytes = own;
    atomic_store(&h->samples, n);
    for (size_t k = 0; k < n; k++)
        s[k]->hold = h;
    return rc;
}

static int check_call(const struct stk_dataset *ds, const uint64_t *index, size_t n,
                      struct stk_sample *const *s, struct stk_err *err)
{
    const char *none = !ds ? "dataset" : !index || !s ? "list of samples" : NULL;
    for (size_t k = 0; !none && k < n; k++)
        none = s[k] ? NULL : "sample to read to";
    return none ? stk_err_set(err, STK_E_USAGE, NULL, -1, "there is no %s (NULL)", none) : 0;
}

int stk_dataset_read_many(struct stk_dataset *ds, const uint64_t *index, size_t n,
                          struct stk_sample *const *s, struct stk_err *err)
{
    struct stk_reader *r;
    if (n == 0 && ds)
        return 0;
    int rc = check_call(ds, index, n, s, err);
    if (rc == 0)
        rc = take_idle(ds, &r, err);
    if (rc < 0)
        return rc;
    struct stk_hold *h = take_hold(s, n);
    rc = h ? read_to(h, r, index, n, s, err) : stk_err_nomem(err, sizeof *h);
    give_back(ds, r);
    return rc;
}

int stk_dataset_read(struct stk_dataset *ds, uint64_t i, struct stk_sample *s, struct stk_err *err)
{
    return stk_dataset_read_many(ds, &i, 1, &s, err);
}
