/*
 * json.c - a study as JSON and back: what `stoker scale` keeps between its runs, and the part
 * of its result that other studies can be compared with. Reading checks everything.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "base/file.h"
#include "study/study.h"

#define VERSION 1

/* ---- writing ------------------------------------------------------------------------------ */

static void put_known(struct stk_jw *w, const char *key, double v)
{
    if (!isnan(v))
        stk_jw_put_f64(w, key, v);
}

static void put_count(struct stk_jw *w, const char *key, int64_t v)
{
    if (v >= 0)
        stk_jw_put_u64(w, key, (uint64_t)v);
}

static void put_text(struct stk_jw *w, const char *key, const char *v)
{
    if (v)
        stk_jw_put_str(w, key, v);
}

void stk_study_write_run(const struct stk_study_run *r, struct stk_jw *w)
{
    stk_jw_open(w, '{');
    stk_jw_put_u64(w, "n", r->n);
    put_text(w, "point", r->point);
    stk_jw_put_u64(w, "repeat", r->repeat);
    stk_jw_put_str(w, "status", stk_run_status_id(r->status));
    put_known(w, "wall_s", r->wall_s);
    put_known(w, "value", r->value);
    put_count(w, "cores", r->cores);
    put_count(w, "gpus", r->gpus);
    put_count(w, "nodes", r->nodes);
    put_known(w, "queue_s", r->queue_s);
    put_known(w, "accounted_s", r->accounted_s);
    put_known(w, "launch_s", r->launch_s);
    put_known(w, "cpu_s", r->cpu_s);
    put_count(w, "peak_memory_bytes", r->peak_memory_bytes);
    put_text(w, "host", r->host);
    put_text(w, "kind", r->kind);
    put_text(w, "job", r->job);
    put_text(w, "note", r->note);
    put_text(w, "output", r->output);
    stk_jw_close(w, '}');
}

void stk_study_write_json(const struct stk_study *s, struct stk_jw *w)
{
    stk_jw_open(w, '{');
    stk_jw_put_u64(w, "stoker_study", VERSION);
    stk_jw_put_str(w, "unit", s->unit);
    stk_jw_put_str(w, "metric", s->metric);
    stk_jw_put_bool(w, "higher_is_better", s->higher_better);
    stk_jw_put_bool(w, "weak", s->weak);
    stk_jw_key(w, "series");
    stk_jw_open(w, '[');
    for (size_t i = 0; i < s->nseries; i++) {
        stk_jw_open(w, '{');
        stk_jw_put_str(w, "name", s->series[i].name);
        stk_jw_key(w, "runs");
        stk_jw_open(w, '[');
        for (size_t k = 0; k < s->series[i].nruns; k++)
            stk_study_write_run(&s->series[i].run[k], w);
        stk_jw_close(w, ']');
        stk_jw_close(w, '}');
    }
    stk_jw_close(w, ']');
    stk_jw_close(w, '}');
}

/* ---- reading ------------------------------------------------------------------------------ */

struct source {
    const char *text, *path;
};

static int wrong(const struct source *from, const struct stk_jval *at, struct stk_err *err,
                 const char *what)
{
    return stk_err_set(err, STK_E_CORRUPT, from->path, at ? at->raw - from->text : -1, "%s", what);
}

/* A member that may be missing or null: then *out keeps its value. */
static int get_number(const struct source *from, const struct stk_jval *obj, const char *name,
                      double *out, struct stk_err *err)
{
    const struct stk_jval *v = stk_json_get(obj, name);
    if (!v || v->type == STK_JNULL)
        return 0;
    if (v->type != STK_JINT && v->type != STK_JFLOAT)
        return wrong(from, v, err, "a number was expected");
    *out = v->f;
    return 0;
}

static int get_count(const struct source *from, const struct stk_jval *obj, const char *name,
                     int64_t *out, struct stk_err *err)
{
    const struct stk_jval *v = stk_json_get(obj, name);
    if (!v || v->type == STK_JNULL)
        return 0;
    if (v->type != STK_JINT || v->i < 0 || v->i > STK_STUDY_N_MAX)
        return wrong(from, v, err, "a whole number up to 1,000,000,000 was expected");
    *out = v->i;
    return 0;
}

static int get_bytes(const struct source *from, const struct stk_jval *obj, const char *name,
                     int64_t *out, struct stk_err *err)
{
    const struct stk_jval *v = stk_json_get(obj, name);
    if (!v || v->type == STK_JNULL)
        return 0;
    if (v->type != STK_JINT || v->i < 0)
        return wrong(from, v, err, "a number of bytes was expected");
    *out = v->i;
    return 0;
}

