/*
 * delim.c - the separator between the cells of a table: a comma, a semicolon, a tab, a bar,
 * or, in files that people write with echo and plot with gnuplot, any number of blanks.
 */
#include <string.h>

#include "base/csv.h"
#include "study/study.h"

/* Judges by the first line that is not a comment. */
char stk_study_delimiter(const char *p, size_t n)
{
    const char *end = p + n;
    if (n >= 3 && memcmp(p, "\xef\xbb\xbf", 3) == 0)
        p += 3;
    while (p < end && (*p == '#' || *p == '\n' || *p == '\r')) {
        const char *line = memchr(p, '\n', (size_t)(end - p));
        p = line ? line + 1 : end;
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
