/*
 * rows.c - the inner loops over rows of pixels: weighted sums across and down, and moving channels.
 * 32-bit sums of 22-bit weights, as in Pillow, so that a resize gives Pillow's bytes; AVX2 if the
 * CPU has it.
 */
#include "image/rows.h"

#include <string.h>

#define HALF (1 << (STK_WEIGHT_BITS - 1))

static inline uint8_t to_byte(int32_t sum)
{
    int32_t v = sum >> STK_WEIGHT_BITS;
    return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

static void prepare_c(struct stk_weights *w)
{
    (void)w;
}

static void across_c(const uint8_t *row, const struct stk_weights *w, uint8_t *out)
{
    const int32_t *c = w->coef;
    for (uint32_t i = 0; i < w->out; i++, c += w->taps, out += 3) {
        const uint8_t *p = row + (size_t)w->start[i] * 4;
        int32_t r = HALF, g = HALF, b = HALF;
        for (uint32_t k = 0; k < w->count[i]; k++, p += 4) {
            r += p[0] * c[k];
            g += p[1] * c[k];
            b += p[2] * c[k];
        }
        out[0] = to_byte(r);
        out[1] = to_byte(g);
        out[2] = to_byte(b);
    }
}

void stk_row_across_gray(const uint8_t *row, const struct stk_weights *w, uint8_t *out)
{
    const int32_t *c = w->coef;
    for (uint32_t i = 0; i < w->out; i++, c += w->taps) {
        const uint8_t *p = row + w->start[i];
        int32_t sum = HALF;
        for (uint32_t k = 0; k < w->count[i]; k++)
            sum += p[k] * c[k];
        out[i] = to_byte(sum);
    }
}

static void down_c(const uint8_t *ring, size_t stride, const struct stk_weights *w, uint32_t i,
                   uint8_t *out, size_t n)
{
    enum { BLOCK = 64 };
    const int32_t *c = w->coef + (size_t)i * w->taps;
    for (size_t at = 0; at < n; at += BLOCK) {
        size_t m = n - at < BLOCK ? n - at : BLOCK;
        uint32_t slot = w->start[i] % w->taps;
        int32_t sum[BLOCK];
        for (size_t j = 0; j < m; j++)
            sum[j] = HALF;
        for (uint32_t k = 0; k < w->count[i]; k++) {
            const uint8_t *p = ring + slot * stride + at;
            for (size_t j = 0; j < m; j++)
                sum[j] += p[j] * c[k];
            slot = slot + 1 == w->taps ? 0 : slot + 1;
        }
        for (size_t j = 0; j < m; j++)
            out[at + j] = to_byte(sum[j]);
    }
}

static void pack_c(const uint8_t *rgbx, uint8_t *rgb, size_t pixels)
{
    for (size_t i = 0; i < pixels; i++, rgbx += 4, rgb += 3) {
        rgb[0] = rgbx[0];
        rgb[1] = rgbx[1];
        rgb[2] = rgbx[2];
    }
}

static void split_c(const uint8_t *rgb, uint8_t *out, size_t plane, size_t pixels)
{
    for (size_t c = 0; c < 3; c++)
        for (size_t i = 0; i < pixels; i++)
            out[c * plane + i] = rgb[3 * i + c];
}

void stk_row_luma(const uint8_t *rgbx, uint8_t *gray, size_t pixels)
{
    /* 0.299, 0.587, 0.114 in 16 bits (ITU-R 601-2). */
    for (size_t i = 0; i < pixels; i++, rgbx += 4)
        gray[i] =
            (uint8_t)((rgbx[0] * 19595u + rgbx[1] * 38470u + rgbx[2] * 7471u + 0x8000u) >> 16);
}

const struct stk_row_ops stk_row_ops_c = {prepare_c, across_c, down_c, pack_c, split_c};

#if defined(__x86_64__)
#include <immintrin.h>

#define AVX2 __attribute__((target("avx2")))

/* There is a fast product of 16-bit numbers that adds pairs, and a slow one of 32-bit numbers. So a
 * weight is split into high * 2^11 + low: the sums are the same to the bit. Four weights become two
 * registers, high and low parts; in each, lanes hold two source pixels, channels side by side. */
#define LOW_BITS 11

static void prepare_avx2(struct stk_weights *w)
{
    int16_t *out = w->split;
    size_t n = (size_t)(w->out + 3) / 4 * 4 * w->taps;
    for (const int32_t *c = w->coef; c < w->coef + n; c += 4, out += 32)
        for (int i = 0; i < 16; i++) {
            int32_t v = c[i / 8 * 2 + i % 2];
            out[i] = (int16_t)(v >> LOW_BITS);
            out[16 + i] = (int16_t)(v & ((1 << LOW_BITS) - 1));
        }
}

struct halves {
    __m256i high, low;
};

/* Adds 4 pixels, each times its weight. */
AVX2 static inline __attribute__((always_inline)) void
add_pixels(struct halves *sum, __m256i pixels, const int16_t *split)
{
    const __m256i *w = (const __m256i *)split;
    sum->high = _mm256_add_epi32(sum->high, _mm256_madd_epi16(pixels, _mm256_loadu_si256(w)));
    sum->low = _mm256_add_epi32(sum->low, _mm256_madd_epi16(pixels, _mm256_loadu_si256(w + 1)));
}

AVX2 static inline __attribute__((always_inline)) __m256i whole(struct halves sum)
{
    return _mm256_add_epi32(_mm256_slli_epi32(sum.high, LOW_BITS), sum.low);
}

/* One output: four of its pixels per step, two in each half; the halves remain to be added. */
AVX2 static inline __attribute__((always_inline)) __m256i
sum_four(const uint8_t *p, const int16_t *split, uint32_t taps)
{
    const __m256i order =
        _mm256_setr_epi8(0, -1, 4, -1, 1, -1, 5, -1, 2, -1, 6, -1, 3, -1, 7, -1, 8, -1, 12, -1, 9,
                         -1, 13, -1, 10, -1, 14, -1, 11, -1, 15, -1);
    struct halves sum = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    for (uint32_t k = 0; k < taps; k += 4) {
        __m256i v = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(p + 4 * k)));
        add_pixels(&sum, _mm256_shuffle_epi8(v, order), split + 8 * k);
    }
    return whole(sum);
}

