/* stage.h - shared by the files that put results of `stoker stage` on a page. */
#ifndef STK_REPORT_HTML_STAGE_H
#define STK_REPORT_HTML_STAGE_H

#include "report/html/priv.h"

/* One of --compare: its member "forms" is an array that is not empty. */
void stk_pg_stage_compare(struct stk_jw *w, const struct stk_pg_input *in);

#endif
