/*
 * json_names.h - the names of the objects that are open while JSON is walked: is one of them twice
 * in its object? RFC 8259 leaves it to the reader which of the two counts, so one that takes either
 * drops the other without a word.
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

/* All zero at the beginning. */
struct stk_json_names {
    struct stk_json_member few[STK_JSON_NAMES_FEW], *many;
    size_t n, cap;
    struct stk_arena arena; /* names that had escapes */
    uint32_t *slot;         /* of one object that has many */
    size_t nslots;
};

void stk_json_names_release(struct stk_json_names *s);

static inline size_t stk_json_names_open(const struct stk_json_names *s)
{
    return s->n;
}

/* A name as stk_json_string() gives it; borrowed. */
int stk_json_names_add(struct stk_json_names *s, const char *body, size_t len, bool escaped,
                       struct stk_err *err);
/* Forgets those since `from`. 1: *twice is one of them that was there before, valid until the next
 * call. */
int stk_json_names_close(struct stk_json_names *s, size_t from, struct stk_json_member *twice,
                         struct stk_err *err);

#endif
