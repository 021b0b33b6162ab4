/*
 * runner.h - running a study: points (runner_point.h), each several times, by an executor
 * (runner_via.h).
 *
 * A study lives in a folder: plan.json (what is run and how; a resume may change it), runs.jsonl (a
 * line per run, added as it ends; whoever works on the study holds its lock), study.json (all of
 * it, for `stoker scale --from`), output/ (of runs that failed) and, with Slurm, jobs.jsonl and
 * jobs/. Killed at any moment, it goes on from there.
 */
#ifndef STK_LAB_RUNNER_H
#define STK_LAB_RUNNER_H

#include "lab/runner_via.h"
#include "lab/study.h"

#define STK_RUNNER_N_MAX    128    /* different N */
#define STK_RUNNER_RUNS_MAX 10000u /* runs of one point */
#define STK_RUNNER_WORD_MAX 131072 /* bytes of a word of the command, as execve() has it */

/* What N sets. */
enum stk_runner_sets {
    STK_SETS_THREADS = 1u << 0,
    STK_SETS_RANKS = 1u << 1,
    STK_SETS_GPUS = 1u << 2,
    STK_SETS_NODES = 1u << 3,
};

/* Which of several matches of the metric counts. */
enum stk_metric_pick { STK_METRIC_LAST, STK_METRIC_FIRST, STK_METRIC_MEDIAN };

/* Everything that says what is run. In texts {n}, {size} and {ranks} stand for a point's numbers.
 */
struct stk_runner_plan {
    const char **argv;   /* the command; NULL-terminated */
    bool shell;          /* argv[0] is a line for sh */
    const char *prepare; /* a line for sh, before each run, not timed; NULL: none */
    const char *cwd;     /* absolute */
    /* Points from N ... */
    uint64_t n[STK_RUNNER_N_MAX]; /* rising */
    size_t nn;
    bool weak;
    uint64_t size; /* {size} is this, times N when weak; 0: there is none */
    uint64_t sets; /* enum stk_runner_sets */
    uint64_t threads_per_rank, ranks_per_node; /* 0: not said */
    /* ... each spread over so many nodes, where its ranks can be divided evenly ... */
    uint64_t spread[STK_RUNNER_N_MAX]; /* rising */
    size_t nspread;                    /* 0: wherever they are put */
    /* ... or points as they are: no N then. argv NULL: that of the plan. label NULL: the id. series
     * NULL: the label. n 0: 1. */
    const struct stk_point *variant;
    size_t nvariants;
    bool pin, oversubscribe;
    const char *launcher, *container; /* words before the command, split as a shell does; NULL */
    uint64_t runs_min, runs_max, warmup, seed;
    double precision, budget_s, timeout_s; /* budget, timeout: 0 is none */
    const char *metric;                    /* a POSIX extended regular expression, or NULL */
    uint64_t metric_pick;                  /* enum stk_metric_pick */
    bool higher_better;
    const char *series, *unit;      /* unit NULL: by what N sets */
    uint64_t cores_per_n;           /* where nobody else knows; 0: unknown */
    const struct stk_executor *via; /* not NULL */
    const char **sbatch;            /* options of sbatch; NULL-terminated, or NULL */
    const char *batch_head; /* the text before our line in the batch file; NULL: only ours */
    const char *gpu_type;   /* NULL: any */
    uint64_t at_once;       /* in the queue at most; 0: all */
    bool detach;            /* submit, and do not wait */
    bool share;             /* others may read the folder, as the umask says; of a new one only */
};
#define STK_RUNNER_PLAN_INIT                                                                       \
    {                                                                                              \
        .pin = true, .runs_min = 3, .runs_max = 20, .warmup = 1, .seed = 1, .precision = 0.02,     \
        .via = &stk_executor_local                                                                 \
    }

/* Parts that may be changed when a study is resumed. */
struct stk_runner_change {
    const uint64_t *n; /* more N; NULL: none */
    size_t nn;
    const struct stk_point *variant; /* more variants; those that are there already stay */
    size_t nvariants;
    uint64_t runs_min, runs_max; /* runs_max 0: as it was */
    double precision, timeout_s; /* NaN: as it was */
    double budget_s;             /* of this call; NaN: as it was */
    uint64_t at_once;            /* UINT64_MAX: as it was */
    bool detach;
    const char *trust; /* users whose studies are run, too: names with commas between, or "all";
                          NULL: none. Borrowed until stk_runner_free() */
};

