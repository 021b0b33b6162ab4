/* profile.h - shared by the files that put profiles on a page. */
#ifndef STK_REPORT_HTML_PROFILE_H
#define STK_REPORT_HTML_PROFILE_H

#include "advice/judge.h"
#include "report/html/priv.h"
#include "report/report_priv.h"

#define STK_PG_COLUMNS      256 /* of the run over time */
#define STK_PG_PROFILES_MAX 64

struct stk_pg_profiles {
    size_t n;
    struct stk_judged *judged[STK_PG_PROFILES_MAX];
    char *name[STK_PG_PROFILES_MAX];
};

/* ---- profile_plots.c ---- */

/* Its plots, as items of the open list of blocks. */
void stk_pg_profile_plots(struct stk_jw *w, const struct stk_analysis *a);
/* The axis, panels and end of a plot: the parts of the time of each, as bars. */
void stk_pg_parts(struct stk_jw *w, const struct stk_analysis *const *a, const char *const *name,
                  size_t n);
/* False for fewer than two known values: one reading is not a line. */
bool stk_pg_is_line(const struct stk_profile *p, enum stk_series what);
/* Widens [*from, *to) to all bins that count something. */
void stk_pg_widen(const uint64_t *count, size_t n, size_t *from, size_t *to);

/* ---- profile_compare.c ---- */

struct stk_report stk_pg_report_of(const struct stk_judged *j);
double stk_pg_known(double v); /* NaN for what is below zero: unknown */
/* Adds a section if the page has several profiles. */
int stk_pg_profiles_compare(struct stk_page *page, struct stk_err *err);

#endif
