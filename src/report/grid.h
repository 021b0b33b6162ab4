/*
 * grid.h - rows of cells that line up, by what a terminal shows and not by bytes.
 */
#ifndef STK_REPORT_GRID_H
#define STK_REPORT_GRID_H

#include "base/buf.h"

#define STK_GRID_COLUMNS 10

struct stk_grid {
    /* One letter a column: 'l' left, 'r' right; 'e' left, may be cut at its end to fit, 'b' at its
     * beginning. */
    const char *align;
    size_t ncols, nrows;
    struct stk_buf text; /* the cells, NUL-terminated, one after another */
    size_t width[STK_GRID_COLUMNS];
};

void stk_grid_init(struct stk_grid *t, const char *align);
void stk_grid_release(struct stk_grid *t);
/* The cells of a row, as many as there are columns; each must be safe to show. */
void stk_grid_row(struct stk_grid *t, ...);
/* Appends the rows, each after `indent` blanks, two blanks between columns. */
void stk_grid_render(const struct stk_grid *t, unsigned indent, struct stk_buf *out);

/* Cuts columns that may be until the rows fit into so many columns: the widest first, none below
 * six. Before it is rendered. */
void stk_grid_fit(struct stk_grid *t, unsigned indent, unsigned columns);

/* A horizontal bar, `fraction` of `width` columns; anything above 0 shows at least a sliver. */
void stk_grid_bar(double fraction, unsigned width, bool utf8, struct stk_buf *out);
/* "[####    ]": the same in a box that is always as wide. */
void stk_grid_box(double fraction, unsigned width, bool utf8, struct stk_buf *out);
/* "12.3 %"; only all of it is 100 %. */
const char *stk_percent_text(double fraction, char *buf, size_t size);
/* True when the terminal's character set is UTF-8. */
bool stk_term_utf8(void);

#endif
