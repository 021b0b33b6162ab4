/*
 * time.c - when things happened: merges the time lines of threads, and places all processes
 * on one axis. Within a host by the monotonic clock (it never steps); between hosts by the wall
 * clock, which is as good as the nodes keep it.
 */
#include "profile/priv.h"

#include <math.h>
#include <stdlib.h>

#define CLOCK_LIMIT_NS                                                                             \
    (60ull * 1000000000) /* limit for the drift between the two clocks of a                        \
                            host */
#define YEAR_2000_NS 946684800000000000ull
#define YEAR_2200_NS 7258118400000000000ull
#define LONGEST_NS   (1ull << 57) /* four years */

static uint64_t add(uint64_t a, uint64_t b)
{
    uint64_t s;
    return __builtin_add_overflow(a, b, &s) ? UINT64_MAX : s;
}

static void add_bin(struct stk_log_bin *to, const struct stk_log_bin *b)
{
    to->read_bytes = add(to->read_bytes, b->read_bytes);
    to->write_bytes = add(to->write_bytes, b->write_bytes);
    to->read_ns = add(to->read_ns, b->read_ns);
    to->write_ns = add(to->write_ns, b->write_ns);
    to->meta_ns = add(to->meta_ns, b->meta_ns);
    to->reads = to->reads > UINT32_MAX - b->reads ? UINT32_MAX : to->reads + b->reads;
    to->meta_calls =
        to->meta_calls > UINT32_MAX - b->meta_calls ? UINT32_MAX : to->meta_calls + b->meta_calls;
}

static uint64_t busy_ns(const struct stk_log_bin *b)
{
    return add(add(b->read_ns, b->write_ns), b->meta_ns);
}

static bool used(const struct stk_log_bin *b)
{
    return b->reads || b->meta_calls || b->read_bytes || b->write_bytes || busy_ns(b);
}

/* Adds one thread to the process's bins of `width`; `idle` is, per bin, the share in which no
 * thread so far was in a call. Returns whether the thread did anything. */
static bool add_thread(struct stk_log_bin *sum, double *idle, uint64_t width,
                       const struct stk_log_thread *t)
{
    double busy[STK_LOG_BINS] = {0};
    bool any = false;
    for (size_t i = 0; i < STK_LOG_BINS; i++) {
        if (!used(&t->bin[i]))
            continue;
        size_t at = (size_t)((unsigned __int128)i * t->bin_ns / width);
        add_bin(&sum[at], &t->bin[i]);
        busy[at] += (double)busy_ns(&t->bin[i]) / (double)width;
        any = true;
    }
    for (size_t i = 0; i < STK_LOG_BINS; i++)
        idle[i] *= busy[i] < 1 ? 1 - busy[i] : 0;
    return any;
}

static int keep_line(struct stk_pb *pb, const struct stk_log_bin *sum, uint64_t width,
                     struct stk_err *err)
{
    struct stk_pb_proc *x = &pb->proc[pb->p->nprocs - 1];
    uint32_t first = 0, end = STK_LOG_BINS;
    while (end > 0 && !used(&sum[end - 1]))
        end--;
    while (first < end && !used(&sum[first]))
        first++;
    x->line_ns = width;
    x->line_first = first;
    x->line_bins = end - first;
    if (first == end)
        return 0;
    x->line = stk_arena_alloc(&pb->temp, (end - first) * sizeof *sum);
    if (!x->line)
        return stk_err_nomem(err, (end - first) * sizeof *sum);
    memcpy(x->line, sum + first, (end - first) * sizeof *sum);
    return 0;
}

static void add_main_thread(struct stk_prof_proc *p, const struct stk_log_thread *t)
{
    for (size_t i = 0; i < STK_LOG_BINS; i++) {
        p->main_io_s += (double)busy_ns(&t->bin[i]) / 1e9;
        p->main_write_s += (double)t->bin[i].write_ns / 1e9;
    }
}

