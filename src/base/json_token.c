/* json_token.c - the tokens of JSON text. */
#include "base/json_token.h"

#include <stdlib.h>
#include <strings.h>

#include "base/text.h"
#include "base/buf.h"
#include "base/hash.h"

static int refuse(const struct stk_json_cur *c, int code, const char *prefix, const char *at,
                  const char *what)
{
    if (!c->record)
        return stk_err_set(c->err, code, NULL, at - c->start, "%s%s", prefix, what);
    return stk_err_set(c->err, code, NULL, -1, "%s%s at byte %zu of the value", prefix, what,
                       (size_t)(at - c->start));
}

int stk_json_bad(const struct stk_json_cur *c, const char *at, const char *what)
{
    return refuse(c, STK_E_CORRUPT, "bad JSON: ", at, what);
}

int stk_json_unsupported(const struct stk_json_cur *c, const char *at, const char *what)
{
    return c->record ? refuse(c, STK_E_UNSUPPORTED, "", at, what) : stk_json_bad(c, at, what);
}

/* ---- strings ------------------------------------------------------------------------------ */

/* Characters after a backslash and their meaning. */
static const char meaning[256] = {['b'] = '\b', ['f'] = '\f', ['n'] = '\n',  ['r'] = '\r',
                                  ['t'] = '\t', ['"'] = '"',  ['\\'] = '\\', ['/'] = '/'};

/* Reads four hex digits at p; -1: they are not. */
static int32_t hex4(const char *p, const char *end)
{
    if (end - p < 4)
        return -1;
    int32_t v = 0;
    for (int i = 0; i < 4; i++) {
        int c = (unsigned char)p[i], letter = c | 0x20;
        if (c >= '0' && c <= '9')
            v = v << 4 | (c - '0');
        else if (letter >= 'a' && letter <= 'f')
            v = v << 4 | (letter - 'a' + 10);
        else
            return -1;
    }
    return v;
}

#define LONE_SURROGATE (-2)

/* The character of the \u escape with its digits at p (a surrogate pair is one); *used: bytes from
 * p. -1: bad; LONE_SURROGATE: half of a pair, which Python writes for bytes that are not text. */
static int32_t read_unicode(const char *p, const char *end, size_t *used)
{
    int32_t hi = hex4(p, end);
    *used = 4;
    if (hi < 0xd800 || hi > 0xdfff)
        return hi;
    if (hi >= 0xdc00 || end - p < 10 || p[4] != '\\' || p[5] != 'u')
        return LONE_SURROGATE;
    int32_t lo = hex4(p + 6, end);
    *used = 10;
    if (lo < 0xdc00 || lo > 0xdfff)
        return lo < 0 ? -1 : LONE_SURROGATE;
    return 0x10000 + ((hi - 0xd800) << 10) + (lo - 0xdc00);
}

static int pass_escape(struct stk_json_cur *c)
{
    const char *at = c->p++;
    if (c->p == c->end)
        return stk_json_bad(c, at, "text ends inside a string");
    unsigned char kind = (unsigned char)*c->p++;
    if (kind != 'u')
        return meaning[kind] ? 0 : stk_json_bad(c, at, "unknown escape in a string");
    size_t used;
    int32_t cp = read_unicode(c->p, c->end, &used);
    if (cp == LONE_SURROGATE)
        return stk_json_bad(c, at,
                            "a lone surrogate (\\ud800 to \\udfff), which is not a "
                            "character,");
    if (cp < 0)
        return stk_json_bad(c, at, "bad \\u escape");
    c->p += used;
    return 0;
}

/* Skips bytes of a string that are plain ASCII characters. */
static const char *pass_plain(const char *p, const char *end)
{
    static const bool plain[256] = {
        [0x20 ... '"' - 1] = true, ['"' + 1 ... '\\' - 1] = true, ['\\' + 1 ... 0x7f] = true};
    while (p < end && plain[(unsigned char)*p])
        p++;
    return p;
}

/* Skips a character that is not ASCII. */
static int pass_wide(struct stk_json_cur *c)
{
    uint32_t cp;
    size_t step = stk_utf8_next(c->p, (size_t)(c->end - c->p), &cp);
    if (!step && c->bytes) {
        c->p++;
        return 0;
    }
    if (!step || cp < 0x20)
        return stk_json_bad(c, c->p,
                            step ? "control character in a string" : "a string is not UTF-8");
    c->p += step;
    return 0;
}

