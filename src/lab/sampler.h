/*
 * sampler.h - what a tree of processes takes of the node: CPU, memory, I/O and GPUs, once a second,
 * as lines of a CSV file (columns: launch.h). One thread, which costs about 16 us a process and
 * sample.
 */
#ifndef STK_LAB_SAMPLER_H
#define STK_LAB_SAMPLER_H

#include "host/tree.h"
#include "lab/folder.h"

/* ---- processes (sampler_tree.c) ---- */

struct stk_tree_sum {
    uint32_t processes, threads;
    uint64_t cpu_ticks, resident_bytes;
    uint64_t io[STK_IO_COUNTS];
};

/* The tree below root, in the numbers it has itself. */
int stk_sampler_open_tree(struct stk_tree *t, pid_t root, struct stk_err *err);
/* Looks at every process again, finds new ones. logs: where they write theirs, of this host. */
void stk_sampler_look(struct stk_tree *t, const char *logs, const char *host,
                      struct stk_tree_sum *sum);

/* ---- the thread (sampler.c) ---- */

#define STK_SAMPLER_LEAST_S 0.01 /* shortest time between samples */

struct stk_sampler;
struct stk_sampler_options {
    pid_t root;
    double every_s; /* 0: no thread and no file; ends are counted all the same */
    const struct stk_folder *csv_folder; /* where the file is made */
    const char *csv_name, *logs, *host;
    uint64_t start_mono_ns;
};
struct stk_sampler_totals {
    uint64_t readings, peak_resident_bytes;
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
