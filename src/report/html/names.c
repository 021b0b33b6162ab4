/*
 * names.c - what the results of a page are called: the last part of their paths, with as many parts
 * before it as are needed to tell them apart. A page that called two runs "profile" would draw them
 * as one.
 */
#include <stdio.h>
#include <string.h>

#include "report/html/priv.h"

/* The path without slashes at its end, which a shell's completion adds. */
static size_t length_of(const char *path)
{
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    return n;
}

/* Where the last `parts` parts of a path begin; 0: it has no more. */
static size_t begin_of(const char *path, size_t parts)
{
    size_t at = length_of(path);
    while (parts-- && at) {
        while (at && path[at - 1] == '/')
            at--;
        while (at && path[at - 1] != '/')
            at--;
    }
    return at;
}

static bool same_end(const char *a, const char *b, size_t parts)
{
    size_t i = begin_of(a, parts), k = begin_of(b, parts);
    size_t n = length_of(a) - i;
    return n == length_of(b) - k && memcmp(a + i, b + k, n) == 0;
}

static bool same_path(const char *a, const char *b)
{
    return same_end(a, b, SIZE_MAX);
}

static bool is_taken(const char *const *path, size_t n, size_t i, size_t parts)
{
    for (size_t k = 0; k < n; k++)
        if (same_end(path[i], path[k], parts) && !same_path(path[i], path[k]))
            return true;
    return false;
}

/* How many of the paths before it are the same. */
static size_t times_before(const char *const *path, size_t i)
{
    size_t times = 0;
    for (size_t k = 0; k < i; k++)
        times += same_path(path[i], path[k]);
    return times;
}

void stk_pg_name(const char *const *path, size_t n, size_t i, struct stk_buf *out)
{
    size_t parts = 1;
    while (begin_of(path[i], parts) && is_taken(path, n, i, parts))
        parts++;
    size_t from = begin_of(path[i], parts), again = times_before(path, i);
    stk_buf_put(out, path[i] + from, length_of(path[i]) - from);
    if (again)
        stk_buf_printf(out, " (%zu)", again + 1);
}

const char *stk_pg_argument(const struct stk_pg_input *in, size_t i, const char *otherwise)
{
    const struct stk_jval *a = stk_json_get(in->root, "arguments");
    bool is = a && a->type == STK_JARR && i < a->len && a->item[i].type == STK_JSTR;
    return is ? a->item[i].str : otherwise;
}
