/*
 * mixing.c - how far an order is from a random one, as training sees it: batch by batch. Examines
 * some batches all over the epoch; the values of a random order are computed, not drawn.
 */
#include "load/plan.h"

#include <math.h>
#include <stdlib.h>

#define PARTS  64  /* of the data; one bit of a mask each */
#define PLACES 256 /* probed to see how labels are distributed */
#define NO_CLUMP                                                                                   \
    4 /* up to this many adjacent samples of a class are noise, as in smaller                      \
       * batches */

struct survey {
    const struct stk_order *o;
    uint64_t batch, nbatches; /* examined */
    int64_t (*label)(void *user, uint64_t sample);
    void *user;
    int64_t *seen; /* labels of all batches that have one */
    uint64_t nseen;
    uint64_t pairs, kept, parts, classes; /* sums over the batches */
    double moved;
};

static uint64_t nparts(uint64_t n)
{
    return n < PARTS ? n : PARTS;
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static uint64_t sort_and_count(int64_t *v, uint64_t n)
{
    uint64_t distinct = 0;
    qsort(v, n, sizeof *v, by_value);
    for (uint64_t i = 0; i < n; i++)
        distinct += i == 0 || v[i] != v[i - 1];
    return distinct;
}

static void look_at_batch(struct survey *s, uint64_t from)
{
    const struct stk_order *o = s->o;
    uint64_t mask = 0, id = stk_order_at(o, from), first_seen = s->nseen;
    for (uint64_t p = from; p < from + s->batch; p++) {
        uint64_t next = p + 1 < o->n ? stk_order_at(o, p + 1) : id;
        s->pairs += p + 1 < o->n;
        s->kept += next == id + 1 || id == next + 1;
        s->moved += (double)(id > p ? id - p : p - id);
        mask |= 1ull << (uint64_t)((unsigned __int128)id * nparts(o->n) / o->n);
        int64_t class = s->label ? s->label(s->user, id) : -1;
        if (class >= 0)
            s->seen[s->nseen++] = class;
        id = next;
    }
    s->parts += (uint64_t)__builtin_popcountll(mask);
    if (s->nseen > first_seen)
        s->classes += sort_and_count(s->seen + first_seen, s->nseen - first_seen);
}

/* The probability that drawing `batch` of n without replacement misses all of a group of `size`. */
static double chance_missed(double n, double size, uint64_t batch)
{
    double p = 1;
    for (uint64_t i = 0; i < batch && p > 1e-12; i++) {
        double others = n - size - (double)i;
        p = others > 0 ? p * (others / (n - (double)i)) : 0;
    }
    return p;
}

static double random_spread(uint64_t n, uint64_t batch)
{
    uint64_t parts = nparts(n), size = n / parts, larger = n % parts;
    double missed = (double)larger * chance_missed((double)n, (double)size + 1, batch);
    missed += (double)(parts - larger) * chance_missed((double)n, (double)size, batch);
    return 1 - missed / (double)parts;
}

/* The expected share of classes, from the counts of each class in ascending order; equal counts
 * have equal probability. */
static double random_classes(const int64_t *count, uint64_t nclasses, const struct survey *s)
{
    double n = (double)s->o->n, part = n / (double)s->nseen, missed = 0, chance = 0;
    uint64_t in_batch = (s->nseen + s->nbatches / 2) / s->nbatches;
    for (uint64_t i = 0; i < nclasses; i++) {
        if (i == 0 || count[i] != count[i - 1])
            chance = chance_missed(n, (double)count[i] * part, in_batch);
        missed += chance;
    }
    return 1 - missed / (double)nclasses;
}

static void judge_classes(struct survey *s, struct stk_mixing *out)
{
    if (s->nseen == 0)
        return;
    uint64_t nclasses = sort_and_count(s->seen, s->nseen), k = 0;
    for (uint64_t i = 0, from = 0; i < s->nseen; i++)
        if (i + 1 == s->nseen || s->seen[i + 1] != s->seen[i]) {
            s->seen[k++] = (int64_t)(i + 1 - from); /* counts overwrite the labels */
            from = i + 1;
        }
    qsort(s->seen, nclasses, sizeof *s->seen, by_value);
    out->classes = (double)s->classes / (double)s->nbatches / (double)nclasses;
    out->classes_random = random_classes(s->seen, nclasses, s);
}

static void judge(struct survey *s, struct stk_mixing *out)
{
    double n = (double)s->o->n;
    out->looked_at = s->nbatches * s->batch;
    out->moved = s->moved / (double)out->looked_at / n;
    out->moved_random = (1 - 1 / (n * n)) / 3;
    out->kept = s->pairs ? (double)s->kept / (double)s->pairs : 0;
    out->kept_random = s->pairs ? 2 / n : 0;
    out->spread = (double)s->parts / (double)s->nbatches / (double)nparts(s->o->n);
    out->spread_random = random_spread(s->o->n, s->batch);
    judge_classes(s, out);
}

int stk_mixing_measure(const struct stk_order *o, uint64_t batch, uint64_t budget,
                       int64_t (*label)(void *user, uint64_t sample), void *user,
                       struct stk_mixing *out, struct stk_err *err)
{
    struct survey s = {.o = o, .label = label, .user = user};
    *out = (struct stk_mixing){0};
    if (batch == 0 || budget == 0)
        return stk_err_set(err, STK_E_USAGE, NULL, -1, "mixing needs a batch size of at least one");
    if (o->n == 0)
        return 0;
    s.batch = batch < o->n ? batch : o->n;
    s.batch = s.batch < budget ? s.batch : budget;
    uint64_t all = o->n / s.batch;
    s.nbatches = budget / s.batch < all ? budget / s.batch : all;
    if (label && s.nbatches * s.batch <= SIZE_MAX / sizeof *s.seen)
        s.seen = malloc(s.nbatches * s.batch * sizeof *s.seen);
    if (label && !s.seen)
        return stk_err_nomem(err, s.nbatches * s.batch * sizeof *s.seen);
    for (uint64_t i = 0; i < s.nbatches; i++) /* the middle batch of each of nbatches ranges */
        look_at_batch(&s, (uint64_t)((unsigned __int128)(2 * i + 1) * all / (2 * s.nbatches)) *
                              s.batch);
    judge(&s, out);
    free(s.seen);
    return 0;
}

/* ---- at a glance ---- */

/* The probability that two of these are equal. */
static double chance_alike(int64_t *v, uint64_t n)
{
    double pairs = 0;
    sort_and_count(v, n);
    for (uint64_t i = 0, from = 0; i < n; i++) {
        from = i && v[i] != v[i - 1] ? i : from;
        pairs += (double)(i - from);
    }
    return pairs / ((double)n * (double)(n - 1) / 2);
}

bool stk_mixing_together(uint64_t n, uint64_t apart, int64_t (*label)(void *user, uint64_t sample),
                         void *user)
{
    int64_t seen[PLACES];
    uint64_t nseen = 0, alike = 0;
    for (uint64_t i = 0; i < PLACES && apart < n; i++) {
        uint64_t at = (uint64_t)((unsigned __int128)(2 * i + 1) * (n - apart) / (2 * PLACES));
        int64_t a = label(user, at), b = label(user, at + apart);
        if (a >= 0 && b >= 0) {
            seen[nseen++] = a;
            alike += a == b;
        }
    }
    if (nseen < 2)
        return false;
    double chance = chance_alike(seen, nseen);
    return chance < 1 && (double)alike / (double)nseen >= (1 + chance) / 2;
}

bool stk_mixing_poor(const struct stk_order *o, uint64_t nclasses,
                     int64_t (*label)(void *user, uint64_t sample), void *user,
                     struct stk_glance *out)
{
    int64_t seen[PLACES];
    uint64_t first, end, n = 0;
    if (o->shuffle != STK_SHUFFLE_BLOCK || o->block <= NO_CLUMP || nclasses < 2 ||
        !stk_mixing_together(o->n, o->block / 2, label, user))
        return false;
    stk_order_window(o, 0, &first, &end);
    /* A round takes one sample of each block; the others of a block have the same class. */
    uint64_t blocks = (end - first) / o->block, look = blocks < PLACES ? blocks : PLACES;
    for (uint64_t i = 0; i < look; i++) {
        seen[n] = label(user, stk_order_at(o, first + i));
        n += seen[n] >= 0;
    }
    if (n == 0)
        return false;
    double all = (double)nclasses, here = (double)sort_and_count(seen, n);
    here *= (double)blocks / (double)n; /* blocks not examined have other classes */
    out->samples = end - first;
    out->classes = (uint64_t)(here < all ? here : all);
    out->of_random = (uint64_t)(-all * expm1((double)out->samples * log1p(-1 / all)) + 0.5);
    return 2 * out->classes < out->of_random;
}
