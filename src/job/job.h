/*
 * job.h - judges a Slurm job: what it used of its resources, and what to request next time. Numbers
 * and sentences only; report/job.h shows them.
 */
#ifndef STK_JOB_JOB_H
#define STK_JOB_JOB_H

#include "sched/slurm/slurm.h"

/* Thresholds for a remark (those of Princeton's jobstats). */
#define STK_JOB_CPU_POOR     0.65 /* below: request fewer CPUs */
#define STK_JOB_MEMORY_ROOMY 0.70 /* below: request less memory */
#define STK_JOB_TIME_ROOMY   0.60 /* at or below: request less time */
#define STK_JOB_GPU_POOR     0.15
#define STK_JOB_ROOM         1.2 /* request this many times what was used */

/* ---- what a figure is worth (job/figures.c) ------------------------------------------------- */

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

/* Sets figures that the job's state or the source of its data make unusable to -1, and says why. */
void stk_job_doubts(const struct stk_slurm_job *job, struct stk_slurm_use *use,
                    struct stk_job_doubt doubt[STK_JOB_FIGURES]);
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

#endif
