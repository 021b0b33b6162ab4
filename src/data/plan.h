/*
 * plan.h - the order of samples: a pure function of (seed, epoch, shuffle settings, what is done).
 *
 * Nothing here is stored per sample. An epoch is a sequence of n positions; `order` turns a position
 * into a sample. Rank r of W has the r-th of W contiguous parts of what is left of the sequence
 * (sizes differ by one at most). Going on with another number of ranks: what each of the W ranks
 * before had consumed of its part is cut out, and the rest is a shorter sequence to divide anew.
 */
#ifndef STK_DATA_PLAN_H
#define STK_DATA_PLAN_H

#include "base/buf.h"
#include "base/err.h"
#include "data/perm.h"

struct stk_order {
    uint64_t n;
    int shuffle;            /* enum stk_shuffle */
    uint64_t seed, epoch;
    uint64_t block, window; /* BLOCK: samples a block, blocks a window */
    /* Derived. */
    uint64_t nblocks, short_at, deficit, rotate;
    struct stk_perm blocks, all;
};

/* block and window are ignored unless shuffle is BLOCK (0: 1). */
void stk_order_init(struct stk_order *o, uint64_t n, int shuffle, uint64_t seed, uint64_t epoch,
                    uint64_t block, uint64_t window);
/* The sample at position p (< n). A bijection. */
uint64_t stk_order_at(const struct stk_order *o, uint64_t p);
/* Positions [*first, *end) that share a window with p: what may be worth reading together. All of
 * it for GLOBAL and NONE. */
void stk_order_window(const struct stk_order *o, uint64_t p, uint64_t *first, uint64_t *end);

/* A time the epoch was left: `world` ranks had consumed `done` samples each of their parts, and
 * rank r had used up refill[r] more from the end of its part in place of bad ones. */
struct stk_stage {
    uint32_t world;
    uint64_t done;
    uint64_t *refill; /* world of them, or NULL: none */
    uint64_t n;       /* length of the sequence this stage divided (derived) */
};

struct stk_plan {
    struct stk_order order;
    struct stk_stage *stage; /* older ones first */
    size_t nstages;
    uint64_t left; /* length of the sequence that is divided now */
    uint32_t rank, world, batch;
    int last; /* enum stk_last */
    /* Derived: */
    uint64_t first, size; /* this rank's part */
    uint64_t steps;       /* the same on every rank */
    uint64_t slots;       /* samples this rank gives out: the sum over its batches */
};

#define STK_STAGES_MAX 64

/* Plans what is left of the epoch. stages are copied. Caller releases with stk_plan_release(). */
int stk_plan_init(struct stk_plan *p, const struct stk_order *o, const struct stk_stage *stage,
                  size_t nstages, uint32_t rank, uint32_t world, uint32_t batch, int last,
                  struct stk_err *err);
void stk_plan_release(struct stk_plan *p);
/* Position in the epoch of element k (< left) of what is left. */
uint64_t stk_plan_position(const struct stk_plan *p, uint64_t k);
/* The sample in slot s (< slots) of this rank; *repeat: it stands elsewhere in this epoch too. */
uint64_t stk_plan_sample(const struct stk_plan *p, uint64_t s, bool *repeat);
/* Samples in batch `step`. */
uint64_t stk_plan_batch_size(const struct stk_plan *p, uint64_t step);
/* Refill i (from 0) of this rank: the sample i places before the end of its part; false when that
 * would reach below slot `used` (slots given out so far). */
bool stk_plan_refill(const struct stk_plan *p, uint64_t used, uint64_t i, uint64_t *sample);

/* ---- the state a loader is resumed from ---- */

struct stk_state {
    uint64_t n, dataset_id;
    int shuffle;
    uint64_t seed, epoch, block, window;
    struct stk_stage stage[STK_STAGES_MAX];
    size_t nstages;
};

/* JSON, one line. */
int stk_state_write(const struct stk_state *s, struct stk_buf *out, struct stk_err *err);
/* Trusts nothing: every number is checked. Caller releases with stk_state_release(). */
int stk_state_read(const char *text, size_t len, struct stk_state *s, struct stk_err *err);
void stk_state_release(struct stk_state *s);
/* Puts the states of all ranks of one moment together (they differ in refills only). */
int stk_state_merge(const struct stk_state *s, size_t nstates, struct stk_state *out,
                    struct stk_err *err);

/* ---- how good a shuffle is ---- */

struct stk_mixing {
    uint64_t looked_at;   /* positions */
    double moved;         /* mean |sample - position| / n; 1/3 for a random order */
    double moved_random;  /* what a random order has for this n */
    double kept;          /* share of neighbours in the order that are neighbours in the data */
    double kept_random;
    double spread;        /* mean share of distinct parts of the data (64 equal ones) in a batch... */
    double spread_random; /* ...and what random batches of that size would have */
    double classes, classes_random; /* the same for labels; 0 when there are none */
};

/* label: NULL, or gives the class of a sample (negative: unknown). Looks at `budget` positions at
 * most, in whole batches taken all over the epoch. */
int stk_mixing_measure(const struct stk_order *o, uint64_t batch, uint64_t budget,
                       int64_t (*label)(void *user, uint64_t sample), void *user,
                       struct stk_mixing *out, struct stk_err *err);

#endif
