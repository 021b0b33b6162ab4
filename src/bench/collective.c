/*
 * collective.c - some ranks read together, and each broadcasts what it read to the others of its
 * group. The requests of a step follow from the workload alone; each is one call that all readers
 * make, MPI-IO's MPI_File_read_at_all() if there is MPI, else each reader reads its own.
 */
#include "bench/feed.h"
#include "bench/reader.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/own.h"

struct stk_together;

#define WHOLE_MAX (64ull << 20) /* of a request without access.transfer */

/* Bytes from off on, in requests of the transfer size; those of a stream that follow each other
 * become one. */
static int add(struct stk_requests *q, const struct stk_workload *w, struct stk_request r,
               struct stk_err *err)
{
    const struct stk_bench_kind *kind = stk_bench_kind_of(w->dataset.format);
    bool rows = kind->stored && !kind->frame; /* one request each, as libhdf5 makes them */
    uint64_t most = w->access.transfer_bytes && !rows ? w->access.transfer_bytes : WHOLE_MAX;
    struct stk_request *last = q->n ? &q->item[q->n - 1] : NULL;
    if (kind->frame && w->access.transfer_bytes && last && last->file == r.file &&
        last->off + last->bytes == r.off) {
        uint64_t room = most - last->bytes, k = r.bytes < room ? r.bytes : room;
        last->bytes += k;
        r.off += k;
        r.bytes -= k;
    }
    while (r.bytes) {
        uint64_t k = r.bytes < most ? r.bytes : most;
        int rc = STK_ARRAY_ROOM(q->item, q->room, q->n + 1, err);
        if (rc < 0)
            return rc;
        q->item[q->n++] = (struct stk_request){r.file, r.off, k};
        r.off += k;
        r.bytes -= k;
    }
    return 0;
}

/* Where a sample of a stream begins: the sum of those before it. */
static uint64_t stream_offset(struct stk_requests *q, const struct stk_workload *w,
                              const struct stk_bench_kind *kind, struct stk_bench_place at)
{
    if (w->dataset.record.kind == STK_DIST_CONSTANT)
        return at.index * kind->stored(w, at);
    if (q->file != at.file || q->index > at.index) {
        q->file = at.file;
        q->index = q->off = 0;
    }
    for (; q->index < at.index; q->index++)
        q->off += kind->stored(w, (struct stk_bench_place){at.file, q->index});
    return q->off;
}

static int whole_file(struct stk_requests *q, const struct stk_workload *w, uint64_t file,
                      int dirfd, struct stk_err *err)
{
    char name[STK_BENCH_NAME];
    struct stat st;
    if (fstatat(dirfd, stk_bench_file_name(w, file, name), &st, AT_SYMLINK_NOFOLLOW) < 0)
        return stk_err_sys(err, name, "stat");
    return add(q, w, (struct stk_request){file, 0, (uint64_t)st.st_size}, err);
}

static int add_sample(struct stk_requests *q, const struct stk_workload *w,
                      const struct stk_bench_kind *kind, struct stk_bench_place at, int dirfd,
                      struct stk_err *err)
{
    q->samples++;
    q->asked_bytes += stk_bench_record(w, at);
    if (kind->stored) {
        uint64_t off = stream_offset(q, w, kind, at);
        return add(q, w, (struct stk_request){at.file, off, kind->stored(w, at)}, err);
    }
    /* The other samples of a file that was read whole are in memory. */
    if (q->file == at.file && w->dataset.samples_per_file > 1)
        return 0;
    q->file = at.file;
    return whole_file(q, w, at.file, dirfd, err);
}

int stk_requests_make(struct stk_requests *q, const struct stk_bench_plan *p, uint64_t reader,
                      uint64_t readers, uint64_t step, int dirfd, struct stk_err *err)
{
    const struct stk_bench_kind *kind = stk_bench_kind_of(p->w->dataset.format);
    bool same = p->w->access.offsets == STK_OFFSETS_SAME;
    uint64_t all = stk_bench_plan_together(p), n = same ? all : all / readers;
    uint64_t first = same ? 0 : reader * n;
    int rc = 0;
    q->n = 0;
    q->samples = q->asked_bytes = 0;
    for (uint64_t i = 0; i < n && rc == 0; i++)
        rc = add_sample(q, p->w, kind, stk_bench_plan_shared(p, step, first + i), dirfd, err);
    return rc;
}

void stk_requests_release(struct stk_requests *q)
{
    free(q->item);
    *q = STK_REQUESTS_INIT;
}

