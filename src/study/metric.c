/*
 * metric.c - what the regular expression of a metric says about it: its name, and whether
 * more of it is better.
 */
#include <stdio.h>
#include <strings.h>

#include "study/priv.h"

/* ---- its name ----------------------------------------------------------------------------- */

/* Copies the plain words of regex[0..len) to out; false: none, or more than words. */
static bool plain_words(const char *regex, size_t len, char *out, size_t size)
{
    size_t n = 0;
    bool plain = true;
    for (size_t i = 0; i < len && n + 1 < size; i++) {
        if (regex[i] == '\\' && i + 1 < len)
            i++;
        else
            plain = plain && !strchr("()[]*+?|^$.{}", regex[i]);
        out[n++] = regex[i];
    }
    while (n && strchr(" \t:=~", out[n - 1]))
        n--;
    out[n] = '\0';
    size_t lead = strspn(out, " \t");
    memmove(out, out + lead, n - lead + 1);
    return plain && *out;
}

/* The end of the bracket expression that begins at p: its letters are not words. */
static const char *skip_set(const char *p)
{
    p += p[1] == '^' ? 2 : 1;
    p += *p == ']';
    while (*p && *p != ']') {
        char kind = *p == '[' && *(p + 1) && strchr(":.=", p[1]) ? p[1] : '\0';
        p += kind ? 2 : 1;
        while (kind && *p && !(p[0] == kind && p[1] == ']'))
            p++;
        p += kind && *p ? 2 : 0;
    }
    return p + (*p == ']');
}

static const char *skip_one(const char *p)
{
    return *p == '[' ? skip_set(p) : p + (*p == '\\' && p[1] ? 2 : 1);
}

void stk_metric_name(const char *regex, char *out, size_t size)
{
    const char *group = regex, *end;
    while (*group && *group != '(')
        group = skip_one(group);
    for (end = group; *end && *end != ')';)
        end = skip_one(end);
    end += *end == ')';
    /* "images/s: (…)", or "(…) images/s" */
    if (!plain_words(regex, (size_t)(group - regex), out, size) &&
        !plain_words(end, strlen(end), out, size))
        snprintf(out, size, "metric");
}

/* ---- which way is better ------------------------------------------------------------------ */

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_one_of(const char *word, size_t n, const char *const *list)
{
    for (; *list; list++)
        if (strlen(*list) == n && strncasecmp(*list, word, n) == 0)
            return true;
    return false;
}

/* What one word says; per: it follows "/" or "per"; unit: it follows the number. */
static void weigh(const char *word, size_t n, bool per, bool unit, bool *more, bool *less)
{
    static const char *const units[] = {"s",      "sec",     "secs", "second", "seconds",
                                        "ms",     "us",      "ns",   "min",    "mins",
                                        "minute", "minutes", "hour", "hours",  NULL};
    static const char *const rates[] = {"rate",      "throughput", "speed", "speedup", "fps",
                                        "bandwidth", "efficiency", "flop",  "flops",   "mflops",
                                        "gflops",    "tflops",     NULL};
    static const char *const costs[] = {"time",    "times",    "elapsed", "latency", "duration",
                                        "took",    "walltime", "runtime", "loss",    "error",
                                        "seconds", "secs",     "sec",     "ms",      NULL};
    if (is_one_of(word, n, units) && per)
        *more = true;
    else if (is_one_of(word, n, costs) || (unit && is_one_of(word, n, units)))
        *less = true;
    else if (is_one_of(word, n, rates))
        *more = true;
}

int stk_metric_sense(const char *regex)
{
    bool more = false, less = false, per = false, unit = false;
    for (const char *p = regex; *p;) {
        size_t n = 0;
        while (is_letter(p[n]))
            n++;
        if (n) {
            weigh(p, n, per, unit, &more, &less);
            per = n == 3 && strncasecmp(p, "per", 3) == 0;
            p += n;
            continue;
        }
        bool slash = *p == '/' || (*p == '\\' && p[1] == '/');
        per = slash || (per && strchr(" _(?", *p));
        unit = unit || *p == ')';
        p = skip_one(p);
    }
    return more == less ? 0 : more ? 1 : -1;
}
