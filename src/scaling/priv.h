/* priv.h - shared by the files of scaling. */
#ifndef STK_SCALING_PRIV_H
#define STK_SCALING_PRIV_H

#include "scaling/scaling.h"

/* What the runs show of row a of series s against row b of series t, which may be s. */
struct stk_verdict stk_scaling_verdict(const struct stk_scaling_series *s,
                                       const struct stk_scaling_row *a,
                                       const struct stk_scaling_series *t,
                                       const struct stk_scaling_row *b, size_t among);
/* The same of their SUs in place of their times: they have the same noise. */
struct stk_verdict stk_scaling_verdict_of_su(const struct stk_scaling_series *s,
                                             const struct stk_scaling_row *a,
                                             const struct stk_scaling_row *b, size_t among);
/* The same of their time times their SUs, which has twice the noise of either. */
struct stk_verdict stk_scaling_verdict_of_balance(const struct stk_scaling_series *s,
                                                  const struct stk_scaling_row *a,
                                                  const struct stk_scaling_row *b, size_t among);
/* The error (95 %) of the logarithm of the ratio of two rows' medians. NaN: noise unknown. */
double stk_scaling_slack(const struct stk_scaling_series *s, const struct stk_scaling_row *a,
                         const struct stk_scaling_row *b);

/* SUs of the same work: SUs per hour times the cost of the work, which is also right for a metric
 * other than the wall clock and for work that grows. */
double stk_scaling_price(const struct stk_scaling_row *r);

void stk_scaling_plateau(struct stk_scaling_series *s); /* advise_n.c */
void stk_scaling_choose(const struct stk_scaling *all, struct stk_scaling_series *s);
int stk_scaling_cautions(struct stk_scaling *all, size_t series,
                         struct stk_err *err); /* scaling/caution.c */
int stk_scaling_modes(struct stk_scaling *all, size_t series,
                      struct stk_err *err);                            /* scaling/modes.c */
int stk_scaling_compare(struct stk_scaling *all, struct stk_err *err); /* scaling/compare.c */
/* Adds a caution; the text is copied. */
int stk_scaling_warn(struct stk_scaling *all, size_t series, const char *id, struct stk_err *err,
                     const char *fmt, ...) STK_PRINTF(5, 6);

const char *stk_scaling_number(size_t modes); /* "two" */
/* The row of an N with a good run; NULL: none. */
const struct stk_scaling_row *stk_scaling_row_at(const struct stk_scaling_series *s, uint64_t n);
/* Fills all->placement (scaling/placement.c). */
void stk_scaling_place(struct stk_scaling *all);

#endif
