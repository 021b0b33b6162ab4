/* priv.h - shared by the files of the Slurm client: parsing the output of clients. Also for
 * the unit test and the fuzz target. */
#ifndef STK_SCHED_SLURM_PRIV_H
#define STK_SCHED_SLURM_PRIV_H

#include <sys/types.h>

#include "base/buf.h"
#include "base/spawn.h"
#include "sched/slurm/slurm.h"

/* A client's own error message from its output: the last error, without its name. */
void stk_slurm_words(const struct stk_slurm_output *out, char *to, size_t size);

/* ---- words and numbers (sched/slurm/text.c). p[0..n) need not end in NUL -------------------- */

bool stk_slurm_word_is(struct stk_slurm_word w, const char *text);
/* "(null)", "N/A", "Unknown", "None", "None assigned", "": no value. */
bool stk_slurm_word_empty(struct stk_slurm_word w);
int64_t stk_slurm_int(struct stk_slurm_word w);    /* -1: not a number, or out of range */
int64_t stk_slurm_bytes(struct stk_slurm_word w);  /* "2000M", "387.50M", "806821888"; -1 */
int64_t stk_slurm_megas(struct stk_slurm_word w);  /* the same, but a bare number is MiB */
/* A time limit: "UNLIMITED" is INT64_MAX; -1: unknown. */
int64_t stk_slurm_limit(struct stk_slurm_word w);
int64_t stk_slurm_time(struct stk_slurm_word w); /* "1794740886", "2026-11-15T10:00:00"; -1 */
void stk_slurm_exit(struct stk_slurm_word w, int *code, int *sig); /* "3:0" */
void stk_slurm_use_init(struct stk_slurm_use *u);
/* The value of a name in "cpu=4,mem=2000M"; false: missing. */
bool stk_slurm_find(struct stk_slurm_word list, const char *name, struct stk_slurm_word *value);
/* "12", "12_3", "12_[4-9%2]", "12+1", each with or without ".batch": the numbers and the step. */
struct stk_slurm_id {
    uint64_t job;
    int64_t task;                /* -1: none, or several */
    struct stk_slurm_word label; /* without the step */
    struct stk_slurm_word step;  /* n 0: the job itself */
};
bool stk_slurm_id(struct stk_slurm_word w, struct stk_slurm_id *id);
/* Calls f for "12" and "12_3" as they are, and for each task of "12_[1-5:2,9%2]", which sacct does
 * not accept. Stops and returns when f returns non-zero. */
int stk_slurm_id_each(const char *text, int (*f)(void *user, const char *id, size_t len),
                      void *user);

/* ---- rows (sched/slurm/text.c) -------------------------------------------------------------- */

/* Rows of `ncols` fields with an unpredictable separator, so that no job name can end a field or
 * a row; the last field may contain line breaks. Calls row() for each that is complete.
 * STK_SLURM_CUT: the last was not, so that there may be others. */
#define STK_SLURM_CUT 1
/* False: a client has not written all of its answer. */
bool stk_slurm_is_whole(const char *text, size_t len);
#define STK_SLURM_COLUMNS 32
typedef int stk_slurm_row_fn(void *user, const struct stk_slurm_word *col);
int stk_slurm_rows(const char *text, size_t len, const char *sep, size_t ncols,
                   stk_slurm_row_fn *row, void *user);
#define STK_SLURM_SEP_MAX 32
void stk_slurm_separator(char sep[STK_SLURM_SEP_MAX]); /* a new one */

/* ---- lists (sched/slurm/job.c) -------------------------------------------------------------- */

