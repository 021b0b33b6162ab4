/*
 * plan.c - the plan of a study: its points, whether it makes sense, and its file. What N sets
 * becomes resources here, and marks in the command become numbers; no later code asks what N stands
 * for. Every mistake is detected here, before an hour is spent on it; the executor checks whether
 * the resources exist.
 */
#include "study/priv.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/json_fields.h"
#include "base/secret.h"
#include "base/text.h"

static const char *text(struct stk_arena *arena, const char *fmt, ...) STK_PRINTF(2, 3);
static const char *text(struct stk_arena *arena, const char *fmt, ...)
{
    char out[STK_STUDY_TEXT_MAX + 128];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(out, sizeof out, fmt, ap);
    va_end(ap);
    return stk_arena_dup(arena, out, n < (int)sizeof out ? (size_t)n : sizeof out - 1);
}

static const char **expand_words(const char **argv, const struct stk_point *p,
                                 struct stk_arena *arena)
{
    struct stk_words w = {.arena = arena};
    const struct stk_marks marks = stk_point_marks(p);
    for (; *argv; argv++)
        stk_words_add_expanded(&w, *argv, &marks);
    return w.fail ? NULL : w.v;
}

/* ---- from N ------------------------------------------------------------------------------- */

/* What N sets. Where ranks share GPUs, or there are none, one node is meant. */
static struct stk_resources resources_of(const struct stk_runner_plan *p, uint64_t n)
{
    bool gpus = p->sets & STK_SETS_GPUS;
    struct stk_resources give = {.gpus = gpus ? n : 0, .ranks_per_node = p->ranks_per_node};
    if (p->sets & STK_SETS_NODES) {
        give.nodes = n;
        give.ranks_per_node = p->ranks_per_node ? p->ranks_per_node : 1;
        give.ranks = n * give.ranks_per_node; /* the plan was checked: no overflow */
    } else if (p->sets & STK_SETS_RANKS) {
        give.ranks = n;
        give.nodes = gpus && !p->ranks_per_node ? 1 : 0;
        give.cpus = n * (p->threads_per_rank ? p->threads_per_rank : 1);
    } else if (p->sets) {
        give.nodes = 1;
    }
    give.threads = p->threads_per_rank;
    if (p->sets & STK_SETS_THREADS)
        give.threads = give.cpus = n;
    return give;
}

static bool make_n(const struct stk_runner_plan *p, uint64_t n, struct stk_arena *arena,
                   struct stk_point *out)
{
    unsigned long long number = n;
    *out = (struct stk_point){
        .id = text(arena, "n%llu", number),
        .label = text(arena, "N=%llu", number),
        .series = p->series ? p->series : "",
        .n = n,
        .size = p->weak ? p->size * n : p->size,
        .give = resources_of(p, n),
        .by_n = true,
    };
    out->argv = expand_words(p->argv, out, arena);
    return out->id && out->label && out->argv;
}

static bool points_of_n(const struct stk_runner_plan *p, struct stk_arena *arena,
                        struct stk_points *out)
{
    bool ok = true;
    for (size_t i = 0; i < p->nn && ok; i++)
        ok = make_n(p, p->n[i], arena, &out->v[out->n++]);
    return ok;
}

/* ---- from N and placements ---------------------------------------------------------------- */

/* A placement: that many nodes, or that many ranks on each. */
struct placing {
    const uint64_t *by;
    size_t n;
    const char *label, *id; /* "N=4 on 2 nodes", "n4-on2" */
};

static struct placing placing_of(const struct stk_runner_plan *p)
{
    return p->npack ? (struct placing){p->pack, p->npack, "with", "by"}
                    : (struct placing){p->spread, p->nspread, "on", "on"};
}

/* One curve per placement. Only if N divides evenly: otherwise srun does not distribute as
 * requested. */
