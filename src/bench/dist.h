/*
 * dist.h - a length or a time that varies: "64K", "normal(114660, 5000)", "gamma(2, 50ms)".
 *
 * A draw is a function of a number, not of the draws before it: any process finds the size of any
 * record without going through the others.
 */
#ifndef STK_BENCH_DIST_H
#define STK_BENCH_DIST_H

#include <stdint.h>

#include "base/err.h"

enum stk_dist_kind {
    STK_DIST_CONSTANT,    /* a */
    STK_DIST_NORMAL,      /* mean a, standard deviation b */
    STK_DIST_UNIFORM,     /* from a to b */
    STK_DIST_EXPONENTIAL, /* mean a */
    STK_DIST_GAMMA,       /* shape a, scale b */
    STK_DIST_POISSON,     /* whole bytes or seconds, mean a */
};

struct stk_dist {
    enum stk_dist_kind kind;
    double a, b;
};

enum stk_dist_unit { STK_DIST_BYTES, STK_DIST_SECONDS };

int stk_dist_parse(const char *text, enum stk_dist_unit unit, struct stk_dist *out,
                   struct stk_err *err);
/* The draw with that number: never negative. */
double stk_dist_at(const struct stk_dist *d, uint64_t key);
double stk_dist_mean(const struct stk_dist *d);

#endif
