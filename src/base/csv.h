/*
 * csv.h - the syntax of CSV (RFC 4180, and what Python's csv module writes and reads): rows of a
 * file, cells of a row, and writing a cell. What cells mean is not known here.
 */
#ifndef STK_BASE_CSV_H
#define STK_BASE_CSV_H

#include "base/buf.h"

/* One cell of a row. Borrowed from the row. */
struct stk_csv_cell {
    const char *p; /* without the quotes around it */
    size_t n;
    bool quoted;
    bool doubled; /* has "" in it: not yet the text itself */
};

/* Walks the cells of one row (without its line end). Begin with more = true. */
struct stk_csv_row {
    const char *p, *end;
    char delim;
    bool more; /* a cell is still to come: a row has one more than it has delimiters */
};

/* 1: a cell; 0: no more; negative: bad quoting (err, where in the row is not known). */
int stk_csv_next(struct stk_csv_row *r, struct stk_csv_cell *c, struct stk_err *err);
/* Copies the cell's text to out (room for c->n) with "" as ", returns its length. */
size_t stk_csv_unquote(const struct stk_csv_cell *c, char *out);

/*
 * Finds rows in bytes that come in windows of any size. A row that is blank is not reported.
 * Nothing is held in memory: a row may be longer than any window.
 */
struct stk_csv_scan {
    char delim;
    /* Row [off, off + len) without its line end; cells counts delimiters + 1. */
    int (*row)(void *user, uint64_t off, uint64_t len, uint64_t cells, struct stk_err *err);
    void *user;
    uint64_t row_start; /* set to the offset of the first byte; also where an open quote began */
    bool quoted;        /* inside quotes; after the last byte: the quote is never closed */
    /* Private, zero at the beginning. */
    uint64_t delims;
    bool pending; /* the window ended on a quote that ends the cell or is the first of "" */
    char prev;
};

/* The bytes p[0..n) at offset base, which follow those before. Passes on what row() returns. */
int stk_csv_scan_bytes(struct stk_csv_scan *sc, uint64_t base, const char *p, size_t n,
                       struct stk_err *err);
/* After the last byte (the file's size is end): reports a row without a line end. */
int stk_csv_scan_end(struct stk_csv_scan *sc, uint64_t end, struct stk_err *err);

/* The one of choices there is most of in the first line that is not empty, outside quotes; of
 * equally many the first. '\0': none of them is there. */
char stk_csv_guess(const char *p, size_t n, const char *choices);

/* Whether the first rows, of which there are two or more, all have as many of them outside quotes,
 * and at least one. whole: p[0..n) is all there is, else the last row may be cut off. */
bool stk_csv_is_regular(const char *p, size_t n, bool whole, char delim);

/* Appends a cell: in quotes where it must be. */
void stk_csv_put(struct stk_buf *out, const char *p, size_t n, char delim);
/* In quotes anyway. */
void stk_csv_put_quoted(struct stk_buf *out, const char *p, size_t n);

#endif
