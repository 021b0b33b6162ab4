/* fuzz_loader.c - an arbitrary file of any format taken through the loader: threads, engines, shared
 * extents, samples that fail in the middle of a batch. The first two bytes choose format and way. */
#include "harness.h"
#include "data/dataset.h"

#include <stdio.h>

#define BATCHES 12

static void touch_column(const struct stk_column *c, size_t n)
{
    size_t count = stk_dtype_size(c->dtype);
    for (unsigned d = 0; d < c->ndim; d++)
        count *= (size_t)c->dim[d];
    if (c->layout == STK_DENSE)
        stk_fuzz_touch(c->data, n * count);
    for (size_t k = 0; c->layout == STK_SPANS && k < n; k++)
        stk_fuzz_touch(c->span[k].data, c->span[k].size);
    for (size_t k = 0; c->layout == STK_VALUES && k < n; k++)
        if (c->value[k].kind && c->value[k].kind != STK_LIST)
            stk_fuzz_touch(c->value[k].data, c->value[k].size);
}

static void load(struct stk_dataset *ds, uint8_t how)
{
    static const char *const io[] = {"threads", "mmap", "uring", "direct"};
    struct stk_loader_options o = {.batch = 3,
                                   .shuffle = how % 3,
                                   .last = how / 3 % 3,
                                   .on_error = 1 + (how >> 4) % 2,
                                   .io = io[how >> 6],
                                   .threads = 2,
                                   .keys = true,
                                   .decode = how & 8 ? "raw" : NULL,
                                   .memory_bytes = 1 << 20};
    struct stk_loader *ld;
    struct stk_batch *b;
    if (stk_loader_open(ds, &o, &ld, NULL) < 0)
        return;
    for (int i = 0; i < BATCHES && stk_loader_next(ld, &b, NULL) == 1; i++) {
        for (size_t c = 0; c < b->ncolumns; c++)
            touch_column(&b->column[c], b->n);
        for (size_t k = 0; k < b->n; k++) {
            stk_fuzz_touch(b->key[k].data, b->key[k].size);
            if (b->id[k] >= stk_dataset_len(ds))
                stk_fuzz_broken("a batch names samples that there are");
        }
        stk_batch_release(b);
    }
    stk_loader_close(ld);
}

int fuzz_loader(const uint8_t *data, size_t size)
{
    static const char *const formats[] = {"tfrecord", "tar",  "recordio", "npy",
                                          "csv",      "json", "jsonl",    "npz"};
    if (size < 2)
        return 0;
    const struct stk_format *f = stk_format_find(formats[data[0] % 8]);
    char name[64];
    snprintf(name, sizeof name, "load%s", f->suffix);
    struct stk_open_options o = {.format = f->name, .no_index_write = true, .jobs = 1};
    struct stk_dataset *ds;
    if (stk_dataset_open(stk_fuzz_file(name, data + 2, size - 2), &o, &ds, NULL) < 0)
        return 0;
    if (stk_dataset_len(ds) < 1u << 16)
        load(ds, data[1]);
    stk_dataset_close(ds);
    return 0;
}
