/*
 * load_loop.c - takes the loader's batches as fast as they come and measures: time between
 * batches, time waited for them, bytes asked for, read, and read from storage, epoch by epoch.
 */
#include <stdlib.h>
#include <sys/resource.h>

#include "base/pool.h"
#include "cmd/load.h"
#include "host/fs.h"
#include "base/buf.h"
#include "base/hash.h"

/* ---- what is done with a batch --------------------------------------------------------------- */

/* What `stoker load` does with a batch: touches its bytes, so that lazily mapped pages count as
 * read, or hashes them; and writes which samples came (--ids). */

#define PAGE 4096u

/* Reads a byte of every page: enough to fill the memory, at almost no CPU time. */
static void touch(const void *p, size_t n)
{
    const volatile uint8_t *b = p;
    for (size_t off = 0; off < n; off += PAGE)
        (void)b[off];
    if (n)
        (void)b[n - 1];
}

static void touch_value(const struct stk_value *v, unsigned depth)
{
    touch(v->data, v->size);
    for (size_t i = 0; i < v->nitems && depth; i++)
        touch_value(&v->item[i], depth - 1);
}

/* Bytes per sample of a dense column. */
static size_t dense_bytes(const struct stk_column *c)
{
    size_t n = stk_dtype_size(c->dtype);
    for (unsigned d = 0; d < c->ndim && d < STK_MAX_NDIM; d++)
        n *= (size_t)c->dim[d];
    return n;
}

#define LIST_DEPTH 16 /* of nested lists; no format goes deeper */

static void touch_column(const struct stk_column *c, size_t n)
{
    if (c->layout == STK_DENSE) {
        touch(c->data, n * dense_bytes(c));
        return;
    }
    for (size_t i = 0; i < n; i++) {
        if (c->layout == STK_SPANS)
            touch(c->span[i].data, c->span[i].size);
        else
            touch_value(&c->value[i], LIST_DEPTH);
    }
}

/* ---- hashing ------------------------------------------------------------------------------- */

static uint64_t value_bytes(const struct stk_value *v, unsigned depth)
{
    uint64_t n = v->size;
    for (size_t i = 0; v->kind == STK_LIST && i < v->nitems && depth; i++)
        n += value_bytes(&v->item[i], depth - 1);
    return n;
}

static void hash_value(struct stk_hash *h, const struct stk_value *v, unsigned depth)
{
    if (v->size)
        stk_hash_update(h, v->data, v->size);
    for (size_t i = 0; v->kind == STK_LIST && i < v->nitems && depth; i++)
        hash_value(h, &v->item[i], depth - 1);
}

/* XXH64 of a field: its name, a zero byte, the length of its bytes (8 bytes, little-endian), the
 * bytes; the bytes of a list are its items' bytes in order. */
static uint64_t hash_field(const char *name, const struct stk_value *v)
{
    struct stk_hash h;
    uint8_t length[8];
    stk_hash_init(&h);
    stk_hash_update(&h, name, strlen(name) + 1);
    stk_put_le64(length, value_bytes(v, LIST_DEPTH));
    stk_hash_update(&h, length, sizeof length);
    hash_value(&h, v, LIST_DEPTH);
    return stk_hash_final(&h);
}

/* A sum, so that the order of fields and samples does not matter, and the sums of ranks add up. */
static uint64_t hash_sample(const struct stk_batch *b, size_t i)
{
    uint64_t sum = 0;
    for (size_t k = 0; k < b->ncolumns; k++) {
        const struct stk_column *c = &b->column[k];
        size_t dense = c->layout == STK_DENSE ? dense_bytes(c) : 0;
        struct stk_value v = {.kind = c->kind};
        if (c->layout == STK_VALUES)
            v = c->value[i];
        else if (c->layout == STK_SPANS)
            v.data = c->span[i].data, v.size = c->span[i].size;
        else
            v.data = (const uint8_t *)c->data + i * dense, v.size = dense;
        if (v.kind)
            sum += hash_field(c->name, &v);
    }
    return sum;
}

/* ---- a batch ------------------------------------------------------------------------------- */

static int put_id(struct stk_load *l, const struct stk_batch *b, size_t i, const uint64_t *hash)
{
    int n = fprintf(l->ids, "%llu %llu %llu %u", (unsigned long long)b->epoch,
                    (unsigned long long)b->step, (unsigned long long)b->id[i], b->flags[i]);
    if (n >= 0 && hash)
        n = fprintf(l->ids, " %016llx", (unsigned long long)*hash);
    if (n >= 0)
        n = fputc('\n', l->ids);
    return n >= 0 ? 0 : stk_err_sys(&l->run->err, l->s->ids, "cannot write --ids");
}

int stk_load_consume(struct stk_load *l, const struct stk_batch *b)
{
    bool hashes = l->r.hashed;
    int rc = 0;
    for (size_t k = 0; l->s->consume == STK_CONSUME_TOUCH && k < b->ncolumns; k++)
        touch_column(&b->column[k], b->n);
    for (size_t i = 0; !rc && (hashes || l->ids) && i < b->n; i++) {
        uint64_t hash = hashes ? hash_sample(b, i) : 0;
        l->r.content += hash;
        if (l->ids)
            rc = put_id(l, b, i, hashes ? &hash : NULL);
    }
    return rc;
}

