/*
 * json.c - one JSON value into fields (format/json/write.c: and back).
 *
 * An object's members are fields: strings are text, numbers and booleans scalars, rectangular
 * arrays of them arrays, {"$base64": "..."} bytes, and everything else stays JSON. The member `key`
 * is the sample's key. A value that is not an object is the field `data`. A duplicate name in an
 * object, at any depth, is refused: one of the two values would be lost.
 */
#include "format/format.h"
#include "format/json/text.h"
#include "format/sample.h"

#include <math.h>
#include <stdio.h>

#define MEMBERS_MAX (1u << 20)

/* ---- reading: arrays of numbers ------------------------------------------------------------ */

/* Fills an array from valid JSON text whose leaves are all of one sort. */
struct fill {
    uint8_t *out;
    uint8_t dtype; /* I64, F64 or BOOL */
    unsigned ndim, level;
    uint64_t n, dim[STK_MAX_NDIM], seen[STK_MAX_NDIM];
    bool known[STK_MAX_NDIM];
};

static bool open_level(struct fill *f)
{
    if (f->level == STK_MAX_NDIM || (f->ndim && f->level >= f->ndim))
        return false;
    if (f->level)
        f->seen[f->level - 1]++;
    f->seen[f->level++] = 0;
    return true;
}

static bool close_level(struct fill *f)
{
    unsigned l = --f->level;
    if (f->known[l] ? f->dim[l] != f->seen[l] : f->seen[l] == 0)
        return false;
    f->known[l] = true;
    f->dim[l] = f->seen[l];
    return true;
}

/* The digits without the zeros before and behind them. */
static const char *significant(const char *p, size_t *n)
{
    while (*n && *p == '0') {
        p++;
        --*n;
    }
    while (*n && p[*n - 1] == '0')
        --*n;
    return p;
}

/* True if the float f is what a whole number says: it has this value, or these digits when it is
 * written with as few as possible, as JavaScript writes large floats. */
static bool float_is(double f, const char *p, size_t n)
{
    char exact[400], shortest[STK_NUM_ROOM];
    size_t kept = 0, len = stk_num_f64(shortest, fabs(f));
    bool minus = *p == '-';
    p += minus;
    n -= minus;
    if (snprintf(exact, sizeof exact, "%.0f", fabs(f)) == (int)n && memcmp(exact, p, n) == 0)
        return true;
    for (size_t i = 0; i < len && shortest[i] != 'e'; i++)
        if (shortest[i] != '.')
            shortest[kept++] = shortest[i];
    const char *a = significant(shortest, &kept), *b = significant(p, &n);
    return kept == n && memcmp(a, b, n) == 0;
}

/* Infinity as a word, not as a number that is too large. */
static bool holds(double f, const char *p, size_t n)
{
    return isfinite(f) || p[n - 1] == 'y' || p[n - 1] == 'N';
}

#define FLOAT_DIGITS 15 /* every whole number of as many is a float */

static bool put_leaf(struct fill *f, const char *p, size_t n)
{
    int64_t i = 0;
    double v = 0;
    if (!f->ndim)
        f->ndim = f->level;
    if (f->level != f->ndim)
        return false;
    f->seen[f->level - 1]++;
    if (f->dtype == STK_BOOL) {
        f->out[f->n++] = *p == 't';
        return true;
    }
    enum stk_num kind = stk_num_parse(p, n, &i, &v);
    if (kind == STK_NUM_NONE || !holds(v, p, n))
        return false;
    bool whole = kind == STK_NUM_INT || kind == STK_NUM_BIG;
    if (f->dtype == STK_F64 && whole && n > FLOAT_DIGITS && !float_is(v, p, n))
        return false; /* the array stays JSON, with its digits */
    memcpy(f->out + 8 * f->n++, f->dtype == STK_I64 ? (const void *)&i : &v, 8);
    return true;
}

/* False: not rectangular, empty somewhere, too many dimensions, or no type holds all numbers. */
static bool fill_array(struct fill *f, const char *p, const char *end)
{
    while (p < end) {
        bool good = true;
        const char *start = p++;
        switch (*start) {
        case ' ':
        case '\n':
        case '\r':
        case '\t':
        case ',':
            break;
        case '[':
            good = open_level(f);
            break;
        case ']':
            good = close_level(f);
            break;
        default:
            while (*p != ',' && *p != ']' && *p != ' ' && *p != '\n' && *p != '\r' && *p != '\t')
                p++; /* the array's own ] ends this at the latest */
            good = put_leaf(f, start, (size_t)(p - start));
        }
        if (!good)
            return false;
    }
    return true;
}

