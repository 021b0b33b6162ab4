/*
 * study.c - runs and series as measured, and as JSON: what `stoker scale` keeps between its runs,
 * and the part of its result that other studies can be compared with. Everything is checked when it
 * is added, so that later code never meets a time of 0, an N of 0, or an unterminated text.
 */
#include "study/study.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/json_fields.h"

const char *const stk_run_status_ids[] = {[STK_RUN_OK] = "ok",
                                          [STK_RUN_FAILED] = "failed",
                                          [STK_RUN_TIMEOUT] = "timeout",
                                          [STK_RUN_MEMORY] = "memory",
                                          [STK_RUN_CANCELLED] = "cancelled",
                                          [STK_RUN_NODE] = "node",
                                          [STK_RUN_PENDING] = "pending",
                                          NULL};

static const struct {
    const char *word;
    bool blames;
} statuses[STK_RUN_STATUSES] = {
    [STK_RUN_OK] = {"ok", false},
    [STK_RUN_FAILED] = {"failed", true},
    [STK_RUN_TIMEOUT] = {"time limit", true},
    [STK_RUN_CANCELLED] = {"cancelled", false},
    [STK_RUN_MEMORY] = {"out of memory", true},
    [STK_RUN_NODE] = {"node failed", false},
    [STK_RUN_PENDING] = {"never started", false},
};

bool stk_run_blames(enum stk_run_status s)
{
    return statuses[s].blames;
}

const char *stk_run_status_word(enum stk_run_status s)
{
    return statuses[s].word;
}

enum stk_run_status stk_run_status_of(enum stk_slurm_state state)
{
    switch (state) {
    case STK_SLURM_COMPLETED:
        return STK_RUN_OK;
    case STK_SLURM_PENDING:
        return STK_RUN_PENDING;
    case STK_SLURM_CANCELLED:
    case STK_SLURM_PREEMPTED:
        return STK_RUN_CANCELLED;
    case STK_SLURM_TIMEOUT:
        return STK_RUN_TIMEOUT;
    case STK_SLURM_OUT_OF_MEMORY:
        return STK_RUN_MEMORY;
    case STK_SLURM_NODE_FAIL:
        return STK_RUN_NODE;
    default:
        return STK_RUN_FAILED;
    }
}

static enum stk_slurm_state slurm_state(const char *word, size_t n)
{
    char slurms[64];
    size_t len = n < sizeof slurms ? n : sizeof slurms;
    for (size_t i = 0; i < len; i++)
        slurms[i] = word[i] >= 'a' && word[i] <= 'z' ? (char)(word[i] - 32) : word[i];
    return stk_slurm_state_of(slurms, len);
}

bool stk_run_is_live(const char *word, size_t n)
{
    enum stk_slurm_state state = slurm_state(word, n);
    return state != STK_SLURM_UNKNOWN && state != STK_SLURM_PENDING && !stk_slurm_ended(state);
}

int stk_run_status_find(const char *word, size_t n)
{
    static const struct {
        const char *word;
        enum stk_run_status status;
    } known[] = {{"done", STK_RUN_OK},
                 {"0", STK_RUN_OK},
                 {"success", STK_RUN_OK},
                 {"error", STK_RUN_FAILED},
                 {"oom", STK_RUN_MEMORY}};
    for (int i = 0; i < STK_RUN_STATUSES; i++)
        if (strlen(stk_run_status_ids[i]) == n && strncasecmp(stk_run_status_ids[i], word, n) == 0)
            return i;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strlen(known[i].word) == n && strncasecmp(known[i].word, word, n) == 0)
            return (int)known[i].status;
    enum stk_slurm_state state = slurm_state(word, n);
    return state == STK_SLURM_PENDING || stk_slurm_ended(state) ? (int)stk_run_status_of(state)
                                                                : -1;
}

void stk_study_release(struct stk_study *s)
{
    for (size_t i = 0; i < s->nseries; i++)
        free(s->series[i].run);
    stk_arena_release(&s->text);
    *s = (struct stk_study)STK_STUDY_INIT;
}

static int check_text(const char *text, size_t len, struct stk_err *err)
{
    if (!text || (len <= STK_STUDY_TEXT_MAX && !memchr(text, '\0', len)))
        return 0;
    return stk_err_set(err, STK_E_USAGE, NULL, -1,
                       "a name or note is longer than %d bytes, or contains a NUL",
                       STK_STUDY_TEXT_MAX);
}

/* *out is NULL for a NULL text. */
static int copy_text(struct stk_study *s, const char *text, size_t len, const char **out,
                     struct stk_err *err)
{
    int rc = check_text(text, len, err);
    *out = rc || !text ? NULL : stk_arena_dup(&s->text, text, len);
    return rc || !text || *out ? rc : stk_err_nomem(err, len);
}

int stk_study_set_unit(struct stk_study *s, const char *unit, struct stk_err *err)
{
    return copy_text(s, unit, unit ? strlen(unit) : 0, &s->unit, err);
}

int stk_study_set_metric(struct stk_study *s, const char *name, bool higher_better,
                         struct stk_err *err)
{
    s->higher_better = name && higher_better;
    return copy_text(s, name, name ? strlen(name) : 0, &s->metric, err);
}

int stk_study_series(struct stk_study *s, const char *name, size_t len, size_t *index,
                     struct stk_err *err)
{
    for (*index = 0; *index < s->nseries; ++*index) {
        const char *have = s->series[*index].name;
        if (strlen(have) == len && memcmp(have, name, len) == 0)
            return 0;
    }
    if (s->nseries == STK_STUDY_SERIES_MAX)
        return stk_err_set(err, STK_E_USAGE, NULL, -1, "more than %d series in a study",
                           STK_STUDY_SERIES_MAX);
    struct stk_study_series *fresh = &s->series[s->nseries];
    *fresh = (struct stk_study_series){0};
    int rc = copy_text(s, name, len, &fresh->name, err);
    s->nseries += rc == 0;
    return rc;
}

