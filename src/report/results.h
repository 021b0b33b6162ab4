/* results.h - the kinds of results: what a command with --json writes; and reading such a file. */
#ifndef STK_REPORT_RESULTS_H
#define STK_REPORT_RESULTS_H

#include "result/field.h"

extern const struct stk_result_kind *const stk_result_kinds[]; /* NULL-terminated */
/* The kind of a result of that command; NULL: none is in the table. */
const struct stk_result_kind *stk_result_kind_of(const char *command,
                                                 const struct stk_jval *result);

struct stk_result_file {
    const struct stk_jval *root;   /* of any JSON file; NULL: not JSON */
    const char *command;           /* that wrote it with --json; NULL: something else */
    const struct stk_jval *result; /* its member "result" */
    const struct stk_result_kind *kind; /* NULL: its result is not in the table */
    const char *subject;                /* what it is of; "" if it does not say */
    struct stk_buf text;
    struct stk_arena arena;
};
/* Reads the file, if it begins like JSON. Release it in any case. */
int stk_result_file_open(const char *path, struct stk_result_file *f, struct stk_err *err);
void stk_result_file_release(struct stk_result_file *f);

/* The JSON Schema of the results of a command; false: it has none. */
bool stk_result_schema(const char *command, struct stk_buf *out);

#endif
