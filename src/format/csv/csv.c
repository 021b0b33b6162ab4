/*
 * csv.c - CSV and TSV: rows listed as records, rows written from samples.
 *
 * They differ only in the delimiter. The context (csv_schema.c) describes the columns, and the
 * codec (format/codec/csv.c) reads the cells.
 */
#include "format/csv/csv.h"
#include "format/sample.h"
#include "format/codec/types.h"
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>

#define WINDOW       (1u << 20)
#define ROW_MAX      (256ull << 20) /* reading holds a whole row in memory */
#define COLUMNS_SAID 64             /* columns reported by name */

extern const struct stk_format stk_format_csv, stk_format_tsv;

static const char *const csv_suffixes[] = {".csv", NULL};
static const char *const tsv_suffixes[] = {".tsv", ".tab", NULL};

/* ---- recognising -------------------------------------------------------------------------- */

static int bid(const struct stk_format *f, const struct stk_probe *p)
{
    if (!stk_format_suffix_matches(f, p->name))
        return 0;
    /* Zero bytes are UTF-16 or no text at all; list() reports that. */
    return p->head_len && memchr(p->head, 0, p->head_len) ? 10 : 40;
}

static int csv_bid(const struct stk_probe *p)
{
    return bid(&stk_format_csv, p);
}

static int tsv_bid(const struct stk_probe *p)
{
    return bid(&stk_format_tsv, p);
}

/* ---- listing ------------------------------------------------------------------------------ */

struct listing {
    struct stk_lister *lister;
    int field;
    struct stk_csv_schema *schema;
    bool skip; /* the next row is the header */
    /* The window being scanned, and the part of the current row in earlier windows. */
    const uint8_t *window;
    uint64_t window_off;
    struct stk_buf carry;
};

/* The bytes of a row that ends in the window. */
static const char *row_bytes(struct listing *g, uint64_t off, uint64_t len)
{
    if (off >= g->window_off)
        return (const char *)g->window + (off - g->window_off);
    uint64_t before = g->window_off - off; /* the carry begins with the row */
    g->carry.len = before < g->carry.len ? (size_t)before : g->carry.len;
    if (len > before)
        stk_buf_put(&g->carry, g->window, (size_t)(len - before));
    return (const char *)g->carry.data;
}

static int list_row(void *user, uint64_t off, uint64_t len, uint64_t cells, struct stk_err *err)
{
    struct listing *g = user;
    if (g->skip) {
        g->skip = false;
        return 0;
    }
    if (cells != g->schema->ncolumns)
        return stk_list_problem(g->lister, (int64_t)off, err,
                                "the row has %llu column%s, the first row has %llu",
                                (unsigned long long)cells, cells == 1 ? "" : "s",
                                (unsigned long long)g->schema->ncolumns);
    if (len > ROW_MAX)
        return stk_list_problem(g->lister, (int64_t)off, err,
                                "the row is longer than 256 MiB (is a quote not closed?)");
    const char *p = row_bytes(g, off, len);
    int rc = stk_buf_check(&g->carry, err);
    if (rc == 0)
        stk_csv_widen(g->schema, p, (size_t)len);
    return rc < 0 ? rc : stk_list_record(g->lister, g->field, off, len, NULL, 0, err);
}

/* Keeps the window's part of a row that continues after it, unless the row is too long to read. */
static int carry_over(struct listing *g, uint64_t row_start, uint64_t end, struct stk_err *err)
{
    if (row_start >= g->window_off) {
        stk_buf_reset(&g->carry);
        stk_buf_put(&g->carry, g->window + (row_start - g->window_off), (size_t)(end - row_start));
    } else if (end - row_start <= ROW_MAX) {
        stk_buf_put(&g->carry, g->window, (size_t)(end - g->window_off));
    }
    return stk_buf_check(&g->carry, err);
}

