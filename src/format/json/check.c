/*
 * check.c - checks whether bytes are one JSON value for Python's json module: NaN and
 * infinities are numbers, a byte order mark is allowed. Allocates no tree, nests 1,000 deep.
 * Duplicate names in an object are reported: Python would drop the first value.
 */
#include "format/json/text.h"
#include "format/sample.h"

#include <string.h>

#define DEPTH_MAX 1000

struct scan {
    const uint8_t *start, *p, *end;
    char open[DEPTH_MAX];
    size_t from[DEPTH_MAX]; /* an object's first name */
    unsigned depth;
    struct stk_json_names names;
    int rc; /* error for a duplicate name or lack of memory */
    struct stk_err *err;
};

static void skip_space(struct scan *s)
{
    while (s->p < s->end && (*s->p == ' ' || (*s->p >= '\t' && *s->p <= '\r')))
        s->p++;
}

static bool skip_char(struct scan *s, char c)
{
    if (s->p == s->end || *s->p != c)
        return false;
    s->p++;
    return true;
}

static bool skip_word(struct scan *s, const char *word)
{
    size_t n = strlen(word);
    if ((size_t)(s->end - s->p) < n || memcmp(s->p, word, n) != 0)
        return false;
    s->p += n;
    return true;
}

static bool skip_hex(struct scan *s)
{
    for (int i = 0; i < 4; i++, s->p++)
        if (s->p == s->end || !memchr("0123456789abcdefABCDEF", *s->p, 22))
            return false;
    return true;
}

static bool skip_string(struct scan *s)
{
    if (!skip_char(s, '"'))
        return false;
    while (s->p < s->end && *s->p != '"') {
        uint8_t c = *s->p++;
        if (c < ' ')
            return false;
        if (c != '\\')
            continue;
        if (s->p == s->end || !memchr("\"\\/bfnrtu", *s->p, 9) || (*s->p++ == 'u' && !skip_hex(s)))
            return false;
    }
    return skip_char(s, '"');
}

static bool skip_digits(struct scan *s)
{
    const uint8_t *from = s->p;
    while (s->p < s->end && *s->p >= '0' && *s->p <= '9')
        s->p++;
    return s->p > from;
}

static bool skip_number(struct scan *s)
{
    (void)skip_char(s, '-');
    if (skip_word(s, "Infinity"))
        return true;
    if (!skip_char(s, '0') && !skip_digits(s))
        return false;
    if (skip_char(s, '.') && !skip_digits(s))
        return false;
    if (!skip_char(s, 'e') && !skip_char(s, 'E'))
        return true;
    if (!skip_char(s, '+'))
        (void)skip_char(s, '-');
    return skip_digits(s);
}

/* A scalar, or the start of an array or object. *more: it has elements. */
static bool begin_value(struct scan *s, bool *more)
{
    *more = false;
    skip_space(s);
    if (s->p == s->end)
        return false;
    char c = (char)*s->p;
    if (c == '"')
        return skip_string(s);
    if (c != '{' && c != '[')
        return skip_word(s, "true") || skip_word(s, "false") || skip_word(s, "null") ||
               skip_word(s, "NaN") || skip_number(s);
    s->p++;
    skip_space(s);
    if (skip_char(s, c == '{' ? '}' : ']'))
        return true;
    if (s->depth == DEPTH_MAX)
        return false;
    s->from[s->depth] = stk_json_names_open(&s->names);
    s->open[s->depth++] = c;
    *more = true;
    return true;
}

static bool skip_name(struct scan *s)
{
    skip_space(s);
    const uint8_t *open = s->p;
    if (!skip_string(s))
        return false;
    size_t len = (size_t)(s->p - open) - 2;
    const char *body = (const char *)open + 1;
    s->rc = stk_json_names_add(&s->names, body, len, memchr(body, '\\', len), s->err);
    skip_space(s);
    return s->rc == 0 && skip_char(s, ':');
}

/* At the end of an object. */
static bool names_differ(struct scan *s)
{
    struct stk_json_cur c = {.start = (const char *)s->start, .record = true, .err = s->err};
    struct stk_json_member twice;
    s->rc = stk_json_names_close(&s->names, s->from[s->depth - 1], &twice, s->err);
    if (s->rc == 1)
        s->rc = stk_json_twice(&c, (const char *)s->p - 1, &twice);
    return s->rc == 0;
}

/* After a value: closes the brackets that end here. *more: another element follows. */
static bool end_value(struct scan *s, bool *more)
{
    for (*more = false; s->depth && !*more;) {
        skip_space(s);
        bool object = s->open[s->depth - 1] == '{';
        if (skip_char(s, ','))
            *more = true;
        else if (!skip_char(s, object ? '}' : ']') || (object && !names_differ(s)))
            return false;
        else
            s->depth--;
    }
    return true;
}

size_t stk_json_bom(const uint8_t *p, size_t n)
{
    return n >= 3 && memcmp(p, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
}

static bool is_value(struct scan *s)
{
    bool more = true, inside;
    while (more) {
        if (s->depth && s->open[s->depth - 1] == '{' && !skip_name(s))
            return false;
        if (!begin_value(s, &inside))
            return false;
        if (!inside && !end_value(s, &more))
            return false;
    }
    skip_space(s);
    return s->p == s->end;
}

int stk_json_check(const uint8_t *p, size_t n, struct stk_err *err)
{
    struct scan s = {.start = p, .p = p, .end = p + n, .err = err};
    bool sound = n && stk_is_text(p, n) && is_value(&s);
    stk_json_names_release(&s.names);
    if (s.rc < 0 || sound)
        return s.rc;
    return stk_err_set(err, STK_E_CORRUPT, NULL, -1, "is not JSON%s", n ? "" : ": it is empty");
}
