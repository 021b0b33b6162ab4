/*
 * raw.h - the few structures of an HDF5 file that libhdf5 does not expose, or only slowly.
 *
 * Finds a dataset's bytes: the layout message in its object header, its chunk index, and the global
 * heap collections with values of variable length. Knows nothing about types or filters, needs no
 * libhdf5, trusts no byte.
 */
#ifndef STK_FORMAT_HDF5_RAW_H
#define STK_FORMAT_HDF5_RAW_H

#include "format/format.h"

struct stk_h5_file {
    struct stk_src *src;
    uint64_t base; /* of the superblock: the size of the user block; addresses count from here */
    unsigned addr_size, len_size; /* 2, 4 or 8 */
    void (*alive)(void *user);    /* called at intervals in long walks; may be NULL */
    void *user;
};

#define STK_H5_MAX_RANK 32
#define STK_H5_NOWHERE  UINT64_MAX /* "undefined address": nothing is stored */

enum stk_h5_class { STK_H5_COMPACT = 0, STK_H5_CONTIGUOUS = 1, STK_H5_CHUNKED = 2, STK_H5_VIRTUAL };

enum stk_h5_index {
    STK_H5_INDEX_BTREE1 = 0, /* the default in files not written for the latest version */
    STK_H5_INDEX_SINGLE = 1,
    STK_H5_INDEX_IMPLICIT = 2,
    STK_H5_INDEX_FIXED = 3,
    STK_H5_INDEX_EXTENSIBLE = 4,
    STK_H5_INDEX_BTREE2 = 5,
};

struct stk_h5_layout {
    enum stk_h5_class class;
    uint64_t addr; /* in the file: of the data, or of the chunk index; or STK_H5_NOWHERE */
    uint64_t size; /* COMPACT: bytes */
    /* CHUNKED */
    unsigned index; /* enum stk_h5_index */
    unsigned ndims; /* one more than the rank: the last is the element's size */
    uint64_t dim[STK_H5_MAX_RANK + 1];
    bool filtered_single; /* SINGLE: size and mask of the chunk are here */
    uint64_t single_size;
    uint32_t single_mask;
};

/* header: address of the dataset's object header (H5Oget_info). */
int stk_h5_find_layout(const struct stk_h5_file *f, uint64_t header, struct stk_h5_layout *out,
                       struct stk_err *err);

struct stk_h5_chunk {
    uint64_t addr; /* in the file; 0: never written */
    uint64_t size; /* stored bytes */
    uint32_t mask; /* bit i: filter i of the pipeline was skipped */
};

/* Fills chunk[0 .. nchunks), all zero before, in row-major order of the chunk grid. grid: chunks
 * along each axis (their product is nchunks); chunk_bytes: of a decoded chunk, for indexes that do
 * not store sizes; max_grid: the same for the largest dimensions the dataset may grow to (0:
 * unlimited), in which new indexes count. STK_E_UNSUPPORTED for unknown index types. */
struct stk_h5_grid {
    unsigned rank;
    uint64_t dim[STK_H5_MAX_RANK]; /* chunks along each axis */
    uint64_t max[STK_H5_MAX_RANK];
    uint64_t chunk_bytes;
    bool filtered;
    uint64_t nchunks;
};
int stk_h5_list_chunks(const struct stk_h5_file *f, const struct stk_h5_layout *layout,
                       const struct stk_h5_grid *grid, struct stk_h5_chunk *chunk,
                       struct stk_err *err);

/* Global heap: finds object `index` of the collection at `addr` (as stored). Caches recent
 * collections. */
struct stk_h5_heap {
    const struct stk_h5_file *file;
    struct stk_h5_collection *cached; /* most recently used first */
    size_t ncached;
};
int stk_h5_heap_find(struct stk_h5_heap *h, uint64_t addr, uint32_t index, uint64_t *offset,
                     uint64_t *size, struct stk_err *err);
void stk_h5_heap_release(struct stk_h5_heap *h);

/* Converts a stored address to an offset in the file. STK_H5_NOWHERE stays. */
uint64_t stk_h5_addr(const struct stk_h5_file *f, const uint8_t *p);

/* ---- integers and addresses ------------------------------------------------------------------ */

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