/* Reads raw[0..n) as an array of numbers; 1: done, 0: it is something else. */
static int read_array(struct stk_sample *s, const char *raw, size_t n,
                      const struct stk_json_leaves *l, struct stk_value *v, struct stk_err *err)
{
    uint64_t numbers = l->ints + l->floats, count = numbers + l->bools;
    if (!count || l->others || (numbers && l->bools) || (l->bigs && l->bigs == l->floats))
        return 0;
    struct fill f = {.dtype = l->bools ? STK_BOOL : l->floats ? STK_F64 : STK_I64};
    size_t size = (size_t)count * (l->bools ? 1 : 8);
    f.out = stk_arena_alloc(&s->arena, size);
    if (!f.out)
        return stk_err_nomem(err, size);
    if (!fill_array(&f, raw, raw + n))
        return 0;
    *v = (struct stk_value){
        .kind = STK_ARRAY, .dtype = f.dtype, .ndim = (uint8_t)f.ndim, .data = f.out, .size = size};
    memcpy(v->dim, f.dim, sizeof v->dim);
    return 1;
}

/* ---- reading: text and bytes ---------------------------------------------------------------- */

/* A string's body, unescaped if needed. */
static int plain_text(struct stk_sample *s, const char **body, size_t *len, bool escaped,
                      struct stk_err *err)
{
    if (!escaped)
        return 0;
    char *text = stk_arena_alloc(&s->arena, *len);
    if (!text)
        return stk_err_nomem(err, *len);
    *len = stk_json_unescape(*body, *len, text);
    *body = text;
    return 0;
}

