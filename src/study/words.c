/*
 * words.c - turns texts of a plan into words: replaces marks such as {n}, splits prefixes,
 * quotes paths for a batch file. No shell ever interprets them.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/num.h"
#include "study/priv.h"
#include "base/stats.h"

static const char *mark_at(const char *s, const struct stk_marks *m, uint64_t *value)
{
    if (strncmp(s, "{n}", 3) == 0) {
        *value = m->n;
        return s + 3;
    }
    if (strncmp(s, "{ranks}", 7) == 0) {
        *value = m->ranks;
        return s + 7;
    }
    if (m->size && strncmp(s, "{size}", 6) == 0) {
        *value = m->size;
        return s + 6;
    }
    return NULL;
}

void stk_marks_expand(struct stk_buf *out, const char *text, const struct stk_marks *m)
{
    while (*text) {
        uint64_t value;
        const char *after = *text == '{' ? mark_at(text, m, &value) : NULL;
        if (after) {
            char digits[STK_NUM_ROOM];
            stk_buf_put(out, digits, stk_num_u64(digits, value));
            text = after;
        } else {
            size_t n = strcspn(text + 1, "{") + 1;
            stk_buf_put(out, text, n);
            text += n;
        }
    }
}

bool stk_marks_in(const char *text, const char *mark)
{
    return text && strstr(text, mark) != NULL;
}

/* ---- lists of words ----------------------------------------------------------------------- */

void stk_words_addn(struct stk_words *w, const char *text, size_t len)
{
    if (w->n + 2 > w->room) {
        size_t room = w->room ? 2 * w->room : 16;
        const char **more = stk_arena_alloc(w->arena, room * sizeof *more);
        if (!more) {
            w->fail = true;
            return;
        }
        if (w->n)
            memcpy(more, w->v, w->n * sizeof *more);
        w->v = more;
        w->room = room;
    }
    const char *copy = stk_arena_dup(w->arena, text, len);
    w->fail = w->fail || !copy;
    if (!copy)
        return;
    w->v[w->n++] = copy;
    w->v[w->n] = NULL;
}

void stk_words_add(struct stk_words *w, const char *text)
{
    stk_words_addn(w, text, strlen(text));
}

/* Appends one word at p to b; returns what follows, NULL if a quote is not closed. */
static const char *take_word(const char *p, struct stk_buf *b)
{
    char quote = 0;
    for (; *p && (quote || !strchr(" \t\n", *p)); p++) {
        if (quote ? *p == quote : (*p == '\'' || *p == '"'))
            quote = quote ? 0 : *p;
        else if (*p == '\\' && quote != '\'' && p[1] && (!quote || strchr("\\\"$`", p[1])))
            stk_buf_putc(b, *++p);
        else
            stk_buf_putc(b, *p);
    }
    return quote ? NULL : p;
}

int stk_words_split(struct stk_words *w, const char *text, struct stk_err *err)
{
    struct stk_buf b = STK_BUF_INIT;
    int rc = 0;
    for (const char *p = text; !rc && *(p += strspn(p, " \t\n"));) {
        stk_buf_reset(&b);
        p = take_word(p, &b);
        if (!p) {
            rc = stk_err_set(err, STK_E_USAGE, NULL, -1, "a quote is not closed in: %.200s", text);
            break;
        }
        rc = stk_buf_check(&b, err);
        stk_words_addn(w, stk_buf_cstr(&b), b.len);
    }
    stk_buf_release(&b);
    return rc ? rc : w->fail ? stk_err_nomem(err, strlen(text)) : 0;
}

void stk_words_add_expanded(struct stk_words *w, const char *text, const struct stk_marks *m)
{
    struct stk_buf b = STK_BUF_INIT;
    stk_marks_expand(&b, text, m);
    w->fail = w->fail || b.fail;
    stk_words_addn(w, stk_buf_cstr(&b), b.len);
    stk_buf_release(&b);
}

/* ---- lists of N --------------------------------------------------------------------------- */

static bool take_number(const char **p, uint64_t *v)
{
    size_t n = strspn(*p, "0123456789");
    int64_t i;
    double f;
    if (!n || stk_num_parse(*p, n, &i, &f) != STK_NUM_INT || i < 1 || i > STK_STUDY_N_MAX)
        return false;
    *v = (uint64_t)i;
    *p += n;
    return true;
}

/* "4", "1-8" or "1-64*2". */
static bool take_range(const char **p, uint64_t *n, size_t *nn)
{
    uint64_t from, to, factor = 1;
    if (!take_number(p, &from))
        return false;
    to = from;
    if (**p == '-' && (++*p, !take_number(p, &to) || to < from))
        return false;
    if (**p == '*' && (++*p, !take_number(p, &factor) || factor < 2 || factor > 1000))
        return false;
    for (uint64_t v = from; v <= to; v = factor > 1 ? v * factor : v + 1) {
        if (*nn == STK_RUNNER_N_MAX)
            return false;
        n[(*nn)++] = v;
    }
    return true;
}

int stk_runner_parse_n(const char *option, const char *text, uint64_t *n, size_t *nn,
                       struct stk_err *err)
{
    const char *p = text;
    bool good;
    *nn = 0;
    do {
        good = take_range(&p, n, nn);
    } while (good && *p == ',' && *++p);
    if (!good || *p)
        return stk_err_set(err, STK_E_USAGE, NULL, -1,
                           "--%s: \"%.80s\": give numbers from 1 on, such as 1,2,4,8 or 1-8 or "
                           "1-64*2 (doubled each time), %d at most",
                           option, text, STK_RUNNER_N_MAX);
    qsort(n, *nn, sizeof *n, stk_by_u64);
    size_t k = 0;
    for (size_t i = 0; i < *nn; i++)
        if (!k || n[i] != n[k - 1])
            n[k++] = n[i];
    *nn = k;
    return 0;
}
