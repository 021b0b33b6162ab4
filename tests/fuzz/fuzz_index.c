/*
 * fuzz_index.c - an arbitrary file taken for an index: looked at by itself, then used to read a
 * dataset and to load it. All its checksums are put right first, as somebody would do who wants to
 * be believed: nothing behind them would ever be reached. Where the checksum of the header stood,
 * two bytes choose what else is put right, and how it is loaded.
 */
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "dataset/index.h"

#define LOOKUPS   64
#define DATA_NAME "data.bin" /* as make_corpus.py says */
#define DATA_SIZE 1000

static void look_up(const struct stk_index *idx, uint64_t sample)
{
    struct stk_buf slices = STK_BUF_INIT;
    struct stk_err err = {0};
    const char *key;
    size_t len;
    uint64_t bytes;
    if (stk_index_key(idx, sample, &key, &len, &err) == 0)
        stk_fuzz_touch(key, len);
    stk_index_sample_bytes(idx, sample, &bytes, &err);
    if (stk_index_slices(idx, sample, &slices, &err) == 0) {
        const struct stk_slice *s = (const void *)slices.data;
        for (size_t i = 0; i < slices.len / sizeof *s && i < LOOKUPS; i++) {
            struct stk_extent e;
            const char *name;
            const uint8_t *window;
            if (stk_index_field(idx, s[i].field, &name))
                stk_fuzz_touch(name, stk_index_field(idx, s[i].field, &name)->name_len);
            if (stk_index_extent(idx, s[i].extent, &e, &err) == 0) {
                const struct stk_index_point *p = stk_index_point(idx, s[i].extent, &window);
                const struct stk_index_crc *crc = stk_index_crc(idx, s[i].extent);
                stk_fuzz_touch(p ? window : NULL, p ? p->window_len : 0);
                stk_fuzz_touch(crc, crc ? sizeof *crc : 0);
            }
        }
    }
    stk_buf_release(&slices);
}

static void look_at(const struct stk_index *idx)
{
    struct stk_err err = {0};
    uint64_t n = idx->h->nsamples;
    stk_index_check(idx, &err);
    for (uint64_t i = 0; i < LOOKUPS; i++) {
        const struct stk_index_file *f;
        const char *name;
        look_up(idx, i);
        look_up(idx, n - 1 - i);
        look_up(idx, n / LOOKUPS * i);
        if (stk_index_file(idx, i, &f, &name, &err) == 0)
            stk_fuzz_touch(name, f->name_len);
    }
}

/* The file the seeds describe; an index that does not fit it is refused. */
static void read_with(const char *index, uint8_t how)
{
    static char path[300];
    if (!path[0]) {
        static uint8_t data[DATA_SIZE];
        for (size_t i = 0; i < sizeof data; i++)
            data[i] = (uint8_t)(i * 7 + i / 256);
        snprintf(path, sizeof path, "%s", stk_fuzz_file(DATA_NAME, data, sizeof data));
    }
    struct stk_open_options o = {.index = index, .no_index_write = true, .jobs = 1};
    struct stk_dataset *ds;
    stk_fuzz_dataset(path, &o);
    if (stk_dataset_open(path, &o, &ds, NULL) < 0)
        return;
    if (stk_dataset_len(ds) < 1u << 16)
        stk_fuzz_load(ds, how);
    stk_dataset_close(ds);
}

/* Behind the tables, at end, the checksum of each of their blocks. */
static void put_sums(struct stk_index_header *h, struct stk_buf *b)
{
    size_t end = b->len;
    stk_buf_zeros(b, (STK_INDEX_ALIGN - end % STK_INDEX_ALIGN) % STK_INDEX_ALIGN);
    end = b->len;
    for (size_t at = STK_INDEX_TABLES; at < end; at += STK_INDEX_BLOCK) {
        uint64_t sum =
            stk_hash64(b->data + at, end - at < STK_INDEX_BLOCK ? end - at : STK_INDEX_BLOCK);
        stk_buf_put(b, &sum, sizeof sum);
    }
    h->table[STK_T_SUMS].off = end;
    h->table[STK_T_SUMS].count = (b->len - end) / 8;
    h->table[STK_T_SUMS].elem = 8;
    h->table[STK_T_SUMS].hash = stk_hash64(b->data + end, b->len - end);
}

static bool fits(const struct stk_index_header *h, int t, const struct stk_buf *b)
{
    uint64_t bytes, end;
    return !__builtin_mul_overflow(h->table[t].count, (uint64_t)h->table[t].elem, &bytes) &&
           !__builtin_add_overflow(h->table[t].off, bytes, &end) && end <= b->len;
}

static void put_table_hashes(struct stk_index_header *h, const struct stk_buf *b)
{
    for (int t = 0; t < STK_T_COUNT; t++)
        if (fits(h, t, b))
            h->table[t].hash =
                stk_hash64(b->data + h->table[t].off, h->table[t].count * h->table[t].elem);
}

/* Tables that are not in the file are empty. */
static void drop_tables(struct stk_index_header *h, const struct stk_buf *b)
{
    for (int t = 0; t < STK_T_COUNT; t++)
        if (h->table[t].off % STK_INDEX_ALIGN || h->table[t].off < STK_INDEX_TABLES ||
            !fits(h, t, b)) {
            h->table[t].off = STK_INDEX_TABLES;
            h->table[t].count = 0;
        }
}

/* Counts that follow from others: of samples, where the segments are in the file. */
static void put_counts(struct stk_index_header *h, const struct stk_buf *b)
{
    struct stk_segment seg;
    uint64_t off = h->table[STK_T_SEGMENTS].off, n = h->table[STK_T_SEGMENTS].count;
    h->nfiles = h->table[STK_T_FILES].count;
    h->nextents = h->table[STK_T_EXTENTS].count;
    if (off > b->len || n > (b->len - off) / sizeof seg)
        return;
    h->nsamples = 0;
    for (uint64_t i = 0; i < n; i++) {
        memcpy(&seg, b->data + off + i * sizeof seg, sizeof seg);
        seg.first_sample = h->nsamples;
        h->nsamples += seg.nsamples;
        memcpy(b->data + off + i * sizeof seg, &seg, sizeof seg);
    }
}

static void put_right(struct stk_buf *b, uint8_t what)
{
    struct stk_index_header h;
    memcpy(&h, b->data, sizeof h);
    if (what & 4)
        drop_tables(&h, b);
    if (what & 1)
        put_counts(&h, b);
    memcpy(h.magic, "STKINDX", 8);
    h.version = STK_INDEX_VERSION;
    h.ntables = STK_T_COUNT;
    put_sums(&h, b);
    if (!(what & 2))
        put_table_hashes(&h, b);
    h.file_size = b->len;
    h.header_hash = stk_index_header_hash(&h);
    memcpy(b->data, &h, sizeof h);
}

int fuzz_index(const uint8_t *data, size_t size)
{
    struct stk_buf copy = STK_BUF_INIT;
    struct stk_index idx;
    struct stk_err err = {0};
    uint8_t what = 0, how = 0;
    stk_buf_put(&copy, data, size);
    if (size >= STK_INDEX_TABLES) {
        what = data[offsetof(struct stk_index_header, header_hash)];
        how = data[offsetof(struct stk_index_header, header_hash) + 1];
        put_right(&copy, what);
    }
    const char *path = stk_fuzz_file("input.stkidx", copy.data, copy.len);
    if (stk_index_open(path, &idx, &err) == 0) {
        look_at(&idx);
        stk_index_close(&idx);
        read_with(path, how);
    }
    stk_buf_release(&copy);
    return 0;
}
