/*
 * csv_schema.c - the columns of a CSV file: delimiter, header, names and types from its first
 * rows; kept as the dataset's context, a short text, and joined where files differ in their types.
 */
#include "format/csv/csv.h"
#include "format/sample.h"
#include "base/num.h"
#include "base/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#define ROWS_LOOKED_AT 1000
#define ROUNDS         8 /* of renaming columns with equal names */

/* Kinds of cells seen in a column. */
enum {
    SEEN_INT = 1,
    SEEN_BIG = 2, /* past int64, or float64 */
    SEEN_FLOAT = 4,
    SEEN_TEXT = 8,
    SEEN_EMPTY = 16,
    SEEN_WIDE = 32 /* an integer (with SEEN_INT) that no double equals */
};
#define SEEN_NUMBER (SEEN_INT | SEEN_BIG | SEEN_FLOAT)

struct tally {
    uint8_t first, below;     /* in the first row; in the rows after it */
    bool again;               /* the first row's cell occurs again below */
    bool alike;               /* it has the same ending as all below it: "a.jpg" */
    struct stk_csv_cell cell; /* of the first row */
};

struct look {
    struct stk_csv_schema *schema;
    const char *head;
    struct tally *tally;
    uint64_t rows;
    int told; /* enum stk_list_header */
};

/* ---- examining cells --------------------------------------------------------------------- */

static void trim(const char **p, size_t *n)
{
    while (*n && (**p == ' ' || **p == '\t')) {
        ++*p;
        --*n;
    }
    while (*n && ((*p)[*n - 1] == ' ' || (*p)[*n - 1] == '\t'))
        --*n;
}

static bool is_wide(int64_t i)
{
    const double limit = 9223372036854775808.0; /* 2^63, which INT64_MAX is rounded to */
    double f = (double)i;
    return f >= limit || (int64_t)f != i;
}

static uint8_t classify(const struct stk_csv_cell *c)
{
    static const uint8_t seen[] = {[STK_NUM_NONE] = SEEN_TEXT,
                                   [STK_NUM_INT] = SEEN_INT,
                                   [STK_NUM_BIG] = SEEN_BIG,
                                   [STK_NUM_FLOAT] = SEEN_FLOAT};
    const char *p = c->p;
    size_t n = c->n;
    int64_t i;
    double f;
    trim(&p, &n);
    if (!n)
        return SEEN_EMPTY;
    /* 00017 is a name: as a number it would lose its zeros. */
    size_t sign = *p == '-' || *p == '+';
    if (n > sign + 1 && p[sign] == '0' && p[sign + 1] >= '0' && p[sign + 1] <= '9')
        return SEEN_TEXT;
    enum stk_num kind = stk_num_parse(p, n, &i, &f);
    bool digits = n && p[n - 1] != 'f' && p[n - 1] != 'F' && p[n - 1] != 'y' && p[n - 1] != 'Y';
    if (kind == STK_NUM_FLOAT && isinf(f) && digits) /* 1e400, not "inf" or "Infinity" */
        return SEEN_BIG;
    return (uint8_t)(seen[kind] | (kind == STK_NUM_INT && is_wide(i) ? SEEN_WIDE : 0));
}

/* ".jpg" of "a.jpg"; 0 bytes when there is none. */
static size_t ending(const struct stk_csv_cell *c, const char **p)
{
    const char *dot = c->n ? memrchr(c->p, '.', c->n) : NULL;
    size_t n = dot ? c->n - (size_t)(dot - c->p) : 0;
    *p = dot;
    return n > 1 && n <= 6 ? n : 0;
}

static void compare(struct tally *t, const struct stk_csv_cell *c)
{
    const char *a, *b;
    size_t n = ending(&t->cell, &a);
    t->again |= c->n && c->n == t->cell.n && memcmp(c->p, t->cell.p, c->n) == 0;
    t->alike &= n && ending(c, &b) == n && memcmp(a, b, n) == 0;
}