static int list_rows(struct listing *g, struct stk_src *src, uint64_t start, char delim,
                     struct stk_err *err)
{
    struct stk_csv_scan scan = {.delim = delim, .row = list_row, .user = g, .row_start = start};
    uint64_t off = start;
    for (;;) {
        const uint8_t *p;
        size_t got;
        int rc = stk_src_peek(src, off, WINDOW, &p, &got, err);
        g->window = p;
        g->window_off = off;
        if (rc == 0 && got)
            rc = stk_csv_scan_bytes(&scan, off, (const char *)p, got, err);
        if (rc == 0 && got)
            rc = carry_over(g, scan.row_start, off + got, err);
        if (rc < 0)
            return rc;
        if (!got)
            break;
        off += got;
    }
    int rc = stk_csv_scan_end(&scan, off, err);
    if (rc == 0 && scan.quoted)
        rc = stk_list_problem(g->lister, (int64_t)scan.row_start, err,
                              "a quote that begins in this row is not closed");
    return rc;
}

/* Why the text cannot be parsed, by its first bytes; NULL: it can. */
static const char *foreign_text(const uint8_t *p, size_t n)
{
    const uint8_t *cr = memchr(p, '\r', n);
    if (cr && cr + 1 < p + n && !memchr(p, '\n', n))
        return "lines end in CR only; convert it: tr '\\r' '\\n'";
    return NULL;
}

static int list_context(struct stk_lister *l, const struct stk_csv_schema *sc, struct stk_err *err)
{
    struct stk_buf text = STK_BUF_INIT;
    int rc = stk_csv_context_write(sc, &text, err);
    if (rc == 0)
        rc = stk_list_context(l, (const char *)text.data, text.len, err);
    stk_buf_release(&text);
    return rc;
}

static const char *delimiter_name(char delim)
{
    return delim == '\t' ? "tab" : delim == ';' ? "semicolon" : delim == '|' ? "bar" : "comma";
}

/* Reports detected properties of columns that are not obvious. */
static int say_columns(struct stk_lister *l, const struct stk_csv_schema *sc, struct stk_err *err)
{
    char as[300], why[300];
    int rc = 0;
    for (size_t i = 0, said = 0; rc == 0 && i < sc->ncolumns && said < COLUMNS_SAID; i++) {
        const struct stk_csv_column *c = &sc->column[i];
        const char *text = stk_csv_why_text(c);
        int len = (int)(c->name_len < 200 ? c->name_len : 200);
        if (c->was) {
            snprintf(as, sizeof as, "'%.*s'", len, c->name);
            snprintf(why, sizeof why, "a column before it is called '%.200s'", c->was);
            rc = stk_list_taken(l, "column", as, why, err);
        }
        if (rc == 0 && text) {
            snprintf(as, sizeof as, "text: '%.*s'", len, c->name);
            rc = stk_list_taken(l, "column", as, text, err);
        }
        said += c->was || text;
    }
    return rc;
}

