/*
 * opt.c - option tables: reading argv, environment and config file into a settings struct. Reports
 * errors through struct stk_err; never prints.
 */
#include "base/opt.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/text.h"
#include "base/units.h"
#include "base/secret.h"

#define CONFIG_MAX (1u << 20)

static size_t table_len(const struct stk_opt *table)
{
    size_t n = 0;
    while (table[n].name)
        n++;
    return n;
}

const char *const *stk_opt_choices(const struct stk_opt *opt)
{
    if (opt->type != STK_OPT_ENUM)
        return NULL;
    return opt->choices_fn ? opt->choices_fn() : opt->choices;
}

const char *stk_opt_keyword(const struct stk_opt *opt, char *buf, size_t size)
{
    snprintf(buf, size, "%s", opt->keyword ? opt->keyword : opt->name);
    for (char *p = buf; *p; p++)
        *p = (char)(*p == '-' ? '_' : *p);
    return buf;
}

/* ---- values ------------------------------------------------------------------------------- */

static int check_range(const struct stk_opt *opt, const char *text, double v, double min,
                       double max, struct stk_err *err)
{
    bool below = v < min, above = opt->max && v > max;
    if (!below && !above)
        return 0;
    const char *percent = opt->type == STK_OPT_PERCENT ? "%" : "";
    if (opt->max)
        return stk_err_set(err, STK_E_USAGE, NULL, -1, "%s is not within %llu%s and %llu%s", text,
                           (unsigned long long)opt->min, percent, (unsigned long long)opt->max,
                           percent);
    return stk_err_set(err, STK_E_USAGE, NULL, -1, "%s is less than %llu%s", text,
                       (unsigned long long)opt->min, percent);
}

/* Writes the name of a choice to out: "dir" for "dir[:LEVEL]". Returns 0 if it takes no argument,
 * '[' if it may take one, ':' if it needs one. */
static char choice_name(const char *choice, char *out, size_t size)
{
    size_t n = strcspn(choice, "[:");
    snprintf(out, size, "%.*s", (int)n, choice);
    return choice[n];
}

static int check_choice(const struct stk_opt *opt, const char *text, struct stk_err *err)
{
    const char *names[64] = {0};
    char name[64][32];
    size_t len = strcspn(text, ":"), n = 0;
    const char *const *choices = stk_opt_choices(opt);
    for (; choices[n] && n < 63; n++) {
        char takes = choice_name(choices[n], name[n], sizeof name[n]);
        names[n] = name[n];
        if (strlen(name[n]) != len || memcmp(name[n], text, len) != 0)
            continue;
        bool has = text[len] == ':' && text[len + 1];
        if (takes == ':' && !has)
            return stk_err_set(err, STK_E_USAGE, NULL, -1, "\"%s\" needs an argument: write %s",
                               text, choices[n]);
        if (text[len] == ':' && (!takes || !has))
            return stk_err_set(err, STK_E_USAGE, NULL, -1, "\"%s\" takes no argument: write %s",
                               text, choices[n]);
        return 0;
    }
    struct stk_buf list = STK_BUF_INIT;
    for (size_t i = 0; i < n; i++)
        stk_buf_printf(&list, "%s%s", i ? ", " : "", choices[i]);
    char word[64];
    snprintf(word, sizeof word, "%.*s", (int)(len < 63 ? len : 63), text);
    const char *near = stk_text_nearest(word, names);
    int rc = stk_err_set(err, STK_E_USAGE, NULL, -1, "\"%s\" is not one of %s%s%s%s", text,
                         stk_buf_cstr(&list), near ? "; did you mean " : "", near ? near : "",
                         near ? "?" : "");
    stk_buf_release(&list);
    return rc;
}

static int parse_flag(const char *text, bool *v, struct stk_err *err)
{
    static const char *const words[] = {"0", "1", "false", "true", "no", "yes", "off", "on"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(text, words[i]) == 0) {
            *v = i & 1;
            return 0;
        }
    return stk_err_set(err, STK_E_USAGE, NULL, -1, "\"%s\" is neither yes nor no", text);
}

