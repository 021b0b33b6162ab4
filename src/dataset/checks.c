/* checks.c - stores the checksums of packed samples in the index: those of their records, or of the
 * samples, which are read. */
#include "dataset/checks.h"
#include "base/file.h"
#include "base/pool.h"
#include "dataset/reader.h"
#include "host/cpus.h"

#include <stdlib.h>
#include <unistd.h>

#define ITEM_SAMPLES  4096u
#define BATCH_SAMPLES 256u
#define BATCH_BYTES   (4u << 20)
#define TAILS         (32u << 10) /* read at once, if several tails of records are in it */

struct checks {
    stk_checks_report *report;
    void *user;
    unsigned jobs;
    struct stk_dataset ds;      /* what was written */
    struct stk_reader **reader; /* per thread, made when it starts */
    int fd;                     /* a file without a name: u32 of each sample */
};

/* Reads one batch of samples from `first` on. Returns their number, or an error. */
static int64_t sum_batch(struct checks *c, struct stk_reader *r, uint64_t first, uint64_t end,
                         struct stk_err *err)
{
    uint64_t ids[BATCH_SAMPLES] = {0}, bytes = 0, one;
    uint32_t check[BATCH_SAMPLES];
    size_t n = 0;
    int rc = 0;
    while (rc == 0 && n < BATCH_SAMPLES && first + n < end && bytes < BATCH_BYTES) {
        rc = stk_index_sample_bytes(&c->ds.index, first + n, &one, err);
        bytes += one;
        ids[n] = first + n;
        n++;
    }
    if (rc == 0)
        rc = stk_reader_batch(r, ids, n, err);
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = stk_reader_sum(r, i, &check[i], err);
    if (rc == 0)
        rc = stk_pwrite_full(c->fd, check, n * sizeof *check, first * sizeof *check, stk_tmpdir(),
                             err);
    return rc < 0 ? rc : (int64_t)n;
}

/* Bytes of a file in memory. */
struct window {
    uint32_t file;
    uint64_t from, len;
    uint8_t bytes[TAILS];
};

/* *tail: behind extent e, in the window. */
static int find_tail(struct checks *c, struct stk_reader *r, const struct stk_extent *e,
                     struct window *w, const uint8_t **tail, struct stk_err *err)
{
    uint64_t at = e->offset + e->length, size = c->ds.format->tail;
    const struct stk_index_file *f;
    const char *name;
    int rc = stk_index_file(&c->ds.index, e->file, &f, &name, err);
    if (rc == 0 && (at > f->size || f->size - at < size))
        rc = stk_err_set(err, STK_E_CORRUPT, c->ds.index.path, -1,
                         "damaged index: a record runs past its file");
    if (rc < 0)
        return rc;
    bool here = w->len && e->file == w->file && at >= w->from && at + size <= w->from + w->len;
    if (!here) {
        uint64_t most = e->length < TAILS / 2 ? TAILS : size;
        w->file = e->file;
        w->from = at;
        w->len = f->size - at < most ? f->size - at : most;
        rc = stk_reader_range(r, e->file, at, w->len, w->bytes, err);
    }
    *tail = w->bytes + (at - w->from);
    return rc;
}

/* The same for records of a segment: their own checksums, which readers compare with their data. */
static int64_t take_batch(struct checks *c, struct stk_reader *r, const struct stk_segment *seg,
                          uint64_t first, uint64_t end, struct window *w, struct stk_err *err)
{
    uint32_t check[BATCH_SAMPLES];
    uint64_t extent = seg->first_extent + (first - seg->first_sample);
    uint64_t most = seg->first_sample + seg->nsamples;
    size_t n = 0;
    int rc = 0;
    for (; rc == 0 && n < BATCH_SAMPLES && first + n < end && first + n < most; n++) {
        struct stk_extent e;
        const uint8_t *tail;
        rc = stk_index_extent(&c->ds.index, extent + n, &e, err);
        if (rc == 0)
            rc = find_tail(c, r, &e, w, &tail, err);
        if (rc == 0)
            check[n] = c->ds.format->sum(tail);
    }
    if (rc == 0)
        rc = stk_pwrite_full(c->fd, check, n * sizeof *check, first * sizeof *check, stk_tmpdir(),
                             err);
    return rc < 0 ? rc : (int64_t)n;
}

static int sum_item(void *user, uint64_t item, unsigned thread, struct stk_err *err)
{
    struct checks *c = user;
    uint64_t first = item * ITEM_SAMPLES, all = c->ds.index.h->nsamples;
    uint64_t end = first + ITEM_SAMPLES < all ? first + ITEM_SAMPLES : all;
    int rc = c->reader[thread] ? 0 : stk_reader_new(&c->ds, &c->reader[thread], err);
    struct window w;
    w.len = 0;
    while (rc == 0 && first < end) {
        struct stk_reader *r = c->reader[thread];
        const struct stk_segment *seg = stk_index_segment(&c->ds.index, first);
        int64_t n = c->ds.format->sum && seg && seg->kind == STK_SEG_WHOLE
                        ? take_batch(c, r, seg, first, end, &w, err)
                        : sum_batch(c, r, first, end, err);
        rc = n < 0 ? (int)n : c->report(c->user, err);
        first += n < 0 ? 0 : (uint64_t)n;
    }
    return rc;
}

static int sum_all(struct checks *c, struct stk_err *err)
{
    uint64_t n = c->ds.index.h->nsamples;
    c->fd = stk_nameless_file(NULL, err);
    if (c->fd < 0)
        return c->fd;
    return stk_pool_run(c->jobs, (n + ITEM_SAMPLES - 1) / ITEM_SAMPLES, sum_item, c, err);
}

int stk_checks_add(const struct stk_walk *w, unsigned jobs, stk_checks_report *report, void *user,
                   int fd, const char *path, struct stk_err *err)
{
    struct checks c = {.report = report,
                       .user = user,
                       .jobs = jobs ? jobs : stk_cpus(),
                       .ds.format = w->format,
                       .fd = -1};
    int rc = stk_index_open_fd(fd, path, &c.ds.index, err);
    if (rc < 0)
        return rc;
    uint64_t n = c.ds.index.h->nsamples;
    c.ds.files = (struct stk_files){.rootfd = w->rootfd, .root = w->root, .outside = w->outside};
    stk_dataset_list_files(&c.ds);
    c.reader = calloc(c.jobs, sizeof *c.reader);
    if (!c.reader)
        rc = stk_err_nomem(err, c.jobs * sizeof *c.reader);
    if (rc == 0 && n)
        rc = sum_all(&c, err);
    for (unsigned i = 0; c.reader && i < c.jobs; i++)
        stk_reader_free(c.reader[i]);
    free(c.reader);
    stk_index_close(&c.ds.index);
    if (rc == 0)
        rc = stk_index_seal(fd, path, c.fd, n, err);
    if (c.fd >= 0)
        close(c.fd);
    return rc;
}
