/*
 * plan_json.c - a plan as JSON and back, from one table of its fields, so that neither
 * direction can miss one. Words of a command may be any bytes: words that are not UTF-8 become
 * {"hex": "…"}.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/text.h"
#include "study/priv.h"

/* 1: points from N alone. 2: with fields that readers of 1 do not know and would ignore. */
#define VERSION_N      1
#define VERSION_POINTS 2
#define VERSION_PACK   3 /* the same, and `pack` */

enum kind { TEXT, LIST, NUMBER, REAL, FLAG };

struct field {
    const char *name; /* NULL: the end */
    enum kind kind;
    size_t offset;
};

static const struct field plan_fields[] = {
#define F(kind, name)                                                                              \
    {                                                                                              \
#name, kind, offsetof(struct stk_runner_plan, name)                                        \
    }
    F(LIST, argv),
    F(FLAG, shell),
    F(TEXT, prepare),
    F(TEXT, cwd),
    F(FLAG, weak),
    F(NUMBER, size),
    F(NUMBER, sets),
    F(NUMBER, threads_per_rank),
    F(NUMBER, ranks_per_node),
    F(FLAG, pin),
    F(FLAG, oversubscribe),
    F(TEXT, launcher),
    F(TEXT, container),
    F(NUMBER, runs_min),
    F(NUMBER, runs_max),
    F(NUMBER, warmup),
    F(NUMBER, seed),
    F(REAL, precision),
    F(REAL, budget_s),
    F(REAL, timeout_s),
    F(TEXT, metric),
    F(NUMBER, metric_pick),
    F(FLAG, higher_better),
    F(TEXT, series),
    F(TEXT, unit),
    F(NUMBER, cores_per_n),
    F(LIST, sbatch),
    F(TEXT, batch_head),
    F(TEXT, gpu_type),
    F(NUMBER, at_once),
#undef F
    {NULL, FLAG, 0},
};

/* Of a variant. */
static const struct field point_fields[] = {
#define F(kind, name, member)                                                                      \
    {                                                                                              \
        name, kind, offsetof(struct stk_point, member)                                             \
    }
    F(TEXT, "id", id),
    F(TEXT, "label", label),
    F(TEXT, "series", series),
    F(NUMBER, "n", n),
    F(NUMBER, "size", size),
    F(LIST, "argv", argv),
    F(LIST, "env", env),
    F(NUMBER, "threads", give.threads),
    F(NUMBER, "ranks", give.ranks),
    F(NUMBER, "gpus", give.gpus),
    F(NUMBER, "nodes", give.nodes),
    F(NUMBER, "ranks_per_node", give.ranks_per_node),
    F(NUMBER, "cpus", give.cpus),
#undef F
    {NULL, FLAG, 0},
};

static void *at(const void *base, const struct field *f)
{
    return (char *)(uintptr_t)base + f->offset;
}

/* ---- writing ------------------------------------------------------------------------------ */

static bool is_utf8(const char *s)
{
    for (size_t n = strlen(s), i = 0, len; i < n; i += len) {
        uint32_t cp;
        len = stk_utf8_next(s + i, n - i, &cp);
        if (!len)
            return false;
    }
    return true;
}

static void put_text(struct stk_jw *w, const char *s)
{
    if (!s || is_utf8(s)) {
        stk_jw_str(w, s);
        return;
    }
    struct stk_buf hex = STK_BUF_INIT;
    for (; *s; s++)
        stk_buf_printf(&hex, "%02x", (unsigned)(unsigned char)*s);
    stk_jw_open(w, '{');
    stk_jw_put_str(w, "hex", stk_buf_cstr(&hex));
    stk_jw_close(w, '}');
    w->out->fail = w->out->fail || hex.fail;
    stk_buf_release(&hex);
}

static void put_list(struct stk_jw *w, const char **list)
{
    stk_jw_open(w, '[');
    for (; list && *list; list++)
        put_text(w, *list);
    stk_jw_close(w, ']');
}

static void put_field(struct stk_jw *w, const void *base, const struct field *f)
{
    void *v = at(base, f);
    stk_jw_key(w, f->name);
    switch (f->kind) {
    case TEXT:
        put_text(w, *(const char **)v);
        break;
    case LIST:
        put_list(w, *(const char ***)v);
        break;
    case NUMBER:
        stk_jw_u64(w, *(uint64_t *)v);
        break;
    case REAL:
        stk_jw_f64(w, *(double *)v);
        break;
    case FLAG:
        stk_jw_bool(w, *(bool *)v);
        break;
    }
}

