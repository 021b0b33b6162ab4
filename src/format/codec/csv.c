/*
 * csv.c - one row of CSV into fields, typed by the columns in the dataset's context.
 *
 * An empty cell is nan in a column of floats (which includes integers with empty cells) and empty
 * text in a column of text. The format (csv.c) does the writing.
 */
#include "format/csv/csv.h"
#include "format/sample.h"
#include "base/num.h"

#include <math.h>

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

/* Booleans are written 0 and 1. */
static int add_bool(struct stk_sample *s, const struct stk_csv_entry *e, struct stk_csv_cell *c,
                    struct stk_err *err)
{
    int64_t number;
    int rc = read_int(e, c, &number, err);
    uint8_t *truth = rc == 0 ? stk_arena_alloc(&s->arena, 1) : NULL;
    if (!truth)
        return rc < 0 ? rc : stk_err_nomem(err, 1);
    if (number & ~1)
        return bad_cell(e, c, "is neither 0 nor 1", err);
    *truth = (uint8_t)number;
    struct stk_value v = {.kind = STK_ARRAY, .dtype = STK_BOOL, .data = truth, .size = 1};
    return add(s, e, &v, err);
}

/* alone: the cell is the whole row, where quotes tell an empty one from a blank line. */
static int explode_single(struct stk_sample *s, const struct stk_csv_entry *e,
                          struct stk_csv_cell *c, bool alone, struct stk_err *err)
{
    bool key = e->name_len == 3 && memcmp(e->name, "key", 3) == 0;
    const char *nulls = STK_CSV_NULLABLE, *null = strchr(nulls, e->type);
    if (null && !c->n && (!c->quoted || alone))
        return add(s, e, &(struct stk_value){.kind = STK_JSON, .data = "null", .size = 4}, err);
    struct stk_csv_entry plain = *e;
    if (null) {
        plain.type = STK_CSV_PLAIN[null - nulls];
        e = &plain;
    }
    if (e->type == STK_CSV_INT && !key) {
        int64_t v;
        int rc = read_int(e, c, &v, err);
        return rc < 0 ? rc : stk_sample_add_i64(s, e->name, e->name_len, v, err);
    }
    if (e->type == STK_CSV_BOOL && !key)
        return add_bool(s, e, c, err);
    if (e->type == STK_CSV_FLOAT && !key) {
        double v;
        int rc = read_float(e, c, &v, err);
        return rc < 0 ? rc : stk_sample_add_f64(s, e->name, e->name_len, v, err);
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
    uint8_t *data = stk_arena_alloc(&s->arena, (size_t)e->count * 8);
    if (!data)
        return stk_err_nomem(err, e->count * 8);
    for (uint64_t i = 0; i < e->count; i++) {
        struct stk_csv_cell c;
        int64_t whole = 0;
        double real = 0;
        int rc = stk_csv_next(row, &c, err);
        if (rc <= 0)
            return rc < 0 ? rc : too_few(ncolumns, err);
        bool is_int = e->type == STK_CSV_INT;
        rc = is_int ? read_int(e, &c, &whole, err) : read_float(e, &c, &real, err);
        if (rc < 0)
            return rc;
        memcpy(data + i * 8, is_int ? (const void *)&whole : &real, 8);
    }
    struct stk_value v = {.kind = STK_ARRAY,
                          .dtype = e->type == STK_CSV_INT ? STK_I64 : STK_F64,
                          .ndim = 1,
                          .dim[0] = e->count,
                          .data = data,
                          .size = (size_t)e->count * 8};
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
