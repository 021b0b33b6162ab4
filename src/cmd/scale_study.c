/*
 * scale_study.c - the study of `stoker scale`: the times of --from and our own, analysed, shown and
 * written.
 */
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "cmd/scale.h"
#include "record/folder.h"
#include "result/grid.h"
#include "report/scale.h"

/* ---- times from files --------------------------------------------------------------------- */

/* "NAME=FILE" names the series of a file that names none, unless a file of that whole name exists.
 * Several files without names are called by their file names. */
static const char *split_from(const char *arg, bool several, char *name, size_t size)
{
    const char *eq = strchr(arg, '=');
    name[0] = '\0';
    if (eq && !stk_may_exist(AT_FDCWD, arg)) {
        snprintf(name, size, "%.*s", (int)(eq - arg), arg);
        return eq + 1;
    }
    const char *base = strcmp(arg, "-") == 0 ? "stdin" : stk_base_name(arg);
    const char *dot = strrchr(base, '.');
    if (several)
        snprintf(name, size, "%.*s", (int)(dot && dot > base ? dot - base : (long)strlen(base)),
                 base);
    return arg;
}

static bool is_study(const char *name)
{
    return strcmp(name, "study.json") == 0;
}

/* For DIR/study.json, checks DIR: another user may have put the whole folder there. */
static int believe(struct stk_run *run, const char *path)
{
    const struct stk_scale_settings *said = run->settings;
    const char *base = stk_base_name(path);
    char *folder = is_study(base) && base > path ? strndup(path, (size_t)(base - path)) : NULL;
    int rc = stk_folder_believe(folder ? folder : path, is_study, said->trust, &run->err);
    free(folder);
    return rc;
}

/* A folder holds a study that was run. */
static int read_one(struct stk_run *run, struct stk_study *study, const char *path,
                    const char *name)
{
    struct stat st;
    char *inside = NULL;
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode) &&
        !(inside = stk_path_join(path, "study.json")))
        return stk_err_nomem(&run->err, strlen(path));
    bool ours = inside || stk_text_ends(path, strlen(path), ".json"); /* not a foreign table */
    int rc = ours ? believe(run, path) : 0;
    rc = rc ? rc : stk_study_read(study, inside ? inside : path, name, &run->err);
    free(inside);
    return rc;
}

/* The name of our own curve among others. */
static const char *own_name(const struct stk_scale *s)
{
    return s->said->plan.series ? s->said->plan.series : "this";
}

/* Our study comes first and decides what is compared. Its runs are added when they exist. */
static int begin_with_own(struct stk_scale *s)
{
    const struct stk_study *own = stk_runner_study(s->runs);
    struct stk_err *err = &s->run->err;
    int rc = stk_study_set_unit(s->study, own->unit, err);
    rc = rc ? rc : stk_study_set_metric(s->study, own->metric, own->higher_better, err);
    s->study->weak = own->weak;
    s->study->fixed = true;
    for (size_t i = 0; i < own->nseries && !rc; i++) {
        const char *name = *own->series[i].name ? own->series[i].name : own_name(s);
        size_t unused;
        rc = stk_study_series(s->study, name, strlen(name), &unused, err);
    }
    return rc;
}

static int read_files(struct stk_scale *s)
{
    const char **from = s->said->from;
    struct stk_study *study = s->study;
    bool several = s->runs || from[1];
    int rc = 0;
    for (size_t i = 0; from[i] && !rc; i++) {
        char name[STK_STUDY_TEXT_MAX + 1];
        const char *path = split_from(from[i], several, name, sizeof name);
        rc = read_one(s->run, study, path, name);
    }
    /* The name of a column `value` does not say what it means. */
    if (!rc && !study->fixed && study->metric && strcmp(study->metric, "value") == 0)
        study->higher_better = stk_text_index(s->said->better, stk_better_choices) == 1;
    return rc;
}

int stk_scale_read(struct stk_scale *s)
{
    int rc = 0;
    if (!s->said->from)
        return 0;
    s->study = calloc(1, sizeof *s->study);
    if (!s->study)
        return stk_err_nomem(&s->run->err, sizeof *s->study);
    s->study->headings = s->said->columns ? &s->headings : NULL;
    if (s->runs) {
        rc = begin_with_own(s);
    } else {
        rc = stk_study_set_unit(s->study, s->said->plan.unit, &s->run->err);
        s->study->weak = s->said->plan.weak;
    }
    return rc ? rc : read_files(s);
}

/* ---- the result --------------------------------------------------------------------------- */

static int write_study(struct stk_run *run, const struct stk_study *study)
{
    const struct stk_scale_settings *s = run->settings;
    struct stk_buf b = STK_BUF_INIT;
    struct stk_jw w;
    if (!s->save)
        return 0;
    stk_jw_init(&w, &b, true);
    stk_study_write_json(study, &w);
    stk_buf_putc(&b, '\n');
    int rc = stk_put_output(run, s->save, &b, &run->err);
    stk_buf_release(&b);
    return rc;
}

/* A series without a good run is a problem; a failed run among good ones is a caution. */
static int status_of(const struct stk_scaling *all)
{
    for (size_t i = 0; i < all->nseries; i++)
        if (all->series[i].base == all->series[i].nrows)
            return STK_EXIT_PROBLEM;
    return STK_EXIT_DONE;
}

/* Notes on the circumstances of the runs are cautions, too. */
static void take_notes(struct stk_scale *s)
{
    const struct stk_runner_conditions *where = s->runs ? stk_runner_conditions(s->runs) : NULL;
    s->options.note = where ? where->note[0] : NULL;
    s->options.note_size = where ? sizeof where->note[0] : 0;
    s->options.nnotes = where ? where->nnotes : 0;
}

static int compute(struct stk_scale *s, const struct stk_study *study)
{
    struct stk_run *run = s->run;
    struct stk_scaling *all = calloc(1, sizeof *all);
    if (!all)
        return stk_err_nomem(&run->err, sizeof *all);
    take_notes(s);
    int rc = stk_scaling_compute(study, &s->options, all, &run->err);
    const enum stk_plot plot = (enum stk_plot)s->said->plot;
    const struct stk_say_how how = {.style = &plot, .csv = s->said->csv};
    rc = rc ? rc : stk_say_result(run, &stk_scale_kind, all, &how);
    rc = rc ? rc : write_study(run, study);
    rc = rc ? rc : status_of(all);
    stk_scaling_release(all);
    free(all);
    return rc;
}

int stk_scale_finish(struct stk_scale *s)
{
    const struct stk_study *own = s->runs ? stk_runner_study(s->runs) : NULL;
    int rc = s->study && own ? stk_study_append(s->study, own, own_name(s), &s->run->err) : 0;
    return rc ? rc : compute(s, s->study ? s->study : own);
}
