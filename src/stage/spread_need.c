/*
 * spread_need.c - which parcels a node needs, which node reads each, and how far it travels. All
 * nodes compute the same from the same numbers.
 */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "load/options.h"
#include "stage/order.h"
#include "stage/spread_priv.h"

/* ---- numbers ---- */

int stk_spread_map_init(struct spread_map *m, const struct stk_source *src, struct stk_err *err)
{
    *m = (struct spread_map){.src = src, .base = calloc(src->count + 1, sizeof *m->base)};
    if (!m->base)
        return stk_err_nomem(err, src->count * sizeof *m->base);
    for (uint64_t i = 0; i < src->count; i++) {
        m->base[i] = m->parcels;
        m->parcels += stk_tier_parcels(src->file[i].size);
    }
    m->base[src->count] = m->parcels;
    return 0;
}

void stk_spread_map_release(struct spread_map *m)
{
    free(m->base);
    *m = (struct spread_map){0};
}

uint64_t stk_spread_file_of(const struct spread_map *m, uint64_t parcel)
{
    uint64_t low = 0, high = m->src->count;
    while (high - low > 1) {
        uint64_t mid = low + (high - low) / 2;
        if (m->base[mid] <= parcel)
            low = mid;
        else
            high = mid;
    }
    return low;
}

size_t stk_spread_len(const struct spread_map *m, uint64_t file, uint64_t parcel)
{
    return stk_tier_parcel_len(m->src->file[file].size, parcel - m->base[file]);
}

/* ---- parts ---- */

struct parts {
    struct stk_part *part;
    size_t n;
};

static int add(struct parts *p, uint64_t file, uint64_t parcel, struct stk_err *err)
{
    struct stk_part *last = p->n ? &p->part[p->n - 1] : NULL;
    if (last && last->file == file && last->first + last->count == parcel) {
        last->count++;
        return 0;
    }
    if (STK_ARRAY_MORE(p->part, p->n, err))
        return STK_E_NOMEM;
    p->part[p->n++] = (struct stk_part){.file = file, .first = parcel, .count = 1};
    return 0;
}

/* Calls each() for the missing parcels, in order. */
static int for_missing(const struct spread_map *m, const uint64_t *missing,
                       int (*each)(void *user, uint64_t file, uint64_t parcel, struct stk_err *err),
                       void *user, struct stk_err *err)
{
    int rc = 0;
    uint64_t file = 0;
    for (uint64_t k = 0; k < m->parcels && !rc; k++) {
        if (k % 64 == 0 && !missing[k / 64]) {
            k += 63;
            continue;
        }
        if (!stk_bit(missing, k))
            continue;
        while (m->base[file + 1] <= k)
            file++;
        rc = each(user, file, k, err);
    }
    return rc;
}

/* ---- REPLICATE: contiguous runs of equal size ---- */

struct cutter {
    const struct spread_work *w;
    uint64_t *file_bytes; /* that are missing, by file */
    uint64_t total, done;
    uint32_t readers, mine; /* the place of this node among the readers */
    uint64_t from, to;      /* its share */
    struct parts parts;
};

/* An empty file is work, too. */
static uint64_t weight(const struct cutter *c, uint64_t file, uint64_t parcel)
{
    return stk_spread_len(c->w->map, file, parcel) + 1;
}

static int count_bytes(void *user, uint64_t file, uint64_t parcel, struct stk_err *err)
{
    struct cutter *c = user;
    (void)err;
    c->file_bytes[file] += weight(c, file, parcel);
    c->total += weight(c, file, parcel);
    return 0;
}

/* Where share k begins: at an equal part of the bytes, or at the border of files near it. A file
 * that one node reads is hashed while it is read, and nothing of it is read ahead in vain. */
static uint64_t cut_at(const struct cutter *c, uint32_t k)
{
    uint64_t even = (uint64_t)((unsigned __int128)c->total * k / c->readers);
    uint64_t near = c->total / c->readers / 16, start = 0, file = 0;
    near = near > STK_TIER_PARCEL / 2 ? near : STK_TIER_PARCEL / 2;
    while (file + 1 < c->w->map->src->count && start + c->file_bytes[file] <= even)
        start += c->file_bytes[file++];
    uint64_t end = start + c->file_bytes[file];
    if (even - start <= near && even - start <= end - even)
        return start;
    return end - even <= near ? end : even;
}

static int take_parcel(void *user, uint64_t file, uint64_t parcel, struct stk_err *err)
{
    struct cutter *c = user;
    uint64_t at = c->done;
    c->done += weight(c, file, parcel);
    return at >= c->from && at < c->to ? add(&c->parts, file, parcel - c->w->map->base[file], err)
                                       : 0;
}

