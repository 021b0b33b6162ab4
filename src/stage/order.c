/*
 * order.c - which parcels of a source are copied, in which order, and by which node of several. The
 * plan of an epoch is walked, and each parcel noted when it is first needed. All nodes compute the
 * same from the same numbers.
 */
#include "stage/spread_priv.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "dataset/dataset.h"
#include "load/options.h"
#include "load/plan.h"

/* ---- numbers of parcels ---- */

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

size_t stk_spread_len(const struct spread_map *m, uint64_t file, uint64_t parcel)
{
    return stk_tier_parcel_len(m->src->file[file].size, parcel - m->base[file]);
}

struct parts {
    struct stk_part *part;
    size_t n;
};

static int add_part(struct parts *p, uint64_t file, uint64_t parcel, struct stk_err *err)
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

/* ---- what the samples need ---- */

struct walk {
    const struct spread_map *map;
    uint64_t *number; /* of each file of the dataset in the source's list; src->count: none */
    uint8_t *seen;    /* by parcel */
    struct parts parts;
    struct stk_buf slices;
};

static int see(struct walk *w, uint64_t file, uint64_t parcel, struct stk_err *err)
{
    uint8_t *seen = &w->seen[w->map->base[file] + parcel];
    if (*seen)
        return 0;
    *seen = 1;
    return add_part(&w->parts, file, parcel, err);
}

/* The parcels of a stored range. The index is not trusted: a range may lie outside of its file. */
static int see_extent(struct walk *w, const struct stk_extent *e, struct stk_err *err)
{
    uint64_t file =
        e->file < w->map->src->ds->files.count ? w->number[e->file] : w->map->src->count;
    if (file == w->map->src->count)
        return 0;
    uint64_t parcels = stk_tier_parcels(w->map->src->file[file].size);
    uint64_t first = e->offset / STK_TIER_PARCEL;
    uint64_t last = (e->offset + (e->length ? e->length - 1 : 0)) / STK_TIER_PARCEL;
    int rc = 0;
    for (uint64_t k = first; rc == 0 && k <= last && k < parcels; k++)
        rc = see(w, file, k, err);
    return rc;
}

static int see_sample(struct walk *w, uint64_t sample, struct stk_err *err)
{
    const struct stk_dataset *ds = w->map->src->ds;
    w->slices.len = 0;
    int rc = stk_index_slices(&ds->index, stk_dataset_at(ds, sample), &w->slices, err);
    const struct stk_slice *v = (const void *)w->slices.data;
    for (size_t i = 0; rc == 0 && i < w->slices.len / sizeof *v; i++) {
        struct stk_extent e;
        rc = stk_index_extent(&ds->index, v[i].extent, &e, err);
        rc = rc ? rc : see_extent(w, &e, err);
    }
    return rc;
}

static int see_rest(struct walk *w, struct stk_err *err)
{
    int rc = 0;
    for (uint64_t i = 0; rc == 0 && i < w->map->src->count; i++)
        for (uint64_t k = 0; rc == 0 && k < stk_tier_parcels(w->map->src->file[i].size); k++)
            rc = see(w, i, k, err);
    return rc;
}

/* ---- the epoch ---- */

static int walk_epoch(struct walk *w, const struct stk_stage_order *o, struct stk_err *err)
{
    struct stk_loader_options lo = o->loader;
    struct stk_order set, order;
    int rc = stk_loader_options_check(&lo, err);
    if (rc < 0)
        return rc;
    stk_order_of(w->map->src->ds, &lo, &set);
    stk_order_init(&order, set.n, set.shuffle, set.seed, lo.epoch, set.block, set.window);
    uint64_t ranks = o->ranks ? o->ranks : 1;
    uint64_t most = order.n / ranks + (order.n % ranks != 0);
    for (uint64_t k = 0; rc == 0 && k < most; k++)
        for (uint64_t r = 0; rc == 0 && r < ranks; r++) {
            uint64_t first = order.n / ranks * r + (r < order.n % ranks ? r : order.n % ranks);
            uint64_t size = order.n / ranks + (r < order.n % ranks);
            if (k < size)
                rc = see_sample(w, stk_order_at(&order, first + k), err);
        }
    return rc;
}

