/*
 * grid.h - rows of aligned cells, by width on a terminal and not by bytes.
 */
#ifndef STK_RESULT_GRID_H
#define STK_RESULT_GRID_H

#include "base/buf.h"

#define STK_GRID_COLUMNS 16

struct stk_grid {
    /* One letter per column: 'l' left, 'r' right; 'e' left, may be cut at its end to fit, 'b' at
     * its beginning; 'w' left, the last column only: its words go to further lines to fit. */
    const char *align;
    size_t ncols, nrows, gap; /* gap: blanks between columns */
    size_t dropped;           /* the last columns, which are not shown */
    struct stk_buf text; /* the cells, NUL-terminated, one after another */
    size_t width[STK_GRID_COLUMNS];
};

void stk_grid_init(struct stk_grid *t, const char *align);
void stk_grid_release(struct stk_grid *t);
/* The cells of a row, one per column; each must be safe to show. */
void stk_grid_row(struct stk_grid *t, ...);
/* The same: the cells stand in a buffer, each ended by a NUL. The buffer is reset. */
void stk_grid_cells(struct stk_grid *t, struct stk_buf *cells);
/* Appends the rows, indented by `indent` blanks. */
void stk_grid_render(const struct stk_grid *t, unsigned indent, struct stk_buf *out);

/* Wraps the last column, or cuts the columns that may be cut until the rows fit: the widest first, none
 * below six. Call it before rendering. */
void stk_grid_fit(struct stk_grid *t, unsigned indent, unsigned columns);

/* Leaves out the last columns, if the rows are too wide with every text cut. */
void stk_grid_drop(struct stk_grid *t, unsigned indent, unsigned columns);

/* One blank between columns in place of two, if the rows are wider than that. */
void stk_grid_narrow(struct stk_grid *t, unsigned indent, unsigned columns);

/* A horizontal bar, `fraction` of `width` columns; anything above 0 shows at least a sliver. */
void stk_grid_bar(double fraction, unsigned width, bool utf8, struct stk_buf *out);
/* "[####    ]": the same in a box of constant width. */
void stk_grid_box(double fraction, unsigned width, bool utf8, struct stk_buf *out);
/* "12.3 %"; only the whole is 100 %. */
const char *stk_percent_text(double fraction, char *buf, size_t size);
/* True when the terminal's character set is UTF-8. */
bool stk_term_utf8(void);

#endif
