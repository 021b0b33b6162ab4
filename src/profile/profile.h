/*
 * profile.h - what a program did, as the analysis sees it: processes, files, who used what, and
 * when. Built from the logs of a run (profile/read.c), or from a Darshan log (darshan.c); analysis,
 * advice and reports see nothing else.
 *
 * A profile is a folder:
 *   HOST.PID.N.stklog    what each process did (proflog/log.h)
 *   run.HOST.PID.json    what each `stoker profile` ran, and how it ended (one per task under srun)
 *   samples.HOST.PID.csv CPU, memory, GPU of its processes, once per second
 */
#ifndef STK_PROFILE_PROFILE_H
#define STK_PROFILE_PROFILE_H

#include "base/buf.h"
#include "base/err.h"
#include "host/scratch.h"
#include "proflog/counters.h"
#include "proflog/cover.h"
#include "proflog/libraries.h"
#include "proflog/log.h"

struct stk_prof_proc {
    uint32_t pid, ppid;
    int32_t parent;       /* index of the parent, or of the process before exec; -1: unknown */
    uint32_t born;        /* enum stk_log_born */
    uint32_t rank, world; /* world 0: unknown */
    uint32_t unit;        /* what counts as a rank, from 0: all processes of a rank; without known
                             ranks, a started program and its forked workers */
    bool launch; /* it only led to the program of its unit: a shim, a shell, env, and what these ran
                    before that began. Never a worker */
    uint32_t host;        /* index */
    uint32_t worker; /* index among its parent's workers (forked or spawned, and reading data), from
                        1; 0: not a worker */
    const char *exe, *command, *cwd;
    const char *log;       /* name of its file in the profile's folder; "": none */
    double start_s, end_s; /* seconds since the job's start */
    enum stk_log_end ended; /* NONE: killed (or still running: see the notes) */
    uint64_t read_bytes, write_bytes;               /* of recorded files */
    uint64_t seen_read_bytes, seen_write_bytes;     /* counted by us: files, left-out files,
                                                       streams */
    uint64_t kernel_read_bytes, kernel_write_bytes; /* rchar, wchar of /proc/PID/io since start; 0:
                                                       unknown */
    uint64_t storage_read_bytes, storage_write_bytes; /* read_bytes, write_bytes: from the device */
    uint64_t left_out_files, left_out_calls, left_out_read_bytes, left_out_ns;
    const struct stk_log_place *places; /* STK_LOG_PLACES folders that they lie in; NULL: unknown */
    uint64_t dropped_calls, dropped_trace;
    uint64_t uring_rings;      /* whose transfers are not observed … */
    uint64_t told_read_bytes;  /* … unless the library reported them */
    uint64_t kernel_aio_calls; /* io_submit() */
    bool blind; /* it may have moved data that nobody saw, by io_uring or kernel aio: neither we nor
                   the kernel's rchar and wchar */
    uint64_t grouped_files, minor_faults, major_faults;
    uint64_t libraries; /* loaded: bits of proflog/libraries.h; 0: unknown */
    uint32_t threads; /* slots that did I/O */
    uint32_t twins;   /* those that each read everything the process read, at the same time; 1 */
    double cpu_s;
    double user_s; /* of it, outside the kernel: not in calls; 0: unknown */
    /* Of the main thread: in waits for other processes and for other threads; in I/O calls of its
     * own, and the writes among them. */
    double wait_processes_s, wait_threads_s, main_io_s, main_write_s;
    double io_sum_s;   /* in I/O calls, threads added up */
    double io_union_s; /* at least one thread in an I/O call: exact with one thread, otherwise from
                          the time line (docs) */
};

struct stk_prof_file {
    const char *path;                    /* for a group: "dir/" "*.jpg" */
    bool group;                          /* many files folded together */
    const char *fs;                      /* "lustre", "ext4"; "": unknown */
    uint32_t stripe_bytes, stripe_count; /* Lustre; 0: unknown */
    uint8_t layouts;                     /* of its arrays: bits of enum stk_log_layout */
    uint64_t files;                      /* 1; group: estimated number */
    uint64_t size_bytes;     /* largest seen; 0: unknown. Group: estimate, mean size times files */
    uint64_t distinct_bytes; /* read at least once by any process */
    bool distinct_exact;
    uint32_t ranks;               /* units (ranks) that read data from it */
    uint64_t rank_distinct_bytes; /* distinct bytes of each rank, added up: divided by
                                     distinct_bytes, the number of ranks that read the average
                                     byte */
};

