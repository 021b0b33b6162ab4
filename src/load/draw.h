/*
 * draw.h - samples chosen by chance: a dataset divided into parts, and draws by weight. Everything
 * is a pure function of its arguments: the same on every machine and rank.
 */
#ifndef STK_LOAD_DRAW_H
#define STK_LOAD_DRAW_H

#include "base/err.h"

#define STK_PARTS_MAX 255

/* Divides n samples into `nparts` parts of the given shares (positive, 1 in all at most) and writes
 * which part each sample is in; nparts: in none. Part k has share[k] * n samples, rounded up or
 * down (exactly that many where it is a whole number). strata: NULL, or a number below nstrata for
 * each sample; every stratum then is divided in the same proportions, as nearly as whole samples
 * allow. */
int stk_divide(uint64_t n, const uint32_t *strata, uint32_t nstrata, const double *share,
               size_t nparts, uint64_t seed, uint8_t *part, struct stk_err *err);

/* Draws `count` of n samples by weight, with replacement. STK_E_USAGE: a weight is negative or not
 * finite, or all are 0. */
int stk_draw(const double *weight, uint64_t n, uint64_t seed, uint64_t epoch, uint64_t *out,
             uint64_t count, struct stk_err *err);

#endif
