/*
 * bio.h - the I/O of one thread of a benchmark: every open and read goes through here, and is
 * counted and timed.
 */
#ifndef STK_BENCH_BIO_H
#define STK_BENCH_BIO_H

#include "base/err.h"
#include "bench/clock.h"
#include "bench/tally.h"

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

#endif
