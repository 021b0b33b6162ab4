/*
 * state.c - the position of a loader in an epoch, as one line of JSON: the settings of the order
 * and, per leg, how far every rank came. The text is untrusted: everything is checked before use.
 */
#include "load/plan.h"
#include "base/hash.h"
#include "base/json_fields.h"

#include <stdio.h>
#include <stdlib.h>

#define TEXT_MAX (16u << 20) /* the parser takes some fifty bytes per byte of text */
#define VERSION  2
#define FORMER   1 /* the version without "order" and checksum, which is still read */

/* ---- making a state ---- */

static bool any(const uint64_t *v, uint32_t n)
{
    uint64_t all = 0;
    for (uint32_t i = 0; v && i < n; i++)
        all |= v[i];
    return all != 0;
}

static int add_leg(struct stk_state *s, uint32_t world, uint64_t done, const uint64_t *refill,
                   struct stk_err *err)
{
    if (s->nlegs == STK_LEGS_MAX)
        return stk_err_set(
            err, STK_E_UNSUPPORTED, NULL, -1,
            "one epoch was resumed with %d other numbers of ranks: begin the next one",
            STK_LEGS_MAX);
    struct stk_leg *t = &s->leg[s->nlegs];
    *t = (struct stk_leg){.world = world, .done = done};
    if (any(refill, world)) {
        t->refill = malloc(world * sizeof *t->refill);
        if (!t->refill)
            return stk_err_nomem(err, world * sizeof *t->refill);
        memcpy(t->refill, refill, world * sizeof *t->refill);
    }
    s->nlegs++;
    return 0;
}

/* Adds the newest leg: this plan, and the leg it resumed. */
static int add_plan(struct stk_state *out, const struct stk_plan *p, uint64_t slots,
                    uint64_t refills, struct stk_err *err)
{
    uint64_t *refill = calloc(p->world, sizeof *refill);
    if (!refill)
        return stk_err_nomem(err, p->world * sizeof *refill);
    if (p->refill)
        memcpy(refill, p->refill, p->world * sizeof *refill);
    refill[p->rank] += refills;
    int rc = add_leg(out, p->world, p->given + slots, refill, err);
    free(refill);
    return rc;
}

int stk_plan_state(const struct stk_plan *p, uint64_t slots, uint64_t refills, uint64_t dataset_id,
                   struct stk_state *out, struct stk_err *err)
{
    const struct stk_order *o = &p->order;
    *out = (struct stk_state){.n = o->n,
                              .dataset_id = dataset_id,
                              .shuffle = o->shuffle,
                              .order = STK_ORDER_VERSION,
                              .seed = o->seed,
                              .epoch = o->epoch,
                              .block = o->block,
                              .window = o->window};
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < p->nlegs; i++)
        rc = add_leg(out, p->leg[i].world, p->leg[i].done, p->leg[i].refill, err);
    if (rc == 0 && (p->given + slots || p->refilled + refills || any(p->refill, p->world)))
        rc = add_plan(out, p, slots, refills, err);
    if (rc)
        stk_state_release(out);
    return rc;
}

void stk_state_release(struct stk_state *s)
{
    for (size_t i = 0; i < s->nlegs; i++)
        free(s->leg[i].refill);
    *s = (struct stk_state){0};
}

/* ---- its members ---- */

static const struct stk_jfield order_fields[] = {
#define STATE(type, name, member)                                                                  \
    STK_JFIELD(type, name, struct stk_state, member), .required = true
    {STATE(UNSIGNED, "samples", n), .max = STK_PLAN_SAMPLES_MAX, .exact = true},
    {STATE(HASH, "dataset", dataset_id)},
    {STATE(UNSIGNED, "seed", seed), .exact = true},
    {STATE(UNSIGNED, "epoch", epoch), .exact = true},
    {STATE(WORD, "shuffle", shuffle), .words = stk_shuffle_names},
    {0},
};
static const struct stk_jfield version_fields[] = {
    {STK_JFIELD(UNSIGNED, "order", struct stk_state, order)}, /* missing in FORMER */
    {0},
};
/* Of shuffle BLOCK. */
static const struct stk_jfield block_fields[] = {
    {STATE(UNSIGNED, "block", block), .max = STK_PLAN_SAMPLES_MAX, .exact = true},
    {STATE(UNSIGNED, "window", window), .max = STK_PLAN_SAMPLES_MAX, .exact = true},
    {0},
#undef STATE
};

struct part {
    uint32_t world;
    uint64_t each, *refill;
    size_t nrefill;
};
struct parts {
    struct part v[STK_LEGS_MAX];
    size_t n;
};
static const struct stk_jfield part_fields[] = {
    {STK_JFIELD(UNSIGNED, "world", struct part, world), .required = true,
     .max = STK_PLAN_WORLD_MAX},
    {STK_JFIELD(UNSIGNED, "each", struct part, each), .required = true, .exact = true},
    {STK_JFIELD_LIST(UNSIGNED, "refill", struct part, refill, nrefill), .omit = true,
     .exact = true},
    {0},
};
static const struct stk_jfield done_fields[] = {
    {STK_JFIELD_ARRAY(STRUCT, "done", struct parts, v, n), .required = true, .table = part_fields},
    {0},
};

