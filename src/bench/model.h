/*
 * model.h - the checkpoint of a large model: which files each rank writes, by tensor, pipeline and
 * data parallelism and the stage of ZeRO.
 */
#ifndef STK_BENCH_MODEL_H
#define STK_BENCH_MODEL_H

#include "bench/workload.h"

/* Parameters of the transformer. */
double stk_model_parameters(const struct stk_workload *w);
/* Refuses, by key, a model that does not fit that many ranks. */
int stk_model_check(const struct stk_workload *w, uint64_t ranks, struct stk_err *err);
/* Sizes of the files that this rank writes per checkpoint, of a model or of checkpoint.files.
 * Returns how many. */
size_t stk_checkpoint_files(const struct stk_workload *w, uint64_t rank, uint64_t ranks,
                            uint64_t bytes[STK_CHECKPOINT_FILES]);

#endif
