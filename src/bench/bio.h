/*
 * bio.h - the I/O of one thread of a benchmark: every open and read goes through here, and is
 * counted and timed.
 */
#ifndef STK_BENCH_BIO_H
#define STK_BENCH_BIO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/stats.h"
#include "base/thread.h"
#include "model/storage.h"
#include "sched/comm.h"

/* ---- time ------------------------------------------------------------------------------------ */

/* The time of one thread of a benchmark: the machine's, or a virtual one that only waits and
 * modelled storage move. With a virtual clock every thread has its own time, and what threads hand
 * to each other carries the time at which it was handed over: the result does not depend on
 * scheduling. */

/* The storage behind a virtual clock; all zero: the real clock. */
struct stk_bench_model {
    struct stk_storage storage;
    double rate_Bps; /* of one thread, from that; 0: infinite */
    bool is_virtual;
    bool hangs; /* no request ever returns, on rank hangs_on only */
    uint32_t hangs_on;
};

struct stk_bench_clock {
    const struct stk_bench_model *model;
    double now_s; /* virtual */
};

double stk_bench_now(const struct stk_bench_clock *c);
/* Waits until that time, or returns at once if it has passed. */
void stk_bench_until(struct stk_bench_clock *c, double at_s);
/* Uses that much CPU time in this thread; virtual: that much time passes. It goes through `work`
 * again and again, as decoding goes through its pictures: the caches of the core are not the
 * kernel's any more afterwards, and the next calls take longer. */
void stk_bench_burn(struct stk_bench_clock *c, double cpu_s, uint8_t *work, size_t size);
/* Virtual: not before that time, at which another thread handed something over. */
void stk_bench_after(struct stk_bench_clock *c, double at_s);
/* Virtual: the time that a request of that many bytes takes. */
void stk_bench_spend(struct stk_bench_clock *c, uint64_t bytes);

/* ---- what was asked of storage --------------------------------------------------------------- */

/* What a thread asked of storage: requests, bytes, sizes, order and times. Tallies of threads and
 * ranks can be merged. No pointers: a rank sends its tally to another as it is. */
#define STK_TALLY_SIZES  16 /* distinct request sizes that are counted one by one */
#define STK_TALLY_COUNTS 10 /* bins of sizes */

struct stk_io_tally_size {
    uint64_t bytes, count;
};

struct stk_io_tally {              /* all zero: empty */
    uint64_t samples, asked_bytes; /* samples, and the bytes that they have */
    uint64_t opens, requests, bytes;
    uint64_t stats, seeks;
    uint64_t first;       /* requests that were the first after their file was opened */
    uint64_t sequential;  /* of the others: beyond the end of the one before... */
    uint64_t consecutive; /* ...and of those: right at its end */
    uint64_t bin[STK_TALLY_COUNTS];
    struct stk_io_tally_size size[STK_TALLY_SIZES]; /* count 0: free */
    uint64_t other_sizes;                        /* requests of sizes beyond those */
    double request_s, open_s;                    /* open_s: all but requests */
    struct stk_histogram latency;                /* ns per request */
    struct stk_histogram rate;                   /* bytes per second of a request */
};

/* The upper limits of the bins, in bytes; the last has none. As in Darshan. */
extern const uint64_t stk_io_tally_limit[STK_TALLY_COUNTS];
extern const char *const stk_io_tally_bin_name[STK_TALLY_COUNTS];

void stk_io_tally_merge(struct stk_io_tally *into, const struct stk_io_tally *from);
/* The most frequent size; {0, 0}: no request. */
struct stk_io_tally_size stk_io_tally_common(const struct stk_io_tally *t);

struct stk_bio {
    struct stk_bench_clock *clock;
    struct stk_io_tally *tally;
    int dirfd;       /* the data folder. Borrowed */
    const char *dir; /* its name in messages. Borrowed */
    int cache;       /* enum stk_bench_cache */
};

/* A file that is open for reading. */
struct stk_bio_file {
    int fd;             /* -1: none */
    uint64_t size, end; /* end: of the last request */
    bool fresh;         /* no request yet */
    char name[1024];    /* in the data folder; cut if longer: for messages */
};
#define STK_BIO_NONE ((struct stk_bio_file){.fd = -1})

int stk_bio_open(struct stk_bio *b, const char *name, struct stk_bio_file *f, struct stk_err *err);
/* The same without checks for a regular file that the caller found. */
int stk_bio_open_found(struct stk_bio *b, const char *name, struct stk_bio_file *f,
                       struct stk_err *err);
int stk_bio_stat(struct stk_bio *b, const char *name, struct stk_err *err);
void stk_bio_seek(struct stk_bio *b, struct stk_bio_file *f, uint64_t off);
/* One request: *got < n only at the end of the file. */
int stk_bio_read(struct stk_bio *b, struct stk_bio_file *f, void *p, size_t n, uint64_t off,
                 size_t *got, struct stk_err *err);
/* The same into a smaller buffer of `room` bytes, no less than n / 64, which is filled again and
 * again: still one call. */
int stk_bio_read_over(struct stk_bio *b, struct stk_bio_file *f, void *p, size_t room, size_t n,
                      uint64_t off, size_t *got, struct stk_err *err);
/* Counts a request that was made in another way. */
void stk_bio_count(struct stk_bio *b, struct stk_bio_file *f, uint64_t off, uint64_t n,
                   double seconds);
/* Also for a file that is not open. */
void stk_bio_close(struct stk_bio *b, struct stk_bio_file *f);

/* ---- storage that does not answer ------------------------------------------------------------ */

/* How long a rank waits for storage, and the thread that storage may hold for ever. */
#define STK_PATIENCE_S 300.0 /* unless told */

struct stk_bench_patience {
    struct stk_comm *comm; /* may be NULL; borrowed, as dir is, which is for messages */
    const char *dir;
    double seconds; /* without progress; 0: STK_PATIENCE_S */
    struct stk_thread *thread;
    bool stuck; /* it did not return: nothing that it uses may be freed, and no call be made */
};

int stk_bench_patience_open(struct stk_bench_patience *p, struct stk_err *err);
/* Runs fn(user) in the thread and waits. STK_E_STOPPED and p->stuck: there was no progress for so
 * long, or a rank was lost. drop: see stk_thread_begin(). */
int stk_bench_within(struct stk_bench_patience *p, stk_thread_fn *fn, void (*drop)(void *user),
                     void *user, struct stk_err *err);
/* From fn: something has come back. Negative: nobody waits any more. */
int stk_bench_beat(struct stk_bench_patience *p);
void stk_bench_patience_close(struct stk_bench_patience *p);

#endif
