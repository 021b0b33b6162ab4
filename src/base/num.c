/*
 * num.c - decimal text to numbers and back. Most numbers take a fast path of a few multiplications,
 * proven to round correctly; the rest goes through libc in the C locale.
 */
#include "base/num.h"

#include <float.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define TEXT_MAX 400 /* longest number accepted: 1e-308 written out in full has 326 digits */

/* ---- libc without the locale: a host program may have set a decimal comma ---------------- */

static locale_t c_locale;

static void make_c_locale(void)
{
    c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

static double slow_read(const char *s)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_c_locale);
    return c_locale ? strtod_l(s, NULL, c_locale) : strtod(s, NULL);
}

/* ---- decimal to binary ------------------------------------------------------------------- */

#if LDBL_MANT_DIG == 64
/* The x87 format holds any uint64 and any power of ten up to 10^27 exactly. */
typedef long double wide;
#define WIDE_POW10 27
#else
typedef double wide;
#define WIDE_POW10 22
#endif

static const wide pow10_table[WIDE_POW10 + 1] = {
    1e0L,  1e1L,  1e2L,  1e3L,  1e4L,  1e5L,  1e6L,  1e7L,  1e8L,  1e9L,  1e10L, 1e11L,
    1e12L, 1e13L, 1e14L, 1e15L, 1e16L, 1e17L, 1e18L, 1e19L, 1e20L, 1e21L, 1e22L,
#if LDBL_MANT_DIG == 64
    1e23L, 1e24L, 1e25L, 1e26L, 1e27L,
#endif
};

static wide scale(wide v, int e10)
{
    return e10 < 0 ? v / pow10_table[-e10] : v * pow10_table[e10];
}

/* m * 10^e10 correctly rounded; false if correctness cannot be shown cheaply. */
static bool fast_decimal(uint64_t m, int e10, double *out)
{
    if (e10 < -WIDE_POW10 || e10 > WIDE_POW10)
        return false;
    if (m <= (1ull << 53) && e10 >= -22 && e10 <= 22) {
        double p = (double)pow10_table[e10 < 0 ? -e10 : e10];
        *out = e10 < 0 ? (double)m / p : (double)m * p; /* both exact: one rounding */
        return true;
    }
#if LDBL_MANT_DIG == 64
    /* One rounding to 64 bits, then one to 53: wrong only when the 11 bits in between are next to
     * one half. Numbers in these ranges are never subnormal. */
    wide v = scale((wide)m, e10);
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    unsigned low = (unsigned)bits & 0x7ff;
    if (low >= 0x3ff && low <= 0x401)
        return false;
    *out = (double)v;
    return true;
#else
    return false;
#endif
}

/* A parsed number: its first 19 digits times a power of ten. */
struct parts {
    uint64_t m;
    int64_t e10;
    bool negative, dropped, point, exponent;
    size_t digits; /* without leading zeros */
};

static const char *read_digits(const char *p, const char *end, struct parts *t, bool fraction)
{
    for (; p < end; p++) {
        unsigned d = (unsigned)(unsigned char)*p - '0';
        if (d > 9)
            break;
        if (t->digits < 19) {
            t->m = t->m * 10 + d;
            t->digits += t->m != 0;
            t->e10 -= fraction;
        } else {
            t->digits++;
            t->dropped |= d != 0;
            t->e10 += !fraction;
        }
    }
    return p;
}

static const char *read_exponent(const char *p, const char *end, struct parts *t)
{
    bool negative = false;
    if (++p < end && (*p == '+' || *p == '-'))
        negative = *p++ == '-';
    const char *first = p;
    int64_t e = 0;
    for (; p < end && *p >= '0' && *p <= '9'; p++)
        e = e < 100000 ? e * 10 + (*p - '0') : e;
    t->e10 += negative ? -e : e;
    t->exponent = true;
    return p == first ? NULL : p;
}

static bool take_apart(const char *p, const char *end, struct parts *t)
{
    *t = (struct parts){0};
    if (p < end && (*p == '-' || *p == '+'))
        t->negative = *p++ == '-';
    const char *first = p;
    p = read_digits(p, end, t, false);
    size_t seen = (size_t)(p - first);
    if (p < end && *p == '.') {
        t->point = true;
        first = ++p;
        p = read_digits(p, end, t, true);
        seen += (size_t)(p - first);
    }
    if (seen && p < end && (*p | 0x20) == 'e')
        p = read_exponent(p, end, t);
    return seen && p == end;
}

static bool parse_word(const char *p, size_t n, double *f)
{
    bool negative = n && *p == '-';
    if (n && (*p == '-' || *p == '+')) {
        p++;
        n--;
    }
    if (n == 3 && strncasecmp(p, "nan", 3) == 0)
        *f = (double)NAN;
    else if ((n == 3 && strncasecmp(p, "inf", 3) == 0) ||
             (n == 8 && strncasecmp(p, "infinity", 8) == 0))
        *f = (double)INFINITY;
    else
        return false;
    if (negative)
        *f = -*f;
    return true;
}

static double parts_value(const char *p, size_t n, const struct parts *t)
{
    double v = 0;
    if (t->m == 0)
        v = 0;
    else if (t->dropped || t->e10 < -WIDE_POW10 || t->e10 > WIDE_POW10 ||
             !fast_decimal(t->m, (int)t->e10, &v)) {
        char text[TEXT_MAX + 1];
        memcpy(text, p, n);
        text[n] = '\0';
        return slow_read(text);
    }
    return t->negative ? -v : v;
}

