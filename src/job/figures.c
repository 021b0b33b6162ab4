/*
 * figures.c - which states and sources make which figure of a job unusable: one table, for every
 * view, for JSON and for advice. docs/slurm.md shows the same table.
 */
#include "job/job.h"

#define OF(figure) (1u << (figure))
#define ALL        (OF(STK_JOB_FIGURES) - 1)
#define SAMPLED_S  60   /* Slurm's own interval is 30 s: a shorter job may have no sample */
#define NOTHING    0.01 /* of a CPU: what a script itself takes while its programs work */
#define START_S    0.1  /* what a shell takes to start; Slurm counts whole seconds of elapsed time */

/* ---- conditions --------------------------------------------------------------------------- */

static bool never_ran(const struct stk_slurm_job *j)
{
    return stk_slurm_waits(j->state) || (j->elapsed_s <= 0 && !j->nodelist[0]);
}

static bool is_live(const struct stk_slurm_job *j)
{
    return j->state == STK_SLURM_RUNNING || j->state == STK_SLURM_SUSPENDED;
}

static bool no_accounting(const struct stk_slurm_job *j)
{
    return stk_slurm_ended(j->state) && !(j->sources & STK_SLURM_BY_SACCT);
}

static bool not_sampled(const struct stk_slurm_job *j)
{
    return is_live(j) && !(j->sources & STK_SLURM_BY_SSTAT);
}

static bool of_another_user(const struct stk_slurm_job *j)
{
    return not_sampled(j) && j->others;
}

static bool suspended(const struct stk_slurm_job *j)
{
    return not_sampled(j) && j->state == STK_SLURM_SUSPENDED;
}

static bool node_lost(const struct stk_slurm_job *j)
{
    return j->state == STK_SLURM_NODE_FAIL;
}

static bool killed(const struct stk_slurm_job *j)
{
    return j->killed;
}

static bool step_killed(const struct stk_slurm_job *j)
{
    for (size_t i = 0; i < j->nsteps; i++)
        if (j->step[i].killed && !stk_slurm_step_is_ours(&j->step[i]))
            return true;
    return false;
}

static bool memory_killed(const struct stk_slurm_job *j)
{
    return j->state == STK_SLURM_OUT_OF_MEMORY || stk_slurm_killed_for_memory(j, 0);
}

static bool too_short(const struct stk_slurm_job *j)
{
    return stk_slurm_ended(j->state) && j->use.memory_bytes < 0 && j->elapsed_s < SAMPLED_S;
}

static bool always(const struct stk_slurm_job *j)
{
    (void)j;
    return true;
}

/* ---- the table ---------------------------------------------------------------------------- */

/* For each figure, the first row that holds counts. */
static const struct rule {
    bool (*holds)(const struct stk_slurm_job *job);
    unsigned figures;
    enum stk_job_worth worth;
    const char *why;
} rules[] = {
    {never_ran, ALL, STK_JOB_UNKNOWN, "it has not run"},
    {no_accounting, ALL, STK_JOB_UNKNOWN,
     "only the accounting knows what a job used, and it gave no answer"},
    {of_another_user, ALL, STK_JOB_UNKNOWN,
     "it belongs to another user, and Slurm tells only the owner what a job has used so far"},
    {suspended, ALL, STK_JOB_UNKNOWN,
     "it is suspended, and Slurm does not say what it used before it runs on"},
    {not_sampled, ALL, STK_JOB_UNKNOWN, "sstat has no sample of it"},
    {node_lost, ALL, STK_JOB_AT_LEAST, "a node was lost, and with it what it had not yet reported"},
    {killed, OF(STK_JOB_CPU), STK_JOB_AT_LEAST,
     "it was killed, and Slurm counts the CPU time of a program only when the program ends by "
     "itself, or was started by srun"},
    {step_killed, OF(STK_JOB_CPU), STK_JOB_AT_LEAST,
     "a step was killed, and Slurm counts the CPU time of a program only when the program ends by "
     "itself, or was started by srun"},
    {memory_killed, OF(STK_JOB_MEMORY), STK_JOB_AT_LEAST,
     "it was killed for memory, at a peak that may lie between two samples"},
    {too_short, OF(STK_JOB_MEMORY), STK_JOB_UNKNOWN, "too short to be sampled"},
    {always, OF(STK_JOB_GPU), STK_JOB_KNOWN, "this Slurm does not record how busy GPUs are"},
    {always, ALL, STK_JOB_KNOWN, "not recorded"},
};

static const struct rule *rule_for(const struct stk_slurm_job *job, enum stk_job_figure figure)
{
    const struct rule *r = rules;
    while (!(r->figures & OF(figure) && r->holds(job)))
        r++;
    return r;
}

/* A killed script has waited for none of its programs: its own CPU time is not theirs. */
static bool says_nothing(double cpu_s, double elapsed_s)
{
    return cpu_s < START_S + NOTHING * elapsed_s;
}

static bool is_missing(const struct stk_slurm_job *job, enum stk_job_figure figure,
                       enum stk_job_worth worth)
{
    const struct stk_slurm_use *u = &job->use;
    switch (figure) {
    case STK_JOB_CPU:
        return u->cpu_s < 0 ||
               (worth == STK_JOB_AT_LEAST && says_nothing(u->cpu_s, job->elapsed_s));
    case STK_JOB_MEMORY:
        return u->memory_bytes < 0;
    case STK_JOB_GPU:
        return u->gpu_util < 0 && u->gpu_memory_bytes < 0;
    default:
        return u->read_bytes < 0 && u->write_bytes < 0;
    }
}

static void forget(struct stk_slurm_use *u, enum stk_job_figure figure)
{
    switch (figure) {
    case STK_JOB_CPU:
        u->cpu_s = -1;
        break;
    case STK_JOB_MEMORY:
        u->memory_bytes = u->task_memory_bytes = -1;
        break;
    case STK_JOB_GPU:
        u->gpu_util = -1;
        u->gpu_memory_bytes = -1;
        break;
    default:
        u->read_bytes = u->write_bytes = -1;
    }
}

void stk_job_doubts(const struct stk_slurm_job *job, struct stk_slurm_use *use,
                    struct stk_job_doubt doubt[STK_JOB_FIGURES])
{
    *use = job->use;
    for (enum stk_job_figure f = 0; f < STK_JOB_FIGURES; f++) {
        const struct rule *r = rule_for(job, f);
        enum stk_job_worth worth = is_missing(job, f, r->worth) ? STK_JOB_UNKNOWN : r->worth;
        doubt[f] = (struct stk_job_doubt){worth, worth == STK_JOB_KNOWN ? "" : r->why};
        if (worth == STK_JOB_UNKNOWN)
            forget(use, f);
    }
}

enum stk_job_worth stk_job_step_cpu(const struct stk_slurm_step *step, double *cpu_s)
{
    bool unknown =
        step->use.cpu_s < 0 || (step->killed && says_nothing(step->use.cpu_s, step->elapsed_s));
    *cpu_s = unknown ? -1 : step->use.cpu_s;
    return unknown ? STK_JOB_UNKNOWN : step->killed ? STK_JOB_AT_LEAST : STK_JOB_KNOWN;
}

const char *stk_job_figure_name(enum stk_job_figure figure)
{
    static const char *const names[STK_JOB_FIGURES] = {"cpu", "memory", "gpu", "files"};
    return names[figure];
}

const char *stk_job_worth_name(enum stk_job_worth worth)
{
    static const char *const names[] = {"known", "at least", "unknown"};
    return names[worth];
}
