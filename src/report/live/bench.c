/* bench.c - a running benchmark: the beacons of its run and of its ranks (bench/bench.h). */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/units.h"
#include "bench/bench.h"
#include "report/live/priv.h"

#define RANKS_MAX   8192
#define WAITS_SHARE 0.05 /* of its time: a rank that waits longer for data is emphasised */

static const struct stk_result_field columns[] = {
    {"rank", "rank", STK_U_TEXT, .flags = STK_F_CUT_END},
    {"node", "node", STK_U_TEXT, .flags = STK_F_IF_SET | STK_F_CUT_END},
    {"phase", "phase", STK_U_TEXT, .flags = STK_F_IF_SET | STK_F_CUT_END},
    {"step", "step", STK_U_COUNT, .flags = STK_F_IF_SET},
    {"utilisation", "busy", STK_U_SHARE, .flags = STK_F_IF_SET},
    {"wait_s", "waited", STK_U_SECONDS, .flags = STK_F_IF_SET},
    {"step_s", "step time", STK_U_SECONDS, .flags = STK_F_IF_SET},
    {"step_max_s", "longest", STK_U_SECONDS, .flags = STK_F_IF_SET},
    {"queue", "queue", STK_U_COUNT, .flags = STK_F_IF_SET},
    {"read_Bps", "reads", STK_U_BYTES_PER_S, .flags = STK_F_IF_SET},
    {"read_bytes", "read", STK_U_BYTES, .flags = STK_F_IF_SET},
    {"device_Bps", "from device", STK_U_BYTES_PER_S, .flags = STK_F_IF_SET},
    {"device_bytes", "device", STK_U_BYTES, .flags = STK_F_IF_SET},
    {"samples", "samples", STK_U_COUNT, .flags = STK_F_IF_SET},
    {"steps", "steps", STK_U_COUNT, .flags = STK_F_IF_SET},
    {"queue_slots", "slots", STK_U_COUNT, .flags = STK_F_IF_SET},
    {"barrier_s", "barrier", STK_U_SECONDS, .flags = STK_F_IF_SET},
    {"run_s", "run", STK_U_SECONDS, .flags = STK_F_IF_SET},
    {"since_s", "since", STK_U_SECONDS, .flags = STK_F_IF_SET},
    {"checkpoints", "checkpoints", STK_U_COUNT, .flags = STK_F_IF_SET},
    {"slowest", NULL, STK_U_FLAG},
    {NULL}};

static bool is_rank(const char *name)
{
    return stk_look_is_json(name, STK_BENCH_RANK);
}

static bool counts(const char *name)
{
    return strcmp(name, STK_BENCH_RUN) == 0 || is_rank(name);
}

/* The board itself, or the data folder with the board in it. */
static char *claims(const char *path)
{
    if (stk_look_has(path, STK_BENCH_RUN) && !stk_look_has(path, "run.id"))
        return strdup(path);
    return stk_look_has(path, STK_BENCH_BOARD) || stk_look_has(path, "stoker-bench.json")
               ? stk_path_join(path, STK_BENCH_BOARD)
               : NULL;
}

/* What all ranks do, added up. */
struct sums {
    double done, steps; /* of the rank that is farthest behind */
    double samples, samples_per_s, read_bytes, read_Bps, device_bytes, device_Bps;
    double busy, queue, slots, step_s, checkpoints;
    double left_s, updated_s;
    size_t ranks, moving, dead; /* moving: ranks that have made steps */
    const char *dead_name;
};

static double or_zero(double v)
{
    return v > 0 ? v : 0;
}

static void add_up(struct sums *s, const struct stk_beacon_seen *seen, uint64_t batch)
{
    const struct stk_jval *o = seen->now;
    double step = or_zero(stk_beacon_f64(o, "step")), steps = or_zero(stk_beacon_f64(o, "steps"));
    double each = or_zero(stk_beacon_f64(o, "step_s"));
    bool behind = !s->ranks || step < s->done;
    s->done = behind ? step : s->done;
    s->steps = fmax(s->steps, steps);
    s->left_s = fmax(s->left_s, steps > step ? (steps - step) * each : 0);
    s->samples += or_zero(stk_beacon_f64(o, "samples"));
    s->samples_per_s += each > 0 ? (double)batch / each : 0;
    s->read_bytes += or_zero(stk_beacon_f64(o, "read_bytes"));
    s->read_Bps += or_zero(stk_beacon_f64(o, "read_Bps"));
    s->device_bytes += or_zero(stk_beacon_f64(o, "device_bytes"));
    s->device_Bps += or_zero(stk_beacon_f64(o, "device_Bps"));
    s->busy += or_zero(stk_beacon_f64(o, "utilisation"));
    s->queue += or_zero(stk_beacon_f64(o, "queue"));
    s->slots += or_zero(stk_beacon_f64(o, "queue_slots"));
    s->step_s += each;
    s->moving += each > 0;
    s->checkpoints = fmax(s->checkpoints, or_zero(stk_beacon_f64(o, "checkpoints")));
    s->updated_s = fmax(s->updated_s, seen->updated_s);
    s->ranks++;
}

