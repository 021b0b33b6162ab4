/*
 * advise.c - what to write in the next batch file, from what a job used: exact lines, each with
 * its reason. First failures that more memory or time would have prevented, then resources that
 * were not used. Says nothing about what is unknown.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/units.h"
#include "job/job.h"

static struct stk_job_note *note(struct stk_job_view *v, const char *why, ...) STK_PRINTF(2, 3);

static struct stk_job_note *note(struct stk_job_view *v, const char *why, ...)
{
    struct stk_job_note *n = &v->note[v->nnotes];
    v->nnotes += v->nnotes < STK_JOB_NOTES - 1; /* there are fewer kinds than entries */
    va_list ap;
    va_start(ap, why);
    *n = (struct stk_job_note){0};
    vsnprintf(n->why, sizeof n->why, why, ap);
    va_end(ap);
    return n;
}

static void note_more(struct stk_job_note *n, const char *fmt, ...) STK_PRINTF(2, 3);

static void note_more(struct stk_job_note *n, const char *fmt, ...)
{
    size_t len = strlen(n->why);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(n->why + len, sizeof n->why - len, fmt, ap);
    va_end(ap);
}

static int64_t positive(int64_t v)
{
    return v > 0 ? v : 1;
}

/* An upper bound for a step's memory on one node: its share, or its largest task times the tasks
 * per node, if they differ. */
static double on_a_node(const struct stk_slurm_step *s)
{
    double nodes = (double)positive(s->alloc.nodes), all = (double)s->use.memory_bytes;
    double tasks = ceil((double)positive(s->tasks) / nodes);
    return fmax(all / nodes, fmin((double)s->use.task_memory_bytes * tasks, all));
}

/* Memory that a node needs if all steps may have run on the same one. */
static double memory_per_node(const struct stk_slurm_job *j)
{
    double nodes = (double)positive(j->alloc.nodes), all = (double)j->use.memory_bytes;
    return nodes > 1 ? fmax(all / nodes, fmin(stk_slurm_at_once(j, on_a_node), all)) : all;
}

/* CPUs per node as requested: whole cores and whole nodes are the site's addition. */
static double cpus_on_a_node(const struct stk_slurm_job *j)
{
    int64_t cpus = positive(j->alloc.cpus);
    cpus = j->asked.cpus > 0 && j->asked.cpus < cpus ? j->asked.cpus : cpus;
    return fmax(1, floor((double)cpus / (double)positive(j->alloc.nodes)));
}

/* The line in the way the job requested memory; both ways if unknown. cpus: of the next job on a
 * node, which may be fewer than this job had. */
static void memory_line(struct stk_job_note *n, const struct stk_slurm_job *j, double per_node,
                        double cpus)
{
    char node[24], cpu[24];
    stk_job_mem_text(per_node, node, sizeof node);
    stk_job_mem_text(per_node / cpus, cpu, sizeof cpu);
    bool by_cpu = j->memory_per_cpu_bytes > 0, by_node = j->memory_per_node_bytes > 0;
    snprintf(n->line, sizeof n->line, "#SBATCH --mem%s=%s", by_cpu ? "-per-cpu" : "",
             by_cpu ? cpu : node);
    if (!by_cpu && !by_node)
        snprintf(n->other, sizeof n->other, "--mem-per-cpu=%s", cpu);
}

/* The step whose memory the next job must hold: the one that was killed with the most; NULL: none
 * was killed. */
static const struct stk_slurm_step *killed_step(const struct stk_slurm_job *j)
{
    const struct stk_slurm_step *s, *most = stk_slurm_killed_for_memory(j, 0);
    for (size_t i = 1; (s = stk_slurm_killed_for_memory(j, i)); i++)
        if (s->use.memory_bytes > most->use.memory_bytes)
            most = s;
    return most;
}

/* A step that requested its own share of the job's memory: srun's option is the one to change. */
static bool advise_srun_memory(struct stk_job_view *v, const struct stk_slurm_step *s)
{
    const struct stk_slurm_job *j = v->job;
    double nodes = (double)positive(s->alloc.nodes), limit = (double)s->alloc.memory_bytes / nodes;
    double had = (double)j->alloc.memory_bytes / (double)positive(j->alloc.nodes);
    double next = fmax(limit, (double)s->use.memory_bytes / nodes) * 1.5;
    char a[32], text[24];
    if (limit <= 0 || limit >= had || next > had)
        return false;
    struct stk_job_note *n =
        note(v, "step %s was killed for memory, and had %s of the job's memory per node", s->name,
             stk_format_size((uint64_t)limit, a, sizeof a));
    stk_job_mem_text(next, text, sizeof text);
    snprintf(n->line, sizeof n->line, "srun --mem=%s", text);
    return true;
}