/* The type that holds every cell without changing a digit. Floats can represent "none", but not
 * every 64-bit identifier. */
static char type_of(uint8_t seen)
{
    bool wide = seen & SEEN_WIDE, gaps = seen & SEEN_EMPTY;
    if ((seen & (SEEN_TEXT | SEEN_BIG)) || ((seen & SEEN_FLOAT) && wide))
        return STK_CSV_TEXT;
    if (seen & SEEN_FLOAT)
        return STK_CSV_FLOAT;
    if (!(seen & SEEN_INT))
        return gaps ? STK_CSV_EMPTY : STK_CSV_UNKNOWN;
    return wide && gaps ? STK_CSV_INT_NULL
           : wide       ? STK_CSV_INT_WIDE
           : gaps       ? STK_CSV_INT_GAPS
                        : STK_CSV_INT;
}

/* The kinds of cells implied by a detected type; types that were given are the same in all
 * files. */
static uint8_t seen_of(char type)
{
    switch (type) {
    case STK_CSV_UNKNOWN:
        return 0;
    case STK_CSV_EMPTY:
        return SEEN_EMPTY;
    case STK_CSV_INT:
        return SEEN_INT;
    case STK_CSV_INT_WIDE:
        return SEEN_INT | SEEN_WIDE;
    case STK_CSV_INT_GAPS:
        return SEEN_INT | SEEN_EMPTY;
    case STK_CSV_INT_NULL:
        return SEEN_INT | SEEN_WIDE | SEEN_EMPTY;
    case STK_CSV_FLOAT:
        return SEEN_FLOAT;
    default:
        return SEEN_TEXT;
    }
}

static const uint8_t widths[] = {STK_U8,  STK_I8,  STK_U16, STK_I16,
                                 STK_U32, STK_I32, STK_U64, STK_F32};
_Static_assert(sizeof widths == sizeof STK_CSV_WIDTHS - 1, "a letter for each");

uint8_t stk_csv_dtype(char type)
{
    const char *at = type ? strchr(STK_CSV_WIDTHS, type) : NULL;
    return at                      ? widths[at - STK_CSV_WIDTHS]
           : type == STK_CSV_BOOL  ? STK_BOOL
           : type == STK_CSV_INT   ? STK_I64
           : type == STK_CSV_FLOAT ? STK_F64
                                   : 0;
}

char stk_csv_of_dtype(uint8_t dtype)
{
    for (size_t i = 0; i < sizeof widths; i++)
        if (widths[i] == dtype)
            return STK_CSV_WIDTHS[i];
    return dtype == STK_BOOL            ? STK_CSV_BOOL
           : stk_dtype_is_float(dtype) ? STK_CSV_FLOAT
                                       : STK_CSV_INT;
}

char stk_csv_reads_as(char type)
{
    return type == STK_CSV_INT_WIDE ? STK_CSV_INT : type == STK_CSV_INT_GAPS ? STK_CSV_FLOAT : type;
}

const char *stk_csv_why_text(const struct stk_csv_column *c)
{
    if (c->told || c->type != STK_CSV_TEXT || (c->seen & SEEN_TEXT))
        return NULL;
    return c->seen & SEEN_BIG ? "it has numbers of more than 64 bits; --types overrules it"
                              : "it has floats, and integers that a float would change; --types "
                                "overrules it";
}

static bool is_number_type(char type)
{
    return seen_of(type) & SEEN_NUMBER;
}

/* The type for the cells of both. */
static char wider(char a, char b)
{
    return a == b ? a : type_of(seen_of(a) | seen_of(b));
}

/* A name as one line of UTF-8, fit for display and for the context. */
static const char *clean_name(struct stk_arena *arena, const struct stk_csv_cell *cell, size_t *len)
{
    char *text = stk_arena_alloc(arena, cell->n + 1);
    if (!text)
        return NULL;
    size_t n = stk_csv_unquote(cell, text);
    for (size_t i = 0; i < n;) {
        uint32_t cp;
        size_t step = stk_utf8_next(text + i, n - i, &cp);
        if (!step || cp < 0x20 || cp == 0x7f)
            text[i] = step ? ' ' : '?';
        i += step ? step : 1;
    }
    const char *p = text;
    trim(&p, &n);
    *len = n;
    return p;
}

