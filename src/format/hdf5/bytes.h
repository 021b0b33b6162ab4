/* bytes.h - reading HDF5's integers and addresses; for format/hdf5/raw.c and format/hdf5/chunks.c only. */
#ifndef STK_FORMAT_HDF5_BYTES_H
#define STK_FORMAT_HDF5_BYTES_H

#include "format/hdf5/raw.h"

static inline uint64_t stk_h5_uint(const uint8_t *p, unsigned width)
{
    uint64_t v = 0;
    for (unsigned i = 0; i < width && i < 8; i++)
        v |= (uint64_t)p[i] << (8 * i);
    return v;
}

int stk_h5_damaged(const struct stk_h5_file *f, uint64_t at, const char *what, struct stk_err *err);
/* Like stk_src_peek(), but all n bytes must exist. */
int stk_h5_peek(const struct stk_h5_file *f, uint64_t at, size_t n, const char *what,
                const uint8_t **p, struct stk_err *err);

#endif
