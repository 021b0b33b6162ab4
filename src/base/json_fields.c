/* json_fields.c - see json_fields.h. */
#include "base/json_fields.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/text.h"

#define EXACT_MAX (1ull << 53)

/* ---- members of a struct ------------------------------------------------------------------ */

static const void *item_at(const struct stk_jfield *f, const void *list, size_t i)
{
    return (const char *)list + i * f->size;
}

static uint64_t load(const void *at, size_t size)
{
    uint64_t v = 0;
    memcpy((char *)&v + (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? sizeof v - size : 0), at, size);
    return v;
}

static void store(void *at, size_t size, uint64_t v)
{
    memcpy(at, (char *)&v + (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? sizeof v - size : 0), size);
}

static int64_t load_signed(const void *at, size_t size)
{
    unsigned shift = 64 - 8 * (unsigned)size;
    return (int64_t)(load(at, size) << shift) >> shift;
}

static const void *load_pointer(const void *at)
{
    const void *p;
    memcpy(&p, at, sizeof p);
    return p;
}

static double load_real(const void *at)
{
    double v;
    memcpy(&v, at, sizeof v);
    return v;
}

/* The items of a list. */
static const void *items_of(const struct stk_jfield *f, const void *from, size_t *n)
{
    const void *at = (const char *)from + f->offset;
    const char *const *word = f->many == STK_JFIELD_INSIDE ? NULL : load_pointer(at);
    if (f->many == STK_JFIELD_ENDED)
        for (*n = 0; word && word[*n];)
            ++*n;
    else
        *n = (size_t)load((const char *)from + f->count, sizeof *n);
    return f->many == STK_JFIELD_INSIDE ? at : (const void *)word;
}

/* ---- writing ------------------------------------------------------------------------------ */

static bool is_utf8(const char *s)
{
    uint32_t cp;
    for (size_t n = strlen(s), i = 0, len; i < n; i += len)
        if (!(len = stk_utf8_next(s + i, n - i, &cp)))
            return false;
    return true;
}

static void put_text(const struct stk_jfield *f, const char *s, struct stk_jw *w)
{
    if (!s || !f->bytes || is_utf8(s)) {
        stk_jw_str(w, s);
        return;
    }
    struct stk_buf hex = STK_BUF_INIT;
    for (; *s; s++)
        stk_buf_printf(&hex, "%02x", (unsigned)(unsigned char)*s);
    stk_jw_open(w, '{');
    stk_jw_put_str(w, "hex", stk_buf_cstr(&hex));
    stk_jw_close(w, '}');
    w->out->fail = w->out->fail || hex.fail;
    stk_buf_release(&hex);
}

static void put_unsigned(const struct stk_jfield *f, uint64_t v, struct stk_jw *w)
{
    char text[24];
    if (!f->exact || v <= EXACT_MAX) {
        stk_jw_u64(w, v);
        return;
    }
    snprintf(text, sizeof text, "%llu", (unsigned long long)v);
    stk_jw_str(w, text);
}

static void put_one(const struct stk_jfield *f, const void *at, struct stk_jw *w)
{
    char hash[20];
    switch (f->type) {
    case STK_JFIELD_FLAG:
        stk_jw_bool(w, *(const bool *)at);
        break;
    case STK_JFIELD_UNSIGNED:
        put_unsigned(f, load(at, f->size), w);
        break;
    case STK_JFIELD_COUNT:
        if (load_signed(at, f->size) < 0)
            stk_jw_null(w);
        else
            stk_jw_i64(w, load_signed(at, f->size));
        break;
    case STK_JFIELD_REAL:
        stk_jw_f64(w, f->known && load_real(at) < 0 ? NAN : load_real(at));
        break;
    case STK_JFIELD_TEXT:
        put_text(f, load_pointer(at), w);
        break;
    case STK_JFIELD_CHARS:
        stk_jw_str(w, at);
        break;
    case STK_JFIELD_WORD:
        stk_jw_str(w, f->words[load(at, f->size)]);
        break;
    case STK_JFIELD_HASH:
        snprintf(hash, sizeof hash, "%016llx", (unsigned long long)load(at, f->size));
        stk_jw_str(w, hash);
        break;
    case STK_JFIELD_STRUCT:
        stk_jfields_write(f->table, at, w);
        break;
    }
}