static void advise_more_memory(struct stk_job_view *v, const struct stk_slurm_step *step,
                               double cpus)
{
    const struct stk_slurm_job *j = v->job;
    char a[32];
    double had = (double)j->alloc.memory_bytes / (double)positive(j->alloc.nodes);
    double used = v->use.memory_bytes > 0 ? memory_per_node(j) : 0, next = fmax(had, used) * 1.5;
    bool whole = j->state == STK_SLURM_OUT_OF_MEMORY || !step;
    struct stk_job_note *n = whole ? note(v, "it was killed for memory")
                                   : note(v, "step %s was killed for memory", step->name);
    if (next <= 0)
        return;
    note_more(n, ", and %s %s per node: half as much again%s, rounded up",
              used > had ? "used" : "had", stk_format_size((uint64_t)fmax(used, had), a, sizeof a),
              j->memory_per_cpu_bytes > 0 && cpus > 1 ? ", divided by its CPUs there" : "");
    memory_line(n, j, next, cpus);
}

static void advise_less_memory(struct stk_job_view *v, double cpus)
{
    const struct stk_slurm_job *j = v->job;
    char a[32], b[32];
    double had = (double)j->alloc.memory_bytes / (double)positive(j->alloc.nodes);
    if (v->memory_share < 0 || v->memory_share >= STK_JOB_MEMORY_ROOMY || j->exclusive)
        return;
    double next = memory_per_node(j) * STK_JOB_ROOM;
    if (next + 0x1p20 * 50 >= had) /* the line rounds up to 50 MiB at least */
        return;
    struct stk_job_note *n =
        note(v,
             "its peak was %s of %s (%.0f %%): a fifth more leaves room, and jobs that need less "
             "memory start sooner",
             stk_format_size((uint64_t)v->use.memory_bytes, a, sizeof a),
             stk_format_size((uint64_t)j->alloc.memory_bytes, b, sizeof b), v->memory_share * 100);
    memory_line(n, j, next, cpus);
}

static void advise_memory(struct stk_job_view *v, bool typical, double cpus)
{
    const struct stk_slurm_step *step = killed_step(v->job);
    if (v->job->state == STK_SLURM_OUT_OF_MEMORY || step) {
        if (!step || !advise_srun_memory(v, step))
            advise_more_memory(v, step, cpus);
    } else if (typical && v->doubt[STK_JOB_MEMORY].worth == STK_JOB_KNOWN)
        advise_less_memory(v, cpus);
}

static void advise_time(struct stk_job_view *v, bool typical)
{
    const struct stk_slurm_job *j = v->job;
    char next[24], a[32], b[32];
    if (j->deadline) /* more time would not have helped */
        return;
    if (j->state == STK_SLURM_TIMEOUT && j->limit_s > 0 && j->limit_s != INT64_MAX) {
        struct stk_job_note *n =
            note(v,
                 "it reached its limit of %s, and how much was left to do is unknown: request "
                 "twice the time, or write checkpoints",
                 stk_format_duration((double)j->limit_s, a, sizeof a));
        stk_job_time_text((double)j->limit_s * 2, next, sizeof next);
        snprintf(n->line, sizeof n->line, "#SBATCH --time=%s", next);
        return;
    }
    if (!typical || v->time_share < 0 || v->time_share > STK_JOB_TIME_ROOMY)
        return;
    if (stk_job_time_up(j->elapsed_s * STK_JOB_ROOM) >= (double)j->limit_s)
        return;
    stk_job_time_text(j->elapsed_s * STK_JOB_ROOM, next, sizeof next);
    struct stk_job_note *n =
        note(v, "it took %s of %s (%.0f %%): shorter jobs fit into gaps and start sooner",
             stk_format_duration(j->elapsed_s, a, sizeof a),
             stk_format_duration((double)j->limit_s, b, sizeof b), v->time_share * 100);
    snprintf(n->line, sizeof n->line, "#SBATCH --time=%s", next);
}

static bool is_program(const struct stk_slurm_step *s)
{
    return stk_slurm_step_kind(s) == STK_STEP_PROGRAM;
}

static double tasks_of(const struct stk_slurm_step *s)
{
    return is_program(s) ? (double)s->tasks : -1;
}

static bool only_batch(const struct stk_slurm_job *j)
{
    bool only = j->nsteps > 0;
    for (size_t i = 0; i < j->nsteps; i++)
        only = only && !is_program(&j->step[i]);
    return only;
}

/* Only one node ran the script itself; without srun or mpirun the others were idle. */
static bool advise_nodes(struct stk_job_view *v)
{
    const struct stk_slurm_job *j = v->job;
    int64_t used = 0;
    for (size_t i = 0; i < j->nsteps; i++)
        if (stk_slurm_step_kind(&j->step[i]) < STK_STEP_EXTERN && j->step[i].alloc.nodes > used)
            used = j->step[i].alloc.nodes;
    if (used < 1 || j->alloc.nodes <= used)
        return false;
    struct stk_job_note *n = note(v,
                                  "%lld of %lld nodes ran no step: only srun (or mpirun) starts "
                                  "anything beyond the first node",
                                  (long long)(j->alloc.nodes - used), (long long)j->alloc.nodes);
    snprintf(n->line, sizeof n->line, "#SBATCH --nodes=%lld", (long long)used);
    return true;
}

