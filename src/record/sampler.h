/*
 * sampler.h - what a tree of processes uses of the node: CPU, memory, I/O and GPUs, once per
 * second, as lines of a CSV file (columns: launch.h). Each line is a reading. One thread, which
 * costs about 16 us per process and reading.
 */
#ifndef STK_RECORD_SAMPLER_H
#define STK_RECORD_SAMPLER_H

#include "host/proc.h"
#include "host/tree.h"
#include "record/folder.h"

/* ---- processes (sampler_tree.c) ---- */

struct stk_tree_sum {
    uint32_t processes, threads;
    uint64_t cpu_ticks, resident_bytes;
    uint64_t io[STK_IO_COUNTS];
};

/* The tree below root, with the process ids of its own namespace. */
int stk_sampler_open_tree(struct stk_tree *t, pid_t root, struct stk_err *err);
/* Where processes of this host write their logs. */
struct stk_sampler_logs {
    const char *folder, *host;
    int slots_fd; /* -1: none */
};
/* Looks at every process again, and finds new ones. */
void stk_sampler_look(struct stk_tree *t, struct stk_proc_reader *reader,
                      const struct stk_sampler_logs *logs, struct stk_tree_sum *sum);

/* ---- the thread (sampler.c) ---- */

#define STK_SAMPLER_LEAST_S 0.01 /* shortest time between readings */

struct stk_sampler;
struct stk_sampler_options {
    pid_t root;
    double every_s; /* 0: no thread and no file; reaped processes are still counted */
    const struct stk_folder *csv_folder; /* where the file is created */
    const char *csv_name;
    struct stk_sampler_logs logs;
    uint64_t start_mono_ns;
};
struct stk_sampler_totals {
    uint64_t readings, peak_resident_bytes;
    uint32_t peak_threads, peak_processes;
    unsigned gpus; /* UINT_MAX: never queried */
    char gpu_kind[96];
    char trouble[128]; /* why readings are missing in the file; "": none are */
};
/* Options are borrowed until stop. Caller stops and frees. */
int stk_sampler_start(const struct stk_sampler_options *o, struct stk_sampler **out,
                      struct stk_err *err);
/* Reaps an ended child of the root, and keeps its last counts. */
void stk_sampler_reap(struct stk_sampler *s, pid_t pid, int *status);
/* Takes the last reading. False: the thread is stuck, and its data is inaccessible. */
bool stk_sampler_stop(struct stk_sampler *s);
/* After it has stopped. Borrowed until free. */
const struct stk_sampler_totals *stk_sampler_totals(const struct stk_sampler *s);
const struct stk_tree *stk_sampler_tree(const struct stk_sampler *s);
void stk_sampler_free(struct stk_sampler *s); /* NULL is fine */

#endif
