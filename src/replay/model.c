/*
 * model.c - from groups of files to samples, steps and times: the sizes of requests (the most
 * frequent ones exactly, the others by the middle of their bin, so that they make up the bytes),
 * and what it takes to start worker processes: the main loop starts one after another, each has to
 * begin, and many programs start them anew in each epoch (PyTorch's DataLoader, unless they
 * persist).
 */
#include "replay/priv.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/stats.h"
#include "base/text.h"
#include "model/fit.h"

static double low(size_t bin)
{
    return bin ? (double)stk_size_edge[bin - 1] + 1 : 1;
}

static double high(size_t bin)
{
    return bin < STK_SIZE_BINS - 1 ? (double)stk_size_edge[bin] : (double)STK_REQUEST_MAX;
}

static size_t bin_of(uint64_t bytes)
{
    size_t b = 0;
    while (b < STK_SIZE_BINS - 1 && bytes > stk_size_edge[b])
        b++;
    return b;
}

static double middle(size_t bin, double scale)
{
    return fmin(fmax(sqrt(low(bin) * high(bin)) * scale, low(bin)), high(bin));
}

static int by_bytes(const void *x, const void *y)
{
    const struct stk_bench_sizes *a = x, *b = y;
    return a->bytes < b->bytes ? -1 : a->bytes > b->bytes;
}

static size_t merge(struct stk_bench_sizes *s, size_t n)
{
    size_t to = 0;
    qsort(s, n, sizeof *s, by_bytes);
    for (size_t i = 1; i < n; i++) {
        if (s[i].bytes == s[to].bytes)
            s[to].count += s[i].count;
        else
            s[++to] = s[i];
    }
    return n ? to + 1 : 0;
}

static double sum_of(const uint64_t left[STK_SIZE_BINS], double scale)
{
    double sum = 0;
    for (size_t b = 0; b < STK_SIZE_BINS; b++)
        sum += middle(b, scale) * (double)left[b];
    return sum;
}

/* The scale of the middles at which the requests that are left make up the rest of the bytes. They
 * do at some: the bins are those of these bytes. */
static double fit(const uint64_t left[STK_SIZE_BINS], double rest)
{
    double least = 1e-6, most = 1e6;
    for (int i = 0; i < 60; i++) {
        double scale = sqrt(least * most);
        if (sum_of(left, scale) < rest)
            least = scale;
        else
            most = scale;
    }
    return least;
}

size_t stk_rp_sizes(const struct rp_group *g, struct stk_bench_sizes out[STK_GROUP_SIZES])
{
    uint64_t left[STK_SIZE_BINS];
    double rest = (double)g->n.c[STK_C_READ_BYTES];
    size_t n = 0;
    for (size_t b = 0; b < STK_SIZE_BINS; b++)
        left[b] = g->n.read_size[b];
    for (size_t i = 0; i < STK_COMMON; i++) {
        const struct stk_common_value *v = &g->n.size[i];
        uint64_t *of = &left[bin_of(v->value)], k = v->count < *of ? v->count : *of;
        if (!k || !v->value || v->value > STK_REQUEST_MAX)
            continue;
        out[n++] = (struct stk_bench_sizes){v->value, k};
        *of -= k;
        rest -= (double)v->value * (double)k;
    }
    double scale = fit(left, rest);
    for (size_t b = 0; b < STK_SIZE_BINS; b++)
        if (left[b])
            out[n++] = (struct stk_bench_sizes){(uint64_t)(middle(b, scale) + 0.5), left[b]};
    return merge(out, n);
}

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

static int rp_workers(struct rp_model *m, struct stk_err *err)
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

#define FEW_REQUESTS 16.0 /* per open file: more is a stream, or a file that stays open */
#define JUMPS        0.05 /* share of requests: more is random access */
#define PART_OF      0.5  /* of a file: visits that read less are for its samples, … */
#define VISITS_LEAST                                                                               \
    32.0           /* … if there are as many; fewer may be epochs, each with a part of it        \
                    */
#define RARELY 10u /* fewer calls than a tenth of the samples: before the first step */
#define AHEAD  2u  /* batches per worker, as PyTorch's DataLoader */

