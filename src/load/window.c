/*
 * window.c - the number of samples in a block and a window: from the settings, which count bytes,
 * and the dataset alone, so that the order is the same on every machine. Also warns if that mixes
 * classes too little.
 */
#include "dataset/label.h"
#include "load/priv.h"

#include <stdio.h>

#define BLOCK_MOST  1024       /* samples: tiny ones cost planning, not reading */
#define WINDOW_MOST (1u << 17) /* the same; more than any batch needs for mixing */
/* Blocks of a window, one from each 128th of the data: of ten classes stored one after the other,
 * each has 12.8 of them, and none less than 11. With half as many it is 6.4, not less than 4. */
#define BLOCKS_GOOD   128
#define BLOCKS_LEAST  64
#define TOGETHER_MOST 4 /* samples of a compressed block that may be decoded for one of them */

static uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t clamp(uint64_t v, uint64_t lo, uint64_t hi)
{
    return v < lo ? lo : v > hi ? hi : v;
}

/* True if sample s has a slice of extent x. */
static bool has_extent(const struct stk_dataset *ds, uint64_t s, uint64_t x, struct stk_buf *slices)
{
    slices->len = 0;
    if (stk_index_slices(&ds->index, stk_dataset_at(ds, s), slices, NULL) != 0)
        return false;
    const struct stk_slice *v = (const void *)slices->data;
    for (size_t i = 0; i < slices->len / sizeof *v; i++)
        if (v[i].extent == x)
            return true;
    return false;
}

/* The first extent of sample s that must be decoded whole. */
static bool packed_extent(const struct stk_dataset *ds, uint64_t s, uint64_t *x,
                          struct stk_buf *slices)
{
    struct stk_extent e;
    slices->len = 0;
    if (stk_index_slices(&ds->index, stk_dataset_at(ds, s), slices, NULL) != 0)
        return false;
    const struct stk_slice *v = (const void *)slices->data;
    for (size_t i = 0; i < slices->len / sizeof *v; i++) {
        *x = v[i].extent;
        if (stk_index_extent(&ds->index, *x, &e, NULL) == 0 && e.chain)
            return true;
    }
    return false;
}

/* The number of samples in one compressed chunk, as in the middle of the data: with smaller blocks,
 * each chunk is decoded several times. */
static uint64_t packed_together(const struct stk_dataset *ds)
{
    struct stk_buf slices = STK_BUF_INIT;
    uint64_t n = stk_dataset_len(ds), mid = n / 2, x, below = 0, above = 0;
    if (n && packed_extent(ds, mid, &x, &slices)) {
        while (below < min_u64(mid, BLOCK_MOST) && has_extent(ds, mid - below - 1, x, &slices))
            below++;
        while (above < min_u64(n - mid - 1, BLOCK_MOST) &&
               has_extent(ds, mid + above + 1, x, &slices))
            above++;
    }
    stk_buf_release(&slices);
    return below + 1 + above;
}

void stk_order_of(const struct stk_dataset *ds, const struct stk_loader_options *o,
                  struct stk_order *out)
{
    uint64_t n = stk_dataset_len(ds), mean = stk_dataset_mean_bytes(ds);
    mean = mean ? mean : 1;
    uint64_t window = clamp(o->window_bytes / mean, 1, WINDOW_MOST);
    uint64_t windows = n / window + (n % window != 0);
    uint64_t share = windows ? n / windows : 0; /* samples a window has */
    uint64_t block = clamp(o->block_bytes / mean, 1, BLOCK_MOST);
    uint64_t good = clamp(share / BLOCKS_GOOD, 1, block);
    if (good < block && o->shuffle == STK_SHUFFLE_BLOCK)
        block = clamp(packed_together(ds), good, clamp(share / BLOCKS_LEAST, good, block));
    *out = (struct stk_order){.n = n,
                              .shuffle = o->shuffle,
                              .seed = o->seed,
                              .block = block,
                              .window = clamp(window / block, 1, n)};
}

void stk_loader_set_order(struct stk_loader *ld)
{
    stk_order_of(ld->ds, &ld->o, &ld->order);
}

/* The extents that sample s shares with others. */
static void packed_of_sample(const struct stk_loader *ld, uint64_t s, struct packed *p)
{
    const struct stk_index *idx = &ld->ds->index;
    struct stk_buf slices = STK_BUF_INIT;
    struct stk_extent e;
    uint64_t last = UINT64_MAX;
    int rc = stk_index_slices(idx, stk_dataset_at(ld->ds, s), &slices, NULL);
    const struct stk_slice *v = (const void *)slices.data;
    *p = (struct packed){.nslices = slices.len / sizeof *v};
    for (size_t i = 0; rc == 0 && i < p->nslices; last = v[i++].extent) {
        if (!v[i].length || v[i].length == UINT64_MAX || v[i].extent == last ||
            stk_index_extent(idx, v[i].extent, &e, NULL) != 0 || !e.chain)
            continue;
        uint64_t bytes = stk_stretch_decoded(ld, v[i].extent, (uint8_t)e.chain, e.length);
        p->bytes += bytes;
        if (bytes > p->largest) {
            p->largest = bytes;
            p->takes =
                stk_stretch_takes(ld, (uint8_t)e.chain, bytes) + stk_io_room((size_t)e.length);
        }
        p->nextents++;
    }
    stk_buf_release(&slices);
}

