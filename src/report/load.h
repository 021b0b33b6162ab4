/*
 * load.h - what `stoker load` measured, for people and for programs: rates, waits, epochs, mixing,
 * problems. docs/loader.md defines each number.
 */
#ifndef STK_REPORT_LOAD_H
#define STK_REPORT_LOAD_H

#include "base/histogram.h"
#include "base/json.h"
#include "dataset/dataset.h"
#include "io/io.h"
#include "load/plan.h"

/* Counters at one moment. */
struct stk_load_counts {
    double at_s;
    struct stk_loader_stats loader;
    int64_t device_bytes; /* read from storage, by the kernel's count; -1: unknown */
    double cpu_s;
};

struct stk_load_epoch {
    uint64_t epoch, batches, samples, bytes_asked, bytes_read;
    int64_t device_bytes;
    double seconds, wait_s;
    uint64_t p50_ns, p99_ns, max_ns;
};

struct stk_load_result {
    const char *path;       /* as the user named it */
    struct stk_dataset *ds; /* borrowed, as ld and options */
    struct stk_loader *ld;
    const struct stk_loader_options *options;
    struct stk_rank rank;
    struct stk_io_choice storage; /* of the data, and how much of it was cached at the start */

    struct stk_load_counts start, end;
    double first_batch_s; /* since the loader was opened; 0: no batch came */
    uint64_t wait_ns;     /* in stk_loader_wait() and stk_loader_next() */
    uint64_t batches, samples;
    struct stk_histogram time; /* between two batches, ns */
    struct stk_buf epochs;     /* struct stk_load_epoch */
    bool hashed;
    uint64_t content; /* if hashed: sum of the samples' hashes */

    bool has_mixing;
    struct stk_mixing mixing;
    uint64_t block, window; /* of the order, in samples and blocks */
};

void stk_load_text(const struct stk_load_result *r, struct stk_buf *out);
/* Its part on the mixing. */
void stk_load_mixing_text(const struct stk_load_result *r, struct stk_buf *out);
/* Members of the open object. */
void stk_load_json(const struct stk_load_result *r, struct stk_jw *w);

/* Samples passed over, and damage found when the dataset was listed. */
uint64_t stk_load_nproblems(const struct stk_load_result *r);
/* How many times an epoch read the files: more than once if compressed blocks hold several samples
 * and are not kept. */
double stk_load_passes(const struct stk_load_result *r);
/* Bytes that came from storage between two moments; -1: not known. */
int64_t stk_load_device(const struct stk_load_result *r, const struct stk_load_counts *from,
                        const struct stk_load_counts *to);

static inline size_t stk_load_nepochs(const struct stk_load_result *r)
{
    return r->epochs.len / sizeof(struct stk_load_epoch);
}
static inline const struct stk_load_epoch *stk_load_epoch(const struct stk_load_result *r, size_t i)
{
    return (const struct stk_load_epoch *)(const void *)r->epochs.data + i;
}

#endif
