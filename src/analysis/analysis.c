/*
 * analysis.c - one pass over the records of a profile: sums and ratios per file, directory, format
 * and for the job. Ranks and shares are in analysis/rank.c, the time axis in analysis/time.c.
 */
#include "analysis/analysis.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/parts.h"

/* A usage under construction: counts each reader once. */
struct group {
    struct stk_usage u;
    uint64_t *ranks, *procs; /* bit sets */
    double fs_s;             /* time of the file that provided u.fs */
};

struct pass {
    struct stk_analysis *a;
    const struct stk_profile *p;
    uint32_t *unit, nunits;
    uint32_t *dir_of;
    struct stk_stores stores;
    struct group *dir, *format;
    size_t ndirs, nformats, formats_room;
    struct group job;
    struct group one; /* the current file */
};

static uint64_t saturating(uint64_t a, uint64_t b)
{
    uint64_t r;
    return __builtin_add_overflow(a, b, &r) ? UINT64_MAX : r;
}

static size_t words(size_t bits)
{
    return bits / 64 + 1;
}

static struct stk_usage empty_usage(void)
{
    struct stk_usage u = {.name = "",
                          .format = "",
                          .use = stk_use_of(""),
                          .fs = "",
                          .dir = "",
                          .exact = true,
                          .files_exact = true};
    stk_counts_init(&u.n);
    return u;
}

static int group_init(struct group *g, const struct pass *s, struct stk_arena *arena,
                      struct stk_err *err)
{
    size_t nr = words(s->nunits) * 8, np = words(s->p->nprocs) * 8;
    *g = (struct group){.u = empty_usage()};
    g->ranks = stk_arena_alloc(arena, nr);
    g->procs = stk_arena_alloc(arena, np);
    if (!g->ranks || !g->procs)
        return stk_err_nomem(err, nr + np);
    memset(g->ranks, 0, nr);
    memset(g->procs, 0, np);
    return 0;
}

static void group_clear(struct group *g, const struct pass *s)
{
    g->u = empty_usage();
    memset(g->ranks, 0, words(s->nunits) * 8);
    memset(g->procs, 0, words(s->p->nprocs) * 8);
}

static uint32_t bits_set(const uint64_t *set, size_t bits)
{
    uint32_t n = 0;
    for (size_t i = 0; i < words(bits); i++)
        n += (uint32_t)__builtin_popcountll(set[i]);
    return n;
}

static void bits_add(uint64_t *to, const uint64_t *from, size_t bits)
{
    for (size_t i = 0; i < words(bits); i++)
        to[i] |= from[i];
}

static void group_add(struct group *to, const struct group *from, const struct pass *s)
{
    struct stk_usage *u = &to->u;
    const struct stk_usage *f = &from->u;
    stk_counts_add(&u->n, &f->n);
    u->files = saturating(u->files, f->files);
    u->files_read = saturating(u->files_read, f->files_read);
    u->files_written = saturating(u->files_written, f->files_written);
    u->files_read_once = saturating(u->files_read_once, f->files_read_once);
    u->size_bytes = saturating(u->size_bytes, f->size_bytes);
    u->distinct_bytes = saturating(u->distinct_bytes, f->distinct_bytes);
    u->rank_distinct_bytes = saturating(u->rank_distinct_bytes, f->rank_distinct_bytes);
    u->exact = u->exact && f->exact;
    u->files_exact = u->files_exact && f->files_exact;
    u->small_time += f->small_time; /* in seconds, until finish_usage() */
    if (*f->fs && (!*u->fs || from->fs_s > to->fs_s)) {
        u->fs = f->fs;
        to->fs_s = from->fs_s;
    }
    bits_add(to->ranks, from->ranks, s->nunits);
    bits_add(to->procs, from->procs, s->p->nprocs);
}

/* Reads of exactly 1 MiB, the most common request, share a bin with smaller ones: the table of
 * common sizes gives their number, or a lower bound. */
static uint64_t unit_reads(const struct stk_counts *n)
{
    for (int i = 0; i < STK_COMMON; i++)
        if (n->size[i].value == 1 << 20)
            return n->size[i].count < n->read_size[4] ? n->size[i].count : n->read_size[4];
    return 0;
}