static int list(struct stk_lister *l, struct stk_src *src, bool tab, struct stk_err *err)
{
    const uint8_t *p;
    size_t got;
    int rc = stk_src_peek(src, 0, STK_PEEK_MAX, &p, &got, err);
    if (rc < 0 || !got)
        return rc;
    if (stk_text_is_utf16(p, got))
        return stk_err_set(err, STK_E_UNSUPPORTED, stk_src_path(src), 0, STK_SAY_UTF16);
    const char *foreign = foreign_text(p, got);
    if (foreign)
        return stk_err_set(err, STK_E_UNSUPPORTED, stk_src_path(src), 0, "%s", foreign);
    uint64_t start = got >= 3 && memcmp(p, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    struct stk_csv_schema sc;
    struct stk_err why;
    const struct stk_list_options *o = stk_list_opts(l);
    const struct stk_csv_told told = {.delim = o->delimiter ? (char)o->delimiter
                                               : tab        ? '\t'
                                                            : 0,
                                      .header = o->header,
                                      .types = o->types};
    rc = stk_csv_infer((const char *)p + start, got - start, got < STK_PEEK_MAX, &told, &sc, &why);
    int64_t at = rc == 0 ? 0 : why.offset < 0 ? (int64_t)start : why.offset + (int64_t)start;
    if (rc == STK_E_CORRUPT) {
        rc = stk_list_problem(l, at, err, "%s", why.what);
    } else if (rc < 0) {
        stk_err_set(err, rc, stk_src_path(src), rc == STK_E_UNSUPPORTED ? at : -1, "%s", why.what);
    } else if (sc.ncolumns) {
        struct listing g = {.lister = l, .schema = &sc, .skip = sc.header};
        struct stk_field_spec spec = {.name = "data", .kind = STK_BYTES, .codec = "csv"};
        g.field = stk_list_field(l, &spec, err);
        rc = g.field < 0 ? g.field : list_rows(&g, src, start, sc.delim, err);
        if (rc == 0 && sc.delim_because)
            rc = stk_list_taken(l, "delimiter", delimiter_name(sc.delim), sc.delim_because, err);
        if (rc == 0 && sc.because)
            rc = stk_list_taken(l, "header", sc.header ? "names of the columns" : "data",
                                sc.because, err);
        if (rc == 0)
            rc = say_columns(l, &sc, err);
        if (rc == 0)
            rc = list_context(l, &sc, err); /* all rows have been seen */
        stk_buf_release(&g.carry);
    }
    stk_csv_schema_release(&sc);
    return rc;
}

static int csv_list(struct stk_lister *l, struct stk_src *src, struct stk_err *err)
{
    return list(l, src, false, err);
}

static int tsv_list(struct stk_lister *l, struct stk_src *src, struct stk_err *err)
{
    return list(l, src, true, err);
}

/* ---- writing ------------------------------------------------------------------------------ */

struct column {
    char *name; /* terminated */
    size_t name_len;
    bool array;     /* one dimension: columns NAME_0 ... */
    uint64_t count; /* columns it takes */
};

struct writer {
    struct stk_buf types; /* the columns as the reader must take them */
    char delim;
    bool key;
    struct column *column;
    size_t ncolumns;
    struct stk_buf header;
};

static void free_writer(struct writer *w)
{
    for (size_t i = 0; w && i < w->ncolumns; i++)
        free(w->column[i].name);
    if (w) {
        free(w->column);
        stk_buf_release(&w->header);
        stk_buf_release(&w->types);
    }
    free(w);
}

static void unprepare(struct stk_write_config *cfg)
{
    free_writer(cfg->priv);
    cfg->priv = NULL;
    cfg->columns = NULL;
}

static int refuse(const struct stk_sample *s, const struct stk_field *f, const char *what,
                  const char *why, struct stk_err *err)
{
    return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1,
                       "%s cannot go into CSV: field %.*s of sample %.*s %s", what,
                       (int)(f->name_len < 200 ? f->name_len : 200), f->name,
                       (int)(s->key_len < 200 ? s->key_len : 200), s->key, why);
}

/* Refuses values that no cell can hold. */
static int check_value(const struct stk_sample *s, const struct stk_field *f, struct stk_err *err)
{
    const struct stk_value *v = &f->value;
    if (v->kind == STK_LIST)
        return refuse(s, f, "a list", "has values of differing length", err);
    if (v->kind == STK_ARRAY && v->ndim > 1)
        return refuse(s, f, "an array of more than one dimension", "has several", err);
    if (v->kind == STK_BYTES && !stk_is_text(v->data, v->size))
        return refuse(s, f, "image bytes", "is not text", err);
    if (v->kind != STK_ARRAY && !stk_is_text(v->data, v->size))
        return refuse(s, f, "such text", "is not UTF-8 without NUL", err);
    return 0;
}

