/*
 * compare_files.c - the files in the folder of a comparison: the description that its points read,
 * and the times that they leave there.
 */
#include "stage/compare_priv.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/array.h"
#include "base/dir.h"
#include "base/file.h"
#include "base/json_fields.h"
#include "base/pool.h"
#include "base/stats.h"

#define SPEC_MAX  (1u << 20)
#define TIMES_MAX (1u << 20)

/* ---- the description ------------------------------------------------------------------------ */

/* The paths of the forms that are compared. */
struct paths {
    const char *of[STK_FORMS];
};
static const struct stk_jfield path_fields[] = {
#define PATH(form, id)                                                                             \
    {                                                                                              \
        STK_JFIELD(TEXT, id, struct paths, of[form]), .omit = true, .bytes = true                  \
    }
    PATH(STK_FORM_FILES, "files"),
    PATH(STK_FORM_TAR, "tar"),
    PATH(STK_FORM_RECORDS, "records"),
    PATH(STK_FORM_SQUASHFS, "squashfs"),
#undef PATH
    {0},
};

struct spec {
    const char *target;
    uint64_t files, bytes;
    struct paths forms;
};
static const struct stk_jfield spec_fields[] = {
    {STK_JFIELD(TEXT, "target", struct spec, target), .bytes = true},
    {STK_JFIELD(UNSIGNED, "files", struct spec, files), .required = true},
    {STK_JFIELD(UNSIGNED, "bytes", struct spec, bytes), .required = true},
    {STK_JFIELD(STRUCT, "forms", struct spec, forms), .required = true, .table = path_fields},
    {0},
};

int stk_compare_write_spec(const struct stk_compare *c, const char *target,
                           const struct stk_folder *dir, struct stk_err *err)
{
    struct spec s = {.target = target, .files = c->files, .bytes = c->bytes};
    for (size_t i = 0; i < STK_FORMS; i++)
        s.forms.of[i] = c->form[i].path;
    return stk_folder_write_fields(dir, STK_COMPARE_SPEC, spec_fields, &s, true, err);
}

int stk_compare_read_spec(struct stk_compare_spec *s, const struct stk_folder *dir,
                          const char *form, struct stk_err *err)
{
    struct spec got = {0};
    int rc = stk_folder_read_fields(dir, STK_COMPARE_SPEC, SPEC_MAX, spec_fields, &s->arena, &got,
                                    err);
    if (rc)
        return rc;
    s->form = stk_form_find(form);
    s->path = s->form ? got.forms.of[s->form - stk_forms] : NULL;
    s->target = got.target;
    s->files = got.files;
    s->bytes = got.bytes;
    return s->path ? 0
                   : stk_err_set(err, STK_E_CORRUPT, dir->path, -1,
                                 "\"%.40s\" is not a form of this comparison", form);
}

/* ---- the times ------------------------------------------------------------------------------ */

static const struct stk_jfield job_fields[] = {
    {STK_JFIELD(REAL, "first_s", struct stk_compare_job, first_s)},
    {STK_JFIELD(REAL, "last_s", struct stk_compare_job, last_s)},
    {0},
};
struct times {
    size_t form; /* enum */
    uint64_t n;
    struct stk_compare_job *job;
    size_t njobs;
};
static const struct stk_compare_job no_job = {NAN, NAN};
static const struct stk_jfield times_fields[] = {
    {STK_JFIELD(WORD, "form", struct times, form), .required = true, .words = stk_form_ids},
    {STK_JFIELD(UNSIGNED, "n", struct times, n), .required = true, .min = 1},
    {STK_JFIELD_LIST(STRUCT, "jobs", struct times, job, njobs), .required = true,
     .table = job_fields, .init = &no_job},
    {0},
};