/* A rank that was killed leaves its file, and the others wait for it for a while. */
static const char *phase_of(struct stk_look *l, const struct stk_beacon_seen *seen, struct sums *s,
                            const char *rank)
{
    const char *phase = stk_beacon_text(seen->now, "phase");
    if (stk_alive_check(&seen->who) != STK_LIFE_GONE)
        return stk_look_keep(l, phase);
    s->dead++;
    s->dead_name = rank;
    return "died";
}

static void fill_row(struct stk_look *l, size_t row, const struct stk_beacon_seen *seen,
                     struct sums *s)
{
    for (size_t i = 0; columns[i].unit != STK_U_FLAG; i++) {
        struct stk_look_cell *c = stk_look_cell(l, row, columns[i].key);
        if (columns[i].unit == STK_U_TEXT)
            c->text = stk_look_keep(l, stk_beacon_text(seen->now, columns[i].key));
        else
            c->value = stk_beacon_f64(seen->now, columns[i].key);
    }
    struct stk_look_cell *name = stk_look_cell(l, row, "rank");
    name->text =
        stk_look_printf(l, "%llu", (unsigned long long)stk_beacon_u64(seen->now, "rank"));
    stk_look_cell(l, row, "phase")->text = phase_of(l, seen, s, name->text);
    if (!(stk_beacon_f64(seen->now, "queue_slots") > 0))
        stk_look_cell(l, row, "queue")->value = NAN;
}

/* The rank that has waited longest for data. */
static void name_slowest(struct stk_look *l)
{
    size_t slowest = 0, n = l->table.nrows;
    char wait[48], run[48];
    for (size_t i = 1; i < n; i++)
        if (stk_look_cell(l, i, "wait_s")->value > stk_look_cell(l, slowest, "wait_s")->value)
            slowest = i;
    double wait_s = n < 2 ? 0 : stk_look_cell(l, slowest, "wait_s")->value;
    double run_s = n < 2 ? 0 : stk_look_cell(l, slowest, "run_s")->value;
    if (!(wait_s > 0) || !(run_s > 0))
        return;
    if (wait_s > WAITS_SHARE * run_s)
        l->table.slowest = slowest;
    stk_look_say(l, "slowest",
                 stk_look_printf(l, "rank %s on %s: waited %s of %s for data",
                                 stk_look_cell(l, slowest, "rank")->text,
                                 stk_look_cell(l, slowest, "node")->text,
                                 stk_format_duration(wait_s, wait, sizeof wait),
                                 stk_format_duration(run_s, run, sizeof run)));
}

static void put_figures(struct stk_look *l, const struct sums *s, uint64_t world)
{
    struct stk_look_figure *f = stk_look_add(l, "steps", s->done);
    f->of = s->steps > 0 ? s->steps : NAN;
    f->per_s = s->step_s > 0 ? (double)s->moving / s->step_s : NAN;
    stk_look_add(l, "utilisation", s->done > 0 ? s->busy / (double)s->ranks : NAN);
    stk_look_add(l, "samples", s->samples)->per_s = s->samples_per_s;
    stk_look_add(l, "read_bytes", s->read_bytes)->per_s = s->read_Bps;
    stk_look_add(l, "device_bytes", s->device_bytes)->per_s = s->device_Bps;
    if (s->slots > 0)
        stk_look_add(l, "queue", s->queue)->of = s->slots;
    if (s->checkpoints > 0)
        stk_look_add(l, "checkpoints", s->checkpoints);
    name_slowest(l);
    if (s->dead)
        stk_look_note(l, stk_look_printf(l, "rank %s died%s: the run ends soon", s->dead_name,
                                         s->dead > 1 ? ", and others" : ""));
    if (world > s->ranks)
        stk_look_note(l, stk_look_printf(l, "%llu of %llu ranks have not begun yet, or have ended",
                                         (unsigned long long)(world - s->ranks),
                                         (unsigned long long)world));
}