/* alone: an empty cell that is the whole row must differ from a blank line. */
static void put_text(struct stk_buf *out, const char *p, size_t n, char delim, bool alone)
{
    if (!n && alone)
        stk_csv_put_quoted(out, p, n);
    else
        stk_csv_put(out, p, n, delim);
}

static void put_header(struct writer *w)
{
    bool comma = w->key;
    if (w->key)
        stk_buf_puts(&w->header, "key");
    for (size_t i = 0; i < w->ncolumns; i++) {
        struct column *c = &w->column[i];
        for (uint64_t k = 0; k < c->count; k++, comma = true) {
            struct stk_buf name = STK_BUF_INIT;
            stk_buf_put(&name, c->name, c->name_len);
            if (c->array)
                stk_buf_printf(&name, "_%llu", (unsigned long long)k);
            if (comma)
                stk_buf_putc(&w->header, w->delim);
            put_text(&w->header, (const char *)name.data, name.len, w->delim, true);
            w->header.fail |= name.fail;
            stk_buf_release(&name);
        }
    }
    if (comma)
        stk_buf_putc(&w->header, '\n');
}

/* False if the reader would change it: control characters, surrounding space, bytes that are not
 * UTF-8. */
static bool name_is_clean(const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)p[i] < 0x20 || p[i] == 0x7f)
            return false;
    return n && p[0] != ' ' && p[n - 1] != ' ' && stk_is_text((const uint8_t *)p, n);
}

static char letter_of(uint8_t kind, uint8_t dtype)
{
    switch (kind) {
    case STK_ARRAY:
        return stk_csv_of_dtype(dtype);
    case STK_TEXT:
        return STK_CSV_TEXT;
    case STK_BYTES:
        return STK_CSV_BYTES;
    default:
        return STK_CSV_JSON;
    }
}

/* Writes the description of the column for the reader (a line of the context). */
static void put_type(struct writer *w, const struct stk_write_config *cfg, const struct column *c,
                     const struct stk_field *f)
{
    const struct stk_type *y = stk_types_find(cfg->types, f->name, f->name_len);
    uint8_t dtype = f->value.dtype, kind = y ? stk_type_kind(y, &dtype) : f->value.kind;
    bool null = y && stk_type_has_null(y), real = stk_dtype_is_float(dtype);
    char letter = letter_of(kind, null && dtype != STK_BOOL ? real ? STK_F64 : STK_I64 : dtype);
    const char *at = null ? strchr(STK_CSV_PLAIN, letter) : NULL;
    if (c->array)
        stk_buf_printf(&w->types, "%c%llu ", letter - 'a' + 'A', (unsigned long long)c->count);
    else
        stk_buf_putc(&w->types, at ? STK_CSV_NULLABLE[at - STK_CSV_PLAIN] : letter);
    stk_buf_put(&w->types, c->name, c->name_len);
    stk_buf_putc(&w->types, '\n');
}

/* `a` of one dimension is columns a_0, a_1, ...: another field may have such a name. */
static int columns_differ(const struct writer *w, const struct stk_sample *first,
                          struct stk_err *err)
{
    for (size_t i = 0; i < w->ncolumns; i++)
        for (size_t k = 0; w->column[i].array && k < w->ncolumns; k++) {
            const struct column *a = &w->column[i], *b = &w->column[k];
            if (b->name_len > a->name_len + 1 && b->name[a->name_len] == '_' &&
                memcmp(a->name, b->name, a->name_len) == 0 &&
                strspn(b->name + a->name_len + 1, "0123456789") == b->name_len - a->name_len - 1)
                return refuse(first, &first->field[k], "this name",
                              "would be taken for an element of another field", err);
        }
    return 0;
}