static int digit64(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Decodes standard base64 with padding; false if it is not. */
static bool decode64(const char *p, size_t n, uint8_t *out, size_t *len)
{
    size_t pad = 0;
    while (pad < 2 && pad < n && p[n - 1 - pad] == '=')
        pad++;
    if (n % 4)
        return false;
    *len = 0;
    for (size_t i = 0; i < n; i += 4) {
        size_t skip = i + 4 == n ? pad : 0;
        uint32_t word = 0;
        for (size_t k = 0; k < 4; k++) {
            int d = k < 4 - skip ? digit64(p[i + k]) : 0;
            if (d < 0)
                return false;
            word = word << 6 | (uint32_t)d;
        }
        for (size_t k = 0; k < 3 - skip; k++)
            out[(*len)++] = (uint8_t)(word >> (16 - 8 * k));
        if (skip && (word & (skip == 2 ? 0xffff : 0xff)))
            return false; /* bits that belong to no byte */
    }
    return true;
}

/* {"$base64": "..."}: 1 and v; 0: another object; negative: bad text. */
static int read_base64(struct stk_sample *s, const char *raw, size_t n, struct stk_value *v,
                       struct stk_err *err)
{
    struct stk_json_cur c = stk_json_record(raw, n, err);
    const char *body;
    size_t len;
    bool escaped;
    /* The text was checked before: its grammar is sound. */
    if (stk_json_open(&c, 1) != 1 || stk_json_name(&c, &body, &len, &escaped) < 0 ||
        len != strlen(STK_JSON_BASE64) || memcmp(body, STK_JSON_BASE64, len) != 0)
        return 0;
    if (*c.p != '"' || stk_json_string(&c, &body, &len, &escaped) < 0 ||
        stk_json_more(&c, raw) != 0)
        return 0;
    uint8_t *out = stk_arena_alloc(&s->arena, len + 1);
    if (!out)
        return stk_err_nomem(err, len);
    /* Only \/ can occur escaped, which some writers do. */
    const char *at = body;
    int rc = plain_text(s, &body, &len, escaped, err);
    if (rc < 0)
        return rc;
    *v = (struct stk_value){.kind = STK_BYTES, .data = out};
    return decode64(body, len, out, &v->size) ? 1 : stk_json_bad(&c, at, "bad base64");
}

/* ---- reading: members ---------------------------------------------------------------------- */

static int read_scalar(struct stk_sample *s, const char *raw, size_t n,
                       const struct stk_json_leaves *l, struct stk_value *v, struct stk_err *err)
{
    int64_t i = 0;
    double f = 0;
    uint8_t truth = *raw == 't';
    if (l->others || l->bigs)
        return 0;
    if (!l->bools && (stk_num_parse(raw, n, &i, &f) == STK_NUM_NONE || !holds(f, raw, n)))
        return 0;
    const void *from = l->bools ? (const void *)&truth : l->ints ? (const void *)&i : &f;
    *v = (struct stk_value){.kind = STK_ARRAY,
                            .dtype = l->bools  ? STK_BOOL
                                     : l->ints ? STK_I64
                                               : STK_F64,
                            .size = l->bools ? 1 : 8};
    v->data = stk_arena_dup(&s->arena, from, v->size);
    return v->data ? 1 : stk_err_nomem(err, 8);
}

/* The value at c->p as a field's value. */
static int read_value(struct stk_sample *s, struct stk_json_cur *c, struct stk_json_names *names,
                      struct stk_value *v)
{
    const char *raw = c->p;
    if (raw < c->end && *raw == '"') {
        const char *text;
        bool escaped;
        *v = (struct stk_value){.kind = STK_TEXT};
        int rc = stk_json_string(c, &text, &v->size, &escaped);
        if (rc == 0)
            rc = plain_text(s, &text, &v->size, escaped, c->err);
        v->data = rc == 0 ? text : NULL;
        return rc;
    }
    struct stk_json_leaves l = {.names = names};
    int rc = stk_json_walk(c, 1, &l);
    if (rc < 0)
        return rc;
    size_t n = (size_t)(c->p - raw);
    if (*raw == '[')
        rc = read_array(s, raw, n, &l, v, c->err);
    else if (*raw == '{')
        rc = read_base64(s, raw, n, v, c->err);
    else
        rc = read_scalar(s, raw, n, &l, v, c->err);
    if (rc == 0)
        *v = (struct stk_value){.kind = STK_JSON, .data = raw, .size = n};
    return rc < 0 ? rc : 0;
}

static int add_member(struct stk_sample *s, struct stk_json_cur *c, const char *name, size_t len,
                      struct stk_json_names *names)
{
    struct stk_value v;
    const char *raw = c->p;
    int rc = read_value(s, c, names, &v);
    if (rc < 0)
        return rc;
    if (len == 3 && memcmp(name, "key", 3) == 0) {
        /* Keys that are not UTF-8 are written like other bytes. */
        bool text = v.kind == STK_TEXT || v.kind == STK_BYTES;
        s->key = text ? v.data : raw;
        s->key_len = text ? v.size : (size_t)(c->p - raw);
        return 0;
    }
    return stk_sample_add(s, name, len, &v) ? 0 : stk_err_nomem(c->err, sizeof v);
}

static int read_members(struct stk_sample *s, struct stk_json_cur *c, struct stk_json_names *names)
{
    const char *open = c->p;
    struct stk_json_member twice;
    int more = stk_json_open(c, 0);
    for (size_t n = 1; more > 0; n++) {
        const char *name;
        size_t len;
        bool escaped;
        int rc = n > MEMBERS_MAX ? stk_json_bad(c, c->p, "more than 1,048,576 members") : 0;
        if (rc == 0)
            rc = stk_json_name(c, &name, &len, &escaped);
        if (rc == 0)
            rc = plain_text(s, &name, &len, escaped, c->err);
        if (rc == 0)
            rc = stk_json_names_add(names, name, len, false, c->err);
        if (rc == 0)
            rc = add_member(s, c, name, len, names);
        more = rc < 0 ? rc : stk_json_more(c, open);
    }
    if (more < 0)
        return more;
    int rc = stk_json_names_close(names, 0, &twice, c->err);
    return rc == 1 ? stk_json_twice(c, open, &twice) : rc;
}

static int explode(const char *context, size_t context_len, const uint8_t *p, size_t n,
                   struct stk_sample *s, struct stk_err *err)
{
    (void)context;
    (void)context_len;
    struct stk_json_cur c = stk_json_record((const char *)p, n, err);
    struct stk_json_names names = {0};
    int rc = 0;
    stk_json_space(&c);
    if (c.p < c.end && *c.p == '{') {
        rc = read_members(s, &c, &names);
    } else {
        struct stk_value v;
        rc = read_value(s, &c, &names, &v);
        if (rc == 0 && !stk_sample_add(s, "data", 4, &v))
            rc = stk_err_nomem(err, sizeof v);
    }
    stk_json_names_release(&names);
    return rc < 0 ? rc : stk_json_end(&c);
}

static int bid(const uint8_t *p, size_t n)
{
    struct stk_json_cur c = stk_json_record((const char *)p, n, NULL);
    struct stk_json_leaves l = {0};
    bool sound = n && *p == '{' && stk_json_walk(&c, 0, &l) == 0 && stk_json_end(&c) == 0;
    return sound ? 80 : 0;
}

const struct stk_codec stk_codec_json = {.name = "json",
                                         .title = "JSON value",
                                         .payload = true,
                                         .holds = STK_HOLDS_ANY | STK_HOLDS_NULL |
                                                  STK_HOLDS_SHAPES | STK_HOLDS_GAPS | STK_HOLDS_KEY,
                                         .bid = bid,
                                         .explode = explode,
                                         .implode = stk_json_implode};
