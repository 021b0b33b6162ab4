/* tune.h - what `stoker tune` found: the ranked table, the commands, the same as JSON. */
#ifndef STK_REPORT_TUNE_H
#define STK_REPORT_TUNE_H

#include "tune/tune.h"

void stk_tune_screen(const struct stk_tune *t, unsigned columns, bool utf8, struct stk_buf *out);
/* Members of the open object. */
/* The verdict: what to change, or why nothing. */
void stk_tune_said(const struct stk_tune *t, struct stk_buf *out);
void stk_tune_json(const struct stk_tune *t, struct stk_jw *w);
/* The code that carries out a candidate, for people to paste. Caller frees with
 * stk_snippets_release(). */
void stk_tune_code(const struct stk_tune *t, const struct stk_tune_candidate *c,
                   struct stk_snippets *out);
/* What a study of `stoker scale` recommends. */
struct stk_tune_scale {
    double nodes;   /* NaN: the study does not say */
    uint64_t tasks; /* 0: it does not count processes */
    char why[200];
};
/* Lines of a batch file for the best candidate, each with its reason. scale: NULL: no study. */
void stk_tune_ask(const struct stk_tune *t, const struct stk_tune_scale *scale,
                  struct stk_buf *out);
void stk_tune_check_text(const struct stk_tune_check *c, unsigned columns, struct stk_buf *out);
void stk_tune_check_json(const struct stk_tune_check *c, struct stk_jw *w);

#endif
