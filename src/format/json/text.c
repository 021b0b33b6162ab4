/* text.c - walking over a value and counting its leaves. */
#include "format/json/text.h"
#include "base/num.h"

#include <stdio.h>

static int walk_number(struct stk_json_cur *c, struct stk_json_leaves *leaves)
{
    const char *start = c->p, *digits = start + (*start == '-');
    bool whole;
    int rc = stk_json_number(c, &whole);
    if (rc < 0)
        return rc;
    /* Up to 18 digits always fit; -0 is a float that has lost its point. */
    size_t n = (size_t)(c->p - start);
    int64_t i;
    double f;
    bool fits =
        whole && ((n <= 18 && *digits != '0') || stk_num_parse(start, n, &i, &f) == STK_NUM_INT);
    leaves->ints += fits;
    leaves->floats += !fits;
    leaves->bigs += whole && !fits && *digits != '0';
    leaves->words += *digits == 'I';
    return 0;
}

static int walk_word(struct stk_json_cur *c, struct stk_json_leaves *leaves)
{
    int word = stk_json_word(c);
    leaves->bools += word == 't' || word == 'f';
    leaves->others += word == 'n';
    leaves->floats += word == 'N' || word == 'I';
    leaves->words += word == 'N' || word == 'I';
    return word < 0 ? word : 0;
}

static int walk_string(struct stk_json_cur *c)
{
    const char *body;
    size_t len;
    bool escaped;
    return stk_json_string(c, &body, &len, &escaped);
}

static int walk_name(struct stk_json_cur *c, struct stk_json_names *names)
{
    const char *body;
    size_t len;
    bool escaped;
    int rc = stk_json_name(c, &body, &len, &escaped);
    return rc < 0 || !names ? rc : stk_json_names_add(names, body, len, escaped, c->err);
}

int stk_json_twice(const struct stk_json_cur *c, const char *at,
                   const struct stk_json_member *twice)
{
    char text[320];
    snprintf(text, sizeof text,
             "two members are called '%.*s', of which readers keep one or the other (`jq -c .` the "
             "last), in the object",
             (int)(twice->len < 160 ? twice->len : 160), twice->name);
    return stk_json_unsupported(c, at, text);
}

static int check_names(struct stk_json_cur *c, const char *open, struct stk_json_names *names,
                       size_t from)
{
    struct stk_json_member twice;
    int rc = stk_json_names_close(names, from, &twice, c->err);
    return rc == 1 ? stk_json_twice(c, open, &twice) : rc;
}

static int walk_container(struct stk_json_cur *c, unsigned depth, struct stk_json_leaves *leaves)
{
    const char *open = c->p;
    bool object = *open == '{';
    int more = stk_json_open(c, depth);
    struct stk_json_names *names = object ? leaves->names : NULL;
    size_t from = names ? stk_json_names_open(names) : 0;
    leaves->others += object;
    while (more > 0) {
        int rc = object ? walk_name(c, names) : 0;
        rc = rc < 0 ? rc : stk_json_walk(c, depth + 1, leaves);
        more = rc < 0 ? rc : stk_json_more(c, open);
    }
    return more < 0 || !names ? more : check_names(c, open, names, from);
}

int stk_json_walk(struct stk_json_cur *c, unsigned depth, struct stk_json_leaves *leaves)
{
    switch (c->p < c->end ? *c->p : 0) {
    case '{':
    case '[':
        return walk_container(c, depth, leaves);
    case '"':
        leaves->others++;
        return walk_string(c);
    case '-':
    case '0' ... '9':
        return walk_number(c, leaves);
    default:
        return walk_word(c, leaves);
    }
}
