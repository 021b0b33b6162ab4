/*
 * verdict.h - what repeated runs show about two things, and the words for it. Every sentence that
 * says that something is faster, slower or the same is made here.
 *
 * Times are compared as ratios: their logarithms have an error of about the same size on either
 * side, whose interval is Student's. The noise is that of the runs; one run of each shows none, and
 * then nothing is known, however far apart the two are.
 */
#ifndef STK_BASE_VERDICT_H
#define STK_BASE_VERDICT_H

#include "base/stats.h"

#define STK_VERDICT_ALIKE 0.05 /* a difference that changes no decision, if nothing else is said */

enum stk_verdict_kind {
    STK_VERDICT_NOT_KNOWN,
    STK_VERDICT_FASTER,
    STK_VERDICT_SLOWER,
    STK_VERDICT_SAME, /* the whole interval is within what changes no decision */
};

struct stk_verdict {
    enum stk_verdict_kind kind;
    double times;           /* how many times as fast, by the middle of the runs; NaN: no runs */
    struct stk_interval ci; /* of it, 95 %; NaN: the noise is not known */
    size_t runs;            /* of each; of the one that has fewer */
    size_t more;            /* that many more of each would show it; 0: it is known, or no number is */
    bool coarse; /* most of the interval is the step in which the times were counted */
};

/* Runs of one thing. */
struct stk_timed {
    double median; /* of their times: smaller is faster */
    size_t runs;
    const struct stk_noise *noise; /* of such runs; both may have the same */
    double step; /* in which the times were counted, as a share of the median; 0: a fine one */
};

/* a against b. within: a difference that changes no decision. among: how many comparisons are made
 * to find one that differs; 1 if the two were chosen before they were measured. */
struct stk_verdict stk_verdict_of(const struct stk_timed *a, const struct stk_timed *b,
                                  double within, size_t among);
/* One run of each, in these times: nothing is known, but a ratio was measured. */
struct stk_verdict stk_verdict_of_single(double a_s, double b_s);
/* From pairs that ran beside each other: log(time of b / time of a) of each. */
struct stk_verdict stk_verdict_of_pairs(const double *log_ratio, size_t n, double within,
                                        size_t among);

/* Half of the interval of log(times). NaN: the noise is not known. */
double stk_verdict_slack(const struct stk_verdict *v);

const char *stk_verdict_id(enum stk_verdict_kind kind); /* "not-known" */
/* "faster", "same within 4 %", "not known": for a table. */
const char *stk_verdict_word(const struct stk_verdict *v, char *buf, size_t size);
/* The same with its numbers, to follow "A against B: ". */
#define STK_VERDICT_TEXT 224
const char *stk_verdict_text(const struct stk_verdict *v, char *buf, size_t size);

#endif
