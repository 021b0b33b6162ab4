/*
 * json_token.h - JSON text (RFC 8259, UTF-8) token by token: checks grammar, escapes and UTF-8, and
 * allocates nothing. json.h builds trees with it; samples of datasets, which may be 100 MiB of
 * numbers, are walked in place.
 */
#ifndef STK_BASE_JSON_TOKEN_H
#define STK_BASE_JSON_TOKEN_H

#include "base/buf.h"

#define STK_JSON_DEPTH_MAX 64

/* The position of the walk. Errors are STK_E_CORRUPT; STK_E_UNSUPPORTED for values nested too
 * deeply. */
struct stk_json_cur {
    const char *start, *p, *end;
    struct stk_err *err;
    bool record; /* the text is part of a file, whose path and offset are added later: messages give
                  * the byte in words. NaN, Infinity and -Infinity, which Python's json module
                  * writes, are numbers */
    bool bytes;  /* strings may have bytes that are not UTF-8 */
};

/* Reports what is wrong, and where. */
int stk_json_bad(const struct stk_json_cur *c, const char *at, const char *what);
/* The same for JSON that is sound but not supported. */
int stk_json_unsupported(const struct stk_json_cur *c, const char *at, const char *what);

static inline void stk_json_space(struct stk_json_cur *c)
{
    const char *p = c->p; /* in a register: a char may alias anything */
    while (p < c->end && (*p == ' ' || *p == '\n' || *p == '\t' || *p == '\r'))
        p++;
    c->p = p;
}

/* Skips the string at c->p ('"'); returns its body between the quotes. escaped: has a backslash. */
int stk_json_string(struct stk_json_cur *c, const char **body, size_t *len, bool *escaped);
/* Writes the unescaped body to out (room for len); returns its length. */
size_t stk_json_unescape(const char *body, size_t len, char *out);
/* Skips the number at c->p. whole: has neither fraction nor exponent. */
int stk_json_number(struct stk_json_cur *c, bool *whole);
/* Skips true, false or null; returns 't', 'f' or 'n'; for NaN and Infinity 'N' or 'I'. */
int stk_json_word(struct stk_json_cur *c);

/*
 * Arrays and objects. 1: an element begins at c->p, 0: the closing bracket was skipped.
 *
 *     const char *open = c->p;
 *     int more = stk_json_open(c, depth);
 *     while (more > 0)
 *         more = element(c, depth + 1) < 0 ? ... : stk_json_more(c, open);
 */
int stk_json_open(struct stk_json_cur *c, unsigned depth); /* c->p: at { or [ */
int stk_json_more(struct stk_json_cur *c, const char *open);
/* Skips the name of an object's member, which it returns like stk_json_string(), and the colon. */
int stk_json_name(struct stk_json_cur *c, const char **body, size_t *len, bool *escaped);
/* Checks that nothing follows the outermost value. */
int stk_json_end(struct stk_json_cur *c);

/* ---- names ----------------------------------------------------------------------------------- */

/*
 * Detects duplicate names in JSON objects while the text is walked. RFC 8259 leaves open which
 * duplicate counts, so a reader that takes either one silently drops the other.
 *
 *     size_t from = stk_json_names_open(&names);          at {
 *     stk_json_names_add(&names, body, len, escaped);     at each name
 *     stk_json_names_close(&names, from, &twice);         at }
 */

struct stk_json_member {
    const char *name; /* unescaped; not terminated */
    size_t len;
};

#define STK_JSON_NAMES_FEW 32 /* take no memory */

/* All zero at the start. */
struct stk_json_names {
    struct stk_json_member few[STK_JSON_NAMES_FEW], *many;
    size_t n, cap;
    struct stk_arena arena; /* names that had escapes */
    uint32_t *slot;         /* table for one object with many names */
    size_t nslots;
};

void stk_json_names_release(struct stk_json_names *s);

static inline size_t stk_json_names_open(const struct stk_json_names *s)
{
    return s->n;
}

/* Adds a name as stk_json_string() gives it; borrowed. */
int stk_json_names_add(struct stk_json_names *s, const char *body, size_t len, bool escaped,
                       struct stk_err *err);
/* Drops the names since `from`. Returns 1 if *twice is a duplicate among them, valid until the next
 * call. */
int stk_json_names_close(struct stk_json_names *s, size_t from, struct stk_json_member *twice,
                         struct stk_err *err);

#endif
