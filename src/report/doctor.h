/* doctor.h - a node as `stoker doctor` shows it; docs/doctor.md defines the members. */
#ifndef STK_REPORT_DOCTOR_H
#define STK_REPORT_DOCTOR_H

#include "report/formats.h"
#include "stage/survey.h"

struct stk_doctor {
    const struct stk_survey *survey;
    const struct stk_build *build;
};
extern const struct stk_result_kind stk_doctor_kind; /* of a struct stk_doctor */

#endif
