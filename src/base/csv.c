/*
 * csv.c - the syntax of CSV: cells of a row, rows of a file.
 *
 * A quote opens a quoted cell only at the cell's beginning, as in Python's csv module; elsewhere it
 * is a character. Finding rows takes a few memchr() per row, whatever the cells contain.
 */
#include "base/csv.h"

#include <string.h>

#define ROWS_COMPARED 100

/* ---- cells -------------------------------------------------------------------------------- */

static int next_quoted(struct stk_csv_row *r, struct stk_csv_cell *c, struct stk_err *err)
{
    const char *start = ++r->p;
    c->quoted = true;
    for (;;) {
        const char *q = memchr(r->p, '"', (size_t)(r->end - r->p));
        if (!q)
            return stk_err_set(err, STK_E_CORRUPT, NULL, -1, "a quote is not closed");
        r->p = q + 1;
        if (r->p < r->end && *r->p == '"') {
            c->doubled = true;
            r->p++;
            continue;
        }
        c->p = start;
        c->n = (size_t)(q - start);
        break;
    }
    if (r->p < r->end && *r->p != r->delim)
        return stk_err_set(err, STK_E_CORRUPT, NULL, -1, "text after a closing quote");
    r->more = r->p < r->end;
    r->p += r->more;
    return 1;
}

int stk_csv_next(struct stk_csv_row *r, struct stk_csv_cell *c, struct stk_err *err)
{
    if (!r->more)
        return 0;
    *c = (struct stk_csv_cell){.p = r->p};
    if (r->p < r->end && *r->p == '"')
        return next_quoted(r, c, err);
    const char *d = r->p < r->end ? memchr(r->p, r->delim, (size_t)(r->end - r->p)) : NULL;
    r->more = d != NULL;
    c->n = (size_t)((d ? d : r->end) - r->p);
    r->p = d ? d + 1 : r->end;
    return 1;
}

size_t stk_csv_unquote(const struct stk_csv_cell *c, char *out)
{
    size_t n = 0;
    for (size_t i = 0; i < c->n; i++) {
        out[n++] = c->p[i];
        i += c->doubled && c->p[i] == '"';
    }
    return n;
}

/* ---- rows --------------------------------------------------------------------------------- */

static size_t find(const char *p, size_t from, size_t n, char c)
{
    const char *at = from < n ? memchr(p + from, c, n - from) : NULL;
    return at ? (size_t)(at - p) : n;
}

static uint64_t count_byte(const char *p, size_t n, char c)
{
    uint64_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += p[i] == c;
    return count;
}

static int end_row(struct stk_csv_scan *sc, uint64_t end, char before, uint64_t next,
                   struct stk_err *err)
{
    uint64_t start = sc->row_start, len = end - start, cells = sc->delims + 1;
    if (len && before == '\r')
        len--;
    sc->row_start = next;
    sc->delims = 0;
    return len ? sc->row(sc->user, start, len, cells, err) : 0;
}

/* Inside quotes: moves *i past the closing quote, or to n. */
static void pass_quoted(struct stk_csv_scan *sc, const char *p, size_t n, size_t *i)
{
    *i = find(p, *i, n, '"');
    if (*i == n)
        return;
    *i += 1;
    if (*i == n)
        sc->pending = true;
    else if (p[*i] == '"')
        *i += 1;
    else
        sc->quoted = false;
}

int stk_csv_scan_bytes(struct stk_csv_scan *sc, uint64_t base, const char *p, size_t n,
                       struct stk_err *err)
{
    size_t i = 0;
    if (!n)
        return 0;
    if (sc->pending) {
        sc->pending = false;
        sc->quoted = p[0] == '"';
        i = sc->quoted ? 1 : 0;
    }
    /* Remembers the next quote and line end, so that neither is searched for twice. */
    size_t quote = find(p, i, n, '"'), line = find(p, i, n, '\n');
    while (i < n) {
        if (sc->quoted) {
            pass_quoted(sc, p, n, &i);
            continue;
        }
        if (quote < i)
            quote = find(p, i, n, '"');
        if (line < i)
            line = find(p, i, n, '\n');
        size_t stop = quote < line ? quote : line;
        sc->delims += count_byte(p + i, stop - i, sc->delim);
        i = stop;
        if (stop == n)
            break;
        char before = stop ? p[stop - 1] : sc->prev;
        i++;
        if (stop == quote) {
            sc->quoted = base + stop == sc->row_start || before == sc->delim;
            continue;
        }
        int rc = end_row(sc, base + stop, before, base + i, err);
        if (rc < 0)
            return rc;
    }
    sc->prev = p[n - 1];
    return 0;
}