static bool is_empty(const struct stk_jfield *f, const void *at)
{
    switch (f->type) {
    case STK_JFIELD_COUNT:
        return load_signed(at, f->size) < 0;
    case STK_JFIELD_REAL:
        return !isfinite(load_real(at));
    case STK_JFIELD_TEXT:
        return !load_pointer(at);
    case STK_JFIELD_STRUCT:
        return false;
    default: /* of a text in the struct, the first byte is enough */
        return !load(at, f->type == STK_JFIELD_CHARS ? 1 : f->size);
    }
}

void stk_jfields_put(const struct stk_jfield *f, const void *from, struct stk_jw *w)
{
    for (; f->name; f++) {
        size_t n = 1;
        const void *at = f->many ? items_of(f, from, &n) : (const char *)from + f->offset;
        if (f->omit && (f->many ? !n : is_empty(f, at)))
            continue;
        stk_jw_key(w, f->name);
        if (f->many)
            stk_jw_open(w, '[');
        for (size_t i = 0; i < n; i++)
            put_one(f, item_at(f, at, i), w);
        if (f->many)
            stk_jw_close(w, ']');
    }
}

void stk_jfields_write(const struct stk_jfield *table, const void *from, struct stk_jw *w)
{
    stk_jw_open(w, '{');
    stk_jfields_put(table, from, w);
    stk_jw_close(w, '}');
}

void stk_jfields_text(const struct stk_jfield *table, const void *from, bool pretty,
                      struct stk_buf *out)
{
    struct stk_jw w;
    stk_jw_init(&w, out, pretty);
    stk_jfields_write(table, from, &w);
    stk_buf_putc(out, '\n');
}

/* ---- reading ------------------------------------------------------------------------------ */

struct reading {
    const char *path;
    struct stk_arena *arena;
    struct stk_err *err;
    char at[160]; /* the member that is read: "series[0].runs[2].wall_s" */
};

static int STK_PRINTF(2, 3) refuse(const struct reading *r, const char *fmt, ...)
{
    char what[200];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    return r->at[0] ? stk_err_set(r->err, STK_E_CORRUPT, r->path, -1, "'%s' %s", r->at, what)
                    : stk_err_set(r->err, STK_E_CORRUPT, r->path, -1, "it %s", what);
}

/* Of a number that may be larger than an int64_t. */
static bool get_digits(const char *p, size_t n, uint64_t *out)
{
    *out = 0;
    for (size_t i = 0; i < n; i++)
        if (p[i] < '0' || p[i] > '9' || __builtin_mul_overflow(*out, 10u, out) ||
            __builtin_add_overflow(*out, (uint64_t)(p[i] - '0'), out))
            return false;
    return n > 0;
}

static int get_whole(const struct reading *r, const struct stk_jfield *f, const struct stk_jval *v,
                     void *to)
{
    uint64_t x = v->type == STK_JINT ? (uint64_t)v->i : 0;
    uint64_t most = UINT64_MAX >> (64 - 8 * f->size) >> (f->type == STK_JFIELD_COUNT);
    bool good = v->type == STK_JINT     ? v->i >= 0
                : v->type == STK_JFLOAT ? get_digits(v->raw, v->raw_len, &x)
                                        : v->type == STK_JSTR && f->exact &&
                                              get_digits(v->str, v->len, &x);
    most = f->max && f->max < most ? f->max : most;
    if (!good)
        return refuse(r, "is no whole number");
    if (x < f->min || x > most)
        return refuse(r, "is too %s", x > most ? "large" : "small");
    store(to, f->size, x);
    return 0;
}

