/*
 * state.c - the position of a loader in an epoch, as one line of JSON: the settings of the order
 * and, per leg, how far every rank came. The text is untrusted: everything is checked before use.
 */
#include "load/plan.h"
#include "base/hash.h"
#include "base/json.h"

#include <stdio.h>
#include <stdlib.h>

#define TEXT_MAX  (16u << 20)  /* the parser takes some fifty bytes per byte of text */
#define EXACT_MAX (1ull << 53) /* larger numbers do not survive readers that use doubles */
#define VERSION   2
#define FORMER    1 /* the version without "order" and checksum, which is still read */

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

/* ---- writing ---- */

static void put_number(struct stk_jw *w, const char *key, uint64_t v)
{
    char text[24];
    stk_jw_key(w, key);
    if (v <= EXACT_MAX) {
        stk_jw_u64(w, v);
        return;
    }
    snprintf(text, sizeof text, "%llu", (unsigned long long)v);
    stk_jw_str(w, text);
}

static void put_leg(struct stk_jw *w, const struct stk_leg *t)
{
    stk_jw_open(w, '{');
    put_number(w, "world", t->world);
    put_number(w, "each", t->done);
    if (any(t->refill, t->world)) {
        stk_jw_key(w, "refill");
        stk_jw_open(w, '[');
        for (uint32_t r = 0; r < t->world; r++)
            stk_jw_u64(w, t->refill[r]);
        stk_jw_close(w, ']');
    }
    stk_jw_close(w, '}');
}

