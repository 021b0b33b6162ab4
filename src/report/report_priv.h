/* report_priv.h - shared by the files of the text report. */
#ifndef STK_REPORT_PRIV_H
#define STK_REPORT_PRIV_H

#include "base/stats.h"
#include "base/verdict.h"
#include "report/report.h"
#include "result/field.h"

/* The nearest count: the conversion is only defined for doubles in range. */
uint64_t stk_nearest(double v);
/* words.c: numbers and names as cells. Each function renders into buf and returns it. */
const char *stk_word_rate(double Bps, char *buf, size_t size);    /* "1.20 GiB/s", "-" for none */
const char *stk_word_share(double share, char *buf, size_t size); /* "12.3 %", "-" below 0 */
const char *stk_word_moment(double s, char *buf, size_t size);     /* the same, "0" for 0 */
const char *stk_word_size(uint64_t bytes, char *buf, size_t size); /* "1.20 MiB", "-" for 0 */
/* "1 file", "2 files". */
const char *stk_word_many(uint64_t n, const char *one, char *buf, size_t size);
/* "00:05:10", "1-02:03:04": in the format of Slurm and its options; "?" below 0. */
const char *stk_word_clock(double s, char *buf, size_t size);
/* "1,234", or "about 1,200" for an estimate. */
const char *stk_word_about(uint64_t n, bool exact, char *buf, size_t size);
/* A command quoted as for a shell, safe to show. If it is wider than columns, drops directories of
 * its words, then its end. Borrowed from b. */
const char *stk_word_command(struct stk_buf *b, const char *command, size_t columns);

const char *stk_report_mark_kind(uint32_t kind); /* "step", … */
/* chart.c */
/* The width of the run over which bins and readings are drawn. */
double stk_report_span_s(const struct stk_profile *p);
/* Rates over [0, span) in n columns. */
enum stk_series {
    STK_SERIES_READ_BPS,
    STK_SERIES_WRITE_BPS,
    STK_SERIES_READS,
    STK_SERIES_META,
    STK_SERIES_IO,  /* threads in I/O calls, mean */
    STK_SERIES_CPU, /* cores */
    STK_SERIES_IOWAIT,
    STK_SERIES_GPU,   /* 0..1 */
    STK_SERIES_MEMORY /* resident bytes of the processes */
};
/* Labels of the bins of stk_counts.read_size (profile.c). */
extern const char *const stk_report_size_name[STK_SIZE_BINS];
/* Fills v[n]; negative: unknown. False: all is unknown. */
bool stk_report_series(const struct stk_profile *p, enum stk_series what, double *v, size_t n);
void stk_report_chart(const struct stk_report *r, struct stk_buf *out);

/* [low, high], or null if it is unknown. */
void stk_report_interval(struct stk_jw *w, const char *key, struct stk_interval i);
/* A struct stk_verdict as a value, for a field; null without runs. */
extern const struct stk_result_field stk_verdict_fields[];
void stk_verdict_put(const void *verdict, struct stk_jw *w);
void stk_report_verdict(struct stk_jw *w, const char *key, const struct stk_verdict *v);

#endif
