/*
 * npyhead.c - the header of a .npy file: a Python dict literal after a magic and a length.
 *
 * Accepts only the literal that NumPy writes (three keys, in any order); everything else is an
 * error that says what was found. Bounded: no recursion, no memory, no more than 64 KiB read.
 */
#include "format/numpy/npyhead.h"

#include <stdio.h>

static const uint8_t magic[6] = {0x93, 'N', 'U', 'M', 'P', 'Y'};

struct scan {
    const uint8_t *p;
    size_t at, end;
    struct stk_npy_records *records; /* receives the members of structures; NULL: refuse them */
    struct stk_err *err;
};

static int bad(const struct scan *s, const char *why)
{
    return stk_err_set(s->err, STK_E_CORRUPT, NULL, (int64_t)s->at, "%s", why);
}

static int refuse(const struct scan *s, const char *why)
{
    return stk_err_set(s->err, STK_E_UNSUPPORTED, NULL, (int64_t)s->at, "%s", why);
}

static void skip_space(struct scan *s)
{
    while (s->at < s->end && (s->p[s->at] == ' ' || s->p[s->at] == '\n' || s->p[s->at] == '\t' ||
                              s->p[s->at] == '\r'))
        s->at++;
}

/* Consumes c (after white space) if it is next. */
static bool take(struct scan *s, char c)
{
    skip_space(s);
    if (s->at >= s->end || s->p[s->at] != (uint8_t)c)
        return false;
    s->at++;
    return true;
}

static bool take_word(struct scan *s, const char *word)
{
    size_t n = strlen(word);
    skip_space(s);
    if (s->end - s->at < n || memcmp(s->p + s->at, word, n) != 0)
        return false;
    s->at += n;
    return true;
}

/* 'text' or "text" without escapes: no key or type NumPy writes has any. */
static int take_string(struct scan *s, const char **text, size_t *len)
{
    skip_space(s);
    /* Python 2 wrote u'…' for some. */
    if (s->at + 1 < s->end && s->p[s->at] == 'u' &&
        (s->p[s->at + 1] == '\'' || s->p[s->at + 1] == '"'))
        s->at++;
    if (s->at >= s->end || (s->p[s->at] != '\'' && s->p[s->at] != '"'))
        return bad(s, "a quoted text is missing");
    uint8_t quote = s->p[s->at++];
    size_t from = s->at;
    while (s->at < s->end && s->p[s->at] != quote && s->p[s->at] != '\\')
        s->at++;
    if (s->at >= s->end || s->p[s->at] == '\\')
        return bad(s, "a quoted text does not end");
    *text = (const char *)s->p + from;
    *len = s->at++ - from;
    return 0;
}

/* Decimal digits, and the L that Python 2 appended to long ones. */
static int take_number(struct scan *s, uint64_t *v)
{
    skip_space(s);
    size_t from = s->at;
    *v = 0;
    for (; s->at < s->end && s->p[s->at] >= '0' && s->p[s->at] <= '9'; s->at++)
        if (__builtin_mul_overflow(*v, 10u, v) ||
            __builtin_add_overflow(*v, (uint64_t)(s->p[s->at] - '0'), v) || *v > INT64_MAX)
            return bad(s, "a dimension is larger than 2^63");
    if (s->at == from)
        return bad(s, "a dimension is not a natural number");
    if (s->at < s->end && s->p[s->at] == 'L')
        s->at++;
    return 0;
}

static int parse_shape(struct scan *s, struct stk_npy_head *h)
{
    if (!take(s, '('))
        return bad(s, "the shape is not a tuple");
    unsigned ndim = 0;
    while (!take(s, ')')) {
        uint64_t v;
        int rc = take_number(s, &v);
        if (rc)
            return rc;
        if (ndim == STK_MAX_NDIM)
            return refuse(s, "more than 8 dimensions");
        h->dim[ndim++] = v;
        if (take(s, ','))
            continue;
        if (!take(s, ')'))
            return bad(s, "the shape does not end");
        /* "(3)" is a number in Python, not a tuple. */
        if (ndim == 1)
            return bad(s, "the shape is not a tuple");
        break;
    }
    h->ndim = (uint8_t)ndim;
    return 0;
}

