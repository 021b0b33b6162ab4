/*
 * spec.c - tune.json in the folder of a call: the plan for a resume, the words of each point, what
 * has been prepared, and the other folders that belong to it.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"
#include "tune/spec.h"

#define SPEC_MAX  (4u << 20)
#define SPEC_KIND "stoker tune"

/* ---- writing -------------------------------------------------------------------------------- */

static void put_list(struct stk_jw *w, const char *key, const char *const *v)
{
    size_t n = 0;
    while (v && v[n])
        n++;
    stk_jw_put_strs(w, key, v, n);
}

static void put_script(const struct stk_script *s, struct stk_jw *w)
{
    stk_jw_key(w, "script");
    stk_jw_open(w, '{');
    stk_jw_put_str(w, "python", s->python);
    stk_jw_put_str(w, "file", s->file);
    stk_jw_put_str(w, "module", s->module);
    stk_jw_put_str(w, "cwd", s->cwd);
    stk_jw_close(w, '}');
}

/* A resumed call has no findings, and tries what they asked for. */
static void put_kinds(const struct stk_tune_plan *p, struct stk_jw *w)
{
    stk_jw_key(w, "only");
    stk_jw_open(w, '[');
    for (size_t i = 0; stk_tune_kinds[i]; i++)
        if (stk_tune_wants(p, stk_tune_kinds[i]))
            stk_jw_str(w, stk_tune_kinds[i]->id);
    stk_jw_close(w, ']');
}

/* Names that are valid in any folder. */
static void put_plan(const struct stk_tuner *t, struct stk_jw *w)
{
    const struct stk_tune_plan *p = t->plan;
    stk_jw_key(w, "workload");
    stk_workload_save(&t->s.w, w);
    stk_jw_put_bool(w, "cold", t->s.cold);
    stk_jw_put_str(w, "data", p->data ? t->s.save : NULL);
    stk_jw_put_str(w, "name", t->out->name);
    put_list(w, "set", p->set);
    stk_jw_put_str(w, "beside", p->beside);
    stk_jw_key(w, "near");
    stk_jw_open(w, '[');
    for (size_t i = 0; i < t->s.nnear; i++)
        stk_jw_str(w, t->s.near[i].path);
    stk_jw_close(w, ']');
    put_kinds(p, w);
    stk_jw_put_u64(w, "space", p->space_bytes);
    stk_jw_put_f64(w, "budget", p->budget_s);
    stk_jw_put_f64(w, "least", p->least);
    stk_jw_put_u64(w, "seed", p->seed);
    stk_jw_put_str(w, "via", p->via->name);
    put_list(w, "sbatch", (const char *const *)p->sbatch);
    stk_jw_put_str(w, "storage", p->storage);
    put_script(&t->out->script, w);
    stk_jw_put_bool(w, "fewer_cpus", p->fewer_cpus);
    stk_jw_put_bool(w, "profiled", t->out->job.known);
    stk_jw_put_u64(w, "peak_bytes", t->out->job.peak_bytes);
    stk_jw_put_u64(w, "gpus", t->out->job.gpus);
    put_list(w, "notes", p->notes);
    stk_jw_put_str(w, "framework", stk_framework_name(t->plan->job.framework));
    stk_jw_put_bool(w, "batch_guessed", t->plan->job.batch_guessed);
    stk_jw_put_str(w, "decode", t->plan->job.decode);
    stk_jw_put_bool(w, "labelled", t->plan->job.labelled);
    stk_jw_put_bool(w, "size_known", t->plan->job.size_known);
}

/* The runs, for jobs that make one each. */
static int put_points(struct stk_tuner *t, struct stk_jw *w, struct stk_err *err)
{
    int rc = 0;
    stk_jw_key(w, "points");
    stk_jw_open(w, '{');
    for (size_t i = 0; i < t->out->n && !rc; i++) {
        struct stk_bench_job job;
        rc = stk_tune_job(t, &t->out->candidate[i], &job, err);
        stk_jw_key(w, t->out->candidate[i].id);
        stk_jfields_write(stk_bench_job_fields, &job, w);
    }
    stk_jw_close(w, '}');
    return rc;
}

