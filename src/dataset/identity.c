/*
 * identity.c - the number that identifies a dataset by its content, independent of its path and
 * times: for resume states, indexes and tiers.
 *
 * For a packed dataset it comes from the manifest: names, sizes and checksums of the shards. For
 * any other it comes from names, sizes, and some bytes of some files, a bounded number, so that it
 * is fast for millions of files. It can miss a change in the middle of a large file, which the size
 * and time in the index reveal.
 */
#include "base/file.h"
#include "base/hash.h"
#include "dataset/dataset.h"

#define SIZES_MAX                                                                                  \
    4096u             /* up to this many files all sizes count; beyond, only those of sampled      \
                       * files */
#define SAMPLED 16u   /* files whose bytes are read */
#define BLOCK   4096u /* bytes at the beginning, in the middle and at the end */

static void add_u64(struct stk_hash *h, uint64_t v)
{
    stk_hash_update(h, &v, sizeof v);
}

static void add_block(struct stk_hash *h, int fd, uint64_t off, uint64_t n)
{
    uint8_t p[BLOCK];
    size_t got = 0;
    if (stk_pread_full(fd, p, (size_t)n, off, &got, NULL, NULL) < 0)
        got = 0;
    add_u64(h, got);
    stk_hash_update(h, p, got);
}

/* An unreadable file adds nothing: a damaged dataset has an identity, too. */
static void add_bytes(struct stk_hash *h, const struct stk_files *files, uint64_t number)
{
    struct stk_file f;
    if (stk_file_open(files, number, STK_FILE_PLAIN, &f, NULL) < 0)
        return;
    uint64_t n = f.size < BLOCK ? f.size : BLOCK;
    add_block(h, f.fd, 0, n);
    add_block(h, f.fd, (f.size - n) / 2, n);
    add_block(h, f.fd, f.size - n, n);
    stk_file_close(&f);
}

/* Without times, which copying changes. */
static uint64_t of_files(const struct stk_dataset *ds)
{
    const struct stk_files *files = &ds->files;
    uint64_t n = files->count, sampled = n < SAMPLED ? n : SAMPLED;
    uint64_t sizes = n <= SIZES_MAX ? n : sampled;
    struct stk_hash h;
    stk_hash_init(&h);
    add_u64(&h, n);
    add_u64(&h, files->bytes);
    add_u64(&h, ds->index.h->table[STK_T_NAMES].hash);
    for (uint64_t i = 0; i < sizes; i++) {
        struct stk_files_entry e = {0};
        (void)files->entry(files->list, n * i / sizes, &e, NULL);
        add_u64(&h, e.size);
    }
    for (uint64_t i = 0; i < sampled; i++)
        add_bytes(&h, files, n * i / sampled);
    return stk_hash_final(&h);
}

/* All samples in their order are the dataset, however they were picked. */
static uint64_t of_subset(struct stk_dataset *ds)
{
    uint64_t whole = stk_dataset_identity(ds->whole);
    bool all = stk_pick_is_all(&ds->pick, stk_dataset_len(ds->whole));
    return all ? whole : stk_pick_hash(&ds->pick, whole);
}

uint64_t stk_dataset_identity(struct stk_dataset *ds)
{
    uint64_t id = atomic_load(&ds->identity);
    if (id)
        return id;
    if (ds->whole)
        id = of_subset(ds);
    else
        id = ds->has_manifest ? stk_manifest_id(ds->manifest.shard, ds->manifest.nshards)
                              : of_files(ds);
    id = id ? id : 1;
    atomic_store(&ds->identity, id);
    return id;
}
