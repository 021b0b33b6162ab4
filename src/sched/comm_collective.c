/*
 * comm_collective.c - what is made of messages, so that it has a time limit and ends when a rank is
 * lost, with every MPI: barrier, broadcast, gathering and reduction. Files that all ranks read
 * together: MPI-IO's collective read if there is MPI, else each rank reads its own range.
 */
#include "sched/comm_priv.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/pool.h"

#define CHUNK ((size_t)8 << 20)

enum { TAG_BARRIER = COMM_TAG_OWN, TAG_BCAST, TAG_GATHER, TAG_REDUCE };

static double left(double until)
{
    double s = until - stk_now();
    return s > 0 ? s : 0;
}

/* Sends to one rank while it receives from another. */
static int exchange(struct stk_comm *c, uint32_t to, const void *out, size_t nout, uint32_t from,
                    void *in, size_t nin, int tag, double until, struct stk_err *err)
{
    struct stk_comm_msg s = {0}, r;
    int rc = stk_comm_irecv(c, from, tag, in, nin, &r, err);
    if (rc)
        return rc;
    rc = stk_comm_isend(c, to, tag, out, nout, &s, err);
    rc = rc ? rc : stk_comm_wait(c, &r, left(until), err);
    rc = rc ? rc : stk_comm_wait(c, &s, left(until), err);
    stk_comm_drop(c, &r);
    stk_comm_drop(c, &s);
    return rc;
}

static int send_to(struct stk_comm *c, uint32_t to, const void *p, size_t n, int tag, double until,
                   struct stk_err *err)
{
    struct stk_comm_msg m;
    int rc = stk_comm_isend(c, to, tag, p, n, &m, err);
    if (rc)
        return rc;
    rc = stk_comm_wait(c, &m, left(until), err);
    stk_comm_drop(c, &m);
    return rc;
}

static int receive(struct stk_comm *c, uint32_t from, void *p, size_t n, int tag, double until,
                   struct stk_err *err)
{
    struct stk_comm_msg m;
    int rc = stk_comm_irecv(c, from, tag, p, n, &m, err);
    if (rc)
        return rc;
    rc = stk_comm_wait(c, &m, left(until), err);
    stk_comm_drop(c, &m);
    return rc;
}

int stk_comm_barrier(struct stk_comm *c, double limit_s, struct stk_err *err)
{
    double until = stk_now() + limit_s;
    static const uint8_t out = 1; /* outlives a failed call, in which it may be on its way */
    uint8_t in = 0;
    int rc = 0;
    for (uint64_t step = 1; step < c->size && !rc; step *= 2)
        rc = exchange(c, (uint32_t)((c->rank + step) % c->size), &out, 1,
                      (uint32_t)((c->rank + c->size - step) % c->size), &in, 1, TAG_BARRIER, until,
                      err);
    return rc;
}

/* Down a binomial tree: a rank receives from the one without its lowest bit, counted from root. */
static int bcast_chunk(struct stk_comm *c, uint32_t root, void *p, size_t n, double until,
                       struct stk_err *err)
{
    uint32_t me = (c->rank + c->size - root) % c->size;
    uint64_t bit = 1;
    int rc = 0;
    while (bit < c->size && !(me & bit))
        bit *= 2;
    if (me)
        rc = receive(c, (uint32_t)((me - bit + root) % c->size), p, n, TAG_BCAST, until, err);
    for (bit /= 2; bit && !rc; bit /= 2)
        if (me + bit < c->size)
            rc = send_to(c, (uint32_t)((me + bit + root) % c->size), p, n, TAG_BCAST, until, err);
    return rc;
}

int stk_comm_bcast(struct stk_comm *c, uint32_t root, void *p, size_t n, double limit_s,
                   struct stk_err *err)
{
    double until = stk_now() + limit_s;
    int rc = 0;
    for (size_t at = 0; at < n && !rc; at += CHUNK)
        rc = bcast_chunk(c, root, (char *)p + at, n - at < CHUNK ? n - at : CHUNK, until, err);
    return rc;
}

int stk_comm_allgather(struct stk_comm *c, const void *mine, size_t n, void *all, double limit_s,
                       struct stk_err *err)
{
    double until = stk_now() + limit_s;
    char *at = all;
    int rc = 0;
    memcpy(at + c->rank * n, mine, n);
    for (uint32_t s = 0; s + 1 < c->size && !rc; s++) {
        uint32_t out = (c->rank + c->size - s) % c->size, in = (out + c->size - 1) % c->size;
        rc = exchange(c, (c->rank + 1) % c->size, at + out * n, n,
                      (c->rank + c->size - 1) % c->size, at + in * n, n, TAG_GATHER, until, err);
    }
    return rc;
}

/* ---- reduction ---- */

typedef void fold_fn(enum stk_comm_op op, void *into, const void *from, size_t n);

static void fold_u64(enum stk_comm_op op, void *into, const void *from, size_t n)
{
    uint64_t *a = into;
    const uint64_t *b = from;
    for (size_t i = 0; i < n; i++) {
        if (op == STK_COMM_SUM)
            a[i] += b[i];
        else if (op == STK_COMM_OR)
            a[i] |= b[i];
        else if ((op == STK_COMM_MIN) == (b[i] < a[i]))
            a[i] = b[i];
    }
}

