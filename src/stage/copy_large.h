/*
 * copy_large.h - large files on their way: what the thread that reads (copy_large.c) and those that
 * write (copy_write.c) share.
 */
#ifndef STK_STAGE_COPY_LARGE_H
#define STK_STAGE_COPY_LARGE_H

#include "base/hash.h"
#include "io/io.h"
#include "stage/priv.h"

#define STK_COPY_LANES 16u /* at most */

/* A part being copied. */
struct flow {
    const struct stk_part *part;
    uint64_t left; /* parcels that are in flight or not submitted yet */
    uint64_t next; /* the parcel whose turn it is to be hashed */
    bool in_order; /* hash the whole file */
    bool passing;  /* a thread is taking parcels from `early` */
    bool whole;    /* the sink has all of the file */
    struct stk_hash hash;
    struct cargo *early; /* parcels that came before their turn, sorted */
};

/* Writers of one file wait for each other: parcels of several parts are read in turn. */
struct lane {
    struct flow *flow; /* NULL: none */
    uint64_t parcel;   /* of it to submit next */
};

/* A buffer and what it holds. */
struct cargo {
    struct stk_io_req req;
    struct flow *flow;
    uint64_t parcel;
    uint8_t *buf;
    uint64_t hash; /* stk_tier_hash() of the first `hashed` bytes */
    size_t hashed;
    double begun_s; /* when it was submitted */
    struct cargo *link;
};

/* Reads of a source that others read as well: what they ask for waits behind what is in flight, so
 * that is as little as keeps the source busy. */
struct gentle {
    bool on;
    double most;             /* reads in flight */
    double least_s, usual_s; /* that a read took: at least, on average; 0: none has ended */
};

struct large {
    struct stk_copying *c;
    struct stk_io *io;
    uint8_t *memory;
    size_t memory_size;
    struct cargo *cargo;
    size_t ncargos;
    const size_t *number; /* of the parts */
    struct flow *flow;    /* of each part */
    size_t n, at;         /* the next part that no lane has begun */
    struct lane lane[STK_COPY_LANES];
    unsigned nlanes, busy,
        turn; /* busy: lanes that have a part; turn: the lane that submits next */
    size_t flying;
    struct gentle gentle;
    double not_before_s; /* the rate allows no read until then */
    pthread_mutex_t lock;
    pthread_cond_t ready_cond;
    struct cargo *free, *ready, **ready_last;
    bool over; /* the writers end when nothing is ready */
    int rc;    /* the first error */
    struct stk_err err;
};

/* ---- copy_write.c ---- */

/* Keeps the first error, and ends the copy. */
void stk_large_fail(struct large *l, int rc, const struct stk_err *err);
static inline bool stk_large_stopping(const struct large *l)
{
    return atomic_load(&l->c->stop);
}
/* A buffer that is free again. */
void stk_large_give_back(struct large *l, struct cargo *x);
/* Hashes the parcels whose turn has come, and gives their buffers back. x: one that arrived, or
 * NULL. Returns how many are over. */
uint64_t stk_large_pass(struct large *l, struct flow *f, struct cargo *x);
/* The whole file is not hashed: a parcel of it is missing here. */
void stk_large_forget_hash(struct large *l, struct flow *f);
/* Counts parcels of a part that are over; the last one finishes the part. */
void stk_large_settle(struct large *l, struct flow *f, uint64_t n);
/* The first n bytes of a request have arrived, and are in the cache of this core. */
void stk_large_arrived(struct stk_io_req *req, size_t n);
/* A thread that writes what arrived. */
void *stk_large_write(void *large);

#endif
