/*
 * rank.h - the run of one rank: its steps, its checkpoints, and what they took.
 *
 * The accelerator is a time line, not a sleep: step k begins when step k - 1 has ended and its
 * batch is complete, and ends one computing time later, at an absolute time. The process sleeps
 * until then; that it wakes up late does not delay the accelerator, and is reported (late_s).
 */
#ifndef STK_BENCH_RANK_H
#define STK_BENCH_RANK_H

#include <stddef.h>
#include <stdint.h>

#include "bench/bio.h"
#include "bench/data.h"
#include "sched/comm.h"

/* ---- what a rank did when -------------------------------------------------------------------- */

/* What a rank did when: its time in a fixed number of bins, which widen as the run grows. No
 * pointers: a part of struct stk_bench_rank, which is sent as it is. */
#define STK_COURSE_BINS 128u

enum stk_course_part {
    STK_COURSE_COMPUTE,
    STK_COURSE_WAIT,       /* for data */
    STK_COURSE_OTHERS,     /* for other ranks */
    STK_COURSE_CHECKPOINT, /* evaluations are not part of the time */
    STK_COURSE_PARTS
};
extern const char *const stk_course_names[STK_COURSE_PARTS]; /* members in JSON */

struct stk_course { /* all zero: empty */
    double bin_s;   /* a power of two: bins of two courses can be made equal */
    float part_s[STK_COURSE_PARTS][STK_COURSE_BINS];
    uint32_t steps[STK_COURSE_BINS]; /* that ended in the bin */
};

/* Times count from the start of the run. Times that are not finite or below zero are left out. */
void stk_course_add(struct stk_course *c, enum stk_course_part part, double from_s, double to_s);
void stk_course_step(struct stk_course *c, double end_s);
/* Adds a course, after making the bins of both equal. */
void stk_course_merge(struct stk_course *into, const struct stk_course *from);
/* Makes bins at least as wide. */
void stk_course_widen(struct stk_course *c, double bin_s);
/* Bins up to the last that was used. */
size_t stk_course_used(const struct stk_course *c);

/* No pointers: it is sent to rank 0 as it is. */
struct stk_bench_rank {
    uint32_t rank;
    char node[64];
    uint64_t steps, samples; /* all; warm-up included */
    uint64_t measured_steps, measured_samples;
    double wall_s;     /* from the start of the first step to the end of the last */
    double measured_s; /* the same without warm-up */
    double compute_s;  /* of the measured steps: what the workload asks for */
    double wait_s;     /* of them: the accelerator waited for data */
    double barrier_s;  /* of them: it waited for other ranks */
    double first_s;    /* MLPerf: wall time of the first step, and computing of the others */
    double compute_but_first_s;
    double load_s, head_s; /* before the first step */
    /* Epochs that were read once their first step asked for it (reader.epochs): how many, the waits of
     * those steps, and of that the starts of threads. */
    uint64_t asked;
    double asked_s, started_s;
    double first_batch_s;  /* from the start of the first step until its batch was complete */
    double eval_s;         /* evaluations: not part of wall_s and measured_s */
    uint64_t eval_steps;
    double checkpoint_s, checkpoint_max_s;
    uint64_t checkpoints, checkpoint_bytes;
    double restore_s; /* after the last step: not part of wall_s */
    uint64_t restores, restore_bytes;
    double late_s, late_max_s; /* how late the process woke up */
    double elapsed_s;          /* of all steps, by the machine's clock */
    struct stk_histogram step; /* ns per measured step */
    double step_square_s;      /* the sum of their squares, in seconds */
    struct stk_course course;  /* of all steps; without evaluations, as wall_s */
    struct stk_io_tally io;
    int64_t device_bytes;  /* read from storage, by the kernel's count; -1: unknown */
    uint64_t memory_bytes; /* largest resident size */
};

struct stk_bench_board;

/* A look at the run while it goes on. */
struct stk_bench_live {
    uint64_t step, steps;
    double utilisation;   /* of this rank, so far */
    double samples_per_s; /* of all ranks, if they are like this one */
    /* The rank that has waited longest for data, and for how long; without barriers, this one. */
    uint32_t slowest;
    double slowest_wait_s;
};

struct stk_bench_config {
    const struct stk_workload *w;
    const struct stk_bench_data *data;
    struct stk_bench_model model;
    struct stk_comm *comm;
    bool idle;           /* no I/O at all: calibration */
    uint64_t most_steps; /* 0: all */
    double patience_s;   /* see bio.h */
    bool stoker;         /* stoker's loader reads instead of the application's way */
    const struct stk_bench_board *board; /* bench.h; NULL: none */
    /* Called on every rank after each step; non-zero: stop. */
    int (*tick)(void *user, const struct stk_bench_live *live);
    void *user;
};

int stk_bench_run_rank(const struct stk_bench_config *c, struct stk_bench_rank *r,
                       struct stk_err *err);
/* Compute time divided by run time, of the measured steps. */
double stk_bench_utilisation(const struct stk_bench_rank *r);
/* As MLPerf Storage counts: without the first step, without checkpoints. */
double stk_bench_mlperf(const struct stk_bench_rank *r);

/* ---- checkpoints ----------------------------------------------------------------------------- */

/* Writes the files of a checkpoint as the workload says, reads them back, and removes them. */

/* Replaces the files of the last one; the helper thread writes. *bytes: added up. */
int stk_bench_checkpoint(const struct stk_bench_config *c, struct stk_bench_patience *patience,
                         struct stk_bench_clock *clock, uint64_t *bytes, struct stk_err *err);
/* Reads them back, past the page cache as far as the workload wants that and the kernel lets us. */
int stk_bench_restore(const struct stk_bench_config *c, struct stk_bench_patience *patience,
                      struct stk_bench_clock *clock, uint64_t *bytes, struct stk_err *err);
/* Removes the files of that many ranks, and their folder if it is then empty. */
void stk_bench_checkpoint_clean(const struct stk_bench_config *c, uint32_t ranks);
/* Removes what killed runs left, of however many ranks, and the folder in dirfd that it is in.
 * of_user: dirfd is the user's checkpoint.dir, not the data folder. left: other files there. */
int stk_bench_checkpoint_sweep(int dirfd, bool of_user, struct stk_left *left, const char *dir,
                               struct stk_err *err);

#endif