static void fold_f64(enum stk_comm_op op, void *into, const void *from, size_t n)
{
    double *a = into;
    const double *b = from;
    for (size_t i = 0; i < n; i++) {
        if (op == STK_COMM_SUM)
            a[i] += b[i];
        else if ((op == STK_COMM_MIN) == (b[i] < a[i]))
            a[i] = b[i];
    }
}

/* Up the tree of bcast to rank 0, in a fixed order. */
static int fold_up(struct stk_comm *c, enum stk_comm_op op, fold_fn *fold, void *v, void *other,
                   size_t n, double until, struct stk_err *err)
{
    int rc = 0;
    for (uint64_t bit = 1; bit < c->size && !rc; bit *= 2) {
        if (c->rank & bit)
            return send_to(c, (uint32_t)(c->rank - bit), v, n * 8, TAG_REDUCE, until, err);
        if (c->rank + bit >= c->size)
            continue;
        rc = receive(c, (uint32_t)(c->rank + bit), other, n * 8, TAG_REDUCE, until, err);
        if (!rc)
            fold(op, v, other, n);
    }
    return rc;
}

static int reduce(struct stk_comm *c, enum stk_comm_op op, fold_fn *fold, void *v, size_t n,
                  double limit_s, struct stk_err *err)
{
    double until = stk_now() + limit_s;
    const size_t most = CHUNK / 8;
    if (c->size == 1 || n == 0)
        return 0;
    void *other = malloc((n < most ? n : most) * 8);
    int rc = other ? 0 : stk_err_nomem(err, CHUNK);
    for (size_t at = 0; at < n && !rc; at += most)
        rc = fold_up(c, op, fold, (char *)v + at * 8, other, n - at < most ? n - at : most, until,
                     err);
    free(other);
    return rc ? rc : stk_comm_bcast(c, 0, v, n * 8, left(until), err);
}

int stk_comm_reduce_u64(struct stk_comm *c, enum stk_comm_op op, uint64_t *v, size_t n,
                        double limit_s, struct stk_err *err)
{
    return reduce(c, op, fold_u64, v, n, limit_s, err);
}

int stk_comm_reduce_f64(struct stk_comm *c, enum stk_comm_op op, double *v, size_t n,
                        double limit_s, struct stk_err *err)
{
    return reduce(c, op, fold_f64, v, n, limit_s, err);
}

struct stk_comm_file {
    struct comm_root *root;
    int fd; /* -1: MPI-IO */
    char *path;
    uint64_t room[8];
};

bool stk_comm_has_mpiio(const struct stk_comm *c)
{
    return c->root->ops && c->root->ops->file_open && c->root->files;
}

/* Without the lock: the signs of life go on while storage is slow. */
static int open_together(struct stk_comm *c, struct stk_comm_file *f, struct stk_err *err)
{
    struct comm_root *r = c->root;
    uint32_t *rank = calloc(c->size, sizeof *rank);
    if (!rank)
        return stk_err_nomem(err, c->size * sizeof *rank);
    for (uint32_t i = 0; i < c->size; i++)
        rank[i] = stk_comm_world(c, i);
    int rc = r->ops->file_open(r->impl, rank, c->size, f->path, f->room, err);
    free(rank);
    return rc;
}

int stk_comm_file_open(struct stk_comm *c, const char *path, struct stk_comm_file **out,
                       struct stk_err *err)
{
    struct stk_comm_file *f = calloc(1, sizeof *f);
    char *copy = f ? stk_path_join("", path) : NULL;
    int rc = copy ? 0 : stk_err_nomem(err, sizeof *f);
    if (!rc) {
        *f = (struct stk_comm_file){.root = c->root, .fd = -1, .path = copy};
        rc = stk_comm_has_mpiio(c) ? open_together(c, f, err)
                                   : stk_read_open(AT_FDCWD, path, 0, &f->fd, NULL, path, err);
    }
    if (!rc) {
        *out = f;
        return 0;
    }
    free(copy);
    free(f);
    return rc;
}

int stk_comm_file_read_all(struct stk_comm_file *f, uint64_t off, void *p, size_t n, size_t *got,
                           struct stk_err *err)
{
    struct comm_root *r = f->root;
    if (f->fd >= 0)
        return stk_pread_full(f->fd, p, n, off, got, f->path, err);
    if (n > STK_COMM_MSG_MAX)
        return stk_err_set(err, STK_E_USAGE, f->path, -1, "a read of %zu bytes", n);
    return r->ops->file_read_all(r->impl, f->room, off, p, n, got, err);
}

void stk_comm_file_close(struct stk_comm_file *f)
{
    if (!f)
        return;
    struct comm_root *r = f->root;
    if (f->fd >= 0)
        close(f->fd);
    else if (!r->failed && stk_pulse_lost(r, NULL, 0) < 0)
        r->ops->file_close(r->impl, f->room);
    free(f->path);
    free(f);
}