static const struct {
    char type;
    uint8_t size, dtype;
} types[] = {
    {'u', 1, STK_U8},  {'i', 1, STK_I8},  {'u', 2, STK_U16}, {'i', 2, STK_I16},
    {'u', 4, STK_U32}, {'i', 4, STK_I32}, {'u', 8, STK_U64}, {'i', 8, STK_I64},
    {'f', 2, STK_F16}, {'f', 4, STK_F32}, {'f', 8, STK_F64}, {'b', 1, STK_BOOL},
};

static int refuse_type(const struct scan *s, char type, uint64_t size)
{
    switch (type) {
    case 'O':
        return refuse(s, "an array of Python objects (pickled); save it as numbers");
    case 'c':
        return refuse(s, "complex numbers of more than 64 bits each; save them as complex128");
    case 'M':
    case 'm':
        return refuse(s, "dates and time differences; save them as int64");
    case 'V':
        if (size) /* "<V2" */
            return refuse(s, "raw bytes without a type (bfloat16 is saved so); save it as float32");
        return refuse(s, "an array of structures; save each member as an array of its own");
    default:
        if (type == 'f' && size > 8)
            return refuse(s, "floating point of more than 64 bits; save it as float64");
        return bad(s, "not a NumPy type");
    }
}

/* "<f4": byte order, type letter, bytes (or characters) per element. */
static int parse_type(struct scan *s, const char *d, size_t len, struct stk_npy_head *h)
{
    char order = len && strchr("<>|=", d[0]) ? d[0] : 0;
    size_t i = order ? 1 : 0;
    char type = i < len ? d[i++] : '?';
    uint64_t size = 0;
    size_t digits = i;
    for (; i < len && d[i] >= '0' && d[i] <= '9' && size < (1u << 30); i++)
        size = size * 10 + (uint64_t)(d[i] - '0');
    bool sized = i > digits && i == len;
    h->swap = order == '>';
    if (sized && (type == 'S' || type == 'U')) {
        h->chars = type;
        h->itemsize = type == 'U' ? size * 4 : size;
        h->swap = h->swap && type == 'U';
        return 0;
    }
    if (sized && type == 'c' && (size == 8 || size == 16)) {
        h->dtype = size == 8 ? STK_F32 : STK_F64;
        h->itemsize = size / 2;
        h->complex = true;
        return 0;
    }
    for (size_t k = 0; sized && k < sizeof types / sizeof *types; k++)
        if (types[k].type == type && types[k].size == size) {
            h->dtype = types[k].dtype;
            h->itemsize = size;
            h->swap = h->swap && size > 1;
            return 0;
        }
    return refuse_type(s, type, size);
}

/* Bytes per element of an unsupported type ("|V4", "<M8[ns]"); 0: unknown. */
static uint64_t foreign_size(const char *d, size_t len)
{
    size_t i = len && strchr("<>|=", d[0]) ? 1 : 0;
    uint64_t size = 0;
    if (i >= len || !strchr("VMmfc", d[i]))
        return 0;
    for (i++; i < len && d[i] >= '0' && d[i] <= '9' && size < (1u << 20); i++)
        size = size * 10 + (uint64_t)(d[i] - '0');
    return size;
}

/* The type of a member, which may be left out. */
static int member_type(struct scan *s, struct stk_npy_member *m)
{
    const char *d;
    size_t len;
    struct stk_err why = {0};
    skip_space(s);
    if (s->at < s->end && s->p[s->at] == '[')
        return refuse(s, "structures within structures; save each member as an array of its own");
    int rc = take_string(s, &d, &len);
    if (rc)
        return rc;
    struct scan quiet = *s;
    quiet.err = &why;
    rc = parse_type(&quiet, d, len, &m->h);
    if (rc == STK_E_UNSUPPORTED && foreign_size(d, len)) {
        snprintf(m->why, sizeof m->why, "%.90s", why.what);
        m->h = (struct stk_npy_head){.itemsize = foreign_size(d, len)};
        return 0;
    }
    return rc ? parse_type(s, d, len, &m->h) : 0;
}

/* 'name', or ('title', 'name'). */
static int member_name(struct scan *s, struct stk_npy_member *m)
{
    bool titled = take(s, '(');
    int rc = take_string(s, &m->name, &m->name_len);
    if (rc == 0 && titled && !take(s, ','))
        rc = bad(s, "the title of a member is not followed by its name");
    if (rc == 0 && titled)
        rc = take_string(s, &m->name, &m->name_len);
    if (rc == 0 && titled && !take(s, ')'))
        rc = bad(s, "the title and the name of a member do not end");
    return rc;
}