/* Whether a job's totals include such records; HDF5 and MPI-IO lie above them
 * (proflog/counters.h). */
static inline bool stk_api_moves(uint8_t api)
{
    return api == STK_API_POSIX || api == STK_API_STDIO || api == STK_API_ASYNC;
}

/* One process's use of one file through one API: threads merged. */
struct stk_prof_rec {
    uint32_t proc, file;
    uint8_t api; /* enum stk_api */
    struct stk_counts n;
    struct stk_cover read;
    uint64_t distinct_bytes; /* of this record */
};

#define STK_PROF_BINS 512 /* of the time line */
struct stk_prof_bin {     /* over all threads and processes (POSIX, STDIO, ASYNC) */
    uint64_t read_bytes, write_bytes, reads, meta_calls;
    uint64_t read_ns, write_ns, meta_ns;
};

/* The time line of each unit: threads in an I/O call, on average, in equal parts of the run. */
#define STK_PROF_UNIT_BINS 128

struct stk_prof_gap { /* time between reads of a thread, over all threads; by log2 of ns */
    uint64_t count, ns;
};

struct stk_prof_reading { /* once per second, by each launcher */
    double at_s;
    uint32_t launcher;              /* index of its run file */
    uint32_t host;                  /* index of its node */
    double cpu_cores, iowait_cores; /* of its processes; of the node (-1: unknown) */
    double other_cores;             /* of the CPUs it may use, busy with other programs; -1 */
    uint32_t threads, processes;
    uint64_t resident_bytes, cache_bytes; /* of its processes; file cache of the job's cgroup or
                                             node */
    double gpu_util, gpu_memory_bytes;    /* util 0..1, mean over its GPUs; -1: none or unknown */
};

struct stk_prof_mark {     /* stoker.step(), stoker.phase() */
    uint32_t proc, kind;   /* enum stk_log_mark_kind */
    double at_s, length_s; /* a step lasts until the next one, or the process's end */
    const char *name;      /* "" none */
    uint64_t number;
    uint32_t depth;
};

struct stk_prof_event { /* --trace; read on demand */
    uint32_t proc, slot;
    uint32_t file; /* UINT32_MAX: not in the profile */
    uint8_t op, api;
    double start_s, length_s;
    uint64_t offset, bytes;
};

struct stk_prof_host {
    const char *name;
    uint32_t cores;        /* that the job may use; 0: unknown */
    uint64_t memory_bytes; /* the job's limit there, else the node's memory; 0: unknown */
    uint32_t gpus;
    const char *gpu_kind;  /* "" none */
    const char *local_dir; /* a node-local directory with room for staging; "": none */
    uint64_t local_free_bytes;
};

/* What a recorder of profiles tells, beside who did how much with which file. */
enum stk_source_knows {
    STK_KNOWS_PROCESSES = 1, /* every process leaves a log: none means that nothing was seen */
    STK_KNOWS_HOSTS = 2,
    STK_KNOWS_ENDS = 4,   /* how the program ended */
    STK_KNOWS_KERNEL = 8, /* what the kernel counted, seen by the recorder or not */
    STK_KNOWS_WAITS = 16, /* CPU times, threads, and what the loop waited for */
    STK_KNOWS_DATA = 32,  /* which files are data: those of the system and of libraries are left out
                             unless the user asked for them */
};

struct stk_prof_source {
    const char *name, *title; /* "darshan", "a Darshan log" */
    unsigned knows;           /* bits of enum stk_source_knows */
};
extern const struct stk_prof_source stk_source_stoker, stk_source_darshan;