/* ---- writing ---- */

static void put_text(struct stk_jw *w, const struct stk_state *s)
{
    struct parts done = {.n = s->nlegs};
    for (size_t i = 0; i < s->nlegs; i++) {
        const struct stk_leg *t = &s->leg[i];
        done.v[i] = (struct part){.world = t->world, .each = t->done, .refill = t->refill};
        done.v[i].nrefill = any(t->refill, t->world) ? t->world : 0;
    }
    stk_jw_put_u64(w, "stoker_loader", s->former ? FORMER : VERSION);
    stk_jfields_put(order_fields, s, w);
    if (!s->former)
        stk_jfields_put(version_fields, s, w);
    if (s->shuffle == STK_SHUFFLE_BLOCK)
        stk_jfields_put(block_fields, s, w);
    stk_jfields_put(done_fields, &done, w);
}

/* Of the values, not the text: a JSON library may have reformatted it. */
static int checksum_of(const struct stk_state *s, char sum[9], struct stk_err *err)
{
    struct stk_buf b = STK_BUF_INIT;
    struct stk_jw w;
    stk_jw_init(&w, &b, false);
    stk_jw_open(&w, '{');
    put_text(&w, s);
    stk_jw_close(&w, '}');
    int rc = stk_buf_check(&b, err);
    if (rc == 0)
        snprintf(sum, 9, "%08lx", (unsigned long)(stk_hash64(b.data, b.len) & 0xffffffff));
    stk_buf_release(&b);
    return rc;
}

int stk_state_write(const struct stk_state *s, struct stk_buf *out, struct stk_err *err)
{
    struct stk_jw w;
    char sum[9];
    int rc = checksum_of(s, sum, err);
    if (rc < 0)
        return rc;
    stk_jw_init(&w, out, false);
    stk_jw_open(&w, '{');
    put_text(&w, s);
    if (!s->former)
        stk_jw_put_str(&w, "check", sum);
    stk_jw_close(&w, '}');
    return stk_buf_check(out, err);
}

/* ---- reading ---- */

static int bad(struct stk_err *err, const char *name, const char *what)
{
    return stk_err_set(err, STK_E_CORRUPT, NULL, -1, "loader state: '%s' %s", name, what);
}

static int get_legs(const struct stk_jval *obj, struct stk_arena *arena, struct stk_state *s,
                    struct stk_err *err)
{
    struct parts done = {0};
    uint64_t left;
    int rc = stk_jfields_read(done_fields, obj, NULL, arena, &done, err);
    if (rc)
        return stk_err_wrap(err, rc, "loader state");
    for (size_t i = 0; i < done.n && !rc; i++) {
        const struct part *t = &done.v[i];
        if (t->refill && t->nrefill != t->world)
            return bad(err, "refill", "is not a list of one number a rank");
        rc = add_leg(s, t->world, t->each, t->refill, err);
    }
    return rc ? rc : stk_legs_check(s->leg, s->nlegs, s->n, &left, err);
}

static int get_order(const struct stk_jval *obj, struct stk_arena *arena, struct stk_state *s,
                     struct stk_err *err)
{
    s->order = 1;
    int rc = stk_jfields_read(order_fields, obj, NULL, arena, s, err);
    rc = rc ? rc : stk_jfields_read(version_fields, obj, NULL, arena, s, err);
    if (!rc && s->shuffle == STK_SHUFFLE_BLOCK)
        rc = stk_jfields_read(block_fields, obj, NULL, arena, s, err);
    return rc ? stk_err_wrap(err, rc, "loader state") : 0;
}

/* The beginning of an epoch is the same in every order: no sample was given out. */
static int check_order(const struct stk_state *s, struct stk_err *err)
{
    if (s->order == STK_ORDER_VERSION || s->shuffle == STK_SHUFFLE_NONE || s->nlegs == 0)
        return 0;
    return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1,
                       "loader state in the middle of epoch %llu, as %s version of stoker shuffled "
                       "it: finish the epoch with that one, or begin it anew without the state",
                       (unsigned long long)s->epoch,
                       s->order < STK_ORDER_VERSION ? "an earlier" : "a later");
}

/* A flipped bit in a file would make a run lose or repeat samples. */
static int check_sum(const struct stk_jval *root, const struct stk_state *s, struct stk_err *err)
{
    const struct stk_jval *v = stk_json_get(root, "check");
    char sum[9];
    if (s->former)
        return 0;
    if (!v || v->type != STK_JSTR || v->len != 8)
        return bad(err, "check", "is missing");
    int rc = checksum_of(s, sum, err);
    if (rc == 0 && memcmp(sum, v->str, 8) != 0)
        rc = stk_err_set(err, STK_E_CORRUPT, NULL, -1,
                         "loader state: damaged, its checksum does not match");
    return rc;
}

