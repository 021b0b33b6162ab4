/*
 * feed.h - where the batches of a rank come from: the application's way of reading (lanes
 * of its own, or ranks together), stoker's loader, memory, or nowhere.
 */
#ifndef STK_BENCH_FEED_H
#define STK_BENCH_FEED_H

#include "bench/bio.h"
#include "bench/data.h"
#include "bench/plan.h"
#include "bench/rank.h"

/* ---- collective reads ------------------------------------------------------------------------ */

/* Some ranks read together, and each broadcasts what it read to the others of its group: how
 * programs with MPI-IO read a file. */

/* The requests that each reader of a collective read makes for a step. They follow from the
 * workload alone, so that every reader knows those of all others: a collective call needs all of
 * them, and each the same number of times. */
struct stk_request {
    uint64_t file, off, bytes;
};

/* The requests of one reader for one step, and where it is in the data. All zero, but file. */
struct stk_requests {
    struct stk_request *item;
    size_t n, room;
    uint64_t samples, asked_bytes; /* of the step */
    uint64_t file, index, off;     /* streams: where sample `index` of the file begins */
};
#define STK_REQUESTS_INIT ((struct stk_requests){.file = UINT64_MAX})

/* Reader number `reader` of so many makes these for a step. dirfd: the data folder. */
int stk_requests_make(struct stk_requests *q, const struct stk_bench_plan *p, uint64_t reader,
                      uint64_t readers, uint64_t step, int dirfd, struct stk_err *err);
void stk_requests_release(struct stk_requests *q);

struct stk_collective;

/* Groups of neighbouring ranks, one reader each (access.readers). start_s: the time at which all
 * ranks began, by the clock of this one. The helper thread reads. Caller closes with
 * stk_collective_close(). */
int stk_collective_open(const struct stk_bench_config *c, const struct stk_bench_plan *plan,
                        double start_s, struct stk_bench_patience *patience, struct stk_collective **out,
                        struct stk_err *err);
/* The batches of the whole group: read by the first, received by the others. See
 * stk_lanes_take(). */
int stk_collective_take(struct stk_collective *s, uint64_t batch, double now_s, double *ready_s,
                        struct stk_err *err);
void stk_collective_close(struct stk_collective *s, struct stk_io_tally *tally);

/* ---- stoker's loader ------------------------------------------------------------------------- */

/* Batches of stoker's own loader, for --reader stoker. It says how many requests it made, but not
 * their sizes, order and times. With a virtual clock it reads one epoch before anything counts, and
 * the model of storage says how long its requests take. */
struct stk_loaded;

/* Opens the dataset of c->w, for training or evaluation, and the loader. All ranks call it: the
 * first builds the index, the others use it. Caller closes with stk_loaded_close(), also on
 * error. */
int stk_loaded_open(const struct stk_bench_config *c, const struct stk_bench_plan *plan,
                    struct stk_bench_patience *patience, struct stk_loaded **out,
                    struct stk_err *err);
/* Reads all that the rank needs, once (reader.load: start); batches are there at once then. */
int stk_loaded_all(struct stk_loaded *l, struct stk_err *err);
/* Virtual, instead: reads an epoch and counts its requests. *took_s: until the first step. */
int stk_loaded_count(struct stk_loaded *l, double *took_s, struct stk_err *err);
/* When the first step begins. */
void stk_loaded_begin(struct stk_loaded *l, double start_s);
/* Takes a batch; after an epoch, the first of the next. One thread at a time. */
int stk_loaded_next(struct stk_loaded *l, struct stk_err *err);
/* Virtual: when it has the batch of a step. */
double stk_loaded_ready_s(const struct stk_loaded *l, uint64_t step);
/* See stk_lanes_take(). */
int stk_loaded_take(struct stk_loaded *l, uint64_t step, double now_s, double *ready_s,
                    struct stk_err *err);