static bool place(const struct placing *how, uint64_t by, bool pack, struct stk_arena *arena,
                  struct stk_point *point)
{
    char name[64], what[48];
    const char *before = point->series;
    snprintf(what, sizeof what, pack ? "rank%s per node" : "node%s", by == 1 ? "" : "s");
    snprintf(name, sizeof name, "%llu %s", (unsigned long long)by, what);
    uint64_t other = point->give.ranks / by;
    point->give.nodes = pack ? other : by;
    point->give.ranks_per_node = pack ? by : other;
    point->series = text(arena, "%s%s%s", before, *before ? ", " : "", name);
    point->label = text(arena, "%s %s %s", point->label, how->label, name);
    point->id = text(arena, "%s-%s%llu", point->id, how->id, (unsigned long long)by);
    point->by_n = false;
    return point->series && point->label && point->id;
}

static bool points_of_placing(const struct stk_runner_plan *p, struct stk_arena *arena,
                              struct stk_points *out)
{
    const struct placing how = placing_of(p);
    bool ok = true;
    for (size_t k = 0; k < how.n; k++)
        for (size_t i = 0; i < p->nn && ok && out->n < STK_POINTS_MAX; i++)
            if (p->n[i] % how.by[k] == 0) {
                struct stk_point *point = &out->v[out->n++];
                ok = make_n(p, p->n[i], arena, point) &&
                     place(&how, how.by[k], p->npack > 0, arena, point);
                point->argv = ok ? expand_words(p->argv, point, arena) : NULL;
                ok = point->argv;
            }
    return ok;
}

/* ---- as they are -------------------------------------------------------------------------- */

static bool points_of_variants(const struct stk_runner_plan *p, struct stk_arena *arena,
                               struct stk_points *out)
{
    bool ok = true;
    for (size_t i = 0; i < p->nvariants && ok; i++) {
        struct stk_point *point = &out->v[out->n++];
        *point = p->variant[i];
        point->by_n = false;
        point->n = point->n ? point->n : 1;
        point->label = point->label ? point->label : point->id;
        point->series = point->series ? point->series : point->label;
        const char **argv = point->argv ? point->argv : p->argv;
        bool any = argv && *argv;
        point->argv = any ? expand_words(argv, point, arena) : NULL;
        ok = !any || point->argv;
    }
    return ok;
}

/* ---- requirements for all points ---------------------------------------------------------- */

static bool is_id(const char *id)
{
    size_t n = id ? strlen(id) : 0;
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)id[i]) && (i == 0 || !strchr("._-", id[i])))
            return false;
    return n > 0 && n <= STK_POINT_ID_MAX;
}

static bool is_sane(const struct stk_resources *give)
{
    const uint64_t all[] = {give->threads, give->ranks,          give->gpus,
                            give->nodes,   give->ranks_per_node, give->cpus};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i] > INT64_MAX / STK_STUDY_N_MAX)
            return false;
    return true;
}

static int check_point(const struct stk_point *p, struct stk_err *err)
{
    if (!is_id(p->id))
        return stk_err_set(err, STK_E_USAGE, NULL, -1,
                           "\"%.60s\" cannot name a point: use 1 to %d letters, digits, \".\", "
                           "\"_\" and \"-\"",
                           p->id ? p->id : "", STK_POINT_ID_MAX);
    if (!p->argv || !p->argv[0] || !p->argv[0][0])
        return stk_err_set(err, STK_E_USAGE, NULL, -1, "%s: there is no command to run", p->id);
    for (size_t i = 0; p->env && p->env[i]; i++)
        if (!strchr(p->env[i], '=') || p->env[i][0] == '=')
            return stk_err_set(err, STK_E_USAGE, NULL, -1, "%s: \"%.60s\" is not NAME=VALUE", p->id,
                               p->env[i]);
    if (p->n > STK_STUDY_N_MAX || !is_sane(&p->give) || strlen(p->series) > STK_STUDY_TEXT_MAX)
        return stk_err_set(err, STK_E_USAGE, NULL, -1,
                           "%s: a number is too large, or its name too "
                           "long",
                           p->id);
    return 0;
}

static int check_apart(const struct stk_points *points, struct stk_err *err)
{
    for (size_t i = 0; i < points->n; i++)
        for (size_t k = 0; k < i; k++) {
            const struct stk_point *a = &points->v[i], *b = &points->v[k];
            if (strcmp(a->id, b->id) == 0 || (a->n == b->n && strcmp(a->series, b->series) == 0))
                return stk_err_set(err, STK_E_USAGE, NULL, -1,
                                   "%s and %s cannot be distinguished: id, or series and N, must "
                                   "differ",
                                   b->id, a->id);
        }
    return 0;
}

