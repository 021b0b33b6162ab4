/* columns.h - what a user or a manifest says about tables of text: header, types of columns. */
#ifndef STK_DATA_COLUMNS_H
#define STK_DATA_COLUMNS_H

#include "format/format.h"

/* "x=int,name=text" as the lines of format/csv.h's context; *out is NULL for NULL and "". Caller
 * frees with free(). */
int stk_columns_parse(const char *spec, char **out, struct stk_err *err);
/* "auto", "yes", "no" or NULL; negative and err for anything else. */
int stk_columns_header(const char *text, struct stk_err *err);
/* 16 bits that tell one such setting from another, for the index; 0: nothing is said. */
uint32_t stk_columns_told(const struct stk_list_options *o);

#endif
