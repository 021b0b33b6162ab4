/*
 * tone.c - pixels of 8 bits to normalised floats. A pixel has 256 values, so each result is
 * computed once, in float32 and in the steps of torchvision: results are equal to the bit.
 */
#include "image/priv.h"

#include <string.h>

/* To the nearest float16, ties to even, as every framework rounds. */
static uint16_t to_half(float v)
{
    uint32_t bits, sign;
    memcpy(&bits, &v, sizeof bits);
    sign = bits >> 16 & 0x8000;
    bits &= 0x7fffffff;
    if (bits >= 0x47800000) /* 65536 and more, infinity */
        return (uint16_t)(sign | 0x7c00);
    if (bits < 0x38800000) { /* below 2^-14: a multiple of 2^-24 */
        float scaled, unit = 0x1p-1f;
        memcpy(&scaled, &bits, sizeof scaled);
        scaled += unit; /* the last bit of a float near 0.5 is 2^-24: the addition rounds */
        memcpy(&bits, &scaled, sizeof bits);
        return (uint16_t)(sign | (bits - 0x3f000000));
    }
    bits += 0xfff + (bits >> 13 & 1);
    return (uint16_t)(sign | (bits - 0x38000000) >> 13);
}

static bool same_tone(const struct stk_tone *a, const struct stk_tone *b)
{
    return a->dtype == b->dtype && memcmp(a->mean, b->mean, sizeof a->mean) == 0 &&
           memcmp(a->std, b->std, sizeof a->std) == 0;
}

static void make_tables(struct stk_tones *t, const struct stk_tone *tone)
{
    t->of = *tone;
    for (int c = 0; c < 3; c++)
        for (int i = 0; i < 256; i++) {
            float v = (float)i / 255.0f;
            v = (v - tone->mean[c]) / tone->std[c];
            if (tone->dtype == STK_F32)
                t->value.f32[c][i] = v;
            else
                t->value.f16[c][i] = to_half(v);
        }
}

/* Channel c of the image is every `step`th byte from `from` on. */
static void put_f32(const float *value, const uint8_t *from, float *to, size_t n, size_t step)
{
    for (size_t i = 0; i < n; i++)
        to[i * step] = value[from[i * step]];
}

static void put_f16(const uint16_t *value, const uint8_t *from, uint16_t *to, size_t n, size_t step)
{
    for (size_t i = 0; i < n; i++)
        to[i * step] = value[from[i * step]];
}

void stk_tone_put(struct stk_tones *t, const struct stk_image_op *op, const uint8_t *from, void *to,
                  size_t pixels)
{
    size_t step = op->nchw ? 1 : op->channels, next = op->nchw ? pixels : 1;
    if (!same_tone(&t->of, &op->tone))
        make_tables(t, &op->tone);
    for (size_t c = 0; c < op->channels; c++)
        if (op->tone.dtype == STK_F32)
            put_f32(t->value.f32[c], from + c * next, (float *)to + c * next, pixels, step);
        else
            put_f16(t->value.f16[c], from + c * next, (uint16_t *)to + c * next, pixels, step);
}
