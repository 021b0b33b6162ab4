/*
 * who.c - parents and children, the rank of a process, its number among the workers; and
 * the kernel's counts for a process alone.
 */
#include "profile/priv.h"

#include "sched/rank.h"

#include <stdlib.h>

struct env {
    const char *list;
    size_t size;
};

/* The value of NAME in "NAME=VALUE\0NAME=VALUE\0\0"; the end may be missing. */
static const char *env_get(void *user, const char *name)
{
    const struct env *e = user;
    size_t length = strlen(name);
    for (size_t at = 0; at < e->size && e->list[at];) {
        size_t n = strnlen(e->list + at, e->size - at);
        if (at + n >= e->size)
            return NULL;
        if (n > length && e->list[at + length] == '=' && memcmp(e->list + at, name, length) == 0)
            return e->list + at + length + 1;
        at += n + 1;
    }
    return NULL;
}

void stk_pb_env_rank(struct stk_pb *pb, uint32_t proc, const char *environment, size_t size)
{
    struct stk_prof_proc *p = &pb->p->proc[proc];
    struct env e = {environment, size};
    struct stk_rank r;
    struct stk_err why;
    const char *job = env_get(&e, "SLURM_JOB_ID");
    if (job)
        pb->proc[proc].job = stk_pb_text(pb, job, strlen(job));
    if (!pb->proc[proc].job)
        pb->proc[proc].job = "";
    if (stk_rank_detect_from(env_get, &e, &r, &why) < 0) {
        stk_pb_tally(pb, &pb->bad_rank, why.what);
    } else if (*r.from && r.world <= STK_PB_MAX_WORLD) {
        p->rank = r.rank;
        p->world = r.world;
    }
}

/* ---- parents ---- */

/* Orders by start; a parent is always earlier, so there are no cycles. */
static bool earlier(const struct stk_profile *p, size_t a, size_t b)
{
    return p->proc[a].start_s < p->proc[b].start_s ||
           (p->proc[a].start_s == p->proc[b].start_s && a < b);
}

static int by_start(const void *a, const void *b, void *user)
{
    const uint32_t *x = a, *y = b;
    return *x == *y ? 0 : earlier(user, *x, *y) ? -1 : 1;
}

static int by_pid(const void *a, const void *b, void *user)
{
    const struct stk_pb *pb = user;
    const uint32_t *x = a, *y = b;
    const struct stk_prof_proc *u = &pb->p->proc[*x], *v = &pb->p->proc[*y];
    uint32_t in_u = pb->proc[*x].pid_space, in_v = pb->proc[*y].pid_space;
    if (u->host != v->host)
        return u->host < v->host ? -1 : 1;
    if (in_u != in_v)
        return in_u < in_v ? -1 : 1;
    if (u->pid != v->pid)
        return u->pid < v->pid ? -1 : 1;
    return by_start(a, b, pb->p);
}