int stk_points_make(const struct stk_runner_plan *p, struct stk_arena *arena,
                    struct stk_points *out, struct stk_err *err)
{
    size_t room = p->nvariants ? p->nvariants : p->nspread + p->npack ? STK_POINTS_MAX : p->nn;
    *out = (struct stk_points){.v = stk_arena_alloc(arena, room * sizeof *out->v)};
    bool ok = out->v;
    if (ok)
        ok = p->nvariants            ? points_of_variants(p, arena, out)
             : p->nspread + p->npack ? points_of_placing(p, arena, out)
                                     : points_of_n(p, arena, out);
    int rc = ok ? 0 : stk_err_nomem(err, room * sizeof *out->v);
    for (size_t i = 0; i < out->n && !rc; i++)
        rc = check_point(&out->v[i], err);
    rc = rc ? rc : check_apart(out, err);
    if (!rc && out->n * p->runs_max > STK_STUDY_RUNS_MAX)
        rc =
            stk_err_set(err, STK_E_USAGE, NULL, -1, "more than %d runs in all", STK_STUDY_RUNS_MAX);
    return rc;
}

/* ---- looking at them ---------------------------------------------------------------------- */

static uint64_t number_at(const struct stk_point *p, size_t offset)
{
    return *(const uint64_t *)(const void *)((const char *)p + offset);
}

const struct stk_point *stk_points_most(const struct stk_points *points, size_t offset)
{
    const struct stk_point *most = &points->v[0];
    for (size_t i = 1; i < points->n; i++)
        if (number_at(&points->v[i], offset) > number_at(most, offset))
            most = &points->v[i];
    return most;
}

struct stk_marks stk_point_marks(const struct stk_point *p)
{
    bool placed = p->give.nodes && p->give.ranks_per_node;
    return (struct stk_marks){.n = p->n,
                              .ranks = p->give.ranks ? p->give.ranks : p->n,
                              .size = p->size,
                              .nodes = placed ? p->give.nodes : 0,
                              .ranks_per_node = placed ? p->give.ranks_per_node : 0};
}

void stk_run_name(const struct stk_point *p, uint64_t repeat, char *name, size_t size)
{
    snprintf(name, size, "%s-r%llu", p->id, (unsigned long long)repeat);
}

struct stk_study_run stk_point_run(const struct stk_point *p, uint64_t repeat)
{
    struct stk_study_run run = STK_STUDY_RUN_INIT;
    run.n = p->n;
    run.point = p->by_n ? NULL : p->id;
    run.repeat = (uint32_t)repeat;
    return run;
}

static int wrong(struct stk_err *err, const char *what)
{
    return stk_err_set(err, STK_E_USAGE, NULL, -1, "%s", what);
}

static bool anywhere(const struct stk_runner_plan *p, const char *mark)
{
    bool found = stk_marks_in(p->launcher, mark) || stk_marks_in(p->container, mark);
    for (size_t i = 0; p->argv && p->argv[i]; i++)
        found = found || stk_marks_in(p->argv[i], mark);
    for (size_t i = 0; p->sbatch && p->sbatch[i]; i++)
        found = found || stk_marks_in(p->sbatch[i], mark);
    return found || stk_marks_in(p->batch_head, mark);
}

bool stk_runner_grows(const struct stk_runner_plan *p)
{
    return anywhere(p, "{size}") || anywhere(p, "{n}") || stk_marks_in(p->prepare, "{size}") ||
           stk_marks_in(p->prepare, "{n}");
}

static int check_depends(const struct stk_runner_plan *p, struct stk_err *err)
{
    bool marked = anywhere(p, "{n}") || anywhere(p, "{ranks}");
    bool sized = anywhere(p, "{size}") || stk_marks_in(p->prepare, "{size}");
    if (!p->sets && !marked && !(p->weak && sized))
        return wrong(err, "nothing depends on N: put {n} into the command, or say what N sets "
                          "with --threads, --ranks or --gpus");
    if (sized && !p->size)
        return wrong(err,
                     "{size} is in the command, but --size, which gives its value, is missing");
    if (p->size && !sized)
        return wrong(err, "--size gives the value of {size}, but {size} is not in the command");
    return 0;
}

