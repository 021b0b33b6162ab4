/* json_names.c - the names of open JSON objects on a stack, and duplicates among them. */
#include "base/json_names.h"

#include "base/array.h"
#include "base/hash.h"
#include "base/json_token.h"

#include <stdlib.h>
#include <strings.h>

#define PAIRWISE 16 /* up to this many names are compared pairwise; more through a table */

void stk_json_names_release(struct stk_json_names *s)
{
    free(s->many);
    free(s->slot);
    stk_arena_release(&s->arena);
    *s = (struct stk_json_names){0};
}

static struct stk_json_member *items(struct stk_json_names *s)
{
    return s->many ? s->many : s->few;
}

static int make_room(struct stk_json_names *s, struct stk_err *err)
{
    bool first = !s->many;
    if (s->n < STK_JSON_NAMES_FEW && first)
        return 0;
    if (STK_ARRAY_ROOM(s->many, s->cap, s->n + 1, err))
        return STK_E_NOMEM;
    if (first)
        memcpy(s->many, s->few, sizeof s->few);
    return 0;
}

/* Python writes lone surrogates, which are no characters: such a name is compared unescaped. */
static bool has_surrogate(const char *p, size_t n)
{
    for (size_t i = 0; i + 2 < n; i++)
        if (p[i] == '\\' && p[++i] == 'u' && (p[i + 1] | 0x20) == 'd')
            return true;
    return false;
}

int stk_json_names_add(struct stk_json_names *s, const char *body, size_t len, bool escaped,
                       struct stk_err *err)
{
    int rc = make_room(s, err);
    if (rc == 0 && escaped && !has_surrogate(body, len)) {
        char *text = stk_arena_alloc(&s->arena, len);
        if (!text)
            return stk_err_nomem(err, len);
        len = stk_json_unescape(body, len, text);
        body = text;
    }
    if (rc == 0)
        items(s)[s->n++] = (struct stk_json_member){body, len};
    return rc;
}

static bool same(const struct stk_json_member *a, const struct stk_json_member *b)
{
    return a->len == b->len && memcmp(a->name, b->name, a->len) == 0;
}

static const struct stk_json_member *find_pairwise(const struct stk_json_member *m, size_t n)
{
    for (size_t i = 1; i < n; i++)
        for (size_t k = 0; k < i; k++)
            if (same(&m[i], &m[k]))
                return &m[i];
    return NULL;
}

/* *twice: the duplicate, or NULL. */
static int find_by_table(struct stk_json_names *s, const struct stk_json_member *m, size_t n,
                         const struct stk_json_member **twice, struct stk_err *err)
{
    size_t mask = ((size_t)2 << (63 - __builtin_clzll(2 * n - 1))) - 1;
    if (STK_ARRAY_ROOM(s->slot, s->nslots, mask + 1, err))
        return STK_E_NOMEM;
    memset(s->slot, 0, (mask + 1) * sizeof *s->slot);
    for (size_t i = 0; i < n; i++) {
        size_t at = stk_hash64(m[i].name, m[i].len) & mask;
        for (; s->slot[at]; at = (at + 1) & mask)
            if (same(&m[s->slot[at] - 1], &m[i])) {
                *twice = &m[i];
                return 0;
            }
        s->slot[at] = (uint32_t)i + 1;
    }
    return 0;
}

int stk_json_names_close(struct stk_json_names *s, size_t from, struct stk_json_member *twice,
                         struct stk_err *err)
{
    const struct stk_json_member *m = items(s) + from, *found = NULL;
    size_t n = s->n - from;
    int rc = 0;
    if (n > PAIRWISE)
        rc = find_by_table(s, m, n, &found, err);
    else
        found = find_pairwise(m, n);
    s->n = from;
    if (rc < 0 || !found)
        return rc;
    *twice = *found;
    return 1;
}
