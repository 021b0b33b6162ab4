/*
 * slurm.h - Slurm through its command-line clients: submit, look, cancel, report.
 *
 * Clients run without a shell, each with a time limit, with parsable output and fields that exist
 * since Slurm 20.11. Their output is not trusted: names and reasons may hold anything. An unknown
 * number is -1, an unknown text is NULL or "": missing is never 0. Times are seconds since 1970.
 */
#ifndef STK_SCHED_SLURM_SLURM_H
#define STK_SCHED_SLURM_SLURM_H

#include "base/buf.h"
#include "base/hash.h"

/* ---- calling clients (sched/slurm/client.c) ------------------------------------------------- */

/* How to call clients. NULL or all zero: the defaults. */
struct stk_slurm {
    double timeout_s;    /* per client, 0: 30 s; after that it is killed, which is an error */
    const char *cluster; /* -M: a cluster other than the default; NULL: the default */
    /* Called twice per second while a client runs; non-zero: the client is killed,
     * STK_E_STOPPED. */
    int (*stop)(void *user);
    void *user;
};

/* What was wrong, by a client's messages. */
enum stk_slurm_trouble {
    STK_SLURM_LATE = 1, /* no answer in time: what was asked for may have been done */
    STK_SLURM_UNREACHABLE = 2,
    STK_SLURM_NOT_NOW = 4, /* a limit, which may have room later */
    STK_SLURM_NO_JOB = 8,  /* no such job */
    STK_SLURM_OVER = 16,   /* it has already ended */
};

struct stk_slurm_output {
    struct stk_buf out, err; /* its output, at most 64 MiB and 64 KiB */
    int status;              /* as in a shell: exit status, or 128 + signal */
    unsigned trouble;        /* bits of enum stk_slurm_trouble */
};

/* Runs argv[0] (searched in PATH; NULL-terminated) with `input` on its standard input. An exit
 * status other than 0 is not an error here. An error: it is missing (STK_E_UNSUPPORTED, names the
 * package), took too long, or wrote too much. The environment is ours without variables that change
 * the output (SQUEUE_*, SACCT_*, ...) and without the SLURM_* of a surrounding job; times are
 * numbers (SLURM_TIME_FORMAT=%s). Caller releases out in either case. */
int stk_slurm_call(const struct stk_slurm *s, const char *const *argv, const void *input,
                   size_t input_len, struct stk_slurm_output *out, struct stk_err *err);
void stk_slurm_output_release(struct stk_slurm_output *out);

/* A long-running client (srun): its output is read line by line while it runs. Its standard input
 * stays open as long as we run. */
struct stk_slurm_stream;
/* Caller closes with stk_slurm_stream_close(). */
int stk_slurm_stream_open(const char *const *argv, struct stk_slurm_stream **out,
                          struct stk_err *err);
/* The next line, without its end. 1: there is one, borrowed until the next call; 0: none within
 * wait_s; negative: it has ended (STK_E_STOPPED; err has its own message) or a line is longer than
 * 1 MiB. */
int stk_slurm_stream_line(struct stk_slurm_stream *s, double wait_s, const char **line, size_t *len,
                          struct stk_err *err);
/* Sends it a byte, so that its tasks know that we are alive. */
void stk_slurm_stream_beat(struct stk_slurm_stream *s);
/* Ends it: SIGTERM, and SIGKILL if it still runs after 5 s. NULL is fine. */
void stk_slurm_stream_close(struct stk_slurm_stream *s);

/* 0 if the client is in PATH. An error says what to install. */
int stk_slurm_have(const char *client, struct stk_err *err);

/* ---- a job (sched/slurm/job.c) -------------------------------------------------------------- */

