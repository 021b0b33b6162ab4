/*
 * job.h - judges a Slurm job: what it used of its resources, and what to request next time. Numbers
 * and sentences only; report/job.h shows them.
 */
#ifndef STK_JOB_JOB_H
#define STK_JOB_JOB_H

#include "profile/profile.h"
#include "scaling/scaling.h"
#include "sched/slurm/slurm.h"

/* Thresholds for a remark (those of Princeton's jobstats). */
#define STK_JOB_CPU_POOR     0.65 /* below: request fewer CPUs */
#define STK_JOB_MEMORY_ROOMY 0.70 /* below: request less memory */
#define STK_JOB_TIME_ROOMY   0.60 /* at or below: request less time */
#define STK_JOB_GPU_POOR     0.15
#define STK_JOB_ROOM         1.2 /* request this many times what was used */

/* ---- what a figure is worth ------------------------------------------------------------------ */

enum stk_job_figure { STK_JOB_CPU, STK_JOB_MEMORY, STK_JOB_GPU, STK_JOB_FILES, STK_JOB_FIGURES };
enum stk_job_worth {
    STK_JOB_KNOWN,    /* as good as Slurm's accounting is */
    STK_JOB_AT_LEAST, /* shown with that word; no advice to request less follows from it */
    STK_JOB_UNKNOWN,  /* neither shown nor used */
};
struct stk_job_doubt {
    enum stk_job_worth worth;
    const char *why; /* static; "" if it is known */
};

/* The same for the CPU time of one of its steps. */
enum stk_job_worth stk_job_step_cpu(const struct stk_slurm_step *step, double *cpu_s);
/* "cpu", "memory": names in JSON. "at least". */
const char *stk_job_figure_name(enum stk_job_figure figure);
const char *stk_job_worth_name(enum stk_job_worth worth);

/* ---- one job ------------------------------------------------------------------------------ */

struct stk_job_note {
    char line[96];  /* "#SBATCH --mem=1500M"; "": no line, only a remark */
    char other[64]; /* "--mem-per-cpu=500M": an alternative; "": none */
    char why[300];
};
#define STK_JOB_NOTES 10

/* -1: unknown. */
struct stk_job_view {
    const struct stk_slurm_job *job; /* borrowed */
    double wait_s;                   /* from when it was eligible until it started (or now) */
    double queued_s;                 /* since it was submitted, if it waits and is not eligible */
    struct stk_slurm_use use;        /* the job's, without figures that are unusable */
    struct stk_job_doubt doubt[STK_JOB_FIGURES];
    double cpus_busy;                /* on average */
    double cpu_share;                /* cpus_busy / the CPUs it had */
    double memory_share;             /* peak / what it had */
    double time_share;               /* of the limit */
    struct stk_job_note note[STK_JOB_NOTES];
    size_t nnotes;
};

/* now: seconds since 1970. advise_s: shorter jobs get advice only on their failure. */
void stk_job_judge(const struct stk_slurm_job *job, int64_t now, double advise_s,
                   struct stk_job_view *v);

/* Fills v->note from everything else in v. */
void stk_job_advise(struct stk_job_view *v, double advise_s);

/* Combines an array into one job: the largest use and the longest times of any task, and the worst
 * state; the steps are those of one task. False: no job in jobs belongs to it, or all of them are pending. */
bool stk_job_of_array(const struct stk_slurm_jobs *jobs, uint64_t array_id,
                      struct stk_slurm_job *all);

/* "1500M", "12G": rounded up, as --mem takes it. "1-02:30:00": rounded up, as --time takes it. */
void stk_job_mem_text(double bytes, char *buf, size_t size);
void stk_job_time_text(double seconds, char *buf, size_t size);
double stk_job_time_up(double seconds); /* the seconds that this text means */

/* ---- many jobs ------------------------------------------------------------------------------- */

/* Many jobs: which are meant, their order, what each cost, and what all of them used and left idle.
 * */

/* ---- which jobs ----------------------------------------------------------------------------- */