#define HANDLES 16 /* files that are open at once */

struct handle {
    struct stk_comm_file *f; /* NULL: free */
    struct stk_bio_file io;  /* for the order of requests; .fd: to drop pages, else -1 */
    uint64_t number, base, used;
};

struct stk_together {
    const struct stk_bench_config *c;
    struct stk_comm *readers;
    struct stk_bench_plan plan;
    struct stk_bio io;
    struct stk_bench_reader reader; /* says where samples begin, if the kind needs it */
    struct stk_requests *queue;     /* of each reader; without MPI-IO, of this one only */
    uint32_t nqueues, mine;
    struct handle handle[HANDLES];
    uint64_t uses;
    uint8_t *buf;
    size_t room;
};

/* ---- files ---- */

static void close_handle(struct stk_together *t, struct handle *h)
{
    double begin = stk_bench_now(t->io.clock);
    stk_comm_file_close(h->f);
    if (h->f && h->io.fd >= 0)
        close(h->io.fd);
    *h = (struct handle){.io = STK_BIO_NONE};
    t->io.tally->open_s += stk_bench_now(t->io.clock) - begin;
}

/* The one that has not been used for longest; all readers use the same ones in the same order. */
static struct handle *choose_handle(struct stk_together *t)
{
    struct handle *oldest = &t->handle[0];
    for (int i = 1; i < HANDLES; i++)
        if (t->handle[i].used < oldest->used)
            oldest = &t->handle[i];
    return oldest;
}

static int open_handle(struct stk_together *t, struct handle *h, uint64_t file, struct stk_err *err)
{
    char path[4400];
    struct stk_bio_file *io = &h->io;
    *io = (struct stk_bio_file){.fd = -1, .fresh = true};
    stk_bench_file_name(t->c->w, file, io->name);
    snprintf(path, sizeof path, "%s/%s", t->io.dir, io->name);
    double begin = stk_bench_now(t->io.clock);
    int rc = stk_comm_file_open(t->readers, path, &h->f, err);
    if (rc == 0 && t->io.cache == STK_CACHE_DROP)
        rc = stk_read_open(t->io.dirfd, io->name, 0, &io->fd, NULL, path, err);
    stk_bench_spend(t->io.clock, 0);
    t->io.tally->opens++;
    t->io.tally->open_s += stk_bench_now(t->io.clock) - begin;
    h->number = file;
    if (rc == 0 && t->reader.kind && t->reader.kind->base)
        rc = t->reader.kind->base(&t->reader, file, &h->base, err);
    return rc;
}

static int get_handle(struct stk_together *t, uint64_t file, struct handle **out,
                      struct stk_err *err)
{
    int rc = 0;
    *out = NULL;
    for (int i = 0; i < HANDLES && !*out; i++)
        if (t->handle[i].f && t->handle[i].number == file)
            *out = &t->handle[i];
    if (!*out) {
        *out = choose_handle(t);
        close_handle(t, *out);
        rc = open_handle(t, *out, file, err);
    }
    (*out)->used = ++t->uses;
    return rc;
}

/* ---- requests ---- */

static int ended(const struct stk_together *t, const struct handle *h, uint64_t off,
                 struct stk_err *err)
{
    char path[4400];
    snprintf(path, sizeof path, "%s/%s", t->io.dir, h->io.name);
    return stk_err_set(err, STK_E_CORRUPT, path, (int64_t)off,
                       "the file ends before its last sample");
}

/* One call of all readers. r is NULL if this one has nothing to read in it. */
static int read_one(struct stk_together *t, uint64_t file, const struct stk_request *r,
                    struct stk_err *err)
{
    struct handle *h;
    size_t got = 0, n = r ? (size_t)r->bytes : 0;
    int rc = get_handle(t, file, &h, err);
    rc = rc ? rc : STK_ARRAY_ROOM(t->buf, t->room, n + 1, err);
    if (rc < 0)
        return rc;
    uint64_t off = r ? h->base + r->off : 0;
    double begin = stk_bench_now(t->io.clock);
    rc = stk_comm_file_read_all(h->f, off, t->buf, n, &got, err);
    if (rc == 0 && got < n)
        rc = ended(t, h, off + got, err);
    if (rc < 0 || !n)
        return rc;
    stk_bench_spend(t->io.clock, n);
    if (h->io.fd >= 0)
        (void)posix_fadvise(h->io.fd, (off_t)off, (off_t)n, POSIX_FADV_DONTNEED);
    stk_bio_count(&t->io, &h->io, off, n, stk_bench_now(t->io.clock) - begin);
    return 0;
}

