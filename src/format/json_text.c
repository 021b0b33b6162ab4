/*
 * json_text.c - walking JSON text strictly: grammar, escapes and UTF-8 are all checked, nothing
 * is allocated, and the depth is bounded.
 */
#include "format/json_text.h"
#include "base/num.h"
#include "base/text.h"

#include <string.h>

int stk_json_bad(const struct stk_json_cur *c, const char *at, const char *what)
{
    return stk_err_set(c->err, STK_E_CORRUPT, NULL, -1, "bad JSON: %s at byte %zu of the value",
                       what, (size_t)(at - c->start));
}

void stk_json_space(struct stk_json_cur *c)
{
    while (c->p < c->end && (*c->p == ' ' || *c->p == '\n' || *c->p == '\t' || *c->p == '\r'))
        c->p++;
}

/* ---- strings ------------------------------------------------------------------------------ */

/* Four hex digits at p, -1 when they are not. */
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

/* The character of the \u escape whose digits are at p (a pair of surrogates is one); *used: bytes
 * from p. -1: bad. */
static int32_t read_unicode(const char *p, const char *end, size_t *used)
{
    int32_t hi = hex4(p, end);
    *used = 4;
    if (hi < 0xd800 || hi > 0xdfff)
        return hi;
    if (hi >= 0xdc00 || end - p < 10 || p[4] != '\\' || p[5] != 'u')
        return -1;
    int32_t lo = hex4(p + 6, end);
    *used = 10;
    if (lo < 0xdc00 || lo > 0xdfff)
        return -1;
    return 0x10000 + ((hi - 0xd800) << 10) + (lo - 0xdc00);
}

static int walk_escape(struct stk_json_cur *c)
{
    const char *at = c->p++;
    if (c->p == c->end)
        return stk_json_bad(c, at, "the text ends inside a string");
    char kind = *c->p++;
    if (kind != 'u')
        return kind && strchr("bfnrt\"\\/", kind) ? 0 : stk_json_bad(c, at, "unknown escape");
    size_t used;
    if (read_unicode(c->p, c->end, &used) < 0)
        return stk_json_bad(c, at, "bad \\u escape or half a surrogate pair");
    c->p += used;
    return 0;
}

int stk_json_string(struct stk_json_cur *c, const char **body, size_t *len, bool *escaped)
{
    const char *open = c->p++;
    *escaped = false;
    while (c->p < c->end && *c->p != '"') {
        unsigned char b = (unsigned char)*c->p;
        if (b >= 0x20 && b < 0x80 && b != '\\') {
            c->p++;
        } else if (b == '\\') {
            int rc = walk_escape(c);
            if (rc < 0)
                return rc;
            *escaped = true;
        } else {
            uint32_t cp;
            size_t step = stk_utf8_next(c->p, (size_t)(c->end - c->p), &cp);
            if (!step || b < 0x20)
                return stk_json_bad(c, c->p, step ? "control character in a string" : "not UTF-8");
            c->p += step;
        }
    }
    if (c->p == c->end)
        return stk_json_bad(c, open, "a string is not closed");
    *body = open + 1;
    *len = (size_t)(c->p++ - *body);
    return 0;
}

