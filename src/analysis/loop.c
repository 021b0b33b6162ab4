/*
 * loop.c - the main loop of the program: how long it waited for data, and how long it computed.
 * From phases that the program marked; else from the waits of the main thread for its workers or
 * its other threads; else from the main thread's own calls.
 */
#include <math.h>
#include <string.h>

#include "analysis/parts.h"

/* A phase with one of these words in its name is one in which the loop gets its data. */
static bool loads(const char *name)
{
    static const char *const word[] = {"load", "data", "fetch", "input", "read", "next", "wait"};
    for (size_t i = 0; i < sizeof word / sizeof *word; i++)
        if (strcasestr(name, word[i]))
            return true;
    return false;
}

/* Marks are ordered by process and time: a phase within one that counts does not count again. */
static double marked_s(const struct stk_profile *p, uint32_t proc)
{
    double sum = 0, until = -1;
    for (size_t i = 0; i < p->nmarks; i++) {
        const struct stk_prof_mark *m = &p->mark[i];
        if (m->proc != proc || m->kind != STK_MARK_PHASE || m->at_s < until || !loads(m->name))
            continue;
        sum += m->length_s;
        until = m->at_s + m->length_s;
    }
    return sum;
}

/* ---- whose loop ---- */

struct unit {
    int32_t main; /* the process; -1: none */
    uint32_t workers;
    double begin_s; /* of the loop, since the job's start: the first mark, worker or read; -1 */
};

static void earlier(double *begin, double at)
{
    *begin = *begin < 0 || at < *begin ? at : *begin;
}

static void find_mains(const struct stk_profile *p, const uint32_t *of, const int32_t *main,
                       struct unit *u, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        u[i] = (struct unit){.main = main[i], .begin_s = -1};
    for (uint32_t i = 0; i < p->nprocs; i++) {
        const struct stk_prof_proc *q = &p->proc[i];
        struct unit *to = &u[of[i]];
        if (!q->worker || q->parent < 0 || stk_profile_loop_of(p, i) != to->main)
            continue;
        to->workers = q->worker > to->workers ? q->worker : to->workers;
        earlier(&to->begin_s, q->start_s);
    }
}

/* ---- when it begins ---- */

/* The format that most bytes were read of. */
static const char *main_format(const struct stk_analysis *a)
{
    const struct stk_usage *most = NULL;
    for (size_t i = 0; i < a->nformats; i++)
        if (!most || a->format[i].n.c[STK_C_READ_BYTES] > most->n.c[STK_C_READ_BYTES])
            most = &a->format[i];
    return most ? most->name : "";
}

/* What a shell or another program of the unit has read before is no part of it. */
static void begin_at(const struct stk_profile *p, struct unit *u, double at_s)
{
    if (!u->workers && u->main >= 0 && at_s >= p->proc[u->main].start_s)
        earlier(&u->begin_s, at_s);
}

/* Without marks and workers: the first read of such files by a process of the unit. */
static void begin_by_reads(const struct stk_analysis *a, const uint32_t *of, struct unit *u)
{
    const struct stk_profile *p = a->p;
    const char *format = main_format(a);
    struct stk_stores stores;
    bool data = false;
    stk_stores_find(p, &stores);
    for (size_t i = 0; i < p->nrecs; i++) {
        const struct stk_prof_rec *r = &p->rec[i];
        if (r->proc >= p->nprocs || r->file >= p->nfiles || !stk_api_moves(r->api))
            continue;
        if (!i || r->file != p->rec[i - 1].file)
            data = strcmp(stk_analysis_format(p, &stores, p->file[r->file].path), format) == 0;
        if (data && r->n.c[STK_C_READS])
            begin_at(p, &u[of[r->proc]],
                     p->proc[r->proc].start_s + stk_ns(r->n.c[STK_C_FIRST_READ_NS]));
    }
}

static void begin_by_marks(const struct stk_profile *p, const uint32_t *of, struct unit *u)
{
    for (size_t i = 0; i < p->nmarks; i++) {
        const struct stk_prof_mark *m = &p->mark[i];
        if (m->proc < p->nprocs && m->kind != STK_MARK_PHASE &&
            u[of[m->proc]].main == (int32_t)m->proc)
            u[of[m->proc]].begin_s = fmin(u[of[m->proc]].begin_s, m->at_s);
    }
}

/* ---- what is known of one ---- */

static bool other_threads_read(const struct stk_prof_proc *q)
{
    return q->threads > (q->main_io_s > 0 ? 1 : 0);
}

