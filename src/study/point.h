/*
 * point.h - the points of an experiment.
 *
 * A point is one thing that is run several times and compared with others: a command, its
 * environment and its resources. Generators make points from a plan (study/points.c): from a list
 * of N, from N and numbers of nodes, or from variants as they are. Everything after that (order,
 * budget, journal, resume, executors) knows points by their id.
 */
#ifndef STK_STUDY_POINT_H
#define STK_STUDY_POINT_H

#include "base/buf.h"

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

#endif
