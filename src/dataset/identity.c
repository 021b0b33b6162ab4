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
#include "base/pool.h"
#include "dataset/dataset.h"

#include <fcntl.h>
#include <stdlib.h>

#define SIZES_MAX                                                                                  \
    4096u             /* up to this many files all sizes count; beyond, only those of sampled      \
                       * files */
#define SAMPLED 16u   /* files whose bytes are read */
#define BLOCKS  3u    /* read of such a file: at its beginning, in its middle, at its end */
#define BLOCK   4096u /* bytes */

static void add_u64(struct stk_hash *h, uint64_t v)
{
    stk_hash_update(h, &v, sizeof v);
}

/* Some bytes of a file. */
struct excerpt {
    bool readable;
    size_t got[BLOCKS];
    uint8_t p[BLOCKS][BLOCK];
};

static void read_excerpt(struct excerpt *x, const struct stk_files *files, uint64_t number)
{
    struct stk_file f;
    x->readable = stk_file_open(files, number, STK_FILE_PLAIN, &f, NULL) == 0;
    if (!x->readable)
        return;
    uint64_t n = f.size < BLOCK ? f.size : BLOCK, last = f.size - n;
    const uint64_t at[BLOCKS] = {0, last / 2, last};
    for (unsigned i = 1; i < BLOCKS; i++) /* they come while the first one is read */
        (void)posix_fadvise(f.fd, (off_t)at[i], (off_t)n, POSIX_FADV_WILLNEED);
    for (unsigned i = 0; i < BLOCKS; i++)
        if (stk_pread_full(f.fd, x->p[i], (size_t)n, at[i], &x->got[i], NULL, NULL) < 0)
            x->got[i] = 0;
    stk_file_close(&f);
}

/* An unreadable file adds nothing: a damaged dataset has an identity, too. */
static void add_excerpt(struct stk_hash *h, const struct excerpt *x)
{
    for (unsigned i = 0; x->readable && i < BLOCKS; i++) {
        add_u64(h, x->got[i]);
        stk_hash_update(h, x->p[i], x->got[i]);
    }
}

struct sampling {
    const struct stk_files *files;
    uint64_t n; /* files sampled */
    struct excerpt *x;
};

static int sample(void *user, uint64_t item, unsigned thread, struct stk_err *err)
{
    const struct sampling *s = user;
    (void)thread, (void)err;
    read_excerpt(&s->x[item], s->files, s->files->count * item / s->n);
    return 0;
}

/* All at once if each read takes a round trip. */
static void add_bytes(struct stk_hash *h, const struct stk_files *files, uint64_t n)
{
    struct sampling s = {.files = files, .n = n};
    struct excerpt one;
    s.x = stk_files_are_local(files) ? NULL : calloc(n ? n : 1, sizeof *s.x);
    if (s.x)
        (void)stk_pool_run((unsigned)n, n, sample, &s, NULL);
    for (uint64_t i = 0; i < n; i++) {
        if (!s.x)
            read_excerpt(&one, files, files->count * i / n);
        add_excerpt(h, s.x ? &s.x[i] : &one);
    }
    free(s.x);
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
    add_bytes(&h, files, sampled);
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
