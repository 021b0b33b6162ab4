/*
 * job.c - how much of its resources a job used, arrays as one job, and the values of --mem and
 * --time.
 */
#include "job/job.h"

#include <math.h>
#include <stdio.h>

static double share(double part, double whole)
{
    return part >= 0 && whole > 0 ? part / whole : -1;
}

/* A job that is held, or whose dependency is not met, is not eligible: it does not compete yet. */
static double waited(const struct stk_slurm_job *j, int64_t now)
{
    int64_t from = j->eligible;
    bool begun = !stk_slurm_waits(j->state) && j->start > 0;
    int64_t to = begun ? j->start : j->end > 0 ? j->end : now;
    return from > 0 && to >= from ? (double)(to - from) : -1;
}

void stk_job_judge(const struct stk_slurm_job *job, int64_t now, double advise_s,
                   struct stk_job_view *v)
{
    *v = (struct stk_job_view){.job = job};
    bool limited = job->limit_s > 0 && job->limit_s != INT64_MAX;
    bool begun = !stk_slurm_waits(job->state) && job->elapsed_s > 0;
    v->wait_s = waited(job, now);
    v->queued_s = stk_slurm_waits(job->state) && job->eligible <= 0 && job->submit > 0
                      ? (double)(now - job->submit)
                      : -1;
    stk_job_doubts(job, &v->use, v->doubt);
    v->cpus_busy = begun ? share(v->use.cpu_s, job->elapsed_s) : -1;
    v->cpu_share = share(v->cpus_busy, (double)job->alloc.cpus);
    v->memory_share = share((double)v->use.memory_bytes, (double)job->alloc.memory_bytes);
    v->time_share = begun && limited ? share(job->elapsed_s, (double)job->limit_s) : -1;
    stk_job_advise(v, advise_s);
}

/* ---- arrays ------------------------------------------------------------------------------- */

static void most(double *to, double v)
{
    *to = v > *to ? v : *to;
}

static void most_int(int64_t *to, int64_t v)
{
    *to = v > *to ? v : *to;
}

/* The task with the most busy CPUs determines how many are needed. */
static void add_task(struct stk_slurm_job *all, const struct stk_slurm_job *j, double *busy)
{
    if (j->elapsed_s > 0 && j->use.cpu_s >= 0)
        most(busy, j->use.cpu_s / j->elapsed_s);
    most(&all->elapsed_s, j->elapsed_s);
    most_int(&all->use.memory_bytes, j->use.memory_bytes);
    most_int(&all->use.task_memory_bytes, j->use.task_memory_bytes);
    most(&all->use.gpu_util, j->use.gpu_util);
    most_int(&all->use.gpu_memory_bytes, j->use.gpu_memory_bytes);
    if (stk_slurm_ended(j->state) && j->state > all->state)
        all->state = j->state;
    all->killed |= j->killed;
    if (stk_slurm_killed_for_memory(j, 0) && !stk_slurm_killed_for_memory(all, 0)) {
        all->step = j->step;
        all->nsteps = j->nsteps;
    }
}

bool stk_job_of_array(const struct stk_slurm_jobs *jobs, uint64_t array_id,
                      struct stk_slurm_job *all)
{
    bool any = false;
    double busy = -1;
    for (size_t i = 0; i < jobs->n; i++) {
        const struct stk_slurm_job *j = &jobs->job[i];
        if (j->array_id != array_id || stk_slurm_waits(j->state) || j->state == STK_SLURM_UNKNOWN)
            continue;
        if (!any)
            *all = *j;
        any = true;
        add_task(all, j, &busy);
    }
    if (!any)
        return false;
    all->array_task = -1;
    all->use.cpu_s = busy >= 0 && all->elapsed_s > 0 ? busy * all->elapsed_s : -1;
    return true;
}

/* ---- values of Slurm's options -------------------------------------------------------------- */

static double up(double v, double step)
{
    return ceil(v / step) * step;
}

void stk_job_mem_text(double bytes, char *buf, size_t size)
{
    double mib = fmin(fmax(bytes, 1) / 0x1p20, 1e12);
    if (mib <= 1000)
        snprintf(buf, size, "%.0fM", up(mib, 50));
    else if (mib <= 10240)
        snprintf(buf, size, "%.0fM", up(mib, 500));
    else
        snprintf(buf, size, "%.0fG", ceil(mib / 1024));
}

double stk_job_time_up(double seconds)
{
    double s = fmin(fmax(seconds, 1), 1e9);
    return up(s, s <= 3600 ? 300 : s <= 36000 ? 900 : 3600);
}

void stk_job_time_text(double seconds, char *buf, size_t size)
{
    long minutes = lround(stk_job_time_up(seconds) / 60);
    if (minutes >= 24 * 60)
        snprintf(buf, size, "%ld-%02ld:%02ld:00", minutes / 1440, minutes / 60 % 24, minutes % 60);
    else
        snprintf(buf, size, "%02ld:%02ld:00", minutes / 60, minutes % 60);
}