static int look_at_first(struct look *k, struct stk_csv_row *row, uint64_t cells,
                         struct stk_err *err)
{
    struct stk_csv_schema *sc = k->schema;
    struct stk_csv_cell c;
    if (cells > STK_CSV_COLUMNS_MAX)
        return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1, "more than %u columns",
                           STK_CSV_COLUMNS_MAX);
    sc->column = stk_arena_alloc(&sc->arena, cells * sizeof *sc->column);
    k->tally = calloc(cells, sizeof *k->tally);
    if (!sc->column || !k->tally)
        return stk_err_nomem(err, cells * sizeof *sc->column);
    int rc = 0;
    while (sc->ncolumns < cells && (rc = stk_csv_next(row, &c, err)) == 1) {
        struct stk_csv_column *col = &sc->column[sc->ncolumns];
        *col = (struct stk_csv_column){.type = STK_CSV_UNKNOWN};
        col->name = clean_name(&sc->arena, &c, &col->name_len);
        if (!col->name)
            return stk_err_nomem(err, c.n);
        k->tally[sc->ncolumns++] = (struct tally){.first = classify(&c), .cell = c, .alike = true};
    }
    return rc < 0 ? rc : 0;
}

static int look_at_row(void *user, uint64_t off, uint64_t len, uint64_t cells, struct stk_err *err)
{
    struct look *k = user;
    struct stk_csv_row row = {
        .p = k->head + off, .end = k->head + off + len, .delim = k->schema->delim, .more = true};
    if (k->rows++ == 0)
        return look_at_first(k, &row, cells, err);
    struct stk_csv_cell c;
    for (size_t i = 0; i < k->schema->ncolumns && stk_csv_next(&row, &c, NULL) == 1; i++) {
        k->tally[i].below |= classify(&c);
        compare(&k->tally[i], &c);
    }
    return k->rows > ROWS_LOOKED_AT ? STK_E_STOPPED : 0;
}

/* ---- names -------------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
    const struct stk_csv_column *x = *(struct stk_csv_column *const *)a;
    const struct stk_csv_column *y = *(struct stk_csv_column *const *)b;
    size_t n = x->name_len < y->name_len ? x->name_len : y->name_len;
    int order = memcmp(x->name, y->name, n);
    if (!order)
        order = (x->name_len > y->name_len) - (x->name_len < y->name_len);
    return order ? order : (x > y) - (x < y);
}

/* The columns in the order of their names. Caller frees with free(). NULL: no memory. */
static struct stk_csv_column **sort_names(const struct stk_csv_schema *sc)
{
    struct stk_csv_column **order = malloc((sc->ncolumns + 1) * sizeof *order);
    if (!order)
        return NULL;
    for (size_t i = 0; i < sc->ncolumns; i++)
        order[i] = &sc->column[i];
    qsort(order, sc->ncolumns, sizeof *order, by_name);
    return order;
}

static bool same_name(const struct stk_csv_column *a, const struct stk_csv_column *b)
{
    return a->name_len == b->name_len && memcmp(a->name, b->name, a->name_len) == 0;
}

static bool names_distinct(const struct stk_csv_schema *sc, struct stk_csv_column *const *order)
{
    for (size_t i = 0; i < sc->ncolumns; i++)
        if (!order[i]->name_len || (i && same_name(order[i - 1], order[i])))
            return false;
    return true;
}

static int rename_column(struct stk_csv_schema *sc, struct stk_csv_column *c, struct stk_err *err)
{
    size_t number = (size_t)(c - sc->column);
    char *name = stk_arena_alloc(&sc->arena, c->name_len + 24);
    if (!name)
        return stk_err_nomem(err, c->name_len + 24);
    int n = snprintf(name, c->name_len + 24, "%.*s%s%zu", (int)c->name_len, c->name,
                     c->name_len ? "." : "c", number);
    c->name = name;
    c->name_len = (size_t)n;
    return 0;
}