enum stk_slurm_state {
    STK_SLURM_UNKNOWN = 0, /* unknown to all clients: not yet (just submitted), or no longer */
    STK_SLURM_PENDING,     /* reason says why */
    STK_SLURM_RUNNING,     /* also configuring, completing, resizing, signaling, staging out */
    STK_SLURM_SUSPENDED,   /* also stopped */
    STK_SLURM_REQUEUED,    /* back in the queue: will run again, or is held (reason) */
    /* From here on, the job has ended. */
    STK_SLURM_COMPLETED,
    STK_SLURM_FAILED, /* exit_code or exit_signal says how */
    STK_SLURM_CANCELLED,
    STK_SLURM_TIMEOUT, /* the time limit, or the deadline */
    STK_SLURM_OUT_OF_MEMORY,
    STK_SLURM_NODE_FAIL, /* also: could not boot */
    STK_SLURM_PREEMPTED, /* gave way to another job, and was not requeued */
    STK_SLURM_STATES
};

/* "COMPLETED", "CANCELLED by 0", "CANCELLED+" (cut), "OUT_OF_ME+": by the word, whatever
 * follows. */
enum stk_slurm_state stk_slurm_state_of(const char *word, size_t len);
const char *stk_slurm_state_name(enum stk_slurm_state state); /* "out of memory" */
bool stk_slurm_ended(enum stk_slurm_state state);

/* The content of TRES strings ("cpu=4,gres/gpu:k80=2,mem=2000M,node=2"); -1: missing. */
struct stk_slurm_tres {
    int64_t cpus, nodes, gpus;
    int64_t memory_bytes;
    int64_t billing;
    char gpu_kind[48]; /* "k80"; "k80,a100" when mixed; "": unknown */
};

/* What a step of a job used; -1: unknown. */
struct stk_slurm_use {
    double cpu_s;
    int64_t memory_bytes;      /* all tasks together: the sum of their peaks */
    int64_t task_memory_bytes; /* the largest of one task */
    double gpu_util;           /* 0..1 per GPU: recorded at few sites */
    int64_t gpu_memory_bytes;
    double energy_J;
    int64_t read_bytes, write_bytes; /* by its tasks, by the kernel's count */
};

struct stk_slurm_step {
    const char *name;                 /* "0", "batch", "extern", "interactive" */
    const char *title;                /* the program's name, from srun */
    const char *nodelist, *peak_node; /* peak_node: of the task with the most memory */
    enum stk_slurm_state state;
    int exit_code, exit_signal;
    bool killed; /* not ended by itself: by a signal, a limit, scancel, or with its job */
    int64_t tasks;
    int64_t start, end;
    double elapsed_s;
    struct stk_slurm_tres alloc;
    struct stk_slurm_use use;
};

/* Which clients have answered. */
enum stk_slurm_source {
    STK_SLURM_BY_SQUEUE = 1u << 0,
    STK_SLURM_BY_SACCT = 1u << 1,
    STK_SLURM_BY_SCONTROL = 1u << 2,
    STK_SLURM_BY_SSTAT = 1u << 3,
};

struct stk_slurm_gpus {      /* on one node (or on identical nodes) */
    const char *nodes, *ids; /* "node[1-2]", "0-1" */
    const char *kind;        /* "k80" or "" */
    int64_t count;
    const char *cpu_ids;
};