/*
 * io_union_s, the time with at least one thread in a call: for one thread the sum of its bins. For
 * several, only each thread's share of a bin is known, not its position within; the union lies
 * between the largest and the sum (at most the whole bin), and is estimated as if positions were
 * random: 1 - (1 - f1)(1 - f2)…, which always lies between the two.
 */
int stk_pb_line(struct stk_pb *pb, const struct stk_log_thread *thread, size_t n,
                struct stk_err *err)
{
    struct stk_prof_proc *p = &pb->p->proc[pb->p->nprocs - 1];
    struct stk_log_bin sum[STK_LOG_BINS] = {0};
    double idle[STK_LOG_BINS];
    uint64_t width = 0;
    for (size_t i = 0; i < STK_LOG_BINS; i++)
        idle[i] = 1;
    for (size_t i = 0; i < n; i++)
        width = thread[i].bin_ns > width ? thread[i].bin_ns : width;
    for (size_t i = 0; i < n; i++) {
        p->threads += add_thread(sum, idle, width, &thread[i]);
        if (thread[i].tid == p->pid)
            add_main_thread(p, &thread[i]);
        for (size_t k = 0; k < STK_GAP_BINS; k++) {
            struct stk_prof_gap *g = &pb->p->gap[k];
            g->count = add(g->count, thread[i].gap_count[k]);
            g->ns = add(g->ns, thread[i].gap_ns[k]);
        }
    }
    if (!p->threads)
        return 0;
    for (size_t i = 0; i < STK_LOG_BINS; i++)
        p->io_union_s += (1 - idle[i]) * (double)width / 1e9;
    return keep_line(pb, sum, width, err);
}

/* ---- one axis ---- */

struct host_clock {
    bool known;
    uint64_t real, mono; /* of the same moment */
};

static bool sane(uint64_t real_ns)
{
    return real_ns > YEAR_2000_NS && real_ns < YEAR_2200_NS;
}

/* The wall-clock time at which something on that host began. */
static uint64_t on_axis(struct host_clock *c, uint64_t real, uint64_t mono)
{
    if (!c->known)
        *c = (struct host_clock){true, real, mono};
    uint64_t at = c->real + (mono - c->mono); /* modulo 2^64: mono may be smaller */
    uint64_t apart = at > real ? at - real : real - at;
    return apart < CLOCK_LIMIT_NS ? at : real; /* otherwise: another boot, or another host of that
                                                  name */
}

static double seconds_since(uint64_t start, uint64_t at)
{
    return at > start ? (double)(at - start) / 1e9 : 0;
}

static void place_marks(struct stk_pb *pb);

/* Only the launcher, which waited for it, saw a killed program end. */
static void end_killed(struct stk_pb *pb)
{
    struct stk_profile *p = pb->p;
    for (size_t i = 0; i < p->nprocs; i++) {
        struct stk_prof_proc *c = &p->proc[i];
        for (size_t k = 0; k < pb->nruns && pb->proc[i].end == STK_END_NONE; k++) {
            const struct stk_pb_run *r = &pb->run[k];
            if (r->host == c->host && r->pid == c->ppid && r->seconds >= 0 &&
                r->start_s + r->seconds > c->end_s && r->start_s <= c->start_s)
                c->end_s = r->start_s + r->seconds;
        }
    }
}

/* When everything began, by the wall clock; the job starts with the earliest. */
static uint64_t find_start(struct stk_pb *pb, struct host_clock *clock)
{
    struct stk_profile *p = pb->p;
    uint64_t start = UINT64_MAX;
    for (size_t i = 0; i < pb->nruns; i++) {
        struct stk_pb_run *r = &pb->run[i];
        if (!sane(r->start_real_ns))
            continue;
        r->start_real_ns = on_axis(&clock[r->host], r->start_real_ns, r->start_mono_ns);
        start = r->start_real_ns < start ? r->start_real_ns : start;
    }
    for (size_t i = 0; i < p->nprocs; i++) {
        struct stk_pb_proc *x = &pb->proc[i];
        if (!sane(x->start_real_ns))
            continue;
        x->start_real_ns = on_axis(&clock[p->proc[i].host], x->start_real_ns, x->start_mono_ns);
        start = x->start_real_ns < start ? x->start_real_ns : start;
    }
    return start == UINT64_MAX ? 0 : start;
}

