/*
 * scaling.h - what a study shows: speedup, efficiency, service units, the law behind the curve, the
 * plateau, the N to request, and cautions. Numbers and sentences, no output.
 *
 * Everything is computed from medians of the runs of an N (never from means of ratios). `cost` is
 * what is compared, smaller is better: seconds, or a metric, or the inverse of a rate. In a weak
 * study N does N times as much work, and `work_cost` is the cost of one unit of it.
 */
#ifndef STK_SCALING_SCALING_H
#define STK_SCALING_SCALING_H

#include "base/verdict.h"
#include "scaling/law.h"
#include "study/study.h"

#define STK_SCALING_PREDICTIONS 32

/* SU = (core * cores + gpu * gpus + node * nodes) * hours. */
struct stk_su_rates {
    double core, gpu, node;
    const char *site; /* the site they belong to; NULL: none */
};
#define STK_SU_RATES_INIT                                                                          \
    {                                                                                              \
        .core = 1, .gpu = 2                                                                        \
    }

struct stk_scaling_options {
    struct stk_su_rates su;
    int64_t cores_per_n, gpus_per_n; /* allocated, if runs do not say; 0: unknown */
    double nodes_per_n;              /* the same; a part of a node counts as a node */
    double deadline_s;               /* 0: none */
    double max_relative_su;          /* 0: none */
    const double *predict;           /* borrowed */
    size_t npredict;                 /* <= STK_SCALING_PREDICTIONS */
    bool throughput;                 /* how laws are fitted: law.h */
    uint64_t seed;                   /* of the bootstrap */
    /* Notes made while the first series was run: nnotes sentences without a full stop, each in
     * note_size bytes. Borrowed during the computation. */
    const char *note;
    size_t note_size, nnotes;
};

/* One N. NaN: unknown. */
struct stk_scaling_row {
    uint64_t n;
    size_t runs, bad, lost;  /* good; failed; cancelled or never started (stk_run_blames()) */
    enum stk_run_status why; /* of the first run that is not good; failed ones come first */
    const char *note;        /* its note, or NULL */
    const char *output;      /* the files with its output, or NULL */
    struct stk_summary cost; /* of the runs; n 0: none was good */
    struct stk_noise own;    /* their part of the noise, unfinished */
    struct stk_modes modes;
    double work_cost;
    double value; /* as measured: seconds or the metric, the median */
    struct stk_interval value_ci;
    double wall_s;
    double speedup; /* against N = 1, or against base_n, assumed to be perfect */
    struct stk_interval speedup_ci;
    /* The same against N = 1 of the series whose base is the slowest: a series that is faster has
     * more of it. */
    double common_speedup;
    struct stk_interval common_speedup_ci;
    double efficiency, karp_flatt;
    double cores, gpus, nodes; /* allocated */
    double su_per_hour;        /* of the allocation */
    double su, relative_su;
};

/* What is missing for service units: bits. */
enum stk_su_missing {
    STK_SU_NO_CORES = 1u << 0,
    STK_SU_NO_GPUS = 1u << 1,
    STK_SU_NO_NODES = 1u << 2,
    STK_SU_NO_TIME = 1u << 3, /* only rates or values: relative SUs are known */
};

/*
 * The quarter-share plateau: the smallest measured N beyond which every larger measured N delivers
 * less than a quarter of its proportional share. The share of M > N: (t_N / t_M - 1) / (M / N - 1):
 * 1 if twice the resources are twice as fast, 0 if they gain nothing.
 */
struct stk_plateau {
    bool found;
    uint64_t n;
    double best_share; /* the best share of any larger N */
    uint64_t best_n;
    bool noise_known;
    bool sure; /* noise_known, and less than a quarter even at the edge of the noise */
    bool has_last_step;
    struct stk_verdict last_step; /* the largest N against the one before it */
};
#define STK_PLATEAU_SHARE 0.25

enum stk_wish {
    STK_WISH_FASTEST,
    STK_WISH_CHEAPEST,
    STK_WISH_BALANCED,
    STK_WISH_DEADLINE,
    STK_WISH_MAX_SU,
    STK_WISHES
};
const char *stk_wish_id(enum stk_wish w); /* "fastest", "max-relative-su" */

