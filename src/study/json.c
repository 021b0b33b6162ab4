/*
 * json.c - a study as JSON and back: what `stoker scale` keeps between its runs, and the part
 * of its result that other studies can be compared with. Reading checks everything.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json_fields.h"
#include "study/study.h"

#define VERSION 1

#define RUN(type, name) STK_JFIELD(type, #name, struct stk_study_run, name), .omit = true
const struct stk_jfield stk_study_run_fields[] = {
    {STK_JFIELD(UNSIGNED, "n", struct stk_study_run, n), .max = STK_STUDY_N_MAX},
    {RUN(TEXT, point)},
    {STK_JFIELD(UNSIGNED, "repeat", struct stk_study_run, repeat), .max = STK_STUDY_N_MAX},
    {STK_JFIELD(WORD, "status", struct stk_study_run, status), .words = stk_run_status_ids,
     .find = stk_run_status_find},
    {RUN(REAL, wall_s)},
    {RUN(REAL, value), .negative = true},
    {RUN(COUNT, cores), .max = STK_STUDY_N_MAX},
    {RUN(COUNT, gpus), .max = STK_STUDY_N_MAX},
    {RUN(COUNT, nodes), .max = STK_STUDY_N_MAX},
    {RUN(REAL, queue_s), .negative = true}, /* of others' clocks, as the next three */
    {RUN(REAL, accounted_s), .negative = true},
    {RUN(REAL, launch_s), .negative = true},
    {RUN(REAL, cpu_s), .negative = true},
    {RUN(COUNT, peak_memory_bytes)},
    {RUN(TEXT, host)},
    {RUN(TEXT, kind)},
    {RUN(TEXT, job)},
    {RUN(TEXT, note)},
    {RUN(TEXT, output)},
    {0},
};
#undef RUN

static const struct stk_study_run no_run = STK_STUDY_RUN_INIT;
static const struct stk_study_series no_series = {.name = ""};

static const struct stk_jfield series_fields[] = {
    {STK_JFIELD(TEXT, "name", struct stk_study_series, name)},
    {STK_JFIELD_LIST(STRUCT, "runs", struct stk_study_series, run, nruns), .required = true,
     .room = STK_STUDY_RUNS_MAX, .table = stk_study_run_fields, .init = &no_run},
    {0},
};

static const struct stk_jfield study_fields[] = {
    {STK_JFIELD(TEXT, "unit", struct stk_study, unit)},
    {STK_JFIELD(TEXT, "metric", struct stk_study, metric)},
    {STK_JFIELD(FLAG, "higher_is_better", struct stk_study, higher_better)},
    {STK_JFIELD(FLAG, "weak", struct stk_study, weak)},
    {STK_JFIELD_ARRAY(STRUCT, "series", struct stk_study, series, nseries), .required = true,
     .table = series_fields, .init = &no_series},
    {0},
};

void stk_study_write_json(const struct stk_study *s, struct stk_jw *w)
{
    stk_jw_open(w, '{');
    stk_jw_put_u64(w, "stoker_study", VERSION);
    stk_jfields_put(study_fields, s, w);
    stk_jw_close(w, '}');
}

/* ---- reading ------------------------------------------------------------------------------ */

int stk_study_read_run(const struct stk_jval *v, struct stk_study_run *run, struct stk_err *err)
{
    *run = no_run;
    return stk_jfields_read(stk_study_run_fields, v, NULL, NULL, run, err);
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

/* Studies can be combined if they compare the same thing. */
static int combine(struct stk_study *s, const struct stk_study *file, const char *path,
                   const char *rename, struct stk_err *err)
{
    bool first = !s->fixed && s->nruns == 0;
    const char *metric = file->metric;
    int rc = 0;
    if (!first && (file->weak != s->weak || !metric != !s->metric ||
                   (metric && (strcmp(metric, s->metric) != 0 ||
                               file->higher_better != s->higher_better))))
        return stk_err_set(err, STK_E_USAGE, path, -1,
                           "it measures something other than the study before it");
    s->weak = first ? s->weak || file->weak : s->weak;
    if (metric && !s->metric)
        rc = stk_study_set_metric(s, metric, file->higher_better, err);
    if (!rc && file->unit && !s->unit)
        rc = stk_study_set_unit(s, file->unit, err);
    rc = rc ? rc : stk_study_append(s, file, rename ? rename : "", err);
    if (rc != STK_E_USAGE)
        return rc;
    if (err)
        err->code = STK_E_CORRUPT;
    return stk_err_at(err, STK_E_CORRUPT, path);
}

static int read_study(struct stk_study *s, const struct stk_jval *root, const char *path,
                      const char *rename, struct stk_arena *arena, struct stk_err *err)
{
    const struct stk_jval *v = find_study(root);
    struct stk_study file = STK_STUDY_INIT;
    if (!v)
        return stk_err_set(err, STK_E_CORRUPT, path, -1, "this is not a study");
    const struct stk_jval *version = stk_json_get(v, "stoker_study");
    if (version->type != STK_JINT || version->i != VERSION)
        return stk_err_set(err, STK_E_CORRUPT, path, -1,
                           "the study was written by another version of stoker");
    int rc = stk_jfields_read(study_fields, v, path, arena, &file, err);
    return rc ? rc : combine(s, &file, path, rename, err);
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
    bool foreign = false;
    int rc = stk_json_parse(&arena, text, len, &root, err);
    if (!rc && !find_study(root))
        rc = read_foreign(root, s, path, rename, &foreign, err);
    if (!rc && !foreign)
        rc = read_study(s, root, path, rename, &arena, err);
    stk_arena_release(&arena);
    return rc ? stk_err_at(err, rc, path) : 0;
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
