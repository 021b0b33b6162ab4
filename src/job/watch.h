/*
 * watch.h - what a Slurm job does on a node right now: its processes with CPU, threads, memory and
 * GPU, from /proc and NVML. Read on each node of the job, sent as one line of JSON
 * per reading, and parsed where it is shown.
 */
#ifndef STK_JOB_WATCH_H
#define STK_JOB_WATCH_H

#include "base/json_fields.h"
#include "host/gpu.h"
#include "host/proc.h"

#define STK_WATCH_PROCESSES 512 /* of a node that are listed individually, the busiest */
#define STK_WATCH_LINE_MAX  ((size_t)1 << 20)

struct stk_watch_process {
    int64_t pid;
    int64_t rank;  /* in its step; -1: none */
    char step[16]; /* "0", "batch"; "": unknown */
    uint32_t threads;
    double cpus; /* busy since the previous reading; -1: unknown yet */
    uint64_t memory_bytes;
    int64_t gpu_memory_bytes;         /* -1: unknown, or none */
    uint64_t read_bytes, write_bytes; /* since its start, by the kernel's count (rchar, wchar) */
    char state[2];                    /* as ps: R, S, D … */
    bool hangs; /* the kernel holds its command line back: command is its short name */
    char command[120];
};

struct stk_watch_node {
    char host[64];
    int64_t part;                /* at the receiver: the part of a heterogeneous job; -1: none */
    double at_s;                 /* of CLOCK_REALTIME */
    uint32_t processes, threads; /* of all processes, including unlisted ones */
    double cpus;                 /* -1: unknown yet */
    uint64_t memory_bytes;
    struct stk_watch_process *process; /* the busiest first */
    size_t nprocesses;
    struct stk_gpu gpu[STK_GPUS_MAX];
    size_t ngpus;
    bool silent; /* at the receiver: no reading has arrived for a while, and these numbers are
                    old */
};

void stk_watch_node_release(struct stk_watch_node *n);

/* ---- on the node --------------------------------------------------------------------------- */

/* The name that a sampler gives its process, so that samplers of other watches are not counted. */
#define STK_WATCH_SAMPLER "stoker-watch"

struct stk_watch_target {
    uint64_t job; /* SLURM_JOB_ID of its processes */
    /* A part of a heterogeneous job has a number of its own in its cgroup and in the titles of its
     * slurmstepd; the environment of all parts has that of the first. 0: not such a job. */
    uint64_t part;
    /* Its user; processes of others do not count, whatever their environment says, unless the
     * kernel has them in the job's cgroup. STK_NOBODY: any user. */
    uid_t owner;
};

struct stk_watcher;
/* Caller frees. */
int stk_watcher_new(const struct stk_watch_target *target, struct stk_watcher **out,
                    struct stk_err *err);
/* The processes of the job on this node, without ourselves. out: all zero, or from an earlier
 * call. */
int stk_watcher_read(struct stk_watcher *w, struct stk_watch_node *out, struct stk_err *err);
void stk_watcher_free(struct stk_watcher *w); /* NULL is fine */

/* ---- between ------------------------------------------------------------------------------- */

/* A reading is one line. */
extern const struct stk_jfield stk_watch_fields[];
/* Parses such a line, whoever wrote it. out: all zero, or from an earlier call. */
int stk_watch_read(const char *line, size_t len, struct stk_watch_node *out, struct stk_err *err);

#endif
