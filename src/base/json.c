/*
 * json.c - writing JSON as a stream, reading it strictly (RFC 8259) into an arena, and finding
 * where a value ends. Reading refuses what is not UTF-8, lone surrogates and numbers past a double.
 */
#include "base/json.h"

#include <math.h>

#include "base/num.h"
#include "base/text.h"

#define DEPTH_MAX 64

/* ---- writing ------------------------------------------------------------------------------ */

void stk_jw_init(struct stk_jw *w, struct stk_buf *out, bool pretty)
{
    *w = (struct stk_jw){.out = out, .pretty = pretty};
}

static void new_line(struct stk_jw *w)
{
    if (!w->pretty)
        return;
    stk_buf_putc(w->out, '\n');
    for (unsigned i = 0; i < w->depth; i++)
        stk_buf_put(w->out, "  ", 2);
}

/* What stands before a value or a key: nothing after a key, else a comma and a new line. */
static void before(struct stk_jw *w)
{
    if (w->after_key) {
        w->after_key = false;
        return;
    }
    if (w->need_comma)
        stk_buf_putc(w->out, ',');
    if (w->depth)
        new_line(w);
    w->need_comma = true;
}

void stk_jw_open(struct stk_jw *w, char bracket)
{
    before(w);
    stk_buf_putc(w->out, bracket);
    w->depth++;
    w->need_comma = false;
}

void stk_jw_close(struct stk_jw *w, char bracket)
{
    w->depth--;
    if (w->need_comma)
        new_line(w);
    stk_buf_putc(w->out, bracket);
    w->need_comma = true;
    w->after_key = false;
}

/* Control characters, C1 among them: JSON shown on a terminal must not steer it. */
static void put_escaped(struct stk_buf *out, uint32_t cp)
{
    static const char from[] = "\b\f\n\r\t\"\\", to[] = "bfnrt\"\\";
    const char *at = cp && cp < 0x80 ? strchr(from, (int)cp) : NULL;
    if (at)
        stk_buf_put(out, (char[]){'\\', to[at - from]}, 2);
    else
        stk_buf_printf(out, "\\u%04x", (unsigned)cp);
}

static void put_string(struct stk_buf *out, const char *s, size_t n)
{
    stk_buf_putc(out, '"');
    size_t plain = 0, i = 0;
    while (i < n) {
        uint32_t cp = 0;
        size_t len = stk_utf8_next(s + i, n - i, &cp);
        if (len && cp >= 0x20 && cp != '"' && cp != '\\' && !(cp >= 0x7f && cp < 0xa0)) {
            i += len;
            continue;
        }
        stk_buf_put(out, s + plain, i - plain);
        if (len)
            put_escaped(out, cp);
        else
            stk_buf_put(out, "\xef\xbf\xbd", 3);
        i += len ? len : 1;
        plain = i;
    }
    stk_buf_put(out, s + plain, n - plain);
    stk_buf_putc(out, '"');
}

void stk_jw_key(struct stk_jw *w, const char *key)
{
    before(w);
    put_string(w->out, key, strlen(key));
    stk_buf_put(w->out, ": ", w->pretty ? 2 : 1);
    w->after_key = true;
}

void stk_jw_str(struct stk_jw *w, const char *s)
{
    if (s)
        stk_jw_strn(w, s, strlen(s));
    else
        stk_jw_null(w);
}

void stk_jw_strn(struct stk_jw *w, const char *s, size_t n)
{
    before(w);
    put_string(w->out, s, n);
}

void stk_jw_u64(struct stk_jw *w, uint64_t v)
{
    before(w);
    stk_buf_printf(w->out, "%llu", (unsigned long long)v);
}

void stk_jw_i64(struct stk_jw *w, int64_t v)
{
    before(w);
    stk_buf_printf(w->out, "%lld", (long long)v);
}

void stk_jw_f64(struct stk_jw *w, double v)
{
    if (!isfinite(v)) {
        stk_jw_null(w);
        return;
    }
    before(w);
    char text[STK_NUM_ROOM];
    stk_buf_put(w->out, text, stk_num_f64(text, v));
}