/* All data about one job, or one task of an array. Texts are in the list's arena. */
struct stk_slurm_job {
    uint64_t id;        /* the number that clients take; a task of an array has its own */
    uint64_t array_id;  /* of the array it belongs to; 0: none */
    int64_t array_task; /* its number in it; -1: none, or several at once */
    uint64_t het_id;    /* the heterogeneous job it is a part of; 0: none */
    int64_t het_part;   /* its number in it; -1: none */
    const char *label;  /* as Slurm shows it: "12", "12_3", "12_[4-9%2]" */
    unsigned sources;   /* enum stk_slurm_source */
    enum stk_slurm_state state;
    const char *state_word;     /* in Slurm's words: "CANCELLED by 0"; for people */
    bool deadline;              /* its deadline came before its limit */
    bool by_kernel;             /* killed for memory, although Slurm says FAILED */
    const char *reason;         /* why it is pending: "Priority", "Resources"; "": no reason */
    const char *cancelled_by;   /* a user's name, or number; "": nobody, or unknown */
    int exit_code, exit_signal; /* -1: unknown */
    bool killed;                /* it has ended, but not by itself */
    bool others;  /* of a user whose running jobs the caller may not ask about: sstat is silent */
    int restarts; /* times it was requeued; -1: unknown */
    const char *name, *user, *account, *partition, *qos, *nodelist, *workdir, *dependency;
    struct stk_slurm_tres asked, alloc; /* alloc.cpus -1 while pending */
    int64_t tasks;                      /* asked for */
    int64_t cpus_per_task;
    int64_t memory_per_cpu_bytes; /* how memory was requested: one of these, or neither is known */
    int64_t memory_per_node_bytes;
    int64_t submit, eligible, start, end; /* -1: not yet; start of a pending job: the estimate */
    double elapsed_s;                     /* so far; Slurm rounds to seconds */
    int64_t limit_s;                      /* -1: unknown, INT64_MAX: none */
    bool exclusive;
    struct stk_slurm_step *step;
    size_t nsteps;
    struct stk_lookup by_name;   /* steps (sched/slurm/job.c) */
    struct stk_slurm_gpus *gpus; /* only while the controller remembers the job */
    size_t ngpus;
    /* Of the job, without our own steps: CPU time added up, memory of steps that ran at the same
     * time. */
    struct stk_slurm_use use;
};

#define STK_SLURM_JOBS_MAX 10000
struct stk_slurm_jobs { /* all zero: empty */
    struct stk_slurm_job *job;
    size_t n, max; /* max 0: STK_SLURM_JOBS_MAX */
    bool more;     /* there were more than max */
    struct stk_arena arena;
    /* Bits of enum stk_slurm_source: which clients were called, failed, and did not get through to
     * what they ask. */
    unsigned asked, failed, silent;
    char why[4][240]; /* by bit: the message of one that failed, without its name; "": none */
};

void stk_slurm_jobs_release(struct stk_slurm_jobs *jobs);
/* Drops the jobs for which wanted() returns false. */
void stk_slurm_jobs_keep(struct stk_slurm_jobs *jobs,
                         bool (*wanted)(const void *user, const struct stk_slurm_job *job),
                         const void *user);

/* The n-th step that was killed for memory, from 0, without our own; NULL: no more. The job may have
 * completed nevertheless. */
const struct stk_slurm_step *stk_slurm_killed_for_memory(const struct stk_slurm_job *job, size_t n);
/* It waits: pending, or put back into the queue. */
bool stk_slurm_waits(enum stk_slurm_state state);
/* The name of the step of `stoker watch`: it runs inside the job, but is not part of it. */
#define STK_SLURM_WATCH_STEP "stoker-watch"
bool stk_slurm_step_is_ours(const struct stk_slurm_step *step);
enum stk_slurm_step_kind {
    STK_STEP_PROGRAM, /* that srun started, or a shell of salloc */
    STK_STEP_BATCH,   /* the job script */
    STK_STEP_EXTERN,  /* what Slurm adopted: logins, ssh */
    STK_STEP_OURS,
};
enum stk_slurm_step_kind stk_slurm_step_kind(const struct stk_slurm_step *step);
/* The maximum over time of the sum of `of` over simultaneous steps; values below 0 and our own
 * steps do not count. -1: no step has a value. */
double stk_slurm_at_once(const struct stk_slurm_job *job,
                         double (*of)(const struct stk_slurm_step *step));

/* ---- operations (slurm.c) ----------------------------------------------------------------- */

struct stk_slurm_batch {
    const char *script; /* the whole batch file, "#!" line first; passed on standard input */
    size_t len;
    const char *const
        *args;       /* more options for sbatch ("--partition=gpu"), NULL-terminated; or NULL */
    const char *dir; /* the job's working directory; NULL: ours */
};
struct stk_slurm_receipt {
    uint64_t id; /* the job's number; 0: none was given */
    bool lost;   /* the answer was lost: the job may be there, or not */
    bool later;  /* refused for a reason that may pass */
};
/* If refused: STK_E_UNSUPPORTED with Slurm's own message. *r is filled in any case. */
int stk_slurm_submit(const struct stk_slurm *s, const struct stk_slurm_batch *batch,
                     struct stk_slurm_receipt *r, struct stk_err *err);