static int append_list(struct stk_arena *arena, const char ***list, const char *text, bool fresh,
                       struct stk_err *err)
{
    size_t n = 0;
    while (!fresh && *list && (*list)[n])
        n++;
    const char **grown = stk_arena_alloc(arena, (n + 2) * sizeof *grown);
    if (!grown)
        return stk_err_nomem(err, (n + 2) * sizeof *grown);
    if (n)
        memcpy(grown, *list, n * sizeof *grown);
    grown[n] = text;
    grown[n + 1] = NULL;
    *list = grown;
    return 0;
}

int stk_opt_choice(const struct stk_opt *opt, const char *text)
{
    const char *const *choices = stk_opt_choices(opt);
    return choices ? stk_text_index(text, choices) : -1;
}

/* An option with the choice "none" can be switched as a flag can: "no" is none, "yes" the default.
 */
static const char *switched(const struct stk_opt *opt, const char *text)
{
    bool on = false;
    if (stk_opt_choice(opt, "none") < 0 || stk_opt_choice(opt, text) >= 0 ||
        parse_flag(text, &on, NULL))
        return text;
    return !on ? "none" : opt->def && strcmp(opt->def, "none") != 0 ? opt->def : text;
}

/* Splits "a,b" into names, in one allocation with their bytes. */
static int split_names(const char *text, const char *const **out, struct stk_arena *arena,
                       struct stk_err *err)
{
    size_t n = 1, len = strlen(text);
    for (const char *p = text; *p; p++)
        n += *p == ',';
    const char **names = stk_arena_alloc(arena, (n + 1) * sizeof *names);
    char *copy = stk_arena_dup(arena, text, len);
    if (!names || !copy)
        return stk_err_nomem(err, len);
    for (size_t i = 0; i < n; i++) {
        names[i] = strsep(&copy, ",");
        if (!*names[i])
            return stk_err_set(err, STK_E_USAGE, NULL, -1, "%.100s: a name is empty", text);
    }
    names[n] = NULL;
    *out = names;
    return 0;
}

uint64_t stk_opt_number(const struct stk_opt *opt, const void *fields)
{
    const char *field = (const char *)fields + opt->offset;
    uint64_t u;
    uint32_t half; /* an int that is a choice is not negative, so it has the same bytes */
    if (opt->field == STK_FIELD_OWN) {
        memcpy(&u, field, sizeof u);
        return u;
    }
    memcpy(&half, field, sizeof half);
    return half;
}

void stk_opt_set_number(const struct stk_opt *opt, void *fields, uint64_t v)
{
    char *field = (char *)fields + opt->offset;
    uint32_t half = (uint32_t)v;
    if (opt->field == STK_FIELD_OWN)
        memcpy(field, &v, sizeof v);
    else
        memcpy(field, &half, sizeof half);
}

static int store_number(const struct stk_opt *opt, void *fields, const char *text,
                        struct stk_err *err)
{
    uint64_t u = 0;
    int rc =
        opt->type == STK_OPT_SIZE ? stk_parse_size(text, &u, err) : stk_parse_u64(text, &u, err);
    rc = rc ? rc : check_range(opt, text, (double)u, (double)opt->min, (double)opt->max, err);
    if (!rc)
        stk_opt_set_number(opt, fields, u);
    return rc;
}

static int store_flag(const struct stk_opt *opt, bool *field, const char *text, struct stk_err *err)
{
    bool v = false;
    int rc = parse_flag(text, &v, err);
    if (!rc)
        *field = v != opt->opposite;
    return rc;
}

