/*
 * json_token.h - JSON text (RFC 8259, UTF-8) token by token: grammar, escapes and UTF-8 are all
 * checked, nothing is allocated. json.h builds trees with it; the samples of datasets, which may be
 * 100 MiB of numbers, are walked with it in place.
 */
#ifndef STK_BASE_JSON_TOKEN_H
#define STK_BASE_JSON_TOKEN_H

#include "base/buf.h"

#define STK_JSON_DEPTH_MAX 64

/* Where the walk stands. Errors are STK_E_CORRUPT; STK_E_UNSUPPORTED for a dataset's values
 * nested too deeply. */
struct stk_json_cur {
    const char *start, *p, *end;
    struct stk_err *err;
    bool record; /* the text is part of a file, whose place is added later: the byte is said in
                    words */
};

/* What is wrong, and where. */
int stk_json_bad(const struct stk_json_cur *c, const char *at, const char *what);
/* The same of a dataset's JSON that is sound but not read here. */
int stk_json_unsupported(const struct stk_json_cur *c, const char *at, const char *what);

static inline void stk_json_space(struct stk_json_cur *c)
{
    const char *p = c->p; /* in a register: a char may alias anything */
    while (p < c->end && (*p == ' ' || *p == '\n' || *p == '\t' || *p == '\r'))
        p++;
    c->p = p;
}

/* Passes over the string at c->p ('"'): its body between the quotes. escaped: has a backslash. */
int stk_json_string(struct stk_json_cur *c, const char **body, size_t *len, bool *escaped);
/* Writes such a body to out (room for len) unescaped; returns its length. */
size_t stk_json_unescape(const char *body, size_t len, char *out);
/* Passes over the number at c->p. whole: has neither fraction nor exponent. */
int stk_json_number(struct stk_json_cur *c, bool *whole);
/* Passes over true, false or null: 't', 'f' or 'n'. */
int stk_json_word(struct stk_json_cur *c);

/*
 * Arrays and objects: 1: an element begins at c->p, 0: the bracket is closed and passed.
 *
 *     const char *open = c->p;
 *     int more = stk_json_open(c, depth);
 *     while (more > 0)
 *         more = element(c, depth + 1) < 0 ? ... : stk_json_more(c, open);
 */
int stk_json_open(struct stk_json_cur *c, unsigned depth); /* c->p: at { or [ */
int stk_json_more(struct stk_json_cur *c, const char *open);
/* What begins an object's element: its name as stk_json_string() gives it, and the colon. */
int stk_json_name(struct stk_json_cur *c, const char **body, size_t *len, bool *escaped);
/* After the outermost value: nothing may follow. */
int stk_json_end(struct stk_json_cur *c);

#endif
