/*
 * secret.c - finds words that look like secrets. Also compiled into the preload library, so it uses
 * only the language and <string.h>.
 */
#include "base/secret.h"

#include <string.h>

/* What a name says about its value. */
enum says {
    NOTHING,
    SECRET, /* any value */
    LIKELY, /* any value but a number or a mark such as <pad> */
    LOGIN,  /* NAME:PASSWORD: what follows the colon */
};

enum when { ALWAYS, AS_END, AFTER_ANY, AFTER, NOT_AFTER };

/* A name is cut into parts at - _ . and before capitals: "hf-token", "HF_TOKEN" and "hfToken" are
 * "hf" and "token". The last part is looked up here; the one before it may decide. */
static const struct name {
    const char *last;
    enum says says;
    enum when when;
    const char *others; /* parts before it, of AFTER and NOT_AFTER */
    const char *why;
} names[] = {
    {"password", SECRET, AS_END, NULL, "also at the end of a part: PGPASSWORD"},
    {"passwd", SECRET, AS_END, NULL, "the same"},
    {"passphrase", SECRET, AS_END, NULL, "the same"},
    {"sshpass", SECRET, ALWAYS, NULL, "a variable of that name; -pass alone would be `bypass`"},
    {"pass", LIKELY, ALWAYS, NULL, "DB_PASS; but `-pass 2` of encoders is a number"},
    {"pwd", SECRET, AFTER_ANY, NULL, "MYSQL_PWD; alone it is the working folder"},
    {"secret", SECRET, ALWAYS, NULL, "the word itself"},
    {"credential", SECRET, ALWAYS, NULL, "the word itself; masking a path loses little"},
    {"credentials", SECRET, ALWAYS, NULL, "the same"},
    {"token", LIKELY, NOT_AFTER,
     " pad eos bos unk mask cls sep sos special image audio video start end stop begin per max min "
     "num next first last new word sub prefix suffix class target source trigger placeholder "
     "instance decoder encoder prompt ",
     "after these it is a token of text; --hf-token is not"},
    {"apitoken", SECRET, ALWAYS, NULL, "spelled as one word"},
    {"authtoken", SECRET, ALWAYS, NULL, "spelled as one word"},
    {"accesstoken", SECRET, ALWAYS, NULL, "spelled as one word"},
    {"key", SECRET, AFTER,
     " api secret access private auth encryption signing master account service client license "
     "storage shared ",
     "a key alone is a name (--image-key jpg, --sort-key)"},
    {"apikey", SECRET, ALWAYS, NULL, "spelled as one word"},
    {"secretkey", SECRET, ALWAYS, NULL, "spelled as one word"},
    {"accesskey", SECRET, ALWAYS, NULL, "spelled as one word"},
    {"authkey", SECRET, ALWAYS, NULL, "spelled as one word"},
    {"authorization", SECRET, ALWAYS, NULL, "a header of HTTP"},
    {"cookie", SECRET, ALWAYS, NULL, "a header of HTTP that logs in"},
    {"jwt", SECRET, ALWAYS, NULL, "logs in; SLURM_JWT is one"},
    {"signature", SECRET, ALWAYS, NULL, "in a link that anyone who has it may use"},
    {"sig", SECRET, ALWAYS, NULL, "the same, on Azure"},
    {"auth", LOGIN, ALWAYS, NULL, "--auth NAME:PASSWORD; `--auth kerberos` names a way"},
    {"user", LOGIN, ALWAYS, NULL, "curl --user NAME:PASSWORD"},
    {"u", LOGIN, ALWAYS, NULL, "curl -u NAME:PASSWORD"},
    {"userpwd", LOGIN, ALWAYS, NULL, "the same"},
};

/* Values recognised by their form: nothing else looks like them. */
static const struct form {
    const char *begin;
    size_t least; /* bytes */
    const char *why;
} forms[] = {
    {"ghp_", 20, "GitHub"},
    {"gho_", 20, "GitHub"},
    {"ghs_", 20, "GitHub"},
    {"github_pat_", 30, "GitHub"},
    {"glpat-", 20, "GitLab"},
    {"hf_", 30, "Hugging Face"},
    {"sk-", 32, "OpenAI and like"},
    {"xoxb-", 20, "Slack"},
    {"xoxp-", 20, "Slack"},
    {"AKIA", 20, "Amazon"},
    {"eyJ", 60, "a web token: {\" in base 64"},
};

#define FORM_LEAST 20 /* of all of them */
#define NONE       ((size_t)-1)

