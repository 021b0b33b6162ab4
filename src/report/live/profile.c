/* profile.c - a program that runs under `stoker profile`: its logs, which are mapped while it runs,
 * and the readings of its launchers. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/file.h"
#include "profile/profile.h"
#include "record/launch.h"
#include "report/live/priv.h"

#define LAUNCHERS_MAX 8192
#define RUN_MAX       (16u << 20)

static const struct stk_result_field columns[] = {
    {"rank", "rank", STK_U_TEXT, .flags = STK_F_CUT_END},
    {"node", "node", STK_U_TEXT, .flags = STK_F_IF_SET | STK_F_CUT_END},
    {"processes", "processes", STK_U_COUNT, .flags = STK_F_IF_SET},
    {"read_bytes", "read", STK_U_BYTES, .flags = STK_F_IF_SET},
    {"read_Bps", "rate", STK_U_BYTES_PER_S, .flags = STK_F_IF_SET},
    {"write_bytes", "written", STK_U_BYTES, .flags = STK_F_IF_SET},
    {"io_s", "in I/O", STK_U_SECONDS, .flags = STK_F_IF_SET},
    {"io_now", "now", STK_U_SHARE, .flags = STK_F_IF_SET},
    {"steps", "steps", STK_U_COUNT, .flags = STK_F_IF_SET},
    {"command", "program", STK_U_TEXT, .flags = STK_F_IF_SET | STK_F_CUT_END},
    {"steps_per_s", "steps/s", STK_U_PER_S, .flags = STK_F_IF_SET},
    {"cpu_s", "CPU time", STK_U_SECONDS, .flags = STK_F_IF_SET},
    {"slowest", NULL, STK_U_FLAG},
    {NULL}};

static bool is_run(const char *name)
{
    return stk_look_is_json(name, "run.");
}

static char *claims(const char *path)
{
    return stk_look_has(path, "run.id") ? strdup(path) : NULL;
}

/* ---- its launchers -------------------------------------------------------------------------- */

struct launchers {
    size_t n, running, gone;
    struct stk_alive who; /* of one that has not ended; one that runs, if there is any */
    enum stk_life life;
    double started_s, ended_s; /* the first start, the last end */
};

static void add_launcher(struct launchers *all, const struct stk_jval *o)
{
    struct stk_alive who;
    double started = 1e-9 * (double)stk_beacon_u64(o, "start_real_ns");
    stk_alive_get(o, &who);
    all->n++;
    if (started > 0 && (all->started_s <= 0 || started < all->started_s))
        all->started_s = started;
    all->ended_s = fmax(all->ended_s, 1e-9 * (double)stk_beacon_u64(o, "end_real_ns"));
    if (strcmp(stk_beacon_text(o, "state"), "ended") == 0)
        return;
    enum stk_life life = stk_alive_check(&who);
    if (!all->running++ || life == STK_LIFE_RUNS || all->life == STK_LIFE_GONE) {
        all->who = who;
        all->life = life;
    }
    all->gone += life == STK_LIFE_GONE;
}

static int read_launchers(struct stk_look *l, int dirfd, const char *path, struct launchers *all,
                          struct stk_err *err)
{
    const char **name;
    size_t n;
    int rc = stk_look_names(l, dirfd, path, is_run, LAUNCHERS_MAX, &name, &n, err);
    for (size_t i = 0; i < n && !rc; i++) {
        struct stk_buf b = STK_BUF_INIT;
        struct stk_arena arena = STK_ARENA_INIT;
        struct stk_jval *o;
        if (stk_read_file_at(dirfd, name[i], O_NOFOLLOW, RUN_MAX, &b, path, NULL) == 0 &&
            stk_json_parse(&arena, stk_buf_cstr(&b), b.len, &o, NULL) == 0 && o->type == STK_JOBJ)
            add_launcher(all, o);
        else
            stk_look_note(l, stk_look_printf(l, "%s is damaged: ignored", name[i]));
        stk_arena_release(&arena);
        stk_buf_release(&b);
    }
    return rc;
}

/* The newest log or reading: a sign of life from another node. */
static double newest_change(struct stk_look *l, int dirfd, const char *path)
{
    const char **name;
    size_t n;
    double newest = 0;
    if (stk_look_names(l, dirfd, path, stk_launch_is_ours, LAUNCHERS_MAX, &name, &n, NULL) != 0)
        return 0;
    for (size_t i = 0; i < n; i++) {
        struct stat st;
        if (fstatat(dirfd, name[i], &st, AT_SYMLINK_NOFOLLOW) == 0)
            newest = fmax(newest, (double)st.st_mtim.tv_sec);
    }
    return newest;
}

/* ---- ranks ---------------------------------------------------------------------------------- */

