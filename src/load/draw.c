/* draw.c - splits a dataset into random parts, and draws samples by weight. */
#include "load/plan.h"

#include "base/random.h"

#include <math.h>
#include <stdlib.h>

/* ---- parts ---- */

static int check_shares(const double *share, size_t nparts, struct stk_err *err)
{
    double sum = 0;
    if (nparts < 1 || nparts > STK_PARTS_MAX)
        return stk_err_set(err, STK_E_USAGE, NULL, -1, "a dataset is divided into 1 to %d parts",
                           STK_PARTS_MAX);
    for (size_t k = 0; k < nparts; k++) {
        if (!(share[k] >= 0))
            return stk_err_set(err, STK_E_USAGE, NULL, -1, "a share of %g: shares are 0 to 1",
                               share[k]);
        sum += share[k];
    }
    if (sum > 1 + 1e-9)
        return stk_err_set(err, STK_E_USAGE, NULL, -1, "the shares add up to %g, more than all",
                           sum);
    return 0;
}

/* The remainder is a part like the others: the last. */
struct deal {
    double share[STK_PARTS_MAX + 1];
    uint64_t given[STK_PARTS_MAX + 1];
    size_t n;
};

static void begin_deal(struct deal *d, const double *share, size_t nparts)
{
    *d = (struct deal){.n = nparts + 1};
    double rest = 1;
    for (size_t k = 0; k < nparts; k++) {
        d->share[k] = share[k];
        rest -= share[k];
    }
    d->share[nparts] = rest > 1e-9 ? rest : 0;
}

/* Card number t goes to the part that lacks most. So no part ever exceeds its share by a
 * whole card, and all are near their shares after every range of cards. */
static uint8_t deal_one(struct deal *d, uint64_t t)
{
    size_t best = 0;
    double most = -1;
    for (size_t k = 0; k < d->n; k++) {
        double lacks = d->share[k] * (double)(t + 1) - (double)d->given[k];
        if (lacks > most && d->share[k] > 0) {
            most = lacks;
            best = k;
        }
    }
    d->given[best]++;
    return (uint8_t)best;
}

struct stratum {
    uint64_t first, next; /* its first card; samples of it so far */
    struct stk_perm perm;
};

static struct stratum *make_strata(uint64_t n, const uint32_t *strata, uint32_t nstrata,
                                   uint64_t seed)
{
    struct stratum *s = calloc(nstrata, sizeof *s);
    uint64_t first = 0;
    for (uint64_t i = 0; s && i < n; i++)
        s[strata ? strata[i] : 0].next++;
    for (uint32_t c = 0; s && c < nstrata; c++) {
        uint64_t size = s[c].next;
        stk_perm_init(&s[c].perm, size, stk_mix64(seed + STK_GOLDEN64 * (c + 1)));
        s[c].first = first;
        s[c].next = 0;
        first += size;
    }
    return s;
}

int stk_divide(uint64_t n, const uint32_t *strata, uint32_t nstrata, const double *share,
               size_t nparts, uint64_t seed, uint8_t *part, struct stk_err *err)
{
    struct deal d;
    int rc = check_shares(share, nparts, err);
    nstrata = strata ? nstrata : 1;
    for (uint64_t i = 0; rc == 0 && strata && i < n; i++)
        if (strata[i] >= nstrata)
            rc = stk_err_set(err, STK_E_USAGE, NULL, -1, "stratum %u of %u", strata[i], nstrata);
    if (rc < 0 || n == 0)
        return rc;
    struct stratum *s = make_strata(n, strata, nstrata, seed);
    uint8_t *card = malloc(n);
    if (!s || !card) {
        free(s);
        free(card);
        return stk_err_nomem(err, n);
    }
    begin_deal(&d, share, nparts);
    for (uint64_t t = 0; t < n; t++)
        card[t] = deal_one(&d, t);
    for (uint64_t i = 0; i < n; i++) {
        struct stratum *x = &s[strata ? strata[i] : 0];
        part[i] = card[x->first + stk_perm_at(&x->perm, x->next++)];
    }
    free(s);
    free(card);
    return 0;
}

/* ---- weights ---- */

/* Walker's alias method: slot i means itself with probability `own`, else `other`. */
struct slot {
    double own;
    uint64_t other;
};

static int sum_weights(const double *weight, uint64_t n, double *sum, struct stk_err *err)
{
    *sum = 0;
    for (uint64_t i = 0; i < n; i++) {
        if (!(weight[i] >= 0) || !isfinite(weight[i]))
            return stk_err_set(err, STK_E_USAGE, NULL, -1,
                               "weight %g of sample %llu: weights are 0 or more", weight[i],
                               (unsigned long long)i);
        *sum += weight[i];
    }
    if (!(*sum > 0) || !isfinite(*sum))
        return stk_err_set(err, STK_E_USAGE, NULL, -1,
                           "the weights add up to %g: nothing can be drawn", *sum);
    return 0;
}

/* Slots below 1 take what they lack from a slot above 1; `todo` has the former at its front, the
 * latter at its back. */
static void fill_slots(struct slot *slot, uint64_t *todo, uint64_t n)
{
    uint64_t low = 0, high = n;
    for (uint64_t i = 0; i < n; i++) {
        slot[i].other = i;
        if (slot[i].own < 1)
            todo[low++] = i;
        else
            todo[--high] = i;
    }
    while (low > 0 && high < n) {
        uint64_t small = todo[--low], large = todo[high];
        slot[small].other = large;
        slot[large].own -= 1 - slot[small].own;
        if (slot[large].own < 1) {
            todo[low++] = large;
            high++;
        }
    }
    while (low > 0) /* 1 except for rounding */
        slot[todo[--low]].own = 1;
}

int stk_draw(const double *weight, uint64_t n, uint64_t seed, uint64_t epoch, uint64_t *out,
             uint64_t count, struct stk_err *err)
{
    double sum;
    int rc = sum_weights(weight, n, &sum, err);
    if (rc < 0)
        return rc;
    struct slot *slot = calloc(n, sizeof *slot);
    uint64_t *todo = calloc(n, sizeof *todo);
    if (!slot || !todo) {
        free(slot);
        free(todo);
        return stk_err_nomem(err, n * sizeof *slot);
    }
    for (uint64_t i = 0; i < n; i++)
        slot[i].own = weight[i] / sum * (double)n;
    fill_slots(slot, todo, n);
    free(todo);
    uint64_t state = stk_mix64(stk_mix64(seed + STK_GOLDEN64) + epoch);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t at = (uint64_t)((unsigned __int128)stk_random_next(&state) * n >> 64);
        out[i] = stk_random_unit(&state) < slot[at].own ? at : slot[at].other;
    }
    free(slot);
    return 0;
}