static int get_text(const struct source *from, const struct stk_jval *obj, const char *name,
                    const char **out, struct stk_err *err)
{
    const struct stk_jval *v = stk_json_get(obj, name);
    if (!v || v->type == STK_JNULL)
        return 0;
    if (v->type != STK_JSTR || memchr(v->str, '\0', v->len))
        return wrong(from, v, err, "a text was expected");
    *out = v->str;
    return 0;
}

static int get_flag(const struct source *from, const struct stk_jval *obj, const char *name,
                    bool *out, struct stk_err *err)
{
    const struct stk_jval *v = stk_json_get(obj, name);
    if (v && v->type != STK_JBOOL)
        return wrong(from, v, err, "true or false was expected");
    *out = v && v->b;
    return 0;
}

static int get_run(const struct source *from, const struct stk_jval *v, struct stk_study_run *r,
                   struct stk_err *err)
{
    int64_t n = 0, repeat = 0;
    const char *status = "ok";
    *r = (struct stk_study_run)STK_STUDY_RUN_INIT;
    if (v->type != STK_JOBJ)
        return wrong(from, v, err, "a run was expected");
    int rc = get_count(from, v, "n", &n, err);
    rc = rc ? rc : get_text(from, v, "point", &r->point, err);
    rc = rc ? rc : get_count(from, v, "repeat", &repeat, err);
    rc = rc ? rc : get_count(from, v, "cores", &r->cores, err);
    rc = rc ? rc : get_count(from, v, "gpus", &r->gpus, err);
    rc = rc ? rc : get_count(from, v, "nodes", &r->nodes, err);
    rc = rc ? rc : get_number(from, v, "wall_s", &r->wall_s, err);
    rc = rc ? rc : get_number(from, v, "value", &r->value, err);
    rc = rc ? rc : get_number(from, v, "queue_s", &r->queue_s, err);
    rc = rc ? rc : get_number(from, v, "accounted_s", &r->accounted_s, err);
    rc = rc ? rc : get_number(from, v, "launch_s", &r->launch_s, err);
    rc = rc ? rc : get_number(from, v, "cpu_s", &r->cpu_s, err);
    rc = rc ? rc : get_bytes(from, v, "peak_memory_bytes", &r->peak_memory_bytes, err);
    rc = rc ? rc : get_text(from, v, "status", &status, err);
    rc = rc ? rc : get_text(from, v, "host", &r->host, err);
    rc = rc ? rc : get_text(from, v, "kind", &r->kind, err);
    rc = rc ? rc : get_text(from, v, "job", &r->job, err);
    rc = rc ? rc : get_text(from, v, "note", &r->note, err);
    rc = rc ? rc : get_text(from, v, "output", &r->output, err);
    if (rc)
        return rc;
    int known = stk_run_status_find(status, strlen(status));
    if (known < 0)
        return wrong(from, v, err, "unknown status of a run");
    r->n = (uint64_t)n;
    r->repeat = (uint32_t)repeat;
    r->status = (enum stk_run_status)known;
    return 0;
}

int stk_study_read_run(const struct stk_jval *v, struct stk_study_run *run, struct stk_err *err)
{
    return get_run(&(struct source){v->raw, NULL}, v, run, err);
}

static int read_run(const struct source *from, const struct stk_jval *v, struct stk_study *s,
                    size_t series, struct stk_err *err)
{
    struct stk_study_run r;
    int rc = get_run(from, v, &r, err);
    if (rc)
        return rc;
    rc = stk_study_add(s, series, &r, err);
    if (rc && err) { /* the study knows what is wrong, only we know where */
        snprintf(err->path, sizeof err->path, "%s", from->path ? from->path : "");
        err->offset = v->raw - from->text;
        err->code = rc == STK_E_USAGE ? STK_E_CORRUPT : rc;
    }
    return rc == STK_E_USAGE ? STK_E_CORRUPT : rc;
}

static int read_series(const struct source *from, const struct stk_jval *v, struct stk_study *s,
                       const char *rename, struct stk_err *err)
{
    const char *name = "";
    size_t series;
    const struct stk_jval *runs = v->type == STK_JOBJ ? stk_json_get(v, "runs") : NULL;
    if (!runs || runs->type != STK_JARR)
        return wrong(from, v, err, "a series with its runs was expected");
    int rc = get_text(from, v, "name", &name, err);
    if (!rc && rename && !*name)
        name = rename;
    if (!rc)
        rc = stk_study_series(s, name, strlen(name), &series, err);
    for (size_t i = 0; i < runs->len && !rc; i++)
        rc = read_run(from, &runs->item[i], s, series, err);
    return rc;
}

