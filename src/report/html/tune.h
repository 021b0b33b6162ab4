/* tune.h - shared by the files that put results of `stoker tune` on a page. */
#ifndef STK_REPORT_HTML_TUNE_H
#define STK_REPORT_HTML_TUNE_H

#include "report/html/priv.h"

/* " (95 %: 2.2 to 2.4)", the interval of "times"; nothing without one. */
const char *stk_pg_times_range(const struct stk_jval *c, char *buf, size_t size);
/* c: the member "check" of the result. */
void stk_pg_tune_check(struct stk_jw *w, const struct stk_pg_input *in, const struct stk_jval *c);

#endif
