/* bench.h - results of `stoker bench`; a workload as text. */
#ifndef STK_REPORT_BENCH_H
#define STK_REPORT_BENCH_H

#include "bench/bench.h"
#include "result/field.h"

extern const struct stk_result_kind stk_bench_kind; /* a run: of a struct stk_bench_result */
/* Its plots on the page (html/bench.c). */
void stk_bench_blocks(const struct stk_jval *result, struct stk_jw *w);
/* Several runs: of a struct stk_series. */
extern const struct stk_result_kind stk_search_kind, stk_beside_kind, stk_sweep_kind;
/* Results of runs side by side, and the keys of their workloads that differ: of a struct
 * stk_results. */
extern const struct stk_result_kind stk_benches_kind;
/* Every key with its value. */
void stk_workload_text(const struct stk_workload *w, struct stk_buf *out);

#endif
