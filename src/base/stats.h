/*
 * stats.h - what a handful of repeated times shows: middle, spread, intervals, outliers; and
 * histograms of many.
 *
 * Nothing assumes a normal distribution unless it says so. Intervals of the median come from order
 * statistics; with too few runs for 95 %, the interval is the range, and marked as such.
 */
#ifndef STK_BASE_STATS_H
#define STK_BASE_STATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/random.h"

/* Both NaN: unknown. */
struct stk_interval {
    double lo, hi;
};

bool stk_interval_known(struct stk_interval i);

struct stk_summary {
    size_t n;
    double median, mean, min, max;
    double sd;                     /* NaN with one value */
    double mad;                    /* median absolute deviation, not scaled */
    struct stk_interval median_ci; /* NaN with one value */
    double coverage;               /* how often such an interval contains the median; 0: no
                                      interval */
    bool ci_is_range;              /* fewer than 6 values: smallest to largest */
    struct stk_interval mean_ci;   /* 95 %, Student's t: assumes a normal distribution */
    double outlier_off;            /* values farther than this from the median are outliers */
    size_t outliers;
    bool first_is_slow_outlier; /* typical without a warm-up */
};

/* Summarises v[0..n), all finite, in the order of the runs. False: out of memory, or n is 0. */
bool stk_summarise(const double *v, size_t n, struct stk_summary *out);
/* Half of the interval, relative to the median: runs are repeated until it is small enough. Few
 * runs: Student's, since the range of three says little; from six on that of the median. It is looked
 * at after every run, which does not make what is said of the runs untrue (test_verdict.c). */
double stk_half_width(const struct stk_summary *s);

#define STK_MODES_MAX 4

/* Groups of values with wide gaps between them. */
struct stk_modes {
    size_t n; /* groups; 1: the values do not fall apart */
    struct {
        double median;
        size_t runs;
    } mode[STK_MODES_MAX]; /* ascending */
    double cut;            /* values above it are not of the first mode */
};
/* Sorts v[0..n), all above 0. Modes have at least two values each, of at least five, and gaps of more
 * than 10 % that are 24 / (n - modes) times as wide as any group, and at least 3 times (in
 * logarithms). The fewest modes for which that holds count. */
struct stk_modes stk_modes_of(double *v, size_t n);

/* For qsort(). */
int stk_by_f64(const void *a, const void *b);
int stk_by_u64(const void *a, const void *b);

/* Sorts v. */
double stk_median(double *v, size_t n);
/* The middle 95 % of v, which must be sorted. */
struct stk_interval stk_middle95(double *v, size_t n);
/* Two-sided 95 % quantile of Student's t; dof may be a fraction. NaN below 1. */
double stk_t95(double dof);
/* The same for any two-sided error: 0.05 gives stk_t95(). */
double stk_t_of(double dof, double error);

/* How many single runs a median of this many is worth, for normal noise: 2/pi of them in the
 * limit. */
double stk_median_worth(double runs);

/* The step in which values were counted: 1 for whole seconds, 0.1, 0.01, 0.001; 0 for a finer one.
 * Runs that are alike to the last digit do not show how far apart they are. */
double stk_step_of(const double *v, size_t n);

/* How much runs of the same thing differ, over all N of a study. */
enum stk_noise_verdict {
    STK_NOISE_UNKNOWN, /* nothing was repeated */
    STK_NOISE_QUIET,   /* up to 2 % */
    STK_NOISE_FAIR,    /* up to 5 % */
    STK_NOISE_NOISY,   /* up to 10 % */
    STK_NOISE_BAD
};
struct stk_noise {
    double relative_sd; /* of one run, pooled, without outliers; NaN: unknown */
    double dof;
};
/* Adds the runs of one N to the pool. Start with {0}. */
void stk_noise_add(struct stk_noise *pool, const double *v, size_t n);
/* Turns the sums into the result. */
void stk_noise_finish(struct stk_noise *pool);
/* The noise without that of one N, whose own pool (unfinished) is `own`. */
struct stk_noise stk_noise_without(const struct stk_noise *pool, const struct stk_noise *own);
/* The noise of the runs of one N: the pool's, or *room with their own if they differ by clearly
 * more than the others do. own: their own pool (unfinished); NULL: not known. Borrowed: valid as long as
 * both. */
const struct stk_noise *stk_noise_of(const struct stk_noise *pool, const struct stk_noise *own,
                                     struct stk_noise *room);
enum stk_noise_verdict stk_noise_verdict(const struct stk_noise *noise);
const char *stk_noise_word(enum stk_noise_verdict v);

double stk_random_normal(uint64_t *state); /* mean 0, sd 1 */

/* ---- histograms ------------------------------------------------------------------------------ */

/* The distribution of times or sizes: counts in buckets that grow with the value.
 *
 * Takes sixteen kilobytes. Percentiles are accurate to 1 in 32 (exact below 64); mean, smallest
 * and largest are exact. One thread at a time. */

#define STK_HISTOGRAM_SUB     32u /* buckets per power of two */
#define STK_HISTOGRAM_BUCKETS (60u * STK_HISTOGRAM_SUB)

struct stk_histogram { /* all zero: empty */
    uint64_t count, min, max;
    double sum;
    uint64_t bucket[STK_HISTOGRAM_BUCKETS];
};

void stk_histogram_add(struct stk_histogram *h, uint64_t value);
void stk_histogram_merge(struct stk_histogram *into, const struct stk_histogram *from);
/* The value below or at which `fraction` (0 to 1) of all values lie; 0 when empty. Never below the
 * true percentile, and at most 1 in 32 above it. */
uint64_t stk_histogram_percentile(const struct stk_histogram *h, double fraction);
double stk_histogram_mean(const struct stk_histogram *h); /* 0 when empty */
/* How many values have `power` as their binary logarithm, rounded down; 0 counts as 1. */
uint64_t stk_histogram_octave(const struct stk_histogram *h, unsigned power);

#endif