int stk_opt_store(const struct stk_opt *opt, void *fields, const char *text, bool fresh,
                  struct stk_arena *arena, struct stk_err *err)
{
    void *field = (char *)fields + opt->offset;
    double d = 0;
    int rc = 0;
    switch (opt->type) {
    case STK_OPT_FLAG:
        return store_flag(opt, field, text, err);
    case STK_OPT_LIST:
        return append_list(arena, field, text, fresh, err);
    case STK_OPT_NAMES:
        return split_names(text, field, arena, err);
    case STK_OPT_UNSIGNED:
    case STK_OPT_SIZE:
        return store_number(opt, fields, text, err);
    case STK_OPT_ENUM:
        text = switched(opt, text);
        rc = check_choice(opt, text, err);
        break;
    case STK_OPT_DURATION:
        rc = stk_parse_duration(text, &d, err);
        rc = rc ? rc : check_range(opt, text, d, (double)opt->min, (double)opt->max, err);
        break;
    case STK_OPT_PERCENT:
        rc = stk_parse_percent(text, &d, err);
        rc = rc ? rc : check_range(opt, text, d * 100, (double)opt->min, (double)opt->max, err);
        break;
    }
    if (!rc && (opt->type == STK_OPT_DURATION || opt->type == STK_OPT_PERCENT))
        memcpy(field, &d, sizeof d);
    else if (!rc && opt->field == STK_FIELD_NUMBER)
        stk_opt_set_number(opt, fields, (uint64_t)stk_opt_choice(opt, text));
    else if (!rc)
        memcpy(field, &text, sizeof text);
    return rc;
}

/* Sets an option unless a higher source has set it. text must live as long as o. */
static int assign(struct stk_opts *o, const struct stk_opt *opt, const char *text,
                  enum stk_opt_from from, const char *where, struct stk_err *err)
{
    struct stk_opt_origin *origin = &o->origin[opt - o->table];
    if (origin->from > from)
        return 0;
    int rc = stk_opt_store(opt, o->fields, text, origin->from < from, &o->arena, err);
    if (!rc)
        *origin = (struct stk_opt_origin){.from = (uint8_t)from, .where = where};
    return rc;
}

int stk_opts_init(struct stk_opts *o, const char *command, const struct stk_opt *table,
                  void *fields, struct stk_err *err)
{
    *o = (struct stk_opts){.command = command, .table = table, .fields = fields};
    size_t n = table_len(table);
    o->origin = stk_arena_alloc(&o->arena, (n + 1) * sizeof *o->origin);
    int rc = o->origin ? 0 : stk_err_nomem(err, n * sizeof *o->origin);
    if (!rc)
        memset(o->origin, 0, (n + 1) * sizeof *o->origin);
    for (size_t i = 0; i < n && !rc; i++)
        if (table[i].def)
            rc = assign(o, &table[i], table[i].def, STK_FROM_DEFAULT, NULL, err);
    if (rc)
        stk_opts_release(o);
    return rc;
}

void stk_opts_release(struct stk_opts *o)
{
    stk_arena_release(&o->arena);
    *o = (struct stk_opts){0};
}

/* ---- names -------------------------------------------------------------------------------- */

static const struct stk_opt *find_name(const struct stk_opt *table, const char *name, size_t len)
{
    for (; table->name; table++)
        if (strlen(table->name) == len && memcmp(table->name, name, len) == 0)
            return table;
    return NULL;
}

const struct stk_opt *stk_opt_find(const struct stk_opt *table, const char *name)
{
    return find_name(table, name, strlen(name));
}

static const struct stk_opt *find_letter(const struct stk_opt *table, char letter)
{
    for (; table->name; table++)
        if (table->letter && table->letter == letter)
            return table;
    return NULL;
}