/* The cost of a request besides its bytes, in bytes: 0.5 ms of latency at 0.5 GB/s. */
#define REQUEST_BYTES 262144.0

/* Estimates the seconds of a record's read time in requests under 1 MiB: divides the time over the
 * size bins by number x (REQUEST_BYTES + the bin's middle). */
static double small_read_s(const struct stk_counts *n)
{
    double small = 0, all = 0;
    for (int b = 0; b < STK_SIZE_BINS; b++) {
        double low = b ? (double)stk_size_edge[b - 1] : 1;
        double high = b < STK_SIZE_BINS - 1 ? (double)stk_size_edge[b] : 2 * low;
        uint64_t units = b == 4 ? unit_reads(n) : 0;
        double weight = (double)(n->read_size[b] - units) * (REQUEST_BYTES + sqrt(low * high));
        all += weight + (double)units * (REQUEST_BYTES + 1048576);
        small += b <= 4 ? weight : 0;
    }
    return all > 0 ? stk_ns(n->c[STK_C_READ_NS]) * small / all : 0;
}

/* Sums the records [from, to) of one file. */
static void sum_file(struct pass *s, uint32_t file, size_t from, size_t to)
{
    const struct stk_prof_file *f = &s->p->file[file];
    struct stk_usage *u = &s->one.u;
    bool hdf5 = false;
    group_clear(&s->one, s);
    for (size_t i = from; i < to; i++) {
        const struct stk_prof_rec *r = &s->p->rec[i];
        hdf5 = hdf5 || r->api == STK_API_HDF5;
        if (!stk_api_moves(r->api) || r->proc >= s->p->nprocs)
            continue;
        stk_counts_add(&u->n, &r->n);
        u->small_time += small_read_s(&r->n);
        if (r->n.c[STK_C_READ_BYTES]) {
            s->one.procs[r->proc / 64] |= (uint64_t)!s->p->proc[r->proc].launch << (r->proc % 64);
            s->one.ranks[s->unit[r->proc] / 64] |= 1ull << (s->unit[r->proc] % 64);
        }
    }
    s->one.fs_s = stk_counts_io_s(&u->n);
    u->name = f->path;
    u->fs = f->fs ? f->fs : "";
    u->file = f;
    u->rec_from = from;
    u->rec_to = to;
    u->dir = s->dir[s->dir_of[file]].u.name;
    u->format = stk_analysis_format(s->p, &s->stores, f->path);
    if (hdf5 && !*u->format)
        u->format = "hdf5";
    u->use = stk_use_of(u->format);
    u->files = f->files ? f->files : 1;
    u->files_exact = !f->group;
    bool reads = u->n.c[STK_C_READ_BYTES] > 0;
    u->files_read = reads ? u->files : 0;
    u->files_written = u->n.c[STK_C_WRITE_BYTES] > 0 ? u->files : 0;
    u->size_bytes = reads ? f->size_bytes : 0;
    u->distinct_bytes = f->distinct_bytes;
    u->rank_distinct_bytes = f->rank_distinct_bytes;
    u->exact = f->distinct_exact;
    /* "Once": up to a tenth more is the error of the estimate, or headers read twice. */
    if (reads && (double)u->n.c[STK_C_READ_BYTES] <= 1.1 * (double)f->distinct_bytes)
        u->files_read_once = u->files;
}

static int add_to_format(struct pass *s, struct stk_arena *arena, struct stk_err *err)
{
    size_t i = 0;
    while (i < s->nformats && strcmp(s->format[i].u.name, s->one.u.format) != 0)
        i++;
    if (i == s->nformats) {
        if (i == s->formats_room) /* cannot happen: the table of names is finite */
            return 0;
        int rc = group_init(&s->format[i], s, arena, err);
        if (rc)
            return rc;
        s->format[i].u.name = s->format[i].u.format = s->one.u.format;
        s->format[i].u.use = s->one.u.use;
        s->nformats++;
    }
    group_add(&s->format[i], &s->one, s);
    return 0;
}

