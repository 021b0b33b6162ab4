/* plan_json.c - a plan as JSON and back. Words of a command may be any bytes. */
#include "base/json_fields.h"
#include "study/priv.h"

/* 1: points from N alone. 2: with fields that readers of 1 do not know and would ignore. */
#define VERSION_N      1
#define VERSION_POINTS 2
#define VERSION_PACK   3 /* the same, and `pack` */

#define ROW(type, name, member)                                                                    \
    {                                                                                              \
        STK_JFIELD(type, name, STRUCT, member), .required = true                                   \
    }
#define TEXT(name, member)                                                                         \
    {                                                                                              \
        STK_JFIELD(TEXT, name, STRUCT, member), .required = true, .nullable = true, .bytes = true  \
    }
#define WORDS(name, member)                                                                        \
    {                                                                                              \
        STK_JFIELD_WORDS(name, STRUCT, member), .required = true, .bytes = true                    \
    }
#define NUMBERS(name, member, n_, needed)                                                          \
    {                                                                                              \
        STK_JFIELD_ARRAY(UNSIGNED, name, STRUCT, member, n_), .required = needed, .omit = !needed, \
            .min = 1, .max = STK_STUDY_N_MAX                                                       \
    }

#define STRUCT struct stk_point
static const struct stk_jfield variant_fields[] = {
    TEXT("id", id),
    TEXT("label", label),
    TEXT("series", series),
    ROW(UNSIGNED, "n", n),
    ROW(UNSIGNED, "size", size),
    WORDS("argv", argv),
    WORDS("env", env),
    ROW(UNSIGNED, "threads", give.threads),
    ROW(UNSIGNED, "ranks", give.ranks),
    ROW(UNSIGNED, "gpus", give.gpus),
    ROW(UNSIGNED, "nodes", give.nodes),
    ROW(UNSIGNED, "ranks_per_node", give.ranks_per_node),
    ROW(UNSIGNED, "cpus", give.cpus),
    {0},
};
#undef STRUCT

#define STRUCT struct stk_runner_plan
/* Since VERSION_POINTS. */
static const struct stk_jfield more_fields[] = {
    NUMBERS("spread", spread, nspread, true),
    NUMBERS("pack", pack, npack, false),
    {STK_JFIELD_LIST(STRUCT, "variants", STRUCT, variant, nvariants), .required = true,
     .room = STK_POINTS_MAX, .table = variant_fields},
    {0},
};

static const struct stk_jfield plan_fields[] = {
    NUMBERS("n", n, nn, true),
    WORDS("argv", argv),
    ROW(FLAG, "shell", shell),
    TEXT("prepare", prepare),
    TEXT("cwd", cwd),
    ROW(FLAG, "weak", weak),
    ROW(UNSIGNED, "size", size),
    ROW(UNSIGNED, "sets", sets),
    ROW(UNSIGNED, "threads_per_rank", threads_per_rank),
    ROW(UNSIGNED, "ranks_per_node", ranks_per_node),
    ROW(FLAG, "pin", pin),
    ROW(FLAG, "oversubscribe", oversubscribe),
    TEXT("launcher", launcher),
    TEXT("container", container),
    ROW(UNSIGNED, "runs_min", runs_min),
    ROW(UNSIGNED, "runs_max", runs_max),
    ROW(UNSIGNED, "warmup", warmup),
    ROW(UNSIGNED, "seed", seed),
    ROW(REAL, "precision", precision),
    ROW(REAL, "budget_s", budget_s),
    ROW(REAL, "timeout_s", timeout_s),
    TEXT("metric", metric),
    {STK_JFIELD(UNSIGNED, "metric_pick", STRUCT, metric_pick), .required = true,
     .max = STK_METRIC_MEMBER},
    {STK_JFIELD(TEXT, "clock", STRUCT, clock), .bytes = true},
    ROW(FLAG, "higher_better", higher_better),
    TEXT("series", series),
    TEXT("unit", unit),
    ROW(UNSIGNED, "cores_per_n", cores_per_n),
    WORDS("sbatch", sbatch),
    TEXT("batch_head", batch_head),
    TEXT("gpu_type", gpu_type),
    ROW(UNSIGNED, "at_once", at_once),
    {0},
};
#undef STRUCT

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
    if (more)
        stk_jfields_put(more_fields, p, &w);
    stk_jfields_put(plan_fields, p, &w);
    stk_jw_put_str(&w, "via", p->via->name);
    stk_jw_put_bool(&w, "slurm", p->via == &stk_executor_slurm); /* the form before `via` */
    stk_jw_close(&w, '}');
    stk_buf_putc(out, '\n');
}

static bool rises(const uint64_t *v, size_t n)
{
    for (size_t i = 1; i < n; i++)
        if (v[i] <= v[i - 1])
            return false;
    return true;
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

/* What the table does not say of a plan; NULL: nothing is wrong. */
static const char *check(const struct stk_runner_plan *p, int64_t version)
{
    bool pack = version == VERSION_PACK;
    return !p->via                                                  ? "'via' is unknown"
           : !p->cwd || p->cwd[0] != '/'                            ? "'cwd' is not absolute"
           : !p->nn && !p->nvariants                                ? "'n' is empty"
           : !p->argv && !p->nvariants                              ? "'argv' is empty"
           : !rises(p->n, p->nn)                                    ? "'n' does not rise"
           : !rises(p->spread, p->nspread)                          ? "'spread' does not rise"
           : pack != !!p->npack || !rises(p->pack, p->npack) ? "'pack' is wrong"
                                                             : NULL;
}

int stk_runner_read_plan(const char *text, size_t len, const char *path, struct stk_arena *arena,
                         struct stk_runner_plan *p, struct stk_err *err)
{
    struct stk_jval *root = NULL;
    *p = (struct stk_runner_plan){0};
    int rc = stk_json_parse(arena, text, len, &root, err);
    if (rc)
        return stk_err_at(err, rc, path);
    const struct stk_jval *version = stk_json_get(root, "stoker_scale_plan");
    if (!version || version->type != STK_JINT)
        return stk_err_set(err, STK_E_CORRUPT, path, -1, "this is not the plan of a study");
    if (version->i < VERSION_N || version->i > VERSION_PACK)
        return stk_err_set(err, STK_E_CORRUPT, path, -1,
                           "the plan was written by another version of stoker");
    if (version->i > VERSION_N)
        rc = stk_jfields_read(more_fields, root, path, arena, p, err);
    rc = rc ? rc : stk_jfields_read(plan_fields, root, path, arena, p, err);
    p->via = get_via(root);
    const char *bad = rc ? NULL : check(p, version->i);
    return bad ? stk_err_set(err, STK_E_CORRUPT, path, -1, "%s", bad) : rc;
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