static void put_text(struct stk_jw *w, const struct stk_state *s)
{
    char id[20];
    snprintf(id, sizeof id, "%016llx", (unsigned long long)s->dataset_id);
    put_number(w, "stoker_loader", s->former ? FORMER : VERSION);
    put_number(w, "samples", s->n);
    stk_jw_put_str(w, "dataset", id);
    put_number(w, "seed", s->seed);
    put_number(w, "epoch", s->epoch);
    stk_jw_put_str(w, "shuffle", stk_shuffle_name(s->shuffle));
    if (!s->former)
        put_number(w, "order", s->order);
    if (s->shuffle == STK_SHUFFLE_BLOCK) {
        put_number(w, "block", s->block);
        put_number(w, "window", s->window);
    }
    stk_jw_key(w, "done");
    stk_jw_open(w, '[');
    for (size_t i = 0; i < s->nlegs; i++)
        put_leg(w, &s->leg[i]);
    stk_jw_close(w, ']');
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

static bool number_of(const struct stk_jval *v, uint64_t *out)
{
    if (v->type == STK_JINT && v->i >= 0) {
        *out = (uint64_t)v->i;
        return true;
    }
    if (v->type != STK_JSTR || v->len == 0 || v->len > 20)
        return false;
    *out = 0;
    for (size_t i = 0; i < v->len; i++)
        if (v->str[i] < '0' || v->str[i] > '9' || __builtin_mul_overflow(*out, 10u, out) ||
            __builtin_add_overflow(*out, (uint64_t)(v->str[i] - '0'), out))
            return false;
    return true;
}

static int get_number(const struct stk_jval *obj, const char *name, uint64_t max, uint64_t *out,
                      struct stk_err *err)
{
    const struct stk_jval *v = stk_json_get(obj, name);
    if (!v)
        return bad(err, name, "is missing");
    if (!number_of(v, out))
        return bad(err, name, "is no whole number");
    return *out > max ? bad(err, name, "is too large") : 0;
}

static int get_dataset(const struct stk_jval *obj, uint64_t *out, struct stk_err *err)
{
    const struct stk_jval *v = stk_json_get(obj, "dataset");
    if (!v || v->type != STK_JSTR || v->len != 16 || strspn(v->str, "0123456789abcdef") != 16)
        return bad(err, "dataset", "is not of 16 hexadecimal digits");
    *out = strtoull(v->str, NULL, 16);
    return 0;
}

static int get_shuffle(const struct stk_jval *obj, int *out, struct stk_err *err)
{
    const struct stk_jval *v = stk_json_get(obj, "shuffle");
    for (int i = 0; v && v->type == STK_JSTR && i <= STK_SHUFFLE_NONE; i++)
        if (strlen(stk_shuffle_name(i)) == v->len &&
            memcmp(stk_shuffle_name(i), v->str, v->len) == 0) {
            *out = i;
            return 0;
        }
    return bad(err, "shuffle", "is not block, global or none");
}

static int get_refill(const struct stk_jval *v, struct stk_leg *t, struct stk_err *err)
{
    if (v->type != STK_JARR || v->len != t->world)
        return bad(err, "refill", "is not a list of one number a rank");
    t->refill = malloc(t->world * sizeof *t->refill);
    if (!t->refill)
        return stk_err_nomem(err, t->world * sizeof *t->refill);
    for (uint32_t r = 0; r < t->world; r++)
        if (!number_of(&v->item[r], &t->refill[r]))
            return bad(err, "refill", "holds something that is no whole number");
    return 0;
}

static int get_leg(const struct stk_jval *v, struct stk_leg *t, struct stk_err *err)
{
    uint64_t world = 0;
    if (v->type != STK_JOBJ)
        return bad(err, "done", "holds something that is no object");
    int rc = get_number(v, "world", STK_PLAN_WORLD_MAX, &world, err);
    if (rc == 0)
        rc = get_number(v, "each", UINT64_MAX, &t->done, err);
    t->world = (uint32_t)world;
    const struct stk_jval *refill = stk_json_get(v, "refill");
    if (rc == 0 && refill)
        rc = get_refill(refill, t, err);
    return rc;
}

static int get_legs(const struct stk_jval *obj, struct stk_state *s, struct stk_err *err)
{
    const struct stk_jval *v = stk_json_get(obj, "done");
    uint64_t left;
    if (!v || v->type != STK_JARR)
        return bad(err, "done", "is not a list");
    if (v->len > STK_LEGS_MAX)
        return bad(err, "done", "is too long");
    for (size_t i = 0; i < v->len; i++) {
        int rc = get_leg(&v->item[i], &s->leg[s->nlegs++], err);
        if (rc)
            return rc;
    }
    return stk_legs_check(s->leg, s->nlegs, s->n, &left, err);
}

static int get_order(const struct stk_jval *obj, struct stk_state *s, struct stk_err *err)
{
    uint64_t order = 1; /* missing in the first version of states */
    int rc = get_number(obj, "samples", STK_PLAN_SAMPLES_MAX, &s->n, err);
    if (rc == 0)
        rc = get_dataset(obj, &s->dataset_id, err);
    if (rc == 0)
        rc = get_number(obj, "seed", UINT64_MAX, &s->seed, err);
    if (rc == 0)
        rc = get_number(obj, "epoch", UINT64_MAX, &s->epoch, err);
    if (rc == 0)
        rc = get_shuffle(obj, &s->shuffle, err);
    if (rc == 0 && stk_json_get(obj, "order"))
        rc = get_number(obj, "order", UINT32_MAX, &order, err);
    s->order = (unsigned)order;
    if (rc == 0 && s->shuffle == STK_SHUFFLE_BLOCK) {
        rc = get_number(obj, "block", STK_PLAN_SAMPLES_MAX, &s->block, err);
        if (rc == 0)
            rc = get_number(obj, "window", STK_PLAN_SAMPLES_MAX, &s->window, err);
    }
    return rc;
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

static int from_json(const struct stk_jval *root, struct stk_state *s, struct stk_err *err)
{
    uint64_t version = 0;
    if (root->type != STK_JOBJ || !stk_json_get(root, "stoker_loader"))
        return stk_err_set(err, STK_E_CORRUPT, NULL, -1, "this is no loader state");
    int rc = get_number(root, "stoker_loader", UINT64_MAX, &version, err);
    if (rc == 0 && version != VERSION && version != FORMER)
        rc = stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1,
                         "loader state of version %llu: this stoker knows versions %d and %d",
                         (unsigned long long)version, FORMER, VERSION);
    s->former = version == FORMER;
    if (rc == 0)
        rc = get_order(root, s, err);
    if (rc == 0)
        rc = get_legs(root, s, err);
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
    rc = rc ? stk_err_wrap(err, rc, "loader state") : from_json(root, s, err);
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
