/* bench.h - results of `stoker bench`; a workload as text. */
#ifndef STK_REPORT_BENCH_H
#define STK_REPORT_BENCH_H

#include "bench/bench.h"
#include "bench/series.h"
#include "result/field.h"

extern const struct stk_result_kind stk_bench_kind; /* a run: of a struct stk_bench_result */
/* Its plots on the page (html/bench.c). */
void stk_bench_blocks(const struct stk_jval *result, struct stk_jw *w);
void stk_series_text(const struct stk_series *s, struct stk_buf *out);
void stk_series_json(const struct stk_series *s, struct stk_jw *w);

#define STK_BENCH_COMPARED 8 /* results, at most */
/* What runs are compared by: a number of the JSON ("io.latency.p99_s"), and its unit: "share", "s",
 * "B", "count" or "per s". */
#define STK_BENCH_FIGURES 13
struct stk_bench_figure {
    const char *title, *path, *unit;
};
extern const struct stk_bench_figure stk_bench_figures[STK_BENCH_FIGURES];
/* Results of --json side by side, and the keys of their workloads that differ. */
int stk_bench_compare(const char *const *paths, size_t n, struct stk_buf *out, struct stk_jw *w,
                      struct stk_err *err);
/* Every key with its value. */
void stk_workload_text(const struct stk_workload *w, struct stk_buf *out);

#endif
