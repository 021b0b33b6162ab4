/*
 * csv.h - the syntax of CSV (RFC 4180, and what Python's csv module writes and reads): rows of a
 * file, cells of a row, and writing a cell. It does not interpret cells.
 */
#ifndef STK_BASE_CSV_H
#define STK_BASE_CSV_H

#include "base/buf.h"

/* One cell of a row. Borrowed from the row. */
struct stk_csv_cell {
    const char *p; /* without the quotes around it */
    size_t n;
    bool quoted;
    bool doubled; /* contains "": needs stk_csv_unquote() */
};

/* Walks the cells of one row (without its line end). Start with more = true. */
struct stk_csv_row {
    const char *p, *end;
    char delim;
    bool more; /* another cell follows: a row has one cell more than delimiters */
};

/* 1: a cell; 0: no more; negative: bad quoting (err has no position). */
int stk_csv_next(struct stk_csv_row *r, struct stk_csv_cell *c, struct stk_err *err);
/* Copies the cell's text to out (room for c->n) with "" as ", returns its length. */
size_t stk_csv_unquote(const struct stk_csv_cell *c, char *out);

/*
 * Finds rows in bytes that come in windows of any size. Does not report blank rows. Keeps nothing
 * in memory: a row may be longer than any window.
 */
struct stk_csv_scan {
    char delim;
    /* Row [off, off + len) without its line end; cells counts delimiters + 1. */
    int (*row)(void *user, uint64_t off, uint64_t len, uint64_t cells, struct stk_err *err);
    void *user;
    uint64_t row_start; /* offset of the current row, where an open quote began; set it to that of
                         * the first byte */
    bool quoted;        /* inside quotes; if set after the last byte, a quote is not closed */
    /* Private, zero at the start. */
    uint64_t delims;
    bool pending; /* the window ended in a quote that closes the cell or begins a "" */
    char prev;
};

/* Scans p[0..n) at offset base, which follow the last bytes scanned. Returns the error of row(). */
int stk_csv_scan_bytes(struct stk_csv_scan *sc, uint64_t base, const char *p, size_t n,
                       struct stk_err *err);
/* After the last byte (the file's size is end): reports a row without a line end. */
int stk_csv_scan_end(struct stk_csv_scan *sc, uint64_t end, struct stk_err *err);

/* The character of `choices` that occurs most often in the first non-empty line, outside quotes;
 * the first of equals. '\0': none occurs. */
char stk_csv_guess(const char *p, size_t n, const char *choices);

/* True if there are at least two rows and all have the same number of delimiters outside quotes,
 * and at least one. whole: p[0..n) is the whole file; else the last row may be cut off. */
bool stk_csv_is_regular(const char *p, size_t n, bool whole, char delim);

/* Appends a cell, quoted if needed. */
void stk_csv_put(struct stk_buf *out, const char *p, size_t n, char delim);
/* Appends a cell, always quoted. */
void stk_csv_put_quoted(struct stk_buf *out, const char *p, size_t n);

/* The same for a text: one that a spreadsheet would run as a formula gets a leading '. */
void stk_csv_put_text(struct stk_buf *out, const char *text);

#endif
