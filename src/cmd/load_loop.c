/*
 * load_loop.c - takes the loader's batches as fast as they come and measures: time between
 * batches, time waited for them, bytes asked for, read, and read from storage, epoch by epoch.
 */
#include <stdlib.h>
#include <sys/resource.h>

#include "base/pool.h"
#include "cmd/load.h"
#include "host/fs.h"

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
