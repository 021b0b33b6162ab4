/* yaml.c - reads a file of YAML as keys and values. */
#include "bench/workload.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"

void stk_yaml_release(struct stk_yaml *y)
{
    free(y->item);
    stk_arena_release(&y->arena);
    *y = (struct stk_yaml){0};
}

#ifdef STK_HAVE_YAML
#include <yaml.h>

/* One file being read. */
struct reading {
    yaml_parser_t parser;
    const char *name;
    struct stk_yaml *out;
    char path[STK_YAML_LINE]; /* the keys above, with dots between them */
    unsigned depth;
};

static int refuse(const struct reading *r, size_t line, struct stk_err *err, const char *fmt, ...)
    STK_PRINTF(4, 5);

static int refuse(const struct reading *r, size_t line, struct stk_err *err, const char *fmt, ...)
{
    char what[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    return stk_err_set(err, STK_E_USAGE, r->name, -1, "line %zu: %s", line + 1, what);
}

static int next_event(struct reading *r, yaml_event_t *e, struct stk_err *err)
{
    if (yaml_parser_parse(&r->parser, e))
        return 0;
    bool memory = r->parser.error == YAML_MEMORY_ERROR;
    bool coded = r->parser.error == YAML_READER_ERROR;
    const char *problem = r->parser.problem ? r->parser.problem : "not YAML";
    return memory  ? stk_err_nomem(err, 1)
           : coded ? stk_err_set(err, STK_E_USAGE, r->name, (int64_t)r->parser.problem_offset, "%s",
                                 problem)
                   : refuse(r, r->parser.problem_mark.line, err, "%s", problem);
}

/* A scalar that is plain text: without NUL, not too long. It may be empty. */
static int check_scalar(const struct reading *r, const yaml_event_t *e, const char *what,
                        struct stk_err *err)
{
    size_t line = e->start_mark.line, n = e->data.scalar.length;
    if (e->data.scalar.anchor)
        return refuse(r, line, err, "anchors and aliases are not supported");
    if (e->data.scalar.tag)
        return refuse(r, line, err, "tags are not supported");
    if (n >= STK_YAML_LINE / 2)
        return refuse(r, line, err, "%s of more than %d bytes", what, STK_YAML_LINE / 2);
    if (memchr(e->data.scalar.value, 0, n))
        return refuse(r, line, err, "%s with a NUL byte", what);
    return 0;
}

static int check_filled(const struct reading *r, const yaml_event_t *e, const char *what,
                        struct stk_err *err)
{
    if (e->data.scalar.length)
        return check_scalar(r, e, what, err);
    return refuse(r, e->start_mark.line, err, "%s%s%s without a value", r->path,
                  *r->path ? ": " : "", what);
}

static int add_entry(struct reading *r, const char *value, size_t line, struct stk_err *err)
{
    struct stk_yaml *y = r->out;
    for (size_t i = 0; i < y->n; i++)
        if (strcmp(y->item[i].key, r->path) == 0)
            return refuse(r, line, err, "%s was set in line %u already", r->path, y->item[i].line);
    if (y->n >= STK_YAML_KEYS)
        return refuse(r, line, err, "more than %d keys", STK_YAML_KEYS);
    if (STK_ARRAY_MORE(y->item, y->n, err))
        return STK_E_NOMEM;
    struct stk_yaml_entry *e = &y->item[y->n];
    e->key = stk_arena_dup(&y->arena, r->path, strlen(r->path));
    e->value = stk_arena_dup(&y->arena, value, strlen(value));
    e->line = (unsigned)line + 1;
    if (!e->key || !e->value)
        return stk_err_nomem(err, strlen(value));
    y->n++;
    return 0;
}

/* The items of a list, joined by commas. */
static int read_list(struct reading *r, size_t line, struct stk_err *err)
{
    char joined[STK_YAML_LINE] = "";
    size_t len = 0;
    for (;;) {
        yaml_event_t e;
        int rc = next_event(r, &e, err);
        if (rc < 0)
            return rc;
        bool ends = e.type == YAML_SEQUENCE_END_EVENT;
        if (!ends && e.type != YAML_SCALAR_EVENT)
            rc = refuse(r, e.start_mark.line, err, "%s: a list has plain values only", r->path);
        else if (!ends)
            rc = check_filled(r, &e, "an item", err);
        if (!ends && rc == 0 && strchr((char *)e.data.scalar.value, ','))
            rc = refuse(r, e.start_mark.line, err, "%s: an item with a comma", r->path);
        if (!ends && rc == 0 && len + e.data.scalar.length + 2 > sizeof joined)
            rc = refuse(r, e.start_mark.line, err, "%s: the list is too long", r->path);
        if (!ends && rc == 0)
            len += (size_t)snprintf(joined + len, sizeof joined - len, "%s%s", len ? "," : "",
                                    (char *)e.data.scalar.value);
        yaml_event_delete(&e);
        if (rc < 0)
            return rc;
        if (ends)
            return add_entry(r, joined, line, err);
    }
}

/* A section that stands in the file twice: one of them would be lost to other readers of YAML. */
static int check_section(const struct reading *r, size_t line, struct stk_err *err)
{
    const struct stk_yaml *y = r->out;
    size_t n = strlen(r->path);
    for (size_t i = 0; i < y->n; i++)
        if (strncmp(y->item[i].key, r->path, n) == 0 && y->item[i].key[n] == '.')
            return refuse(r, line, err, "%s was begun in line %u already", r->path,
                          y->item[i].line);
    return 0;
}

static int read_mapping(struct reading *r, struct stk_err *err);

static int read_value(struct reading *r, struct stk_err *err)
{
    yaml_event_t e;
    int rc = next_event(r, &e, err);
    if (rc < 0)
        return rc;
    size_t line = e.start_mark.line;
    bool anchored = (e.type == YAML_MAPPING_START_EVENT && e.data.mapping_start.anchor) ||
                    (e.type == YAML_SEQUENCE_START_EVENT && e.data.sequence_start.anchor);
    if (e.type == YAML_ALIAS_EVENT || anchored)
        rc = refuse(r, line, err, "anchors and aliases are not supported");
    else if (e.type == YAML_SCALAR_EVENT)
        rc = check_scalar(r, &e, "a key", err);
    else if (e.type == YAML_MAPPING_START_EVENT && e.data.mapping_start.tag)
        rc = refuse(r, line, err, "tags are not supported");
    else if (e.type == YAML_MAPPING_START_EVENT)
        rc = check_section(r, line, err);
    if (rc == 0 && e.type == YAML_SCALAR_EVENT)
        rc = add_entry(r, (const char *)e.data.scalar.value, line, err);
    else if (rc == 0 && e.type == YAML_SEQUENCE_START_EVENT)
        rc = read_list(r, line, err);
    else if (rc == 0 && ++r->depth > STK_YAML_DEPTH)
        rc = refuse(r, line, err, "nested more than %d deep", STK_YAML_DEPTH);
    else if (rc == 0)
        rc = read_mapping(r, err);
    if (e.type == YAML_MAPPING_START_EVENT)
        r->depth--;
    yaml_event_delete(&e);
    return rc;
}

/* The pairs of a mapping that has begun, up to its end. */
static int read_mapping(struct reading *r, struct stk_err *err)
{
    size_t above = strlen(r->path);
    for (;;) {
        yaml_event_t e;
        int rc = next_event(r, &e, err);
        if (rc < 0)
            return rc;
        bool ends = e.type == YAML_MAPPING_END_EVENT;
        if (!ends && e.type != YAML_SCALAR_EVENT)
            rc = refuse(r, e.start_mark.line, err, "a key must be a plain word");
        else if (!ends)
            rc = check_filled(r, &e, "a key", err);
        if (!ends && rc == 0 && above + e.data.scalar.length + 2 > sizeof r->path)
            rc = refuse(r, e.start_mark.line, err, "the name of a key is too long");
        if (!ends && rc == 0)
            snprintf(r->path + above, sizeof r->path - above, "%s%s", above ? "." : "",
                     (char *)e.data.scalar.value);
        yaml_event_delete(&e);
        if (ends || rc < 0)
            return rc;
        rc = read_value(r, err);
        if (rc < 0)
            return rc;
        r->path[above] = '\0';
    }
}

/* The first event of that kind, past those that say nothing. */
static int expect(struct reading *r, yaml_event_type_t type, const char *otherwise,
                  struct stk_err *err)
{
    yaml_event_t e;
    int rc = next_event(r, &e, err);
    if (rc < 0)
        return rc;
    if (e.type != type)
        rc = refuse(r, e.start_mark.line, err, "%s", otherwise);
    else if (type == YAML_MAPPING_START_EVENT && e.data.mapping_start.anchor)
        rc = refuse(r, e.start_mark.line, err, "anchors and aliases are not supported");
    yaml_event_delete(&e);
    return rc;
}

static int read_stream(struct reading *r, struct stk_err *err)
{
    static const char mapping[] = "a workload is a mapping of keys to values";
    int rc = expect(r, YAML_STREAM_START_EVENT, mapping, err);
    rc = rc ? rc : expect(r, YAML_DOCUMENT_START_EVENT, "the file is empty", err);
    rc = rc ? rc : expect(r, YAML_MAPPING_START_EVENT, mapping, err);
    rc = rc ? rc : read_mapping(r, err);
    rc = rc ? rc : expect(r, YAML_DOCUMENT_END_EVENT, mapping, err);
    return rc ? rc : expect(r, YAML_STREAM_END_EVENT, "the file has a second document", err);
}

int stk_yaml_parse(const char *text, size_t n, const char *name, struct stk_yaml *out,
                   struct stk_err *err)
{
    struct reading *r = calloc(1, sizeof *r);
    *out = (struct stk_yaml){0};
    if (!r || !yaml_parser_initialize(&r->parser)) {
        free(r);
        return stk_err_nomem(err, sizeof *r);
    }
    r->name = name;
    r->out = out;
    yaml_parser_set_input_string(&r->parser, (const unsigned char *)text, n);
    int rc = read_stream(r, err);
    yaml_parser_delete(&r->parser);
    free(r);
    return rc;
}
#else
int stk_yaml_parse(const char *text, size_t n, const char *name, struct stk_yaml *out,
                   struct stk_err *err)
{
    (void)text, (void)n;
    *out = (struct stk_yaml){0};
    return stk_err_set(err, STK_E_UNSUPPORTED, name, -1,
                       "workload files need libyaml, which this build lacks: install libyaml-dev "
                       "and build stoker again");
}
#endif
