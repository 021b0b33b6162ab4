/*
 * output.c - the output of a command: kept in an unnamed file while it runs, searched line by line
 * for the metric, and shown in part after a failure; what the expression of a metric says about it:
 * its name, and whether more of it is better.
 */
#include "study/priv.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/num.h"
#include "base/own.h"
#include "base/stats.h"
#include "base/text.h"

#define LINE_MAX_BYTES 65536 /* a longer line is searched in parts: regexec() may be quadratic */
#define MATCHES_MAX    100000

/* ---- the file ----------------------------------------------------------------------------- */

int stk_output_open(int *fd, struct stk_err *err)
{
    const char *dir = getenv("TMPDIR");
    dir = dir && *dir ? dir : "/tmp";
    *fd = stk_create_nameless(dir);
    /* All writers append. */
    if (*fd >= 0 && fcntl(*fd, F_SETFL, O_APPEND) == 0)
        return 0;
    int rc = stk_err_sys(err, dir, "cannot keep the output of a run");
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
    return rc;
}

int stk_output_reset(int fd, struct stk_err *err)
{
    return ftruncate(fd, 0) == 0 ? 0 : stk_err_sys(err, NULL, "emptying the output of a run");
}

int stk_output_read(int fd, bool head, struct stk_buf *b, struct stk_err *err)
{
    struct stat st;
    size_t got = 0;
    stk_buf_reset(b);
    if (fstat(fd, &st) != 0)
        return stk_err_sys(err, NULL, "the output of a run");
    size_t size = st.st_size > STK_OUTPUT_MAX ? STK_OUTPUT_MAX : (size_t)st.st_size;
    void *to = stk_buf_room(b, size + 1);
    if (!to)
        return stk_err_nomem(err, size);
    uint64_t from = head ? 0 : (uint64_t)st.st_size - size;
    int rc = stk_pread_full(fd, to, size, from, &got, "output", err);
    b->len = rc ? 0 : got;
    (void)stk_buf_cstr(b);
    return rc;
}

/* The line that ends at *end, without the text before it; false: none. */
static bool line_before(const char *text, size_t *start, size_t *end)
{
    while (*end && memchr(" \t\r\n\0", text[*end - 1], 5))
        --*end;
    *start = *end;
    while (*start && text[*start - 1] != '\n' && text[*start - 1] != '\r')
        --*start;
    return *end > 0;
}

/* A line of dashes says nothing. */
static bool has_word(const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (isalnum((unsigned char)p[i]) || (unsigned char)p[i] >= 0x80)
            return true;
    return false;
}

/* A member of a result in JSON: a program that prints one at its end has complained before it. */
static bool is_member(const char *p, size_t n)
{
    size_t i = 0;
    while (i < n && (p[i] == ' ' || p[i] == '\t'))
        i++;
    return i < n && p[i] == '"';
}

/* Finds the last line that says something. */
static bool find_last(const char *text, size_t len, bool members, size_t *start, size_t *end)
{
    bool found;
    *end = len;
    while ((found = line_before(text, start, end)) &&
           (!has_word(text + *start, *end - *start) ||
            (!members && is_member(text + *start, *end - *start))))
        *end = *start;
    return found;
}

void stk_output_last_line(const struct stk_buf *b, char *out, size_t size)
{
    const char *text = (const char *)b->data;
    size_t end, start = 0;
    out[0] = '\0';
    if (!find_last(text, b->len, false, &start, &end))
        (void)find_last(text, b->len, true, &start, &end);
    size_t n = 0;
    for (size_t len; start < end; start += len) { /* whole characters; the display escapes them */
        uint32_t cp;
        len = stk_utf8_next(text + start, end - start, &cp);
        if (n + (len ? len : 1) >= size)
            break;
        if (len)
            memcpy(out + n, text + start, len);
        else
            out[n] = '?';
        len = len ? len : 1;
        n += len;
    }
    out[n] = '\0';
}

/* ---- the metric --------------------------------------------------------------------------- */