void stk_rp_say(const struct rp_model *m, const char *key, const char *fmt, ...)
{
    char text[1200];
    struct stk_replay_said *s = m->said;
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    size_t len = n < 0 ? 0 : (size_t)n < sizeof text ? (size_t)n : sizeof text - 1;
    for (size_t i = 0; i < len; i++)
        text[i] = (unsigned char)text[i] < ' ' ? '?' : text[i];
    const char *kept = stk_arena_dup(&s->arena, text, len);
    if (kept && STK_ARRAY_MORE(s->line, s->n, NULL) == 0)
        s->line[s->n++] = (struct stk_replay_line){.text = kept, .key = key};
}

static uint64_t at_least(uint64_t v, uint64_t least)
{
    return v > least ? v : least;
}

static uint64_t rounded(double v)
{
    return v > 0.5 ? (uint64_t)(v + 0.5) : 0;
}

/* ---- who reads ------------------------------------------------------------------------------ */

/* The process that reads most, without workers. */
static const struct stk_prof_proc *reader_of(const struct stk_profile *p)
{
    const struct stk_prof_proc *most = NULL;
    for (size_t i = 0; i < p->nprocs; i++)
        if (!most || p->proc[i].read_bytes > most->read_bytes)
            most = &p->proc[i];
    return most;
}

static void find_readers(struct rp_model *m)
{
    const struct stk_prof_proc *q = reader_of(m->a->p);
    m->ranks = at_least(m->a->p->nranks, 1);
    for (size_t i = 0; i < m->a->nranks; i++)
        m->workers = at_least(m->a->rank[i].workers, m->workers);
    m->threads = m->workers;
    if (!m->workers && q && !stk_reads_in_turn(m->a))
        m->threads = q->threads > 1 ? q->threads - 1 : 1;
}

/* ---- samples -------------------------------------------------------------------------------- */

static void find_style(struct rp_group *g)
{
    const uint64_t *c = g->n.c;
    double reads = (double)c[STK_C_READS], opens = (double)at_least(c[STK_C_OPENS], 1);
    double jumps = reads - (double)c[STK_C_FIRST_READS] - (double)c[STK_C_CONSEC_READS];
    bool visits = c[STK_C_OPENS] && reads / opens <= FEW_REQUESTS;
    g->style = visits ? RP_VISITS : jumps < JUMPS * reads ? RP_STREAM : RP_RANDOM;
}

static uint64_t samples_of(const struct rp_group *g)
{
    const uint64_t *c = g->n.c;
    return g->style == RP_VISITS   ? c[STK_C_OPENS]
           : g->style == RP_STREAM ? c[STK_C_READS]
                                   : at_least(c[STK_C_READS] - c[STK_C_CONSEC_READS], 1);
}

/* How often the bytes of the dataset were read, each rank's by itself. A library that reads more
 * than it is asked for, such as HDF5's buffer around a small row, reads bytes again within an
 * epoch: what the program asked it for counts, if that is less. */
static double times_read(const struct rp_model *m)
{
    const struct stk_profile *p = m->a->p;
    const struct rp_group *g = &m->group[0];
    double bytes = (double)g->n.c[STK_C_READ_BYTES], asked = 0;
    for (size_t i = 0; i < p->nrecs; i++) {
        const struct stk_prof_rec *r = &p->rec[i];
        const char *path = r->file < p->nfiles ? p->file[r->file].path : "";
        if (r->api == STK_API_HDF5 && stk_name_has_suffix(path, strlen(path), g->suffix))
            asked += (double)r->n.c[STK_C_READ_BYTES];
    }
    bytes = asked > 0 && asked < bytes ? asked : bytes;
    return g->rank_distinct_bytes ? bytes / (double)g->rank_distinct_bytes : 1;
}

/* Whether a file is opened for one of its many samples, such as a row of HDF5, and not for all. */
static bool visits_parts(const struct rp_group *g)
{
    double size = (double)g->size_bytes / (double)at_least(g->files, 1);
    double opens = (double)at_least(g->n.c[STK_C_OPENS], 1), files = (double)at_least(g->files, 1);
    double visit = (double)g->n.c[STK_C_READ_BYTES] / opens;
    return g->style == RP_VISITS && visit < PART_OF * size && opens >= VISITS_LEAST * files;
}

