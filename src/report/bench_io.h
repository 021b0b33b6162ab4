/* bench_io.h - the I/O of a benchmark: its rows on the screen, and its part of the JSON result. */
#ifndef STK_REPORT_BENCH_IO_H
#define STK_REPORT_BENCH_IO_H

#include "bench/bench.h"
#include "result/grid.h"

/* Bytes, requests, their sizes, order, latency and bandwidth. */
void stk_bench_io_rows(const struct stk_bench_result *r, struct stk_grid *t);
/* "1.20 GiB; the rest was in the page cache". Returns buf. */
const char *stk_bench_source_text(const struct stk_bench_result *r, char *buf, size_t size);
/* What the utilisation says nothing about, because the data did not come from storage or may not have;
 * NULL: it did. */
const char *stk_bench_source_said(const struct stk_bench_result *r);
/* Member "io". device: bytes from the device; -1: unknown. */
void stk_bench_io_json(const struct stk_io_tally *io, int64_t device, struct stk_jw *w);
/* Member `key`: mean and percentiles of a histogram of nanoseconds. */
void stk_bench_times_json(const struct stk_histogram *h, const char *key, struct stk_jw *w);

/* "1.20 GiB/s". Returns buf. */
const char *stk_rate_text(double per_second, char *buf, size_t n);
/* A percentile of a histogram of nanoseconds; 1: the largest. buf has 32 bytes. Returns buf. */
const char *stk_duration_at(const struct stk_histogram *h, double fraction, char *buf);

#endif
