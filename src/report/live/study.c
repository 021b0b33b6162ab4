/* study.c - a scaling study in progress: the beacon of its runner (study/runner.c). */
#include <errno.h>
#include <stdlib.h>

#include "base/file.h"
#include "report/live/priv.h"
#include "study/runner.h"

static const struct stk_result_field columns[] = {
    {"label", "point", STK_U_TEXT, .flags = STK_F_CUT_END},
    {"series", "series", STK_U_TEXT, .flags = STK_F_IF_SET | STK_F_CUT_END},
    {"good", "runs", STK_U_COUNT, .flags = STK_F_IF_SET},
    {"bad", "failed", STK_U_COUNT, .flags = STK_F_IF_SET},
    {"waiting", "in queue", STK_U_COUNT, .flags = STK_F_IF_SET},
    {"wall_s", "median", STK_U_SECONDS, .flags = STK_F_IF_SET},
    {"half_width", "within", STK_U_SHARE, .flags = STK_F_IF_SET},
    {"speedup", "speedup", STK_U_TIMES, .flags = STK_F_IF_SET},
    {"state", "state", STK_U_TEXT, .flags = STK_F_IF_SET | STK_F_CUT_END},
    {"n", "N", STK_U_COUNT, .flags = STK_F_IF_SET},
    {NULL}};

static bool counts(const char *name)
{
    return strcmp(name, STK_STUDY_STATUS) == 0;
}

static char *claims(const char *path)
{
    bool is_study = stk_look_has(path, "plan.json") && stk_look_has(path, "runs.jsonl");
    return is_study ? strdup(path) : NULL;
}

/* The cost of the first point of the same series that has one: N rises within a series. */
static double base_cost(const struct stk_jval *points, const char *series)
{
    for (size_t i = 0; i < points->len; i++) {
        const struct stk_jval *p = &points->item[i];
        if (p->type == STK_JOBJ && strcmp(stk_beacon_text(p, "series"), series) == 0)
            return stk_beacon_f64(p, "cost");
    }
    return NAN;
}

static const char *state_of(const struct stk_jval *p, const char *now)
{
    const struct stk_jval *done = stk_json_get(p, "done");
    if (done && done->type == STK_JBOOL && done->b)
        return "done";
    return *now && strcmp(stk_beacon_text(p, "label"), now) == 0 ? "runs" : "";
}

static void fill_row(struct stk_look *l, size_t row, const struct stk_jval *p,
                     const struct stk_jval *points, const char *now)
{
    for (size_t i = 0; columns[i].key; i++) {
        struct stk_look_cell *c = stk_look_cell(l, row, columns[i].key);
        if (columns[i].unit == STK_U_TEXT)
            c->text = stk_look_keep(l, stk_beacon_text(p, columns[i].key));
        else
            c->value = stk_beacon_f64(p, columns[i].key);
    }
    double base = base_cost(points, stk_beacon_text(p, "series"));
    double cost = stk_beacon_f64(p, "cost");
    stk_look_cell(l, row, "speedup")->value = cost > 0 && base > 0 ? base / cost : NAN;
    stk_look_cell(l, row, "state")->text = stk_look_keep(l, state_of(p, now));
}

static int read_points(struct stk_look *l, const struct stk_jval *now, struct stk_err *err)
{
    const struct stk_jval *points = stk_json_get(now, "points");
    size_t rows = 0;
    if (!points || points->type != STK_JARR)
        return 0;
    int rc = stk_look_rows(l, "points", columns, points->len, err);
    for (size_t i = 0; i < points->len && !rc; i++)
        if (points->item[i].type == STK_JOBJ)
            fill_row(l, rows++, &points->item[i], points,
                     stk_look_is_over(l) ? "" : stk_beacon_text(now, "label"));
    l->table.nrows = rc ? 0 : rows;
    return rc;
}

static void put_figures(struct stk_look *l, const struct stk_jval *now)
{
    uint64_t pending = stk_beacon_u64(now, "pending"), running = stk_beacon_u64(now, "running");
    uint64_t waiting = stk_beacon_u64(now, "waiting");
    const char *label = stk_beacon_text(now, "label"), *reason = stk_beacon_text(now, "reason");
    stk_look_add(l, "done", (double)stk_beacon_u64(now, "done"))->of =
        stk_beacon_f64(now, "planned");
    bool over = stk_look_is_over(l);
    if (!over && *label)
        stk_look_say(l, "running",
                     stk_look_printf(l, "%s: %s", label, stk_beacon_text(now, "phase")));
    if (!over && pending + running)
        stk_look_say(l, "queue",
                     stk_look_printf(l, "%llu jobs run, %llu wait%s%s%s",
                                     (unsigned long long)running, (unsigned long long)pending,
                                     *reason ? " (" : "", reason, *reason ? ")" : ""));
    if (over && waiting)
        stk_look_note(l, stk_look_printf(l,
                                         "%llu jobs were left in the queue: `stoker scale "
                                         "--resume` collects them",
                                         (unsigned long long)waiting));
}

static int fill(struct stk_look *l, const struct stk_beacon_seen *seen, const char *path,
                struct stk_err *err)
{
    const char *unit = stk_beacon_text(seen->now, "unit");
    const char *metric = stk_beacon_text(seen->now, "metric");
    l->title = stk_look_printf(l, "%s over %s, %s", *metric ? metric : "time", *unit ? unit : "N",
                               stk_base_name(path));
    stk_look_judge(l, &seen->who, seen->ended, seen->started_s, seen->updated_s);
    double left = stk_beacon_f64(seen->now, "left_s");
    l->left_s = !stk_look_is_over(l) && left >= 0 ? left : NAN;
    put_figures(l, seen->now);
    return read_points(l, seen->now, err);
}

static int read_study(struct stk_look *l, int dirfd, const char *path, struct stk_err *err)
{
    struct stk_arena arena = STK_ARENA_INIT;
    struct stk_beacon_seen seen;
    struct stk_err why = {0};
    int rc = stk_beacon_read(&arena, dirfd, STK_STUDY_STATUS, path, &seen, &why);
    l->absent = rc && why.code == STK_E_SYS && why.sys_errno == ENOENT;
    if (rc && !l->absent && err)
        *err = why;
    rc = l->absent ? 0 : rc ? rc : fill(l, &seen, path, err);
    stk_arena_release(&arena);
    return rc;
}

/* ---- as a result ---------------------------------------------------------------------------- */

static const struct stk_result_field fields[] = {
    STK_LOOK_FIRST,
    STK_LOOK_OF("done", "runs", STK_U_COUNT),
    STK_LOOK_BAR("done"),
    {"running", "now", STK_U_TEXT},
    {"queue", "queue", STK_U_TEXT},
    {"points", "points", STK_U_TABLE, .of = columns, .by = "",
     .flags = STK_F_CUT},
    {NULL}};

STK_LOOK_RESULT(stk_look_study, "scale", NULL);
const struct stk_look_kind stk_look_study = {
    .name = "scale", .claims = claims, .counts = counts, .read = read_study, .fields = fields};