static int add_columns(struct writer *w, const struct stk_write_config *cfg, struct stk_err *err)
{
    const struct stk_sample *first = cfg->first;
    w->key = first->key_len != 0;
    if (w->key)
        stk_buf_puts(&w->types, "tkey\n");
    w->column = calloc(first->nfields + 1, sizeof *w->column);
    if (!w->column)
        return stk_err_nomem(err, first->nfields * sizeof *w->column);
    for (size_t i = 0; i < first->nfields; i++) {
        const struct stk_field *f = &first->field[i];
        struct column *c = &w->column[i];
        int rc = check_value(first, f, err);
        if (rc < 0)
            return rc;
        if (!f->name_len || (w->key && f->name_len == 3 && memcmp(f->name, "key", 3) == 0))
            return refuse(first, f, "this name", "would be taken for another column", err);
        if (!name_is_clean(f->name, f->name_len))
            return refuse(first, f, "this name",
                          "has control characters, spaces around it, or is "
                          "not UTF-8",
                          err);
        if (f->value.kind == STK_ARRAY && f->value.ndim && !f->value.dim[0])
            return refuse(first, f, "an array without elements", "has none", err);
        c->array = f->value.kind == STK_ARRAY && f->value.ndim == 1;
        c->count = c->array ? f->value.dim[0] : 1;
        c->name_len = f->name_len;
        c->name = malloc(f->name_len + 1);
        if (!c->name)
            return stk_err_nomem(err, f->name_len);
        memcpy(c->name, f->name, f->name_len);
        c->name[f->name_len] = '\0';
        w->ncolumns++;
        if (c->count > STK_CSV_COLUMNS_MAX)
            return refuse(first, f, "an array of this length", "has too many elements", err);
        put_type(w, cfg, c, f);
    }
    return columns_differ(w, first, err);
}

static int prepare(struct stk_write_config *cfg, struct stk_err *err)
{
    struct writer *w = calloc(1, sizeof *w);
    if (!w)
        return stk_err_nomem(err, sizeof *w);
    w->delim = cfg->format == &stk_format_tsv ? '\t' : ',';
    int rc = cfg->first ? add_columns(w, cfg, err) : 0;
    if (rc == 0) {
        put_header(w);
        rc = stk_buf_check(&w->header, err);
        (void)stk_buf_cstr(&w->types);
    }
    if (rc == 0)
        rc = stk_buf_check(&w->types, err);
    if (rc == 0) {
        cfg->priv = w;
        cfg->columns = (const char *)w->types.data;
    } else
        free_writer(w);
    return rc;
}

/* The column's field in a sample, or NULL. *at: its expected index, since most samples have the
 * fields of the first in the same order. */
static const struct stk_field *find_field(const struct column *c, const struct stk_sample *s,
                                          size_t *at)
{
    const struct stk_field *f = *at < s->nfields ? &s->field[*at] : NULL;
    if (!f || f->name_len != c->name_len || memcmp(f->name, c->name, c->name_len) != 0)
        f = stk_sample_find(s, c->name);
    if (f)
        *at = (size_t)(f - s->field) + 1;
    return f;
}

static int put_field(const struct writer *w, const struct column *c, const struct stk_sample *s,
                     const struct stk_field *f, bool alone, struct stk_buf *out,
                     struct stk_err *err)
{
    const struct stk_value *v = &f->value;
    int rc = check_value(s, f, err);
    if (rc < 0)
        return rc;
    bool array = v->kind == STK_ARRAY && v->ndim == 1;
    if (array != c->array || (array && v->dim[0] != c->count))
        return refuse(s, f, "arrays of differing length", "differs from the first sample", err);
    if (v->kind == STK_JSON && v->size == 4 && memcmp(v->data, "null", 4) == 0) {
        put_text(out, NULL, 0, w->delim, alone);
        return 0;
    }
    if (v->kind != STK_ARRAY) {
        put_text(out, v->data, v->size, w->delim, alone);
        return 0;
    }
    for (uint64_t i = 0; v->dtype == STK_U64 && i < c->count; i++)
        if (stk_value_i64(v, i) < 0)
            return refuse(s, f, "a number past the largest int64", "has one", err);
    for (uint64_t i = 0; i < c->count; i++) {
        char *to = stk_buf_room(out, STK_NUM_ROOM + 1);
        if (!to)
            break;
        size_t n = 0;
        if (i)
            to[n++] = w->delim;
        out->len += n + stk_value_text(v, i, to + n);
    }
    return 0;
}