/* ('name', '<f4') or ('name', '<f4', (3,)): it follows the previous member. */
static int parse_member(struct scan *s, struct stk_npy_member *m, uint64_t *size)
{
    uint64_t bytes;
    if (!take(s, '('))
        return bad(s, "a member of a structure is not a tuple");
    int rc = member_name(s, m);
    if (rc == 0 && !take(s, ','))
        rc = bad(s, "a member of a structure has no type");
    if (rc == 0)
        rc = member_type(s, m);
    if (rc == 0 && take(s, ',')) {
        skip_space(s);
        if (s->at < s->end && s->p[s->at] == '(')
            rc = parse_shape(s, &m->h);
    }
    if (rc == 0 && !take(s, ')'))
        rc = bad(s, "a member of a structure does not end");
    bytes = m->h.itemsize;
    if (m->h.complex)
        bytes *= 2;
    for (unsigned i = 0; rc == 0 && i < m->h.ndim; i++)
        if (!m->h.dim[i] || __builtin_mul_overflow(bytes, m->h.dim[i], &bytes) ||
            bytes > UINT32_MAX)
            rc = refuse(s, "a member of a structure of no bytes, or of very many");
    m->at = *size;
    *size += bytes;
    return rc;
}

/* [('a', '<f4'), ('b', '|S3'), ...] */
static int parse_members(struct scan *s, struct stk_npy_head *h)
{
    struct stk_npy_records *r = s->records;
    if (!r || !take(s, '['))
        return refuse_type(s, 'V', 0);
    while (!take(s, ']')) {
        if (r->n == STK_NPY_MEMBERS)
            return refuse(s, "structures of more than 256 members");
        r->member[r->n] = (struct stk_npy_member){0};
        int rc = parse_member(s, &r->member[r->n], &h->itemsize);
        if (rc)
            return rc;
        r->n += r->member[r->n].name_len > 0; /* no name: padding */
        if (!take(s, ',') && (s->at >= s->end || s->p[s->at] != ']'))
            return bad(s, "the list of a structure's members does not end");
    }
    return 0;
}

static int parse_descr(struct scan *s, struct stk_npy_head *h)
{
    const char *d;
    size_t len;
    skip_space(s);
    if (s->at < s->end && s->p[s->at] == '[')
        return parse_members(s, h);
    int rc = take_string(s, &d, &len);
    return rc ? rc : parse_type(s, d, len, h);
}

static int parse_order(struct scan *s, struct stk_npy_head *h)
{
    if (take_word(s, "True"))
        h->fortran = true;
    else if (!take_word(s, "False"))
        return bad(s, "fortran_order is neither True nor False");
    return 0;
}

enum { DESCR = 1, ORDER = 2, SHAPE = 4 };

static int parse_item(struct scan *s, struct stk_npy_head *h, unsigned *seen)
{
    const char *key;
    size_t len;
    int rc = take_string(s, &key, &len);
    if (rc)
        return rc;
    if (!take(s, ':'))
        return bad(s, "a ':' is missing");
    unsigned bit = 0;
    if (len == 5 && memcmp(key, "descr", 5) == 0)
        bit = DESCR;
    else if (len == 13 && memcmp(key, "fortran_order", 13) == 0)
        bit = ORDER;
    else if (len == 5 && memcmp(key, "shape", 5) == 0)
        bit = SHAPE;
    if (!bit || (*seen & bit))
        return bad(s, bit ? "a key occurs twice" : "a key that NumPy does not write");
    *seen |= bit;
    return bit == DESCR ? parse_descr(s, h) : bit == ORDER ? parse_order(s, h) : parse_shape(s, h);
}

static int parse_dict(struct scan *s, struct stk_npy_head *h)
{
    unsigned seen = 0;
    if (!take(s, '{'))
        return bad(s, "not a dictionary");
    while (!take(s, '}')) {
        int rc = parse_item(s, h, &seen);
        if (rc)
            return rc;
        if (take(s, ','))
            continue;
        if (!take(s, '}'))
            return bad(s, "the dictionary does not end");
        break;
    }
    skip_space(s);
    if (s->at != s->end)
        return bad(s, "something follows the dictionary");
    if (seen != (DESCR | ORDER | SHAPE))
        return bad(s, "descr, fortran_order or shape is missing");
    return 0;
}

