/*
 * notes.c - the list of what was left out and what was taken as something, and its bytes in an
 * index: per note its type, kind, as, why, count and number of names, then the names, all as
 * NUL-terminated text.
 */
#include "dataset/notes.h"
#include "base/buf.h"

#include <stdio.h>
#include <stdlib.h>

#define TEXT_MAX 400 /* bytes of a name or a reason that are kept */
#define OTHER    "other reasons"

static void release_note(struct stk_note *x)
{
    for (size_t i = 0; i < x->nnames; i++)
        free((char *)(uintptr_t)x->name[i]);
    free((void *)(uintptr_t)x->name);
    free((char *)(uintptr_t)x->kind);
    free((char *)(uintptr_t)x->as);
    free((char *)(uintptr_t)x->why);
}

void stk_notes_release(struct stk_notes *s)
{
    for (size_t i = 0; i < s->n; i++)
        release_note(&s->item[i]);
    free(s->item);
    *s = (struct stk_notes){0};
}

static bool same(const char *a, const char *b)
{
    return strncmp(a, b, TEXT_MAX) == 0;
}

static struct stk_note *find(const struct stk_notes *s, const struct stk_note *x)
{
    for (size_t i = 0; i < s->n; i++) {
        struct stk_note *y = &s->item[i];
        if (y->taken == x->taken && same(y->kind, x->kind) && same(y->as, x->as) &&
            same(y->why, x->why))
            return y;
    }
    return NULL;
}

/* The note with the text of x, added if there is none. Does not copy count and names. */
static int obtain(struct stk_notes *s, const struct stk_note *x, struct stk_note **out,
                  struct stk_err *err)
{
    struct stk_note y = *x;
    if ((*out = find(s, &y)))
        return 0;
    if (s->n >= STK_NOTES_KEPT) {
        y.why = OTHER;
        y.as = "";
        if ((*out = find(s, &y)))
            return 0;
        if (s->n >= 2 * STK_NOTES_KEPT) { /* more kinds than any reader has: damaged */
            *out = &s->item[s->n - 1];
            return 0;
        }
    }
    if (STK_ARRAY_MORE(s->item, s->n, err))
        return STK_E_NOMEM;
    s->item[s->n] = (struct stk_note){.taken = y.taken,
                                      .kind = strndup(y.kind, TEXT_MAX),
                                      .as = strndup(y.as, TEXT_MAX),
                                      .why = strndup(y.why, TEXT_MAX)};
    *out = &s->item[s->n++];
    bool whole = (*out)->kind && (*out)->as && (*out)->why;
    return whole ? 0 : stk_err_nomem(err, TEXT_MAX);
}

static int add_name(struct stk_note *x, const char *name, struct stk_err *err)
{
    if (!*name || x->nnames == STK_NOTES_KEPT)
        return 0;
    for (size_t i = 0; i < x->nnames; i++)
        if (same(x->name[i], name))
            return 0;
    const char **names = (const char **)(uintptr_t)x->name;
    if (STK_ARRAY_MORE(names, x->nnames, err))
        return STK_E_NOMEM;
    x->name = names;
    if (!(names[x->nnames] = strndup(name, TEXT_MAX)))
        return stk_err_nomem(err, TEXT_MAX);
    x->nnames++;
    return 0;
}

static int add(struct stk_notes *s, const struct stk_note *x, const char *name, struct stk_err *err)
{
    struct stk_note *y;
    int rc = obtain(s, x, &y, err);
    if (rc < 0)
        return rc;
    if (__builtin_add_overflow(y->count, x->count, &y->count))
        y->count = UINT64_MAX;
    return add_name(y, name, err);
}

int stk_notes_left_out(struct stk_notes *s, const char *kind, const char *name, const char *why,
                       uint64_t count, struct stk_err *err)
{
    struct stk_note x = {.kind = kind, .as = "", .why = why, .count = count};
    return add(s, &x, name, err);
}

int stk_notes_taken(struct stk_notes *s, const char *what, const char *as, const char *because,
                    uint64_t count, struct stk_err *err)
{
    struct stk_note x = {.taken = true, .kind = what, .as = as, .why = because, .count = count};
    return add(s, &x, "", err);
}

int stk_notes_join(struct stk_notes *s, const struct stk_notes *from, struct stk_err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < from->n; i++) {
        struct stk_note x = from->item[i];
        rc = add(s, &x, "", err);
        for (size_t k = 0; rc == 0 && k < x.nnames; k++) {
            struct stk_note none = x;
            none.count = 0;
            rc = add(s, &none, x.name[k], err);
        }
    }
    return rc;
}

uint64_t stk_notes_missing(const struct stk_notes *s)
{
    uint64_t n = 0;
    for (size_t i = 0; i < s->n; i++)
        n += s->item[i].taken ? 0 : s->item[i].count;
    return n;
}

/* ---- as bytes ---- */

static void put_text(struct stk_buf *out, const char *text)
{
    stk_buf_put(out, text, strlen(text) + 1);
}

static void put_number(struct stk_buf *out, uint64_t v)
{
    stk_buf_printf(out, "%llu", (unsigned long long)v);
    stk_buf_put(out, "", 1);
}

void stk_notes_write(const struct stk_notes *s, struct stk_buf *out)
{
    for (size_t i = 0; i < s->n; i++) {
        const struct stk_note *x = &s->item[i];
        put_text(out, x->taken ? "taken" : "left");
        put_text(out, x->kind);
        put_text(out, x->as);
        put_text(out, x->why);
        put_number(out, x->count);
        put_number(out, x->nnames);
        for (size_t k = 0; k < x->nnames; k++)
            put_text(out, x->name[k]);
    }
}

struct cursor {
    const char *p, *end;
};

/* The next text; NULL: none, or not terminated. */
static const char *next_text(struct cursor *c)
{
    const char *text = c->p;
    const char *nul = c->p < c->end ? memchr(c->p, 0, (size_t)(c->end - c->p)) : NULL;
    if (!nul)
        return NULL;
    c->p = nul + 1;
    return text;
}

static bool next_number(struct cursor *c, uint64_t *v)
{
    const char *text = next_text(c);
    char *end = NULL;
    if (!text || *text < '0' || *text > '9')
        return false;
    *v = strtoull(text, &end, 10);
    return *end == '\0';
}

static int read_note(struct stk_notes *s, struct cursor *c, struct stk_err *err)
{
    struct stk_note x = {0};
    uint64_t names = 0;
    const char *type = next_text(c);
    x.kind = next_text(c);
    x.as = next_text(c);
    x.why = next_text(c);
    if (!type || !x.kind || !x.as || !x.why || !next_number(c, &x.count) ||
        !next_number(c, &names) || names > STK_NOTES_KEPT)
        return stk_err_set(err, STK_E_CORRUPT, NULL, -1, "damaged notes in the index");
    x.taken = strcmp(type, "taken") == 0;
    int rc = add(s, &x, "", err);
    x.count = 0;
    for (uint64_t i = 0; rc == 0 && i < names; i++) {
        const char *name = next_text(c);
        rc = name ? add(s, &x, name, err)
                  : stk_err_set(err, STK_E_CORRUPT, NULL, -1, "damaged notes in the index");
    }
    return rc;
}

int stk_notes_read(struct stk_notes *s, const char *p, size_t n, struct stk_err *err)
{
    struct cursor c = {p, n ? p + n : p}; /* p may be NULL when n is 0 */
    int rc = 0;
    while (rc == 0 && c.p < c.end)
        rc = read_note(s, &c, err);
    return rc;
}
