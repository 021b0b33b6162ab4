/*
 * lookup.h - elements of an array, found by hash. The table holds their numbers; the caller
 * compares the elements:
 *
 *     uint32_t i;
 *     for (size_t at = 0; stk_lookup_next(&table, hash, &at, &i);)
 *         if (strcmp(thing[i].name, name) == 0)
 *             return &thing[i];
 *
 * Single elements cannot be removed. A zeroed table is empty.
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

/* The next element with that hash (rarely, with another); *at is 0 before the first. */
bool stk_lookup_next(const struct stk_lookup *t, uint64_t hash, size_t *at, uint32_t *item);
/* item: below UINT32_MAX. Returns 0, or STK_E_NOMEM and leaves the table unchanged. */
int stk_lookup_add(struct stk_lookup *t, uint64_t hash, uint32_t item, struct stk_err *err);
void stk_lookup_clear(struct stk_lookup *t); /* empties it, keeps the memory */
void stk_lookup_release(struct stk_lookup *t);

#endif
