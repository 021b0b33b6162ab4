/*
 * plan.h - the order of samples: a pure function of (seed, epoch, shuffle settings, what is done).
 *
 * Nothing here is stored per sample. An epoch is a sequence of n positions; `order` turns a
 * position into a sample. Rank r of W has the r-th of W contiguous parts of what is left of the
 * sequence (sizes differ by one at most). To resume with another number of ranks, the samples that
 * each of the W earlier ranks consumed are removed, and the remaining shorter sequence is divided
 * again.
 */
#ifndef STK_LOAD_PLAN_H
#define STK_LOAD_PLAN_H

#include "base/buf.h"
#include "base/err.h"
#include "base/random.h"

#define STK_PLAN_SAMPLES_MAX (1ull << 62) /* no sum of the arithmetic below can overflow */
#define STK_PLAN_WORLD_MAX   (1u << 20)
#define STK_LEGS_MAX       64
/* Increases when the same settings give another order. A state in the middle of an epoch of another
 * version cannot be resumed: different samples are left. */
#define STK_ORDER_VERSION 2

/* ---- the order of an epoch ---- */

struct stk_div { /* dividing by d with a multiplication */
    uint64_t d, reciprocal;
};

/*
 * BLOCK: the samples are cut into blocks; as many adjacent blocks as there are windows form a
 * stratum, and every window has one block of each stratum. So each window has samples from all over
 * the data in equal shares, however the data is sorted. Which block of a stratum: window w has
 * number perm(w) + turn, around the end, with a turn for each stratum. There are as few windows of
 * up to `window` blocks as possible, and their sizes differ by at most one block (if the last
 * stratum has fewer blocks than windows, the first windows have them). The samples of a window come
 * in rounds: one of each of its blocks, blocks and samples of a block in random order. Finally, all
 * samples are rotated by `rotate`, so that the borders of blocks and strata differ in every epoch.
 */
struct stk_order {
    uint64_t n;
    int shuffle; /* enum stk_shuffle */
    uint64_t seed, epoch;
    uint64_t block, window; /* BLOCK: samples per block, blocks per window at most */
    /* Derived. */
    uint64_t key, rotate;
    uint64_t nblocks, nwindows;
    uint64_t short_at, deficit; /* position of the last block, and how many samples it lacks */
    uint64_t cut;               /* first position after it: positions after its end shift */
    uint64_t big_windows;       /* number of windows, from the first, with one block more */
    uint64_t last_turn;         /* of the last stratum, if all windows have a block of it */
    struct stk_div by_block, by_big, by_small; /* samples per block, blocks per big and small
                                                * window */
    struct stk_perm perm;                      /* GLOBAL: of the samples; BLOCK: of the windows */
};

/* n <= STK_PLAN_SAMPLES_MAX. block and window are ignored unless shuffle is BLOCK (0: 1; at most
 * the whole). */
void stk_order_init(struct stk_order *o, uint64_t n, int shuffle, uint64_t seed, uint64_t epoch,
                    uint64_t block, uint64_t window);
/* The settings of a loader with these options (checked: stk_loader_options_check()), for
 * stk_order_init(): n, shuffle, seed, block and window; *out is not initialised otherwise. */
struct stk_dataset;
struct stk_loader_options;
void stk_order_of(const struct stk_dataset *ds, const struct stk_loader_options *o,
                  struct stk_order *out);
/* The sample at position p (< n). A bijection. */
uint64_t stk_order_at(const struct stk_order *o, uint64_t p);
/* Positions [*first, *end) in the window of p, which may be worth reading together. All positions
 * for GLOBAL and NONE. */
void stk_order_window(const struct stk_order *o, uint64_t p, uint64_t *first, uint64_t *end);
extern const char *const stk_shuffle_names[]; /* by enum stk_shuffle, NULL at the end */
const char *stk_shuffle_name(int shuffle);    /* "block" */

/* ---- the part of a rank ---- */