struct stk_profile {
    const struct stk_prof_source *source;
    const char *path;      /* as given */
    const char *command;   /* quoted as for a shell */
    const char *job;               /* the scheduler's number, or "" … */
    enum stk_scheduler scheduler;  /* … and which one */
    double start_real_s;   /* Unix time */
    double run_s;
    int exit_status; /* the worst of its launchers; -1: unknown (killed) */
    int exit_signal; /* the one behind exit_status; 0: none */
    bool running;    /* a launcher has not ended: still running, or killed */
    uint64_t unread_logs; /* damaged, or of another version of stoker */
    bool traced, stopped_early;
    bool has_size_zero;                  /* darshan: the smallest reads include reads of 0 bytes */
    uint64_t mapped_bytes, mapped_files; /* at most the size of each file, however often mapped */
    /* rchar, wchar of everything the launchers started and waited for; 0: unknown. */
    uint64_t kernel_read_bytes, kernel_write_bytes;
    uint32_t nranks; /* from the launcher; otherwise 1 */
    uint32_t nunits; /* of stk_prof_proc.unit */
    struct stk_prof_host *host;
    size_t nhosts;
    struct stk_prof_proc *proc;
    size_t nprocs;
    struct stk_prof_file *file;
    size_t nfiles;
    struct stk_prof_rec *rec; /* sorted by file, then process, then API */
    size_t nrecs;
    struct stk_prof_bin bin[STK_PROF_BINS];
    double bin_s; /* width */
    float *unit_busy; /* [nunits][STK_PROF_UNIT_BINS]; NULL: no time line */
    struct stk_prof_gap gap[STK_GAP_BINS];
    struct stk_prof_reading *reading;
    size_t nreadings;
    struct stk_prof_mark *mark; /* sorted by process, then time */
    size_t nmarks;
    const char **note; /* what is not observed or was left out, in sentences */
    size_t nnotes;
    struct stk_arena arena; /* owns everything above … */
    void *owned;            /* … except this, from malloc (the records, which are large) */
};

/* Reads a DIR written by `stoker profile` (even one that still grows), one of its logs, a Darshan
 * log, the output of darshan-parser, or a folder of Darshan logs (one per process). Caller
 * releases. Trusts nothing in the files: a damaged log is left out and noted. */
int stk_profile_read(const char *path, struct stk_profile *p, struct stk_err *err);
void stk_profile_release(struct stk_profile *p);
/* launch.c: the process that each of n units is about: the one that did most or waited for data,
 * with its workers; -1: none. `unit` and `weight` have room for each process. */
void stk_profile_mains(const struct stk_profile *p, const uint32_t *unit, uint32_t n,
                       double *weight, int32_t *main);
/* The process whose loop that worker serves; -1: unknown. */
int32_t stk_profile_loop_of(const struct stk_profile *p, uint32_t worker);
/* "exit", "exec", "abort", "killed". */
const char *stk_prof_ended(const struct stk_prof_proc *q);
/* Whether it counts as a process of the job: not if it only led to a program. One that executes
 * another program counts once. */
static inline bool stk_prof_counts(const struct stk_prof_proc *q)
{
    return !q->launch && q->ended != STK_END_EXEC;
}
/* How many processes count, with their threads that did I/O. */
uint64_t stk_profile_processes(const struct stk_profile *p, uint64_t *threads);
/* Whether it is part of a program that was started, and not one of its own. */
static inline bool stk_prof_forked(const struct stk_prof_proc *q)
{
    return (q->worker || q->born == STK_BORN_FORK) && !q->launch;
}
/* Calls fn for every traced operation, by process and in the order of their ends; non-zero
 * stops. */
int stk_profile_events(const struct stk_profile *p,
                       int (*fn)(void *user, const struct stk_prof_event *e), void *user,
                       struct stk_err *err);

/* counts.c: adds as the table in counters.h says; merges common values and keeps the most frequent.
 * A zeroed struct is not empty (minima): call init. */
void stk_counts_init(struct stk_counts *n);
void stk_counts_add(struct stk_counts *to, const struct stk_counts *from);
const char *stk_counter_name(enum stk_counter c);
const char *stk_api_name(enum stk_api api);

/* Calls that query or change names, directories and attributes: the load of a metadata server. */
uint64_t stk_counts_meta_calls(const struct stk_counts *n);

/* cover.c */
/* `to` is zeroed at first, and then made by this function. */
void stk_cover_add(struct stk_cover *to, const struct stk_cover *from);
/* Bytes read at least once, given the totals; *exact: not an estimate. */
uint64_t stk_cover_bytes(const struct stk_cover *c, uint64_t read_bytes, uint64_t file_size,
                         bool *exact);

#endif
