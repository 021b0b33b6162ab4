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

/* After the name of a wish. */
static inline const char *stk_pg_doubt(const struct stk_choice *c)
{
    return c->known ? "" : ", not known";
}

/* Speedup, time, efficiency and cost over N. */
void stk_pg_study_plots(struct stk_jw *w, const struct stk_scaling *all);

/* ---- study_read.c ---- */

#define STK_PG_STUDIES_MAX 32

struct stk_pg_studies {
    size_t n;
    struct {
        struct stk_study study;
        struct stk_scaling_options options; /* of the first */
        char *name;                         /* of the files, separated by commas */
    } group[STK_PG_STUDIES_MAX];
};

/* ---- study.c ---- */

int stk_pg_studies_finish(struct stk_page *page, struct stk_err *err);

#endif
