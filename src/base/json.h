/*
 * json.h - a streaming JSON writer and a strict, bounded JSON parser (both small; no DOM library).
 */
#ifndef STK_BASE_JSON_H
#define STK_BASE_JSON_H

#include "base/buf.h"

/* ---- writing, with commas, indentation and escaping ---- */
struct stk_jw {
    struct stk_buf *out;
    unsigned depth;
    bool need_comma, after_key, pretty;
    bool bytes; /* texts keep bytes that are not UTF-8, for stk_json_parse_bytes() */
};
void stk_jw_init(struct stk_jw *w, struct stk_buf *out, bool pretty);
void stk_jw_open(struct stk_jw *w, char bracket);  /* '{' or '[' */
void stk_jw_close(struct stk_jw *w, char bracket); /* '}' or ']' */
void stk_jw_key(struct stk_jw *w, const char *key);
void stk_jw_str(struct stk_jw *w, const char *s); /* NULL writes null */
/* Bytes that are not UTF-8 become U+FFFD, control characters are escaped. */
void stk_jw_strn(struct stk_jw *w, const char *s, size_t n);
void stk_jw_u64(struct stk_jw *w, uint64_t v);
void stk_jw_i64(struct stk_jw *w, int64_t v);
void stk_jw_f64(struct stk_jw *w, double v); /* shortest that reads back; NaN and inf: null */
void stk_jw_bool(struct stk_jw *w, bool v);
void stk_jw_null(struct stk_jw *w);
void stk_jw_raw(struct stk_jw *w, const char *json, size_t n); /* trusted JSON text */
/* Members: a key and its value. */
void stk_jw_put_u64(struct stk_jw *w, const char *key, uint64_t v);
void stk_jw_put_f64(struct stk_jw *w, const char *key, double v);
void stk_jw_put_str(struct stk_jw *w, const char *key, const char *v);
void stk_jw_put_bool(struct stk_jw *w, const char *key, bool v);
/* The same; null if v is negative or NaN, which means unknown. */
void stk_jw_put_known_f64(struct stk_jw *w, const char *key, double v);
void stk_jw_put_known_i64(struct stk_jw *w, const char *key, int64_t v);
void stk_jw_put_strs(struct stk_jw *w, const char *key, const char *const *v, size_t n); /* array */
/* The same for n texts in one block, width bytes apart: char v[n][width]. */
void stk_jw_put_rows(struct stk_jw *w, const char *key, const void *v, size_t width, size_t n);

/* ---- reading: a tree in an arena, for manifests and settings; depth <= 64 ---- */
enum stk_jtype { STK_JNULL, STK_JBOOL, STK_JINT, STK_JFLOAT, STK_JSTR, STK_JARR, STK_JOBJ };
struct stk_jval {
    enum stk_jtype type;
    bool b;
    int64_t i;       /* JINT (numbers without fraction or exponent that fit); JFLOAT otherwise */
    double f;        /* JINT and JFLOAT */
    const char *str; /* JSTR: unescaped, NUL-terminated, may contain NUL: use len */
    size_t len;      /* of str; number of items or members */
    struct stk_jval *item; /* JARR: items; JOBJ: values */
    struct stk_jval *name; /* JOBJ: names (JSTR) */
    const char *raw;       /* the value's own text, borrowed from the input */
    size_t raw_len;
};
/* The whole text must be one value. On error err->offset is the byte. Allocates from the arena
 * only. */
int stk_json_parse(struct stk_arena *a, const char *text, size_t len, struct stk_jval **out,
                   struct stk_err *err);
/* The same for what this process wrote itself, with `bytes`. */
int stk_json_parse_bytes(struct stk_arena *a, const char *text, size_t len, struct stk_jval **out,
                         struct stk_err *err);
const struct stk_jval *stk_json_get(const struct stk_jval *obj, const char *name); /* or NULL */

#endif
