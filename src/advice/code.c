/* code.c - see code.h. */
#include <ctype.h>
#include <stdlib.h>

#include "advice/code.h"
#include "base/buf.h"
#include "base/text.h"

struct filling {
    struct stk_buf *out;
    enum stk_language language;
    const struct stk_place *place;
};

static bool in_name(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* ---- what goes with a place that has no value ----------------------------------------------- */

static size_t back_over_blanks(const struct stk_buf *b, size_t n)
{
    while (n && strchr(" \n", b->data[n - 1]))
        n--;
    return n;
}

static size_t back_over_name(const struct stk_buf *b, size_t n)
{
    while (n && (in_name((char)b->data[n - 1]) || b->data[n - 1] == '.'))
        n--;
    return n;
}

/* `, name=` or `, .name = `. What ends otherwise stays. */
static void drop_argument(struct stk_buf *b)
{
    size_t n = back_over_blanks(b, b->len);
    if (!n || b->data[n - 1] != '=')
        return;
    n = back_over_blanks(b, back_over_name(b, back_over_blanks(b, n - 1)));
    if (n && b->data[n - 1] == ',')
        b->len = n - 1;
}

/* ` --name ` or ` -n `, or the blanks before a word. */
static void drop_option(struct stk_buf *b)
{
    size_t end = b->len, n;
    while (end && b->data[end - 1] == ' ')
        end--;
    for (n = end; n && !strchr(" \n", b->data[n - 1]);)
        n--;
    b->len = n < end && b->data[n] == '-' ? back_over_blanks(b, n) : end;
}

/* The comment sign before a place that is all of the comment; SIZE_MAX: it is not. */
static size_t comment_before(const struct filling *f, const char *after)
{
    const char *sign = f->language == STK_C ? "//" : "#";
    size_t len = strlen(sign), n = f->out->len;
    while (n && f->out->data[n - 1] == ' ')
        n--;
    bool all = *after == '\n' && n >= len && memcmp(f->out->data + n - len, sign, len) == 0;
    return all ? n - len : SIZE_MAX;
}

/* Returns where the code goes on. */
static const char *drop(const struct filling *f, const char *after)
{
    struct stk_buf *b = f->out;
    size_t n = comment_before(f, after);
    if (n == SIZE_MAX) {
        size_t before = b->len;
        if (f->language == STK_SHELL)
            drop_option(b);
        else
            drop_argument(b);
        /* A command begins with it: the blank behind it goes, too. */
        bool first = b->len == before && f->language == STK_SHELL && *after == ' ';
        return after + first;
    }
    while (n && b->data[n - 1] == ' ')
        n--;
    b->len = n;
    return n && b->data[n - 1] != '\n' ? after : after + 1;
}

/* ---- places --------------------------------------------------------------------------------- */

/* A place at the start of `at`, and where it ends; NULL: none is there. */
static const struct stk_place *place_at(const struct filling *f, const char *at, const char **end)
{
    const char *name = at;
    bool shell = f->language == STK_SHELL, quoted = shell && *at == '"';
    if (shell && *(name += quoted) != '$')
        return NULL;
    name += shell;
    size_t n = 0;
    while (in_name(name[n]))
        n++;
    *end = name + n + quoted;
    if (!n || (quoted && name[n] != '"'))
        return NULL;
    for (const struct stk_place *p = f->place; p->name; p++)
        if (strlen(p->name) == n && memcmp(p->name, name, n) == 0)
            return p;
    return NULL;
}

static void put_value(const struct filling *f, const struct stk_place *p)
{
    static void (*const quote[])(struct stk_buf *, const char *) = {
        [STK_SHELL] = stk_quote_shell, [STK_PYTHON] = stk_quote_python, [STK_C] = stk_quote_c};
    if (p->raw)
        stk_buf_puts(f->out, p->value);
    else
        quote[f->language](f->out, p->value);
}

static void fill(const struct filling *f, const char *code)
{
    for (const char *at = code, *end; *at;) {
        bool begins = at == code || !in_name(at[-1]);
        const struct stk_place *p = begins ? place_at(f, at, &end) : NULL;
        if (!p) {
            stk_buf_putc(f->out, *at++);
            continue;
        }
        at = end;
        if (p->value)
            put_value(f, p);
        else
            at = drop(f, at);
    }
}

void stk_code_fill(struct stk_buf *out, enum stk_language language, const char *code,
                   const struct stk_place *place, bool commented)
{
    struct stk_buf text = STK_BUF_INIT;
    fill(&(struct filling){&text, language, place}, code);
    const char *sign = !commented ? "" : language == STK_C ? "// " : "# ";
    const char *line = stk_buf_cstr(&text);
    for (const char *end; (end = strchr(line, '\n')); line = end + 1) {
        stk_buf_puts(out, *line == '#' ? "" : sign);
        stk_buf_put(out, line, (size_t)(end - line) + 1);
    }
    stk_buf_puts(out, line);
    out->fail = out->fail || text.fail;
    stk_buf_release(&text);
}

/* ---- snippets ------------------------------------------------------------------------------- */

void stk_snippets_add(struct stk_snippets *out, enum stk_language language, struct stk_buf *text)
{
    struct stk_snippet *last = out->n ? &out->snippet[out->n - 1] : NULL;
    const char *more = stk_buf_cstr(text);
    out->fail = out->fail || text->fail;
    if (out->fail || !*more)
        return;
    bool joins = last && last->language == language;
    size_t before = joins ? strlen(last->text) : 0, n = strlen(more) + 1;
    char *whole = malloc(before + n);
    if (!whole || (!joins && STK_ARRAY_MORE(out->snippet, out->n, NULL) != 0)) {
        free(whole);
        out->fail = true;
        return;
    }
    if (joins) {
        memcpy(whole, last->text, before);
        free((char *)(uintptr_t)last->text);
        out->n--;
    }
    memcpy(whole + before, more, n);
    out->snippet[out->n++] = (struct stk_snippet){language, whole};
}

void stk_snippets_release(struct stk_snippets *c)
{
    for (size_t i = 0; i < c->n; i++)
        free((char *)(uintptr_t)c->snippet[i].text);
    free(c->snippet);
    *c = (struct stk_snippets){0};
}

const char *stk_language_name(enum stk_language language)
{
    static const char *const names[] = {
        [STK_SHELL] = "shell", [STK_PYTHON] = "python", [STK_C] = "c"};
    return names[language];
}

const char *stk_language_title(enum stk_language language)
{
    static const char *const titles[] = {[STK_SHELL] = "In the shell",
                                         [STK_PYTHON] = "In the program, Python",
                                         [STK_C] = "In the program, C"};
    return titles[language];
}

const char *stk_language_title_of(const char *name)
{
    for (int i = STK_SHELL; i <= STK_C; i++)
        if (strcmp(name, stk_language_name((enum stk_language)i)) == 0)
            return stk_language_title((enum stk_language)i);
    return "Code";
}
