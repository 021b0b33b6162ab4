/* totals.c - what jobs cost: core-hours allocated, used and idle, and service units. */
#include "job/totals.h"

#include <math.h>

static double hours(int64_t count, double seconds)
{
    return count >= 0 && seconds >= 0 ? (double)count * seconds / 3600 : -1;
}

void stk_job_cost(const struct stk_job_view *v, const struct stk_su_rates *su,
                  struct stk_job_cost *c)
{
    const struct stk_slurm_job *j = v->job;
    bool ran = !stk_slurm_waits(j->state) && j->elapsed_s > 0;
    double s = ran ? j->elapsed_s : 0;
    *c = (struct stk_job_cost){.core_h = ran ? hours(j->alloc.cpus, s) : 0,
                               .gpu_h = ran ? hours(j->alloc.gpus, s) : 0,
                               .used_h = -1,
                               .idle_h = -1};
    c->su = ran ? stk_su_per_hour(su, (double)j->alloc.cpus, (double)j->alloc.gpus,
                                  (double)j->alloc.nodes) *
                      s / 3600
                : 0;
    if (!ran)
        c->used_h = c->idle_h = 0;
    else if (v->use.cpu_s >= 0) {
        c->used_h = v->use.cpu_s / 3600;
        if (v->doubt[STK_JOB_CPU].worth == STK_JOB_KNOWN && c->core_h >= 0)
            c->idle_h = fmax(0, c->core_h - c->used_h);
    }
}

static void add(double *to, double v)
{
    *to += v > 0 ? v : 0;
}

static void add_job(struct stk_job_totals *t, const struct stk_slurm_job *j,
                    const struct stk_job_scale *scale)
{
    struct stk_job_view v;
    struct stk_job_cost c;
    stk_job_judge(j, scale->now, scale->advise_s, &v);
    stk_job_cost(&v, &scale->su, &c);
    t->jobs++;
    t->by_state[j->state]++;
    add(&t->core_h, c.core_h);
    add(&t->gpu_h, c.gpu_h);
    if (c.idle_h >= 0) {
        add(&t->used_h, c.used_h);
        add(&t->idle_h, c.idle_h);
    } else
        add(&t->unknown_h, c.core_h);
    if (isnan(c.su))
        t->without_su++;
    else
        t->su += c.su;
    if (!stk_slurm_ended(j->state) || j->state == STK_SLURM_COMPLETED)
        return;
    add(&t->lost_h, c.core_h);
    if (t->lost < STK_JOB_NAMED)
        t->lost_job[t->lost] = j;
    t->lost++;
}

void stk_job_total(const struct stk_slurm_jobs *jobs, const struct stk_job_scale *scale,
                   struct stk_job_totals *t)
{
    *t = (struct stk_job_totals){0};
    for (size_t i = 0; i < jobs->n; i++)
        add_job(t, &jobs->job[i], scale);
}