void stk_jw_bool(struct stk_jw *w, bool v)
{
    before(w);
    stk_buf_puts(w->out, v ? "true" : "false");
}

void stk_jw_null(struct stk_jw *w)
{
    before(w);
    stk_buf_puts(w->out, "null");
}

void stk_jw_raw(struct stk_jw *w, const char *json, size_t n)
{
    before(w);
    stk_buf_put(w->out, json, n);
}

void stk_jw_put_u64(struct stk_jw *w, const char *key, uint64_t v)
{
    stk_jw_key(w, key);
    stk_jw_u64(w, v);
}

void stk_jw_put_f64(struct stk_jw *w, const char *key, double v)
{
    stk_jw_key(w, key);
    stk_jw_f64(w, v);
}

void stk_jw_put_str(struct stk_jw *w, const char *key, const char *v)
{
    stk_jw_key(w, key);
    stk_jw_str(w, v);
}

void stk_jw_put_bool(struct stk_jw *w, const char *key, bool v)
{
    stk_jw_key(w, key);
    stk_jw_bool(w, v);
}

void stk_jw_put_known_f64(struct stk_jw *w, const char *key, double v)
{
    stk_jw_key(w, key);
    if (v >= 0)
        stk_jw_f64(w, v);
    else
        stk_jw_null(w);
}

void stk_jw_put_known_i64(struct stk_jw *w, const char *key, int64_t v)
{
    stk_jw_key(w, key);
    if (v >= 0)
        stk_jw_i64(w, v);
    else
        stk_jw_null(w);
}

void stk_jw_put_strs(struct stk_jw *w, const char *key, const char *const *v, size_t n)
{
    stk_jw_key(w, key);
    stk_jw_open(w, '[');
    for (size_t i = 0; i < n; i++)
        stk_jw_str(w, v[i]);
    stk_jw_close(w, ']');
}

void stk_jw_put_rows(struct stk_jw *w, const char *key, const void *v, size_t width, size_t n)
{
    const char *row = v;
    stk_jw_key(w, key);
    stk_jw_open(w, '[');
    for (size_t i = 0; i < n; i++)
        stk_jw_str(w, row + i * width);
    stk_jw_close(w, ']');
}

/* ---- reading ------------------------------------------------------------------------------ */

/* Values of arrays and objects not yet closed stand on one stack, so that each ends up in an
 * arena array of exactly its size. */
struct parser {
    const char *text, *end, *p;
    struct stk_arena *arena;
    struct stk_buf stack; /* of struct stk_jval */
    struct stk_buf scratch;
    struct stk_err *err;
};

static int bad(struct parser *ps, const char *at, const char *what)
{
    return stk_err_set(ps->err, STK_E_CORRUPT, NULL, at - ps->text, "bad JSON: %s", what);
}

static int no_memory(struct parser *ps)
{
    return stk_err_nomem(ps->err, (uint64_t)(ps->end - ps->text));
}

static void skip_space(struct parser *ps)
{
    while (ps->p < ps->end && (*ps->p == ' ' || *ps->p == '\n' || *ps->p == '\t' || *ps->p == '\r'))
        ps->p++;
}

/* Four hex digits at s, -1 when they are not. */
static int32_t read_hex4(const char *s, const char *end)
{
    if (end - s < 4)
        return -1;
    int32_t v = 0;
    for (int i = 0; i < 4; i++) {
        char c = s[i];
        int digit = c >= '0' && c <= '9'                     ? c - '0'
                    : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10
                                                             : -1;
        if (digit < 0)
            return -1;
        v = v << 4 | digit;
    }
    return v;
}

