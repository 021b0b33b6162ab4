/* quote.c - see quote.h. */
#include "base/quote.h"

#include "base/text.h"

static bool is_plain(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && strchr("/._-+,:=@%", c));
}

/* The length of the character at s (n bytes left) if it can be shown unescaped, else 0. */
static size_t showable(const char *s, size_t n)
{
    uint32_t cp;
    size_t len = stk_utf8_next(s, n, &cp);
    return len && !stk_cp_is_control(cp) ? len : 0;
}

static void put_ansi(struct stk_buf *out, const char *s, size_t n)
{
    stk_buf_puts(out, "$'");
    for (size_t i = 0; i < n;) {
        size_t len = showable(s + i, n - i);
        if (!len) {
            stk_buf_printf(out, "\\%03o", (unsigned)(unsigned char)s[i++]);
            continue;
        }
        if (s[i] == '\'' || s[i] == '\\')
            stk_buf_putc(out, '\\');
        stk_buf_put(out, s + i, len);
        i += len;
    }
    stk_buf_putc(out, '\'');
}

void stk_quote_raw(struct stk_buf *out, const char *s, size_t n)
{
    stk_buf_putc(out, '\'');
    for (size_t i = 0; i < n; i++) {
        if (s[i] == '\'')
            stk_buf_puts(out, "'\\''");
        else
            stk_buf_putc(out, s[i]);
    }
    stk_buf_putc(out, '\'');
}

void stk_quote_word(struct stk_buf *out, const char *s, size_t n)
{
    size_t plain = 0, shown = 0;
    while (plain < n && is_plain((unsigned char)s[plain]))
        plain++;
    for (size_t len; shown < n && (len = showable(s + shown, n - shown)) > 0; shown += len)
        ;
    if (n && plain == n)
        stk_buf_put(out, s, n);
    else if (shown < n)
        put_ansi(out, s, n);
    else
        stk_quote_raw(out, s, n);
}

void stk_quote_tar(struct stk_buf *out, const char *name)
{
    size_t n = strlen(name);
    if (name[0] == '-')
        stk_buf_puts(out, "./");
    for (size_t i = 0; i < n;) {
        size_t len = showable(name + i, n - i);
        bool edge = name[i] == ' ' && (i == 0 || i + 1 == n); /* tar cuts it off */
        if (len && name[i] != '\\' && !edge) {
            stk_buf_put(out, name + i, len);
            i += len;
        } else {
            stk_buf_printf(out, "\\%03o", (unsigned)(unsigned char)name[i++]);
        }
    }
}

void stk_quote_shell(struct stk_buf *out, const char *path)
{
    if (path[0] == '-')
        stk_buf_puts(out, "./");
    stk_quote_word(out, path, strlen(path));
}

void stk_quote_python(struct stk_buf *out, const char *s)
{
    size_t n = strlen(s);
    stk_buf_putc(out, '"');
    for (size_t i = 0; i < n;) {
        uint32_t cp;
        size_t len = stk_utf8_next(s + i, n - i, &cp);
        if (!len) {
            stk_buf_printf(out, "\\udc%02x", (unsigned)(unsigned char)s[i++]);
            continue;
        }
        if (stk_cp_is_control(cp))
            stk_buf_printf(out, cp > 0xffff ? "\\U%08x" : "\\u%04x", (unsigned)cp);
        else {
            if (s[i] == '"' || s[i] == '\\')
                stk_buf_putc(out, '\\');
            stk_buf_put(out, s + i, len);
        }
        i += len;
    }
    stk_buf_putc(out, '"');
}

void stk_quote_c(struct stk_buf *out, const char *s)
{
    stk_buf_putc(out, '"');
    for (size_t i = 0, n = strlen(s); i < n;) {
        size_t len = showable(s + i, n - i);
        if (!len) {
            stk_buf_printf(out, "\\%03o", (unsigned)(unsigned char)s[i++]);
            continue;
        }
        if (s[i] == '"' || s[i] == '\\')
            stk_buf_putc(out, '\\');
        stk_buf_put(out, s + i, len);
        i += len;
    }
    stk_buf_putc(out, '"');
}
