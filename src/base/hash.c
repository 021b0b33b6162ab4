/* hash.c - XXH64, seed 0, from its published specification. */
#include "base/hash.h"

#include <stdlib.h>
#include <string.h>
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

/* ---- elements by hash ------------------------------------------------------------------------ */

/* A table of element numbers by hash: open addressing, at most half full. */

#define LEAST 16u

struct stk_lookup_slot {
    uint32_t hash; /* enough bits to place the slot in a larger table: nslots < 2^33 */
    uint32_t item; /* from 1; 0: free */
};

static void place(struct stk_lookup_slot *slot, size_t nslots, struct stk_lookup_slot s)
{
    size_t at = s.hash & (nslots - 1);
    while (slot[at].item)
        at = (at + 1) & (nslots - 1);
    slot[at] = s;
}

static int grow(struct stk_lookup *t, struct stk_err *err)
{
    size_t n = t->nslots ? 2 * t->nslots : LEAST;
    struct stk_lookup_slot *slot = calloc(n, sizeof *slot);
    if (!slot)
        return stk_err_nomem(err, n * sizeof *slot);
    for (size_t i = 0; i < t->nslots; i++)
        if (t->slot[i].item)
            place(slot, n, t->slot[i]);
    free(t->slot);
    t->slot = slot;
    t->nslots = n;
    return 0;
}

int stk_lookup_add(struct stk_lookup *t, uint64_t hash, uint32_t item, struct stk_err *err)
{
    int rc = 2 * (t->n + 1) > t->nslots ? grow(t, err) : 0;
    if (rc)
        return rc;
    place(t->slot, t->nslots, (struct stk_lookup_slot){(uint32_t)hash, item + 1});
    t->n++;
    return 0;
}

bool stk_lookup_next(const struct stk_lookup *t, uint64_t hash, size_t *at, uint32_t *item)
{
    while (t->nslots) {
        const struct stk_lookup_slot *s = &t->slot[((uint32_t)hash + (*at)++) & (t->nslots - 1)];
        if (!s->item)
            break;
        *item = s->item - 1;
        if (s->hash == (uint32_t)hash)
            return true;
    }
    return false;
}

void stk_lookup_clear(struct stk_lookup *t)
{
    if (t->nslots)
        memset(t->slot, 0, t->nslots * sizeof *t->slot);
    t->n = 0;
}

void stk_lookup_release(struct stk_lookup *t)
{
    free(t->slot);
    *t = (struct stk_lookup){0};
}
