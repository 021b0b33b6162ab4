/* collective.c - see collective.h. */
#include "bench/collective.h"

#include <stdlib.h>

#include "bench/together.h"

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
                        double start_s, struct stk_bench_patience *patience, struct stk_collective **out,
                        struct stk_err *err)
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
        rc = rc ? rc
                : stk_together_open(c, plan, s->readers, &s->clock, &s->tally, &s->together, err);
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
    int rc = stk_together_read(s->together, s->batch, s->patience, &s->heading.bytes, err);
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
    stk_together_close(s->together);
    stk_io_tally_merge(tally, &s->tally);
    stk_comm_close(s->readers);
    stk_comm_close(s->group);
    free(s->buf);
    free(s);
}
