/*
 * foreign.c - JSON of other tools as a table that csv.c reads: hyperfine's results and ReFrame's
 * reports. Which member is N, and which value is compared, is decided by the same names and units
 * as in tables (headings.c).
 */
#include <stdio.h>

#include "base/csv.h"
#include "study/study.h"

#define PARAMETERS_MAX 32

/* ---- writing cells ------------------------------------------------------------------------ */

static void put_text(struct stk_buf *out, const char *p, size_t n)
{
    stk_csv_put(out, p, n, ',');
}

/* A cell for a scalar, and an empty one for anything else. */
static void put_value(struct stk_buf *out, const struct stk_jval *v)
{
    stk_buf_putc(out, ',');
    if (v && v->type == STK_JSTR)
        put_text(out, v->str, v->len);
    else if (v && (v->type == STK_JINT || v->type == STK_JFLOAT))
        stk_buf_put(out, v->raw, v->raw_len);
}

static const struct stk_jval *get(const struct stk_jval *v, const char *name, enum stk_jtype type)
{
    const struct stk_jval *m = v && v->type == STK_JOBJ ? stk_json_get(v, name) : NULL;
    return m && m->type == type ? m : NULL;
}

static int refuse(struct stk_err *err, const char *path, const char *what)
{
    return stk_err_set(err, STK_E_CORRUPT, path, -1, "%s", what);
}

/* True for a heading that counts something, or that --columns names. */
static bool counts(const char *name, const struct stk_headings *map)
{
    struct stk_heading h;
    stk_heading_read(name, map, &h);
    return h.column == STK_COL_N || h.column == STK_COL_COUNT || h.column == STK_COL_CORES ||
           h.column == STK_COL_GPUS || h.column == STK_COL_NODES;
}

/* ---- hyperfine ---------------------------------------------------------------------------- */

/* Which parameter of a result is N: the one that is called so, or the only one. */
static const struct stk_jval *n_parameter(const struct stk_jval *parameters,
                                          const struct stk_headings *map)
{
    for (size_t i = 0; parameters && i < parameters->len; i++)
        if (counts(parameters->name[i].str, map))
            return &parameters->name[i];
    return parameters && parameters->len == 1 ? &parameters->name[0] : NULL;
}

/* The other parameters make the series: "algo=a, size=3". */
static void put_series(const struct stk_jval *parameters, const struct stk_jval *n,
                       struct stk_buf *out)
{
    struct stk_buf b = STK_BUF_INIT;
    for (size_t i = 0; i < parameters->len; i++) {
        const struct stk_jval *v = &parameters->item[i];
        if (&parameters->name[i] != n && v->type == STK_JSTR)
            stk_buf_printf(&b, "%s%s=%s", b.len ? ", " : "", parameters->name[i].str, v->str);
    }
    stk_buf_putc(out, ',');
    put_text(out, stk_buf_cstr(&b), b.len);
    out->fail = out->fail || b.fail;
    stk_buf_release(&b);
}

/* One row per run; of a result without its runs, the median or mean. */
static void put_runs(const struct stk_jval *result, const struct stk_jval *parameters,
                     const struct stk_jval *n, struct stk_buf *out)
{
    const struct stk_jval *times = get(result, "times", STK_JARR);
    const struct stk_jval *codes = get(result, "exit_codes", STK_JARR);
    const struct stk_jval *middle = stk_json_get(result, "median");
    middle = middle ? middle : stk_json_get(result, "mean");
    for (size_t i = 0; i < (times ? times->len : 1); i++) {
        const struct stk_jval *code = codes && i < codes->len ? &codes->item[i] : NULL;
        bool bad = code && code->type == STK_JINT && code->i != 0;
        stk_buf_printf(out, "%zu,%s", i, bad ? "failed" : "ok");
        put_value(out, &parameters->item[n - parameters->name]);
        put_value(out, times ? &times->item[i] : middle);
        if (parameters->len > 1)
            put_series(parameters, n, out);
        stk_buf_putc(out, '\n');
    }
}

