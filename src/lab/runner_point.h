/*
 * runner_point.h - what an experiment is made of: points.
 *
 * A point is one thing that is run several times and compared with others: a command, its
 * environment, what it is given. Generators make them from a plan (runner_points.c): from a list of
 * N, from N and the numbers of nodes they are spread over, or from variants as they are. Everything
 * after that (order, budget, journal, resume, executors) knows points by their id.
 */
#ifndef STK_LAB_RUNNER_POINT_H
#define STK_LAB_RUNNER_POINT_H

#include "base/buf.h"

#define STK_POINTS_MAX   1024
#define STK_POINT_ID_MAX 48

/* 0: not said. */
struct stk_resources {
    uint64_t threads;            /* of each process */
    uint64_t ranks, gpus, nodes; /* in all */
    uint64_t ranks_per_node;     /* at most */
    uint64_t cpus;               /* in all */
};

struct stk_point {
    const char *id;     /* unique; names its files and jobs: letters, digits and "._-" */
    const char *label;  /* for people: "N=8" */
    const char *series; /* of the study its runs go to; "": the only one */
    uint64_t n;         /* where it stands on the axis of that series; unique there */
    uint64_t size;      /* of the problem; 0: there is none */
    const char **argv;  /* the command, behind the launcher; NULL-terminated */
    const char **env;   /* NAME=VALUE on top of ours; NULL-terminated, or NULL */
    struct stk_resources give;
    bool by_n; /* N alone tells it: its runs are written without its id */
};

struct stk_points {
    struct stk_point *v; /* in the order of making: N rising */
    size_t n;
};

struct stk_runner_plan;
/* The points of a plan that was checked. They live in the arena and borrow from the plan. */
int stk_points_make(const struct stk_runner_plan *p, struct stk_arena *arena,
                    struct stk_points *out, struct stk_err *err);

/* What the runs of a point have come to so far. */
struct stk_tally {
    const struct stk_point *point;
    size_t series; /* its index in the study */
    uint64_t good, bad;
    uint64_t waiting;  /* in a queue, or running there */
    double wall_s;     /* median of the good runs; NaN: none */
    double cost;       /* the same of what is compared: smaller is better */
    double half_width; /* of its interval, relative; NaN: unknown */
    bool hopeless, done;
};

#endif