/* Logs were read in the order of their names; processes without one follow. */
static int32_t by_log(const struct stk_profile *p, const char *log)
{
    size_t low = 0, high = p->nprocs;
    if (!*log)
        return -1;
    while (high && !*p->proc[high - 1].log)
        high--;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int c = strcmp(p->proc[middle].log, log);
        if (c == 0)
            return (int32_t)middle;
        if (c < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return -1;
}

/* The newest process with that number on that host that began before `child`. */
static int32_t by_ppid(const struct stk_pb *pb, const uint32_t *sorted, uint32_t child)
{
    const struct stk_profile *p = pb->p;
    const struct stk_prof_proc *c = &p->proc[child];
    uint32_t space = pb->proc[child].pid_space;
    size_t low = 0, high = c->ppid ? p->nprocs : 0;
    while (low < high) { /* the first after all (host, space, ppid) that began before */
        size_t middle = low + (high - low) / 2;
        const struct stk_prof_proc *m = &p->proc[sorted[middle]];
        uint32_t in = pb->proc[sorted[middle]].pid_space;
        bool before = m->host != c->host  ? m->host < c->host
                      : in != space       ? in < space
                      : m->pid != c->ppid ? m->pid < c->ppid
                                          : earlier(p, sorted[middle], child);
        if (before)
            low = middle + 1;
        else
            high = middle;
    }
    if (!low)
        return -1;
    const struct stk_prof_proc *m = &p->proc[sorted[low - 1]];
    bool same = m->host == c->host && pb->proc[sorted[low - 1]].pid_space == space;
    return same && m->pid == c->ppid ? (int32_t)sorted[low - 1] : -1;
}

static void find_parents(struct stk_pb *pb, const uint32_t *by_number)
{
    struct stk_profile *p = pb->p;
    for (uint32_t i = 0; i < p->nprocs; i++) {
        int32_t parent = by_log(p, pb->proc[i].parent_log);
        if (parent >= 0 && !earlier(p, (size_t)parent, i))
            parent = -1;
        p->proc[i].parent = parent >= 0 ? parent : by_ppid(pb, by_number, i);
    }
}

/* ---- ranks ---- */

/* The launcher of the ranks is the one with the most of them: if srun starts torchrun, torchrun
 * itself is one task per node, but not a rank of the training. */
static void settle_world(struct stk_pb *pb, const uint32_t *by_time)
{
    struct stk_profile *p = pb->p;
    for (size_t i = 0; i < p->nprocs; i++)
        p->nranks = p->proc[i].world > p->nranks ? p->proc[i].world : p->nranks;
    for (size_t i = 0; i < p->nprocs; i++)
        if (p->proc[i].world != p->nranks)
            p->proc[i].rank = p->proc[i].world = 0;
    for (size_t i = 0; i < p->nprocs; i++) { /* parents before children */
        struct stk_prof_proc *c = &p->proc[by_time[i]];
        if (c->world || c->parent < 0)
            continue;
        c->rank = p->proc[c->parent].rank; /* one that was started with a clean environment */
        c->world = p->proc[c->parent].world;
    }
    p->nranks = p->nranks ? p->nranks : 1;
}

static int by_rank(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* Python's multiprocessing by spawn or forkserver: a new interpreter, the same program. */
static bool is_spawned(const struct stk_profile *p, const struct stk_prof_proc *c)
{
    return c->parent >= 0 && c->born == STK_BORN_START && strstr(c->command, "multiprocessing") &&
           strcmp(c->exe, p->proc[c->parent].exe) == 0;
}

/* A program of its own, not a forked part of another one. (Fork, then exec: also its own.) */
static bool is_program(const struct stk_profile *p, const struct stk_prof_proc *c)
{
    if (c->parent < 0 || c->born == STK_BORN_START)
        return !is_spawned(p, c);
    return c->born == STK_BORN_EXEC && p->proc[c->parent].born == STK_BORN_FORK;
}

/* Ranks first, in order, then processes without a rank, by start. */
static int number_units(struct stk_pb *pb, const uint32_t *by_time, struct stk_err *err)
{
    struct stk_profile *p = pb->p;
    uint64_t *key = stk_arena_alloc(&pb->temp, (p->nprocs + 1) * sizeof *key);
    size_t n = 0;
    if (!key)
        return stk_err_nomem(err, p->nprocs * sizeof *key);
    for (uint32_t i = 0; i < p->nprocs; i++)
        if (p->proc[i].world)
            key[n++] = (uint64_t)p->proc[i].rank << 32 | i;
    qsort(key, n, sizeof *key, by_rank);
    for (size_t i = 0; i < n; i++) {
        if (i && key[i] >> 32 != key[i - 1] >> 32)
            p->nunits++;
        p->proc[(uint32_t)key[i]].unit = p->nunits;
    }
    p->nunits += n > 0;
    for (size_t i = 0; i < p->nprocs; i++) {
        struct stk_prof_proc *c = &p->proc[by_time[i]];
        if (c->world)
            continue;
        c->unit = is_program(p, c) ? p->nunits++ : p->proc[c->parent].unit;
    }
    return 0;
}

/* The lowest number that no sibling has while `c` lives: a loader that restarts its workers for
 * every epoch reuses the same few. `last` and `before` chain the workers of a parent. */
static uint32_t free_number(const struct stk_profile *p, const struct stk_prof_proc *c,
                            const int32_t *last, const int32_t *before, uint8_t *used)
{
    uint32_t siblings = 0, number = 1;
    for (int32_t s = last[c->parent]; s >= 0; s = before[s])
        siblings++;
    memset(used, 0, siblings + 2);
    for (int32_t s = last[c->parent]; s >= 0; s = before[s])
        if (p->proc[s].end_s > c->start_s)
            used[p->proc[s].worker] = 1;
    while (used[number])
        number++;
    return number;
}

static int number_workers(struct stk_pb *pb, const uint32_t *by_time, struct stk_err *err)
{
    struct stk_profile *p = pb->p;
    size_t n = p->nprocs + 2;
    int32_t *last = stk_arena_alloc(&pb->temp, n * sizeof *last);
    int32_t *before = stk_arena_alloc(&pb->temp, n * sizeof *before);
    uint8_t *used = stk_arena_alloc(&pb->temp, n);
    if (!last || !before || !used)
        return stk_err_nomem(err, n * sizeof *last);
    memset(last, 0xff, n * sizeof *last);
    for (size_t i = 0; i < p->nrecs; i++)
        if (stk_api_moves(p->rec[i].api) && p->rec[i].n.c[STK_C_READS])
            pb->proc[p->rec[i].proc].read_data = true;
    for (size_t i = 0; i < p->nprocs; i++) {
        uint32_t at = by_time[i];
        struct stk_prof_proc *c = &p->proc[at];
        bool child = (c->born == STK_BORN_FORK && c->parent >= 0) || is_spawned(p, c);
        if (!child || !pb->proc[at].read_data)
            continue;
        c->worker = free_number(p, c, last, before, used);
        before[at] = last[c->parent];
        last[c->parent] = (int32_t)at;
    }
    return 0;
}

int stk_pb_who(struct stk_pb *pb, struct stk_err *err)
{
    struct stk_profile *p = pb->p;
    size_t bytes = (p->nprocs + 1) * sizeof(uint32_t);
    uint32_t *by_time = pb->by_time = stk_arena_alloc(&pb->temp, bytes);
    uint32_t *by_number = stk_arena_alloc(&pb->temp, bytes);
    if (!by_time || !by_number)
        return stk_err_nomem(err, bytes);
    for (uint32_t i = 0; i < p->nprocs; i++)
        by_time[i] = by_number[i] = i;
    qsort_r(by_time, p->nprocs, sizeof *by_time, by_start, p);
    qsort_r(by_number, p->nprocs, sizeof *by_number, by_pid, pb);
    find_parents(pb, by_number);
    settle_world(pb, by_time);
    int rc = number_units(pb, by_time, err);
    return rc ? rc : number_workers(pb, by_time, err);
}

/* ---- the kernel's counts ---- */

static uint64_t grown(const struct stk_pb_proc *x, size_t i)
{
    return x->kernel[i] > x->kernel_start[i] ? x->kernel[i] - x->kernel_start[i] : 0;
}

/* The kernel's count since the start. For a killed process it dates from the last look, up to a
 * second before: if we saw more ourselves, it is unknown. For others it may lack what short-lived
 * threads moved, which are not queried (preload/kernel_io.c): it is at least what we saw. */
static uint64_t known(const struct stk_pb_proc *x, size_t i, uint64_t seen)
{
    uint64_t n = grown(x, i);
    return n >= seen ? n : x->end == STK_END_NONE ? 0 : seen;
}

/* What io_uring and kernel aio moved is only in the device's counts. Those may include what rchar
 * has, too: the rest was moved unseen. */
static uint64_t with_unseen(const struct stk_prof_proc *p, uint64_t counted, uint64_t storage)
{
    return p->blind && storage > counted ? storage : counted;
}

/* The final counts of a process (and of the programs it then executed). */
static void final_counts(const struct stk_pb *pb, const uint32_t *next, uint32_t proc,
                         uint64_t *counts, double *end_s)
{
    while (next[proc] != STK_PB_NONE)
        proc = next[proc];
    const struct stk_pb_proc *x = &pb->proc[proc];
    const struct stk_prof_proc *p = &pb->p->proc[proc];
    uint64_t seen[2] = {p->seen_read_bytes, p->seen_write_bytes};
    memcpy(counts, x->kernel, sizeof x->kernel);
    for (size_t i = 0; i < 2; i++)
        if (grown(x, i) < seen[i] && seen[i] <= UINT64_MAX - x->kernel_start[i])
            counts[i] = x->kernel_start[i] + seen[i];
    *end_s = p->end_s;
}

/* Subtracts a child's counts from its waiter's, unless that would leave less than we saw the waiter
 * do: then the child was not waited for. */
static void take_off(struct stk_prof_proc *w, const uint64_t *child)
{
    uint64_t slack = w->seen_read_bytes / 50 + 65536;
    if (w->kernel_read_bytes < child[0] ||
        w->kernel_read_bytes - child[0] + slack < w->seen_read_bytes)
        return;
    uint64_t *mine[4] = {&w->kernel_read_bytes, &w->kernel_write_bytes, &w->storage_read_bytes,
                         &w->storage_write_bytes};
    for (size_t i = 0; i < 4; i++)
        *mine[i] = *mine[i] > child[i] ? *mine[i] - child[i] : 0;
}

/*
 * /proc/PID/io of a process includes the counts of the children it waited for (the kernel adds them
 * when it reaps; kernel/exit.c). Logs exclude them; for a program without a log, the launcher's
 * counts are all there is. Each byte must count once, in the process that moved it. Children
 * without a log stay in such a parent's counts: their bytes are not covered.
 */
int stk_pb_kernel(struct stk_pb *pb, struct stk_err *err)
{
    struct stk_profile *p = pb->p;
    uint32_t *next = stk_arena_alloc(&pb->temp, (p->nprocs + 1) * sizeof *next);
    if (!next)
        return stk_err_nomem(err, p->nprocs * sizeof *next);
    for (uint32_t i = 0; i < p->nprocs; i++) {
        const struct stk_pb_proc *x = &pb->proc[i];
        next[i] = STK_PB_NONE;
        p->proc[i].kernel_read_bytes = known(x, 0, p->proc[i].seen_read_bytes);
        p->proc[i].kernel_write_bytes = known(x, 1, p->proc[i].seen_write_bytes);
        p->proc[i].storage_read_bytes = grown(x, 2);
        p->proc[i].storage_write_bytes = grown(x, 3);
        p->proc[i].kernel_read_bytes =
            with_unseen(&p->proc[i], p->proc[i].kernel_read_bytes, grown(x, 2));
        p->proc[i].kernel_write_bytes =
            with_unseen(&p->proc[i], p->proc[i].kernel_write_bytes, grown(x, 3));
    }
    for (uint32_t i = 0; i < p->nprocs; i++) /* a parent is earlier: no cycles */
        if (p->proc[i].born == STK_BORN_EXEC && p->proc[i].parent >= 0)
            next[p->proc[i].parent] = i;
    for (uint32_t i = 0; i < p->nprocs; i++) {
        const struct stk_prof_proc *c = &p->proc[i];
        if (c->parent < 0 || c->born == STK_BORN_EXEC)
            continue;
        uint64_t counts[4];
        double end_s;
        final_counts(pb, next, i, counts, &end_s);
        uint32_t waiter = (uint32_t)c->parent;
        while (next[waiter] != STK_PB_NONE && p->proc[waiter].end_s < end_s)
            waiter = next[waiter];
        if (pb->proc[waiter].with_children && end_s <= p->proc[waiter].end_s)
            take_off(&p->proc[waiter], counts);
    }
    return 0;
}
