/*
 * profile.h - what `stoker report` and `stoker advise` say of a profile, as fields of a result.
 * docs/profile.md defines each number.
 */
#ifndef STK_REPORT_PROFILE_H
#define STK_REPORT_PROFILE_H

#include "report/report.h"
#include "result/field.h"

/* Of a struct stk_report: the whole profile; the findings alone. */
extern const struct stk_result_kind stk_profile_kind, stk_advise_kind;
/* Of nothing: every rule. */
extern const struct stk_result_kind stk_rules_kind;

/* What is drawn of it, as JSON: these parts; 0: all. */
int stk_profile_fill(const struct stk_result_kind *kind, const struct stk_report *r, unsigned parts,
                     struct stk_arena *arena, struct stk_jval **result, struct stk_err *err);
/* Draws those parts of it (enum stk_report_part). */
void stk_profile_draw(const struct stk_result_kind *kind, const struct stk_report *r,
                      unsigned parts, struct stk_buf *out);
/* A screen of it that was saved: the first look fits one of 24 rows. */
void stk_profile_draw_result(const struct stk_result_kind *kind, const struct stk_jval *result,
                             struct stk_screen *s);

/* ---- findings.c ---- */

extern const struct stk_result_field stk_finding_fields[];
void stk_put_findings(const void *report, struct stk_jw *w);
void stk_draw_findings(const struct stk_result_field *f, const struct stk_jval *obj,
                       struct stk_screen *s);
void stk_draw_verdict(const struct stk_result_field *f, const struct stk_jval *obj,
                      struct stk_screen *s);
void stk_page_findings(const struct stk_jval *result, struct stk_jw *w);

/* ---- profile_time.c ---- */

extern const struct stk_result_field stk_profile_time_fields[]; /* of a struct stk_analysis */
void stk_draw_chart(const struct stk_result_field *f, const struct stk_jval *obj,
                    struct stk_screen *s);
void stk_put_marks(const void *report, struct stk_jw *w);

struct stk_bin_row {
    double at_s;
    struct stk_prof_bin b;
};
extern const struct stk_result_field stk_bin_fields[], stk_reading_fields[], stk_phase_fields[];
/* The i-th bin as a row; false: the run has ended, and nothing came later. */
bool stk_profile_bin(const struct stk_profile *p, size_t i, struct stk_bin_row *row);

/* What is drawn over time, read back from the result: bins, readings and marks of steps; epochs,
 * the main loop and the job's totals. */
struct stk_profile_time {
    struct stk_profile p;
    struct stk_analysis a;
};
int stk_profile_time_of(const struct stk_jval *result, struct stk_profile_time *t,
                        struct stk_arena *arena);

/* ---- html/profile_plots.c ---- */

void stk_pg_profile_plots(const struct stk_jval *result, struct stk_jw *w);

#endif