static void add_to(struct stk_look *l, size_t row, const char *key, double v)
{
    struct stk_look_cell *c = stk_look_cell(l, row, key);
    c->value = (isnan(c->value) ? 0 : c->value) + v;
}

/* A job script or launcher beside the ranks is none of them. */
static const char beside_ranks[] = "beside";

static const char *rank_text(struct stk_look *l, const struct stk_profile *p,
                             const struct stk_prof_proc *proc)
{
    if (!proc->world && p->nranks > 1)
        return beside_ranks;
    return stk_look_printf(l, "%lu", (unsigned long)(proc->world ? proc->rank : proc->unit));
}

static void add_process(struct stk_look *l, const struct stk_profile *p,
                        const struct stk_prof_proc *proc)
{
    size_t row = proc->unit;
    bool counts = stk_prof_counts(proc), named = *stk_look_cell(l, row, "rank")->text;
    bool first = counts && !(stk_look_cell(l, row, "processes")->value > 0);
    if (first || (!proc->launch && !named)) {
        stk_look_cell(l, row, "rank")->text = rank_text(l, p, proc);
        stk_look_cell(l, row, "node")->text =
            stk_look_keep(l, proc->host < p->nhosts ? p->host[proc->host].name : "");
        stk_look_cell(l, row, "command")->text =
            stk_look_keep(l, proc->exe ? stk_base_name(proc->exe) : "");
    }
    add_to(l, row, "processes", counts);
    add_to(l, row, "read_bytes", (double)proc->read_bytes);
    add_to(l, row, "write_bytes", (double)proc->write_bytes);
    add_to(l, row, "io_s", proc->io_union_s);
    add_to(l, row, "cpu_s", proc->cpu_s);
}

static int fill_rows(struct stk_look *l, const struct stk_profile *p, struct stk_err *err)
{
    int rc = stk_look_rows(l, p->nranks > 1 ? "ranks" : "programs", columns, p->nunits, err);
    if (rc)
        return rc;
    for (size_t i = 0; i < p->nprocs; i++)
        if (p->proc[i].unit < p->nunits)
            add_process(l, p, &p->proc[i]);
    for (size_t i = 0; i < p->nmarks; i++)
        if (p->mark[i].kind == STK_MARK_STEP && p->mark[i].proc < p->nprocs)
            add_to(l, p->proc[p->mark[i].proc].unit, "steps", 1);
    return 0;
}

static double sum_of(struct stk_look *l, const char *key)
{
    double sum = 0;
    for (size_t i = 0; i < l->table.nrows; i++) {
        double v = stk_look_cell(l, i, key)->value;
        sum += v > 0 ? v : 0;
    }
    return sum;
}

/* The rank with the most time in I/O. */
static void name_slowest(struct stk_look *l, bool ranked)
{
    size_t slowest = 0, n = l->table.nrows;
    for (size_t i = 1; i < n; i++)
        if (stk_look_cell(l, i, "io_s")->value > stk_look_cell(l, slowest, "io_s")->value)
            slowest = i;
    if (n < 2 || !(stk_look_cell(l, slowest, "io_s")->value > 0))
        return;
    l->table.slowest = slowest;
    const char *rank = stk_look_cell(l, slowest, "rank")->text;
    bool beside = rank == beside_ranks;
    stk_look_say(l, "slowest",
                 stk_look_printf(l, "%s %s on %s: %.1f s in I/O",
                                 beside   ? "the program"
                                 : ranked ? "rank"
                                          : "program",
                                 beside ? "beside the ranks" : rank,
                                 stk_look_cell(l, slowest, "node")->text,
                                 stk_look_cell(l, slowest, "io_s")->value));
}

/* ---- the machine ---------------------------------------------------------------------------- */

struct machine {
    double cpus, cores, memory, limit, gpu;
    size_t gpus, launchers;
};

static void add_reading(struct machine *m, const struct stk_prof_reading *r)
{
    m->launchers++;
    m->cpus += r->cpu_cores > 0 ? r->cpu_cores : 0;
    m->memory += (double)r->resident_bytes;
    if (r->gpu_util >= 0) {
        m->gpu += r->gpu_util;
        m->gpus++;
    }
}

/* The last reading of each launcher, of those that are few enough to be counted. */
static void add_last_readings(struct machine *m, const struct stk_profile *p)
{
    size_t *last = calloc(LAUNCHERS_MAX, sizeof *last); /* index + 1 */
    for (size_t i = 0; last && i < p->nreadings; i++) {
        uint32_t k = p->reading[i].launcher;
        if (k < LAUNCHERS_MAX && (!last[k] || p->reading[last[k] - 1].at_s <= p->reading[i].at_s))
            last[k] = i + 1;
    }
    for (size_t k = 0; last && k < LAUNCHERS_MAX; k++)
        if (last[k])
            add_reading(m, &p->reading[last[k] - 1]);
    free(last);
}

