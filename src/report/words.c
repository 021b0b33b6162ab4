/*
 * words.c - numbers and names as the report shows them: short, aligned, and safe.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/text.h"
#include "base/units.h"
#include "result/grid.h"
#include "report/report_priv.h"

uint64_t stk_nearest(double v)
{
    return v > 0 ? v < 1.8e19 ? (uint64_t)(v + 0.5) : UINT64_MAX : 0;
}

static const char *none(char *buf, size_t size)
{
    snprintf(buf, size, "-");
    return buf;
}

const char *stk_word_rate(double Bps, char *buf, size_t size)
{
    char one[32];
    if (!(Bps > 0))
        return none(buf, size);
    snprintf(buf, size, "%s/s", stk_format_size(stk_nearest(Bps), one, sizeof one));
    return buf;
}

const char *stk_word_share(double share, char *buf, size_t size)
{
    return share >= 0 ? stk_percent_text(share, buf, size) : none(buf, size);
}

const char *stk_word_moment(double s, char *buf, size_t size)
{
    if (s > 0)
        return stk_format_duration(s, buf, size);
    snprintf(buf, size, "0");
    return buf;
}

const char *stk_word_size(uint64_t bytes, char *buf, size_t size)
{
    return bytes ? stk_format_size(bytes, buf, size) : none(buf, size);
}

/* The estimate has two significant digits. */
const char *stk_word_about(uint64_t n, bool exact, char *buf, size_t size)
{
    char text[40];
    uint64_t unit = 1;
    if (exact || n < 10)
        return stk_format_count(n, buf, size);
    for (; n / unit >= 100; unit *= 10)
        ;
    stk_format_count((n / unit + (n % unit >= unit / 2 && unit > 1)) * unit, text, sizeof text);
    snprintf(buf, size, "about %s", text);
    return buf;
}

const char *stk_word_many(uint64_t n, const char *one, char *buf, size_t size)
{
    char count[32];
    size_t len = strlen(one);
    bool es = n != 1 && len && one[len - 1] == 's';
    snprintf(buf, size, "%s %s%s", stk_format_count(n, count, sizeof count), one,
             n == 1 ? ""
             : es   ? "es"
                    : "s");
    return buf;
}

/* The base name of a word that is an absolute path; s for any other. */
static const char *base_of(const char *s, size_t n)
{
    const char *base = s;
    for (size_t i = 0; *s == '/' && i + 1 < n; i++)
        base = s[i] == '/' ? s + i + 1 : base;
    return base;
}

/* The bytes of s that fit into that many columns. */
static size_t fitting(const char *s, size_t columns)
{
    size_t at = 0, n = strlen(s);
    while (at < n) {
        uint32_t cp = 0;
        size_t len = stk_utf8_next(s + at, n - at, &cp), width = len ? stk_cp_width(cp) : 1;
        if (width > columns)
            break;
        columns -= width;
        at += len ? len : 1;
    }
    return at;
}

const char *stk_word_command(struct stk_buf *b, const char *command, size_t columns)
{
    stk_buf_reset(b);
    struct stk_buf whole = STK_BUF_INIT;
    size_t width = stk_text_keep(&whole, command, strlen(command));
    size_t over = width > columns ? width - columns : 0;
    /* Names and arguments distinguish programs, so directories are dropped first. After a quote,
     * blanks may not separate words. */
    bool quoted = false;
    for (const char *s = command; *s;) {
        size_t n = strcspn(s, " "), blank = s[n] == ' ';
        quoted = quoted || strcspn(s, "'\"\\$") < n;
        const char *base = over && !quoted ? base_of(s, n) : s;
        size_t cut = stk_text_width(s, (size_t)(base - s));
        over -= cut < over ? cut : over;
        stk_text_keep(b, base, (size_t)(s + n - base));
        stk_buf_put(b, " ", blank);
        s += n + blank;
    }
    if (over) {
        stk_buf_reset(&whole);
        stk_buf_puts(&whole, stk_buf_cstr(b));
        stk_buf_reset(b);
        stk_buf_put(b, whole.data, fitting(stk_buf_cstr(&whole), columns > 3 ? columns - 3 : 0));
        stk_buf_puts(b, "...");
    }
    b->fail = b->fail || whole.fail;
    stk_buf_release(&whole);
    return stk_buf_cstr(b);
}

const char *stk_word_clock(double s, char *buf, size_t size)
{
    if (!(s >= 0) || s > 1e12)
        return "?";
    long long t = (long long)s;
    if (t >= 86400)
        snprintf(buf, size, "%lld-%02lld:%02lld:%02lld", t / 86400, t / 3600 % 24, t / 60 % 60,
                 t % 60);
    else
        snprintf(buf, size, "%02lld:%02lld:%02lld", t / 3600, t / 60 % 60, t % 60);
    return buf;
}

const char *stk_report_mark_kind(uint32_t kind)
{
    return kind == STK_MARK_STEP    ? "step"
           : kind == STK_MARK_PHASE ? "phase"
           : kind == STK_MARK_EPOCH ? "epoch"
                                    : "mark";
}

void stk_report_sentence(struct stk_buf *out, unsigned indent, unsigned columns, const char *fmt,
                         ...)
{
    char text[1400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    stk_report_wrapped(text, indent, columns, out);
}

void stk_report_interval(struct stk_jw *w, const char *key, struct stk_interval i)
{
    stk_jw_key(w, key);
    stk_interval_put(i, w);
}

STK_TEXT_OF(verdict_is, struct stk_verdict, stk_verdict_id(r->kind))

static void verdict_text(const void *verdict, struct stk_jw *w)
{
    char text[STK_VERDICT_TEXT];
    stk_jw_str(w, stk_verdict_text(verdict, text, sizeof text));
}

const struct stk_result_field stk_verdict_fields[] = {
    {"is", NULL, STK_U_TEXT, .put = verdict_is},
    {"times", NULL, STK_U_TIMES, STK_FROM(struct stk_verdict, times), "as fast"},
    {"times_ci", NULL, STK_U_LIST, STK_FROM(struct stk_verdict, ci), "of it, 95 %"},
    {"runs", NULL, STK_U_COUNT, STK_FROM(struct stk_verdict, runs), "of each"},
    {"more_runs", NULL, STK_U_COUNT, STK_FROM(struct stk_verdict, more), "of each would show it",
     STK_F_KNOWN},
    {"text", NULL, STK_U_TEXT, .put = verdict_text},
    {NULL}};

void stk_verdict_put(const void *verdict, struct stk_jw *w)
{
    const struct stk_verdict *v = verdict;
    if (isnan(v->times)) {
        stk_jw_null(w);
        return;
    }
    stk_jw_open(w, '{');
    stk_fields_put(stk_verdict_fields, v, w);
    stk_jw_close(w, '}');
}

void stk_report_verdict(struct stk_jw *w, const char *key, const struct stk_verdict *v)
{
    stk_jw_key(w, key);
    stk_verdict_put(v, w);
}