struct stk_choice {
    bool asked, found;
    bool known; /* the runs show it; otherwise it is the N that was best as measured */
    size_t row; /* of the N */
    char sentence[384], reason[640];
};

struct stk_scaling_series {
    const struct stk_study_series *from; /* borrowed */
    struct stk_scaling_row *row;         /* n rising */
    size_t nrows, base;                  /* base: the row speedups refer to; nrows: no good run */
    size_t last;                         /* the largest N with a good run; nrows: none */
    struct stk_noise noise;
    double step;          /* in which its times were counted, as of stk_step_of() */
    bool su_known;        /* relative SUs come from the allocation; otherwise they are N / s */
    unsigned su_missing;  /* enum stk_su_missing, at any N */
    double law_share;    /* 0..1: how far the balanced wish moved the medians towards the law */
    const struct stk_scaling_row *superlinear; /* clearly more than N times as fast; NULL: none */
    struct stk_laws *laws;
    struct stk_plateau plateau;
    struct stk_choice choice[STK_WISHES];
    struct stk_prediction prediction[STK_SCALING_PREDICTIONS];
};

/* A warning about the results. */
struct stk_caution {
    const char *id; /* "noisy", "superlinear": docs/scale.md lists them */
    size_t series;
    char *text; /* a sentence */
};

/* Two series compared. */
struct stk_comparison {
    size_t a, b;
    bool accelerator; /* a has no GPUs, b has: do they pay off? */
    bool pays;        /* b costs fewer SUs than a, each at its cheapest */
    double speed;     /* best time of a / best time of b */
    uint64_t na, nb;  /* where they are at their best */
    uint64_t n;       /* the largest N that both have; 0: none */
    struct stk_verdict at_n;    /* b against a there, */
    struct stk_verdict at_best; /* and each at its best */
    double su;        /* cheapest SU of b / cheapest SU of a; NaN: unknown */
    size_t common;    /* N that both have */
    size_t clear;     /* at how many of them one is shown to be faster */
    char text[900];
};

/* Whether the same N is better packed on few nodes or spread over many. */
struct stk_placement {
    bool found;       /* the study has placements, and two of them have an N in common */
    uint64_t n;       /* the largest such N */
    size_t best;      /* the series that is fastest there, or on the fewest nodes if none clearly is */
    double speed;     /* slowest time there / fastest time */
    struct stk_verdict verdict; /* of the fastest against the slowest */
    char text[512];
};

struct stk_scaling {
    const struct stk_study *study; /* borrowed */
    struct stk_scaling_options o;
    struct stk_scaling_series series[STK_STUDY_SERIES_MAX];
    size_t nseries;
    size_t slowest; /* the series with the slowest base: of common_speedup */
    struct stk_caution *caution;
    size_t ncautions;
    struct stk_comparison *comparison;
    size_t ncomparisons;
    struct stk_placement placement;
};

/* The study must outlive it. Caller frees with stk_scaling_release(), also on error. */
int stk_scaling_compute(const struct stk_study *study, const struct stk_scaling_options *o,
                        struct stk_scaling *out, struct stk_err *err);
void stk_scaling_release(struct stk_scaling *s);
/* common_speedup for a cost at n, as of a law. */
double stk_scaling_speedup(const struct stk_scaling *s, double n, double cost);

/* "6 GPUs", "N=6": with the unit of N, which may be NULL. */
const char *stk_scaling_n_of(const char *unit, uint64_t n, char *buf, size_t size);
const char *stk_scaling_n(const struct stk_scaling *s, uint64_t n, char *buf, size_t size);
/* Copies the costs of the good runs of an N, in the order of running, to v (room for row->runs). */
size_t stk_scaling_costs(const struct stk_scaling *s, const struct stk_scaling_series *series,
                         uint64_t n, double *v);

/* ---- service units --------------------------------------------------------------------------- */

/* "core=1,gpu=2,node=0"; what is not named is 0. False: not such a text, or all are 0. */
bool stk_su_parse(const char *text, struct stk_su_rates *r);
#define STK_SU_HOW "write core=1,gpu=2,node=0, numbers from 0 to 1000000"
/* SUs per hour of an allocation; a negative count is unknown. NaN: a weight counts what is
 * unknown. */
double stk_su_per_hour(const struct stk_su_rates *r, double cores, double gpus, double nodes);

#endif