static void count_readers(struct group *g, const struct pass *s)
{
    uint32_t units = bits_set(g->ranks, s->nunits); /* without ranks: programs */
    g->u.ranks = units < s->p->nranks ? units : s->p->nranks;
    g->u.procs = bits_set(g->procs, s->p->nprocs);
}

static double ratio(double a, double b)
{
    return b > 0 ? a / b : 0;
}

/* The latency that `share` of the reads stay below; interpolates within a bin (log2). The longest
 * read is known exactly and limits its bin. */
static double latency_at(const struct stk_counts *n, double share)
{
    double all = 0, seen = 0, longest = stk_ns(n->c[STK_C_MAX_READ_NS]);
    for (int b = 0; b < STK_LATENCY_BINS; b++)
        all += n->read_latency[b];
    for (int b = 0; b < STK_LATENCY_BINS && all > 0; b++) {
        double here = n->read_latency[b];
        if (here > 0 && seen + here >= share * all) {
            double at = exp2(b + (share * all - seen) / here) * 1e-9;
            return longest > 0 ? fmin(at, longest) : at;
        }
        seen += here;
    }
    return 0;
}

/* Computes the ratios of a usage from its sums. */
static void finish_usage(struct stk_usage *u, double job_io_s)
{
    const uint64_t *c = u->n.c;
    double reads = (double)c[STK_C_READS], read_bytes = (double)c[STK_C_READ_BYTES];
    double later = reads - (double)c[STK_C_FIRST_READS];
    uint64_t small = 0;
    for (int b = 0; b <= 4; b++)
        small += u->n.read_size[b];
    small -= unit_reads(&u->n);
    u->read_s = stk_ns(c[STK_C_READ_NS]);
    u->write_s = stk_ns(c[STK_C_WRITE_NS]);
    u->meta_s = stk_ns(c[STK_C_META_NS]);
    u->io_s = u->read_s + u->write_s + u->meta_s;
    u->io_share = ratio(u->io_s, job_io_s);
    u->mean_read_bytes = ratio(read_bytes, reads);
    u->mean_write_bytes = ratio((double)c[STK_C_WRITE_BYTES], (double)c[STK_C_WRITES]);
    u->bandwidth_Bps = ratio(read_bytes, u->read_s);
    u->seq = fmin(1, ratio((double)c[STK_C_SEQ_READS], later));
    u->consec = fmin(1, ratio((double)c[STK_C_CONSEC_READS], later));
    u->random = fmax(0, ratio(later - (double)c[STK_C_SEQ_READS], reads));
    u->small = fmin(1, ratio((double)small, reads));
    u->small_time = fmin(1, ratio(u->small_time, u->read_s));
    u->reread = ratio(read_bytes, (double)u->distinct_bytes);
    u->rank_overlap = ratio((double)u->rank_distinct_bytes, (double)u->distinct_bytes);
    u->latency_p50_s = latency_at(&u->n, 0.5);
    u->latency_p99_s = latency_at(&u->n, 0.99);
}

static int by_time(const void *x, const void *y)
{
    const struct stk_usage *a = x, *b = y;
    if (a->io_s != b->io_s)
        return a->io_s < b->io_s ? 1 : -1;
    return strcmp(a->name, b->name);
}

static int take(struct pass *s, struct group *g, size_t n, struct stk_usage **to, size_t *count,
                struct stk_err *err)
{
    *to = stk_arena_alloc(&s->a->arena, (n + 1) * sizeof **to);
    if (!*to)
        return stk_err_nomem(err, (n + 1) * sizeof **to);
    *count = 0;
    for (size_t i = 0; i < n; i++) {
        if (!g[i].u.files)
            continue;
        count_readers(&g[i], s);
        finish_usage(&g[i].u, s->a->job.io_s);
        (*to)[(*count)++] = g[i].u;
    }
    qsort(*to, *count, sizeof **to, by_time);
    return 0;
}

static int descending(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;
    return a < b ? 1 : a > b ? -1 : 0;
}

static size_t file_end(const struct stk_profile *p, size_t i)
{
    size_t end = i;
    while (end < p->nrecs && p->rec[end].file == p->rec[i].file)
        end++;
    return end;
}

