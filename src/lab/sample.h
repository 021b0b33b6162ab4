/*
 * sample.h - what a tree of processes takes of the node: CPU, memory, I/O and GPUs, once a second,
 * as lines of a CSV file (columns: launch.h). One thread, which costs about 16 us a process and
 * sample.
 */
#ifndef STK_LAB_SAMPLE_H
#define STK_LAB_SAMPLE_H

#include <sys/types.h>

#include "base/buf.h"
#include "lab/proc.h"

/* ---- processes (sample_tree.c) ---- */

struct stk_proc {
    pid_t pid, ppid;
    pid_t own_pid;  /* what it knows itself by: in a container another number; 0: not asked */
    uint64_t start; /* of the kernel's clock: tells a number that is used again */
    bool ours, undecided, alive, uring, examined;
    uint16_t age; /* samples it was seen in */
    uint32_t threads;
    uint64_t cpu_ticks, resident_bytes;
    uint64_t io[STK_IO_COUNTS];
    char *command; /* malloc'ed; NULL: not asked for */
    char comm[16];
};

struct stk_tree {
    pid_t root;         /* everything below it, not itself */
    int proc_fd;        /* of /proc */
    struct stk_proc *p; /* everybody on the node we may see, sorted by pid */
    size_t n, room;
    struct stk_proc *gone; /* ours that have ended */
    size_t ngone, gone_room;
    double next_scan_s;
    unsigned scans;
    const char *logs, *host;           /* where its processes write logs. Borrowed */
    uint64_t reaped_io[STK_IO_COUNTS]; /* of those the root has waited for */
};

struct stk_tree_sum {
    uint32_t processes, threads;
    uint64_t cpu_ticks, resident_bytes;
    uint64_t io[STK_IO_COUNTS];
};

int stk_tree_init(struct stk_tree *t, pid_t root, const char *logs, const char *host,
                  struct stk_err *err);
void stk_tree_release(struct stk_tree *t);
/* Looks at every process again, finds new ones. */
void stk_tree_sample(struct stk_tree *t, struct stk_tree_sum *sum);
/* What this thread has used: what sampling may cost is a share of that, however busy the node. */
double stk_thread_cpu_s(void);
/* A child of the root has ended and is not yet waited for: its last counts. */
void stk_tree_ended(struct stk_tree *t, pid_t pid);

/* ---- the node (sample_node.c) ---- */

struct stk_node_use {
    double iowait_s;      /* so far, of the CPUs we may use; -1: not known */
    uint64_t cache_bytes; /* UINT64_MAX: not known */
    uint64_t used_bytes;  /* by processes of the cgroup: their own, shared and mapped memory, each
                             page once; UINT64_MAX: not known */
};
struct stk_node {
    char stat_path[4400]; /* memory.stat of the cgroup; "": none */
    bool v2;
};
void stk_node_init(struct stk_node *n);
void stk_node_sample(const struct stk_node *n, struct stk_node_use *use);

/* ---- GPUs (sample_gpu.c) ---- */

struct stk_gpus;
struct stk_gpu_use {
    double util;         /* 0..1, mean; -1: not known */
    double memory_bytes; /* added up; -1: not known */
};
/* Loads NVML; NULL where there is none or no GPU that CUDA_VISIBLE_DEVICES lets be seen. May take
 * seconds. */
struct stk_gpus *stk_gpus_open(void);
void stk_gpus_close(struct stk_gpus *g);
void stk_gpus_sample(struct stk_gpus *g, struct stk_gpu_use *use);
unsigned stk_gpus_count(const struct stk_gpus *g);
const char *stk_gpus_kind(const struct stk_gpus *g);
/* Without NVML, by what the driver shows in /proc: number and kind; at once. */
unsigned stk_gpus_glance(char *kind, size_t size);

/* ---- the thread (sample.c) ---- */

#define STK_SAMPLE_LEAST_S 0.01 /* shortest time between samples */

struct stk_sampler;
struct stk_sampler_options {
    pid_t root;
    double every_s; /* 0: no thread and no file; ends are counted all the same */
    const char *csv_path, *logs, *host;
    uint64_t start_mono_ns;
};
struct stk_sampler_totals {
    uint64_t samples, peak_resident_bytes;
    uint32_t peak_threads, peak_processes;
    unsigned gpus; /* UINT_MAX: never asked */
    char gpu_kind[96];
    char trouble[128]; /* why samples are missing in the file; "" none are */
};
/* Options are borrowed until stop. Caller stops and frees. */
int stk_sampler_start(const struct stk_sampler_options *o, struct stk_sampler **out,
                      struct stk_err *err);
/* Waits for a child of the root that has ended, and keeps its last counts. */
void stk_sampler_reap(struct stk_sampler *s, pid_t pid, int *status);
/* Takes the last sample. False: the thread is stuck, and nothing can be asked of it. */
bool stk_sampler_stop(struct stk_sampler *s);
/* After it has stopped. Borrowed until free. */
const struct stk_sampler_totals *stk_sampler_totals(const struct stk_sampler *s);
const struct stk_tree *stk_sampler_tree(const struct stk_sampler *s);
void stk_sampler_free(struct stk_sampler *s); /* NULL is fine */

#endif