static const struct stk_request *request_at(const struct stk_requests *q, size_t i)
{
    return i < q->n ? &q->item[i] : NULL;
}

/* True if a reader before this one has its request i in the same file: it was part of that call. */
static bool is_done(const struct stk_together *t, uint32_t reader, size_t i, uint64_t file)
{
    for (uint32_t k = 0; k < reader; k++) {
        const struct stk_request *r = request_at(&t->queue[k], i);
        if (r && r->file == file)
            return true;
    }
    return false;
}

/* Request i of every reader: one call for each file that any of them needs. */
static int read_round(struct stk_together *t, size_t i, struct stk_err *err)
{
    const struct stk_request *own = request_at(&t->queue[t->mine], i);
    int rc = 0;
    for (uint32_t k = 0; k < t->nqueues && rc == 0; k++) {
        const struct stk_request *r = request_at(&t->queue[k], i);
        if (r && !is_done(t, k, i, r->file))
            rc = read_one(t, r->file, own && own->file == r->file ? own : NULL, err);
    }
    return rc;
}

/* Reads what this reader's group needs for a batch; *bytes: how much of it are samples. patience is
 * told of every request. */
static int together_read(struct stk_together *t, uint64_t batch,
                         struct stk_bench_patience *patience, uint64_t *bytes, struct stk_err *err)
{
    uint64_t step = batch % t->plan.steps;
    uint32_t readers = stk_comm_size(t->readers), first = stk_comm_rank(t->readers) - t->mine;
    size_t rounds = 0;
    int rc = 0;
    if (batch / t->plan.steps != t->plan.epoch)
        stk_bench_plan_epoch(&t->plan, batch / t->plan.steps);
    for (uint32_t k = 0; k < t->nqueues && rc == 0; k++) {
        rc = stk_requests_make(&t->queue[k], &t->plan, first + k, readers, step, t->io.dirfd, err);
        rounds = t->queue[k].n > rounds ? t->queue[k].n : rounds;
    }
    for (size_t i = 0; i < rounds && rc == 0; i++) {
        rc = read_round(t, i, err);
        rc = rc ? rc : stk_bench_beat(patience);
    }
    *bytes = t->queue[t->mine].asked_bytes;
    t->io.tally->asked_bytes += rc == 0 ? *bytes : 0;
    t->io.tally->samples += rc == 0 ? t->queue[t->mine].samples : 0;
    return rc;
}

/* ---- open and close ---- */

/* readers: the ranks that read, this one among them. Their requests move the clock and go to the
 * tally. All are borrowed. Caller closes with together_close(). */
static int together_open(const struct stk_bench_config *c, const struct stk_bench_plan *plan,
                         struct stk_comm *readers, struct stk_bench_clock *clock,
                         struct stk_io_tally *tally, struct stk_together **out, struct stk_err *err)
{
    struct stk_together *t = calloc(1, sizeof *t);
    bool all = stk_comm_has_mpiio(readers);
    const struct stk_bench_kind *kind = stk_bench_kind_of(c->w->dataset.format);
    *out = t;
    if (!t)
        return stk_err_nomem(err, sizeof *t);
    t->c = c;
    t->plan = *plan;
    t->readers = readers;
    t->io = (struct stk_bio){clock, tally, c->data->dirfd, c->data->dir, c->w->reader.cache};
    t->nqueues = all ? stk_comm_size(readers) : 1;
    t->mine = all ? stk_comm_rank(readers) : 0;
    t->queue = calloc(t->nqueues, sizeof *t->queue);
    for (uint32_t i = 0; t->queue && i < t->nqueues; i++)
        t->queue[i] = STK_REQUESTS_INIT;
    for (int i = 0; i < HANDLES; i++)
        t->handle[i].io = STK_BIO_NONE;
    t->reader.file = STK_BIO_NONE;
    if (!t->queue)
        return stk_err_nomem(err, t->nqueues * sizeof *t->queue);
    return kind->base ? stk_bench_reader_init(&t->reader, c->w, c->data, clock, tally, err) : 0;
}

/* NULL is fine. */
static void together_close(struct stk_together *t)
{
    if (!t)
        return;
    for (int i = 0; i < HANDLES; i++)
        close_handle(t, &t->handle[i]);
    for (uint32_t i = 0; t->queue && i < t->nqueues; i++)
        stk_requests_release(&t->queue[i]);
    stk_bench_reader_release(&t->reader);
    free(t->queue);
    free(t->buf);
    free(t);
}

