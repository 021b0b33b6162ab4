/*
 * json.c - writing JSON as a stream, and reading it strictly (RFC 8259) into an arena. Reading
 * refuses text that is not UTF-8, lone surrogates, and numbers too large for a double.
 */
#include "base/json.h"

#include <math.h>

#include "base/json_token.h"
#include "base/num.h"
#include "base/text.h"

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

/* Writes the separator before a value or a key: nothing after a key, else a comma and a new
 * line. */
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

/* JSON shown on a terminal must not steer it, nor change the direction of what is read. */
static bool is_shown(uint32_t cp)
{
    return cp != '"' && cp != '\\' && (cp > 0xffff || !stk_cp_is_control(cp));
}

static void put_escaped(struct stk_buf *out, uint32_t cp)
{
    static const char from[] = "\b\f\n\r\t\"\\", to[] = "bfnrt\"\\";
    const char *at = cp && cp < 0x80 ? strchr(from, (int)cp) : NULL;
    if (at)
        stk_buf_put(out, (char[]){'\\', to[at - from]}, 2);
    else
        stk_buf_printf(out, "\\u%04x", (unsigned)cp);
}

static void put_string(struct stk_buf *out, const char *s, size_t n, bool bytes)
{
    stk_buf_putc(out, '"');
    size_t plain = 0, i = 0;
    while (i < n) {
        uint32_t cp = 0;
        size_t len = stk_utf8_next(s + i, n - i, &cp);
        if (len ? is_shown(cp) : bytes) {
            i += len ? len : 1;
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
    put_string(w->out, key, strlen(key), w->bytes);
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
    put_string(w->out, s, n, w->bytes);
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

/* Values of open arrays and objects are on one stack, so that each ends up in an arena array of
 * exactly its size. */
struct parser {
    struct stk_json_cur cur;
    struct stk_arena *arena;
    struct stk_buf stack; /* of struct stk_jval */
};

static int no_memory(struct parser *ps)
{
    return stk_err_nomem(ps->cur.err, (uint64_t)(ps->cur.end - ps->cur.start));
}

/* Copies a string's body into the arena. */
static int take_string(struct parser *ps, struct stk_jval *v, const char *body, size_t len,
                       bool escaped)
{
    char *text = stk_arena_dup(ps->arena, body, len);
    if (!text)
        return no_memory(ps);
    v->type = STK_JSTR;
    v->len = escaped ? stk_json_unescape(body, len, text) : len;
    text[v->len] = '\0';
    v->str = text;
    return 0;
}

static int parse_string(struct parser *ps, struct stk_jval *v)
{
    const char *body;
    size_t len;
    bool escaped;
    int rc = stk_json_string(&ps->cur, &body, &len, &escaped);
    return rc ? rc : take_string(ps, v, body, len, escaped);
}

static int parse_number(struct parser *ps, struct stk_jval *v)
{
    const char *start = ps->cur.p;
    bool whole = false;
    int rc = stk_json_number(&ps->cur, &whole);
    if (rc)
        return rc;
    enum stk_num kind = stk_num_parse(start, (size_t)(ps->cur.p - start), &v->i, &v->f);
    if (kind == STK_NUM_NONE || !isfinite(v->f))
        return stk_json_bad(&ps->cur, start, "number too large");
    /* "-0" is an integer in JSON, although stk_num_parse() calls it a float. */
    v->type = kind == STK_NUM_INT || (whole && v->f == 0) ? STK_JINT : STK_JFLOAT;
    return 0;
}

static int parse_word(struct parser *ps, struct stk_jval *v)
{
    int word = stk_json_word(&ps->cur);
    v->type = word == 'n' ? STK_JNULL : STK_JBOOL;
    v->b = word == 't';
    return word < 0 ? word : 0;
}

static int parse_value(struct parser *ps, struct stk_jval *v, unsigned depth);

static int push(struct parser *ps, const struct stk_jval *v)
{
    stk_buf_put(&ps->stack, v, sizeof *v);
    return ps->stack.fail ? no_memory(ps) : 0;
}

/* Pushes a member's name onto the stack. */
static int parse_name(struct parser *ps)
{
    struct stk_jval v = {.raw = ps->cur.p};
    const char *body;
    size_t len;
    bool escaped;
    int rc = stk_json_name(&ps->cur, &body, &len, &escaped);
    if (rc)
        return rc;
    v.raw_len = len + 2;
    rc = take_string(ps, &v, body, len, escaped);
    return rc ? rc : push(ps, &v);
}

/* Pushes one member of an object or item of an array onto the stack. */
static int parse_element(struct parser *ps, bool object, unsigned depth)
{
    struct stk_jval v;
    int rc = object ? parse_name(ps) : 0;
    rc = rc ? rc : parse_value(ps, &v, depth);
    return rc ? rc : push(ps, &v);
}

/* Moves the values above `bottom` from the stack into the arena as v's items. */
static int take_items(struct parser *ps, struct stk_jval *v, size_t bottom)
{
    size_t n = (ps->stack.len - bottom) / sizeof *v;
    v->len = v->type == STK_JOBJ ? n / 2 : n;
    ps->stack.len = bottom;
    if (!n) /* the stack may have no memory yet */
        return 0;
    const uint8_t *from = ps->stack.data + bottom;
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
    const char *open = ps->cur.p;
    size_t bottom = ps->stack.len;
    v->type = *open == '{' ? STK_JOBJ : STK_JARR;
    int more = stk_json_open(&ps->cur, depth);
    while (more > 0) {
        int rc = parse_element(ps, *open == '{', depth + 1);
        more = rc ? rc : stk_json_more(&ps->cur, open);
    }
    return more ? more : take_items(ps, v, bottom);
}

static int parse_value(struct parser *ps, struct stk_jval *v, unsigned depth)
{
    struct stk_json_cur *c = &ps->cur;
    int rc;
    memset(v, 0, sizeof *v);
    v->raw = c->p;
    switch (c->p < c->end ? *c->p : 0) {
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
    v->raw_len = (size_t)(c->p - v->raw);
    return rc;
}

static int parse(struct stk_arena *a, const char *text, size_t len, bool bytes,
                 struct stk_jval **out, struct stk_err *err)
{
    struct parser ps = {.cur = {.start = text, .p = text, .end = text + len, .err = err,
                                .bytes = bytes},
                        .arena = a};
    struct stk_jval *v = stk_arena_alloc(a, sizeof *v);
    if (!v)
        return stk_err_nomem(err, sizeof *v);
    stk_json_space(&ps.cur);
    int rc = parse_value(&ps, v, 0);
    rc = rc ? rc : stk_json_end(&ps.cur);
    stk_buf_release(&ps.stack);
    if (!rc)
        *out = v;
    return rc;
}

int stk_json_parse(struct stk_arena *a, const char *text, size_t len, struct stk_jval **out,
                   struct stk_err *err)
{
    return parse(a, text, len, false, out, err);
}

int stk_json_parse_bytes(struct stk_arena *a, const char *text, size_t len, struct stk_jval **out,
                         struct stk_err *err)
{
    return parse(a, text, len, true, out, err);
}

const struct stk_jval *stk_json_get(const struct stk_jval *obj, const char *name)
{
    if (!obj || obj->type != STK_JOBJ)
        return NULL;
    size_t n = strlen(name);
    /* From the end: the last of duplicate names wins, as in other readers. */
    for (size_t i = obj->len; i-- > 0;)
        if (obj->name[i].len == n && memcmp(obj->name[i].str, name, n) == 0)
            return &obj->item[i];
    return NULL;
}
