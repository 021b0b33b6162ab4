/*
 * job.h - a Slurm job judged: what it used of what it had, and what to ask for next time. Numbers
 * and sentences only; who shows them is report/job.h.
 */
#ifndef STK_LAB_JOB_H
#define STK_LAB_JOB_H

#include "cluster/slurm.h"

/* From what share on something is worth a word (those of Princeton's jobstats). */
#define STK_JOB_CPU_POOR     0.65 /* below: ask for fewer CPUs */
#define STK_JOB_MEMORY_ROOMY 0.70 /* below: ask for less memory */
#define STK_JOB_TIME_ROOMY   0.60 /* at or below: ask for less time */
#define STK_JOB_GPU_POOR     0.15
#define STK_JOB_ROOM         1.2 /* what is asked for next: this much more than was used */

struct stk_job_note {
    char line[96];  /* "#SBATCH --mem=1500M"; "": no line, only a remark */
    char other[64]; /* "--mem-per-cpu=500M": another way to say it; "": none */
    char why[300];
};
#define STK_JOB_NOTES 10

/* -1: not known. */
struct stk_job_view {
    const struct stk_slurm_job *job; /* borrowed */
    double wait_s;                   /* from when it could have run until it did (or now) */
    double cpus_busy;                /* on average */
    double cpu_share;                /* cpus_busy of those it had */
    double memory_share;             /* peak of what it had */
    double time_share;               /* of the limit */
    struct stk_job_note note[STK_JOB_NOTES];
    size_t nnotes;
};

/* now: seconds since 1970. advise_s: jobs that ran shorter get no advice but on their failure. */
void stk_job_judge(const struct stk_slurm_job *job, int64_t now, double advise_s,
                   struct stk_job_view *v);

/* Everything of an array in one job: of what was used the most of any task, of times the longest;
 * state: what is worst. Steps are left out. False: no job of jobs is of it, or all of them wait. */
bool stk_job_of_array(const struct stk_slurm_jobs *jobs, uint64_t array_id,
                      struct stk_slurm_job *all);

/* "1500M", "12G": rounded up, as --mem takes it. "1-02:30:00": rounded up, as --time takes it. */
void stk_job_mem_text(double bytes, char *buf, size_t size);
void stk_job_time_text(double seconds, char *buf, size_t size);
double stk_job_time_up(double seconds); /* what that stands for */

#endif
