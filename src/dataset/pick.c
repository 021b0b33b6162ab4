/* pick.c - the samples of a subset: checks them, brings them into one form, and identifies them. */
#include "dataset/pick.h"

#include "base/hash.h"

#include <stdlib.h>

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
