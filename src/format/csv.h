/*
 * csv.h - what the CSV format, its codec and their tests share: the syntax of rows and cells
 * (csv_text.c) and the columns of a dataset, kept as its context (csv_schema.c).
 */
#ifndef STK_FORMAT_CSV_H
#define STK_FORMAT_CSV_H

#include "format/format.h"

/* ---- syntax: RFC 4180, and what Python's csv module writes and reads ------------------------ */

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

/* ---- columns --------------------------------------------------------------------------------- */

#define STK_CSV_COLUMNS_MAX (1u << 20)

enum stk_csv_type {
    STK_CSV_UNKNOWN = 'u', /* no rows yet */
    STK_CSV_EMPTY = 'e',   /* nothing but empty cells yet: read as text */
    STK_CSV_INT = 'i',
    STK_CSV_FLOAT = 'f',
    STK_CSV_TEXT = 't',
};

struct stk_csv_column {
    const char *name; /* in the arena; unique, not empty, no control characters */
    size_t name_len;
    char type; /* enum stk_csv_type */
};

struct stk_csv_schema {
    char delim;
    bool header;
    struct stk_csv_column *column;
    size_t ncolumns; /* 0: the file has no rows */
    struct stk_arena arena;
};

/* Finds out names and types from the first bytes of a file (behind a byte order mark); whole: they
 * are all of it. tab: the delimiter is known. Caller frees with stk_csv_schema_release(), also on
 * error. */
int stk_csv_infer(const char *p, size_t n, bool whole, bool tab, struct stk_csv_schema *sc,
                  struct stk_err *err);
void stk_csv_schema_release(struct stk_csv_schema *sc);
/* Appends the context: a line "csv DELIMITER HEADER COLUMNS", then a line a column (its type and
 * name: "ilabel"), columns NAME_0, NAME_1, ... of numbers as one ("F784 pixel": the elements of
 * an array). */
int stk_csv_context_write(const struct stk_csv_schema *sc, struct stk_buf *out,
                          struct stk_err *err);
/* The context that fits the rows of both files: the wider type where they differ. Refuses other
 * columns. As stk_format's merge_context. */
int stk_csv_context_merge(const char *a, size_t a_len, const char *b, size_t b_len,
                          struct stk_buf *out, struct stk_err *err);

/* Reading a context line by line. */
struct stk_csv_context {
    const char *p, *end;
    char delim;
    bool header;
    uint64_t ncolumns;
};
struct stk_csv_entry {
    const char *name; /* borrowed from the context */
    size_t name_len;
    char type;
    bool array;
    uint64_t count; /* columns it stands for */
};
int stk_csv_context_open(struct stk_csv_context *c, const char *text, size_t len,
                         struct stk_err *err);
/* 1: an entry; 0: no more; negative: damaged. */
int stk_csv_context_next(struct stk_csv_context *c, struct stk_csv_entry *e, struct stk_err *err);

#endif
