/*
 * launch.c - which process of a unit is its program, and which only led to it: a shim, a shell, the
 * scripts of modules or conda, env, a container's runtime, and whatever these ran before.
 */
#include "profile/priv.h"

#define LITTLE_BYTES 65536u /* scripts and settings: next to it, data is larger */
#define LITTLE_SHARE 0.01   /* of what the program moved: the cache of a module system */

/* Python's forkserver or spawn: it forks the workers, but the loop is that of its parent. */
static bool serves(const struct stk_prof_proc *q)
{
    return q->parent >= 0 && q->command && strstr(q->command, "from multiprocessing.");
}

int32_t stk_profile_loop_of(const struct stk_profile *p, uint32_t worker)
{
    int32_t proc = p->proc[worker].parent;
    while (proc >= 0 && serves(&p->proc[proc]))
        proc = p->proc[proc].parent;
    return proc;
}

static uint64_t received(const struct stk_prof_proc *q)
{
    uint64_t files = q->read_bytes + q->left_out_read_bytes;
    return q->seen_read_bytes > files ? q->seen_read_bytes - files : 0;
}

/* Seconds in which it did something or waited for data. A process that gets next to nothing through
 * pipes and sockets waits there for the end of others. */
static double weight_of(const struct stk_prof_proc *q)
{
    double waited = received(q) >= LITTLE_BYTES ? q->wait_processes_s : 0;
    return q->cpu_s + q->io_union_s + q->wait_threads_s + waited;
}

void stk_profile_mains(const struct stk_profile *p, const uint32_t *unit, uint32_t n,
                       double *weight, int32_t *main)
{
    for (uint32_t i = 0; i < n; i++)
        main[i] = -1;
    for (uint32_t i = 0; i < p->nprocs; i++)
        weight[i] = p->proc[i].born == STK_BORN_FORK || p->proc[i].worker
                        ? -1
                        : weight_of(&p->proc[i]);
    for (uint32_t i = 0; i < p->nprocs; i++) {
        int32_t loop = p->proc[i].worker ? stk_profile_loop_of(p, i) : -1;
        if (loop < 0)
            continue;
        if (weight[loop] < 0)
            weight[loop] = weight_of(&p->proc[loop]);
        weight[loop] += p->proc[i].cpu_s + p->proc[i].io_union_s;
    }
    for (uint32_t i = 0; i < p->nprocs; i++) {
        int32_t *to = &main[unit[i]];
        if (weight[i] >= 0 && (*to < 0 || weight[i] >= weight[*to]))
            *to = (int32_t)i;
    }
}

uint64_t stk_profile_processes(const struct stk_profile *p, uint64_t *threads)
{
    uint64_t n = 0;
    *threads = 0;
    for (size_t i = 0; i < p->nprocs; i++) {
        const struct stk_prof_proc *q = &p->proc[i];
        *threads += q->launch ? 0 : q->threads;
        n += stk_prof_counts(q);
    }
    return n ? n : p->nprocs;
}

/* ---- what led to it ---- */

struct launch {
    struct stk_profile *p;
    int32_t *main;  /* of each unit */
    int32_t *leads; /* of each process: the program that it led to; -1: none */
    int32_t *chain; /* the processes that became the program of their unit, or started it */
    size_t nchain;
    double *bytes; /* of each unit */
};

static double moved(const struct stk_prof_proc *q)
{
    return (double)q->read_bytes + (double)q->write_bytes;
}

/* The child of a shell, before it became that program. */
static bool became(const struct stk_prof_proc *from, const struct stk_prof_proc *to)
{
    return from->born == STK_BORN_FORK && to->born == STK_BORN_EXEC && from->pid == to->pid;
}

/* The programs and shells that the main process was before it was itself, or was started by. */
static void mark_chain(struct launch *l, int32_t main, bool whole)
{
    const struct stk_prof_proc *q = l->p->proc;
    for (int32_t to = main, at; to >= 0 && (at = q[to].parent) >= 0 && l->leads[at] < 0; to = at) {
        if (!whole && q[at].unit != q[main].unit && !became(&q[at], &q[to]))
            return;
        l->leads[at] = main;
        l->chain[l->nchain++] = at;
    }
}

/* Whether a process did something beside that program: it is another, and did not end before. */
static bool beside(const struct launch *l, const double *weight, int32_t at, int32_t program)
{
    const struct stk_prof_proc *q = l->p->proc;
    return at != program && q[at].end_s > q[program].start_s && weight[at] >= 0;
}

/* Of files, pipes and sockets. */
static double took(const struct stk_prof_proc *q)
{
    return (double)(q->read_bytes + received(q));
}

/* Without ranks, each program is a unit; but a script that runs one program only leads to it.
 * That program; -1: there are ranks, or others did half as much once it ran, or took half as much
 * data: how long the parts of a pipe take is chance. */