/* 0, 1, 2, ...: the names pandas gives unnamed columns, perhaps after the empty name of its index.
 * In two columns of integers it may be data as well. */
static bool counts_columns(const struct look *k)
{
    size_t n = k->schema->ncolumns, skip = n > 1 && k->tally[0].first == SEEN_EMPTY;
    bool others = skip > 0;
    for (size_t i = skip; i < n; i++) {
        const struct tally *t = &k->tally[i];
        int64_t number;
        double unused;
        if (stk_num_parse(t->cell.p, t->cell.n, &number, &unused) != STK_NUM_INT ||
            number != (int64_t)(i - skip))
            return false;
        others |= t->below && !(t->below & SEEN_INT);
    }
    return k->rows > 1 && (others || n >= 3);
}

/* nan, inf: a number without digits may also be a name. */
static bool is_word(const struct stk_csv_cell *c)
{
    for (size_t i = 0; i < c->n; i++)
        if (c->p[i] >= '0' && c->p[i] <= '9')
            return false;
    return true;
}

/* "NA" above numbers is a missing number. */
static bool is_gap(const struct stk_csv_cell *c)
{
    static const char *const gaps[] = {"na", "n/a", "null", "none", "?", "-", "missing"};
    for (size_t i = 0; i < sizeof gaps / sizeof *gaps; i++)
        if (c->n == strlen(gaps[i]) && strncasecmp(c->p, gaps[i], c->n) == 0)
            return true;
    return false;
}

/* A name above numbers, and next to it distinct whole numbers ("id,2019,2020"). */
static bool names_years(const struct look *k, struct stk_csv_column *const *order)
{
    bool name = false;
    for (size_t i = 0; i < k->schema->ncolumns; i++) {
        const struct tally *t = &k->tally[i];
        if ((t->first & (SEEN_FLOAT | SEEN_BIG)) && !is_word(&t->cell))
            return false;
        name |= t->first == SEEN_TEXT && is_number_type(type_of(t->below)) && !is_gap(&t->cell);
    }
    return name && names_distinct(k->schema, order);
}

#define OVERRULE "; --header overrules it"

/* The rule of docs/formats.md; sets *because. */
static bool is_header(const struct look *k, struct stk_csv_column *const *order,
                      const char **because)
{
    bool numbers = false, numbers_below = false, data = false;
    for (size_t i = 0; i < k->schema->ncolumns; i++) {
        const struct tally *t = &k->tally[i];
        numbers |= t->first & SEEN_NUMBER;
        numbers_below |= is_number_type(type_of(t->below));
        data |= t->again || (t->alike && k->rows > 1);
    }
    *because = NULL;
    if (k->told != STK_HEADER_AUTO)
        return k->told == STK_HEADER_YES;
    *because = "its cells count the columns, as pandas does" OVERRULE;
    if (numbers && counts_columns(k))
        return true;
    *because = "a name stands over numbers" OVERRULE;
    if (numbers && names_years(k, order))
        return true;
    *because = "it has numbers" OVERRULE;
    if (numbers)
        return false;
    *because = "it has no numbers, but rows below it do" OVERRULE;
    if (numbers_below)
        return true;
    *because = "its cells are like those below them" OVERRULE;
    if (data)
        return false;
    *because = "its cells are all different and none is empty" OVERRULE;
    if (names_distinct(k->schema, order))
        return true;
    *because = "its cells are not all different, or some are empty" OVERRULE;
    return false;
}

