/*
 * faults.c - parses and applies rules.
 *
 * A pattern without a slash is matched with the last part of a path, one with a slash with the
 * whole path below the source; `*` crosses slashes.
 */
#include "faults.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"

#define FOR_EVER UINT64_MAX

/* The name of a kind of rule, and the settings it takes. */
static const struct kind {
    const char *name, *keys;
} kinds[] = {
    [FAULT_EIO] = {"eio", " op after count "},     [FAULT_SHORT] = {"short", " bytes count "},
    [FAULT_STALL] = {"stall", " op after count "}, [FAULT_VANISH] = {"vanish", " "},
    [FAULT_SHRINK] = {"shrink", " to "},           [FAULT_FLIP] = {"flip", " offset bit "},
};

void faults_init(struct faults *f)
{
    memset(f, 0, sizeof *f);
    pthread_mutex_init(&f->lock, NULL);
}

/* ---- reading ------------------------------------------------------------------------------- */

static int bad(struct stk_err *err, const char *why, const char *word)
{
    return stk_err_set(err, STK_E_USAGE, NULL, -1, "%s: \"%s\"", why, word);
}

static bool takes(enum fault fault, const char *key)
{
    char padded[32];
    int n = snprintf(padded, sizeof padded, " %s ", key);
    return n > 0 && (size_t)n < sizeof padded && strstr(kinds[fault].keys, padded);
}

static int read_setting(struct rule *rule, char *word, struct stk_err *err)
{
    char *value = strchr(word, '=');
    if (!value)
        return bad(err, "expected KEY=VALUE", word);
    *value++ = '\0';
    if (!takes(rule->fault, word))
        return bad(err, "no setting of this fault", word);
    if (strcmp(word, "op") == 0)
        return pace_op_find(value, &rule->op) ? 0 : bad(err, "not open, stat, read, write", value);
    if (strcmp(word, "count") == 0)
        return stk_parse_u64(value, &rule->left, err);
    if (strcmp(word, "after") == 0)
        return stk_parse_size(value, &rule->after, err);
    if (strcmp(word, "bit") != 0)
        return stk_parse_size(value, &rule->value, err);
    uint64_t bit;
    int rc = stk_parse_u64(value, &bit, err);
    if (rc == 0 && bit > 7)
        rc = bad(err, "a bit is 0 to 7", value);
    rule->bit = rc == 0 ? (unsigned)bit : 0;
    return rc;
}

static int read_stall(struct rule *rule, const char *word, struct stk_err *err)
{
    double seconds;
    int rc = stk_parse_duration(word ? word : "", &seconds, err);
    if (rc == 0 && seconds > 86400)
        rc = bad(err, "longer than a day", word);
    rule->value = rc == 0 ? (uint64_t)(seconds * 1e9) : 0;
    return rc;
}

static int find_kind(const char *word, enum fault *fault, struct stk_err *err)
{
    for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(word, kinds[i].name) == 0) {
            *fault = (enum fault)i;
            return 0;
        }
    }
    return bad(err, "not eio, short, stall, vanish, shrink, flip or clear", word);
}

/* line is changed. */
static int read_rule(char *line, struct rule *rule, struct stk_err *err)
{
    *rule = (struct rule){.op = OP_READ, .left = FOR_EVER};
    if (strlen(line) >= sizeof rule->text)
        return bad(err, "line too long", "...");
    memcpy(rule->text, line, strlen(line) + 1);
    char *rest = NULL, *word = strtok_r(line, " \t", &rest);
    int rc = find_kind(word, &rule->fault, err);
    if (rc != 0)
        return rc;
    const char *pattern = strtok_r(NULL, " \t", &rest);
    if (!pattern || strlen(pattern) >= sizeof rule->pattern)
        return bad(err, "expected a pattern of up to 255 bytes after", kinds[rule->fault].name);
    memcpy(rule->pattern, pattern, strlen(pattern) + 1);
    if (rule->fault == FAULT_STALL)
        rc = read_stall(rule, strtok_r(NULL, " \t", &rest), err);
    while (rc == 0 && (word = strtok_r(NULL, " \t", &rest)))
        rc = read_setting(rule, word, err);
    return rc;
}

/* Adds one line to the copy that replaces the rules when all lines are valid. */
static int command_line(char *line, struct rule *rule, unsigned *count, struct stk_err *err)
{
    line += strspn(line, " \t");
    line[strcspn(line, "#\r")] = '\0';
    if (!*line)
        return 0;
    if (strncmp(line, "clear", 5) == 0 && !line[5 + strspn(line + 5, " \t")]) {
        *count = 0;
        return 0;
    }
    if (*count == MAX_RULES)
        return bad(err, "too many rules", line);
    int rc = read_rule(line, &rule[*count], err);
    *count += rc == 0;
    return rc;
}

int faults_command(struct faults *f, const char *text, size_t size, struct stk_err *err)
{
    static const size_t longest = 64 << 10;
    if (size > longest || memchr(text, '\0', size))
        return bad(err, "not a list of rules", "");
    char *copy = strndup(text, size);
    struct rule *rule = calloc(MAX_RULES, sizeof *rule);
    int rc = copy && rule ? 0 : stk_err_nomem(err, size);
    pthread_mutex_lock(&f->lock);
    unsigned count = f->count;
    if (rc == 0)
        memcpy(rule, f->rule, count * sizeof *rule);
    char *rest = copy;
    for (int64_t number = 1; rc == 0 && rest; number++) {
        char *line = strsep(&rest, "\n");
        rc = command_line(line, rule, &count, err);
        if (rc != 0 && err)
            err->offset = number;
    }
    if (rc == 0) {
        memcpy(f->rule, rule, count * sizeof *rule);
        f->count = count;
        f->version++;
    }
    pthread_mutex_unlock(&f->lock);
    free(copy);
    free(rule);
    return rc;
}