static void put_copies(const struct stk_tuner *t, struct stk_jw *w)
{
    stk_jw_key(w, "prepared");
    stk_jw_open(w, '{');
    for (size_t i = 0; i < t->out->n; i++) {
        const struct stk_tune_candidate *c = &t->out->candidate[i];
        const struct stk_tune_copy *copy = &c->change[0].copy;
        if (c->nchanges != 1 || !copy->path || isnan(copy->prepare_s))
            continue;
        stk_jw_key(w, c->id);
        stk_jw_open(w, '{');
        stk_jw_put_f64(w, "seconds", copy->prepare_s);
        stk_jw_put_u64(w, "bytes", copy->bytes);
        stk_jw_put_u64(w, "files", copy->files);
        stk_jw_put_str(w, "at", copy->at);
        stk_jw_close(w, '}');
    }
    stk_jw_close(w, '}');
}

static void put_whole(const struct stk_tuner *t, struct stk_jw *w)
{
    const struct stk_tune_whole *whole = &t->s.whole;
    stk_jw_key(w, "whole");
    stk_jw_open(w, '{');
    stk_jw_put_str(w, "source", whole->source);
    stk_jw_put_u64(w, "files", whole->files);
    stk_jw_put_u64(w, "bytes", whole->bytes);
    stk_jw_close(w, '}');
}

/* By which a later call knows whether the data is the same. */
static void put_data(const struct stk_tuner *t, struct stk_jw *w)
{
    stk_jw_key(w, "seen");
    stk_jw_open(w, '{');
    stk_jw_put_u64(w, "files", t->s.files);
    stk_jw_put_u64(w, "bytes", t->s.bytes);
    stk_jw_put_f64(w, "newest_s", t->s.newest_s);
    stk_jw_close(w, '}');
}

static bool is_there(const struct stk_tuner *t, const char *path)
{
    for (size_t i = 0; i < t->s.nnear; i++)
        if (t->there_path[i] && strcmp(t->there_path[i], path) == 0)
            return true;
    return t->saves_path && strcmp(t->saves_path, path) == 0;
}

/* Also those of the call that is resumed, whatever storage is tried now. */
static void put_folders(const struct stk_tuner *t, struct stk_jw *w)
{
    const char *const *old = t->earlier ? stk_tune_spec_folders(t->earlier) : NULL;
    stk_jw_key(w, "folders");
    stk_jw_open(w, '[');
    for (size_t i = 0; i < t->s.nnear; i++)
        if (t->there_path[i])
            stk_jw_str(w, t->there_path[i]);
    if (t->saves_path && strcmp(t->saves_path, t->work.path) != 0)
        stk_jw_str(w, t->saves_path);
    for (; old && *old; old++)
        if (!is_there(t, *old))
            stk_jw_str(w, *old);
    stk_jw_close(w, ']');
    stk_jw_key(w, "indexes");
    stk_jw_open(w, '[');
    for (size_t i = 0; i < STK_TUNE_INDEXES; i++)
        if (t->index[i])
            stk_jw_str(w, t->index[i]);
    stk_jw_close(w, ']');
}

int stk_tune_write_spec(struct stk_tuner *t, struct stk_err *err)
{
    struct stk_buf b = STK_BUF_INIT;
    struct stk_jw w;
    stk_jw_init(&w, &b, true);
    stk_jw_open(&w, '{');
    stk_jw_put_str(&w, "kind", SPEC_KIND);
    put_plan(t, &w);
    stk_jw_put_u64(&w, "steps", t->out->steps);
    stk_jw_put_bool(&w, "cached", t->s.cached);
    stk_jw_put_f64(&w, "run_s", t->run_s);
    int rc = put_points(t, &w, err);
    put_copies(t, &w);
    put_folders(t, &w);
    put_whole(t, &w);
    put_data(t, &w);
    stk_jw_close(&w, '}');
    stk_buf_putc(&b, '\n');
    rc = rc ? rc : stk_buf_check(&b, err);
    rc = rc ? rc : stk_folder_write(&t->work, STK_TUNE_SPEC, b.data, b.len, err);
    stk_buf_release(&b);
    return rc;
}

/* ---- reading -------------------------------------------------------------------------------- */

static const struct stk_jval *member(const struct stk_jval *v, const char *name)
{
    return v && v->type == STK_JOBJ ? stk_json_get(v, name) : NULL;
}

static const char *text_in(const struct stk_jval *v, const char *name)
{
    const struct stk_jval *x = member(v, name);
    return x && x->type == STK_JSTR ? x->str : NULL;
}

