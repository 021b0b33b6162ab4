/* units.c - sizes, durations and counts: parsing what users type, writing what they can read. */
#include "base/units.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

__extension__ typedef unsigned __int128 u128;

struct decimal {
    uint64_t mantissa; /* all digits, without the point */
    unsigned places;   /* digits after the point */
};

/* Parses "12", "1.5", ".5"; returns the byte after it, NULL if there is no number or it is too
 * long. By hand because strtod depends on the locale. */
static const char *read_decimal(const char *s, struct decimal *d)
{
    bool point = false;
    unsigned digits = 0;
    *d = (struct decimal){0};
    for (;; s++) {
        if (*s == '.' && !point) {
            point = true;
            continue;
        }
        if (*s < '0' || *s > '9')
            break;
        if (__builtin_mul_overflow(d->mantissa, 10, &d->mantissa) ||
            __builtin_add_overflow(d->mantissa, (uint64_t)(*s - '0'), &d->mantissa))
            return NULL;
        digits++;
        d->places += point;
    }
    return digits && d->places <= 18 ? s : NULL;
}

static uint64_t power10(unsigned n)
{
    uint64_t v = 1;
    while (n--)
        v *= 10;
    return v;
}

/* The multiplier of a suffix; 0 if unknown. */
static uint64_t size_unit(const char *s)
{
    static const char letters[] = "kmgtp";
    if (*s == '\0' || strcasecmp(s, "b") == 0)
        return 1;
    const char *at = strchr(letters, *s | 0x20);
    if (!at)
        return 0;
    unsigned step = (unsigned)(at - letters) + 1;
    if (s[1] == '\0' || strcasecmp(s + 1, "i") == 0 || strcasecmp(s + 1, "ib") == 0)
        return (uint64_t)1 << (10 * step);
    return strcasecmp(s + 1, "b") == 0 ? power10(3 * step) : 0;
}

int stk_parse_size(const char *s, uint64_t *bytes, struct stk_err *err)
{
    struct decimal d;
    const char *end = read_decimal(s, &d);
    while (end && *end == ' ')
        end++;
    uint64_t unit = end ? size_unit(end) : 0;
    if (!unit)
        return stk_err_set(err, STK_E_USAGE, NULL, -1,
                           "\"%s\" is not a size; write 4096, 64K, 256M, 1.5G or 10GB", s);
    u128 scaled = (u128)d.mantissa * unit, tens = power10(d.places);
    if (unit == 1 && scaled % tens)
        return stk_err_set(err, STK_E_USAGE, NULL, -1, "\"%s\" is not a whole number of bytes", s);
    if (scaled / tens > UINT64_MAX)
        return stk_err_set(err, STK_E_USAGE, NULL, -1, "\"%s\" is too large for a size", s);
    *bytes = (uint64_t)(scaled / tens);
    return 0;
}

static const char *read_time_unit(const char *s, double *unit)
{
    static const struct {
        const char *name;
        double seconds;
    } units[] = {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"min", 60},
                 {"m", 60},    {"s", 1},     {"h", 3600},  {"d", 86400}};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        size_t n = strlen(units[i].name);
        if (strncasecmp(s, units[i].name, n) == 0) {
            *unit = units[i].seconds;
            return s + n;
        }
    }
    return NULL;
}

int stk_parse_duration(const char *s, double *seconds, struct stk_err *err)
{
    double total = 0;
    const char *p = s;
    do {
        struct decimal d;
        double unit = 1;
        p = read_decimal(p, &d);
        while (p && *p == ' ')
            p++;
        /* A number without a unit is seconds, but only alone: "1h30" is ambiguous. */
        if (p && !(*p == '\0' && total == 0))
            p = read_time_unit(p, &unit);
        if (!p)
            return stk_err_set(err, STK_E_USAGE, NULL, -1,
                               "\"%s\" is not a duration; write 90, 250ms, 1.5m, 2h or 1h30m", s);
        total += (double)d.mantissa / (double)power10(d.places) * unit;
        while (*p == ' ')
            p++;
    } while (*p);
    *seconds = total;
    return 0;
}

int stk_parse_percent(const char *s, double *fraction, struct stk_err *err)
{
    struct decimal d;
    const char *end = read_decimal(s, &d);
    if (!end || (strcmp(end, "") != 0 && strcmp(end, "%") != 0 && strcmp(end, " %") != 0))
        return stk_err_set(err, STK_E_USAGE, NULL, -1,
                           "\"%s\" is not a percentage; write 80%% or 12.5%%", s);
    *fraction = (double)d.mantissa / (double)power10(d.places) / 100;
    return 0;
}