size_t stk_json_unescape(const char *body, size_t len, char *out)
{
    static const char from[] = "bfnrt\"\\/", to[] = "\b\f\n\r\t\"\\/";
    const char *end = body + len;
    char *o = out;
    for (const char *p = body; p < end;) {
        if (*p != '\\') {
            *o++ = *p++;
        } else if (p[1] != 'u') {
            *o++ = to[strchr(from, p[1]) - from];
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

/* ---- numbers and words -------------------------------------------------------------------- */

static bool skip_digits(struct stk_json_cur *c)
{
    const char *first = c->p;
    while (c->p < c->end && *c->p >= '0' && *c->p <= '9')
        c->p++;
    return c->p > first;
}

static int walk_number(struct stk_json_cur *c, struct stk_json_leaves *leaves)
{
    const char *start = c->p;
    bool good, whole = true;
    c->p += *c->p == '-';
    const char *digits = c->p;
    good = skip_digits(c) && (*digits != '0' || c->p - digits == 1);
    if (good && c->p < c->end && *c->p == '.') {
        whole = false;
        c->p++;
        good = skip_digits(c);
    }
    if (good && c->p < c->end && (*c->p | 0x20) == 'e') {
        whole = false;
        c->p++;
        if (c->p < c->end && (*c->p == '+' || *c->p == '-'))
            c->p++;
        good = skip_digits(c);
    }
    if (!good)
        return stk_json_bad(c, start, "not a number");
    /* Up to 18 digits always fit; -0 is a float that has lost its point. */
    size_t n = (size_t)(c->p - start);
    int64_t i;
    double f;
    bool fits =
        whole && ((n <= 18 && *digits != '0') || stk_num_parse(start, n, &i, &f) == STK_NUM_INT);
    leaves->ints += fits;
    leaves->floats += !fits;
    leaves->bigs += whole && !fits && *digits != '0';
    return 0;
}

static int walk_word(struct stk_json_cur *c, struct stk_json_leaves *leaves)
{
    static const char *const words[] = {"true", "false", "null"};
    for (size_t i = 0; i < 3; i++) {
        size_t n = strlen(words[i]);
        if ((size_t)(c->end - c->p) >= n && memcmp(c->p, words[i], n) == 0) {
            c->p += n;
            leaves->bools += i < 2;
            leaves->others += i == 2;
            return 0;
        }
    }
    return stk_json_bad(c, c->p, "a value was expected");
}

/* ---- values ------------------------------------------------------------------------------- */

static int walk_name(struct stk_json_cur *c)
{
    const char *body;
    size_t len;
    bool escaped;
    stk_json_space(c);
    if (c->p == c->end || *c->p != '"')
        return stk_json_bad(c, c->p, "a name in quotes was expected");
    int rc = stk_json_string(c, &body, &len, &escaped);
    if (rc < 0)
        return rc;
    stk_json_space(c);
    if (c->p == c->end || *c->p != ':')
        return stk_json_bad(c, c->p, "\":\" was expected");
    c->p++;
    return 0;
}

static int walk_container(struct stk_json_cur *c, unsigned depth, struct stk_json_leaves *leaves)
{
    bool object = *c->p == '{';
    char close = object ? '}' : ']';
    if (depth >= STK_JSON_DEPTH_MAX)
        return stk_json_bad(c, c->p, "nested too deeply");
    c->p++;
    leaves->others += object;
    stk_json_space(c);
    if (c->p < c->end && *c->p == close) {
        c->p++;
        return 0;
    }
    for (;;) {
        int rc = object ? walk_name(c) : 0;
        stk_json_space(c);
        if (rc == 0)
            rc = stk_json_walk(c, depth + 1, leaves);
        if (rc < 0)
            return rc;
        stk_json_space(c);
        if (c->p == c->end || (*c->p != ',' && *c->p != close))
            return stk_json_bad(
                c, c->p, object ? "\",\" or \"}\" was expected" : "\",\" or \"]\" was expected");
        if (*c->p++ == close)
            return 0;
    }
}

int stk_json_walk(struct stk_json_cur *c, unsigned depth, struct stk_json_leaves *leaves)
{
    const char *body;
    size_t len;
    bool escaped;
    if (c->p == c->end)
        return stk_json_bad(c, c->p, "a value was expected");
    switch (*c->p) {
    case '{':
    case '[':
        return walk_container(c, depth, leaves);
    case '"':
        leaves->others++;
        return stk_json_string(c, &body, &len, &escaped);
    case '-':
    case '0' ... '9':
        return walk_number(c, leaves);
    default:
        return walk_word(c, leaves);
    }
}