static void put_fields(struct stk_jw *w, const void *base, const struct field *fields)
{
    for (; fields->name; fields++)
        put_field(w, base, fields);
}

static void put_numbers(struct stk_jw *w, const char *name, const uint64_t *v, size_t n)
{
    stk_jw_key(w, name);
    stk_jw_open(w, '[');
    for (size_t i = 0; i < n; i++)
        stk_jw_u64(w, v[i]);
    stk_jw_close(w, ']');
}

/* Fields that a plan of N alone does not have. */
static void put_more(struct stk_jw *w, const struct stk_runner_plan *p)
{
    put_numbers(w, "spread", p->spread, p->nspread);
    if (p->npack)
        put_numbers(w, "pack", p->pack, p->npack);
    stk_jw_key(w, "variants");
    stk_jw_open(w, '[');
    for (size_t i = 0; i < p->nvariants; i++) {
        stk_jw_open(w, '{');
        put_fields(w, &p->variant[i], point_fields);
        stk_jw_close(w, '}');
    }
    stk_jw_close(w, ']');
}

void stk_runner_write_plan(const struct stk_runner_plan *p, struct stk_buf *out)
{
    struct stk_jw w;
    bool more = p->nspread || p->npack || p->nvariants;
    stk_jw_init(&w, out, true);
    stk_jw_open(&w, '{');
    stk_jw_put_u64(&w, "stoker_scale_plan",
                   p->npack ? VERSION_PACK
                   : more   ? VERSION_POINTS
                            : VERSION_N);
    put_numbers(&w, "n", p->n, p->nn);
    if (more)
        put_more(&w, p);
    put_fields(&w, p, plan_fields);
    stk_jw_put_str(&w, "via", p->via->name);
    stk_jw_put_bool(&w, "slurm", p->via == &stk_executor_slurm); /* the form before `via` */
    stk_jw_close(&w, '}');
    stk_buf_putc(out, '\n');
}

/* ---- reading ------------------------------------------------------------------------------ */

static int digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool get_hex(const struct stk_jval *v, struct stk_arena *arena, const char **out)
{
    char *text = v->len % 2 ? NULL : stk_arena_alloc(arena, v->len / 2 + 1);
    for (size_t i = 0; text && i < v->len / 2; i++) {
        int hi = digit(v->str[2 * i]), lo = digit(v->str[2 * i + 1]);
        if (hi < 0 || lo < 0 || (!hi && !lo))
            return false;
        text[i] = (char)(hi * 16 + lo);
    }
    if (text)
        text[v->len / 2] = '\0';
    *out = text;
    return text;
}

static bool get_text(const struct stk_jval *v, struct stk_arena *arena, const char **out)
{
    *out = NULL;
    if (v->type == STK_JNULL)
        return true;
    if (v->type == STK_JOBJ) {
        const struct stk_jval *hex = stk_json_get(v, "hex");
        return hex && hex->type == STK_JSTR && get_hex(hex, arena, out);
    }
    if (v->type != STK_JSTR || memchr(v->str, '\0', v->len))
        return false;
    *out = stk_arena_dup(arena, v->str, v->len);
    return *out;
}

static bool get_list(const struct stk_jval *v, struct stk_arena *arena, const char ***out)
{
    struct stk_words w = {.arena = arena};
    if (v->type != STK_JARR)
        return false;
    for (size_t i = 0; i < v->len; i++) {
        const char *text;
        if (!get_text(&v->item[i], arena, &text) || !text)
            return false;
        stk_words_add(&w, text);
    }
    *out = w.v;
    return !w.fail;
}

static bool get_field(const struct stk_jval *v, struct stk_arena *arena, const void *base,
                      const struct field *f)
{
    void *to = at(base, f);
    bool number = v->type == STK_JINT || v->type == STK_JFLOAT;
    switch (f->kind) {
    case TEXT:
        return get_text(v, arena, to);
    case LIST:
        return get_list(v, arena, to);
    case NUMBER:
        *(uint64_t *)to = (uint64_t)v->i;
        return v->type == STK_JINT && v->i >= 0;
    case REAL:
        *(double *)to = v->f;
        return number && isfinite(v->f) && v->f >= 0;
    case FLAG:
        *(bool *)to = v->b;
        return v->type == STK_JBOOL;
    }
    return false;
}

/* The name of the first wrong field; NULL: none. */
static const char *get_fields(const struct stk_jval *obj, struct stk_arena *arena, const void *base,
                              const struct field *fields)
{
    for (; fields->name; fields++) {
        const struct stk_jval *v = stk_json_get(obj, fields->name);
        if (!v || !get_field(v, arena, base, fields))
            return fields->name;
    }
    return NULL;
}

