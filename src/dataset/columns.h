/* columns.h - options for tables of text from the user or a manifest: header, delimiter, types. */
#ifndef STK_DATASET_COLUMNS_H
#define STK_DATASET_COLUMNS_H

#include "format/format.h"

/* "x=int,name=text" as the lines of format/csv/csv.h's context; *out is NULL for NULL and "".
 * Caller frees with free(). */
int stk_columns_parse(const char *spec, char **out, struct stk_err *err);
/* "auto", "yes", "no" or NULL; negative and err for anything else. */
int stk_columns_header(const char *text, struct stk_err *err);
/* "auto" or NULL: 0; "comma", "semicolon", "tab", "bar": the character. */
int stk_columns_delimiter(const char *text, struct stk_err *err);

#endif
