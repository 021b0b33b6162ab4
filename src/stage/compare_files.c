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
#include "base/json.h"
#include "base/pool.h"
#include "base/stats.h"

#define SPEC_MAX  (1u << 20)
#define TIMES_MAX (1u << 20)

/* ---- the description ------------------------------------------------------------------------ */

static int write_json(const struct stk_folder *dir, const char *name, struct stk_buf *b,
                      struct stk_err *err)
{
    stk_buf_putc(b, '\n');
    int rc = stk_buf_check(b, err);
    rc = rc ? rc : stk_folder_write(dir, name, b->data, b->len, err);
    stk_buf_release(b);
    return rc;
}

int stk_compare_write_spec(const struct stk_compare *c, const char *target,
                           const struct stk_folder *dir, struct stk_err *err)
{
    struct stk_buf b = STK_BUF_INIT;
    struct stk_jw w;
    stk_jw_init(&w, &b, true);
    stk_jw_open(&w, '{');
    stk_jw_put_str(&w, "target", target);
    stk_jw_put_u64(&w, "files", c->files);
    stk_jw_put_u64(&w, "bytes", c->bytes);
    stk_jw_key(&w, "forms");
    stk_jw_open(&w, '{');
    for (size_t i = 0; i < STK_FORMS; i++)
        if (c->form[i].path)
            stk_jw_put_str(&w, c->form[i].form->id, c->form[i].path);
    stk_jw_close(&w, '}');
    stk_jw_close(&w, '}');
    return write_json(dir, STK_COMPARE_SPEC, &b, err);
}

static const char *text_in(const struct stk_jval *v, const char *name)
{
    const struct stk_jval *x = v && v->type == STK_JOBJ ? stk_json_get(v, name) : NULL;
    return x && x->type == STK_JSTR ? x->str : NULL;
}

static double number_in(const struct stk_jval *v, const char *name)
{
    const struct stk_jval *x = v && v->type == STK_JOBJ ? stk_json_get(v, name) : NULL;
    return x && (x->type == STK_JINT || x->type == STK_JFLOAT) && x->f >= 0 ? x->f : NAN;
}

int stk_compare_read_spec(struct stk_compare_spec *s, const struct stk_folder *dir,
                          const char *form, struct stk_err *err)
{
    struct stk_buf b = STK_BUF_INIT;
    struct stk_jval *v = NULL;
    int rc = stk_folder_read(dir, STK_COMPARE_SPEC, SPEC_MAX, &b, err);
    const char *text = rc ? NULL : stk_arena_dup(&s->arena, b.data, b.len);
    if (!rc && !text)
        rc = stk_err_nomem(err, b.len);
    rc = rc ? rc : stk_json_parse(&s->arena, text, b.len, &v, err);
    stk_buf_release(&b);
    if (rc)
        return rc;
    double files = number_in(v, "files"), bytes = number_in(v, "bytes");
    s->form = stk_form_find(form);
    s->path = s->form && v->type == STK_JOBJ ? text_in(stk_json_get(v, "forms"), form) : NULL;
    s->target = text_in(v, "target");
    if (!s->path || !(files < 1e15) || !(bytes < 1e18))
        return stk_err_set(err, STK_E_CORRUPT, dir->path, -1,
                           "\"%.40s\" is not a form of this comparison", form);
    s->files = (uint64_t)files;
    s->bytes = (uint64_t)bytes;
    return 0;
}

/* ---- the times ------------------------------------------------------------------------------ */

int stk_compare_write_times(const struct stk_folder *dir, const struct stk_compare_step *step,
                            const struct stk_compare_job *job, struct stk_err *err)
{
    struct stk_buf b = STK_BUF_INIT;
    struct stk_jw w;
    char host[65] = "", name[160];
    (void)gethostname(host, sizeof host - 1);
    snprintf(name, sizeof name, STK_COMPARE_RESULTS "/%s.%s.%ld.%.0f", step->form, host,
             (long)getpid(), stk_now() * 1e6);
    stk_jw_init(&w, &b, false);
    stk_jw_open(&w, '{');
    stk_jw_put_str(&w, "form", step->form);
    stk_jw_put_u64(&w, "n", step->n);
    stk_jw_key(&w, "jobs");
    stk_jw_open(&w, '[');
    for (uint64_t i = 0; i < step->jobs; i++) {
        stk_jw_open(&w, '{');
        stk_jw_put_f64(&w, "first_s", job[i].first_s);
        stk_jw_put_f64(&w, "last_s", job[i].last_s);
        stk_jw_close(&w, '}');
    }
    stk_jw_close(&w, ']');
    stk_jw_close(&w, '}');
    return write_json(dir, name, &b, err);
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

static int take_times(struct all_seen *all, const struct stk_jval *v, struct stk_err *err)
{
    const char *id = text_in(v, "form");
    const struct stk_form *form = id ? stk_form_find(id) : NULL;
    const struct stk_jval *jobs = v->type == STK_JOBJ ? stk_json_get(v, "jobs") : NULL;
    double n = number_in(v, "n");
    int rc = 0;
    for (size_t i = 0; form && n >= 1 && jobs && jobs->type == STK_JARR && i < jobs->len && !rc;
         i++) {
        struct seen s = {
            (size_t)(form - stk_forms),
            (uint64_t)n,
            {number_in(&jobs->item[i], "first_s"), number_in(&jobs->item[i], "last_s")}};
        rc = STK_ARRAY_MORE(all->v, all->n, err);
        if (!rc && !isnan(s.times.first_s) && !isnan(s.times.last_s))
            all->v[all->n++] = s;
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
        struct stk_jval *v;
        if (e->d_name[0] == '.' || strstr(e->d_name, ".partial."))
            continue;
        rc = stk_read_file_at(fd, e->d_name, 0, TIMES_MAX, &b, e->d_name, err);
        rc = rc ? rc : stk_json_parse(&arena, stk_buf_cstr(&b), b.len, &v, err);
        rc = rc ? rc : take_times(all, v, err);
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
