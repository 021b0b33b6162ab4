/* fuzz_loader.c - an arbitrary file of any format taken through the loader: threads, engines,
 * shared extents, samples that fail in the middle of a batch. The first two bytes choose format and
 * way. */
#include "harness.h"

#include <stdio.h>

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
        stk_fuzz_load(ds, data[1]);
    stk_dataset_close(ds);
    return 0;
}