/* \uXXXX at ps->p (just past the u), a surrogate pair as one character. */
static int parse_unicode(struct parser *ps)
{
    const char *start = ps->p - 2;
    int32_t hi = read_hex4(ps->p, ps->end);
    if (hi < 0)
        return bad(ps, start, "\\u without four hex digits");
    ps->p += 4;
    uint32_t cp = (uint32_t)hi;
    if (hi >= 0xd800 && hi <= 0xdfff) {
        bool pair = hi < 0xdc00 && ps->end - ps->p >= 6 && ps->p[0] == '\\' && ps->p[1] == 'u';
        int32_t lo = pair ? read_hex4(ps->p + 2, ps->end) : -1;
        if (lo < 0xdc00 || lo > 0xdfff)
            return bad(ps, start, "half of a surrogate pair");
        ps->p += 6;
        cp = 0x10000 + ((uint32_t)(hi - 0xd800) << 10) + (uint32_t)(lo - 0xdc00);
    }
    char utf8[4];
    stk_buf_put(&ps->scratch, utf8, stk_utf8_put(utf8, cp));
    return 0;
}

static int parse_escape(struct parser *ps)
{
    static const char from[] = "bfnrt\"\\/", to[] = "\b\f\n\r\t\"\\/";
    if (ps->end - ps->p < 2)
        return bad(ps, ps->p, "text ends inside a string");
    char c = ps->p[1];
    ps->p += 2;
    if (c == 'u')
        return parse_unicode(ps);
    const char *at = c ? strchr(from, c) : NULL;
    if (!at)
        return bad(ps, ps->p - 2, "unknown escape in a string");
    stk_buf_putc(&ps->scratch, to[at - from]);
    return 0;
}

static int parse_string(struct parser *ps, struct stk_jval *v)
{
    const char *start = ps->p++;
    stk_buf_reset(&ps->scratch);
    for (;;) {
        const char *plain = ps->p;
        while (ps->p < ps->end && *ps->p != '"' && *ps->p != '\\') {
            uint32_t cp = 0;
            size_t len = stk_utf8_next(ps->p, (size_t)(ps->end - ps->p), &cp);
            if (!len)
                return bad(ps, ps->p, "a string is not UTF-8");
            if (cp < 0x20)
                return bad(ps, ps->p, "control character in a string");
            ps->p += len;
        }
        if (ps->p == ps->end)
            return bad(ps, start, "text ends inside a string");
        stk_buf_put(&ps->scratch, plain, (size_t)(ps->p - plain));
        if (*ps->p == '"')
            break;
        int rc = parse_escape(ps);
        if (rc)
            return rc;
    }
    ps->p++;
    v->type = STK_JSTR;
    v->len = ps->scratch.len;
    v->str = ps->scratch.fail ? NULL : stk_arena_dup(ps->arena, ps->scratch.data, v->len);
    return v->str ? 0 : no_memory(ps);
}

static const char *skip_digits(const char *p, const char *end)
{
    while (p < end && *p >= '0' && *p <= '9')
        p++;
    return p;
}

/* The end of the number at p by JSON's grammar, NULL when it is none. */
static const char *number_end(const char *p, const char *end, bool *whole)
{
    if (p < end && *p == '-')
        p++;
    const char *digits = p;
    p = skip_digits(p, end);
    if (p == digits || (*digits == '0' && p - digits > 1))
        return NULL;
    *whole = true;
    if (p < end && *p == '.') {
        *whole = false;
        digits = ++p;
        p = skip_digits(p, end);
        if (p == digits)
            return NULL;
    }
    if (p < end && (*p | 0x20) == 'e') {
        *whole = false;
        p++;
        if (p < end && (*p == '+' || *p == '-'))
            p++;
        digits = p;
        p = skip_digits(p, end);
        if (p == digits)
            return NULL;
    }
    return p;
}

static int parse_number(struct parser *ps, struct stk_jval *v)
{
    const char *start = ps->p;
    bool whole = false;
    const char *stop = number_end(start, ps->end, &whole);
    if (!stop)
        return bad(ps, start, "not a number");
    ps->p = stop;
    enum stk_num kind = stk_num_parse(start, (size_t)(stop - start), &v->i, &v->f);
    if (kind == STK_NUM_NONE || !isfinite(v->f))
        return bad(ps, start, "number too large");
    /* "-0" is an integer in JSON, whatever a float would make of it. */
    v->type = kind == STK_NUM_INT || (whole && v->f == 0) ? STK_JINT : STK_JFLOAT;
    return 0;
}