struct stk_job_filter {
    unsigned states;        /* 1 << enum stk_slurm_state; 0: any */
    const char *name;       /* a pattern as of a shell; NULL: any */
    const char *partitions; /* separated by commas; NULL: any */
    int64_t until;          /* started (or, if it waits, submitted) until then; 0: any time */
};
bool stk_job_wanted(const struct stk_job_filter *f, const struct stk_slurm_job *job);
/* "failed,out-of-memory"; false: a word of it is no state. */
bool stk_job_states(const char *list, unsigned *mask);
const char *const *stk_job_state_names(void); /* its words, NULL-terminated */

/* The largest first; ids in ascending order. */
enum stk_job_order {
    STK_JOB_UNSORTED, /* as Slurm lists them */
    STK_JOB_BY_ID,
    STK_JOB_BY_TIME,
    STK_JOB_BY_CPU,
    STK_JOB_BY_MEMORY,
    STK_JOB_BY_IDLE,
    STK_JOB_BY_SU,
    STK_JOB_BY_WAIT,
    STK_JOB_BY_END,
};
#define STK_JOB_ORDERS "job, time, cpu, memory, idle, su, waited, ended"
bool stk_job_order(const char *text, enum stk_job_order *order); /* false: none of them */
const char *const *stk_job_order_names(void);                    /* NULL-terminated */

/* What jobs are judged by. */
struct stk_job_scale {
    int64_t now;
    double advise_s;
    struct stk_su_rates su;
};
int stk_job_sort(struct stk_slurm_jobs *jobs, enum stk_job_order order,
                 const struct stk_job_scale *scale, struct stk_err *err);

/* ---- what they cost ------------------------------------------------------------------------- */

/* Hours of CPUs or GPUs; -1: unknown. */
struct stk_job_cost {
    double core_h; /* allocated */
    double used_h; /* CPU time, possibly a lower bound */
    double idle_h; /* allocated and not used; unknown if used_h is a lower bound */
    double gpu_h;  /* allocated */
    double su;     /* NaN: unknown */
};
void stk_job_cost(const struct stk_job_view *v, const struct stk_su_rates *su,
                  struct stk_job_cost *c);

#define STK_JOB_NAMED 100 /* jobs without success that are listed */
struct stk_job_totals {
    size_t jobs, by_state[STK_SLURM_STATES];
    double core_h, gpu_h;
    double used_h, idle_h; /* of jobs whose CPU time is known */
    double unknown_h;      /* core-hours of jobs whose CPU time is unknown or a lower bound */
    double lost_h;         /* core-hours of jobs that ended without success */
    double su;             /* of jobs whose allocation is known */
    size_t without_su;     /* jobs that ran and are not in su */
    size_t lost;           /* jobs that ended without success … */
    const struct stk_slurm_job *lost_job[STK_JOB_NAMED]; /* … the first of them, borrowed */
};
void stk_job_total(const struct stk_slurm_jobs *jobs, const struct stk_job_scale *scale,
                   struct stk_job_totals *t);

/* ---- its nodes ------------------------------------------------------------------------------- */

/* What a job did on each of its nodes, from the samples of a profile of it: Slurm's accounting has
 * no figures per node. */
struct stk_job_node { /* texts are the profile's */
    const char *host, *gpu_kind;
    uint32_t cores, gpus;
    double cpus_busy; /* mean over the seconds with samples; -1: no samples */
    double peak_bytes;
    double gpu_util, gpu_memory_bytes; /* mean of its GPUs; largest. -1: unknown */
};

struct stk_job_nodes { /* all zero: none */
    const char *path;  /* of the profile, borrowed */
    struct stk_job_node *node;
    size_t n;
};

/* Whether it is a profile of this job. */
bool stk_job_nodes_fit(const struct stk_profile *p, const struct stk_slurm_job *job);
/* Borrows the profile. Caller releases. */
int stk_job_nodes(const struct stk_profile *p, struct stk_job_nodes *out, struct stk_err *err);
void stk_job_nodes_release(struct stk_job_nodes *nodes);

#endif
