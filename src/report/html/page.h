/*
 * page.h - results of any command as one HTML file that works from disk, without a request.
 *
 * Each kind of result is one file here and one row of the table in kinds.c. It reduces the result
 * to what a page shows: a verdict, one number, findings, plots and tables (web/src draws them
 * without knowing kinds).
 */
#ifndef STK_REPORT_HTML_PAGE_H
#define STK_REPORT_HTML_PAGE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

/* Whether this build carries the page (web/); the error says what is missing and what to do. */
int stk_page_check(struct stk_err *err);

/* Reads the results at path[0..n) and appends the data of a page, as JSON. trust: users whose
 * profiles and studies may be read (stk_folder_believe()); NULL: none but the usual. *live (may be
 * NULL): one of them is still growing. */
int stk_page_data(const char *const *path, size_t n, const char *trust, struct stk_buf *out,
                  bool *live, struct stk_err *err);
/* The page with that data. */
int stk_page_html(const struct stk_buf *data, struct stk_buf *out, struct stk_err *err);

#endif
