/*
 * head.c - tar headers: POSIX.1-1988 (ustar), POSIX.1-2001 (pax), GNU's and v7's variants.
 *
 * Offsets: name 0+100, mode 100, uid 108, gid 116, size 124+12, mtime 136, checksum 148+8, type
 * 156, link 157, magic 257+6, version 263+2, prefix 345+155. Knows nothing about samples.
 */
#include "format/tar/head.h"

#include <stdio.h>

enum { NAME = 0, MODE = 100, UID = 108, GID = 116, SIZE = 124, MTIME = 136, SUM = 148 };
enum { TYPE = 156, LINK = 157, MAGIC = 257, DEVMAJOR = 329, DEVMINOR = 337, PREFIX = 345 };
enum { GNU_MORE = 482 };

#define NAME_MAX_LEN   100u
#define PREFIX_MAX_LEN 155u
#define OCTAL_SIZE_MAX 077777777777ull /* 8 GiB - 1: eleven octal digits */

/* Octal with leading blanks and a trailing blank or NUL, or GNU's base 256 (top bit set). */
static bool parse_number(const uint8_t *p, size_t n, uint64_t *v)
{
    *v = 0;
    if (p[0] & 0x80) {
        if (p[0] & 0x40)
            return false; /* negative */
        *v = p[0] & 0x3f;
        for (size_t i = 1; i < n; i++) {
            if (*v >> 55)
                return false;
            *v = *v << 8 | p[i];
        }
        return true;
    }
    size_t i = 0;
    while (i < n && p[i] == ' ')
        i++;
    for (; i < n && p[i] >= '0' && p[i] <= '7'; i++)
        *v = *v << 3 | (uint64_t)(p[i] - '0'); /* at most 12 digits: 36 bits */
    return i == n || p[i] == '\0' || p[i] == ' ';
}

/* Some old tars summed signed characters; both sums are accepted, as in every tar. */
static bool checksum_ok(const uint8_t *b)
{
    uint64_t want;
    if (!parse_number(b + SUM, 8, &want))
        return false;
    uint32_t plain = 0;
    int32_t with_sign = 0;
    for (size_t i = 0; i < STK_TAR_BLOCK; i++) {
        uint8_t c = i >= SUM && i < SUM + 8 ? ' ' : b[i];
        plain += c;
        with_sign += (int8_t)c;
    }
    return want == plain || (with_sign >= 0 && want == (uint64_t)with_sign);
}

static size_t text_len(const uint8_t *p, size_t max)
{
    return strnlen((const char *)p, max);
}

static void parse_name(const uint8_t *b, struct stk_tar_head *h)
{
    size_t at = 0;
    /* GNU's "ustar \0" uses the prefix field for times; star's prefix is 131 bytes long. */
    if (memcmp(b + MAGIC, "ustar\0", 6) == 0) {
        bool star = memcmp(b + 508, "tar\0", 4) == 0;
        size_t n = text_len(b + PREFIX, star ? 131 : PREFIX_MAX_LEN);
        if (n) {
            memcpy(h->name, b + PREFIX, n);
            h->name[n] = '/';
            at = n + 1;
        }
    }
    size_t n = text_len(b + NAME, NAME_MAX_LEN);
    memcpy(h->name + at, b + NAME, n);
    h->name_len = at + n;
}

enum stk_tar_what stk_tar_parse(const uint8_t block[STK_TAR_BLOCK], struct stk_tar_head *h)
{
    static const uint8_t zeros[STK_TAR_BLOCK];
    if (!checksum_ok(block))
        return memcmp(block, zeros, STK_TAR_BLOCK) == 0 ? STK_TAR_ZEROS : STK_TAR_GARBAGE;
    *h = (struct stk_tar_head){0};
    h->type = (char)block[TYPE];
    h->has_magic = memcmp(block + MAGIC, "ustar", 5) == 0;
    h->size_ok = parse_number(block + SIZE, 12, &h->size);
    parse_name(block, h);
    h->link_len = text_len(block + LINK, sizeof h->link);
    memcpy(h->link, block + LINK, h->link_len);
    if (h->type == '\0' || h->type == '7')
        h->type = '0';
    if (h->type == '0' && h->name_len && h->name[h->name_len - 1] == '/')
        h->type = '5'; /* v7 had no type for directories */
    h->more = h->type == 'S' && block[GNU_MORE];
    return STK_TAR_HEADER;
}

/* ---- pax ---- */

static bool parse_decimal(const char *p, size_t n, uint64_t *v)
{
    *v = 0;
    for (size_t i = 0; i < n; i++)
        if (p[i] < '0' || p[i] > '9' || __builtin_mul_overflow(*v, 10u, v) ||
            __builtin_add_overflow(*v, (uint64_t)(p[i] - '0'), v) || *v > INT64_MAX)
            return false;
    return n > 0;
}

static bool key_is(const char *key, size_t len, const char *want)
{
    return len == strlen(want) && memcmp(key, want, len) == 0;
}