int stk_metric_init(struct stk_metric *m, const char *regex, enum stk_metric_pick pick,
                    struct stk_err *err)
{
    char why[200];
    *m = (struct stk_metric){.pick = pick};
    if (pick == STK_METRIC_MEMBER) {
        m->member = regex;
        return 0;
    }
    int bad = regcomp(&m->regex, regex, REG_EXTENDED | REG_NEWLINE);
    if (bad) {
        regerror(bad, &m->regex, why, sizeof why);
        return stk_err_set(err, STK_E_USAGE, NULL, -1, "--metric: %s: %.100s", why, regex);
    }
    m->compiled = true;
    if (m->regex.re_nsub >= 1)
        return 0;
    stk_metric_release(m);
    return stk_err_set(err, STK_E_USAGE, NULL, -1,
                       "--metric: put the number in parentheses, as in 'images/s: ([0-9.]+)'");
}

void stk_metric_release(struct stk_metric *m)
{
    if (m->compiled)
        regfree(&m->regex);
    m->compiled = false;
}

int stk_metric_check(const char *regex, struct stk_err *err)
{
    struct stk_metric m;
    int rc = stk_metric_init(&m, regex, STK_METRIC_LAST, err);
    stk_metric_release(&m);
    return rc;
}

struct matches {
    double *v;
    size_t n;
    bool more; /* whether another match is useful */
};

static void keep_match(const struct stk_metric *m, struct matches *all, double value)
{
    if (m->pick != STK_METRIC_MEDIAN && all->n) {
        all->v[0] = value; /* the last so far; for the first, matching stops here */
        return;
    }
    if (all->n == MATCHES_MAX || STK_ARRAY_MORE(all->v, all->n, NULL))
        return;
    all->v[all->n++] = value;
    all->more = m->pick != STK_METRIC_FIRST;
}

static void search_line(const struct stk_metric *m, const char *line, struct matches *all)
{
    regmatch_t at[2];
    for (int flags = 0; all->more && regexec(&m->regex, line, 2, at, flags) == 0;
         flags = REG_NOTBOL) {
        int64_t i;
        double value;
        if (at[1].rm_so >= 0 &&
            stk_num_parse(line + at[1].rm_so, (size_t)(at[1].rm_eo - at[1].rm_so), &i, &value) !=
                STK_NUM_NONE)
            keep_match(m, all, value);
        if (at[0].rm_eo == 0)
            return; /* an empty match: cannot advance */
        line += at[0].rm_eo;
    }
}

bool stk_output_member(const char *text, size_t len, const char *member, double *value)
{
    struct stk_arena arena = STK_ARENA_INIT;
    struct stk_jval *v = NULL;
    size_t end = len && text[len - 1] == '\n' ? len - 1 : len;
    const char *before = end ? memrchr(text, '\n', end) : NULL, *line = before ? before + 1 : text;
    size_t n = (size_t)(text + end - line);
    bool is = stk_json_parse(&arena, line, n, &v, NULL) == 0 && v->type == STK_JOBJ;
    const struct stk_jval *x = is ? stk_json_get(v, member) : NULL;
    is = x && (x->type == STK_JINT || x->type == STK_JFLOAT);
    *value = is ? x->f : *value;
    stk_arena_release(&arena);
    return is;
}

bool stk_metric_find(const struct stk_metric *m, char *text, size_t len, double *value)
{
    if (m->member)
        return stk_output_member(text, len, m->member, value);
    struct matches all = {.more = true};
    for (size_t at = 0; at < len && all.more;) {
        char *end = memchr(text + at, '\n', len - at);
        size_t n = end ? (size_t)(end - (text + at)) : len - at, step = n + 1;
        n = n > LINE_MAX_BYTES ? LINE_MAX_BYTES : n;
        step = n == LINE_MAX_BYTES ? n : step;
        char was = text[at + n];
        text[at + n] = '\0';
        search_line(m, text + at, &all);
        text[at + n] = was;
        at += step;
    }
    if (all.n)
        *value = stk_median(all.v, all.n);
    free(all.v);
    return all.n > 0;
}

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