/* Refuses fields of s that have no column. */
static int find_extra(const struct writer *w, const struct stk_sample *s, struct stk_err *err)
{
    for (size_t i = 0; i < s->nfields; i++) {
        const struct stk_field *f = &s->field[i];
        bool found = false;
        for (size_t k = 0; k < w->ncolumns && !found; k++)
            found = w->column[k].name_len == f->name_len &&
                    memcmp(w->column[k].name, f->name, f->name_len) == 0;
        if (!found)
            return refuse(s, f, "more columns", "is not in the first sample", err);
    }
    return 0;
}

static int encode(const struct stk_write_config *cfg, const struct stk_sample *s,
                  struct stk_buf *out, struct stk_err *err)
{
    const struct writer *w = cfg->priv;
    size_t taken = 0, at = 0;
    bool comma = w->key, alone = w->ncolumns + w->key == 1;
    if (w->key && !stk_is_text((const uint8_t *)s->key, s->key_len))
        return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1,
                           "a key that is not UTF-8 text cannot go into CSV");
    if (w->key)
        put_text(out, s->key, s->key_len, w->delim, alone);
    for (size_t i = 0; i < w->ncolumns; i++) {
        const struct column *c = &w->column[i];
        const struct stk_field *f = find_field(c, s, &at);
        if (comma && c->count)
            stk_buf_putc(out, w->delim);
        comma |= c->count != 0;
        int rc = f ? put_field(w, c, s, f, alone, out, err) : 0;
        if (rc < 0)
            return rc;
        for (uint64_t k = 1; !f && k < c->count; k++)
            stk_buf_putc(out, w->delim);
        if (!f && alone)
            put_text(out, NULL, 0, w->delim, true);
        taken += f != NULL;
    }
    if (taken < s->nfields) {
        int rc = find_extra(w, s, err);
        if (rc < 0)
            return rc;
    }
    stk_buf_putc(out, '\n');
    return stk_buf_check(out, err);
}

static int begin(const struct stk_write_config *cfg, struct stk_out *o, struct stk_err *err)
{
    const struct writer *w = cfg->priv;
    return stk_out_write(o, w->header.data, w->header.len, err);
}

static const struct stk_format_use table_use = {.how = STK_USE_TABLE};

const struct stk_format stk_format_csv = {
    .name = "csv",
    .title = "CSV",
    .holds = STK_HOLDS_NULL | STK_HOLDS_KEY,
    .suffix = ".csv",
    .suffixes = csv_suffixes,
    .caps = STK_CAN_READ | STK_CAN_WRITE | STK_CAN_SHARD | STK_CAN_GZIP,
    .packs_as = "npz",
    .bid = csv_bid,
    .list = csv_list,
    .merge_context = stk_csv_context_merge,
    .prepare = prepare,
    .unprepare = unprepare,
    .encode = encode,
    .begin = begin,
    .use = &table_use,
};

const struct stk_format stk_format_tsv = {
    .name = "tsv",
    .title = "TSV",
    .holds = STK_HOLDS_NULL | STK_HOLDS_KEY,
    .suffix = ".tsv",
    .suffixes = tsv_suffixes,
    .caps = STK_CAN_READ | STK_CAN_WRITE | STK_CAN_SHARD | STK_CAN_GZIP,
    .packs_as = "npz",
    .bid = tsv_bid,
    .list = tsv_list,
    .merge_context = stk_csv_context_merge,
    .prepare = prepare,
    .unprepare = unprepare,
    .encode = encode,
    .begin = begin,
    .use = &table_use,
};
