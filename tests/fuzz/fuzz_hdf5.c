/*
 * fuzz_hdf5.c - the parts of HDF5 files that are walked without libhdf5: object headers, chunk
 * indexes, global heaps. Input: where to begin and the shape of the chunk grid, then the file.
 */
#include "harness.h"

#include <fcntl.h>

#include "format/hdf5/raw.h"
#include "format/lister.h"

#define HEAD       16
#define MAX_CHUNKS 4096

static void walk_chunks(const struct stk_h5_file *f, const struct stk_h5_layout *layout,
                        const uint8_t *shape)
{
    static struct stk_h5_chunk chunk[MAX_CHUNKS];
    struct stk_h5_grid grid = {.rank = 1 + shape[0] % 3, .filtered = shape[1] & 1, .nchunks = 1};
    struct stk_err err = {0};
    grid.chunk_bytes = 1 + (uint64_t)shape[2];
    for (unsigned i = 0; i < grid.rank; i++) {
        grid.dim[i] = 1 + shape[3 + i] % 16;
        grid.max[i] = shape[6 + i] == 0xff ? 0 : grid.dim[i] + shape[6 + i];
        grid.nchunks *= grid.dim[i];
    }
    memset(chunk, 0, sizeof chunk);
    if (stk_h5_list_chunks(f, layout, &grid, chunk, &err) == 0)
        stk_fuzz_touch(chunk, (size_t)grid.nchunks * sizeof *chunk);
}

static void walk(struct stk_src *src, const uint8_t *head)
{
    static const unsigned sizes[] = {2, 4, 8, 8};
    struct stk_h5_file f = {
        .src = src, .addr_size = sizes[head[0] & 3], .len_size = sizes[head[0] >> 2 & 3]};
    struct stk_h5_layout layout = {0};
    struct stk_err err = {0};
    if (stk_h5_find_layout(&f, stk_le16(head + 1), &layout, &err) == 0 &&
        layout.class == STK_H5_CHUNKED)
        walk_chunks(&f, &layout, head + 6);
    struct stk_h5_heap heap = {.file = &f};
    for (uint32_t i = 0; i < 4; i++) {
        uint64_t off, size;
        stk_h5_heap_find(&heap, stk_le16(head + 3), i + head[5], &off, &size, &err);
    }
    stk_h5_heap_release(&heap);
}

int fuzz_hdf5(const uint8_t *data, size_t size)
{
    struct stk_src *src;
    struct stk_err err = {0};
    if (size < HEAD)
        return 0;
    const char *path = stk_fuzz_file("input.h5", data + HEAD, size - HEAD);
    if (stk_src_open(open(path, O_RDONLY | O_CLOEXEC), path, path, false, &src, &err))
        return 0;
    walk(src, data);
    stk_src_close(src);
    return 0;
}
