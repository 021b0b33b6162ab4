/*
 * fuzz_index.c - an arbitrary file taken for an index: looked at by itself, then used to read a
 * dataset. Its checksums are put right first: nothing behind them would ever be reached.
 */
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/hash.h"
#include "data/index.h"

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
static void read_with(const char *index)
{
    static char path[300];
    if (!path[0]) {
        static uint8_t data[DATA_SIZE];
        for (size_t i = 0; i < sizeof data; i++)
            data[i] = (uint8_t)(i * 7 + i / 256);
        snprintf(path, sizeof path, "%s", stk_fuzz_file(DATA_NAME, data, sizeof data));
    }
    stk_fuzz_dataset(path, &(struct stk_open_options){.index = index, .no_index_write = true});
}

/* Behind the tables, at end, the checksum of each of their blocks. */
static void put_sums(struct stk_index_header *h, struct stk_buf *b)
{
    size_t end = b->len;
    stk_buf_zeros(b, (STK_INDEX_ALIGN - end % STK_INDEX_ALIGN) % STK_INDEX_ALIGN);
    end = b->len;
    for (size_t at = STK_INDEX_TABLES; at < end; at += STK_INDEX_BLOCK) {
        uint64_t sum = stk_hash64(b->data + at,
                                  end - at < STK_INDEX_BLOCK ? end - at : STK_INDEX_BLOCK);
        stk_buf_put(b, &sum, sizeof sum);
    }
    h->table[STK_T_SUMS].off = end;
    h->table[STK_T_SUMS].count = (b->len - end) / 8;
    h->table[STK_T_SUMS].elem = 8;
    h->table[STK_T_SUMS].hash = stk_hash64(b->data + end, b->len - end);
}

static void put_right(struct stk_buf *b)
{
    struct stk_index_header h;
    memcpy(&h, b->data, sizeof h);
    memcpy(h.magic, "STKINDX", 8);
    h.version = STK_INDEX_VERSION;
    h.ntables = STK_T_COUNT;
    put_sums(&h, b);
    h.file_size = b->len;
    h.header_hash = 0;
    h.header_hash = stk_hash64(&h, sizeof h);
    memcpy(b->data, &h, sizeof h);
}

int fuzz_index(const uint8_t *data, size_t size)
{
    struct stk_buf copy = STK_BUF_INIT;
    struct stk_index idx;
    struct stk_err err = {0};
    stk_buf_put(&copy, data, size);
    if (size >= STK_INDEX_TABLES)
        put_right(&copy);
    const char *path = stk_fuzz_file("input.stkidx", copy.data, copy.len);
    if (stk_index_open(path, &idx, &err) == 0) {
        look_at(&idx);
        stk_index_close(&idx);
        read_with(path);
    }
    stk_buf_release(&copy);
    return 0;
}