/* Two outputs of two pixels each, one in either half. */
AVX2 static inline __attribute__((always_inline)) __m256i
sum_two(const uint8_t *p, const uint8_t *q, const int16_t *split)
{
    const __m256i order = _mm256_setr_epi8(0, -1, 4, -1, 1, -1, 5, -1, 2, -1, 6, -1, 3, -1, 7, -1,
                                           0, -1, 4, -1, 1, -1, 5, -1, 2, -1, 6, -1, 3, -1, 7, -1);
    struct halves sum = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    __m256i v = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadl_epi64((const __m128i *)p)),
                                        _mm_loadl_epi64((const __m128i *)q), 1);
    add_pixels(&sum, _mm256_shuffle_epi8(v, order), split);
    return whole(sum);
}

AVX2 static inline __attribute__((always_inline)) __m256i add_halves(__m256i a, __m256i b)
{
    return _mm256_add_epi32(_mm256_permute2x128_si256(a, b, 0x20),
                            _mm256_permute2x128_si256(a, b, 0x31));
}

/* Sums of four outputs, 0 and 1 in a, 2 and 3 in b, to 12 bytes (16 are written). */
AVX2 static inline __attribute__((always_inline)) void put_four(__m256i a, __m256i b, uint8_t *out)
{
    const __m128i drop_x = _mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1);
    const __m256i half = _mm256_set1_epi32(HALF);
    a = _mm256_srai_epi32(_mm256_add_epi32(a, half), STK_WEIGHT_BITS);
    b = _mm256_srai_epi32(_mm256_add_epi32(b, half), STK_WEIGHT_BITS);
    __m256i words = _mm256_packs_epi32(a, b);          /* 0 2 | 1 3 */
    __m256i bytes = _mm256_packus_epi16(words, words); /* 0 2 0 2 | 1 3 1 3 */
    __m128i four =
        _mm_unpacklo_epi32(_mm256_castsi256_si128(bytes), _mm256_extracti128_si256(bytes, 1));
    _mm_storeu_si128((__m128i *)out, _mm_shuffle_epi8(four, drop_x));
}

/* taps is a constant after inlining, which unrolls the inner loop. */
AVX2 static inline __attribute__((always_inline)) void
across_taps(const uint8_t *row, const struct stk_weights *w, uint32_t taps, uint8_t *out)
{
    const int16_t *s = w->split;
    for (uint32_t i = 0; i < w->out; i += 4, s += 32 * taps, out += 12) {
        const uint8_t *p[4];
        for (int j = 0; j < 4; j++)
            p[j] = row + (size_t)w->start[i + (uint32_t)j] * 4;
        if (taps == 2)
            put_four(sum_two(p[0], p[1], s), sum_two(p[2], p[3], s + 32), out);
        else
            put_four(add_halves(sum_four(p[0], s, taps), sum_four(p[1], s + 8 * taps, taps)),
                     add_halves(sum_four(p[2], s + 16 * taps, taps),
                                sum_four(p[3], s + 24 * taps, taps)),
                     out);
    }
}

AVX2 static void across_avx2(const uint8_t *row, const struct stk_weights *w, uint8_t *out)
{
    if (w->taps == 2)
        across_taps(row, w, 2, out);
    else if (w->taps == 4)
        across_taps(row, w, 4, out);
    else if (w->taps == 8)
        across_taps(row, w, 8, out);
    else
        across_taps(row, w, w->taps, out);
}

