/* bench.h - shared by the files that put results of `stoker bench` on a page. */
#ifndef STK_REPORT_HTML_BENCH_H
#define STK_REPORT_HTML_BENCH_H

#include "report/html/priv.h"

/* Several runs in one result: a sweep, a search, a neighbour, a comparison. */
bool stk_pg_bench_is_series(const struct stk_jval *result);
int stk_pg_bench_series(struct stk_page *page, const struct stk_pg_input *in, struct stk_err *err);
/* Keeps the figures of a run, for a comparison at the end of the page. */
int stk_pg_bench_keep(struct stk_page *page, const struct stk_pg_input *in, struct stk_err *err);
int stk_pg_bench_compare(struct stk_page *page, struct stk_err *err);

#endif
