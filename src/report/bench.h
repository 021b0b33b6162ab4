/* bench.h - results of `stoker bench` as screens and as JSON; a workload as text. */
#ifndef STK_REPORT_BENCH_H
#define STK_REPORT_BENCH_H

#include "bench/bench.h"
#include "bench/series.h"

void stk_bench_text(const struct stk_bench_result *r, unsigned columns, struct stk_buf *out);
/* Members of the open object. */
void stk_bench_json(const struct stk_bench_result *r, struct stk_jw *w);
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
