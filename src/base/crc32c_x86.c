/*
 * crc32c_x86.c - CRC-32C on x86-64: the crc32 instruction (SSE4.2), and with it folding (see
 * crc32c_fold.h) in registers of 128 bits (PCLMULQDQ: nearly all CPUs since 2010), 256 and 512 bits
 * (VPCLMULQDQ: Ice Lake and Zen 3 on). Each function is compiled for the CPUs that run it.
 */
#include "base/crc32c_priv.h"

#if defined(__x86_64__)
#include "base/buf.h"

#include <immintrin.h>

#define TARGET0 __attribute__((target("sse4.2")))
#define TARGET1 __attribute__((target("sse4.2,pclmul")))
#define TARGET2 __attribute__((target("sse4.2,pclmul,avx2,vpclmulqdq")))
#define TARGET4 __attribute__((target("sse4.2,pclmul,avx2,vpclmulqdq,avx512f,avx512vl")))

#define LANES 16 /* of 128 bits in four of the widest registers */

/* Factors that move the two halves of a lane forward by some bits. */
struct pair {
    uint64_t low, high;
};

/* Moves each lane to the position of the last; narrower registers use the end of the array. */
static _Alignas(64) struct pair gather[LANES];

/* The product of two reflected registers comes out one bit low, that is, times x: hence - 1. */
static struct pair bits_on(uint64_t bits)
{
    return (struct pair){(uint64_t)stk_crc32c_power(STK_CRC32C_ORDER + bits + 64 - 1) << 32,
                         (uint64_t)stk_crc32c_power(STK_CRC32C_ORDER + bits - 1) << 32};
}

/* ---- the instruction ---- */

TARGET0 static inline uint64_t step(uint64_t crc, const uint8_t *p)
{
    return _mm_crc32_u64(crc, stk_le64(p));
}

TARGET0 static inline uint32_t chain(uint32_t crc, const uint8_t *p, size_t n)
{
    uint64_t c = crc;
    for (; n >= 8; n -= 8, p += 8)
        c = step(c, p);
    crc = (uint32_t)c;
    if (n & 4) {
        crc = _mm_crc32_u32(crc, stk_le32(p));
        p += 4;
    }
    if (n & 2) {
        crc = _mm_crc32_u16(crc, stk_le16(p));
        p += 2;
    }
    return n & 1 ? _mm_crc32_u8(crc, *p) : crc;
}

TARGET0 static uint32_t crc0(uint32_t crc, const uint8_t *p, size_t n)
{
    return chain(crc, p, n);
}

TARGET0 static inline uint32_t reduce(__m128i lane)
{
    uint64_t c = _mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(lane));
    return (uint32_t)_mm_crc32_u64(c, (uint64_t)_mm_extract_epi64(lane, 1));
}

/* ---- 128 bits ---- */

TARGET1 static inline __m128i zero1(void)
{
    return _mm_setzero_si128();
}

TARGET1 static inline __m128i load1(const uint8_t *p)
{
    return _mm_loadu_si128((const __m128i *)p);
}

TARGET1 static inline __m128i start1(uint32_t crc, const uint8_t *p)
{
    return _mm_xor_si128(load1(p), _mm_cvtsi32_si128((int)crc));
}

TARGET1 static inline __m128i fold1(__m128i a, __m128i k, __m128i b)
{
    return _mm_xor_si128(_mm_xor_si128(_mm_clmulepi64_si128(a, k, 0x00), b),
                         _mm_clmulepi64_si128(a, k, 0x11));
}

TARGET1 static inline uint32_t sum1(__m128i a0, __m128i a1, __m128i a2, __m128i a3)
{
    const __m128i *k = (const __m128i *)(gather + LANES - 4);
    return reduce(fold1(a0, k[0], fold1(a1, k[1], fold1(a2, k[2], a3))));
}

#define NAME(x) x##1
#define VEC     __m128i
#define TARGET  TARGET1
#define WIDTH   16u
#define FROM    256u
#include "base/crc32c_fold.h"

