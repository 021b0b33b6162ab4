/*
 * scale.h - a scaling study for people and for programs: table, curve, sentences, JSON, CSV.
 * Everything shown was computed before (scaling/scaling.h); nothing here decides.
 */
#ifndef STK_REPORT_SCALE_H
#define STK_REPORT_SCALE_H

#include "base/json.h"
#include "scaling/scaling.h"

/* What a plot shows over N. */
enum stk_plot {
    STK_PLOT_NONE,
    STK_PLOT_SPEEDUP, /* against the slowest base of all series, the same for all */
    STK_PLOT_TIME,    /* or the metric */
    STK_PLOT_LOGLOG   /* the same, both axes logarithmic */
};

/* The whole text: one table per series, the curves, sentences, cautions. columns: at least 60. */
void stk_scale_text(const struct stk_scaling *s, unsigned columns, bool utf8, enum stk_plot plot,
                    struct stk_buf *out);

/* Its parts. */
void stk_scale_table(const struct stk_scaling *s, size_t series, bool utf8, struct stk_buf *out);
/* All series in one plot, with the ideal. Nothing with fewer than two N. */
void stk_scale_plot(const struct stk_scaling *s, enum stk_plot kind, unsigned columns, bool utf8,
                    struct stk_buf *out);
void stk_scale_sentences(const struct stk_scaling *s, size_t series, unsigned columns,
                         struct stk_buf *out);

/* Appends the i-th sentence about the law, its limit and peak, and the plateau; none: nothing is
 * appended. False: i is past the last. A page has the same sentences. */
bool stk_scale_shown(const struct stk_scaling *all, size_t series, size_t i, struct stk_buf *out);
/* "Balanced: N=6 takes ...; beyond it ..." */
void stk_scale_choice_text(const struct stk_choice *c, struct stk_buf *out);
/* What these sentences say in short: the serial part and the plateau, with what is not known of
 * them. Append nothing if there is none. */
void stk_scale_serial_text(const struct stk_scaling_series *s, struct stk_buf *out);
void stk_scale_plateau_text(const struct stk_scaling *all, const struct stk_scaling_series *s,
                            struct stk_buf *out);

/* Members of the open object; names as in docs/scale.md. */
void stk_scale_json(const struct stk_scaling *s, struct stk_jw *w);
/* One row per N and series, with a header; unknown cells are empty. */
void stk_scale_csv(const struct stk_scaling *s, struct stk_buf *out);

#endif