/* How far it is, several times a second. */
struct stk_runner_state {
    uint64_t done, planned;    /* runs; planned is an estimate */
    const char *label;         /* of the point that runs now; NULL: none */
    const char *phase;         /* "warm-up", "prepare", "run", "jobs" */
    double left_s;             /* NaN: unknown */
    uint64_t pending, running; /* jobs */
    const char *reason;        /* why jobs are pending; "": not known */
};
struct stk_runner_watch {
    /* Non-zero: stop. May be NULL. */
    int (*tick)(void *user, const struct stk_runner_state *state);
    void *user;
};

/* Where it ran, and what else went on there. */
#define STK_RUNNER_NOTES 16
struct stk_runner_conditions {
    char host[65], cpu[128], gpu[96], governor[32];
    unsigned cpus_usable, cores_usable; /* cores: physical ones */
    double load;                        /* when it began; NaN: unknown, as below */
    double others_cores, others_worst;  /* CPUs that other programs used meanwhile */
    double steal;                       /* of the time of the CPUs: taken by other machines */
    char note[STK_RUNNER_NOTES][320];   /* sentences */
    size_t nnotes;
};

struct stk_runner;

/* Checks the plan, makes the folder (dir NULL: stoker-scale-NAME-TIME here) and writes the plan
 * there. The plan is copied. Caller frees with stk_runner_free(). */
int stk_runner_new(const struct stk_runner_plan *plan, const char *dir, struct stk_runner **out,
                   struct stk_err *err);
/* STK_E_EXISTS: the folder or its plan is not the caller's, or others can write it, and the change
 * does not say `trust`: nothing is run then. */
int stk_runner_resume(const char *dir, const struct stk_runner_change *change,
                      struct stk_runner **out, struct stk_err *err);
/* What the study in dir would run, for people: lines of commands with secrets masked, whoever wrote
 * them. Nothing is run, nothing is trusted. */
int stk_runner_describe(const char *dir, struct stk_buf *out, struct stk_err *err);
/* Runs what is missing. What has ended is kept, whatever is returned: STK_E_STOPPED when tick()
 * said so (jobs stay in the queue then). A resumed study keeps its changed plan from here on. */
int stk_runner_go(struct stk_runner *r, const struct stk_runner_watch *watch, struct stk_err *err);
/* What a job does: the run of that name ("n8-r2": point and repeat), then *status is what the job
 * ends with. */
int stk_runner_inside(const char *dir, const char *name, const char *trust, int (*stop)(void),
                      int *status, struct stk_err *err);
void stk_runner_free(struct stk_runner *r); /* NULL is fine */
/* Takes away the folder that stk_runner_new() has made, when nothing came of it: no job, no good
 * run.
 */
void stk_runner_discard(struct stk_runner *r);

/* Borrowed until stk_runner_free(). */
const struct stk_study *stk_runner_study(const struct stk_runner *r);
const struct stk_runner_plan *stk_runner_plan(const struct stk_runner *r);
const struct stk_runner_conditions *stk_runner_conditions(const struct stk_runner *r);
const char *stk_runner_dir(const struct stk_runner *r); /* absolute */
const struct stk_tally *stk_runner_tally(const struct stk_runner *r, size_t *npoints);
uint64_t stk_runner_waiting(const struct stk_runner *r); /* in a queue */

/* "1,2,4", "1-8", "1-64*2" into n[0..STK_RUNNER_N_MAX); rising, each once. option: who is told off.
 */
int stk_runner_parse_n(const char *option, const char *text, uint64_t *n, size_t *nn,
                       struct stk_err *err);
/* Whether it is a regular expression with a group. */
int stk_metric_check(const char *regex, struct stk_err *err);
/* A name for what a regular expression finds: "images/s" for "images/s: ([0-9.]+)". */
void stk_metric_name(const char *regex, char *out, size_t size);
/* Which way is better, by the words and units around the group: 1 more ("images/s"), -1 less
 * ("seconds"), 0 it does not tell. */
int stk_metric_sense(const char *regex);

#endif
