/*
 * runner.h - runs a study: points, each several times, by an executor.
 *
 * A study is a folder: plan.json (what to run and how; a resume may change it), runs.jsonl (one
 * line per run, appended as it ends; the runner holds a lock on it), study.json (all of it, for
 * `stoker scale --from`), status.json (for `stoker watch`: host/beacon.h), output/ (of failed runs)
 * and, with Slurm, jobs.jsonl and jobs/. Killed at any moment, it can be resumed.
 */
#ifndef STK_STUDY_RUNNER_H
#define STK_STUDY_RUNNER_H

#include "base/buf.h"
#include "study/study.h"

/* ---- points ---------------------------------------------------------------------------------- */

/* The points of an experiment. A point is one thing that is run several times and compared with
 * others: a command, its environment and its resources. Generators make points from a plan
 * (study/plan.c): from a list of N, from N and numbers of nodes, or from variants as they are.
 * Everything after that (order, budget, journal, resume, executors) knows points by their id. */
#define STK_POINTS_MAX   1024
#define STK_POINT_ID_MAX 48

/* 0: not specified. */
struct stk_resources {
    uint64_t threads;            /* of each process */
    uint64_t ranks, gpus, nodes; /* in all */
    uint64_t ranks_per_node;     /* at most */
    uint64_t cpus;               /* in all */
};

struct stk_point {
    const char *id;     /* unique; names its files and jobs: letters, digits and "._-" */
    const char *label;  /* for people: "N=8" */
    const char *series; /* of the study that its runs belong to; "": the only one */
    uint64_t n;         /* its place on the axis of that series; unique there */
    uint64_t size;      /* of the problem; 0: none */
    const char **argv;  /* the command, after the launcher; NULL-terminated */
    const char **env;   /* NAME=VALUE added to ours; NULL-terminated, or NULL */
    struct stk_resources give;
    bool by_n; /* N alone identifies it: its runs are written without its id */
};

struct stk_points {
    struct stk_point *v; /* in the order of creation: N ascending */
    size_t n;
};

struct stk_runner_plan;
/* Makes the points of a checked plan. They are in the arena and borrow from the plan. */
int stk_points_make(const struct stk_runner_plan *p, struct stk_arena *arena,
                    struct stk_points *out, struct stk_err *err);

/* The runs of a point so far. */
struct stk_tally {
    const struct stk_point *point;
    size_t series;      /* its index in the study */
    uint64_t good, bad; /* bad: the program failed */
    uint64_t lost;      /* cancelled, or never started: not the program's fault */
    uint64_t past;      /* of earlier calls, to be repeated: they do not count */
    uint64_t waiting;   /* in a queue, or running there */
    double wall_s;      /* median of the good runs; NaN: none */
    double cost;        /* the same for the compared value: smaller is better */
    double half_width;  /* of its interval, relative; NaN: unknown */
    bool hopeless, done;
    bool enough; /* of a study whose points are compared: it has been run enough */
};

/* ---- where points run ------------------------------------------------------------------------ */

/* Where points run: a table of executors. The order of points, the budget and the journal are the
 * same for all of them (study/drive.c); an executor only runs a point, now or later, and reports
 * the result. */
enum stk_via_can {
    STK_VIA_QUEUES = 1u << 0, /* start() queues a run; its end is collected later */
    /* CPUs and GPUs belong to this machine, and we choose; a run is a process group of its own,
     * which we may end. Otherwise a scheduler does both. */
    STK_VIA_CHOOSES = 1u << 1,
};

struct stk_runner;
struct stk_executor {
    const char *name;          /* of --via, and in plan.json */
    unsigned can;              /* enum stk_via_can */
    const char *launcher;      /* what starts ranks there; NULL: an mpirun is searched for */
    const char *cpus_variable; /* tells the launcher the CPUs per rank; NULL: not needed */
    uint64_t runs_max, warmup; /* defaults */
    /* Whether it has the requested resources. Nothing exists yet. NULL: start() will tell. */
    int (*check)(const struct stk_runner_plan *p, const struct stk_points *points,
                 struct stk_err *err);
    /* Whether the programs it needs exist. */
    int (*find)(const struct stk_runner *r, struct stk_err *err);
    /* Reads what an earlier call left in a queue. NULL: there is no queue. */
    int (*open)(struct stk_runner *r, struct stk_err *err);
    /* Before the first start(); after the last, also after an error. */
    int (*begin)(struct stk_runner *r, struct stk_err *err);
    void (*end)(struct stk_runner *r);
    /* The next run of a point: kept when it has ended, or counted as waiting. */
    int (*start)(struct stk_runner *r, struct stk_tally *t, struct stk_err *err);
    /* With a queue: waits until it is worth a look, and keeps what has ended. *changed: there was
     * some. */
    int (*collect)(struct stk_runner *r, bool *changed, struct stk_err *err);
    /* Cancels what has not started; all: also what is running. Keeps a run of each that says why.
     */
    int (*cancel)(struct stk_runner *r, bool all, const char *why, struct stk_err *err);
    /* Releases what open() made, also after an error. NULL: nothing to release. */
    void (*close)(struct stk_runner *r);
};

