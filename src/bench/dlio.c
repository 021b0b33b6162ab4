/* dlio.c - see dlio.h: takes the keys of a file of DLIO one by one, as dlio_keys.c says. */
#include "bench/dlio.h"

#include <stdio.h>
#include <strings.h>

#include "base/file.h"
#include "base/text.h"
#include "bench/dlio_priv.h"
#include "bench/yaml.h"

/* DLIO's defaults that are not ours. */
static const char *const defaults[] = {
    "dataset.format=tfrecord", "dataset.files=8", "model.hidden=2048",
    "model.ffn=8192",          "training.eval_batch=1",
};

void stk_dlio_release(struct stk_dlio *d)
{
    stk_buf_release(&d->unused);
}

static int row_of(const char *key)
{
    for (size_t i = 0; i < stk_dlio_nrows; i++)
        if (strcmp(stk_dlio_rows[i].key, key) == 0)
            return (int)i;
    return -1;
}

const char *stk_dlio_kept(const struct stk_dlio_reading *r, const char *key)
{
    return r->value[row_of(key)];
}

/* ---- refusing ------------------------------------------------------------------------------- */

static int refuse_at(const struct stk_dlio_reading *r, unsigned line, const char *key,
                     struct stk_err *err, const char *why)
{
    char where[32] = "";
    if (line)
        snprintf(where, sizeof where, "line %u: ", line);
    return stk_err_set(err, STK_E_UNSUPPORTED, r->path, -1, "%s%s: %s", where, key, why);
}