static int from_json(const struct stk_jval *root, struct stk_arena *arena, struct stk_state *s,
                     struct stk_err *err)
{
    const struct stk_jval *v = stk_json_get(root, "stoker_loader");
    if (!v || v->type != STK_JINT)
        return stk_err_set(err, STK_E_CORRUPT, NULL, -1, "this is no loader state");
    if (v->i != VERSION && v->i != FORMER)
        return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1,
                           "loader state of version %lld: this stoker knows versions %d and %d",
                           (long long)v->i, FORMER, VERSION);
    s->former = v->i == FORMER;
    int rc = get_order(root, arena, s, err);
    if (rc == 0)
        rc = get_legs(root, arena, s, err);
    if (rc == 0)
        rc = check_sum(root, s, err);
    return rc ? rc : check_order(s, err);
}

int stk_state_read(const char *text, size_t len, struct stk_state *s, struct stk_err *err)
{
    struct stk_arena arena = STK_ARENA_INIT;
    struct stk_jval *root = NULL;
    *s = (struct stk_state){0};
    if (len > TEXT_MAX)
        return stk_err_set(err, STK_E_CORRUPT, NULL, -1,
                           "loader state: %zu bytes are more than one can have", len);
    int rc = stk_json_parse(&arena, text, len, &root, err);
    rc = rc ? stk_err_wrap(err, rc, "loader state") : from_json(root, &arena, s, err);
    stk_arena_release(&arena);
    if (rc)
        stk_state_release(s);
    return rc;
}

/* ---- states of several ranks at the same moment ---- */

static bool same_moment(const struct stk_state *a, const struct stk_state *b)
{
    bool same = a->former == b->former && a->n == b->n && a->dataset_id == b->dataset_id &&
                a->shuffle == b->shuffle && a->order == b->order && a->seed == b->seed &&
                a->epoch == b->epoch && a->block == b->block && a->window == b->window &&
                a->nlegs == b->nlegs;
    for (size_t i = 0; same && i < a->nlegs; i++)
        same = a->leg[i].world == b->leg[i].world && a->leg[i].done == b->leg[i].done;
    return same;
}

/* A rank knows its own refills exactly, and a lower bound of the others'. */
static int merge_refills(struct stk_leg *to, const struct stk_leg *from, struct stk_err *err)
{
    if (!from->refill)
        return 0;
    if (!to->refill)
        to->refill = calloc(to->world, sizeof *to->refill);
    if (!to->refill)
        return stk_err_nomem(err, to->world * sizeof *to->refill);
    for (uint32_t r = 0; r < to->world; r++)
        if (from->refill[r] > to->refill[r])
            to->refill[r] = from->refill[r];
    return 0;
}

int stk_state_merge(const struct stk_state *s, size_t nstates, struct stk_state *out,
                    struct stk_err *err)
{
    int rc = 0;
    if (nstates == 0)
        return stk_err_set(err, STK_E_USAGE, NULL, -1, "no loader states to put together");
    *out = s[0];
    for (size_t i = 0; i < out->nlegs; i++) {
        out->leg[i].refill = NULL;
        out->leg[i].before = NULL;
    }
    for (size_t i = 0; rc == 0 && i < nstates; i++) {
        if (!same_moment(&s[0], &s[i]))
            rc = stk_err_set(err, STK_E_USAGE, NULL, -1,
                             "loader states 0 and %zu are not of the same moment of one run", i);
        for (size_t k = 0; rc == 0 && k < out->nlegs; k++)
            rc = merge_refills(&out->leg[k], &s[i].leg[k], err);
    }
    if (rc)
        stk_state_release(out);
    return rc;
}

int stk_state_write_merged(const struct stk_state *s, size_t nstates, struct stk_buf *out,
                           struct stk_err *err)
{
    struct stk_state merged;
    int rc = stk_state_merge(s, nstates, &merged, err);
    if (rc)
        return rc;
    rc = stk_state_write(&merged, out, err);
    stk_state_release(&merged);
    return rc;
}

/* Reads n states; the caller releases *done of them, also on error. */
static int read_all(const char *const *text, size_t n, struct stk_state *s, size_t *done,
                    struct stk_err *err)
{
    int rc = 0;
    for (*done = 0; rc == 0 && *done < n; *done += rc == 0)
        rc = text[*done]
                 ? stk_state_read(text[*done], strlen(text[*done]), &s[*done], err)
                 : stk_err_set(err, STK_E_USAGE, NULL, -1, "there is no state %zu (NULL)", *done);
    return rc;
}

int stk_states_merge(const char *const *state, size_t n, char **out, struct stk_err *err)
{
    struct stk_buf b = STK_BUF_INIT;
    size_t done = 0;
    if (!state || !out || n == 0)
        return stk_err_set(err, STK_E_USAGE, NULL, -1, "no loader states to put together");
    struct stk_state *s = calloc(n, sizeof *s);
    int rc = s ? read_all(state, n, s, &done, err) : stk_err_nomem(err, n * sizeof *s);
    if (rc == 0)
        rc = stk_state_write_merged(s, n, &b, err);
    if (rc == 0 && !(*out = strdup(stk_buf_cstr(&b))))
        rc = stk_err_nomem(err, b.len);
    while (done > 0)
        stk_state_release(&s[--done]);
    free(s);
    stk_buf_release(&b);
    return rc;
}
