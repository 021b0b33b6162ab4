/*
 * json_names.h - detects duplicate names in JSON objects while the text is walked. RFC 8259 leaves
 * open which duplicate counts, so a reader that takes either one silently drops the other.
 *
 *     size_t from = stk_json_names_open(&names);          at {
 *     stk_json_names_add(&names, body, len, escaped);     at each name
 *     stk_json_names_close(&names, from, &twice);         at }
 */
#ifndef STK_BASE_JSON_NAMES_H
#define STK_BASE_JSON_NAMES_H

#include "base/buf.h"

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
