/*
 * bend.h - N equal jobs at once on one storage: up to which N their time stays flat, and where it
 * begins to rise.
 *
 * T1 is the time of one job alone. Two laws, each with one parameter besides T1:
 *   limit       t = T1 max(1, N / B): every job runs as if alone until B of them need all that the
 *               storage can give; beyond that they share it, and the time grows with N
 *   contention  t = T1 (1 + f (N - 1)): every further job adds the same, from the second on
 * None is fitted if the runs leave it unclear whether an N before the rise takes longer: a law
 * would name a bend among N of which nothing is known.
 */
#ifndef STK_SCALING_BEND_H
#define STK_SCALING_BEND_H

#include "base/verdict.h"
#include "scaling/law.h"

enum stk_bend_kind {
    STK_BEND_UNKNOWN, /* fewer than two N, or the runs do not show where it bends */
    STK_BEND_FLAT,    /* every measured N is shown to take as long as the smallest */
    STK_BEND_LIMIT,
    STK_BEND_CONTENTION,
    STK_BEND_KINDS
};
const char *stk_bend_id(enum stk_bend_kind kind); /* "limit" */

#define STK_BEND_TOLERANCE 0.10 /* longer than T1 by less than this counts as flat, */
#define STK_BEND_WITHIN    0.20 /* if the runs show that it is not longer by more than this */
#define STK_BEND_POINTS    3    /* N that a law needs: any two points are on a curve of it */

struct stk_bend {
    enum stk_bend_kind kind;
    uint64_t flat_to;  /* the last measured N up to which all take as long as the smallest */
    double flat_within; /* the largest difference among them that the runs allow; 0: one N */
    uint64_t rises_at; /* the first measured N that takes longer; 0: none */
    uint64_t unclear_at;        /* the first of which neither is shown, if below rises_at; 0: none, */
    struct stk_verdict unclear; /* and what is known of it */
    double t1_s;
    double at;              /* B; NaN unless LIMIT */
    double share;           /* f; NaN unless CONTENTION */
    struct stk_interval ci; /* 95 %, of B or f; NaN: cannot be determined */
    double rms;             /* root mean square residual of log(t) */
    bool poor;              /* the law misses the points by more than STK_LAW_POOR */
};

/* The members weak, throughput of d are not used. */
void stk_bend_fit(const struct stk_law_data *d, struct stk_bend *out);
/* The time the law gives for n; NaN: no law. */
double stk_bend_time(const struct stk_bend *b, double n);

#endif
