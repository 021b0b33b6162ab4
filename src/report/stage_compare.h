/*
 * stage_compare.h - a comparison of forms (stage/compare.h) for people and for programs. Everything
 * shown was computed before; nothing here decides.
 */
#ifndef STK_REPORT_STAGE_COMPARE_H
#define STK_REPORT_STAGE_COMPARE_H

#include "base/json.h"
#include "stage/compare.h"

/* columns: at least 60. */
void stk_stage_compare_text(const struct stk_compare *c, unsigned columns, bool utf8,
                            struct stk_buf *out);
/* Members of the open object; names as in docs/stage.md. */
void stk_stage_compare_json(const struct stk_compare *c, struct stk_jw *w);

#endif