/* The job of that number, or a new one at the end; NULL: out of memory, or jobs->more. */
struct stk_slurm_job *stk_slurm_jobs_get(struct stk_slurm_jobs *jobs, uint64_t id);
struct stk_slurm_job *stk_slurm_jobs_find(const struct stk_slurm_jobs *jobs, uint64_t id);
void stk_slurm_jobs_clear(struct stk_slurm_jobs *jobs); /* keeps memory */
/* The same into *to, but only if there is a value (or *to is NULL). False: out of memory. */
bool stk_slurm_take(struct stk_slurm_jobs *jobs, const char **to, struct stk_slurm_word w);
void stk_slurm_steps_drop(struct stk_slurm_job *job); /* keeps memory */
/* The step of that name, or a new one. NULL: out of memory. */
struct stk_slurm_step *stk_slurm_step_get(struct stk_slurm_jobs *jobs, struct stk_slurm_job *job,
                                          struct stk_slurm_word name);
/* Computes what the job used from its steps; marks a job that was killed for memory. */
void stk_slurm_job_settle(struct stk_slurm_job *job);
/* Sets numbers and a missing label from an id. */
bool stk_slurm_job_name(struct stk_slurm_jobs *jobs, struct stk_slurm_job *job,
                        const struct stk_slurm_id *id);

/* ---- the output of each client (sched/slurm/answers.c) -------------------------------------- */

/* All of them add to jobs. `only`: skips jobs that are not in the list. 0 or STK_E_NOMEM;
 * unreadable parts are skipped. */
extern const char stk_slurm_sacct_fields[];  /* for -o */
extern const char stk_slurm_squeue_fields[]; /* letters, for %x */
extern const char stk_slurm_sstat_fields[];
int stk_slurm_read_sacct(struct stk_slurm_jobs *jobs, const char *text, size_t len, const char *sep,
                         bool only);
int stk_slurm_read_squeue(struct stk_slurm_jobs *jobs, const char *text, size_t len,
                          const char *sep, bool only);
/* want: the requested job or array; others are skipped. 0: all. */
int stk_slurm_read_scontrol(struct stk_slurm_jobs *jobs, const char *text, size_t len,
                            uint64_t want, bool only);
int stk_slurm_read_sstat(struct stk_slurm_jobs *jobs, const char *text, size_t len,
                         const char *sep);
/* "123" or "123;cluster", nothing else. */
bool stk_slurm_read_sbatch(const char *text, size_t len, uint64_t *id);

/* ---- asking (sched/slurm/client.c) ---------------------------------------------------------- */

#define STK_SLURM_ARGV_MAX 64

struct stk_slurm_args {
    const char *v[STK_SLURM_ARGV_MAX]; /* NULL-terminated */
    size_t n;
};
/* The arguments of a client, words[0], with -M for another cluster; NULL ends them. Borrowed. */
void stk_slurm_args(struct stk_slurm_args *a, const struct stk_slurm *s, const char *const *words);
void stk_slurm_arg(struct stk_slurm_args *a, const char *text); /* one more; borrowed */

unsigned stk_slurm_bit(unsigned source); /* 0..3: the index in jobs->why */

/* Each calls one client and merges its answer into jobs. who: "-j" and a list of ids, "-u" and a
 * user, or "--name" and a job's name. Errors: out of memory, a request to stop. */
int stk_slurm_ask_squeue(const struct stk_slurm *s, const char *who, const char *list,
                         struct stk_slurm_jobs *jobs, bool only, struct stk_err *err);
struct stk_slurm_range { /* as sacct writes times; until "": now */
    char since[32], until[32];
};
/* range: for "-u" and "--name"; NULL for "-j", which needs no time range. */
int stk_slurm_ask_sacct(const struct stk_slurm *s, const char *who, const char *list,
                        const struct stk_slurm_range *range, struct stk_slurm_jobs *jobs, bool only,
                        struct stk_err *err);
int stk_slurm_ask_scontrol(const struct stk_slurm *s, const char *id, uint64_t want,
                           struct stk_slurm_jobs *jobs, bool only, struct stk_err *err);
int stk_slurm_ask_sstat(const struct stk_slurm *s, const char *list, struct stk_slurm_jobs *jobs,
                        struct stk_err *err);

#endif