/* A point at which the epoch was interrupted: each of `world` ranks had received `done` slots of
 * its part, and rank r had used refill[r] more from the end of its part to replace bad samples.
 * `done` may extend past the end of a part (with repeats) or into the refilled slots, without
 * further effect. */
struct stk_leg {
    uint32_t world;
    uint64_t done;
    uint64_t *refill; /* world of them, or NULL: none */
    /* Derived by the plan: */
    uint64_t n;       /* length of the sequence this leg divided */
    uint64_t *before; /* with refill: samples left by ranks below r, world + 1 entries */
};

/*
 * Slots count the samples of a rank from the start of this plan. If the newest leg had the
 * current number of ranks, the plan resumes within that leg's parts: every rank gets exactly the
 * samples it would have got without the interruption (with the same batch size and `last`), repeats
 * included, and does not need the refills of other ranks. `given` and `refilled` are what that
 * leg had consumed of this rank's part.
 */
struct stk_plan {
    struct stk_order order;
    struct stk_leg *leg; /* oldest first; without the leg being resumed */
    size_t nlegs;
    uint64_t *refill; /* of the leg being resumed: world of them, or NULL */
    uint64_t left;    /* length of the sequence being divided */
    uint32_t rank, world, batch;
    int last; /* enum stk_last */
    /* Derived: */
    uint64_t first, size;     /* this rank's part of that sequence */
    uint64_t given, refilled; /* before this plan began */
    uint64_t steps;           /* the same on every rank */
    uint64_t slots;           /* samples of this rank: the sum over its batches */
};

/* Follows legs (oldest first) from n samples on: sets their n, and *left to the samples left by
 * the newest. STK_E_CORRUPT if they contradict n or each other. */
int stk_legs_check(struct stk_leg *leg, size_t nlegs, uint64_t n, uint64_t *left,
                   struct stk_err *err);

/* Plans the rest of the epoch. Copies legs (oldest first). Caller releases with
 * stk_plan_release(), not needed after an error. */
int stk_plan_init(struct stk_plan *p, const struct stk_order *o, const struct stk_leg *leg,
                  size_t nlegs, uint32_t rank, uint32_t world, uint32_t batch, int last,
                  struct stk_err *err);
void stk_plan_release(struct stk_plan *p);
/* Position in the epoch of element k (< left) of the sequence being divided. */
uint64_t stk_plan_position(const struct stk_plan *p, uint64_t k);
/* The sample in slot s (< slots) of this rank; *repeat: it occurs elsewhere in this epoch, too. */
uint64_t stk_plan_sample(const struct stk_plan *p, uint64_t s, bool *repeat);
/* The same after this plan has taken `refills` samples from the end of the part: the part ends that
 * much earlier, and later slots are repeats. */
uint64_t stk_plan_sample_after(const struct stk_plan *p, uint64_t s, uint64_t refills,
                               bool *repeat);
/* Samples in batch `step` (< steps). */
uint64_t stk_plan_batch_size(const struct stk_plan *p, uint64_t step);
/* Refill i (from 0) of this plan: the sample i positions before the end of the part, less earlier
 * refills; false if that is below slot `used` (slots delivered so far, including those in
 * progress). */
bool stk_plan_refill(const struct stk_plan *p, uint64_t used, uint64_t i, uint64_t *sample);

/* ---- the state of a loader ---- */

struct stk_state {
    uint64_t n, dataset_id;
    int shuffle;
    unsigned order;                      /* version of the order, which defines block and window */
    uint64_t seed, epoch, block, window; /* block, window: 0 unless shuffle is BLOCK */
    bool former; /* of a version without a checksum that identified a dataset by its shape */
    struct stk_leg leg[STK_LEGS_MAX];
    size_t nlegs;
};

/* The state of this rank after `slots` slots and `refills` refills of plan p. The other ranks'
 * refills are those known when the plan began. To resume: stk_order_init() from the state's
 * settings, stk_plan_init() with its legs. At the end of an epoch write the state of the next
 * one instead: a plan without legs, 0, 0. Caller releases with stk_state_release(). */