/* Complex numbers are pairs in memory: adds an axis. */
static int pair_up(const struct scan *s, struct stk_npy_head *h)
{
    if (!h->complex)
        return 0;
    if (!h->ndim || h->ndim == STK_MAX_NDIM || (h->fortran && h->ndim > 1))
        return refuse(s, "complex numbers that are not in lists or in C order");
    h->fortran = false;
    h->dim[h->ndim++] = 2;
    return 0;
}

/* The overflow check skips zero dimensions, so that callers may multiply any of the dimensions
 * without checking again. */
static int measure(const struct scan *s, struct stk_npy_head *h)
{
    uint64_t product = h->itemsize;
    unsigned longer = 0, empty = 0;
    if (!product)
        return bad(s, "elements without bytes");
    for (unsigned i = 0; i < h->ndim; i++) {
        if (h->dim[i] &&
            (__builtin_mul_overflow(product, h->dim[i], &product) || product > INT64_MAX))
            return bad(s, "the shape has more than 2^63 bytes");
        longer += h->dim[i] > 1;
        empty += h->dim[i] == 0;
    }
    h->count = empty ? 0 : product / h->itemsize;
    h->data_bytes = h->count * h->itemsize;
    h->fortran = h->fortran && longer > 1 && !empty;
    return 0;
}

static int parse_head(const uint8_t *p, size_t n, struct stk_npy_head *h, struct stk_npy_records *r,
                      struct stk_err *err)
{
    struct scan s = {.p = p, .records = r, .err = err};
    *h = (struct stk_npy_head){0};
    if (n < sizeof magic || memcmp(p, magic, sizeof magic) != 0)
        return bad(&s, "the file does not begin with \\x93NUMPY");
    s.at = 6;
    if (n < 12)
        return bad(&s, "the file ends in the header");
    if (p[6] < 1 || p[6] > 3 || p[7] != 0)
        return refuse(&s, "a version other than 1.0, 2.0 or 3.0");
    s.at = 8;
    size_t text = p[6] == 1 ? 10 : 12;
    uint64_t len = p[6] == 1 ? stk_le16(p + 8) : stk_le32(p + 8);
    if (len > STK_NPY_TEXT_MAX)
        return bad(&s, "longer than 64 KiB, which no array of numbers needs");
    if (n - text < len)
        return bad(&s, "the file ends in the header");
    s.at = text;
    s.end = text + (size_t)len;
    int rc = parse_dict(&s, h);
    h->data_offset = s.end;
    rc = rc ? rc : pair_up(&s, h);
    return rc ? rc : measure(&s, h);
}

int stk_npy_parse(const uint8_t *p, size_t n, struct stk_npy_head *h, struct stk_err *err)
{
    return parse_head(p, n, h, NULL, err);
}

/* The member of all structures as an array: rows, then its own axes. */
static void as_array(const struct stk_npy_head *h, struct stk_npy_member *m)
{
    unsigned own = m->h.ndim + m->h.complex;
    if (!m->why[0] && own >= STK_MAX_NDIM)
        snprintf(m->why, sizeof m->why, "more than 8 dimensions");
    if (!m->why[0] && m->h.swap)
        snprintf(m->why, sizeof m->why, "big-endian numbers in structures");
    if (!m->why[0] && m->h.chars && own)
        snprintf(m->why, sizeof m->why, "several strings in a row");
    if (m->why[0])
        return;
    if (m->h.complex)
        m->h.dim[m->h.ndim++] = 2;
    memmove(m->h.dim + 1, m->h.dim, m->h.ndim * sizeof *m->h.dim);
    m->h.dim[0] = h->dim[0];
    m->h.ndim++;
    m->h.data_offset = h->data_offset + m->at;
}