/* Studies can be combined if they compare the same thing. */
static int read_head(const struct source *from, const struct stk_jval *v, struct stk_study *s,
                     struct stk_err *err)
{
    const char *unit = NULL, *metric = NULL;
    bool weak = false, higher = false, first = !s->fixed && s->nruns == 0;
    int64_t version = 0;
    int rc = get_count(from, v, "stoker_study", &version, err);
    rc = rc ? rc : get_text(from, v, "unit", &unit, err);
    rc = rc ? rc : get_text(from, v, "metric", &metric, err);
    rc = rc ? rc : get_flag(from, v, "higher_is_better", &higher, err);
    rc = rc ? rc : get_flag(from, v, "weak", &weak, err);
    if (rc)
        return rc;
    if (version != VERSION)
        return wrong(from, v, err, "the study was written by another version of stoker");
    if (!first && (weak != s->weak || !metric != !s->metric ||
                   (metric && (strcmp(metric, s->metric) != 0 || higher != s->higher_better))))
        return stk_err_set(err, STK_E_USAGE, from->path, -1,
                           "it measures something other than the study before it");
    s->weak = first ? s->weak || weak : s->weak;
    if (metric && !s->metric)
        rc = stk_study_set_metric(s, metric, higher, err);
    if (!rc && unit && !s->unit)
        rc = stk_study_set_unit(s, unit, err);
    return rc;
}

/* The study itself, with or without a result's envelope. */
static const struct stk_jval *find_study(const struct stk_jval *root)
{
    const struct stk_jval *v = root;
    if (root->type == STK_JOBJ && !stk_json_get(root, "stoker_study")) {
        v = stk_json_get(root, "result");
        v = v && v->type == STK_JOBJ ? stk_json_get(v, "study") : NULL;
    }
    return v && v->type == STK_JOBJ && stk_json_get(v, "stoker_study") ? v : NULL;
}

static int read_study(const struct source *from, const struct stk_jval *root, struct stk_study *s,
                      const char *rename, struct stk_err *err)
{
    const struct stk_jval *v = find_study(root);
    const struct stk_jval *series = v ? stk_json_get(v, "series") : NULL;
    if (!v)
        return wrong(from, root, err, "this is not a study");
    int rc = read_head(from, v, s, err);
    if (!rc && (!series || series->type != STK_JARR))
        rc = wrong(from, v, err, "a study without its series");
    for (size_t i = 0; !rc && i < series->len; i++)
        rc = read_series(from, &series->item[i], s, rename, err);
    return rc;
}

static int read_foreign(const struct stk_jval *root, struct stk_study *s, const char *path,
                        const char *rename, bool *known, struct stk_err *err)
{
    struct stk_buf table = STK_BUF_INIT;
    int rc = stk_study_convert(root, s->headings, path, &table, known, err);
    if (!rc && *known)
        rc = stk_study_read_converted(s, &table, path, rename, err);
    stk_buf_release(&table);
    return rc;
}

static int read_named(struct stk_study *s, const char *text, size_t len, const char *path,
                      const char *rename, struct stk_err *err)
{
    struct stk_arena arena = STK_ARENA_INIT;
    struct stk_jval *root = NULL;
    struct source from = {text, path};
    bool foreign = false;
    int rc = stk_json_parse(&arena, text, len, &root, err);
    if (!rc && !find_study(root))
        rc = read_foreign(root, s, path, rename, &foreign, err);
    if (!rc && !foreign)
        rc = read_study(&from, root, s, rename, err);
    if (rc && err && path && !err->path[0])
        snprintf(err->path, sizeof err->path, "%s", path);
    stk_arena_release(&arena);
    return rc;
}

int stk_study_read_json(struct stk_study *s, const char *text, size_t len, const char *path,
                        struct stk_err *err)
{
    return read_named(s, text, len, path, NULL, err);
}

/* A pipe, as in `sacct -P | stoker scale --from -`. */
static int read_input(struct stk_buf *b, struct stk_err *err)
{
    char part[16384];
    ssize_t n;
    while ((n = read(STDIN_FILENO, part, sizeof part)) > 0 || (n < 0 && errno == EINTR)) {
        stk_buf_put(b, part, n > 0 ? (size_t)n : 0);
        if (b->len > STK_STUDY_FILE_MAX)
            return stk_err_set(err, STK_E_CORRUPT, "-", -1, "more than 32 MiB");
    }
    return n < 0 ? stk_err_sys(err, "-", "read") : stk_buf_check(b, err);
}

int stk_study_read(struct stk_study *s, const char *path, const char *series, struct stk_err *err)
{
    struct stk_buf b = STK_BUF_INIT;
    int rc = strcmp(path, "-") == 0 ? read_input(&b, err)
                                    : stk_read_file(path, STK_STUDY_FILE_MAX, &b, err);
    if (!rc) {
        const char *text = stk_buf_cstr(&b);
        bool json = b.len && text[strspn(text, " \t\r\n")] == '{';
        rc = json ? read_named(s, text, b.len, path, series, err)
                  : stk_study_read_csv(s, text, b.len, path, series, err);
    }
    stk_buf_release(&b);
    return rc;
}
