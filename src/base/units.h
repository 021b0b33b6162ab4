/* units.h - sizes, durations and counts as text. */
#ifndef STK_BASE_UNITS_H
#define STK_BASE_UNITS_H

#include "base/err.h"

/* "64M" = 64 MiB; K M G T P and Ki.. are powers of 1024, kB MB GB.. powers of 1000; plain bytes. */
int stk_parse_size(const char *s, uint64_t *bytes, struct stk_err *err);
/* "90", "1.5m", "2h", "250ms": seconds unless a unit says otherwise. */
int stk_parse_duration(const char *s, double *seconds, struct stk_err *err);
/* "80%" or "80" = 0.8. */
int stk_parse_percent(const char *s, double *fraction, struct stk_err *err);
int stk_parse_u64(const char *s, uint64_t *v, struct stk_err *err);
/* Renders into buf and returns it: "1.50 GiB", "4,096 B"; "12.3 s", "1 h 02 min"; "1,234,567". */
const char *stk_format_size(uint64_t bytes, char *buf, size_t n);
/* "58.9 %": only the whole is 100 %, and only nothing is 0. "1.95x", "16.8x". */
const char *stk_format_share(double share, char *buf, size_t n);
const char *stk_format_times(double factor, char *buf, size_t n);
const char *stk_format_duration(double seconds, char *buf, size_t n);
const char *stk_format_count(uint64_t v, char *buf, size_t n);
/* Four digits, and never an exponent for what people count: "0.01234", "1234", "12,709". */
const char *stk_format_number(double v, char *buf, size_t n);

#endif