static void place_processes(struct stk_pb *pb, uint64_t start)
{
    struct stk_profile *p = pb->p;
    for (size_t i = 0; i < pb->nruns; i++) {
        struct stk_pb_run *r = &pb->run[i];
        r->start_s = sane(r->start_real_ns) ? seconds_since(start, r->start_real_ns) : 0;
        if (r->seconds > 0 && r->start_s + r->seconds > p->run_s)
            p->run_s = r->start_s + r->seconds;
    }
    for (size_t i = 0; i < p->nprocs; i++) {
        const struct stk_pb_proc *x = &pb->proc[i];
        struct stk_prof_proc *proc = &p->proc[i];
        uint64_t length = x->end_ns ? x->end_ns : x->last_ns;
        length = length < LONGEST_NS ? length : 0;
        proc->start_s = sane(x->start_real_ns) ? seconds_since(start, x->start_real_ns) : 0;
        proc->end_s = proc->start_s + (double)length / 1e9;
        p->run_s = proc->end_s > p->run_s ? proc->end_s : p->run_s;
    }
}

int stk_pb_clocks(struct stk_pb *pb, struct stk_err *err)
{
    struct stk_profile *p = pb->p;
    size_t bytes = (p->nhosts + 1) * sizeof(struct host_clock);
    struct host_clock *clock = stk_arena_alloc(&pb->temp, bytes);
    if (!clock)
        return stk_err_nomem(err, bytes);
    memset(clock, 0, bytes);
    uint64_t start = find_start(pb, clock);
    p->start_real_s = (double)start / 1e9;
    place_processes(pb, start);
    for (size_t i = 0; i < p->nreadings; i++)
        p->reading[i].at_s += pb->run[p->reading[i].launcher].start_s;
    end_killed(pb);
    place_marks(pb);
    return 0;
}

static int by_proc_and_time(const void *a, const void *b)
{
    const struct stk_prof_mark *x = a, *y = b;
    if (x->proc != y->proc)
        return x->proc < y->proc ? -1 : 1;
    if (x->at_s != y->at_s)
        return x->at_s < y->at_s ? -1 : 1;
    return (x->depth > y->depth) - (x->depth < y->depth);
}

/* Places marks on the axis; a step or an epoch lasts until the process's next one, or its end. */
static void place_marks(struct stk_pb *pb)
{
    struct stk_profile *p = pb->p;
    for (size_t i = 0; i < p->nmarks; i++)
        p->mark[i].at_s += p->proc[p->mark[i].proc].start_s;
    if (p->nmarks)
        qsort(p->mark, p->nmarks, sizeof *p->mark, by_proc_and_time);
    double next[STK_MARK_EPOCH + 1] = {0};
    for (size_t i = p->nmarks; i-- > 0;) {
        struct stk_prof_mark *m = &p->mark[i];
        if (i + 1 == p->nmarks || p->mark[i + 1].proc != m->proc)
            for (size_t k = 0; k <= STK_MARK_EPOCH; k++)
                next[k] = p->proc[m->proc].end_s;
        if (m->kind == STK_MARK_PHASE && m->length_s > 0)
            continue;
        double until = m->kind == STK_MARK_PHASE ? p->proc[m->proc].end_s : next[m->kind];
        m->length_s = until > m->at_s ? until - m->at_s : 0;
        next[m->kind] = m->at_s;
    }
}

/* ---- the job's time line ---- */

