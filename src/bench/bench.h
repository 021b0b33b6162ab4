/*
 * bench.h - a benchmark from start to end: ranks, calibration, run, and the results of all ranks.
 */
#ifndef STK_BENCH_BENCH_H
#define STK_BENCH_BENCH_H

#include "base/json_fields.h"
#include "bench/plan.h"
#include "bench/rank.h"
#include "bench/workload.h"
#include "host/beacon.h"

/* A machine that keeps less of the pace without I/O is the limit itself. */
#define STK_BENCH_PACE 0.99

/* The same run with I/O off: how well this machine keeps the pace of the steps. */
struct stk_bench_calibration {
    bool done;
    uint64_t steps;
    double utilisation; /* by the machine's clock, of the slowest rank */
    double step_s;      /* mean computing time of a step */
};

struct stk_feed;
struct stk_fs;

struct stk_bench_result {
    const struct stk_workload *w; /* borrowed */
    char kind[32];                /* of the communicator: "alone", "forked", "openmpi", ... */
    bool is_virtual, stoker;
    bool mpiio; /* collective reads went through MPI-IO */
    struct stk_bench_rank *rank; /* by number; NULL: this is not rank 0 */
    uint32_t ranks;
    int64_t lost; /* a rank that died or hung; -1: none */
    char why_lost[200];
    struct stk_bench_calibration calibration;
    /* Of all ranks. */
    struct stk_io_tally io;
    struct stk_histogram step;
    double step_stdev_s;
    struct stk_course course;
    double utilisation, utilisation_least, mlperf; /* mean, least, mean */
    uint32_t slowest;                              /* the rank that waited longest for data */
    double wait_median_s;                          /* of the ranks */
    double wall_s, samples_per_s;                  /* of the measured steps */
    double epoch_s; /* seconds until every sample was read once, with what precedes the first step
                       spread over the epochs; from the measured steps. NaN: unknown */
    double io_share; /* of the run: waiting for data, loading before the first step, checkpoints; mean */
    double io_share_steps; /* of the measured steps: waiting for data and checkpoints; mean */
    int64_t device_bytes;    /* -1: not known */
    const struct stk_fs *fs; /* of the data; NULL: there is none */
    uint64_t memory_bytes;   /* of the largest rank */
    uint64_t checkpoints, checkpoint_bytes;
    double checkpoint_s, checkpoint_max_s;
    double restore_s;
    uint64_t restores, restore_bytes;
};

/* Runs the workload. Without c->comm it forks `ranks` - 1 processes, and only the caller's returns;
 * with c->comm (all of its ranks call this) the result is on rank 0, and the others have none. A
 * rank that is lost is part of the result, not an error. Caller frees with stk_bench_release(),
 * also on error. */
int stk_bench_run(struct stk_bench_config *c, uint32_t ranks, bool calibrate,
                  struct stk_bench_result *out, struct stk_err *err);
void stk_bench_release(struct stk_bench_result *r);
/* True for a rank that waited for data twice as long as the median of the ranks, and for more than
 * 5 % of its time. */
bool stk_bench_straggles(const struct stk_bench_result *r, uint32_t rank);
/* Where the data came from, as far as it can be known. */
enum stk_bench_source {
    STK_BENCH_FROM_NOWHERE,     /* nothing was read, or the storage is modelled */
    STK_BENCH_FROM_STORAGE,     /* most of it, by the kernel's count */
    STK_BENCH_FROM_MEMORY,      /* the most came from the page cache, or the files are in memory */
    STK_BENCH_NOT_COUNTED,      /* not known: the kernel does not count reads of this file system, */
    STK_BENCH_NOT_COUNTED_SLOW, /* … and requests took longer than memory takes */
    STK_BENCH_NOT_COUNTED_FAST, /* … and requests were as fast as memory */
};
enum stk_bench_source stk_bench_source(const struct stk_bench_result *r);
/* Bytes of the samples that steps use, per second; 0: steps read nothing. */
double stk_bench_bytes_per_s(const struct stk_bench_result *r);
/* From the ranks to the numbers of all; stk_bench_run() calls it. */
void stk_bench_sum(struct stk_bench_result *r);

/* ---- what a run shows ------------------------------------------------------------------------ */

/* A running benchmark for `stoker watch`: a *board*, which is a private folder with a beacon
 * (host/beacon.h) of the run and one of each rank. run.json what runs: workload, reader, ranks
 * rank-00003.json how far a rank is: phase, step, times, queue, bytes A thread of the rank writes
 * its beacon, so that a slow file system does not delay a step. All ranks together write at most
 * twenty files per second. The folder is removed when the run ends. */
#define STK_BENCH_BOARD "stoker-bench.status" /* in the data folder */
#define STK_BENCH_RUN   "run.json"
#define STK_BENCH_RANK  "rank-" /* a rank's file begins with this */

struct stk_bench_board {
    int dirfd; /* -1: there is none */
    char *path;
    const struct stk_workload *w;
    uint64_t ranks;
    bool stoker;
    struct stk_beacon run;
};
#define STK_BENCH_BOARD_INIT ((struct stk_bench_board){.dirfd = -1, .run = {.dirfd = -1}})

/* Makes the folder, or takes the one that a killed run left. first: this process speaks for the
 * run. STK_E_EXISTS: another run uses it. Caller closes, also after an error. */
int stk_bench_board_open(struct stk_bench_board *b, const char *path, const struct stk_workload *w,
                         bool stoker, bool first, struct stk_err *err);
/* Removes the files and the folder, if this process spoke for the run. */
void stk_bench_board_close(struct stk_bench_board *b);
/* Removes what a killed run left. */
void stk_bench_board_clean(const char *path);

