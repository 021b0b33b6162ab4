/*
 * json_text.h - walking JSON text strictly (RFC 8259, UTF-8) without building anything.
 *
 * base/json.h parses settings into a tree; a sample's JSON may be 100 MiB of numbers, so it is
 * walked in place and numbers go straight into arrays.
 */
#ifndef STK_FORMAT_JSON_TEXT_H
#define STK_FORMAT_JSON_TEXT_H

#include "base/buf.h"

#define STK_JSON_DEPTH_MAX 64
#define STK_JSON_BASE64    "$base64" /* the one member of an object that stands for bytes */

/* Where the walk stands. Errors are STK_E_CORRUPT and say the byte of the text. */
struct stk_json_cur {
    const char *start, *p, *end;
    struct stk_err *err;
};

/* What a value consists of, nested ones included. */
struct stk_json_leaves {
    uint64_t ints;   /* numbers that fit int64 */
    uint64_t floats; /* other numbers */
    uint64_t bigs;   /* whole numbers that do not fit int64 (counted in floats too) */
    uint64_t bools;
    uint64_t others; /* strings, nulls, objects */
};

int stk_json_bad(const struct stk_json_cur *c, const char *at, const char *what);
void stk_json_space(struct stk_json_cur *c);
/* A string at c->p ('"'): its body between the quotes. escaped: has a backslash. */
int stk_json_string(struct stk_json_cur *c, const char **body, size_t *len, bool *escaped);
/* Walks over the value at c->p, counting into leaves. */
int stk_json_walk(struct stk_json_cur *c, unsigned depth, struct stk_json_leaves *leaves);
/* Writes a body that stk_json_string() took to out (room for len) unescaped; returns its length. */
size_t stk_json_unescape(const char *body, size_t len, char *out);

/* The codec's implode (json_write.c). */
struct stk_sample;
int stk_json_implode(const struct stk_sample *s, struct stk_buf *out, struct stk_err *err);

#endif
