/* grid.c - aligned tables and bars, rendered into a buffer. */
#include "result/grid.h"

#include <langinfo.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/text.h"
#include "result/field.h"

#define NARROWEST 6u
#define CUT_WIDTH 12u /* columns of a text that may be cut, when columns are left out */
#define WRAPPED   24u /* columns for text that is wrapped, at least */

void stk_grid_init(struct stk_grid *t, const char *align)
{
    *t = (struct stk_grid){.align = align, .ncols = strlen(align), .gap = 2};
}

void stk_grid_release(struct stk_grid *t)
{
    stk_buf_release(&t->text);
}

static void add_cell(struct stk_grid *t, size_t column, const char *cell)
{
    size_t n = strlen(cell), w = stk_text_width(cell, n);
    stk_buf_put(&t->text, cell, n + 1);
    t->width[column] = w > t->width[column] ? w : t->width[column];
}

void stk_grid_row(struct stk_grid *t, ...)
{
    va_list ap;
    va_start(ap, t);
    for (size_t i = 0; i < t->ncols; i++)
        add_cell(t, i, va_arg(ap, const char *));
    va_end(ap);
    t->nrows++;
}

void stk_grid_cells(struct stk_grid *t, struct stk_buf *cells)
{
    const char *cell = stk_buf_cstr(cells);
    t->text.fail = t->text.fail || cells->fail;
    for (size_t i = 0; i < t->ncols && !cells->fail; i++) {
        add_cell(t, i, cell);
        cell += strlen(cell) + 1;
    }
    t->nrows++;
    stk_buf_reset(cells);
}

static void pad(struct stk_buf *out, size_t n)
{
    while (n--)
        stk_buf_putc(out, ' ');
}

static size_t width_of(const struct stk_grid *t, unsigned indent)
{
    size_t all = indent;
    for (size_t i = 0; i < t->ncols - t->dropped; i++)
        all += t->width[i] + (i ? t->gap : 0);
    return all;
}

void stk_grid_drop(struct stk_grid *t, unsigned indent, unsigned columns)
{
    size_t used = indent, n = 0;
    for (; n < t->ncols; n++) {
        bool cut = strchr("eb", t->align[n]) && t->width[n] > CUT_WIDTH;
        used += (cut ? CUT_WIDTH : t->width[n]) + (n ? t->gap : 0);
        if (used > columns && n > 1)
            break;
    }
    t->dropped = t->ncols - n;
}

void stk_grid_narrow(struct stk_grid *t, unsigned indent, unsigned columns)
{
    t->gap = width_of(t, indent) > columns ? 1 : t->gap;
}

void stk_grid_fit(struct stk_grid *t, unsigned indent, unsigned columns)
{
    size_t all = width_of(t, indent);
    size_t n = t->ncols - t->dropped, *last = &t->width[n - 1];
    if (all > columns && t->align[n - 1] == 'w') {
        size_t others = all - *last;
        *last = others + WRAPPED < columns ? columns - others : WRAPPED;
        return;
    }
    for (; all > columns; all--) {
        size_t widest = n;
        for (size_t i = 0; i < n; i++)
            if (strchr("eb", t->align[i]) && t->width[i] > NARROWEST &&
                (widest == n || t->width[i] > t->width[widest]))
                widest = i;
        if (widest == n)
            return;
        t->width[widest]--;
    }
}

/* Replaces what is cut by "...". Returns the columns used. */
static size_t put_cut(const char *cell, size_t n, size_t columns, bool end, struct stk_buf *out)
{
    size_t all = stk_text_width(cell, n), room = columns > 3 ? columns - 3 : 0, at = 0, used = 0;
    size_t skip = end ? 0 : all - room, shown = 0;
    if (end)
        shown = room;
    else
        stk_buf_puts(out, "...");
    while (at < n) {
        uint32_t cp = 0;
        size_t len = stk_utf8_next(cell + at, n - at, &cp), w = len ? stk_cp_width(cp) : 1;
        len = len ? len : 1;
        if (end ? used + w > shown : used >= skip)
            break;
        if (end)
            stk_buf_put(out, cell + at, len);
        used += w;
        at += len;
    }
    if (end)
        stk_buf_puts(out, "...");
    else
        stk_buf_put(out, cell + at, n - at);
    return 3 + (end ? used : all - used);
}

