/*
 * analysis.h - the numbers that people read off a profile, each defined in docs/profile.md and
 * computed once: rules (advice.c) and reports take them from here.
 */
#ifndef STK_ANALYSIS_ANALYSIS_H
#define STK_ANALYSIS_ANALYSIS_H

#include "format/format.h"
#include "profile/profile.h"

/* Totals of a file, a directory, a format, or the whole job. Data calls of POSIX, STDIO, ASYNC. */
struct stk_usage {
    const char *name;   /* path, directory, format; "" the job */
    const char *format; /* by suffix and name: "tfrecord", "hdf5", "csv", "image", … "" */
    const struct stk_format_use *use; /* how files of this format are read; never NULL */
    const char *fs; /* file system of the file with the most time among those with a known one */
    const struct stk_prof_file *file; /* the profile's entry; NULL: not a single file … */
    size_t rec_from, rec_to;          /* … and its records, [from, to) */
    const char *dir;                  /* the directory usage it is counted under */
    struct stk_counts n;
    uint64_t files;   /* distinct */
    bool files_exact; /* false: includes groups, whose number of files is an estimate */
    uint64_t files_read, files_written, files_read_once; /* once: about as many bytes as distinct */
    uint64_t size_bytes;                                 /* of the files read, where known */
    uint64_t distinct_bytes;                             /* read at least once, by any process */
    uint64_t rank_distinct_bytes;                        /* of each rank, added up */
    bool exact;                                          /* distinct_bytes */
    uint32_t ranks, procs;                               /* that read */
    double io_s; /* read + write + metadata, threads added up */
    double read_s, write_s, meta_s;
    double io_share; /* io_s / that of the job */
    /* Ratios; 0 where there is nothing to divide. */
    double mean_read_bytes, mean_write_bytes;
    double bandwidth_Bps; /* per request: read_bytes / read_s */
    double seq, consec;   /* shares of the reads after the first (reads - first_reads) */
    double random;        /* share of all reads that go back (neither first nor seq) */
    double small;         /* share of reads under 1 MiB, by number */
    double small_time;    /* estimate: share of read time in them */
    double reread;        /* read_bytes / distinct_bytes */
    double rank_overlap;  /* rank_distinct_bytes / distinct_bytes: 1 disjoint, ranks: all alike */
    double latency_p50_s, latency_p99_s; /* of a read; never above the longest */
};

/* A rank with all its processes. Without known ranks there is one, with everything in it. */
struct stk_rank_use {
    uint32_t rank;
    bool known; /* false: everything that ran beside the ranks (other programs of a job script) */
    uint32_t procs, workers;
    uint64_t read_bytes, write_bytes, reads, files_read;
    double io_s, meta_s, run_s, cpu_s;
};

struct stk_epoch {   /* marked, or detected where reads repeat */
    uint64_t number; /* as the program counts; detected ones from 0 */
    double start_s, end_s;
    uint64_t read_bytes;
    double io_s;
};

struct stk_phase { /* marked; all phases of one name, of all processes */
    const char *name;
    uint64_t count;
    double total_s, mean_s, max_s;
    double io_s; /* the job's I/O time within it (from the time line): an estimate */
};

struct stk_steps {
    bool marked; /* otherwise detected from the pauses between reads: an estimate */
    uint64_t count;
    double mean_s, p50_s, p99_s, max_s;
    double io_s; /* of all processes during a step, threads added up: mean, estimate */
};

/* How the wait for data is known; the weakest first. */
enum stk_loop_how {
    STK_LOOP_UNKNOWN,
    STK_LOOP_READS,   /* the main thread's own calls: nobody else reads */
    STK_LOOP_PIPES,   /* its waits for what other programs send it, and its own calls */
    STK_LOOP_THREADS, /* its waits for other threads, which read, and its own calls */
    STK_LOOP_WORKERS, /* its waits for its workers, and its own calls */
    STK_LOOP_MARKS,   /* phases that the program marked */
};

/* Where the main thread of the program spent its life: the training loop, in a program that trains.
 * Means over the ranks. */
struct stk_loop {
    enum stk_loop_how how;
    const char *why;         /* unknown: because … ; else NULL */
    uint32_t loops, workers; /* processes it was measured in, and their workers */
    double run_s;            /* life of the process: the sum of the next four */
    double start_s;          /* until the loop began: the first mark, worker or read of data */
    double wait_s;           /* waited for data; -1: unknown */
    double write_s;          /* in writes */
    double compute_s;        /* everything else; -1: unknown */
    double library_s;        /* in files of libraries and of the system, threads added up */
};

struct stk_analysis {
    const struct stk_profile *p; /* borrowed */
    struct stk_usage job;
    struct stk_usage *file, *dir, *format; /* most time first */
    size_t nfiles, ndirs, nformats;
    struct stk_rank_use *rank;
    size_t nranks;
    struct stk_epoch *epoch;
    size_t nepochs;
    bool epochs_marked;
    struct stk_phase *phase;
    size_t nphases;
    struct stk_steps steps;
    struct stk_loop loop;
    double coverage_read, coverage_write; /* observed / the kernel's count; -1: unknown … */
    uint64_t kernel_read_bytes;           /* the whole of which coverage_read is a share */
    bool coverage_little;                 /* … because the kernel counted too little to tell */
    uint32_t blind; /* processes that may have moved data unseen even by the kernel's count */
    const char *blind_name; /* the first; "" */
    /* Share of run time in I/O. Per thread: mean over the threads that read or wrote data (their
     * time in calls / run time). Merged: time in which at least one of them was in a call. Main:
     * over the processes that were started (not forked workers): how long the training loop itself
     * waits. */
    double io_share_thread, io_share_merged, io_share_main;
    double cpu_cores_mean, cpu_cores_max, iowait_mean; /* -1: no readings */
    double other_cores_mean; /* in use by other programs, on one node; -1: no readings */
    uint64_t peak_resident_bytes;
    double gpu_util_mean, gpu_idle_share; /* idle: readings under 10 %; -1: no GPU seen */
    uint64_t cores, memory_bytes;         /* of all hosts; 0: unknown */
    uint64_t local_free_bytes;            /* the smallest of all hosts; 0: none or unknown */
    struct stk_arena arena;
};

/* Whether a program of the job has loaded this Python package; true if that is unknown. */
bool stk_analysis_loaded(const struct stk_analysis *a, const char *library);
/* Whether the profile says which packages were loaded. */
bool stk_analysis_knows_libraries(const struct stk_analysis *a);
int stk_analyze(const struct stk_profile *p, struct stk_analysis *a, struct stk_err *err);
void stk_analysis_release(struct stk_analysis *a);

#endif
