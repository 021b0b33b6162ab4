/*
 * pick.h - which samples of a whole dataset a subset has, in which order: a list of numbers, or
 * numbers at equal steps, which takes no memory however many they are.
 */
#ifndef STK_DATASET_PICK_H
#define STK_DATASET_PICK_H

#include "base/err.h"

struct stk_pick {
    uint64_t n;
    uint64_t *list;       /* NULL: numbers at equal steps */
    uint64_t first, step; /* step: modulo 2^64, so that it may count down */
};

/* Number i (< n). */
static inline uint64_t stk_pick_at(const struct stk_pick *p, uint64_t i)
{
    return p->list ? p->list[i] : p->first + i * p->step;
}

/* The samples `number` of those in `of` (NULL: of all `have` samples). STK_E_USAGE: there is no
 * such sample. Caller releases with stk_pick_release(), also after an error. */
int stk_pick_list(struct stk_pick *p, const struct stk_pick *of, uint64_t have,
                  const uint64_t *number, uint64_t n, struct stk_err *err);
/* n samples from `first` on, each `step` further. */
int stk_pick_steps(struct stk_pick *p, const struct stk_pick *of, uint64_t have, uint64_t first,
                   int64_t step, uint64_t n, struct stk_err *err);
void stk_pick_release(struct stk_pick *p);

/* True when it has all `have` samples in their order. */
bool stk_pick_is_all(const struct stk_pick *p, uint64_t have);
/* The same for the same samples in the same order, however they were picked. */
uint64_t stk_pick_hash(const struct stk_pick *p, uint64_t seed);

#endif