/* The dataset's files by number in the source's list. */
static int match_files(struct walk *w, struct stk_err *err)
{
    const struct stk_source *s = w->map->src;
    const struct stk_files *files = &s->ds->files;
    int rc = 0;
    w->number = calloc(files->count + 1, sizeof *w->number);
    if (!w->number)
        return stk_err_nomem(err, files->count * sizeof *w->number);
    for (uint64_t i = 0; rc == 0 && i < files->count; i++) {
        struct stk_files_entry e;
        rc = files->entry(files->list, i, &e, err);
        char *name = rc ? NULL : strndup(e.name, e.name_len);
        if (rc == 0 && !name)
            rc = stk_err_nomem(err, e.name_len);
        w->number[i] = name ? stk_source_find(s, s->is_dir ? name : "") : 0;
        free(name);
    }
    return rc;
}

static int begin_walk(struct walk *w, const struct spread_map *map, struct stk_err *err)
{
    *w = (struct walk){.map = map, .seen = calloc(map->parcels + 1, 1)};
    return w->seen ? match_files(w, err) : stk_err_nomem(err, map->parcels);
}

static void end_walk(struct walk *w)
{
    free(w->number);
    free(w->seen);
    stk_buf_release(&w->slices);
}

int stk_stage_parts(const struct stk_source *src, const struct stk_stage_order *o,
                    struct stk_part **out, size_t *n, struct stk_err *err)
{
    struct spread_map map;
    struct walk w = {0};
    if (!src->ds || !o)
        return stk_copy_all(src, out, n, err);
    int rc = stk_spread_map_init(&map, src, err);
    rc = rc ? rc : begin_walk(&w, &map, err);
    rc = rc ? rc : walk_epoch(&w, o, err);
    rc = rc ? rc : see_rest(&w, err);
    end_walk(&w);
    stk_spread_map_release(&map);
    *out = rc ? NULL : w.parts.part;
    *n = rc ? 0 : w.parts.n;
    if (rc)
        free(w.parts.part);
    return rc;
}

/* ---- what ranks need ---- */

static int walk_rank(struct walk *w, const struct stk_loader_options *o, uint64_t epoch,
                     struct stk_err *err)
{
    struct stk_order set, order;
    struct stk_plan plan;
    bool repeat;
    stk_order_of(w->map->src->ds, o, &set);
    stk_order_init(&order, set.n, set.shuffle, set.seed, epoch, set.block, set.window);
    int rc = stk_plan_init(&plan, &order, NULL, 0, o->rank, o->world, o->batch, o->last, err);
    if (rc < 0)
        return rc;
    for (uint64_t s = 0; rc == 0 && s < plan.slots; s++)
        rc = see_sample(w, stk_plan_sample(&plan, s, &repeat), err);
    stk_plan_release(&plan);
    return rc;
}

/* Manifest, index and labels: every loader opens them. */
static void add_side_files(struct walk *w)
{
    uint64_t n = w->map->src->ds->files.count;
    uint8_t *listed = calloc(w->map->src->count + 1, 1);
    for (uint64_t i = 0; listed && i < n; i++)
        listed[w->number[i]] = 1;
    for (uint64_t i = 0; i < w->map->src->count; i++)
        if (!listed || !listed[i])
            memset(w->seen + w->map->base[i], 1, stk_tier_parcels(w->map->src->file[i].size));
    free(listed);
}

int stk_spread_need(const struct spread_map *m, const struct stk_loader_options *plan,
                    const uint32_t *rank, uint32_t nranks, uint64_t *bits, struct stk_err *err)
{
    struct walk w = {0};
    struct stk_loader_options o = *plan;
    if (!m->src->ds)
        return stk_err_set(err, STK_E_UNSUPPORTED, m->src->path, -1,
                           "is not a dataset: no plan says which part a rank needs");
    int rc = stk_loader_options_check(&o, err);
    rc = rc ? rc : begin_walk(&w, m, err);
    /* As stored, every epoch is the same. */
    uint64_t epochs = o.epochs && o.shuffle != STK_SHUFFLE_NONE ? o.epochs : 1;
    for (uint32_t i = 0; i < nranks && !rc; i++)
        for (uint64_t e = 0; e < epochs && !rc; e++) {
            o.rank = rank[i];
            rc = walk_rank(&w, &o, o.epoch + e, err);
        }
    if (!rc && nranks)
        add_side_files(&w);
    for (uint64_t k = 0; k < m->parcels && !rc; k++)
        if (w.seen[k])
            stk_bit_set(bits, k);
    end_walk(&w);
    free(w.parts.part);
    return rc;
}

/* ---- which node reads which of them ---- */

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
    return at >= c->from && at < c->to
               ? add_part(&c->parts, file, parcel - c->w->map->base[file], err)
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
    return add_part(&c->parts, file, parcel - c->w->map->base[file], err);
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