/* Of recorded files, by other programs of the same rank in its lifetime. */
static uint64_t others_read(const struct stk_profile *p, const struct stk_prof_proc *q)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < p->nprocs; i++) {
        const struct stk_prof_proc *o = &p->proc[i];
        bool beside = o->world == q->world && (!o->world || o->rank == q->rank);
        if (o != q && beside && o->start_s < q->end_s && q->start_s < o->end_s)
            bytes += o->read_bytes;
    }
    return bytes;
}

/* Others read, and it gets more through pipes and sockets than it reads itself ("zcat | train"). */
static bool others_send(const struct stk_profile *p, const struct stk_prof_proc *q)
{
    uint64_t files = q->read_bytes + q->left_out_read_bytes;
    uint64_t received = q->seen_read_bytes > files ? q->seen_read_bytes - files : 0;
    return received > q->read_bytes && others_read(p, q) > q->read_bytes;
}

static enum stk_loop_how how_of(const struct stk_profile *p, const struct stk_prof_proc *q,
                                const struct unit *u, double marked)
{
    return marked > 0              ? STK_LOOP_MARKS
           : u->workers            ? STK_LOOP_WORKERS
           : other_threads_read(q) ? STK_LOOP_THREADS
           : others_send(p, q)     ? STK_LOOP_PIPES
                                   : STK_LOOP_READS;
}

/* Why the wait of this process cannot be told; NULL: it can. */
static const char *hidden(const struct stk_analysis *a, const struct stk_prof_proc *q,
                          enum stk_loop_how how)
{
    const uint64_t *c = a->job.n.c;
    double unseen = (1 - a->coverage_read) * (double)a->kernel_read_bytes;
    if (how == STK_LOOP_MARKS || how == STK_LOOP_WORKERS || how == STK_LOOP_PIPES)
        return NULL;
    if (how == STK_LOOP_THREADS && q->wait_threads_s + q->wait_processes_s <= 0)
        return "its other threads read the data, and it waits for them in calls that are not seen";
    if (a->coverage_read >= 0 && a->coverage_read < 0.5 && unseen >= STK_COVERAGE_LEAST)
        return "most bytes that the kernel counted were not seen";
    if (q->blind)
        return "it used io_uring, whose transfers are not calls";
    if (q->major_faults >= STK_MANY_FAULTS && c[STK_C_MMAP_BYTES] > c[STK_C_READ_BYTES])
        return "it read mapped files, and waits for pages are not calls";
    return NULL;
}

/* Names that are made, changed and removed, and files that are only written: to open and close them
 * is no wait for data. */
static bool only_written(const uint64_t *c)
{
    return !c[STK_C_READS] && !c[STK_C_MMAPS] &&
           (c[STK_C_WRITE_OPENS] || c[STK_C_WRITES] || c[STK_C_MAKES] || c[STK_C_REMOVES] ||
            c[STK_C_RENAMES] || c[STK_C_CHANGES]);
}

/* What the records of a process tell of its calls, in seconds of all threads. */
struct calls {
    double writing_s; /* on what is only written, without moving data */
    double unpack_s;  /* in a library's calls that read, beside its own reads */
};

/* Of every process. NULL: out of memory. Records are ordered by file, process and layer. */
static struct calls *sum_calls(struct stk_analysis *a)
{
    const struct stk_profile *p = a->p;
    struct calls *s = stk_arena_alloc(&a->arena, (p->nprocs + 1) * sizeof *s);
    double below_s = 0;
    for (size_t i = 0; s && i <= p->nprocs; i++)
        s[i] = (struct calls){0};
    for (size_t i = 0; s && i < p->nrecs; i++) {
        const struct stk_prof_rec *r = &p->rec[i];
        if (r->proc >= p->nprocs)
            continue;
        if (!i || r->file != r[-1].file || r->proc != r[-1].proc)
            below_s = 0;
        double read_s = stk_ns(r->n.c[STK_C_READ_NS]);
        if (stk_api_moves(r->api)) {
            below_s += read_s;
            s[r->proc].writing_s += only_written(r->n.c) ? stk_ns(r->n.c[STK_C_META_NS]) : 0;
        } else if (r->api == STK_API_HDF5) {
            s[r->proc].unpack_s += fmax(0, read_s - below_s);
        }
    }
    return s;
}

