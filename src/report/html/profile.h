/* profile.h - shared by the files that put profiles on a page. */
#ifndef STK_REPORT_HTML_PROFILE_H
#define STK_REPORT_HTML_PROFILE_H

#include "advice/advice.h"
#include "report/html/priv.h"
#include "report/report_priv.h"

#define STK_PG_PROFILES_MAX 64

struct stk_pg_profiles {
    size_t n;
    struct stk_judged *judged[STK_PG_PROFILES_MAX];
    char *name[STK_PG_PROFILES_MAX];
};

/* ---- profile_compare.c ---- */

struct stk_report stk_pg_report_of(const struct stk_judged *j);
double stk_pg_known(double v); /* NaN for what is below zero: unknown */
/* Adds a section if the page has several profiles. */
int stk_pg_profiles_compare(struct stk_page *page, struct stk_err *err);

#endif