/* ---- characters --------------------------------------------------------------------------- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_upper(char c)
{
    return c >= 'A' && c <= 'Z';
}

static bool is_lower(char c)
{
    return c >= 'a' && c <= 'z';
}

static bool in_name(char c)
{
    return is_digit(c) || is_upper(c) || is_lower(c) || c == '-' || c == '_' || c == '.';
}

static bool is_one_of(char c, const char *set)
{
    return c && strchr(set, c);
}

static bool is_blank(char c)
{
    return is_one_of(c, " \t\r\n");
}

static bool same(const char *a, const char *b, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char c = is_upper(a[i]) ? (char)(a[i] - 'A' + 'a') : a[i];
        if (c != b[i])
            return false;
    }
    return true;
}

/* ---- names -------------------------------------------------------------------------------- */

/* The start of the part that ends at `end`. */
static size_t part_begin(const char *name, size_t end)
{
    size_t i = end;
    while (i > 0 && !is_one_of(name[i - 1], "-_.")) {
        i--;
        if (i > 0 && is_upper(name[i]) && (is_lower(name[i - 1]) || is_digit(name[i - 1])))
            break;
    }
    return i;
}

/* True if the word of n bytes is in " a b c ". */
static bool is_listed(const char *word, size_t n, const char *list)
{
    for (const char *p = list + 1; *p; p += strcspn(p, " ") + 1)
        if (strcspn(p, " ") == n && same(word, p, n))
            return true;
    return false;
}

static bool fits(const struct name *rule, const char *name, size_t begin)
{
    size_t end = begin;
    while (end > 0 && is_one_of(name[end - 1], "-_."))
        end--;
    size_t before = part_begin(name, end);
    bool any = end > before;
    switch (rule->when) {
    case AFTER_ANY:
        return any;
    case AFTER:
        return any && is_listed(name + before, end - before, rule->others);
    case NOT_AFTER:
        return !any || !is_listed(name + before, end - before, rule->others);
    case ALWAYS:
    case AS_END:
        break;
    }
    return true;
}

static enum says name_says(const char *name, size_t n)
{
    while (n && is_one_of(name[n - 1], "-_."))
        n--;
    size_t begin = part_begin(name, n), len = n - begin;
    size_t dashes = 0;
    while (dashes < n && name[dashes] == '-')
        dashes++;
    if (n - dashes > 3 && same(name + dashes, "no-", 3))
        return NOTHING;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const struct name *rule = &names[i];
        size_t want = strlen(rule->last);
        bool found = rule->when == AS_END ? len >= want && same(name + n - want, rule->last, want)
                                          : len == want && same(name + begin, rule->last, want);
        if (found && fits(rule, name, begin))
            return rule->says;
    }
    return NOTHING;
}

/* ---- values ------------------------------------------------------------------------------- */

static bool is_number(const char *v, size_t n)
{
    size_t digits = 0;
    for (size_t i = 0; i < n; i++) {
        if (!is_digit(v[i]) && !is_one_of(v[i], ".+-,xekKMGT"))
            return false;
        digits += is_digit(v[i]);
    }
    return digits > 0;
}

/* A switch, a variable that a shell will replace, a mark: these reveal nothing. */
static bool is_harmless(const char *v, size_t n)
{
    return !n || v[0] == '$' || v[0] == '{' ||
           is_listed(v, n, " true false none null yes no auto ") ||
           (n == strlen(STK_SECRET_MASK) && memcmp(v, STK_SECRET_MASK, n) == 0);
}

/* The part of the value that is a secret, if any. */
static bool judge(enum says says, const char *word, size_t *begin, size_t *len)
{
    const char *v = word + *begin, *colon = NULL;
    if (says == NOTHING || is_harmless(v, *len))
        return false;
    if (says == LIKELY)
        return !is_number(v, *len) && !is_one_of(v[0], "<[");
    if (says != LOGIN)
        return true;
    colon = memchr(v, ':', *len);
    size_t name = colon ? (size_t)(colon - v) + 1 : *len;
    if (name == *len || is_number(v + name, *len - name) || v[name] == '/')
        return false;
    *begin += name;
    *len -= name;
    return true;
}

static bool has_form(const char *run, size_t n)
{
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        size_t len = strlen(forms[i].begin);
        if (n >= forms[i].least && memcmp(run, forms[i].begin, len) == 0)
            return true;
    }
    return false;
}

/* The end of the value that begins at `at`. */
static size_t value_end(const char *w, size_t n, size_t at, char quote)
{
    while (at < n &&
           (quote ? w[at] != quote : !is_blank(w[at]) && !is_one_of(w[at], ",;&|\"'`)}<>")))
        at++;
    return at;
}

/* ---- where they occur --------------------------------------------------------------------- */