static int parse_word(struct parser *ps, struct stk_jval *v)
{
    static const struct {
        const char *word;
        enum stk_jtype type;
        bool b;
    } words[] = {
        {"true", STK_JBOOL, true}, {"false", STK_JBOOL, false}, {"null", STK_JNULL, false}};
    for (size_t i = 0; i < 3; i++) {
        size_t n = strlen(words[i].word);
        if ((size_t)(ps->end - ps->p) >= n && memcmp(ps->p, words[i].word, n) == 0) {
            ps->p += n;
            v->type = words[i].type;
            v->b = words[i].b;
            return 0;
        }
    }
    return bad(ps, ps->p, "a value was expected");
}

static int parse_value(struct parser *ps, struct stk_jval *v, unsigned depth);

static int push(struct parser *ps, const struct stk_jval *v)
{
    stk_buf_put(&ps->stack, v, sizeof *v);
    return ps->stack.fail ? no_memory(ps) : 0;
}

/* One member of an object or item of an array onto the stack. */
static int parse_element(struct parser *ps, bool object, unsigned depth)
{
    struct stk_jval v;
    int rc = 0;
    skip_space(ps);
    if (object) {
        memset(&v, 0, sizeof v);
        if (ps->p == ps->end || *ps->p != '"')
            return bad(ps, ps->p, "a name in quotes was expected");
        v.raw = ps->p;
        rc = parse_string(ps, &v);
        v.raw_len = (size_t)(ps->p - v.raw);
        rc = rc ? rc : push(ps, &v);
        skip_space(ps);
        if (!rc && (ps->p == ps->end || *ps->p != ':'))
            return bad(ps, ps->p, "\":\" was expected after a name");
        ps->p += !rc;
    }
    rc = rc ? rc : parse_value(ps, &v, depth);
    return rc ? rc : push(ps, &v);
}

/* Moves the values above `bottom` from the stack into the arena as v's items. */
static int take_items(struct parser *ps, struct stk_jval *v, size_t bottom)
{
    size_t n = (ps->stack.len - bottom) / sizeof *v;
    const uint8_t *from = ps->stack.data + bottom;
    v->len = v->type == STK_JOBJ ? n / 2 : n;
    ps->stack.len = bottom;
    if (!n)
        return 0;
    struct stk_jval *to = stk_arena_alloc(ps->arena, n * sizeof *to);
    if (!to)
        return no_memory(ps);
    if (v->type == STK_JARR) {
        memcpy(to, from, n * sizeof *to);
        v->item = to;
        return 0;
    }
    v->name = to;
    v->item = to + v->len;
    for (size_t i = 0; i < v->len; i++) {
        memcpy(&v->name[i], from + 2 * i * sizeof *to, sizeof *to);
        memcpy(&v->item[i], from + (2 * i + 1) * sizeof *to, sizeof *to);
    }
    return 0;
}

static int parse_container(struct parser *ps, struct stk_jval *v, unsigned depth)
{
    const char *start = ps->p;
    bool object = *ps->p++ == '{';
    char close = object ? '}' : ']';
    size_t bottom = ps->stack.len;
    v->type = object ? STK_JOBJ : STK_JARR;
    if (depth >= DEPTH_MAX)
        return bad(ps, start, "nested too deeply");
    skip_space(ps);
    if (ps->p < ps->end && *ps->p == close) {
        ps->p++;
        return 0;
    }
    for (;;) {
        int rc = parse_element(ps, object, depth + 1);
        if (rc)
            return rc;
        skip_space(ps);
        if (ps->p == ps->end)
            return bad(ps, start, object ? "\"{\" without \"}\"" : "\"[\" without \"]\"");
        char c = *ps->p++;
        if (c == close)
            return take_items(ps, v, bottom);
        if (c != ',')
            return bad(ps, ps->p - 1, "\",\" was expected");
    }
}