AVX2 static void down_avx2(const uint8_t *ring, size_t stride, const struct stk_weights *w,
                           uint32_t i, uint8_t *out, size_t n)
{
    const int32_t *c = w->coef + (size_t)i * w->taps;
    uint32_t first = w->start[i] % w->taps;
    for (size_t at = 0; at < n; at += 16) {
        __m256i low = _mm256_set1_epi32(HALF), high = low;
        uint32_t slot = first;
        for (uint32_t k = 0; k < w->count[i]; k++) {
            const __m128i *p = (const __m128i *)(ring + slot * stride + at);
            __m256i weight = _mm256_set1_epi32(c[k]);
            __m128i bytes = _mm_loadu_si128(p);
            __m256i a = _mm256_cvtepu8_epi32(bytes);
            __m256i b = _mm256_cvtepu8_epi32(_mm_srli_si128(bytes, 8));
            low = _mm256_add_epi32(low, _mm256_mullo_epi32(a, weight));
            high = _mm256_add_epi32(high, _mm256_mullo_epi32(b, weight));
            slot = slot + 1 == w->taps ? 0 : slot + 1;
        }
        __m256i words = _mm256_packs_epi32(_mm256_srai_epi32(low, STK_WEIGHT_BITS),
                                           _mm256_srai_epi32(high, STK_WEIGHT_BITS));
        words = _mm256_permute4x64_epi64(words, 0xd8); /* packs works in halves: 0 2 1 3 */
        _mm_storeu_si128(
            (__m128i *)(out + at),
            _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)));
    }
}

AVX2 static void pack_avx2(const uint8_t *rgbx, uint8_t *rgb, size_t pixels)
{
    const __m128i drop_x = _mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1);
    size_t i = 0;
    for (; i + 6 <= pixels; i += 4) { /* 16 bytes are written, 12 count */
        __m128i v = _mm_loadu_si128((const __m128i *)(rgbx + 4 * i));
        _mm_storeu_si128((__m128i *)(rgb + 3 * i), _mm_shuffle_epi8(v, drop_x));
    }
    pack_c(rgbx + 4 * i, rgb + 3 * i, pixels - i);
}

/* Gathers the bytes of one channel of 16 pixels from three registers of 16 bytes. */
AVX2 static inline __m128i channel(__m128i a, __m128i b, __m128i c, int first)
{
    const __m128i lane = _mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    /* Byte 3 * i + first of 48: in a up to 15, in b up to 31, else in c. */
    __m128i at =
        _mm_add_epi8(_mm_add_epi8(lane, _mm_add_epi8(lane, lane)), _mm_set1_epi8((char)first));
    __m128i in_a = _mm_cmpgt_epi8(_mm_set1_epi8(16), at);
    __m128i in_c = _mm_cmpgt_epi8(at, _mm_set1_epi8(31));
    __m128i bytes_a = _mm_and_si128(in_a, _mm_shuffle_epi8(a, at));
    __m128i bytes_b = _mm_andnot_si128(_mm_or_si128(in_a, in_c), _mm_shuffle_epi8(b, at));
    __m128i bytes_c = _mm_and_si128(in_c, _mm_shuffle_epi8(c, at));
    return _mm_or_si128(_mm_or_si128(bytes_a, bytes_b), bytes_c);
}

AVX2 static void split_avx2(const uint8_t *rgb, uint8_t *out, size_t plane, size_t pixels)
{
    size_t i = 0;
    for (; i + 16 <= pixels; i += 16) {
        __m128i a = _mm_loadu_si128((const __m128i *)(rgb + 3 * i));
        __m128i b = _mm_loadu_si128((const __m128i *)(rgb + 3 * i + 16));
        __m128i c = _mm_loadu_si128((const __m128i *)(rgb + 3 * i + 32));
        _mm_storeu_si128((__m128i *)(out + i), channel(a, b, c, 0));
        _mm_storeu_si128((__m128i *)(out + plane + i), channel(a, b, c, 1));
        _mm_storeu_si128((__m128i *)(out + 2 * plane + i), channel(a, b, c, 2));
    }
    for (size_t k = 0; k < 3; k++)
        for (size_t j = i; j < pixels; j++)
            out[k * plane + j] = rgb[3 * j + k];
}

static const struct stk_row_ops row_ops_avx2 = {prepare_avx2, across_avx2, down_avx2, pack_avx2,
                                                split_avx2};

const struct stk_row_ops *stk_row_ops(void)
{
    return __builtin_cpu_supports("avx2") ? &row_ops_avx2 : &stk_row_ops_c;
}

#else

const struct stk_row_ops *stk_row_ops(void)
{
    return &stk_row_ops_c;
}

#endif
