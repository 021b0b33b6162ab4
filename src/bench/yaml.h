/*
 * yaml.h - a small part of YAML, through libyaml: mappings of scalars and of lists of scalars.
 *
 * A file becomes a list of dotted keys with their values and lines. Anchors, aliases, tags, several
 * documents and deep nesting are refused: a small file cannot become a large one.
 */
#ifndef STK_BENCH_YAML_H
#define STK_BENCH_YAML_H

#include "base/buf.h"

#define STK_YAML_DEPTH 8    /* mappings within mappings */
#define STK_YAML_KEYS  1024 /* of a file */
#define STK_YAML_LINE  4096 /* bytes of a key with those above it, and of a value */

struct stk_yaml_entry {
    const char *key;   /* "dataset.files" */
    const char *value; /* of a list: its items, separated by commas */
    unsigned line;     /* from 1 */
};

struct stk_yaml {
    struct stk_yaml_entry *item;
    size_t n;
    struct stk_arena arena;
};

/* name: for messages. Messages begin with "line N: ". Caller frees with stk_yaml_release(), also on
 * error. */
int stk_yaml_parse(const char *text, size_t n, const char *name, struct stk_yaml *out,
                   struct stk_err *err);
void stk_yaml_release(struct stk_yaml *y);

#endif
