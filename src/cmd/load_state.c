/*
 * load_state.c - where a run stopped: read at its start, written at its end. The states of all
 * ranks at one moment are merged, to resume with another number of ranks.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "cmd/load.h"
#include "dataset/trust.h"
#include "dataset/label.h"

#define STATE_MAX ((size_t)64 << 20) /* more than a million ranks with refills need */

/* Reads the states in a file, one per line, into `all`. */
static int read_states(const struct stk_trust *trust, const char *path, struct stk_buf *all,
                       struct stk_err *err)
{
    struct stk_buf text = STK_BUF_INIT;
    int rc = stk_trust_read(trust, path, STATE_MAX, &text, err);
    const char *p = rc ? "" : stk_buf_cstr(&text);
    size_t found = 0;
    while (!rc && *p) {
        size_t n = strcspn(p, "\n");
        struct stk_state one;
        if (n && p[strspn(p, " \t\r")] != '\n') {
            rc = stk_state_read(p, n, &one, err);
            if (!rc)
                stk_buf_put(all, &one, sizeof one);
            found += !rc;
        }
        p += n + (p[n] == '\n');
    }
    if (!rc && !found)
        rc = stk_err_set(err, STK_E_CORRUPT, path, -1, "holds no state");
    stk_buf_release(&text);
    return rc ? stk_err_at(err, rc, path) : stk_buf_check(all, err);
}

static int collect(const struct stk_load *l, const struct stk_trust *trust, struct stk_buf *all,
                   struct stk_err *err)
{
    const struct stk_load_settings *s = l->s;
    if (s->state && stk_may_exist(AT_FDCWD, s->state))
        return read_states(trust, s->state, all, err);
    for (const char **path = s->from; path && *path; path++) {
        int rc = read_states(trust, *path, all, err);
        if (rc)
            return rc;
    }
    return 0;
}

/* The state must not silently override what the user asked for. */
static int check_against(const struct stk_load *l, const struct stk_state *st)
{
    const struct stk_opts *o = &l->run->opts;
    struct stk_err *err = &l->run->err;
    if (stk_opts_given(o, "seed") && l->s->loader.seed != st->seed)
        return stk_err_set(err, STK_E_USAGE, NULL, -1,
                           "--seed %llu: the state is from a run with --seed %llu",
                           (unsigned long long)l->s->loader.seed, (unsigned long long)st->seed);
    if (stk_opts_given(o, "shuffle") && l->s->loader.shuffle != st->shuffle)
        return stk_err_set(err, STK_E_USAGE, NULL, -1,
                           "--shuffle %s: the state is from a run with --shuffle %s",
                           stk_shuffle_name(l->s->loader.shuffle), stk_shuffle_name(st->shuffle));
    return 0;
}

/* Merges the states of all ranks into one. */
static int merge(struct stk_load *l, const struct stk_state *state, size_t n, char **text)
{
    struct stk_err *err = &l->run->err;
    struct stk_buf out = STK_BUF_INIT;
    int rc = stk_state_write_merged(state, n, &out, err);
    if (!rc && !(*text = strdup(stk_buf_cstr(&out))))
        rc = stk_err_nomem(err, out.len);
    stk_buf_release(&out);
    return rc;
}

int stk_load_read_state(struct stk_load *l, char **text)
{
    struct stk_buf all = STK_BUF_INIT;
    struct stk_trust trust;
    *text = NULL;
    int rc = stk_trust_init(&trust, l->s->open.trust, &l->run->err);
    if (!rc && stat(l->run->opts.arg[0], &trust.data) < 0)
        rc = stk_err_sys(&l->run->err, l->run->opts.arg[0], "open");
    if (!rc)
        rc = collect(l, &trust, &all, &l->run->err);
    stk_trust_release(&trust);
    struct stk_state *state = (struct stk_state *)(void *)all.data;
    size_t n = all.len / sizeof *state;
    if (!rc && n)
        rc = check_against(l, &state[0]);
    if (!rc && n)
        rc = merge(l, state, n, text);
    for (size_t i = 0; i < n; i++)
        stk_state_release(&state[i]);
    stk_buf_release(&all);
    return rc;
}

int stk_load_write_state(struct stk_load *l)
{
    struct stk_err *err = &l->run->err;
    char *text = NULL;
    if (!l->s->state)
        return 0;
    int rc = stk_loader_state(l->r.ld, &text, err);
    if (rc)
        return rc;
    struct stk_buf b = STK_BUF_INIT;
    stk_buf_printf(&b, "%s\n", text);
    rc = stk_buf_check(&b, err);
    if (!rc)
        rc = stk_write_file_atomic(l->s->state, b.data, b.len, err);
    stk_buf_release(&b);
    free(text);
    return rc;
}

/* ---- how well it mixes ----------------------------------------------------------------------- */

/* `stoker load --mixing`: how well the order mixes, compared with a random one. Classes come from
 * directories in the keys, else from the labels of some samples. */

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