/* ---- 256 bits ---- */

TARGET2 static inline __m256i zero2(void)
{
    return _mm256_setzero_si256();
}

TARGET2 static inline __m256i load2(const uint8_t *p)
{
    return _mm256_loadu_si256((const __m256i *)p);
}

TARGET2 static inline __m256i start2(uint32_t crc, const uint8_t *p)
{
    return _mm256_xor_si256(load2(p), _mm256_zextsi128_si256(_mm_cvtsi32_si128((int)crc)));
}

TARGET2 static inline __m256i fold2(__m256i a, __m256i k, __m256i b)
{
    return _mm256_xor_si256(_mm256_xor_si256(_mm256_clmulepi64_epi128(a, k, 0x00), b),
                            _mm256_clmulepi64_epi128(a, k, 0x11));
}

TARGET2 static inline uint32_t sum2(__m256i a0, __m256i a1, __m256i a2, __m256i a3)
{
    const __m256i *k = (const __m256i *)(gather + LANES - 8);
    __m256i s = fold2(a2, k[2], fold2(a3, k[3], zero2()));
    s = fold2(a0, k[0], fold2(a1, k[1], s));
    return reduce(_mm_xor_si128(_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1)));
}

#define NAME(x) x##2
#define VEC     __m256i
#define TARGET  TARGET2
#define WIDTH   32u
#define FROM    256u
#include "base/crc32c_fold.h"

/* ---- 512 bits ---- */

TARGET4 static inline __m512i zero4(void)
{
    return _mm512_setzero_si512();
}

TARGET4 static inline __m512i load4(const uint8_t *p)
{
    return _mm512_loadu_si512(p);
}

TARGET4 static inline __m512i start4(uint32_t crc, const uint8_t *p)
{
    return _mm512_xor_si512(load4(p), _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)crc)));
}

TARGET4 static inline __m512i fold4(__m512i a, __m512i k, __m512i b)
{
    return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(a, k, 0x00),
                                     _mm512_clmulepi64_epi128(a, k, 0x11), b, 0x96 /* a^b^c */);
}

TARGET4 static inline uint32_t sum4(__m512i a0, __m512i a1, __m512i a2, __m512i a3)
{
    const __m512i *k = (const __m512i *)gather;
    __m512i s = fold4(a2, k[2], fold4(a3, k[3], zero4()));
    s = fold4(a0, k[0], fold4(a1, k[1], s));
    __m256i h = _mm256_xor_si256(_mm512_castsi512_si256(s), _mm512_extracti64x4_epi64(s, 1));
    return reduce(_mm_xor_si128(_mm256_castsi256_si128(h), _mm256_extracti128_si256(h, 1)));
}

#define NAME(x) x##4
#define VEC     __m512i
#define TARGET  TARGET4
#define WIDTH   64u
#define FROM    128u
#include "base/crc32c_fold.h"

/* __builtin_cpu_supports() also checks that the system saves these registers. */
size_t stk_crc32c_native(struct stk_crc32c_way *ways)
{
    size_t n = 0;
    if (!__builtin_cpu_supports("sse4.2"))
        return 0;
    ways[n++] = (struct stk_crc32c_way){"sse4.2", crc0};
    if (!__builtin_cpu_supports("pclmul"))
        return n;
    for (size_t i = 0; i < LANES; i++)
        gather[i] = bits_on((LANES - 1 - i) * 128);
    make1();
    ways[n++] = (struct stk_crc32c_way){"pclmulqdq", crc1};
    if (!__builtin_cpu_supports("vpclmulqdq") || !__builtin_cpu_supports("avx2"))
        return n;
    make2();
    ways[n++] = (struct stk_crc32c_way){"vpclmulqdq-256", crc2};
    if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512vl"))
        return n;
    make4();
    ways[n++] = (struct stk_crc32c_way){"vpclmulqdq-512", crc4};
    return n;
}
#endif
