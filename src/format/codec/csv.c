/*
 * csv.c - one row of CSV into fields, typed by the columns in the dataset's context.
 *
 * An empty cell is nan in a column of floats (which includes integers with empty cells) and empty
 * text in a column of text. The format (csv.c) does the writing.
 */
#include "format/csv/csv.h"
#include "format/sample.h"
#include "base/num.h"

#include <locale.h>
#include <math.h>
#include <stdlib.h>

#define SHOWN 40 /* bytes of a cell shown in a message */

static int bad_cell(const struct stk_csv_entry *e, const struct stk_csv_cell *c, const char *why,
                    struct stk_err *err)
{
    char shown[SHOWN + 1];
    size_t n = c->n < SHOWN ? c->n : SHOWN;
    for (size_t i = 0; i < n; i++)
        shown[i] = c->p[i] >= ' ' && c->p[i] < 0x7f ? c->p[i] : '?';
    shown[n] = '\0';
    return stk_err_set(err, STK_E_CORRUPT, NULL, -1, "column %.*s: '%s%s' %s",
                       (int)(e->name_len < 200 ? e->name_len : 200), e->name, shown,
                       c->n > n ? "..." : "", why);
}

/* Spaces around a number mean nothing. */
static void trim(struct stk_csv_cell *c)
{
    while (c->n && (c->p[0] == ' ' || c->p[0] == '\t')) {
        c->p++;
        c->n--;
    }
    while (c->n && (c->p[c->n - 1] == ' ' || c->p[c->n - 1] == '\t'))
        c->n--;
}

static int read_int(const struct stk_csv_entry *e, struct stk_csv_cell *c, int64_t *v,
                    struct stk_err *err)
{
    double unused;
    trim(c);
    if (stk_num_parse(c->p, c->n, v, &unused) == STK_NUM_INT)
        return 0;
    return bad_cell(
        e, c, "is not an integer of 64 bits as in the rows before (--types overrules it)", err);
}

static int read_float(const struct stk_csv_entry *e, struct stk_csv_cell *c, double *v,
                      struct stk_err *err)
{
    int64_t unused;
    trim(c);
    *v = (double)NAN;
    if (!c->n || stk_num_parse(c->p, c->n, &unused, v) != STK_NUM_NONE)
        return 0;
    return bad_cell(e, c, "is not a number as in the rows before (--types overrules it)", err);
}

/* The cell's text: in place, or in the arena if it had to be unquoted. */
static int read_text(struct stk_sample *s, const struct stk_csv_entry *e, struct stk_csv_cell *c,
                     struct stk_err *err)
{
    if (c->doubled) {
        char *text = stk_arena_alloc(&s->arena, c->n + 1);
        if (!text)
            return stk_err_nomem(err, c->n);
        c->n = stk_csv_unquote(c, text);
        c->p = text;
    }
    if (stk_is_text((const uint8_t *)c->p, c->n))
        return 0;
    return bad_cell(e, c, "is not UTF-8 text (convert the file with iconv)", err);
}

static int add(struct stk_sample *s, const struct stk_csv_entry *e, const struct stk_value *v,
               struct stk_err *err)
{
    return stk_sample_add(s, e->name, e->name_len, v) ? 0 : stk_err_nomem(err, sizeof *v);
}

/* The float32 nearest to the cell. Rounding its float64 gives that, unless that is just between two
 * float32: then the digits decide. */
static float nearest(const struct stk_csv_cell *c, double v)
{
    static locale_t plain;
    char text[64];
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    if ((bits & 0x1fffffff) != 0x10000000 || c->n >= sizeof text)
        return (float)v;
    if (!plain)
        plain = newlocale(LC_ALL_MASK, "C", NULL);
    memcpy(text, c->p, c->n);
    text[c->n] = '\0';
    return plain ? strtof_l(text, NULL, plain) : (float)v;
}

/* True if an integer of this type can be v. */
static bool fits(uint8_t dtype, int64_t v)
{
    unsigned bits = 8 * (unsigned)stk_dtype_size(dtype);
    bool negative =
        dtype == STK_I8 || dtype == STK_I16 || dtype == STK_I32 || dtype == STK_I64;
    if (dtype == STK_BOOL)
        return v == 0 || v == 1; /* as they are written */
    if (bits == 64)
        return negative || v >= 0;
    return negative ? v >= -(1ll << (bits - 1)) && v < 1ll << (bits - 1) : v >= 0 && v < 1ll << bits;
}

static int read_number(const struct stk_csv_entry *e, struct stk_csv_cell *c, uint8_t dtype,
                       uint8_t *to, struct stk_err *err)
{
    if (stk_dtype_is_float(dtype)) {
        double v;
        int rc = read_float(e, c, &v, err);
        float single = rc == 0 && dtype == STK_F32 ? nearest(c, v) : 0;
        memcpy(to, dtype == STK_F32 ? (const void *)&single : &v, stk_dtype_size(dtype));
        return rc;
    }
    uint8_t bytes[8];
    int64_t v = 0;
    int rc = read_int(e, c, &v, err);
    if (rc == 0 && !fits(dtype, v))
        return bad_cell(e, c, dtype == STK_BOOL ? "is neither 0 nor 1" : "is too large for its type",
                        err);
    stk_put_le64(bytes, (uint64_t)v);
    memcpy(to, bytes, stk_dtype_size(dtype));
    return rc;
}

/* True if a cell of a column with nulls is one. Quotes make an empty cell text, but no number.
 * alone: the cell is the whole row, where quotes tell an empty one from a blank line. */