static int parse_value(struct parser *ps, struct stk_jval *v, unsigned depth)
{
    memset(v, 0, sizeof *v);
    skip_space(ps);
    if (ps->p == ps->end)
        return bad(ps, ps->p, "text ends where a value was expected");
    v->raw = ps->p;
    int rc;
    switch (*ps->p) {
    case '{':
    case '[':
        rc = parse_container(ps, v, depth);
        break;
    case '"':
        rc = parse_string(ps, v);
        break;
    case '-':
    case '0' ... '9':
        rc = parse_number(ps, v);
        break;
    default:
        rc = parse_word(ps, v);
    }
    v->raw_len = (size_t)(ps->p - v->raw);
    return rc;
}

int stk_json_parse(struct stk_arena *a, const char *text, size_t len, struct stk_jval **out,
                   struct stk_err *err)
{
    struct parser ps = {.text = text, .p = text, .end = text + len, .arena = a, .err = err};
    struct stk_jval *v = stk_arena_alloc(a, sizeof *v);
    if (!v)
        return stk_err_nomem(err, sizeof *v);
    int rc = parse_value(&ps, v, 0);
    skip_space(&ps);
    if (!rc && ps.p != ps.end)
        rc = bad(&ps, ps.p, "something follows the value");
    stk_buf_release(&ps.stack);
    stk_buf_release(&ps.scratch);
    if (!rc)
        *out = v;
    return rc;
}

const struct stk_jval *stk_json_get(const struct stk_jval *obj, const char *name)
{
    if (!obj || obj->type != STK_JOBJ)
        return NULL;
    size_t n = strlen(name);
    /* From the end: of a name given twice the last counts, as in other readers. */
    for (size_t i = obj->len; i-- > 0;)
        if (obj->name[i].len == n && memcmp(obj->name[i].str, name, n) == 0)
            return &obj->item[i];
    return NULL;
}

/* ---- skipping ----------------------------------------------------------------------------- */

/* The byte after the string that begins at i; 0 when it is cut short, negative when bad. */
static int64_t skip_string(const char *text, size_t len, size_t i)
{
    for (i++; i < len; i++) {
        if (text[i] == '"')
            return (int64_t)i + 1;
        if ((uint8_t)text[i] < 0x20)
            return -(int64_t)i - 1;
        if (text[i] == '\\')
            i++;
    }
    return 0;
}

static bool is_scalar_char(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == '-' || c == '+' || c == '.' ||
           c == 'E';
}

int64_t stk_json_skip(const char *text, size_t len)
{
    uint64_t objects = 0; /* bit d: level d is an object */
    unsigned depth = 0;
    for (size_t i = 0; i < len;) {
        char c = text[i];
        if (c == '"') {
            int64_t end = skip_string(text, len, i);
            if (end <= 0)
                return end;
            i = (size_t)end;
        } else if (c == '{' || c == '[') {
            if (depth >= DEPTH_MAX)
                return -(int64_t)i - 1;
            objects = (objects & ~((uint64_t)1 << depth)) | (uint64_t)(c == '{') << depth;
            depth++;
            i++;
        } else if (c == '}' || c == ']') {
            if (!depth || (objects >> (depth - 1) & 1) != (c == '}'))
                return -(int64_t)i - 1;
            depth--;
            i++;
        } else if (is_scalar_char(c)) {
            while (i < len && is_scalar_char(text[i]))
                i++;
            if (i == len)
                return 0; /* more of it may follow */
        } else if (depth &&
                   (c == ',' || c == ':' || c == ' ' || c == '\n' || c == '\t' || c == '\r')) {
            i++;
            continue;
        } else {
            return -(int64_t)i - 1;
        }
        if (!depth)
            return (int64_t)i;
    }
    return 0;
}
