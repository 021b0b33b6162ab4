/*
 * workers.c - what it takes to start worker processes: the main loop starts one after another, each
 * has to begin, and many programs start them anew in each epoch (PyTorch's DataLoader, unless they
 * persist).
 */
#include <math.h>
#include <stdlib.h>

#include "base/stats.h"
#include "replay/priv.h"

#define APART_S 1.0 /* workers of one start are not further apart */

/* A worker process, and when it first read. */
struct worker {
    int32_t parent;
    double start_s, end_s, read_s;
};

static int by_start(const void *a, const void *b)
{
    const struct worker *x = a, *y = b;
    if (x->parent != y->parent)
        return x->parent < y->parent ? -1 : 1;
    return x->start_s < y->start_s ? -1 : x->start_s > y->start_s;
}

static void find_first_reads(const struct stk_profile *p, double *first)
{
    for (size_t i = 0; i < p->nprocs; i++)
        first[i] = INFINITY;
    for (size_t i = 0; i < p->nrecs; i++) {
        const struct stk_prof_rec *r = &p->rec[i];
        if (r->proc < p->nprocs && stk_api_moves(r->api) && r->n.c[STK_C_READS])
            first[r->proc] = fmin(first[r->proc], 1e-9 * (double)r->n.c[STK_C_FIRST_READ_NS]);
    }
}

/* The workers by parent and time. Returns their number. */
static size_t list_workers(const struct stk_profile *p, const double *first, struct worker *out)
{
    size_t n = 0;
    for (size_t i = 0; i < p->nprocs; i++) {
        const struct stk_prof_proc *q = &p->proc[i];
        if (q->worker)
            out[n++] = (struct worker){q->parent, q->start_s, q->end_s, first[i]};
    }
    qsort(out, n, sizeof *out, by_start);
    return n;
}

/* Times of which the median counts. */
struct times {
    double *v;
    size_t n;
};

static double median_of(const struct times *t, double otherwise)
{
    return t->n ? stk_median(t->v, t->n) : otherwise;
}

/* One start of workers: those of a parent that live together. */
struct start {
    size_t n;
    double end_s; /* of the last of them */
};

static void look_at(const struct worker *w, size_t i, struct start *s, struct times *between,
                    struct times *ending, uint64_t *again)
{
    bool first = !i || w[i].parent != w[i - 1].parent;
    bool anew = first || w[i].start_s >= s->end_s;
    if (!anew && w[i].start_s - w[i - 1].start_s < APART_S)
        between->v[between->n++] = w[i].start_s - w[i - 1].start_s;
    if (anew && !first) {
        ending->v[ending->n++] = (w[i].start_s - s->end_s) / (double)s->n;
        ++*again;
    }
    *s = (struct start){anew ? 1 : s->n + 1, anew ? w[i].end_s : fmax(s->end_s, w[i].end_s)};
}

/* A worker begins to read once it has begun itself and all others are started: the least time of
 * any is its own. */
static double least_begin(const struct worker *w, size_t n)
{
    double least = INFINITY;
    for (size_t i = 0; i < n; i++)
        least = fmin(least, w[i].read_s);
    return isfinite(least) ? least : 0;
}

static void settle(struct rp_model *m, const struct worker *w, size_t n, struct times *between,
                   struct times *ending)
{
    struct start s = {0};
    uint64_t again = 0;
    for (size_t i = 0; i < n; i++)
        look_at(w, i, &s, between, ending, &again);
    m->begin_s = least_begin(w, n);
    /* Of one worker alone: it takes about as long to make as it takes itself to begin. */
    double start_s = median_of(between, m->begin_s);
    /* Between two epochs the program may do other things: that is no part of ending a worker. */
    double end_s = fmin(median_of(ending, 0), start_s);
    m->start_s = start_s + end_s;
    m->starts = n;
    m->rounds = again ? again / m->ranks + 1 : 0;
    m->passes = again ? STK_EPOCHS_RESTART : STK_EPOCHS_ASKED;
}

int stk_rp_workers(struct rp_model *m, struct stk_err *err)
{
    const struct stk_profile *p = m->a->p;
    size_t room = p->nprocs + 1;
    struct worker *w = stk_arena_alloc(&m->arena, room * sizeof *w);
    double *v = stk_arena_alloc(&m->arena, 3 * room * sizeof *v);
    if (!w || !v)
        return stk_err_nomem(err, room * sizeof *w);
    struct times between = {v, 0}, ending = {v + room, 0};
    find_first_reads(p, v + 2 * room);
    size_t n = list_workers(p, v + 2 * room, w);
    if (n)
        settle(m, w, n, &between, &ending);
    return 0;
}
