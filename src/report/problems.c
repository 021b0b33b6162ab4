/* problems.c - see problems.h. Names and messages contain bytes of the data: they are escaped. */
#include "report/data.h"

#include <stdio.h>

#include "base/text.h"
#include "base/units.h"

/* ---- problems ------------------------------------------------------------------------------- */

STK_TEXT_OF(code_text, struct stk_problem,
            r->code == STK_E_UNSUPPORTED ? "unsupported" : "corrupt")

const struct stk_result_field stk_problem_fields[] = {
    {"path", "file", STK_U_TEXT, STK_FROM(struct stk_problem, path)},
    {"offset", "offset", STK_U_COUNT, STK_FROM(struct stk_problem, offset)},
    {"what", "what", STK_U_TEXT, STK_FROM(struct stk_problem, what)},
    {"code", NULL, STK_U_TEXT, .put = code_text, .meaning = "corrupt or unsupported"},
    {NULL}};

void stk_put_problems(const void *problems, struct stk_jw *w)
{
    const struct stk_problems *p = problems;
    stk_rows_put(stk_problem_fields, p->item, p->kept, sizeof *p->item, w);
}

static void put_escaped(const struct stk_jval *row, const char *key, struct stk_buf *out)
{
    const struct stk_jval *v = stk_json_get(row, key);
    if (v && v->type == STK_JSTR)
        stk_text_escape(out, v->str, v->len, SIZE_MAX);
}

static double number_of(const struct stk_jval *obj, const char *key, double otherwise)
{
    const struct stk_jval *v = stk_json_get(obj, key);
    return v && (v->type == STK_JINT || v->type == STK_JFLOAT) ? v->f : otherwise;
}

void stk_draw_problems(const struct stk_result_field *f, const struct stk_jval *obj, struct stk_screen *s)
{
    const struct stk_jval *rows = stk_json_get(obj, f->key);
    char total[64], count[32];
    snprintf(total, sizeof total, "%s_total", f->key);
    if (rows->type != STK_JARR || !rows->len)
        return;
    size_t most = s->problems ? s->problems : f->most, n = rows->len < most ? rows->len : most;
    stk_screen_part(s);
    for (size_t i = 0; i < n; i++) {
        double offset = number_of(&rows->item[i], "offset", -1);
        put_escaped(&rows->item[i], "path", s->out);
        if (offset >= 0)
            stk_buf_printf(s->out, ":%.0f", offset);
        stk_buf_puts(s->out, ": ");
        put_escaped(&rows->item[i], "what", s->out);
        stk_buf_putc(s->out, '\n');
    }
    double all = number_of(obj, total, (double)rows->len);
    if (all > (double)n)
        stk_buf_printf(s->out, "and %s more; --json FILE lists %s\n",
                       stk_unit_text(STK_U_COUNT, all - (double)n, count, sizeof count),
                       all > (double)rows->len ? "the first 1,000" : "all");
}

const struct stk_result_field stk_problems_of[] = {
    {"problems_total", "problems", STK_U_COUNT, STK_FROM(struct stk_problems, count),
     .flags = STK_F_IF_SET},
    {"problems", "problems", STK_U_TABLE, .put = stk_put_problems, .of = stk_problem_fields,
     .draw = stk_draw_problems, .most = 20},
    {NULL}};

/* ---- notes ---------------------------------------------------------------------------------- */

#define NAME_COLUMNS 60 /* for all names of a note together */

static void put_names(const void *base, struct stk_jw *w)
{
    const struct stk_note *x = base;
    stk_jw_open(w, '[');
    for (size_t i = 0; i < x->nnames; i++)
        stk_jw_str(w, x->name[i]);
    stk_jw_close(w, ']');
}

#define NOTE(member) STK_FROM(struct stk_note, member)

const struct stk_result_field stk_taken_fields[] = {{"what", "what", STK_U_TEXT, NOTE(kind)},
                                             {"as", "taken as", STK_U_TEXT, NOTE(as)},
                                             {"files", "files", STK_U_COUNT, NOTE(count)},
                                             {"because", "because", STK_U_TEXT, NOTE(why)},
                                             {NULL}};

