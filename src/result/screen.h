/*
 * screen.h - a result as text for a terminal: rows of titles and values, tables, sentences; as wide
 * as the terminal.
 */
#ifndef STK_RESULT_SCREEN_H
#define STK_RESULT_SCREEN_H

#include "result/field.h"
#include "result/grid.h"

struct stk_screen {
    const char *subject; /* what the result is of */
    unsigned columns, table_columns; /* of sentences; of rows and tables, which a file has whole */
    unsigned rows; /* of the terminal, which tables are made to fit; 0: as many as there are */
    bool utf8;
    bool line; /* one line, for a log: the figures only */
    size_t problems; /* shown at most; 0: as many as the field says */
    size_t top;      /* rows of a table; 0: all */
    unsigned parts;  /* of the result, as its fields name them */
    const void *style; /* an option for fields that draw themselves; NULL: none */
    /* Of the renderer. */
    struct stk_buf *out;
    const struct stk_jval *result;
    struct stk_grid grid;
    bool in_grid, any;
    const char *mark; /* of the row being written */
};

/* Appends the screen to s->out. */
void stk_screen_draw(const struct stk_result_kind *kind, const struct stk_jval *result,
                     struct stk_screen *s);

/* For fields that draw themselves. A row of a title and a text that is safe to show. */
void stk_screen_row(struct stk_screen *s, const char *title, const char *text);
/* Ends the rows. */
void stk_screen_end(struct stk_screen *s);
/* The same, and begins a part of its own: an empty line stands before it. */
void stk_screen_part(struct stk_screen *s);
/* The fields of an object: a row of a table in full. */
void stk_screen_fields(const struct stk_result_field *f, const struct stk_jval *obj,
                       struct stk_screen *s);
/* A table as the field describes it, in the part that has begun. */
void stk_screen_table(const struct stk_result_field *f, const struct stk_jval *rows,
                      struct stk_screen *s);
/* A sentence in the part that has begun, indented. */
void stk_screen_say(struct stk_screen *s, const char *fmt, ...) STK_PRINTF(2, 3);

/* Breaks text at blanks into lines of `columns`, indented by `indent` blanks; escaped. */
void stk_report_wrapped(const char *text, unsigned indent, unsigned columns, struct stk_buf *out);
/* Escapes text and cuts its end. Borrowed from b. */
const char *stk_word_cut(struct stk_buf *b, const char *text, size_t columns);

#endif
