/* problems.h - lists of damage and notes of a dataset, for people and as JSON; shared by the
 * screens of inspect, load, pack and verify. */
#ifndef STK_REPORT_PROBLEMS_H
#define STK_REPORT_PROBLEMS_H

#include "base/json.h"
#include "dataset/dataset.h"
#include "report/grid.h"

/* Lines "file:offset: what", at most `most`, then the number of those not shown. */
void stk_problems_text(const struct stk_problems *p, size_t most, struct stk_buf *out);

/* Notes on what was left out and what was taken as something else, as rows of two columns. */
void stk_notes_rows(const struct stk_notes *s, struct stk_grid *t);
/* "2 links, 1 dataset": what was left out, by kind. */
void stk_notes_summary(const struct stk_notes *s, struct stk_buf *out);
/* Members "left_out" and "taken". */
void stk_notes_json(const struct stk_notes *s, struct stk_jw *w);

/* Members NAME (the list) and NAME_total. */
void stk_problems_json(const struct stk_problems *p, const char *name, struct stk_jw *w);

#endif
