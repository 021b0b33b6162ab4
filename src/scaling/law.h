/*
 * law.h - scaling laws fitted to times: Amdahl, Gustafson and the Universal Scalability Law (USL).
 *
 * Strong scaling (the problem stays the same), T1 the time of N = 1:
 *   Amdahl     t = T1 (f + (1 - f) / N)
 *   USL        t = T1 ((1 - a) / N + a + b (N - 1)); a contention, b coherence; b = 0 is Amdahl
 *   Gustafson  speedup N - f (N - 1), for comparison: its premise is a problem that grows
 * Weak scaling (the problem grows with N):
 *   Gustafson  N T1 / t = N - f (N - 1)
 *   Amdahl     t = T1 (1 + f (N - 1))
 *   USL        t = T1 (1 + a (N - 1) + b N (N - 1))
 * All are linear in the time or in its inverse, so a fit is non-negative least squares with two or
 * three columns and needs no starting values. A few Gauss-Newton steps, none of which may worsen
 * the fit, then lead to least squares of log(t).
 */
#ifndef STK_SCALING_LAW_H
#define STK_SCALING_LAW_H

#include "base/stats.h"

#define STK_LAW_POINTS_MAX 1024
#define STK_LAW_REPLICATES                                                                         \
    400 /* of the bootstrap: enough for the 2.5 % quantile to stand still                          \
         */

enum stk_law_kind { STK_LAW_AMDAHL, STK_LAW_GUSTAFSON, STK_LAW_USL, STK_LAWS };
const char *stk_law_name(enum stk_law_kind kind); /* "Amdahl's law" */
const char *stk_law_id(enum stk_law_kind kind);   /* "amdahl" */

struct stk_law_point {
    double n, time_s; /* > 0, finite; the median of the runs */
    double runs;
    const struct stk_noise *own; /* of these runs, unfinished; NULL: as all of them */
};

struct stk_law_data {
    const struct stk_law_point *point; /* borrowed; n rising, each once */
    size_t npoints;                    /* <= STK_LAW_POINTS_MAX */
    struct stk_noise noise;            /* of one run */
    bool weak;
    bool throughput; /* least squares of 1/t, as in R's usl package, instead of relative time */
    uint64_t seed;
};

struct stk_law_fit {
    enum stk_law_kind kind;
    bool ok, weak;
    double coef[3];
    unsigned ncoef;
    double t1_s;
    double serial;    /* f or a: the part that does not get faster */
    double coherence; /* b; 0 for two-parameter laws */
    struct stk_interval t1_ci, serial_ci, coherence_ci; /* 95 %; NaN: cannot be determined */
    double rms;          /* root mean square residual of log(t): about the relative error */
    double rss;          /* its sum of squares, each weighted by the runs behind a median */
    double run_variance; /* of log(t) of one run, from repeats and residuals */
    double dof;          /* of run_variance; below 1: unknown */
    double shared_width; /* by how much predictions are wider, if repeats share errors */
    double aicc;         /* NaN: too few data */
    double loo_smape;    /* leave-one-out, 0..2; NaN: too few */
    double peak_n;       /* the law's fastest N; infinite: none */
    struct stk_interval peak_ci;
    size_t nboot;
    double boot[STK_LAW_REPLICATES][3]; /* coefficients of the refits */
};

/* The fits of all laws to a series, and the chosen one. */
struct stk_laws {
    struct stk_law_fit fit[STK_LAWS];
    int chosen;    /* enum stk_law_kind, -1: none */
    int rival;     /* a richer law that the data cannot rule out, -1: none */
    bool poor;     /* the chosen law misses the points by more than STK_LAW_POOR */
    bool has_peak; /* the chosen law is fastest at an N up to twice the largest measured */
    double n_max;
    struct stk_interval serial_ci; /* of the chosen law, extended by that of the rival */
    double edge_miss; /* logarithm: how far the chosen law misses the largest N measured */
    size_t npoints;
    char reason[240]; /* for the choice: a sentence */
};

#define STK_LAW_POOR      0.15
#define STK_LAW_UNDECIDED 0.5 /* a serial part with a wider interval counts as unknown */
#define STK_LAW_EDGE                                                                               \
    0.05              /* a law that misses the last point by more predicts nothing beyond it       \
                       */
#define STK_LAW_FAR 4 /* times the largest N measured: no prediction beyond that */

/* Fits one law. ok is false with too few points, or if the fit is impossible. */
void stk_law_fit(const struct stk_law_data *d, enum stk_law_kind kind, struct stk_law_fit *out);
/* Fits all laws and chooses one. */
void stk_laws_fit(const struct stk_law_data *d, struct stk_laws *out);
/* Whether a law fits, and its serial part is known to better than half of everything. */
bool stk_laws_known(const struct stk_laws *l);
/* The time the law gives for n; NaN when it gives none. */
double stk_law_time(const struct stk_law_fit *f, double n);
double stk_law_time_of(enum stk_law_kind kind, bool weak, const double coef[3], double n);

struct stk_prediction {
    double n, time_s;
    struct stk_interval time_ci; /* 95 %, of the median; includes that of the rival law */
    bool refused;
    char why[240]; /* refused: the reason; otherwise the source of the number */
};
void stk_laws_predict(const struct stk_laws *l, double n, struct stk_prediction *out);
/* Whether the chosen law was tested well enough to predict N larger than any measured. */
bool stk_laws_reach_beyond(const struct stk_laws *l);

#endif
