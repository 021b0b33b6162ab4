/*
 * recordset.h - a TFRecord set whose samples can be told by their bytes: sample i has i * 37 % 3000
 * of them, derived from i.
 */
#ifndef RECORDSET_H
#define RECORDSET_H

#include "scratch.h"

#include <zlib.h>

static inline size_t make_sample(uint64_t i, uint8_t *p)
{
    size_t n = (size_t)(i * 37 % 3000);
    for (size_t k = 0; k < n; k++)
        p[k] = (uint8_t)(i * 7 + k);
    return n;
}

/* n records in `files` files; gzip: compressed. Returns the folder. */
static inline const char *make_set(const char *name, uint64_t n, uint64_t files, bool gzip)
{
    struct stk_buf b = STK_BUF_INIT, z = STK_BUF_INIT;
    uint8_t bytes[3000];
    for (uint64_t file = 0; file < files; file++) {
        char path[64];
        stk_buf_reset(&b);
        for (uint64_t i = file * n / files; i < (file + 1) * n / files; i++)
            scratch_record(&b, bytes, make_sample(i, bytes));
        snprintf(path, sizeof path, "%s/%d.tfrecord%s", name, (int)file, gzip ? ".gz" : "");
        if (gzip) {
            uLongf size = compressBound(b.len);
            stk_buf_reset(&z);
            compress2(stk_buf_extend(&z, size), &size, b.data, b.len, 1);
            z.len = size;
        }
        scratch_file(path, gzip ? z.data : b.data, gzip ? z.len : b.len);
    }
    stk_buf_release(&b);
    stk_buf_release(&z);
    return scratch_path(name);
}

#endif
