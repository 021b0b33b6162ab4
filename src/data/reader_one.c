/*
 * reader_one.c - single samples for the public call, from any thread: a reader is taken from the
 * dataset's idle ones and given back.
 */
#include "data/label.h"
#include "data/reader_priv.h"

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

int stk_dataset_read(struct stk_dataset *ds, uint64_t i, struct stk_sample *s, struct stk_err *err)
{
    struct stk_reader *r;
    int rc = take_idle(ds, &r, err);
    if (rc < 0)
        return rc;
    rc = stk_reader_batch(r, &i, 1, err);
    if (rc == 0)
        rc = stk_reader_get(r, 0, s, err);
    if (rc == 0)
        rc = add_label(ds, s, err);
    /* The sample keeps the buffer its values point into; the reader goes on with the old one. */
    struct stk_buf mine = r->bytes;
    r->bytes = s->hold;
    s->hold = mine;
    pthread_mutex_lock(&ds->lock);
    r->next = ds->idle;
    ds->idle = r;
    pthread_mutex_unlock(&ds->lock);
    return rc;
}
