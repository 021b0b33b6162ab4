/* workload.c - see workload.h: reading a workload and changing single keys; settle.c refuses
 * contradictions. */
#include "bench/workload.h"

#include <ctype.h>
#include <stdio.h>

#include "base/file.h"

#define SMALL "small."

void stk_workload_release(struct stk_workload *w)
{
    stk_arena_release(&w->arena);
    *w = (struct stk_workload){0};
}

void stk_workload_borrow(const struct stk_workload *w, struct stk_workload *out)
{
    *out = *w;
    out->arena = (struct stk_arena)STK_ARENA_INIT;
}

const char *stk_workload_keep(struct stk_workload *w, const char *fmt, ...)
{
    struct stk_buf b = STK_BUF_INIT;
    va_list ap;
    va_start(ap, fmt);
    stk_buf_vprintf(&b, fmt, ap);
    va_end(ap);
    const char *text = b.fail ? NULL : stk_arena_dup(&w->arena, stk_buf_cstr(&b), b.len);
    stk_buf_release(&b);
    return text;
}

/* ---- setting keys --------------------------------------------------------------------------- */

static bool is_grouped(const struct stk_opt *k)
{
    return strncmp(k->name, STK_GROUP_PREFIX "N.", strlen(STK_GROUP_PREFIX) + 2) == 0;
}

/* The workload as the row sees it: shifted so that the field is the one of group g. */
static void *fields_of(const struct stk_workload *w, size_t g)
{
    return (char *)(uintptr_t)w + g * sizeof(struct stk_bench_group);
}

const struct stk_opt *stk_workload_key(const char *key, size_t *group)
{
    char name[64];
    size_t skip = strlen(STK_GROUP_PREFIX);
    *group = 0;
    if (strncmp(key, STK_GROUP_PREFIX, skip) != 0)
        return stk_opt_find(stk_workload_keys, key);
    if (key[skip] < '1' || key[skip] >= '1' + (int)STK_GROUPS || key[skip + 1] != '.')
        return NULL;
    *group = (size_t)(key[skip] - '1');
    snprintf(name, sizeof name, STK_GROUP_PREFIX "N%s", key + skip + 1);
    return stk_opt_find(stk_workload_keys, name);
}

int stk_workload_default(struct stk_workload *w, struct stk_err *err)
{
    int rc = 0;
    *w = (struct stk_workload){0};
    for (const struct stk_opt *k = stk_workload_keys; k->name && rc == 0; k++)
        for (size_t g = 0; k->def && rc == 0 && g < (is_grouped(k) ? STK_GROUPS : 1); g++)
            rc = stk_opt_store(k, fields_of(w, g), k->def, true, &w->arena, err);
    return rc;
}

/* value is copied. line: of the file, or 0. */
static int set_key(struct stk_workload *w, const char *key, const char *value, unsigned line,
                   struct stk_err *err)
{
    size_t group;
    const struct stk_opt *k = stk_workload_key(key, &group);
    if (!k)
        return stk_opt_unknown(stk_workload_keys, "key", "", key, strlen(key), err);
    const char *kept = stk_arena_dup(&w->arena, value, strlen(value));
    if (!kept)
        return stk_err_nomem(err, strlen(value));
    int rc = stk_opt_store(k, fields_of(w, group), kept, true, &w->arena, err);
    w->line[k - stk_workload_keys] = line;
    return rc ? stk_err_wrap(err, rc, "%s", key) : 0;
}

const char *stk_workload_name(const char *word)
{
    const char *found = NULL;
    if (strchr(word, '.') || stk_opt_find(stk_workload_keys, word))
        return word;
    for (const struct stk_opt *k = stk_workload_keys; k->name; k++) {
        const char *dot = strrchr(k->name, '.');
        if (!dot || strcmp(dot + 1, word) != 0)
            continue;
        if (found)
            return word; /* several */
        found = k->name;
    }
    return found ? found : word;
}

int stk_workload_set(struct stk_workload *w, const char *assignment, struct stk_err *err)
{
    char key[64];
    size_t n = strcspn(assignment, "=");
    if (!assignment[n] || n >= sizeof key)
        return stk_err_set(err, STK_E_USAGE, NULL, -1,
                           "\"%.100s\" is not key=value, such as training.batch=8", assignment);
    snprintf(key, sizeof key, "%.*s", (int)n, assignment);
    return set_key(w, stk_workload_name(key), assignment + n + 1, 0, err);
}