static int32_t only_program(const struct launch *l, const double *weight)
{
    const struct stk_profile *p = l->p;
    int32_t most = -1;
    double rest = 0, data = 0;
    for (uint32_t i = 0; i < p->nunits; i++)
        if (l->main[i] >= 0 && (most < 0 || weight[l->main[i]] > weight[most]))
            most = l->main[i];
    for (uint32_t i = 0; i < p->nprocs && most >= 0; i++) {
        if (p->proc[i].world)
            return -1;
        if (beside(l, weight, (int32_t)i, most)) {
            rest += weight[i];
            data += took(&p->proc[i]);
        }
    }
    for (int32_t at = most; at >= 0; at = p->proc[at].parent) /* what waits for it */
        if (beside(l, weight, at, most)) {
            rest -= weight[at];
            data -= took(&p->proc[at]);
        }
    bool alone = most >= 0 && weight[most] > 2 * rest &&
                 (data < LITTLE_BYTES || data < took(&p->proc[most]) / 2);
    return alone ? most : -1;
}

/* A subshell that made no call has no log: what it started has an unknown parent, and ran while the
 * shell before it did. */
static int32_t starter_of(const struct launch *l, const struct stk_prof_proc *q)
{
    for (size_t i = 0; q->parent < 0 && q->ppid && i < l->nchain; i++) {
        const struct stk_prof_proc *c = &l->p->proc[l->chain[i]];
        if (c->host == q->host && (!q->world || c->unit == q->unit) && c->start_s < q->start_s &&
            q->end_s <= c->end_s)
            return l->chain[i];
    }
    return q->parent;
}

/* The program that its starter led to, if it ended before that began; -1: none. What did as much as
 * that is a program like it. */
static int32_t helped(const struct launch *l, const struct stk_prof_proc *q)
{
    int32_t by = starter_of(l, q), to = by >= 0 ? l->leads[by] : -1;
    const struct stk_prof_proc *program = to >= 0 ? &l->p->proc[to] : NULL;
    bool stranger = program && q->world && q->unit != program->unit;
    return program && program != q && !stranger && q->end_s <= program->start_s &&
                   2 * weight_of(q) <= weight_of(program)
               ? to
               : -1;
}

/* A process that moved data is more than a step on the way, whatever it started. */
static void settle(struct launch *l, struct stk_prof_proc *q, int32_t to)
{
    uint32_t unit = l->p->proc[to].unit;
    q->launch = moved(q) < LITTLE_BYTES || moved(q) < LITTLE_SHARE * l->bytes[unit];
    if (!q->launch)
        return;
    q->worker = 0;
    q->unit = unit;
}

/* A program that belongs to another unit now leaves its own without a process. */
static void number_anew(struct stk_profile *p, int32_t *number)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->nunits; i++)
        number[i] = -1;
    for (size_t i = 0; i < p->nprocs; i++)
        number[p->proc[i].unit] = 0;
    for (uint32_t i = 0; i < p->nunits; i++)
        number[i] = number[i] < 0 ? -1 : (int32_t)n++;
    for (size_t i = 0; i < p->nprocs; i++)
        p->proc[i].unit = (uint32_t)number[p->proc[i].unit];
    p->nunits = n;
}

int stk_pb_launch(struct stk_pb *pb, struct stk_err *err)
{
    struct stk_profile *p = pb->p;
    size_t room = p->nprocs + 1;
    uint32_t *unit = stk_arena_alloc(&pb->temp, room * sizeof *unit);
    double *of = stk_arena_alloc(&pb->temp, room * sizeof *of);
    struct launch l = {.p = p,
                       .main = stk_arena_alloc(&pb->temp, room * sizeof *l.main),
                       .leads = stk_arena_alloc(&pb->temp, room * sizeof *l.leads),
                       .chain = stk_arena_alloc(&pb->temp, room * sizeof *l.chain),
                       .bytes = of};
    if (!unit || !of || !l.main || !l.leads || !l.chain)
        return stk_err_nomem(err, room * sizeof *of);
    for (size_t i = 0; i < p->nprocs; i++) {
        unit[i] = p->proc[i].unit;
        l.leads[i] = -1;
    }
    stk_profile_mains(p, unit, p->nunits, of, l.main);
    mark_chain(&l, only_program(&l, of), true);
    memset(l.bytes, 0, room * sizeof *l.bytes);
    for (size_t i = 0; i < p->nprocs; i++)
        l.bytes[unit[i]] += moved(&p->proc[i]);
    for (uint32_t i = 0; i < p->nunits; i++)
        mark_chain(&l, l.main[i], false);
    for (size_t i = 0; i < p->nprocs; i++) { /* parents before children */
        uint32_t at = pb->by_time[i];
        int32_t to = helped(&l, &p->proc[at]); /* with all that led to it */
        l.leads[at] = to >= 0 ? to : l.leads[at];
    }
    for (size_t i = 0; i < p->nprocs; i++)
        if (l.leads[i] >= 0)
            settle(&l, &p->proc[i], l.leads[i]);
    number_anew(p, l.main);
    return 0;
}