#define PIECE (1u << 20) /* of a broadcast */

struct stk_collective {
    const struct stk_bench_config *c;
    struct stk_bench_patience *patience;
    struct stk_comm *group;        /* NULL: this rank is its whole group */
    struct stk_comm *readers;      /* NULL: this rank does not read */
    struct stk_together *together; /* the same */
    uint64_t members;              /* of a group */
    double start_s;
    struct stk_bench_clock clock;
    struct stk_io_tally tally;
    uint8_t *buf;
    /* Of the read that is under way. */
    uint64_t batch;
    struct heading {
        uint64_t bytes;
        double ready_s; /* since the start of all ranks: their clocks may differ */
    } heading;          /* what the reader sends before the bytes */
};

/* Every nth rank from the first on, n of them. */
static int join(struct stk_comm *comm, uint64_t first, uint64_t step, uint64_t n,
                struct stk_comm **out, struct stk_err *err)
{
    uint32_t *rank = calloc(n, sizeof *rank);
    if (!rank)
        return stk_err_nomem(err, n * sizeof *rank);
    for (uint64_t i = 0; i < n; i++)
        rank[i] = (uint32_t)(first + i * step);
    int rc = stk_comm_group(comm, rank, (uint32_t)n, out, err);
    free(rank);
    return rc;
}

int stk_collective_open(const struct stk_bench_config *c, const struct stk_bench_plan *plan,
                        double start_s, struct stk_bench_patience *patience,
                        struct stk_collective **out, struct stk_err *err)
{
    struct stk_collective *s = calloc(1, sizeof *s);
    *out = s;
    if (!s)
        return stk_err_nomem(err, sizeof *s);
    uint64_t readers = plan->w->access.readers;
    s->c = c;
    s->patience = patience;
    s->members = plan->ranks / readers;
    s->start_s = start_s;
    s->clock = (struct stk_bench_clock){&c->model, start_s};
    uint64_t first = plan->rank / s->members * s->members;
    s->buf = calloc(1, PIECE);
    int rc = s->buf ? 0 : stk_err_nomem(err, PIECE);
    if (rc == 0 && s->members > 1)
        rc = join(c->comm, first, 1, s->members, &s->group, err);
    if (rc == 0 && plan->rank == first) {
        rc = join(c->comm, 0, s->members, readers, &s->readers, err);
        rc = rc ? rc : together_open(c, plan, s->readers, &s->clock, &s->tally, &s->together, err);
    }
    return rc;
}

static int broadcast(struct stk_collective *s, struct stk_err *err)
{
    struct heading *h = &s->heading;
    int rc = stk_comm_bcast(s->group, 0, h, sizeof *h, STK_COMM_FOREVER, err);
    for (uint64_t at = 0, n; rc == 0 && at < h->bytes; at += n) {
        n = h->bytes - at < PIECE ? h->bytes - at : PIECE;
        rc = stk_comm_bcast(s->group, 0, s->buf, (size_t)n, STK_COMM_FOREVER, err);
    }
    return rc;
}

/* In the helper thread. */
static int read_batch(void *arg, struct stk_err *err)
{
    struct stk_collective *s = arg;
    int rc = together_read(s->together, s->batch, s->patience, &s->heading.bytes, err);
    s->heading.ready_s = stk_bench_now(&s->clock) - s->start_s;
    return rc;
}

int stk_collective_take(struct stk_collective *s, uint64_t batch, double now_s, double *ready_s,
                        struct stk_err *err)
{
    int rc = 0;
    if (s->together) {
        stk_bench_after(&s->clock, now_s);
        s->batch = batch;
        rc = stk_bench_within(s->patience, read_batch, NULL, s, err);
    }
    if (rc < 0)
        return rc; /* the others learn it when this rank gives up */
    rc = s->group ? broadcast(s, err) : 0;
    *ready_s = s->c->model.is_virtual ? s->start_s + s->heading.ready_s : stk_bench_now(&s->clock);
    return rc;
}

void stk_collective_close(struct stk_collective *s, struct stk_io_tally *tally)
{
    if (!s)
        return;
    together_close(s->together);
    stk_io_tally_merge(tally, &s->tally);
    stk_comm_close(s->readers);
    stk_comm_close(s->group);
    free(s->buf);
    free(s);
}