/* The first of the columns of an entry; NULL: no column has that name. */
static struct stk_csv_column *find_column(const struct stk_csv_schema *sc,
                                          struct stk_csv_column *const *order,
                                          const struct stk_csv_entry *e, char *name)
{
    int n =
        snprintf(name, e->name_len + 3, "%.*s%s", (int)e->name_len, e->name, e->array ? "_0" : "");
    struct stk_csv_column want = {.name = name, .name_len = (size_t)n}, *w = &want;
    size_t lo = 0, hi = sc->ncolumns;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (same_name(order[mid], w))
            return order[mid];
        if (by_name(&order[mid], &w) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return NULL;
}

static int tell_type(struct stk_csv_schema *sc, struct stk_csv_column *const *order,
                     const struct stk_csv_entry *e, struct stk_err *err)
{
    char *name = stk_arena_alloc(&sc->arena, e->name_len + 3);
    if (!name)
        return stk_err_nomem(err, e->name_len);
    struct stk_csv_column *c = find_column(sc, order, e, name);
    size_t left = c ? sc->ncolumns - (size_t)(c - sc->column) : 0;
    if (!c || e->count > left)
        return stk_err_set(err, STK_E_USAGE, NULL, -1,
                           "there is no column '%.*s' to give a type to",
                           (int)(e->name_len < 200 ? e->name_len : 200), e->name);
    for (uint64_t i = 0; i < e->count; i++, c++) {
        c->told = true;
        c->type = e->type;
        c->single = !e->array;
    }
    return 0;
}

/* Applies the given types; arrays are in adjacent columns. */
static int tell_types(struct stk_csv_schema *sc, const char *types, struct stk_err *err)
{
    struct stk_csv_context c = {.p = types, .end = types ? types + strlen(types) : types};
    struct stk_csv_column **order = types ? sort_names(sc) : NULL;
    struct stk_csv_entry e;
    int rc = 0;
    if (types && !order)
        return stk_err_nomem(err, sc->ncolumns * sizeof *order);
    while (rc == 0 && order && (rc = stk_csv_context_next(&c, &e, err)) == 1)
        rc = tell_type(sc, order, &e, err);
    free(order);
    return rc;
}

void stk_csv_widen(struct stk_csv_schema *sc, const char *p, size_t n)
{
    struct stk_csv_row row = {.p = p, .end = p + n, .delim = sc->delim, .more = true};
    struct stk_csv_cell c;
    for (size_t i = 0; i < sc->ncolumns && stk_csv_next(&row, &c, NULL) == 1; i++) {
        struct stk_csv_column *col = &sc->column[i];
        if (col->told || (col->seen & SEEN_TEXT))
            continue;
        uint8_t seen = classify(&c);
        /* One bad cell does not turn a thousand numbers into text: reading reports it. */
        if (is_number_type(col->type))
            seen &= (uint8_t)~SEEN_TEXT;
        seen |= col->seen;
        if (seen != col->seen)
            col->type = type_of(seen);
        col->seen = seen;
    }
}

/* The first of columns with equal names keeps it. Returns the number renamed. Goes backwards
 * because renaming changes order[i]. */
static int rename_twins(struct stk_csv_schema *sc, struct stk_err *err)
{
    struct stk_csv_column **order = sort_names(sc);
    int rc = order ? 0 : stk_err_nomem(err, sc->ncolumns * sizeof *order), twins = 0;
    for (size_t i = sc->ncolumns; rc == 0 && i-- > 1;)
        if (same_name(order[i - 1], order[i])) {
            struct stk_csv_column *c = order[i];
            c->was = c->was ? c->was : stk_arena_dup(&sc->arena, c->name, c->name_len);
            rc = rename_column(sc, c, err);
            twins++;
        }
    free(order);
    return rc < 0 ? rc : twins;
}

/* Repeats if the new name belongs to another column, too: "x,x,x.1". */
static int tell_apart(struct stk_csv_schema *sc, struct stk_err *err)
{
    int twins = 1;
    for (int i = 0; twins > 0 && i < ROUNDS; i++)
        twins = rename_twins(sc, err);
    return twins <= 0 ? twins
                      : stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1,
                                    "columns have the same names, and so have those that would "
                                    "tell them apart");
}