int stk_csv_scan_end(struct stk_csv_scan *sc, uint64_t end, struct stk_err *err)
{
    if (sc->pending)
        sc->pending = sc->quoted = false;
    if (sc->quoted || end == sc->row_start)
        return 0;
    return end_row(sc, end, sc->prev, end, err);
}

/* ---- guessing the delimiter ------------------------------------------------------------- */

char stk_csv_guess(const char *p, size_t n, const char *choices)
{
    size_t count[8] = {0}, best = 0, i = 0, nchoices = strlen(choices);
    bool quoted = false;
    while (i < n && (p[i] == '\n' || p[i] == '\r'))
        i++;
    for (; i < n && (quoted || p[i] != '\n'); i++) {
        quoted ^= p[i] == '"';
        const char *at = quoted || !p[i] ? NULL : strchr(choices, p[i]);
        if (at && (size_t)(at - choices) < sizeof count / sizeof *count)
            count[at - choices]++;
    }
    for (size_t k = 1; k < nchoices && k < sizeof count / sizeof *count; k++)
        best = count[k] > count[best] ? k : best;
    return count[best] ? choices[best] : '\0';
}

struct regular {
    uint64_t rows, cells;
    bool differs;
};

static int count_cells(void *user, uint64_t off, uint64_t len, uint64_t cells, struct stk_err *err)
{
    struct regular *g = user;
    (void)off;
    (void)len;
    (void)err;
    g->cells = g->rows++ ? g->cells : cells;
    g->differs |= cells != g->cells;
    return g->differs || g->rows == ROWS_COMPARED ? STK_E_STOPPED : 0;
}

bool stk_csv_is_regular(const char *p, size_t n, bool whole, char delim)
{
    struct regular g = {0};
    struct stk_csv_scan scan = {.delim = delim, .row = count_cells, .user = &g};
    int rc = stk_csv_scan_bytes(&scan, 0, p, n, NULL);
    if (rc == 0 && whole)
        (void)stk_csv_scan_end(&scan, n, NULL);
    return g.rows > 1 && !g.differs && g.cells > 1;
}

/* ---- writing ------------------------------------------------------------------------------ */

void stk_csv_put_quoted(struct stk_buf *out, const char *p, size_t n)
{
    stk_buf_putc(out, '"');
    for (size_t i = 0; i < n;) {
        const char *q = memchr(p + i, '"', n - i);
        size_t stop = q ? (size_t)(q - p) + 1 : n;
        stk_buf_put(out, p + i, stop - i);
        if (q)
            stk_buf_putc(out, '"');
        i = stop;
    }
    stk_buf_putc(out, '"');
}

void stk_csv_put(struct stk_buf *out, const char *p, size_t n, char delim)
{
    if (n && (memchr(p, '"', n) || memchr(p, delim, n) || memchr(p, '\n', n) || memchr(p, '\r', n)))
        stk_csv_put_quoted(out, p, n);
    else
        stk_buf_put(out, p, n);
}

void stk_csv_put_text(struct stk_buf *out, const char *s)
{
    if (!*s || !strchr("=+-@\t\r", *s)) {
        stk_csv_put(out, s, strlen(s), ',');
        return;
    }
    struct stk_buf plain = STK_BUF_INIT; /* not a formula */
    stk_buf_printf(&plain, "'%s", s);
    stk_csv_put_quoted(out, stk_buf_cstr(&plain), plain.len);
    out->fail = out->fail || plain.fail;
    stk_buf_release(&plain);
}