/* A unique text for the name of a job. */
void stk_slurm_token(char *text, size_t size);
/* Finds the job of this unique name: *id 0 if there is none. An error: the controller did not
 * answer, so it is unknown. */
int stk_slurm_named(const struct stk_slurm *s, const char *name, uint64_t *id, struct stk_err *err);

/* Updates n jobs: one squeue for all; then one sacct by id (500 ids per call) for those that have
 * ended or are gone; then scontrol for those that neither knows. out->job[i] is that of id[i]
 * (state STK_SLURM_UNKNOWN if no client knows it), with steps if sacct was called; earlier content
 * of out is dropped, its memory reused. An error only when no client could be called: try again
 * later. */
int stk_slurm_look(const struct stk_slurm *s, const uint64_t *id, size_t n,
                   struct stk_slurm_jobs *out, struct stk_err *err);
/* Seconds to wait before the next look, `age_s` after the jobs were submitted (or last changed):
 * min(60, max(2, age / 2)), so that many users do not overload the controller. */
double stk_slurm_poll_s(double age_s);

/* scancel of n jobs; an ended job is not an error. signal_name: NULL (end it), or "USR1" and the
 * like. */
int stk_slurm_cancel(const struct stk_slurm *s, const uint64_t *id, size_t n,
                     const char *signal_name, struct stk_err *err);

/* All data about jobs, with steps, use, and every task of arrays: from sacct, squeue, scontrol, and
 * sstat for running jobs, as available: jobs->asked, failed and why say what is missing. */
struct stk_slurm_query {
    const char *const *ids; /* "12", "12_3", NULL-terminated; NULL: by user */
    const char *user;       /* with ids NULL: their owner; NULL: ours */
    int64_t since, until;   /* with ids NULL: those that ran (or waited) in between; until 0: now */
    size_t max_jobs;        /* 0: STK_SLURM_JOBS_MAX */
};
int stk_slurm_report(const struct stk_slurm *s, const struct stk_slurm_query *q,
                     struct stk_slurm_jobs *out, struct stk_err *err);
/* What a reason of squeue means and what to do; NULL: unknown (sched/slurm/job.c). */
const char *stk_slurm_reason_text(const char *reason);
/* The job requests what the partition, the account or the machine does not have: it never
 * starts. */
bool stk_slurm_reason_is_final(const char *reason);
/* Parses "4(x2),2", Slurm's numbers per node. Takes the next number, and for how many nodes it
 * holds, from *text. False: the end, or an invalid text (then **text is not NUL). */
bool stk_slurm_per_node(const char **text, uint32_t *number, uint32_t *nodes);
/* Text that need not end in NUL. */
struct stk_slurm_word {
    const char *p;
    size_t n;
};
double stk_slurm_seconds(struct stk_slurm_word w); /* "1-02:03:04", "02:03", "01:02.345"; -1 */
/* "billing=4,cpu=4,gres/gpu=2". */
void stk_slurm_tres(struct stk_slurm_word w, struct stk_slurm_tres *t);
/* "12", "12_3", "12_[1-4]", "12+0": whether text may be passed to a client. */
bool stk_slurm_id_ok(const char *text);

/* ---- jobs that are over ---------------------------------------------------------------------- */

/* Whether a job, named as in host/scratch.h, is over, so that what it has left on a node may go: 1: it
 * is over, 0: it is not, -1: not known (no scheduler answers, or not one that we can ask).
 * Asks Slurm about numbers. how may be NULL. */
int stk_job_is_over(const char *id, const struct stk_slurm *how);
/* When the Slurm job of this process ends: seconds since 1970; 0: not known. Asks Slurm if the
 * environment does not say it, unless too many ranks would. */
double stk_job_end(const struct stk_rank *rank);

#endif