static int set_entry(struct stk_workload *w, const struct stk_yaml_entry *e, const char *key,
                     const char *name, struct stk_err *err)
{
    struct stk_err why = {0};
    if (!*e->value)
        return stk_err_set(err, STK_E_USAGE, name, -1, "line %u: %s: a key without a value",
                           e->line, key);
    int rc = set_key(w, key, e->value, e->line, &why);
    if (rc == STK_E_NOMEM)
        return stk_err_nomem(err, strlen(e->value));
    return rc ? stk_err_set(err, rc, name, -1, "line %u: %s", e->line, why.what) : 0;
}

/* The plain keys first, then those of the section `small` over them; both are always checked. */
static int set_all(struct stk_workload *w, const struct stk_yaml *y, const char *name, bool small,
                   struct stk_err *err)
{
    struct stk_workload tried = {0};
    size_t skip = strlen(SMALL);
    int rc = 0;
    for (size_t i = 0; i < y->n && rc == 0; i++)
        if (strncmp(y->item[i].key, SMALL, skip) != 0)
            rc = set_entry(w, &y->item[i], y->item[i].key, name, err);
    for (size_t i = 0; i < y->n && rc == 0; i++)
        if (strncmp(y->item[i].key, SMALL, skip) == 0)
            rc = set_entry(small ? w : &tried, &y->item[i], y->item[i].key + skip, name, err);
    stk_workload_release(&tried);
    return rc;
}

int stk_workload_parse(const char *text, size_t n, const char *name, bool small,
                       struct stk_workload *w, struct stk_err *err)
{
    struct stk_yaml y = {0};
    int rc = stk_workload_default(w, err);
    rc = rc ? rc : stk_yaml_parse(text, n, name, &y, err);
    if (rc == 0)
        rc = set_all(w, &y, name, small, err);
    w->path = stk_arena_dup(&w->arena, name, strlen(name));
    stk_yaml_release(&y);
    return rc;
}

int stk_workload_read(const char *path, bool small, struct stk_workload *w, struct stk_err *err)
{
    struct stk_buf text = STK_BUF_INIT;
    *w = (struct stk_workload){0};
    int rc = stk_read_file(path, STK_WORKLOAD_MAX, &text, err);
    if (rc == 0)
        rc = stk_workload_parse((const char *)text.data, text.len, path, small, w, err);
    stk_buf_release(&text);
    return rc;
}

static uint64_t scaled(uint64_t n, double fraction, uint64_t least)
{
    double v = (double)n * fraction;
    return v > (double)least ? (uint64_t)v : least;
}

void stk_workload_scale(struct stk_workload *w, double fraction)
{
    uint64_t files = w->dataset.files;
    uint64_t least = w->access.sharing == STK_SHARING_OWN ? w->training.ranks : 1;
    w->dataset.files = scaled(files, fraction, least < files ? least : files);
    double rest = fraction * (double)files / (double)w->dataset.files;
    if (w->dataset.eval_files)
        w->dataset.eval_files = scaled(w->dataset.eval_files, fraction, least);
    if (w->training.eval_steps)
        w->training.eval_steps = scaled(w->training.eval_steps, fraction, 1);
    w->dataset.samples_per_file = scaled(w->dataset.samples_per_file, rest < 1 ? rest : 1, 1);
    if (w->dataset.folders > w->dataset.files)
        w->dataset.folders = w->dataset.files;
    if (w->dataset.eval_folders > w->dataset.eval_files)
        w->dataset.eval_folders = w->dataset.eval_files;
    if (w->training.steps)
        w->training.steps = scaled(w->training.steps, fraction, 1);
    if (w->training.steps && w->training.warmup >= w->training.steps)
        w->training.warmup = w->training.steps - 1;
}

/* ---- evaluation ---------------------------------------------------------------------------- */