/* Spreads v evenly over [from, to) seconds, as integers that add up to v. */
static void spread(struct stk_profile *p, size_t field, uint64_t v, double from, double to)
{
    size_t first = (size_t)(from / p->bin_s);
    first = first < STK_PROF_BINS ? first : STK_PROF_BINS - 1;
    uint64_t done = 0;
    for (size_t i = first; v && i < STK_PROF_BINS && done < v; i++) {
        double edge = (double)(i + 1) * p->bin_s;
        uint64_t upto = v;
        if (edge < to && i + 1 < STK_PROF_BINS)
            upto = (uint64_t)((double)v * ((edge - from) / (to - from)));
        upto = upto < done ? done : upto > v ? v : upto;
        uint64_t *n = (uint64_t *)&p->bin[i] + field;
        *n = add(*n, upto - done);
        done = upto;
    }
}

#define FIELD(name) (offsetof(struct stk_prof_bin, name) / sizeof(uint64_t))

static void spread_bin(struct stk_profile *p, const struct stk_log_bin *b, double from, double to)
{
    spread(p, FIELD(read_bytes), b->read_bytes, from, to);
    spread(p, FIELD(write_bytes), b->write_bytes, from, to);
    spread(p, FIELD(reads), b->reads, from, to);
    spread(p, FIELD(meta_calls), b->meta_calls, from, to);
    spread(p, FIELD(read_ns), b->read_ns, from, to);
    spread(p, FIELD(write_ns), b->write_ns, from, to);
    spread(p, FIELD(meta_ns), b->meta_ns, from, to);
}

/* Spreads seconds in I/O over the parts of the run that [from, to) covers; beyond its end, the last
 * part takes them. */
static void spread_unit(float *busy, double part_s, double seconds, double from, double to)
{
    size_t i = (size_t)fmin(from / part_s, STK_PROF_UNIT_BINS - 1);
    for (double at = from; at < to && i < STK_PROF_UNIT_BINS; i++) {
        double edge = i + 1 < STK_PROF_UNIT_BINS ? fmin(to, (double)(i + 1) * part_s) : to;
        if (edge <= at) /* rounded */
            continue;
        busy[i] += (float)(seconds * (edge - at) / (to - from) / part_s);
        at = edge;
    }
}

static int make_units(struct stk_profile *p, struct stk_err *err)
{
    size_t bytes = (size_t)p->nunits * STK_PROF_UNIT_BINS * sizeof *p->unit_busy;
    if (!bytes)
        return 0;
    p->unit_busy = stk_arena_alloc(&p->arena, bytes);
    if (!p->unit_busy)
        return stk_err_nomem(err, bytes);
    memset(p->unit_busy, 0, bytes);
    return 0;
}

/* Adds a bin of a process's time line, at [from, to), to the job and to its unit. */
static void add_part(struct stk_profile *p, const struct stk_prof_proc *proc,
                     const struct stk_log_bin *b, double from, double to)
{
    double part_s = p->bin_s * STK_PROF_BINS / STK_PROF_UNIT_BINS;
    spread_bin(p, b, from, to);
    if (p->unit_busy && proc->unit < p->nunits)
        spread_unit(p->unit_busy + (size_t)proc->unit * STK_PROF_UNIT_BINS, part_s,
                    1e-9 * (double)busy_ns(b), from, to);
}

int stk_pb_bins(struct stk_pb *pb, struct stk_err *err)
{
    struct stk_profile *p = pb->p;
    p->bin_s = p->run_s > 0 ? p->run_s / STK_PROF_BINS : 1e-6;
    int rc = make_units(p, err);
    for (size_t i = 0; i < p->nprocs && !rc; i++) {
        const struct stk_pb_proc *x = &pb->proc[i];
        double width = (double)x->line_ns / 1e9;
        for (uint32_t k = 0; k < x->line_bins; k++) {
            double from = p->proc[i].start_s + (x->line_first + k) * width, to = from + width;
            /* The last bin extends past the end of the process. */
            if (p->proc[i].end_s > from && p->proc[i].end_s < to)
                to = p->proc[i].end_s;
            add_part(p, &p->proc[i], &x->line[k], from, to);
        }
    }
    return rc;
}
