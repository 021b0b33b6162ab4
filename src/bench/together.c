/* together.c - see together.h. */
#include "bench/together.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/array.h"
#include "base/own.h"
#include "bench/requests.h"

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

int stk_together_read(struct stk_together *t, uint64_t batch, struct stk_bench_patience *patience,
                      uint64_t *bytes, struct stk_err *err)
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

int stk_together_open(const struct stk_bench_config *c, const struct stk_bench_plan *plan,
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
    return kind->base ? stk_bench_reader_init(&t->reader, c->w, c->data, clock, tally, err)
                      : 0;
}

void stk_together_close(struct stk_together *t)
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
