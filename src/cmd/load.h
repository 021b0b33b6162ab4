/*
 * load.h - one run of `stoker load`: its settings and measurements. load.c ties the parts together:
 * load_loop.c takes the batches, load_state.c reads and writes states, load_mixing.c rates the
 * shuffle, load_show.c and load_json.c report.
 */
#ifndef STK_CMD_LOAD_H
#define STK_CMD_LOAD_H

#include "base/histogram.h"
#include "cmd/cmd.h"
#include "dataset/dataset.h"
#include "io/io.h"
#include "load/plan.h"

struct stk_load_settings {
    struct stk_common common;
    struct stk_open_options open;
    struct stk_loader_options loader; /* rank and state are filled in by the run */
    const char *rank, *consume, *state, *ids;
    const char **from;
    uint64_t steps;
    bool mixing;
};

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

struct stk_load {
    struct stk_run *run;
    const struct stk_load_settings *s;
    struct stk_dataset *ds;
    struct stk_loader *ld;
    struct stk_rank rank;
    struct stk_io_choice place; /* where the data is, and how much of it was cached at the start */
    uint64_t samples_total;     /* of this run, approximately; 0: unknown */

    /* load_loop.c: */
    FILE *ids;
    struct stk_load_counts start, end;
    double first_batch_s; /* since the loader was opened; 0: no batch came */
    uint64_t wait_ns;     /* in stk_loader_wait() and stk_loader_next() */
    uint64_t batches, samples;
    struct stk_histogram time, epoch_time; /* between two batches, ns */
    struct stk_buf epochs;                 /* struct stk_load_epoch */
    uint64_t content;                      /* sum of the samples' hashes */
    double next_tick_s;

    bool has_mixing;
    struct stk_mixing mixing;
    uint64_t block, window; /* of the order, in samples and blocks */
};

/* Starts the counters. Call it before the loader is opened. */
void stk_load_begin(struct stk_load *l);
/* Takes batches until --epochs or --steps are done: 0, or a negative code with run->err filled. l
 * holds the measurements in either case. */
int stk_load_loop(struct stk_load *l);
/* Does what --consume says with a batch; writes --ids. */
int stk_load_consume(struct stk_load *l, const struct stk_batch *b);

/* The state to start from; *text is NULL if there is none. Caller frees with free(). */
int stk_load_read_state(struct stk_load *l, char **text);
int stk_load_write_state(struct stk_load *l);

/* Fills mixing. */
int stk_load_mix(struct stk_load *l);

void stk_load_show(const struct stk_load *l);
void stk_load_show_mixing(const struct stk_load *l, struct stk_buf *out);
void stk_load_json(const struct stk_load *l);
/* Samples passed over, and damage found when the dataset was listed. */
uint64_t stk_load_nproblems(const struct stk_load *l);
/* The exit status for them: STK_EXIT_PROBLEM, or STK_EXIT_PARTLY where none of them is damage. */
int stk_load_status(const struct stk_load *l);
/* Problem i of those kept, NULL past the last: the dataset's first, then the loader's. May use buf
 * for the text. */
const char *stk_load_problem(const struct stk_load *l, size_t i, char *buf, size_t size);
/* How many times an epoch read the files: more than once if compressed blocks hold several samples
 * and are not kept. */
double stk_load_passes(const struct stk_load *l);
/* Bytes that came from storage, by the kernel's count; -1: it keeps none for this file system. */
int64_t stk_load_device(const struct stk_load *l, int64_t bytes, uint64_t bytes_read);

static inline size_t stk_load_nepochs(const struct stk_load *l)
{
    return l->epochs.len / sizeof(struct stk_load_epoch);
}
static inline const struct stk_load_epoch *stk_load_epoch(const struct stk_load *l, size_t i)
{
    return (const struct stk_load_epoch *)(const void *)l->epochs.data + i;
}

#endif
