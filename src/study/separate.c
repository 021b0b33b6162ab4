/*
 * separate.c - how the lines of a table are cut into cells: which separator, or where a rule below
 * the header says that columns are.
 */
#include "base/csv.h"
#include "study/study.h"

/* "result:", as JUBE writes above a table. */
bool stk_study_is_title(const char *p, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (p[i] && strchr(",;\t| ", p[i]))
            return false;
    return len && p[len - 1] == ':';
}

/* Judges by the first line that is not a comment. */
char stk_study_delimiter(const char *p, size_t n)
{
    const char *end = p + n;
    if (n >= 3 && memcmp(p, "\xef\xbb\xbf", 3) == 0)
        p += 3;
    for (const char *line; p < end; p = line) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        size_t len = (size_t)((stop ? stop : end) - p);
        line = stop ? stop + 1 : end;
        len -= len && p[len - 1] == '\r';
        if (len && *p != '#' && !stk_study_is_title(p, len))
            break;
    }
    char guess = stk_csv_guess(p, (size_t)(end - p), ",;\t|");
    if (guess)
        return guess;
    while (p < end && *p != '\n' && *p != ' ')
        p++;
    return p < end && *p == ' ' ? ' ' : ',';
}

/* Copies text with one blank between cells and none at the ends of lines. */
void stk_study_squeeze(const char *p, size_t n, struct stk_buf *out)
{
    bool start = true, owed = false;
    for (size_t i = 0; i < n; i++) {
        if (p[i] == ' ' || p[i] == '\t') {
            owed = !start;
            continue;
        }
        if (owed && p[i] != '\n' && p[i] != '\r')
            stk_buf_putc(out, ' ');
        owed = false;
        stk_buf_putc(out, p[i]);
        start = p[i] == '\n';
    }
}

/* ---- columns below a rule ----------------------------------------------------------------- */

struct span {
    size_t from, to;
};

/* The line "------- ---- -----" below a header, as sacct draws it: where each column is. */
static size_t read_rule(const char *p, size_t len, struct span *at, size_t max)
{
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        if (!strchr("- \r", p[i]) || !p[i] || (p[i] == '-' && n == max))
            return 0;
        if (p[i] == '-' && (!i || p[i - 1] != '-'))
            at[n++].from = i;
        if (p[i] == '-')
            at[n - 1].to = i + 1;
    }
    return n > 1 ? n : 0;
}

static size_t find_rule(const char *text, size_t len, struct span *at, size_t max)
{
    const char *end = text + len;
    size_t n = 0;
    for (const char *p = text; p < end && !n;) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        n = read_rule(p, (size_t)((stop ? stop : end) - p), at, max);
        p = stop ? stop + 1 : end;
    }
    return n;
}

/* Cuts each line where the rule does: cells may be empty or contain blanks. */
static void cut_columns(const char *text, size_t len, const struct span *at, size_t n,
                        struct stk_buf *out)
{
    const char *end = text + len;
    for (const char *p = text; p < end;) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        size_t line = (size_t)((stop ? stop : end) - p);
        line -= line && p[line - 1] == '\r';
        for (size_t i = 0; i < n; i++) {
            size_t to = i + 1 < n && at[i].to < line ? at[i].to : line;
            stk_buf_puts(out, i ? "\t" : "");
            if (at[i].from < to)
                stk_buf_put(out, p + at[i].from, to - at[i].from);
        }
        stk_buf_putc(out, '\n');
        p = stop ? stop + 1 : end;
    }
}

/* "time [ms]" is one cell. */
static void join_units(struct stk_buf *b)
{
    size_t n = 0;
    for (size_t i = 0; i < b->len; i++)
        if (b->data[i] != ' ' || i + 1 == b->len || !strchr("[(", b->data[i + 1]))
            b->data[n++] = b->data[i];
    b->len = n;
}

char stk_study_separate(const char *text, size_t len, struct stk_buf *out)
{
    struct span at[STK_STUDY_COLUMNS_MAX];
    size_t n = find_rule(text, len, at, STK_STUDY_COLUMNS_MAX);
    if (n) {
        cut_columns(text, len, at, n, out);
        return '\t';
    }
    stk_study_squeeze(text, len, out);
    join_units(out);
    return ' ';
}
