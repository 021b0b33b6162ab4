/* scale.h - the result of `stoker scale`, as scaling/scaling.h has computed it. */
#ifndef STK_REPORT_SCALE_H
#define STK_REPORT_SCALE_H

#include "result/field.h"
#include "scaling/scaling.h"

/* What the screen plots over N: the `style` of its screen (enum stk_plot); NULL: speedup. */
enum stk_plot {
    STK_PLOT_NONE,
    STK_PLOT_SPEEDUP, /* against the slowest base of all series, the same for all */
    STK_PLOT_TIME,    /* or the metric */
    STK_PLOT_LOGLOG   /* the same, both axes logarithmic */
};

extern const struct stk_result_kind stk_scale_kind; /* of a struct stk_scaling */

/* All series in one plot, with the ideal. Nothing with fewer than two N. */
void stk_scale_plot(const struct stk_jval *result, enum stk_plot kind, unsigned columns, bool utf8,
                    struct stk_buf *out);
/* The plots of the page. */
void stk_scale_plots(const struct stk_jval *result, struct stk_jw *w);

/* "measured" for a series without a name. */
const char *stk_scale_series_word(const char *name);
const char *stk_scale_law_word(const char *id); /* "Amdahl's law" */

#endif