static int settle(struct look *k, struct stk_err *err)
{
    struct stk_csv_schema *sc = k->schema;
    struct stk_csv_column **order = sort_names(sc);
    int rc = order ? 0 : stk_err_nomem(err, sc->ncolumns * sizeof *order);
    sc->header = order && is_header(k, order, &sc->because);
    free(order);
    for (size_t i = 0; rc == 0 && i < sc->ncolumns; i++) {
        struct stk_csv_column *c = &sc->column[i];
        c->seen = k->tally[i].below | (sc->header ? 0 : k->tally[i].first);
        c->type = type_of(c->seen);
        if (!sc->header)
            c->name_len = 0;
        if (!c->name_len)
            rc = rename_column(sc, c, err);
    }
    return rc < 0 || !sc->header ? rc : tell_apart(sc, err);
}

/* ---- the whole ---------------------------------------------------------------------------- */

/* Bars also occur within cells ("red|green"): they are the delimiter only if nothing else is. */
static void find_delimiter(struct stk_csv_schema *sc, const char *p, size_t n, bool whole)
{
    char guess = stk_csv_guess(p, n, ",;\t");
    sc->delim = guess ? guess : ',';
    if (guess != ',')
        sc->delim_because =
            guess ? "the first row has most of them; --delimiter overrules it" : NULL;
    if (guess && stk_csv_is_regular(p, n, whole, guess))
        return;
    if (stk_csv_is_regular(p, n, whole, '|')) {
        sc->delim = '|';
        sc->delim_because = "every row has as many of them; --delimiter overrules it";
    }
}

int stk_csv_infer(const char *p, size_t n, bool whole, const struct stk_csv_told *told,
                  struct stk_csv_schema *sc, struct stk_err *err)
{
    *sc = (struct stk_csv_schema){.delim = told->delim};
    if (!told->delim)
        find_delimiter(sc, p, n, whole);
    struct look k = {.schema = sc, .head = p, .told = told->header};
    struct stk_csv_scan scan = {.delim = sc->delim, .row = look_at_row, .user = &k};
    int rc = stk_csv_scan_bytes(&scan, 0, p, n, err);
    if (rc == 0 && whole)
        rc = stk_csv_scan_end(&scan, n, err);
    if (rc == STK_E_STOPPED)
        rc = 0;
    if (rc == 0 && !k.rows && scan.quoted)
        rc = stk_err_set(err, STK_E_CORRUPT, NULL, (int64_t)scan.row_start,
                         "a quote that begins in this row is not closed");
    else if (rc == 0 && !k.rows && !whole)
        rc = stk_err_set(err, STK_E_UNSUPPORTED, NULL, (int64_t)scan.row_start,
                         "the first row is longer than %zu bytes", n);
    if (rc == 0 && sc->ncolumns)
        rc = settle(&k, err);
    if (rc == 0 && sc->ncolumns)
        rc = tell_types(sc, told->types, err);
    free(k.tally);
    return rc;
}

void stk_csv_schema_release(struct stk_csv_schema *sc)
{
    stk_arena_release(&sc->arena);
    *sc = (struct stk_csv_schema){0};
}

/* ---- the context -------------------------------------------------------------------------- */