void faults_pass_stalls(struct faults *f, bool on)
{
    f->passing = on;
}

/* ---- asking -------------------------------------------------------------------------------- */

static bool rule_matches(const struct rule *rule, const char *path)
{
    if (!strchr(rule->pattern, '/')) {
        const char *slash = strrchr(path, '/');
        path = slash ? slash + 1 : path;
    }
    return fnmatch(rule->pattern, path, 0) == 0;
}

bool faults_match(const struct rule *rule, size_t n, const char *path)
{
    for (size_t i = 0; i < n; i++)
        if (rule_matches(&rule[i], path))
            return true;
    return false;
}

/* Counts the strike. */
static bool strikes(struct rule *rule)
{
    if (!rule->left)
        return false;
    if (rule->left != FOR_EVER)
        rule->left--;
    rule->hits++;
    return true;
}

static void apply(struct rule *rule, enum op op, uint64_t end, bool unbuffered, struct effect *e)
{
    bool asked = rule->op == op && (op != OP_READ || end > rule->after);
    switch (rule->fault) {
    case FAULT_EIO:
        if (asked && !e->error && strikes(rule))
            e->error = EIO;
        break;
    case FAULT_STALL:
        if (asked && strikes(rule))
            e->stall_ns += rule->value;
        break;
    case FAULT_VANISH:
        if (strikes(rule)) /* open files are stale, as over NFS */
            e->error = op == OP_OPEN || op == OP_STAT ? ENOENT : ESTALE;
        break;
    case FAULT_SHRINK:
        if (end > rule->value && strikes(rule) && rule->value < e->size_limit)
            e->size_limit = rule->value;
        break;
    case FAULT_SHORT:
        if (op == OP_READ && unbuffered && strikes(rule)) {
            e->is_short = true;
            e->short_bytes = rule->value;
        }
        break;
    case FAULT_FLIP:
        break; /* in the data: faults_flip() */
    }
}

struct effect faults_ask(struct faults *f, const char *path, enum op op, uint64_t offset,
                         uint64_t size, bool unbuffered)
{
    struct effect e = NO_EFFECT;
    if (!f->count)
        return e;
    pthread_mutex_lock(&f->lock);
    e.version = f->version;
    for (unsigned i = 0; i < f->count; i++) {
        bool lets_pass = f->passing && f->rule[i].fault == FAULT_STALL;
        if (!lets_pass && rule_matches(&f->rule[i], path))
            apply(&f->rule[i], op, offset + size, unbuffered, &e);
    }
    pthread_mutex_unlock(&f->lock);
    return e;
}

uint64_t faults_size_limit(struct faults *f, const char *path)
{
    uint64_t limit = UINT64_MAX;
    if (!f->count)
        return limit;
    pthread_mutex_lock(&f->lock);
    for (unsigned i = 0; i < f->count; i++) {
        const struct rule *rule = &f->rule[i];
        if (rule->fault == FAULT_SHRINK && rule->value < limit && rule_matches(rule, path))
            limit = rule->value;
    }
    pthread_mutex_unlock(&f->lock);
    return limit;
}

bool faults_vanished(struct faults *f, const char *path)
{
    bool vanished = false;
    if (!f->count)
        return false;
    pthread_mutex_lock(&f->lock);
    for (unsigned i = 0; i < f->count && !vanished; i++)
        vanished = f->rule[i].fault == FAULT_VANISH && rule_matches(&f->rule[i], path);
    pthread_mutex_unlock(&f->lock);
    return vanished;
}

bool faults_by_call(struct faults *f, const char *path)
{
    bool by_call = false;
    if (!f->count)
        return false;
    pthread_mutex_lock(&f->lock);
    for (unsigned i = 0; i < f->count && !by_call; i++) {
        const struct rule *rule = &f->rule[i];
        by_call = (rule->fault == FAULT_SHORT || (rule->op == OP_READ && rule->left != FOR_EVER)) &&
                  rule_matches(rule, path);
    }
    pthread_mutex_unlock(&f->lock);
    return by_call;
}

void faults_flip(struct faults *f, const char *path, uint64_t offset, uint8_t *data, size_t n)
{
    if (!f->count)
        return;
    pthread_mutex_lock(&f->lock);
    for (unsigned i = 0; i < f->count; i++) {
        struct rule *rule = &f->rule[i];
        if (rule->fault == FAULT_FLIP && rule->value >= offset && rule->value - offset < n &&
            rule_matches(rule, path)) {
            data[rule->value - offset] ^= (uint8_t)(1u << rule->bit);
            rule->hits++;
        }
    }
    pthread_mutex_unlock(&f->lock);
}

/* ---- showing ------------------------------------------------------------------------------- */

size_t faults_copy(struct faults *f, struct rule out[MAX_RULES])
{
    pthread_mutex_lock(&f->lock);
    size_t count = f->count;
    memcpy(out, f->rule, count * sizeof *out);
    pthread_mutex_unlock(&f->lock);
    return count;
}

void faults_list(struct faults *f, struct stk_buf *out)
{
    pthread_mutex_lock(&f->lock);
    for (unsigned i = 0; i < f->count; i++)
        stk_buf_printf(out, "%s  # %llu hits\n", f->rule[i].text,
                       (unsigned long long)f->rule[i].hits);
    pthread_mutex_unlock(&f->lock);
}
