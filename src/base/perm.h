/*
 * perm.h - a keyed permutation of 0..n-1, evaluated element by element: no list that grows with n.
 */
#ifndef STK_BASE_PERM_H
#define STK_BASE_PERM_H

#include <stdint.h>

#include "base/random.h"

struct stk_perm {
    uint64_t n, key;
    uint64_t rows; /* elements are taken as (row, column), 2^column_bits columns */
    unsigned column_bits, rounds;
    uint64_t list;     /* rounds = 0: the permutation itself, 4 bits per element */
    uint8_t table[32]; /* the same for 17 to 32 elements, which would take the most rounds */
};

void stk_perm_init(struct stk_perm *p, uint64_t n, uint64_t seed);
/* The same permutation, set up cheaply to evaluate one element. */
void stk_perm_init_once(struct stk_perm *p, uint64_t n, uint64_t seed);
/* Twice as fast but less random: more pairs than by chance keep their distance. For one step of an
 * order with several. */
void stk_perm_init_rough(struct stk_perm *p, uint64_t n, uint64_t seed);
/* Where element i (< n) goes. A bijection for every seed. */
uint64_t stk_perm_at(const struct stk_perm *p, uint64_t i);

#endif