int stk_opt_unknown(const struct stk_opt *table, const char *kind, const char *dashes,
                    const char *name, size_t len, struct stk_err *err)
{
    size_t n = table_len(table);
    const char **names = calloc(n + 1, sizeof *names);
    if (!names)
        return stk_err_nomem(err, (n + 1) * sizeof *names);
    for (size_t i = 0; i < n; i++)
        names[i] = table[i].name;
    char word[64];
    snprintf(word, sizeof word, "%.*s", (int)(len < 63 ? len : 63), name);
    bool negated = strncmp(word, "no-", 3) == 0;
    const char *near = stk_text_nearest(negated ? word + 3 : word, names);
    int rc = stk_err_set(err, STK_E_USAGE, NULL, -1, "unknown %s %s%.*s%s%s%s%s%s", kind, dashes,
                         (int)(len < 200 ? len : 200), name, near ? "; did you mean " : "",
                         near ? dashes : "", near && negated ? "no-" : "", near ? near : "",
                         near ? "?" : "");
    free(names);
    return rc;
}

/* ---- the command line --------------------------------------------------------------------- */

struct argv_reader {
    struct stk_opts *o;
    int argc, i;
    char *const *argv;
};

/* The value of an option that needs one: attached, or the next word. NULL: missing. */
static const char *value_of(struct argv_reader *r, const char *attached)
{
    if (attached)
        return attached;
    return r->i + 1 < r->argc ? r->argv[++r->i] : NULL;
}

static int read_long(struct argv_reader *r, const char *word, struct stk_err *err)
{
    const struct stk_opt *table = r->o->table;
    size_t len = strcspn(word, "=");
    const char *attached = word[len] ? word + len + 1 : NULL;
    bool negated = false;
    const struct stk_opt *opt = find_name(table, word, len);
    if (!opt && len > 3 && strncmp(word, "no-", 3) == 0) {
        opt = find_name(table, word + 3, len - 3);
        negated = true;
    }
    if (!opt)
        return stk_opt_unknown(table, "option", "--", word, len, err);
    if (opt->type == STK_OPT_FLAG || negated) {
        if (opt->type != STK_OPT_FLAG && stk_opt_choice(opt, "none") < 0)
            return stk_err_set(err, STK_E_USAGE, NULL, -1,
                               "--no-%s: --%s is not a switch and cannot be negated", opt->name,
                               opt->name);
        if (attached)
            return stk_err_set(err, STK_E_USAGE, NULL, -1, "--%.*s takes no value; --%s or --no-%s",
                               (int)len, word, opt->name, opt->name);
        return assign(r->o, opt, negated ? "no" : "yes", STK_FROM_ARGV, NULL, err);
    }
    const char *text = value_of(r, attached);
    if (!text)
        return stk_err_set(err, STK_E_USAGE, NULL, -1, "--%s needs a value: --%s %s", opt->name,
                           opt->name, opt->arg);
    int rc = assign(r->o, opt, text, STK_FROM_ARGV, NULL, err);
    return rc ? stk_err_wrap(err, rc, "--%s", opt->name) : 0;
}

/* "-j4", "-j 4", "-fq": letters up to the first that takes a value. */
static int read_letters(struct argv_reader *r, const char *word, struct stk_err *err)
{
    for (const char *p = word; *p; p++) {
        const struct stk_opt *opt = find_letter(r->o->table, *p);
        if (!opt)
            return stk_err_set(err, STK_E_USAGE, NULL, -1, "unknown option -%s", p);
        const char *text = "yes";
        if (opt->type != STK_OPT_FLAG) {
            text = value_of(r, p[1] ? p + 1 : NULL);
            if (!text)
                return stk_err_set(err, STK_E_USAGE, NULL, -1, "-%c needs a value: -%c %s", *p, *p,
                                   opt->arg);
        }
        int rc = assign(r->o, opt, text, STK_FROM_ARGV, NULL, err);
        if (rc)
            return stk_err_wrap(err, rc, "-%c", *p);
        if (opt->type != STK_OPT_FLAG)
            return 0;
    }
    return 0;
}