static bool get_numbers(const struct stk_jval *v, uint64_t *n, size_t *nn)
{
    if (!v || v->type != STK_JARR || v->len > STK_RUNNER_N_MAX)
        return false;
    for (size_t i = 0; i < v->len; i++) {
        const struct stk_jval *x = &v->item[i];
        if (x->type != STK_JINT || x->i < 1 || x->i > STK_STUDY_N_MAX ||
            (i && (uint64_t)x->i <= n[i - 1]))
            return false;
        n[i] = (uint64_t)x->i;
    }
    *nn = v->len;
    return true;
}

static const char *get_variants(const struct stk_jval *v, struct stk_arena *arena,
                                struct stk_runner_plan *p)
{
    if (!v || v->type != STK_JARR || v->len > STK_POINTS_MAX)
        return "variants";
    struct stk_point *point = stk_arena_alloc(arena, (v->len + 1) * sizeof *point);
    const char *bad = point ? NULL : "variants";
    for (size_t i = 0; i < v->len && !bad; i++) {
        point[i] = (struct stk_point){0};
        bad = v->item[i].type == STK_JOBJ ? get_fields(&v->item[i], arena, &point[i], point_fields)
                                          : "variants";
    }
    p->variant = point;
    p->nvariants = v->len;
    return bad;
}

static const struct stk_executor *get_via(const struct stk_jval *root)
{
    const struct stk_jval *name = stk_json_get(root, "via"), *slurm = stk_json_get(root, "slurm");
    if (name)
        return name->type == STK_JSTR ? stk_executor_find(name->str) : NULL;
    if (!slurm || slurm->type != STK_JBOOL)
        return NULL;
    return slurm->b ? &stk_executor_slurm : &stk_executor_local;
}

static const char *read_fields(const struct stk_jval *root, struct stk_arena *arena,
                               struct stk_runner_plan *p)
{
    const struct stk_jval *version =
        root->type == STK_JOBJ ? stk_json_get(root, "stoker_scale_plan") : NULL;
    if (!version || version->type != STK_JINT)
        return "this is not the plan of a study";
    if (version->i < VERSION_N || version->i > VERSION_PACK)
        return "the plan was written by another version of stoker";
    if (!get_numbers(stk_json_get(root, "n"), p->n, &p->nn))
        return "n is missing or wrong";
    const char *bad = NULL;
    if (version->i == VERSION_PACK && !get_numbers(stk_json_get(root, "pack"), p->pack, &p->npack))
        return "pack";
    if (version->i != VERSION_N)
        bad = get_numbers(stk_json_get(root, "spread"), p->spread, &p->nspread)
                  ? get_variants(stk_json_get(root, "variants"), arena, p)
                  : "spread";
    bad = bad ? bad : get_fields(root, arena, p, plan_fields);
    if (bad)
        return bad;
    p->via = get_via(root);
    return !p->via                              ? "via"
           : p->metric_pick > STK_METRIC_MEDIAN ? "metric_pick"
           : !p->cwd || p->cwd[0] != '/'        ? "cwd"
           : !p->nn && !p->nvariants            ? "n is missing or wrong"
           : !p->argv && !p->nvariants          ? "argv"
                                                : NULL;
}

int stk_runner_read_plan(const char *text, size_t len, const char *path, struct stk_arena *arena,
                         struct stk_runner_plan *p, struct stk_err *err)
{
    struct stk_arena tree = STK_ARENA_INIT;
    struct stk_jval *root = NULL;
    *p = (struct stk_runner_plan){0};
    int rc = stk_json_parse(&tree, text, len, &root, err);
    const char *bad = rc ? NULL : read_fields(root, arena, p);
    stk_arena_release(&tree);
    if (rc && err)
        snprintf(err->path, sizeof err->path, "%s", path);
    if (bad)
        rc = stk_err_set(err, STK_E_CORRUPT, path, -1, "it cannot be read: %s", bad);
    return rc;
}

/* Through JSON: the copy is what a later call would read. */
int stk_runner_copy_plan(const struct stk_runner_plan *from, struct stk_arena *arena,
                         struct stk_runner_plan *to, struct stk_err *err)
{
    struct stk_buf b = STK_BUF_INIT;
    stk_runner_write_plan(from, &b);
    int rc = stk_buf_check(&b, err);
    if (!rc)
        rc = stk_runner_read_plan(stk_buf_cstr(&b), b.len, "plan", arena, to, err);
    to->detach = from->detach;
    stk_buf_release(&b);
    return rc;
}