int stk_json_string(struct stk_json_cur *c, const char **body, size_t *len, bool *escaped)
{
    const char *open = c->p++;
    *escaped = false;
    while ((c->p = pass_plain(c->p, c->end)) < c->end && *c->p != '"') {
        *escaped |= *c->p == '\\';
        int rc = *c->p == '\\' ? pass_escape(c) : pass_wide(c);
        if (rc < 0)
            return rc;
    }
    if (c->p == c->end)
        return stk_json_bad(c, open, "text ends inside a string");
    *body = open + 1;
    *len = (size_t)(c->p++ - *body);
    return 0;
}

size_t stk_json_unescape(const char *body, size_t len, char *out)
{
    const char *end = body + len;
    char *o = out;
    for (const char *p = body; p < end;) {
        if (*p != '\\') {
            *o++ = *p++;
        } else if (p[1] != 'u') {
            *o++ = meaning[(unsigned char)p[1]];
            p += 2;
        } else {
            size_t used;
            int32_t cp = read_unicode(p + 2, end, &used);
            o += stk_utf8_put(o, (uint32_t)cp);
            p += 2 + used;
        }
    }
    return (size_t)(o - out);
}

/* Python's json module writes these by default. */
#define NO_NAN "NaN, which JSON does not have (json.dump with allow_nan=False refuses it),"
#define NO_INFINITY                                                                                \
    "Infinity, which JSON does not have (json.dump with allow_nan=False refuses it),"

/* ---- numbers and words -------------------------------------------------------------------- */

/* Skips the digits at p; NULL if there is none. */
static const char *pass_digits(const char *p, const char *end)
{
    const char *first = p;
    while (p < end && *p >= '0' && *p <= '9')
        p++;
    return p > first ? p : NULL;
}

int stk_json_number(struct stk_json_cur *c, bool *whole)
{
    const char *digits = c->p + (*c->p == '-'), *end = c->end;
    const char *p = pass_digits(digits, end);
    *whole = true;
    if (p && *digits == '0' && p - digits > 1)
        p = NULL;
    if (p && p < end && *p == '.') {
        *whole = false;
        p = pass_digits(p + 1, end);
    }
    if (p && p < end && (*p | 0x20) == 'e') {
        *whole = false;
        p++;
        p = pass_digits(p + (p < end && (*p == '+' || *p == '-')), end);
    }
    if (!p && end - digits >= 8 && memcmp(digits, "Infinity", 8) == 0) {
        if (!c->record)
            return stk_json_bad(c, c->p, NO_INFINITY);
        *whole = false;
        p = digits + 8;
    }
    if (!p)
        return stk_json_bad(c, c->p, "not a number");
    c->p = p;
    return 0;
}

int stk_json_word(struct stk_json_cur *c)
{
    static const char *const words[] = {"true", "false", "null"};
    for (size_t i = 0; i < 3; i++) {
        size_t n = strlen(words[i]);
        if ((size_t)(c->end - c->p) >= n && memcmp(c->p, words[i], n) == 0) {
            c->p += n;
            return *words[i];
        }
    }
    static const char *const not_json[] = {"NaN", "Infinity"};
    for (size_t i = 0; i < 2; i++) {
        size_t n = strlen(not_json[i]);
        if ((size_t)(c->end - c->p) < n || memcmp(c->p, not_json[i], n) != 0)
            continue;
        if (!c->record)
            return stk_json_bad(c, c->p, i ? NO_INFINITY : NO_NAN);
        c->p += n;
        return *not_json[i];
    }
    return stk_json_bad(
        c, c->p, c->p == c->end ? "text ends where a value was expected" : "a value was expected");
}

/* ---- arrays and objects ------------------------------------------------------------------- */

int stk_json_open(struct stk_json_cur *c, unsigned depth)
{
    char close = *c->p == '{' ? '}' : ']';
    if (depth >= STK_JSON_DEPTH_MAX)
        return stk_json_unsupported(c, c->p, "a value nested more than 64 deep");
    c->p++;
    stk_json_space(c);
    if (c->p == c->end || *c->p != close)
        return 1;
    c->p++;
    return 0;
}

int stk_json_more(struct stk_json_cur *c, const char *open)
{
    bool object = *open == '{';
    stk_json_space(c);
    if (c->p == c->end)
        return stk_json_bad(c, open, object ? "\"{\" without \"}\"" : "\"[\" without \"]\"");
    char at = *c->p;
    if (at != ',' && at != (object ? '}' : ']'))
        return stk_json_bad(c, c->p,
                            object ? "\",\" or \"}\" was expected" : "\",\" or \"]\" was expected");
    c->p++;
    if (at != ',')
        return 0;
    stk_json_space(c);
    return 1;
}

