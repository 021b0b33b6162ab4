/*
 * inspect.h - a dataset, or one of its samples, for people and for programs. Keys, names and values
 * come from the dataset and are escaped for the terminal.
 */
#ifndef STK_REPORT_INSPECT_H
#define STK_REPORT_INSPECT_H

#include "base/json.h"
#include "dataset/inspect.h"

struct stk_inspect_screen {
    const char *path; /* as the user named it */
    const struct stk_inspect *in;
    const struct stk_notes *notes;
    const struct stk_problems *problems;
    const struct stk_sample *first; /* NULL: there is none, or it cannot be read */
    unsigned columns;
    bool utf8;
};

void stk_inspect_text(const struct stk_inspect_screen *s, struct stk_buf *out);
/* Members of the open object. */
void stk_inspect_json(const struct stk_inspect_screen *s, struct stk_jw *w);

/* sample.c: its number and key, and its fields. */
void stk_sample_text(const struct stk_sample *s, uint64_t number, unsigned columns,
                     struct stk_buf *out);
/* The fields as a table: kind, type, shape, size, a preview. */
void stk_sample_table(const struct stk_sample *s, unsigned columns, struct stk_buf *out);
/* Members of the open object. */
void stk_sample_json(const struct stk_sample *s, uint64_t number, struct stk_jw *w);

#endif
