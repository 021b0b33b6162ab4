/*
 * draw.h - random samples: splits a dataset into parts, and draws by weight. Everything is a pure
 * function of its arguments: the same on every machine and rank.
 */
#ifndef STK_LOAD_DRAW_H
#define STK_LOAD_DRAW_H

#include "base/err.h"

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