static int from_hyperfine(const struct stk_jval *results, const struct stk_headings *map,
                          const char *path, struct stk_buf *out, struct stk_err *err)
{
    for (size_t i = 0; i < results->len; i++) {
        const struct stk_jval *parameters = get(&results->item[i], "parameters", STK_JOBJ);
        const struct stk_jval *n = n_parameter(parameters, map);
        if (!n)
            return refuse(err, path,
                          !parameters || !parameters->len
                              ? "hyperfine's results have no parameter that is N: run it with "
                                "--parameter-list threads 1,2,4"
                              : "several parameters of hyperfine could be N; choose one with "
                                "--columns n=NAME");
        if (!i) {
            stk_buf_puts(out, "repeat,status,");
            put_text(out, counts(n->str, map) ? n->str : "n", counts(n->str, map) ? n->len : 1);
            stk_buf_printf(out, ",time%s\n", parameters->len > 1 ? ",series" : "");
        }
        put_runs(&results->item[i], parameters, n, out);
    }
    return 0;
}

/* ---- ReFrame ------------------------------------------------------------------------------ */

/* A value that a test measured. */
struct measure {
    const char *name; /* without system and partition */
    const struct stk_jval *value;
    const char *unit;
};

static const char *last_part(const char *name)
{
    const char *colon = strrchr(name, ':');
    return colon ? colon + 1 : name;
}

/* Measure i of a test: "perfvalues" since version 4, "perfvars" before. False: no more. */
static bool measure_at(const struct stk_jval *test, size_t i, struct measure *m)
{
    const struct stk_jval *now = get(test, "perfvalues", STK_JOBJ);
    const struct stk_jval *old = get(test, "perfvars", STK_JARR);
    *m = (struct measure){.unit = ""};
    if (now && i < now->len) {
        const struct stk_jval *tuple = &now->item[i];
        bool whole = tuple->type == STK_JARR && tuple->len >= 5;
        m->name = last_part(now->name[i].str);
        m->value = whole ? &tuple->item[0] : NULL;
        m->unit = whole && tuple->item[4].type == STK_JSTR ? tuple->item[4].str : "";
        return true;
    }
    if (now || !old || i >= old->len)
        return false;
    const struct stk_jval *name = get(&old->item[i], "name", STK_JSTR);
    const struct stk_jval *unit = get(&old->item[i], "unit", STK_JSTR);
    m->name = name ? name->str : "";
    m->value = old->item[i].type == STK_JOBJ ? stk_json_get(&old->item[i], "value") : NULL;
    m->unit = unit ? unit->str : "";
    return true;
}

/* A parameter in the name of a test: "solve %num_threads=4 %algo=a". */
struct parameter {
    const char *key, *value;
    size_t nkey, nvalue;
};

/* Parameter i of a name. False: no more. */
static bool parameter_at(const char *name, size_t i, struct parameter *p)
{
    while (name && (name = strstr(name, " %"))) {
        const char *end = strstr(name + 2, " %"), *eq = strchr(name, '=');
        end = end ? end : name + strlen(name);
        *p = (struct parameter){.key = name + 2};
        name = end;
        if (!eq || eq > end || i-- > 0)
            continue;
        p->nkey = (size_t)(eq - p->key);
        p->value = eq + 1;
        p->nvalue = (size_t)(end - p->value);
        return true;
    }
    return false;
}

static bool is_parameter(const struct parameter *p, const char *name)
{
    return strlen(name) == p->nkey && memcmp(name, p->key, p->nkey) == 0;
}

/* The columns of the table: members of tests that count something, parameters, and measures. */
struct report {
    const struct stk_headings *map;
    const char *member[PARAMETERS_MAX];
    struct parameter parameter[PARAMETERS_MAX]; /* that are not members */
    struct measure measure[PARAMETERS_MAX];
    size_t nmembers, nparameters, nmeasures;
    const char *test; /* name of the first */
    bool several;     /* tests of different names: each is a series */
};

static void add_members(struct report *r, const struct stk_jval *obj)
{
    for (size_t i = 0; obj && obj->type == STK_JOBJ && i < obj->len; i++) {
        enum stk_jtype type = obj->item[i].type;
        bool known = type != STK_JINT && type != STK_JSTR && type != STK_JFLOAT;
        for (size_t k = 0; k < r->nmembers && !known; k++)
            known = strcmp(r->member[k], obj->name[i].str) == 0;
        if (!known && r->nmembers < PARAMETERS_MAX && counts(obj->name[i].str, r->map))
            r->member[r->nmembers++] = obj->name[i].str;
    }
}

