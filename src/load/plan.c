/*
 * plan.c - the slots of a rank in an epoch, and the sample in each: parts of what earlier legs
 * (runs of the same epoch, perhaps with other numbers of ranks) left. All of it is arithmetic: a
 * leg costs a division or two, and a search over its ranks only if samples were refilled.
 */
#include "load/plan.h"

#include <stdlib.h>

#define DONE_MAX (STK_PLAN_SAMPLES_MAX + (1ull << 32)) /* a padded part: at most one more batch */

static uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t part_start(uint64_t n, uint32_t world, uint32_t rank)
{
    return n / world * rank + min_u64(rank, n % world);
}

static uint64_t part_size(uint64_t n, uint32_t world, uint32_t rank)
{
    return n / world + (rank < n % world);
}

/* ---- legs ---- */

static uint64_t rank_left(const struct stk_leg *s, uint32_t rank)
{
    uint64_t size = part_size(s->n, s->world, rank);
    uint64_t end = size - min_u64(size, s->refill ? s->refill[rank] : 0);
    return end - min_u64(end, s->done);
}

static uint64_t leg_left(const struct stk_leg *s)
{
    uint64_t left = 0;
    if (!s->refill) /* past the shorter parts means past the longer ones, or at their end */
        return s->done > s->n / s->world ? 0 : s->n - s->world * s->done;
    for (uint32_t r = 0; r < s->world; r++)
        left += rank_left(s, r);
    return left;
}

static int check_leg(const struct stk_leg *s, size_t i, struct stk_err *err)
{
    if (s->world < 1 || s->world > STK_PLAN_WORLD_MAX)
        return stk_err_set(err, STK_E_CORRUPT, NULL, -1,
                           "loader state, part %zu: %u ranks (1 to %u can be)", i, s->world,
                           STK_PLAN_WORLD_MAX);
    if (s->n == 0)
        return stk_err_set(err, STK_E_CORRUPT, NULL, -1,
                           "loader state, part %zu: nothing was left to be done", i);
    if (s->done > DONE_MAX)
        return stk_err_set(err, STK_E_CORRUPT, NULL, -1,
                           "loader state, part %zu: %llu samples done by each of %u ranks, of %llu",
                           i, (unsigned long long)s->done, s->world, (unsigned long long)s->n);
    for (uint32_t r = 0; s->refill && r < s->world; r++)
        if (s->refill[r] > part_size(s->n, s->world, r))
            return stk_err_set(err, STK_E_CORRUPT, NULL, -1,
                               "loader state, part %zu: rank %u had %llu samples, not %llu to "
                               "refill from",
                               i, r, (unsigned long long)part_size(s->n, s->world, r),
                               (unsigned long long)s->refill[r]);
    return 0;
}

int stk_legs_check(struct stk_leg *leg, size_t nlegs, uint64_t n, uint64_t *left,
                   struct stk_err *err)
{
    if (n > STK_PLAN_SAMPLES_MAX || nlegs > STK_LEGS_MAX)
        return stk_err_set(err, STK_E_CORRUPT, NULL, -1,
                           "loader state: %llu samples in %zu parts are more than there can be",
                           (unsigned long long)n, nlegs);
    for (size_t i = 0; i < nlegs; i++) {
        leg[i].n = n;
        int rc = check_leg(&leg[i], i, err);
        if (rc)
            return rc;
        n = leg_left(&leg[i]);
    }
    *left = n;
    return 0;
}

/* The element of the leg's sequence that is element k of the rest it left. */
static uint64_t leg_element(const struct stk_leg *s, uint64_t k)
{
    uint32_t rank;
    uint64_t inside;
    if (s->refill) {
        uint32_t low = 0, high = s->world; /* before[low] <= k < before[high] */
        while (high - low > 1) {
            uint32_t mid = low + (high - low) / 2;
            if (s->before[mid] <= k)
                low = mid;
            else
                high = mid;
        }
        rank = low;
        inside = k - s->before[low];
    } else {
        uint64_t small = s->n / s->world - s->done, longer = s->n % s->world;
        uint64_t in_long = longer * (small + 1);
        bool is_long = k < in_long;
        uint64_t size = is_long ? small + 1 : small, at = is_long ? k : k - in_long;
        rank = (uint32_t)(at / size + (is_long ? 0 : longer));
        inside = at % size;
    }
    return part_start(s->n, s->world, rank) + s->done + inside;
}

static int copy_leg(struct stk_leg *to, const struct stk_leg *from, struct stk_err *err)
{
    *to = (struct stk_leg){.world = from->world, .done = from->done, .n = from->n};
    if (!from->refill)
        return 0;
    to->refill = malloc(from->world * sizeof *to->refill);
    to->before = malloc((from->world + 1ull) * sizeof *to->before);
    if (!to->refill || !to->before)
        return stk_err_nomem(err, from->world * sizeof *to->refill);
    memcpy(to->refill, from->refill, from->world * sizeof *to->refill);
    to->before[0] = 0;
    for (uint32_t r = 0; r < to->world; r++)
        to->before[r + 1] = to->before[r] + rank_left(to, r);
    return 0;
}