static int check_sets(const struct stk_runner_plan *p, struct stk_err *err)
{
    bool ranks = p->sets & (STK_SETS_RANKS | STK_SETS_NODES);
    if ((p->sets & STK_SETS_THREADS) && ranks)
        return wrong(err, "N cannot be threads and ranks or nodes at once: use --threads-per-rank "
                          "for the threads of each rank");
    if ((p->sets & STK_SETS_RANKS) && (p->sets & STK_SETS_NODES))
        return wrong(err, "N cannot be ranks and nodes at once: with --nodes, use "
                          "--ranks-per-node for the number of ranks");
    if ((p->sets & STK_SETS_GPUS) && (p->sets & STK_SETS_NODES))
        return wrong(err, "N cannot be GPUs and nodes at once: use --sbatch --gres=gpu:4 to "
                          "request the GPUs of each node");
    if (p->threads_per_rank && !ranks)
        return wrong(err, "--threads-per-rank requires --ranks or --nodes");
    if (p->ranks_per_node && !ranks)
        return wrong(err, "--ranks-per-node requires --ranks or --nodes");
    return 0;
}

static bool any_multiple(const struct stk_runner_plan *p, uint64_t nodes)
{
    for (size_t i = 0; i < p->nn; i++)
        if (p->n[i] % nodes == 0)
            return true;
    return false;
}

static int check_spread(const struct stk_runner_plan *p, struct stk_err *err)
{
    if (!(p->sets & STK_SETS_RANKS) || p->ranks_per_node || p->npack)
        return wrong(err, "--spread distributes the ranks of an N over that many nodes: it "
                          "requires --ranks, without --ranks-per-node");
    for (size_t i = 0; i < p->nspread; i++)
        if (!any_multiple(p, p->spread[i]))
            return stk_err_set(err, STK_E_USAGE, NULL, -1,
                               "--spread: no N can be divided evenly over %llu nodes",
                               (unsigned long long)p->spread[i]);
    return p->nn * p->nspread <= STK_POINTS_MAX ? 0 : wrong(err, "--spread: too many points");
}

static int check_pack(const struct stk_runner_plan *p, struct stk_err *err)
{
    if (!(p->sets & STK_SETS_RANKS))
        return wrong(err, "--ranks-per-node with several numbers places the ranks of an N in "
                          "several ways: it requires --ranks");
    for (size_t i = 0; i < p->npack; i++)
        if (!any_multiple(p, p->pack[i]))
            return stk_err_set(err, STK_E_USAGE, NULL, -1,
                               "--ranks-per-node: no N is a multiple of %llu",
                               (unsigned long long)p->pack[i]);
    return p->nn * p->npack <= STK_POINTS_MAX ? 0 : wrong(err, "--ranks-per-node: too many points");
}

/* A word without its number would overflow, or could not run at all. */
static int check_numbers(const struct stk_runner_plan *p, struct stk_err *err)
{
    uint64_t product;
    uint64_t largest = p->nn ? p->n[p->nn - 1] : 1;
    if (p->runs_min < 1 || p->runs_max < p->runs_min || p->runs_max > STK_RUNNER_RUNS_MAX)
        return wrong(err,
                     "--runs: give a number such as 10, or a range such as 3..20, up to 10000");
    if (__builtin_mul_overflow(p->size, largest, &product) || product > INT64_MAX)
        return wrong(err, "--size: the size at the largest N is too large a number");
    if (p->ranks_per_node > 1000000 || p->threads_per_rank > 1000000)
        return wrong(err, "more than 1000000 ranks per node, or threads per rank");
    return 0;
}

static int check_texts(const struct stk_runner_plan *p, struct stk_err *err)
{
    bool any = p->argv && p->argv[0] && p->argv[0][0];
    if (!any && !p->nvariants)
        return wrong(err, "there is no command to run");
    if (any && p->shell && p->argv[1])
        return wrong(err, "--shell takes the command as one line: quote it");
    for (size_t i = 0; any && p->argv[i]; i++)
        if (strlen(p->argv[i]) >= STK_RUNNER_WORD_MAX)
            return wrong(err, "a word of the command is too long");
    if (p->series && strlen(p->series) > STK_STUDY_TEXT_MAX)
        return wrong(err, "--name is too long");
    return 0;
}