int stk_opts_read_argv(struct stk_opts *o, int argc, char *const *argv, struct stk_err *err)
{
    struct argv_reader r = {.o = o, .argc = argc, .argv = argv};
    size_t room = (size_t)(argc > 0 ? argc : 0) + 1;
    o->arg = stk_arena_alloc(&o->arena, room * sizeof *o->arg);
    o->nargs = 0;
    if (!o->arg)
        return stk_err_nomem(err, room * sizeof *o->arg);
    bool options_over = false;
    for (; r.i < argc; r.i++) {
        const char *word = argv[r.i];
        int rc = 0;
        if (options_over || word[0] != '-' || !word[1]) {
            o->arg[o->nargs++] = word;
            options_over = options_over || o->stop_at_arg;
        } else if (strcmp(word, "--") == 0) {
            options_over = true;
        } else if (word[1] == '-') {
            rc = read_long(&r, word + 2, err);
        } else {
            rc = read_letters(&r, word + 1, err);
        }
        if (rc)
            return rc;
    }
    o->arg[o->nargs] = NULL;
    return 0;
}

/* ---- the environment ---------------------------------------------------------------------- */

/* STOKER_PACK_SHARD_SIZE, or STOKER_SHARD_SIZE without the command. */
static void env_name(const char *command, const char *name, char *out, size_t size)
{
    snprintf(out, size, "STOKER_%s%s%s", command ? command : "", command ? "_" : "", name);
    for (; *out; out++)
        *out = (char)(*out == '-' ? '_' : *out >= 'a' && *out <= 'z' ? *out - 32 : *out);
}

/* In a variable, commas separate the items of a list. */
static int assign_env(struct stk_opts *o, const struct stk_opt *opt, const char *variable,
                      const char *text, struct stk_err *err)
{
    char *where = stk_arena_dup(&o->arena, variable, strlen(variable));
    char *copy = stk_arena_dup(&o->arena, text, strlen(text));
    if (!where || !copy)
        return stk_err_nomem(err, strlen(text));
    int rc = 0;
    if (opt->type == STK_OPT_LIST) {
        char *rest = copy;
        for (char *item; !rc && (item = strsep(&rest, ","));)
            if (*item)
                rc = assign(o, opt, item, STK_FROM_ENV, where, err);
    } else {
        rc = assign(o, opt, copy, STK_FROM_ENV, where, err);
    }
    return rc ? stk_err_wrap(err, rc, "%s", where) : 0;
}

int stk_opts_read_env(struct stk_opts *o, struct stk_err *err)
{
    for (const struct stk_opt *opt = o->table; opt->name; opt++) {
        if (strcmp(opt->name, "help") == 0)
            continue;
        char variable[128];
        env_name(o->command, opt->name, variable, sizeof variable);
        const char *text = getenv(variable);
        if (!text) {
            env_name(NULL, opt->name, variable, sizeof variable);
            text = getenv(variable);
        }
        int rc = text ? assign_env(o, opt, variable, text, err) : 0;
        if (rc)
            return rc;
    }
    return 0;
}

/* ---- the config file ---------------------------------------------------------------------- */

struct config_reader {
    struct stk_opts *o;
    const char *path;
    enum stk_opt_from from;
    int64_t line;
    const struct stk_opt_section *all;
    size_t nall;
    const struct stk_opt_section *section; /* NULL before the first "[command]" */
};

static char *trim(char *s)
{
    while (*s == ' ' || *s == '\t')
        s++;
    size_t n = strlen(s);
    while (n && (s[n - 1] == ' ' || s[n - 1] == '\t' || s[n - 1] == '\r'))
        s[--n] = '\0';
    return s;
}

static int config_error(const struct config_reader *r, int code, struct stk_err *err)
{
    char what[sizeof err->what];
    snprintf(what, sizeof what, "%s", err ? err->what : "");
    return stk_err_set(err, code, r->path, r->line, "%s", what);
}