/* ---- the plan ---- */

static void divide(struct stk_plan *p)
{
    uint64_t fewest = p->left / p->world, most = fewest + (p->left % p->world != 0);
    p->first = part_start(p->left, p->world, p->rank);
    p->size = part_size(p->left, p->world, p->rank);
    fewest -= min_u64(fewest, p->given);
    most -= min_u64(most, p->given);
    p->steps = fewest / p->batch;
    if (p->last != STK_LAST_DROP)
        p->steps = most / p->batch + (most % p->batch != 0);
    p->slots = p->last == STK_LAST_SHORT ? most : p->steps * p->batch;
}

static int check_request(const struct stk_plan *p, struct stk_err *err)
{
    if (p->world < 1 || p->world > STK_PLAN_WORLD_MAX || p->rank >= p->world)
        return stk_err_set(err, STK_E_USAGE, NULL, -1,
                           "rank %u of %u: ranks count from 0, there can be 1 to %u", p->rank,
                           p->world, STK_PLAN_WORLD_MAX);
    if (p->batch < 1)
        return stk_err_set(err, STK_E_USAGE, NULL, -1, "a batch has at least one sample");
    if (p->last < STK_LAST_DROP || p->last > STK_LAST_SHORT)
        return stk_err_set(err, STK_E_USAGE, NULL, -1,
                           "%d is no way to treat the last batch: drop, pad or short", p->last);
    return 0;
}

/* Resumes within the parts of the newest leg instead of dividing the rest again. */
static void take_over(struct stk_plan *p)
{
    struct stk_leg *s = &p->leg[--p->nlegs];
    p->left = s->n;
    p->given = s->done;
    p->refill = s->refill;
    p->refilled = s->refill ? s->refill[p->rank] : 0;
    free(s->before);
    *s = (struct stk_leg){0};
}

static int copy_legs(struct stk_plan *p, const struct stk_leg *leg, size_t nlegs,
                     struct stk_err *err)
{
    p->left = p->order.n;
    if (nlegs == 0)
        return stk_legs_check(NULL, 0, p->left, &p->left, err);
    p->leg = calloc(nlegs, sizeof *p->leg);
    if (!p->leg)
        return stk_err_nomem(err, nlegs * sizeof *p->leg);
    memcpy(p->leg, leg, nlegs * sizeof *leg);
    int rc = stk_legs_check(p->leg, nlegs, p->left, &p->left, err);
    while (rc == 0 && p->nlegs < nlegs) {
        struct stk_leg from = p->leg[p->nlegs];
        rc = copy_leg(&p->leg[p->nlegs++], &from, err);
    }
    return rc;
}

int stk_plan_init(struct stk_plan *p, const struct stk_order *o, const struct stk_leg *leg,
                  size_t nlegs, uint32_t rank, uint32_t world, uint32_t batch, int last,
                  struct stk_err *err)
{
    *p = (struct stk_plan){.order = *o, .rank = rank, .world = world, .batch = batch, .last = last};
    int rc = check_request(p, err);
    if (rc == 0)
        rc = copy_legs(p, leg, nlegs, err);
    if (rc) {
        stk_plan_release(p);
        return rc;
    }
    if (nlegs && p->leg[nlegs - 1].world == world)
        take_over(p);
    divide(p);
    return 0;
}

void stk_plan_release(struct stk_plan *p)
{
    for (size_t i = 0; i < p->nlegs; i++) {
        free(p->leg[i].refill);
        free(p->leg[i].before);
    }
    free(p->leg);
    free(p->refill);
    *p = (struct stk_plan){0};
}

uint64_t stk_plan_position(const struct stk_plan *p, uint64_t k)
{
    for (size_t i = p->nlegs; i-- > 0;)
        k = leg_element(&p->leg[i], k);
    return k;
}

uint64_t stk_plan_sample_after(const struct stk_plan *p, uint64_t s, uint64_t refills, bool *repeat)
{
    uint64_t at = p->given + s, k;
    uint64_t end = p->size - min_u64(p->size, p->refilled + refills);
    *repeat = at >= end;
    if (at < end)
        k = p->first + at;
    else
        k = end ? p->first + at % end : at % p->left;
    return stk_order_at(&p->order, stk_plan_position(p, k));
}

uint64_t stk_plan_sample(const struct stk_plan *p, uint64_t s, bool *repeat)
{
    return stk_plan_sample_after(p, s, 0, repeat);
}

uint64_t stk_plan_batch_size(const struct stk_plan *p, uint64_t step)
{
    return min_u64(p->batch, p->slots - step * p->batch);
}

bool stk_plan_refill(const struct stk_plan *p, uint64_t used, uint64_t i, uint64_t *sample)
{
    uint64_t gone = p->refilled + i, at = p->given + used;
    if (gone >= p->size || p->size - 1 - gone < at)
        return false;
    *sample = stk_order_at(&p->order, stk_plan_position(p, p->first + p->size - 1 - gone));
    return true;
}
