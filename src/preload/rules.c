/*
 * rules.c - which files are recorded individually: those that the user includes, not those that the
 * user excludes, and of the rest none that belong to the system, the interpreter or a library.
 * Left-out files are still counted in sum.
 */
#include "proflog/rules.h"

#include "preload/priv.h"
#include "proflog/system_files.h"

struct pattern {
    const char *text;
    uint32_t length;
    bool glob, path; /* has wildcards; has a slash */
};
struct rules {
    struct pattern of[STK_RULES_MAX];
    uint32_t n;
    char text[STK_RULES_BYTES];
};
static struct rules included, excluded;
static struct pattern log_folder;

static void take(struct rules *r, const char *list)
{
    size_t n = list ? strlen(list) : 0;
    r->n = 0;
    if (n >= sizeof r->text)
        n = 0; /* a truncated pattern would mean something else */
    if (n)
        memcpy(r->text, list, n);
    r->text[n] = 0;
    for (char *at = r->text; *at && r->n < STK_RULES_MAX;) {
        size_t length = strcspn(at, ":");
        bool last = !at[length];
        at[length] = 0;
        struct pattern p = {at, (uint32_t)length, strpbrk(at, "*?[") != NULL,
                            strchr(at, '/') != NULL};
        while (!p.glob && p.length > 1 && at[p.length - 1] == '/')
            at[--p.length] = 0;
        if (p.length)
            r->of[r->n++] = p;
        at += last ? length : length + 1;
    }
}

void stk_pl_rules_start(const char *include, const char *exclude, const char *log_dir)
{
    take(&included, include);
    take(&excluded, exclude);
    log_folder = (struct pattern){log_dir, (uint32_t)strlen(log_dir), false, true};
}

/* Whether c is one of the characters in [..]; *end is after it. An unterminated one is a plain
 * '['. */
static bool in_class(const char *p, char c, const char **end)
{
    bool negated = p[1] == '!' || p[1] == '^', found = false;
    const char *q = p + 1 + negated;
    for (bool first = true; *q && (first || *q != ']'); q++, first = false) {
        if (q[1] == '-' && q[2] && q[2] != ']') {
            found = found || ((unsigned char)q[0] <= (unsigned char)c &&
                              (unsigned char)c <= (unsigned char)q[2]);
            q += 2;
        } else {
            found = found || *q == c;
        }
    }
    if (*q != ']') {
        *end = p + 1;
        return c == '[';
    }
    *end = q + 1;
    return found != negated;
}

/* '*' matches anything, including slashes. Backtracks to the last '*' only: no exponential time. */
static bool glob(const char *p, const char *s)
{
    const char *star = NULL, *from = NULL;
    while (*s) {
        const char *next = p + 1;
        if (*p == '*') {
            star = p++;
            from = s;
        } else if (*p && (*p == '[' ? in_class(p, *s, &next) : *p == '?' || *p == *s)) {
            p = next;
            s++;
        } else if (star) {
            p = star + 1;
            s = ++from;
        } else {
            return false;
        }
    }
    while (*p == '*')
        p++;
    return !*p;
}

static bool matches(const struct rules *r, const char *path, size_t length)
{
    for (uint32_t i = 0; i < r->n; i++) {
        const struct pattern *p = &r->of[i];
        if (p->glob ? glob(p->text, p->path ? path : stk_path_last(path))
                    : stk_path_below(path, length, p->text, p->length))
            return true;
    }
    return false;
}

bool stk_pl_left_out(const char *path, size_t length)
{
    if (stk_path_below(path, length, log_folder.text, log_folder.length))
        return true;
    if (matches(&included, path, length))
        return false;
    return matches(&excluded, path, length) || stk_system_file(path, length);
}
