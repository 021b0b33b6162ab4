/* doctor.h - a node as `stoker doctor` shows it, for people and for programs. Names are escaped. */
#ifndef STK_REPORT_DOCTOR_H
#define STK_REPORT_DOCTOR_H

#include "base/json.h"
#include "report/formats.h"
#include "stage/survey.h"

struct stk_doctor {
    const struct stk_survey *survey;
    const struct stk_build *build;
    unsigned columns; /* at least 60 */
};

void stk_doctor_text(const struct stk_doctor *d, struct stk_buf *out);
/* Members of the open object; names as in docs/doctor.md. */
void stk_doctor_json(const struct stk_doctor *d, struct stk_jw *w);

#endif
