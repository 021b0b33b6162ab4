/* problems.c - rendering lists of damage. Names and messages contain bytes of the data, so they are
 * escaped. */
#include "report/problems.h"

#include <stdio.h>

#include "base/text.h"
#include "base/units.h"

void stk_problems_text(const struct stk_problems *p, size_t most, struct stk_buf *out)
{
    size_t n = p->kept < most ? p->kept : most;
    for (size_t i = 0; i < n; i++) {
        const struct stk_problem *one = &p->item[i];
        if (one->path)
            stk_text_escape(out, one->path, strlen(one->path), SIZE_MAX);
        if (one->offset >= 0)
            stk_buf_printf(out, ":%lld", (long long)one->offset);
        stk_buf_puts(out, ": ");
        if (one->what)
            stk_text_escape(out, one->what, strlen(one->what), SIZE_MAX);
        stk_buf_putc(out, '\n');
    }
    char count[32];
    if (p->count > n)
        stk_buf_printf(out, "and %s more; --json FILE lists %s\n",
                       stk_format_count(p->count - n, count, sizeof count),
                       p->count > p->kept ? "the first 1,000" : "all");
}

/* ---- notes -------------------------------------------------------------------------------- */

#define NAME_COLUMNS 60 /* for all names of a note together */

static void put_count(uint64_t n, const char *kind, struct stk_buf *out)
{
    char count[32];
    stk_buf_printf(out, "%s %s%s", stk_format_count(n, count, sizeof count), kind,
                   n == 1 ? "" : "s");
}

/* " (a, b, ...)" */
static void put_names(const struct stk_note *x, struct stk_buf *out)
{
    size_t columns = 0, i = 0;
    for (; i < x->nnames && columns < NAME_COLUMNS; i++) {
        stk_buf_puts(out, i ? ", " : " (");
        columns += 2 + stk_text_escape(out, x->name[i], strlen(x->name[i]), 60);
    }
    if (i)
        stk_buf_puts(out, i < x->nnames || x->count > x->nnames ? ", ...)" : ")");
}

/* The reason is that of one: "its length is ..." */
static const char *put_plural(const char *why, struct stk_buf *out)
{
    static const char *const words[][2] = {
        {"its ", "their "}, {"it is ", "they are "}, {"it has ", "they have "}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strncmp(why, words[i][0], strlen(words[i][0])) == 0) {
            stk_buf_puts(out, words[i][1]);
            return why + strlen(words[i][0]);
        }
    return why;
}

static void put_note(const struct stk_note *x, struct stk_buf *out)
{
    const char *why = x->why;
    if (x->taken) {
        stk_buf_printf(out, "%s: ", x->kind);
        stk_text_escape(out, x->as, strlen(x->as), SIZE_MAX);
        stk_buf_puts(out, ", because ");
    } else {
        put_count(x->count, x->kind, out);
        put_names(x, out);
        stk_buf_puts(out, ": ");
        why = x->count == 1 ? why : put_plural(why, out);
    }
    stk_text_escape(out, why, strlen(why), SIZE_MAX);
}

void stk_notes_rows(const struct stk_notes *s, struct stk_grid *t)
{
    for (int taken = 0; taken < 2; taken++)
        for (size_t i = 0; i < s->n; i++) {
            struct stk_buf line = STK_BUF_INIT;
            if (s->item[i].taken != taken)
                continue;
            put_note(&s->item[i], &line);
            stk_grid_row(t, taken ? "taken as" : "left out", stk_buf_cstr(&line));
            stk_buf_release(&line);
        }
}

/* True for the first note of its kind that says something was left out. */
static bool first_of_kind(const struct stk_notes *s, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (!s->item[k].taken && strcmp(s->item[k].kind, s->item[i].kind) == 0)
            return false;
    return !s->item[i].taken;
}

void stk_notes_summary(const struct stk_notes *s, struct stk_buf *out)
{
    const char *comma = "";
    for (size_t i = 0; i < s->n; i++) {
        uint64_t n = 0;
        if (!first_of_kind(s, i))
            continue;
        for (size_t k = i; k < s->n; k++)
            if (!s->item[k].taken && strcmp(s->item[k].kind, s->item[i].kind) == 0)
                n += s->item[k].count;
        stk_buf_puts(out, comma);
        put_count(n, s->item[i].kind, out);
        comma = ", ";
    }
}

static void json_note(const struct stk_note *x, struct stk_jw *w)
{
    stk_jw_open(w, '{');
    stk_jw_put_str(w, x->taken ? "what" : "kind", x->kind);
    if (x->taken)
        stk_jw_put_str(w, "as", x->as);
    stk_jw_put_u64(w, x->taken ? "files" : "count", x->count);
    if (!x->taken) {
        stk_jw_key(w, "names");
        stk_jw_open(w, '[');
        for (size_t i = 0; i < x->nnames; i++)
            stk_jw_str(w, x->name[i]);
        stk_jw_close(w, ']');
    }
    stk_jw_put_str(w, x->taken ? "because" : "why", x->why);
    stk_jw_close(w, '}');
}

void stk_notes_json(const struct stk_notes *s, struct stk_jw *w)
{
    for (int taken = 0; taken < 2; taken++) {
        stk_jw_key(w, taken ? "taken" : "left_out");
        stk_jw_open(w, '[');
        for (size_t i = 0; i < s->n; i++)
            if (s->item[i].taken == taken)
                json_note(&s->item[i], w);
        stk_jw_close(w, ']');
    }
}

/* ---- problems as JSON --------------------------------------------------------------------- */

void stk_problems_json(const struct stk_problems *p, const char *name, struct stk_jw *w)
{
    char total[64];
    snprintf(total, sizeof total, "%s_total", name);
    stk_jw_key(w, total);
    stk_jw_u64(w, p->count);
    stk_jw_key(w, name);
    stk_jw_open(w, '[');
    for (size_t i = 0; i < p->kept; i++) {
        stk_jw_open(w, '{');
        stk_jw_put_str(w, "path", p->item[i].path);
        stk_jw_key(w, "offset");
        if (p->item[i].offset >= 0)
            stk_jw_i64(w, p->item[i].offset);
        else
            stk_jw_null(w);
        stk_jw_put_str(w, "what", p->item[i].what);
        stk_jw_put_str(w, "code", p->item[i].code == STK_E_UNSUPPORTED ? "unsupported" : "corrupt");
        stk_jw_close(w, '}');
    }
    stk_jw_close(w, ']');
}
