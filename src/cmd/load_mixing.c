/*
 * load_mixing.c - `stoker load --mixing`: how well the order mixes, compared with a random one.
 * Classes come from directories in the keys, else from the labels of some samples.
 */
#include <stdlib.h>

#include "cmd/load.h"
#include "dataset/label.h"

#define LOOK_AT      (1u << 18) /* positions, if looking costs nothing */
#define LOOK_AT_KEYS (1u << 16)
/* If samples must be read for their labels: */
#define LOOK_AT_SAMPLES (1u << 13)
#define LOOK_AT_BYTES   (128u << 20)

struct labeller {
    struct stk_dataset *ds;
    struct stk_labels *by_key; /* the dataset's */
    struct stk_sample *sample;
};

static int64_t label_in_sample(void *user, uint64_t i)
{
    struct labeller *by = user;
    int64_t label = -1;
    if (stk_dataset_read(by->ds, i, by->sample, NULL) != 0)
        return -1;
    const struct stk_value *v = stk_sample_get(by->sample, "label");
    if (v && v->kind == STK_ARRAY && v->dtype == STK_I64 && v->size == sizeof label)
        memcpy(&label, v->data, sizeof label);
    return label;
}

static int64_t label_by_key(void *user, uint64_t i)
{
    struct labeller *by = user;
    const char *key;
    size_t len;
    int64_t label = -1;
    if (stk_index_key(&by->ds->index, i, &key, &len, NULL) != 0)
        return -1;
    return stk_labels_of(by->by_key, key, len, &label, NULL) == 1 ? label : -1;
}

static bool has_keys(const struct stk_dataset *ds)
{
    const char *key;
    size_t len = 0;
    return stk_dataset_len(ds) && stk_index_key(&ds->index, 0, &key, &len, NULL) == 0 && len;
}

typedef int64_t label_fn(void *user, uint64_t i);

/* The function that gives a sample's class, or NULL; sets *budget to the number of samples worth
 * asking for. */
static label_fn *find_labels(struct labeller *by, uint64_t *budget)
{
    struct stk_dataset *ds = by->ds;
    *budget = LOOK_AT_KEYS;
    if (stk_dataset_labels(ds, &by->by_key, NULL) == 0 && by->by_key && has_keys(ds))
        return label_by_key;
    uint64_t n = stk_dataset_len(ds), mean = n ? ds->index.h->bytes_samples / n + 1 : 1;
    *budget = LOOK_AT_BYTES / mean < LOOK_AT_SAMPLES ? LOOK_AT_BYTES / mean : LOOK_AT_SAMPLES;
    if (n && label_in_sample(by, 0) >= 0)
        return label_in_sample;
    *budget = LOOK_AT;
    return NULL;
}

/* The order of this run, from its state, which has the sizes of blocks and windows. */
static int order_of(struct stk_load *l, struct stk_order *o)
{
    struct stk_state st;
    char *text = NULL;
    int rc = stk_loader_state(l->r.ld, &text, &l->run->err);
    if (!rc)
        rc = stk_state_read(text, strlen(text), &st, &l->run->err);
    free(text);
    if (rc)
        return rc;
    stk_order_init(o, st.n, st.shuffle, st.seed, st.epoch, st.block, st.window);
    l->r.block = st.block;
    l->r.window = st.window;
    stk_state_release(&st);
    return 0;
}

int stk_load_mix(struct stk_load *l)
{
    struct labeller by = {.ds = l->r.ds, .sample = stk_sample_new()};
    struct stk_order o;
    uint64_t budget;
    int rc = by.sample ? order_of(l, &o) : stk_err_nomem(&l->run->err, 0);
    if (!rc) {
        label_fn *label = find_labels(&by, &budget);
        /* At least one batch: a few large samples would say nothing. */
        budget = budget < l->s->loader.batch ? l->s->loader.batch : budget;
        rc = stk_mixing_measure(&o, l->s->loader.batch, budget, label, &by, &l->r.mixing,
                                &l->run->err);
        l->r.has_mixing = !rc;
    }
    stk_sample_free(by.sample);
    return rc;
}
