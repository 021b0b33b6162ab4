/* json_text.c - walking over a value and counting its leaves. */
#include "format/json_text.h"
#include "base/num.h"

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
    return 0;
}

static int walk_word(struct stk_json_cur *c, struct stk_json_leaves *leaves)
{
    int word = stk_json_word(c);
    leaves->bools += word == 't' || word == 'f';
    leaves->others += word == 'n';
    return word < 0 ? word : 0;
}

static int walk_string(struct stk_json_cur *c, bool name)
{
    const char *body;
    size_t len;
    bool escaped;
    return name ? stk_json_name(c, &body, &len, &escaped)
                : stk_json_string(c, &body, &len, &escaped);
}

static int walk_container(struct stk_json_cur *c, unsigned depth, struct stk_json_leaves *leaves)
{
    const char *open = c->p;
    bool object = *open == '{';
    int more = stk_json_open(c, depth);
    leaves->others += object;
    while (more > 0) {
        int rc = object ? walk_string(c, true) : 0;
        rc = rc < 0 ? rc : stk_json_walk(c, depth + 1, leaves);
        more = rc < 0 ? rc : stk_json_more(c, open);
    }
    return more;
}

int stk_json_walk(struct stk_json_cur *c, unsigned depth, struct stk_json_leaves *leaves)
{
    switch (c->p < c->end ? *c->p : 0) {
    case '{':
    case '[':
        return walk_container(c, depth, leaves);
    case '"':
        leaves->others++;
        return walk_string(c, false);
    case '-':
    case '0' ... '9':
        return walk_number(c, leaves);
    default:
        return walk_word(c, leaves);
    }
}
