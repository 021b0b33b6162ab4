/* hash.c - XXH64, seed 0, from its published specification. */
#include "base/hash.h"
#include "base/buf.h"

#define P1 0x9E3779B185EBCA87ull
#define P2 0xC2B2AE3D27D4EB4Full
#define P3 0x165667B19E3779F9ull
#define P4 0x85EBCA77C2B2AE63ull
#define P5 0x27D4EB2F165667C5ull

static inline uint64_t rotl(uint64_t v, int n)
{
    return v << n | v >> (64 - n);
}

static inline uint64_t mix(uint64_t acc, uint64_t lane)
{
    return rotl(acc + lane * P2, 31) * P1;
}

static inline uint64_t merge(uint64_t h, uint64_t acc)
{
    return (h ^ mix(0, acc)) * P1 + P4;
}

void stk_hash_init(struct stk_hash *h)
{
    *h = (struct stk_hash){.acc = {P1 + P2, P2, 0, 0 - P1}};
}

static void stripes(struct stk_hash *h, const uint8_t *p, size_t n)
{
    uint64_t a = h->acc[0], b = h->acc[1], c = h->acc[2], d = h->acc[3];
    for (; n >= 32; n -= 32, p += 32) {
        a = mix(a, stk_le64(p));
        b = mix(b, stk_le64(p + 8));
        c = mix(c, stk_le64(p + 16));
        d = mix(d, stk_le64(p + 24));
    }
    h->acc[0] = a, h->acc[1] = b, h->acc[2] = c, h->acc[3] = d;
}

void stk_hash_update(struct stk_hash *h, const void *data, size_t n)
{
    const uint8_t *p = data;
    h->total += n;
    if (h->ntail) {
        size_t fill = 32 - h->ntail < n ? 32 - h->ntail : n;
        memcpy(h->tail + h->ntail, p, fill);
        h->ntail += fill;
        p += fill;
        n -= fill;
        if (h->ntail < 32)
            return;
        stripes(h, h->tail, 32);
        h->ntail = 0;
    }
    stripes(h, p, n);
    h->ntail = n % 32;
    if (h->ntail)
        memcpy(h->tail, p + n - h->ntail, h->ntail);
}

uint64_t stk_hash_final(const struct stk_hash *h)
{
    uint64_t v = P5;
    if (h->total >= 32) {
        const uint64_t *a = h->acc;
        v = rotl(a[0], 1) + rotl(a[1], 7) + rotl(a[2], 12) + rotl(a[3], 18);
        for (int i = 0; i < 4; i++)
            v = merge(v, a[i]);
    }
    v += h->total;
    const uint8_t *p = h->tail, *end = p + h->ntail;
    for (; end - p >= 8; p += 8)
        v = rotl(v ^ mix(0, stk_le64(p)), 27) * P1 + P4;
    for (; end - p >= 4; p += 4)
        v = rotl(v ^ stk_le32(p) * P1, 23) * P2 + P3;
    for (; p < end; p++)
        v = rotl(v ^ *p * P5, 11) * P1;
    v = (v ^ v >> 33) * P2;
    v = (v ^ v >> 29) * P3;
    return v ^ v >> 32;
}

uint64_t stk_hash64(const void *p, size_t n)
{
    struct stk_hash h;
    stk_hash_init(&h);
    stk_hash_update(&h, p, n);
    return stk_hash_final(&h);
}