int stk_npy_parse_records(const uint8_t *p, size_t n, struct stk_npy_head *h,
                          struct stk_npy_records *r, struct stk_err *err)
{
    r->n = 0;
    int rc = parse_head(p, n, h, r, err);
    if (rc == 0 && (!r->n || h->ndim != 1))
        rc = stk_err_set(err, STK_E_UNSUPPORTED, NULL, 0,
                         "an array of structures that is not a list of them; save each member as an "
                         "array of its own");
    for (size_t i = 0; rc == 0 && i < r->n; i++)
        as_array(h, &r->member[i]);
    return rc;
}

/* Like numpy's GROWTH_AXIS_MAX_DIGITS: room to change the first dimension in place. */
#define GROWTH_DIGITS 21

void stk_npy_write_head(struct stk_buf *out, enum stk_dtype dtype, unsigned ndim,
                        const uint64_t *dim)
{
    char text[512]; /* 8 dimensions of 20 digits and 60 fixed characters fit */
    char type = '?';
    size_t size = 0;
    for (size_t k = 0; k < sizeof types / sizeof *types; k++)
        if (types[k].dtype == dtype) {
            type = types[k].type;
            size = types[k].size;
        }
    int n = snprintf(text, sizeof text, "{'descr': '%c%c%zu', 'fortran_order': False, 'shape': (",
                     size > 1 ? '<' : '|', type, size);
    int first_digits = 0;
    for (unsigned i = 0; i < ndim && i < STK_MAX_NDIM; i++) {
        int k = snprintf(text + n, sizeof text - (size_t)n, "%s%llu", i ? ", " : "",
                         (unsigned long long)dim[i]);
        first_digits = i ? first_digits : k;
        n += k;
    }
    int spare = ndim ? GROWTH_DIGITS - first_digits : 0;
    n += snprintf(text + n, sizeof text - (size_t)n, "%s), }%*s", ndim == 1 ? "," : "", spare, "");
    /* NumPy adds a full line of 64 if none is needed: identical bytes matter more than saving
     * 64. */
    size_t pad = 64 - (10 + (size_t)n + 1) % 64;
    uint8_t head[10] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0};
    stk_put_le16(head + 8, (uint16_t)((size_t)n + 1 + pad));
    stk_buf_put(out, head, sizeof head);
    stk_buf_put(out, text, (size_t)n);
    uint8_t *to = stk_buf_extend(out, pad + 1);
    if (to) {
        memset(to, ' ', pad);
        to[pad] = '\n';
    }
}

static void copy_element(const struct stk_npy_head *h, const uint8_t *src, uint8_t *dst)
{
    size_t unit = h->chars == 'U' ? 4 : (size_t)h->itemsize;
    if (!h->swap) {
        memcpy(dst, src, (size_t)h->itemsize);
        return;
    }
    for (size_t at = 0; at < h->itemsize; at += unit)
        for (size_t b = 0; b < unit; b++)
            dst[at + b] = src[at + unit - 1 - b];
}

void stk_npy_normalise(const struct stk_npy_head *h, const uint8_t *src, uint8_t *dst)
{
    if (!h->data_bytes)
        return;
    if (!h->swap && !h->fortran) {
        memcpy(dst, src, (size_t)h->data_bytes);
        return;
    }
    /* Walks dst in C order; `from` is the element's index in src, advanced like an odometer. */
    uint64_t index[STK_MAX_NDIM] = {0}, stride[STK_MAX_NDIM], step = 1, from = 0;
    for (unsigned i = 0; i < h->ndim; i++) {
        unsigned d = h->fortran ? i : h->ndim - 1 - i;
        stride[d] = step;
        step *= h->dim[d];
    }
    for (uint64_t k = 0; k < h->count; k++) {
        copy_element(h, src + from * h->itemsize, dst + k * h->itemsize);
        for (unsigned d = h->ndim; d-- > 0;) {
            from += stride[d];
            if (++index[d] < h->dim[d])
                break;
            from -= stride[d] * h->dim[d];
            index[d] = 0;
        }
    }
}

uint8_t stk_npy_kind(const struct stk_npy_head *h)
{
    return h->chars == 'U' ? STK_TEXT : h->chars ? STK_BYTES : STK_ARRAY;
}

const char *stk_npy_codec(const struct stk_npy_head *h)
{
    return h->chars == 'U' ? "chars:U" : h->chars ? "chars:S" : NULL;
}

uint16_t stk_npy_unit(const struct stk_npy_head *h)
{
    return h->chars == 'U' ? 4 : (uint16_t)h->itemsize;
}
