/* plot.h - the plots of a table (field.h) as blocks of the page (blocks.h). */
#ifndef STK_RESULT_PLOT_H
#define STK_RESULT_PLOT_H

#include "result/field.h"

/* Of the table f, and of the table `inner` in each of its rows. Nothing if there is nothing to draw. */
void stk_plot_draw(const struct stk_result_field *f, const struct stk_jval *rows,
                   const struct stk_jval *result, struct stk_jw *w);
void stk_plot_draw_inner(const struct stk_result_field *f, const struct stk_result_field *inner,
                         const struct stk_jval *rows, struct stk_jw *w);

#endif