const struct stk_result_field stk_left_out_fields[] = {
    {"kind", "kind", STK_U_TEXT, NOTE(kind)},
    {"count", "count", STK_U_COUNT, NOTE(count)},
    {"names", NULL, STK_U_LIST, .put = put_names, .meaning = "the first of them"},
    {"why", "why", STK_U_TEXT, NOTE(why)},
    {NULL}};

static void put_notes(const struct stk_notes *s, bool taken, struct stk_jw *w)
{
    stk_jw_open(w, '[');
    for (size_t i = 0; i < s->n; i++) {
        if (s->item[i].taken != taken)
            continue;
        stk_jw_open(w, '{');
        stk_fields_put(taken ? stk_taken_fields : stk_left_out_fields, &s->item[i], w);
        stk_jw_close(w, '}');
    }
    stk_jw_close(w, ']');
}

void stk_put_taken(const void *notes, struct stk_jw *w)
{
    put_notes(notes, true, w);
}

void stk_put_left_out(const void *notes, struct stk_jw *w)
{
    put_notes(notes, false, w);
}

void stk_draw_taken(const struct stk_result_field *f, const struct stk_jval *obj, struct stk_screen *s)
{
    const struct stk_jval *rows = stk_json_get(obj, f->key);
    for (size_t i = 0; rows->type == STK_JARR && i < rows->len; i++) {
        struct stk_buf line = STK_BUF_INIT;
        put_escaped(&rows->item[i], "what", &line);
        stk_buf_puts(&line, ": ");
        put_escaped(&rows->item[i], "as", &line);
        stk_buf_puts(&line, ", because ");
        put_escaped(&rows->item[i], "because", &line);
        stk_screen_row(s, f->title, stk_buf_cstr(&line));
        stk_buf_release(&line);
    }
}

static void put_count(uint64_t n, const char *kind, struct stk_buf *out)
{
    char count[32];
    stk_buf_printf(out, "%s %s%s", stk_format_count(n, count, sizeof count), kind,
                   n == 1 ? "" : "s");
}

/* " (a, b, ...)" */
static void draw_names(const struct stk_jval *names, double count, struct stk_buf *out)
{
    size_t columns = 0, i = 0, n = names && names->type == STK_JARR ? names->len : 0;
    for (; i < n && columns < NAME_COLUMNS; i++) {
        const struct stk_jval *one = &names->item[i];
        stk_buf_puts(out, i ? ", " : " (");
        columns += 2 + (one->type == STK_JSTR ? stk_text_escape(out, one->str, one->len, 60) : 0);
    }
    if (i)
        stk_buf_puts(out, i < n || count > (double)n ? ", ...)" : ")");
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

void stk_draw_left_out(const struct stk_result_field *f, const struct stk_jval *obj, struct stk_screen *s)
{
    const struct stk_jval *rows = stk_json_get(obj, f->key);
    for (size_t i = 0; rows->type == STK_JARR && i < rows->len; i++) {
        const struct stk_jval *x = &rows->item[i], *why = stk_json_get(x, "why");
        double count = number_of(x, "count", 1);
        struct stk_buf line = STK_BUF_INIT;
        char n[32];
        stk_buf_printf(&line, "%s ", stk_unit_text(STK_U_COUNT, count, n, sizeof n));
        put_escaped(x, "kind", &line);
        stk_buf_puts(&line, count == 1 ? "" : "s");
        draw_names(stk_json_get(x, "names"), count, &line);
        stk_buf_puts(&line, ": ");
        if (why && why->type == STK_JSTR) {
            const char *text = count == 1 ? why->str : put_plural(why->str, &line);
            stk_text_escape(&line, text, strlen(text), SIZE_MAX);
        }
        stk_screen_row(s, f->title, stk_buf_cstr(&line));
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