static int config_section(struct config_reader *r, char *s, struct stk_err *err)
{
    char *close = strchr(s, ']');
    if (!close || *trim(close + 1))
        return stk_err_set(err, STK_E_USAGE, r->path, r->line, "a section is written [command]");
    *close = '\0';
    s = trim(s + 1);
    const char *names[64] = {0};
    for (size_t i = 0; i < r->nall && i < 63; i++) {
        names[i] = r->all[i].command;
        if (strcmp(s, names[i]) == 0) {
            r->section = &r->all[i];
            return 0;
        }
    }
    const char *near = stk_text_nearest(s, names);
    return stk_err_set(err, STK_E_USAGE, r->path, r->line, "unknown command [%.64s]%s%s%s", s,
                       near ? "; did you mean [" : "", near ? near : "", near ? "]?" : "");
}

/* An option before the first section applies to every command that has it; at least one must. */
static bool known_somewhere(const struct config_reader *r, const char *name)
{
    for (size_t i = 0; i < r->nall; i++)
        if (stk_opt_find(r->all[i].table, name))
            return true;
    return false;
}

static int config_setting(struct config_reader *r, char *s, struct stk_err *err)
{
    struct stk_opts *o = r->o;
    char *equals = strchr(s, '=');
    if (!equals)
        return stk_err_set(err, STK_E_USAGE, r->path, r->line, "a setting is written name = value");
    *equals = '\0';
    const char *name = trim(s), *text = trim(equals + 1);
    const struct stk_opt *table = r->section ? r->section->table : o->table;
    const struct stk_opt *opt = stk_opt_find(table, name);
    if (!opt && !(!r->section && known_somewhere(r, name))) {
        int rc = stk_opt_unknown(table, "setting", "", name, strlen(name), err);
        return config_error(r, rc, err);
    }
    if (!opt || table != o->table)
        return 0;
    struct stk_buf where = STK_BUF_INIT;
    stk_buf_printf(&where, "%s:%lld", r->path, (long long)r->line);
    char *place = stk_arena_dup(&o->arena, stk_buf_cstr(&where), where.len);
    char *copy = stk_arena_dup(&o->arena, text, strlen(text));
    stk_buf_release(&where);
    if (!place || !copy)
        return stk_err_nomem(err, strlen(text));
    int rc = assign(o, opt, copy, r->from, place, err);
    rc = rc ? stk_err_wrap(err, rc, "%s", name) : 0;
    return rc ? config_error(r, rc, err) : 0;
}

int stk_opts_read_config(struct stk_opts *o, const struct stk_opt_file *file,
                         const struct stk_opt_section *all, size_t nall, struct stk_err *err)
{
    struct stk_buf text = STK_BUF_INIT;
    struct stk_err why = {0};
    int rc = stk_read_file(file->path, CONFIG_MAX, &text, &why);
    if (rc && !file->must_exist && (why.sys_errno == ENOENT || why.sys_errno == ENOTDIR)) {
        stk_buf_release(&text);
        return 0;
    }
    if (rc && err)
        *err = why;
    struct config_reader r = {
        .o = o, .path = file->path, .from = file->from, .all = all, .nall = nall};
    stk_buf_putc(&text, '\0');
    char *rest = rc || text.fail ? NULL : (char *)text.data;
    for (char *line; !rc && (line = strsep(&rest, "\n"));) {
        r.line++;
        line = trim(line);
        if (*line == '[')
            rc = config_section(&r, line, err);
        else if (*line && *line != '#' && *line != ';')
            rc = config_setting(&r, line, err);
    }
    if (!rc)
        rc = stk_buf_check(&text, err);
    stk_buf_release(&text);
    return rc;
}

/* ---- the settings ------------------------------------------------------------------------- */

bool stk_opts_given(const struct stk_opts *o, const char *name)
{
    const struct stk_opt *opt = stk_opt_find(o->table, name);
    return opt && o->origin[opt - o->table].from > STK_FROM_DEFAULT;
}

bool stk_opts_typed(const struct stk_opts *o, const char *name)
{
    const struct stk_opt *opt = stk_opt_find(o->table, name);
    return opt && o->origin[opt - o->table].from == STK_FROM_ARGV;
}

/* ---- as JSON --------------------------------------------------------------------------------- */

/* The effective settings of a run as JSON, with the source of each. */

