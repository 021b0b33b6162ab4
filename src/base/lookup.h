/*
 * lookup.h - elements of an array, found by hash. The table holds their numbers; what they are, and
 * whether one is the one wanted, the caller knows:
 *
 *     uint32_t i;
 *     for (size_t at = 0; stk_lookup_next(&table, hash, &at, &i);)
 *         if (strcmp(thing[i].name, name) == 0)
 *             return &thing[i];
 *
 * Nothing is ever taken out alone. A table of zeros is an empty one.
 */
#ifndef STK_BASE_LOOKUP_H
#define STK_BASE_LOOKUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct stk_lookup {
    struct stk_lookup_slot *slot;
    size_t nslots, n; /* a power of two, at least 2 n; or 0 */
};

/* The next element of that hash (rarely, of another); *at is 0 before the first. */
bool stk_lookup_next(const struct stk_lookup *t, uint64_t hash, size_t *at, uint32_t *item);
/* item: below UINT32_MAX. 0 or STK_E_NOMEM, then the table is as it was. */
int stk_lookup_add(struct stk_lookup *t, uint64_t hash, uint32_t item, struct stk_err *err);
void stk_lookup_clear(struct stk_lookup *t); /* empty, its memory stays */
void stk_lookup_release(struct stk_lookup *t);

#endif