static struct machine look_at_machine(const struct stk_profile *p)
{
    struct machine m = {0};
    add_last_readings(&m, p);
    for (size_t i = 0; i < p->nhosts; i++) {
        m.cores += p->host[i].cores;
        m.limit += (double)p->host[i].memory_bytes;
    }
    return m;
}

static void put_figures(struct stk_look *l, const struct stk_profile *p)
{
    struct machine m = look_at_machine(p);
    uint64_t reads = 0, calls = 0;
    for (size_t i = 0; i < STK_PROF_BINS; i++) {
        reads += p->bin[i].reads;
        calls += p->bin[i].meta_calls;
    }
    stk_look_add(l, "read_bytes", sum_of(l, "read_bytes"))->counts = true;
    stk_look_add(l, "write_bytes", sum_of(l, "write_bytes"))->counts = true;
    stk_look_add(l, "reads", (double)reads)->counts = true;
    stk_look_add(l, "meta_calls", (double)calls)->counts = true;
    if (sum_of(l, "steps") > 0)
        stk_look_add(l, "steps", sum_of(l, "steps"))->counts = true;
    if (m.launchers && !stk_look_is_over(l)) {
        stk_look_add(l, "cpus_busy", m.cpus)->of = m.cores > 0 ? m.cores : NAN;
        stk_look_add(l, "resident_bytes", m.memory)->of = m.limit > 0 ? m.limit : NAN;
        if (m.gpus)
            stk_look_add(l, "gpu_util", m.gpu / (double)m.gpus);
    }
    name_slowest(l, p->nranks > 1);
}

static void judge(struct stk_look *l, const struct launchers *all, double changed_s)
{
    bool over = all->running == 0;
    stk_look_judge(l, &all->who, over, all->started_s, over ? all->ended_s : changed_s);
    if (!over && all->gone && l->state == STK_LOOK_RUNS)
        stk_look_note(l, stk_look_printf(l, "%zu of %zu launchers are gone", all->gone, all->n));
}

static int read_profile(struct stk_look *l, int dirfd, const char *path, struct stk_err *err)
{
    struct launchers all = {0};
    struct stk_profile p = {0};
    int rc = read_launchers(l, dirfd, path, &all, err);
    if (!rc && !all.n) {
        l->absent = true;
        return 0;
    }
    rc = rc ? rc : stk_profile_read(path, &p, err);
    if (rc)
        return rc;
    l->title = stk_look_keep(l, p.command);
    judge(l, &all, newest_change(l, dirfd, path));
    rc = fill_rows(l, &p, err);
    if (!rc)
        put_figures(l, &p);
    if (p.unread_logs)
        stk_look_note(l, stk_look_printf(l, "%llu logs are damaged, or of another version",
                                         (unsigned long long)p.unread_logs));
    stk_profile_release(&p);
    return rc;
}

/* ---- as a result ---------------------------------------------------------------------------- */

static const struct stk_result_field fields[] = {
    STK_LOOK_FIRST,
    {"read_bytes", "read", STK_U_BYTES},
    STK_LOOK_RATE("read_bytes", STK_U_BYTES_PER_S),
    {"write_bytes", "written", STK_U_BYTES},
    STK_LOOK_RATE("write_bytes", STK_U_BYTES_PER_S),
    {"reads", "reads", STK_U_COUNT},
    STK_LOOK_RATE("reads", STK_U_PER_S),
    {"meta_calls", "metadata", STK_U_COUNT},
    STK_LOOK_RATE("meta_calls", STK_U_PER_S),
    {"steps", "steps", STK_U_COUNT},
    STK_LOOK_RATE("steps", STK_U_PER_S),
    STK_LOOK_OF("cpus_busy", "CPU", STK_U_PLAIN),
    STK_LOOK_BAR("cpus_busy"),
    STK_LOOK_OF("resident_bytes", "memory", STK_U_BYTES),
    STK_LOOK_BAR("resident_bytes"),
    {"gpu_util", "GPU", STK_U_SHARE, .flags = STK_F_BAR},
    {"slowest", "slowest", STK_U_TEXT},
    {"ranks", "ranks", STK_U_TABLE, .of = columns, .by = "io_s", .marked = "slowest",
     .flags = STK_F_CUT},
    {"programs", "programs", STK_U_TABLE, .of = columns, .by = "io_s", .marked = "slowest",
     .flags = STK_F_CUT},
    {NULL}};

STK_LOOK_RESULT(stk_look_profile, "profile", NULL);
const struct stk_look_kind stk_look_profile = {
    .name = "profile", .claims = claims, .counts = stk_launch_is_ours, .read = read_profile,
    .fields = fields,
    .grows = {{"read_Bps", "read_bytes"}, {"io_now", "io_s"}}};
