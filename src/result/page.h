/* page.h - a result as a part of the page: facts, plots and tables (blocks.h). */
#ifndef STK_RESULT_PAGE_H
#define STK_RESULT_PAGE_H

#include "result/field.h"

/* One result of the page. name: no other result of the page has it. subject: what it is of. */
void stk_page_draw(const struct stk_result_kind *kind, const char *name, const char *subject,
                   const struct stk_jval *result, struct stk_jw *w);

/* As CSV: the table with that key. False: it has no such table. */
bool stk_csv_draw(const struct stk_result_kind *kind, const char *table,
                  const struct stk_jval *result, struct stk_buf *out);

/* The same from structs: the first row, and that of a struct. The arena is reset. */
void stk_csv_head(const struct stk_result_field *of, struct stk_buf *out);
int stk_csv_row(const struct stk_result_field *of, const void *base, struct stk_arena *arena,
                struct stk_buf *out, struct stk_err *err);

/* The table that a command writes as CSV: a row for each object of the array `rows` of the result,
 * or of the arrays `inner` of its objects. Columns take a member, such as "value_interval.0";
 * "^name" is one of the outer row. */
struct stk_csv_member {
    const char *title, *member; /* member NULL: as the title */
};
struct stk_result_csv {
    const char *rows, *inner; /* inner: may be NULL */
    const struct stk_csv_member *column; /* ends with a title of NULL */
};
void stk_csv_columns_draw(const struct stk_result_csv *csv, const struct stk_jval *result,
                          struct stk_buf *out);

/* The JSON Schema of the results of a kind, as a value. */
void stk_schema_draw(const struct stk_result_kind *kind, struct stk_jw *w);

#endif
