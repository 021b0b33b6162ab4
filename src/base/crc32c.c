/*
 * crc32c.c - CRC-32C: the crc32 instruction on three interleaved streams where the CPU has it
 * (its latency is 3 cycles, so one stream alone reaches a third of its throughput), tables
 * elsewhere.
 */
#include "base/crc32c.h"
#include "base/buf.h"

#include <pthread.h>

#define POLY 0x82f63b78u /* Castagnoli, reflected */

static uint32_t table[8][256];

/* ---- portable: eight bytes a step ---- */

static void make_table(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int k = 0; k < 8; k++)
            c = c & 1 ? c >> 1 ^ POLY : c >> 1;
        table[0][i] = c;
    }
    for (uint32_t i = 0; i < 256; i++)
        for (int k = 1; k < 8; k++)
            table[k][i] = table[k - 1][i] >> 8 ^ table[0][table[k - 1][i] & 255];
}

static uint32_t crc_soft(uint32_t crc, const uint8_t *p, size_t n)
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

#if defined(__x86_64__)
#include <nmmintrin.h>

/* Lengths of the three streams: long blocks for big buffers, short ones for records of a few KiB.
 */
#define LONG  4096u
#define SHORT 256u

/* shift_X[k][b]: what byte b at position k of a crc becomes after X zero bytes. */
static uint32_t shift_long[4][256], shift_short[4][256];

static uint32_t times(const uint32_t *mat, uint32_t vec)
{
    uint32_t sum = 0;
    for (; vec; vec >>= 1, mat++)
        if (vec & 1)
            sum ^= *mat;
    return sum;
}

static void make_shift(uint32_t shift[4][256], size_t zeros)
{
    /* The operator for one zero byte, squared log2(zeros) times (zeros is a power of two). */
    uint32_t op[32], sq[32];
    for (int i = 0; i < 32; i++) {
        uint32_t c = 1u << i;
        for (int k = 0; k < 8; k++)
            c = c & 1 ? c >> 1 ^ POLY : c >> 1;
        op[i] = c;
    }
    for (; zeros > 1; zeros /= 2) {
        for (int i = 0; i < 32; i++)
            sq[i] = times(op, op[i]);
        memcpy(op, sq, sizeof op);
    }
    for (uint32_t b = 0; b < 256; b++)
        for (int k = 0; k < 4; k++)
            shift[k][b] = times(op, b << (8 * k));
}

static inline uint32_t shifted(uint32_t shift[4][256], uint32_t c)
{
    return shift[0][c & 255] ^ shift[1][c >> 8 & 255] ^ shift[2][c >> 16 & 255] ^ shift[3][c >> 24];
}

__attribute__((target("sse4.2"))) static uint64_t three(uint64_t crc, const uint8_t *p, size_t len,
                                                        uint32_t shift[4][256])
{
    uint64_t a = crc, b = 0, c = 0;
    for (size_t i = 0; i < len; i += 8) {
        a = _mm_crc32_u64(a, stk_le64(p + i));
        b = _mm_crc32_u64(b, stk_le64(p + len + i));
        c = _mm_crc32_u64(c, stk_le64(p + 2 * len + i));
    }
    b ^= shifted(shift, (uint32_t)a);
    return c ^ shifted(shift, (uint32_t)b);
}

__attribute__((target("sse4.2"))) static uint32_t crc_sse42(uint32_t crc32, const uint8_t *p,
                                                            size_t n)
{
    uint64_t crc = crc32;
    for (; n >= 3 * LONG; n -= 3 * LONG, p += 3 * LONG)
        crc = three(crc, p, LONG, shift_long);
    for (; n >= 3 * SHORT; n -= 3 * SHORT, p += 3 * SHORT)
        crc = three(crc, p, SHORT, shift_short);
    for (; n >= 8; n -= 8, p += 8)
        crc = _mm_crc32_u64(crc, stk_le64(p));
    for (; n; n--)
        crc = _mm_crc32_u8((uint32_t)crc, *p++);
    return (uint32_t)crc;
}
#endif

static uint32_t (*crc_best)(uint32_t, const uint8_t *, size_t) = crc_soft;

static void choose(void)
{
    make_table();
#if defined(__x86_64__)
    if (__builtin_cpu_supports("sse4.2")) {
        make_shift(shift_long, LONG);
        make_shift(shift_short, SHORT);
        crc_best = crc_sse42;
    }
#endif
}

uint32_t stk_crc32c(uint32_t crc, const void *p, size_t n)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, choose);
    return ~crc_best(~crc, p, n);
}