static double recs_io_s(const struct stk_profile *p, size_t from, size_t to)
{
    double io_s = 0;
    for (size_t i = from; i < to; i++)
        if (stk_api_moves(p->rec[i].api))
            io_s += stk_counts_io_s(&p->rec[i].n);
    return io_s;
}

/* The least I/O time with which a file is kept individually. */
static int least_time(const struct stk_profile *p, double *least, struct stk_err *err)
{
    *least = -1;
    if (p->nfiles <= ANALYSIS_FILES)
        return 0;
    double *t = calloc(p->nrecs + 1, sizeof *t);
    if (!t)
        return stk_err_nomem(err, p->nrecs * sizeof *t);
    size_t n = 0;
    for (size_t i = 0, end; i < p->nrecs; i = end) {
        end = file_end(p, i);
        t[n++] = recs_io_s(p, i, end);
    }
    qsort(t, n, sizeof *t, descending);
    if (n > ANALYSIS_FILES)
        *least = t[ANALYSIS_FILES - 1];
    free(t);
    return 0;
}

static int pass_files(struct pass *s, struct stk_arena *scratch, struct stk_err *err)
{
    struct stk_analysis *a = s->a;
    const struct stk_profile *p = s->p;
    size_t room = p->nfiles < ANALYSIS_FILES ? p->nfiles : ANALYSIS_FILES;
    double least;
    int rc = least_time(p, &least, err);
    a->file = stk_arena_alloc(&a->arena, (room + 1) * sizeof *a->file);
    if (!a->file)
        rc = stk_err_nomem(err, room * sizeof *a->file);
    for (size_t i = 0, end; rc == 0 && i < p->nrecs; i = end) {
        end = file_end(p, i);
        uint32_t file = p->rec[i].file;
        if (file >= p->nfiles)
            continue;
        sum_file(s, file, i, end);
        group_add(&s->job, &s->one, s);
        group_add(&s->dir[s->dir_of[file]], &s->one, s);
        rc = add_to_format(s, scratch, err);
        if (a->nfiles < room && recs_io_s(p, i, end) >= least) {
            count_readers(&s->one, s);
            a->file[a->nfiles++] = s->one.u;
        }
    }
    return rc;
}

static int pass_run(struct pass *s, struct stk_arena *scratch, struct stk_err *err)
{
    struct stk_analysis *a = s->a;
    int rc = pass_files(s, scratch, err);
    if (rc)
        return rc;
    count_readers(&s->job, s);
    finish_usage(&s->job.u, 0);
    a->job = s->job.u;
    a->job.io_share = a->job.io_s > 0 ? 1 : 0;
    for (size_t i = 0; i < a->nfiles; i++)
        finish_usage(&a->file[i], a->job.io_s);
    qsort(a->file, a->nfiles, sizeof *a->file, by_time);
    rc = take(s, s->dir, s->ndirs, &a->dir, &a->ndirs, err);
    return rc ? rc : take(s, s->format, s->nformats, &a->format, &a->nformats, err);
}

#define FORMATS_ROOM 64

static int pass_init(struct pass *s, struct stk_arena *scratch, struct stk_err *err)
{
    const struct stk_profile *p = s->p;
    struct stk_dir_name *names;
    s->unit = stk_arena_alloc(scratch, (p->nprocs + 1) * sizeof *s->unit);
    s->dir_of = stk_arena_alloc(scratch, (p->nfiles + 1) * sizeof *s->dir_of);
    if (!s->unit || !s->dir_of)
        return stk_err_nomem(err, (p->nprocs + p->nfiles) * sizeof *s->unit);
    s->nunits = stk_analysis_units(p, s->unit);
    stk_stores_find(p, &s->stores);
    int rc = stk_analysis_dirs(p, &s->stores, s->dir_of, &names, &s->ndirs, &s->a->arena, err);
    if (rc)
        return rc;
    s->formats_room = FORMATS_ROOM;
    s->dir = stk_arena_alloc(scratch, (s->ndirs + 1) * sizeof *s->dir);
    s->format = stk_arena_alloc(scratch, FORMATS_ROOM * sizeof *s->format);
    if (!s->dir || !s->format)
        return stk_err_nomem(err, (s->ndirs + FORMATS_ROOM) * sizeof *s->dir);
    for (size_t i = 0; rc == 0 && i < s->ndirs; i++) {
        rc = group_init(&s->dir[i], s, scratch, err);
        s->dir[i].u.name = names[i].path;
        s->dir[i].u.format = names[i].format;
        s->dir[i].u.use = stk_use_of(names[i].format);
    }
    if (rc == 0)
        rc = group_init(&s->job, s, scratch, err);
    return rc ? rc : group_init(&s->one, s, scratch, err);
}

