/* tune.h - what `stoker tune` found, as results. */
#ifndef STK_REPORT_TUNE_H
#define STK_REPORT_TUNE_H

#include "result/field.h"
#include "tune/tune.h"

/* What a study of `stoker scale` recommends. */
struct stk_tune_scale {
    double nodes;   /* NaN: the study does not say */
    uint64_t tasks; /* 0: it does not count processes */
    char why[200];
};
struct stk_tune_shown {
    const struct stk_tune *tune;
    bool ask;                           /* what to ask the scheduler for, too */
    const struct stk_tune_scale *scale; /* NULL: no study */
    bool applies; /* what --apply makes is made now: it need not be said */
};
extern const struct stk_result_kind stk_tune_kind; /* of a struct stk_tune_shown */
extern const struct stk_result_kind stk_tune_check_kind; /* of a struct stk_tune_check */

/* Lines of a batch file for the best candidate, each with its reason. */
void stk_tune_ask(const struct stk_tune *t, const struct stk_tune_scale *scale,
                  struct stk_buf *out);

#endif
