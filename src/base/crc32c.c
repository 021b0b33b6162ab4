/*
 * crc32c.c - CRC-32C: chooses the fastest way for this CPU at the first call, and has the portable
 * way (tables, eight bytes per step). crc32c_x86.c and crc32c_arm.c use CPU instructions.
 */
#include "base/hash.h"
#include "base/crc32c_priv.h"
#include "base/buf.h"

#include <pthread.h>
#include <stdatomic.h>

static uint32_t table[8][256];

static void make_table(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int k = 0; k < 8; k++)
            c = c & 1 ? c >> 1 ^ STK_CRC32C_POLY : c >> 1;
        table[0][i] = c;
    }
    for (uint32_t i = 0; i < 256; i++)
        for (int k = 1; k < 8; k++)
            table[k][i] = table[k - 1][i] >> 8 ^ table[0][table[k - 1][i] & 255];
}

static uint32_t crc_tables(uint32_t crc, const uint8_t *p, size_t n)
{
    for (; n >= 8; n -= 8, p += 8) {
        uint64_t v = stk_le64(p) ^ crc;
        crc = 0;
        for (int k = 0; k < 8; k++)
            crc ^= table[7 - k][v >> (8 * k) & 255];
    }
    for (; n; n--)
        crc = crc >> 8 ^ table[0][(crc ^ *p++) & 255];
    return crc;
}

uint32_t stk_crc32c_times(uint32_t a, uint32_t b)
{
    uint32_t product = 0;
    for (; a; a <<= 1) { /* from x^0 up */
        if (a >> 31)
            product ^= b;
        b = b & 1 ? b >> 1 ^ STK_CRC32C_POLY : b >> 1; /* b * x */
    }
    return product;
}

uint32_t stk_crc32c_power(uint64_t n)
{
    uint32_t result = 1u << 31, square = 1u << 30;
    for (; n; n >>= 1) {
        if (n & 1)
            result = stk_crc32c_times(result, square);
        square = stk_crc32c_times(square, square);
    }
    return result;
}

#if !defined(__x86_64__) && !(defined(__aarch64__) && defined(__linux__))
size_t stk_crc32c_native(struct stk_crc32c_way *ways)
{
    (void)ways;
    return 0;
}
#endif

static struct stk_crc32c_way known[STK_CRC32C_WAYS];
static size_t nknown;

static uint32_t crc_first(uint32_t crc, const uint8_t *p, size_t n);
/* Published after the tables are filled: a thread that sees a new value sees the tables, too. */
static _Atomic(uint32_t (*)(uint32_t, const uint8_t *, size_t)) crc_best = crc_first;

static void choose(void)
{
    make_table();
    known[0] = (struct stk_crc32c_way){"tables", crc_tables};
    nknown = 1 + stk_crc32c_native(known + 1);
    atomic_store_explicit(&crc_best, known[nknown - 1].extend, memory_order_release);
}

static void choose_once(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, choose);
}

static uint32_t crc_first(uint32_t crc, const uint8_t *p, size_t n)
{
    choose_once();
    return known[nknown - 1].extend(crc, p, n);
}

size_t stk_crc32c_ways(struct stk_crc32c_way ways[STK_CRC32C_WAYS])
{
    choose_once();
    memcpy(ways, known, nknown * sizeof *known);
    return nknown;
}

uint32_t stk_crc32c(uint32_t crc, const void *p, size_t n)
{
    return ~atomic_load_explicit(&crc_best, memory_order_acquire)(~crc, p, n);
}