/* NULL is fine. What hangs is left behind. */
void stk_loaded_close(struct stk_loaded *l, struct stk_io_tally *tally);

/* ---- lanes ----------------------------------------------------------------------------------- */

/* The batches of a rank, read ahead by its threads. A lane is a thread that reads every nth batch.
 * Batch b uses slot b % prefetch: it is read once the batch that had the slot was taken. What goes
 * from thread to thread carries its time, so that a virtual clock gives the same result however the
 * threads are scheduled. */
struct stk_lanes;

struct stk_lanes_config {
    const struct stk_bench_plan *plan; /* borrowed; the epoch may change only before open */
    const struct stk_bench_data *data; /* borrowed */
    const struct stk_bench_model *model;
    uint64_t batches;  /* in all */
    double start_s;    /* the time of all lanes at the start */
    double patience_s; /* a batch that takes longer hangs */
    bool idle;         /* reads nothing: for calibration */
    /* No step takes time: the accelerator takes each batch when it and those before it are
     * complete. The lanes run on by this rule without waiting for the taker, which is woken for
     * many batches at a time. Not with idle or loaded. */
    bool instant;
    /* Seconds that it took to start the threads, in all; may be NULL. */
    double *started_s;
    struct stk_loaded *loaded; /* the batches come from it; NULL: the lanes read. Borrowed */
};

/* Whether the training loop starts the threads, or lets them read epoch by epoch. */
bool stk_lanes_are_gated(const struct stk_workload *w);
/* Whether they then wait until that batch is asked for. */
bool stk_lanes_are_asked(const struct stk_bench_plan *plan, uint64_t batch);
/* Starts the threads. With reader.threads 0, one reads a batch when it is taken. Caller closes with
 * stk_lanes_close(). */
int stk_lanes_open(const struct stk_lanes_config *c, struct stk_lanes **out, struct stk_err *err);
/* Takes batch number `batch`, in order. now_s: the accelerator is free since then. *ready_s: the
 * time at which the batch was complete. */
int stk_lanes_take(struct stk_lanes *l, uint64_t batch, double now_s, double *ready_s,
                   struct stk_err *err);
/* Batches that were read and not taken yet, and the most there can be. */
void stk_lanes_queue(struct stk_lanes *l, uint64_t *ready, uint64_t *slots);
/* Stops the threads and adds their tallies to *tally. A thread whose read hangs is left behind. */
void stk_lanes_close(struct stk_lanes *l, struct stk_io_tally *tally);

/* ---- whichever it is ------------------------------------------------------------------------- */

struct stk_feed {
    const struct stk_bench_config *c;
    struct stk_bench_plan plan;
    struct stk_bench_patience *patience; /* borrowed */
    struct stk_lanes *lanes;             /* NULL: no reads in steps */
    struct stk_collective *collective;   /* instead, or NULL */
    struct stk_loaded *loaded;           /* instead, with --reader stoker */
    double start_s;
};

/* The requests before the first step, if any; their times go to r. Caller closes with
 * stk_feed_close(), also on error. */
int stk_feed_open(struct stk_feed *f, const struct stk_bench_config *c,
                  const struct stk_bench_plan *plan, struct stk_bench_patience *patience,
                  struct stk_bench_clock *clock, struct stk_bench_rank *r, struct stk_err *err);
/* Begins to read ahead. started_s: see struct stk_lanes_config. */
int stk_feed_start(struct stk_feed *f, uint64_t batches, double start_s, double *started_s,
                   struct stk_err *err);
/* See stk_lanes_take(). */
int stk_feed_take(struct stk_feed *f, uint64_t batch, double now_s, double *ready_s,
                  struct stk_err *err);
/* Batches that wait to be taken, and the most there can be; 0, 0: unknown. */
void stk_feed_queue(const struct stk_feed *f, uint64_t *ready, uint64_t *slots);
void stk_feed_close(struct stk_feed *f, struct stk_bench_rank *r);

#endif