static int cut_runs(const struct spread_work *w, struct parts *out, struct stk_err *err)
{
    struct cutter c = {.w = w};
    for (uint32_t i = 0; i < w->nodes; i++) {
        c.mine = i == w->node ? c.readers : c.mine;
        c.readers += w->readers[i];
    }
    if (!w->readers[w->node] || !w->map->src->count)
        return 0;
    c.file_bytes = calloc(w->map->src->count, sizeof *c.file_bytes);
    if (!c.file_bytes)
        return stk_err_nomem(err, w->map->src->count * sizeof *c.file_bytes);
    int rc = for_missing(w->map, w->missing, count_bytes, &c, err);
    c.from = c.mine ? cut_at(&c, c.mine) : 0;
    c.to = c.mine + 1 < c.readers ? cut_at(&c, c.mine + 1) : c.total;
    rc = rc ? rc : for_missing(w->map, w->missing, take_parcel, &c, err);
    free(c.file_bytes);
    *out = c.parts;
    return rc;
}

/* ---- SHARD: each parcel by a node that wants it ---- */

static bool wants(const struct spread_work *w, uint32_t node, uint64_t parcel)
{
    return stk_bit(w->wanted + node * stk_bits_words(w->map->parcels), parcel);
}

/* From the node after the widest gap between nodes that want a parcel, the way around the ring to
 * the last of them is shortest. Returns its length; *reader. */
static uint32_t after_gap(const struct spread_work *w, uint64_t parcel, uint32_t *reader)
{
    uint32_t first = UINT32_MAX, last = 0, widest = 0;
    for (uint32_t i = 0; i < w->nodes; i++) {
        if (!wants(w, i, parcel))
            continue;
        if (first == UINT32_MAX)
            first = i;
        else if (i - last > widest) {
            widest = i - last;
            *reader = i;
        }
        last = i;
    }
    if (first == UINT32_MAX)
        return UINT32_MAX;
    if (first + w->nodes - last >= widest) {
        widest = first + w->nodes - last;
        *reader = first;
    }
    return w->nodes - widest;
}

/* If the best one cannot read, the next one before it does: the way is that much longer. */
static uint32_t shortest_way(const struct spread_work *w, uint64_t parcel, uint32_t *reader)
{
    uint32_t best = 0, hops = after_gap(w, parcel, &best);
    if (hops == UINT32_MAX)
        return hops;
    for (uint32_t d = 0; d < w->nodes; d++) {
        *reader = (best + w->nodes - d) % w->nodes;
        if (w->readers[*reader])
            return hops + d < w->nodes ? hops + d : w->nodes - 1;
    }
    return UINT32_MAX;
}

uint32_t stk_spread_hops(const struct spread_work *w, uint64_t parcel)
{
    uint32_t reader;
    return w->wanted ? shortest_way(w, parcel, &reader) : w->nodes - 1;
}

struct chooser {
    const struct spread_work *w;
    struct parts parts;
};

static int choose(void *user, uint64_t file, uint64_t parcel, struct stk_err *err)
{
    struct chooser *c = user;
    uint32_t reader = 0;
    if (shortest_way(c->w, parcel, &reader) == UINT32_MAX || reader != c->w->node)
        return 0;
    return add(&c->parts, file, parcel - c->w->map->base[file], err);
}

int stk_spread_parts(const struct spread_work *w, struct stk_part **out, size_t *n,
                     struct stk_err *err)
{
    struct parts p = {0};
    int rc;
    if (w->wanted) {
        struct chooser c = {.w = w};
        rc = for_missing(w->map, w->missing, choose, &c, err);
        p = c.parts;
    } else {
        rc = cut_runs(w, &p, err);
    }
    *out = p.part;
    *n = p.n;
    return rc;
}

/* ---- what epochs ask for ---- */

int stk_spread_need(const struct spread_map *m, const struct stk_loader_options *plan,
                    const uint32_t *rank, uint32_t nranks, uint64_t *bits, struct stk_err *err)
{
    uint8_t *need = calloc(m->parcels + 1, 1);
    int rc = need ? 0 : stk_err_nomem(err, m->parcels);
    for (uint32_t i = 0; i < nranks && !rc; i++) {
        struct stk_loader_options o = *plan;
        o.rank = rank[i];
        rc = stk_stage_need(m->src, &o, need, err);
    }
    for (uint64_t k = 0; k < m->parcels && !rc; k++)
        if (need[k])
            stk_bit_set(bits, k);
    free(need);
    return rc;
}