void stk_workload_eval(const struct stk_workload *w, struct stk_workload *out)
{
    stk_workload_borrow(w, out);
    out->dataset.is_eval = true;
    out->dataset.files = w->dataset.eval_files;
    out->dataset.seed = w->dataset.seed + 1;
    out->dataset.folders = w->dataset.eval_folders;
    out->access.head_reads = 0;
    out->reader.load = STK_LOAD_STEP;
    out->training.steps = w->training.eval_steps;
    out->training.most_steps = out->training.warmup = out->training.cooldown = 0;
    out->training.eval_every = 0;
    if (w->training.eval_batch)
        out->training.batch = w->training.eval_batch;
    out->training.epochs = 1;
    out->training.scaling = STK_SCALING_STRONG;
    out->training.compute = w->training.eval_compute;
    out->model.layers = 0;
}

/* ---- as text, and back ---------------------------------------------------------------------- */

static bool is_plain(const char *text)
{
    for (const char *p = text; *p; p++)
        if (!isalnum((unsigned char)*p) && !strchr("_.-", *p))
            return false;
    return *text;
}

/* A YAML scalar: in double quotes a JSON string. */
static void put_word(struct stk_buf *out, const char *text, bool quote)
{
    struct stk_jw j;
    if (!quote || is_plain(text)) {
        stk_buf_puts(out, text);
        return;
    }
    stk_jw_init(&j, out, false);
    stk_jw_str(&j, text);
}

static double double_at(const void *field)
{
    double d;
    memcpy(&d, field, sizeof d);
    return d;
}

/* A value as a user would write it; quote: as YAML. False: there is none. */
static bool put_text(const struct stk_opt *k, const void *w, bool quote, struct stk_buf *out)
{
    const void *field = (const char *)w + k->offset;
    const char *const *names, *text;
    switch (k->type) {
    case STK_OPT_FLAG:
        stk_buf_puts(out, *(const bool *)field ? "yes" : "no");
        return true;
    case STK_OPT_PERCENT:
        stk_buf_printf(out, "%.12g%%", 100 * double_at(field));
        return true;
    case STK_OPT_DURATION:
        stk_buf_printf(out, "%.9fs", double_at(field));
        return true;
    case STK_OPT_ENUM:
        stk_buf_puts(out, k->choices[stk_opt_number(k, w)]);
        return true;
    case STK_OPT_NAMES:
        memcpy(&names, field, sizeof names);
        for (size_t i = 0; names && names[i]; i++) {
            stk_buf_puts(out, i ? quote ? ", " : "," : quote ? "[" : "");
            put_word(out, names[i], quote);
        }
        stk_buf_puts(out, names && quote ? "]" : "");
        return names;
    case STK_OPT_STRING:
        memcpy(&text, field, sizeof text);
        if (text)
            put_word(out, text, quote);
        return text;
    default:
        stk_buf_printf(out, "%llu", (unsigned long long)stk_opt_number(k, w));
        return true;
    }
}

/* Goes through the keys whose values are not the defaults. */
struct said {
    const struct stk_workload *w;
    struct stk_workload usual;
    const struct stk_opt *key;
    size_t group;
    char name[64];
    struct stk_buf text;
    bool quote;
};

static bool differs(struct said *s, size_t group)
{
    struct stk_buf usual = STK_BUF_INIT;
    const struct stk_opt *k = s->key;
    stk_buf_reset(&s->text);
    bool is = put_text(k, fields_of(s->w, group), s->quote, &s->text);
    bool was = put_text(k, fields_of(&s->usual, group), s->quote, &usual);
    is = is && !(was && strcmp(stk_buf_cstr(&usual), stk_buf_cstr(&s->text)) == 0);
    stk_buf_release(&usual);
    size_t skip = strlen(STK_GROUP_PREFIX);
    if (is_grouped(k))
        snprintf(s->name, sizeof s->name, STK_GROUP_PREFIX "%zu%s", group + 1, k->name + skip + 1);
    else
        snprintf(s->name, sizeof s->name, "%s", k->name);
    return is;
}

/* Group after group, each with all of its keys, in the place of the first of them. */
static bool next(struct said *s)
{
    for (;;) {
        const struct stk_opt *k = s->key ? s->key + 1 : stk_workload_keys;
        if (s->key && is_grouped(s->key) && !is_grouped(k) && ++s->group < s->w->ngroups)
            while (k > stk_workload_keys && is_grouped(k - 1))
                k--;
        if (!k->name)
            return false;
        s->key = k;
        if (differs(s, is_grouped(k) ? s->group : 0))
            return true;
    }
}

static void end(struct said *s)
{
    stk_workload_release(&s->usual);
    stk_buf_release(&s->text);
}