extern const struct stk_executor stk_executor_local; /* study/local.c */
extern const struct stk_executor stk_executor_slurm; /* study/jobs.c */

extern const char *const stk_executor_names[]; /* NULL-terminated; the first is the default */
/* NULL: no executor of that name. */
const struct stk_executor *stk_executor_find(const char *name);

#define STK_STUDY_STATUS "status.json"

#define STK_RUNNER_N_MAX    128    /* different N */
#define STK_RUNNER_RUNS_MAX 10000u /* runs of one point */
#define STK_RUNNER_WORD_MAX 131072 /* bytes per word of the command, as in execve() */

/* What N sets. */
enum stk_runner_sets {
    STK_SETS_THREADS = 1u << 0,
    STK_SETS_RANKS = 1u << 1,
    STK_SETS_GPUS = 1u << 2,
    STK_SETS_NODES = 1u << 3,
};

/* Which of several matches is the metric. */
enum stk_metric_pick {
    STK_METRIC_LAST,
    STK_METRIC_FIRST,
    STK_METRIC_MEDIAN,
    STK_METRIC_MEMBER, /* no expression: a member of the JSON object that is the output's last line */
};

/* Everything about what to run. In texts, {n}, {size} and {ranks} stand for a point's numbers, and
 * {nodes} and {ranks_per_node} for those of a placement. */
struct stk_runner_plan {
    const char **argv;   /* the command; NULL-terminated */
    bool shell;          /* argv[0] is a line for sh */
    const char *prepare; /* a line for sh, run before each run, not timed; NULL: none */
    const char *cwd;     /* absolute; NULL for stk_runner_new(): ours */
    /* Points from N ... */
    uint64_t n[STK_RUNNER_N_MAX]; /* rising */
    size_t nn;
    bool weak;
    bool grows;    /* the command is known to do more at a larger N. Not kept in the folder */
    uint64_t size; /* {size} is this, times N for weak scaling; 0: none */
    uint64_t sets; /* enum stk_runner_sets */
    uint64_t threads_per_rank, ranks_per_node; /* 0: not specified */
    /* ... each spread over these numbers of nodes, if its ranks divide evenly ... */
    uint64_t spread[STK_RUNNER_N_MAX]; /* rising */
    size_t nspread;                    /* 0: the scheduler decides */
    /* ... or so that each node has that many ranks. */
    uint64_t pack[STK_RUNNER_N_MAX]; /* rising */
    size_t npack;
    /* ... or points as given: then there is no N. argv NULL: that of the plan. label NULL: the id.
     * series NULL: the label. n 0: 1. */
    const struct stk_point *variant;
    size_t nvariants;
    bool pin, oversubscribe;
    const char *launcher, *container; /* words before the command, split as by a shell; NULL:
                                         none */
    uint64_t runs_min, runs_max, warmup, seed;
    double precision, budget_s, timeout_s; /* budget, timeout: 0 means none */
    const char *metric;                    /* a POSIX extended regular expression, or NULL */
    uint64_t metric_pick;                  /* enum stk_metric_pick */
    /* The member with the seconds that a run took, beside a metric that is a member: runs on
     * modelled storage, whose time is not that of the machine. The budget of runs here then counts
     * such seconds. NULL: the clock of the machine. */
    const char *clock;
    bool higher_better;
    const char *series, *unit;      /* unit NULL: from what N sets */
    uint64_t cores_per_n;           /* if nothing else tells; 0: unknown */
    const struct stk_executor *via; /* not NULL */
    const char **sbatch;            /* options of sbatch; NULL-terminated, or NULL */
    const char *batch_head;         /* the text above our line in the batch file; NULL: none */
    const char *gpu_type;           /* NULL: any */
    uint64_t at_once;               /* maximum in the queue; 0: no limit */
    bool detach;                    /* submit, and do not wait */
    bool share;                     /* others may read a new folder, as the umask says */
};
#define STK_RUNNER_PLAN_INIT                                                                       \
    {                                                                                              \
        .pin = true, .runs_min = 3, .runs_max = 20, .warmup = 1, .seed = 1, .precision = 0.02,     \
        .via = &stk_executor_local                                                                 \
    }

/* What a resume may change. */
struct stk_runner_change {
    const uint64_t *n; /* more N; NULL: none */
    size_t nn;
    const struct stk_point *variant; /* more variants; existing ones stay */
    size_t nvariants;
    uint64_t runs_min, runs_max; /* runs_max 0: unchanged */
    double precision, timeout_s; /* NaN: unchanged */
    double budget_s;             /* of this call; NaN: unchanged */
    uint64_t at_once;            /* UINT64_MAX: unchanged */
    bool detach;
    bool retry; /* repeat failed runs, too; runs that were cancelled or never started always are */
    const char *trust; /* other users whose studies may be run: names separated by commas, or "all";
                          NULL: none. Borrowed until stk_runner_free() */
};

