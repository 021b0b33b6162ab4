/*
 * study.c - studies as they are named on a page: folders, files and results of --json. Those that
 * compare the same thing become series of one study, each with a name of its own.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/file.h"
#include "record/folder.h"
#include "report/html/priv.h"
#include "report/scale.h"
#include "result/page.h"

#define STUDIES_MAX 32
#define GROWING_S 120 /* after a change, a study counts as running */

struct stk_pg_studies {
    size_t n;
    struct {
        struct stk_study study;
        struct stk_scaling_options options; /* of the first */
        char *name;                         /* of the files, separated by commas */
    } group[STUDIES_MAX];
};

void stk_pg_studies_free(struct stk_pg_studies *s)
{
    for (size_t i = 0; s && i < s->n; i++) {
        stk_study_release(&s->group[i].study);
        free(s->group[i].name);
    }
    free(s);
}

static bool same_text(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

static bool comparable(const struct stk_study *a, const struct stk_study *b)
{
    return same_text(a->unit, b->unit) && same_text(a->metric, b->metric) && a->weak == b->weak &&
           a->higher_better == b->higher_better && a->nseries + b->nseries <= STK_STUDY_SERIES_MAX;
}

/* Gives the series without a name that of their file. */
static int name_series(struct stk_study *study, const char *name, struct stk_err *err)
{
    char *own = stk_arena_dup(&study->text, name, strlen(name));
    if (!own)
        return stk_err_nomem(err, strlen(name));
    for (size_t k = 0; k < study->nseries; k++)
        if (!*study->series[k].name)
            study->series[k].name = own;
    return 0;
}

static bool has_series(const struct stk_study *study, const char *name)
{
    for (size_t k = 0; k < study->nseries; k++)
        if (strcmp(study->series[k].name, name) == 0)
            return true;
    return false;
}

/* Series of different files are different ones, even if they are called the same: the runs of two
 * kinds of GPU must not become one median. */
static int rename_taken(const struct stk_study *to, struct stk_study *study, const char *name,
                        struct stk_err *err)
{
    for (size_t k = 0; k < study->nseries; k++) {
        const char *old = study->series[k].name;
        char fresh[STK_STUDY_TEXT_MAX + 1];
        snprintf(fresh, sizeof fresh, "%.120s: %.120s", name, old);
        for (unsigned i = 2; has_series(to, fresh) && i < 10000; i++)
            snprintf(fresh, sizeof fresh, "%.110s: %.110s (%u)", name, old, i);
        if (!has_series(to, old))
            continue;
        study->series[k].name = stk_arena_dup(&study->text, fresh, strlen(fresh));
        if (!study->series[k].name)
            return stk_err_nomem(err, strlen(fresh));
    }
    return 0;
}

/* The series of the first study get names when a second one joins it. */
static int join(struct stk_pg_studies *all, size_t i, struct stk_study *study, const char *name,
                struct stk_err *err)
{
    struct stk_study *to = &all->group[i].study;
    char *names;
    int rc = name_series(to, all->group[i].name, err);
    rc = rc ? rc : name_series(study, name, err);
    rc = rc ? rc : rename_taken(to, study, name, err);
    rc = rc ? rc : stk_study_append(to, study, name, err);
    if (!rc && asprintf(&names, "%s, %s", all->group[i].name, name) < 0)
        rc = stk_err_nomem(err, strlen(name));
    if (rc)
        return rc;
    free(all->group[i].name);
    all->group[i].name = names;
    return 0;
}

/* Takes ownership of the study, unless it fails. */
static int keep(struct stk_pg_studies *all, struct stk_study *study,
                const struct stk_scaling_options *o, const char *name, struct stk_err *err)
{
    for (size_t i = 0; i < all->n; i++)
        if (comparable(&all->group[i].study, study)) {
            int rc = join(all, i, study, name, err);
            if (!rc)
                stk_study_release(study);
            return rc;
        }
    char *copy = all->n < STUDIES_MAX ? strdup(name) : NULL;
    if (!copy)
        return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1, "too many different studies");
    all->group[all->n].study = *study;
    all->group[all->n].options = *o;
    all->group[all->n++].name = copy;
    return 0;
}

static bool is_study(const char *name)
{
    return strcmp(name, "study.json") == 0;
}

static int read_study(const struct stk_pg_input *in, struct stk_study *study, struct stk_err *err)
{
    char *inside = in->folder ? stk_path_join(in->path, "study.json") : NULL;
    int rc = in->folder && !inside ? stk_err_nomem(err, strlen(in->path)) : 0;
    if (!rc)
        rc = stk_folder_believe(in->path, is_study, in->trust, err);
    rc = rc ? rc : stk_study_read(study, inside ? inside : in->path, "", err);
    free(inside);
    return rc;
}

/* Whether the folder has that file, as far as can be seen; its age in seconds, if that can. */
static bool has_file(const struct stk_pg_input *in, const char *name, time_t *age_s)
{
    struct stat st;
    char *inside = in->folder ? stk_path_join(in->path, name) : NULL;
    int there = inside ? stk_find_at(AT_FDCWD, inside, &st, inside, NULL) : 0;
    if (age_s)
        *age_s = there == 1 ? time(NULL) - st.st_mtime : GROWING_S;
    free(inside);
    return there != 0;
}

