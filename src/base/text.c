/* text.c - UTF-8 decoding, safe rendering of foreign text, and distance between spellings. */
#include "base/text.h"

#include <limits.h>
#include <stdio.h>
#include <strings.h>

size_t stk_utf8_next(const char *p, size_t n, uint32_t *cp)
{
    static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
    uint8_t first = (uint8_t)p[0];
    if (first < 0x80) {
        *cp = first;
        return 1;
    }
    size_t len = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    if (first < 0xc2 || first > 0xf4 || len > n)
        return 0;
    uint32_t v = first & (0x7fu >> len);
    for (size_t i = 1; i < len; i++) {
        if (((uint8_t)p[i] & 0xc0) != 0x80)
            return 0;
        v = v << 6 | ((uint8_t)p[i] & 0x3f);
    }
    if (v < least[len] || v > 0x10ffff || (v >= 0xd800 && v <= 0xdfff))
        return 0;
    *cp = v;
    return len;
}

size_t stk_utf8_put(char *out, uint32_t cp)
{
    if (cp < 0x80) {
        out[0] = (char)cp;
        return 1;
    }
    size_t len = cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;
    static const uint8_t mark[5] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = len - 1; i > 0; i--, cp >>= 6)
        out[i] = (char)(0x80 | (cp & 0x3f));
    out[0] = (char)(mark[len] | cp);
    return len;
}

struct range {
    uint32_t first, last;
};

static bool in_ranges(uint32_t cp, const struct range *r, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (cp >= r[i].first && cp <= r[i].last)
            return true;
    return false;
}

bool stk_cp_is_control(uint32_t cp)
{
    static const struct range control[] = {
        {0x00, 0x1f},     {0x7f, 0x9f},     {0xad, 0xad},       {0x61c, 0x61c},
        {0x180e, 0x180e}, {0x200b, 0x200f}, {0x2028, 0x202e},   {0x2060, 0x206f},
        {0xfeff, 0xfeff}, {0xfff9, 0xfffb}, {0xe0000, 0xe0fff},
    };
    return in_ranges(cp, control, sizeof control / sizeof *control);
}

/* Ranges rather than wcwidth(): the answer must not depend on the locale (a batch job's is C). */
unsigned stk_cp_width(uint32_t cp)
{
    static const struct range combining[] = {
        {0x300, 0x36f},   {0x483, 0x489},   {0x591, 0x5bd},   {0x610, 0x61a},   {0x64b, 0x65f},
        {0x6d6, 0x6dc},   {0x900, 0x902},   {0x93c, 0x93c},   {0x941, 0x948},   {0x94d, 0x94d},
        {0xe31, 0xe31},   {0xe34, 0xe3a},   {0xe47, 0xe4e},   {0x1ab0, 0x1aff}, {0x1dc0, 0x1dff},
        {0x20d0, 0x20ff}, {0x302a, 0x302d}, {0x3099, 0x309a}, {0xfe00, 0xfe0f}, {0xfe20, 0xfe2f},
    };
    static const struct range wide[] = {
        {0x1100, 0x115f},   {0x231a, 0x231b},   {0x2e80, 0x303e},   {0x3041, 0x33ff},
        {0x3400, 0x4dbf},   {0x4e00, 0x9fff},   {0xa000, 0xa4cf},   {0xa960, 0xa97f},
        {0xac00, 0xd7a3},   {0xf900, 0xfaff},   {0xfe30, 0xfe6f},   {0xff01, 0xff60},
        {0xffe0, 0xffe6},   {0x16fe0, 0x18aff}, {0x1b000, 0x1b2ff}, {0x1f004, 0x1f004},
        {0x1f0cf, 0x1f0cf}, {0x1f18e, 0x1f19a}, {0x1f200, 0x1f320}, {0x1f32d, 0x1f64f},
        {0x1f680, 0x1f6ff}, {0x1f7e0, 0x1f7eb}, {0x1f90c, 0x1f9ff}, {0x1fa70, 0x1faff},
        {0x20000, 0x3fffd},
    };
    if (cp < 0x300)
        return stk_style_is_mark(cp) ? 0 : 1;
    if (in_ranges(cp, combining, sizeof combining / sizeof *combining))
        return 0;
    return in_ranges(cp, wide, sizeof wide / sizeof *wide) ? 2 : 1;
}

/* One character as shown: writes piece (room for 16) and its columns, returns the bytes
 * consumed. */
static size_t show_one(const char *s, size_t n, char piece[16], unsigned *cols)
{
    uint32_t cp = 0;
    size_t eaten = stk_utf8_next(s, n, &cp);
    if (!eaten || (cp < 0x100 && stk_cp_is_control(cp) && cp != '\n' && cp != '\t')) {
        *cols = (unsigned)snprintf(piece, 16, "\\x%02x", eaten ? (unsigned)cp : (uint8_t)*s);
        return eaten ? eaten : 1;
    }
    if (cp == '\n' || cp == '\t' || cp == '\\')
        *cols = (unsigned)snprintf(piece, 16, "\\%c", cp == '\n' ? 'n' : cp == '\t' ? 't' : '\\');
    else if (stk_cp_is_control(cp))
        *cols = (unsigned)snprintf(piece, 16, "\\u{%04x}", (unsigned)cp);
    else {
        memcpy(piece, s, eaten);
        piece[eaten] = '\0';
        *cols = stk_cp_width(cp);
    }
    return eaten;
}