/* After all members are known. */
static void add_parameters(struct report *r, const char *name)
{
    struct parameter p;
    for (size_t i = 0; parameter_at(name, i, &p); i++) {
        bool known = r->nparameters == PARAMETERS_MAX;
        for (size_t k = 0; k < r->nmembers && !known; k++)
            known = is_parameter(&p, r->member[k]);
        for (size_t k = 0; k < r->nparameters && !known; k++)
            known = p.nkey == r->parameter[k].nkey &&
                    memcmp(p.key, r->parameter[k].key, p.nkey) == 0;
        if (!known)
            r->parameter[r->nparameters++] = p;
    }
}

static size_t name_length(const struct stk_jval *test)
{
    const struct stk_jval *name = get(test, "name", STK_JSTR);
    return name ? strcspn(name->str, " ") : 0; /* its parameters follow */
}

static void survey_test(struct report *r, const struct stk_jval *test)
{
    struct measure m;
    const struct stk_jval *name = get(test, "name", STK_JSTR);
    add_members(r, test);
    add_members(r, get(test, "check_params", STK_JOBJ));
    add_members(r, get(test, "check_vars", STK_JOBJ));
    for (size_t i = 0; measure_at(test, i, &m); i++) {
        bool known = false;
        for (size_t k = 0; k < r->nmeasures && !known; k++)
            known = strcmp(r->measure[k].name, m.name) == 0;
        if (!known && r->nmeasures < PARAMETERS_MAX)
            r->measure[r->nmeasures++] = m;
    }
    r->several = r->several || (r->test && name &&
                                (name_length(test) != strcspn(r->test, " ") ||
                                 strncmp(r->test, name->str, name_length(test)) != 0));
    r->test = r->test ? r->test : name ? name->str : NULL;
}

static const struct stk_jval *member_of(const struct stk_jval *test, const char *name)
{
    const struct stk_jval *params = get(test, "check_params", STK_JOBJ);
    const struct stk_jval *vars = get(test, "check_vars", STK_JOBJ);
    const struct stk_jval *v = test->type == STK_JOBJ ? stk_json_get(test, name) : NULL;
    v = v || !params ? v : stk_json_get(params, name);
    return v || !vars ? v : stk_json_get(vars, name);
}

static void put_nodes(const struct stk_jval *test, struct stk_buf *out)
{
    const struct stk_jval *list = get(test, "job_nodelist", STK_JARR);
    struct stk_buf b = STK_BUF_INIT;
    list = list ? list : get(test, "nodelist", STK_JARR);
    for (size_t i = 0; list && i < list->len; i++)
        if (list->item[i].type == STK_JSTR)
            stk_buf_printf(&b, "%s%s", i ? "," : "", list->item[i].str);
    stk_buf_putc(out, ',');
    put_text(out, stk_buf_cstr(&b), b.len > STK_STUDY_TEXT_MAX ? 0 : b.len);
    out->fail = out->fail || b.fail;
    stk_buf_release(&b);
}

/* The test's value of a parameter. */
static void put_parameter(const struct stk_jval *name, const struct parameter *wanted,
                          struct stk_buf *out)
{
    struct parameter p;
    size_t i = 0;
    bool more;
    while ((more = parameter_at(name ? name->str : NULL, i, &p)) &&
           !(p.nkey == wanted->nkey && memcmp(p.key, wanted->key, p.nkey) == 0))
        i++;
    stk_buf_putc(out, ',');
    if (more)
        put_text(out, p.value, p.nvalue);
}