int stk_json_name(struct stk_json_cur *c, const char **body, size_t *len, bool *escaped)
{
    if (c->p == c->end || *c->p != '"')
        return stk_json_bad(c, c->p, "a name in quotes was expected");
    int rc = stk_json_string(c, body, len, escaped);
    if (rc < 0)
        return rc;
    stk_json_space(c);
    if (c->p == c->end || *c->p != ':')
        return stk_json_bad(c, c->p, "\":\" was expected after a name");
    c->p++;
    stk_json_space(c);
    return 0;
}

int stk_json_end(struct stk_json_cur *c)
{
    stk_json_space(c);
    return c->p < c->end ? stk_json_bad(c, c->p, "more text after the value") : 0;
}

/* ---- names ----------------------------------------------------------------------------------- */

/* The names of open JSON objects on a stack, and duplicates among them. */

#define PAIRWISE 16 /* up to this many names are compared pairwise; more through a table */

void stk_json_names_release(struct stk_json_names *s)
{
    free(s->many);
    free(s->slot);
    stk_arena_release(&s->arena);
    *s = (struct stk_json_names){0};
}

static struct stk_json_member *items(struct stk_json_names *s)
{
    return s->many ? s->many : s->few;
}

static int make_room(struct stk_json_names *s, struct stk_err *err)
{
    bool first = !s->many;
    if (s->n < STK_JSON_NAMES_FEW && first)
        return 0;
    if (STK_ARRAY_ROOM(s->many, s->cap, s->n + 1, err))
        return STK_E_NOMEM;
    if (first)
        memcpy(s->many, s->few, sizeof s->few);
    return 0;
}

/* Python writes lone surrogates, which are no characters: such a name is compared unescaped. */
static bool has_surrogate(const char *p, size_t n)
{
    for (size_t i = 0; i + 2 < n; i++)
        if (p[i] == '\\' && p[++i] == 'u' && (p[i + 1] | 0x20) == 'd')
            return true;
    return false;
}

int stk_json_names_add(struct stk_json_names *s, const char *body, size_t len, bool escaped,
                       struct stk_err *err)
{
    int rc = make_room(s, err);
    if (rc == 0 && escaped && !has_surrogate(body, len)) {
        char *text = stk_arena_alloc(&s->arena, len);
        if (!text)
            return stk_err_nomem(err, len);
        len = stk_json_unescape(body, len, text);
        body = text;
    }
    if (rc == 0)
        items(s)[s->n++] = (struct stk_json_member){body, len};
    return rc;
}

static bool same(const struct stk_json_member *a, const struct stk_json_member *b)
{
    return a->len == b->len && memcmp(a->name, b->name, a->len) == 0;
}

static const struct stk_json_member *find_pairwise(const struct stk_json_member *m, size_t n)
{
    for (size_t i = 1; i < n; i++)
        for (size_t k = 0; k < i; k++)
            if (same(&m[i], &m[k]))
                return &m[i];
    return NULL;
}

/* *twice: the duplicate, or NULL. */
static int find_by_table(struct stk_json_names *s, const struct stk_json_member *m, size_t n,
                         const struct stk_json_member **twice, struct stk_err *err)
{
    size_t mask = ((size_t)2 << (63 - __builtin_clzll(2 * n - 1))) - 1;
    if (STK_ARRAY_ROOM(s->slot, s->nslots, mask + 1, err))
        return STK_E_NOMEM;
    memset(s->slot, 0, (mask + 1) * sizeof *s->slot);
    for (size_t i = 0; i < n; i++) {
        size_t at = stk_hash64(m[i].name, m[i].len) & mask;
        for (; s->slot[at]; at = (at + 1) & mask)
            if (same(&m[s->slot[at] - 1], &m[i])) {
                *twice = &m[i];
                return 0;
            }
        s->slot[at] = (uint32_t)i + 1;
    }
    return 0;
}

int stk_json_names_close(struct stk_json_names *s, size_t from, struct stk_json_member *twice,
                         struct stk_err *err)
{
    const struct stk_json_member *m = items(s) + from, *found = NULL;
    size_t n = s->n - from;
    int rc = 0;
    if (n > PAIRWISE)
        rc = find_by_table(s, m, n, &found, err);
    else
        found = find_pairwise(m, n);
    s->n = from;
    if (rc < 0 || !found)
        return rc;
    *twice = *found;
    return 1;
}