int stk_study_check(const struct stk_study *s, const struct stk_study_run *run, struct stk_err *err)
{
    const char *text[] = {run->point, run->host, run->kind, run->job, run->note, run->output};
    int rc = 0;
    for (size_t i = 0; i < sizeof text / sizeof *text && !rc; i++)
        rc = check_text(text[i], text[i] ? strlen(text[i]) : 0, err);
    if (rc)
        return rc;
    if (run->n < 1 || run->n > STK_STUDY_N_MAX)
        return stk_err_set(err, STK_E_USAGE, NULL, -1, "N must be between 1 and %d",
                           STK_STUDY_N_MAX);
    if ((unsigned)run->status >= STK_RUN_STATUSES)
        return stk_err_set(err, STK_E_USAGE, NULL, -1, "unknown status of a run");
    if (run->cores > STK_STUDY_N_MAX || run->gpus > STK_STUDY_N_MAX || run->nodes > STK_STUDY_N_MAX)
        return stk_err_set(err, STK_E_USAGE, NULL, -1, "more than %d cores, GPUs or nodes",
                           STK_STUDY_N_MAX);
    double counted = s->metric ? run->value : run->wall_s;
    /* These limits keep squares and ratios of measurements within a double. */
    if (run->status == STK_RUN_OK && !(counted >= 1e-12 && counted <= 1e12))
        return stk_err_set(err, STK_E_USAGE, NULL, -1,
                           "a %s must be a number between 1e-12 and 1e12, not %g",
                           s->metric ? "value" : "time in seconds", counted);
    if (!isnan(run->wall_s) && !(run->wall_s >= 0 && run->wall_s <= 1e12))
        return stk_err_set(err, STK_E_USAGE, NULL, -1, "%g is not a time in seconds", run->wall_s);
    return 0;
}

static int room_for_run(struct stk_study *s, struct stk_study_series *to, struct stk_err *err)
{
    if (s->nruns >= STK_STUDY_RUNS_MAX)
        return stk_err_set(err, STK_E_USAGE, NULL, -1, "more than %d runs in a study",
                           STK_STUDY_RUNS_MAX);
    return STK_ARRAY_MORE(to->run, to->nruns, err);
}

int stk_study_add(struct stk_study *s, size_t series, const struct stk_study_run *run,
                  struct stk_err *err)
{
    struct stk_study_series *to = &s->series[series];
    int rc = stk_study_check(s, run, err);
    if (!rc)
        rc = room_for_run(s, to, err);
    if (rc)
        return rc;
    struct stk_study_run *copy = &to->run[to->nruns];
    *copy = *run;
    const char **text[] = {&copy->point, &copy->host, &copy->kind,
                           &copy->job,   &copy->note, &copy->output};
    for (size_t i = 0; i < sizeof text / sizeof *text && !rc; i++)
        rc = copy_text(s, *text[i], *text[i] ? strlen(*text[i]) : 0, text[i], err);
    if (rc)
        return rc;
    to->nruns++;
    s->nruns++;
    return 0;
}

int stk_study_append(struct stk_study *to, const struct stk_study *from, const char *name,
                     struct stk_err *err)
{
    int rc = 0;
    for (size_t i = 0; i < from->nseries && !rc; i++) {
        const struct stk_study_series *s = &from->series[i];
        const char *called = *s->name ? s->name : name;
        size_t series;
        rc = stk_study_series(to, called, strlen(called), &series, err);
        for (size_t k = 0; k < s->nruns && !rc; k++) {
            rc = stk_study_add(to, series, &s->run[k], err);
            if (rc)
                stk_err_wrap(err, rc, "series[%zu].runs[%zu]", i, k);
        }
    }
    return rc;
}

double stk_study_cost(const struct stk_study *s, const struct stk_study_run *run)
{
    if (run->status != STK_RUN_OK)
        return NAN;
    return !s->metric ? run->wall_s : s->higher_better ? 1 / run->value : run->value;
}

/* "4-6,8": the numbers in brackets. NULL: not such a list. */
static const char *count_range(const char *p, size_t *count)
{
    unsigned long long first, last;
    int used;
    do {
        if (sscanf(p, "%9llu%n", &first, &used) != 1)
            return NULL;
        p += used;
        last = first;
        if (*p == '-' && sscanf(p + 1, "%9llu%n", &last, &used) == 1)
            p += used + 1;
        if (last < first || last - first > STK_STUDY_N_MAX)
            return NULL;
        *count += (size_t)(last - first) + 1;
    } while (*p++ == ',');
    return p[-1] == ']' ? p : NULL;
}

size_t stk_study_hosts(const char *list)
{
    size_t n = 0;
    while (list && *list) {
        size_t many = 0, len = strcspn(list, ",[ ");
        const char *p = list + len;
        if (*p == '[' && !(p = count_range(p + 1, &many)))
            return 0;
        p += strcspn(p, ",[ "); /* a suffix */
        if (len + many == 0 || (*p && *p != ','))
            return 0;
        n += many ? many : 1;
        list = p + (*p == ',');
    }
    return n;
}

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
    if (!first &&
        (file->weak != s->weak || !metric != !s->metric ||
         (metric && (strcmp(metric, s->metric) != 0 || file->higher_better != s->higher_better))))
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
