/*
 * tierset.h - a source in memory (two small files, an empty one, a large one) and a tier in
 * scratch.
 */
#ifndef TIERSET_H
#define TIERSET_H

#include "base/hash.h"
#include "scratch.h"
#include "tier/tier.h"

#define BIG   (2 * (uint64_t)STK_TIER_PARCEL + 1000)
#define NFILE 4u

static uint8_t *tier_big;
static const char *const tier_name[NFILE] = {"a/one", "a/two", "big", "empty"};
static const uint64_t tier_size[NFILE] = {10, 3000, BIG, 0};

static inline const uint8_t *tier_bytes(uint64_t file, uint64_t parcel)
{
    return tier_big + file + parcel * STK_TIER_PARCEL;
}

static inline uint64_t tier_hash(uint64_t file)
{
    return stk_hash64(tier_bytes(file, 0), tier_size[file]);
}

static inline struct stk_tier_source tier_source(struct stk_tier_file file[NFILE])
{
    if (!tier_big) {
        tier_big = malloc(BIG + NFILE);
        for (uint64_t i = 0; tier_big && i < BIG + NFILE; i++)
            tier_big[i] = (uint8_t)(i * 2654435761u >> 11);
    }
    for (uint64_t i = 0; i < NFILE; i++)
        file[i] = (struct stk_tier_file){.name = tier_name[i],
                                         .size = tier_size[i],
                                         .mtime_ns = 1500000000123456789 + (int64_t)i,
                                         .hash = tier_hash(i),
                                         .hashed = true,
                                         .mode = 0640};
    return (struct stk_tier_source){
        .path = "/src/set", .name = "set", .identity = 0x1234, .file = file, .count = NFILE};
}

static inline struct stk_tier *tier_open(const char *path, uint64_t limit)
{
    struct stk_tier *t = NULL;
    struct stk_err err = {0};
    struct stk_tier_options o = {.make = true, .limit_bytes = limit};
    if (stk_tier_open(path, &o, &t, &err) < 0)
        fprintf(stderr, "%s: %s\n", err.path, err.what);
    return t;
}

static inline struct stk_tier_set *tier_set(struct stk_tier *t, uint64_t identity)
{
    struct stk_tier_file file[NFILE];
    struct stk_tier_source src = tier_source(file);
    struct stk_tier_set *s = NULL;
    struct stk_err err = {0};
    src.identity = identity;
    if (stk_tier_set_open(t, &src, &s, &err) < 0)
        fprintf(stderr, "%s: %s\n", err.path, err.what);
    return s;
}

/* Claims, puts and finishes one parcel. What put returns; -100: not ours. */
static inline int tier_put(struct stk_tier_set *s, uint64_t file, uint64_t parcel)
{
    size_t n = stk_tier_parcel_len(tier_size[file], parcel);
    const uint8_t *p = tier_bytes(file, parcel);
    if (stk_tier_claim(s, file, parcel) != STK_TIER_OURS)
        return -100;
    int rc = stk_tier_put(s, file, parcel, p, n, stk_tier_hash(p, n), NULL);
    stk_tier_drop(s, file, parcel);
    if (rc == 1)
        rc = stk_tier_finish_file(s, file, NULL, NULL);
    return rc;
}

/* All parcels that are missing; their number. */
static inline unsigned tier_fill(struct stk_tier_set *s)
{
    unsigned n = 0;
    for (uint64_t f = 0; f < NFILE; f++)
        for (uint64_t i = 0; i < stk_tier_parcels(tier_size[f]); i++)
            n += tier_put(s, f, i) == 0;
    return n;
}

#endif