static void write_list(const char **list, struct stk_jw *w)
{
    stk_jw_open(w, '[');
    for (; list && *list; list++)
        stk_secret_json_text(w, *list);
    stk_jw_close(w, ']');
}

/* As typed: separated by commas. */
static void write_names(const char *const *names, struct stk_jw *w)
{
    struct stk_buf text = STK_BUF_INIT;
    for (size_t i = 0; names[i]; i++)
        stk_buf_printf(&text, "%s%s", i ? "," : "", names[i]);
    stk_jw_str(w, stk_buf_cstr(&text));
    stk_buf_release(&text);
}

static void write_value(const struct stk_opts *o, const struct stk_opt *opt, struct stk_jw *w)
{
    const char *field = (const char *)o->fields + opt->offset;
    const char *text, *const *names;
    double d;
    switch (opt->type) {
    case STK_OPT_FLAG:
        stk_jw_bool(w, *(const bool *)(const void *)field != opt->opposite);
        return;
    case STK_OPT_LIST:
        write_list(*(const char ***)(uintptr_t)field, w);
        return;
    default:
        break;
    }
    if (o->origin[opt - o->table].from == STK_FROM_NOWHERE) {
        stk_jw_null(w);
    } else if (opt->type == STK_OPT_UNSIGNED || opt->type == STK_OPT_SIZE) {
        stk_jw_u64(w, stk_opt_number(opt, o->fields));
    } else if (opt->type == STK_OPT_DURATION || opt->type == STK_OPT_PERCENT) {
        memcpy(&d, field, sizeof d);
        stk_jw_f64(w, d);
    } else if (opt->type == STK_OPT_NAMES) {
        memcpy(&names, field, sizeof names);
        write_names(names, w);
    } else if (opt->field == STK_FIELD_NUMBER) {
        stk_jw_str(w, stk_opt_choices(opt)[stk_opt_number(opt, o->fields)]);
    } else {
        memcpy(&text, field, sizeof text);
        stk_secret_json_text(w, text);
    }
}

static void write_setting(const struct stk_opts *o, const struct stk_opt *opt, struct stk_jw *w)
{
    static const char *const from[] = {
        [STK_FROM_NOWHERE] = "default", [STK_FROM_DEFAULT] = "default",
        [STK_FROM_SITE] = "site",       [STK_FROM_CONFIG] = "config",
        [STK_FROM_ENV] = "environment", [STK_FROM_ARGV] = "command line",
    };
    static const char *const unit[] = {
        [STK_OPT_SIZE] = "bytes",
        [STK_OPT_DURATION] = "seconds",
        [STK_OPT_PERCENT] = "fraction",
        [STK_OPT_NAMES] = NULL,
    };
    const struct stk_opt_origin *origin = &o->origin[opt - o->table];
    stk_jw_key(w, opt->name);
    stk_jw_open(w, '{');
    stk_jw_key(w, "value");
    write_value(o, opt, w);
    if (unit[opt->type]) {
        stk_jw_put_str(w, "unit", unit[opt->type]);
    }
    stk_jw_put_str(w, "from", from[origin->from]);
    if (origin->where) {
        stk_jw_put_str(w, "where", origin->where);
    }
    stk_jw_close(w, '}');
}

void stk_opts_write_json(const struct stk_opts *o, struct stk_jw *w)
{
    stk_jw_open(w, '{');
    for (const struct stk_opt *opt = o->table; opt->name; opt++)
        if (strcmp(opt->name, "help") != 0)
            write_setting(o, opt, w);
    stk_jw_close(w, '}');
}

void stk_opts_write_recipe(const struct stk_opts *o, struct stk_jw *w)
{
    stk_jw_open(w, '{');
    for (const struct stk_opt *opt = o->table; opt->name; opt++) {
        if (opt->incidental)
            continue;
        stk_jw_key(w, opt->name);
        write_value(o, opt, w);
    }
    stk_jw_close(w, '}');
}
