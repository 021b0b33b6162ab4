/* measure_priv.h - what the tests of a folder of ours and of files that are there share. */
#ifndef STK_MODEL_MEASURE_PRIV_H
#define STK_MODEL_MEASURE_PRIV_H

#include <stdatomic.h>

#include "base/pool.h"
#include "model/measure.h"

#define BLOCK     ((size_t)4 << 20)
#define SMALL     ((size_t)4096)

struct file {
    char *path;
    uint64_t size;
};

struct block {
    size_t file;
    uint64_t off;
};

enum way { WAY_NONE, WAY_MEMORY, WAY_DIRECT, WAY_COLD };

struct task {
    const char *path, *fs;
    bool memory;
    struct stk_measure_how how;
    struct stk_measured *out;
    int dirfd; /* of the folder that was made; -1: files that were found */
    enum way way;
    struct file *file;
    size_t nfiles;
    struct block *block;
    size_t nblocks;
    uint8_t *buf[STK_MEASURE_READERS];
    double until_s;
    _Atomic uint64_t bytes, done;
};

static inline void stk_measure_begin(struct task *t)
{
    t->until_s = stk_now() + t->how.test_s;
    t->bytes = t->done = 0;
}

static inline bool stk_measure_is_over(const struct task *t)
{
    return stk_now() >= t->until_s;
}
int stk_measure_buffers(struct task *t);
int stk_measure_open(const struct task *t, size_t i, int flags);
int stk_measure_reads(struct task *t, const uint64_t *size, size_t nfiles);
/* measure_data.c: in the child, of the files at t->path. */
int stk_measure_test_data(void *task, void *answer);

#endif