/* A study publishes its file after every run, and what it does now meanwhile: a run may take hours. */
static bool is_growing(const struct stk_pg_input *in)
{
    static const char *const file[] = {"study.json", "status.json"};
    time_t age_s;
    for (size_t i = 0; i < STK_PG_COUNT(file); i++)
        if (has_file(in, file[i], &age_s) && age_s < GROWING_S)
            return true;
    return false;
}

/* The folder of a study of which no run has ended. */
static bool is_new(const struct stk_pg_input *in)
{
    return !has_file(in, "study.json", NULL) && has_file(in, "plan.json", NULL) &&
           has_file(in, "runs.jsonl", NULL);
}

static void put_new(struct stk_jw *w, const struct stk_pg_input *in)
{
    stk_pg_begin(w, "study", in->name, "A study");
    stk_jw_put_str(w, "verdict", "No run of the study has ended yet.");
    stk_pg_number(w, 0, "count", "runs so far");
    stk_pg_blocks(w);
    stk_jw_close(w, ']');
    stk_pg_end(w);
}

static double setting(const struct stk_pg_input *in, const char *name)
{
    const struct stk_jval *all = in->result ? stk_json_get(in->root, "settings") : NULL;
    const struct stk_jval *one = all && all->type == STK_JOBJ ? stk_json_get(all, name) : NULL;
    double v = one && one->type == STK_JOBJ ? stk_pg_get(one, "value") : NAN;
    return v > 0 && v < 1e9 ? v : 0;
}

static void set_rate(double *rate, const struct stk_jval *weights, const char *name)
{
    double v = weights && weights->type == STK_JOBJ ? stk_pg_get(weights, name) : NAN;
    if (v >= 0 && v < 1e9)
        *rate = v;
}

/* Those of the command, so that the page has the numbers of its --json; else the defaults. */
static struct stk_scaling_options options_of(const struct stk_pg_input *in)
{
    struct stk_scaling_options o = {.su = STK_SU_RATES_INIT, .seed = 1};
    const struct stk_jval *weights = in->result ? stk_json_get(in->result, "su_weights") : NULL;
    set_rate(&o.su.core, weights, "core");
    set_rate(&o.su.gpu, weights, "gpu");
    set_rate(&o.su.node, weights, "node");
    o.cores_per_n = (int64_t)setting(in, "cores-per-n");
    o.gpus_per_n = (int64_t)setting(in, "gpus-per-n");
    o.nodes_per_n = setting(in, "nodes-per-n");
    o.deadline_s = setting(in, "deadline");
    o.max_relative_su = setting(in, "max-relative-su");
    o.seed = setting(in, "seed") > 0 ? (uint64_t)setting(in, "seed") : 1;
    return o;
}

/* "a100.json" is the study "a100". */
static void without_ending(const char *file, char *name, size_t size)
{
    static const char ending[] = ".json";
    size_t n = strlen(file), m = sizeof ending - 1;
    if (n > m && strcmp(file + n - m, ending) == 0)
        n -= m;
    snprintf(name, size, "%.*s", (int)(n < size ? n : size - 1), file);
}

static int add_study(struct stk_page *page, const struct stk_pg_input *in, struct stk_err *err)
{
    if (!page->studies && !(page->studies = calloc(1, sizeof *page->studies)))
        return stk_err_nomem(err, sizeof *page->studies);
    struct stk_study study = STK_STUDY_INIT;
    char name[STK_STUDY_TEXT_MAX + 1];
    page->live = page->live || is_growing(in);
    if (is_new(in)) {
        put_new(&page->w, in);
        return 0;
    }
    int rc = read_study(in, &study, err);
    without_ending(in->name, name, sizeof name);
    struct stk_scaling_options o = options_of(in);
    rc = rc ? rc : keep(page->studies, &study, &o, name, err);
    if (rc)
        stk_study_release(&study);
    return rc;
}

/* Drawn from its members, as a result of the command. */
static int put_group(struct stk_page *page, size_t i, struct stk_err *err)
{
    const struct stk_study *study = &page->studies->group[i].study;
    struct stk_scaling *all = calloc(1, sizeof *all);
    struct stk_arena arena = STK_ARENA_INIT;
    struct stk_jval *result;
    if (!all)
        return stk_err_nomem(err, sizeof *all);
    int rc = stk_scaling_compute(study, &page->studies->group[i].options, all, err);
    rc = rc ? rc : stk_result_fill(&stk_scale_kind, all, &arena, &result, err);
    if (!rc)
        stk_page_draw(&stk_scale_kind, page->studies->group[i].name,
                      study->unit ? study->unit : "N", result, &page->w);
    stk_arena_release(&arena);
    stk_scaling_release(all);
    free(all);
    return rc;
}

static int finish(struct stk_page *page, struct stk_err *err)
{
    int rc = 0;
    for (size_t i = 0; page->studies && i < page->studies->n && !rc; i++)
        rc = put_group(page, i, err);
    return rc;
}

/* A study's folder, or its file: JSON with runs, but not a --json result. */
static bool claims(const struct stk_pg_input *in)
{
    if (!in->folder)
        return in->root && stk_json_get(in->root, "series");
    return has_file(in, "study.json", NULL) || is_new(in);
}

const struct stk_pg_kind stk_pg_study = {.name = "study",
                                         .command = "scale",
                                         .claims = claims,
                                         .add = add_study,
                                         .finish = finish};
