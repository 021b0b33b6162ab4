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
    STK_VERDICT_SAME,      /* the whole interval is within what changes no decision */
    STK_VERDICT_NO_FASTER, /* by less than what is looked for; how much slower is not known */
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
/* From pairs that ran beside each other, as many as were planned: log(time of b / time of a) of
 * each. */
struct stk_verdict stk_verdict_of_pairs(const double *log_ratio, size_t n, double within);

/*
 * Candidates against one baseline, looked at while their runs are made. What is decided is whether
 * each is faster by more than `least`: FASTER; SAME, SLOWER, NO_FASTER: it is not; NOT_KNOWN: more
 * runs may show it.
 *
 * A comparison that is looked at after every run finds a difference sooner or later, and so does
 * one of many. So the pairs are looked at after fixed numbers of them, and the error of one in
 * forty is divided among these looks (their shares add up to 1: true however the looks depend on
 * each other) and among the candidates by Holm's rule: once one is faster, the error is divided
 * among the rest. Hence in at most one of forty studies is any candidate called faster that is not,
 * whatever ends the study. In the other direction each candidate has its own error of one in forty.
 */
#define STK_LOOKS_FIRST 3  /* pairs at the first look */
#define STK_LOOKS_LAST  20 /* and at the last: further ones would change nothing */
struct stk_trial {
    const double *log_ratio;    /* log(time of the baseline / time of the candidate) of each pair */
    size_t n;                   /* pairs, in the order in which they were made */
    struct stk_verdict verdict; /* of those at the look that decided, or at the last one so far */
};
void stk_verdict_of_trials(struct stk_trial *trial, size_t n, double least);
/* "At most one study in forty calls a change faster that gains less than 3 %" */
const char *stk_verdict_promise(double least, char *buf, size_t size);

/* Half of the interval of log(times). NaN: the noise is not known. */
double stk_verdict_slack(const struct stk_verdict *v);

const char *stk_verdict_id(enum stk_verdict_kind kind); /* "not-known" */
/* "faster", "same within 4 %", "not known": for a table. */
const char *stk_verdict_word(const struct stk_verdict *v, char *buf, size_t size);
/* The same with its numbers, to follow "A against B: ". */
#define STK_VERDICT_TEXT 224
const char *stk_verdict_text(const struct stk_verdict *v, char *buf, size_t size);

#endif
