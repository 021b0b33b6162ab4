/*
 * points.c - generators: the points of a plan. What N sets becomes resources here, and marks
 * in the command become numbers; no later code asks what N stands for.
 */
#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "study/priv.h"

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