/* Samples of one rank and its passes over the files. */
static void find_samples(struct rp_model *m)
{
    const struct rp_group *g = &m->group[0];
    double overlap =
        g->distinct_bytes ? (double)g->rank_distinct_bytes / (double)g->distinct_bytes : 1;
    m->same = m->ranks > 1 && overlap > 0.75 * (double)m->ranks;
    m->samples = samples_of(g);
    double all = (double)m->samples / (m->same ? (double)m->ranks : 1);
    m->files = at_least(g->files, 1);
    m->epochs = at_least(m->a->nepochs, 1);
    if (g->style == RP_VISITS && !visits_parts(g)) {
        m->epochs = at_least(rounded(ceil(all / (double)m->files - 0.02)), 1);
        m->per_file = 1;
        m->files = all < (double)m->files ? at_least(rounded(all), 1) : m->files;
    } else {
        m->epochs = at_least(rounded(times_read(m)), m->epochs);
        if (m->rounds && m->epochs > m->rounds) /* bytes that are read again within an epoch */
            m->epochs = m->rounds;
        m->per_file = at_least(rounded(all / (double)m->files / (double)m->epochs), 1);
    }
}

static void find_batch(struct rp_model *m)
{
    const struct stk_steps *s = &m->a->steps;
    double rank = (double)(m->files * m->per_file) / (m->same ? 1 : (double)m->ranks);
    double all = (double)m->samples / (double)m->ranks;
    /* A thread reads whole batches: with few of them, some threads would have one more to read, and
     * an epoch would wait for its first one longer than the program does. */
    m->batch = rounded(stk_batch_of(m->a, all, rank, (double)m->threads));
    if (!s->marked || !s->count)
        stk_rp_say(m, "training.batch",
                   "training.batch: no step is marked (stoker.step()); %llu sample%s per step",
                   (unsigned long long)m->batch, m->batch == 1 ? "" : "s");
    if ((double)m->batch > rank)
        m->batch = at_least((uint64_t)rank, 1);
    double steps = ceil(rank / (double)m->batch), due = all / rank;
    if (due < (double)m->epochs * 0.99) /* the last pass over the files is not complete */
        m->most_steps = at_least(rounded(due * steps), 1);
}

/* The samples that a replay of these numbers has: its counters are divided among them. */
static void count_replayed(struct rp_model *m)
{
    uint64_t rank = m->files * m->per_file / (m->same ? 1 : m->ranks);
    uint64_t steps = (rank + m->batch - 1) / m->batch, all = rank * m->epochs;
    if (m->most_steps) {
        uint64_t rest = m->most_steps % steps * m->batch;
        all = m->most_steps / steps * rank + (rest < rank ? rest : rank);
    }
    m->replayed = at_least(all * m->ranks, 1);
}

/* Of shuffled samples that are sorted, r at a time, the share that lies behind the one before:
 * within a run all do, between two runs one of (2r over r). */
static double forward_share(uint64_t r)
{
    double ways = 1;
    for (uint64_t i = 1; i <= r; i++)
        ways *= (double)(r + i) / (double)i;
    return ((double)(r - 1) + 1 / ways) / (double)r;
}

#define SORTED_LEAST 0.55 /* share of the jumps: chance gives a half */

/* How many samples are sorted, if more jumps lead forward than chance explains. Those of a run are
 * spread over the files. */
static void find_sorted(struct rp_model *m)
{
    const uint64_t *c = m->group[0].n.c;
    double near = (double)c[STK_C_CONSEC_READS], forward = (double)c[STK_C_SEQ_READS] - near;
    double jumps = (double)c[STK_C_READS] - (double)c[STK_C_FIRST_READS] - near;
    uint64_t r = 1;
    m->sorted = 1;
    if (m->group[0].style != RP_RANDOM || !(forward > SORTED_LEAST * jumps))
        return;
    while (r < STK_SORTED_MAX &&
           forward_share(r) + forward_share(r + 1) < 2 * forward / jumps) /* the nearest */
        r++;
    m->sorted = r * m->files < STK_SORTED_MAX ? r * m->files : STK_SORTED_MAX;
}

static void find_others(struct rp_model *m)
{
    for (size_t i = 1; i < m->ngroups; i++) {
        struct rp_group *g = &m->group[i];
        const uint64_t *c = g->n.c;
        find_style(g);
        if (c[STK_C_OPENS] * RARELY < m->samples && c[STK_C_READS] * RARELY < m->samples)
            g->style = RP_START;
    }
}