/* A file that vanishes between listing and reading is of a rank that has just ended. */
static int read_ranks(struct stk_look *l, int dirfd, const char *path, uint64_t batch,
                      struct sums *s, struct stk_err *err)
{
    const char **name;
    size_t n, rows = 0;
    struct stk_arena scratch = STK_ARENA_INIT;
    int rc = stk_look_names(l, dirfd, path, is_rank, RANKS_MAX, &name, &n, err);
    rc = rc ? rc : stk_look_rows(l, "ranks", columns, n, err);
    for (size_t i = 0; i < n && !rc; i++) {
        struct stk_beacon_seen seen;
        struct stk_err why = {0};
        stk_arena_reset(&scratch);
        rc = stk_beacon_read(&scratch, dirfd, name[i], path, &seen, &why);
        if (rc && why.code == STK_E_SYS && why.sys_errno == ENOENT) {
            rc = 0;
            continue;
        }
        if (rc && err)
            *err = why;
        if (!rc) {
            add_up(s, &seen, batch);
            fill_row(l, rows++, &seen, s);
        }
    }
    l->table.nrows = rows;
    stk_arena_release(&scratch);
    return rc;
}

static int read_bench(struct stk_look *l, int dirfd, const char *path, struct stk_err *err)
{
    struct stk_arena arena = STK_ARENA_INIT;
    struct stk_beacon_seen run;
    struct stk_err why = {0};
    struct sums s = {0};
    int rc = stk_beacon_read(&arena, dirfd, STK_BENCH_RUN, path, &run, &why);
    l->absent = rc && why.code == STK_E_SYS && why.sys_errno == ENOENT;
    if (rc) {
        stk_arena_release(&arena);
        if (!l->absent && err)
            *err = why;
        return l->absent ? 0 : rc;
    }
    uint64_t world = stk_beacon_u64(run.now, "ranks"), batch = stk_beacon_u64(run.now, "batch");
    rc = read_ranks(l, dirfd, path, batch, &s, err);
    if (!rc) {
        l->title = stk_look_printf(l, "%s, %llu rank%s, %s reader",
                                   stk_beacon_text(run.now, "workload"), (unsigned long long)world,
                                   world == 1 ? "" : "s", stk_beacon_text(run.now, "reader"));
        stk_look_judge(l, &run.who, run.ended, run.started_s, fmax(s.updated_s, run.updated_s));
        l->left_s = s.done > 0 && !stk_look_is_over(l) ? s.left_s : NAN;
        put_figures(l, &s, stk_look_is_over(l) ? 0 : world);
    }
    stk_arena_release(&arena);
    return rc;
}

/* ---- as a result ---------------------------------------------------------------------------- */

static const struct stk_result_field fields[] = {
    STK_LOOK_FIRST,
    STK_LOOK_OF("steps", "steps", STK_U_COUNT),
    STK_LOOK_RATE("steps", STK_U_PER_S),
    STK_LOOK_BAR("steps"),
    {"utilisation", "busy", STK_U_SHARE, .say = "accelerators computing"},
    {"utilisation", NULL, STK_U_SHARE, .joins = "", .flags = STK_F_BAR | STK_F_VIEW},
    {"samples", "samples", STK_U_COUNT},
    STK_LOOK_RATE("samples", STK_U_PER_S),
    {"read_bytes", "read", STK_U_BYTES},
    STK_LOOK_RATE("read_bytes", STK_U_BYTES_PER_S),
    {"device_bytes", "device", STK_U_BYTES},
    STK_LOOK_RATE("device_bytes", STK_U_BYTES_PER_S),
    {"queue", "queue", STK_U_COUNT},
    {"queue_total", "places of the queue", STK_U_COUNT, .joins = " of % batches"},
    STK_LOOK_BAR("queue"),
    {"checkpoints", "saved", STK_U_COUNT, .say = "% checkpoint(s)"},
    {"slowest", "slowest", STK_U_TEXT},
    {"ranks", "ranks", STK_U_TABLE, .of = columns, .by = "wait_s", .marked = "slowest",
     .flags = STK_F_CUT},
    {NULL}};

STK_LOOK_RESULT(stk_look_bench, "bench", NULL);
const struct stk_look_kind stk_look_bench = {
    .name = "bench", .claims = claims, .counts = counts, .read = read_bench, .fields = fields};
