/* wrap.c - sentences as lines of a screen. */
#include <string.h>

#include "base/text.h"
#include "result/screen.h"

size_t stk_text_keep(struct stk_buf *out, const char *s, size_t n)
{
    size_t width = 0;
    for (const char *end = s + n; s < end;) {
        const char *slash = memchr(s, '\\', (size_t)(end - s));
        size_t plain = (size_t)((slash ? slash : end) - s);
        width += stk_text_escape(out, s, plain, SIZE_MAX) + (slash != NULL);
        if (slash)
            stk_buf_putc(out, '\\');
        s += plain + (slash != NULL);
    }
    return width;
}

const char *stk_word_cut(struct stk_buf *b, const char *text, size_t columns)
{
    stk_buf_reset(b);
    stk_text_escape(b, text, strlen(text), columns);
    return stk_buf_cstr(b);
}

/* "MiB", "s.", "%": a unit that must not be separated from its number. */
static bool is_unit(const char *s, size_t n)
{
    static const char *const units[] = {"ns",  "us",  "ms",  "s",   "min", "h", "d",
                                        "KiB", "MiB", "GiB", "TiB", "PiB", "B", "%"};
    while (n && strchr(".,;:)", s[n - 1]))
        n--;
    n -= n > 2 && memcmp(s + n - 2, "/s", 2) == 0 ? 2 : 0;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strlen(units[i]) == n && memcmp(units[i], s, n) == 0)
            return true;
    return false;
}

/* Bytes that stay on one line: up to a blank, but a number keeps its unit. */
static size_t word_length(const char *s)
{
    size_t n = strcspn(s, " ");
    if (n && s[n] && s[n - 1] >= '0' && s[n - 1] <= '9') {
        size_t next = strcspn(s + n + 1, " ");
        if (is_unit(s + n + 1, next))
            n += 1 + next;
    }
    return n;
}

void stk_report_wrapped(const char *text, unsigned indent, unsigned columns, struct stk_buf *out)
{
    struct stk_buf b = STK_BUF_INIT;
    const char *s = stk_word_cut(&b, text, SIZE_MAX);
    size_t at = 0; /* columns used in this line */
    while (*(s += strspn(s, " "))) {
        size_t n = word_length(s), w = stk_text_width(s, n);
        if (at && at + 1 + w > columns) {
            stk_buf_putc(out, '\n');
            at = 0;
        }
        stk_buf_printf(out, "%*s", at ? 1 : (int)indent, "");
        stk_buf_put(out, s, n);
        at += (at ? 1 : indent) + w;
        s += n;
    }
    stk_buf_putc(out, '\n');
    out->fail = out->fail || b.fail;
    stk_buf_release(&b);
}
