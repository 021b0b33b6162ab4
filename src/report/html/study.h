/* study.h - shared by the files that put studies on a page. */
#ifndef STK_REPORT_HTML_STUDY_H
#define STK_REPORT_HTML_STUDY_H

#include "report/html/priv.h"
#include "scaling/scaling.h"

/* What N counts. */
static inline const char *stk_pg_study_unit(const struct stk_scaling *all)
{
    return all->study->unit ? all->study->unit : "N";
}

static inline const char *stk_pg_series_name(const struct stk_scaling_series *s)
{
    return s->from->name && *s->from->name ? s->from->name : "measured";
}

/* Speedup, time, efficiency and cost over N. */
void stk_pg_study_plots(struct stk_jw *w, const struct stk_scaling *all);

#endif