int stk_plan_state(const struct stk_plan *p, uint64_t slots, uint64_t refills, uint64_t dataset_id,
                   struct stk_state *out, struct stk_err *err);
/* JSON, one line without a newline, appended to out. */
int stk_state_write(const struct stk_state *s, struct stk_buf *out, struct stk_err *err);
/* Trusts nothing: the checksum is compared and every number checked. Caller releases with
 * stk_state_release(), not needed after an error. */
int stk_state_read(const char *text, size_t len, struct stk_state *s, struct stk_err *err);
void stk_state_release(struct stk_state *s);
/* Merges the states of all ranks at one moment (they differ only in refills): needed to resume with
 * another number of ranks if samples were refilled. Caller releases out. */
int stk_state_merge(const struct stk_state *s, size_t nstates, struct stk_state *out,
                    struct stk_err *err);
/* The same, written to out. */
int stk_state_write_merged(const struct stk_state *s, size_t nstates, struct stk_buf *out,
                           struct stk_err *err);

/* ---- how good a shuffle is ---- */

struct stk_mixing {
    uint64_t looked_at;  /* positions */
    double moved;        /* mean |sample - position| / n; 1/3 for a random order */
    double moved_random; /* of a random order for this n */
    double kept;         /* share of neighbours in the order that are neighbours in the data */
    double kept_random;
    double spread; /* mean share of distinct parts of the data (64 equal ones) in a batch... */
    double spread_random;           /* ...and of random batches of that size */
    double classes, classes_random; /* the same for labels; 0 when there are none */
};

/* label: NULL, or returns the class of a sample (negative: unknown). Examines at most `budget`
 * positions, in whole batches all over the epoch; a larger batch is cut. */
int stk_mixing_measure(const struct stk_order *o, uint64_t batch, uint64_t budget,
                       int64_t (*label)(void *user, uint64_t sample), void *user,
                       struct stk_mixing *out, struct stk_err *err);

/* True if samples of a class are adjacent in the data, so that a sample `apart` samples further on
 * is mostly of the same class. Probes some hundred positions. */
bool stk_mixing_together(uint64_t n, uint64_t apart, int64_t (*label)(void *user, uint64_t sample),
                         void *user);

struct stk_glance {                       /* of the first window of an epoch: */
    uint64_t samples, classes, of_random; /* classes among the samples; classes in a random order */
};

/* True if a BLOCK order mixes data sorted by its `nclasses` classes too little: its windows have
 * less than half of the classes expected by chance, and more than four samples of each. Takes
 * microseconds for any n. */
bool stk_mixing_poor(const struct stk_order *o, uint64_t nclasses,
                     int64_t (*label)(void *user, uint64_t sample), void *user,
                     struct stk_glance *out);

/* ---- random samples -------------------------------------------------------------------------- */

/* Random samples: splits a dataset into parts, and draws by weight. Everything is a pure function
 * of its arguments: the same on every machine and rank. */

#define STK_PARTS_MAX 255

/* Splits n samples into `nparts` parts with the given shares (positive, at most 1 in all) and
 * writes the part of each sample; nparts: in none. Part k has share[k] * n samples, rounded up or
 * down (exactly if that is a whole number). strata: NULL, or a number below nstrata per sample;
 * then every stratum is split in the same proportions, as nearly as whole samples allow. */
int stk_divide(uint64_t n, const uint32_t *strata, uint32_t nstrata, const double *share,
               size_t nparts, uint64_t seed, uint8_t *part, struct stk_err *err);

/* Draws `count` of n samples by weight, with replacement. STK_E_USAGE: a weight is negative or not
 * finite, or all are 0. */
int stk_draw(const double *weight, uint64_t n, uint64_t seed, uint64_t epoch, uint64_t *out,
             uint64_t count, struct stk_err *err);

#endif