/* Words on lines of at most `columns`, the first of which has begun; the others begin `at` columns in. */
static void put_wrapped(const char *cell, size_t columns, size_t at, struct stk_buf *out)
{
    size_t used = 0;
    while (*cell) {
        size_t blanks = strspn(cell, " "), n = strcspn(cell + blanks, " ");
        size_t w = stk_text_width(cell + blanks, n);
        if (used && used + blanks + w > columns) {
            stk_buf_putc(out, '\n');
            pad(out, at);
            used = blanks = 0;
            cell += strspn(cell, " ");
        }
        stk_buf_put(out, cell, blanks + n);
        used += blanks + w;
        cell += blanks + n;
    }
}

void stk_grid_render(const struct stk_grid *t, unsigned indent, struct stk_buf *out)
{
    if (t->text.fail) {
        out->fail = true;
        return;
    }
    const char *cell = (const char *)t->text.data;
    for (size_t r = 0; r < t->nrows; r++) {
        pad(out, indent);
        size_t at = indent, owed = 0; /* blanks are written only before text, so no line ends in them */
        for (size_t i = 0; i < t->ncols; i++) {
            size_t n = strlen(cell), w = stk_text_width(cell, n);
            bool right = t->align[i] == 'r', cut = w > t->width[i];
            if (i >= t->ncols - t->dropped) {
                cell += n + 1;
                continue;
            }
            size_t fill = cut ? 0 : t->width[i] - w;
            if (n) {
                pad(out, owed + (right ? fill : 0));
                owed = 0;
                if (cut && t->align[i] == 'w')
                    put_wrapped(cell, t->width[i], at, out);
                else if (cut)
                    fill = t->width[i] - put_cut(cell, n, t->width[i], t->align[i] != 'b', out);
                else
                    stk_buf_put(out, cell, n);
            }
            at += t->width[i] + t->gap;
            owed += (n ? 0 : w) + (right && n ? 0 : fill) + t->gap;
            cell += n + 1;
        }
        stk_buf_putc(out, '\n');
    }
}

const char *stk_percent_text(double fraction, char *buf, size_t size)
{
    return stk_unit_text(STK_U_SHARE, fraction, buf, size);
}

bool stk_term_utf8(void)
{
    return strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

void stk_grid_bar(double fraction, unsigned width, bool utf8, struct stk_buf *out)
{
    /* U+2588 is a full block, U+258F a left eighth. */
    if (!(fraction > 0))
        return;
    unsigned eighths = (unsigned)((fraction < 1 ? fraction : 1) * width * 8 + 0.5);
    eighths = eighths ? eighths : 1;
    if (!utf8) {
        for (unsigned i = 0; i < (eighths + 7) / 8; i++)
            stk_buf_putc(out, '#');
        return;
    }
    for (; eighths; eighths -= eighths < 8 ? eighths : 8) {
        char block[4];
        stk_buf_put(out, block, stk_utf8_put(block, 0x2590 - (eighths < 8 ? eighths : 8)));
    }
}

void stk_grid_box(double fraction, unsigned width, bool utf8, struct stk_buf *out)
{
    stk_buf_putc(out, '[');
    size_t from = out->len;
    stk_grid_bar(fraction, width, utf8, out);
    size_t have =
        from < out->len ? stk_text_width((const char *)out->data + from, out->len - from) : 0;
    pad(out, have < width ? width - have : 0);
    stk_buf_putc(out, ']');
}
