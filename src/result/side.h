/*
 * side.h - a table whose rows stand side by side (STK_F_SIDE): each is a column, with its first
 * field as the title. A line is a figure of them all; or, if a table stands in each row, what the
 * rows of these tables with the same first field have as the member `by`.
 */
#ifndef STK_RESULT_SIDE_H
#define STK_RESULT_SIDE_H

#include "result/field.h"

#define STK_SIDE_LINES 256

struct stk_side {
    const struct stk_jval *rows;
    const struct stk_result_field *first; /* gives the titles of the columns */
    const struct stk_result_field *inner; /* the table in each row; NULL: lines are figures */
    const struct stk_result_field *cell;  /* of inner: what is shown */
    bool cut; /* there are more lines than these */
    size_t n;
    const struct stk_result_field *figure[STK_SIDE_LINES];
    const struct stk_jval *row[STK_SIDE_LINES]; /* of inner: the first with this key */
};

/* hidden: fields with one of these flags have no line. */
void stk_side_of(struct stk_side *s, const struct stk_result_field *f, const struct stk_jval *rows,
                 unsigned hidden);
const struct stk_jval *stk_side_cell(const struct stk_side *s, size_t line, size_t column);
/* How the cells of a line are shown. */
const struct stk_result_field *stk_side_field(const struct stk_side *s, size_t line);
/* "2.00x less", "same": the second against the first. */
const char *stk_side_change(const struct stk_side *s, size_t line, char *buf, size_t size);

#endif