#define TICK_S 0.05 /* interval for printing progress and checking for signals */

/* ---- counting ------------------------------------------------------------------------------ */

static double cpu_seconds(void)
{
    struct rusage u;
    if (getrusage(RUSAGE_SELF, &u) != 0)
        return 0;
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

static void count(const struct stk_load *l, struct stk_load_counts *c)
{
    *c = (struct stk_load_counts){.at_s = stk_now(), .device_bytes = stk_fs_fetched_bytes()};
    c->cpu_s = cpu_seconds();
    if (l->r.ld)
        stk_loader_stats(l->r.ld, &c->loader);
}

void stk_load_begin(struct stk_load *l)
{
    count(l, &l->r.start);
    l->r.end = l->r.start;
}

static uint64_t nanoseconds(double s)
{
    return s > 0 ? (uint64_t)(s * 1e9) : 0;
}

static void note_epoch(struct stk_load *l, uint64_t epoch, const struct stk_load_counts *from,
                       uint64_t wait_from_ns)
{
    const struct stk_load_counts *to = &l->r.end;
    const struct stk_histogram *h = &l->epoch_time;
    struct stk_load_epoch e = {
        .epoch = epoch,
        .batches = to->loader.batches - from->loader.batches,
        .samples = to->loader.samples - from->loader.samples,
        .bytes_asked = to->loader.bytes_asked - from->loader.bytes_asked,
        .bytes_read = to->loader.bytes_read - from->loader.bytes_read,
        .device_bytes = stk_load_device(&l->r, from, to),
        .seconds = to->at_s - from->at_s,
        .wait_s = 1e-9 * (double)(l->r.wait_ns - wait_from_ns),
        .p50_ns = stk_histogram_percentile(h, 0.5),
        .p99_ns = stk_histogram_percentile(h, 0.99),
        .max_ns = h->max,
    };
    stk_buf_put(&l->r.epochs, &e, sizeof e);
    l->epoch_time = (struct stk_histogram){0};
}

/* ---- the loop ------------------------------------------------------------------------------ */

/* Shows progress; fails if a signal asked to stop. */
static int tick(struct stk_load *l, double now)
{
    if (now < l->next_tick_s)
        return 0;
    l->next_tick_s = now + TICK_S;
    struct stk_loader_stats st;
    stk_loader_stats(l->r.ld, &st);
    if (stk_progress_update(&l->run->progress, "load", st.bytes_asked, 0, l->r.samples,
                            l->samples_total) == 0)
        return 0;
    return stk_err_set(&l->run->err, STK_E_STOPPED, NULL, -1, "stopped by a signal");
}

/* Waits for the next batch in short steps, so that a signal is noticed meanwhile. */
static int next_batch(struct stk_load *l, struct stk_batch **b, double *now)
{
    double began = *now;
    int rc = 0;
    while (!rc && stk_loader_wait(l->r.ld, (int)(TICK_S * 1000)) == 0)
        rc = tick(l, stk_now());
    if (!rc)
        rc = stk_loader_next(l->r.ld, b, &l->run->err);
    *now = stk_now();
    l->r.wait_ns += nanoseconds(*now - began);
    return rc;
}

static void note_batch(struct stk_load *l, const struct stk_batch *b, double now, double *last)
{
    if (l->r.batches) {
        stk_histogram_add(&l->r.time, nanoseconds(now - *last));
        stk_histogram_add(&l->epoch_time, nanoseconds(now - *last));
    } else {
        l->r.first_batch_s = now - l->r.start.at_s;
    }
    *last = now;
    l->r.batches++;
    l->r.samples += b->n;
}

static bool enough(const struct stk_load *l)
{
    return l->s->steps && l->r.batches >= l->s->steps;
}

/* Runs an epoch, or the rest of it: 0 at its end, 1 when --steps are done, negative: stopped. */
static int run_epoch(struct stk_load *l, double *last, uint64_t *epoch)
{
    double now = stk_now();
    for (;;) {
        struct stk_batch *b = NULL;
        int rc = next_batch(l, &b, &now);
        if (rc <= 0)
            return rc;
        note_batch(l, b, now, last);
        *epoch = b->epoch;
        rc = stk_load_consume(l, b);
        stk_batch_release(b);
        now = stk_now();
        rc = rc ? rc : tick(l, now);
        if (rc || enough(l))
            return rc ? rc : 1;
    }
}

int stk_load_loop(struct stk_load *l)
{
    double last = l->r.start.at_s;
    int rc = 0;
    for (uint64_t done = 0; !rc && done < l->s->loader.epochs; done++) {
        struct stk_load_counts from = l->r.end;
        uint64_t batches = l->r.batches, wait_from_ns = l->r.wait_ns, epoch = 0;
        rc = run_epoch(l, &last, &epoch);
        count(l, &l->r.end);
        if (l->r.batches > batches)
            note_epoch(l, epoch, &from, wait_from_ns);
    }
    stk_progress_clear(&l->run->progress);
    return rc < 0 ? rc : 0;
}
