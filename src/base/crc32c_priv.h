/*
 * crc32c_priv.h - the ways to compute a CRC-32C that crc32c.c chooses from, and the arithmetic for
 * their constants. For crc32c*.c, the unit test and the benchmark only.
 */
#ifndef STK_BASE_CRC32C_PRIV_H
#define STK_BASE_CRC32C_PRIV_H

#include <stddef.h>
#include <stdint.h>

#define STK_CRC32C_POLY  0x82f63b78u   /* Castagnoli, reflected: bit 31 - i is that of x^i */
#define STK_CRC32C_ORDER 0x7fffffffull /* x^ORDER = 1 mod P, so x^-k = x^(ORDER - k) */
#define STK_CRC32C_WAYS  5             /* at most, on one machine */

/* extend: works on the bare register; unlike stk_crc32c() it does not invert before and after. */
struct stk_crc32c_way {
    const char *name;
    uint32_t (*extend)(uint32_t crc, const uint8_t *p, size_t n);
};

/* All ways this CPU supports, the best last. */
size_t stk_crc32c_ways(struct stk_crc32c_way ways[STK_CRC32C_WAYS]);

/* Appends the CPU's own ways; computes the constants they need. */
size_t stk_crc32c_native(struct stk_crc32c_way *ways);

/* a * b mod P, and x^n mod P. */
uint32_t stk_crc32c_times(uint32_t a, uint32_t b);
uint32_t stk_crc32c_power(uint64_t n);

#endif