static size_t skip_blanks(const char *w, size_t n, size_t at)
{
    while (at < n && is_blank(w[at]))
        at++;
    return at;
}

/* The value that begins at `at`, maybe in quotes. "Bearer xyz" is one value. */
static bool take_value(enum says says, const char *w, size_t n, size_t at, size_t *begin,
                       size_t *len)
{
    static const char *const ways[] = {"bearer ", "basic ", "token "};
    at = skip_blanks(w, n, at);
    char quote = at < n && is_one_of(w[at], "\"'") ? w[at] : 0;
    at += quote != 0;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        if (n - at > strlen(ways[i]) && same(w + at, ways[i], strlen(ways[i]))) {
            at += strlen(ways[i]);
            break;
        }
    *begin = at;
    *len = value_end(w, n, at, quote) - at;
    return judge(says, w, begin, len);
}

/* scheme://NAME:PASSWORD@host; at: of "://". */
static bool take_url(const char *w, size_t n, size_t at, size_t *begin, size_t *len)
{
    size_t from = at + 3, host = NONE, colon = NONE;
    for (size_t i = from; i < n && !is_blank(w[i]) && !is_one_of(w[i], "/?#\"'"); i++) {
        if (w[i] == '@')
            host = i;
        if (w[i] == ':' && colon == NONE)
            colon = i;
    }
    if (host == NONE)
        return false;
    *begin = colon < host ? colon + 1 : from;
    *len = host - *begin;
    return (colon < host || has_form(w + from, *len)) && !is_harmless(w + *begin, *len);
}

/* NAME=VALUE, NAME: VALUE, "NAME": "VALUE"; end: of the name. */
static bool take_pair(enum says says, const char *w, size_t n, size_t name, size_t end,
                      size_t *begin, size_t *len)
{
    size_t at = end + (end < n && is_one_of(w[end], "\"'"));
    at = skip_blanks(w, n, at);
    if (at >= n || !is_one_of(w[at], "=:") || (at + 1 < n && w[at + 1] == '='))
        return false;
    bool whole = name == 0 && at == end && w[at] == '=';
    if (at + 1 < n && w[at] == ':' && w[at + 1] == '/')
        return false; /* a bind mount of a folder, a URL */
    if (!whole)
        return take_value(says, w, n, at + 1, begin, len);
    *begin = at + 1;
    *len = n - *begin;
    return judge(says, w, begin, len);
}

/* --NAME VALUE, within one word or over two. */
static bool take_option(struct stk_secret *s, enum says says, const char *w, size_t n, size_t end,
                        size_t *begin, size_t *len)
{
    if (end == n) {
        s->next = (int)says;
        return false;
    }
    size_t at = is_blank(w[end]) ? skip_blanks(w, n, end) : n;
    if (at + 1 >= n || (w[at] == '-' && w[at + 1] == '-'))
        return false;
    return take_value(says, w, n, at, begin, len);
}

/* Checks the name at [at..end). */
static bool look_at(struct stk_secret *s, const char *w, size_t n, size_t at, size_t end,
                    size_t *begin, size_t *len)
{
    bool path = at > 0 && w[at - 1] == '/';
    *begin = at;
    *len = end - at;
    if (end - at >= FORM_LEAST && has_form(w + at, end - at))
        return true;
    if (n - end > 3 && memcmp(w + end, "://", 3) == 0)
        return take_url(w, n, end, begin, len);
    if (end < n && is_blank(w[end]) && end - at == 6 && same(w + at, "bearer", 6))
        return take_value(LIKELY, w, n, end, begin, len) && *len >= 8;
    bool option = w[at] == '-';
    bool named = end < n ? is_blank(w[end]) || is_one_of(w[end], "=:\"'") : option;
    enum says says = named && !path ? name_says(w + at, end - at) : NOTHING;
    if (says == NOTHING || (says == LOGIN && !option))
        return false;
    return take_pair(says, w, n, at, end, begin, len) ||
           (option && take_option(s, says, w, n, end, begin, len));
}

size_t stk_secret_find(struct stk_secret *s, const char *word, size_t n, size_t from, size_t *len)
{
    enum says expected = from ? NOTHING : (enum says)s->next;
    size_t begin = 0;
    *len = n;
    if (!from)
        s->next = NOTHING;
    if (expected != NOTHING && !(n > 1 && word[0] == '-' && word[1] == '-') &&
        judge(expected, word, &begin, len))
        return begin;
    for (size_t at = from; at < n;) {
        size_t end = at;
        while (end < n && in_name(word[end]))
            end++;
        if (end > at && look_at(s, word, n, at, end, &begin, len) && begin >= from)
            return begin;
        at = end > at ? end : at + 1;
    }
    return n;
}
