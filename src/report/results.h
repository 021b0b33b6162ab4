/* results.h - the table of the kinds of results: what a command with --json writes, and how it is drawn. */
#ifndef STK_REPORT_RESULTS_H
#define STK_REPORT_RESULTS_H

#include "result/field.h"

extern const struct stk_result_kind *const stk_result_kinds[]; /* NULL-terminated */
/* The kind of a result of that command; NULL: none, or not a result (command NULL). */
const struct stk_result_kind *stk_result_kind_of(const char *command,
                                                 const struct stk_jval *result);

#endif
