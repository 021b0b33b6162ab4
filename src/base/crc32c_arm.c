/*
 * crc32c_arm.c - CRC-32C on 64-bit ARM: the crc32c instructions, and with them folding (see
 * crc32c_fold.h) by PMULL. In assembly, because compilers differ in how to compile a function for
 * more than the base architecture.
 */
#include "base/crc32c_priv.h"

#if defined(__aarch64__) && defined(__linux__)
#include "base/buf.h"

#include <arm_neon.h>
#include <sys/auxv.h>

#define HAS_PMULL (1ul << 4) /* HWCAP_PMULL, HWCAP_CRC32 of <asm/hwcap.h> */
#define HAS_CRC32 (1ul << 7)

#define STEP(instruction, width, crc, value)                                                       \
    __asm__(".arch_extension crc\n\t" instruction " %w0, %w0, %" width "1" : "+r"(crc) : "r"(value))

struct pair {
    uint64_t low, high;
};

static struct pair gather[4]; /* moves each register to the position of the last */

/* The product of two reflected registers comes out one bit low, that is, times x: hence - 1. */
static struct pair bits_on(uint64_t bits)
{
    return (struct pair){(uint64_t)stk_crc32c_power(STK_CRC32C_ORDER + bits + 64 - 1) << 32,
                         (uint64_t)stk_crc32c_power(STK_CRC32C_ORDER + bits - 1) << 32};
}

static inline uint64_t step(uint64_t crc, const uint8_t *p)
{
    STEP("crc32cx", "x", crc, stk_le64(p));
    return crc;
}

static inline uint32_t chain(uint32_t crc, const uint8_t *p, size_t n)
{
    for (; n >= 8; n -= 8, p += 8)
        STEP("crc32cx", "x", crc, stk_le64(p));
    for (; n; n--, p++)
        STEP("crc32cb", "w", crc, (uint32_t)*p);
    return crc;
}

static uint32_t crc0(uint32_t crc, const uint8_t *p, size_t n)
{
    return chain(crc, p, n);
}

static inline uint64x2_t zero1(void)
{
    return vdupq_n_u64(0);
}

static inline uint64x2_t load1(const uint8_t *p)
{
    return vreinterpretq_u64_u8(vld1q_u8(p));
}

static inline uint64x2_t start1(uint32_t crc, const uint8_t *p)
{
    return veorq_u64(load1(p), vsetq_lane_u64(crc, zero1(), 0));
}

static inline uint64x2_t fold1(uint64x2_t a, uint64x2_t k, uint64x2_t b)
{
    uint64x2_t low, high;
    __asm__(".arch_extension aes\n\tpmull %0.1q, %1.1d, %2.1d" : "=w"(low) : "w"(a), "w"(k));
    __asm__(".arch_extension aes\n\tpmull2 %0.1q, %1.2d, %2.2d" : "=w"(high) : "w"(a), "w"(k));
    return veorq_u64(veorq_u64(low, b), high);
}

static inline uint32_t sum1(uint64x2_t a0, uint64x2_t a1, uint64x2_t a2, uint64x2_t a3)
{
    const uint8_t *k = (const uint8_t *)gather;
    a3 = fold1(a1, load1(k + 16), fold1(a2, load1(k + 32), a3));
    uint8_t all[16];
    vst1q_u8(all, vreinterpretq_u8_u64(fold1(a0, load1(k), a3)));
    return chain(0, all, sizeof all);
}

#define NAME(x) x##1
#define VEC     uint64x2_t
#define TARGET
#define WIDTH 16u
#define FROM  256u
#include "base/crc32c_fold.h"

size_t stk_crc32c_native(struct stk_crc32c_way *ways)
{
    unsigned long has = getauxval(AT_HWCAP);
    if (__BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__ || !(has & HAS_CRC32))
        return 0;
    ways[0] = (struct stk_crc32c_way){"crc32c", crc0};
    if (!(has & HAS_PMULL))
        return 1;
    for (size_t i = 0; i < 4; i++)
        gather[i] = bits_on((3 - i) * 128);
    make1();
    ways[1] = (struct stk_crc32c_way){"pmull", crc1};
    return 2;
}
#endif