void stk_workload_save(const struct stk_workload *w, struct stk_jw *j)
{
    struct said s = {.w = w, .text = STK_BUF_INIT};
    stk_jw_open(j, '{');
    if (stk_workload_default(&s.usual, NULL) == 0)
        while (next(&s))
            stk_jw_put_str(j, s.name, stk_buf_cstr(&s.text));
    stk_jw_close(j, '}');
    end(&s);
}

int stk_workload_load(struct stk_workload *w, const struct stk_jval *v, struct stk_err *err)
{
    int rc = stk_workload_default(w, err);
    bool is = v && v->type == STK_JOBJ;
    for (size_t i = 0; !rc && is && i < v->len; i++) {
        is = v->item[i].type == STK_JSTR;
        rc = is ? set_key(w, v->name[i].str, v->item[i].str, 0, err) : 0;
    }
    rc = rc || is ? rc : stk_err_set(err, STK_E_CORRUPT, NULL, -1, "is no saved workload");
    return rc ? rc : stk_workload_settle(w, err);
}

/* "dataset:" above "dataset.files" and "files:", "  1:" above "files.1.path", unless they are
 * there. Returns the depth of the key, whose last word is at *word. */
static int put_sections(const char *name, const char *before, const char **word,
                        struct stk_buf *out)
{
    int depth = 0;
    const char *dot;
    bool there = true;
    for (*word = name; (dot = strchr(*word, '.')); *word = dot + 1, depth++) {
        there = there && strncmp(name, before, (size_t)(dot + 1 - name)) == 0;
        if (!there)
            stk_buf_printf(out, "%*s%.*s:\n", 2 * depth, "", (int)(dot - *word), *word);
    }
    return depth;
}

void stk_workload_yaml(const struct stk_workload *w, struct stk_buf *out)
{
    struct said s = {.w = w, .text = STK_BUF_INIT, .quote = true};
    char before[sizeof s.name] = "";
    const char *word;
    if (stk_workload_default(&s.usual, NULL) != 0)
        out->fail = true;
    while (!out->fail && next(&s)) {
        int depth = put_sections(s.name, before, &word, out);
        stk_buf_printf(out, "%*s%s: %s\n", 2 * depth, "", word, stk_buf_cstr(&s.text));
        memcpy(before, s.name, sizeof before);
    }
    end(&s);
}

/* ---- JSON, for programs --------------------------------------------------------------------- */

static void put_value(const struct stk_opt *k, const void *w, struct stk_jw *j)
{
    const void *field = (const char *)w + k->offset;
    const char *text;
    const char *const *names;
    switch (k->type) {
    case STK_OPT_FLAG:
        stk_jw_bool(j, *(const bool *)field);
        break;
    case STK_OPT_PERCENT:
    case STK_OPT_DURATION:
        stk_jw_f64(j, double_at(field));
        break;
    case STK_OPT_ENUM:
        stk_jw_str(j, k->choices[stk_opt_number(k, w)]);
        break;
    case STK_OPT_NAMES:
        memcpy(&names, field, sizeof names);
        stk_jw_open(j, '[');
        for (; names && *names; names++)
            stk_jw_str(j, *names);
        stk_jw_close(j, ']');
        break;
    case STK_OPT_STRING:
        memcpy(&text, field, sizeof text);
        stk_jw_str(j, text);
        break;
    default:
        stk_jw_u64(j, stk_opt_number(k, w));
    }
}

static void put_group(const struct stk_workload *w, size_t g, struct stk_jw *j)
{
    char name[64];
    for (const struct stk_opt *k = stk_workload_keys; k->name; k++) {
        if (!is_grouped(k))
            continue;
        snprintf(name, sizeof name, STK_GROUP_PREFIX "%zu%s", g + 1,
                 k->name + strlen(STK_GROUP_PREFIX) + 1);
        stk_jw_key(j, name);
        put_value(k, fields_of(w, g), j);
    }
}

void stk_workload_json(const struct stk_workload *w, struct stk_jw *j)
{
    for (const struct stk_opt *k = stk_workload_keys; k->name; k++) {
        if (is_grouped(k))
            continue;
        stk_jw_key(j, k->name);
        put_value(k, w, j);
    }
    for (size_t g = 0; g < STK_GROUPS; g++)
        if (w->group[g].path)
            put_group(w, g, j);
}