/* ---- a rank ---- */

struct stk_bench_status;
/* NULL: the board is NULL, or it cannot be done. */
struct stk_bench_status *stk_bench_status_begin(const struct stk_bench_board *board,
                                                const struct stk_bench_plan *plan, bool idle);
/* What it does now: a text that stays valid. */
void stk_bench_status_phase(struct stk_bench_status *s, const char *phase);
/* After each step. */
void stk_bench_status_step(struct stk_bench_status *s, const struct stk_bench_rank *r,
                           const struct stk_bench_live *live, const struct stk_feed *feed);
/* Removes the file. NULL is fine. */
void stk_bench_status_end(struct stk_bench_status *s);

/* ---- series ---------------------------------------------------------------------------------- */

/* Several runs of one workload: a sweep over values of keys, and the search for the most
 * accelerators that the storage can feed. */
#define STK_SERIES_MAX 256u /* runs */

/* What is kept of a run. */
struct stk_series_point {
    char label[160]; /* "reader.threads=4 reader.prefetch=2" */
    uint32_t ranks;
    double utilisation, mlperf, samples_per_s, io_share, io_share_steps, step_s, step_p99_s;
    uint64_t bytes;
    bool io_bound; /* the accelerators waited for data in more than 5 % of the time */
};

struct stk_series {
    struct stk_series_point *point;
    size_t n;
    /* Of a search. */
    double au;             /* the least utilisation asked for; 0: this is a sweep */
    uint32_t most;         /* the most ranks that reach it; 0: not even one does */
    uint32_t limit;        /* ranks that were allowed */
    /* The fewest ranks that cannot be judged, because the data has too few steps for each of them: the
     * steps, and how many it takes; 0: none. */
    uint32_t unjudged;
    uint64_t steps, steps_needed;
    bool machine_ends;     /* the machine cannot keep the pace of more ranks, even without I/O */
    const char *neighbour; /* name of the workload beside the second run; NULL: none. Borrowed */
    int64_t lost;          /* a rank that was lost; -1: none */
    char why_lost[200];
};

/* sweeps: "key=a,b,c", NULL-terminated; every combination is run, the last key fastest. w is c->w,
 * which is changed and ends with the last values. Keys of the dataset are refused: they would need
 * other data. Caller frees with stk_series_release(), also on error. */
int stk_series_sweep(struct stk_bench_config *c, struct stk_workload *w, const char *const *sweeps,
                     struct stk_series *out, struct stk_err *err);
/* Doubles the ranks up to limit until the utilisation, as MLPerf counts it, is below au, then
 * halves the interval. Each number of ranks has enough steps that the first, which does not count, and
 * those that are read ahead before it do not decide: more epochs if they read the storage again;
 * otherwise it is not judged. */
int stk_series_find_max(struct stk_bench_config *c, struct stk_workload *w, double au,
                        uint32_t limit, struct stk_series *out, struct stk_err *err);
/* Runs the workload alone, then again while the workload of `other` runs beside it, over and over,
 * with `ranks` ranks. */
int stk_series_neighbour(struct stk_bench_config *c, struct stk_workload *w,
                         struct stk_bench_config *other, uint32_t ranks, struct stk_series *out,
                         struct stk_err *err);
void stk_series_release(struct stk_series *s);
/* Where a sweep turns from waiting for data to computing, or what a neighbour costs, as a
 * sentence. */
void stk_series_verdict(const struct stk_series *s, struct stk_buf *out);

/* ---- a run as a job -------------------------------------------------------------------------- */

/* A run of a workload as data: what runs, which is saved for the jobs of a scheduler, and the
 * figures that come of it, which come back from the process that it runs in. */
struct stk_bench_config;

struct stk_bench_job {
    const struct stk_workload *w; /* settled */
    const char *const *set;       /* keys of it that this run changes; NULL-terminated, or NULL */
    const char *data;             /* folder of its dataset; NULL: the workload says where that is */
    const char *storage;          /* as --virtual-storage has it; NULL: the real one */
    bool stoker;                  /* stoker's loader reads */
    uint64_t cpus;                /* that all ranks together may use; 0: all */
};
/* All of it but the workload. */
extern const struct stk_jfield stk_bench_job_fields[];

/* Means and sums over the measured steps. NaN: unknown. */
struct stk_bench_figures {
    double epoch_s, wall_s, steps;
    double elapsed_s; /* of all of it, also what is not measured; virtual on modelled storage */
    double wait_s, load_s, save_s, compute_s; /* wait_s: of the rank that waited longest */
    double open_s, request_s, request_bytes;  /* means of its calls */
    double memory_bytes;                      /* of the largest rank */
    uint64_t cpus;                            /* that it could use */
};
extern const struct stk_jfield stk_bench_figures_fields[];

/* What precedes a run on data that is open: how it reads, and what is dropped from the page
 * cache. c has the workload, which may change, and the data. */
int stk_bench_configure(struct stk_bench_config *c, struct stk_workload *w, bool stoker,
                        const char *storage, struct stk_err *err);
/* Runs it in this process, which keeps to the CPUs of the job from then on. stop: non-zero ends it
 * with STK_E_STOPPED; NULL: never. */
int stk_bench_job_run(const struct stk_bench_job *job, int (*stop)(void),
                      struct stk_bench_figures *out, struct stk_err *err);
/* For a child process: the same, until a SIGTERM. The figures go to its standard output as a
 * line of JSON; what went wrong, to its standard error. Returns its exit status. */
int stk_bench_job_child(const struct stk_bench_job *job);

#endif
