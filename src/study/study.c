/*
 * study.c - runs and series as measured. Everything is checked when it is added, so that later code
 * never meets a time of 0, an N of 0, or an unterminated text.
 */
#include "study/study.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "base/array.h"

const char *const stk_run_status_ids[] = {
    [STK_RUN_OK] = "ok",           [STK_RUN_FAILED] = "failed",       [STK_RUN_TIMEOUT] = "timeout",
    [STK_RUN_MEMORY] = "memory",   [STK_RUN_CANCELLED] = "cancelled", [STK_RUN_NODE] = "node",
    [STK_RUN_PENDING] = "pending", NULL};

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