static double number_in(const struct stk_jval *v, const char *name)
{
    const struct stk_jval *x = member(v, name);
    return x && (x->type == STK_JINT || x->type == STK_JFLOAT) && x->f >= 0 && x->f < 1e18 ? x->f
                                                                                           : NAN;
}

static uint64_t count_in(const struct stk_jval *v, const char *name)
{
    double f = number_in(v, name);
    return isnan(f) ? 0 : (uint64_t)f;
}

static bool flag_in(const struct stk_jval *v, const char *name)
{
    const struct stk_jval *x = member(v, name);
    return x && x->type == STK_JBOOL && x->b;
}

/* A list of texts, NULL-terminated; NULL: empty, or no such list. */
static const char **list_in(struct stk_arena *a, const struct stk_jval *v, const char *name)
{
    const struct stk_jval *x = member(v, name);
    size_t n = x && x->type == STK_JARR ? x->len : 0;
    const char **out = n ? stk_arena_alloc(a, (n + 1) * sizeof *out) : NULL;
    for (size_t i = 0; out && i < n; i++)
        out[i] = x->item[i].type == STK_JSTR ? x->item[i].str : "";
    if (out)
        out[n] = NULL;
    return out;
}

int stk_tune_spec_open(struct stk_tune_spec *s, const char *dir, struct stk_err *err)
{
    struct stk_buf b = STK_BUF_INIT;
    int rc = stk_folder_find(&s->folder, dir, STK_TUNE_SPEC, NULL, err);
    rc = rc ? rc : stk_folder_check(&s->folder, STK_TUNE_SPEC, NULL, err);
    rc = rc ? rc : stk_folder_read(&s->folder, STK_TUNE_SPEC, SPEC_MAX, &b, err);
    const char *text = rc ? NULL : stk_arena_dup(&s->arena, b.data, b.len);
    if (!rc)
        rc = text ? stk_json_parse(&s->arena, text, b.len, &s->v, err) : stk_err_nomem(err, b.len);
    const char *kind = rc ? NULL : text_in(s->v, "kind");
    if (!rc && (!kind || strcmp(kind, SPEC_KIND) != 0))
        rc = stk_err_set(err, STK_E_CORRUPT, dir, -1, "was not made by stoker tune");
    rc = rc ? rc : stk_workload_load(&s->w, member(s->v, "workload"), err);
    stk_buf_release(&b);
    return rc;
}

void stk_tune_spec_close(struct stk_tune_spec *s)
{
    stk_folder_release(&s->folder);
    stk_workload_release(&s->w);
    stk_arena_release(&s->arena);
}

static void take_text(const struct stk_jval *v, const char *name, char *out, size_t size)
{
    const char *text = text_in(v, name);
    snprintf(out, size, "%s", text ? text : "");
}

static void take_script(const struct stk_jval *v, struct stk_script *s)
{
    take_text(v, "python", s->python, sizeof s->python);
    take_text(v, "file", s->file, sizeof s->file);
    take_text(v, "module", s->module, sizeof s->module);
    take_text(v, "cwd", s->cwd, sizeof s->cwd);
}

void stk_tune_spec_plan(struct stk_tune_spec *s, struct stk_tune_plan *p)
{
    take_script(member(s->v, "script"), &s->script);
    p->script = &s->script;
    p->job = (struct stk_tune_job){.known = flag_in(s->v, "profiled"),
                                   .peak_bytes = count_in(s->v, "peak_bytes"),
                                   .gpus = count_in(s->v, "gpus"),
                                   .framework = stk_framework_of(text_in(s->v, "framework")),
                                   .decode = text_in(s->v, "decode"),
                                   .labelled = flag_in(s->v, "labelled"),
                                   .size_known = flag_in(s->v, "size_known"),
                                   .batch_guessed = flag_in(s->v, "batch_guessed")};
    const struct stk_jval *v = s->v;
    const char *via = text_in(v, "via");
    p->made = &s->w;
    p->data = text_in(v, "data");
    p->name = text_in(v, "name");
    p->set = (const char *const *)list_in(&s->arena, v, "set");
    p->fewer_cpus = flag_in(v, "fewer_cpus");
    p->beside = text_in(v, "beside");
    static const char *const nowhere[] = {NULL};
    const char **near = list_in(&s->arena, v, "near");
    p->near = near ? (const char *const *)near : nowhere;
    p->only = (const char *const *)list_in(&s->arena, v, "only");
    p->notes = (const char *const *)list_in(&s->arena, v, "notes");
    p->space_bytes = count_in(v, "space");
    p->least = number_in(v, "least");
    p->seed = count_in(v, "seed");
    p->via = via ? stk_executor_find(via) : NULL;
    p->via = p->via ? p->via : &stk_executor_local;
    p->sbatch = list_in(&s->arena, v, "sbatch");
    p->storage = text_in(v, "storage");
}