void stk_loader_packed(const struct stk_loader *ld, struct packed *p)
{
    const struct stk_order *o = &ld->order;
    uint64_t all = stk_dataset_share(ld->ds, ld->ds->index.h->bytes_samples);
    *p = (struct packed){0};
    if (o->n)
        packed_of_sample(ld, o->n / 2, p);
    if (!p->bytes || o->shuffle == STK_SHUFFLE_NONE)
        return;
    /* Blocks begin and end anywhere in an extent. */
    uint64_t one = p->bytes, block = o->block * stk_dataset_mean_bytes(ld->ds) + one;
    p->bytes = o->shuffle == STK_SHUFFLE_BLOCK ? min_u64(o->window * block, all) : all;
    p->nextents *= p->bytes / one + (p->bytes % one != 0);
}

/* ---- warnings ---- */

static int64_t label_by_key(void *user, uint64_t i)
{
    const struct stk_loader *ld = user;
    const char *key;
    size_t len;
    int64_t label = -1;
    bool known = stk_index_key(&ld->ds->index, stk_dataset_at(ld->ds, i), &key, &len, NULL) == 0 &&
                 stk_labels_of(ld->labels, key, len, &label, NULL) == 1;
    return known ? label : -1;
}

/* If the manifest says that classes are stored one after the other: the approximate class. */
static int64_t label_by_place(void *user, uint64_t i)
{
    const struct stk_loader *ld = user;
    uint64_t at = stk_dataset_at(ld->ds, i), n = ld->ds->index.h->nsamples;
    return (int64_t)((unsigned __int128)at * ld->ds->manifest.nclasses / n);
}

/* Chunks that samples share, in random order: each is decoded repeatedly, unless all can be
 * kept. */
static void warn_of_decoding(struct stk_loader *ld, const struct stk_order *o)
{
    const struct stk_index *idx = &ld->ds->index;
    uint64_t bytes = stk_dataset_share(ld->ds, idx->h->bytes_samples),
             kept = ld->o.memory_bytes / STK_KEPT_SHARE;
    bool shared = o->shuffle == STK_SHUFFLE_GLOBAL && bytes > kept &&
                  stk_index_count(idx, STK_T_CHAINS) > 0 && packed_together(ld->ds) > TOGETHER_MOST;
    if (shared)
        snprintf(ld->warning, sizeof ld->warning,
                 "samples are compressed together, and a global shuffle decodes the blocks they "
                 "are in again and again: %llu MB of them, %llu MB of which can be kept. Give it "
                 "more memory (--memory, memory=), shuffle by blocks (--shuffle block, "
                 "shuffle=\"block\"), or make them samples of their own with stoker pack",
                 (unsigned long long)(bytes / 1000000), (unsigned long long)(kept / 1000000));
}

void stk_loader_warn_extent(struct stk_loader *ld, const struct packed *p)
{
    if (p->takes > ld->o.memory_bytes / 4 * 3 && !*ld->warning)
        snprintf(ld->warning, sizeof ld->warning,
                 "a compressed chunk takes %llu MB to read and to decode: the loader may exceed "
                 "the memory budget of %llu MB. Give it more memory (--memory, memory=), or store "
                 "the data in smaller chunks with stoker pack",
                 (unsigned long long)(p->takes / 1000000),
                 (unsigned long long)(ld->o.memory_bytes / 1000000));
}

uint64_t stk_loader_index_share(const struct stk_loader *ld)
{
    uint64_t size = ld->ds->index.size;
    uint64_t most = ld->o.memory_bytes / (ld->order.shuffle == STK_SHUFFLE_GLOBAL ? 2 : 4);
    return size < most ? size : most;
}

/* A global shuffle uses the whole index all the time. */
static void warn_of_index(struct stk_loader *ld, const struct stk_order *o)
{
    uint64_t size = ld->ds->index.size;
    if (o->shuffle == STK_SHUFFLE_GLOBAL && size > stk_loader_index_share(ld))
        snprintf(ld->warning, sizeof ld->warning,
                 "the index of these %llu samples takes %llu MB, and a global shuffle looks at all "
                 "of it: with less than twice as much memory, parts of it are read again and "
                 "again. Give it %llu MB (--memory, memory=), or shuffle by blocks (--shuffle "
                 "block, shuffle=\"block\")",
                 (unsigned long long)ld->order.n, (unsigned long long)(size / 1000000 + 1),
                 (unsigned long long)(2 * size / 1000000 + 1));
}

void stk_loader_warn(struct stk_loader *ld, const struct stk_order *o)
{
    const struct stk_dataset *ds = ld->ds;
    struct stk_glance g;
    bool poor = false;
    /* Reads no sample, and for a packed dataset not even the keys. */
    if (ds->has_manifest)
        poor = ds->manifest.class_by_class &&
               stk_mixing_poor(o, ds->manifest.nclasses, label_by_place, ld, &g);
    else if (ld->labels)
        poor = stk_mixing_poor(o, ld->labels->nclasses, label_by_key, ld, &g);
    if (poor)
        snprintf(ld->warning, sizeof ld->warning,
                 "samples of a class stand together, and the window is too small to mix them: %llu "
                 "samples in a row have %llu classes, those of a random order %llu. Mix them with "
                 "a larger window (--window, window=), with a global shuffle (--shuffle global, "
                 "shuffle=\"global\"), or for good with stoker pack --shuffle SEED",
                 (unsigned long long)g.samples, (unsigned long long)g.classes,
                 (unsigned long long)g.of_random);
    else
        warn_of_decoding(ld, o);
    if (!*ld->warning)
        warn_of_index(ld, o);
}