int stk_dlio_refuse(const struct stk_dlio_reading *r, const char *key, struct stk_err *err,
                    const char *fmt, ...)
{
    char why[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    return refuse_at(r, r->line[row_of(key)], key, err, why);
}

static int unknown(const struct stk_dlio_reading *r, unsigned line, const char *key,
                   struct stk_err *err)
{
    const char *names[STK_DLIO_ROWS + 1];
    char why[200];
    for (size_t i = 0; i < stk_dlio_nrows; i++)
        names[i] = stk_dlio_rows[i].key;
    names[stk_dlio_nrows] = NULL;
    const char *near = stk_text_nearest(key, names);
    snprintf(why, sizeof why, "this key of DLIO is not replayed here%s%s%s",
             near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
    return refuse_at(r, line, key, err, why);
}

/* The value is none of the words of `list`: a=b for PICKS, whose first word is our key. */
static int not_listed(const struct stk_dlio_reading *r, const struct stk_dlio_row *row, const char *value,
                      struct stk_err *err)
{
    char words[300] = "";
    size_t n = 0;
    const char *p = row->arg + (row->how == STK_DLIO_PICKS ? strcspn(row->arg, " ") + 1 : 0);
    for (size_t len; *p && n < sizeof words - 40; p += len, p += strspn(p, " ")) {
        len = strcspn(p, " ");
        n += (size_t)snprintf(words + n, sizeof words - n, " %.*s", (int)strcspn(p, "= "), p);
    }
    return stk_dlio_refuse(r, row->key, err, "\"%.60s\" is not replayed here, only:%s%s%s", value,
                           words, row->why ? "; " : "", row->why ? row->why : "");
}

/* ---- single keys ---------------------------------------------------------------------------- */

bool stk_dlio_is_true(const char *text)
{
    return text && (strcasecmp(text, "true") == 0 || strcasecmp(text, "yes") == 0 ||
                    strcmp(text, "1") == 0);
}

/* The word of the list that is the value, or has it before a "=". True and False are written in
 * any case. NULL: none. */
static const char *listed(const char *list, const char *value)
{
    size_t n = strlen(value);
    for (const char *p = list; *p; p += strcspn(p, " "), p += *p == ' ')
        if (strncasecmp(p, value, n) == 0 && (p[n] == ' ' || p[n] == '\0' || p[n] == '='))
            return p;
    return NULL;
}

int stk_dlio_set(struct stk_dlio_reading *r, const char *key, const char *ours, const char *value,
                 struct stk_err *err)
{
    char text[600];
    struct stk_err why = {0};
    snprintf(text, sizeof text, "%s=%s", ours,
             strcasecmp(value, "true") == 0    ? "yes"
             : strcasecmp(value, "false") == 0 ? "no"
                                               : value);
    int rc = stk_workload_set(r->w, text, &why);
    return rc == STK_E_NOMEM ? stk_err_nomem(err, strlen(value))
           : rc              ? stk_dlio_refuse(r, key, err, "%s", why.what)
                             : 0;
}

static int pick(struct stk_dlio_reading *r, const struct stk_dlio_row *row, const char *value,
                struct stk_err *err)
{
    char ours[64], to[64];
    size_t n = strcspn(row->arg, " ");
    snprintf(ours, sizeof ours, "%.*s", (int)n, row->arg);
    const char *p = listed(row->arg + n + 1, value);
    if (!p)
        return not_listed(r, row, value, err);
    p += strlen(value) + 1;
    snprintf(to, sizeof to, "%.*s", (int)strcspn(p, " "), p);
    return stk_dlio_set(r, row->key, ours, to, err);
}

static int apply(struct stk_dlio_reading *r, const struct stk_dlio_row *row, const char *value,
                 struct stk_err *err)
{
    switch (row->how) {
    case STK_DLIO_SETS:
        return stk_dlio_set(r, row->key, row->arg, value, err);
    case STK_DLIO_PICKS:
        return pick(r, row, value, err);
    case STK_DLIO_ALLOWS:
        return listed(row->arg, value) ? 0 : not_listed(r, row, value, err);
    case STK_DLIO_REFUSES:
        return stk_dlio_refuse(r, row->key, err, "%s", row->why);
    case STK_DLIO_SKIPS:
        stk_buf_printf(&r->d->unused, "%s%s", r->d->unused.len ? ", " : "", row->key);
        return 0;
    case STK_DLIO_KEEPS:
    case STK_DLIO_RENAMES:
        break;
    }
    return 0;
}

#define OLD_SECTION "data_reader." /* of the section reader */

/* The row of a key, also under an old name; -1: none. */
static int row_of_any(const char *key)
{
    char name[200];
    bool old = strncmp(key, OLD_SECTION, strlen(OLD_SECTION)) == 0;
    snprintf(name, sizeof name, "%s%s", old ? "reader." : "", key + (old ? strlen(OLD_SECTION) : 0));
    int i = row_of(name);
    return i >= 0 && stk_dlio_rows[i].how == STK_DLIO_RENAMES ? row_of(stk_dlio_rows[i].arg) : i;
}

static int take(struct stk_dlio_reading *r, const char *key, const char *value, unsigned line,
                struct stk_err *err)
{
    int i = row_of_any(key);
    if (i < 0)
        return unknown(r, line, key, err);
    r->line[i] = line;
    r->value[i] = NULL;
    if (!*value || strcmp(value, "null") == 0)
        return 0; /* DLIO's default */
    r->value[i] = stk_arena_dup(&r->w->arena, value, strlen(value));
    return r->value[i] ? apply(r, &stk_dlio_rows[i], value, err) : stk_err_nomem(err, strlen(value));
}

/* "reader.batch_size=4" of "++workload.reader.batch_size=4" */
static const char *name_of_change(const char *text)
{
    text += strspn(text, "+");
    return text + (strncmp(text, "workload.", 9) == 0 ? 9 : 0);
}

static int take_change(struct stk_dlio_reading *r, const char *text, struct stk_err *err)
{
    char key[200], value[400];
    text = name_of_change(text);
    size_t n = strcspn(text, "="), len = strlen(text + n);
    if (!text[n] || n >= sizeof key || len >= sizeof value)
        return stk_err_set(err, STK_E_USAGE, NULL, -1,
                           "\"%.100s\" is not key=value, such as reader.batch_size=4", text);
    snprintf(key, sizeof key, "%.*s", (int)n, text);
    bool list = text[n + 1] == '[' && text[n + len - 1] == ']'; /* [1, 2] as in a file */
    snprintf(value, sizeof value, "%.*s", (int)(list ? len - 3 : len - 1), text + n + 1 + list);
    return take(r, key, value, 0, err);
}

/* ---- the file ------------------------------------------------------------------------------- */

/* Whether the command line sets the key. */
static bool is_changed(const char *key, const char *const *changes, size_t n)
{
    size_t len = strlen(key);
    for (size_t i = 0; i < n; i++) {
        const char *name = name_of_change(changes[i]);
        if (strncmp(name, key, len) == 0 && name[len] == '=')
            return true;
    }
    return false;
}

static int take_all(struct stk_dlio_reading *r, const struct stk_yaml *y,
                    const char *const *changes, size_t n, struct stk_err *err)
{
    int rc = 0;
    for (size_t i = 0; i < y->n && rc == 0; i++)
        if (!is_changed(y->item[i].key, changes, n))
            rc = take(r, y->item[i].key, y->item[i].value, y->item[i].line, err);
    for (size_t i = 0; i < n && rc == 0; i++)
        rc = take_change(r, changes[i], err);
    return rc;
}

int stk_dlio_parse(const char *text, size_t len, const char *name, const char *const *changes,
                   size_t n, struct stk_workload *w, struct stk_dlio *d, struct stk_err *err)
{
    struct stk_dlio_reading r = {.w = w, .d = d, .path = name};
    struct stk_yaml y = {0};
    struct stk_err why = {0};
    *d = (struct stk_dlio){0};
    int rc = stk_workload_default(w, err);
    for (size_t i = 0; i < sizeof defaults / sizeof *defaults && rc == 0; i++)
        rc = stk_workload_set(w, defaults[i], err);
    int broken = rc ? 0 : stk_yaml_parse(text, len, name, &y, &why);
    /* A key before the damage may say more: a format that is refused brings odd keys. */
    rc = rc ? rc : take_all(&r, &y, changes, n, err);
    if (rc == 0 && broken < 0) {
        rc = broken;
        if (err)
            *err = why;
    }
    rc = rc ? rc : stk_dlio_translate(&r, err);
    stk_yaml_release(&y);
    return rc;
}

int stk_dlio_read(const char *path, const char *const *changes, size_t n, struct stk_workload *w,
                  struct stk_dlio *d, struct stk_err *err)
{
    struct stk_buf text = STK_BUF_INIT;
    *w = (struct stk_workload){0};
    *d = (struct stk_dlio){0};
    int rc = stk_read_file(path, STK_WORKLOAD_MAX, &text, err);
    if (rc == 0)
        rc = stk_dlio_parse((const char *)text.data, text.len, path, changes, n, w, d, err);
    stk_buf_release(&text);
    return rc;
}
