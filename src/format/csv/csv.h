/*
 * csv.h - what the CSV format, its codec and their tests share: the columns of a dataset, kept as
 * its context (csv_schema.c). The syntax of rows and cells is that of base/csv.h.
 */
#ifndef STK_FORMAT_CSV_CSV_H
#define STK_FORMAT_CSV_CSV_H

#include "base/csv.h"
#include "format/format.h"

/* ---- columns --------------------------------------------------------------------------------- */

#define STK_CSV_COLUMNS_MAX (1u << 20)

enum stk_csv_type {
    STK_CSV_UNKNOWN = 'u', /* no rows yet */
    STK_CSV_EMPTY = 'e',   /* only empty cells yet: read as text */
    STK_CSV_INT = 'i',
    STK_CSV_INT_WIDE = 'w', /* integers, some of which a float would change */
    STK_CSV_INT_GAPS = 'g', /* integers and empty cells: read as floats */
    STK_CSV_FLOAT = 'f',
    STK_CSV_TEXT = 't',
    STK_CSV_BOOL = 'b', /* from here on: only if given (a dataset of ours, --types) */
    STK_CSV_JSON = 'j',
    STK_CSV_BYTES = 'y',
    STK_CSV_INT_NULL = 'p', /* an empty cell is null */
    STK_CSV_FLOAT_NULL = 'q',
    STK_CSV_TEXT_NULL = 's',
    STK_CSV_BOOL_NULL = 'o',
};
#define STK_CSV_TYPES "ueiwgftbjypqso" STK_CSV_WIDTHS
/* Only if given: numbers of other widths, uint8 int8 uint16 int16 uint32 int32 uint64 float32. */
#define STK_CSV_WIDTHS "acdhklmr"
/* Types with null, and at the same places those without. */
#define STK_CSV_NULLABLE "pqso"
#define STK_CSV_PLAIN    "iftb"

struct stk_csv_column {
    const char *name; /* in the arena; unique, not empty, no control characters */
    size_t name_len;
    char type;       /* enum stk_csv_type */
    uint8_t seen;    /* kinds of cells so far (csv_schema.c) */
    bool told;       /* the type is given, not detected */
    bool single;     /* not an element of an array, whatever its name */
    const char *was; /* the name in the header if another column has it; else NULL */
};

/* What is given about a table and need not be detected. */
struct stk_csv_told {
    char delim;        /* 0: detect */
    int header;        /* enum stk_list_header */
    const char *types; /* lines as in the context, or NULL */
};

struct stk_csv_schema {
    char delim;
    bool header;
    const char *because;       /* why the first row is a header or not; NULL: given */
    const char *delim_because; /* why this delimiter; NULL: given, or the comma */
    struct stk_csv_column *column;
    size_t ncolumns; /* 0: the file has no rows */
    struct stk_arena arena;
};

/* Detects names and types from the first bytes of a file (after a byte order mark); whole: these
 * are the whole file. Caller frees with stk_csv_schema_release(), also on error. */
int stk_csv_infer(const char *p, size_t n, bool whole, const struct stk_csv_told *told,
                  struct stk_csv_schema *sc, struct stk_err *err);
/* Adds a row of data (without its line end): widens the types as its cells need. */
void stk_csv_widen(struct stk_csv_schema *sc, const char *p, size_t n);
void stk_csv_schema_release(struct stk_csv_schema *sc);
/* Appends the context: a line "csv DELIMITER HEADER COLUMNS", then a line per column (its type and
 * name: "ilabel"), columns NAME_0, NAME_1, ... of numbers as one ("F784 pixel": the elements of an
 * array). */
int stk_csv_context_write(const struct stk_csv_schema *sc, struct stk_buf *out,
                          struct stk_err *err);
/* The context that fits the rows of both files: the wider type if they differ. Refuses other
 * columns. Serves as stk_format's merge_context. */
int stk_csv_context_merge(const char *a, size_t a_len, const char *b, size_t b_len,
                          struct stk_buf *out, struct stk_err *err);

/* The enum stk_dtype of a column of numbers (or bool), 0: it has none; and back. */
uint8_t stk_csv_dtype(char type);
char stk_csv_of_dtype(uint8_t dtype);
/* The type as which cells of such a column are read. */
char stk_csv_reads_as(char type);
/* Why a column of numbers is text; NULL: it is not text, or has other cells. */
const char *stk_csv_why_text(const struct stk_csv_column *c);

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
    uint64_t count; /* columns it covers */
};
int stk_csv_context_open(struct stk_csv_context *c, const char *text, size_t len,
                         struct stk_err *err);
/* 1: an entry; 0: no more; negative: damaged. */
int stk_csv_context_next(struct stk_csv_context *c, struct stk_csv_entry *e, struct stk_err *err);

#endif