static bool is_null(const struct stk_csv_entry *e, struct stk_csv_cell c, bool alone)
{
    if (e->type == STK_CSV_TEXT_NULL)
        return !c.n && (!c.quoted || alone);
    trim(&c);
    return !c.n;
}

static int explode_single(struct stk_sample *s, const struct stk_csv_entry *e,
                          struct stk_csv_cell *c, bool alone, struct stk_err *err)
{
    bool key = e->name_len == 3 && memcmp(e->name, "key", 3) == 0;
    const char *nulls = STK_CSV_NULLABLE, *null = strchr(nulls, e->type);
    if (null && is_null(e, *c, alone))
        return add(s, e, &(struct stk_value){.kind = STK_JSON, .data = "null", .size = 4}, err);
    struct stk_csv_entry plain = *e;
    if (null) {
        plain.type = STK_CSV_PLAIN[null - nulls];
        e = &plain;
    }
    uint8_t dtype = stk_csv_dtype(e->type);
    if (dtype && !key) {
        size_t size = stk_dtype_size(dtype);
        uint8_t *number = stk_arena_alloc(&s->arena, size);
        int rc = number ? read_number(e, c, dtype, number, err) : stk_err_nomem(err, size);
        struct stk_value v = {.kind = STK_ARRAY, .dtype = dtype, .data = number, .size = size};
        return rc < 0 ? rc : add(s, e, &v, err);
    }
    int rc = read_text(s, e, c, err);
    if (rc < 0)
        return rc;
    if (key) {
        s->key = c->p;
        s->key_len = c->n;
        return 0;
    }
    struct stk_value v = {.kind = STK_TEXT, .data = c->p, .size = c->n};
    if (e->type == STK_CSV_JSON || e->type == STK_CSV_BYTES)
        v.kind = e->type == STK_CSV_JSON ? STK_JSON : STK_BYTES;
    if (e->type == STK_CSV_JSON && !c->n) {
        v.data = "null"; /* an empty cell is not JSON */
        v.size = 4;
    }
    return add(s, e, &v, err);
}

static int too_few(uint64_t want, struct stk_err *err)
{
    return stk_err_set(err, STK_E_CORRUPT, NULL, -1, "the row has fewer than %llu columns",
                       (unsigned long long)want);
}

static int explode_array(struct stk_sample *s, const struct stk_csv_entry *e,
                         struct stk_csv_row *row, uint64_t ncolumns, struct stk_err *err)
{
    /* A cell takes at least its delimiter, so the row's length bounds the memory. */
    if (e->count > (uint64_t)(row->end - row->p) + 1)
        return too_few(ncolumns, err);
    uint8_t dtype = stk_csv_dtype(e->type);
    dtype = dtype ? dtype : STK_F64; /* only empty cells yet */
    size_t size = stk_dtype_size(dtype);
    uint8_t *data = stk_arena_alloc(&s->arena, (size_t)e->count * size);
    if (!data)
        return stk_err_nomem(err, e->count * size);
    for (uint64_t i = 0; i < e->count; i++) {
        struct stk_csv_cell c;
        int rc = stk_csv_next(row, &c, err);
        if (rc <= 0)
            return rc < 0 ? rc : too_few(ncolumns, err);
        rc = read_number(e, &c, dtype, data + i * size, err);
        if (rc < 0)
            return rc;
    }
    struct stk_value v = {.kind = STK_ARRAY,
                          .dtype = dtype,
                          .ndim = 1,
                          .dim[0] = e->count,
                          .data = data,
                          .size = (size_t)e->count * size};
    return add(s, e, &v, err);
}

static int explode(const char *context, size_t context_len, const uint8_t *p, size_t n,
                   struct stk_sample *s, struct stk_err *err)
{
    struct stk_csv_context ctx;
    struct stk_csv_entry e;
    int rc = stk_csv_context_open(&ctx, context, context_len, err);
    if (rc < 0)
        return rc;
    struct stk_csv_row row = {
        .p = (const char *)p, .end = (const char *)p + n, .delim = ctx.delim, .more = true};
    while ((rc = stk_csv_context_next(&ctx, &e, err)) == 1) {
        struct stk_csv_cell c;
        e.type = stk_csv_reads_as(e.type);
        if (e.array) {
            rc = explode_array(s, &e, &row, ctx.ncolumns, err);
        } else {
            rc = stk_csv_next(&row, &c, err);
            if (rc == 0)
                rc = too_few(ctx.ncolumns, err);
            else if (rc == 1)
                rc = explode_single(s, &e, &c, ctx.ncolumns == 1, err);
        }
        if (rc < 0)
            return rc;
    }
    if (rc == 0 && row.more)
        return stk_err_set(err, STK_E_CORRUPT, NULL, -1, "the row has more than %llu columns",
                           (unsigned long long)ctx.ncolumns);
    return rc;
}

/* Only a column whose empty cells are null has values of two types. */
static bool uniform(const char *context, size_t context_len)
{
    struct stk_csv_context ctx;
    struct stk_csv_entry e;
    int more = stk_csv_context_open(&ctx, context, context_len, NULL) < 0 ? -1 : 1;
    while (more == 1 && (more = stk_csv_context_next(&ctx, &e, NULL)) == 1)
        if (strchr(STK_CSV_NULLABLE, e.type))
            return false;
    return more == 0;
}

const struct stk_codec stk_codec_csv = {
    .name = "csv", .title = "CSV row", .uniform = uniform, .explode = explode};