static int get_real(const struct reading *r, const struct stk_jfield *f, const struct stk_jval *v,
                    void *to)
{
    if (v->type != STK_JINT && v->type != STK_JFLOAT)
        return refuse(r, "is not a number");
    if (v->f < 0 && !f->negative)
        return refuse(r, "is below 0");
    if (f->max && v->f > (double)f->max)
        return refuse(r, "is too large");
    memcpy(to, &v->f, sizeof v->f);
    return 0;
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int get_hex(const struct reading *r, const struct stk_jval *v, const char **out)
{
    if (!v || v->type != STK_JSTR || v->len % 2)
        return refuse(r, "is not a text");
    char *text = stk_arena_alloc(r->arena, v->len / 2 + 1);
    if (!text)
        return stk_err_nomem(r->err, v->len);
    for (size_t i = 0; i < v->len / 2; i++) {
        int hi = hex_digit(v->str[2 * i]), lo = hex_digit(v->str[2 * i + 1]);
        if (hi < 0 || lo < 0 || (!hi && !lo))
            return refuse(r, "is not a text");
        text[i] = (char)(hi * 16 + lo);
    }
    text[v->len / 2] = '\0';
    *out = text;
    return 0;
}

static int get_text(const struct reading *r, const struct stk_jfield *f, const struct stk_jval *v,
                    void *to)
{
    uint64_t most = f->type == STK_JFIELD_CHARS ? f->size - 1 : f->max ? f->max : SIZE_MAX;
    const char *text = v->str;
    if (f->bytes && v->type == STK_JOBJ) {
        int rc = get_hex(r, stk_json_get(v, "hex"), &text);
        if (rc)
            return rc;
    } else if (v->type != STK_JSTR || memchr(v->str, '\0', v->len)) {
        return refuse(r, "is not a text");
    }
    if (strlen(text) > most && !f->cut)
        return refuse(r, "is longer than %llu bytes", (unsigned long long)most);
    if (f->type == STK_JFIELD_CHARS)
        snprintf(to, f->size, "%s", text);
    else
        memcpy(to, &text, sizeof text);
    return 0;
}

static int get_word(const struct reading *r, const struct stk_jfield *f, const struct stk_jval *v,
                    void *to)
{
    struct stk_buf all = STK_BUF_INIT;
    int other = f->find && v->type == STK_JSTR ? f->find(v->str, v->len) : -1;
    if (other >= 0) {
        store(to, f->size, (uint64_t)other);
        return 0;
    }
    for (size_t i = 0; f->words[i]; i++) {
        size_t n = strlen(f->words[i]);
        if (v->type == STK_JSTR && v->len == n && memcmp(v->str, f->words[i], n) == 0) {
            store(to, f->size, i);
            stk_buf_release(&all);
            return 0;
        }
        const char *before = !all.len ? "" : f->words[i + 1] ? ", " : " or ";
        stk_buf_printf(&all, "%s%s", *f->words[i] ? before : "", f->words[i]);
    }
    int rc = refuse(r, "is not %s", stk_buf_cstr(&all));
    stk_buf_release(&all);
    return rc;
}

static int get_members(struct reading *r, const struct stk_jfield *table,
                       const struct stk_jval *obj, void *to);

static int get_one(struct reading *r, const struct stk_jfield *f, const struct stk_jval *v,
                   void *to)
{
    switch (f->type) {
    case STK_JFIELD_FLAG:
        if (v->type != STK_JBOOL)
            return refuse(r, "is neither true nor false");
        *(bool *)to = v->b;
        return 0;
    case STK_JFIELD_UNSIGNED:
    case STK_JFIELD_COUNT:
        return get_whole(r, f, v, to);
    case STK_JFIELD_REAL:
        return get_real(r, f, v, to);
    case STK_JFIELD_TEXT:
    case STK_JFIELD_CHARS:
        return get_text(r, f, v, to);
    case STK_JFIELD_WORD:
        return get_word(r, f, v, to);
    case STK_JFIELD_HASH:
        if (v->type != STK_JSTR || v->len != 16 || strspn(v->str, "0123456789abcdef") != 16)
            return refuse(r, "is not of 16 hexadecimal digits");
        store(to, f->size, strtoull(v->str, NULL, 16));
        return 0;
    case STK_JFIELD_STRUCT:
        return get_members(r, f->table, v, to);
    }
    return 0;
}

/* Where the items of a list go; NULL after an error. */
static char *make_room(const struct reading *r, const struct stk_jfield *f, size_t n, void *to)
{
    bool ended = f->many == STK_JFIELD_ENDED;
    char *at = (char *)to + f->offset;
    if (f->many != STK_JFIELD_INSIDE) {
        char *list = stk_arena_alloc(r->arena, (n + ended) * f->size);
        if (!list) {
            stk_err_nomem(r->err, n * f->size);
            return NULL;
        }
        memset(list + n * f->size, 0, ended * f->size);
        memcpy(at, &list, sizeof list);
        at = list;
    }
    for (size_t i = 0; i < n; i++)
        if (f->init)
            memcpy(at + i * f->size, f->init, f->size);
        else
            memset(at + i * f->size, 0, f->size);
    return at;
}

static int get_list(struct reading *r, const struct stk_jfield *f, const struct stk_jval *v,
                    void *to)
{
    size_t end = strlen(r->at);
    if (v->type != STK_JARR)
        return refuse(r, "is not a list");
    if (f->room && v->len > f->room)
        return refuse(r, "is too long");
    if (!v->len && f->many != STK_JFIELD_INSIDE)
        memset((char *)to + f->offset, 0, sizeof(void *));
    char *at = v->len ? make_room(r, f, v->len, to) : NULL;
    if (v->len && !at)
        return STK_E_NOMEM;
    for (size_t i = 0; i < v->len; i++) {
        snprintf(r->at + end, sizeof r->at - end, "[%zu]", i);
        int rc = get_one(r, f, &v->item[i], at + i * f->size);
        if (rc)
            return rc;
    }
    r->at[end] = '\0';
    if (f->many != STK_JFIELD_ENDED)
        store((char *)to + f->count, sizeof(size_t), v->len);
    return 0;
}

/* False: null is an error here. */
static bool take_null(const struct stk_jfield *f, void *at)
{
    const double unknown = f->known ? -1 : NAN;
    if (f->required && !f->nullable)
        return false;
    if (f->type == STK_JFIELD_TEXT && !f->many)
        memset(at, 0, f->size);
    else if (f->type == STK_JFIELD_COUNT && !f->many)
        store(at, f->size, UINT64_MAX);
    else if (f->type == STK_JFIELD_REAL && !f->many && !isinf(load_real(at)))
        memcpy(at, &unknown, sizeof unknown);
    return true;
}

static int get_members(struct reading *r, const struct stk_jfield *f, const struct stk_jval *obj,
                       void *to)
{
    size_t end = strlen(r->at);
    if (obj->type != STK_JOBJ)
        return refuse(r, "is no object");
    for (; f->name; f++) {
        const struct stk_jval *v = stk_json_get(obj, f->name);
        char *at = (char *)to + f->offset;
        int rc = 0;
        snprintf(r->at + end, sizeof r->at - end, "%s%s", end ? "." : "", f->name);
        if (!v)
            rc = f->required ? refuse(r, "is missing") : 0;
        else if (v->type != STK_JNULL || !take_null(f, at))
            rc = f->many ? get_list(r, f, v, to) : get_one(r, f, v, at);
        if (rc)
            return rc;
        r->at[end] = '\0';
    }
    return 0;
}

int stk_jfields_read(const struct stk_jfield *table, const struct stk_jval *obj, const char *path,
                     struct stk_arena *arena, void *to, struct stk_err *err)
{
    struct reading r = {.path = path, .arena = arena, .err = err};
    return get_members(&r, table, obj, to);
}

int stk_jfields_parse(const struct stk_jfield *table, const char *text, size_t len,
                      const char *path, struct stk_arena *arena, void *to, struct stk_err *err)
{
    struct stk_jval *root = NULL;
    int rc = stk_json_parse(arena, text, len, &root, err);
    return rc ? stk_err_at(err, rc, path)
              : stk_jfields_read(table, root, path, arena, to, err);
}