int stk_compare_write_times(const struct stk_folder *dir, const struct stk_compare_step *step,
                            const struct stk_compare_job *job, struct stk_err *err)
{
    const struct times t = {.form = (size_t)(stk_form_find(step->form) - stk_forms),
                            .n = step->n,
                            .job = (struct stk_compare_job *)(uintptr_t)job,
                            .njobs = step->jobs};
    char host[65] = "", name[160];
    (void)gethostname(host, sizeof host - 1);
    snprintf(name, sizeof name, STK_COMPARE_RESULTS "/%s.%s.%ld.%.0f", step->form, host,
             (long)getpid(), stk_now() * 1e6);
    return stk_folder_write_fields(dir, name, times_fields, &t, false, err);
}

/* One job, as it was read. */
struct seen {
    size_t form;
    uint64_t n;
    struct stk_compare_job times;
};
struct all_seen {
    struct seen *v;
    size_t n;
};

static int take_times(struct all_seen *all, const struct times *t, struct stk_err *err)
{
    int rc = 0;
    for (size_t i = 0; i < t->njobs && !rc; i++) {
        rc = STK_ARRAY_MORE(all->v, all->n, err);
        if (!rc && !isnan(t->job[i].first_s) && !isnan(t->job[i].last_s))
            all->v[all->n++] = (struct seen){t->form, t->n, t->job[i]};
    }
    return rc;
}

static int read_all(struct all_seen *all, const struct stk_folder *dir, struct stk_err *err)
{
    struct stk_dir d;
    int fd, rc = stk_folder_below(dir, STK_COMPARE_RESULTS, &fd, err);
    if (rc)
        return rc;
    rc = stk_dir_take(&d, fd, dir->path, err);
    for (const struct dirent *e; !rc && (e = stk_dir_next(&d));) {
        struct stk_arena arena = STK_ARENA_INIT;
        struct stk_buf b = STK_BUF_INIT;
        struct times t = {0};
        if (e->d_name[0] == '.' || strstr(e->d_name, ".partial."))
            continue;
        rc = stk_read_file_at(fd, e->d_name, 0, TIMES_MAX, &b, e->d_name, err);
        rc = rc ? rc
                : stk_jfields_parse(times_fields, stk_buf_cstr(&b), b.len, e->d_name, &arena, &t,
                                    err);
        rc = rc ? rc : take_times(all, &t, err);
        stk_buf_release(&b);
        stk_arena_release(&arena);
    }
    return stk_dir_end(&d, rc, err);
}

static int by_point(const void *a, const void *b)
{
    const struct seen *x = a, *y = b;
    return x->form != y->form ? (x->form > y->form) - (x->form < y->form)
                              : (x->n > y->n) - (x->n < y->n);
}

/* The jobs v[0..n) of one point. */
static int add_point(struct stk_compare_form *f, const struct seen *v, size_t n,
                     struct stk_err *err)
{
    struct stk_compare_times t = {.n = v->n, .jobs = n};
    double *first = calloc(2 * n, sizeof *first), *last = first + n;
    int rc = first ? STK_ARRAY_MORE(f->times, f->ntimes, err) : stk_err_nomem(err, n);
    for (size_t i = 0; i < n && !rc; i++) {
        first[i] = v[i].times.first_s;
        last[i] = v[i].times.last_s;
        t.slowest_s = fmax(t.slowest_s, last[i]);
    }
    if (!rc) {
        t.first_s = stk_median(first, n);
        t.last_s = stk_median(last, n);
        f->times[f->ntimes++] = t;
    }
    free(first);
    return rc;
}

int stk_compare_read_times(struct stk_compare *c, const struct stk_folder *dir, struct stk_err *err)
{
    struct all_seen all = {0};
    int rc = read_all(&all, dir, err);
    if (all.n)
        qsort(all.v, all.n, sizeof *all.v, by_point);
    for (size_t i = 0, k; i < all.n && !rc; i = k) {
        for (k = i + 1; k < all.n && by_point(&all.v[i], &all.v[k]) == 0; k++)
            ;
        rc = add_point(&c->form[all.v[i].form], &all.v[i], k - i, err);
    }
    free(all.v);
    return rc;
}
