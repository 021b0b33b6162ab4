/*
 * inspect.h - what `stoker inspect` says of a dataset, or of one of its samples.
 */
#ifndef STK_REPORT_INSPECT_H
#define STK_REPORT_INSPECT_H

#include "dataset/inspect.h"
#include "result/field.h"

struct stk_inspect_shown {
    const char *path; /* as the user named it */
    const struct stk_inspect *in;
    const struct stk_notes *notes;
    const struct stk_problems *problems;
    const struct stk_sample *first; /* NULL: there is none, or it cannot be read */
};
extern const struct stk_result_kind stk_inspect_kind; /* of a struct stk_inspect_shown */

/* sample.c: one sample, by its number. */
struct stk_sample_shown {
    const struct stk_sample *sample;
    uint64_t number;
};
extern const struct stk_result_kind stk_sample_kind; /* of a struct stk_sample_shown */
/* Its fields, as the rows of a table: kind, type, shape, size, a preview. */
extern const struct stk_result_field stk_sample_fields[];
void stk_put_sample_fields(const struct stk_sample *s, struct stk_jw *w);

#endif
