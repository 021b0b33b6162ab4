/* hash.h - XXH64 (as `xxhsum -H64` prints it), streaming. For file checksums and fingerprints. */
#ifndef STK_BASE_HASH_H
#define STK_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

struct stk_hash {
    uint64_t acc[4], total;
    uint8_t tail[32];
    size_t ntail;
};

void stk_hash_init(struct stk_hash *h);
void stk_hash_update(struct stk_hash *h, const void *p, size_t n);
uint64_t stk_hash_final(const struct stk_hash *h);
uint64_t stk_hash64(const void *p, size_t n);

#endif