static bool has_name(struct stk_csv_column *const *order, size_t n, const char *name, size_t len)
{
    size_t lo = 0, hi = n;
    struct stk_csv_column want = {.name = name, .name_len = len}, *w = &want;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (same_name(order[mid], w))
            return true;
        if (by_name(&order[mid], &w) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return false;
}

#define NOT_ELEMENTS "tjypqso" /* types that arrays do not have */

static bool is_element(const struct stk_csv_column *c, const char *stem, size_t stem_len, size_t k)
{
    char digits[24];
    int n = snprintf(digits, sizeof digits, "_%zu", k);
    return !c->single && !strchr(NOT_ELEMENTS, c->type) && c->name_len == stem_len + (size_t)n &&
           memcmp(c->name, stem, stem_len) == 0 &&
           memcmp(c->name + stem_len, digits, (size_t)n) == 0;
}

/* The number of columns from `at` that are NAME_0, NAME_1, ..., and so one array; 0: none. One
 * column alone is an array only if that is given. */
static size_t array_elements(const struct stk_csv_schema *sc, struct stk_csv_column *const *order,
                             size_t at, char *type)
{
    const struct stk_csv_column *c = &sc->column[at];
    size_t stem = c->name_len < 3 ? 0 : c->name_len - 2, n = 0;
    if (!stem || !is_element(c, c->name, stem, 0) || (stem == 3 && !memcmp(c->name, "key", 3)) ||
        has_name(order, sc->ncolumns, c->name, stem))
        return 0;
    *type = c->type;
    for (; at + n < sc->ncolumns && is_element(&sc->column[at + n], c->name, stem, n); n++)
        *type = wider(*type, sc->column[at + n].type);
    return strchr(NOT_ELEMENTS, *type) || (n == 1 && !c->told) ? 0 : n;
}

int stk_csv_context_write(const struct stk_csv_schema *sc, struct stk_buf *out, struct stk_err *err)
{
    struct stk_csv_column **order = sort_names(sc);
    if (!order)
        return stk_err_nomem(err, sc->ncolumns * sizeof *order);
    stk_buf_printf(out, "csv %d %d %zu\n", sc->delim, sc->header, sc->ncolumns);
    for (size_t i = 0; i < sc->ncolumns;) {
        const struct stk_csv_column *c = &sc->column[i];
        char type;
        size_t elements = array_elements(sc, order, i, &type);
        /* One byte per column besides its name: tables of 60,000 columns exist. */
        if (elements)
            stk_buf_printf(out, "%c%zu ", type - 'a' + 'A', elements);
        else
            stk_buf_putc(out, c->type);
        stk_buf_put(out, c->name, elements ? c->name_len - 2 : c->name_len);
        stk_buf_putc(out, '\n');
        i += elements ? elements : 1;
    }
    free(order);
    return stk_buf_check(out, err);
}

static int bad_context(struct stk_err *err)
{
    return stk_err_set(err, STK_E_CORRUPT, NULL, -1, "damaged description of the columns");
}

/* A decimal number and the byte after it. */
static bool read_count(const char **p, const char *end, char stop, uint64_t *v)
{
    const char *start = *p;
    *v = 0;
    for (; *p < end && **p >= '0' && **p <= '9' && *v <= STK_CSV_COLUMNS_MAX; ++*p)
        *v = *v * 10 + (uint64_t)(**p - '0');
    bool good = *p > start && *p < end && **p == stop && *v <= STK_CSV_COLUMNS_MAX;
    *p += good;
    return good;
}

int stk_csv_context_open(struct stk_csv_context *c, const char *text, size_t len,
                         struct stk_err *err)
{
    uint64_t delim, header;
    *c = (struct stk_csv_context){.p = text + 4, .end = text + len};
    if (len < 4 || memcmp(text, "csv ", 4) != 0 || !read_count(&c->p, c->end, ' ', &delim) ||
        !read_count(&c->p, c->end, ' ', &header) ||
        !read_count(&c->p, c->end, '\n', &c->ncolumns) || delim > 127)
        return bad_context(err);
    c->delim = (char)delim;
    c->header = header != 0;
    return 0;
}

int stk_csv_context_next(struct stk_csv_context *c, struct stk_csv_entry *e, struct stk_err *err)
{
    if (c->p == c->end)
        return 0;
    *e = (struct stk_csv_entry){.type = *c->p++, .count = 1};
    e->array = e->type < 'a';
    if (e->array)
        e->type = (char)(e->type - 'A' + 'a');
    if (e->array && !read_count(&c->p, c->end, ' ', &e->count))
        return bad_context(err);
    const char *stop = memchr(c->p, '\n', (size_t)(c->end - c->p));
    if (!stop || !memchr(STK_CSV_TYPES, e->type, strlen(STK_CSV_TYPES)))
        return bad_context(err);
    e->name = c->p;
    e->name_len = (size_t)(stop - c->p);
    c->p = stop + 1;
    return 1;
}

/* ---- joining the contexts of two files ---------------------------------------------------- */

static int expand_entry(struct stk_csv_schema *sc, const struct stk_csv_entry *e, uint64_t room,
                        struct stk_err *err)
{
    if (e->count > room)
        return bad_context(err);
    for (uint64_t i = 0; i < e->count; i++) {
        struct stk_csv_column *c = &sc->column[sc->ncolumns++];
        *c = (struct stk_csv_column){.name = e->name,
                                     .name_len = e->name_len,
                                     .type = e->type,
                                     .told = true,
                                     .single = !e->array};
        if (!e->array)
            return 0;
        char *name = stk_arena_alloc(&sc->arena, e->name_len + 24);
        if (!name)
            return stk_err_nomem(err, e->name_len);
        c->name_len = (size_t)snprintf(name, e->name_len + 24, "%.*s_%llu", (int)e->name_len,
                                       e->name, (unsigned long long)i);
        c->name = name;
    }
    return 0;
}

static int context_read(struct stk_csv_schema *sc, const char *text, size_t len,
                        struct stk_err *err)
{
    struct stk_csv_context c;
    struct stk_csv_entry e;
    *sc = (struct stk_csv_schema){0};
    int rc = stk_csv_context_open(&c, text, len, err);
    if (rc < 0)
        return rc;
    sc->delim = c.delim;
    sc->header = c.header;
    sc->column = stk_arena_alloc(&sc->arena, (c.ncolumns + 1) * sizeof *sc->column);
    if (!sc->column)
        return stk_err_nomem(err, c.ncolumns * sizeof *sc->column);
    while ((rc = stk_csv_context_next(&c, &e, err)) == 1) {
        rc = expand_entry(sc, &e, c.ncolumns - sc->ncolumns, err);
        if (rc < 0)
            return rc;
    }
    return rc == 0 && sc->ncolumns != c.ncolumns ? bad_context(err) : rc;
}

static int join(struct stk_csv_schema *a, const struct stk_csv_schema *b, struct stk_err *err)
{
    if (a->ncolumns != b->ncolumns)
        return stk_err_set(err, STK_E_CORRUPT, NULL, -1,
                           "it has %zu columns, the files before it have %zu", b->ncolumns,
                           a->ncolumns);
    if (a->delim != b->delim)
        return stk_err_set(err, STK_E_CORRUPT, NULL, -1,
                           "its columns are separated by %s, in the files before it by %s",
                           b->delim == '\t' ? "tabs" : (char[]){b->delim, 0},
                           a->delim == '\t' ? "tabs" : (char[]){a->delim, 0});
    for (size_t i = 0; i < a->ncolumns; i++) {
        struct stk_csv_column *x = &a->column[i];
        const struct stk_csv_column *y = &b->column[i];
        if (!same_name(x, y))
            return stk_err_set(err, STK_E_CORRUPT, NULL, -1,
                               "its column %zu is %.*s, in the files before it %.*s", i,
                               (int)(y->name_len < 200 ? y->name_len : 200), y->name,
                               (int)(x->name_len < 200 ? x->name_len : 200), x->name);
        x->type = wider(x->type, y->type);
        x->single |= y->single;
    }
    a->header |= b->header;
    return 0;
}

int stk_csv_context_merge(const char *a, size_t a_len, const char *b, size_t b_len,
                          struct stk_buf *out, struct stk_err *err)
{
    struct stk_csv_schema x, y = {0};
    int rc = context_read(&x, a, a_len, err);
    if (rc == 0)
        rc = context_read(&y, b, b_len, err);
    if (rc == 0)
        rc = join(&x, &y, err);
    if (rc == 0)
        rc = stk_csv_context_write(&x, out, err);
    stk_csv_schema_release(&x);
    stk_csv_schema_release(&y);
    return rc;
}
