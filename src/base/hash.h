/* hash.h - checksums, and tables by hash. */
#ifndef STK_BASE_HASH_H
#define STK_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <stdbool.h>

#include "base/err.h"

/* XXH64 (as `xxhsum -H64` prints it), streaming. For file checksums and fingerprints. */
struct stk_hash {
    uint64_t acc[4], total;
    uint8_t tail[32];
    size_t ntail;
};

void stk_hash_init(struct stk_hash *h);
void stk_hash_update(struct stk_hash *h, const void *p, size_t n);
uint64_t stk_hash_final(const struct stk_hash *h);
uint64_t stk_hash64(const void *p, size_t n);

/* CRC-32C (Castagnoli), by CPU instruction if there is one: extends the CRC of the bytes so far (0
 * at the start) by p[0..n). */
uint32_t stk_crc32c(uint32_t crc, const void *p, size_t n);

/* ---- elements by hash ------------------------------------------------------------------------ */

/*
 * Elements of an array, found by hash. The table holds their numbers; the caller compares the
 * elements:
 *
 *     uint32_t i;
 *     for (size_t at = 0; stk_lookup_next(&table, hash, &at, &i);)
 *         if (strcmp(thing[i].name, name) == 0)
 *             return &thing[i];
 *
 * Single elements cannot be removed. A zeroed table is empty.
 */

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