struct stk_runner;
/* Progress, several times per second. */
struct stk_runner_state {
    uint64_t done, planned;    /* runs; planned is an estimate */
    const char *label;         /* of the point running now; NULL: none */
    const char *phase;         /* "warm-up", "prepare", "run", "jobs" */
    double left_s;             /* NaN: unknown */
    uint64_t pending, running; /* jobs */
    const char *reason;        /* why jobs are pending; "": unknown */
};
struct stk_runner_watch {
    /* Non-zero stops. May be NULL. */
    int (*tick)(void *user, const struct stk_runner_state *state);
    /* Which of the points have been run enough, once they have runs_min runs, instead of by the
     * precision of the plan: for points that are compared with each other. NULL: by the precision. */
    void (*compare)(void *user, const struct stk_runner *r, bool *enough);
    /* Runs a point in a child process of this machine, in place of its command; returns the exit
     * status. NULL: the command runs. */
    int (*run)(void *user, const struct stk_point *p);
    void *user;
};

/* Where it ran, and what else was running there. */
#define STK_RUNNER_NOTES 16
struct stk_runner_conditions {
    char host[65], cpu[128], gpu[96], governor[32];
    unsigned cpus_usable, cores_usable; /* cores: physical */
    double load;                        /* at the start; NaN: unknown, as below */
    double others_cores, others_worst;  /* CPUs used by other programs meanwhile */
    double steal;                       /* share of CPU time taken by other virtual machines */
    char note[STK_RUNNER_NOTES][320];   /* sentences */
    size_t nnotes;
};

/* Checks the plan, creates the folder (dir NULL: stoker-scale-NAME-TIME here) and writes a copy of
 * the plan there. Caller frees with stk_runner_free(). */
int stk_runner_new(const struct stk_runner_plan *plan, const char *dir, struct stk_runner **out,
                   struct stk_err *err);
/* STK_E_EXISTS: the folder or its plan belongs to another user, or others can write it, and the
 * change does not allow it with `trust`: nothing is run. */
int stk_runner_resume(const char *dir, const struct stk_runner_change *change,
                      struct stk_runner **out, struct stk_err *err);
/* Describes for people what the study in dir would run: commands with secrets masked, whoever wrote
 * them. Runs nothing, trusts nothing. */
int stk_runner_describe(const char *dir, struct stk_buf *out, struct stk_err *err);
/* Runs what is missing. Completed runs are kept, whatever it returns: STK_E_STOPPED if tick()
 * stopped it (jobs then stay in the queue). Writes the changed plan of a resumed study. */
int stk_runner_go(struct stk_runner *r, const struct stk_runner_watch *watch, struct stk_err *err);
/* Cancels all jobs of the study, also running ones: it will not be resumed. */
int stk_runner_cancel(struct stk_runner *r, struct stk_err *err);
/* For use inside a job: does the run of that name ("n8-r2": point and repeat) and sets *status to
 * the job's exit status. */
int stk_runner_inside(const char *dir, const char *name, const char *trust, int (*stop)(void),
                      int *status, struct stk_err *err);
void stk_runner_free(struct stk_runner *r); /* NULL is fine */
/* Removes the folder that stk_runner_new() created, if it has no job and no good run. */
void stk_runner_discard(struct stk_runner *r);

/* Borrowed until stk_runner_free(). */
const struct stk_study *stk_runner_study(const struct stk_runner *r);
const struct stk_runner_plan *stk_runner_plan(const struct stk_runner *r);
const struct stk_runner_conditions *stk_runner_conditions(const struct stk_runner *r);
const char *stk_runner_dir(const struct stk_runner *r); /* absolute */
const struct stk_tally *stk_runner_tally(const struct stk_runner *r, size_t *npoints);
uint64_t stk_runner_waiting(const struct stk_runner *r); /* in a queue */
double stk_runner_spent_s(const struct stk_runner *r);   /* of the budget of this call */

/* Parses "1,2,4", "1-8", "1-64*2" into n[0..STK_RUNNER_N_MAX), ascending and without duplicates.
 * option: named in errors. */
int stk_runner_parse_n(const char *option, const char *text, uint64_t *n, size_t *nn,
                       struct stk_err *err);
/* Whether it is a regular expression with a group. */
int stk_metric_check(const char *regex, struct stk_err *err);
/* A name for the metric of a regular expression: "images/s" for "images/s: ([0-9.]+)". */
void stk_metric_name(const char *regex, char *out, size_t size);
/* Which direction is better, by the words and units around the group: 1 more ("images/s"), -1 less
 * ("seconds"), 0 unknown. */
int stk_metric_sense(const char *regex);

#endif