static void add_loop(struct stk_loop *to, const struct stk_prof_proc *q, enum stk_loop_how how,
                     double marked, double begin_s, const struct calls *calls)
{
    double life = fmax(0, q->end_s - q->start_s);
    double start = begin_s < 0 ? 0 : fmin(fmax(0, begin_s - q->start_s), life);
    double own = fmax(0, q->main_io_s - q->main_write_s);
    double part = q->io_sum_s > 0 ? fmin(1, q->main_io_s / q->io_sum_s) : 0; /* its thread's */
    double writing_s = fmin(own, calls->writing_s * part);
    own += calls->unpack_s * part - writing_s;
    double wait = how == STK_LOOP_MARKS
                      ? marked
                      : own + q->wait_processes_s +
                            (how >= STK_LOOP_THREADS ? q->wait_threads_s : 0);
    wait = fmin(wait, life - start);
    double write = fmin(q->main_write_s + writing_s, life - start - wait);
    to->run_s += life;
    to->wait_s += wait;
    to->write_s += write;
    to->start_s += start;
    to->library_s += fmin(stk_ns(q->left_out_ns), life);
    to->compute_s += life - wait - write - start;
    to->loops++;
}

static void mean(struct stk_loop *l)
{
    double *sum[] = {&l->run_s, &l->wait_s, &l->write_s, &l->start_s, &l->compute_s, &l->library_s};
    for (size_t i = 0; i < sizeof sum / sizeof *sum; i++)
        *sum[i] /= l->loops ? l->loops : 1;
}

static void add_unit(struct stk_analysis *a, const struct unit *u, const struct calls *calls)
{
    struct stk_loop *l = &a->loop;
    const struct stk_prof_proc *q = &a->p->proc[u->main];
    double marked = marked_s(a->p, (uint32_t)u->main);
    enum stk_loop_how how = how_of(a->p, q, u, marked);
    const char *why = hidden(a, q, how);
    l->why = l->why ? l->why : why;
    l->how = !l->loops || how < l->how ? how : l->how; /* the weakest of all */
    l->workers += u->workers;
    add_loop(l, q, how, marked, u->begin_s, &calls[u->main]);
}

/* A program that the main one starts and waits for may spend the time as well. */
static void add_library(struct stk_analysis *a)
{
    for (size_t i = 0; i < a->p->nprocs; i++) {
        const struct stk_prof_proc *q = &a->p->proc[i];
        a->loop.library_s =
            fmax(a->loop.library_s, fmin(stk_ns(q->left_out_ns), fmax(0, q->end_s - q->start_s)));
    }
}

/* Without ranks: the program that did most. With ranks: all of them. */
static void add_units(struct stk_analysis *a, const struct unit *u, uint32_t n,
                      const double *weight, const struct calls *calls)
{
    const struct unit *most = NULL;
    for (uint32_t i = 0; i < n; i++) {
        if (u[i].main < 0)
            continue;
        bool ranked = a->p->proc[u[i].main].world > 0;
        if (ranked)
            add_unit(a, &u[i], calls);
        else if (!most || weight[u[i].main] > weight[most->main])
            most = &u[i];
    }
    if (!a->loop.loops && most)
        add_unit(a, most, calls);
}

int stk_analysis_loop(struct stk_analysis *a, struct stk_err *err)
{
    const struct stk_profile *p = a->p;
    size_t room = p->nprocs + 1;
    struct unit *u = stk_arena_alloc(&a->arena, room * sizeof *u);
    uint32_t *of = stk_arena_alloc(&a->arena, room * sizeof *of);
    int32_t *main = stk_arena_alloc(&a->arena, room * sizeof *main);
    double *weight = stk_arena_alloc(&a->arena, room * sizeof *weight);
    struct calls *calls = sum_calls(a);
    if (!u || !of || !main || !weight || !calls)
        return stk_err_nomem(err, room * sizeof *u);
    uint32_t n = stk_analysis_units(p, of);
    stk_profile_mains(p, of, n, weight, main);
    find_mains(p, of, main, u, n);
    begin_by_reads(a, of, u);
    begin_by_marks(p, of, u);
    add_units(a, u, n, weight, calls);
    mean(&a->loop);
    add_library(a);
    if (!(p->source->knows & STK_KNOWS_WAITS))
        a->loop.why = "logs of other profilers do not have it";
    else if (!a->loop.loops)
        a->loop.why = p->unread_logs ? "no log can be read" : "no process left a log";
    if (a->loop.why) {
        a->loop.how = STK_LOOP_UNKNOWN;
        a->loop.wait_s = a->loop.compute_s = -1;
    }
    return 0;
}