enum stk_num stk_num_parse(const char *p, size_t n, int64_t *i, double *f)
{
    struct parts t;
    if (!n || n > TEXT_MAX)
        return STK_NUM_NONE;
    if (!take_apart(p, p + n, &t))
        return parse_word(p, n, f) ? STK_NUM_FLOAT : STK_NUM_NONE;
    *f = parts_value(p, n, &t);
    if (t.point || t.exponent || (t.negative && t.m == 0))
        return STK_NUM_FLOAT;
    if (t.digits > 19 || t.m > (uint64_t)INT64_MAX + t.negative)
        return STK_NUM_BIG;
    *i = t.negative ? (int64_t)-t.m : (int64_t)t.m;
    return STK_NUM_INT;
}

/* ---- binary to decimal ------------------------------------------------------------------- */

size_t stk_num_u64(char *out, uint64_t v)
{
    char text[20];
    size_t n = 0;
    do {
        text[n++] = (char)('0' + v % 10);
        v /= 10;
    } while (v);
    for (size_t k = 0; k < n; k++)
        out[k] = text[n - 1 - k];
    return n;
}

size_t stk_num_i64(char *out, int64_t v)
{
    if (v >= 0)
        return stk_num_u64(out, (uint64_t)v);
    *out = '-';
    return 1 + stk_num_u64(out + 1, -(uint64_t)v);
}

/* Writes digits d (first digit times 10^e) as Python prints a float: 0.0001 to 1e16 without an
 * exponent. */
static size_t put_decimal(char *out, uint64_t d, int e)
{
    char digit[20];
    char *o = out;
    while (d % 10 == 0)
        d /= 10;
    int n = (int)stk_num_u64(digit, d);
    if (e < -4 || e >= 16) {
        *o++ = digit[0];
        if (n > 1) {
            *o++ = '.';
            memcpy(o, digit + 1, (size_t)n - 1);
            o += n - 1;
        }
        *o++ = 'e';
        *o++ = e < 0 ? '-' : '+';
        unsigned size = (unsigned)(e < 0 ? -e : e);
        if (size < 10)
            *o++ = '0';
        return (size_t)(o - out) + stk_num_u64(o, size);
    }
    int before = e < 0 ? 0 : e + 1; /* digits before the point */
    for (int k = 0; k < before; k++)
        *o++ = k < n ? digit[k] : '0';
    if (!before)
        *o++ = '0';
    *o++ = '.';
    for (int k = e + 1; k < 0; k++)
        *o++ = '0';
    if (before >= n)
        *o++ = '0';
    for (int k = before; k < n; k++)
        *o++ = digit[k];
    return (size_t)(o - out);
}

static bool reads_back(double read, double v, bool single)
{
    return single ? (float)read == (float)v : read == v;
}

/* Computes digits of v at a precision. Returns whether they read back as v: 1 yes, 0 no, -1
 * unknown. */
static int fast_digits(double v, int e, int precision, bool single, uint64_t *d, int *de)
{
    int k = precision - 1 - e;
    if (k < -WIDE_POW10 || k > WIDE_POW10)
        return -1;
    wide scaled = scale((wide)v, k) + (wide)0.5;
    double read;
    *d = scaled < (wide)1e18 ? (uint64_t)scaled : 0;
    if (!*d || !fast_decimal(*d, -k, &read))
        return -1;
    *de = -k;
    for (uint64_t top = *d; top >= 10; top /= 10)
        *de += 1;
    return reads_back(read, v, single);
}

static void slow_digits(double v, int precision, int last, bool single, uint64_t *d, int *e)
{
    for (;; precision++) {
        char text[64], *x;
        snprintf(text, sizeof text, "%.*e", precision - 1, v);
        *d = 0;
        for (x = text; *x != 'e'; x++)
            if (*x >= '0' && *x <= '9')
                *d = *d * 10 + (uint64_t)(*x - '0');
            else
                *x = '.'; /* replaces the locale's decimal point (one byte in any that matters) */
        *e = (int)strtol(x + 1, NULL, 10);
        if (precision >= last || reads_back(slow_read(text), v, single))
            return;
    }
}

static size_t put_float(char *out, double v, bool single)
{
    size_t sign = 0;
    if (signbit(v) && !isnan(v)) {
        out[sign++] = '-';
        v = -v;
    }
    const char *word = isnan(v) ? "nan" : isinf(v) ? "inf" : v == 0 ? "0.0" : NULL;
    if (word) {
        memcpy(out + sign, word, 3);
        return sign + 3;
    }
    /* A decimal of FLT_DIG or DBL_DIG digits always survives, so shorter ones appear there with
     * trailing zeros; FLT_ and DBL_DECIMAL_DIG are always enough. */
    int first = single ? FLT_DIG : DBL_DIG;
    int last = single ? FLT_DECIMAL_DIG : DBL_DECIMAL_DIG;
    uint64_t d;
    int e2, e;
    frexp(v, &e2);
    int guess = (int)floor((e2 - 1) * 0.30103); /* the exponent or one less */
    if (guess < WIDE_POW10 && guess + 1 > -WIDE_POW10 && guess + 1 < WIDE_POW10 &&
        (wide)v >= scale(1, guess + 1))
        guess++;
    int found = 0, precision = first;
    while ((found = fast_digits(v, guess, precision, single, &d, &e)) == 0 && precision < last)
        precision++;
    if (found != 1) {
        bool subnormal = v < (single ? (double)FLT_MIN : DBL_MIN); /* fewer digits may be enough */
        slow_digits(v, subnormal ? 1 : precision, last, single, &d, &e);
    }
    return sign + put_decimal(out + sign, d, e);
}

size_t stk_num_f64(char *out, double v)
{
    return put_float(out, v, false);
}

size_t stk_num_f32(char *out, float v)
{
    return put_float(out, (double)v, true);
}