/* ---- times ---------------------------------------------------------------------------------- */

static double steps_of(const struct rp_model *m)
{
    double rank = (double)(m->files * m->per_file) / (m->same ? 1 : (double)m->ranks);
    return m->most_steps ? (double)m->most_steps
                         : ceil(rank / (double)m->batch) * (double)m->epochs;
}

static void find_times(struct rp_model *m)
{
    const struct stk_loop *l = &m->a->loop;
    bool known = l->how != STK_LOOP_UNKNOWN && l->compute_s >= 0;
    /* The loop starts workers. */
    double busy = fmax(0, stk_compute_of(m->a) - m->start_s * (double)m->starts / (double)m->ranks);
    double decode = stk_decode_of(m->a);
    double cpu = m->threads ? stk_readers_cpu_s(m->a, m->begin_s) : decode * (double)m->ranks;
    m->think_s = cpu / (double)m->replayed;
    double rest = m->threads ? busy : busy - decode;
    m->compute_s = fmax(0, rest) / fmax(1, steps_of(m));
    if (!(m->a->p->source->knows & STK_KNOWS_WAITS))
        stk_rp_say(m, NULL,
                   "reader.think, reader.threads, training.compute: %s has no CPU times, threads "
                   "and waits; the time outside I/O is computing",
                   m->a->p->source->title);
    else if (!known)
        stk_rp_say(m, NULL,
                   "training.compute: what the loop waited for is unknown%s%s; the time outside "
                   "I/O is computing",
                   l->why ? ", because " : "", l->why ? l->why : "");
    if (!m->threads && m->think_s > 0)
        stk_rp_say(m, NULL,
                   "reader.think: one thread reads, decodes and computes; its CPU time counts as "
                   "decoding, the rest as computing");
    if (m->threads)
        stk_rp_say(m, NULL, "reader.prefetch: %u batches per %s", AHEAD,
                   m->workers ? "worker, as PyTorch's DataLoader" : "thread");
}

/* ---- what the profile lacks ----------------------------------------------------------------- */

static void say_lacks(struct rp_model *m)
{
    const struct stk_profile *p = m->a->p;
    if (p->running)
        stk_rp_say(m, NULL, "the run had not ended: the workload has what it did until then");
    else if (p->exit_status > 0) {
        stk_rp_say(m, NULL,
                   "the run failed with status %d: the workload has what it did until then",
                   p->exit_status);
        if (m->said->n)
            m->said->line[m->said->n - 1].failed = true;
    }
    if (m->a->blind)
        stk_rp_say(m, NULL,
                   "%u processes (%s) may have read through io_uring or kernel aio, which no "
                   "profile sees: that is not replayed",
                   m->a->blind, m->a->blind_name);
    if (m->a->coverage_read >= 0 && m->a->coverage_read < 0.9)
        stk_rp_say(m, NULL, "the profile saw %.0f %% of the bytes that the kernel counted",
                   100 * m->a->coverage_read);
    if (p->unread_logs)
        stk_rp_say(m, NULL, "%llu logs could not be read: what those processes did is not replayed",
                   (unsigned long long)p->unread_logs);
}

int stk_rp_model(struct rp_model *m, struct stk_err *err)
{
    find_readers(m);
    say_lacks(m);
    int rc = rp_workers(m, err);
    rc = rc ? rc : stk_rp_groups(m, err);
    if (rc < 0)
        return rc;
    if (!m->ngroups)
        return stk_err_set(err, STK_E_UNSUPPORTED, m->a->p->path, -1,
                           "no read of a file is in this profile: there is nothing to replay%s%s",
                           m->said->n ? "; " : "", m->said->n ? m->said->line[0].text : "");
    find_style(&m->group[0]);
    find_samples(m);
    find_batch(m);
    count_replayed(m);
    find_sorted(m);
    find_others(m);
    find_times(m);
    if (m->group[0].style == RP_VISITS && m->files * m->per_file > 1)
        stk_rp_say(m, NULL,
                   "access.shuffle: a profile does not say in which order %s; a random one",
                   m->per_file > 1 ? "the samples of a file are read" : "files are opened");
    return 0;
}