static void put_test(const struct report *r, const struct stk_jval *test, struct stk_buf *out)
{
    const struct stk_jval *result = get(test, "result", STK_JSTR);
    const struct stk_jval *name = get(test, "name", STK_JSTR);
    bool good = result && (strcmp(result->str, "pass") == 0 || strcmp(result->str, "success") == 0);
    stk_buf_puts(out, good ? "ok" : "failed");
    put_value(out, stk_json_get(test, "jobid"));
    put_nodes(test, out);
    if (r->several) {
        stk_buf_putc(out, ',');
        put_text(out, name ? name->str : "", name_length(test));
    }
    for (size_t i = 0; i < r->nmembers; i++)
        put_value(out, member_of(test, r->member[i]));
    for (size_t i = 0; i < r->nparameters; i++)
        put_parameter(name, &r->parameter[i], out);
    for (size_t i = 0; i < r->nmeasures; i++) {
        struct measure m;
        const struct stk_jval *v = NULL;
        for (size_t k = 0; measure_at(test, k, &m) && !v; k++)
            v = strcmp(m.name, r->measure[i].name) == 0 ? m.value : NULL;
        put_value(out, v);
    }
    stk_buf_putc(out, '\n');
}

static void put_report_head(const struct report *r, struct stk_buf *out)
{
    stk_buf_puts(out, r->several ? "status,job,host,series" : "status,job,host");
    for (size_t i = 0; i < r->nmembers; i++) {
        stk_buf_putc(out, ',');
        put_text(out, r->member[i], strlen(r->member[i]));
    }
    for (size_t i = 0; i < r->nparameters; i++) {
        struct stk_buf b = STK_BUF_INIT;
        stk_buf_printf(&b, "parameter_%.*s", (int)r->parameter[i].nkey, r->parameter[i].key);
        stk_buf_putc(out, ',');
        put_text(out, stk_buf_cstr(&b), b.len);
        out->fail = out->fail || b.fail;
        stk_buf_release(&b);
    }
    for (size_t i = 0; i < r->nmeasures; i++) {
        struct stk_buf b = STK_BUF_INIT;
        const struct measure *m = &r->measure[i];
        stk_buf_printf(&b, m->unit[0] ? "%s [%s]" : "%s", m->name, m->unit);
        stk_buf_putc(out, ',');
        put_text(out, stk_buf_cstr(&b), b.len);
        out->fail = out->fail || b.fail;
        stk_buf_release(&b);
    }
    stk_buf_putc(out, '\n');
}

typedef void on_test(struct report *r, const struct stk_jval *test, struct stk_buf *out);

static void each_test(struct report *r, const struct stk_jval *runs, on_test *f,
                      struct stk_buf *out)
{
    for (size_t i = 0; i < runs->len; i++) {
        const struct stk_jval *tests = get(&runs->item[i], "testcases", STK_JARR);
        for (size_t k = 0; tests && k < tests->len; k++)
            if (tests->item[k].type == STK_JOBJ)
                f(r, &tests->item[k], out);
    }
}

static void on_survey(struct report *r, const struct stk_jval *test, struct stk_buf *out)
{
    (void)out;
    survey_test(r, test);
}

static void on_parameters(struct report *r, const struct stk_jval *test, struct stk_buf *out)
{
    const struct stk_jval *name = get(test, "name", STK_JSTR);
    (void)out;
    add_parameters(r, name ? name->str : NULL);
}

static void on_put(struct report *r, const struct stk_jval *test, struct stk_buf *out)
{
    put_test(r, test, out);
}

static int from_reframe(const struct stk_jval *runs, const struct stk_headings *map,
                        const char *path, struct stk_buf *out, struct stk_err *err)
{
    struct report r = {.map = map};
    each_test(&r, runs, on_survey, NULL);
    if (!r.nmeasures)
        return refuse(err, path, "no test of ReFrame's report has a performance variable");
    each_test(&r, runs, on_parameters, NULL);
    put_report_head(&r, out);
    each_test(&r, runs, on_put, out);
    return 0;
}

/* ---- which tool --------------------------------------------------------------------------- */

int stk_study_convert(const struct stk_jval *root, const struct stk_headings *map, const char *path,
                      struct stk_buf *out, bool *known, struct stk_err *err)
{
    const struct stk_jval *results = get(root, "results", STK_JARR);
    const struct stk_jval *runs = get(root, "runs", STK_JARR);
    bool reframe = runs && get(root, "session_info", STK_JOBJ);
    *known = results || reframe;
    int rc = reframe   ? from_reframe(runs, map, path, out, err)
             : results ? from_hyperfine(results, map, path, out, err)
                       : 0;
    return rc ? rc : stk_buf_check(out, err);
}