int stk_parse_u64(const char *s, uint64_t *v, struct stk_err *err)
{
    bool hex = s[0] == '0' && (s[1] | 0x20) == 'x';
    uint64_t base = hex ? 16 : 10, n = 0;
    const char *p = hex ? s + 2 : s;
    bool ok = *p != '\0', fits = true;
    for (; *p; p++) {
        static const char digits[] = "0123456789abcdef";
        const char *at = memchr(digits, *p >= 'A' && *p <= 'F' ? *p | 0x20 : *p, base);
        if (!at) {
            ok = false;
            break;
        }
        fits = fits && !__builtin_mul_overflow(n, base, &n) &&
               !__builtin_add_overflow(n, (uint64_t)(at - digits), &n);
    }
    if (!ok)
        return stk_err_set(err, STK_E_USAGE, NULL, -1, "\"%s\" is not a whole number", s);
    if (!fits)
        return stk_err_set(err, STK_E_USAGE, NULL, -1, "\"%s\" is too large a number", s);
    *v = n;
    return 0;
}

const char *stk_format_size(uint64_t bytes, char *buf, size_t n)
{
    static const char *const unit[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    if (bytes < 10000) {
        char count[32];
        snprintf(buf, n, "%s B", stk_format_count(bytes, count, sizeof count));
        return buf;
    }
    double v = (double)bytes / 1024;
    size_t u = 0;
    /* 1023.5 would be printed as 1024: the next unit is better. */
    while (v >= 1023.5 && u + 1 < sizeof unit / sizeof *unit) {
        v /= 1024;
        u++;
    }
    snprintf(buf, n, "%.*f %s", v < 9.995 ? 2 : v < 99.95 ? 1 : 0, v, unit[u]);
    return buf;
}

const char *stk_format_duration(double s, char *buf, size_t n)
{
    if (!(s >= 0) || isinf(s)) {
        snprintf(buf, n, "?");
    } else if (s < 0.9995e-3) {
        snprintf(buf, n, "%.0f us", s * 1e6);
    } else if (s < 0.9995) {
        snprintf(buf, n, "%.*f ms", s < 0.00995 ? 1 : 0, s * 1e3);
    } else if (s < 59.95) {
        snprintf(buf, n, "%.*f s", s < 9.995 ? 2 : 1, s);
    } else if (s >= 1e15) {
        snprintf(buf, n, "ages");
    } else {
        unsigned long long t = (unsigned long long)(s + 0.5);
        if (t < 3600)
            snprintf(buf, n, "%llu min %02llu s", t / 60, t % 60);
        else if (t < 86400)
            snprintf(buf, n, "%llu h %02llu min", t / 3600, t / 60 % 60);
        else
            snprintf(buf, n, "%llu d %02llu h", t / 86400, t / 3600 % 24);
    }
    return buf;
}

const char *stk_format_share(double share, char *buf, size_t n)
{
    double p = 100 * share;
    if (p > 0 && p < 0.05)
        snprintf(buf, n, "<0.1 %%");
    else if (p >= 999.5)
        snprintf(buf, n, ">999 %%");
    else if (p > 0 && p < 100)
        snprintf(buf, n, "%.1f %%", p < 99.9 ? p : 99.9);
    else
        snprintf(buf, n, p >= 100 || p <= -99.5 ? "%.0f %%" : "%.1f %%", p);
    return buf;
}

const char *stk_format_times(double factor, char *buf, size_t n)
{
    snprintf(buf, n, "%.*fx", factor < 9.995 ? 2 : factor < 99.95 ? 1 : 0, factor);
    return buf;
}

const char *stk_format_count(uint64_t v, char *buf, size_t n)
{
    char plain[24], out[32];
    int len = snprintf(plain, sizeof plain, "%llu", (unsigned long long)v);
    size_t o = 0;
    for (int i = 0; i < len; i++) {
        if (i && (len - i) % 3 == 0)
            out[o++] = ',';
        out[o++] = plain[i];
    }
    out[o] = '\0';
    snprintf(buf, n, "%s", out);
    return buf;
}

const char *stk_format_number(double v, char *buf, size_t n)
{
    if (v >= 1e4 && v < 1e15)
        return stk_format_count((uint64_t)(v + 0.5), buf, n);
    snprintf(buf, n, "%.4g", v);
    return buf;
}
