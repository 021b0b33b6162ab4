/*
 * text.h - analysing a sample's JSON without building a tree.
 *
 * base/json.h parses settings into a tree; a sample's JSON may be 100 MiB of numbers, so it is
 * walked in place (base/json_token.h) and numbers go straight into arrays.
 */
#ifndef STK_FORMAT_JSON_TEXT_H
#define STK_FORMAT_JSON_TEXT_H

#include "base/json_token.h"

#define STK_JSON_BASE64 "$base64" /* the only member of an object that represents bytes */

/* Counts of a value's leaves, including nested ones. */
struct stk_json_leaves {
    uint64_t ints;   /* numbers that fit int64 */
    uint64_t floats; /* other numbers */
    uint64_t bigs;   /* whole numbers that do not fit int64 (counted in floats too) */
    uint64_t words;  /* NaN and infinities (counted in floats, too) */
    uint64_t bools;
    uint64_t others; /* strings, nulls, objects */
    /* Not NULL: duplicate names in an object are STK_E_UNSUPPORTED. */
    struct stk_json_names *names;
};

/* That error. at: the object. */
int stk_json_twice(const struct stk_json_cur *c, const char *at,
                   const struct stk_json_member *twice);

/* A cursor over a sample's text: the reader adds the file position to errors. */
static inline struct stk_json_cur stk_json_record(const char *p, size_t n, struct stk_err *err)
{
    return (struct stk_json_cur){.start = p, .p = p, .end = p + n, .err = err, .record = true};
}

/* Walks over the value at c->p, counting into leaves. */
int stk_json_walk(struct stk_json_cur *c, unsigned depth, struct stk_json_leaves *leaves);

/* The codec's implode (format/json/write.c). */
struct stk_sample;
struct stk_value;
/* Appends one value, as for a member of an object. */
int stk_json_value(const struct stk_value *v, struct stk_buf *out, struct stk_err *err);
int stk_json_implode(const struct stk_sample *s, struct stk_buf *out, struct stk_err *err);

#endif