bool stk_tune_spec_cold(const struct stk_tune_spec *s)
{
    return flag_in(s->v, "cold");
}

bool stk_tune_spec_cached(const struct stk_tune_spec *s)
{
    return flag_in(s->v, "cached");
}

uint64_t stk_tune_spec_steps(const struct stk_tune_spec *s, double *run_s)
{
    *run_s = number_in(s->v, "run_s");
    return count_in(s->v, "steps");
}

bool stk_tune_spec_copy(const struct stk_tune_spec *s, const char *id, struct stk_tune_copy *copy)
{
    const struct stk_jval *v = member(member(s->v, "prepared"), id);
    if (!v)
        return false;
    copy->prepare_s = number_in(v, "seconds");
    copy->bytes = count_in(v, "bytes");
    copy->files = count_in(v, "files");
    copy->at = text_in(v, "at");
    return !isnan(copy->prepare_s) && copy->at;
}

bool stk_tune_spec_is_jobs(const struct stk_tune_spec *s)
{
    const char *via = text_in(s->v, "via");
    const struct stk_executor *x = via ? stk_executor_find(via) : NULL;
    return x && x->cancel;
}

bool stk_tune_spec_same(const struct stk_tune_spec *s, const struct stk_tune_subject *now)
{
    const struct stk_jval *v = member(s->v, "seen");
    double apart = number_in(v, "newest_s") - now->newest_s;
    return !v || (count_in(v, "files") == now->files && count_in(v, "bytes") == now->bytes &&
                  fabs(apart) < 1e-3);
}

void stk_tune_spec_whole(const struct stk_tune_spec *s, struct stk_tune_whole *out)
{
    const struct stk_jval *v = member(s->v, "whole");
    *out = (struct stk_tune_whole){.source = text_in(v, "source"),
                                   .files = count_in(v, "files"),
                                   .bytes = count_in(v, "bytes")};
}

const char *const *stk_tune_spec_folders(struct stk_tune_spec *s)
{
    return (const char *const *)list_in(&s->arena, s->v, "folders");
}

bool stk_tune_spec_names(const struct stk_tune_spec *s, const char *name)
{
    const struct stk_jval *points = member(s->v, "points");
    for (size_t i = 0; points && points->type == STK_JOBJ && i < points->len; i++)
        if (stk_tune_begins(name, points->name[i].str))
            return true;
    return false;
}

void stk_tune_spec_indexes(struct stk_tune_spec *s, const char *index[STK_TUNE_INDEXES])
{
    const char **list = list_in(&s->arena, s->v, "indexes");
    for (size_t i = 0; i < STK_TUNE_INDEXES && list && list[i]; i++) {
        size_t n = strlen(list[i]);
        index[i] = n > 7 && strcmp(list[i] + n - 7, ".stkidx") == 0 ? list[i] : NULL;
    }
}

int stk_tune_step(const char *dir, const char *id, int (*stop)(void), struct stk_buf *out,
                  struct stk_err *err)
{
    struct stk_tune_spec s = STK_TUNE_SPEC_INIT;
    struct stk_bench_job job = {.w = &s.w};
    struct stk_bench_figures figures;
    int rc = stk_tune_spec_open(&s, dir, err);
    const struct stk_jval *v = rc ? NULL : member(member(s.v, "points"), id);
    if (!rc && !v)
        rc = stk_err_set(err, STK_E_USAGE, dir, -1, "\"%.60s\" is not a candidate of this call",
                         id);
    rc = rc ? rc : stk_jfields_read(stk_bench_job_fields, v, STK_TUNE_SPEC, &s.arena, &job, err);
    rc = rc ? rc : stk_bench_job_run(&job, stop, &figures, err);
    if (!rc)
        stk_jfields_text(stk_bench_figures_fields, &figures, false, out);
    stk_tune_spec_close(&s);
    return rc;
}