static bool pax_record(struct stk_tar_pax *pax, const char *key, size_t key_len, const char *value,
                       size_t len)
{
    bool real = key_is(key, key_len, "GNU.sparse.name");
    if (real || (key_is(key, key_len, "path") && !pax->path_is_real)) {
        pax->path = len ? value : NULL; /* an empty value revokes an earlier one */
        pax->path_len = len;
        pax->path_is_real = real;
        pax->sparse = pax->sparse || real;
    } else if (key_is(key, key_len, "linkpath")) {
        pax->link = len ? value : NULL;
        pax->link_len = len;
    } else if (key_is(key, key_len, "size")) {
        pax->has_size = len > 0;
        return !len || parse_decimal(value, len, &pax->size);
    } else if (key_is(key, key_len, "GNU.volume.offset")) {
        pax->rest = true;
    } else if (key_is(key, key_len, "GNU.volume.filename")) {
        pax->rest_of = value;
        pax->rest_of_len = len;
    } else if (key_is(key, key_len, "GNU.volume.label")) {
        pax->label = stk_tar_is_volume_label(value, len);
    } else if (key_len > 11 && memcmp(key, "GNU.sparse.", 11) == 0) {
        pax->sparse = true;
    }
    return true;
}

bool stk_tar_pax_parse(const char *text, size_t n, struct stk_tar_pax *pax)
{
    /* "LENGTH KEY=VALUE\n"; LENGTH counts the whole record. */
    while (n) {
        const char *blank = memchr(text, ' ', n < 21 ? n : 21);
        uint64_t len;
        if (!blank || !parse_decimal(text, (size_t)(blank - text), &len) || len > n)
            return false;
        const char *key = blank + 1, *end = text + len;
        if (end <= key || end[-1] != '\n')
            return false;
        const char *eq = memchr(key, '=', (size_t)(end - key));
        if (!eq || !pax_record(pax, key, (size_t)(eq - key), eq + 1, (size_t)(end - eq - 2)))
            return false;
        text = end;
        n -= (size_t)len;
    }
    return true;
}

/* ---- writing ---- */

/* Where to split a name into prefix and name; 0: no split; false: it does not fit. */
static bool split_name(const char *name, size_t len, size_t *cut)
{
    *cut = 0;
    if (len <= NAME_MAX_LEN)
        return len > 0;
    if (len > PREFIX_MAX_LEN + 1 + NAME_MAX_LEN)
        return false;
    for (size_t i = len - NAME_MAX_LEN - 1; i <= PREFIX_MAX_LEN && i + 1 < len; i++)
        if (i && name[i] == '/') {
            *cut = i;
            return true;
        }
    return false;
}

static void put_octal(uint8_t *p, int digits, uint64_t v)
{
    char text[24];
    snprintf(text, sizeof text, "%0*llo", digits, (unsigned long long)v);
    memcpy(p, text, (size_t)digits + 1);
}

static void put_block(struct stk_buf *out, char type, const char *name, size_t len, size_t cut,
                      uint64_t size)
{
    uint8_t *b = stk_buf_extend(out, STK_TAR_BLOCK);
    if (!b)
        return;
    memset(b, 0, STK_TAR_BLOCK);
    if (cut) {
        memcpy(b + PREFIX, name, cut);
        name += cut + 1;
        len -= cut + 1;
    }
    memcpy(b + NAME, name, len < NAME_MAX_LEN ? len : NAME_MAX_LEN);
    put_octal(b + MODE, 7, 0644);
    put_octal(b + UID, 7, 0);
    put_octal(b + GID, 7, 0);
    put_octal(b + SIZE, 11, size);
    put_octal(b + MTIME, 11, 0);
    b[TYPE] = (uint8_t)type;
    memcpy(b + MAGIC,
           "ustar\0"
           "00",
           8);
    put_octal(b + DEVMAJOR, 7, 0);
    put_octal(b + DEVMINOR, 7, 0);
    memset(b + SUM, ' ', 8);
    uint32_t sum = 0;
    for (size_t i = 0; i < STK_TAR_BLOCK; i++)
        sum += b[i];
    put_octal(b + SUM, 6, sum); /* six digits, NUL, and the existing blank */
}

static size_t decimal_digits(size_t v)
{
    size_t n = 1;
    for (; v >= 10; v /= 10)
        n++;
    return n;
}

/* The length at the front counts its own digits. */
static void put_record(struct stk_buf *out, const char *key, const char *value, size_t len)
{
    size_t rest = 1 + strlen(key) + 1 + len + 1, total = rest + decimal_digits(rest);
    if (decimal_digits(total) + rest > total)
        total++;
    stk_buf_printf(out, "%zu %s=", total, key);
    stk_buf_put(out, value, len);
    stk_buf_putc(out, '\n');
}

void stk_tar_put_head(struct stk_buf *out, const char *name, size_t name_len, uint64_t size)
{
    size_t cut = 0;
    bool fits = split_name(name, name_len, &cut), large = size > OCTAL_SIZE_MAX;
    if (!fits || large) {
        size_t head = out->len;
        put_block(out, 'x', "././@PaxHeader", 14, 0, 0);
        size_t text = out->len;
        if (!fits)
            put_record(out, "path", name, name_len);
        if (large) {
            char number[24];
            int n = snprintf(number, sizeof number, "%llu", (unsigned long long)size);
            put_record(out, "size", number, (size_t)n);
        }
        size_t len = out->len - text;
        stk_buf_zeros(out, stk_tar_padding(len));
        size_t end = out->len;
        if (!out->fail) { /* rewrite it with the known length */
            out->len = head;
            put_block(out, 'x', "././@PaxHeader", 14, 0, len);
            out->len = end;
        }
    }
    put_block(out, '0', name, name_len, fits ? cut : 0, large ? 0 : size);
}
