/*
 * plan.h - which samples a rank reads, in which order: a function of the workload and of the
 * numbers of rank, thread, epoch and sample. Nothing is stored per sample.
 */
#ifndef STK_BENCH_PLAN_H
#define STK_BENCH_PLAN_H

#include "base/random.h"
#include "bench/workload.h"

/* A lane is a thread of a rank that reads every nth batch of it. */
struct stk_bench_plan {
    const struct stk_workload *w;
    uint64_t rank, ranks;
    uint64_t lanes;               /* at least 1 */
    uint64_t steps;               /* per epoch */
    uint64_t epoch_samples;       /* of this rank; a smaller batch may end them */
    uint64_t total;               /* samples of the dataset */
    uint64_t files, first, count; /* own: files of this rank; shared: its samples */
    /* Of the epoch that is planned now. */
    uint64_t epoch;
    struct stk_perm file_perm, sample_perm;
};

struct stk_bench_place {
    uint64_t file, index; /* index: of the sample in the file */
};

/* Refuses a workload whose data does not fit the number of ranks, by key. */
int stk_bench_plan(struct stk_bench_plan *p, const struct stk_workload *w, uint64_t rank,
                   uint64_t ranks, struct stk_err *err);
/* Before the samples of an epoch are asked for. */
void stk_bench_plan_epoch(struct stk_bench_plan *p, uint64_t epoch);
/* Sample n of the lane in this epoch. */
struct stk_bench_place stk_bench_plan_at(const struct stk_bench_plan *p, uint64_t lane, uint64_t n);
/* Collective reads: samples that all ranks use in a step together, and number n of them in step
 * `step` of this epoch. The same on all ranks. */
uint64_t stk_bench_plan_together(const struct stk_bench_plan *p);
struct stk_bench_place stk_bench_plan_shared(const struct stk_bench_plan *p, uint64_t step,
                                             uint64_t n);
/* Samples that a rank has if it loads its data at the start; sample n of them. */
uint64_t stk_bench_plan_all(const struct stk_bench_plan *p);
struct stk_bench_place stk_bench_plan_load(const struct stk_bench_plan *p, uint64_t n);

/* Bytes of a sample. */
uint64_t stk_bench_record(const struct stk_workload *w, struct stk_bench_place at);
/* Time that decoding a sample takes, in seconds; serial: its number in the run. */
double stk_bench_think(const struct stk_workload *w, uint64_t serial);
/* Samples of a rank in batch number `batch` of the run: the last of an epoch may have fewer. */
uint64_t stk_bench_plan_batch(const struct stk_bench_plan *p, uint64_t batch);
/* The number of sample i of that batch in the run: those of all ranks follow each other without
 * gaps. */
uint64_t stk_bench_plan_serial(const struct stk_bench_plan *p, uint64_t batch, uint64_t i);
/* Computing time of a step, in seconds. */
double stk_bench_compute(const struct stk_workload *w, uint64_t rank, uint64_t step);

/* ---- the model that checkpoints hold --------------------------------------------------------- */

/* The checkpoint of a large model: which files each rank writes, by tensor, pipeline and data
 * parallelism and the stage of ZeRO. */

/* Parameters of the transformer. */
double stk_model_parameters(const struct stk_workload *w);
/* Refuses, by key, a model that does not fit that many ranks. */
int stk_model_check(const struct stk_workload *w, uint64_t ranks, struct stk_err *err);
/* Sizes of the files that this rank writes per checkpoint, of a model or of checkpoint.files.
 * Returns how many. */
size_t stk_checkpoint_files(const struct stk_workload *w, uint64_t rank, uint64_t ranks,
                            uint64_t bytes[STK_CHECKPOINT_FILES]);

#endif