size_t stk_text_escape(struct stk_buf *out, const char *s, size_t n, size_t max_cols)
{
    size_t cols = 0, fits_len = out->len, fits_cols = 0;
    for (size_t i = 0; i < n;) {
        char piece[16];
        unsigned w;
        i += show_one(s + i, n - i, piece, &w);
        if (w > max_cols - cols) {
            /* Go back to where "..." still fits. */
            size_t dots = max_cols < 3 ? max_cols : 3;
            out->len = out->fail ? out->len : fits_len;
            stk_buf_put(out, "...", dots);
            return fits_cols + dots;
        }
        stk_buf_puts(out, piece);
        cols += w;
        if (max_cols - cols >= 3) {
            fits_len = out->len;
            fits_cols = cols;
        }
    }
    return cols;
}

size_t stk_text_width(const char *s, size_t n)
{
    size_t cols = 0;
    for (size_t i = 0; i < n;) {
        uint32_t cp = 0;
        size_t len = stk_utf8_next(s + i, n - i, &cp);
        cols += len ? stk_cp_width(cp) : 1;
        i += len ? len : 1;
    }
    return cols;
}

static unsigned lower(char c)
{
    return (unsigned)(c >= 'A' && c <= 'Z' ? c + 32 : c);
}

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

bool stk_text_is_utf16(const uint8_t *p, size_t n)
{
    if (n >= 2 && ((p[0] == 0xff && p[1] == 0xfe) || (p[0] == 0xfe && p[1] == 0xff)))
        return true;
    for (size_t zero = 0; n >= 4 && zero < 2; zero++)
        if (!p[zero] && !p[zero + 2] && p[1 - zero] && p[3 - zero])
            return true;
    return false;
}

#define WORD_MAX 63

unsigned stk_text_distance(const char *a, const char *b)
{
    size_t na = strlen(a), nb = strlen(b);
    if (na > WORD_MAX || nb > WORD_MAX)
        return UINT_MAX;
    unsigned row[3][WORD_MAX + 1];
    unsigned *before = row[0], *prev = row[1], *cur = row[2];
    for (size_t j = 0; j <= nb; j++)
        prev[j] = (unsigned)j;
    memset(before, 0, sizeof row[0]);
    for (size_t i = 1; i <= na; i++) {
        cur[0] = (unsigned)i;
        for (size_t j = 1; j <= nb; j++) {
            unsigned differ = lower(a[i - 1]) != lower(b[j - 1]);
            cur[j] = least(least(prev[j], cur[j - 1]) + 1, prev[j - 1] + differ);
            if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) &&
                lower(a[i - 2]) == lower(b[j - 1]))
                cur[j] = least(cur[j], before[j - 2] + 1);
        }
        unsigned *reuse = before;
        before = prev;
        prev = cur;
        cur = reuse;
    }
    return prev[nb];
}

const char *stk_text_nearest(const char *word, const char *const *words)
{
    size_t n = strlen(word);
    /* One wrong letter in three is a typing error; more is another word. */
    unsigned best = (unsigned)(n < 3 ? 1 : n / 3) + 1;
    const char *found = NULL;
    for (; *words; words++) {
        unsigned d = stk_text_distance(word, *words);
        if (d < best) {
            best = d;
            found = *words;
        } else if (!found && n >= 3 && strncmp(word, *words, n) == 0) {
            found = *words;
        }
    }
    return found;
}

bool stk_text_ends(const char *s, size_t n, const char *end)
{
    size_t k = strlen(end);
    return n >= k && memcmp(s + n - k, end, k) == 0;
}

bool stk_name_has_suffix(const char *name, size_t n, const char *suffix)
{
    size_t k = strlen(suffix);
    return k && n > k && strncasecmp(name + n - k, suffix, k) == 0;
}

int stk_text_index(const char *word, const char *const *words)
{
    for (int i = 0; word && words[i]; i++)
        if (strcmp(word, words[i]) == 0)
            return i;
    return -1;
}

/* ---- emphasis -------------------------------------------------------------------------------- */

bool stk_style_is_mark(uint32_t cp)
{
    return cp >= (unsigned char)STK_PLAIN[0] && cp <= (unsigned char)STK_BAD[0];
}

void stk_style_apply(const char *text, size_t n, bool colour, struct stk_buf *out)
{
    static const char *const sequence[] = {"\033[0m",  "\033[1m",  "\033[2m",
                                           "\033[32m", "\033[33m", "\033[1;31m"};
    for (size_t i = 0; i < n; i++) {
        if (!stk_style_is_mark((unsigned char)text[i]))
            stk_buf_putc(out, text[i]);
        else if (colour)
            stk_buf_puts(out, sequence[text[i] - STK_PLAIN[0]]);
    }
}

/* ---- quoting --------------------------------------------------------------------------------- */

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
