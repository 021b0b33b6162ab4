/*
 * load.h - what `stoker load` measured: rates, waits, epochs, mixing, problems. docs/loader.md
 * defines each number.
 */
#ifndef STK_REPORT_LOAD_H
#define STK_REPORT_LOAD_H

#include "base/histogram.h"
#include "dataset/dataset.h"
#include "io/io.h"
#include "load/plan.h"
#include "result/field.h"

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
    struct stk_dataset *ds; /* borrowed, as ld, notes and options */
    const struct stk_notes *notes;
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

extern const struct stk_result_kind stk_load_kind; /* of a struct stk_load_result */

/* Samples passed over, and damage found when the dataset was listed. */
uint64_t stk_load_nproblems(const struct stk_load_result *r);
/* Bytes that came from storage between two moments; -1: not known. */
int64_t stk_load_device(const struct stk_load_result *r, const struct stk_load_counts *from,
                        const struct stk_load_counts *to);

#endif
