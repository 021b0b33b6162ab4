/* crc32c.h - CRC-32C (Castagnoli), by CPU instruction if there is one. */
#ifndef STK_BASE_CRC32C_H
#define STK_BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Extends the CRC of the bytes so far (0 at the start) by p[0..n). */
uint32_t stk_crc32c(uint32_t crc, const void *p, size_t n);

#endif