static int check_n(const struct stk_runner_plan *p, struct stk_err *err)
{
    int rc = check_depends(p, err);
    rc = rc ? rc : check_sets(p, err);
    rc = rc || !p->nspread ? rc : check_spread(p, err);
    return rc || !p->npack ? rc : check_pack(p, err);
}

int stk_runner_check(const struct stk_runner_plan *p, struct stk_err *err)
{
    if (!p->nn && !p->nvariants)
        return wrong(err, "--n is missing: say at which N to run, as in --n 1,2,4,8");
    if (p->nvariants && (p->nn || p->nvariants > STK_POINTS_MAX))
        return wrong(err, "a study is of N or of variants, and has at most 1024 points");
    int rc = check_texts(p, err);
    rc = rc || p->nvariants ? rc : check_n(p, err);
    rc = rc ? rc : check_numbers(p, err);
    bool regex = p->metric && p->metric_pick != STK_METRIC_MEMBER;
    return rc || !regex ? rc : stk_metric_check(p->metric, err);
}

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
                                                              .min = 1, .max = STK_STUDY_N_MAX     \
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
static const char *check_file(const struct stk_runner_plan *p, int64_t version)
{
    bool pack = version == VERSION_PACK;
    return !p->via                                           ? "'via' is unknown"
           : !p->cwd || p->cwd[0] != '/'                     ? "'cwd' is not absolute"
           : !p->nn && !p->nvariants                         ? "'n' is empty"
           : !p->argv && !p->nvariants                       ? "'argv' is empty"
           : !rises(p->n, p->nn)                             ? "'n' does not rise"
           : !rises(p->spread, p->nspread)                   ? "'spread' does not rise"
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
    const char *bad = rc ? NULL : check_file(p, version->i);
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
    to->grows = from->grows;
    stk_buf_release(&b);
    return rc;
}

static void put_words(const char *label, const char *const *word, struct stk_buf *out)
{
    struct stk_secret secret = {0};
    if (!word || !*word)
        return;
    stk_buf_printf(out, "  %s:", label);
    for (; *word; word++) {
        struct stk_buf b = STK_BUF_INIT;
        stk_secret_put(&secret, *word, strlen(*word), &b);
        stk_buf_putc(out, ' ');
        stk_quote_word(out, stk_buf_cstr(&b), b.len);
        out->fail = out->fail || b.fail;
        stk_buf_release(&b);
    }
    stk_buf_putc(out, '\n');
}

static void put_line(const char *label, const char *text, size_t n, struct stk_buf *out)
{
    struct stk_buf b = STK_BUF_INIT;
    stk_secret_text(text, n, &b);
    stk_buf_printf(out, "  %s: ", label);
    stk_text_escape(out, stk_buf_cstr(&b), b.len, SIZE_MAX);
    stk_buf_putc(out, '\n');
    out->fail = out->fail || b.fail;
    stk_buf_release(&b);
}

/* Line by line: a script has many. */
static void put_lines(const char *label, const char *text, struct stk_buf *out)
{
    while (text && *text) {
        size_t n = strcspn(text, "\n");
        put_line(label, text, n, out);
        text += n + (text[n] == '\n');
    }
}

void stk_runner_plan_text(const struct stk_runner_plan *p, struct stk_buf *out)
{
    put_lines("in", p->cwd, out);
    put_words(p->shell ? "for sh" : "command", p->argv, out);
    for (size_t i = 0; i < p->nvariants; i++) {
        put_words("environment", p->variant[i].env, out);
        put_words(p->shell ? "for sh" : "command", p->variant[i].argv, out);
    }
    put_lines("before each run, for sh", p->prepare, out);
    put_lines("launcher", p->launcher, out);
    put_lines("container", p->container, out);
    put_words("sbatch", p->sbatch, out);
    put_lines("batch file", p->batch_head, out);
    put_line("via", p->via->name, strlen(p->via->name), out);
}