/* One program that was not started by srun, or by an srun of one task. Returns the CPUs it should
 * get. */
static double advise_one_task(struct stk_job_view *v, int64_t need)
{
    const struct stk_slurm_job *j = v->job;
    bool one = v->cpus_busy < 1.1;
    struct stk_job_note *n;
    if (only_batch(j) && j->tasks > 1)
        n = note(v,
                 "%lld tasks were requested, but no srun or mpirun started them: %.1f of %lld "
                 "CPUs were busy",
                 (long long)j->tasks, v->cpus_busy, (long long)j->alloc.cpus);
    else
        n = note(v, "%.1f of %lld CPUs were busy on average%s", v->cpus_busy,
                 (long long)j->alloc.cpus,
                 one ? ": a program that uses one CPU does not gain from more" : "");
    /* Some minutes after a job's end, Slurm no longer says whether its CPUs were requested as
     * tasks. */
    if (j->tasks != 1 && need == j->cpus_per_task)
        snprintf(n->line, sizeof n->line, "#SBATCH --ntasks=1");
    else
        snprintf(n->line, sizeof n->line, "#SBATCH %s--cpus-per-task=%lld",
                 j->tasks != 1 ? "--ntasks=1 " : "", (long long)need);
    return (double)need;
}

/* Returns the CPUs per node of the next job, if this advice is followed. */
static double advise_cpus(struct stk_job_view *v)
{
    const struct stk_slurm_job *j = v->job;
    int64_t cpus = j->alloc.cpus, asked = j->asked.cpus > 0 ? j->asked.cpus : cpus;
    double nodes = (double)positive(j->alloc.nodes), had = cpus_on_a_node(j);
    double tasks = stk_slurm_at_once(j, tasks_of);
    if (v->cpu_share < 0 || v->cpu_share >= STK_JOB_CPU_POOR || cpus < 2 || j->exclusive ||
        v->doubt[STK_JOB_CPU].worth != STK_JOB_KNOWN)
        return had;
    int64_t need = (int64_t)fmax(1, ceil(v->cpus_busy - 0.1));
    if (need >= cpus || need >= asked) /* whole cores, or whole nodes: the site adds more */
        return had;
    if (tasks <= 1)
        return advise_one_task(v, need);
    double each = fmax(1, ceil(v->cpus_busy / tasks - 0.1));
    if ((double)asked < 2 * tasks || each * tasks >= (double)asked) {
        note(v,
             "%.1f of %lld CPUs were busy on average: the tasks wait for something (`stoker "
             "profile` says for what; `stoker scale` says how many pay off)",
             v->cpus_busy, (long long)cpus);
        return had;
    }
    struct stk_job_note *n = note(v, "%.1f of %lld CPUs were busy on average, %.1f per task",
                                  v->cpus_busy, (long long)cpus, v->cpus_busy / tasks);
    snprintf(n->line, sizeof n->line, "#SBATCH --cpus-per-task=%.0f", each);
    return fmax(1, floor(each * tasks / nodes));
}

static void advise_gpus(struct stk_job_view *v)
{
    const struct stk_slurm_job *j = v->job;
    if (j->alloc.gpus < 1)
        return;
    if (v->use.gpu_util >= 0 && v->use.gpu_util < STK_JOB_GPU_POOR)
        note(v, "its GPU%s w%s busy %.0f %% of the time: `stoker profile` says what they wait for",
             j->alloc.gpus > 1 ? "s" : "", j->alloc.gpus > 1 ? "ere" : "as", v->use.gpu_util * 100);
    else if (v->use.gpu_util < 0 && j->state == STK_SLURM_RUNNING)
        note(v, "this Slurm does not record how busy GPUs are: `stoker watch %s` shows it now",
             j->label);
    else if (v->use.gpu_util < 0)
        note(v, "this Slurm does not record how busy GPUs are: `stoker profile` does");
}

/* Only a job that did all of its work says what would have been enough. */
void stk_job_advise(struct stk_job_view *v, double advise_s)
{
    const struct stk_slurm_job *j = v->job;
    bool long_enough = stk_slurm_ended(j->state) && j->elapsed_s >= advise_s;
    bool typical = long_enough && j->state == STK_SLURM_COMPLETED;
    /* Nodes that ran nothing until the time limit would have run nothing after it. */
    bool spread = typical || (long_enough && j->state == STK_SLURM_TIMEOUT);
    struct stk_job_view shape = *v; /* shown last, but memory per CPU depends on it */
    double cpus = cpus_on_a_node(j);
    bool fewer_nodes = spread && advise_nodes(&shape);
    if (typical && !fewer_nodes)
        cpus = advise_cpus(&shape);
    advise_memory(v, typical, cpus);
    advise_time(v, typical);
    for (size_t i = 0; i < shape.nnotes; i++)
        v->note[v->nnotes++] = shape.note[i];
    if (j->state == STK_SLURM_RUNNING || (long_enough && j->state < STK_SLURM_CANCELLED) ||
        (long_enough && j->state == STK_SLURM_TIMEOUT))
        advise_gpus(v);
}