/* libc itself reads some KiB per process (locales, name services) unobserved: a share of so few
 * bytes says nothing about the program. It makes no such writes. */

/* The launchers counted all processes, including those without a log; each process read some KiB at
 * its start that its own count lacks. */
static uint64_t with_unseen(uint64_t counted, uint64_t launchers, uint64_t procs)
{
    uint64_t starts = (procs + 1) * STK_COVERAGE_LEAST;
    return launchers > starts && launchers - starts > counted ? launchers : counted;
}

static void sum_machines(struct stk_analysis *a)
{
    const struct stk_profile *p = a->p;
    uint64_t seen_r = 0, seen_w = 0, kernel_r = 0, kernel_w = 0, procs = 0;
    a->blind_name = "";
    for (size_t i = 0; i < p->nhosts; i++) {
        const struct stk_prof_host *h = &p->host[i];
        a->cores += h->cores;
        a->memory_bytes = saturating(a->memory_bytes, h->memory_bytes);
        if (h->local_dir && *h->local_dir &&
            (!a->local_free_bytes || h->local_free_bytes < a->local_free_bytes))
            a->local_free_bytes = h->local_free_bytes;
    }
    for (size_t i = 0; i < p->nprocs; i++) {
        const struct stk_prof_proc *q = &p->proc[i];
        if (q->blind && !a->blind++)
            a->blind_name = q->command;
        if (!q->kernel_read_bytes && !q->kernel_write_bytes)
            continue;
        procs++;
        kernel_r = saturating(kernel_r, q->kernel_read_bytes);
        kernel_w = saturating(kernel_w, q->kernel_write_bytes);
        seen_r = saturating(seen_r, q->seen_read_bytes);
        seen_w = saturating(seen_w, q->seen_write_bytes);
    }
    /* The kernel's count of a killed process is older than ours. */
    kernel_r = with_unseen(kernel_r > seen_r ? kernel_r : seen_r, p->kernel_read_bytes, procs);
    kernel_w = with_unseen(kernel_w > seen_w ? kernel_w : seen_w, p->kernel_write_bytes, procs);
    a->kernel_read_bytes = kernel_r;
    a->coverage_little = kernel_r < procs * STK_COVERAGE_LEAST && seen_r < kernel_r;
    a->coverage_read = kernel_r && !a->coverage_little ? (double)seen_r / (double)kernel_r : -1;
    a->coverage_write = kernel_w ? (double)seen_w / (double)kernel_w : -1;
}

int stk_analyze(const struct stk_profile *p, struct stk_analysis *a, struct stk_err *err)
{
    struct stk_arena scratch = STK_ARENA_INIT;
    struct pass s = {.a = a, .p = p};
    *a = (struct stk_analysis){.p = p};
    int rc = pass_init(&s, &scratch, err);
    if (rc == 0)
        rc = pass_run(&s, &scratch, err);
    stk_arena_release(&scratch);
    sum_machines(a);
    if (rc == 0)
        rc = stk_analysis_ranks(a, err);
    if (rc == 0)
        rc = stk_analysis_shares(a, err);
    if (rc == 0)
        rc = stk_analysis_epochs(a, err);
    if (rc == 0)
        rc = stk_analysis_steps(a, err);
    if (rc == 0)
        rc = stk_analysis_phases(a, err);
    if (rc == 0)
        rc = stk_analysis_loop(a, err);
    if (rc)
        stk_analysis_release(a);
    return rc;
}

void stk_analysis_release(struct stk_analysis *a)
{
    stk_arena_release(&a->arena);
    *a = (struct stk_analysis){0};
}
