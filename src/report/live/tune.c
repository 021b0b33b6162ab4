/*
 * tune.c - a tuning in progress: what it does now (tune/status.c), and the changes of the study that
 * runs now or ran last (study/runner.c), compared with the job as it is.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "report/live/priv.h"
#include "study/runner.h"
#include "tune/tune.h"

static const struct stk_result_field columns[] = {
    {"label", "change", STK_U_TEXT, .flags = STK_F_CUT_END},
    {"good", "runs", STK_U_COUNT, .flags = STK_F_IF_SET},
    {"bad", "failed", STK_U_COUNT, .flags = STK_F_IF_SET},
    {"epoch_s", "epoch", STK_U_SECONDS, .flags = STK_F_IF_SET},
    {"times", "times as fast so far", STK_U_TIMES, .flags = STK_F_IF_SET},
    {"state", "state", STK_U_TEXT, .flags = STK_F_IF_SET | STK_F_CUT_END},
    {NULL}};

/* The folders of the studies count, too: whoever owns them could put anything into them. */
static bool counts(const char *name)
{
    return strcmp(name, STK_TUNE_STATUS) == 0 || strcmp(name, STK_TUNE_FIRST) == 0 ||
           strcmp(name, STK_TUNE_SECOND) == 0;
}

static char *claims(const char *path)
{
    return stk_look_has(path, "tune.json") ? strdup(path) : NULL;
}

/* The job as it is comes first. */
static double base_cost(const struct stk_jval *points)
{
    return points->len && points->item[0].type == STK_JOBJ
               ? stk_beacon_f64(&points->item[0], "cost")
               : NAN;
}

static void fill_row(struct stk_look *l, size_t row, const struct stk_jval *p, double base,
                     const char *now)
{
    double cost = stk_beacon_f64(p, "cost");
    const char *label = stk_beacon_text(p, "label");
    stk_look_cell(l, row, "label")->text = stk_look_keep(l, label);
    stk_look_cell(l, row, "good")->value = stk_beacon_f64(p, "good");
    stk_look_cell(l, row, "bad")->value = stk_beacon_f64(p, "bad");
    stk_look_cell(l, row, "epoch_s")->value = cost > 0 ? cost : NAN;
    stk_look_cell(l, row, "times")->value = cost > 0 && base > 0 ? base / cost : NAN;
    stk_look_cell(l, row, "state")->text = *now && strcmp(label, now) == 0 ? "runs" : "";
}

static int read_changes(struct stk_look *l, const struct stk_jval *now, struct stk_err *err)
{
    const struct stk_jval *points = stk_json_get(now, "points");
    size_t rows = 0;
    struct stk_look_figure *f = stk_look_add(l, "done", (double)stk_beacon_u64(now, "done"));
    /* How many there will be depends on what they show. */
    f->of = stk_beacon_u64(now, "planned") ? stk_beacon_f64(now, "planned") : NAN;
    if (!points || points->type != STK_JARR)
        return 0;
    int rc = stk_look_rows(l, "changes", columns, points->len, err);
    for (size_t i = 0; i < points->len && !rc; i++)
        if (points->item[i].type == STK_JOBJ)
            fill_row(l, rows++, &points->item[i], base_cost(points),
                     stk_look_is_over(l) ? "" : stk_beacon_text(now, "label"));
    l->table.nrows = rc ? 0 : rows;
    return rc;
}

/* The study that began last. False: none has begun. */
static bool see_study(struct stk_arena *arena, int dirfd, const char *path,
                      struct stk_beacon_seen *seen)
{
    static const char *const names[] = {STK_TUNE_SECOND, STK_TUNE_FIRST};
    bool found = false;
    for (size_t i = 0; i < 2 && !found; i++) {
        int fd = openat(dirfd, names[i], O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        found = fd >= 0 && stk_beacon_read(arena, fd, STK_STUDY_STATUS, path, seen, NULL) == 0;
        if (fd >= 0)
            close(fd);
    }
    return found;
}

static int fill(struct stk_look *l, const struct stk_beacon_seen *seen, int dirfd,
                const char *path, struct stk_err *err)
{
    struct stk_arena arena = STK_ARENA_INIT;
    struct stk_beacon_seen study;
    const char *name = stk_beacon_text(seen->now, "name");
    double left = stk_beacon_f64(seen->now, "left_s");
    l->title = stk_look_keep(l, *name ? name : path);
    stk_look_judge(l, &seen->who, seen->ended, seen->started_s, seen->updated_s);
    if (!stk_look_is_over(l)) {
        stk_look_say(l, "doing", stk_look_keep(l, stk_beacon_text(seen->now, "doing")));
        stk_look_add(l, "budget_left_s", left);
    }
    int rc = see_study(&arena, dirfd, path, &study) ? read_changes(l, study.now, err) : 0;
    stk_arena_release(&arena);
    return rc;
}

static int read_tune(struct stk_look *l, int dirfd, const char *path, struct stk_err *err)
{
    struct stk_arena arena = STK_ARENA_INIT;
    struct stk_beacon_seen seen;
    struct stk_err why = {0};
    int rc = stk_beacon_read(&arena, dirfd, STK_TUNE_STATUS, path, &seen, &why);
    l->absent = rc && why.code == STK_E_SYS && why.sys_errno == ENOENT;
    if (rc && !l->absent && err)
        *err = why;
    rc = l->absent ? 0 : rc ? rc : fill(l, &seen, dirfd, path, err);
    stk_arena_release(&arena);
    return rc;
}

/* ---- as a result ---------------------------------------------------------------------------- */

static const struct stk_result_field fields[] = {
    STK_LOOK_FIRST,
    {"doing", "now", STK_U_TEXT},
    {"budget_left_s", "budget", STK_U_SECONDS},
    STK_LOOK_OF("done", "runs", STK_U_COUNT),
    STK_LOOK_BAR("done"),
    {"changes", "changes", STK_U_TABLE, .of = columns, .by = "",
     .flags = STK_F_CUT},
    {NULL}};

STK_LOOK_RESULT(stk_look_tune, "tune", NULL);
const struct stk_look_kind stk_look_tune = {
    .name = "tune", .claims = claims, .counts = counts, .read = read_tune, .fields = fields};
